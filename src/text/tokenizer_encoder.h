/*
 * The mutable state of encoding. A model encodes one piece at a time, with offsets relative to the
 * piece; the encoder converts them to offsets of the text.
 */
#ifndef FV_TEXT_TOKENIZER_ENCODER_H
#define FV_TEXT_TOKENIZER_ENCODER_H

#include "text/pretokenized.h"

/* A token and its range in the piece. */
typedef struct fv_piece_token {
    int32_t id;
    uint32_t begin, end;
} fv_piece_token;

/* A cached word: its bytes and its tokens in the cache's pools. */
typedef struct fv_cached_word {
    uint32_t at, bytes;
    uint32_t first_token, token_count;
} fv_cached_word;

typedef struct fv_word_cache {
    fv_cached_word *words;
    size_t count;
    uint32_t *table; /* index of a word + 1; 0: free */
    char *bytes_pool;
    size_t pool_bytes;
    fv_piece_token *piece_tokens;
    size_t piece_token_count;
} fv_word_cache;

/* A BPE symbol; symbols of long words form a linked list. */
typedef struct fv_bpe_symbol {
    int32_t id;
    uint32_t begin, end;
    uint32_t rank;     /* of the merge with the next symbol; UINT32_MAX: none */
    int32_t merged_id; /* the result of that merge */
    int32_t prev, next;
} fv_bpe_symbol;

typedef struct fv_bpe_candidate {
    uint32_t rank;
    int32_t at;
} fv_bpe_candidate;

/* Unigram: the best path to a position in the piece (Viterbi). */
typedef struct fv_lattice_node {
    double score;
    int32_t id;           /* of the last token of the path */
    uint32_t start, next; /* where that token begins; where the next one of the best path ends */
} fv_lattice_node;

/* Five arrays of equal length in one block, which begins at `spans`. */
typedef struct fv_token_list {
    fv_token_span *spans;
    int64_t *ids;
    uint8_t *types, *specials, *sequences;
    size_t count, room;
} fv_token_list;

struct fv_tokenizer_encoder {
    fv_ctx *ctx;
    const fv_tokenizer *tok;
    fv_pretokenized pretokenized;
    fv_word_cache cache;
    fv_piece_token *piece_tokens; /* of the current piece */
    size_t piece_token_count, piece_token_room;
    const char *text; /* of the current piece */
    fv_bpe_symbol *symbols;
    size_t symbol_count, symbol_room;
    fv_bpe_candidate *heap;
    size_t heap_count, heap_room;
    fv_lattice_node *lattice;
    size_t lattice_room;
    fv_text scratch;
    fv_token_list plain[2]; /* text and pair, before post-processing */
    fv_token_list finished;
};

/* Counts steps of the model. Fails with LIMIT once the call has used up its steps. */
static inline fv_status fv_encoder_spend(fv_tokenizer_encoder *enc, size_t steps)
{
    fv_text_budget_spend(&enc->pretokenized.budget, steps);
    return fv_text_budget_check(&enc->pretokenized.budget);
}

/* Adds a token of the current piece. */
fv_status fv_encoder_add_token(fv_tokenizer_encoder *enc, int32_t id, size_t begin, size_t end);

/* Adds the tokens for text without a token: its bytes if each has one, otherwise the unknown token.
 */
fv_status fv_encoder_add_unknown(fv_tokenizer_encoder *enc, const char *text, size_t begin,
                                 size_t end);

/* Whether consecutive unknown characters form one token in Unigram and SentencePiece. The latter
 * falls back to bytes instead. */
static inline bool fv_token_model_fuses_unknown(const fv_token_model *model)
{
    return !(model->kinds && model->byte_fallback);
}

/* The models: each fills enc->piece_tokens from one piece of text. */
fv_status fv_encode_piece_bpe(fv_tokenizer_encoder *enc, const char *text, size_t bytes);
fv_status fv_encode_piece_word_level(fv_tokenizer_encoder *enc, const char *text, size_t bytes);
fv_status fv_encode_piece_wordpiece(fv_tokenizer_encoder *enc, const char *text, size_t bytes);
fv_status fv_encode_piece_unigram(fv_tokenizer_encoder *enc, const char *text, size_t bytes);

/* The first added token at or after byte `from` of a text. */
typedef struct fv_added_match {
    const fv_added *token; /* NULL: none */
    size_t begin, end;
} fv_added_match;

/* Counts its steps in the budget, but does not check it. */
void fv_added_find(const fv_tokenizer *tok, bool normalized, const char *text, size_t bytes,
                   size_t from, fv_text_budget *budget, fv_added_match *out);

#endif
