#include "models/pointing.h"

#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "fovea/ops.h"
#include "infer/search.h"
#include "models/model.h"
#include "tensor/tensor.h"

bool fv_problem_has_end(fv_problem problem)
{
    return problem == FV_PROBLEM_HULL || problem == FV_PROBLEM_DELAUNAY;
}

int64_t fv_point_steps(fv_problem problem, int64_t n)
{
    return fv_answer_max(problem, n) + fv_problem_has_end(problem);
}

fv_status fv_point_problem(fv_ctx *ctx, const fv_data_spec *spec, fv_problem *out)
{
    const int64_t problem = fv_data_spec_get(spec, "problem", -1),
                  width = fv_data_spec_get(spec, "point", 0);
    FV_RETURN_IF(problem < 0 || problem >= FV_PROBLEM_COUNT, ctx, FV_ERR_ARGUMENT,
                 "problem %lld, expected 0 to %d", (long long)problem, FV_PROBLEM_COUNT - 1);
    FV_RETURN_IF(width != fv_problem_width((fv_problem)problem), ctx, FV_ERR_ARGUMENT,
                 "points of %lld numbers, expected %lld for %s", (long long)width,
                 (long long)fv_problem_width((fv_problem)problem),
                 fv_problem_name((fv_problem)problem));
    FV_RETURN_IF(spec->ability != FV_CAN_POINT, ctx, FV_ERR_ARGUMENT,
                 "such a model points at its inputs, and does not %s",
                 fv_ability_name(spec->ability));
    *out = (fv_problem)problem;
    return FV_OK;
}

/* ---- sets ----------------------------------------------------------------------------------- */

void fv_point_sets_free(fv_point_sets *s)
{
    if (s->begin) fv_mem_free(&s->ctx->mem, s->begin, s->bytes);
    s->begin = NULL;
}

static fv_status check_set(fv_ctx *ctx, const fv_point_sets *s, int64_t i)
{
    const int64_t n = s->field->length[i];
    const float *values = s->field->row[i];
    const int64_t least = fv_problem_has_end(s->problem) ? 3 : 1;
    FV_RETURN_IF(n < least || n > FV_POINTS_MAX, ctx, FV_ERR_ARGUMENT,
                 "set %lld has %lld inputs, expected %lld to %d", (long long)i, (long long)n,
                 (long long)least, (int)FV_POINTS_MAX);
    for (int64_t k = 0; k < n * s->width; k++)
        FV_RETURN_IF(!isfinite(values[k]), ctx, FV_ERR_ARGUMENT,
                     "set %lld: input %lld is not finite", (long long)i, (long long)(k / s->width));
    return FV_OK;
}

fv_status fv_point_sets_make(fv_ctx *ctx, fv_problem problem, const fv_batch *batch,
                             fv_point_sets *s)
{
    const int64_t width = fv_problem_width(problem);
    *s = (fv_point_sets){.ctx = ctx, .problem = problem, .rows = batch->rows, .width = width};
    s->field = fv_batch_find(batch, "points");
    FV_RETURN_IF(!s->field || !s->field->length || s->field->dtype != FV_F32 ||
                     s->field->rank != 1 || s->field->shape[0] != width || batch->rows < 1,
                 ctx, FV_ERR_ARGUMENT,
                 "the batch has no \"points\", expected rows of vectors of width %lld (f32)",
                 (long long)width);
    for (int64_t i = 0; i < s->rows; i++) {
        FV_TRY(check_set(ctx, s, i));
        s->total += s->field->length[i];
        if (s->field->length[i] > s->longest) s->longest = s->field->length[i];
    }
    s->bytes = (size_t)(s->rows + 1 + s->total) * sizeof *s->begin;
    s->begin = fv_mem_alloc(&ctx->mem, s->bytes);
    FV_RETURN_IF(!s->begin, ctx, FV_ERR_MEMORY, "no memory for %lld points", (long long)s->total);
    s->rank = s->begin + s->rows + 1;
    s->begin[0] = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        s->begin[i + 1] = s->begin[i] + s->field->length[i];
        if (problem == FV_PROBLEM_DELAUNAY) /* the others need no ranks (fv_points_valid) */
            fv_points_rank(problem, s->field->length[i], s->field->row[i], s->rank + s->begin[i]);
    }
    return FV_OK;
}

