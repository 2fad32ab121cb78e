/* Translates sources: batches of similar lengths, results in the given order. */
#include "fovea/translate.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "models/model.h"
#include "models/translate.h"

void fv_translate_config_init(fv_translate_config *cfg, size_t struct_size)
{
    fv_translate_config defaults = {
        .struct_size = struct_size, .length_ratio = 2, .length_extra = 10, .batch = 64};
    fv_search_config_init(&defaults.search, sizeof defaults.search);
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

/* A source while it waits. */
typedef struct waiting {
    int64_t number, count;
    int64_t *tokens;
} waiting;

static int longest_first(const void *a, const void *b)
{
    const waiting *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

typedef struct job {
    fv_model *t;
    const fv_translate_config *cfg;
    fv_translations *all;
    fv_arena room; /* of this call only */
    waiting *list;
    int64_t count; /* sources with tokens */
} job;

/* Whether the model has attention to show. */
static bool attends(const fv_model *t)
{
    return t->kind->align &&
           (!t->kind->attention_sites || t->kind->attention_sites(t->self, NULL, 0) > 0);
}

/* One sequence, for a list of length one. */
typedef struct one {
    const int64_t *tokens;
    int64_t count;
} one;

static fv_batch pair_of(const one *source, const one *target)
{
    const fv_sequences x = {.count = 1, .tokens = &source->tokens, .length = &source->count},
                       y = {.count = 1, .tokens = &target->tokens, .length = &target->count};
    return fv_batch_of_pairs(&x, &y);
}

static fv_status align(fv_model *t, const one *source, const one *target, fv_arena *room,
                       float **out)
{
    fv_ctx *ctx = t->ctx;
    FV_RETURN_IF(!attends(t), ctx, FV_ERR_ARGUMENT, "the model has no attention to capture");
    const size_t cells = (size_t)((target->count + 1) * source->count);
    *out = fv_arena_array(room, cells, sizeof **out);
    FV_RETURN_IF(!*out, ctx, FV_ERR_MEMORY, "no memory for an alignment");
    fv_scope_begin(ctx);
    const fv_batch pair = pair_of(source, target);
    fv_tensor *weights = t->kind->align(ctx, t->self, &pair);
    fv_status status = fv_tensor_read(ctx, weights, *out, cells * sizeof **out);
    fv_scope_end(ctx);
    return status;
}

fv_status fv_translate_ready(fv_model *t)
{
    FV_RETURN_IF(!fv_model_can(t, FV_CAN_TRANSLATE) || !t->kind->make_stepper, t->ctx,
                 FV_ERR_FORMAT, "%.150s: a %s model does not translate",
                 t->folder ? t->folder : "model", t->type);
    return fv_model_load_tokenizers(t);
}

fv_status fv_parallel_create(fv_model *t, fv_parallel **out)
{
    FV_TRY(fv_translate_ready(t));
    return fv_parallel_create_with(t->ctx, t->source_encoder, t->target_encoder, out);
}

/* ---- one batch --------------------------------------------------------------------- */

/* Models whose steps return no attention weights compute them afterwards. */
static fv_status attention_of(job *j, const waiting *w, const fv_output *o,
                              fv_translation_parts *parts)
{
    const bool wanted = j->cfg->search.want_weights || j->cfg->replace_unknown;
    if (!wanted || o->weights || !attends(j->t)) return FV_OK;
    const one source = {w->tokens, w->count}, target = {o->tokens, o->count};
    float *weights = NULL;
    FV_TRY(align(j->t, &source, &target, &j->room, &weights));
    parts->weights = weights;
    parts->positions = w->count;
    return FV_OK;
}

static fv_status store(job *j, const waiting *w, const fv_outputs *outputs, int64_t row)
{
    for (int n = 0; n < j->all->nbest; n++) {
        const fv_output *o = fv_outputs_get(outputs, row, n);
        if (!o) break;
        fv_translation_parts parts = {.source = w->tokens,
                                      .source_count = w->count,
                                      .target = o->tokens,
                                      .target_count = o->count,
                                      .weights = o->weights,
                                      .positions = o->positions,
                                      .ended = o->ended,
                                      .replace_unknown = j->cfg->replace_unknown,
                                      .score = o->score,
                                      .log_prob = o->log_prob};
        FV_TRY(attention_of(j, w, o, &parts));
        FV_TRY(fv_translations_put(j->t, j->all, w->number, &parts));
    }
    return FV_OK;
}

static fv_status decode(job *j, int64_t first, const fv_batch *sources, const int64_t *most,
                        fv_outputs **out)
{
    fv_stepper stepper;
    fv_search_config how = j->cfg->search;
    how.first_source += first;
    how.want_weights = how.want_weights || j->cfg->replace_unknown;
    FV_TRY(j->t->kind->make_stepper(j->t->self, sources, &stepper));
    return fv_search(j->t->ctx, &stepper, sources->rows, most, &how, out);
}

static fv_status one_batch(job *j, int64_t first, int64_t n)
{
    fv_ctx *ctx = j->t->ctx;
    const int64_t **tokens = fv_arena_array(&j->room, (size_t)n, sizeof *tokens);
    int64_t *lengths = fv_arena_array(&j->room, 2 * (size_t)n, sizeof *lengths);
    FV_RETURN_IF(!tokens || !lengths, ctx, FV_ERR_MEMORY, "no memory for a batch");
    int64_t *most = lengths + n;
    for (int64_t i = 0; i < n; i++) {
        const waiting *w = &j->list[first + i];
        tokens[i] = w->tokens;
        lengths[i] = w->count;
        most[i] = (int64_t)(j->cfg->length_ratio * (double)w->count) + j->cfg->length_extra;
    }
    const fv_sequences list = {.count = n, .tokens = tokens, .length = lengths};
    const fv_batch sources = fv_batch_of_pairs(&list, NULL);
    fv_outputs *outputs = NULL;
    fv_scope_begin(ctx);
    fv_status status = decode(j, first, &sources, most, &outputs);
    fv_scope_end(ctx);
    for (int64_t i = 0; status == FV_OK && i < n; i++)
        status = store(j, &j->list[first + i], outputs, i);
    fv_outputs_free(&outputs);
    return status;
}

/* ---- all --------------------------------------------------------------------------- */

static fv_status encode_all(job *j, int64_t count, const fv_string *sources)
{
    fv_ctx *ctx = j->t->ctx;
    j->list = fv_arena_array(&j->room, (size_t)count, sizeof *j->list);
    FV_RETURN_IF(!j->list, ctx, FV_ERR_MEMORY, "no memory for %lld sources", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        waiting w = {.number = i};
        FV_TRY(fv_encode_to_arena(ctx, j->t->source_encoder, sources[i], &j->room, &w.tokens,
                                  &w.count));
        if (w.count > 0) {
            j->list[j->count++] = w;
            continue;
        }
        const fv_translation_parts nothing = {.ended = true};
        FV_TRY(fv_translations_put(j->t, j->all, i, &nothing));
    }
    qsort(j->list, (size_t)j->count, sizeof *j->list, longest_first);
    return FV_OK;
}

fv_status fv_translate(fv_model *t, int64_t count, const fv_string *sources,
                       const fv_translate_config *settings, fv_translations **out)
{
    fv_ctx *ctx = t->ctx;
    fv_translate_config full, *cfg = &full;
    fv_translate_config_init(cfg, sizeof *cfg);
    FV_RETURN_IF((settings && !fv_config_copy(cfg, sizeof *cfg, settings)) || count < 0 ||
                     cfg->batch < 1 || !(cfg->length_ratio >= 0 && cfg->length_ratio <= 1e6) ||
                     cfg->length_extra < 0,
                 ctx, FV_ERR_ARGUMENT, "translate: a setting is out of range");
    FV_TRY(fv_translate_ready(t));
    job j = {.t = t, .cfg = cfg};
    FV_TRY(fv_translations_make(ctx, count, cfg->search.nbest, &j.all));
    fv_arena_init(&j.room, &ctx->mem);
    fv_status status = encode_all(&j, count, sources);
    for (int64_t first = 0; status == FV_OK && first < j.count; first += cfg->batch)
        status = one_batch(&j, first, j.count - first < cfg->batch ? j.count - first : cfg->batch);
    fv_arena_free(&j.room);
    if (status == FV_OK)
        *out = j.all;
    else
        fv_translations_free(&j.all);
    return status;
}

/* ---- a given target ---------------------------------------------------------------- */

static fv_status given(fv_model *t, fv_string source, fv_string target, fv_translations *all)
{
    fv_ctx *ctx = t->ctx;
    int64_t *x = NULL, *y = NULL, lengths[2];
    float *weights = NULL;
    FV_TRY(fv_encode_to_arena(ctx, t->source_encoder, source, &all->arena, &x, &lengths[0]));
    FV_TRY(fv_encode_to_arena(ctx, t->target_encoder, target, &all->arena, &y, &lengths[1]));
    FV_RETURN_IF(lengths[0] == 0, ctx, FV_ERR_ARGUMENT, "the source has no token");
    const one given_source = {x, lengths[0]}, given_target = {y, lengths[1]};
    FV_TRY(align(t, &given_source, &given_target, &all->arena, &weights));
    const fv_translation_parts parts = {.source = x,
                                        .source_count = lengths[0],
                                        .target = y,
                                        .target_count = lengths[1],
                                        .weights = weights,
                                        .positions = lengths[0],
                                        .ended = true};
    return fv_translations_put(t, all, 0, &parts);
}

fv_status fv_translate_given(fv_model *t, fv_string source, fv_string target, fv_translations **out)
{
    fv_translations *all = NULL;
    FV_TRY(fv_translate_ready(t));
    FV_TRY(fv_translations_make(t->ctx, 1, 1, &all));
    fv_status status = given(t, source, target, all);
    if (status == FV_OK)
        *out = all;
    else
        fv_translations_free(&all);
    return status;
}
