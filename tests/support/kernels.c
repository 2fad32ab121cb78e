#include "support/kernels.h"

#include "kernels/half.h"

enum { MAX_VECS = 1024 };

kernel_setup setup;
static void *blocks[MAX_VECS];
static int block_count;
static uint64_t random_state = 1;

vec vec_new(fv_dtype dtype, int64_t n)
{
    const size_t bytes = (size_t)n * fv_dtype_size(dtype);
    vec v = {dtype, n, malloc(bytes ? bytes : 1)};
    if (!v.data || block_count == MAX_VECS) {
        fprintf(stderr, "out of memory for a test vector\n");
        exit(1);
    }
    memset(v.data, 0xff, bytes);
    blocks[block_count++] = v.data;
    return v;
}

void vec_free_all(void)
{
    while (block_count > 0)
        free(blocks[--block_count]);
}

double vec_get_any(vec v, int64_t i)
{
    switch (v.dtype) {
    case FV_I32:
        return ((const int32_t *)v.data)[i];
    case FV_I64:
        return (double)((const int64_t *)v.data)[i];
    case FV_U8:
        return ((const uint8_t *)v.data)[i];
    case FV_BF16:
        return (double)fv_bf16_to_f32(((const uint16_t *)v.data)[i]);
    case FV_F16:
        return (double)fv_f16_to_f32(((const uint16_t *)v.data)[i]);
    default:
        return NAN;
    }
}

void vec_set_any(vec v, int64_t i, double x)
{
    switch (v.dtype) {
    case FV_I32:
        ((int32_t *)v.data)[i] = (int32_t)x;
        break;
    case FV_I64:
        ((int64_t *)v.data)[i] = (int64_t)x;
        break;
    case FV_U8:
        ((uint8_t *)v.data)[i] = (uint8_t)x;
        break;
    case FV_BF16:
        ((uint16_t *)v.data)[i] = fv_f32_to_bf16(fv_f64_to_f32_odd(x));
        break;
    case FV_F16:
        ((uint16_t *)v.data)[i] = fv_f32_to_f16(fv_f64_to_f32_odd(x));
        break;
    default:
        break;
    }
}

vec vec_random(fv_dtype dtype, int64_t n, double lo, double hi)
{
    vec v = vec_new(dtype, n);
    for (int64_t i = 0; i < n; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        vec_set(v, i, lo + (hi - lo) * (double)(random_state >> 11) * 0x1p-53);
    }
    return v;
}

vec vec_of(fv_dtype dtype, int64_t n, const double *values)
{
    vec v = vec_new(dtype, n);
    for (int64_t i = 0; i < n; i++)
        vec_set(v, i, values[i]);
    return v;
}

vec vec_copy(vec v)
{
    vec c = vec_new(v.dtype, v.n);
    memcpy(c.data, v.data, (size_t)v.n * fv_dtype_size(v.dtype));
    return c;
}

bool vec_same_bits(vec a, vec b)
{
    return a.dtype == b.dtype && a.n == b.n &&
           memcmp(a.data, b.data, (size_t)a.n * fv_dtype_size(a.dtype)) == 0;
}

bool vec_near(vec v, int64_t i, double expected)
{
    const double got = vec_get(v, i);
    if (isnan(expected)) return isnan(got);
    if (got == expected) return true;
    const double tolerance = v.dtype == FV_F64 ? 1e-12 : 3e-6;
    return fabs(got - expected) <= tolerance * (1 + fabs(expected));
}

void kernel_level(fv_simd level)
{
    setup.pool = NULL;
    setup.dropped = 0;
    fv_kernel_table_register(&setup.table, level);
}

static void parallel(void *user, int64_t units, int64_t grain, fv_range_fn fn, const void *arg)
{
    fv_pool_run(user, units, grain, fn, arg);
}

bool kernel_run_fault(fv_kernel_id id, fv_dtype dtype, void *const *ptr, const void *args,
                      fv_fault *fault)
{
    fv_exec exec = {.parallel = parallel,
                    .user = setup.pool,
                    .threads = fv_pool_threads(setup.pool),
                    .table = &setup.table,
                    .fault = fault};
#ifdef FV_TEST_HOOKS
    exec.dropped = setup.dropped;
#endif
    const fv_kernel_table *t = &setup.table;
    size_t (*query)(const void *, int) = (dtype == FV_F64 ? t->ref_scratch : t->scratch)[id];
    if (dtype == FV_BF16 && t->bf16_scratch[id]) query = t->bf16_scratch[id];
    size_t bytes = query ? query(args, exec.threads) : 0;
    bytes = (bytes + 63) / 64 * 64;
    void *scratch = aligned_alloc(64, bytes ? bytes : 64);
    if (!scratch || !setup.table.fn[id][dtype]) {
        test_failed(__FILE__, __LINE__, "kernel %s cannot run", fv_kernel_infos[id].name);
    } else {
        exec.scratch = scratch;
        setup.table.fn[id][dtype](&exec, ptr, args);
    }
    free(scratch);
    return atomic_load(&fault->set) != 0;
}

bool kernel_run(fv_kernel_id id, fv_dtype dtype, void *const *ptr, const void *args)
{
    fv_fault fault = {0};
    return kernel_run_fault(id, dtype, ptr, args, &fault);
}

void for_reals(void (*fn)(fv_dtype dtype))
{
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++) {
        kernel_level((fv_simd)level);
        const int before = test_failures();
        fn(FV_F32);
        vec_free_all();
        fn(FV_F64);
        vec_free_all();
        if (test_failures() > before)
            fprintf(stderr, "  ... at level %s\n", fv_simd_name((fv_simd)level));
    }
}
