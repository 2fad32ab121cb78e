/* The epilogue of a product: y = act(sum scale + bias) + residual, in the order of the
 * reference; aux gets act's argument or its value. */
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/vmath.h"

FV_INLINE vf activate(const fv_act act, vf x)
{
    switch (act) {
    case FV_ACT_RELU:
        return v_relu(x);
    case FV_ACT_GELU:
        return v_gelu(x);
    case FV_ACT_GELU_TANH:
        return v_gelu_tanh(x);
    case FV_ACT_SILU:
        return v_silu(x);
    case FV_ACT_TANH:
        return v_tanh(x);
    case FV_ACT_SIGMOID:
        return v_sigmoid(x);
    case FV_ACT_QUICK_GELU:
        return v_quick_gelu(x);
    default:
        return x;
    }
}

/* `act` is a compile-time constant of each instance. */
FV_INLINE void epilogue_rows(const fv_act act, const fv_epilogue *f, const float *sum,
                             int64_t sum_row, float *c, int64_t c_row, int64_t rows, int64_t cols)
{
    const float *scale = f->scale, *bias = f->bias, *residual = f->residual;
    float *before = f->aux_after_act ? NULL : f->aux, *after = f->aux_after_act ? f->aux : NULL;
    for (int64_t r = 0; r < rows; r++) {
        V_LOOP(cols, 0, vf y = v_load(sum + i, count);
               if (scale) y = v_mul(y, v_load(scale + i, count));
               if (bias) y = v_add(y, v_load(bias + i, count));
               if (before) v_store(before + i, count, y); y = activate(act, y);
               if (after) v_store(after + i, count, y);
               if (residual) y = v_add(y, v_load(residual + i, count)); v_store(c + i, count, y));
        sum += sum_row;
        c += c_row;
        if (residual) residual += f->residual_row;
        if (before) before += f->aux_row;
        if (after) after += f->aux_row;
    }
}

void fv_gemm_apply_epilogue(const fv_epilogue *f, const float *sum, int64_t sum_row, float *c,
                            int64_t c_row, int64_t rows, int64_t cols)
{
    switch (f->act) {
#define CASE(act)                                                                                  \
    case act:                                                                                      \
        epilogue_rows(act, f, sum, sum_row, c, c_row, rows, cols);                                 \
        break
        CASE(FV_ACT_RELU);
        CASE(FV_ACT_GELU);
        CASE(FV_ACT_GELU_TANH);
        CASE(FV_ACT_SILU);
        CASE(FV_ACT_TANH);
        CASE(FV_ACT_SIGMOID);
        CASE(FV_ACT_QUICK_GELU);
    default:
        epilogue_rows(FV_ACT_NONE, f, sum, sum_row, c, c_row, rows, cols);
#undef CASE
    }
}
