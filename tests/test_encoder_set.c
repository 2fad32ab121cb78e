/*
 * The set encoder: permuted inputs give permuted states and the same summary, rows do not depend on
 * each other, vectors and embedded tokens are the same, and a recipe trains it. Its gradients and
 * its search are checked with those of the other parts (test_seq2seq).
 */
#include "fovea/translate.h"
#include "models/seq2seq.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"

enum { ROWS = 3, TOKENS = 11, LONGEST = 7, EMBEDDING = 6, WIDTH = 8 };

static fv_ctx *ctx;
static fv_params *params;
static fv_seq2seq *model;

static const int64_t lengths[ROWS] = {5, 7, 1};
static const int64_t first[ROWS][LONGEST] = {{2, 5, 9, 5, 1}, {3, 1, 4, 8, 10, 6, 0}, {7}};
/* Row i of the second batch has at place j what the first one has at shuffled[i][j]. */
static const int64_t shuffled[ROWS][LONGEST] = {{4, 2, 0, 1, 3}, {6, 5, 0, 3, 1, 2, 4}, {0}};

static void make_model(int layers)
{
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = TOKENS;
    cfg.target_tokens = 5;
    cfg.embedding = EMBEDDING;
    cfg.encoder_hidden = WIDTH;
    cfg.hidden = WIDTH;
    cfg.layers = layers;
    cfg.encoder = (fv_encoder_kind)fv_encoder_part_find("set");
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_seq2seq_create(params, &cfg, &model));
}

static void free_model(void)
{
    fv_seq2seq_destroy(&model);
    fv_params_destroy(&params);
}

static fv_memory encode(const fv_batch *batch)
{
    const fv_encode_call call = {.attention = model->y->attention(model->decoder)};
    fv_memory memory = {.n = 0};
    CHECK_OK(ctx, model->x->encode(ctx, model->encoder, batch, &call, &memory));
    return memory;
}

static fv_batch tokens(const int64_t *const *rows, const int64_t *row_lengths, int64_t count)
{
    return fv_batch_of_pairs(&(fv_sequences){.count = count, .tokens = rows, .length = row_lengths},
                             NULL);
}

static void permuted_inputs_give_permuted_states(void)
{
    for (int layers = 1; layers <= 2; layers++) {
        int64_t second[ROWS][LONGEST];
        const int64_t *plain[ROWS], *permuted[ROWS];
        for (int i = 0; i < ROWS; i++) {
            plain[i] = first[i];
            permuted[i] = second[i];
            for (int64_t j = 0; j < lengths[i]; j++)
                second[i][j] = first[i][shuffled[i][j]];
        }
        make_model(layers);
        const fv_batch a = tokens(plain, lengths, ROWS), b = tokens(permuted, lengths, ROWS);
        fv_scope_begin(ctx);
        const fv_memory x = encode(&a), y = encode(&b);
        float *before = tensor_floats(ctx, x.v), *after = tensor_floats(ctx, y.v);
        double moved = 0;
        for (int i = 0; i < ROWS; i++)
            for (int64_t j = 0; j < lengths[i]; j++)
                for (int k = 0; k < WIDTH; k++) {
                    const float *row = before + (size_t)(i * LONGEST * WIDTH);
                    const float here = after[(i * LONGEST + j) * WIDTH + k];
                    CHECK_NEAR(here, row[shuffled[i][j] * WIDTH + k], 1e-5);
                    moved += fabs((double)(here - row[j * WIDTH + k]));
                }
        CHECK(moved > 1); /* the states do differ from place to place */
        CHECK(tensor_distance(ctx, x.summary, y.summary) < 1e-5);
        free(before);
        free(after);
        fv_scope_end(ctx);
        free_model();
    }
}

/* Alone or among others, in any order: the same bits. */
static void rows_do_not_depend_on_each_other(void)
{
    make_model(2);
    const int64_t *plain[ROWS] = {first[0], first[1], first[2]};
    const fv_batch all = tokens(plain, lengths, ROWS);
    const int64_t order[ROWS] = {2, 0, 1};
    const fv_encode_call ordered = {.order = order,
                                    .attention = model->y->attention(model->decoder)};
    fv_scope_begin(ctx);
    const fv_memory x = encode(&all);
    fv_memory y;
    CHECK_OK(ctx, model->x->encode(ctx, model->encoder, &all, &ordered, &y));
    fv_tensor *index = indices_of(ctx, order, ROWS);
    CHECK(tensor_same(ctx, fv_index_select(ctx, x.v, index, 0), y.v));
    CHECK(tensor_same(ctx, fv_index_select(ctx, x.summary, index, 0), y.summary));
    for (int i = 0; i < ROWS; i++) {
        const fv_batch one = tokens(plain + i, lengths + i, 1);
        const fv_memory alone = encode(&one);
        fv_tensor *row = fv_slice(ctx, x.v, 0, i, i + 1, 1);
        CHECK_EQ(alone.positions, lengths[i]);
        CHECK(tensor_same(ctx, alone.v, fv_slice(ctx, row, 2, 0, lengths[i], 1)));
        CHECK(tensor_distance(ctx, alone.summary, fv_slice(ctx, x.summary, 0, i, i + 1, 1)) < 1e-6);
    }
    fv_scope_end(ctx);
    free_model();
}

