/* exp, log, tanh and erf over arrays. */
#include "kernels/vmath.h"

#include "kernels/simd/vmath.h"

/* The short way of exp is so short that its test counts: a group of vectors shares one. */
void FV_SIMD_NAME(fv_simd_vexp)(int64_t n, const float *x, float *y)
{
    enum { STEP = V_EXP_GROUP * FV_LANES };
    int64_t done = 0;
    for (; done + STEP <= n; done += STEP) {
        vf v[V_EXP_GROUP];
        for (int k = 0; k < V_EXP_GROUP; k++)
            v[k] = v_load(x + done + k * FV_LANES, FV_LANES);
        v_exp_group(v);
        for (int k = 0; k < V_EXP_GROUP; k++)
            v_store(y + done + k * FV_LANES, FV_LANES, v[k]);
    }
    x += done;
    y += done;
    V_LOOP(n - done, 0, v_store(y + i, count, v_exp(v_load(x + i, count))));
}

void FV_SIMD_NAME(fv_simd_vlog)(int64_t n, const float *x, float *y)
{
    V_LOOP(n, 0, v_store(y + i, count, v_log(v_load(x + i, count))));
}

void FV_SIMD_NAME(fv_simd_vtanh)(int64_t n, const float *x, float *y)
{
    V_LOOP(n, 0, v_store(y + i, count, v_tanh(v_load(x + i, count))));
}

void FV_SIMD_NAME(fv_simd_verf)(int64_t n, const float *x, float *y)
{
    V_LOOP(n, 0, v_store(y + i, count, v_erf(v_load(x + i, count))));
}
