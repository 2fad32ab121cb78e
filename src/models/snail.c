/*
 * Both taps of a convolution are one product of x_t, W x_t and V x_t beside each other, of which
 * the second half is moved by d steps: x, the widest tensor of a block, is read once, and a step
 * only has to keep the narrow V x_t.
 */
#include "models/snail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "fovea/autograd.h"
#include "models/capture.h"
#include "nn/weights.h"
#include "tensor/launch.h"
#include "tensor/tensor.h"

enum { MAX_WIDTH = 4096, TAPS = 2, GATES = 2 };

/* ---- stages from text ----------------------------------------------------------------------- */

/* A number from 1 to MAX_WIDTH, which *at then is behind. */
static bool read_width(const char **at, int64_t *out)
{
    char *end;
    if (**at != ' ') return false;
    while (**at == ' ')
        (*at)++;
    if (**at < '0' || **at > '9') return false;
    const long long n = strtoll(*at, &end, 10);
    if (n < 1 || n > MAX_WIDTH) return false;
    *out = n;
    *at = end;
    return true;
}

static bool read_word(const char **at, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) return false;
    *at += n;
    return true;
}

static bool read_stage(const char **at, fv_snail_stage *out)
{
    *out = (fv_snail_stage){0};
    while (**at == ' ')
        (*at)++;
    const bool read = read_word(at, "tc")
                          ? read_width(at, &out->filters)
                          : read_word(at, "attention") && read_width(at, &out->keys) &&
                                read_width(at, &out->values);
    while (**at == ' ')
        (*at)++;
    return read && (**at == ',' || **at == '\0');
}

fv_status fv_snail_read_stages(fv_ctx *ctx, const char *text, fv_snail_config *cfg)
{
    fv_snail_stage stage[FV_SNAIL_STAGES];
    int count = 0;
    bool more = true;
    for (const char *at = text; more; at++) {
        const bool read = count < FV_SNAIL_STAGES && read_stage(&at, &stage[count++]);
        FV_RETURN_IF(!read, ctx, FV_ERR_ARGUMENT,
                     "snail: stages '%.80s', expected at most %d like \"tc 32, attention 32 16\", "
                     "widths from 1 to %d",
                     text, (int)FV_SNAIL_STAGES, (int)MAX_WIDTH);
        more = *at == ',';
    }
    memcpy(cfg->stage, stage, (size_t)count * sizeof *stage);
    cfg->stage_count = count;
    return FV_OK;
}

/* ---- parameters ----------------------------------------------------------------------------- */

/* Dense blocks after which the last of `steps` steps sees the first one. */
static int dense_count(int64_t steps)
{
    int count = 1;
    while ((int64_t)1 << count < steps)
        count++;
    return count;
}

static void create_dense(fv_params *params, const char *prefix, int64_t in, int64_t filters,
                         fv_snail_dense *out)
{
    const int64_t shape[2] = {TAPS * GATES * filters, in}, biases = GATES * filters;
    out->weight =
        fv_nn_weight(params, prefix, "weight", 2, shape, fv_init_xavier(TAPS * in, filters));
    out->bias = fv_nn_weight(params, prefix, "bias", 1, &biases, fv_init_constant(0));
}

static fv_status create_stage(fv_params *params, const char *prefix, int i, fv_snail *snail)
{
    const fv_snail_stage *stage = &snail->cfg.stage[i];
    char name[FV_NN_NAME];
    for (int k = 0; stage->filters > 0 && k < snail->dense_count; k++) {
        snprintf(name, sizeof name, "%s.%d.dense.%d", prefix, i, k);
        create_dense(params, name, snail->outputs, stage->filters, &snail->part[i].dense[k]);
        snail->outputs += stage->filters;
    }
    if (stage->filters > 0) return fv_params_ctx(params)->error;
    snprintf(name, sizeof name, "%s.%d.query", prefix, i);
    FV_TRY(
        fv_dense_create(params, name, snail->outputs, stage->keys, true, 0, &snail->part[i].query));
    snprintf(name, sizeof name, "%s.%d.key", prefix, i);
    FV_TRY(
        fv_dense_create(params, name, snail->outputs, stage->keys, true, 0, &snail->part[i].key));
    snprintf(name, sizeof name, "%s.%d.value", prefix, i);
    FV_TRY(fv_dense_create(params, name, snail->outputs, stage->values, true, 0,
                           &snail->part[i].value));
    snail->outputs += stage->values;
    snail->attention_count++;
    return FV_OK;
}

