/*
 * fovea/tokenizer.h: text to numbers and back, as Hugging Face's `tokenizer.json` describes it.
 *
 *     fv_tokenizer *tok = NULL;
 *     s = fv_tokenizer_load(ctx, "model/tokenizer.json", &tok);      // or a folder that holds it
 *     fv_encoder *enc = NULL;
 *     s = fv_encoder_create(ctx, tok, &enc);                         // one a thread
 *     fv_encoding e = {.struct_size = sizeof e};
 *     s = fv_encode(enc, "Hello, world!", 13, FV_ENCODE_SPECIALS, &e);
 *     for (size_t i = 0; i < e.count; i++)
 *         printf("%d at bytes %u to %u\n", e.ids[i], e.offsets[i].begin, e.offsets[i].end);
 *     fv_text out = {0};
 *     s = fv_tokenizer_decode(ctx, tok, e.ids, e.count, FV_DECODE_SKIP_SPECIALS, &out);
 *
 * and to learn one:
 *
 *     fv_token_learner_config cfg;
 *     fv_token_learner_config_init(&cfg, sizeof cfg, FV_LEARN_BPE_BYTES);
 *     cfg.vocabulary = 8000;
 *     fv_token_learner *learner = NULL;
 *     s = fv_token_learner_create(ctx, &cfg, &learner);
 *     for (fv_line line; (s = fv_lines_next(lines, &line)) == FV_OK && line.text;)   // corpus.h
 *         if ((s = fv_token_learner_add(learner, line.text, line.bytes)) != FV_OK) break;
 *     s = fv_token_learner_finish(learner, &tok);
 *     s = fv_tokenizer_save(ctx, tok, "tokenizer.json");
 *
 * A tokenizer is a pipeline. Added tokens are cut out of the text; the rest is normalized, split
 * into pieces, each piece becomes tokens by the model, and the post-processor puts special tokens
 * around them. Decoding goes back. What a file asks for and this library does not have is
 * FV_ERR_UNSUPPORTED, with its name; a file that breaks the format is FV_ERR_FORMAT. The file's
 * "truncation" and "padding" are left to the caller.
 *
 * Here are: the models BPE, WordLevel, WordPiece and Unigram; the normalizers NFC, NFD, NFKC, NFKD,
 * Lowercase, Strip, StripAccents, Replace, Prepend, BertNormalizer, Precompiled; the pre-tokenizers
 * ByteLevel, Whitespace, WhitespaceSplit, Metaspace, Punctuation, Digits, BertPreTokenizer, Split
 * and CharDelimiterSplit; the post-processors TemplateProcessing, ByteLevel, BertProcessing,
 * RobertaProcessing; the decoders ByteLevel, BPEDecoder, WordPiece, Metaspace, Fuse, Strip,
 * Replace, ByteFallback; Sequence of each. Split and Replace take a text or a regular expression:
 * those of GPT-2, cl100k (Llama 3) and Qwen are scanners of their own, others go through an engine
 * that knows all but backreferences, scripts (\p{Han}), [:names:], conditions, repeats of what can
 * be empty, and looking back over no fixed length; a pattern that takes too many steps on a text is
 * FV_ERR_LIMIT.
 *
 * SentencePiece models (unigram, BPE, characters) give SentencePiece's ids, offsets and texts. They
 * add no special tokens: a model does not say which. One that is saved is a tokenizer.json with
 * members "sentencepiece", which Hugging Face's library passes over and reads as its own conversion
 * would: close to the model, not equal.
 *
 * Marian's pairs of SentencePiece models with one vocab.json put "</s>" behind a text, and take
 * ">>fra<<" at its beginning for a token. They do not normalize punctuation, nor does Hugging
 * Face's tokenizer by itself.
 *
 * A tokenizer does not change once made: any number of threads may encode with it, each through its
 * own encoder and context. It belongs to the context it was made in.
 */
#ifndef FOVEA_TOKENIZER_H
#define FOVEA_TOKENIZER_H

