/*
 * Attention forward for up to eight queries over a long cache of keys: bound by how fast K and V
 * stream in, so both are read once, in order, where they lie. The queries of all heads that share a
 * key head go together, up to sixteen at a time.
 *
 * Scores. A product q . k runs over the width by vectors: element c goes to lane c mod 16, and the
 * lanes of sixteen products join in one tree of shuffles (reduce). One query meets sixteen keys at
 * a time, four queries meet four: the same sums, whichever way.
 *
 * Keys are cut into chunks (attention_parts.c): neither the threads nor the other queries show in
 * the bits.
 */
#include "kernels/simd/attention_simd.h"

#include "kernels/simd/half_simd.h"

enum {
    GROUP = FV_SIMD_LEVEL == 3 ? 16 : 4, /* products that share a tree: what the registers hold */
    UNIT_ROWS = 16,                      /* queries that meet a block of keys together */
    PIECE_KEYS = 32, /* rows of V between two looks at the columns that do not fit in registers */
    BLEND_VECS = FV_SIMD_LEVEL == 3 ? 8 : 4
};

/*
 * Rows are asked for about a kilobyte before their turn: less and the memory waits, more and the
 * CPU's own prefetchers lose the thread. The second-level cache is the goal, since there is more
 * room for lines on their way than in the first.
 */
enum { AHEAD_BYTES = 1024, LINE_BYTES = 64 };

/* Rows of K or V as they are stored: floats, bf16 or f16. */
typedef struct stored {
    const char *at;
    int64_t row; /* bytes from one to the next */
} stored;

/* `type` is a constant of each instance. */
V_INLINE int64_t size_of(const fv_dtype type) { return type == FV_F32 ? 4 : 2; }
V_INLINE vf load_stored(const fv_dtype type, const char *p, int count)
{
    const void *x = p;
    return type == FV_F32 ? v_load(x, count) : v_load_half(type, x, count);
}

static int64_t bytes_ahead(const stored *x, fv_dtype type, int64_t width)
{
    return fv_attn_max(1, AHEAD_BYTES / (width * size_of(type))) * x->row;
}

V_INLINE void prefetch(const char *row, int64_t ahead, const int64_t bytes)
{
    FV_UNROLL
    for (int64_t b = 0; b < bytes; b += LINE_BYTES)
        _mm_prefetch((const char *)((uintptr_t)row + (uintptr_t)(ahead + b)), _MM_HINT_T1);
}

/* How the work is cut and where its scratch lies; offsets in floats. */
typedef struct decode_plan {
    int64_t rows, strips, chunks; /* rows: queries of all heads that share a key head */
    int64_t q_row, o_row;
    size_t q, o, scores, keep, wide, records, thread_floats; /* of one thread */
} decode_plan;

typedef struct decode_job {
    fv_attn_job base;
    decode_plan plan;
    fv_attn_parts parts;
    float *threads;
} decode_job;

/* What a thread works in. */
typedef struct workspace {
    float *q, *scores, *keep;
    float *o, *next;   /* blends so far, and with the block at hand */
    fv_attn_rows wide; /* a block of K or V that is not stored as floats */
    fv_attn_row *row;
    float most[UNIT_ROWS], sum[UNIT_ROWS];
} workspace;

static int64_t wide_row(const decode_plan *p) { return fv_attn_max(p->q_row, p->o_row); }

static decode_plan plan_of(const fv_attn *a)
{
    decode_plan p = {.rows = a->heads / a->kv_heads * a->n_q};
    p.strips = (p.rows + UNIT_ROWS - 1) / UNIT_ROWS;
    p.chunks = fv_attn_chunks(a);
    p.q_row = fv_attn_round(a->d, FV_LANES);
    p.o_row = fv_attn_round(a->d_v, FV_LANES);
    size_t at = 0;
    p.q = at, at += (size_t)(UNIT_ROWS * p.q_row);
    p.o = at, at += (size_t)(2 * UNIT_ROWS * p.o_row);
    p.scores = at, at += (size_t)UNIT_ROWS * FV_ATTN_SCORE_ROW;
    p.keep = at, at += FV_ATTN_BLOCK;
    p.wide = at, at += fv_attn_is_half(a->dtype) ? (size_t)(FV_ATTN_BLOCK * wide_row(&p)) : 0;
    p.records = at, at += fv_attn_lines(UNIT_ROWS * sizeof(fv_attn_row) / sizeof(float));
    p.thread_floats = at;
    return p;
}

