/* Texts to tokens: one stream, or separate pieces. */
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "train/tasks/text.h"

/* A random site that no op uses. */
#define SPLIT_SITE 0x73706c6974u

/* ---- tokens ----------------------------------------------------------------------------- */

typedef struct reader {
    fv_text_task *run;
    fv_text_part *part;
    fv_tokenizer_encoder *encoder;
    int64_t end; /* appended to every document; -1: nothing */
} reader;

static fv_status grow_tokens(fv_ctx *ctx, fv_text_part *p, int64_t count)
{
    int64_t *grown =
        fv_mem_grow(&ctx->mem, p->tokens, &p->token_room, (size_t)count, sizeof *grown);
    FV_RETURN_IF(!grown, ctx, FV_ERR_MEMORY, "no memory for %lld tokens", (long long)count);
    p->tokens = grown;
    return FV_OK;
}

static fv_status add_piece(fv_ctx *ctx, fv_text_part *p, fv_text_piece piece)
{
    fv_text_piece *grown = fv_mem_grow(&ctx->mem, p->pieces, &p->piece_room,
                                       (size_t)p->piece_count + 1, sizeof *grown);
    FV_RETURN_IF(!grown, ctx, FV_ERR_MEMORY, "no memory for %lld documents",
                 (long long)p->piece_count);
    p->pieces = grown;
    p->pieces[p->piece_count++] = piece;
    return FV_OK;
}

/* Appends the tokens of a text to a part. */
static fv_status add_tokens(const reader *r, fv_string text)
{
    fv_encoding e = {.struct_size = sizeof e};
    fv_text_part *p = r->part;
    FV_TRY(fv_tokenizer_encode(r->encoder, text.text, text.bytes, 0, &e));
    if (e.count == 0) return FV_OK;
    FV_TRY(grow_tokens(r->run->ctx, p, p->count + (int64_t)e.count + 1));
    for (size_t i = 0; i < e.count; i++)
        p->tokens[p->count++] = e.ids[i];
    return FV_OK;
}

/* A pair is one piece. If it is too long, tokens at the end of the longer text are left out. */
static fv_status add_pair(const reader *r, int64_t first, int64_t middle, int64_t label)
{
    fv_text_part *p = r->part;
    const int64_t room = r->run->piece, all = p->count - first;
    int64_t a = middle - first, b = p->count - middle;
    if (a == 0 || b == 0) {
        p->count = first;
        return FV_OK;
    }
    if (all > room) {
        const int64_t half = room / 2;
        a = b < room - half ? room - b : a < half ? a : half;
        b = room - a;
        memmove(p->tokens + first + a, p->tokens + middle, (size_t)b * sizeof *p->tokens);
        p->count = first + room;
    }
    return add_piece(r->run->ctx, p, (fv_text_piece){first, a + b, b, label});
}

/* Cuts what was added since `first`. For a language model pieces overlap by one token, the input of
 * the next prediction; one class is enough for a text, so it has one piece. */
static fv_status cut(const fv_text_task *run, fv_text_part *p, int64_t first, int64_t label)
{
    const int64_t overlap = run->goal == FV_TEXT_LANGUAGE, least = run->goal != FV_TEXT_CLASSIFY;
    for (int64_t at = first; at + least < p->count; at += run->piece) {
        const int64_t left = p->count - at, most = run->piece + overlap;
        FV_TRY(add_piece(run->ctx, p, (fv_text_piece){at, left < most ? left : most, 0, label}));
        if (run->goal == FV_TEXT_CLASSIFY) break;
    }
    return FV_OK;
}

static fv_status label_of(const fv_text_task *run, fv_string label, int64_t *out)
{
    *out = 0;
    if (run->goal != FV_TEXT_CLASSIFY) return FV_OK;
    *out = fv_vocab_find(&run->labels, label.text, label.bytes);
    FV_RETURN_IF(*out < 0, run->ctx, FV_ERR_FORMAT,
                 "class '%.80s' of data.valid_csv is not in data.train_csv", label.text);
    return FV_OK;
}

static fv_status add_document(void *user, const fv_text_item *item)
{
    const reader *r = user;
    fv_ctx *ctx = r->run->ctx;
    fv_text_part *p = r->part;
    const int64_t first = p->count;
    int64_t label;
    FV_RETURN_IF(fv_cancelled(ctx), ctx, FV_ERR_CANCELLED, "cancelled while reading");
    FV_TRY(label_of(r->run, item->label, &label));
    FV_TRY(add_tokens(r, item->text));
    const int64_t middle = p->count;
    if (r->run->pairs) {
        FV_TRY(add_tokens(r, item->second));
        return add_pair(r, first, middle, label);
    }
    if (p->count == first) return FV_OK;
    if (r->end >= 0) p->tokens[p->count++] = r->end;
    return r->run->stream ? FV_OK : cut(r->run, p, first, label);
}

