/*
 * Span corruption, by which T5 is pretrained (Raffel et al. 2020): an encoder-decoder learns to
 * write what was removed from a text. Sentinels stand for the removed spans in the source, and the
 * target lists them:
 *
 *     text     the cat sees a mouse in the house
 *     source   the <extra_id_0> a mouse <extra_id_1> house </s>
 *     target   <extra_id_0> cat sees <extra_id_1> in the <extra_id_2>
 *
 * How many tokens and spans are removed from a text of n tokens is fixed by the recipe; where they
 * are is drawn, with equal probability for every way to cut both the removed and the other tokens.
 * Spans do not touch. Draws are keyed by (seed, step, number of the row), for validation by the
 * number of the text: a resumed run and a repeated evaluation remove the same spans.
 *
 * Texts are read as by the other tasks over text (text.h).
 */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/rng.h"
#include "fovea/autograd.h"
#include "train/tasks/tasks.h"
#include "train/tasks/text.h"

/* A random site that no op uses. */
#define SPAN_SITE 0x7370616eu

/* As many as T5 has; a tokenizer that is learned here has LEARNED of them. */
enum { MAX_SENTINELS = 100, LEARNED = 12, USUAL_LENGTH = 512 };

static const fv_key keys[] = {
    {"train.span_share", FV_KEY_REAL, "0.15", 0.01, 0.5, NULL,
     "spans: share of the tokens that is removed"},
    {"train.span_length", FV_KEY_REAL, "3", 1, 1000, NULL,
     "spans: mean length of a removed span, in tokens"},
};

static fv_key_table span_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

typedef struct spans_task {
    fv_text_task text; /* first, so that the functions of text.h take this task */
    int64_t sentinel[MAX_SENTINELS], sentinels, eos;
    double share, mean;
    /* The current step: example i has two rows of `room` cells. */
    int64_t *cells, room, count;
    int64_t *length[2]; /* [count]: of sources, of targets */
    const int64_t **row[2];
    size_t cell_room, length_room[2], row_room[2];
} spans_task;

/* ---- opening -------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    spans_task *t = self;
    fv_mem *mem = &t->text.ctx->mem;
    if (t->cells) fv_mem_free(mem, t->cells, t->cell_room * sizeof *t->cells);
    for (int i = 0; i < 2; i++) {
        if (t->length[i]) fv_mem_free(mem, t->length[i], t->length_room[i] * sizeof *t->length[i]);
        if (t->row[i]) fv_mem_free(mem, t->row[i], t->row_room[i] * sizeof *t->row[i]);
    }
    fv_text_task_free(&t->text);
    fv_mem_free(mem, t, sizeof *t);
}

static int64_t id_of(const spans_task *t, const char *token)
{
    return fv_tokenizer_token_to_id(t->text.tokenizer, token, strlen(token));
}

static fv_status find_tokens(spans_task *t)
{
    static const fv_special_tokens specials = {
        .specials = {"<pad>", "<s>", "</s>", "<unk>", "<extra_id_0>", "<extra_id_1>",
                     "<extra_id_2>", "<extra_id_3>", "<extra_id_4>", "<extra_id_5>", "<extra_id_6>",
                     "<extra_id_7>", "<extra_id_8>", "<extra_id_9>", "<extra_id_10>",
                     "<extra_id_11>"},
        .end = "</s>"};
    _Static_assert(FV_TOKENIZER_MAX_SPECIALS == LEARNED + 4, "all specials are used");
    FV_TRY(fv_text_find_tokenizer(&t->text, &specials));
    for (; t->sentinels < MAX_SENTINELS; t->sentinels++) {
        char name[32];
        snprintf(name, sizeof name, "<extra_id_%d>", (int)t->sentinels);
        const int64_t id = id_of(t, name);
        if (id < 0) break;
        t->sentinel[t->sentinels] = id;
    }
    t->eos = id_of(t, "</s>");
    FV_RETURN_IF(t->sentinels < 2 || t->eos < 0, t->text.ctx, FV_ERR_ARGUMENT,
                 "tokenizer.json: spans needs the tokens </s>, <extra_id_0>, <extra_id_1>, ...");
    return FV_OK;
}

static fv_status find_texts(spans_task *t, fv_data_spec *spec)
{
    const fv_text_task *text = &t->text;
    FV_RETURN_IF(!fv_text_has(text, FV_TEXT_TRAIN), text->ctx, FV_ERR_ARGUMENT,
                 "data.train_text is missing, expected a file (or data.made)");
    FV_TRY(fv_step_parts_create(text->ctx, text->recipe, &t->text.parts));
    const fv_status status = find_tokens(t);
    spec->source = spec->target = text->tokenizer;
    return status;
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    spans_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    fv_text_task_init(&t->text, cfg, FV_TEXT_MASKED);
    t->share = fv_recipe_real(cfg->recipe, "train.span_share");
    t->mean = fv_recipe_real(cfg->recipe, "train.span_length");
    spec->ability = FV_CAN_TRANSLATE;
    return fv_task_opened(find_texts(t, spec), close_task, t, self);
}

/* A source has at most one token more than its text, a target with BOS three more: a sentinel costs
 * no more than the span that it stands for, and at most half of a text is removed, rounded up. */
