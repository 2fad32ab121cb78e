/*
 * Internals of a tokenizer: the steps of its pipeline as data, in the order in which they run. A
 * tokenizer keeps the text of its tokenizer.json, from a file or from training; everything else is
 * read from that text. So there is one reader, and saving is exact.
 */
#ifndef FV_TEXT_TOKENIZER_PIPELINE_H
#define FV_TEXT_TOKENIZER_PIPELINE_H

#include "fovea/tokenizer.h"
#include "io/document.h"
#include "text/charsmap.h"
#include "text/codepoints.h"
#include "text/regex.h"
#include "text/split_scanners.h"
#include "text/trie.h"
#include "text/vocab.h"

/* ---- normalizers ----------------------------------------------------------------- */

typedef enum fv_normalizer_kind {
    FV_NORMALIZER_NFC, /* in the order of fv_normal_form */
    FV_NORMALIZER_NFD,
    FV_NORMALIZER_NFKC,
    FV_NORMALIZER_NFKD,
    FV_NORMALIZER_LOWERCASE,
    FV_NORMALIZER_STRIP,
    FV_NORMALIZER_STRIP_ACCENTS,
    FV_NORMALIZER_REPLACE,
    FV_NORMALIZER_PREPEND,
    FV_NORMALIZER_BERT,
    FV_NORMALIZER_PRECOMPILED,
    FV_NORMALIZER_SENTENCEPIECE
} fv_normalizer_kind;

typedef struct fv_normalizer {
    fv_normalizer_kind kind;
    bool left, right;                    /* STRIP */
    bool clean, chinese, accents, lower; /* BERT; accents: strip them */
    fv_string from, to;                  /* REPLACE; PREPEND: to */
    const fv_regex *re;                  /* REPLACE: instead of `from`, or NULL */
    const fv_charsmap *map;              /* PRECOMPILED; SENTENCEPIECE: NULL if it has none */
    /* SENTENCEPIECE: the options of the same names in its normalizer_spec and trainer_spec */
    bool add_dummy_prefix, whitespace_as_suffix, remove_extra_whitespaces, escape_whitespaces;
} fv_normalizer;

/* ---- pre-tokenizers -------------------------------------------------------------- */

typedef enum fv_pre_tokenizer_kind {
    FV_PRE_TOKENIZER_BYTE_LEVEL,
    FV_PRE_TOKENIZER_WHITESPACE, /* runs of word characters and of others, without white space */
    FV_PRE_TOKENIZER_WHITESPACE_SPLIT, /* at white space */
    FV_PRE_TOKENIZER_METASPACE,
    FV_PRE_TOKENIZER_PUNCTUATION,
    FV_PRE_TOKENIZER_DIGITS,
    FV_PRE_TOKENIZER_BERT,   /* at white space and around each punctuation character */
    FV_PRE_TOKENIZER_STRING, /* at every occurrence of a string */
    FV_PRE_TOKENIZER_REGEX   /* at every match of a pattern */
} fv_pre_tokenizer_kind;

/* What happens to the separator. */
typedef enum fv_split_behavior {
    FV_SPLIT_REMOVED,
    FV_SPLIT_ISOLATED,
    FV_SPLIT_WITH_PREVIOUS,
    FV_SPLIT_WITH_NEXT,
    FV_SPLIT_CONTIGUOUS
} fv_split_behavior;

typedef enum fv_prepend { FV_PREPEND_ALWAYS, FV_PREPEND_FIRST, FV_PREPEND_NEVER } fv_prepend;

typedef struct fv_pre_tokenizer {
    fv_pre_tokenizer_kind kind;
    fv_split_behavior behavior; /* PUNCTUATION, STRING, REGEX */
    bool prefix_space, regex;   /* BYTE_LEVEL */
    bool individual;            /* DIGITS: each digit is a piece */
    bool invert;                /* STRING, REGEX: the text between the matches is the separator */
    bool split;                 /* METASPACE */
    fv_prepend prepend;         /* METASPACE */
    fv_string pattern;          /* STRING; METASPACE: the replacement for a blank */
    const fv_regex *re;         /* REGEX */
    fv_split_scanner scan;      /* REGEX: a hand-written scanner for the pattern, or NULL */
} fv_pre_tokenizer;

/* ---- models ---------------------------------------------------------------------- */

typedef enum fv_token_model_kind {
    FV_TOKEN_MODEL_BPE,
    FV_TOKEN_MODEL_WORD_LEVEL,
    FV_TOKEN_MODEL_WORD_PIECE,
    FV_TOKEN_MODEL_UNIGRAM
} fv_token_model_kind;

