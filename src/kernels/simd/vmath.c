/* exp, log, tanh and erf over arrays. */
#include "kernels/vmath.h"

#include "kernels/simd/vmath.h"

void fv_simd_vexp(int64_t n, const float *x, float *y)
{
    v_apply(y, x, n, false, v_exp_many, V_EXP_GROUP, v_exp);
}

void fv_simd_vlog(int64_t n, const float *x, float *y)
{
    V_LOOP(n, 0, v_store(y + i, count, v_log(v_load(x + i, count))));
}

void fv_simd_vtanh(int64_t n, const float *x, float *y)
{
    v_apply(y, x, n, false, v_tanh_many, V_TABLE_GROUP, v_tanh);
}

void fv_simd_verf(int64_t n, const float *x, float *y)
{
    v_apply(y, x, n, false, v_erf_many, V_TABLE_GROUP, v_erf);
}
