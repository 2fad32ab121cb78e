#include <string.h>

#include "kernels/fill.h"
#include "kernels/level.h"

const fv_kernel_info fv_kernel_infos[FV_KERNEL_COUNT] = {
#define FV_KERNEL(id, name, pointers, about) {name, pointers},
#include "kernels/kernels.def"
#undef FV_KERNEL
};

static void fill_ref(fv_kernel_table *t)
{
    fv_copy_fill(t);
    fv_gather_fill(t);
    fv_integer_fill(t);
    fv_weights_fill(t);
    fv_prefilter_fill(t);
#define FILL(family)                                                                               \
    fv_ref_##family##_fill_f32(t);                                                                 \
    fv_ref_##family##_fill_f64(t)
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
    FILL(conv);
    FILL(optim);
#undef FILL
}

void fv_kernel_table_fill(fv_kernel_table *table, fv_simd level)
{
    memset(table, 0, sizeof *table);
    table->level = FV_SIMD_SCALAR;
    fill_ref(table);
    memcpy(table->ref_scratch, table->scratch, sizeof table->scratch);
#if defined(__x86_64__)
    if (level >= FV_SIMD_AVX2) {
        fv_simd_gemm_fill_avx2(table);
        fv_simd_fill_avx2(table);
        table->level = FV_SIMD_AVX2;
    }
    if (level >= FV_SIMD_AVX512) {
        fv_simd_gemm_fill_avx512(table);
        fv_simd_fill_avx512(table);
        if (fv_bf16_usable()) fv_simd_bf16_fill_avx512(table);
        if (fv_vnni_usable()) fv_simd_vnni_fill_avx512(table);
        table->level = FV_SIMD_AVX512;
    }
#else
    (void)level;
#endif
}
