/*
 * Every dtype fits exactly into double (the floats) or int64_t (the integers). A conversion loads a
 * block into that wide type and stores it from there: seven loads and fourteen stores cover all
 * pairs of types.
 */
#include "kernels/convert.h"

#include <string.h>

#include "kernels/half.h"

enum { BLOCK = 256 };

typedef union wide {
    double f[BLOCK];
    int64_t i[BLOCK];
} wide;

static bool is_integer(fv_dtype d) { return d == FV_I32 || d == FV_I64 || d == FV_U8; }

/* ---- rounding ------------------------------------------------------------------- */

static int64_t saturate(double x, double lo, double hi, int64_t min, int64_t max)
{
    if (x != x) return 0;
    if (x <= lo) return min;
    if (x >= hi) return max; /* hi may be one past `max` if that is not a double */
    return (int64_t)x;
}

static int64_t clip(int64_t x, int64_t min, int64_t max)
{
    return x < min ? min : x > max ? max : x;
}

/* An integer as a float of 24 bits with a sticky last bit (see fv_f64_to_f32_odd). */
static float i64_to_f32_odd(int64_t x)
{
    const uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    double d = (double)size;
    if (size >> 53) d = (double)((size >> 11) | ((size & 2047u) != 0)) * 2048.0;
    return fv_f64_to_f32_odd(x < 0 ? -d : d);
}

/* ---- loads and stores ----------------------------------------------------------- */

#define LOAD(type, member, expr)                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const type v = ((const type *)in)[i * stride];                                             \
        to->member[i] = (expr);                                                                    \
    }                                                                                              \
    break

static void load(int64_t n, wide *to, fv_dtype from, const void *in, int64_t stride)
{
    switch (from) {
    case FV_F32:
        LOAD(float, f, (double)v);
    case FV_F64:
        LOAD(double, f, v);
    case FV_BF16:
        LOAD(uint16_t, f, (double)fv_bf16_to_f32(v));
    case FV_F16:
        LOAD(uint16_t, f, (double)fv_f16_to_f32(v));
    case FV_I32:
        LOAD(int32_t, i, v);
    case FV_I64:
        LOAD(int64_t, i, v);
    case FV_U8:
        LOAD(uint8_t, i, v);
    case FV_DTYPE_COUNT:
        break;
    }
}

#define STORE(type, expr)                                                                          \
    for (int64_t i = 0; i < n; i++)                                                                \
        ((type *)out)[i * stride] = (type)(expr);                                                  \
    break

static void store_float(int64_t n, fv_dtype to, void *out, int64_t stride, const double *from)
{
    switch (to) {
    case FV_F32:
        STORE(float, from[i]);
    case FV_F64:
        STORE(double, from[i]);
    case FV_BF16:
        STORE(uint16_t, fv_f32_to_bf16(fv_f64_to_f32_odd(from[i])));
    case FV_F16:
        STORE(uint16_t, fv_f32_to_f16(fv_f64_to_f32_odd(from[i])));
    case FV_I32:
        STORE(int32_t, saturate(from[i], INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX));
    case FV_I64:
        STORE(int64_t, saturate(from[i], -0x1p63, 0x1p63, INT64_MIN, INT64_MAX));
    case FV_U8:
        STORE(uint8_t, saturate(from[i], 0, UINT8_MAX, 0, UINT8_MAX));
    case FV_DTYPE_COUNT:
        break;
    }
}

static void store_integer(int64_t n, fv_dtype to, void *out, int64_t stride, const int64_t *from)
{
    switch (to) {
    case FV_F32:
        STORE(float, from[i]);
    case FV_F64:
        STORE(double, from[i]);
    case FV_BF16:
        STORE(uint16_t, fv_f32_to_bf16(i64_to_f32_odd(from[i])));
    case FV_F16:
        STORE(uint16_t, fv_f32_to_f16(i64_to_f32_odd(from[i])));
    case FV_I32:
        STORE(int32_t, clip(from[i], INT32_MIN, INT32_MAX));
    case FV_I64:
        STORE(int64_t, from[i]);
    case FV_U8:
        STORE(uint8_t, clip(from[i], 0, UINT8_MAX));
    case FV_DTYPE_COUNT:
        break;
    }
}

/* float <-> bf16 and f16, which matter for speed, without the wide type. */
static bool narrow(int64_t n, fv_dtype to, uint16_t *out, int64_t out_stride, const float *in,
                   int64_t in_stride)
{
    if (to == FV_BF16) {
        for (int64_t i = 0; i < n; i++)
            out[i * out_stride] = fv_f32_to_bf16(in[i * in_stride]);
        return true;
    }
    if (to == FV_F16) {
        for (int64_t i = 0; i < n; i++)
            out[i * out_stride] = fv_f32_to_f16(in[i * in_stride]);
        return true;
    }
    return false;
}

static bool widen(int64_t n, float *out, int64_t out_stride, fv_dtype from, const uint16_t *in,
                  int64_t in_stride)
{
    if (from == FV_BF16) {
        for (int64_t i = 0; i < n; i++)
            out[i * out_stride] = fv_bf16_to_f32(in[i * in_stride]);
        return true;
    }
    if (from == FV_F16) {
        for (int64_t i = 0; i < n; i++)
            out[i * out_stride] = fv_f16_to_f32(in[i * in_stride]);
        return true;
    }
    return false;
}

void fv_convert(int64_t n, fv_dtype to, void *out, int64_t out_stride, fv_dtype from,
                const void *in, int64_t in_stride)
{
    if (from == FV_F32 && narrow(n, to, out, out_stride, in, in_stride)) return;
    if (to == FV_F32 && widen(n, out, out_stride, from, in, in_stride)) return;
    wide block;
    char *o = out;
    const char *p = in;
    const int64_t out_bytes = out_stride * (int64_t)fv_dtype_size(to);
    const int64_t in_bytes = in_stride * (int64_t)fv_dtype_size(from);
    for (int64_t done = 0; done < n; done += BLOCK) {
        const int64_t count = n - done < BLOCK ? n - done : BLOCK;
        load(count, &block, from, p + done * in_bytes, in_stride);
        if (is_integer(from))
            store_integer(count, to, o + done * out_bytes, out_stride, block.i);
        else
            store_float(count, to, o + done * out_bytes, out_stride, block.f);
    }
}
