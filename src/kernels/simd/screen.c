/*
 * The argmax of a product by screening (kernels/screen.h). Six rows of bytes meet panels of 64
 * columns in the registers; sums become scores with an upper and a lower bound; a column whose
 * upper bound lies below the best lower one so far is out of the race. The few that stay are made
 * in float at the end.
 */
#include "kernels/screen.h"

#include "kernels/fill.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/simd.h"

#if FV_SIMD_LEVEL == 3

#include <math.h>
#include <string.h>

enum {
    ROWS = FV_GEMM_TILE_ROWS,
    VECS = FV_SCREEN_PANEL / FV_LANES,
    UNIT_ROWS = 4 * ROWS, /* a panel stays in L1 for so many */
    RUNNERS = 64,         /* columns still in the race */
    BYTE_MOST = 127,
};

/* Bounds are rounded up by more than their own sums can have lost. */
#define MARGIN 1.001f

/* One row on its way. */
typedef struct row_state {
    float scale;        /* of its bytes */
    int32_t correction; /* what FV_SCREEN_ZERO adds to every sum */
    float by_norm, by_error;
    float best; /* the largest lower bound so far */
    int runners;
    bool lost; /* too many of them */
    int32_t column[RUNNERS];
    float upper[RUNNERS];
} row_state;

typedef struct job {
    const fv_screen_args *args;
    fv_screen screen;
    int64_t *best;
    const float *a, *w, *bias;
    int64_t unit_rows;
    char *scratch; /* of all threads */
} job;

static int64_t row_bytes(const fv_screen *s) { return s->groups * FV_SCREEN_STEP; }

static size_t thread_bytes(int64_t groups)
{
    const size_t rows = UNIT_ROWS * ((size_t)groups * FV_SCREEN_STEP + sizeof(row_state));
    return (rows + 63) / 64 * 64;
}

static size_t scratch_bytes(const void *args, int threads)
{
    const fv_screen_args *a = args;
    return (size_t)threads * thread_bytes((a->k + FV_SCREEN_STEP - 1) / FV_SCREEN_STEP);
}

/* ---- rows to bytes ------------------------------------------------------------------ */

static row_state narrow_row(const float *a, int64_t k, int64_t room, int8_t *to)
{
    row_state r = {.best = -INFINITY};
    vf most = v_zero();
    V_LOOP(k, 0, most = v_max(most, v_abs(v_load(a + i, count))));
    const float top = v_join_max(most);
    r.scale = top / BYTE_MOST;
    const float inverse = top > 0 ? BYTE_MOST / top : 0;
    double kept = 0, lost = 0, norm = 0;
    for (int64_t i = 0; i < k; i++) {
        const float q = rintf(fminf(BYTE_MOST, fmaxf(-BYTE_MOST, a[i] * inverse)));
        const float shown = q * r.scale, missed = a[i] - shown;
        to[i] = (int8_t)(int)q;
        r.correction += (int32_t)q * FV_SCREEN_ZERO;
        kept += (double)(shown * shown);
        lost += (double)(missed * missed);
        norm += (double)(a[i] * a[i]);
    }
    for (int64_t i = k; i < room; i++)
        to[i] = 0;
    /* Rounding of the float product, and of the score that stands for it. */
    const float rounding = (float)(k + 16) * 0x1p-23f * (float)sqrt(norm);
    r.by_norm = MARGIN * ((float)sqrt(lost) + rounding) + 1e-30f;
    r.by_error = MARGIN * (float)sqrt(kept) + 1e-30f;
    return r;
}

/* ---- the race ----------------------------------------------------------------------- */

static void drop_runners(row_state *r)
{
    int left = 0;
    for (int i = 0; i < r->runners; i++) {
        if (r->upper[i] < r->best) continue;
        r->column[left] = r->column[i];
        r->upper[left++] = r->upper[i];
    }
    r->runners = left;
}

/* Sixteen columns of which some may win. */
static void enter(row_state *r, int64_t column, vf upper, vf lower)
{
    float high[FV_LANES], low[FV_LANES];
    v_store(high, FV_LANES, upper);
    v_store(low, FV_LANES, lower);
    for (int i = 0; i < FV_LANES; i++)
        if (low[i] > r->best) r->best = low[i];
    for (int i = 0; i < FV_LANES; i++) {
        if (high[i] < r->best) continue;
        if (r->runners == RUNNERS) drop_runners(r);
        if (r->runners == RUNNERS) {
            r->lost = true;
            return;
        }
        r->column[r->runners] = (int32_t)(column + i);
        r->upper[r->runners++] = high[i];
    }
}