size_t FV_SIMD_NAME(fv_attn_decode_scratch)(const fv_attn *a, int threads)
{
    const decode_plan p = plan_of(a);
    const size_t parts = FV_SIMD_NAME(fv_attn_parts_floats)(a);
    if (parts == SIZE_MAX) return SIZE_MAX;
    return (parts + (size_t)threads * p.thread_floats) * sizeof(float);
}

/* ---- scores ----------------------------------------------------------------------- */

/*
 * The sums of GROUP vectors. Within quarters of four lanes (0 + 2) + (1 + 3), then quarters
 * (0 + 1) + (2 + 3): the same for every vector and on both levels.
 */
#if FV_SIMD_LEVEL == 3
V_INLINE vf unpack_add(vf a, vf b)
{
    return v_add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}
V_INLINE vf unpack_add_pairs(vf a, vf b)
{
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return v_add(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                 _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}
V_INLINE vf quarter_add(vf a, vf b)
{
    return v_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
V_INLINE void reduce(const vf *x, float *sums)
{
    vf four[4];
    FV_UNROLL
    for (int i = 0; i < 4; i++)
        four[i] = unpack_add_pairs(unpack_add(x[4 * i], x[4 * i + 1]),
                                   unpack_add(x[4 * i + 2], x[4 * i + 3]));
    v_store(sums, FV_LANES,
            quarter_add(quarter_add(four[0], four[1]), quarter_add(four[2], four[3])));
}
#else
V_INLINE __m256 unpack_add(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
}
V_INLINE __m128 reduce_half(__m256 a, __m256 b, __m256 c, __m256 d)
{
    const __m256d x = _mm256_castps_pd(unpack_add(a, b)), y = _mm256_castps_pd(unpack_add(c, d));
    const __m256 sum = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                                     _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
    return _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
}
V_INLINE void reduce(const vf *x, float *sums)
{
    const __m128 low = reduce_half(x[0].a, x[1].a, x[2].a, x[3].a);
    const __m128 high = reduce_half(x[0].b, x[1].b, x[2].b, x[3].b);
    _mm_storeu_ps(sums, _mm_add_ps(low, high));
}
#endif

/* Operands of one tile of products. */
typedef struct dots {
    const float *q;
    stored k;
    int64_t q_row, width;
    int64_t ahead; /* bytes from a row to the one to ask for */
    float *s;      /* rows FV_ATTN_SCORE_ROW apart */
} dots;

/* Adds the products of `vecs` vectors, from column c on, to sum[row][key]. Each key is walked to
 * the end before the next, as the memory likes it. */
V_INLINE void add_columns(const dots *t, const fv_dtype type, const int rows, const int keys,
                          int last, int64_t c, const int vecs, int count, vf *sum)
{
    const int64_t step = FV_LANES * size_of(type);
    const char *k = t->k.at + c * size_of(type);
    FV_UNROLL
    for (int j = 0; j < keys; j++) {
        prefetch(k, t->ahead, vecs * step);
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const vf x = load_stored(type, k + v * step, count);
            FV_UNROLL
            for (int r = 0; r < rows; r++) {
                const vf y = v_load(t->q + r * t->q_row + c + v * FV_LANES, FV_LANES);
                sum[r * keys + j] = v_fma(y, x, sum[r * keys + j]);
            }
        }
        if (j < last) k += t->k.row;
    }
}

/* rows x keys = GROUP products of `vecs` vectors, 0: of any width. Keys after `last` are not read:
 * their sums are those of `last`. */
FV_INSTANCE void dot_tile(const dots *t, const fv_dtype type, const int rows, const int keys,
                          const int vecs, int last)
{
    vf sum[GROUP];
    FV_UNROLL
    for (int i = 0; i < GROUP; i++)
        sum[i] = v_zero();
    if (vecs > 0) {
        add_columns(t, type, rows, keys, last, 0, vecs, FV_LANES, sum);
    } else {
        int64_t c = 0;
        for (; c + 4 * FV_LANES <= t->width; c += 4 * FV_LANES)
            add_columns(t, type, rows, keys, last, c, 4, FV_LANES, sum);
        for (; c + FV_LANES <= t->width; c += FV_LANES)
            add_columns(t, type, rows, keys, last, c, 1, FV_LANES, sum);
        if (c < t->width) add_columns(t, type, rows, keys, last, c, 1, (int)(t->width - c), sum);
    }
    float all[GROUP];
    reduce(sum, all);
    for (int r = 0; r < rows; r++)
        memcpy(t->s + r * FV_ATTN_SCORE_ROW, all + r * keys, (size_t)keys * sizeof(float));
}

typedef void (*dot_fn)(const dots *t, int last);

/* The usual widths have instances without a loop: it would cost a third of their time. */
#define DOT_TILE(type, rows)                                                                       \
    static void type##_64_##rows(const dots *t, int last)                                          \
    {                                                                                              \
        (void)last;                                                                                \
        dot_tile(t, type, rows, GROUP / rows, 4, GROUP);                                           \
    }                                                                                              \
    static void type##_128_##rows(const dots *t, int last)                                         \
    {                                                                                              \
        (void)last;                                                                                \
        dot_tile(t, type, rows, GROUP / rows, 8, GROUP);                                           \
    }                                                                                              \
    static void type##_any_##rows(const dots *t, int last)                                         \
    {                                                                                              \
        dot_tile(t, type, rows, GROUP / rows, 0, last);                                            \
    }
#define DOT_TILES(type)                                                                            \
    DOT_TILE(type, 1)                                                                              \
    DOT_TILE(type, 2)                                                                              \
    DOT_TILE(type, 4)
#define DOT_NAMES(type)                                                                            \
    {                                                                                              \
        {type##_any_1, type##_any_2, type##_any_4}, {type##_64_1, type##_64_2, type##_64_4},       \
        {                                                                                          \
            type##_128_1, type##_128_2, type##_128_4                                               \
        }                                                                                          \
    }
DOT_TILES(FV_F32)
DOT_TILES(FV_BF16)
DOT_TILES(FV_F16)

/* Products of `rows` queries with keys [0, keys) into the first ceil16(keys) columns of s; what
 * stands behind the last key is a number of no meaning. */
static void products(const dots *all, fv_dtype type, int rows, int64_t keys)
{
    static const dot_fn tiles[3][3][3] = {DOT_NAMES(FV_F32), DOT_NAMES(FV_BF16), DOT_NAMES(FV_F16)};
    const dot_fn(*of)[3] = tiles[type == FV_F32 ? 0 : type == FV_BF16 ? 1 : 2];
    const dot_fn *any = of[0], *whole = all->width == 64 ? of[1] : all->width == 128 ? of[2] : any;
    const int64_t cols = fv_attn_round(keys, FV_LANES);
    for (int r = 0, height; r < rows; r += height) {
        const int shape = rows - r >= 4 ? 2 : rows - r >= 2 ? 1 : 0;
        height = 1 << shape;
        const int64_t step = GROUP >> shape;
        dots t = *all;
        t.q += r * t.q_row;
        for (int64_t j = 0; j < cols; j += step) {
            const int64_t last = fv_attn_min(step, fv_attn_max(0, keys - j - 1));
            t.k.at = all->k.at + fv_attn_min(j, keys - 1) * t.k.row;
            t.s = all->s + r * FV_ATTN_SCORE_ROW + j;
            (last >= step - 1 ? whole : any)[shape](&t, (int)last);
        }
    }
}

/* ---- blends ----------------------------------------------------------------------- */

/* next = o + the sum of p[j] v[j] over one row of weights, `vecs` vectors of columns. */
V_INLINE void blend_columns(const fv_tile *t, const stored *values, int64_t ahead,
                            const fv_dtype type, const int vecs, int count)
{
    const int64_t step = FV_LANES * size_of(type);
    vf sum[BLEND_VECS];
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        sum[v] = v_load(t->from + v * FV_LANES, FV_LANES);
    const char *b = values->at;
    for (int64_t j = 0; j < t->k; j++, b += values->row) {
        const vf p = v_set(t->a[j]);
        prefetch(b, ahead, vecs * step);
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[v] = v_fma(p, load_stored(type, b + v * step, count), sum[v]);
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        v_store(t->c + v * FV_LANES, FV_LANES, sum[v]);
}

V_INLINE void blend_row_of(const fv_tile *all, const stored *values, const fv_dtype type,
                           int64_t cols)
{
    const int64_t ahead = bytes_ahead(values, type, cols);
    fv_tile t = *all;
    stored v = *values;
    for (int64_t c = 0, step; c < cols; c += step) {
        const int64_t left = cols - c;
        v.at = values->at + c * size_of(type);
        t.from = all->from + c;
        t.c = all->c + c;
        if (left >= BLEND_VECS * FV_LANES) {
            step = BLEND_VECS * FV_LANES;
            blend_columns(&t, &v, ahead, type, BLEND_VECS, FV_LANES);
        } else if (left >= 4 * FV_LANES) {
            step = 4 * FV_LANES;
            blend_columns(&t, &v, ahead, type, 4, FV_LANES);
        } else {
            step = FV_LANES;
            blend_columns(&t, &v, ahead, type, 1, (int)fv_attn_min(FV_LANES, left));
        }
    }
}

static void blend_row(const fv_tile *t, const stored *values, fv_dtype type, int64_t cols)
{
    if (type == FV_BF16)
        blend_row_of(t, values, FV_BF16, cols);
    else if (type == FV_F16)
        blend_row_of(t, values, FV_F16, cols);
    else
        blend_row_of(t, values, FV_F32, cols);
}

/* The tile with the rows that it multiplies as floats: where they lie, or widened. */
static fv_tile with_floats(const fv_tile *t, const stored *values, fv_dtype type, int64_t cols,
                           fv_attn_rows room)
{
    fv_tile wide = *t;
    wide.b = type == FV_F32 ? (const float *)(const void *)values->at : room.at;
    wide.b_row = type == FV_F32 ? values->row / size_of(FV_F32) : room.row;
    if (type == FV_F32) return wide;
    const int64_t row = values->row / size_of(type);
    FV_SIMD_NAME(fv_attn_widen_rows)(type, values->at, row, t->k, cols, room.at, room.row);
    return wide;
}

/* Several rows, or columns that take more than one pass, go by pieces that stay in the near cache
 * meanwhile. */
static void blend(const fv_tile *all, const stored *values, fv_dtype type, int rows, int64_t cols,
                  fv_attn_rows room)
{
    const bool once = rows == 1 && cols <= BLEND_VECS * FV_LANES;
    const int64_t piece = once ? all->k : PIECE_KEYS;
    fv_tile t = *all;
    stored v = *values;
    for (int64_t j = 0; j < all->k; j += piece) {
        t.k = fv_attn_min(piece, all->k - j);
        t.a = all->a + j;
        v.at = values->at + j * values->row;
        if (j > 0) t.from = t.c;
        if (rows == 1) {
            blend_row(&t, &v, type, cols);
        } else {
            const fv_tile floats = with_floats(&t, &v, type, cols, room);
            FV_SIMD_NAME(fv_attn_product)(&floats, rows, cols, false);
        }
    }
}

/* ---- one unit --------------------------------------------------------------------- */

/* Sixteen queries at most, of heads that share a key head, over one chunk of keys. */
typedef struct decode_unit {
    int64_t b, kv_head, first_row, chunk;
    int rows;
} decode_unit;

static int64_t head_of(const decode_job *job, const decode_unit *u, int r)
{
    const fv_attn *a = job->base.a;
    return u->kv_head * (a->heads / a->kv_heads) + (u->first_row + r) / a->n_q;
}

static void begin_unit(const decode_job *job, const decode_unit *u, workspace *w)
{
    const fv_attn *a = job->base.a;
    const decode_plan *p = &job->plan;
    memset(w->q, 0, (size_t)(u->rows * p->q_row) * sizeof(float));
    memset(w->o, 0, (size_t)(u->rows * p->o_row) * sizeof(float));
    for (int r = 0; r < u->rows; r++) {
        const int64_t h = head_of(job, u, r), query = (u->first_row + r) % a->n_q;
        FV_SIMD_NAME(fv_attn_fill_rows)(&job->base, u->b, h, query, 1, w->row + r);
        w->most[r] = -INFINITY;
        w->sum[r] = 0;
        const void *from = fv_attn_at(a, job->base.ptr[FV_ATTN_Q], &a->q, u->b, h, query);
        FV_SIMD_NAME(fv_attn_widen)
        (a->dtype, from, a->q.row, 1, a->d, job->base.factor, w->q + r * p->q_row, p->q_row);
    }
}

/* Rows of K or V from key `first` on. */
static stored rows_of(const decode_job *job, const decode_unit *u, int array,
                      const fv_attn_layout *l, int64_t first)
{
    const fv_attn *a = job->base.a;
    return (stored){.at = fv_attn_at(a, job->base.ptr[array], l, u->b, u->kv_head, first),
                    .row = l->row * (int64_t)fv_dtype_size(a->dtype)};
}

static void meet_keys(const decode_job *job, const decode_unit *u, workspace *w, fv_attn_span keys)
{
    const fv_attn *a = job->base.a;
    const decode_plan *p = &job->plan;
    const int64_t count = keys.end - keys.begin, cols = fv_attn_round(count, FV_LANES);
    const stored k = rows_of(job, u, FV_ATTN_K, &a->k, keys.begin);
    const stored v = rows_of(job, u, FV_ATTN_V, &a->v, keys.begin);
    const dots scores = {.q = w->q,
                         .q_row = p->q_row,
                         .k = k,
                         .ahead = bytes_ahead(&k, a->dtype, a->d),
                         .width = a->d,
                         .s = w->scores};
    products(&scores, a->dtype, u->rows, count);
    for (int r = 0; r < u->rows; r++) {
        float *row = w->scores + r * FV_ATTN_SCORE_ROW;
        FV_SIMD_NAME(fv_attn_finish)(&job->base, w->row + r, keys.begin, cols, row, NULL);
    }
    float fade[FV_LANES];
    FV_SIMD_NAME(fv_attn_softmax)
    (w->scores, FV_ATTN_SCORE_ROW, u->rows, cols, w->most, w->sum, fade);
    for (int r = 0; r < u->rows; r++) {
        float *row = w->scores + r * FV_ATTN_SCORE_ROW;
        if (fade[r] != 1) fv_attn_scale_row(w->o + r * p->o_row, p->o_row, fade[r]);
        if (a->dropout == 0) continue;
        FV_SIMD_NAME(fv_attn_drop)(&job->base, w->row + r, keys.begin, cols, w->keep, row);
    }
    const fv_tile t = {.k = count,
                       .a = w->scores,
                       .a_row = FV_ATTN_SCORE_ROW,
                       .a_col = 1,
                       .from = w->o,
                       .from_row = p->o_row,
                       .c = w->next,
                       .c_row = p->o_row};
    blend(&t, &v, a->dtype, u->rows, a->d_v, w->wide);
    /* 0 x NaN of a hidden value ends here: then zeros are skipped. Values are read only once. */
    if (!FV_SIMD_NAME(fv_attn_finite)(FV_F32, w->next, p->o_row, u->rows, a->d_v)) {
        const fv_tile floats = with_floats(&t, &v, a->dtype, a->d_v, w->wide);
        FV_SIMD_NAME(fv_attn_product)(&floats, u->rows, a->d_v, true);
    }
    float *o = w->o;
    w->o = w->next;
    w->next = o;
}

static void end_unit(const decode_job *job, const decode_unit *u, const workspace *w)
{
    const int64_t n_q = job->base.a->n_q, o_row = job->plan.o_row;
    for (int r = 0; r < u->rows; r++) {
        const int64_t h = head_of(job, u, r), i = (u->first_row + r) % n_q;
        float *part = fv_attn_part(&job->parts, u->b, h, i, u->chunk);
        memcpy(part, w->o + r * o_row, (size_t)o_row * sizeof(float));
        part[o_row] = w->most[r];
        part[o_row + 1] = w->sum[r];
    }
}

static workspace workspace_of(const decode_job *job, int thread)
{
    const decode_plan *p = &job->plan;
    float *base = job->threads + (size_t)thread * p->thread_floats;
    return (workspace){.q = base + p->q,
                       .o = base + p->o,
                       .next = base + p->o + UNIT_ROWS * p->o_row,
                       .scores = base + p->scores,
                       .keep = base + p->keep,
                       .wide = {base + p->wide, wide_row(p)},
                       .row = (fv_attn_row *)(void *)(base + p->records)};
}

static void decode_units(const void *arg, int64_t begin, int64_t end, int thread)
{
    const decode_job *job = arg;
    const fv_attn *a = job->base.a;
    const decode_plan *p = &job->plan;
    workspace w = workspace_of(job, thread);
    for (int64_t n = begin; n < end; n++) {
        const int64_t head = n / p->chunks / p->strips;
        decode_unit u = {.chunk = n % p->chunks,
                         .first_row = n / p->chunks % p->strips * UNIT_ROWS,
                         .kv_head = head % a->kv_heads,
                         .b = head / a->kv_heads};
        u.rows = (int)fv_attn_min(UNIT_ROWS, p->rows - u.first_row);
        const int64_t total = fv_attn_keys(a, job->base.ptr[FV_ATTN_N_KEYS], u.b);
        const int64_t stop = fv_attn_min(total, (u.chunk + 1) * FV_ATTN_CHUNK);
        begin_unit(job, &u, &w);
        for (int64_t first = u.chunk * FV_ATTN_CHUNK; first < stop; first += FV_ATTN_BLOCK) {
            const int64_t last = fv_attn_min(first + FV_ATTN_BLOCK, stop);
            const fv_attn_span keys = fv_attn_span_of(w.row, u.rows, first, last);
            if (keys.begin < keys.end) meet_keys(job, &u, &w, keys);
        }
        end_unit(job, &u, &w);
    }
}

void FV_SIMD_NAME(fv_attn_decode)(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    decode_job job = {.base = FV_SIMD_NAME(fv_attn_job_of)(exec, a, ptr),
                      .plan = plan_of(a),
                      .parts = fv_attn_parts_of(a, exec->scratch)};
    const decode_plan *p = &job.plan;
    job.threads = job.parts.at + FV_SIMD_NAME(fv_attn_parts_floats)(a);
    const int64_t keys = fv_attn_min(a->n_k, FV_ATTN_CHUNK);
    fv_exec_rows(exec, a->batch * a->kv_heads * p->strips * p->chunks,
                 fv_attn_min(p->rows, UNIT_ROWS) * keys * (a->d + a->d_v), decode_units, &job);
    FV_SIMD_NAME(fv_attn_join)(exec, &job.parts, ptr[FV_ATTN_O], ptr[FV_ATTN_LSE]);
}
