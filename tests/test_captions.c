/*
 * The captions task: its metrics for models that know everything and nothing, runs that resume have
 * the bits of uninterrupted ones, sets without texts are refused; and the edit distance.
 */
#include "base/ctx.h"
#include "data/media.h"
#include "fovea/model.h"
#include "fovea/ops.h"
#include "fovea/translate.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"
#include "text/edit_distance.h"

/* ---- edit distance --------------------------------------------------------------------------- */

static void distances_are_least(void)
{
    static const struct {
        const char *text, *reference;
        fv_edit_unit unit;
        int64_t distance, units;
    } cases[] = {{"kitten", "sitting", FV_EDIT_CHARACTERS, 3, 7},
                 {"", "abc", FV_EDIT_CHARACTERS, 3, 3},
                 {"abc", "", FV_EDIT_CHARACTERS, 3, 0},
                 {"", "", FV_EDIT_WORDS, 0, 0},
                 {"abc", "abc", FV_EDIT_CHARACTERS, 0, 3},
                 {"ab", "ba", FV_EDIT_CHARACTERS, 2, 2},
                 {"na\xc3\xafve", "naive", FV_EDIT_CHARACTERS, 1, 5},
                 {"\xe4\xb8\xad", "\xe4\xb8\xad\xe5\x9b\xbd", FV_EDIT_CHARACTERS, 1, 2},
                 {"the cat sat", "the cat sat", FV_EDIT_WORDS, 0, 3},
                 {"the cats sat down", "the cat sat", FV_EDIT_WORDS, 2, 3},
                 {"  a  b ", "a b c", FV_EDIT_WORDS, 1, 3}};
    fv_ctx *ctx = NULL;
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t distance = -1, units = -1;
        const fv_string a = {cases[i].text, strlen(cases[i].text)},
                        b = {cases[i].reference, strlen(cases[i].reference)};
        CHECK_OK(ctx, fv_edit_distance(ctx, a, b, cases[i].unit, &distance, &units));
        CHECK_EQ(distance, cases[i].distance);
        CHECK_EQ(units, cases[i].units);
    }
    fv_ctx_destroy(&ctx);
}

/* ---- a model that knows what it is asked ----------------------------------------------------- */

enum { GRID = 8, COLS = 2 * GRID, CELLS = GRID * COLS, SIDE = 32, VALID = 10, MOST_WORDS = 32 };

static struct {
    bool knows;      /* else: writes nothing and looks where nothing is */
    fv_media *set;   /* what the task reads, too */
    int64_t written; /* examples that were described so far, and aligned */
    int64_t aligned;
    const fv_tokenizer *tokenizer;
    int64_t first, rows, step;
    int64_t source[VALID];
} oracle;

static fv_status oracle_create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                               void **self)
{
    (void)recipe;
    const int64_t one = 1;
    oracle.tokenizer = spec->target;
    CHECK_EQ(spec->ability, FV_CAN_DESCRIBE);
    CHECK_EQ(fv_data_spec_get(spec, "height", 0), SIDE);
    fv_ctx *ctx = fv_params_ctx(params);
    fv_params_add(params, "w", fv_zeros(ctx, FV_F32, 1, &one));
    *self = &oracle;
    return fv_ctx_error(ctx);
}

static void oracle_destroy(void *self) { (void)self; }

static fv_tensor *oracle_loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    (void)self;
    (void)pass;
    return fv_scalar(ctx, FV_F32, 2.0 * (double)fv_batch_target_tokens(batch));
}

/* The token that example `i` has at a step; the end where its text ends. */
static int64_t token_at(int64_t i, int64_t step)
{
    fv_media_example e;
    char *word = NULL;
    if (!oracle.knows || fv_media_get(oracle.set, FV_MEDIA_VALID, i, NULL, &e) != FV_OK)
        return fv_tokenizer_token_to_id(oracle.tokenizer, "</s>", 4);
    word = strtok(e.text, " ");
    for (; word && step > 0; step--)
        word = strtok(NULL, " ");
    return word ? fv_tokenizer_token_to_id(oracle.tokenizer, word, strlen(word))
                : fv_tokenizer_token_to_id(oracle.tokenizer, "</s>", 4);
}

static fv_status oracle_begin(void *user, int64_t sources)
{
    (void)user;
    oracle.rows = sources;
    oracle.step = 0;
    for (int64_t i = 0; i < sources; i++)
        oracle.source[i] = oracle.first + i;
    return FV_OK;
}

