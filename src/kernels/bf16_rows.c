/* Kernels over rows of bf16 (kernels/bf16.h): a few rows at a time through the thread's scratch. */
#include <string.h>

#include "base/checked_math.h"
#include "kernels/bf16.h"
#include "kernels/index.h"
#include "kernels/random.h"
#include "kernels/rows.h"

/* The size of a block: floats of each operand, but at least a row; and the largest number of rows.
 */
enum { BLOCK_FLOATS = 4096, BLOCK_ROWS = 64, MATRICES = 3, POINTERS = 6, ARGS_BYTES = 64 };

/* What a pointer of a kernel is. */
typedef enum role {
    SHARED,     /* the same for every row */
    OUT,        /* [rows, cols] of bf16, written */
    IN,         /* [rows, cols] of bf16, read */
    ROW_FLOAT,  /* a float per row */
    ROW_NUMBER, /* an int64_t per row */
} role;

/* Every argument struct of these kernels begins with its rows and columns. */
typedef struct row_size {
    int64_t rows, cols;
} row_size;

typedef struct row_job {
    fv_exec serial;
    fv_kernel_fn run;
    void *const *ptr;
    int pointers;
    const role *roles;
    const void *args;
    size_t args_bytes;
    row_size size;
    int64_t block, floats; /* rows of a block; floats of each buffer */
    const fv_draw *draw;   /* DROPOUT without a table of numbers */
} row_job;

static int64_t block_rows(row_size size)
{
    const int64_t fit = size.cols > 0 ? BLOCK_FLOATS / size.cols : BLOCK_ROWS;
    return fit < 1 ? 1 : fit > BLOCK_ROWS ? BLOCK_ROWS : fit;
}

static int64_t buffer_floats(row_size size)
{
    const int64_t floats = block_rows(size) * size.cols;
    return (floats + FV_LANES - 1) / FV_LANES * FV_LANES;
}

