/* Internals of fovea/transformer.h. */
#ifndef FV_MODELS_TRANSFORMER_CACHE_H
#define FV_MODELS_TRANSFORMER_CACHE_H

#include "fovea/transformer.h"
#include "models/parts/parts.h"
#include "models/transformer.h"

typedef struct fv_cache_layer {
    fv_tensor *k, *v;             /* [rows or more, room, kv_heads, d] */
    fv_tensor *cross_k, *cross_v; /* [sources, longest, kv_heads, d]; NULL without an encoder */
    fv_tensor *now_k, *now_v;     /* [rows, longest, kv_heads, d]: of each row's source */
} fv_cache_layer;

struct fv_cache {
    fv_ctx *ctx;
    fv_transformer *model;
    fv_dtype dtype;               /* of k and v */
    int64_t rows, row_room, room; /* in use; allocated rows, and positions of each */
    int64_t *length;              /* [row_room]: positions in use */
    int64_t *source, *chosen;     /* [row_room]: the source of each row; scratch */
    bool uniform;                 /* in a step: all rows have the same length */
    fv_cache_layer *layers;
    /* With an encoder; else NULL: */
    int64_t sources, *source_length; /* [sources] */
    fv_tensor *now_length;           /* i64 [rows]: of each row's source */
};

/* Replaces a tensor that the cache holds by one of the innermost scope (or NULL). */
void fv_cache_replace(fv_tensor **at, fv_tensor *t);
/* rows x n x kv_heads x d of a layer's tensor, from row `row` and position `first` on. */
fv_tensor *fv_cache_part(fv_ctx *ctx, const fv_tensor *t, int64_t row, int64_t rows, int64_t first,
                         int64_t n);
/* i64 [rows] from the host: a value for each row. */
fv_tensor *fv_cache_by_row(fv_ctx *ctx, const fv_cache *c, const int64_t *values);
/* Positions in use of the longest row. */
int64_t fv_cache_longest(const fv_cache *c);
/* Grows the host arrays to this many rows. */
fv_status fv_cache_reserve_rows(fv_cache *c, int64_t rows);
/* Maximum tokens of a sequence. */
int64_t fv_cache_max_tokens(const fv_transformer *m);

/* Whether attention over bf16 keys serves every layer. */
static inline bool fv_cache_may_be_bf16(const fv_transformer *m)
{
    return !fv_has_distance_vectors(&m->cfg);
}

/* ---- storing (transformer_cache_append.c) -------------------------------------------------- */

/*
 * i64 [2, tokens]: row and position of each token of `count` sequences, for fv_cache_append.
 * Sequence i goes to row row[i] (NULL: i), from position first[i] (NULL: 0) on, and has length[i]
 * tokens (NULL: 1). padded: tokens of each, where sequences are padded; 0: they are not.
 */
fv_tensor *fv_cache_places(fv_ctx *ctx, int64_t count, const int64_t *row, const int64_t *first,
                           const int64_t *length, int64_t padded);
/* Stores k and v [batch, heads, n, d] in to[0] and to[1] [rows, room, heads, d], converted to their
 * type, by one launch. */
void fv_cache_append(fv_ctx *ctx, fv_tensor *const to[2], fv_tensor *k, fv_tensor *v,
                     const fv_tensor *places);

/* ---- beginning ------------------------------------------------------------------------------ */

/* Before anything is computed: whether prompts and sources (NULL: none) fit model and cache. */
fv_status fv_cache_check(const fv_cache *c, const fv_sequences *prompts,
                         const fv_sequences *sources);
/* Fills the cache from an encoder's memory (NULL: none) and all tokens of the prompts but the last.
 */
fv_status fv_cache_fill(fv_cache *c, const fv_sequences *prompts, const fv_memory *memory,
                        int64_t more);
/* The given rows start over: row rows[i] from all tokens of prompt i but the last. Prompts are not
 * longer than what the rows hold. Decoders only. */
fv_status fv_cache_refill(fv_cache *c, const fv_sequences *prompts, const int64_t *rows);

#endif
