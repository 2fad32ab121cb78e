/* Arithmetic, comparison and choice for the integer types. */
#include "kernels/convert.h"
#include "kernels/register.h"
#include "kernels/walk.h"

#define EACH(out, expr)                                                                            \
    for (int64_t i = 0; i < n; i++)                                                                \
        (out)[i * w->step[0]] = (expr);                                                            \
    break
#define A (a[i * sa])
#define B (b[i * sb])

#define TYPE    int32_t
#define DTYPE   FV_I32
#define WIDE    uint32_t
#define NAME(x) x##_i32
#include "kernels/integer.inc"

#define TYPE    int64_t
#define DTYPE   FV_I64
#define WIDE    uint64_t
#define NAME(x) x##_i64
#include "kernels/integer.inc"

#define TYPE    uint8_t
#define DTYPE   FV_U8
#define NAME(x) x##_u8
#include "kernels/integer.inc"

void fv_integer_register(fv_kernel_table *t)
{
    fill_i32(t);
    fill_i64(t);
    fill_u8(t);
}