static fv_status prepare(void *self, fv_model *model)
{
    spans_task *t = self;
    fv_text_task *text = &t->text;
    const fv_model_kind *kind = fv_model_kind_of(model);
    const int64_t context = kind->max_length ? kind->max_length(fv_model_self(model)) : 0,
                  asked = fv_recipe_int(text->recipe, "data.length"),
                  marked = (int64_t)((double)(t->sentinels - 1) * t->mean / t->share);
    int64_t most = context > 0 ? context - 3 : USUAL_LENGTH;
    if (marked < most) most = marked;
    FV_RETURN_IF(asked > most, text->ctx, FV_ERR_ARGUMENT,
                 "data.length is %lld, expected at most %lld: the model has %lld positions, the "
                 "tokenizer %lld sentinels",
                 (long long)asked, (long long)most, (long long)context, (long long)t->sentinels);
    text->window = text->piece = asked > 0 ? asked : most;
    FV_RETURN_IF(text->piece < 2, text->ctx, FV_ERR_ARGUMENT,
                 "data.length is %lld, expected at least 2", (long long)text->piece);
    t->room = text->piece + 2;
    return fv_text_read(text);
}

/* ---- examples ------------------------------------------------------------------------------- */

typedef struct draws {
    uint64_t key, row;
} draws;

/* Cuts `total` into `parts` parts of at least one, each way with equal probability: part k ends
 * where the k-th of parts - 1 chosen places is. `word` separates the draws of two calls. */
static void cut(const draws *d, int word, int64_t total, int64_t parts, int64_t *out)
{
    int64_t part = 0, begin = 0;
    for (int64_t place = 1; place < total && part < parts - 1; place++) {
        uint32_t r[4];
        fv_rng_draw(d->key, d->row, (uint64_t)place, r);
        const double left = (double)(total - place), needed = (double)(parts - 1 - part);
        if ((double)fv_rng_unit(r[word]) * left >= needed) continue;
        out[part++] = place - begin;
        begin = place;
    }
    out[part] = total - begin;
}

static int64_t nearest(double x, int64_t least, int64_t most)
{
    const int64_t n = (int64_t)(x + 0.5);
    return n < least ? least : n > most ? most : n;
}

static int64_t *cells_of(const spans_task *t, int64_t example, int side)
{
    return t->cells + (2 * example + side) * t->room;
}

static void put(int64_t *row, int64_t *length, const int64_t *tokens, int64_t count)
{
    memcpy(row + *length, tokens, (size_t)count * sizeof *row);
    *length += count;
}

/* Writes source and target of a text of n >= 2 tokens to an example. */
static void corrupt(const spans_task *t, const int64_t *tokens, int64_t n, const draws *d,
                    int64_t example)
{
    int64_t gone[MAX_SENTINELS], kept[MAX_SENTINELS + 1];
    const int64_t removed = nearest((double)n * t->share, 1, n - 1), rest = n - removed;
    const int64_t most = removed <= rest ? removed : rest + 1;
    const int64_t spans =
        nearest((double)removed / t->mean, 1, most < t->sentinels ? most : t->sentinels - 1);
    cut(d, 0, removed, spans, gone);
    cut(d, 1, rest + 2, spans + 1, kept); /* the first and the last may be empty */
    kept[0]--;
    kept[spans]--;
    int64_t *source = cells_of(t, example, 0), *target = cells_of(t, example, 1), at = 0;
    int64_t lengths[2] = {0, 0};
    for (int64_t i = 0; i <= spans; i++) {
        put(source, &lengths[0], tokens + at, kept[i]);
        at += kept[i];
        put(target, &lengths[1], &t->sentinel[i], 1);
        if (i == spans) break; /* a last sentinel ends the target */
        put(source, &lengths[0], &t->sentinel[i], 1);
        put(target, &lengths[1], tokens + at, gone[i]);
        at += gone[i];
    }
    put(source, &lengths[0], &t->eos, 1);
    t->length[0][example] = lengths[0];
    t->length[1][example] = lengths[1];
}

