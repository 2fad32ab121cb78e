/*
 * Encoders without recurrence: a convolution's state depends on its window alone, bare
 * self-attention without positions does not see order, rows do not depend on each other, and
 * settings that do not fit are refused. Their gradients and their search are checked with those of
 * the other parts (test_seq2seq).
 */
#include "models/seq2seq.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/test.h"

enum { ROWS = 3, TOKENS = 11, LONGEST = 9, WIDTH = 8 };

static fv_ctx *ctx;
static fv_params *params;
static fv_seq2seq *model;

static const int64_t lengths[ROWS] = {5, 9, 1};
static const int64_t source[ROWS][LONGEST] = {{2, 5, 9, 5, 1}, {3, 1, 4, 8, 10, 6, 0, 2, 7}, {7}};

static fv_seq2seq_config config(fv_encoder_kind encoder, fv_seq2seq_positions positions)
{
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = TOKENS;
    cfg.target_tokens = 5;
    cfg.embedding = 6;
    cfg.encoder_hidden = WIDTH;
    cfg.hidden = WIDTH;
    cfg.encoder = encoder;
    cfg.conv_layers = 2;
    cfg.self_heads = 2;
    cfg.positions = positions;
    return cfg;
}

static void make_model(const fv_seq2seq_config *cfg)
{
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_seq2seq_create(params, cfg, &model));
}

static void free_model(void)
{
    fv_seq2seq_destroy(&model);
    fv_params_destroy(&params);
}

static fv_memory encode(int64_t count, const int64_t *const *rows, const int64_t *row_lengths)
{
    const fv_encode_call call = {.attention = model->y->attention(model->decoder)};
    const fv_batch batch = fv_batch_of_pairs(
        &(fv_sequences){.count = count, .tokens = rows, .length = row_lengths}, NULL);
    fv_memory memory = {.n = 0};
    CHECK_OK(ctx, model->x->encode(ctx, model->encoder, &batch, &call, &memory));
    return memory;
}

/* Whether the state of place `at` in the second row changes with the token at `changed`. */
static bool depends(int64_t at, int64_t changed)
{
    int64_t other[LONGEST];
    memcpy(other, source[1], sizeof other);
    other[changed] = 5;
    fv_scope_begin(ctx);
    const fv_memory x = encode(1, (const int64_t *[]){source[1]}, lengths + 1);
    const fv_memory y = encode(1, (const int64_t *[]){other}, lengths + 1);
    const bool same = tensor_same(ctx, fv_slice(ctx, x.v, 2, at, at + 1, 1),
                                  fv_slice(ctx, y.v, 2, at, at + 1, 1));
    fv_scope_end(ctx);
    return !same;
}

static void a_state_depends_on_its_window(void)
{
    fv_seq2seq_config cfg = config(FV_ENCODER_CONV, FV_SEQ2SEQ_POSITIONS_SINUSOID);
    make_model(&cfg); /* two layers of three: two to each side */
    for (int64_t j = 0; j < LONGEST; j++)
        CHECK(depends(4, j) == (j >= 2 && j <= 6));
    free_model();
    cfg.conv_causal = true;
    make_model(&cfg);
    for (int64_t j = 0; j < LONGEST; j++)
        CHECK(depends(4, j) == (j <= 4));
    free_model();
    cfg.conv_causal = false;
    cfg.conv_dilated = true;
    cfg.conv_gated = false;
    make_model(&cfg); /* 1 + 2 to each side */
    for (int64_t j = 0; j < LONGEST; j++)
        CHECK(depends(4, j) == (j >= 1 && j <= 7));
    free_model();
    cfg = config(FV_ENCODER_ATTENTION, FV_SEQ2SEQ_POSITIONS_SINUSOID);
    make_model(&cfg);
    for (int64_t j = 0; j < LONGEST; j++)
        CHECK(depends(4, j));
    free_model();
}

/* max |difference| of the states when the second row is read from its end, states put back. */
static double change_by_order(fv_seq2seq_positions positions)
{
    const fv_seq2seq_config cfg = config(FV_ENCODER_ATTENTION, positions);
    int64_t flipped[LONGEST], back[LONGEST];
    for (int64_t j = 0; j < LONGEST; j++) {
        flipped[j] = source[1][LONGEST - 1 - j];
        back[j] = LONGEST - 1 - j;
    }
    make_model(&cfg);
    fv_scope_begin(ctx);
    const fv_memory x = encode(1, (const int64_t *[]){source[1]}, lengths + 1);
    const fv_memory y = encode(1, (const int64_t *[]){flipped}, lengths + 1);
    fv_tensor *again = fv_index_select(ctx, y.v, indices_of(ctx, back, LONGEST), 2);
    const double change = tensor_distance(ctx, x.v, again);
    fv_scope_end(ctx);
    free_model();
    return change;
}

static void only_positions_tell_order(void)
{
    CHECK(change_by_order(FV_SEQ2SEQ_POSITIONS_NONE) < 1e-5);
    CHECK(change_by_order(FV_SEQ2SEQ_POSITIONS_SINUSOID) > 1e-2);
    CHECK(change_by_order(FV_SEQ2SEQ_POSITIONS_LEARNED) > 1e-3);
    CHECK(change_by_order(FV_SEQ2SEQ_POSITIONS_ROTARY) > 1e-3);
    CHECK(change_by_order(FV_SEQ2SEQ_POSITIONS_RELATIVE) > 1e-3);
}

