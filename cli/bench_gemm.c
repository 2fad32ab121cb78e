/*
 * fovea bench gemm: matrix products of the sizes models have, compared with OpenBLAS and oneDNN if
 * installed. They are loaded at run time: nothing is linked, nothing is required.
 *
 * Candidates are interleaved and use the same number of threads. A share is relative to the
 * multiply-adds this machine can do; for one row, whose time is that of reading B, to the memory
 * bandwidth.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fovea/kernels.h"
#include "output.h"

/* ---- peers ---------------------------------------------------------------------- */

enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANS = 111, CBLAS_TRANS = 112 };

typedef void cblas_sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha,
                            const float *a, int lda, const float *b, int ldb, float beta, float *c,
                            int ldc);
typedef int dnnl_sgemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha,
                          const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                          float *c, int64_t ldc);
typedef void set_threads_fn(int threads);

typedef struct peers {
    cblas_sgemm_fn *openblas; /* NULL where absent */
    set_threads_fn *openblas_threads;
    dnnl_sgemm_fn *onednn;
    set_threads_fn *openmp_threads; /* oneDNN's */
} peers;

static void *open_any(const char *const *names)
{
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    return NULL;
}

/* The libraries stay open: their threads may outlive the suite. */
static peers find_peers(void)
{
    /* Idle threads of a peer must not spin while another candidate is timed. */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    void *blas = open_any((const char *const[]){"libopenblas.so.0", "libopenblas.so", NULL});
    void *dnnl =
        open_any((const char *const[]){"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so", NULL});
    peers found = {0};
    if (blas) {
        *(void **)&found.openblas = dlsym(blas, "cblas_sgemm");
        *(void **)&found.openblas_threads = dlsym(blas, "openblas_set_num_threads");
    }
    if (dnnl) {
        *(void **)&found.onednn = dlsym(dnnl, "dnnl_sgemm");
        *(void **)&found.openmp_threads = dlsym(dnnl, "omp_set_num_threads");
    }
    return found;
}

/* ---- one product ---------------------------------------------------------------- */

typedef struct product {
    const char *name;
    int m, n, k;
    bool ta, tb; /* stored transposed */
    bool packed; /* ours reads weights packed beforehand */
    bool i8;     /* ... as int8 */
    bool bf16;   /* bf16 in memory; a share is relative to bf16 dot products */
    int batch;   /* only ours is measured if this is above 1, or with bf16 or int8 */
} product;

typedef struct job {
    product p;
    const peers *peers;
    fv_gemm gemm;
    fv_gemm_exec exec;
    float *a, *b, *c;
    void *panels, *scratch;
    size_t scratch_bytes;
    fv_status status;
} job;

static void call_ours(void *arg)
{
    job *j = arg;
    fv_status status = fv_gemm_run(&j->gemm, j->a, j->p.packed ? j->panels : j->b, &j->exec,
                                   j->scratch, j->scratch_bytes, j->c);
    if (status != FV_OK) j->status = status;
}

static void call_openblas(void *arg)
{
    job *j = arg;
    const product *p = &j->p;
    j->peers->openblas(CBLAS_ROW_MAJOR, p->ta ? CBLAS_TRANS : CBLAS_NO_TRANS,
                       p->tb ? CBLAS_TRANS : CBLAS_NO_TRANS, p->m, p->n, p->k, 1, j->a,
                       p->ta ? p->m : p->k, j->b, p->tb ? p->k : p->n, 0, j->c, p->n);
}

static void call_onednn(void *arg)
{
    job *j = arg;
    const product *p = &j->p;
    j->peers->onednn(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n, p->k, 1, j->a,
                     p->ta ? p->m : p->k, j->b, p->tb ? p->k : p->n, 0, j->c, p->n);
}

