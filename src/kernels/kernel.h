/*
 * Kernels are data. A kernel is a function over raw pointers and a plain argument struct;
 * kernels.def lists each once. A table holds one function per (kernel, element type), filled scalar
 * -> AVX2 -> AVX-512 when a context is created.
 *
 * Rules that every kernel follows (docs/architecture.md, "Bits"):
 *   - it never allocates, fails or prints; a bad index is reported through exec->fault and its row
 *     becomes zero;
 *   - the bits of an output row depend only on that row's inputs and the reduced length, never on
 *     how the work is divided among threads;
 *   - matrix products: one FMA chain per element, k ascending;
 *   - every other float sum: element r goes to lane r % 16, each lane adds in ascending r, and the
 *     lanes are summed as a tree (i += i+8, then +4, +2, +1): FV_LANES;
 *   - the scalar, AVX2 and AVX-512 versions of an f32 kernel give equal bits.
 */
#ifndef FV_KERNELS_KERNEL_H
#define FV_KERNELS_KERNEL_H

#include <stdatomic.h>

#include "base/team.h"
#include "fovea/tensor.h"

enum { FV_LANES = 16 };

/* The first bad index of a launch; the device reads it afterwards. */
typedef struct fv_fault {
    atomic_int set; /* 0, or 1 once a thread has set index and bound */
    int64_t index, bound;
} fv_fault;

/* What a kernel may use besides its arguments. */
typedef struct fv_exec {
    fv_parallel_fn parallel;
    void *user;
    int threads;
    const struct fv_kernel_table *table; /* whose kernels a kernel may run on a part of its work */
    void *scratch; /* 64-byte aligned, of the size that the kernel's scratch query returned */
    fv_fault *fault;
    unsigned dropped; /* test hook; bit k set: leave out additive term k of the backward */
} fv_exec;

/* Wraps additive term k of a backward, so that the test build can drop it and prove that the
 * gradient check notices. Terms are numbered from 0 within one op. `zero` is a zero of the term's
 * type. */
#if defined FV_TEST_HOOKS
#define FV_TERM(exec, k, expr, zero) (((exec)->dropped >> (k)) & 1u ? (zero) : (expr))
#elif defined FV_WITHOUT_HOOKS
/* The product and the test library share this object, so the term could not be dropped. */
__attribute__((error("a file that uses FV_TERM belongs in FV_HOOK_SOURCES (CMakeLists.txt)"))) void
fv_term_without_hook(void);
#define FV_TERM(exec, k, expr, zero) (fv_term_without_hook(), (expr))
#else
#define FV_TERM(exec, k, expr, zero) (expr)
#endif

typedef void (*fv_kernel_fn)(const fv_exec *exec, void *const *ptr, const void *args);

typedef enum fv_kernel_id {
#define FV_KERNEL(id, name, pointers, about) FV_KERNEL_##id,
#include "kernels/kernels.def"
#undef FV_KERNEL
    FV_KERNEL_COUNT
} fv_kernel_id;

enum { FV_KERNEL_MAX_PTR = 24 };

typedef struct fv_kernel_info {
    const char *name;
    int pointers; /* number of entries of ptr[]; entries may be NULL */
} fv_kernel_info;

extern const fv_kernel_info fv_kernel_infos[FV_KERNEL_COUNT];

typedef struct fv_kernel_table {
    fv_kernel_fn fn[FV_KERNEL_COUNT][FV_DTYPE_COUNT]; /* NULL: not supported for this dtype */
    size_t (*scratch[FV_KERNEL_COUNT])(const void *args, int threads); /* NULL: none */
    /* Of the reference kernels, which serve the dtypes that a level does not implement, such as
     * double. */
    size_t (*ref_scratch[FV_KERNEL_COUNT])(const void *args, int threads);
    /* Of the kernels of kernels/bf16.h, in addition. */
    size_t (*bf16_scratch[FV_KERNEL_COUNT])(const void *args, int threads);
    /* n bf16 numbers as floats, and floats rounded to bf16, to nearest even. */
    void (*widen)(int64_t n, const uint16_t *in, float *out);
    void (*narrow)(int64_t n, const float *in, uint16_t *out);
    fv_simd level;
} fv_kernel_table;

/* Fills the table with the best kernels up to `level`. */
void fv_kernel_table_register(fv_kernel_table *table, fv_simd level);

/* Runs fn over the rows in parallel, in chunks of a fixed amount of work; short runs stay on the
 * calling thread. cost: rough number of element operations per row. */
static inline void fv_exec_rows(const fv_exec *exec, int64_t rows, int64_t cost, fv_range_fn fn,
                                const void *arg)
{
    enum { CHUNK = 16384 };
    if (rows <= 0) return;
    int64_t grain = cost > 0 ? (CHUNK + cost - 1) / cost : CHUNK;
    if (exec->threads <= 1 || rows <= grain)
        fn(arg, 0, rows, 0);
    else
        exec->parallel(exec->user, rows, grain, fn, arg);
}

/* The same for rows of `floats` that do not fit into the caches. Kernels prefetch past the current
 * row, and the prefetched data should be the thread's own: chunks of a megabyte, as long as every
 * thread gets some. */
static inline void fv_exec_stream(const fv_exec *exec, int64_t rows, int64_t floats, fv_range_fn fn,
                                  const void *arg)
{
    enum { CHUNK = 1 << 18, CHUNKS_PER_THREAD = 4 };
    const int64_t fair = rows / ((int64_t)exec->threads * CHUNKS_PER_THREAD);
    int64_t grain = floats > 0 ? CHUNK / floats : CHUNK;
    if (grain > fair) grain = fair;
    if (grain < 1) grain = 1;
    if (exec->threads <= 1)
        fn(arg, 0, rows, 0);
    else
        exec->parallel(exec->user, rows, grain, fn, arg);
}

/* Runs fn on a team of at most `members` threads (base/team.h). */
static inline void fv_exec_team(const fv_exec *exec, int64_t members, fv_team_fn fn,
                                const void *arg)
{
    const int64_t threads = members < exec->threads ? members : exec->threads;
    fv_team_run(exec->parallel, exec->user, (int)threads, fn, arg);
}

/* Records the first index outside [0, bound). */
static inline void fv_fault_raise(fv_fault *fault, int64_t index, int64_t bound)
{
    int expected = 0;
    if (fault && atomic_compare_exchange_strong(&fault->set, &expected, 1)) {
        fault->index = index;
        fault->bound = bound;
    }
}

#endif