#include "fovea/unicode.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_tokenizer fv_tokenizer;
typedef struct fv_encoder fv_encoder;
typedef struct fv_token_learner fv_token_learner;

/* ---- files ----------------------------------------------------------------------- */

/*
 * Reads a tokenizer.json or a SentencePiece model, whatever its name; or, from a folder, its
 * tokenizer.json, else its source_tokenizer.json (of a translator that was trained here), else its
 * tokenizer.model or spiece.model, else its source.spm and vocab.json (Marian: the ids of Hugging
 * Face's MarianTokenizer), else its vocab.json and merges.txt
 * (byte-level BPE as in GPT-2, without special tokens: the files name none), else its vocab.txt
 * (WordPiece as in BERT, lower-cased unless "do_lower_case" of a tokenizer_config.json
 * beside it is false). Fails: IO, FORMAT, LIMIT (fv_limits: text_bytes,
 * string_bytes, vocabulary), UNSUPPORTED, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_tokenizer_load(fv_ctx *ctx, const char *path, fv_tokenizer **out);
/* The same of the language that a folder's model writes, where that is another tokenizer:
 * target_tokenizer.json, or target.spm with target_vocab.json or vocab.json. */
FV_API FV_MUST_USE fv_status fv_tokenizer_load_target(fv_ctx *ctx, const char *path,
                                                      fv_tokenizer **out);
/* The text of a tokenizer.json or the bytes of a SentencePiece model; `name` stands in messages. */
FV_API FV_MUST_USE fv_status fv_tokenizer_parse(fv_ctx *ctx, const char *name, const char *text,
                                                size_t bytes, fv_tokenizer **out);
/* Writes a tokenizer.json in one step: the old file or the new one is there, never a part. */
FV_API FV_MUST_USE fv_status fv_tokenizer_save(fv_ctx *ctx, const fv_tokenizer *tok,
                                               const char *path);
/* The same as tokenizer.json of a folder that exists, with the tokenizer_config.json by which
 * Hugging Face's AutoTokenizer opens it. */
FV_API FV_MUST_USE fv_status fv_tokenizer_save_folder(fv_ctx *ctx, const fv_tokenizer *tok,
                                                      const char *folder);
/* NULL is fine; *tok becomes NULL. */
FV_API void fv_tokenizer_destroy(fv_tokenizer **tok);

/* ---- the vocabulary -------------------------------------------------------------- */

/* One more than the largest id, added tokens included. */
FV_API size_t fv_tokenizer_size(const fv_tokenizer *tok);
/* The id of a token as the file spells it, or -1. */
FV_API int32_t fv_tokenizer_id(const fv_tokenizer *tok, const char *token, size_t bytes);
/* The token of an id; text NULL if there is none. */
FV_API fv_string fv_tokenizer_token(const fv_tokenizer *tok, int32_t id);
/* Whether the id is a special token: a mark of the model's own, not of the text. */
FV_API bool fv_tokenizer_is_special(const fv_tokenizer *tok, int32_t id);

/* ---- encoding -------------------------------------------------------------------- */

enum {
    FV_ENCODE_SPECIALS = 1 /* let the post-processor add its special tokens */
};

typedef struct fv_token_span {
    uint32_t begin, end; /* bytes of the original text, whole characters; 0, 0: of no text */
} fv_token_span;

/* Everything lives in the encoder, until its next call. */
typedef struct fv_encoding {
    size_t struct_size; /* set by the caller */
    size_t count;
    const int32_t *ids;
    const fv_token_span *offsets; /* into the text or the pair */
    const uint8_t *sequences;     /* which of them: 0 the text, 1 the pair */
    const uint8_t *types;         /* "type_id" of the post-processor; the sequence without one */
    const uint8_t *specials;      /* 1: put there by the post-processor */
} fv_encoding;

/* Keeps a cache of words and its working memory. Destroy it before tokenizer and context. */
FV_API FV_MUST_USE fv_status fv_encoder_create(fv_ctx *ctx, const fv_tokenizer *tok,
                                               fv_encoder **out);