/* Room on the host for what becomes a tensor; NULL: the context has the error. */
static void *take_room(fv_ctx *ctx, int64_t count, size_t one, size_t *bytes)
{
    void *room = NULL;
    if (fv_checked_mul_size((size_t)count, one, bytes)) room = fv_mem_zalloc(&ctx->mem, *bytes);
    if (!room) fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld points", (long long)count);
    return room;
}

fv_tensor *fv_point_sets_values(fv_ctx *ctx, const fv_point_sets *s)
{
    const int64_t shape[] = {s->total, s->width};
    size_t bytes = 0;
    float *all = take_room(ctx, s->total * s->width, sizeof *all, &bytes);
    if (!all) return ctx->invalid;
    for (int64_t i = 0; i < s->rows; i++)
        memcpy(all + s->begin[i] * s->width, s->field->row[i],
               (size_t)(s->field->length[i] * s->width) * sizeof *all);
    fv_tensor *t = fv_from_host(ctx, FV_F32, 2, shape, all);
    fv_mem_free(&ctx->mem, all, bytes);
    return t;
}

fv_tensor *fv_point_sets_begin(fv_ctx *ctx, const fv_point_sets *s)
{
    const int64_t count = s->rows + 1;
    return fv_from_host(ctx, FV_I64, 1, &count, s->begin);
}

fv_tensor *fv_point_sets_choices(fv_ctx *ctx, const fv_point_sets *s)
{
    const int64_t choices = 1 + s->longest, count = s->rows * choices;
    size_t bytes = 0;
    int64_t *index = take_room(ctx, count, sizeof *index, &bytes);
    if (!index) return ctx->invalid;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->field->length[i]; j++)
            index[i * choices + 1 + j] = 1 + s->begin[i] + j;
    fv_tensor *t = fv_from_host(ctx, FV_I64, 1, &count, index);
    fv_mem_free(&ctx->mem, index, bytes);
    return t;
}

/* As a product with one over the length: sums in the order of inputs, whatever the batch. */
fv_tensor *fv_point_sets_mean(fv_ctx *ctx, const fv_point_sets *s, fv_tensor *x)
{
    size_t bytes = 0;
    if (ctx->error != FV_OK) return ctx->invalid; /* the size of x is read below */
    float *share = take_room(ctx, s->rows * s->longest, sizeof *share, &bytes);
    if (!share) return ctx->invalid;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->field->length[i]; j++)
            share[i * s->longest + j] = 1.0f / (float)s->field->length[i];
    const int64_t shape[] = {s->rows, 1, s->longest}, width = fv_tensor_size(x, 1);
    fv_tensor *weights = fv_from_host(ctx, FV_F32, 3, shape, share);
    fv_mem_free(&ctx->mem, share, bytes);
    const int64_t one[] = {1, width};
    x = fv_concat(ctx, 2, (fv_tensor *[]){fv_zeros(ctx, FV_F32, 2, one), x}, 0);
    x = fv_index_select(ctx, x, fv_point_sets_choices(ctx, s), 0);
    x = fv_reshape(ctx, x, 3, (int64_t[]){s->rows, 1 + s->longest, width});
    x = fv_matmul(ctx, weights, fv_slice(ctx, x, 1, 1, 1 + s->longest, 1));
    return fv_reshape(ctx, x, 2, (int64_t[]){s->rows, width});
}

/* ---- answers -------------------------------------------------------------------------------- */