/* Kinds of pieces in a SentencePiece model, with the numbers used in its file. */
typedef enum fv_piece_kind {
    FV_PIECE_NORMAL = 1,
    FV_PIECE_UNKNOWN,
    FV_PIECE_CONTROL, /* never produced from text */
    FV_PIECE_USER,    /* matched in the text before anything else */
    FV_PIECE_UNUSED,
    FV_PIECE_BYTE
} fv_piece_kind;

/* Roots of the trie of pieces. */
enum { FV_ROOT_PIECES = 1, FV_ROOT_USER, FV_ROOTS = FV_ROOT_USER };

/* A BPE merge; lower ranks are applied first. */
typedef struct fv_merge {
    uint64_t key; /* (first << 32 | second) + 1; 0: a free slot */
    uint32_t rank;
    int32_t id;
} fv_merge;

typedef struct fv_token_model {
    fv_token_model_kind kind;
    int32_t unk;      /* -1: none */
    fv_string prefix; /* of pieces that continue a word */
    fv_string suffix; /* BPE: of a word's last piece */
    bool fuse_unk, byte_fallback, ignore_merges;
    size_t longest;   /* length of the longest token in bytes */
    size_t max_chars; /* WORD_PIECE: longer words become the unknown token */
    fv_merge *merges; /* open addressing */
    size_t merge_slots;
    int32_t byte_ids[256];     /* byte-level BPE: the token of each byte, or -1 */
    int32_t fallback_ids[256]; /* byte fallback: the id of "<0x41>" etc., or -1 */
    const double *scores;      /* UNIGRAM, by id */
    double unk_score;          /* of an unknown character */
    fv_trie pieces;            /* pieces that text can become; those defined by the user */
    /* SentencePiece models only: */
    const uint8_t *kinds;  /* fv_piece_kind by id; NULL: not a SentencePiece model */
    const uint32_t *ranks; /* BPE, by id: two symbols that spell a piece merge with its rank */
    bool has_user;         /* there are user-defined pieces */
    /* Marian: ids from this one on are reported as unknown; otherwise INT32_MAX */
    int32_t visible_ids;
    /* BPE: U+2581 occurs only at the start of pieces, so no merge crosses one */
    bool marks_begin_pieces;
} fv_token_model;

/* ---- added tokens, post-processor, decoders -------------------------------------- */

typedef struct fv_added {
    fv_string content; /* the string to match; normalized if `normalized` */
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} fv_added;

typedef struct fv_template_piece {
    int32_t id;       /* of a special token; -1: a sequence */
    uint8_t sequence; /* 0 the text, 1 the pair */
    uint8_t type;
} fv_template_piece;

typedef struct fv_template {
    fv_template_piece *pieces;
    size_t count;
} fv_template;

typedef enum fv_token_decoder_kind {
    FV_TOKEN_DECODER_BYTE_LEVEL,
    FV_TOKEN_DECODER_BPE,
    FV_TOKEN_DECODER_WORD_PIECE,
    FV_TOKEN_DECODER_METASPACE,
    FV_TOKEN_DECODER_FUSE,
    FV_TOKEN_DECODER_STRIP,
    FV_TOKEN_DECODER_REPLACE,
    FV_TOKEN_DECODER_BYTE_FALLBACK,
    FV_TOKEN_DECODER_SENTENCEPIECE /* always the only decoder */
} fv_token_decoder_kind;

typedef struct fv_token_decoder {
    fv_token_decoder_kind kind;
    fv_string from, to; /* REPLACE; BPE: suffix; WORD_PIECE: prefix; METASPACE: its mark;
                           SENTENCEPIECE: text of the unknown piece */
    const fv_regex *re; /* REPLACE: instead of `from`, or NULL */
    bool cleanup;       /* WORD_PIECE */
    fv_prepend prepend; /* METASPACE; SENTENCEPIECE: remove all leading blanks, or one */
    size_t start, stop; /* STRIP: how many `from` to remove at most at each end */
} fv_token_decoder;

typedef enum fv_token_flag {
    FV_TOKEN_SPECIAL = 1,
    FV_TOKEN_ADDED = 2,     /* not a token of the model, which never produces it */
    FV_TOKEN_NORMALIZED = 4 /* matched in normalized text, and decoded to it */
} fv_token_flag;

struct fv_tokenizer {
    fv_ctx *ctx;
    fv_arena arena;
    const char *name; /* of the file, for messages */
    char *text;       /* the tokenizer.json */
    size_t text_bytes;
    fv_vocab vocab; /* tokens of the model, and added tokens */
    uint8_t *flags; /* by id, bits of fv_token_flag; vocab.size entries */
    fv_normalizer *normalizers;
    size_t normalizer_count, normalizer_room;
    fv_pre_tokenizer *pre_tokenizers;
    size_t pre_tokenizer_count, pre_tokenizer_room;
    bool byte_level; /* one of them is ByteLevel */
    fv_token_model model;
    fv_added *added;
    size_t added_count;
    uint32_t *added_by_id; /* index of an id's added token; only those with FV_TOKEN_NORMALIZED */
    fv_trie trie;          /* values are indices of added tokens */
    uint8_t
        added_first[256]; /* bit 0: a raw token begins with this byte; bit 1: a normalized one */
    bool has_template;    /* if false, the pair directly follows the text */
    fv_template single, pair;
    bool trim_offsets, trim_prefix_space;
    fv_token_decoder *decoders;
    size_t decoder_count, decoder_room;
};

