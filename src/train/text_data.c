/* Plain text to tokens: one stream, or documents that do not see each other. */
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "fovea/corpus.h"
#include "io/file.h"
#include "train/text.h"
#include "train/words.h"

#define END "<|endoftext|>"

/* ---- the text ------------------------------------------------------------------------- */

/* Lines put together again: documents, or the whole. */
typedef struct gatherer {
    fv_text_run *run;
    char *text;
    size_t bytes, room;
    fv_status (*use)(void *user, const char *text, size_t bytes);
    void *user;
} gatherer;

static fv_status append(gatherer *g, const char *text, size_t bytes)
{
    size_t need;
    fv_mem *mem = &g->run->ctx->mem;
    FV_RETURN_IF(!fv_add_size(g->bytes, bytes + 1, &need), g->run->ctx, FV_ERR_LIMIT,
                 "a document is too long");
    char *grown = fv_mem_grow(mem, g->text, &g->room, need, 1);
    FV_RETURN_IF(!grown, g->run->ctx, FV_ERR_MEMORY, "no memory for %zu bytes of text", need);
    g->text = grown;
    memcpy(g->text + g->bytes, text, bytes);
    g->bytes += bytes;
    g->text[g->bytes++] = '\n';
    return FV_OK;
}

static fv_status hand_over(gatherer *g)
{
    const size_t bytes = g->bytes;
    g->bytes = 0;
    return bytes > 0 ? g->use(g->user, g->text, bytes) : FV_OK;
}

enum { STREAM, LINES, PARAGRAPHS };

static fv_status gather_lines(gatherer *g, fv_lines *lines)
{
    const int cut = fv_recipe_choice(g->run->recipe, "data.documents");
    for (;;) {
        fv_line line;
        FV_FORWARD(fv_lines_next(lines, &line));
        if (!line.text) return hand_over(g);
        if (!line.valid) continue;
        if (cut == LINES && line.bytes > 0) {
            FV_FORWARD(g->use(g->user, line.text, line.bytes));
            continue;
        }
        if (cut == PARAGRAPHS && line.bytes == 0) {
            FV_FORWARD(hand_over(g));
            continue;
        }
        if (cut != LINES) FV_FORWARD(append(g, line.text, line.bytes));
    }
}

/* Calls `use` for every document of a file. */
static fv_status each_document(fv_text_run *run, const char *path,
                               fv_status (*use)(void *, const char *, size_t), void *user)
{
    fv_lines *lines = NULL;
    const bool skip = fv_recipe_bool(run->recipe, "data.skip_invalid");
    FV_FORWARD(fv_lines_open(run->ctx, path, skip ? FV_LINES_MARK : FV_LINES_REFUSE, &lines));
    gatherer g = {.run = run, .use = use, .user = user};
    const fv_status status = gather_lines(&g, lines);
    if (g.text) fv_mem_free(&run->ctx->mem, g.text, g.room);
    fv_lines_close(&lines);
    return status;
}

/* ---- the tokenizer -------------------------------------------------------------------- */

static fv_status learn_from(void *user, const char *text, size_t bytes)
{
    return fv_token_learner_add(user, text, bytes);
}

static fv_status learn(fv_text_run *run)
{
    static const char *const specials[] = {END, "<unk>", NULL};
    fv_token_learner *learner = NULL;
    FV_FORWARD(fv_words_learner(run->ctx, run->recipe, specials, &learner));
    fv_status status =
        each_document(run, fv_recipe_text(run->recipe, "data.train_text"), learn_from, learner);
    if (status == FV_OK) status = fv_token_learner_finish(learner, &run->tokenizer);
    fv_token_learner_destroy(&learner);
    return status;
}

fv_status fv_text_tokenizer(fv_text_run *run)
{
    char path[FV_PATH_BYTES];
    const char *first = fv_recipe_text(run->recipe, "train.init_from");
    FV_FORWARD(fv_path_join(run->ctx, path, run->folder, "tokenizer.json"));
    if (fv_file_exists(run->ctx, path)) return fv_tokenizer_load(run->ctx, path, &run->tokenizer);
    return *first ? fv_tokenizer_load(run->ctx, first, &run->tokenizer) : learn(run);
}

/* ---- tokens ----------------------------------------------------------------------------- */

