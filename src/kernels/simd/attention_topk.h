/*
 * The largest weights of a row, updated block by block. Up to sixteen are kept sorted in a
 * register, and a new one is inserted without a branch: a lane keeps its weight if that is not
 * smaller than the new one, otherwise takes its neighbour's, or the new one if the neighbour's is
 * not smaller.
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_TOPK_H
#define FV_KERNELS_SIMD_ATTENTION_TOPK_H

#include "kernels/attention_weights.h"
#include "kernels/simd/attention_simd.h"

/* Weights in descending order and their keys; 0 and -1 where there are no more. */
typedef struct fv_attn_topk {
    float weight[FV_LANES];
    int32_t key[FV_LANES];
} fv_attn_topk;

/* Whether the largest weights fit into a register; otherwise they are sorted in the output
 * arrays. */
static inline bool fv_attn_topk_in_register(int64_t top, int64_t n_k)
{
    return top <= FV_LANES && n_k <= INT32_MAX;
}

/* Lanes shifted up by one; the first comes from the last lane of `below`. */
V_INLINE vi fv_attn_shift_lanes(vi v, vi below)
{
#if FV_SIMD_LEVEL == 3
    return _mm512_alignr_epi32(v, below, FV_LANES - 1);
#elif FV_SIMD_LEVEL == 1
    return (vi){vextq_u32(below.d, v.a, 3), vextq_u32(v.a, v.b, 3), vextq_u32(v.b, v.c, 3),
                vextq_u32(v.c, v.d, 3)};
#else
    const __m256i a = _mm256_permute2x128_si256(below.b, v.a, 0x21);
    const __m256i b = _mm256_permute2x128_si256(v.a, v.b, 0x21);
    return (vi){_mm256_alignr_epi8(v.a, a, 12), _mm256_alignr_epi8(v.b, b, 12)};
#endif
}

V_INLINE void fv_attn_topk_insert(vf *weight, vi *key, float p, int64_t j)
{
    const vf one = v_set(p),
             up = vf_of(fv_attn_shift_lanes(vi_of(*weight), vi_of(v_set(INFINITY))));
    const vf up_key = vf_of(fv_attn_shift_lanes(*key, vi_set(0))),
             key_one = vf_of(vi_set((uint32_t)j));
    const vm stays = v_ge(*weight, one), follows = v_ge(up, one);
    *weight = v_select(stays, *weight, v_select(follows, one, up));
    *key = vi_of(v_select(stays, vf_of(*key), v_select(follows, key_one, up_key)));
}

/* The smallest weight kept: a new one must exceed it. */
V_INLINE vf fv_attn_topk_threshold(vf weight)
{
    float all[FV_LANES];
    v_store(all, FV_LANES, weight);
    return v_set(all[FV_LANES - 1]);
}

/* Adds weights p of the keys from `first` on; cols is a multiple of 16. */
V_INLINE void fv_attn_topk_add(fv_attn_topk *topk, const float *p, int64_t first, int64_t cols)
{
    enum { STEP = 4 }; /* vectors; most steps hold nothing new: one branch for all of them */
    vf weight = v_load(topk->weight, FV_LANES);
    vi key = vi_of(v_load((const float *)(const void *)topk->key, FV_LANES));
    vf threshold = v_set(topk->weight[FV_LANES - 1]);
    for (int64_t c = 0; c < cols; c += STEP * FV_LANES) {
        uint64_t larger = 0;
        for (int v = 0; v < STEP && c + v * FV_LANES < cols; v++) {
            const vm m = v_gt(v_load(p + c + v * FV_LANES, FV_LANES), threshold);
            larger |= (uint64_t)vm_bits(m) << v * FV_LANES;
        }
        if (larger == 0) continue;
        for (; larger; larger &= larger - 1) {
            const int64_t j = c + __builtin_ctzll(larger);
            fv_attn_topk_insert(&weight, &key, p[j], first + j);
        }
        threshold = fv_attn_topk_threshold(weight);
    }
    v_store(topk->weight, FV_LANES, weight);
    v_store((float *)(void *)topk->key, FV_LANES, vf_of(key));
}

/* Any number of weights, sorted in place. */
static inline void fv_attn_sorted_add(float *weight, int64_t *index, int64_t top, const float *p,
                                      int64_t first, int64_t cols)
{
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        uint32_t larger = vm_bits(v_gt(v_load(p + c, FV_LANES), v_set(weight[top - 1])));
        for (; larger; larger &= larger - 1) {
            const int64_t j = c + __builtin_ctz(larger);
            if (p[j] > weight[top - 1]) FV_ATTN_INSERT(weight, index, top, p[j], first + j);
        }
    }
}

#endif
