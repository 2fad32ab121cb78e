/*
 * Training of one center; see kernels/word2vec.h. Contexts and outputs are copied to dense rows of
 * whole vectors first. The products of all pairs stay in lanes until sixteen of them are summed
 * together.
 */
#include "kernels/word2vec.h"

#include "kernels/simd/register.h"
#include "kernels/simd/vmath.h"

enum { TILE = FV_WORD2VEC_TILE };

V_INLINE void load_row(int64_t width, const float *value, const float *sum, float *out)
{
    V_LOOP(width, 0,
           v_store(out + i, FV_LANES, v_add(v_load(value + i, count), v_load(sum + i, FV_LANES))));
}

static void add_row(int64_t width, double factor, const void *sum, void *row)
{
    const vf f = v_set((float)factor);
    float *to = row;
    const float *from = sum;
    V_LOOP(width, 0,
           v_store(to + i, count, v_fma(f, v_load(from + i, count), v_load(to + i, count))));
}

/* ---- products of pairs ---------------------------------------------------------------------- */

#if FV_SIMD_LEVEL == 3
#define V_PAIR(op, a, b, low, high) _mm512_add_ps(op(a, b, low), op(a, b, high))
/* Sums of the lanes of sixteen vectors, v_reduce_sum of each. */
V_INLINE vf reduce16(const float *x)
{
    vf v[FV_LANES], w[FV_LANES / 2];
    /* The shuffles below leave the sum of v[4 q + p] in lane 4 p + q. */
    for (int p = 0; p < 4; p++)
        for (int q = 0; q < 4; q++)
            v[4 * q + p] = v_load(x + (4 * p + q) * FV_LANES, FV_LANES);
    for (int k = 0; k < 8; k++)
        w[k] = V_PAIR(_mm512_shuffle_f32x4, v[2 * k], v[2 * k + 1], 0x44, 0xee);
    for (int k = 0; k < 4; k++)
        v[k] = V_PAIR(_mm512_shuffle_f32x4, w[2 * k], w[2 * k + 1], 0x88, 0xdd);
    for (int k = 0; k < 2; k++)
        w[k] = V_PAIR(_mm512_shuffle_ps, v[2 * k], v[2 * k + 1], 0x44, 0xee);
    return V_PAIR(_mm512_shuffle_ps, w[0], w[1], 0x88, 0xdd);
}
#undef V_PAIR
#else
V_INLINE vf reduce16(const float *x)
{
    float sum[FV_LANES];
    for (int k = 0; k < FV_LANES; k++)
        sum[k] = v_reduce_sum(v_load(x + k * FV_LANES, FV_LANES));
    return v_load(sum, FV_LANES);
}
#endif

/* Lanes of the products of one input with n outputs. */
V_INLINE void dots(int64_t stride, const float *in, const float *out, const int n, float *lanes)
{
    vf sum[TILE];
    for (int j = 0; j < n; j++)
        sum[j] = v_zero();
    for (int64_t k = 0; k < stride; k += FV_LANES) {
        const vf h = v_load(in + k, FV_LANES);
        for (int j = 0; j < n; j++)
            sum[j] = v_fma(h, v_load(out + j * stride + k, FV_LANES), sum[j]);
    }
    for (int j = 0; j < n; j++)
        v_store(lanes + j * FV_LANES, FV_LANES, sum[j]);
}

