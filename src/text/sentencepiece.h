/*
 * SentencePiece files (`.model`): a protocol buffer with the pieces, their scores and kinds, and
 * the normalization. A model is converted to a tokenizer.json with additional "sentencepiece"
 * members, which describe exactly what SentencePiece does. Other libraries ignore them and use the
 * usual approximation in the standard members.
 *
 *     fv_sentencepiece sp;
 *     s = fv_sentencepiece_read(ctx, "t5.model", data, bytes, &sp);     // points into data
 *     s = fv_sentencepiece_build(ctx, "t5.model", &sp, &tok);
 *     fv_sentencepiece_free(ctx, &sp);
 */
#ifndef FV_TEXT_SENTENCEPIECE_H
#define FV_TEXT_SENTENCEPIECE_H

#include "text/tokenizer_pipeline.h"

typedef struct fv_sentence_piece {
    fv_string text;
    float score;
    fv_piece_kind kind;
} fv_sentence_piece;

typedef enum fv_sentencepiece_type {
    FV_SENTENCEPIECE_UNIGRAM = 1, /* with the numbers of the file */
    FV_SENTENCEPIECE_BPE,
    FV_SENTENCEPIECE_WORD,
    FV_SENTENCEPIECE_CHAR
} fv_sentencepiece_type;

typedef struct fv_sentencepiece {
    fv_sentence_piece *pieces; /* by id */
    size_t count, room;
    uint64_t type; /* fv_sentencepiece_type */
    bool byte_fallback, whitespace_as_suffix, add_dummy_prefix, remove_extra_whitespaces,
        escape_whitespaces; /* as in fv_normalizer */
    fv_string charsmap;
    fv_string unknown; /* text that the unknown piece decodes to */
    /* Marian tokenizers only (marian.h): */
    size_t visible_ids; /* pieces from this one on are reported as unknown; 0: not Marian */
    const char *const *specials; /* tokens that are matched in text; NULL-terminated */
    size_t end;                  /* with `specials`: the piece appended to every text */
} fv_sentencepiece;

/* Fails: FORMAT, LIMIT, UNSUPPORTED, MEMORY. */
fv_status fv_sentencepiece_read(fv_ctx *ctx, const char *name, const char *data, size_t bytes,
                                fv_sentencepiece *out);
void fv_sentencepiece_free(fv_ctx *ctx, fv_sentencepiece *sp);

fv_status fv_sentencepiece_build(fv_ctx *ctx, const char *name, const fv_sentencepiece *sp,
                                 fv_tokenizer **out);

#endif