typedef struct reader {
    fv_text_run *run;
    fv_text_part *part;
    fv_encoder *encoder;
    int64_t end; /* put behind every document; -1: nothing */
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

static fv_status add_document(void *user, const char *text, size_t bytes)
{
    const reader *r = user;
    fv_ctx *ctx = r->run->ctx;
    fv_text_part *p = r->part;
    fv_encoding e = {.struct_size = sizeof e};
    FV_RETURN_IF(fv_cancelled(ctx), ctx, FV_ERR_CANCELLED, "cancelled while reading");
    FV_FORWARD(fv_encode(r->encoder, text, bytes, 0, &e));
    if (e.count == 0) return FV_OK;
    FV_FORWARD(grow_tokens(ctx, p, p->count + (int64_t)e.count + 1));
    const int64_t first = p->count;
    for (size_t i = 0; i < e.count; i++)
        p->tokens[p->count++] = e.ids[i];
    if (r->end >= 0) p->tokens[p->count++] = r->end;
    /* The last token of a piece is what the next one starts from. */
    const int64_t window = r->run->window;
    for (int64_t at = first; !r->run->stream && at + 1 < p->count; at += window) {
        const int64_t left = p->count - at;
        FV_FORWARD(add_piece(ctx, p, (fv_text_piece){at, left < window + 1 ? left : window + 1}));
    }
    return FV_OK;
}

static fv_status read_part(fv_text_run *run, int part, const char *path)
{
    reader r = {.run = run, .part = &run->part[part], .end = -1};
    if (!run->stream) r.end = fv_tokenizer_id(run->tokenizer, END, sizeof END - 1);
    FV_FORWARD(fv_encoder_create(run->ctx, run->tokenizer, &r.encoder));
    const fv_status status = each_document(run, path, add_document, &r);
    fv_encoder_destroy(&r.encoder);
    return status;
}

/* The last share of the training part becomes the validation part. */
static fv_status split(fv_text_run *run)
{
    fv_text_part *a = &run->part[FV_TEXT_TRAIN], *b = &run->part[FV_TEXT_VALID];
    const double share = fv_recipe_real(run->recipe, "data.valid_share");
    const int64_t units = run->stream ? a->count : a->piece_count;
    const int64_t kept = units - (int64_t)((double)units * share);
    int64_t from = kept;
    if (!run->stream) from = kept < units ? a->pieces[kept].at : a->count;
    FV_FORWARD(grow_tokens(run->ctx, b, a->count - from + 1));
    b->count = a->count - from;
    memcpy(b->tokens, a->tokens + from, (size_t)b->count * sizeof *b->tokens);
    a->count = from;
    for (int64_t i = kept; !run->stream && i < units; i++) {
        const fv_text_piece *piece = &a->pieces[i];
        FV_FORWARD(add_piece(run->ctx, b, (fv_text_piece){piece->at - from, piece->length}));
    }
    if (!run->stream) a->piece_count = kept;
    return FV_OK;
}

/* Where documents are met in an order: shuffled to train, as they stand to judge. */
static fv_status order(fv_text_run *run, int part)
{
    fv_text_part *p = &run->part[part];
    fv_ctx *ctx = run->ctx;
    if (run->stream) return FV_OK;
    int64_t *lengths = fv_mem_alloc(&ctx->mem, (size_t)p->piece_count * sizeof *lengths);
    FV_RETURN_IF(!lengths, ctx, FV_ERR_MEMORY, "no memory for %lld documents",
                 (long long)p->piece_count);
    for (int64_t i = 0; i < p->piece_count; i++)
        lengths[i] = p->pieces[i].length;
    fv_batches_config cfg;
    fv_batches_config_init(&cfg, sizeof cfg);
    cfg.tokens = fv_recipe_int(run->recipe, "train.batch_tokens");
    cfg.examples = fv_recipe_int(run->recipe, "train.batch_examples");
    cfg.seed = (uint64_t)fv_recipe_int(run->recipe, "train.seed");
    cfg.shuffle = part == FV_TEXT_TRAIN;
    const fv_status status = fv_batches_create(ctx, p->piece_count, lengths, &cfg, &p->order);
    fv_mem_free(&ctx->mem, lengths, (size_t)p->piece_count * sizeof *lengths);
    return status;
}

static fv_status check_part(const fv_text_run *run, int part)
{
    const fv_text_part *p = &run->part[part];
    static const char *const names[] = {"train", "judge"};
    FV_RETURN_IF(run->stream ? p->count <= run->window : p->piece_count < 1, run->ctx,
                 FV_ERR_FORMAT, "%.150s: %lld tokens to %s with, fewer than one example needs",
                 fv_recipe_text(run->recipe, "data.train_text"), (long long)p->count, names[part]);
    return FV_OK;
}

fv_status fv_text_read(fv_text_run *run)
{
    const char *valid = fv_recipe_text(run->recipe, "data.valid_text");
    FV_FORWARD(read_part(run, FV_TEXT_TRAIN, fv_recipe_text(run->recipe, "data.train_text")));
    FV_FORWARD(*valid ? read_part(run, FV_TEXT_VALID, valid) : split(run));
    for (int part = 0; part < FV_TEXT_PARTS; part++) {
        FV_FORWARD(check_part(run, part));
        FV_FORWARD(order(run, part));
    }
    return FV_OK;
}