static fv_status oracle_step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                             fv_step_output *out)
{
    int64_t next[VALID];
    (void)user;
    (void)tokens;
    (void)want_weights;
    for (int64_t r = 0; r < oracle.rows; r++)
        next[r] = token_at(oracle.source[r], oracle.step);
    oracle.step++;
    const int64_t size = (int64_t)fv_tokenizer_vocab_size(oracle.tokenizer);
    fv_tensor *ids = fv_from_host(ctx, FV_I64, 1, &oracle.rows, next);
    out->logits = fv_scale(ctx, fv_one_hot(ctx, ids, size, FV_F32), 9);
    return fv_ctx_error(ctx);
}

static fv_status oracle_select(void *user, int64_t rows, const int64_t *from)
{
    int64_t kept[VALID];
    (void)user;
    for (int64_t r = 0; r < rows; r++)
        kept[r] = oracle.source[from[r]];
    memcpy(oracle.source, kept, (size_t)rows * sizeof *kept);
    oracle.rows = rows;
    return FV_OK;
}

static fv_status oracle_stepper(void *self, const fv_batch *inputs, fv_stepper *out)
{
    oracle.first = oracle.written % VALID;
    oracle.written += inputs->rows;
    *out = (fv_stepper){.user = self,
                        .max_choices = (int64_t)fv_tokenizer_vocab_size(oracle.tokenizer),
                        .bos = fv_tokenizer_token_to_id(oracle.tokenizer, "<s>", 3),
                        .eos = fv_tokenizer_token_to_id(oracle.tokenizer, "</s>", 4),
                        .begin = oracle_begin,
                        .step = oracle_step,
                        .select = oracle_select};
    return FV_OK;
}

static int oracle_sites(const void *self, fv_site *out, int capacity)
{
    (void)self;
    if (capacity > 0)
        *out = (fv_site){.name = "decoder.0.cross",
                         .heads = 1,
                         .keys = FV_AXIS_CELLS,
                         .rows = GRID,
                         .cols = COLS};
    return 1;
}

/* All weight on the cell that has the middle of a place, or far from every place. */
static int64_t cell_of(const fv_media_example *e, const fv_media_place *p)
{
    const double x = ((double)p->x0 + (double)p->x1) / 2, y = ((double)p->y0 + (double)p->y1) / 2;
    if (oracle.knows) return (int64_t)(y * GRID / SIDE) * COLS + (int64_t)(x * COLS / SIDE);
    for (int64_t c = 0; c < CELLS; c++) {
        bool apart = true;
        for (int k = 0; k < e->places; k++) {
            const fv_media_place *q = &e->place[k];
            const double left = (double)(c % COLS) * SIDE / COLS, wide = (double)SIDE / COLS;
            const double top = (double)(c / COLS) * SIDE / GRID, high = (double)SIDE / GRID;
            apart = apart && (left >= (double)q->x1 || left + wide <= (double)q->x0 ||
                              top >= (double)q->y1 || top + high <= (double)q->y0);
        }
        if (apart) return c;
    }
    return 0;
}

static fv_tensor *oracle_align(fv_ctx *ctx, void *self, const fv_batch *batch)
{
    static float map[VALID * MOST_WORDS * CELLS];
    const fv_field *target = fv_batch_find(batch, "target");
    int64_t longest = 0;
    (void)self;
    for (int64_t i = 0; i < batch->rows; i++)
        if (target->length[i] > longest) longest = target->length[i];
    const int64_t shape[3] = {batch->rows, longest + 1, CELLS};
    memset(map, 0, sizeof map);
    for (int64_t i = 0; i < batch->rows; i++) {
        fv_media_example e;
        CHECK_OK(ctx, fv_media_get(oracle.set, FV_MEDIA_VALID, oracle.aligned++ % VALID, NULL, &e));
        for (int p = 0; p < e.places; p++)
            map[(i * (longest + 1) + e.place[p].word) * CELLS + cell_of(&e, &e.place[p])] = 1;
    }
    return fv_from_host(ctx, FV_F32, 3, shape, map);
}