static fv_status make_room(spans_task *t)
{
    fv_ctx *ctx = t->text.ctx;
    const size_t need = (size_t)t->count + 1;
    size_t cells = 0;
    bool fits = fv_checked_mul_size(need, 2 * (size_t)t->room, &cells);
    int64_t *grown =
        fits ? fv_mem_grow(&ctx->mem, t->cells, &t->cell_room, cells, sizeof *grown) : NULL;
    if (grown) t->cells = grown;
    fits = grown != NULL;
    for (int i = 0; i < 2; i++) {
        int64_t *length =
            fv_mem_grow(&ctx->mem, t->length[i], &t->length_room[i], need, sizeof *length);
        if (length) t->length[i] = length;
        const int64_t **row = fv_mem_grow(&ctx->mem, t->row[i], &t->row_room[i], need, sizeof *row);
        if (row) t->row[i] = row;
        fits = fits && length && row;
    }
    FV_RETURN_IF(!fits, ctx, FV_ERR_MEMORY, "no memory for a batch");
    return FV_OK;
}

static fv_status add_batch(spans_task *t, const fv_text_part *p, const fv_picked *picked,
                           uint64_t step, bool by_piece)
{
    const uint64_t seed = (uint64_t)fv_recipe_int(t->text.recipe, "train.seed");
    for (int64_t i = 0; i < picked->count; i++) {
        const int64_t number = picked->example[i];
        const draws d = {.key = fv_rng_key(seed, step, SPAN_SITE),
                         .row = (uint64_t)(by_piece ? number : t->count)};
        FV_TRY(make_room(t));
        corrupt(t, p->tokens + p->pieces[number].at, p->pieces[number].length, &d, t->count++);
    }
    return FV_OK;
}

/* Sets the rows after the last example was added, since the cells move as they grow. */
static void set_rows(spans_task *t)
{
    for (int64_t i = 0; i < t->count; i++)
        for (int side = 0; side < 2; side++)
            t->row[side][i] = cells_of(t, i, side);
}

static fv_batch batch_of(const spans_task *t, int64_t first, int64_t count)
{
    fv_sequences side[2];
    for (int i = 0; i < 2; i++)
        side[i] = (fv_sequences){
            .count = count, .tokens = t->row[i] + first, .length = t->length[i] + first};
    return fv_batch_of_pairs(&side[0], &side[1]);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    spans_task *t = self;
    fv_step_parts *parts = &t->text.parts;
    const fv_text_part *p = &t->text.part[FV_TEXT_TRAIN];
    (void)model;
    (void)phase;
    t->count = 0;
    for (int64_t part = 0; part < parts->count; part++) {
        fv_picked picked;
        FV_TRY(fv_batches_next(p->order, &picked));
        FV_TRY(add_batch(t, p, &picked, step, false));
        parts->first[part + 1] = t->count;
        plan->epoch = (double)picked.epoch + (double)(picked.index + 1) / (double)picked.batches;
    }
    set_rows(t);
    const fv_batch all = batch_of(t, 0, t->count);
    plan->parts = parts->count;
    plan->first_row = parts->first;
    plan->tokens = (double)fv_batch_target_tokens(&all);
    return FV_OK;
}

static fv_status step_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                            fv_batch *out)
{
    const spans_task *t = self;
    const int64_t *first = t->text.parts.first + part;
    (void)model;
    (void)step;
    (void)phase;
    *out = batch_of(t, first[0], first[1] - first[0]);
    return FV_OK;
}

static fv_status loss_of(fv_ctx *ctx, fv_model *model, const fv_batch *batch, double *out)
{
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *loss = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), batch, NULL);
    const fv_status status = fv_tensor_item(ctx, loss, out);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    spans_task *t = self;
    const fv_text_part *p = &t->text.part[FV_TEXT_VALID];
    double sum = 0, tokens = 0;
    fv_picked picked = {.batches = 1, .index = -1};
    FV_TRY(fv_batches_seek(p->order, 0, 0));
    while (picked.index + 1 < picked.batches) {
        double value = 0;
        FV_TRY(fv_batches_next(p->order, &picked));
        t->count = 0;
        FV_TRY(add_batch(t, p, &picked, UINT64_MAX, true));
        set_rows(t);
        const fv_batch batch = batch_of(t, 0, t->count);
        FV_TRY(loss_of(t->text.ctx, model, &batch, &value));
        sum += value;
        tokens += (double)fv_batch_target_tokens(&batch);
    }
    fv_metric_add(metrics, count, "loss", sum / tokens, false);
    return FV_OK;
}

const fv_task_kind fv_task_spans = {
    .struct_size = sizeof fv_task_spans,
    .name = "spans",
    .summary = "write the spans that were removed from a text, as T5 does",
    .model = "transformer",
    .keys = span_keys,
    .open = open_task,
    .prepare = prepare,
    .close = close_task,
    .report = fv_text_report,
    .begin = begin,
    .batch = step_batch,
    .evaluate = evaluate,
    .get_position = fv_text_get_position,
    .set_position = fv_text_set_position,
};
