/* The raw-pointer matrix product of fovea/kernels.h: checks its arguments, then calls the kernel of
 * the SIMD level. */
#include "kernels/gemm.h"

#include "base/checked_math.h"
#include "kernels/level.h"
#include "kernels/weights.h"

typedef struct level_kernels {
    fv_kernel_fn gemm, pack;
} level_kernels;

static level_kernels kernels_of(fv_simd level)
{
#if defined(__x86_64__)
    if (level == FV_SIMD_AMX) return (level_kernels){fv_simd_gemm_amx_avx512, fv_simd_pack_avx512};
    if (level == FV_SIMD_AVX512) return (level_kernels){fv_simd_gemm_avx512, fv_simd_pack_avx512};
    if (level == FV_SIMD_AVX2) return (level_kernels){fv_simd_gemm_avx2, fv_simd_pack_avx2};
#elif defined(__aarch64__)
    if (level == FV_SIMD_NEON) return (level_kernels){fv_simd_gemm_neon, fv_simd_pack_neon};
#else
    (void)level;
#endif
    return (level_kernels){fv_ref_gemm_f32, fv_ref_pack_f32};
}

static void parallel_in_pool(void *user, int64_t items, int64_t grain, fv_range_fn fn,
                             const void *arg)
{
    fv_pool_run(user, items, grain, fn, arg);
}

static bool batch_is_valid(const fv_gemm *g)
{
    if (g->batch_rank < 0 || g->batch_rank > FV_GEMM_BATCH_RANK) return false;
    int64_t product = 1;
    for (int i = 0; i < g->batch_rank; i++) {
        if (g->batch_shape[i] < 0 || !fv_checked_mul_i64(product, g->batch_shape[i], &product))
            return false;
        /* Two batch members must not write the same C. */
        if (g->batch_shape[i] > 1 && g->c_batch[i] == 0) return false;
    }
    return product == g->batch;
}

static bool aux_is_valid(const fv_gemm *g)
{
    switch (g->aux) {
    case FV_GEMM_AUX_NONE:
        return true;
    case FV_GEMM_AUX_SUM:
    case FV_GEMM_AUX_ACT:
        return !g->accumulate;
    case FV_GEMM_AUX_ROW_SUMS:
        return g->batch_rank == 0 && (g->n > 0 || g->m == 0);
    default:
        return false;
    }
}

fv_status fv_gemm_check(const fv_gemm *g)
{
    if (g->m < 0 || g->n < 0 || g->k < 0 || !batch_is_valid(g)) return FV_ERR_ARGUMENT;
    if (g->act < FV_ACT_NONE || g->act >= FV_ACT_COUNT) return FV_ERR_ARGUMENT;
    if (g->accumulate && g->act != FV_ACT_NONE) return FV_ERR_ARGUMENT;
    if (g->m > 1 && g->c_row < g->n) return FV_ERR_ARGUMENT;
    if (!aux_is_valid(g)) return FV_ERR_ARGUMENT;
    if (g->b_form < FV_WEIGHT_F32 || g->b_form >= FV_WEIGHT_FORM_COUNT) return FV_ERR_ARGUMENT;
    if (g->b_form != FV_WEIGHT_F32 && (!g->b_packed || g->accumulate || g->batch_rank > 0))
        return FV_ERR_ARGUMENT;
    if (g->bf16 && ((g->b_packed && g->b_form == FV_WEIGHT_F32) || g->batch_rank > 0))
        return FV_ERR_ARGUMENT;
    const unsigned stored =
        FV_GEMM_STORED_A | FV_GEMM_STORED_C | (g->b_packed ? 0u : FV_GEMM_STORED_B);
    if (g->stored_bf16 & ~(g->bf16 ? stored : 0u)) return FV_ERR_ARGUMENT;
    int64_t rows, size;
    if (!fv_checked_mul_i64(g->batch, g->m, &rows) || !fv_checked_mul_i64(rows, g->n, &size))
        return FV_ERR_ARGUMENT;
    /* Keep the padded sizes of packed operands in range too. */
    const int64_t largest = INT64_MAX / (4 * FV_GEMM_PANEL * FV_GEMM_PANEL);
    if (g->m > largest || g->n > largest || g->k > largest) return FV_ERR_ARGUMENT;
    if (!fv_checked_mul_i64(g->m + FV_GEMM_PANEL, (g->k + 1) * (int64_t)sizeof(float), &size) ||
        !fv_checked_mul_i64(g->n + FV_GEMM_PANEL, (g->k + 1) * (int64_t)sizeof(float), &size))
        return FV_ERR_ARGUMENT;
    return FV_OK;
}

