/*
 * fovea/tokenizer.h: text to token ids and back, as described by a Hugging Face `tokenizer.json`.
 *
 *     fv_tokenizer *tok = NULL;
 *     s = fv_tokenizer_load(ctx, "model/tokenizer.json", &tok);      // or a folder that holds it
 *     fv_tokenizer_encoder *enc = NULL;
 *     s = fv_tokenizer_encoder_create(ctx, tok, &enc);               // one per thread
 *     fv_encoding e = {.struct_size = sizeof e};
 *     s = fv_tokenizer_encode(enc, "Hello, world!", 13, FV_TOKENIZER_ADD_SPECIALS, &e);
 *     for (size_t i = 0; i < e.count; i++)
 *         printf("%" PRId64 ": from byte %u\n", e.ids[i], e.offsets[i].begin);
 *     fv_text out = {0};
 *     s = fv_tokenizer_decode(ctx, tok, e.ids, e.count, FV_TOKENIZER_SKIP_SPECIALS, &out);
 *
 * To train one:
 *
 *     fv_tokenizer_trainer_config cfg;
 *     fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_BPE_BYTES);
 *     cfg.vocabulary = 8000;
 *     fv_tokenizer_trainer *trainer = NULL;
 *     s = fv_tokenizer_trainer_create(ctx, &cfg, &trainer);
 *     for (fv_line line; (s = fv_lines_next(lines, &line)) == FV_OK && line.text;)   // data.h
 *         if ((s = fv_tokenizer_trainer_add(trainer, line.text, line.bytes)) != FV_OK) break;
 *     s = fv_tokenizer_trainer_finish(trainer, &tok);
 *     s = fv_tokenizer_save(ctx, tok, "tokenizer.json");
 *
 * A tokenizer is a pipeline. Added tokens are cut out of the text. The rest is normalized and split
 * into pieces, the model turns each piece into tokens, and the post-processor adds special tokens
 * around them. Decoding reverses this. A file that needs something this library does not have fails
 * with FV_ERR_UNSUPPORTED and the name of what is missing; a malformed file fails with
 * FV_ERR_FORMAT. The file's "truncation" and "padding" are ignored: they are up to the caller.
 *
 * Supported are
 *   models:          BPE, WordLevel, WordPiece, Unigram
 *   normalizers:     NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend,
 *                    BertNormalizer, Precompiled
 *   pre-tokenizers:  ByteLevel, Whitespace, WhitespaceSplit, Metaspace, Punctuation, Digits,
 *                    BertPreTokenizer, Split, CharDelimiterSplit
 *   post-processors: TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing
 *   decoders:        ByteLevel, BPEDecoder, WordPiece, Metaspace, Fuse, Strip, Replace,
 *                    ByteFallback
 * and Sequence of each. Split and Replace take a string or a regular expression. The expressions of
 * GPT-2, cl100k (Llama 3) and Qwen have hand-written scanners; others run on a backtracking engine
 * that supports everything except backreferences, scripts (\p{Han}), [:names:], conditionals,
 * repeats of something that can be empty, and lookbehind of variable length.
 *
 * A file is not trusted. What a stage makes of a text, and the steps of all stages together, are
 * bounded in proportion to the text (fv_limits: text_growth, text_steps, decoded_bytes); over that
 * a call fails with FV_ERR_LIMIT and the names of the file and the stage. Which code points are
 * letters, marks or punctuation is decided by the tables of Hugging Face's library.
 *
 * SentencePiece models (unigram, BPE, characters) give the ids, offsets and texts of SentencePiece.
 * They add no special tokens, because a model does not say which. Saving one writes a
 * tokenizer.json with "sentencepiece" members. Hugging Face's library ignores those and reads the
 * rest as its own conversion: close to the model, but not equal to it.
 *
 * Marian models (two SentencePiece models and one vocab.json) append "</s>" to a text and accept
 * ">>fra<<" at its beginning as a token. They do not normalize punctuation, and neither does
 * Hugging Face's tokenizer by itself.
 *
 * A tokenizer is immutable: any number of threads may encode with it, each with its own encoder and
 * context. It belongs to the context that created it.
 */
#ifndef FOVEA_TOKENIZER_H
#define FOVEA_TOKENIZER_H

#include "fovea/unicode.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_tokenizer fv_tokenizer;
typedef struct fv_tokenizer_encoder fv_tokenizer_encoder;
typedef struct fv_tokenizer_trainer fv_tokenizer_trainer;

/* ---- files ----------------------------------------------------------------------- */

