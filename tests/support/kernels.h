/*
 * Calls kernels directly from a table, without tensors or a context.
 *
 *     vec x = vec_random(FV_F32, 10, -1, 1), y = vec_new(FV_F32, 10);
 *     fv_elementwise_args m = {.op = FV_UNARY_EXP, .rank = 1, .shape = {10}, .stride = {{1}, {1}}};
 *     kernel_run(FV_KERNEL_UNARY, FV_F32, PTRS(y.data, x.data), &m);
 *     CHECK_VALUE(y, 0, exp(vec_get(x, 0)));
 *     vec_free_all();
 *
 * Every vector is its own exact heap block, so that a sanitizer notices an access past its end.
 */
#ifndef FV_TEST_KERNELS_H
#define FV_TEST_KERNELS_H

#include "kernels/kernel.h"
#include "support/test.h"

typedef struct vec {
    fv_dtype dtype;
    int64_t n;
    void *data;
} vec;

vec vec_new(fv_dtype dtype, int64_t n); /* every byte 0xff: NaN, -1 or 255 */
vec vec_random(fv_dtype dtype, int64_t n, double lo, double hi);
vec vec_of(fv_dtype dtype, int64_t n, const double *values);
#define VEC_OF(dtype, ...)                                                                         \
    vec_of((dtype), (int64_t)(sizeof(double[]){__VA_ARGS__} / sizeof(double)),                     \
           (const double[]){__VA_ARGS__})
vec vec_copy(vec v);
bool vec_same_bits(vec a, vec b);
void vec_free_all(void);

double vec_get_any(vec v, int64_t i); /* any but floats and doubles */
void vec_set_any(vec v, int64_t i, double x);

/* Element i as a double, and a double as element i. Checks spend their time here, so floats and
 * doubles, the common case, are inlined, even where a sanitizer makes these functions long. */
#define VEC_INLINE static inline __attribute__((always_inline))

VEC_INLINE double vec_get(vec v, int64_t i)
{
    if (v.dtype == FV_F32) return (double)((const float *)v.data)[i];
    if (v.dtype == FV_F64) return ((const double *)v.data)[i];
    return vec_get_any(v, i);
}

VEC_INLINE void vec_set(vec v, int64_t i, double x)
{
    if (v.dtype == FV_F32)
        ((float *)v.data)[i] = (float)x;
    else if (v.dtype == FV_F64)
        ((double *)v.data)[i] = x;
    else
        vec_set_any(v, i, x);
}

#define PTRS(...) ((void *const[FV_KERNEL_MAX_PTR]){__VA_ARGS__})

/* What kernel_run uses: set by the test's main or by a test that compares settings. */
typedef struct kernel_setup {
    fv_kernel_table table;
    fv_pool *pool;    /* NULL: serial */
    unsigned dropped; /* terms to leave out */
} kernel_setup;

extern kernel_setup setup;

/* Fills setup.table for `level`, serial. */
void kernel_level(fv_simd level);

/* Runs one kernel; returns whether it raised a fault, with *fault filled if not NULL. */
bool kernel_run(fv_kernel_id id, fv_dtype dtype, void *const *ptr, const void *args);
bool kernel_run_fault(fv_kernel_id id, fv_dtype dtype, void *const *ptr, const void *args,
                      fv_fault *fault);

/* Equal, both NaN, or within a relative and absolute 3e-6 (f32) or 1e-12 (f64). */
bool vec_near(vec v, int64_t i, double expected);
#define CHECK_VALUE(v, i, expected)                                                                \
    do {                                                                                           \
        const int64_t i_ = (i);                                                                    \
        const double e_ = (expected);                                                              \
        if (!vec_near((v), i_, e_))                                                                \
            test_failed(__FILE__, __LINE__, "%s[%lld] (%s) is %.9g, not %.9g", #v, (long long)i_,  \
                        fv_dtype_name((v).dtype), vec_get((v), i_), e_);                           \
    } while (0)

/* Runs fn for f32 and f64 at every level this CPU has. */
void for_reals(void (*fn)(fv_dtype dtype));

#endif