static size_t rows_scratch(const void *args, int threads)
{
    size_t bytes;
    const size_t floats = (size_t)buffer_floats(*(const row_size *)args);
    if (!fv_checked_mul_size(floats, MATRICES * sizeof(float) * (size_t)threads, &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Runs the float kernel on rows [first, first + rows). */
static void run_block(const row_job *job, int64_t first, int64_t rows, float *buffer)
{
    const fv_kernel_table *table = job->serial.table;
    const int64_t cols = job->size.cols, at = first * cols, n = rows * cols;
    _Alignas(16) unsigned char args[ARGS_BYTES];
    memcpy(args, job->args, job->args_bytes);
    memcpy(args, &(row_size){rows, cols}, sizeof(row_size));
    void *ptr[POINTERS] = {NULL};
    int64_t numbers[BLOCK_ROWS];
    for (int p = 0; p < job->pointers; p++) {
        char *base = job->ptr[p];
        ptr[p] = base;
        if (p == job->pointers - 1 && job->draw) {
            for (int64_t i = 0; i < rows; i++)
                numbers[i] = (int64_t)fv_draw_number(job->draw, NULL, first + i);
            ptr[p] = numbers;
        }
        if (!base) continue;
        if (job->roles[p] == ROW_FLOAT) ptr[p] = (float *)(void *)base + first;
        if (job->roles[p] == ROW_NUMBER) ptr[p] = (int64_t *)(void *)base + first;
        if (job->roles[p] != OUT && job->roles[p] != IN) continue;
        ptr[p] = buffer;
        if (job->roles[p] == IN) table->widen(n, (const uint16_t *)(void *)base + at, buffer);
        buffer += job->floats;
    }
    job->run(&job->serial, ptr, args);
    /* OUT is the first pointer of each kernel that has one. */
    if (job->roles[0] == OUT) table->narrow(n, ptr[0], (uint16_t *)job->ptr[0] + at);
}

static void row_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    const row_job *job = arg;
    float *buffer = (float *)job->serial.scratch + thread * MATRICES * job->floats;
    for (int64_t block = begin; block < end; block++) {
        const int64_t first = block * job->block, left = job->size.rows - first;
        run_block(job, first, left < job->block ? left : job->block, buffer);
    }
}

static void run_rows(const fv_exec *exec, fv_kernel_id id, void *const *ptr, const void *args,
                     size_t args_bytes, const role *roles)
{
    const row_size size = *(const row_size *)args;
    row_job job = {.serial = fv_exec_serial(exec),
                   .run = exec->table->fn[id][FV_F32],
                   .ptr = ptr,
                   .pointers = fv_kernel_infos[id].pointers,
                   .roles = roles,
                   .args = args,
                   .args_bytes = args_bytes,
                   .size = size,
                   .block = block_rows(size),
                   .floats = buffer_floats(size)};
    if (id == FV_KERNEL_DROPOUT && !ptr[2]) job.draw = &((const fv_dropout_args *)args)->draw;
    fv_exec_rows(exec, (size.rows + job.block - 1) / job.block, 4 * job.block * size.cols,
                 row_range, &job);
}

#define ROWS(kernel, id, type, ...)                                                                \
    static void kernel(const fv_exec *exec, void *const *ptr, const void *args)                    \
    {                                                                                              \
        static const role roles[] = {__VA_ARGS__};                                                 \
        _Static_assert(sizeof(type) <= ARGS_BYTES, "the block's arguments");                       \
        run_rows(exec, id, ptr, args, sizeof(type), roles);                                        \
    }
ROWS(layer_norm, FV_KERNEL_LAYER_NORM, fv_norm_args, OUT, ROW_FLOAT, ROW_FLOAT, IN, SHARED, SHARED)
ROWS(layer_norm_grad, FV_KERNEL_LAYER_NORM_GRAD, fv_norm_args, OUT, IN, IN, ROW_FLOAT, ROW_FLOAT,
     SHARED)
ROWS(rms_norm, FV_KERNEL_RMS_NORM, fv_norm_args, OUT, ROW_FLOAT, IN, SHARED)
ROWS(rms_norm_grad, FV_KERNEL_RMS_NORM_GRAD, fv_norm_args, OUT, IN, IN, ROW_FLOAT, SHARED)
ROWS(cross_entropy, FV_KERNEL_CROSS_ENTROPY, fv_cross_entropy_args, ROW_FLOAT, ROW_FLOAT, IN,
     ROW_NUMBER)
ROWS(cross_entropy_grad, FV_KERNEL_CROSS_ENTROPY_GRAD, fv_cross_entropy_args, OUT, IN, ROW_FLOAT,
     ROW_NUMBER, SHARED)
ROWS(dropout, FV_KERNEL_DROPOUT, fv_dropout_args, OUT, IN, ROW_NUMBER)

/* ---- rotary positions ------------------------------------------------------------- */

typedef struct rotary_job {
    fv_exec serial;
    fv_kernel_fn run;
    void *const *ptr;
    const fv_rotary_args *args;
    float *scratch; /* a row and its angles, per thread */
} rotary_job;

static size_t rotary_scratch(const void *args, int threads)
{
    size_t bytes;
    const fv_rotary_args *a = args;
    if (!fv_checked_mul_size((size_t)(2 * a->width), sizeof(float) * (size_t)threads, &bytes))
        return SIZE_MAX;
    return bytes;
}

/* A work item is a row of x. */
static void rotary_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    const rotary_job *job = arg;
    const fv_kernel_table *table = job->serial.table;
    const fv_rotary_args *a = job->args;
    const int64_t pairs = a->rotated / 2;
    float *row = job->scratch + thread * 2 * a->width, *angles = row + a->width;
    const float *cosines = job->ptr[2], *sines = cosines + a->n * pairs;
    const fv_rotary_args one = {.outer = 1,
                                .n = 1,
                                .inner = 1,
                                .width = a->width,
                                .rotated = a->rotated,
                                .interleaved = a->interleaved,
                                .inverse = a->inverse};
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = i / a->inner % a->n * pairs;
        if (pairs > 0) {
            memcpy(angles, cosines + at, (size_t)pairs * sizeof *angles);
            memcpy(angles + pairs, sines + at, (size_t)pairs * sizeof *angles);
        }
        table->widen(a->width, (const uint16_t *)job->ptr[1] + i * a->width, row);
        job->run(&job->serial, (void *[]){row, row, angles}, &one);
        table->narrow(a->width, row, (uint16_t *)job->ptr[0] + i * a->width);
    }
}

static void rotary(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_rotary_args *a = args;
    const rotary_job job = {.serial = fv_exec_serial(exec),
                            .run = exec->table->fn[FV_KERNEL_ROTARY][FV_F32],
                            .ptr = ptr,
                            .args = a,
                            .scratch = exec->scratch};
    fv_exec_rows(exec, a->outer * a->n * a->inner, 2 * a->width + 64, rotary_range, &job);
}

/* ---- sums over rows --------------------------------------------------------------- */

/* Work items are tiles of columns. */
enum { TILE = 64 };

typedef struct tile_job {
    const fv_exec *exec;
    const void *args;
    void *const *ptr;
    int64_t tiles; /* per row */
} tile_job;

