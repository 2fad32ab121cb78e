/*
 * Marian's tokenizers, as Hugging Face's MarianTokenizer: a SentencePiece model cuts the text into
 * pieces (source.spm, target.spm), and a vocab.json, which knows the pieces of both languages,
 * numbers them. "</s>" ends a text; ">>fra<<" at its beginning, where translators of many languages
 * want it, is a token.
 *
 *     s = fv_marian_load(ctx, "opus/source.spm", "opus/vocab.json", &tok);
 *
 * What the model cuts off and the vocabulary does not have is "<unk>"; text that the model does not
 * know, but the vocabulary does (of the other language), has its number. The tokenizer that comes
 * of it has the vocabulary's tokens under their numbers, and behind them, out of sight, the pieces
 * that only the model has: fv_token_model.known parts them.
 */
#ifndef FV_TEXT_MARIAN_H
#define FV_TEXT_MARIAN_H

#include "text/tokenizer_pipeline.h"

/* Fails: IO, FORMAT (numbers that are missing, no "<unk>", "</s>" or "<pad>"), LIMIT, UNSUPPORTED,
 * MEMORY. */
fv_status fv_marian_load(fv_ctx *ctx, const char *model_path, const char *vocab_path,
                         fv_tokenizer **out);

/* How many bytes of the text are a language's name, ">>fra<<"; 0: it begins otherwise. */
size_t fv_marian_language(const char *text, size_t bytes);

#endif
