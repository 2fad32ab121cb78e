/*
 * Model kind vqa: pictures that rows share, the words of questions, folders, what is refused,
 * memory.
 */
#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/encode.h"
#include "fovea/task.h"
#include "models/question.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/vqa.h"

/* ---- shared pictures ------------------------------------------------------------------------ */

/* Whether rows share a picture's address, have copies or are alone changes no bit, in evaluation.
 */
static void shared_pictures_change_nothing(void)
{
    const run_setting *const all[] = {vqa_words, vqa_maps, vqa_pool, vqa_self};
    for (int i = 0; i < 4; i++) {
        fv_ctx *ctx = run_context(2, 5);
        fv_model *model = vqa_model(ctx, all[i]);
        fv_batch shared = vqa_batch(vqa_shared), copied = vqa_batch(vqa_copied);
        CHECK(tensor_same(ctx, fv_model_classify(model, &shared, NULL),
                          fv_model_classify(model, &copied, NULL)));
        fv_batch last = shared; /* row 2 alone, with the second picture */
        last.rows = 1;
        for (int k = 0; k < last.count; k++) {
            last.field[k].row += 2;
            if (last.field[k].length) last.field[k].length += 2;
        }
        fv_tensor *all_rows = fv_model_classify(model, &shared, NULL);
        CHECK(tensor_same(ctx, fv_model_classify(model, &last, NULL),
                          fv_slice(ctx, all_rows, 0, 2, 3, 1)));
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
}

/* In training, statistics are over pictures, not over questions. */
static void statistics_count_pictures_once(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = vqa_model(ctx, vqa_words);
    fv_vqa *self = fv_model_self(model);
    fv_batch shared = vqa_batch(vqa_shared);
    static const void *const twice[4] = {vqa_pictures[0], vqa_pictures[0], vqa_pictures[0],
                                         vqa_pictures[1]};
    fv_batch more = shared;
    more.rows = 4;
    more.field[0].row = twice;
    fv_tensor *a = fv_vqa_grid_run(ctx, self, &shared, true),
              *b = fv_vqa_grid_run(ctx, self, &more, true);
    CHECK(tensor_same(ctx, fv_slice(ctx, a, 0, 2, 3, 1), fv_slice(ctx, b, 0, 3, 4, 1)));
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* The gradient of what rows share is the sum of theirs. */
static void shared_pictures_get_all_gradients(void)
{
    double sum[2] = {0};
    for (int i = 0; i < 2; i++) {
        fv_ctx *ctx = run_context(1, 5);
        fv_model *model = vqa_model(ctx, vqa_maps);
        const fv_batch batch = vqa_batch(i ? vqa_copied : vqa_shared);
        const fv_model_kind *kind = fv_model_kind_of(model);
        fv_tensor *loss = kind->loss(ctx, fv_model_self(model), &batch, NULL);
        CHECK_OK(ctx, fv_backward(ctx, loss));
        fv_tensor *grad = fv_grad(ctx, fv_params_find(fv_model_params(model), "stage.0.weight"));
        CHECK_OK(ctx, fv_tensor_item(ctx, fv_sum(ctx, fv_mul(ctx, grad, grad), 0, NULL, false),
                                     &sum[i]));
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
    CHECK(sum[0] > 1e-8);
    CHECK_NEAR(sum[0] / sum[1], 1, 1e-4);
}

/* ---- words ---------------------------------------------------------------------------------- */

static void questions_become_words(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = vqa_model(ctx, vqa_words);
    fv_question_words w;
    CHECK_OK(ctx, fv_question_read(model, "  What COLOR is--the circle?!", &w));
    CHECK_EQ(w.count, 5);
    static const char *const expected[] = {"what", "color", "is", "the", "circle"};
    char clean[FV_QUESTION_BYTES];
    CHECK_OK(ctx, fv_question_clean(ctx, "  What COLOR is--the circle?!", clean));
    CHECK_STR(clean, "what color is the circle");
    for (int i = 0; i < 5; i++) {
        CHECK_STR(w.word[i], expected[i]);
        CHECK(w.is_known[i]);
        CHECK_EQ(w.id[i], fv_tokenizer_token_to_id(fv_model_spec(model)->source, expected[i],
                                                   strlen(expected[i])));
    }
    CHECK_OK(ctx, fv_question_read(model, "what colour isn't it", &w));
    CHECK(w.count == 4 && w.is_known[0] && !w.is_known[1] && !w.is_known[2] && w.is_known[3]);
    CHECK_STR(w.word[1], "colour");
    CHECK_STR(w.word[2], "isn't");
    CHECK_EQ(w.id[1], fv_tokenizer_token_to_id(fv_model_spec(model)->source, "<unk>", 5));
    CHECK_EQ(fv_question_read(model, " ?! ", &w), FV_ERR_ARGUMENT);
    char text[5000] = "";
    for (int i = 0; i < 65; i++)
        strcat(text, "is ");
    CHECK_EQ(fv_question_read(model, text, &w), FV_ERR_LIMIT);
    text[3 * 64] = '\0';
    CHECK_OK(ctx, fv_question_read(model, text, &w));
    CHECK_EQ(w.count, FV_QUESTION_WORDS);
    memset(text, 'x', sizeof text - 1);
    CHECK_EQ(fv_question_read(model, text, &w), FV_ERR_LIMIT);
    for (int i = 0; i < 60; i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    CHECK_OK(ctx, fv_question_read(model, text, &w)); /* cut between code points */
    CHECK_EQ(strlen(w.word[0]), 46);
    CHECK_EQ(fv_question_read(model, "is \xff it", &w), FV_ERR_FORMAT);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* ---- folders, refusals, memory -------------------------------------------------------------- */

static void folders_open_as_they_were_saved(void)
{
    const run_setting *const all[] = {vqa_words, vqa_one_hop, vqa_maps, vqa_pool, vqa_self};
    for (int i = 0; i < 5; i++) {
        folder_make();
        fv_ctx *ctx = run_context(1, 5);
        fv_model *model = vqa_model(ctx, all[i]), *copy = NULL;
        const fv_batch batch = vqa_batch(vqa_shared);
        fv_question_words w;
        CHECK_OK(ctx, fv_model_save(model, folder_sub("model")));
        CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &copy));
        CHECK(tensor_same(ctx, fv_model_classify(model, &batch, NULL),
                          fv_model_classify(copy, &batch, NULL)));
        CHECK_STR(fv_model_spec(copy)->labels[1], "blue");
        CHECK_EQ(fv_model_spec(copy)->ability, FV_CAN_ANSWER);
        CHECK_OK(ctx, fv_question_read(copy, "is it red?", &w));
        fv_model_close(&copy);
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
        folder_remove();
    }
}

static void what_does_not_fit_is_refused(void)
{
    static const struct {
        const char *key, *value, *message;
    } cases[] = {{"vqa.halvings", "5", "vqa.halvings is 5, expected at most vqa.stages, 4"},
                 {"vqa.heads", "7", "vqa.heads 7 does not divide vqa.width 64"}};
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const run_setting setting[] = {{cases[i].key, cases[i].value}, {"vqa.form", "self"}, {0}};
        fv_recipe *recipe = run_recipe(ctx, setting);
        const fv_data_spec spec = vqa_spec(ctx);
        CHECK_EQ(fv_model_create(ctx, "vqa", recipe, &spec, &model), FV_ERR_ARGUMENT);
        CHECK(strstr(fv_ctx_message(ctx), cases[i].message) != NULL);
        fv_recipe_destroy(&recipe);
        fv_ctx_take_error(ctx);
    }
    fv_data_spec spec = vqa_spec(ctx);
    spec.ability = FV_CAN_CLASSIFY;
    CHECK_EQ(fv_model_create(ctx, "vqa", NULL, &spec, &model), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "can answer questions about pictures, not classify"));
    spec = vqa_spec(ctx);
    fv_tokenizer_destroy(&spec.source);
    spec.target = NULL;
    CHECK_EQ(fv_model_create(ctx, "vqa", NULL, &spec, &model), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "expected a tokenizer"));
    model = vqa_model(ctx, vqa_words);
    fv_batch batch = vqa_batch(vqa_shared);
    batch.count = 1; /* no question */
    fv_model_classify(model, &batch, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "no \"question\" for each picture");
    batch = vqa_batch(vqa_shared);
    batch.field[0].name = "pixel";
    fv_model_classify(model, &batch, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "pixels");
    batch = vqa_batch(vqa_shared);
    batch.field[0].shape[1] = SIDE + 1;
    fv_model_classify(model, &batch, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "pictures of 3 x 8 x 8");
    batch = vqa_batch(vqa_shared);
    static const int64_t none[ROWS] = {3, 0, 4};
    batch.field[1].length = none;
    fv_model_classify(model, &batch, NULL);
    CHECK(fv_ctx_error(ctx) == FV_ERR_ARGUMENT);
    fv_ctx_take_error(ctx);
    static const int64_t beyond[1] = {99999};
    static const void *const bad[ROWS] = {vqa_tokens[0], beyond, vqa_tokens[2]};
    batch = vqa_batch(vqa_shared);
    batch.field[1].row = bad;
    fv_model_classify(model, &batch, NULL);
    CHECK(fv_ctx_error(ctx) == FV_ERR_INDEX);
    fv_ctx_take_error(ctx);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

static fv_status use_model(fv_ctx *ctx, const void *of)
{
    const run_setting *settings = of;
    fv_recipe *recipe = NULL;
    fv_model *model = NULL;
    const fv_batch batch = vqa_batch(vqa_shared);
    fv_question_words w;
    float logits[ROWS * ANSWERS];
    const fv_data_spec spec = vqa_spec(ctx);
    fv_status s = spec.source ? fv_run_recipe(ctx, &recipe) : FV_ERR_MEMORY;
    for (int i = 0; s == FV_OK && settings[i].key; i++)
        s = fv_recipe_set(recipe, settings[i].key, settings[i].value);
    fv_tokenizer *unused = s == FV_OK ? NULL : spec.source;
    fv_tokenizer_destroy(&unused); /* otherwise the model's */
    if (s == FV_OK) s = fv_model_create(ctx, "vqa", recipe, &spec, &model);
    if (s == FV_OK) s = fv_question_read(model, "is it red", &w);
    fv_scope_begin(ctx);
    if (s == FV_OK)
        s = fv_tensor_read(ctx, fv_model_classify(model, &batch, NULL), logits, sizeof logits);
    fv_scope_end(ctx);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    return s;
}

static void memory_may_run_out(void)
{
    const run_setting *const all[] = {vqa_words, vqa_maps, vqa_self};
    for (int i = 0; i < 3; i++)
        CHECK(failing_everywhere(use_model, all[i], 0) > 50);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(shared_pictures_change_nothing);
    RUN(statistics_count_pictures_once);
    RUN(shared_pictures_get_all_gradients);
    RUN(questions_become_words);
    RUN(folders_open_as_they_were_saved);
    RUN(what_does_not_fit_is_refused);
    RUN(memory_may_run_out);
    return TEST_END();
}