V_INLINE void judge(const fv_screen *s, row_state *r, int64_t column, __m512i sums)
{
    const __m512i plain = _mm512_sub_epi32(sums, _mm512_set1_epi32(r->correction));
    const vf size = v_mul(_mm512_cvtepi32_ps(plain), v_set(r->scale));
    const vf bias = v_load(s->bias + column, FV_LANES);
    const vf score = v_fma(size, v_load(s->scale + column, FV_LANES), bias);
    vf off = v_mul(v_abs(bias), v_set(0x1p-22f));
    off = v_fma(v_set(r->by_norm), v_load(s->norm + column, FV_LANES), off);
    off = v_fma(v_set(r->by_error), v_load(s->error + column, FV_LANES), off);
    const vf upper = v_add(score, off);
    /* Not less, rather than greater: what is no number stays in. */
    if (_mm512_cmp_ps_mask(upper, v_set(r->best), _CMP_NLT_UQ))
        enter(r, column, upper, v_sub(score, off));
}

/* Six rows of bytes, `room` apart, and one panel. */
static void meet_panel(const fv_screen *s, int64_t panel, const int8_t *a, int64_t room,
                       row_state *rows)
{
    const unsigned char *w =
        s->bytes + panel * s->groups * (int64_t)(FV_SCREEN_PANEL * FV_SCREEN_STEP);
    __m512i sum[ROWS][VECS];
    FV_UNROLL
    for (int r = 0; r < ROWS; r++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            sum[r][v] = _mm512_setzero_si512();
    }
    for (int64_t g = 0; g < s->groups; g++, w += FV_SCREEN_PANEL * FV_SCREEN_STEP) {
        __m512i column[VECS];
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            column[v] = _mm512_loadu_si512(w + v * FV_LANES * FV_SCREEN_STEP);
        FV_UNROLL
        for (int r = 0; r < ROWS; r++) {
            int32_t four;
            memcpy(&four, a + r * room + g * FV_SCREEN_STEP, sizeof four);
            const __m512i row = _mm512_set1_epi32(four);
            FV_UNROLL
            for (int v = 0; v < VECS; v++)
                sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], column[v], row);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++)
            judge(s, rows + r, panel * FV_SCREEN_PANEL + v * FV_LANES, sum[r][v]);
}

/* The first largest of those left, made as the float product makes them. */
static int64_t winner(const job *j, const float *a, row_state *r)
{
    const int64_t k = j->args->k;
    int64_t best = -1;
    float most = -INFINITY;
    if (r->lost) return -1;
    drop_runners(r);
    for (int i = 0; i < r->runners; i++) {     /* columns rise */
        if (r->column[i] >= j->args->n) break; /* bounds that are no numbers let filling in */
        const float *w = j->w + r->column[i] * k;
        float sum = 0;
        for (int64_t c = 0; c < k; c++)
            sum = fmaf(a[c], w[c], sum);
        if (j->bias) sum += j->bias[r->column[i]];
        if (isnan(sum)) return r->column[i];
        if (best < 0 || sum > most) {
            most = sum;
            best = r->column[i];
        }
    }
    return best;
}

static void units(const void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    const fv_screen *s = &j->screen;
    const int64_t room = row_bytes(s);
    int8_t *bytes = (int8_t *)(j->scratch + (size_t)thread * thread_bytes(s->groups));
    row_state *rows = (row_state *)(void *)(bytes + UNIT_ROWS * room);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit * j->unit_rows;
        const int64_t left = j->args->m - first, count = left < j->unit_rows ? left : j->unit_rows;
        const int64_t strips = (count + ROWS - 1) / ROWS;
        for (int64_t r = 0; r < strips * ROWS; r++) { /* a strip is filled up with its last row */
            const int64_t from = first + (r < count ? r : count - 1);
            rows[r] = narrow_row(j->a + from * j->args->a_row, j->args->k, room, bytes + r * room);
        }
        for (int64_t panel = 0; panel < s->panels; panel++)
            for (int64_t strip = 0; strip < strips; strip++)
                meet_panel(s, panel, bytes + strip * ROWS * room, room, rows + strip * ROWS);
        for (int64_t r = 0; r < count; r++)
            j->best[first + r] = winner(j, j->a + (first + r) * j->args->a_row, &rows[r]);
    }
}

static void screen(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_screen_args *a = args;
    job j = {.args = a,
             .screen = fv_screen_of(ptr[2], a->n, a->k),
             .best = ptr[0],
             .a = ptr[1],
             .w = ptr[3],
             .bias = ptr[4],
             .scratch = exec->scratch};
    const int64_t share = (a->m + exec->threads - 1) / exec->threads;
    j.unit_rows = share < UNIT_ROWS ? (share + ROWS - 1) / ROWS * ROWS : UNIT_ROWS;
    if (a->m == 0 || a->n == 0) return;
    fv_exec_rows(exec, (a->m + j.unit_rows - 1) / j.unit_rows, j.unit_rows * a->n * a->k / 4, units,
                 &j);
}

void fv_simd_vnni_fill(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_SCREEN][FV_F32] = screen;
    t->scratch[FV_KERNEL_SCREEN] = scratch_bytes;
}

#endif
