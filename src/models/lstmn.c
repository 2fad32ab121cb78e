#include "models/lstmn.h"

#include <stdio.h>

#include "base/ctx.h"
#include "tensor/host_table.h"
#include "tensor/tensor.h"

static fv_status create_dense(fv_params *params, const char *prefix, const char *name, int64_t in,
                              int64_t out, bool bias, fv_dense *dense)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", prefix, name);
    return fv_dense_create(params, full, in, out, bias, 0, dense);
}

/* The biases at first: the last element is distance 1. */
static fv_tensor *create_nearness(fv_params *params, const char *prefix, const fv_lstmn_sizes *size)
{
    fv_ctx *ctx = fv_params_ctx(params);
    char name[96];
    snprintf(name, sizeof name, "%s.nearness", prefix);
    const int64_t n = size->distances;
    if (ctx->error != FV_OK) return ctx->invalid;
    float *start = fv_host_alloc(ctx, FV_F32, 1, &n);
    for (int64_t i = 0; start && i < n; i++)
        start[i] = (float)(-size->recency * (double)(n - 1 - i));
    return fv_params_add(params, name, fv_host_tensor(ctx, FV_F32, start, 1, &n, FV_F32));
}

fv_status fv_lstmn_layer_create(fv_params *params, const char *prefix, const fv_lstmn_sizes *size,
                                fv_lstmn_layer *out)
{
    fv_ctx *ctx = fv_params_ctx(params);
    const int64_t in = size->in, hidden = size->hidden, width = size->width;
    fv_lstmn_layer layer = {.plain = width == 0, .hidden = hidden};
    FV_TRY(create_dense(params, prefix, "x_gates", in, 4 * hidden, true, &layer.x_gates));
    FV_TRY(create_dense(params, prefix, "r_gates", hidden, 4 * hidden, false, &layer.r_gates));
    if (width > 0) {
        char name[96];
        FV_TRY(create_dense(params, prefix, "x_query", in, width, true, &layer.x_query));
        FV_TRY(create_dense(params, prefix, "r_query", hidden, width, false, &layer.r_query));
        FV_TRY(create_dense(params, prefix, "key", hidden, width, false, &layer.key));
        snprintf(name, sizeof name, "%s.v", prefix);
        layer.v = fv_params_add(params, name, fv_rand_normal(ctx, FV_F32, 1, &width, 0, 0.1));
        if (size->distances > 0) layer.nearness = create_nearness(params, prefix, size);
    }
    if (ctx->error == FV_OK) *out = layer;
    return ctx->error;
}

/* Column t of [rows, n, width] as [rows, width]. */
static fv_tensor *column(fv_ctx *ctx, fv_tensor *x, int64_t t)
{
    return fv_squeeze(ctx, fv_slice(ctx, x, 1, t, t + 1, 1), 1);
}

static void begin(fv_ctx *ctx, const fv_lstmn_layer *layer, int64_t rows, fv_lstmn_tape *tape)
{
    if (tape->h) return;
    const int64_t state[] = {rows, layer->hidden};
    tape->h = fv_full(ctx, FV_F32, 2, state, 0);
    tape->c = fv_full(ctx, FV_F32, 2, state, 0);
}

/* Appends `entry` [rows, width] to [rows, 1, n, width], or to nothing. */
static fv_tensor *append(fv_ctx *ctx, fv_tensor *tape, fv_tensor *entry)
{
    fv_tensor *last = fv_unsqueeze(ctx, fv_unsqueeze(ctx, entry, 1), 1);
    return tape ? fv_concat(ctx, 2, (fv_tensor *[]){tape, last}, 2) : last;
}

/* The bias of each of n keys, [n]; NULL: none. */
static fv_tensor *bias_of(fv_ctx *ctx, const fv_lstmn_layer *layer, int64_t n)
{
    if (!layer->nearness || ctx->error != FV_OK) return NULL;
    const int64_t known = layer->nearness->shape[0], far = n - known;
    if (far <= 0) return fv_slice(ctx, layer->nearness, 0, known - n, known, 1);
    fv_tensor *last = fv_slice(ctx, layer->nearness, 0, 0, 1, 1);
    fv_tensor *part[] = {fv_broadcast(ctx, last, 1, &far), layer->nearness};
    return fv_concat(ctx, 2, part, 0);
}

