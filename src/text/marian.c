#include "text/marian.h"

#include <string.h>

#include "io/file.h"
#include "text/sentencepiece.h"

static const char *const specials[] = {"<unk>", "</s>", "<pad>", NULL};
enum { UNKNOWN, END };

size_t fv_marian_language(const char *text, size_t bytes)
{
    if (bytes < 4 || memcmp(text, ">>", 2) != 0) return 0;
    const char *end = memmem(text, bytes, "<<", 2);
    return end ? (size_t)(end - text) + 2 : 0;
}

/* ---- merging the vocabularies -------------------------------------------------------- */

static fv_status check_vocab(fv_ctx *ctx, const char *name, const fv_vocab *vocab)
{
    FV_RETURN_IF(vocab->count != vocab->size, ctx, FV_ERR_FORMAT,
                 "%.200s: has %zu tokens but ids up to %zu", name, vocab->count, vocab->size - 1);
    for (int i = 0; specials[i]; i++)
        FV_RETURN_IF(fv_vocab_find(vocab, specials[i], strlen(specials[i])) < 0, ctx, FV_ERR_FORMAT,
                     "%.200s: token %s is missing", name, specials[i]);
    return FV_OK;
}

static void mark(fv_sentencepiece *to, const fv_vocab *vocab, const char *token, fv_piece_kind kind)
{
    to->pieces[fv_vocab_find(vocab, token, strlen(token))].kind = kind;
}

/* First the tokens of the vocabulary, of which text can become those that the model has; then the
 * pieces that only the model has, except its control pieces. */
static void merge(const fv_sentencepiece *model, const fv_vocab *vocab, fv_sentencepiece *to)
{
    for (size_t i = 0; i < vocab->size; i++)
        to->pieces[i] = (fv_sentence_piece){.text = vocab->tokens[i], .kind = FV_PIECE_UNUSED};
    to->count = to->visible_ids = vocab->size;
    for (size_t i = 0; i < model->count; i++) {
        const fv_sentence_piece *p = &model->pieces[i];
        const int32_t id = fv_vocab_find(vocab, p->text.text, p->text.bytes);
        if (p->kind == FV_PIECE_UNKNOWN || (p->kind == FV_PIECE_CONTROL && id < 0)) continue;
        to->pieces[id >= 0 ? (size_t)id : to->count++] = *p;
    }
    for (int i = 0; specials[i]; i++)
        mark(to, vocab, specials[i], i == UNKNOWN ? FV_PIECE_UNKNOWN : FV_PIECE_CONTROL);
    to->specials = specials;
    to->end = (size_t)fv_vocab_find(vocab, specials[END], strlen(specials[END]));
}

static fv_status build(fv_ctx *ctx, const char *name, const fv_sentencepiece *model,
                       const fv_vocab *vocab, fv_tokenizer **out)
{
    fv_sentencepiece merged = *model;
    merged.room = vocab->size + model->count;
    merged.pieces = fv_mem_alloc(&ctx->mem, merged.room * sizeof *merged.pieces);
    FV_RETURN_IF(!merged.pieces, ctx, FV_ERR_MEMORY, "%.200s: out of memory", name);
    merge(model, vocab, &merged);
    const fv_status status = fv_sentencepiece_build(ctx, name, &merged, out);
    fv_sentencepiece_free(ctx, &merged);
    return status;
}

fv_status fv_marian_load(fv_ctx *ctx, const char *model_path, const char *vocab_path,
                         fv_tokenizer **out)
{
    fv_vocab vocab;
    fv_sentencepiece model = {0};
    char *data = NULL;
    size_t bytes = 0;
    fv_vocab_init(&vocab, ctx);
    fv_status status = fv_vocab_load(&vocab, vocab_path);
    if (status == FV_OK) status = check_vocab(ctx, vocab_path, &vocab);
    if (status == FV_OK) status = fv_file_read_text(ctx, model_path, &data, &bytes);
    if (status == FV_OK) status = fv_sentencepiece_read(ctx, model_path, data, bytes, &model);
    if (status == FV_OK) status = build(ctx, model_path, &model, &vocab, out);
    fv_sentencepiece_free(ctx, &model);
    fv_mem_free(&ctx->mem, data, bytes);
    fv_vocab_free(&vocab);
    return status;
}