static bool fits(int64_t width) { return width >= 1 && width <= MAX_WIDTH; }

fv_status fv_snail_create(fv_params *params, const char *prefix, const fv_snail_config *cfg,
                          fv_snail *out)
{
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(!fits(cfg->inputs) || cfg->steps < 1 || cfg->steps > FV_SNAIL_MAX_STEPS ||
                     cfg->stage_count < 0 || cfg->stage_count > FV_SNAIL_STAGES,
                 ctx, FV_ERR_ARGUMENT,
                 "snail: %lld inputs, %lld steps, %d stages, expected at most %d, %d and %d",
                 (long long)cfg->inputs, (long long)cfg->steps, cfg->stage_count, (int)MAX_WIDTH,
                 (int)FV_SNAIL_MAX_STEPS, (int)FV_SNAIL_STAGES);
    fv_snail snail = {.cfg = *cfg, .dense_count = dense_count(cfg->steps), .outputs = cfg->inputs};
    for (int i = 0; i < cfg->stage_count; i++) {
        const fv_snail_stage *s = &cfg->stage[i];
        const bool convolves = fits(s->filters) && s->keys == 0 && s->values == 0;
        const bool attends = s->filters == 0 && fits(s->keys) && s->keys <= FV_ATTN_MAX_WIDTH &&
                             fits(s->values) && s->values <= FV_ATTN_MAX_WIDTH;
        FV_RETURN_IF(!convolves && !attends, ctx, FV_ERR_ARGUMENT,
                     "snail: stage %d has %lld filters, %lld keys and %lld values, expected "
                     "filters up to %d, or keys and values up to %d",
                     i, (long long)s->filters, (long long)s->keys, (long long)s->values,
                     (int)MAX_WIDTH, (int)FV_ATTN_MAX_WIDTH);
        FV_TRY(create_stage(params, prefix, i, &snail));
    }
    *out = snail;
    return FV_OK;
}

/* ---- sequences ------------------------------------------------------------------------------ */

/* tanh(f) * sigmoid(g) of what both taps add up to, [..., 2 filters], appended to x. */
static fv_tensor *append_gated(fv_ctx *ctx, const fv_snail_dense *dense, int64_t filters,
                               fv_tensor *x, fv_tensor *sum)
{
    sum = fv_add(ctx, sum, dense->bias);
    fv_tensor *part[2];
    fv_split(ctx, sum, -1, 2, (int64_t[]){filters, filters}, part);
    fv_tensor *y = fv_mul(ctx, fv_tanh(ctx, part[0]), fv_sigmoid(ctx, part[1]));
    return fv_concat(ctx, 2, (fv_tensor *[]){x, y}, -1);
}

/* W x and V x. */
static void products(fv_ctx *ctx, const fv_snail_dense *dense, int64_t filters, fv_tensor *x,
                     fv_tensor *out[TAPS])
{
    const int64_t sizes[TAPS] = {GATES * filters, GATES * filters};
    fv_split(ctx, fv_linear(ctx, x, dense->weight, NULL), -1, TAPS, sizes, out);
}

