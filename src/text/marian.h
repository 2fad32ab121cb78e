/*
 * Marian tokenizers, compatible with Hugging Face's MarianTokenizer: a SentencePiece model
 * (source.spm, target.spm) splits the text into pieces, and a vocab.json with the pieces of both
 * languages has their ids. "</s>" ends a text; ">>fra<<" at its beginning, which multilingual
 * models need, is a token.
 *
 *     s = fv_marian_load(ctx, "opus/source.spm", "opus/vocab.json", &tok);
 *
 * A piece that is not in the vocabulary becomes "<unk>". Text that the model does not know but the
 * vocabulary does, because it belongs to the other language, gets its id. The resulting tokenizer
 * has the tokens of the vocabulary with their ids, followed by the pieces that only the model has;
 * fv_token_model.visible_ids is where those begin.
 */
#ifndef FV_TEXT_MARIAN_H
#define FV_TEXT_MARIAN_H

#include "text/tokenizer_pipeline.h"

/* Fails: IO, FORMAT (missing ids, "<unk>", "</s>" or "<pad>"), LIMIT, UNSUPPORTED, MEMORY. */
fv_status fv_marian_load(fv_ctx *ctx, const char *model_path, const char *vocab_path,
                         fv_tokenizer **out);

/* Length of the language token, ">>fra<<", that the text begins with; 0: none. */
size_t fv_marian_language(const char *text, size_t bytes);

#endif