static fv_status read_part(fv_text_task *run, int part)
{
    reader r = {.run = run, .part = &run->part[part], .end = -1};
    if (!run->stream && run->goal == FV_TEXT_LANGUAGE)
        r.end = fv_tokenizer_token_to_id(run->tokenizer, FV_TEXT_END, sizeof FV_TEXT_END - 1);
    FV_TRY(fv_tokenizer_encoder_create(run->ctx, run->tokenizer, &r.encoder));
    const fv_status status = fv_text_each(run, part, add_document, &r);
    fv_tokenizer_encoder_destroy(&r.encoder);
    return status;
}

/* The last share of the training part becomes the validation part. */
static fv_status split(fv_text_task *run)
{
    fv_text_part *a = &run->part[FV_TEXT_TRAIN], *b = &run->part[FV_TEXT_VALID];
    const double share = fv_recipe_real(run->recipe, "data.valid_share");
    const int64_t units = run->stream ? a->count : a->piece_count;
    const int64_t kept = units - (int64_t)((double)units * share);
    int64_t from = kept;
    if (!run->stream) from = kept < units ? a->pieces[kept].at : a->count;
    FV_TRY(grow_tokens(run->ctx, b, a->count - from + 1));
    b->count = a->count - from;
    memcpy(b->tokens, a->tokens + from, (size_t)b->count * sizeof *b->tokens);
    a->count = from;
    for (int64_t i = kept; !run->stream && i < units; i++) {
        const fv_text_piece *piece = &a->pieces[i];
        FV_TRY(add_piece(run->ctx, b,
                         (fv_text_piece){piece->at - from, piece->length, 0, piece->label}));
    }
    if (!run->stream) a->piece_count = kept;
    return FV_OK;
}

/* Files are often sorted, so the held-out pieces are drawn at random, by seed and index. */
static fv_status split_drawn(fv_text_task *run)
{
    fv_text_part *a = &run->part[FV_TEXT_TRAIN], *b = &run->part[FV_TEXT_VALID];
    const double share = fv_recipe_real(run->recipe, "data.valid_share");
    const uint64_t key =
        fv_rng_key((uint64_t)fv_recipe_int(run->recipe, "train.seed"), 0, SPLIT_SITE);
    const int64_t pieces = a->piece_count;
    a->piece_count = a->count = 0;
    for (int64_t i = 0; i < pieces; i++) {
        uint32_t r[4];
        const fv_text_piece piece = a->pieces[i];
        fv_rng_draw(key, (uint64_t)i, 0, r);
        fv_text_part *to = (double)fv_rng_unit(r[0]) < share ? b : a;
        FV_TRY(grow_tokens(run->ctx, to, to->count + piece.length));
        memmove(to->tokens + to->count, a->tokens + piece.at,
                (size_t)piece.length * sizeof *to->tokens);
        FV_TRY(add_piece(run->ctx, to,
                         (fv_text_piece){to->count, piece.length, piece.second, piece.label}));
        to->count += piece.length;
    }
    return FV_OK;
}

static int64_t tokens_of(const void *part, int64_t i)
{
    return ((const fv_text_part *)part)->pieces[i].length;
}

/* The order of documents; for validation the first eval.max_texts of them. */
static fv_status order(fv_text_task *run, int part)
{
    fv_text_part *p = &run->part[part];
    if (run->stream) return FV_OK;
    const int64_t most = fv_recipe_int(run->recipe, "eval.max_texts");
    const bool bounded = part == FV_TEXT_VALID && most > 0 && most < p->piece_count;
    return fv_step_order(run->ctx, run->recipe, bounded ? most : p->piece_count, tokens_of, p,
                         part == FV_TEXT_TRAIN, &p->order);
}

static fv_status check_part(const fv_text_task *run, int part)
{
    const fv_text_part *p = &run->part[part];
    static const char *const names[] = {"training", "validation"};
    FV_RETURN_IF(run->stream ? p->count <= run->window : p->piece_count < 1, run->ctx,
                 FV_ERR_FORMAT, "%.150s: %lld tokens for %s, fewer than one example needs",
                 fv_text_train_file(run), (long long)p->count, names[part]);
    return FV_OK;
}

fv_status fv_text_read(fv_text_task *run)
{
    FV_TRY(read_part(run, FV_TEXT_TRAIN));
    if (fv_text_has(run, FV_TEXT_VALID))
        FV_TRY(read_part(run, FV_TEXT_VALID));
    else
        FV_TRY(run->goal == FV_TEXT_LANGUAGE ? split(run) : split_drawn(run));
    for (int part = 0; part < FV_TEXT_PARTS; part++) {
        FV_TRY(check_part(run, part));
        FV_TRY(order(run, part));
    }
    return FV_OK;
}