static void vectors_take_the_place_of_embeddings(void)
{
    make_model(1);
    float table[TOKENS][EMBEDDING], vectors[ROWS][LONGEST][EMBEDDING];
    const int64_t *plain[ROWS];
    const void *rows[ROWS];
    fv_tensor *embedding = fv_params_find(params, "encoder.embedding.weight");
    CHECK_OK(ctx, fv_tensor_read(ctx, embedding, table, sizeof table));
    for (int i = 0; i < ROWS; i++) {
        plain[i] = first[i];
        rows[i] = vectors[i];
        for (int64_t j = 0; j < lengths[i]; j++)
            memcpy(vectors[i][j], table[first[i][j]], sizeof table[0]);
    }
    fv_field field = {.name = "source",
                      .dtype = FV_F32,
                      .rank = 1,
                      .shape = {EMBEDDING},
                      .row = rows,
                      .length = lengths};
    fv_batch batch;
    fv_batch_init(&batch, ROWS);
    fv_batch_add(&batch, field);
    const fv_batch ids = tokens(plain, lengths, ROWS);
    fv_scope_begin(ctx);
    const fv_memory x = encode(&batch), y = encode(&ids);
    CHECK(tensor_same(ctx, x.v, y.v) && tensor_same(ctx, x.summary, y.summary));
    fv_scope_end(ctx);
    field.shape[0] = EMBEDDING - 1;
    fv_batch_init(&batch, ROWS);
    fv_batch_add(&batch, field);
    fv_memory none;
    const fv_encode_call call = {.training = false};
    CHECK_EQ(model->x->encode(ctx, model->encoder, &batch, &call, &none), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "vectors of width 6"));
    free_model();
}

/* ---- a run ---------------------------------------------------------------------------------- */

static fv_status train(const char *folder, uint64_t stop, run_watch *watch)
{
    fv_ctx *own = run_context(1, 5);
    fv_recipe *recipe = run_recipe(own, (run_setting[]){{"data.made", "sort"},
                                                        {"data.train_pairs", "400"},
                                                        {"data.valid_pairs", "12"},
                                                        {"tokens.kind", "word"},
                                                        {"tokens.min_count", "1"},
                                                        {"model.encoder", "set"},
                                                        {"model.embedding", "12"},
                                                        {"model.encoder_hidden", "16"},
                                                        {"model.hidden", "24"},
                                                        {"model.attention_width", "12"},
                                                        {"model.readout_width", "12"},
                                                        {"model.dropout", "0.05"},
                                                        {"train.steps", "40"},
                                                        {"train.lr", "0.01"},
                                                        {"train.batch_tokens", "400"},
                                                        {"train.eval_every", "20"},
                                                        {"train.save_every", "10"},
                                                        {"eval.metric", "loss"},
                                                        {NULL, NULL}});
    watch->stop = stop;
    return run_text(own, recipe, folder, watch);
}

/* What a trained folder writes for a text. */
static void translate(fv_model *translator, const char *text, char out[256])
{
    fv_translations *all = NULL;
    const fv_string in = {text, strlen(text)};
    CHECK_OK(ctx, fv_translate(translator, 1, &in, NULL, &all));
    snprintf(out, 256, "%s", all ? fv_translations_get(all, 0, 0)->text : "failed");
    fv_translations_free(&all);
}

static void a_recipe_trains_it(void)
{
    char whole[512], parts[512], one[256], other[256];
    run_watch watch = {0}, rest = {0};
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    snprintf(parts, sizeof parts, "%s", folder_sub("parts"));
    CHECK_EQ(train(whole, 0, &watch), FV_OK);
    CHECK(watch.count > 0 && watch.last[0].value < 0.9 * watch.first[0].value);
    CHECK_EQ(train(parts, 13, &rest), FV_ERR_CANCELLED);
    CHECK_EQ(train(parts, 0, &rest), FV_OK);
    CHECK(file_same_in(whole, parts, "model.safetensors"));

    fv_model *translator = NULL;
    size_t bytes = 0;
    char *config = file_read(folder_path("whole/config.json"), &bytes);
    CHECK(config && memmem(config, bytes, "\"encoder\":\"set\"", 15));
    free(config);
    CHECK_OK(ctx, fv_model_open(ctx, whole, &translator));
    translate(translator, "d a c b", one);
    translate(translator, "b c d a", other);
    CHECK_STR(one, other);
    fv_model_close(&translator);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(permuted_inputs_give_permuted_states);
    RUN(rows_do_not_depend_on_each_other);
    RUN(vectors_take_the_place_of_embeddings);
    RUN(a_recipe_trains_it);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