static fv_tensor *run_dense(fv_ctx *ctx, const fv_snail_dense *dense, int64_t filters,
                            int64_t dilation, fv_tensor *x)
{
    const int64_t n = fv_tensor_size(x, 1), before[3] = {0, dilation, 0}, after[3] = {0};
    fv_tensor *tap[TAPS];
    products(ctx, dense, filters, x, tap);
    if (dilation < n) {
        fv_tensor *earlier = fv_slice(ctx, tap[1], 1, 0, n - dilation, 1);
        tap[0] = fv_add(ctx, tap[0], fv_pad(ctx, earlier, before, after, 0));
    }
    return append_gated(ctx, dense, filters, x, tap[0]);
}

static void site_name(int number, char name[32]) { snprintf(name, 32, "attention.%d", number); }

/* [rows, n, width] as [rows, 1, n, width]: one head. */
static fv_tensor *project(fv_ctx *ctx, const fv_dense *dense, fv_tensor *x)
{
    return fv_unsqueeze(ctx, fv_dense_run(ctx, dense, x), 1);
}

static fv_tensor *run_attention(fv_ctx *ctx, const fv_snail *snail, int stage, int number,
                                fv_tensor *x, const fv_pass *pass)
{
    char site[32];
    site_name(number, site);
    const fv_capture *capture = pass ? pass->capture : NULL;
    const fv_attention_input in = {.q = project(ctx, &snail->part[stage].query, x),
                                   .k = project(ctx, &snail->part[stage].key, x),
                                   .v = project(ctx, &snail->part[stage].value, x)};
    fv_attention how;
    fv_attention_result result;
    fv_attention_init(&how, sizeof how);
    how.rule.causal = FV_CAUSAL_TOP_LEFT;
    if (fv_capture_wants(capture, site)) how.capture = capture->options;
    fv_tensor *read = fv_squeeze(ctx, fv_attention_run(ctx, &in, &how, &result), 1);
    if (ctx->error == FV_OK) fv_capture_report(ctx, capture, site, &result.captured);
    return fv_concat(ctx, 2, (fv_tensor *[]){x, read}, -1);
}

fv_tensor *fv_snail_run(fv_ctx *ctx, const fv_snail *snail, fv_tensor *x, const fv_pass *pass)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (fv_tensor_rank(x) != 3 || fv_tensor_size(x, 2) != snail->cfg.inputs ||
        fv_tensor_size(x, 1) < 1 || fv_tensor_size(x, 1) > snail->cfg.steps) {
        char shape[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_SHAPE, "snail: inputs %s, expected [rows, 1 to %lld steps, %lld]",
                  fv_shape_text(shape, x->rank, x->shape), (long long)snail->cfg.steps,
                  (long long)snail->cfg.inputs);
        return ctx->invalid;
    }
    int attention = 0;
    for (int i = 0; i < snail->cfg.stage_count; i++) {
        const int64_t filters = snail->cfg.stage[i].filters;
        for (int k = 0; filters > 0 && k < snail->dense_count; k++)
            x = run_dense(ctx, &snail->part[i].dense[k], filters, (int64_t)1 << k, x);
        if (filters == 0) x = run_attention(ctx, snail, i, attention++, x, pass);
    }
    return x;
}

int fv_snail_sites(const fv_snail *snail, fv_site *out, int capacity)
{
    for (int i = 0; i < snail->attention_count && i < capacity; i++) {
        out[i] = (fv_site){.heads = 1, .queries = FV_AXIS_STEPS, .keys = FV_AXIS_STEPS};
        char name[32];
        site_name(i, name);
        memcpy(out[i].name, name, sizeof name);
    }
    return snail->attention_count;
}

/* ---- steps ---------------------------------------------------------------------------------- */

