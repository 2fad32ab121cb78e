/* Element types. They are part of base because kernels and files need their sizes, not tensors. */
#include "fovea/tensor.h"

size_t fv_dtype_size(fv_dtype dtype)
{
    static const unsigned char sizes[FV_DTYPE_COUNT] = {
        [FV_F32] = 4, [FV_F64] = 8, [FV_BF16] = 2, [FV_F16] = 2,
        [FV_I32] = 4, [FV_I64] = 8, [FV_U8] = 1,
    };
    return (unsigned)dtype < FV_DTYPE_COUNT ? sizes[dtype] : 0;
}

const char *fv_dtype_name(fv_dtype dtype)
{
    static const char *const names[FV_DTYPE_COUNT] = {
        [FV_F32] = "f32", [FV_F64] = "f64", [FV_BF16] = "bf16", [FV_F16] = "f16",
        [FV_I32] = "i32", [FV_I64] = "i64", [FV_U8] = "u8",
    };
    return (unsigned)dtype < FV_DTYPE_COUNT ? names[dtype] : "?";
}
