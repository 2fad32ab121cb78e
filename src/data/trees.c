/*
 * Arithmetic and its tree: "3 + 4 * 2" and "( 3 + ( 4 * 2 ) )".
 *
 * A tree of depth d is an operator over a tree of depth d - 1 and one of any smaller depth, in
 * either order; depth 0 is a digit. The source has the brackets that it cannot do without: * and /
 * bind closer than + and -, and operators of one strength group from the left. The target has
 * brackets around every operation.
 */
#include <string.h>

#include "data/draws.h"
#include "data/generated.h"

enum { MOST_LEAVES = 40, MOST_NODES = 2 * MOST_LEAVES, MOST_DEPTH = MOST_LEAVES - 1 };

static const char operators[] = "+-*/";

typedef struct node {
    int depth, budget; /* leaves that it may have */
    int left, right;   /* of an operator */
    char symbol;
} node;

static bool is_operator(const node *n) { return n->depth > 0; }

static bool binds_closely(char op) { return op == '*' || op == '/'; }

/* Splits an operator's leaves: the deep child keeps what its depth needs at least, the other one
 * is as deep as it likes within the rest. */
static void split_node(fv_draws *d, node *all, int at, int *count)
{
    node *n = &all[at];
    const int most =
        n->budget - n->depth - 1; /* of the other child, so that n->depth leaves stay */
    const int limit = most < n->depth - 1 ? most : n->depth - 1;
    const int other = (int)fv_draws_below(d, limit + 1);
    const int spare = n->budget - n->depth - (other + 1);
    const int given = (int)fv_draws_below(d, spare + 1);
    const bool deep_left = fv_draws_below(d, 2) == 0;
    const node deep = {.depth = n->depth - 1, .budget = n->depth + spare - given},
               shallow = {.depth = other, .budget = other + 1 + given};
    n->symbol = operators[fv_draws_below(d, 4)];
    n->left = (*count)++;
    n->right = (*count)++;
    all[n->left] = deep_left ? deep : shallow;
    all[n->right] = deep_left ? shallow : deep;
}

/* Writes tokens with blanks between them. */
typedef struct writer {
    char *out;
    size_t used;
} writer;

static void put(writer *w, char symbol)
{
    if (w->used > 0) w->out[w->used++] = ' ';
    w->out[w->used++] = symbol;
    w->out[w->used] = '\0';
}

/* Whether the source needs brackets around child `c` of operator `n`. */
static bool needs_brackets(const node *all, const node *n, int c)
{
    if (!is_operator(&all[c])) return false;
    const bool outer = binds_closely(n->symbol), inner = binds_closely(all[c].symbol);
    return outer != inner ? outer : c == n->right;
}

/* A visit of the tree without recursion: an entry is a node (with or without brackets) or a symbol
 * to write. */
typedef struct pending {
    int node; /* -1: the symbol */
    bool brackets;
    char symbol;
} pending;

static void write_tree(const node *all, bool every_bracket, char *out)
{
    pending stack[5 * MOST_NODES];
    int left = 0;
    writer w = {.out = out};
    stack[left++] = (pending){.node = 0, .brackets = every_bracket && is_operator(&all[0])};
    while (left > 0) {
        const pending p = stack[--left];
        const node *n = p.node < 0 ? NULL : &all[p.node];
        if (!n || !is_operator(n)) {
            put(&w, n ? n->symbol : p.symbol);
            continue;
        }
        if (p.brackets) stack[left++] = (pending){.node = -1, .symbol = ')'};
        for (int side = 1; side >= 0; side--) {
            const int c = side ? n->right : n->left;
            stack[left++] = (pending){.node = c,
                                      .brackets = is_operator(&all[c]) &&
                                                  (every_bracket || needs_brackets(all, n, c))};
            if (side) stack[left++] = (pending){.node = -1, .symbol = n->symbol};
        }
        if (p.brackets) stack[left++] = (pending){.node = -1, .symbol = '('};
    }
}

/* cfg's length is the largest depth. */
void fv_draw_tree(const fv_made_config *cfg, uint64_t number, fv_drawn *out)
{
    node all[MOST_NODES];
    fv_draws d = fv_draws_begin(fv_rng_key(cfg->seed, 0x74726565, 0), number);
    const int64_t most = cfg->length < MOST_DEPTH ? cfg->length : MOST_DEPTH;
    const int64_t least = cfg->shortest < most ? cfg->shortest : most;
    int count = 1;
    all[0] =
        (node){.depth = (int)(least + fv_draws_below(&d, most - least + 1)), .budget = MOST_LEAVES};
    for (int i = 0; i < count; i++)
        if (is_operator(&all[i]))
            split_node(&d, all, i, &count);
        else
            all[i].symbol = (char)('0' + fv_draws_below(&d, 10));
    write_tree(all, false, out->source);
    write_tree(all, true, out->target);
    out->label = NULL;
    out->part = fv_made_part_of(out->source, strlen(out->source));
}

fv_status fv_make_trees(fv_made_sink *sink)
{
    FV_RETURN_IF(sink->cfg->length > MOST_DEPTH, sink->ctx, FV_ERR_ARGUMENT,
                 "trees: expected a length (the depth of a tree) of 1 to %d, got %lld", MOST_DEPTH,
                 (long long)sink->cfg->length);
    return fv_made_generate(sink, fv_draw_tree);
}