FV_API void fv_encoder_destroy(fv_encoder **enc);

/* Fails: FORMAT (not UTF-8), LIMIT (4 GiB; a pattern's steps), STATE (a model without a token for
 * unknown words met one), MEMORY. */
FV_API FV_MUST_USE fv_status fv_encode(fv_encoder *enc, const char *text, size_t bytes,
                                       unsigned flags, fv_encoding *out);
FV_API FV_MUST_USE fv_status fv_encode_pair(fv_encoder *enc, fv_string text, fv_string pair,
                                            unsigned flags, fv_encoding *out);

/* ---- decoding -------------------------------------------------------------------- */

enum { FV_DECODE_SKIP_SPECIALS = 1 };

/* Bytes that are not UTF-8 become U+FFFD. Fails: INDEX (an id without a token), MEMORY. */
FV_API FV_MUST_USE fv_status fv_tokenizer_decode(fv_ctx *ctx, const fv_tokenizer *tok,
                                                 const int32_t *ids, size_t count, unsigned flags,
                                                 fv_text *out);

/* ---- training -------------------------------------------------------------------- */

typedef enum fv_learn_kind {
    FV_LEARN_CHARS,         /* one token a character */
    FV_LEARN_WORDS,         /* one token a word between white space */
    FV_LEARN_BPE_BYTES,     /* BPE over bytes, split as in GPT-2: knows every text */
    FV_LEARN_BPE_WORDS,     /* BPE inside words, whose last piece ends in "</w>" */
    FV_LEARN_BPE_METASPACE, /* BPE inside words that begin with U+2581 instead of a blank */
    /* As in BERT: pieces that go on inside a word begin with "##", a word is cut from the left into
     * the longest ones, text is normalized and split by BERT's rules (`normalize` does not count,
     * and accents go where `lowercase` is set). Pieces are learnt as BPE learns them. Needs "<unk>"
     * or "[UNK]" among the specials. */
    FV_LEARN_WORD_PIECE
} fv_learn_kind;

enum { FV_LEARN_SPECIALS = 16 };

typedef struct fv_token_learner_config {
    size_t struct_size;
    fv_learn_kind kind;
    size_t vocabulary;  /* all tokens together [8000]; characters and specials are always kept */
    uint64_t min_count; /* of a word (WORDS) or a pair (BPE) [2; 1 for characters and words] */
    bool lowercase;
    bool normalize; /* to `form` first */
    fv_normal_form form;
    /* Special tokens get the first ids, in this order: [<pad> <s> </s> <unk>]. NULL ends the list.
     * The token named "<unk>", else "[UNK]", stands for what the model does not know. */
    const char *specials[FV_LEARN_SPECIALS];
    /* Put around each text with FV_ENCODE_SPECIALS; NULL: nothing. Must be among the specials. */
    const char *begin, *end; /* [NULL, NULL] */
} fv_token_learner_config;

FV_API void fv_token_learner_config_init(fv_token_learner_config *cfg, size_t struct_size,
                                         fv_learn_kind kind);

/* Fails: ARGUMENT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_token_learner_create(fv_ctx *ctx,
                                                     const fv_token_learner_config *cfg,
                                                     fv_token_learner **out);
FV_API void fv_token_learner_destroy(fv_token_learner **learner);
/* Counts the words of a text, which is not needed afterwards. Fails: FORMAT, LIMIT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_token_learner_add(fv_token_learner *learner, const char *text,
                                                  size_t bytes);

/*
 * Learns from all that was added; the same texts in any order give the same tokenizer. BPE joins
 * the most frequent pair, of equally frequent ones the pair with the smaller ids, until the
 * vocabulary is full or no pair reaches min_count. Fails: STATE (no text), LIMIT, MEMORY,
 * CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_token_learner_finish(fv_token_learner *learner, fv_tokenizer **out);

#ifdef __cplusplus
}
#endif
#endif
