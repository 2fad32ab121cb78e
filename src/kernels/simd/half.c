/* Arrays of bf16 to floats and back, for kernels that work on blocks (kernels/bf16.h). */
#include "kernels/simd/half_simd.h"
#include "kernels/simd/register.h"

static void widen(int64_t n, const uint16_t *in, float *out)
{
    V_LOOP(n, 0, v_store(out + i, count, v_load_half(FV_BF16, in + i, count)));
}

static void narrow(int64_t n, const float *in, uint16_t *out)
{
    V_LOOP(n, 0, v_store_half(FV_BF16, out + i, count, v_load(in + i, count)));
}

void fv_simd_half_register(fv_kernel_table *t)
{
    t->widen = widen;
    t->narrow = narrow;
}
