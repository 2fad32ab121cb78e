#include <string.h>

#include "kernels/bf16.h"
#include "kernels/level.h"
#include "kernels/register.h"

const fv_kernel_info fv_kernel_infos[FV_KERNEL_COUNT] = {
#define FV_KERNEL(id, name, pointers, about) {name, pointers},
#include "kernels/kernels.def"
#undef FV_KERNEL
};

static void fill_ref(fv_kernel_table *t)
{
    fv_copy_register(t);
    fv_cache_register(t);
    fv_gather_register(t);
    fv_integer_register(t);
    fv_weights_register(t);
    fv_prefilter_register(t);
#define FILL(family)                                                                               \
    fv_ref_##family##_register_f32(t);                                                             \
    fv_ref_##family##_register_f64(t)
    FILL(elementwise);
    FILL(reduce);
    FILL(softmax);
    FILL(norm);
    FILL(unit);
    FILL(rotary);
    FILL(loss);
    FILL(topk);
    FILL(index);
    FILL(random);
    FILL(gemm);
    FILL(attention);
    FILL(attention_weights);
    FILL(recurrent);
    FILL(sequence);
    FILL(ntm);
    FILL(conv);
    FILL(conv2d);
    FILL(pool2d);
    FILL(resize2d);
    FILL(batch_norm);
    FILL(optim);
    FILL(word2vec);
#undef FILL
    fv_bf16_elementwise_register(t);
    fv_bf16_rows_register(t);
}

void fv_kernel_table_register(fv_kernel_table *table, fv_simd level)
{
    memset(table, 0, sizeof *table);
    table->level = FV_SIMD_SCALAR;
    fill_ref(table);
    memcpy(table->ref_scratch, table->scratch, sizeof table->scratch);
#if defined(__x86_64__)
    if (level >= FV_SIMD_AVX2) {
        fv_simd_gemm_register_avx2(table);
        fv_simd_register_avx2(table);
        table->level = FV_SIMD_AVX2;
    }
    if (level >= FV_SIMD_AVX512) {
        fv_simd_gemm_register_avx512(table);
        fv_simd_register_avx512(table);
        if (fv_bf16_usable()) fv_simd_bf16_register_avx512(table);
        if (fv_vnni_usable()) fv_simd_vnni_register_avx512(table);
        table->level = FV_SIMD_AVX512;
    }
    if (level >= FV_SIMD_AMX) {
        fv_simd_amx_register_avx512(table);
        table->level = FV_SIMD_AMX;
    }
#elif defined(__aarch64__)
    if (level >= FV_SIMD_NEON) {
        fv_simd_gemm_register_neon(table);
        fv_simd_register_neon(table);
        table->level = FV_SIMD_NEON;
    }
#else
    (void)level;
#endif
}