/* Reads the tape for one position: sets tape->h and c to r_t and m_t. */
static fv_tensor *read_tape(fv_ctx *ctx, const fv_lstmn_layer *layer, fv_tensor *query,
                            fv_lstmn_tape *tape, bool want_weights)
{
    if (!tape->keys) return NULL; /* the first position: r and m stay 0 */
    query = fv_add(ctx, query, fv_dense_run(ctx, &layer->r_query, tape->h));
    const fv_attention_input in = {.q = fv_unsqueeze(ctx, fv_unsqueeze(ctx, query, 1), 1),
                                   .k = tape->keys,
                                   .v = tape->states,
                                   .w = layer->v,
                                   .bias = bias_of(ctx, layer, tape->keys->shape[2]),
                                   .visible =
                                       tape->visible ? fv_cast(ctx, tape->visible, FV_U8) : NULL};
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = FV_ATTENTION_ADDITIVE;
    how.want_weights = want_weights;
    fv_attention_result result;
    fv_tensor *both = fv_attention_run(ctx, &in, &how, &result);
    if (ctx->error != FV_OK) return NULL;
    const int64_t rows = both->shape[0], size[] = {layer->hidden, layer->hidden};
    fv_tensor *part[2];
    both = fv_reshape(ctx, both, 2, (int64_t[]){rows, 2 * layer->hidden});
    fv_split(ctx, both, 1, 2, size, part);
    tape->h = part[0];
    tape->c = part[1];
    return want_weights ? result.weights : NULL;
}

/* Puts a position's states on the tape; `real` is f32 [rows, 1] or NULL. */
static void write_tape(fv_ctx *ctx, const fv_lstmn_layer *layer, fv_tensor *h, fv_tensor *c,
                       fv_tensor *real, fv_lstmn_tape *tape)
{
    if (layer->plain) {
        tape->h = real ? fv_mul(ctx, h, real) : h;
        tape->c = real ? fv_mul(ctx, c, real) : c;
        return;
    }
    tape->keys = append(ctx, tape->keys, fv_dense_run(ctx, &layer->key, h));
    tape->states = append(ctx, tape->states, fv_concat(ctx, 2, (fv_tensor *[]){h, c}, 1));
    if (!real) return;
    fv_tensor *seen = fv_unsqueeze(ctx, fv_unsqueeze(ctx, real, 1), 1);
    tape->visible =
        tape->visible ? fv_concat(ctx, 2, (fv_tensor *[]){tape->visible, seen}, 3) : seen;
}

/* Weights [rows, 1, 1, n] with zeros up to `length`; NULL: zeros alone. */
static fv_tensor *widen(fv_ctx *ctx, fv_tensor *weights, int64_t rows, int64_t length)
{
    if (!weights) return fv_full(ctx, FV_F32, 4, (int64_t[]){rows, 1, 1, length}, 0);
    const int64_t before[4] = {0}, after[] = {0, 0, 0, length - weights->shape[3]};
    return fv_pad(ctx, weights, before, after, 0);
}

static fv_tensor *read_all(fv_ctx *ctx, const fv_lstmn_layer *layer, fv_tensor *x, fv_tensor *real,
                           fv_lstmn_tape *tape, fv_tensor **h_list, fv_tensor **weights_list)
{
    const int64_t rows = x->shape[0], n = x->shape[1];
    const fv_dtype compute = fv_ctx_compute(ctx);
    fv_tensor *gates = fv_cast(ctx, fv_dense_run(ctx, &layer->x_gates, x), FV_F32);
    fv_tensor *query =
        layer->plain ? NULL : fv_cast(ctx, fv_dense_run(ctx, &layer->x_query, x), FV_F32);
    ctx->compute = FV_F32; /* states pass through too many roundings otherwise */
    begin(ctx, layer, rows, tape);
    const int64_t length = n + (tape->keys ? tape->keys->shape[2] : 0);
    for (int64_t t = 0; t < n && ctx->error == FV_OK; t++) {
        fv_tensor *weights = NULL, *h, *c;
        if (!layer->plain)
            weights = read_tape(ctx, layer, column(ctx, query, t), tape, weights_list != NULL);
        fv_tensor *sum =
            fv_add(ctx, column(ctx, gates, t), fv_dense_run(ctx, &layer->r_gates, tape->h));
        fv_lstm_cell(ctx, sum, tape->c, &h, &c);
        write_tape(ctx, layer, h, c, real ? fv_slice(ctx, real, 1, t, t + 1, 1) : NULL, tape);
        h_list[t] = h;
        if (weights_list) weights_list[t] = widen(ctx, weights, rows, length);
    }
    ctx->compute = (int)compute;
    return fv_stack(ctx, (int)n, h_list, 1);
}

fv_tensor *fv_lstmn_read(fv_ctx *ctx, const fv_lstmn_layer *layer, fv_tensor *x, fv_tensor *real,
                         fv_lstmn_tape *tape, fv_tensor **weights)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t n = x->shape[1];
    if (n < 1 || n > FV_LSTMN_LONGEST) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "lstmn: %lld positions, expected 1 to %d", (long long)n,
                  (int)FV_LSTMN_LONGEST);
        return ctx->invalid;
    }
    const size_t bytes = 2 * (size_t)n * sizeof(fv_tensor *);
    fv_tensor **list = fv_mem_alloc(&ctx->mem, bytes);
    if (!list) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld positions", (long long)n);
        return ctx->invalid;
    }
    fv_tensor *h = read_all(ctx, layer, x, real, tape, list, weights ? list + n : NULL);
    if (weights) *weights = fv_concat(ctx, (int)n, list + n, 2);
    fv_mem_free(&ctx->mem, list, bytes);
    return h;
}
