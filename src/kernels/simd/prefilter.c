/*
 * The argmax of a product with a candidate pre-filter (kernels/prefilter.h). Six rows of bytes are
 * multiplied by panels of 64 outputs in registers. Each sum gives a score with an upper and a lower
 * bound; an output is discarded if its upper bound is below the largest lower bound so far. The
 * remaining candidates are computed in float at the end.
 */
#include "kernels/prefilter.h"

#include "kernels/register.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/simd.h"

#if FV_SIMD_LEVEL == 3

#include <math.h>
#include <string.h>

enum {
    ROWS = FV_GEMM_TILE_ROWS,
    VECS = FV_PREFILTER_PANEL / FV_LANES,
    ITEM_ROWS = 4 * ROWS, /* rows for which a panel stays in L1 */
    MAX_CANDIDATES = 64,  /* outputs that may still hold the maximum */
    QUANT_MAX = 127,
};

/* Factor by which bounds are enlarged, to cover the rounding of their own computation. */
#define MARGIN 1.001f

/* The state of one row. */
typedef struct row_state {
    float scale;        /* of its bytes */
    int32_t correction; /* what FV_PREFILTER_ZERO_POINT adds to every sum */
    float by_norm, by_error;
    float best; /* the largest lower bound so far */
    int candidates;
    bool overflow; /* more than MAX_CANDIDATES candidates */
    int32_t output[MAX_CANDIDATES];
    float upper[MAX_CANDIDATES];
} row_state;

typedef struct job {
    const fv_prefilter_args *args;
    fv_prefilter prefilter;
    int64_t *best;
    const float *a, *w, *bias;
    int64_t item_rows;
    char *scratch; /* for all threads */
} job;

static int64_t row_bytes(const fv_prefilter *s) { return s->groups * FV_PREFILTER_GROUP; }

static size_t thread_bytes(int64_t groups)
{
    const size_t rows = ITEM_ROWS * ((size_t)groups * FV_PREFILTER_GROUP + sizeof(row_state));
    return (rows + 63) / 64 * 64;
}

static size_t scratch_bytes(const void *args, int threads)
{
    const fv_prefilter_args *a = args;
    return (size_t)threads * thread_bytes((a->k + FV_PREFILTER_GROUP - 1) / FV_PREFILTER_GROUP);
}

/* ---- quantization --------------------------------------------------------------------- */

static row_state quantize_row(const float *a, int64_t k, int64_t stride, int8_t *to)
{
    row_state r = {.best = -INFINITY};
    vf largest = v_zero();
    V_LOOP(k, 0, largest = v_max(largest, v_abs(v_load(a + i, count))));
    const float top = v_reduce_max(largest);
    r.scale = top / QUANT_MAX;
    const float inverse = top > 0 ? QUANT_MAX / top : 0;
    double rounded_norm = 0, error_norm = 0, norm = 0;
    for (int64_t i = 0; i < k; i++) {
        const float q = rintf(fminf(QUANT_MAX, fmaxf(-QUANT_MAX, a[i] * inverse)));
        const float rounded = q * r.scale, error = a[i] - rounded;
        to[i] = (int8_t)(int)q;
        r.correction += (int32_t)q * FV_PREFILTER_ZERO_POINT;
        rounded_norm += (double)(rounded * rounded);
        error_norm += (double)(error * error);
        norm += (double)(a[i] * a[i]);
    }
    for (int64_t i = k; i < stride; i++)
        to[i] = 0;
    /* Rounding error of the float product and of the score that approximates it. */
    const float rounding = (float)(k + 16) * 0x1p-23f * (float)sqrt(norm);
    r.by_norm = MARGIN * ((float)sqrt(error_norm) + rounding) + 1e-30f;
    r.by_error = MARGIN * (float)sqrt(rounded_norm) + 1e-30f;
    return r;
}

/* ---- candidates ----------------------------------------------------------------------- */

static void drop_candidates(row_state *r)
{
    int left = 0;
    for (int i = 0; i < r->candidates; i++) {
        if (r->upper[i] < r->best) continue;
        r->output[left] = r->output[i];
        r->upper[left++] = r->upper[i];
    }
    r->candidates = left;
}

/* Sixteen outputs, some of which are candidates. */
static void add_candidates(row_state *r, int64_t output, vf upper, vf lower)
{
    float high[FV_LANES], low[FV_LANES];
    v_store(high, FV_LANES, upper);
    v_store(low, FV_LANES, lower);
    for (int i = 0; i < FV_LANES; i++)
        if (low[i] > r->best) r->best = low[i];
    for (int i = 0; i < FV_LANES; i++) {
        if (high[i] < r->best) continue;
        if (r->candidates == MAX_CANDIDATES) drop_candidates(r);
        if (r->candidates == MAX_CANDIDATES) {
            r->overflow = true;
            return;
        }
        r->output[r->candidates] = (int32_t)(output + i);
        r->upper[r->candidates++] = high[i];
    }
}