/* n as a constant in each branch, so that the sums stay in registers. */
#define BY_TILE(n, ...)                                                                            \
    switch (n) {                                                                                   \
    case 1: {                                                                                      \
        enum { N = 1 };                                                                            \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case 2: {                                                                                      \
        enum { N = 2 };                                                                            \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case 3: {                                                                                      \
        enum { N = 3 };                                                                            \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case 4: {                                                                                      \
        enum { N = 4 };                                                                            \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case 5: {                                                                                      \
        enum { N = 5 };                                                                            \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    default: {                                                                                     \
        enum { N = TILE };                                                                         \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    }

typedef struct rows {
    int inputs, outputs;
    float *in, *out, *g, *label, *lanes; /* g, label [inputs][outputs] */
} rows;

static int tile_at(const rows *r, int first)
{
    return r->outputs - first < TILE ? r->outputs - first : TILE;
}

static void all_dots(const rows *r, int64_t stride)
{
    for (int first = 0; first < r->outputs; first += TILE) {
        const float *out = r->out + first * stride;
        BY_TILE(tile_at(r, first), for (int i = 0; i < r->inputs; i++) dots(
                                       stride, r->in + i * stride, out, N,
                                       r->lanes + (int64_t)(i * r->outputs + first) * FV_LANES));
    }
}

static double loss_of(const rows *r, const fv_word_center *c, const float *x)
{
    double loss = 0;
    for (int i = 0; i < r->inputs; i++)
        for (int j = 0; j < r->outputs; j++) {
            const float value = x[i * r->outputs + j];
            if (!c->skipped[j]) loss += (double)real_softplus(j == 0 ? -value : value);
        }
    return loss;
}

/* The factors of all pairs in r->g, and their loss. */
static double factors(const fv_word2vec_args *a, const fv_word_center *c, rows *r)
{
    const int pairs = r->inputs * r->outputs;
    const vf lr = v_set((float)a->lr);
    double loss = 0;
    for (int p = 0; p < pairs; p += FV_LANES)
        v_store(r->g + p, FV_LANES, reduce16(r->lanes + (int64_t)p * FV_LANES));
    if (c->wants_loss) loss = loss_of(r, c, r->g);
    for (int p = 0; p < pairs; p++)
        r->label[p] = 0;
    for (int i = 0; i < r->inputs; i++)
        r->label[i * r->outputs] = 1;
    V_LOOP(pairs, 0, const vf y = v_load(r->label + i, count);
           const vf s = v_sigmoid(v_load(r->g + i, count));
           v_store(r->g + i, count, v_mul(lr, v_sub(y, s))));
    for (int j = 1; c->any_skipped && j < r->outputs; j++)
        for (int i = 0; c->skipped[j] && i < r->inputs; i++)
            r->g[i * r->outputs + j] = 0;
    return loss;
}

/* ---- updates -------------------------------------------------------------------------------- */

V_INLINE void add_at(void *sum, int64_t k, vf v)
{
    float *to = (float *)sum + k;
    v_store(to, FV_LANES, v_add(v_load(to, FV_LANES), v));
}

/* Adds what n outputs from `first` on add to every input, and the inputs to them. For CBOW the one
 * input's part goes to all contexts. */
V_INLINE void update_tile(const fv_word2vec_args *a, const fv_word_center *c, const rows *r,
                          int64_t stride, int first, const int n)
{
    const float *g = r->g + first;
    for (int64_t k = 0; k < stride; k += FV_LANES) {
        vf out[TILE], part[TILE];
        for (int j = 0; j < n; j++) {
            out[j] = v_load(r->out + (first + j) * stride + k, FV_LANES);
            part[j] = v_zero();
        }
        for (int i = 0; i < r->inputs; i++) {
            const vf in = v_load(r->in + i * stride + k, FV_LANES);
            vf sum = v_zero();
            for (int j = 0; j < n; j++) {
                const vf f = v_set(g[i * r->outputs + j]);
                sum = v_fma(f, out[j], sum);
                part[j] = v_fma(f, in, part[j]);
            }
            if (!a->cbow) add_at(c->in_sum[i], k, sum);
            for (int m = 0; a->cbow && m < c->contexts; m++)
                add_at(c->in_sum[m], k, sum);
        }
        for (int j = 0; j < n; j++)
            add_at(c->out_sum[first + j], k, part[j]);
    }
}

/* The sum of all contexts at a vector, of which `count` elements are inside the rows. */
V_INLINE vf sum_contexts(const fv_word_center *c, int64_t at, int count)
{
    vf sum = v_zero();
    for (int n = 0; n < c->contexts; n++) {
        const float *value = c->in[n], *add = c->in_sum[n];
        sum = v_add(sum, v_add(v_load(value + at, count), v_load(add + at, FV_LANES)));
    }
    return sum;
}

/* Their mean, without copies of them. */
static void average(const fv_word2vec_args *a, const fv_word_center *c, float *in)
{
    const vf share = v_set(1.0f / (float)c->contexts);
    V_LOOP(a->width, 0, v_store(in + i, FV_LANES, v_mul(sum_contexts(c, i, count), share)));
}

static double train(const fv_word2vec_args *a, const fv_word_center *c, int64_t stride, void *work)
{
    rows r = {.inputs = a->cbow ? 1 : c->contexts, .outputs = c->outputs, .in = work};
    const int64_t pairs = (int64_t)c->contexts * c->outputs + FV_LANES;
    r.out = r.in + c->contexts * stride;
    r.lanes = r.out + c->outputs * stride;
    r.g = r.lanes + pairs * FV_LANES;
    r.label = r.g + pairs;
    if (a->cbow) average(a, c, r.in);
    for (int i = 0; !a->cbow && i < c->contexts; i++)
        load_row(a->width, c->in[i], c->in_sum[i], r.in + i * stride);
    for (int j = 0; j < c->outputs; j++)
        load_row(a->width, c->out[j], c->out_sum[j], r.out + j * stride);
    all_dots(&r, stride);
    const double loss = factors(a, c, &r);
    for (int first = 0; first < r.outputs; first += TILE)
        BY_TILE(tile_at(&r, first), update_tile(a, c, &r, stride, first, N));
    return loss;
}

static void word2vec(const fv_exec *exec, void *const *ptr, const void *args)
{
    static const fv_word_level level = {.element = sizeof(float), .train = train, .add = add_row};
    fv_word2vec_run(exec, ptr, args, &level);
}

void fv_simd_word2vec_register(fv_kernel_table *t) { t->fn[FV_KERNEL_WORD2VEC][FV_F32] = word2vec; }