/* table[index[i]] += in[i], i ascending. */
static void index_add_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const tile_job *job = arg;
    const fv_rows_index_args *a = job->args;
    const int64_t *index = job->ptr[2];
    for (int64_t item = begin; item < end; item++) {
        const int64_t outer = item / job->tiles, col = item % job->tiles * TILE;
        const int64_t width = a->cols - col < TILE ? a->cols - col : TILE;
        float *table = (float *)job->ptr[0] + outer * a->rows * a->cols + col;
        const uint16_t *in = (const uint16_t *)job->ptr[1] + outer * a->count * a->cols + col;
        for (int64_t i = 0; i < a->count; i++) {
            const int64_t to = index[i];
            if (a->padding_index >= 0 && to == a->padding_index) continue;
            if (to < 0 || to >= a->rows) {
                fv_fault_raise(job->exec->fault, to, a->rows);
                continue;
            }
            float add[TILE], *sum = table + to * a->cols;
            job->exec->table->widen(width, in + i * a->cols, add);
            for (int64_t c = 0; c < width; c++)
                sum[c] += add[c];
        }
    }
}

static void index_add(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_rows_index_args *a = args;
    const tile_job job = {exec, a, ptr, (a->cols + TILE - 1) / TILE};
    fv_exec_rows(exec, a->outer * job.tiles, a->count * TILE, index_add_range, &job);
}

/* Row r of a column goes to lane r % 16; the lanes are joined as a tree. */
typedef struct tile_sums {
    float lane[FV_LANES][TILE];
} tile_sums;

static void store_sums(tile_sums *sums, int64_t width, float *out, bool accumulate)
{
    for (int w = FV_LANES / 2; w; w /= 2)
        for (int k = 0; k < w; k++)
            for (int c = 0; c < TILE; c++)
                sums->lane[k][c] += sums->lane[k + w][c];
    for (int64_t c = 0; c < width; c++)
        out[c] = accumulate ? out[c] + sums->lane[0][c] : sums->lane[0][c];
}

/* dgamma = the sum of g h, dbeta = the sum of g, with h = (x - mean) rstd. */
static void norm_param_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const tile_job *job = arg;
    const fv_norm_args *a = job->args;
    const fv_kernel_table *table = job->exec->table;
    const float *means = job->ptr[4], *rstds = job->ptr[5];
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t col = tile * TILE, width = a->cols - col < TILE ? a->cols - col : TILE;
        tile_sums dgamma = {{{0}}}, dbeta = {{{0}}};
        float g[TILE] = {0}, x[TILE] = {0};
        for (int64_t row = 0; row < a->rows; row++) {
            const int64_t at = row * a->cols + col;
            table->widen(width, (const uint16_t *)job->ptr[2] + at, g);
            table->widen(width, (const uint16_t *)job->ptr[3] + at, x);
            const float mean = means ? means[row] : 0, rstd = rstds[row];
            float *to_gamma = dgamma.lane[row % FV_LANES], *to_beta = dbeta.lane[row % FV_LANES];
            for (int c = 0; c < TILE; c++) {
                to_gamma[c] += g[c] * ((x[c] - mean) * rstd);
                to_beta[c] += g[c];
            }
        }
        if (job->ptr[0]) store_sums(&dgamma, width, (float *)job->ptr[0] + col, a->accumulate);
        if (job->ptr[1]) store_sums(&dbeta, width, (float *)job->ptr[1] + col, a->accumulate);
    }
}

static void norm_param_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_norm_args *a = args;
    const tile_job job = {exec, a, ptr, 0};
    fv_exec_rows(exec, (a->cols + TILE - 1) / TILE, TILE * a->rows, norm_param_range, &job);
}

/* ---- table ------------------------------------------------------------------------ */

void fv_bf16_rows_register(fv_kernel_table *t)
{
    static const struct {
        fv_kernel_id id;
        fv_kernel_fn run;
    } by_rows[] = {{FV_KERNEL_LAYER_NORM, layer_norm},
                   {FV_KERNEL_LAYER_NORM_GRAD, layer_norm_grad},
                   {FV_KERNEL_RMS_NORM, rms_norm},
                   {FV_KERNEL_RMS_NORM_GRAD, rms_norm_grad},
                   {FV_KERNEL_CROSS_ENTROPY, cross_entropy},
                   {FV_KERNEL_CROSS_ENTROPY_GRAD, cross_entropy_grad},
                   {FV_KERNEL_DROPOUT, dropout}};
    for (size_t i = 0; i < sizeof by_rows / sizeof *by_rows; i++) {
        t->fn[by_rows[i].id][FV_BF16] = by_rows[i].run;
        t->bf16_scratch[by_rows[i].id] = rows_scratch;
    }
    t->fn[FV_KERNEL_ROTARY][FV_BF16] = rotary;
    t->bf16_scratch[FV_KERNEL_ROTARY] = rotary_scratch;
    t->fn[FV_KERNEL_NORM_PARAM_GRAD][FV_BF16] = norm_param_grad;
    t->fn[FV_KERNEL_INDEX_ADD][FV_BF16] = index_add;
}
