/*
 * Attention problems for tests: created, run at a level, compared with the plain float64 kernel.
 *
 *     problem p = problem_of(attn_sizes(20, 30, 8, 8));
 *     check_forward("plain", &p);
 *     check_backward("plain", &p);
 *     vec_free_all();
 *
 * Bounds: values 8 u (1 + S) V, u = 2^-24, S the largest |score|, V the largest |value|; gradients
 * 1e-5 of the largest. A number stored in 16 bits represents all those that round to it, and one of
 * them must be within the bound: vec_gap. Where weights are rounded as well (attention_bf16.c), the
 * error of a value may be 2^-8 sum_j p_j |v_j| larger.
 */
#ifndef FV_TEST_ATTENTION_H
#define FV_TEST_ATTENTION_H

#include "kernels/attention.h"
#include "support/kernels.h"

/* Everything one call reads and writes. Arrays with data NULL are not given. */
typedef struct problem {
    fv_attn a;
    vec q, k, v, o, lse, bias, visible, key_lengths, slopes, w, q_begin, k_begin, blocks;
    vec grad_o, grad_lse, grad_q, grad_k, grad_v, grad_bias, grad_w;
    unsigned dropped; /* terms of backward to leave out */
} problem;

/* Dense strides, scale 1 / sqrt(d); d_v is d by default. */
fv_attn attn_sizes(int64_t n_q, int64_t n_k, int64_t d, int64_t d_v);
fv_attn attn_heads(int64_t batch, int64_t heads, int64_t kv_heads, int64_t n_q, int64_t n_k,
                   int64_t d);

/* Seeds the random inputs. */
void problem_numbers(uint64_t from);
/* Normal random inputs, w too where the score takes it; outputs are NaN, grad_w 0. */
problem problem_of(fv_attn a);
void problem_bias(problem *p, int64_t batch, int64_t head, int64_t row, int64_t col);
void problem_pattern(problem *p, double share); /* that share is visible */
/* A block mask; that share of the blocks is visible, the same for every sequence. */
void problem_blocks(problem *p, int64_t block_q, int64_t block_k, double share);
void problem_lengths(problem *p);
void problem_slopes(problem *p);
/* All its arrays as doubles, for the plain kernel. */
problem problem_in_double(const problem *p);
/* A copy with the same inputs but its own outputs and gradients. */
problem problem_again(const problem *p);
/* Fills key j of x (k or v) with NaN and infinities, in every sequence and head. */
void problem_spoil(const problem *p, vec x, const fv_attn_layout *l, int64_t j, int64_t width);
bool same_results(const problem *x, const problem *y);
bool same_gradients(const problem *x, const problem *y);

/* At the level chosen last, with setup.pool. */
void run_forward(const problem *p);
void run_backward(const problem *p);
bool run_faults(const problem *p); /* whether forward raises a fault */

void check_forward(const char *what, problem *p);
void check_backward(const char *what, problem *p);
/* The same for results already computed. */
void check_results(const char *what, const problem *p);
void check_gradients(const char *what, const problem *p);
/* Runs both passes; returns whether the gradients are within the bound, and the largest error in
 * *worst. */
bool gradients_agree(problem *p, double *worst);

/* Runs fn at every level this machine has, on floats. */
void attn_every_level(void (*fn)(void));
/* The same, then again with attn_sizes and attn_heads describing bf16 and f16 inputs, and on tiles.
 */
void attn_every_storage(void (*fn)(void));
/* Runs fn with the kernels of level amx on emulated tiles, attn_sizes and attn_heads describing
 * bf16 inputs. Nothing on CPUs without AVX512_BF16. */
void attn_on_tiles(void (*fn)(void));
/* Chooses those kernels; false if the CPU cannot run them. */
bool attn_choose_tiles(void);

/* On tiles the factors P and dS of the gradients are rounded to bf16: an element may be off by 2^-8
 * of the sum of the sizes of its terms, besides the bound. */
bool attn_rounds_gradients(fv_dtype dtype);

/* The AVX-512 level has two ways to multiply bf16; with bf16 dot products the weights are rounded
 * too. */
bool attn_by_pairs(fv_dtype dtype);
/* Until the next level is chosen, bf16 uses the float tile even where the CPU has bf16 dot
 * products. */
void attn_without_pairs(void);

double largest_score(const problem *p);
double largest_terms(const problem *p);  /* the same with the terms of a product taken as |q k| */
vec vec_normals(int64_t n, double size); /* of f32 */
vec vec_normals_of(fv_dtype dtype, int64_t n, double size);
vec vec_like(vec x); /* its dtype and size, filled with NaN */
vec vec_part(vec x, int64_t from, int64_t n);
double vec_largest(vec x);         /* of |x|; infinite if one is NaN */
double vec_distance(vec a, vec b); /* likewise */
/* Distance of x from the nearest number that rounds to element i of `stored`: 0 if x itself does.
 * NaN if either is. */
double vec_gap(vec stored, int64_t i, double x);

#endif