void fv_snail_begin(fv_ctx *ctx, const fv_snail *snail, int64_t rows, fv_snail_state *out)
{
    *out = (fv_snail_state){.rows = rows};
    for (int i = 0; i < snail->cfg.stage_count; i++) {
        const fv_snail_stage *stage = &snail->cfg.stage[i];
        for (int k = 0; stage->filters > 0 && k < snail->dense_count; k++)
            out->delayed[i][k] = fv_zeros(
                ctx, FV_F32, 3, (int64_t[]){(int64_t)1 << k, rows, GATES * stage->filters});
        if (stage->filters > 0) continue;
        out->keys[i] =
            fv_empty(ctx, FV_F32, 4, (int64_t[]){rows, 1, snail->cfg.steps, stage->keys});
        out->values[i] =
            fv_empty(ctx, FV_F32, 4, (int64_t[]){rows, 1, snail->cfg.steps, stage->values});
    }
}

/* Puts x into place `at` along an axis of a state tensor. */
static void put(fv_ctx *ctx, fv_tensor *into, int axis, int64_t at, fv_tensor *x)
{
    fv_tensor *place = fv_slice(ctx, into, axis, at, at + 1, 1);
    if (ctx->error == FV_OK) fv_copy_into(ctx, place, x);
}

static fv_tensor *step_dense(fv_ctx *ctx, const fv_snail_dense *dense, int64_t filters,
                             fv_tensor *delayed, int64_t step, fv_tensor *x)
{
    const int64_t at = step % fv_tensor_size(delayed, 0);
    fv_tensor *tap[TAPS];
    products(ctx, dense, filters, x, tap);
    fv_tensor *sum =
        fv_add(ctx, tap[0], fv_squeeze(ctx, fv_slice(ctx, delayed, 0, at, at + 1, 1), 0));
    put(ctx, delayed, 0, at, tap[1]);
    return append_gated(ctx, dense, filters, x, sum);
}

static fv_tensor *step_attention(fv_ctx *ctx, const fv_snail *snail, int stage,
                                 const fv_snail_state *state, fv_tensor *x)
{
    fv_tensor *keys = state->keys[stage], *values = state->values[stage];
    const int64_t n = state->steps + 1;
    fv_tensor *one = fv_unsqueeze(ctx, x, 1); /* [rows, 1, width] */
    put(ctx, keys, 2, n - 1, project(ctx, &snail->part[stage].key, one));
    put(ctx, values, 2, n - 1, project(ctx, &snail->part[stage].value, one));
    fv_tensor *query = project(ctx, &snail->part[stage].query, one);
    fv_tensor *read = fv_attend(ctx, query, fv_slice(ctx, keys, 2, 0, n, 1),
                                fv_slice(ctx, values, 2, 0, n, 1), NULL, NULL, NULL);
    return fv_concat(ctx, 2, (fv_tensor *[]){x, fv_squeeze(ctx, fv_squeeze(ctx, read, 1), 1)}, -1);
}

fv_tensor *fv_snail_step(fv_ctx *ctx, const fv_snail *snail, fv_snail_state *state, fv_tensor *x)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (state->steps >= snail->cfg.steps || fv_tensor_rank(x) != 2 ||
        fv_tensor_size(x, 0) != state->rows || fv_tensor_size(x, 1) != snail->cfg.inputs) {
        char shape[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_ARGUMENT,
                  "snail: step %lld of inputs %s, expected at most %lld steps of [%lld, %lld]",
                  (long long)state->steps + 1, fv_shape_text(shape, x->rank, x->shape),
                  (long long)snail->cfg.steps, (long long)state->rows,
                  (long long)snail->cfg.inputs);
        return ctx->invalid;
    }
    fv_no_grad_begin(ctx);
    for (int i = 0; i < snail->cfg.stage_count; i++) {
        const int64_t filters = snail->cfg.stage[i].filters;
        for (int k = 0; filters > 0 && k < snail->dense_count; k++)
            x = step_dense(ctx, &snail->part[i].dense[k], filters, state->delayed[i][k],
                           state->steps, x);
        if (filters == 0) x = step_attention(ctx, snail, i, state, x);
    }
    fv_no_grad_end(ctx);
    state->steps++;
    return x;
}