static float *operand(int64_t floats, bool *ok)
{
    float *x = bench_alloc((size_t)floats * sizeof(float));
    if (!x) {
        *ok = false;
        return NULL;
    }
    uint32_t state = 1;
    for (int64_t i = 0; i < floats; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}

/* Floats become bf16 in place, by their upper halves. */
static void shorten(float *x, int64_t count)
{
    uint16_t *words = (uint16_t *)(void *)x;
    for (int64_t i = 0; i < count; i++)
        words[i] = words[2 * i + 1];
}

static void job_free(job *j)
{
    free(j->a);
    free(j->b);
    free(j->c);
    free(j->panels);
    free(j->scratch);
}

static bool job_make(const product *p, const peers *found, fv_simd level, fv_pool *pool,
                     int threads, job *j)
{
    const int64_t m = p->m, n = p->n, k = p->k, batch = p->batch > 1 ? p->batch : 1;
    *j = (job){.p = *p, .peers = found, .exec = {.level = level, .pool = pool}};
    j->gemm = (fv_gemm){.m = m,
                        .n = n,
                        .k = k,
                        .a_row = p->ta ? 1 : k,
                        .a_col = p->ta ? m : 1,
                        .b_row = p->tb ? 1 : n,
                        .b_col = p->tb ? k : 1,
                        .c_row = n,
                        .batch = batch,
                        .b_packed = p->packed,
                        .b_form = p->i8 ? FV_WEIGHT_I8 : FV_WEIGHT_F32,
                        .bf16 = p->bf16};
    if (p->bf16) j->gemm.stored_bf16 = FV_GEMM_STORED_A | FV_GEMM_STORED_C;
    if (p->bf16 && !p->packed) j->gemm.stored_bf16 |= FV_GEMM_STORED_B;
    if (batch > 1) {
        j->gemm.batch_rank = 1;
        j->gemm.batch_shape[0] = batch;
        j->gemm.a_batch[0] = m * k;
        j->gemm.b_batch[0] = k * n;
        j->gemm.c_batch[0] = m * n;
    }
    bool ok = true;
    j->a = operand(batch * m * k, &ok);
    j->b = operand(batch * k * n, &ok);
    j->c = operand(batch * m * n, &ok);
    if (ok && p->bf16) {
        shorten(j->a, batch * m * k);
        if (!p->packed) shorten(j->b, batch * k * n);
        shorten(j->c, batch * m * n);
    }
    j->scratch_bytes = fv_gemm_scratch(&j->gemm, threads);
    j->scratch = bench_alloc(j->scratch_bytes + 64);
    if (p->packed) {
        const fv_weight_form form = j->gemm.b_form;
        j->panels = bench_alloc(fv_gemm_packed_bytes(k, n, form));
        ok = ok && j->panels &&
             fv_gemm_pack_as(k, n, j->b, j->gemm.b_row, j->gemm.b_col, form, j->panels) == FV_OK;
    }
    if (ok && j->scratch) return true;
    job_free(j);
    cli_error("bench: not enough memory for a product of %d x %d x %d", p->m, p->n, p->k);
    return false;
}

/* Ours against every installed peer, in one measurement. */
static int bench_product(bench_run *run, const product *p, const peers *found, fv_pool *pool,
                         int threads)
{
    job j;
    if (!job_make(p, found, run->level, pool, threads, &j)) return CLI_FAILED;
    bench_case cases[3] = {{.call = call_ours, .arg = &j}};
    int count = 1, openblas = 0, onednn = 0;
    const bool compared = p->batch <= 1 && !p->bf16 && !p->i8;
    if (found->openblas && compared) {
        openblas = count;
        cases[count++] = (bench_case){.call = call_openblas, .arg = &j};
    }
    if (found->onednn && compared) {
        onednn = count;
        cases[count++] = (bench_case){.call = call_onednn, .arg = &j};
    }
    const bool reads = p->m == 1;
    bench_request ask = {.cases = cases,
                         .count = count,
                         .limit = reads     ? BENCH_READ
                                  : p->bf16 ? BENCH_DOT_BF16
                                            : BENCH_FMA_F32,
                         .threads = threads,
                         .level = run->level};
    bench_result got;
    const bool measured = bench_measure(run, &ask, &got);
    const fv_status status = j.status;
    job_free(&j);
    if (status != FV_OK) {
        cli_error("bench: product failed: %s", fv_status_name(status));
        return cli_exit_code(status);
    }
    if (!measured) return CLI_INTERRUPTED;

    bench_line line = bench_line_of("gemm", p->name, &ask, &got);
    static const char *const trans[] = {"nn", "nt", "tn", "tt"};
    line.m = p->m;
    line.n = p->n;
    line.k = p->k;
    line.trans = trans[2 * p->ta + p->tb];
    if (p->bf16) line.dtype = "bf16";
    if (p->i8) line.dtype = "i8";
    if (p->batch > 1) line.batch = p->batch;
    const double products = p->batch > 1 ? p->batch : 1;
    const double flops = 2.0 * products * p->m * p->n * p->k;
    bench_line_rate(&line, BENCH_GFLOPS, flops, got.seconds[0], (double)NAN);
    if (reads)
        line.share =
            (p->i8 ? 1.0 : 4.0) * products * p->n * p->k / got.seconds[0] / (1e9 * got.limit);
    else
        line.share = line.rate / got.limit;
    if (openblas) line.vs_openblas = got.seconds[openblas] / got.seconds[0];
    if (onednn) line.vs_onednn = got.seconds[onednn] / got.seconds[0];
    bench_print(run, &line);
    return CLI_DONE;
}

/* ---- the suite ------------------------------------------------------------------ */

#define I8_PRODUCT(title, rows, columns, inner, half)                                              \
    {                                                                                              \
        .name = (title), .m = (rows), .n = (columns), .k = (inner), .packed = true, .i8 = true,    \
        .bf16 = (half)                                                                             \
    }
#define I8_PRODUCTS(title, half)                                                                   \
    I8_PRODUCT(title, 1, 3072, 768, half), I8_PRODUCT(title, 1, 8192, 4096, half),                 \
        I8_PRODUCT(title, 4, 3072, 768, half), I8_PRODUCT(title, 16, 3072, 768, half),             \
        I8_PRODUCT(title, 64, 3072, 768, half), I8_PRODUCT(title, 256, 3072, 768, half),           \
        I8_PRODUCT(title, 256, 768, 3072, half), I8_PRODUCT(title, 2048, 3072, 768, half)

/* The first of each group is what --quick measures. */
static const product products[] = {
    {.name = "cube", .m = 1024, .n = 1024, .k = 1024},
    {.name = "tiny", .m = 64, .n = 64, .k = 64},
    {.name = "scores", .m = 512, .n = 512, .k = 64, .tb = true},
    {.name = "linear", .m = 512, .n = 768, .k = 3072},
    {.name = "few", .m = 16, .n = 768, .k = 768},
    {.name = "row_packed", .m = 1, .n = 768, .k = 3072, .packed = true},
    {.name = "row_packed_far", .m = 1, .n = 8192, .k = 4096, .packed = true},
    {.name = "weight_grad", .m = 768, .n = 768, .k = 256, .ta = true},
    {.name = "batch", .m = 64, .n = 64, .k = 64, .batch = 96},
    {.name = "tiny", .m = 64, .n = 64, .k = 64, .tb = true},
    {.name = "scores", .m = 128, .n = 128, .k = 64, .tb = true},
    {.name = "scores", .m = 512, .n = 512, .k = 64},
    {.name = "values", .m = 512, .n = 64, .k = 512},
    {.name = "cube", .m = 256, .n = 256, .k = 256},
    {.name = "cube", .m = 2048, .n = 2048, .k = 2048},
    {.name = "linear", .m = 1024, .n = 768, .k = 768},
    {.name = "linear", .m = 256, .n = 3072, .k = 768},
    {.name = "linear", .m = 256, .n = 768, .k = 3072},
    {.name = "linear", .m = 256, .n = 768, .k = 768, .tb = true},
    {.name = "few", .m = 8, .n = 3072, .k = 768},
    {.name = "row", .m = 1, .n = 768, .k = 3072},
    {.name = "row", .m = 1, .n = 768, .k = 768},
    {.name = "row_packed", .m = 1, .n = 768, .k = 768, .tb = true, .packed = true},
    {.name = "skinny", .m = 4096, .n = 64, .k = 64},
    {.name = "weight_grad", .m = 768, .n = 3072, .k = 256, .ta = true},
    {.name = "batch", .m = 128, .n = 128, .k = 64, .tb = true, .batch = 48},
    /* The linear layers of GPT-2 124M, for a batch in training and for a prompt. */
    {.name = "linear_bf16", .m = 2048, .n = 2304, .k = 768, .tb = true, .bf16 = true},
    {.name = "linear_bf16", .m = 2048, .n = 768, .k = 768, .tb = true, .bf16 = true},
    {.name = "linear_bf16", .m = 2048, .n = 3072, .k = 768, .tb = true, .bf16 = true},
    {.name = "linear_bf16", .m = 2048, .n = 768, .k = 3072, .tb = true, .bf16 = true},
    {.name = "linear_bf16", .m = 256, .n = 2304, .k = 768, .tb = true, .bf16 = true},
    {.name = "linear_bf16", .m = 256, .n = 768, .k = 768, .tb = true, .bf16 = true},
    {.name = "linear_bf16", .m = 256, .n = 3072, .k = 768, .tb = true, .bf16 = true},
    {.name = "linear_bf16", .m = 256, .n = 768, .k = 3072, .tb = true, .bf16 = true},
    /* int8 weights times float activations, and times bf16 ones: a token of one sequence, of a few
     * and of many, and a prompt. */
    I8_PRODUCTS("linear_i8", false),
    I8_PRODUCTS("linear_i8_bf16", true),
};
enum { QUICK_PRODUCTS = 9 };

static int bench_with_threads(bench_run *run, const peers *found, int threads)
{
    fv_pool *pool = NULL;
    if (threads > 1 && fv_pool_create(threads, &pool) != FV_OK) {
        cli_error("bench: cannot start %d threads", threads);
        return CLI_FAILED;
    }
    if (found->openblas_threads) found->openblas_threads(threads);
    if (found->openmp_threads) found->openmp_threads(threads);
    int code = CLI_DONE;
    const int count = run->quick ? QUICK_PRODUCTS : CLI_COUNT(products);
    for (int i = 0; i < count && code == CLI_DONE; i++)
        if (bench_wanted(run, products[i].name))
            code = bench_product(run, &products[i], found, pool, threads);
    fv_pool_destroy(&pool);
    return code;
}

int bench_gemm(bench_run *run)
{
    peers found = find_peers();
    int counts[2], code = CLI_DONE;
    const int times = bench_thread_counts(run, counts);
    for (int i = 0; i < times && code == CLI_DONE; i++)
        code = bench_with_threads(run, &found, counts[i]);
    return code;
}