/*
 * Reads a tokenizer.json or a SentencePiece model; the content decides which, not the name. In a
 * folder, reads the first of these that exists:
 *   tokenizer.json
 *   source_tokenizer.json (written by fovea train for a translator)
 *   tokenizer.model or spiece.model
 *   source.spm with vocab.json (Marian: the ids of Hugging Face's MarianTokenizer)
 *   vocab.json with merges.txt (byte-level BPE as in GPT-2, without special tokens: the files name
 *     none)
 *   vocab.txt (WordPiece as in BERT; lower-cased unless "do_lower_case" in a tokenizer_config.json
 *     of the same folder is false)
 * Fails: IO, FORMAT, LIMIT (fv_limits: text_bytes, string_bytes, vocabulary), UNSUPPORTED, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_tokenizer_load(fv_ctx *ctx, const char *path, fv_tokenizer **out);
/* The tokenizer of a folder's target language, if it has one of its own: target_tokenizer.json, or
 * target.spm with target_vocab.json or vocab.json. */
FV_API FV_MUST_USE fv_status fv_tokenizer_load_target(fv_ctx *ctx, const char *path,
                                                      fv_tokenizer **out);
/*
 * Reads the text of a tokenizer.json or the bytes of a SentencePiece model; error messages use
 * `name`. A vocabulary that is part of a program:
 *
 *     const char json[] = "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", "
 *                         "\"vocab\": {\"?\": 0, \"left\": 1, \"right\": 2}}}";
 *     fv_tokenizer *tok = NULL;
 *     s = fv_tokenizer_parse(ctx, "moves", json, strlen(json), &tok);
 *     if (s == FV_OK) s = fv_tokenizer_save_folder(ctx, tok, "model");   // for AutoTokenizer
 *     fv_tokenizer_destroy(&tok);
 */
FV_API FV_MUST_USE fv_status fv_tokenizer_parse(fv_ctx *ctx, const char *name, const char *text,
                                                size_t bytes, fv_tokenizer **out);
/* Writes a tokenizer.json. The write is atomic: `path` holds the old file or the complete new one.
 */
FV_API FV_MUST_USE fv_status fv_tokenizer_save(fv_ctx *ctx, const fv_tokenizer *tok,
                                               const char *path);
/* Writes tokenizer.json into an existing folder, with the tokenizer_config.json that Hugging Face's
 * AutoTokenizer needs. */
FV_API FV_MUST_USE fv_status fv_tokenizer_save_folder(fv_ctx *ctx, const fv_tokenizer *tok,
                                                      const char *folder);
/* Accepts NULL; sets *tok to NULL. */
FV_API void fv_tokenizer_destroy(fv_tokenizer **tok);

/* ---- vocabulary ------------------------------------------------------------------ */

/* One more than the largest id, added tokens included. */
FV_API size_t fv_tokenizer_vocab_size(const fv_tokenizer *tok);
/*
 * The id of a token as spelled in the file, or -1.
 *
 *     const int64_t mask = fv_tokenizer_token_to_id(tok, "[MASK]", 6);
 *     bool hidden = mask >= 0 && fv_tokenizer_is_special(tok, mask);   // left out of decoded text
 */
FV_API int64_t fv_tokenizer_token_to_id(const fv_tokenizer *tok, const char *token, size_t bytes);
/* The token of an id; its text is NULL if there is none. */
FV_API fv_string fv_tokenizer_id_to_token(const fv_tokenizer *tok, int64_t id);
/* True for special tokens such as "<s>" or "[CLS]". */
FV_API bool fv_tokenizer_is_special(const fv_tokenizer *tok, int64_t id);

/* ---- encoding -------------------------------------------------------------------- */

enum {
    FV_TOKENIZER_ADD_SPECIALS = 1 /* let the post-processor add its special tokens */
};

typedef struct fv_token_span {
    uint32_t begin, end; /* bytes of the original text, whole characters; 0, 0 for added tokens */
} fv_token_span;

/* Points into the encoder; valid until its next call. */
typedef struct fv_encoding {
    size_t struct_size; /* set by the caller */
    size_t count;
    const int64_t *ids;
    const fv_token_span *offsets;       /* into the text or the pair */
    const uint8_t *sequence_ids;        /* 0: token of the text, 1: of the pair */
    const uint8_t *type_ids;            /* from the post-processor; without one, the sequence id */
    const uint8_t *special_tokens_mask; /* 1: added by the post-processor */
} fv_encoding;

/* An encoder owns the working memory and a cache of words. Destroy it before the tokenizer and the
 * context. */
