#include "support/attention_hidden.h"

static double poison(int64_t i)
{
    static const double all[] = {NAN, INFINITY, -INFINITY};
    return all[i % 3];
}

static int64_t grid_at(const fv_attn_grid *g, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return b * g->batch + h * g->head + i * g->row + j * g->col;
}

static int64_t row_at(const fv_attn_layout *l, int64_t b, int64_t h, int64_t i)
{
    return b * l->batch + h * l->head + i * l->row;
}

bool problem_sees(const problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const fv_attn *a = &p->a;
    const uint8_t *visible = p->visible.data, *blocks = p->blocks.data;
    const fv_attn_range r = fv_attn_visible_range(a, fv_attn_keys(a, p->key_lengths.data, b), i);
    if (j >= r.prefix && (j < r.low || j >= r.high)) return false;
    if (visible && !visible[grid_at(&a->visible, b, h, i, j)]) return false;
    if (blocks && !blocks[grid_at(&a->blocks, b, h, i / a->rule.block_q, j / a->rule.block_k)])
        return false;
    return !p->bias.data || vec_get(p->bias, grid_at(&a->bias, b, h, i, j)) != -INFINITY;
}

/* Number of a row of keys; the rows of one key head are together. */
static int64_t key_number(const fv_attn *a, int64_t b, int64_t h, int64_t j)
{
    return (b * a->kv_heads + h / (a->heads / a->kv_heads)) * a->n_k + j;
}

static void spoil_row(vec x, int64_t at, int64_t width)
{
    /* one element is enough, wherever it is; an infinity alone differs from one beside a NaN */
    if (!x.data) return;
    for (int64_t c = at % 5; c < width; c += 1 + at % 7)
        vec_set(x, at + c, poison(at / 11 + c));
}

static vec own(vec x) { return x.data ? vec_copy(x) : x; }

static problem copy_inputs(const problem *p)
{
    problem r = problem_again(p);
    vec *inputs[] = {&r.q, &r.k, &r.v, &r.bias, &r.grad_o, &r.grad_lse};
    for (int i = 0; i < 6; i++)
        *inputs[i] = own(*inputs[i]);
    return r;
}

problem problem_spoilt(const problem *p)
{
    const fv_attn *a = &p->a;
    problem r = copy_inputs(p);
    const int64_t keys = a->batch * a->kv_heads * a->n_k, rows = a->batch * a->heads * a->n_q;
    bool *seen = calloc((size_t)(keys + p->bias.n + 1), sizeof *seen), *seen_bias = seen + keys;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t i = row % a->n_q, h = row / a->n_q % a->heads, b = row / a->n_q / a->heads;
        bool any = false;
        for (int64_t j = 0; j < a->n_k; j++) {
            if (!problem_sees(p, b, h, i, j)) continue;
            any = seen[key_number(a, b, h, j)] = true;
            if (p->bias.data) seen_bias[grid_at(&a->bias, b, h, i, j)] = true;
        }
        if (any) continue;
        spoil_row(r.q, row_at(&a->q, b, h, i), a->d);
        spoil_row(r.grad_o, row_at(&a->o, b, h, i), a->d_v);
        vec_set(r.grad_lse, row, poison(row));
    }
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h += a->heads / a->kv_heads)
            for (int64_t j = 0; j < a->n_k; j++) {
                if (seen[key_number(a, b, h, j)]) continue;
                const int64_t head = h / (a->heads / a->kv_heads);
                spoil_row(r.k, row_at(&a->k, b, head, j), a->d);
                spoil_row(r.v, row_at(&a->v, b, head, j), a->d_v);
            }
    for (int64_t i = 0; p->bias.data && i < p->bias.n; i++)
        if (!seen_bias[i] && vec_get(r.bias, i) != -INFINITY) vec_set(r.bias, i, poison(i));
    free(seen);
    return r;
}

problem problem_spoilt_at(const problem *p, int64_t b, int64_t kv_head, int64_t j)
{
    problem r = copy_inputs(p);
    spoil_row(r.k, row_at(&p->a.k, b, kv_head, j), p->a.d);
    spoil_row(r.v, row_at(&p->a.v, b, kv_head, j), p->a.d_v);
    return r;
}

static bool same_row(vec x, vec y, int64_t at, int64_t width)
{
    const size_t size = fv_dtype_size(x.dtype);
    return !x.data || memcmp((char *)x.data + (size_t)at * size, (char *)y.data + (size_t)at * size,
                             (size_t)width * size) == 0;
}

bool same_beyond(const problem *x, const problem *y, int64_t b, int64_t kv_head, int64_t j)
{
    const fv_attn *a = &x->a;
    const int64_t group = a->heads / a->kv_heads;
    bool *reached = calloc((size_t)a->n_k, sizeof *reached), same = true;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int64_t i = 0; i < a->n_q; i++) {
            const int64_t row = (b * a->heads + h) * a->n_q + i;
            if (problem_sees(x, b, h, i, j)) {
                for (int64_t other = 0; other < a->n_k; other++)
                    reached[other] |= problem_sees(x, b, h, i, other);
                continue;
            }
            same &= same_row(x->o, y->o, row_at(&a->o, b, h, i), a->d_v) &&
                    same_row(x->lse, y->lse, row, 1) &&
                    same_row(x->grad_q, y->grad_q, row_at(&a->q, b, h, i), a->d);
        }
    for (int64_t other = 0; other < a->n_k; other++)
        if (!reached[other])
            same &= same_row(x->grad_k, y->grad_k, row_at(&a->k, b, kv_head, other), a->d) &&
                    same_row(x->grad_v, y->grad_v, row_at(&a->v, b, kv_head, other), a->d_v);
    free(reached);
    return same;
}
