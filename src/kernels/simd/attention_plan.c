/* How the forward pass is divided into work items, and its scratch layout. */
#include "kernels/simd/attention_forward.h"

#include "base/checked_math.h"

enum {
    NARROW = 128, /* up to this width key blocks are long: less overhead per key */
    WIDE = 256,   /* beyond this width work items are halved, to bound the scratch */
    /* A head whose packed keys and values take no more than this stays in the L2 cache of one core.
     * A larger one is processed by all threads together, since two would fill the L3 they share. */
    NEAR_BYTES = 512 * 1024
};

/* Floats of all partial results; 0 if keys are not split into chunks. */
static size_t parts_of(const fv_attn *a)
{
    fv_attn few = *a;
    if (a->varlen) few.n_q = fv_attn_min(a->n_q, FV_ATTN_CHUNK_QUERIES);
    return fv_attn_chunks(&few) > 1 ? fv_attn_partial_floats(&few) : 0;
}

forward_plan fv_attn_forward_plan(const fv_attn *a, int threads, const fv_attn_tiling *tiling)
{
    const bool bf16 = tiling->pairs;
    forward_plan p = {0};
    const int64_t heads = a->batch * a->heads, width = fv_attn_width(a);
    const bool additive = a->score == FV_ATTN_SCORE_ADDITIVE;
    p.rows = width > WIDE || a->d_v > WIDE ? tiling->max_rows / 2 : tiling->max_rows;
    while (threads > 1 && p.rows > tiling->min_rows && !a->varlen &&
           heads * ((a->n_q + p.rows - 1) / p.rows) < 4 * threads)
        p.rows /= 2;
    p.query_blocks = (a->n_q + p.rows - 1) / p.rows;
    p.keys = fv_attn_round(a->n_k, FV_ATTN_PANEL);
    p.local = p.query_blocks == 1 && a->heads == a->kv_heads;
    p.width = bf16 ? fv_attn_round(fv_attn_pair_count(width), tiling->pair_step) : width;
    p.q_row = fv_attn_round(p.width, FV_LANES) + FV_LANES;
    p.o_row = fv_attn_round(a->d_v, FV_LANES);

    p.block = width > NARROW || a->d_v > NARROW ? FV_ATTN_BLOCK : FV_ATTN_LONG_BLOCK;
    if (tiling->block > 0) p.block = tiling->block;
    const int64_t block = fv_attn_min(p.block, p.keys);
    /* Products of whole tiles read and write past the last row. */
    const int64_t past = tiling->rows > FV_ATTN_TILE_ROWS ? tiling->rows : 0;
    const size_t rows = (size_t)(fv_attn_min(p.rows, fv_attn_round(a->n_q, tiling->rows)) + past);
    const size_t buffers = tiling->ahead ? 2 : 1;
    size_t at = 0;
    p.q = at, at += rows * (size_t)p.q_row;
    p.query_exp = at, at += additive ? rows * (size_t)p.q_row : 0;
    p.o = at, at += rows * (size_t)p.o_row;
    p.row_max = at, at += fv_attn_lines(rows);
    p.sum = at, at += fv_attn_lines(rows);
    p.score_floats = (size_t)tiling->rows * FV_ATTN_LONG_SCORE_ROW;
    p.weight_floats = bf16 ? (size_t)tiling->rows * FV_ATTN_WEIGHT_ROW : 0;
    p.scores = at, at += buffers * p.score_floats;
    p.weights = at, at += buffers * p.weight_floats;
    p.keep = at, at += FV_ATTN_LONG_BLOCK;
    p.values = at, at += (size_t)(block * p.o_row);
    p.local_panels = at, at += p.local || a->varlen ? (size_t)(block * p.width) : 0;
    p.key_exp = at, at += additive ? (size_t)(block * width) : 0;
    p.records = at, at += fv_attn_lines(rows * sizeof(fv_attn_row) / sizeof(float));
    p.state = at, at += fv_attn_lines(tiling->state_bytes / sizeof(float));
    p.thread_floats = at;
    p.chunks = fv_attn_chunks(a);
    p.chunk_keys = p.chunks > 1 ? FV_ATTN_CHUNK : a->n_k;
    p.partials = parts_of(a);
    p.shared_floats = p.partials;
    if (p.local && !a->varlen) return p;
    const size_t kv_heads = (size_t)(a->batch * a->kv_heads);
    const size_t head_bytes = (size_t)(p.keys * (p.width + p.o_row / (bf16 ? 2 : 1))) * 4;
    p.by_head = threads == 1 || head_bytes <= NEAR_BYTES;
    const size_t slots =
        p.by_head ? (size_t)fv_attn_schedule_slots((int64_t)kv_heads, threads) : kv_heads;
    p.panels = slots * (size_t)p.keys * (size_t)p.width;
    p.packed_values = bf16 ? slots * (size_t)(p.keys / 2 * p.o_row) : 0;
    const size_t states = kv_heads * (size_t)(p.keys / FV_ATTN_PANEL);
    p.states = fv_attn_lines(states * sizeof(atomic_int) / sizeof(float));
    p.schedule = fv_attn_lines(fv_attn_schedule_bytes((int64_t)kv_heads, threads) / sizeof(float));
    p.shared_floats = p.partials + p.panels + p.packed_values + p.states + p.schedule;
    return p;
}

static size_t plan_bytes(const fv_attn *a, int threads, const fv_attn_tiling *tiling)
{
    const forward_plan p = fv_attn_forward_plan(a, threads, tiling);
    return (p.shared_floats + (size_t)threads * p.thread_floats) * sizeof(float);
}

size_t fv_attn_forward_bytes(const void *args, int threads)
{
    const fv_attn *a = args;
    size_t decode = 0;
    if (a->varlen) {
        fv_attn few = *a;
        few.n_q = fv_attn_min(a->n_q, FV_ATTN_DECODE_QUERIES);
        decode = fv_attn_decode_scratch(&few, threads);
    } else if (fv_attn_is_decode(a)) {
        return fv_attn_decode_scratch(a, threads);
    }
    if (decode == SIZE_MAX || parts_of(a) == SIZE_MAX) return SIZE_MAX;
    /* K may be broadcast over heads and batch, so the size of its panels may overflow. */
    size_t heads, panels;
    if (!fv_checked_mul_size((size_t)a->batch, (size_t)a->kv_heads, &heads) ||
        !fv_checked_mul_size(heads, (size_t)(a->n_k + FV_ATTN_PANEL), &heads) ||
        !fv_checked_mul_size(heads, (size_t)(fv_attn_width(a) + a->d_v), &panels) ||
        panels > SIZE_MAX / 16)
        return SIZE_MAX;
    size_t bytes = plan_bytes(a, threads, &fv_attn_float_tiling);
    if (a->dtype == FV_BF16) {
        const fv_attn_tiling tiling = FV_ATTN_PAIR_TILING;
        const size_t pairs = plan_bytes(a, threads, &tiling);
        if (pairs > bytes) bytes = pairs;
    }
    return bytes > decode ? bytes : decode;
}

size_t fv_attn_forward_bytes_with(const fv_attn *a, int threads, const fv_attn_tiling *tiling)
{
    const size_t others = fv_attn_forward_bytes(a, threads);
    if (others == SIZE_MAX || a->dtype != FV_BF16) return others;
    const size_t bytes = plan_bytes(a, threads, tiling);
    return bytes > others ? bytes : others;
}
