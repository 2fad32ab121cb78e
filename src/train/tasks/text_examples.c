/*
 * An encoder's examples: pieces between [CLS] and [SEP], with masked tokens or a class. Every
 * choice is drawn by (seed, step, example), so a resumed run and a repeated evaluation make the
 * same ones.
 */
#include "base/checked_math.h"
#include "base/memory.h"
#include "base/rng.h"
#include "train/tasks/text.h"

/* A random site that no op uses. */
#define MASK_SITE 0x6d61736bu

/* Shares: tokens that are predicted; of those, replaced by the mask and by another token. */
#define HIDDEN 0.15f
#define MASKED 0.8f
#define OTHER  0.9f

uint64_t fv_text_mask_key(const fv_text_task *run, uint64_t step)
{
    return fv_rng_key((uint64_t)fv_recipe_int(run->recipe, "train.seed"), step, MASK_SITE);
}

/* ---- room ------------------------------------------------------------------------------ */

/* Room for one more example: three rows of a window, for ids, kinds and masked tokens. */
static fv_status make_room(fv_text_task *run)
{
    fv_mem *mem = &run->ctx->mem;
    const size_t need = (size_t)run->count + 1;
    size_t cells = 0;
    int64_t *grown = NULL;
    if (fv_checked_mul_size(need, 3 * (size_t)run->window, &cells))
        grown = fv_mem_grow(mem, run->cells, &run->cell_room, cells, sizeof *grown);
    if (grown) run->cells = grown;
    const int64_t **types = fv_mem_grow(mem, run->types, &run->type_room, need, sizeof *types);
    if (types) run->types = types;
    const int64_t **targets =
        fv_mem_grow(mem, run->targets, &run->target_room, need, sizeof *targets);
    if (targets) run->targets = targets;
    int64_t *label = fv_mem_grow(mem, run->label, &run->label_room, need, sizeof *label);
    if (label) run->label = label;
    const int64_t **rows =
        fv_mem_grow(mem, run->label_row, &run->label_row_room, need, sizeof *rows);
    if (rows) run->label_row = rows;
    FV_RETURN_IF(!grown || !types || !targets || !label || !rows, run->ctx, FV_ERR_MEMORY,
                 "no memory for a batch");
    return FV_OK;
}

static int64_t *row_of(const fv_text_task *run, int64_t example, int row)
{
    return run->cells + (3 * example + row) * run->window;
}

void fv_text_point(fv_text_task *run)
{
    for (int64_t i = 0; i < run->count; i++) {
        run->tokens[i] = row_of(run, i, 0);
        run->types[i] = row_of(run, i, 1);
        run->targets[i] = row_of(run, i, 2);
        run->label_row[i] = &run->label[i];
    }
}

/* ---- making ---------------------------------------------------------------------------- */

/* An example under construction. */
typedef struct example {
    int64_t *ids, *types, *targets, length;
} example;

static void put(example *e, const int64_t *tokens, int64_t count, int64_t type)
{
    for (int64_t i = 0; i < count; i++) {
        e->ids[e->length] = tokens[i];
        e->types[e->length] = type;
        e->targets[e->length++] = -1;
    }
}

/* A random token that is not a special one. */
static int64_t a_word(const fv_text_task *run, uint32_t draw)
{
    const int64_t size = (int64_t)fv_tokenizer_vocab_size(run->tokenizer);
    int64_t id = (int64_t)(draw % (uint64_t)size);
    for (int64_t tries = 0; tries < size && fv_tokenizer_is_special(run->tokenizer, id); tries++)
        id = (id + 1) % size;
    return id;
}

static void hide_one(fv_text_task *run, example *e, int64_t at, const uint32_t r[4])
{
    const float u = fv_rng_unit(r[1]);
    e->targets[at] = e->ids[at];
    if (u < MASKED)
        e->ids[at] = run->mask;
    else if (u < OTHER)
        e->ids[at] = a_word(run, r[2]);
    run->masked++;
}

/* Masks tokens; if none is drawn, the one at `at_least`. */
static void hide(fv_text_task *run, example *e, uint64_t key, uint64_t row, int64_t at_least)
{
    const int64_t before = run->masked;
    uint32_t r[4];
    for (int64_t t = 0; t < e->length; t++) {
        fv_rng_draw(key, row, (uint64_t)t + 1, r);
        const bool mark = fv_tokenizer_is_special(run->tokenizer, e->ids[t]);
        if (!mark && fv_rng_unit(r[0]) < HIDDEN) hide_one(run, e, t, r);
    }
    if (run->masked > before) return;
    fv_rng_draw(key, row, (uint64_t)at_least + 1, r);
    hide_one(run, e, at_least, r);
}

/* The second part of a pair: what follows, or as much of another piece. Returns the class. */
static int64_t put_second(const fv_text_task *run, const fv_text_part *p, int64_t number,
                          int64_t first, const uint32_t r[4], example *e)
{
    const fv_text_piece *piece = &p->pieces[number], *other = piece;
    const bool strange = (r[1] & 1) && p->piece_count > 1;
    const int64_t sep = run->sep, rest = piece->length - first;
    if (strange)
        other = &p->pieces[(number + 1 + (int64_t)(r[2] % (uint64_t)(p->piece_count - 1))) %
                           p->piece_count];
    if (strange)
        put(e, p->tokens + other->at, other->length < rest ? other->length : rest, 1);
    else
        put(e, p->tokens + piece->at + first, rest, 1);
    put(e, &sep, 1, 1);
    return strange;
}

fv_status fv_text_add_made(fv_text_task *run, const fv_text_part *p, int64_t number, uint64_t key,
                           uint64_t row)
{
    const fv_text_piece *piece = &p->pieces[number];
    const int64_t cls = run->cls, sep = run->sep;
    uint32_t r[4];
    FV_TRY(make_room(run));
    example e = {row_of(run, run->count, 0), row_of(run, run->count, 1), row_of(run, run->count, 2),
                 0};
    fv_rng_draw(key, row, 0, r);
    const bool pair = run->next_sentence && piece->length > 1;
    const int64_t first =
        pair ? 1 + (int64_t)(r[0] % (uint64_t)(piece->length - 1)) : piece->length - piece->second;
    int64_t label = piece->label;
    put(&e, &cls, 1, 0);
    put(&e, p->tokens + piece->at, first, 0);
    put(&e, &sep, 1, 0);
    if (pair) label = put_second(run, p, number, first, r, &e);
    if (piece->second) {
        put(&e, p->tokens + piece->at + first, piece->second, 1);
        put(&e, &sep, 1, 1);
    }
    if (run->goal == FV_TEXT_MASKED) hide(run, &e, key, row, 1 + (int64_t)(r[3] % (uint64_t)first));
    run->label[run->count] = label;
    return fv_text_add_example(run, NULL, e.length);
}