void fv_point_answers_free(fv_point_answers *a)
{
    if (a->steps) fv_mem_free(&a->ctx->mem, a->steps, a->bytes);
    if (a->valid) fv_mem_free(&a->ctx->mem, a->valid, a->valid_bytes);
    a->steps = NULL;
    a->valid = NULL;
}

/* Where an answer holds every input, one choice is left for its last step: that step has
 * probability one, and adds nothing to a loss or to a gradient. */
static int64_t steps_to_learn(const fv_point_sets *s, int64_t i, int64_t steps)
{
    const bool all = !fv_problem_has_end(s->problem) && steps == s->field->length[i];
    return all && steps > 1 ? steps - 1 : steps;
}

/* The last input of an answer, for which there may be no step: it exists and is a new one. */
static fv_status check_last(const fv_point_sets *s, const int64_t *answer, int64_t count, int64_t i)
{
    const int64_t last = answer[count - 1];
    FV_RETURN_IF(last < 0 || last >= s->field->length[i], s->ctx, FV_ERR_ARGUMENT,
                 "answer %lld names input %lld of %lld", (long long)i, (long long)last,
                 (long long)s->field->length[i]);
    for (int64_t t = 0; t < count - 1; t++)
        FV_RETURN_IF(answer[t] == last, s->ctx, FV_ERR_ARGUMENT,
                     "answer %lld: choice %lld is not valid for %s", (long long)i,
                     (long long)(count - 1), fv_problem_name(s->problem));
    return FV_OK;
}

/* The steps of row i, the first of which is number `at` of all. */
static fv_status add_answer(const fv_point_sets *s, const int64_t *answer, int64_t count, int64_t i,
                            int64_t at, fv_point_answers *a)
{
    const int64_t n = s->field->length[i], choices = 1 + s->longest;
    for (int64_t t = 0; t < a->steps[i]; t++, at++) {
        uint8_t *valid = a->valid + (i * a->longest + t) * choices;
        const int64_t choice = t < count ? 1 + answer[t] : 0;
        FV_RETURN_IF(choice < 0 || choice > n, s->ctx, FV_ERR_ARGUMENT,
                     "answer %lld names input %lld of %lld", (long long)i, (long long)choice - 1,
                     (long long)n);
        fv_points_valid(s->problem, n, s->rank + s->begin[i], t, answer, valid);
        FV_RETURN_IF(!valid[choice], s->ctx, FV_ERR_ARGUMENT,
                     "answer %lld: choice %lld is not valid for %s", (long long)i, (long long)t,
                     fv_problem_name(s->problem));
        a->place[at] = i * a->longest + t;
        a->choice[at] = choice;
        a->chosen[at] = i * choices + choice;
        a->last[at] = t > 0 ? s->begin[i] + answer[t - 1] : -1;
        a->first[at] = t > 0 ? s->begin[i] + answer[0] : -1;
    }
    return FV_OK;
}

