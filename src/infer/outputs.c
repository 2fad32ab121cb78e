#include "infer/search.h"

#include <math.h>
#include <string.h>

#include "fovea/ops.h"

const fv_node *fv_search_extend(const fv_search_run *s, const fv_node *parent, int64_t token,
                                double log_prob, const float *weights, int64_t positions)
{
    fv_arena *arena = &s->outputs->arena;
    fv_node *node = fv_arena_alloc(arena, sizeof *node);
    if (!node) return NULL;
    *node = (fv_node){.parent = parent,
                      .token = token,
                      .depth = parent ? parent->depth + 1 : 1,
                      .log_prob = log_prob,
                      .weights = weights};
    if (!weights || s->cfg->coverage_beta == 0) return node;
    double *covered = fv_arena_array(arena, (size_t)positions, sizeof *covered);
    if (!covered) return NULL;
    for (int64_t i = 0; i < positions; i++)
        covered[i] = (parent ? parent->covered[i] : 0) + (double)weights[i];
    node->covered = covered;
    return node;
}

/* Positions past the source's end have weight 0 in every step and are not counted; so is a position
 * inside that no step attended to at all. */
static double coverage(const fv_node *last, int64_t positions)
{
    double sum = 0;
    for (int64_t i = 0; last->covered && i < positions; i++)
        if (last->covered[i] > 0 && last->covered[i] < 1) sum += log(last->covered[i]);
    return sum;
}

double fv_search_length_penalty(const fv_search_run *s, int64_t tokens)
{
    const double length = (double)tokens;
    return pow(s->cfg->as_transformers ? length : (5.0 + length) / 6.0, s->cfg->length_alpha);
}

double fv_search_score(const fv_search_run *s, const fv_node *last, int64_t positions)
{
    double score = last->log_prob / fv_search_length_penalty(s, last->depth);
    if (s->cfg->coverage_beta != 0) score += s->cfg->coverage_beta * coverage(last, positions);
    return score;
}

static bool write_output(const fv_search_run *s, const fv_node *last, bool ended, int64_t positions,
                         fv_output *out)
{
    fv_arena *arena = &s->outputs->arena;
    const int64_t steps = last->depth;
    int64_t *tokens = fv_arena_array(arena, (size_t)steps, sizeof *tokens);
    const bool keep = s->cfg->want_weights && last->weights;
    float *weights =
        keep ? fv_arena_array(arena, (size_t)(steps * positions), sizeof *weights) : NULL;
    if (!tokens || (keep && !weights)) return false;
    const fv_node *node = last;
    for (int64_t t = steps - 1; t >= 0; t--, node = node->parent) {
        tokens[t] = node->token;
        if (weights)
            memcpy(weights + t * positions, node->weights, (size_t)positions * sizeof *weights);
    }
    *out = (fv_output){.tokens = tokens,
                       .count = ended ? steps - 1 : steps,
                       .ended = ended,
                       .score = fv_search_score(s, last, positions),
                       .log_prob = last->log_prob,
                       .weights = weights,
                       .positions = weights ? positions : 0};
    return true;
}

fv_status fv_search_finish(const fv_search_run *s, int64_t source, const fv_node *last, bool ended,
                           int64_t positions)
{
    fv_outputs *outputs = s->outputs;
    fv_output *list = outputs->list + source * outputs->room;
    int *count = &outputs->count[source];
    const double score = fv_search_score(s, last, positions);
    if (*count == outputs->room && !(score > list[*count - 1].score)) return FV_OK;
    fv_output output;
    FV_RETURN_IF(!write_output(s, last, ended, positions, &output), s->ctx, FV_ERR_MEMORY,
                 "search: no memory for an output");
    if (*count < outputs->room) (*count)++;
    int at = *count - 1;
    for (; at > 0 && list[at - 1].score < score; at--)
        list[at] = list[at - 1];
    list[at] = output;
    return FV_OK;
}

static bool wants_weights(const fv_search_run *s)
{
    return s->cfg->want_weights || s->cfg->coverage_beta != 0;
}

/* ---- steps of the model ------------------------------------------------------------ */

/* Logits with -infinity at invalid choices. */
static fv_tensor *valid_logits(fv_ctx *ctx, const fv_step_output *out, int64_t max_choices)
{
    fv_tensor *logits = out->logits;
    if (out->choices) {
        fv_tensor *number = fv_cumsum(ctx, fv_full(ctx, FV_F64, 1, &max_choices, 1.0), 0);
        fv_tensor *count = fv_unsqueeze(ctx, fv_cast(ctx, out->choices, FV_F64), -1);
        logits = fv_masked_fill(ctx, logits, fv_gt(ctx, number, count), -INFINITY);
    }
    if (out->mask) {
        fv_tensor *zero = fv_zeros(ctx, FV_F32, 1, (int64_t[]){1});
        fv_tensor *invalid = fv_eq(ctx, fv_cast(ctx, out->mask, FV_F32), zero);
        logits = fv_masked_fill(ctx, logits, invalid, -INFINITY);
    }
    return logits;
}

