/* SpecAugment: where masks are, how large, and by what they are drawn. */
#include "fovea/audio.h"
#include "support/test.h"

static fv_ctx *ctx;

static void begin(void)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.seed = 5;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
}

enum { FRAMES = 60, WIDTH = 30 };
typedef float image[FRAMES][WIDTH];

static void augment(const fv_spec_augment_config *c, int64_t row, image out)
{
    for (int i = 0; i < FRAMES * WIDTH; i++)
        (&out[0][0])[i] = 1;
    CHECK_OK(ctx, fv_spec_augment(ctx, c, row, FRAMES, WIDTH, &out[0][0]));
}

/* Masked rows and columns; everything else must be untouched. */
static void count_masked(image x, float fill, int *rows, int *columns)
{
    bool row[FRAMES] = {false}, column[WIDTH] = {false};
    *rows = *columns = 0;
    for (int t = 0; t < FRAMES; t++) {
        row[t] = true;
        for (int k = 0; k < WIDTH; k++)
            row[t] = row[t] && x[t][k] == fill;
        *rows += row[t];
    }
    for (int k = 0; k < WIDTH; k++) {
        column[k] = true;
        for (int t = 0; t < FRAMES; t++)
            column[k] = column[k] && x[t][k] == fill;
        *columns += column[k];
    }
    for (int t = 0; t < FRAMES; t++)
        for (int k = 0; k < WIDTH; k++)
            CHECK(x[t][k] == (row[t] || column[k] ? fill : 1));
}

static void masks_are_bands(void)
{
    begin();
    image x;
    fv_spec_augment_config c;
    fv_spec_augment_config_init(&c, sizeof c);
    c.time_masks = 1, c.time_width = 10, c.frequency_masks = 1, c.frequency_width = 5, c.fill = -2;
    int most_rows = 0, most_columns = 0, least_rows = FRAMES, first = 0, last = 0, uneven = 0;
    for (int64_t row = 0; row < 500; row++) {
        int rows, columns;
        augment(&c, row, x);
        count_masked(x, -2, &rows, &columns);
        most_rows = rows > most_rows ? rows : most_rows;
        least_rows = rows < least_rows ? rows : least_rows;
        most_columns = columns > most_columns ? columns : most_columns;
        uneven += rows >= 9 && columns <= 1;
        /* No mask of columns reaches both ends of a row. */
        first += x[0][0] == -2 && x[0][WIDTH - 1] == -2;
        last += x[FRAMES - 1][0] == -2 && x[FRAMES - 1][WIDTH - 1] == -2;
    }
    CHECK_EQ(most_rows, 10);
    CHECK_EQ(least_rows, 0);
    CHECK_EQ(most_columns, 5);
    CHECK(first > 0 && last > 0);
    CHECK(uneven > 0);  /* rows and columns are drawn apart */
    c.time_part = 0.05; /* 3 of 60 */
    most_rows = 0;
    for (int64_t row = 0; row < 200; row++) {
        int rows, columns;
        augment(&c, row, x);
        count_masked(x, -2, &rows, &columns);
        most_rows = rows > most_rows ? rows : most_rows;
    }
    CHECK_EQ(most_rows, 3);
    c.time_part = 1;
    c.time_width = c.frequency_width = 1000; /* more than there is */
    most_rows = 0;
    for (int64_t row = 0; row < 200; row++) {
        int rows, columns;
        augment(&c, row, x);
        count_masked(x, -2, &rows, &columns);
        most_rows = rows > most_rows ? rows : most_rows;
    }
    CHECK_EQ(most_rows, FRAMES);
    fv_ctx_destroy(&ctx);
}

static void masks_are_keyed_by_seed_step_and_row(void)
{
    begin();
    image a, b;
    fv_spec_augment_config c;
    fv_spec_augment_config_init(&c, sizeof c);
    c.time_width = 20, c.frequency_width = 10;
    fv_ctx_set_step(ctx, 3, 0);
    augment(&c, 7, a);
    augment(&c, 7, b);
    CHECK(memcmp(a, b, sizeof a) == 0); /* drawing is no state */
    fv_ctx_set_step(ctx, 3, 5);
    augment(&c, 2, b);
    CHECK(memcmp(a, b, sizeof a) == 0); /* row 7 of the step */
    augment(&c, 7, b);
    CHECK(memcmp(a, b, sizeof a) != 0);
    fv_ctx_set_step(ctx, 4, 0);
    augment(&c, 7, b);
    CHECK(memcmp(a, b, sizeof a) != 0);
    fv_ctx_set_step(ctx, 3, 0);
    fv_ctx_set_seed(ctx, 6);
    augment(&c, 7, b);
    CHECK(memcmp(a, b, sizeof a) != 0);
    c.time_part = 2;
    CHECK_EQ(fv_spec_augment(ctx, &c, 0, FRAMES, WIDTH, &b[0][0]), FV_ERR_ARGUMENT);
    c.time_part = 1, c.time_masks = -1;
    CHECK_EQ(fv_spec_augment(ctx, &c, 0, FRAMES, WIDTH, &b[0][0]), FV_ERR_ARGUMENT);
    c.time_masks = 1;
    CHECK_EQ(fv_spec_augment(ctx, &c, -1, FRAMES, WIDTH, &b[0][0]), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_spec_augment(ctx, &c, 0, FRAMES, WIDTH, NULL), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_deltas(ctx, &a[0][0], FRAMES, WIDTH, 0, &b[0][0]), FV_ERR_ARGUMENT);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(masks_are_bands);
    RUN(masks_are_keyed_by_seed_step_and_row);
    return TEST_END();
}