fv_status fv_point_answers_make(const fv_point_sets *s, const fv_batch *batch, fv_point_answers *a)
{
    const fv_field *target = fv_batch_find(batch, "target");
    const int64_t end = fv_problem_has_end(s->problem);
    *a = (fv_point_answers){.ctx = s->ctx};
    FV_RETURN_IF(!target || !target->length || target->dtype != FV_I64 || target->rank != 0, s->ctx,
                 FV_ERR_ARGUMENT, "the batch has no \"target\" of input numbers (i64)");
    for (int64_t i = 0; i < s->rows; i++) {
        const int64_t steps = steps_to_learn(s, i, target->length[i] + end);
        FV_RETURN_IF(target->length[i] < 1 ||
                         target->length[i] + end > fv_point_steps(s->problem, s->longest),
                     s->ctx, FV_ERR_ARGUMENT, "answer %lld has %lld inputs", (long long)i,
                     (long long)target->length[i]);
        a->all += steps;
        if (steps > a->longest) a->longest = steps;
    }
    a->bytes = (size_t)(s->rows + 5 * a->all) * sizeof *a->steps;
    a->valid_bytes = (size_t)(s->rows * a->longest * (1 + s->longest));
    a->steps = fv_mem_alloc(&s->ctx->mem, a->bytes);
    a->valid = fv_mem_zalloc(&s->ctx->mem, a->valid_bytes);
    FV_RETURN_IF(!a->steps || !a->valid, s->ctx, FV_ERR_MEMORY, "no memory for %lld steps",
                 (long long)a->all);
    a->place = a->steps + s->rows;
    a->choice = a->place + a->all;
    a->chosen = a->choice + a->all;
    a->last = a->chosen + a->all;
    a->first = a->last + a->all;
    int64_t at = 0;
    for (int64_t i = 0; i < s->rows; at += a->steps[i++]) {
        a->steps[i] = steps_to_learn(s, i, target->length[i] + end);
        FV_TRY(add_answer(s, target->row[i], target->length[i], i, at, a));
        if (a->steps[i] < target->length[i])
            FV_TRY(check_last(s, target->row[i], target->length[i], i));
    }
    return FV_OK;
}

/* ---- search --------------------------------------------------------------------------------- */

void fv_hold_tensor(fv_ctx *ctx, fv_tensor **place, fv_tensor *t)
{
    if (t && t != ctx->invalid) fv_tensor_ref(t);
    if (*place && *place != ctx->invalid) fv_tensor_unref(*place);
    *place = t;
}

void fv_point_search_free(fv_point_search *r)
{
    if (r->source) fv_mem_free(&r->ctx->mem, r->source, r->bytes);
    if (r->valid) fv_mem_free(&r->ctx->mem, r->valid, r->valid_bytes);
    *r = (fv_point_search){.rows = 0};
}

static fv_status make_room(fv_point_search *r, int64_t rows)
{
    fv_point_search old = *r;
    if (rows <= r->room) return FV_OK;
    r->bytes = (size_t)(rows * (1 + r->max_steps)) * sizeof *r->source;
    r->valid_bytes = (size_t)(rows * (1 + r->sets->longest));
    r->source = fv_mem_zalloc(&r->ctx->mem, r->bytes);
    r->valid = fv_mem_alloc(&r->ctx->mem, r->valid_bytes);
    r->history = r->source ? r->source + rows : NULL;
    r->room = rows;
    if (old.source && r->source) {
        memcpy(r->source, old.source, (size_t)r->rows * sizeof *r->source);
        memcpy(r->history, old.history, (size_t)(r->rows * r->max_steps) * sizeof *r->history);
    }
    if (old.source) fv_mem_free(&r->ctx->mem, old.source, old.bytes);
    if (old.valid) fv_mem_free(&r->ctx->mem, old.valid, old.valid_bytes);
    FV_RETURN_IF(!r->source || !r->valid, r->ctx, FV_ERR_MEMORY, "no memory for %lld rows",
                 (long long)rows);
    return FV_OK;
}

fv_status fv_point_search_start(fv_point_search *r, const fv_point_sets *sets)
{
    fv_point_search_free(r);
    r->ctx = sets->ctx;
    r->sets = sets;
    r->max_steps = fv_point_steps(sets->problem, sets->longest);
    FV_TRY(make_room(r, sets->rows));
    r->rows = sets->rows;
    for (int64_t i = 0; i < r->rows; i++)
        r->source[i] = i;
    return FV_OK;
}

void fv_point_search_feed(fv_point_search *r, int64_t rows, const int64_t *tokens)
{
    /* the first token is 0, which is no input */
    for (int64_t i = 0; i < rows && tokens[i] > 0 && r->step < r->max_steps; i++)
        r->history[i * r->max_steps + r->step] = tokens[i] - 1;
    if (rows > 0 && tokens[0] > 0) r->step++;
}

