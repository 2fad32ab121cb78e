#include "support/opcase.h"

#include "base/rng.h"
#include "fovea/autograd.h"
#include "kernels/half.h"

/* ---- numbers ---------------------------------------------------------------------- */

static double uniform(uint64_t key, int64_t i)
{
    uint32_t r[4];
    fv_rng_draw(key, (uint64_t)i, 0, r);
    return ((double)r[0] + 0.5) * 0x1p-32;
}

static double normal(uint64_t key, int64_t i)
{
    uint32_t r[4];
    fv_rng_draw(key, (uint64_t)i, 1, r);
    double u = ((double)r[0] + 0.5) * 0x1p-32, v = ((double)r[1] + 0.5) * 0x1p-32;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

/* A value that is exact in float, so that f32 and f64 runs see the same problem. */
static double real_value(fv_gen gen, uint64_t key, int64_t i, int64_t count)
{
    double x = normal(key, i);
    switch (gen) {
    case FV_GEN_POSITIVE:
        x = 0.5 + 2.0 * uniform(key, i);
        break;
    case FV_GEN_UNIT:
        x = 0.1 + 0.8 * uniform(key, i);
        break;
    case FV_GEN_OFFZERO:
        x += x < 0 ? -0.2 : 0.2;
        break;
    case FV_GEN_APART: {
        /* Visits all multiples of 0.05 with a step that is coprime to the count. */
        int64_t step = 1;
        for (int64_t s = count / 2 + 1; s < count; s++) {
            int64_t a = s, b = count;
            while (b) {
                int64_t t = a % b;
                a = b;
                b = t;
            }
            if (a == 1) {
                step = s;
                break;
            }
        }
        x = 0.06 * (double)((i * step) % count) - 0.03 * (double)count;
        break;
    }
    default:
        break;
    }
    return (double)(float)x;
}

static double special_value(uint64_t key, int64_t i, double x)
{
    static const double specials[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 1e-42, -3e-40, 3e38};
    double u = uniform(key ^ 0x5bd1e995u, i);
    if (u > 0.25) return x;
    return (double)(float)specials[(int)(u * 4 * 8) & 7];
}

static void store(fv_dtype dtype, void *data, int64_t e, double x)
{
    if (dtype == FV_BF16)
        ((uint16_t *)data)[e] = fv_f32_to_bf16((float)x);
    else if (dtype == FV_F32)
        ((float *)data)[e] = (float)x;
    else
        ((double *)data)[e] = x;
}

/* ---- inputs ----------------------------------------------------------------------- */

bool op_case_differentiates(const fv_op_case *c, int i)
{
    const fv_case_input *in = &c->in[i];
    return in->gen != FV_GEN_NONE && in->gen <= FV_GEN_APART && !in->constant;
}

static void stretched_shape(const fv_case_input *in, int stretch, int64_t *shape)
{
    for (int a = 0; a < in->rank; a++)
        shape[a] = in->shape[a] * (stretch > 1 ? stretch : 1);
}

int64_t op_case_count(const fv_op_case *c, int i, int stretch)
{
    int64_t shape[FV_MAX_RANK], n = 1;
    stretched_shape(&c->in[i], stretch, shape);
    for (int a = 0; a < c->in[i].rank; a++)
        n *= shape[a];
    return c->in[i].gen == FV_GEN_NONE ? 0 : n;
}

/* A status that must be FV_OK, unless failures are what the test is about. */
static void expect(fv_ctx *ctx, const op_run_options *o, fv_status status)
{
    if (status != FV_OK && !o->quiet)
        test_failed(__FILE__, __LINE__, "%s: %s", fv_status_name(status), fv_ctx_message(ctx));
}

/* The tensor with these row-major values in the requested layout; odd layouts are views. */
static fv_tensor *laid_out(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape,
                           const void *data, size_t bytes, const op_run_options *o)
{
    if (o->layout == OP_CONTIGUOUS || rank == 0) return fv_from_host(ctx, dtype, rank, shape, data);
    int64_t room[FV_MAX_RANK];
    fv_tensor *view;
    if (o->layout == OP_STRIDED) { /* every second element of a larger array, from the second on */
        for (int a = 0; a < rank; a++)
            room[a] = shape[a] * (a == rank - 1 ? 2 : 1) + 1;
        view = fv_full(ctx, dtype, rank, room, 77.0);
        for (int a = 0; a < rank; a++)
            view = a == rank - 1 ? fv_slice(ctx, view, a, 1, room[a], 2)
                                 : fv_slice(ctx, view, a, 1, room[a], 1);
    } else {
        int axes[FV_MAX_RANK];
        for (int a = 0; a < rank; a++) {
            room[a] = shape[rank - 1 - a];
            axes[a] = rank - 1 - a;
        }
        view = fv_permute(ctx, fv_full(ctx, dtype, rank, room, 77.0), axes);
    }
    if (fv_ctx_error(ctx) == FV_OK) expect(ctx, o, fv_tensor_write(ctx, view, data, bytes));
    return view;
}

bool op_case_rounds(const fv_op_desc *desc, int i, const op_run_options *o)
{
    const bool all = desc->bf16 == FV_BF16_WIDENS || desc->bf16 == FV_BF16_MOVES;
    if (o->dtype != FV_BF16 && !o->rounded) return false;
    return (all || desc->bf16_inputs >> i & 1u) && !(o->keep_f32 >> i & 1u);
}

static fv_dtype real_dtype(const fv_op_desc *desc, int i, const op_run_options *o)
{
    if (o->dtype != FV_BF16) return o->dtype;
    return op_case_rounds(desc, i, o) ? FV_BF16 : FV_F32;
}

static fv_tensor *make_input(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c, int i,
                             const op_run_options *o)
{
    const fv_case_input *in = &c->in[i];
    if (in->gen == FV_GEN_NONE) return NULL;
    int64_t shape[FV_MAX_RANK];
    stretched_shape(in, o->stretch, shape);
    int64_t count = op_case_count(c, i, o->stretch);
    const bool whole =
        in->gen == FV_GEN_INDEX || in->gen == FV_GEN_OFFSETS || in->gen == FV_GEN_LENGTHS;
    fv_dtype dtype = whole ? FV_I64 : in->gen == FV_GEN_MASK ? FV_U8 : real_dtype(desc, i, o);
    size_t bytes = (size_t)count * fv_dtype_size(dtype);
    void *data = malloc(bytes + 1);
    uint64_t key =
        fv_rng_key(20261115, (uint64_t)desc->id, (uint64_t)(c - desc->cases) * 16 + (uint64_t)i);
    const int64_t total = in->bound * (o->stretch > 1 ? o->stretch : 1), last = count - 1;
    int64_t rest = total - count;
    for (int64_t e = 0; e < count; e++) {
        if (in->gen == FV_GEN_OFFSETS) { /* parts that grow, the first ones empty */
            ((int64_t *)data)[e] = last > 0 ? total * e * e / (last * last) : 0;
        } else if (in->gen == FV_GEN_LENGTHS) { /* one each, and half of what is left */
            const int64_t more = e < last ? (rest + 1) / 2 : rest;
            ((int64_t *)data)[e] = 1 + more;
            rest -= more;
        } else if (dtype == FV_I64) {
            ((int64_t *)data)[e] = (int64_t)(uniform(key, e) * (double)in->bound);
        } else if (dtype == FV_U8) {
            ((uint8_t *)data)[e] = uniform(key, e) < 0.5;
        } else {
            double x = real_value(in->gen, key, e, count);
            const double special = o->specials ? special_value(key, e, x) : x;
            if (isfinite(special) || !(desc->finite_inputs >> i & 1u)) x = special;
            if (i == o->input && e == o->at) x += o->delta;
            if (op_case_rounds(desc, i, o)) x = (double)fv_round_bf16((float)x);
            store(dtype, data, e, x);
        }
    }
    fv_tensor *t = laid_out(ctx, dtype, in->rank, shape, data, bytes, o);
    free(data);
    if (!op_case_differentiates(c, i) || o->no_grad) return t;
    if (dtype == FV_BF16)
        t->flags |= FV_TENSOR_LEAF; /* a program's leaves are f32 or f64 */
    else
        fv_leaf(ctx, t);
    return t;
}

/* ---- running ---------------------------------------------------------------------- */

static op_array fetch(fv_ctx *ctx, const op_run_options *o, fv_tensor *t)
{
    op_array a = {0};
    if (!t) return a;
    a.present = true;
    a.dtype = fv_tensor_dtype(t);
    a.count = fv_tensor_count(t);
    a.bytes = (size_t)a.count * fv_dtype_size(a.dtype);
    a.data = calloc(1, a.bytes + 1);
    expect(ctx, o, fv_tensor_read(ctx, t, a.data, a.bytes));
    return a;
}

static bool is_float(fv_dtype dtype)
{
    return dtype == FV_F32 || dtype == FV_F64 || dtype == FV_BF16;
}

static double weight_of(int k, int64_t i) { return normal(fv_rng_key(7, (uint64_t)k, 99), i); }

static fv_tensor *output_weights(fv_ctx *ctx, const op_run_options *o, const fv_tensor *out, int k)
{
    int64_t n = fv_tensor_count(out);
    fv_dtype dtype = fv_tensor_dtype(out);
    void *data = malloc((size_t)n * 8 + 1);
    for (int64_t i = 0; i < n; i++) {
        double w = (double)(float)weight_of(k, i);
        if (o->dtype == FV_BF16 || o->rounded) w = (double)fv_round_bf16((float)w);
        store(dtype, data, i, w);
    }
    fv_tensor *t = fv_from_host(ctx, dtype, fv_tensor_rank(out), fv_tensor_shape(out), data);
    free(data);
    return t;
}

/* Sets the gradients of all results, then runs backward once, without further ops. */
static void run_backward(fv_ctx *ctx, const op_run_options *o, int n_out, fv_tensor **out)
{
    int first = -1;
    for (int k = 0; k < n_out; k++) {
        if (!is_float(fv_tensor_dtype(out[k])) || !out[k]->node) continue;
        fv_tensor *w = output_weights(ctx, o, out[k], k);
        if (first < 0) {
            first = k;
            continue;
        }
        if (fv_ctx_error(ctx) != FV_OK) return;
        fv_tensor_ref(w);
        out[k]->node->grad[k] = w;
    }
    if (first >= 0)
        expect(ctx, o,
               fv_backward_from(ctx, out[first], output_weights(ctx, o, out[first], first)));
}

bool op_case_run(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c, const op_run_options *o,
                 op_result *r)
{
    *r = (op_result){.n_in = c->n_in, .n_out = desc->n_out ? desc->n_out : 1};
    fv_ctx_set_step(ctx, 3, 0);
    fv_scope_begin(ctx);
    if (o->no_grad) fv_no_grad_begin(ctx);
    fv_tensor *in[FV_CASE_INPUTS] = {NULL}, *out[FV_OP_MAX_OUT] = {NULL};
    for (int i = 0; i < c->n_in; i++)
        in[i] = make_input(ctx, desc, c, i, o);
    if (desc->apply)
        out[0] = desc->apply(ctx, c->n_in, in, c->params);
    else
        fv_op_apply_many(ctx, desc->id, c->n_in, in, c->params, r->n_out, out);
    bool ok = fv_ctx_error(ctx) == FV_OK;
    if (!ok && !o->quiet && o->stretch <= 1)
        test_failed(__FILE__, __LINE__, "%s '%s': %s", desc->name, c->name, fv_ctx_message(ctx));
    if (ok) {
        for (int k = 0; k < r->n_out; k++)
            r->out[k] = fetch(ctx, o, out[k]);
        if (!o->no_grad && desc->backward) {
            run_backward(ctx, o, r->n_out, out);
            for (int i = 0; i < c->n_in; i++)
                if (op_case_differentiates(c, i)) r->grad[i] = fetch(ctx, o, fv_grad(ctx, in[i]));
        }
    }
    if (o->no_grad) fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    r->failed = fv_ctx_take_error(ctx) != FV_OK;
    return ok;
}

void op_result_free(op_result *r)
{
    for (int k = 0; k < r->n_out; k++)
        free(r->out[k].data);
    for (int i = 0; i < r->n_in; i++)
        free(r->grad[i].data);
    *r = (op_result){0};
}

double op_array_get(const op_array *a, int64_t i)
{
    if (a->dtype == FV_BF16) return (double)fv_bf16_to_f32(((const uint16_t *)a->data)[i]);
    return a->dtype == FV_F32 ? (double)((const float *)a->data)[i] : ((const double *)a->data)[i];
}

double op_result_value(const op_result *r)
{
    double sum = 0;
    for (int k = 0; k < r->n_out; k++)
        for (int64_t i = 0; is_float(r->out[k].dtype) && i < r->out[k].count; i++) {
            double x = op_array_get(&r->out[k], i);
            /* An infinity is a constant (the log of an empty sum) and has no finite difference. */
            if (!isinf(x)) sum += (double)(float)weight_of(k, i) * x;
        }
    return sum;
}

int64_t op_array_differs(const op_array *a, const op_array *b)
{
    if (a->present != b->present || a->dtype != b->dtype || a->count != b->count) return 0;
    if (!a->present || memcmp(a->data, b->data, a->bytes) == 0) return -1;
    size_t size = fv_dtype_size(a->dtype);
    for (int64_t i = 0; i < a->count; i++) {
        const char *pa = (const char *)a->data + (size_t)i * size;
        const char *pb = (const char *)b->data + (size_t)i * size;
        if (memcmp(pa, pb, size) == 0) continue;
        if (is_float(a->dtype) && isnan(op_array_get(a, i)) && isnan(op_array_get(b, i))) continue;
        return i;
    }
    return -1;
}

fv_ctx *op_context(fv_simd level, int threads, fv_device_kind device)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.simd = level;
    cfg.threads = threads;
    cfg.device = device;
    cfg.seed = 11;
    fv_ctx *ctx = NULL;
    fv_status status = fv_ctx_create(&cfg, &ctx);
    if (status != FV_OK) test_failed(__FILE__, __LINE__, "context: %s", fv_status_name(status));
    return ctx;
}
