#include "support/ledger.h"

#include "ops/attend.h"
#include "support/test.h"

static int64_t count_of(const fv_tape_edge *e)
{
    int64_t n = 1;
    for (int i = 0; i < e->rank; i++)
        n *= e->shape[i];
    return n;
}

static int64_t last_of(const fv_tape_edge *e) { return e->shape[e->rank - 1]; }

/* q [b, h, n_q, d], k, v [.., n_k, d_v]: products with the keys and with the values. */
static void add_attention(const fv_node *node, ledger *l)
{
    const fv_tape_edge *q = &node->edge[0], *v = &node->edge[2];
    const int64_t pairs = q->shape[0] * q->shape[1] * q->shape[2] * v->shape[2];
    l->products += pairs * (last_of(q) + last_of(v));
    if (node->saved[W]) l->tanhs += pairs * last_of(q); /* additive */
}

/* Adds the node's products; returns whether it has any. */
static bool add_products(const fv_node *node, ledger *l)
{
    const fv_tape_edge *a = &node->edge[0], *b = &node->edge[1];
    switch (node->desc->id) {
    case FV_OP_MATMUL:
        l->products += node->out[0]->count * last_of(a);
        return true;
    case FV_OP_LINEAR:
        l->products += count_of(a) * b->shape[0];
        return true;
    case FV_OP_CONV1D: /* x [B, C, T], weight [O, C, K] */
        l->products += a->shape[0] * a->shape[2] * count_of(b);
        return true;
    case FV_OP_ATTEND:
        add_attention(node, l);
        return true;
    case FV_OP_TANH:
        l->tanhs += count_of(a);
        return false;
    default:
        return false;
    }
}

ledger ledger_read(fv_ctx *ctx)
{
    enum { MOST = 20000 };
    ledger l = {0};
    const fv_node **nodes = calloc(MOST, sizeof *nodes);
    int64_t *depth = calloc(MOST, sizeof *depth);
    int n = 0;
    for (const fv_node *node = ctx->tape->first; node && n < MOST; node = node->next, n++) {
        nodes[n] = node;
        for (int i = 0; i < node->n_in; i++)
            for (int k = n - 1; node->edge[i].node && k >= 0; k--)
                if (nodes[k] == node->edge[i].node) {
                    if (depth[k] > depth[n]) depth[n] = depth[k];
                    break;
                }
        depth[n] += add_products(node, &l);
        if (depth[n] > l.chain) l.chain = depth[n];
    }
    if (n == MOST) test_failed(__FILE__, __LINE__, "more than %d calls on the tape", (int)MOST);
    free(nodes);
    free(depth);
    return l;
}