size_t fv_gemm_scratch(const fv_gemm *g, int threads)
{
    return fv_gemm_check(g) == FV_OK ? fv_gemm_scratch_query(g, threads) : SIZE_MAX;
}

fv_status fv_gemm_run(const fv_gemm *g, const float *a, const void *b, const fv_gemm_exec *exec,
                      void *scratch, size_t scratch_bytes, float *c)
{
    static const fv_gemm_exec plain = {.level = FV_SIMD_AUTO};
    if (!exec) exec = &plain;
    if (fv_gemm_check(g) != FV_OK) return FV_ERR_ARGUMENT;
    if (g->accumulate && (exec->bias || exec->residual)) return FV_ERR_ARGUMENT;
    if (exec->residual && g->m > 1 && g->residual_row < g->n) return FV_ERR_ARGUMENT;
    if ((g->aux != FV_GEMM_AUX_NONE) != (exec->aux != NULL)) return FV_ERR_ARGUMENT;
    int threads = fv_pool_threads(exec->pool);
    size_t need = fv_gemm_scratch_query(g, threads);
    if (scratch_bytes < need || (uintptr_t)scratch % 64 != 0) return FV_ERR_ARGUMENT;
    fv_simd level = fv_level_usable();
    /* Products of floats are those of avx512 at level amx too and need no permission for tiles. */
    if (g->bf16 && (exec->level == FV_SIMD_AMX || exec->level == FV_SIMD_AUTO)) {
        if (fv_tiles_usable()) level = FV_SIMD_AMX;
    } else if (exec->level == FV_SIMD_AMX && fv_tiles_present()) {
        level = FV_SIMD_AMX;
    }
    if (exec->level > level || exec->level < FV_SIMD_AUTO) return FV_ERR_UNSUPPORTED;
    if (exec->level != FV_SIMD_AUTO) level = exec->level;

    fv_exec e = {
        .parallel = parallel_in_pool, .user = exec->pool, .threads = threads, .scratch = scratch};
    /* Kernels take non-const pointers; only C and aux are written. */
    void *ptr[6] = {c, (void *)a, (void *)b, (void *)exec->bias, (void *)exec->residual, exec->aux};
    kernels_of(level).gemm(&e, ptr, g);
    return FV_OK;
}

size_t fv_gemm_packed_bytes(int64_t k, int64_t n, fv_weight_form form)
{
    size_t cols, line, bytes;
    if (form < FV_WEIGHT_F32 || form >= FV_WEIGHT_FORM_COUNT || k < 0 || n < 0 ||
        !fv_checked_round_up((size_t)n, FV_GEMM_PANEL, &cols) ||
        !fv_checked_mul_size((size_t)k + 2, sizeof(float), &line) ||
        !fv_checked_mul_size(cols, line, &bytes)) /* an upper bound for every format */
        return SIZE_MAX;
    return cols / FV_GEMM_PANEL * fv_weight_panel_bytes(form, k);
}

fv_status fv_gemm_pack_as(int64_t k, int64_t n, const float *b, int64_t b_row, int64_t b_col,
                          fv_weight_form form, void *packed)
{
    if (fv_gemm_packed_bytes(k, n, form) == SIZE_MAX) return FV_ERR_ARGUMENT;
    fv_gemm_pack_args args = {.k = k, .n = n, .b_row = b_row, .b_col = b_col, .form = form};
    fv_exec e = {.parallel = parallel_in_pool, .threads = 1};
    void *ptr[2] = {packed, (void *)b};
    kernels_of(fv_level_usable()).pack(&e, ptr, &args);
    return FV_OK;
}