static fv_status check_logits(const fv_search_run *s, const fv_tensor *logits, int64_t rows)
{
    fv_ctx *ctx = s->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    const int64_t n = s->stepper->max_choices;
    FV_RETURN_IF(!logits || fv_tensor_rank(logits) != 2 || fv_tensor_size(logits, 0) != rows ||
                     fv_tensor_size(logits, 1) != n,
                 ctx, FV_ERR_SHAPE, "search: a step must return logits of shape [%lld, %lld]",
                 (long long)rows, (long long)n);
    return FV_OK;
}

fv_search_step_result fv_search_step(const fv_search_run *s, int64_t rows, const int64_t *tokens)
{
    fv_ctx *ctx = s->ctx;
    fv_step_output out = {.logits = NULL};
    fv_scope_begin(ctx);
    fv_tensor *last = fv_from_host(ctx, FV_I64, 1, &rows, tokens);
    if (s->stepper->feed) s->stepper->feed(s->stepper->user, rows, tokens);
    fv_status status = s->stepper->step(s->stepper->user, ctx, last, wants_weights(s), &out);
    if (status == FV_OK) status = check_logits(s, out.logits, rows);
    fv_search_step_result result = {.status = status, .logits = ctx->invalid};
    if (status != FV_OK) return result;
    result.limited = out.choices || out.mask;
    result.logits = valid_logits(ctx, &out, s->stepper->max_choices);
    result.weights = out.weights;
    return result;
}

fv_search_step_result fv_search_best(const fv_search_run *s, int64_t rows, const int64_t *tokens)
{
    fv_ctx *ctx = s->ctx;
    const fv_stepper *stepper = s->stepper;
    if (!stepper->best) {
        fv_search_step_result result = fv_search_step(s, rows, tokens);
        if (result.status == FV_OK && !result.limited)
            result.best = fv_argmax(ctx, result.logits, -1, false);
        return result;
    }
    fv_step_output out = {.logits = NULL};
    fv_scope_begin(ctx);
    fv_tensor *last = fv_from_host(ctx, FV_I64, 1, &rows, tokens);
    if (stepper->feed) stepper->feed(stepper->user, rows, tokens);
    const fv_status status = stepper->best(stepper->user, ctx, last, wants_weights(s), &out);
    return (fv_search_step_result){.status = status,
                                   .logits = ctx->invalid,
                                   .best = out.best,
                                   .best_on_host = out.best_on_host,
                                   .weights = out.weights};
}

fv_status fv_search_no_choice(const fv_search_run *s, int64_t r)
{
    return fv_fail(s->ctx, FV_ERR_STATE, "search: row %lld of a step has no valid choice",
                   (long long)r);
}

/* All of them in one row of doubles. */
static fv_tensor *joined(fv_ctx *ctx, int count, fv_tensor *const *t)
{
    fv_tensor *flat[FV_SEARCH_READS + 1];
    for (int i = 0; i < count; i++)
        flat[i] = fv_reshape(ctx, fv_cast(ctx, t[i], FV_F64), 1, (int64_t[]){-1});
    return count == 1 ? flat[0] : fv_concat(ctx, count, flat, 0);
}

fv_status fv_search_read(const fv_search_run *s, int count, fv_tensor *const *t, double *const *out,
                         fv_tensor *weights, fv_step_weights *host)
{
    fv_ctx *ctx = s->ctx;
    fv_tensor *all[FV_SEARCH_READS + 1];
    float *kept = NULL;
    *host = (fv_step_weights){.host = NULL};
    if (ctx->error != FV_OK) return ctx->error;
    for (int i = 0; i < count; i++)
        all[i] = t[i];
    if (weights) {
        kept = fv_arena_array(&s->outputs->arena, (size_t)fv_tensor_count(weights), sizeof *kept);
        FV_RETURN_IF(!kept, ctx, FV_ERR_MEMORY, "search: no memory for weights");
        all[count] = weights;
    }
    const int parts = count + (weights != NULL);
    if (parts == 0) return FV_OK;
    fv_tensor *row = joined(ctx, parts, all);
    if (ctx->error != FV_OK) return ctx->error;
    const size_t bytes = (size_t)fv_tensor_count(row) * sizeof(double);
    double *room = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "search: no memory to read a step");
    const fv_status status = fv_tensor_read(ctx, row, room, bytes);
    const double *at = room;
    for (int i = 0; i < count && status == FV_OK; at += fv_tensor_count(t[i++]))
        memcpy(out[i], at, (size_t)fv_tensor_count(t[i]) * sizeof *at);
    for (int64_t i = 0; weights && status == FV_OK && i < fv_tensor_count(weights); i++)
        kept[i] = (float)at[i];
    if (weights) *host = (fv_step_weights){kept, fv_tensor_size(weights, -1)};
    fv_mem_free(&ctx->mem, room, bytes);
    return status;
}

const fv_output *fv_outputs_get(const fv_outputs *outputs, int64_t source, int n)
{
    if (source < 0 || source >= outputs->sources || n < 0 || n >= outputs->nbest ||
        n >= outputs->count[source])
        return NULL;
    return &outputs->list[source * outputs->room + n];
}

void fv_outputs_free(fv_outputs **outputs_ptr)
{
    fv_outputs *outputs = *outputs_ptr;
    if (!outputs) return;
    fv_ctx *ctx = outputs->ctx;
    fv_arena_free(&outputs->arena);
    fv_mem_free(&ctx->mem, outputs, sizeof *outputs);
    *outputs_ptr = NULL;
}
