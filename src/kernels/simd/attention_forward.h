/* Declarations shared by the files of the forward pass; see attention.c. */
#ifndef FV_KERNELS_SIMD_ATTENTION_FORWARD_H
#define FV_KERNELS_SIMD_ATTENTION_FORWARD_H

#include "kernels/attention_schedule.h"
#include "kernels/simd/attention_simd.h"

/* Division of the work and scratch layout; offsets in floats. */
typedef struct forward_plan {
    int64_t rows, query_blocks, keys; /* keys: n_k in whole panels */
    int64_t block;                    /* keys per block */
    int64_t chunks, chunk_keys;       /* chunks of a row of keys, and the keys per chunk */
    bool local;    /* one work item per key head: it packs for itself, block by block */
    bool by_head;  /* else: a thread keeps to a head, and packs one head after the other in one
                      buffer */
    int64_t width; /* words per row of K: floats, or bf16 pairs */
    int64_t q_row, o_row;
    size_t q, query_exp, o, row_max, sum, scores, weights, keep, values, local_panels, key_exp,
        records, state;
    size_t score_floats, weight_floats; /* of a row tile; there are two with products ahead */
    size_t thread_floats;               /* per thread */
    size_t partials, panels, packed_values, states, schedule, shared_floats;
} forward_plan;

/* The float tile, and bf16 dot products of the same size. */
static const fv_attn_tiling fv_attn_float_tiling = {.rows = FV_ATTN_TILE_ROWS,
                                                    .max_rows = 192,
                                                    .min_rows = 48,
                                                    .key_step = FV_LANES,
                                                    .pair_step = 1};
#define FV_ATTN_PAIR_TILING                                                                        \
    {                                                                                              \
        .pairs = true, .rows = FV_ATTN_TILE_ROWS, .max_rows = 192, .min_rows = 48,                 \
        .key_step = FV_LANES, .pair_step = 1                                                       \
    }

/* For varlen documents: enough for the longest possible one, local or not. */
forward_plan fv_attn_forward_plan(const fv_attn *a, int threads, const fv_attn_tiling *tiling);

#endif
