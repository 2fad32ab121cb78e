#include "infer/outputs.h"

#include <math.h>
#include <string.h>

#include "fovea/ops.h"

const fv_node *fv_search_extend(const fv_search *s, const fv_node *parent, int64_t token,
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

/* Positions past the source's end got nothing from any step and are not counted: a source of which
 * a position got nothing at all is punished like one that got a little. */
static double coverage(const fv_node *last, int64_t positions)
{
    double sum = 0;
    for (int64_t i = 0; last->covered && i < positions; i++)
        if (last->covered[i] > 0 && last->covered[i] < 1) sum += log(last->covered[i]);
    return sum;
}

double fv_search_penalty(const fv_search *s, int64_t tokens)
{
    const double length = (double)tokens;
    return pow(s->cfg->as_transformers ? length : (5.0 + length) / 6.0, s->cfg->length_alpha);
}

double fv_search_score(const fv_search *s, const fv_node *last, int64_t positions)
{
    double score = last->log_prob / fv_search_penalty(s, last->depth);
    if (s->cfg->coverage_beta != 0) score += s->cfg->coverage_beta * coverage(last, positions);
    return score;
}

static bool write_output(const fv_search *s, const fv_node *last, bool ended, int64_t positions,
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

fv_status fv_search_finish(const fv_search *s, int64_t source, const fv_node *last, bool ended,
                           int64_t positions)
{
    fv_outputs *outputs = s->outputs;
    fv_output *list = outputs->list + source * outputs->room;
    int *count = &outputs->count[source];
    const double score = fv_search_score(s, last, positions);
    if (*count == outputs->room && !(score > list[*count - 1].score)) return FV_OK;
    fv_output output;
    FV_RETURN_IF(!write_output(s, last, ended, positions, &output), s->ctx, FV_ERR_MEMORY,
                 "decode: no memory for an output");
    if (*count < outputs->room) (*count)++;
    int at = *count - 1;
    for (; at > 0 && list[at - 1].score < score; at--)
        list[at] = list[at - 1];
    list[at] = output;
    return FV_OK;
}

static bool wants_weights(const fv_search *s)
{
    return s->cfg->want_weights || s->cfg->coverage_beta != 0;
}

fv_tensor *fv_search_step(const fv_search *s, int64_t rows, const int64_t *tokens,
                          fv_tensor **weights)
{
    fv_scope_begin(s->ctx);
    *weights = NULL;
    fv_tensor *last = fv_from_host(s->ctx, FV_I64, 1, &rows, tokens);
    return s->stepper->step(s->stepper->user, s->ctx, last, wants_weights(s) ? weights : NULL);
}

fv_tensor *fv_search_best(const fv_search *s, int64_t rows, const int64_t *tokens,
                          fv_tensor **weights)
{
    const fv_stepper *stepper = s->stepper;
    if (!stepper->best)
        return fv_argmax(s->ctx, fv_search_step(s, rows, tokens, weights), -1, false);
    fv_scope_begin(s->ctx);
    *weights = NULL;
    fv_tensor *last = fv_from_host(s->ctx, FV_I64, 1, &rows, tokens);
    return stepper->best(stepper->user, s->ctx, last, wants_weights(s) ? weights : NULL);
}

fv_status fv_search_weights(const fv_search *s, fv_tensor *weights, const float **out,
                            int64_t *positions)
{
    *out = NULL;
    *positions = 0;
    if (!weights) return FV_OK;
    const size_t count = (size_t)fv_tensor_count(weights);
    float *room = fv_arena_array(&s->outputs->arena, count, sizeof *room);
    FV_RETURN_IF(!room, s->ctx, FV_ERR_MEMORY, "decode: no memory for weights");
    FV_FORWARD(
        fv_tensor_read(s->ctx, fv_cast(s->ctx, weights, FV_F32), room, count * sizeof *room));
    *out = room;
    *positions = fv_tensor_size(weights, -1);
    return FV_OK;
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
