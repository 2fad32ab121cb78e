/*
 * The backward on AMX tiles (attention_tiles_grad.h): its division into blocks and its memory.
 *
 *     tiles_plan plan = tiles_plan_of(a);
 *     scratch: plan.shared_floats + threads x plan.thread_floats
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_TILES_PLAN_H
#define FV_KERNELS_SIMD_ATTENTION_TILES_PLAN_H

#include "kernels/simd/attention_grad.h"
#include "kernels/simd/attention_tiles.h"

/* Sizes to tune. */
enum {
    TILES_QUERIES = 256, /* per query block, a multiple of 32, at most 512 */
    TILES_KEYS = 128,    /* per work item, a multiple of 64, at most 512 */
};

typedef struct tiles_plan {
    int64_t queries, query_blocks; /* queries per block */
    int64_t keys, key_blocks;
    int64_t d, d_v;            /* in whole tiles */
    int64_t q_words, g_words;  /* per row of q and dO in whole steps */
    int64_t score_row, ds_row; /* strides, in floats and words */
    size_t k_panels, v_panels, k_pairs, dk, dv, p, ds, ds_rows, p_pairs, ds_pairs, q, g, staging,
        keep, cap_grad, records, state;
    size_t thread_floats;
    size_t delta, shift, tickets, flags, transposed_q, transposed_g, dq, shared_floats;
} tiles_plan;

/* Memory of a thread. */
typedef struct tiles_workspace {
    uint32_t *k_panels, *v_panels, *k_pairs; /* of the key block */
    float *dk, *dv;                          /* [d][keys], [d_v][keys] */
    float *p, *ds;                           /* two of [32][score_row]: S, then P; dP, then dS */
    uint32_t *ds_rows;                       /* [queries][ds_row]: dS as rows of bf16 */
    uint32_t *p_pairs, *ds_pairs;            /* two of [queries/2][keys]: words of two rows */
    uint32_t *q, *g;                         /* [queries] rows of q and dO */
    uint32_t *staging;
    void *state;
    workspace rows; /* for fv_attn_form_weights */
} tiles_workspace;

/* Shared memory. */
typedef struct tiles_job {
    backward_job base;
    tiles_plan plan;
    uint8_t *finite_g; /* [batch][heads][query_blocks]: no NaN or infinity in dO */
    uint32_t *transposed_q, *transposed_g; /* likewise [queries/32][d][16]: words of two rows */
    float *dq;                             /* likewise [queries][d] */
} tiles_job;

static tiles_plan tiles_plan_of(const fv_attn *a)
{
    tiles_plan p = {.keys = fv_attn_min(TILES_KEYS, fv_attn_round(a->n_k, FV_ATTN_PANEL)),
                    .queries = fv_attn_min(TILES_QUERIES, fv_attn_round(a->n_q, TILES_ROWS))};
    p.key_blocks = p.keys > 0 ? (a->n_k + p.keys - 1) / p.keys : 0;
    p.query_blocks = p.queries > 0 ? (a->n_q + p.queries - 1) / p.queries : 0;
    p.d = fv_attn_round(a->d, TILE_ROWS);
    p.d_v = fv_attn_round(a->d_v, TILE_ROWS);
    p.q_words = tiles_words(a->d);
    p.g_words = tiles_words(a->d_v);
    p.score_row = p.keys + FV_LANES;
    p.ds_row = p.keys / 2 + FV_LANES;

    const size_t queries = (size_t)p.queries, keys = (size_t)p.keys;
    size_t at = 0;
    p.k_panels = at, at += keys * (size_t)p.q_words;
    p.v_panels = at, at += keys * (size_t)p.g_words;
    p.k_pairs = at, at += keys / 2 * (size_t)p.d;
    p.dk = at, at += keys * (size_t)p.d;
    p.dv = at, at += keys * (size_t)p.d_v;
    p.p = at, at += 2 * TILES_ROWS * (size_t)p.score_row;
    p.ds = at, at += 2 * TILES_ROWS * (size_t)p.score_row;
    p.ds_rows = at, at += queries * (size_t)p.ds_row;
    p.p_pairs = at, at += queries * keys;
    p.ds_pairs = at, at += queries * keys;
    p.q = at, at += queries * (size_t)(p.q_words + FV_LANES);
    p.g = at, at += queries * (size_t)(p.g_words + FV_LANES);
    /* One step of words to be transposed, or the rows of a gradient, sixteen columns at a time. */
    p.staging = at, at += TILES_STEP * (size_t)fv_attn_max(fv_attn_max(p.d, p.d_v), p.keys);
    p.keep = at, at += (size_t)p.score_row;
    p.cap_grad = at, at += (size_t)p.score_row;
    p.records = at, at += fv_attn_lines(queries * sizeof(fv_attn_row) / sizeof(float));
    p.state = at, at += fv_attn_lines(sizeof(tiles_state) / sizeof(float));
    p.thread_floats = at;

    const size_t heads = (size_t)(a->batch * a->heads), blocks = heads * (size_t)p.query_blocks;
    at = 0;
    p.delta = at, at += fv_attn_lines(heads * (size_t)a->n_q);
    p.shift = at, at += fv_attn_lines(heads * (size_t)a->n_q);
    p.tickets = at, at += fv_attn_lines(blocks * sizeof(atomic_int) / sizeof(float));
    p.flags = at, at += fv_attn_lines((blocks + 3) / 4);
    p.transposed_q = at, at += blocks * queries / 2 * (size_t)p.d;
    p.transposed_g = at, at += blocks * queries / 2 * (size_t)p.d_v;
    p.dq = at, at += blocks * queries * (size_t)p.d;
    p.shared_floats = at;
    return p;
}

static tiles_workspace tiles_workspace_of(const tiles_job *job, int thread)
{
    const tiles_plan *p = &job->plan;
    float *base = job->base.threads + (size_t)thread * p->thread_floats;
    uint32_t *words = (uint32_t *)(void *)base;
    return (tiles_workspace){.k_panels = words + p->k_panels,
                             .v_panels = words + p->v_panels,
                             .k_pairs = words + p->k_pairs,
                             .dk = base + p->dk,
                             .dv = base + p->dv,
                             .p = base + p->p,
                             .ds = base + p->ds,
                             .ds_rows = words + p->ds_rows,
                             .p_pairs = words + p->p_pairs,
                             .ds_pairs = words + p->ds_pairs,
                             .q = words + p->q,
                             .g = words + p->g,
                             .staging = words + p->staging,
                             .state = base + p->state,
                             .rows = {.keep = base + p->keep,
                                      .cap_grad = base + p->cap_grad,
                                      .row = (fv_attn_row *)(void *)(base + p->records)}};
}

#endif