/* ---- steps ----------------------------------------------------------------------- */

/* Runs the normalizers, within the budget of the code points. */
fv_status fv_normalizers_apply(const fv_tokenizer *tok, fv_codepoints *r);
fv_status fv_normalize_precompiled(const fv_normalizer *n, fv_codepoints *r);
fv_status fv_normalize_sentencepiece(const fv_tokenizer *tok, const fv_normalizer *n,
                                     fv_codepoints *r);
/* True if a quick check shows that the normalizers would not change the text. */
bool fv_normalizers_are_noop(const fv_tokenizer *tok, const char *text, size_t bytes);

/* GPT-2's byte alphabet: the code point for a byte, and the byte of a code point (-1: none). */
uint32_t fv_gpt2_byte_to_codepoint(unsigned byte);
int fv_gpt2_codepoint_to_byte(uint32_t code);

/* \w by our tables: letters, marks, digits, connectors and joiners. */
bool fv_is_word_char(uint32_t code);

/* Builds the trie of the added tokens. */
fv_status fv_added_index(fv_tokenizer *tok);

/* True if the ids of a SentencePiece model come from a vocab.json (marian.h). */
static inline bool fv_token_model_is_marian(const fv_token_model *model)
{
    return model->visible_ids < INT32_MAX;
}

/* The id of a token of the model, or -1 for added and unknown tokens. */
int32_t fv_token_model_find(const fv_tokenizer *tok, const char *text, size_t bytes);

/* The value of "<0x41>", or -1. */
int fv_fallback_byte(fv_string token);

fv_status fv_decode_sentencepiece(fv_ctx *ctx, const fv_tokenizer *tok, const int64_t *ids,
                                  size_t count, unsigned flags, fv_text *out);

/* Starts the budget of decoding these ids. Fails: LIMIT (they spell too much). */
fv_status fv_decode_begin(fv_text_budget *budget, fv_ctx *ctx, const fv_tokenizer *tok,
                          const int64_t *ids, size_t count);
/* Handles an id without a token: as in Hugging Face it decodes to nothing, since a model may have
 * more outputs than its tokenizer has tokens. The first one in a context gives a warning. Fails:
 * INDEX (negative). */
fv_status fv_decode_missing(fv_ctx *ctx, const fv_tokenizer *tok, int64_t id);

/* The text a token decodes to; for an added token this is the normalized content. */
fv_string fv_token_spelling(const fv_tokenizer *tok, int64_t id);

/* Length of the longest user-defined SentencePiece piece that `text` begins with; 0: none. Adds the
 * steps it took. */
size_t fv_token_model_user_piece(const fv_token_model *model, const char *text, size_t bytes,
                                 int32_t *id, size_t *steps);

/* ---- reading (tokenizer_read_*.c) -------------------------------------------------- */

/* Each reads one part of the document into the tokenizer; JSON null means absent. */
fv_status fv_read_normalizer(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v);
fv_status fv_read_pre_tokenizer(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v);
fv_status fv_read_model(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v);
fv_status fv_read_unigram(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v);
/* Reads the member "sentencepiece" of a model whose vocabulary is already read. */
fv_status fv_read_sentencepiece(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v);
fv_status fv_read_post_processor(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v);
fv_status fv_read_decoder(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v);

/* Copies a string member; *out is unchanged if it is absent or null. NUL bytes are allowed. */
fv_status fv_read_string(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v, const char *key,
                         bool required, fv_string *out);
/* Reads a bool member; *out is unchanged if it is absent or null. */
fv_status fv_read_bool(const fv_doc *doc, const fv_value *v, const char *key, bool *out);
/* Adds the position in the document to the message of a failed call. */
fv_status fv_read_fail(const fv_doc *doc, const fv_value *where, fv_status s);
/* Adds a token to the vocabulary; messages have the position `where`. */
fv_status fv_read_token(fv_tokenizer *tok, const fv_doc *doc, const fv_value *where,
                        const char *text, size_t bytes, int64_t id);
/* The index of the "type" member in a NULL-terminated list; fails with FV_ERR_UNSUPPORTED, naming
 * `what` and the type, if it is missing. */
fv_status fv_read_type(const fv_doc *doc, const fv_value *v, const char *what,
                       const char *const *names, int *number);

#endif
