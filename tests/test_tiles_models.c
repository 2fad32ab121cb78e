/*
 * Whole models with packed weights and a compute dtype of bf16 on emulated tiles, as in a context
 * of level amx, and which products take bf16 at the other levels.
 */
#include "base/pool.h"
#include "device/device.h"
#include "kernels/gemm_bf16.h"
#include "kernels/level.h"
#include "support/products.h"
#include "support/test.h"
#include "support/transformers.h"
#include "tensor/tensor.h"

#if defined(__x86_64__)

static void parallel_in_pool(void *user, int64_t items, int64_t grain, fv_range_fn fn,
                             const void *arg)
{
    fv_pool_run(user, items, grain, fn, arg);
}

enum { STEPS = 6, LAYERS = 2 };

static fv_device_ops on_tiles;
static const fv_device_ops *device;
static int64_t products; /* on tiles */

/* bf16 products on emulated tiles, everything else as the device does. */
static fv_status launch_on_tiles(fv_device *dev, fv_kernel_id kernel, fv_dtype dtype,
                                 void *const *ptr, const void *args, size_t args_bytes)
{
    const fv_gemm *g = args;
    if (kernel != FV_KERNEL_GEMM || !g->bf16)
        return device->launch(dev, kernel, dtype, ptr, args, args_bytes);
    fv_pool *pool = dev->ctx->pool;
    const int threads = fv_pool_threads(pool);
    void *scratch = product_memory(fv_gemm_scratch(g, threads));
    const fv_exec exec = {
        .parallel = parallel_in_pool, .user = pool, .threads = threads, .scratch = scratch};
    fv_simd_gemm_bf16_emulated_avx2(&exec, ptr, g);
    free(scratch);
    products++;
    return FV_OK;
}

/* As in a context of level amx. */
static void use_tiles(fv_ctx *ctx)
{
    device = ctx->device->ops;
    on_tiles = *device;
    on_tiles.launch = launch_on_tiles;
    ctx->device->ops = &on_tiles;
    ctx->simd = FV_SIMD_AMX;
    products = 0;
}

static fv_transformer_config model_config(fv_family family)
{
    fv_transformer_config cfg = small_config(family);
    cfg.width = 96;
    cfg.hidden = 160;
    cfg.decoder_layers = LAYERS;
    cfg.init_std = 0.1;
    return cfg;
}

/* The logits of a few steps after prompts of different lengths, of all rows or of row `one` alone;
 * weights in int8. */
static void decode(fv_family family, fv_dtype compute, bool tiles, int one,
                   float logits[STEPS][COUNT * VOCABULARY])
{
    const fv_transformer_config cfg = model_config(family);
    small s = small_make(&cfg);
    fv_cache *cache = NULL;
    if (tiles) use_tiles(s.ctx);
    fill_sequences();
    const fv_sequences prompts = one < 0 ? all_of(s.t) : one_of(s.t, one);
    const int64_t count = one < 0 ? COUNT : 1;
    CHECK_OK(s.ctx, fv_ctx_set_compute(s.ctx, compute));
    CHECK_OK(s.ctx, fv_transformer_pack(s.t, FV_WEIGHT_I8));
    CHECK_OK(s.ctx, fv_cache_create(s.t, &cache));
    CHECK_OK(s.ctx, fv_cache_begin(cache, &prompts, NULL, 0));
    for (int i = 0; i < STEPS; i++) {
        int64_t next[COUNT];
        for (int r = 0; r < count; r++)
            next[r] = (i + 3 * (one < 0 ? r : one)) % VOCABULARY;
        fv_scope_begin(s.ctx);
        fv_tensor *token = fv_from_host(s.ctx, FV_I64, 1, &count, next);
        fv_tensor *y = fv_cache_step(s.ctx, cache, token);
        CHECK_EQ(fv_tensor_dtype(y), FV_F32); /* whatever the layers compute in */
        const size_t bytes = (size_t)(count * VOCABULARY) * sizeof(float);
        CHECK_OK(s.ctx, fv_tensor_read(s.ctx, y, logits[i], bytes));
        fv_scope_end(s.ctx);
    }
    fv_cache_destroy(&cache);
    small_free(&s);
}

