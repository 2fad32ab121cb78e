#include "support/attention_weights.h"

fv_attn_exec weights_exec;

void weights_every_level(void (*fn)(void))
{
    for (int l = FV_SIMD_SCALAR; l <= (int)fv_simd_detect(); l++) {
        weights_exec.level = (fv_simd)l;
        kernel_level(weights_exec.level);
        fn();
        vec_free_all();
    }
}

fv_attn_data weights_data(const problem *p)
{
    return (fv_attn_data){.q = p->q.data,
                          .k = p->k.data,
                          .lse = p->lse.data,
                          .bias = p->bias.data,
                          .visible = p->visible.data,
                          .key_lengths = p->key_lengths.data,
                          .slopes = p->slopes.data,
                          .w = p->w.data,
                          .blocks = p->blocks.data,
                          .q_begin = p->q_begin.data,
                          .k_begin = p->k_begin.data};
}

/* Documents packed in one row are one sequence. */
static int64_t heads_of(const problem *p) { return (p->a.varlen ? 1 : p->a.batch) * p->a.heads; }

fv_attn_region weights_window(const problem *p)
{
    fv_attn_region w;
    fv_attn_region_init(&w, sizeof w, &p->a);
    return w;
}

void weights_run(const problem *p, const fv_attn_region *w, void *out)
{
    const fv_attn_data data = weights_data(p);
    size_t need = 0;
    CHECK(fv_attn_weights_scratch(&p->a, w, fv_pool_threads(weights_exec.pool), &need) == FV_OK);
    void *scratch = aligned_alloc(64, need + 64 - need % 64);
    CHECK(fv_attn_weights(&p->a, &data, w, &weights_exec, scratch, need, out) == FV_OK);
    free(scratch);
}

vec weights_map(const problem *p)
{
    vec map = vec_new(p->lse.dtype, heads_of(p) * p->a.n_q * p->a.n_k);
    const fv_attn_region w = weights_window(p);
    weights_run(p, &w, map.data);
    return map;
}

summary weights_summary(const problem *p, int64_t top)
{
    const int64_t rows = heads_of(p) * p->a.n_q;
    summary s = {.index = vec_new(FV_I64, rows * top),
                 .weight = vec_new(FV_F32, rows * top),
                 .entropy = vec_new(FV_F32, rows),
                 .distance = vec_new(FV_F32, rows),
                 .received = vec_new(FV_F32, heads_of(p) * p->a.n_k)};
    const fv_attn_summary ask = {.struct_size = sizeof ask,
                                 .top = top,
                                 .top_index = s.index.data,
                                 .top_weight = s.weight.data,
                                 .entropy = s.entropy.data,
                                 .distance = s.distance.data,
                                 .received = s.received.data};
    const fv_attn_data data = weights_data(p);
    size_t need = 0;
    CHECK(fv_attn_summary_scratch(&p->a, &ask, fv_pool_threads(weights_exec.pool), &need) == FV_OK);
    void *scratch = aligned_alloc(64, need + 64 - need % 64);
    CHECK(fv_attn_summarise(&p->a, &data, &ask, &weights_exec, scratch, need) == FV_OK);
    free(scratch);
    return s;
}

bool same_summaries(const summary *x, const summary *y)
{
    return vec_same_bits(x->index, y->index) && vec_same_bits(x->weight, y->weight) &&
           vec_same_bits(x->entropy, y->entropy) && vec_same_bits(x->distance, y->distance) &&
           vec_same_bits(x->received, y->received);
}
