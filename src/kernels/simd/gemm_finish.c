/* The end of a product: y = act(sum + bias) + residual, in the order of the reference. */
#include "kernels/ref/composite.h"
#include "kernels/simd/gemm_simd.h"

static float activate(fv_act act, float x)
{
    switch (act) {
    case FV_ACT_RELU:
        return real_relu(x);
    case FV_ACT_GELU:
        return real_gelu(x);
    case FV_ACT_GELU_TANH:
        return real_gelu_tanh(x);
    case FV_ACT_SILU:
        return real_silu(x);
    case FV_ACT_TANH:
        return real_tanh(x);
    case FV_ACT_SIGMOID:
        return real_sigmoid(x);
    default:
        return x;
    }
}

void FV_GEMM_NAME(finish)(const fv_finish *f, const float *sum, int64_t sum_row, float *c,
                          int64_t c_row, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            float y = sum[i * sum_row + j];
            if (f->bias) y += f->bias[j];
            y = activate(f->act, y);
            if (f->residual) y += f->residual[i * f->residual_row + j];
            c[i * c_row + j] = y;
        }
}