/* A result is off by the roundings to bf16 on its way, each by up to 2^-9 of the largest number of
 * its tensor: the embedding, eleven per layer (norm, Q K V, their rotation, context, projection and
 * sum, norm, up, gate, their product, down, sum), the last norm and the logits. Sums in float add
 * less than one more. */
static void models_run_on_tiles(void)
{
    static const fv_family families[] = {FV_FAMILY_GPT2, FV_FAMILY_LLAMA};
    static const int per_layer[] = {4, 7}; /* products */
    for (int f = 0; f < 2; f++) {
        static float exact[STEPS][COUNT * VOCABULARY], got[STEPS][COUNT * VOCABULARY];
        decode(families[f], FV_F32, true, -1, exact);
        CHECK_EQ(products, 0); /* f32 stays f32 at this level */
        decode(families[f], FV_BF16, true, -1, got);
        /* prompts in one pass, then steps */
        CHECK_EQ(products, LAYERS * per_layer[f] * (1 + STEPS) + STEPS);
        const double bound = (3 + 11 * LAYERS + 1) * 0x1p-9;
        double most = 0, apart = 0;
        for (int i = 0; i < STEPS; i++)
            for (int j = 0; j < COUNT * VOCABULARY; j++) {
                const double x = (double)exact[i][j], y = (double)got[i][j];
                most = fmax(most, fabs(x));
                apart = test_worse(apart, fabs(x - y));
            }
        printf("%s: off by %.2g of the largest logit, bound %.2g\n", f ? "llama" : "gpt2",
               apart / most, bound);
        CHECK(apart > 0 && apart <= bound * most);
    }
}

static void sequences_do_not_see_each_other(void)
{
    static float all[STEPS][COUNT * VOCABULARY], one[STEPS][COUNT * VOCABULARY];
    decode(FV_FAMILY_LLAMA, FV_BF16, true, -1, all);
    for (int r = 0; r < COUNT; r++) {
        decode(FV_FAMILY_LLAMA, FV_BF16, true, r, one);
        for (int i = 0; i < STEPS; i++)
            CHECK(memcmp(all[i] + r * VOCABULARY, one[i], VOCABULARY * sizeof(float)) == 0);
    }
}

/* Where products are not faster in bf16, packed weights are multiplied in f32 as before. */
static void other_levels_stay_in_f32(void)
{
    fv_ctx *ctx = values_begin();
    CHECK_OK(ctx, fv_ctx_set_compute(ctx, FV_BF16));
    for (int form = FV_WEIGHT_F32; form < FV_WEIGHT_FORM_COUNT; form++)
        for (fv_simd level = FV_SIMD_AVX2; level <= FV_SIMD_AMX; level++) {
            fv_scope_begin(ctx);
            fv_tensor *w = tensor_random(ctx, 2, 2, 70, 40), *x = tensor_random(ctx, 1, 2, 9, 40);
            CHECK_OK(ctx, fv_linear_pack_in_place(ctx, w, (fv_weight_form)form));
            const bool faster =
                level == FV_SIMD_AMX || (level == FV_SIMD_AVX512 && fv_bf16_usable());
            const fv_simd before = ctx->simd;
            ctx->simd = level;
            fv_no_grad_begin(ctx);
            fv_tensor *y = fv_linear(ctx, x, w, NULL);
            fv_no_grad_end(ctx);
            ctx->simd = before;
            CHECK_EQ(y->dtype, form != FV_WEIGHT_F32 && faster ? FV_BF16 : FV_F32);
            fv_scope_end(ctx);
        }
    values_end(&ctx);
}

#endif

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
#if defined(__x86_64__)
    RUN(models_run_on_tiles);
    RUN(sequences_do_not_see_each_other);
    RUN(other_levels_stay_in_f32);
#endif
    return TEST_END();
}