fv_status fv_point_search_select(fv_point_search *r, int64_t rows, const int64_t *from)
{
    fv_point_search old = *r;
    const int64_t room = rows > r->room ? rows : r->room;
    r->source = NULL;
    r->valid = NULL;
    r->room = 0;
    r->rows = 0;
    fv_status status = make_room(r, room);
    for (int64_t i = 0; status == FV_OK && i < rows; i++) {
        r->source[i] = old.source[from[i]];
        memcpy(r->history + i * r->max_steps, old.history + from[i] * r->max_steps,
               (size_t)r->step * sizeof *r->history);
    }
    r->rows = rows;
    fv_mem_free(&old.ctx->mem, old.source, old.bytes);
    fv_mem_free(&old.ctx->mem, old.valid, old.valid_bytes);
    return status;
}

fv_tensor *fv_point_search_valid(fv_ctx *ctx, fv_point_search *r)
{
    const fv_point_sets *s = r->sets;
    const int64_t choices = 1 + s->longest, shape[] = {r->rows, choices};
    memset(r->valid, 0, (size_t)(r->rows * choices));
    for (int64_t i = 0; i < r->rows; i++) {
        const int64_t source = r->source[i];
        fv_points_valid(s->problem, s->field->length[source], s->rank + s->begin[source], r->step,
                        r->history + i * r->max_steps, r->valid + i * choices);
    }
    return fv_from_host(ctx, FV_U8, 2, shape, r->valid);
}

/* ---- models --------------------------------------------------------------------------------- */

fv_problem fv_model_problem(const fv_model *model)
{
    const int64_t problem = fv_data_spec_get(fv_model_spec(model), "problem", FV_PROBLEM_COUNT);
    return problem < 0 || problem > FV_PROBLEM_COUNT ? FV_PROBLEM_COUNT : (fv_problem)problem;
}

/* Choices as inputs. */
static fv_status number_inputs(fv_outputs *o)
{
    for (int64_t i = 0; i < o->sources; i++)
        for (int k = 0; k < o->count[i]; k++) {
            fv_output *out = &o->list[i * o->room + k];
            int64_t *inputs = fv_arena_array(&o->arena, (size_t)out->count + 1, sizeof *inputs);
            FV_RETURN_IF(!inputs, o->ctx, FV_ERR_MEMORY, "no memory for outputs");
            for (int64_t t = 0; t < out->count; t++)
                inputs[t] = out->tokens[t] - 1;
            out->tokens = inputs;
        }
    return FV_OK;
}

fv_status fv_point(fv_model *model, const fv_batch *sets, const fv_search_config *how,
                   fv_outputs **out)
{
    fv_ctx *ctx = fv_model_ctx(model);
    const fv_model_kind *kind = fv_model_kind_of(model);
    const fv_problem problem = fv_model_problem(model);
    const fv_field *field = fv_batch_find(sets, "points");
    FV_RETURN_IF(!kind->make_stepper || problem == FV_PROBLEM_COUNT, ctx, FV_ERR_UNSUPPORTED,
                 "a %s model does not point at its inputs", fv_model_type(model));
    fv_stepper stepper;
    FV_TRY(kind->make_stepper(fv_model_self(model), sets, &stepper));
    const size_t bytes = (size_t)sets->rows * sizeof(int64_t);
    int64_t *most = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!most, ctx, FV_ERR_MEMORY, "no memory for %lld sets", (long long)sets->rows);
    for (int64_t i = 0; i < sets->rows; i++)
        most[i] = fv_point_steps(problem, field->length[i]);
    fv_outputs *found = NULL;
    fv_status status = fv_search(ctx, &stepper, sets->rows, most, how, &found);
    fv_mem_free(&ctx->mem, most, bytes);
    if (status == FV_OK) status = number_inputs(found);
    if (status == FV_OK)
        *out = found;
    else
        fv_outputs_free(&found);
    return status;
}