/* Alone or among others, in any order: the same bits. */
static void rows_do_not_depend_on_each_other(void)
{
    static const struct {
        fv_encoder_kind encoder;
        fv_seq2seq_positions positions;
    } kinds[] = {{FV_ENCODER_CONV, FV_SEQ2SEQ_POSITIONS_LEARNED},
                 {FV_ENCODER_ATTENTION, FV_SEQ2SEQ_POSITIONS_SINUSOID},
                 {FV_ENCODER_ATTENTION, FV_SEQ2SEQ_POSITIONS_ROTARY},
                 {FV_ENCODER_ATTENTION, FV_SEQ2SEQ_POSITIONS_RELATIVE}};
    const int64_t *rows[ROWS] = {source[0], source[1], source[2]};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const fv_seq2seq_config cfg = config(kinds[k].encoder, kinds[k].positions);
        make_model(&cfg);
        fv_scope_begin(ctx);
        const fv_memory all = encode(ROWS, rows, lengths);
        for (int i = 0; i < ROWS; i++) {
            const fv_memory alone = encode(1, rows + i, lengths + i);
            fv_tensor *row = fv_slice(ctx, all.v, 0, i, i + 1, 1);
            CHECK_EQ(alone.positions, lengths[i]);
            if (!tensor_same(ctx, alone.v, fv_slice(ctx, row, 2, 0, lengths[i], 1)))
                test_failed(__FILE__, __LINE__, "kind %zu, row %d", k, i);
        }
        fv_scope_end(ctx);
        free_model();
    }
}

static void refuse(const fv_seq2seq_config *cfg, const char *text)
{
    fv_seq2seq *none = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_EQ(fv_seq2seq_create(params, cfg, &none), FV_ERR_ARGUMENT);
    if (!strstr(fv_ctx_message(ctx), text))
        test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
    fv_params_destroy(&params);
}

static void settings_that_do_not_fit(void)
{
    fv_seq2seq_config cfg = config(FV_ENCODER_CONV, FV_SEQ2SEQ_POSITIONS_ROTARY);
    refuse(&cfg, "the conv encoder has positions none, sinusoid or learned");
    cfg.positions = (fv_seq2seq_positions)5;
    cfg.encoder = FV_ENCODER_ATTENTION;
    refuse(&cfg, "no such positions");
    cfg.positions = FV_SEQ2SEQ_POSITIONS_NONE;
    cfg.self_heads = 3;
    refuse(&cfg, "3 heads do not divide the width 8");
    cfg.self_head_width = 5;
    cfg.positions = FV_SEQ2SEQ_POSITIONS_ROTARY;
    refuse(&cfg, "even self_head_width, not 5");
    cfg.self_layers = 17;
    refuse(&cfg, "1 to 16 layers");
    cfg.encoder = FV_ENCODER_CONV;
    cfg.conv_window = 256;
    refuse(&cfg, "windows of 1 to 255");
}

/* Longer than the table of learned positions: an error, not a read past its end. */
static void a_learned_table_ends(void)
{
    fv_seq2seq_config cfg = config(FV_ENCODER_ATTENTION, FV_SEQ2SEQ_POSITIONS_LEARNED);
    cfg.most_positions = 8;
    make_model(&cfg);
    fv_memory memory;
    const fv_encode_call call = {.attention = model->y->attention(model->decoder)};
    const fv_batch batch = fv_batch_of_pairs(
        &(fv_sequences){
            .count = 1, .tokens = (const int64_t *[]){source[1]}, .length = lengths + 1},
        NULL);
    fv_scope_begin(ctx);
    CHECK(model->x->encode(ctx, model->encoder, &batch, &call, &memory) != FV_OK);
    fv_scope_end(ctx);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "positions");
    free_model();
}

static void settings_survive_a_file(void)
{
    fv_seq2seq_config cfg = config(FV_ENCODER_CONV, FV_SEQ2SEQ_POSITIONS_LEARNED), back;
    const char *path = folder_path("config.json");
    cfg.conv_layers = 7;
    cfg.conv_window = 5;
    cfg.conv_dilated = cfg.conv_causal = true;
    cfg.conv_gated = false;
    cfg.positions_how = FV_POSITIONS_CONCAT;
    cfg.most_positions = 33;
    cfg.self_heads = 7; /* not of this model: not written */
    back.struct_size = sizeof back;
    CHECK_OK(ctx, fv_seq2seq_config_save(ctx, &cfg, path));
    CHECK_OK(ctx, fv_seq2seq_config_load(ctx, path, &back));
    CHECK(back.encoder == FV_ENCODER_CONV && back.conv_layers == 7 && back.conv_window == 5);
    CHECK(back.conv_dilated && back.conv_causal && !back.conv_gated && back.self_heads == 4);
    CHECK(back.positions == FV_SEQ2SEQ_POSITIONS_LEARNED && back.most_positions == 33);
    CHECK(back.positions_how == FV_POSITIONS_CONCAT);
    cfg.encoder = FV_ENCODER_RNN;
    cfg.decoder = FV_DECODER_ATTENTION;
    cfg.self_layers = 3;
    cfg.self_head_width = 10;
    cfg.self_value_width = 12;
    CHECK_OK(ctx, fv_seq2seq_config_save(ctx, &cfg, path));
    CHECK_OK(ctx, fv_seq2seq_config_load(ctx, path, &back));
    CHECK(back.decoder == FV_DECODER_ATTENTION && back.self_layers == 3 && back.self_heads == 7);
    CHECK(back.self_head_width == 10 && back.self_value_width == 12 && back.conv_layers == 4);
    CHECK(back.positions == FV_SEQ2SEQ_POSITIONS_LEARNED);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(a_state_depends_on_its_window);
    RUN(only_positions_tell_order);
    RUN(rows_do_not_depend_on_each_other);
    RUN(settings_that_do_not_fit);
    RUN(a_learned_table_ends);
    RUN(settings_survive_a_file);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