V_INLINE void bound_outputs(const fv_prefilter *s, row_state *r, int64_t output, __m512i sums)
{
    const __m512i plain = _mm512_sub_epi32(sums, _mm512_set1_epi32(r->correction));
    const vf size = v_mul(_mm512_cvtepi32_ps(plain), v_set(r->scale));
    const vf bias = v_load(s->bias + output, FV_LANES);
    const vf score = v_fma(size, v_load(s->scale + output, FV_LANES), bias);
    vf off = v_mul(v_abs(bias), v_set(0x1p-22f));
    off = v_fma(v_set(r->by_norm), v_load(s->norm + output, FV_LANES), off);
    off = v_fma(v_set(r->by_error), v_load(s->error + output, FV_LANES), off);
    const vf upper = v_add(score, off);
    /* "Not less" rather than "greater": NaN stays a candidate. */
    if (_mm512_cmp_ps_mask(upper, v_set(r->best), _CMP_NLT_UQ))
        add_candidates(r, output, upper, v_sub(score, off));
}

/* Six rows of bytes, `stride` apart, times one panel. */
static void multiply_panel(const fv_prefilter *s, int64_t panel, const int8_t *a, int64_t stride,
                           row_state *rows)
{
    const unsigned char *w =
        s->bytes + panel * s->groups * (int64_t)(FV_PREFILTER_PANEL * FV_PREFILTER_GROUP);
    __m512i sum[ROWS][VECS];
    FV_UNROLL
    for (int r = 0; r < ROWS; r++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            sum[r][v] = _mm512_setzero_si512();
    }
    for (int64_t g = 0; g < s->groups; g++, w += FV_PREFILTER_PANEL * FV_PREFILTER_GROUP) {
        __m512i weights[VECS];
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            weights[v] = _mm512_loadu_si512(w + v * FV_LANES * FV_PREFILTER_GROUP);
        FV_UNROLL
        for (int r = 0; r < ROWS; r++) {
            int32_t four;
            memcpy(&four, a + r * stride + g * FV_PREFILTER_GROUP, sizeof four);
            const __m512i row = _mm512_set1_epi32(four);
            FV_UNROLL
            for (int v = 0; v < VECS; v++)
                sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], weights[v], row);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++)
            bound_outputs(s, rows + r, panel * FV_PREFILTER_PANEL + v * FV_LANES, sum[r][v]);
}

/* The first maximum of the remaining candidates, computed as the float product does. */
static int64_t best_candidate(const job *j, const float *a, row_state *r)
{
    const int64_t k = j->args->k;
    int64_t best = -1;
    float largest = -INFINITY;
    if (r->overflow) return -1;
    drop_candidates(r);
    for (int i = 0; i < r->candidates; i++) {  /* outputs ascend */
        if (r->output[i] >= j->args->n) break; /* padding passes if bounds are NaN */
        const float *w = j->w + r->output[i] * k;
        float sum = 0;
        for (int64_t c = 0; c < k; c++)
            sum = fmaf(a[c], w[c], sum);
        if (j->bias) sum += j->bias[r->output[i]];
        if (isnan(sum)) return r->output[i];
        if (best < 0 || sum > largest) {
            largest = sum;
            best = r->output[i];
        }
    }
    return best;
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    const fv_prefilter *s = &j->prefilter;
    const int64_t stride = row_bytes(s);
    int8_t *bytes = (int8_t *)(j->scratch + (size_t)thread * thread_bytes(s->groups));
    row_state *rows = (row_state *)(void *)(bytes + ITEM_ROWS * stride);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * j->item_rows;
        const int64_t left = j->args->m - first, count = left < j->item_rows ? left : j->item_rows;
        const int64_t tiles = (count + ROWS - 1) / ROWS;
        for (int64_t r = 0; r < tiles * ROWS; r++) { /* a row tile is filled up with its last row */
            const int64_t from = first + (r < count ? r : count - 1);
            rows[r] =
                quantize_row(j->a + from * j->args->a_row, j->args->k, stride, bytes + r * stride);
        }
        for (int64_t panel = 0; panel < s->panels; panel++)
            for (int64_t tile = 0; tile < tiles; tile++)
                multiply_panel(s, panel, bytes + tile * ROWS * stride, stride, rows + tile * ROWS);
        for (int64_t r = 0; r < count; r++)
            j->best[first + r] = best_candidate(j, j->a + (first + r) * j->args->a_row, &rows[r]);
    }
}

static void prefilter(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_prefilter_args *a = args;
    job j = {.args = a,
             .prefilter = fv_prefilter_view_of_bytes(ptr[2], a->n, a->k),
             .best = ptr[0],
             .a = ptr[1],
             .w = ptr[3],
             .bias = ptr[4],
             .scratch = exec->scratch};
    const int64_t share = (a->m + exec->threads - 1) / exec->threads;
    j.item_rows = share < ITEM_ROWS ? (share + ROWS - 1) / ROWS * ROWS : ITEM_ROWS;
    if (a->m == 0 || a->n == 0) return;
    fv_exec_rows(exec, (a->m + j.item_rows - 1) / j.item_rows, j.item_rows * a->n * a->k / 4,
                 run_items, &j);
}

void fv_simd_vnni_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_PREFILTER_ARGMAX][FV_F32] = prefilter;
    t->scratch[FV_KERNEL_PREFILTER_ARGMAX] = scratch_bytes;
}

#endif