FV_API FV_MUST_USE fv_status fv_tokenizer_encoder_create(fv_ctx *ctx, const fv_tokenizer *tok,
                                                         fv_tokenizer_encoder **out);
/* Accepts NULL; sets *enc to NULL. */
FV_API void fv_tokenizer_encoder_destroy(fv_tokenizer_encoder **enc);

/* Encodes one text, or a text and its pair. Fails: FORMAT (not UTF-8), LIMIT (4 GiB; the
 * bounds above), STATE (an unknown word, and the model has no unknown token), MEMORY. */
FV_API FV_MUST_USE fv_status fv_tokenizer_encode(fv_tokenizer_encoder *enc, const char *text,
                                                 size_t bytes, unsigned flags, fv_encoding *out);
FV_API FV_MUST_USE fv_status fv_tokenizer_encode_pair(fv_tokenizer_encoder *enc, fv_string text,
                                                      fv_string pair, unsigned flags,
                                                      fv_encoding *out);

/* ---- decoding -------------------------------------------------------------------- */

enum { FV_TOKENIZER_SKIP_SPECIALS = 1 };

/* Bytes that are not UTF-8 become U+FFFD. Ids without a token are left out, as in Hugging Face; the
 * first in a context gives a warning. Fails: INDEX (a negative id), LIMIT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_tokenizer_decode(fv_ctx *ctx, const fv_tokenizer *tok,
                                                 const int64_t *ids, size_t count, unsigned flags,
                                                 fv_text *out);

/* ---- training -------------------------------------------------------------------- */

typedef enum fv_tokenizer_kind {
    FV_TOKENIZER_CHARS,         /* one token per character */
    FV_TOKENIZER_WORDS,         /* one token per word, split at white space */
    FV_TOKENIZER_BPE_BYTES,     /* byte-level BPE, split as in GPT-2: can encode any text */
    FV_TOKENIZER_BPE_WORDS,     /* BPE inside words; the last piece of a word ends in "</w>" */
    FV_TOKENIZER_BPE_METASPACE, /* BPE inside words; U+2581 replaces the blank before a word */
    /* As in BERT: continuation pieces begin with "##", and each word is split greedily from the
     * left into the longest known pieces. Text is normalized and split by BERT's rules: `normalize`
     * is ignored, and `lowercase` strips accents as well. The pieces are trained like BPE merges.
     * Needs "<unk>" or "[UNK]" among the specials. */
    FV_TOKENIZER_WORDPIECE
} fv_tokenizer_kind;

enum { FV_TOKENIZER_MAX_SPECIALS = 16 };

typedef struct fv_tokenizer_trainer_config {
    size_t struct_size;
    fv_tokenizer_kind kind;
    size_t vocabulary;  /* number of tokens [8000]; characters and specials are always kept */
    uint64_t min_count; /* of a word (WORDS) or a pair (BPE) [2; 1 for characters and words] */
    bool lowercase;
    bool normalize; /* to `form` first */
    fv_normal_form form;
    /* Special tokens get the first ids, in this order [<pad> <s> </s> <unk>]; NULL ends the list.
     * "<unk>", or else "[UNK]", becomes the unknown token. */
    const char *specials[FV_TOKENIZER_MAX_SPECIALS];
    /* Added around each text by FV_TOKENIZER_ADD_SPECIALS; NULL adds nothing. Must be among the
     * specials. */
    const char *begin, *end; /* [NULL, NULL] */
} fv_tokenizer_trainer_config;

FV_API void fv_tokenizer_trainer_config_init(fv_tokenizer_trainer_config *cfg, size_t struct_size,
                                             fv_tokenizer_kind kind);

/* Fails: ARGUMENT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_tokenizer_trainer_create(fv_ctx *ctx,
                                                         const fv_tokenizer_trainer_config *cfg,
                                                         fv_tokenizer_trainer **out);
/* Accepts NULL; sets *trainer to NULL. */
FV_API void fv_tokenizer_trainer_destroy(fv_tokenizer_trainer **trainer);
/* Counts the words of a text; the text may be freed afterwards. Fails: FORMAT, LIMIT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_tokenizer_trainer_add(fv_tokenizer_trainer *trainer,
                                                      const char *text, size_t bytes);

/*
 * Trains on all texts added so far; their order does not matter. BPE repeatedly merges the most
 * frequent pair, on ties the one with the smaller ids, until the vocabulary is full or no pair
 * reaches min_count. Fails: STATE (no text), LIMIT, MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_tokenizer_trainer_finish(fv_tokenizer_trainer *trainer,
                                                         fv_tokenizer **out);

#ifdef __cplusplus
}
#endif
#endif
