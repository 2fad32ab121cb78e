/* Position tables of a model are made once, grow by doubling, and have the bits of tables that are
 * made for each pass: also where rotary angles depend on the length of a sequence. */
#include "models/transformer.h"
#include "nn/rotary.h"
#include "support/transformers.h"

enum { ORIGINAL = 24, CONTEXT = 200, PAIRS = 2 };

static const double short_factors[PAIRS] = {1, 1.25};
static const double long_factors[PAIRS] = {1.5, 4};

enum { SCALINGS = 5 }; /* none, llama3, yarn, dynamic, longrope */

static small make_scaled(int which)
{
    fv_transformer_config cfg = small_config(FV_FAMILY_LLAMA);
    cfg.max_positions = CONTEXT;
    cfg.rotary.width = 2 * PAIRS;
    cfg.rotary.original = ORIGINAL;
    cfg.rotary.factor = 4;
    cfg.rotary.low_freq = 1;
    cfg.rotary.high_freq = 4;
    if (which == 1) cfg.rotary.llama3_factor = 8;
    if (which == 2) cfg.rotary.low_freq = 1, cfg.rotary.high_freq = 32;
    cfg.rotary.scaling = which == 2   ? FV_ROTARY_SCALING_YARN
                         : which == 3 ? FV_ROTARY_SCALING_DYNAMIC
                         : which == 4 ? FV_ROTARY_SCALING_LONGROPE
                                      : FV_ROTARY_SCALING_NONE;
    cfg.rotary.short_factors = short_factors;
    cfg.rotary.long_factors = long_factors;
    return small_make(&cfg);
}

/* Whether two tensors [2, n, pairs] have equal bits. */
static bool equal(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    float x[2 * CONTEXT * PAIRS], y[2 * CONTEXT * PAIRS];
    if (a->count != b->count || (size_t)a->count > sizeof x / sizeof *x) return false;
    CHECK_OK(ctx, fv_tensor_read(ctx, a, x, (size_t)a->count * sizeof *x));
    CHECK_OK(ctx, fv_tensor_read(ctx, b, y, (size_t)b->count * sizeof *y));
    return memcmp(x, y, (size_t)a->count * sizeof *x) == 0;
}

static fv_tensor *ids_of(fv_ctx *ctx, int64_t rows, int64_t n)
{
    return fv_zeros(ctx, FV_I64, 2, (int64_t[]){rows, n});
}

static void consecutive_rows_have_the_bits_of_a_table(void)
{
    static const int64_t places[][2] = {{0, 5},   {0, 1},           {23, 1},  {24, 1},
                                        {10, 40}, {63, 1},          {64, 1},  {70, 30},
                                        {3, 2},   {CONTEXT - 1, 1}, {0, 200}, {100, 100}};
    for (int which = 0; which < SCALINGS; which++) {
        small s = make_scaled(which);
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            const int64_t first = places[i][0], n = places[i][1];
            const fv_token_rows rows = {.ids = ids_of(s.ctx, 1, n)};
            fv_tensor *expected =
                fv_rotary_table(s.ctx, FV_F32, fv_transformer_rotary(s.t), first, n);
            CHECK(equal(s.ctx, fv_side_angles(s.ctx, s.t, &rows, first, 0), expected));
        }
        small_free(&s);
    }
}

/* Tokens of rows at positions of their own, as a step of a cache has them. */
static void ragged_rows_have_the_bits_of_their_lengths(void)
{
    static const int64_t positions[][3] = {{0, 3, 9}, {22, 1, 23}, {24, 3, 60}, {150, 30, 25}};
    for (int which = 0; which < SCALINGS; which++) {
        small s = make_scaled(which);
        for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
            int64_t length[3], longest = 0;
            for (int k = 0; k < 3; k++) {
                length[k] = positions[i][k] + 1;
                longest = length[k] > longest ? length[k] : longest;
            }
            fv_token_rows rows = {.ids = ids_of(s.ctx, 3, 1), .longest = longest};
            rows.positions = fv_from_host(s.ctx, FV_I64, 2, (int64_t[]){3, 1}, positions[i]);
            fv_tensor *expected =
                fv_rotary_rows(s.ctx, FV_F32, fv_transformer_rotary(s.t), 3, positions[i], length);
            CHECK(equal(s.ctx, fv_side_angles(s.ctx, s.t, &rows, longest - 1, 0), expected));
        }
        small_free(&s);
    }
}

/* Prompts that leave a token to the first step: the length decides, not the positions of the pass.
 */
static void following_tokens_count(void)
{
    small s = make_scaled(4);
    const fv_token_rows rows = {.ids = ids_of(s.ctx, 1, ORIGINAL)};
    fv_tensor *alone = fv_side_angles(s.ctx, s.t, &rows, 0, 0);
    fv_tensor *more = fv_side_angles(s.ctx, s.t, &rows, 0, 1);
    CHECK(!equal(s.ctx, alone, more));
    small_free(&s);
}

static void tables_are_made_once_and_double(void)
{
    small s = make_scaled(0);
    fv_tensor **table = &s.t->tables->table[FV_TABLE_ROTARY];
    CHECK(!*table);
    static const int64_t need[] = {1, 60, 64, 65, 100, 128, 129, CONTEXT};
    static const int64_t room[] = {64, 64, 64, 128, 128, 128, CONTEXT, CONTEXT};
    const fv_tensor *last = NULL;
    for (size_t i = 0; i < sizeof need / sizeof *need; i++) {
        fv_scope_begin(s.ctx);
        const fv_token_rows rows = {.ids = ids_of(s.ctx, 1, 1)};
        CHECK(fv_tensor_valid(fv_side_angles(s.ctx, s.t, &rows, need[i] - 1, 0)));
        fv_scope_end(s.ctx);
        CHECK_EQ((*table)->shape[0], room[i]);
        if (i > 0 && room[i] == room[i - 1]) CHECK(*table == last);
        last = *table;
    }
    /* A position that is not below `longest` is still an error, whatever the table has. */
    const int64_t bad[1] = {5};
    fv_token_rows rows = {.ids = ids_of(s.ctx, 1, 1), .longest = 5};
    rows.positions = fv_from_host(s.ctx, FV_I64, 2, (int64_t[]){1, 1}, bad);
    fv_side_angles(s.ctx, s.t, &rows, 4, 0);
    CHECK_EQ(fv_ctx_take_error(s.ctx), FV_ERR_INDEX);
    small_free(&s);
}

static void sinusoids_have_the_bits_of_a_table(void)
{
    fv_transformer_config cfg = small_config(FV_FAMILY_MARIAN);
    small s = small_make(&cfg);
    static const int64_t places[][2] = {{0, 3}, {7, 1}, {60, 9}, {100, 2}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int64_t first = places[i][0], n = places[i][1];
        fv_tensor *expected =
            fv_sinusoid(s.ctx, FV_F32, first, n, cfg.width, 10000, s.t->cfg.sinusoid);
        fv_tensor *got = fv_position_rows(s.ctx, s.t, FV_TABLE_SINUSOID, FV_F32, first, n);
        CHECK(equal(s.ctx, got, expected));
    }
    CHECK_EQ(s.t->tables->table[FV_TABLE_SINUSOID]->shape[0], 128);
    small_free(&s);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(consecutive_rows_have_the_bits_of_a_table);
    RUN(ragged_rows_have_the_bits_of_their_lengths);
    RUN(following_tokens_count);
    RUN(tables_are_made_once_and_double);
    RUN(sinusoids_have_the_bits_of_a_table);
    return TEST_END();
}