static const fv_model_kind oracle_kind = {.struct_size = sizeof oracle_kind,
                                          .name = "oracle",
                                          .abilities = 1u << FV_CAN_DESCRIBE,
                                          .create = oracle_create,
                                          .destroy = oracle_destroy,
                                          .loss = oracle_loss,
                                          .make_stepper = oracle_stepper,
                                          .attention_sites = oracle_sites,
                                          .align = oracle_align};

static double metric(const fv_metric *metrics, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(metrics[i].name, name) == 0) return metrics[i].value;
    test_failed(__FILE__, __LINE__, "no metric %s", name);
    return NAN;
}

static void metrics_are_what_a_model_does(void)
{
    static const run_setting settings[] = {
        {"train.task", "captions"},    {"model.kind", "oracle"},    {"data.media", "scenes"},
        {"data.size", "32"},           {"data.train_count", "300"}, {"data.valid_count", "10"},
        {"train.batch_examples", "4"}, {"tokens.kind", "word"},     {"tokens.min_count", "1"},
        {"train.seed", "5"},           {"eval.metric", "exact"},    {NULL, NULL}};
    for (int knows = 0; knows < 2; knows++) {
        fv_metric m[FV_MAX_METRICS];
        int n = 0;
        fv_ctx *ctx = run_context(1, 5);
        CHECK_OK(ctx, fv_register_model(ctx, &oracle_kind));
        fv_recipe *recipe = run_recipe(ctx, settings);
        memset(&oracle, 0, sizeof oracle);
        oracle.knows = knows == 1;
        CHECK_OK(ctx, fv_media_open(
                          ctx,
                          &(fv_media_config){
                              .name = "scenes", .seed = 5, .size = SIDE, .count = {300, VALID, 1}},
                          &oracle.set));
        fv_run *run = NULL;
        CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub(knows ? "knows" : "guesses"), NULL,
                                    NULL, &run));
        if (run) CHECK_OK(ctx, fv_run_evaluate(run, m, &n));
        CHECK_STR(m[0].name, "exact");
        CHECK(m[0].higher_is_better);
        CHECK_NEAR(metric(m, n, "exact"), knows ? 100 : 0, 0);
        CHECK_NEAR(metric(m, n, "bleu1"), knows ? 100 : 0, 1e-9);
        CHECK_NEAR(metric(m, n, "chrf"), knows ? 100 : 0, 1e-9);
        CHECK_NEAR(metric(m, n, "character_error"), knows ? 0 : 100, 0);
        CHECK_NEAR(metric(m, n, "word_error"), knows ? 0 : 100, 0);
        CHECK_NEAR(metric(m, n, "on_place"), knows ? 100 : 0, 0);
        CHECK_NEAR(metric(m, n, "loss"), 2, 1e-6);
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
        fv_media_close(&oracle.set);
        fv_ctx_destroy(&ctx);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static fv_status train(const char *folder, const char *media, int threads, uint64_t stop,
                       run_watch *watch)
{
    fv_ctx *ctx = run_context(threads, 5);
    fv_recipe *recipe = run_recipe(ctx, (run_setting[]){{"train.task", "captions"},
                                                        {"data.media", media},
                                                        {"data.size", "32"},
                                                        {"data.variant", ""},
                                                        {"data.train_count", "400"},
                                                        {"data.valid_count", "8"},
                                                        {"tokens.kind", "word"},
                                                        {"tokens.min_count", "1"},
                                                        {"model.encoder", "grid"},
                                                        {"model.grid_stages", "3"},
                                                        {"model.grid_channels", "8"},
                                                        {"model.embedding", "12"},
                                                        {"model.encoder_hidden", "16"},
                                                        {"model.hidden", "24"},
                                                        {"model.attention_width", "12"},
                                                        {"model.readout_width", "12"},
                                                        {"model.dropout", "0.05"},
                                                        {"model.coverage", "0.001"},
                                                        {"train.sampling", "0.1"},
                                                        {"train.steps", "24"},
                                                        {"train.lr", "0.01"},
                                                        {"train.batch_examples", "8"},
                                                        {"train.accumulate", "2"},
                                                        {"train.eval_every", "12"},
                                                        {"train.save_every", "6"},
                                                        {"eval.metric", "loss"},
                                                        {NULL, NULL}});
    watch->stop = stop;
    return run_text(ctx, recipe, folder, watch);
}

