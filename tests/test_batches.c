/* The order of examples: complete, bounded, shuffled, and the same again. */
#include "fovea/batch.h"

#include "support/test.h"

enum { N = 500 };

static fv_ctx *ctx;
static int64_t lengths[N];

static fv_batches *make(bool shuffled, int64_t pool, uint64_t seed)
{
    fv_batches_config cfg;
    fv_batches_config_init(&cfg, sizeof cfg);
    cfg.tokens = 100;
    cfg.shuffle = shuffled;
    cfg.pool = pool;
    cfg.seed = seed;
    for (int64_t i = 0; i < N; i++)
        lengths[i] = 1 + i * 7919 % 31;
    lengths[7] = 250; /* longer than a batch */
    fv_batches *b = NULL;
    CHECK_OK(ctx, fv_batches_create(ctx, N, lengths, &cfg, &b));
    return b;
}

static void each_epoch_is_complete_and_bounded(void)
{
    fv_batches *b = make(true, 10, 1);
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[N] = {0};
        int64_t batches = 1;
        for (int64_t i = 0; i < batches; i++) {
            fv_picked x;
            CHECK_OK(ctx, fv_batches_next(b, &x));
            batches = x.batches;
            CHECK(x.epoch == epoch && x.index == i && x.count > 0);
            int64_t sum = 0;
            for (int64_t k = 0; k < x.count; k++) {
                seen[x.example[k]]++;
                sum += lengths[x.example[k]];
            }
            CHECK_EQ(sum, x.tokens);
            CHECK(sum <= 100 || x.count == 1);
        }
        for (int i = 0; i < N; i++)
            CHECK_EQ(seen[i], 1);
    }
    fv_batches_destroy(&b);
}

/* Longest over mean length within batches, averaged: 1 when all are equal. */
static double waste(fv_batches *b)
{
    double sum = 0;
    int64_t batches = 1;
    for (int64_t i = 0; i < batches; i++) {
        fv_picked x;
        CHECK_OK(ctx, fv_batches_next(b, &x));
        batches = x.batches;
        int64_t most = 0;
        for (int64_t k = 0; k < x.count; k++)
            most = lengths[x.example[k]] > most ? lengths[x.example[k]] : most;
        sum += (double)(most * x.count) / (double)x.tokens;
    }
    return sum / (double)batches;
}

static void batches_hold_like_lengths(void)
{
    fv_batches *pooled = make(true, 20, 1), *plain = make(true, 1, 1);
    const double with = waste(pooled), without = waste(plain);
    CHECK(with < 1.25);
    CHECK(without > 1.4);
    fv_batches_destroy(&pooled);
    fv_batches_destroy(&plain);
}

static bool same_batch(const fv_picked *a, const int64_t *example, int64_t count)
{
    return a->count == count && memcmp(a->example, example, (size_t)count * sizeof *example) == 0;
}

static void a_place_can_be_gone_back_to(void)
{
    fv_batches *b = make(true, 10, 3);
    fv_picked x;
    int64_t epoch, index, example[N], count;
    for (int i = 0; i < 130; i++)
        CHECK_OK(ctx, fv_batches_next(b, &x));
    fv_batches_place(b, &epoch, &index);
    CHECK_OK(ctx, fv_batches_next(b, &x));
    count = x.count;
    memcpy(example, x.example, (size_t)count * sizeof *example);
    for (int i = 0; i < 77; i++)
        CHECK_OK(ctx, fv_batches_next(b, &x));
    CHECK_OK(ctx, fv_batches_seek(b, epoch, index));
    CHECK_OK(ctx, fv_batches_next(b, &x));
    CHECK(same_batch(&x, example, count));
    fv_batches *other = make(true, 10, 3);
    CHECK_OK(ctx, fv_batches_seek(other, epoch, index));
    CHECK_OK(ctx, fv_batches_next(other, &x));
    CHECK(same_batch(&x, example, count));
    fv_batches *seeded = make(true, 10, 4);
    CHECK_OK(ctx, fv_batches_seek(seeded, epoch, index));
    CHECK_OK(ctx, fv_batches_next(seeded, &x));
    CHECK(!same_batch(&x, example, count));
    CHECK_EQ(fv_batches_seek(b, 0, 100000), FV_ERR_ARGUMENT);
    fv_batches_destroy(&b);
    fv_batches_destroy(&other);
    fv_batches_destroy(&seeded);
}

static void without_shuffling_the_order_stays(void)
{
    fv_batches *b = make(false, 10, 1);
    int64_t expected = 0, batches = 1;
    for (int64_t i = 0; i < batches; i++) {
        fv_picked x;
        CHECK_OK(ctx, fv_batches_next(b, &x));
        batches = x.batches;
        for (int64_t k = 0; k < x.count; k++)
            CHECK_EQ(x.example[k], expected++);
    }
    fv_batches_destroy(&b);
}

static void bad_lengths_are_refused(void)
{
    fv_batches_config cfg;
    fv_batches_config_init(&cfg, sizeof cfg);
    fv_batches *b = NULL;
    const int64_t bad[] = {3, 0};
    CHECK_EQ(fv_batches_create(ctx, 2, bad, &cfg, &b), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_batches_create(ctx, 0, bad, &cfg, &b), FV_ERR_ARGUMENT);
    CHECK(b == NULL);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(each_epoch_is_complete_and_bounded);
    RUN(batches_hold_like_lengths);
    RUN(a_place_can_be_gone_back_to);
    RUN(without_shuffling_the_order_stays);
    RUN(bad_lengths_are_refused);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
