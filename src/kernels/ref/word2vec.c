/* Training of one center; see kernels/word2vec.h. */
#include "kernels/word2vec.h"

#include "kernels/ref/lanes.h"

/* out = value + sum. */
static void load_row(int64_t width, const real *value, const real *sum, real *out)
{
    for (int64_t i = 0; i < width; i++)
        out[i] = value[i] + sum[i];
}

static void add_row(int64_t width, double factor, const void *sum, void *row)
{
    real *to = row;
    for (int64_t i = 0; i < width; i++)
        to[i] = real_fma((real)factor, ((const real *)sum)[i], to[i]);
}

static real dot(int64_t width, const real *a, const real *b)
{
    real lane[FV_LANES] = {0};
    for (int64_t i = 0; i < width; i++)
        lane[i % FV_LANES] = real_fma(a[i], b[i], lane[i % FV_LANES]);
    return real_reduce_sum(lane);
}

/* The factor g of a pair; *loss gets its term where it is not NULL. */
static real pair_factor(real lr, real x, bool is_center, double *loss)
{
    if (loss) *loss += (double)real_softplus(is_center ? -x : x);
    return lr * ((is_center ? 1 : 0) - real_sigmoid(x));
}

typedef struct rows {
    int inputs, outputs;
    real *in, *out, *g; /* g [inputs][outputs] */
} rows;

/* Factors of all pairs, and their loss. */
static double factors(const fv_word2vec_args *a, const fv_word_center *c, int64_t stride, rows *r)
{
    double loss = 0;
    for (int i = 0; i < r->inputs; i++)
        for (int j = 0; j < r->outputs; j++) {
            real *g = &r->g[i * r->outputs + j];
            const real x = dot(a->width, r->in + i * stride, r->out + j * stride);
            *g =
                pair_factor((real)a->lr, x, j == 0, c->wants_loss && !c->skipped[j] ? &loss : NULL);
            if (c->skipped[j]) *g = 0;
        }
    return loss;
}

/* sum += what outputs first .. first + FV_WORD2VEC_TILE - 1 add to input i. */
static void add_to_input(const fv_word2vec_args *a, const rows *r, int64_t stride, int i, int first,
                         int inputs, void *const *sums)
{
    const int rest = r->outputs - first, tile = rest < FV_WORD2VEC_TILE ? rest : FV_WORD2VEC_TILE;
    for (int64_t k = 0; k < a->width; k++) {
        real sum = 0;
        for (int j = first; j < first + tile; j++)
            sum = real_fma(r->g[i * r->outputs + j], r->out[j * stride + k], sum);
        for (int n = 0; n < inputs; n++)
            ((real *)sums[n])[k] += sum;
    }
}

static void add_to_output(const fv_word2vec_args *a, const rows *r, int64_t stride, int j, real *to)
{
    for (int64_t k = 0; k < a->width; k++) {
        real sum = 0;
        for (int i = 0; i < r->inputs; i++)
            sum = real_fma(r->g[i * r->outputs + j], r->in[i * stride + k], sum);
        to[k] += sum;
    }
}

/* CBOW has one input, the mean of the contexts. */
static void average(const fv_word2vec_args *a, int contexts, int64_t stride, real *in)
{
    const real share = (real)1 / (real)contexts;
    for (int64_t k = 0; k < a->width; k++) {
        real sum = 0;
        for (int i = 0; i < contexts; i++)
            sum += in[i * stride + k];
        in[k] = sum * share;
    }
}

static double train(const fv_word2vec_args *a, const fv_word_center *c, int64_t stride, void *work)
{
    rows r = {.inputs = a->cbow ? 1 : c->contexts, .outputs = c->outputs, .in = work};
    r.out = r.in + (int64_t)c->contexts * stride;
    r.g = r.out + (int64_t)c->outputs * stride;
    for (int i = 0; i < c->contexts; i++)
        load_row(a->width, c->in[i], c->in_sum[i], r.in + i * stride);
    for (int j = 0; j < c->outputs; j++)
        load_row(a->width, c->out[j], c->out_sum[j], r.out + j * stride);
    if (a->cbow) average(a, c->contexts, stride, r.in);
    const double loss = factors(a, c, stride, &r);
    for (int first = 0; first < r.outputs; first += FV_WORD2VEC_TILE)
        for (int i = 0; i < r.inputs; i++)
            add_to_input(a, &r, stride, i, first, a->cbow ? c->contexts : 1, c->in_sum + i);
    for (int j = 0; j < r.outputs; j++)
        add_to_output(a, &r, stride, j, c->out_sum[j]);
    return loss;
}

static void word2vec(const fv_exec *exec, void *const *ptr, const void *args)
{
    static const fv_word_level level = {.element = sizeof(real), .train = train, .add = add_row};
    fv_word2vec_run(exec, ptr, args, &level);
}

void FV_NAME(fv_ref_word2vec_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_WORD2VEC][FV_REAL_DTYPE] = word2vec;
    t->scratch[FV_KERNEL_WORD2VEC] = fv_word2vec_scratch;
}