static void a_resumed_run_has_the_bits_of_a_whole_one(void)
{
    char whole[512], parts[512], threads[512];
    run_watch watch = {0}, rest = {0}, other = {0};
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    snprintf(parts, sizeof parts, "%s", folder_sub("parts"));
    snprintf(threads, sizeof threads, "%s", folder_sub("threads"));
    CHECK_EQ(train(whole, "scenes", 1, 0, &watch), FV_OK);
    CHECK(watch.count > 0 && watch.last[0].value < watch.first[0].value);
    CHECK_EQ(train(parts, "scenes", 1, 9, &rest), FV_ERR_CANCELLED);
    CHECK_EQ(train(parts, "scenes", 1, 0, &rest), FV_OK);
    CHECK(file_same_in(whole, parts, "model.safetensors"));
    CHECK_EQ(train(threads, "scenes", 3, 0, &other), FV_OK);
    CHECK(file_same_in(whole, threads, "model.safetensors"));
}

/* A folder opens as a model that describes pictures of the shape it was trained on, and no text. */
static void a_trained_folder_describes(void)
{
    static float picture[3 * SIDE * SIDE];
    const void *row[1] = {picture};
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = NULL;
    fv_translations *texts = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("whole"), &model));
    if (!model) return;
    CHECK(fv_model_can(model, FV_CAN_DESCRIBE) && !fv_model_can(model, FV_CAN_TRANSLATE));
    CHECK_EQ(fv_data_spec_get(fv_model_spec(model), "width", 0), SIDE);
    fv_batch batch;
    fv_batch_init(&batch, 1);
    fv_batch_add(
        &batch,
        (fv_field){
            .name = "pixels", .dtype = FV_F32, .rank = 3, .shape = {3, SIDE, SIDE}, .row = row});
    fv_search_config how;
    fv_search_config_init(&how, sizeof how);
    how.want_weights = true;
    CHECK_OK(ctx, fv_describe(model, &batch, 7, &how, &texts));
    const fv_translation *t = fv_translations_get(texts, 0, 0);
    CHECK(t && t->weights && !t->source_tokens && t->source_count == GRID * GRID &&
          t->target_count <= 7);
    double sum = 0;
    for (int c = 0; t && c < GRID * GRID; c++)
        sum += (double)t->weights[c];
    CHECK_NEAR(sum, 1, 1e-5);
    fv_translations_free(&texts);
    CHECK_EQ(fv_describe(model, &batch, 0, NULL, &texts), FV_ERR_ARGUMENT);
    batch.field[0].shape[1] = 5;
    CHECK_EQ(fv_describe(model, &batch, 7, NULL, &texts), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "3 x 32 x 32"));
    (void)fv_ctx_take_error(ctx);
    const fv_string text = {"a", 1};
    CHECK_EQ(fv_translate(model, 1, &text, NULL, &texts), FV_ERR_FORMAT);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

static fv_status refused(const char *folder, const run_setting *settings, const char *message)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_recipe *recipe = run_recipe(ctx, settings);
    fv_run *run = NULL;
    const fv_status status = fv_run_create(ctx, recipe, folder_sub(folder), NULL, NULL, &run);
    if (!strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx), message);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return status;
}

static void what_does_not_fit_is_named(void)
{
    CHECK_EQ(
        refused("first",
                (run_setting[]){{"train.task", "captions"}, {"data.media", "shapes"}, {NULL, NULL}},
                "shapes has no texts to predict"),
        FV_ERR_ARGUMENT);
    CHECK_EQ(refused("second",
                     (run_setting[]){{"train.task", "captions"},
                                     {"data.media", "scenes"},
                                     {"data.train_count", "20"},
                                     {"tokens.kind", "word"},
                                     {NULL, NULL}},
                     "can translate, not describe (model.encoder is rnn)"),
             FV_ERR_ARGUMENT);
    CHECK_EQ(refused("third",
                     (run_setting[]){{"data.made", "sort"},
                                     {"data.train_pairs", "20"},
                                     {"tokens.kind", "word"},
                                     {"model.encoder", "grid"},
                                     {NULL, NULL}},
                     "can describe, not translate (model.encoder is grid)"),
             FV_ERR_ARGUMENT);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(distances_are_least);
    RUN(metrics_are_what_a_model_does);
    RUN(a_resumed_run_has_the_bits_of_a_whole_one);
    RUN(a_trained_folder_describes);
    RUN(what_does_not_fit_is_named);
    folder_remove();
    return TEST_END();
}
