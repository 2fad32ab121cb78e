/*
 * One recurrent network, five sequence layouts, one small task each, learned from scratch:
 *
 *     one to one        a number as bits        -> whether it is a multiple of three
 *     one to many       a number                -> counting down from it to zero
 *     many to one       a row of digits         -> which one came most often
 *     many to many      a row of digits         -> at each place, the largest so far
 *     many, then many   a row of digits         -> the same, backward
 */
#include "example.h"
#include "fovea/recurrent.h"

enum { DIGITS = 6, BITS = 6, LONGEST = 6, BATCH = 64, HIDDEN = 48, TEST = 200 };

/* One example: what goes in, what should come out. */
typedef struct pair {
    int in[LONGEST + 1], n_in, out[LONGEST + 1], n_out;
} pair;

static uint64_t state = 1;

static int draw(int below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)below);
}

static int most_often(const int *digit, int n)
{
    int count[DIGITS] = {0}, best = 0;
    for (int i = 0; i < n; i++)
        count[digit[i]]++;
    for (int d = 1; d < DIGITS; d++)
        if (count[d] > count[best]) best = d;
    return best;
}

static pair make(fv_sequence_layout kind)
{
    pair p = {.n_in = 1, .n_out = 1};
    if (kind == FV_LAYOUT_ONE_TO_ONE) {
        p.in[0] = draw(1 << BITS);
        p.out[0] = p.in[0] % 3 == 0;
    } else if (kind == FV_LAYOUT_ONE_TO_MANY) {
        p.in[0] = draw(DIGITS);
        p.n_out = p.in[0] + 1;
        for (int t = 0; t < p.n_out; t++)
            p.out[t] = p.in[0] - t;
    } else {
        p.n_in = 2 + draw(LONGEST - 1);
        for (int t = 0; t < p.n_in; t++)
            p.in[t] = draw(DIGITS);
        p.out[0] = kind == FV_LAYOUT_MANY_TO_ONE ? most_often(p.in, p.n_in) : p.in[0];
        if (kind == FV_LAYOUT_MANY_TO_ONE) return p;
        p.n_out = p.n_in;
        for (int t = 0; t < p.n_out; t++)
            p.out[t] = kind == FV_LAYOUT_MANY_THEN_MANY  ? p.in[p.n_in - 1 - t]
                       : t > 0 && p.out[t - 1] > p.in[t] ? p.out[t - 1]
                                                         : p.in[t];
    }
    return p;
}

/* What a step of a sequence is to the network: the bits of a number, or one of some symbols. */
static void describe(fv_sequence_layout kind, int value, float *out)
{
    for (int i = 0; i < BITS; i++)
        out[i] = kind == FV_LAYOUT_ONE_TO_ONE ? (float)(value >> i & 1) : (float)(value == i);
}

static bool writes(fv_sequence_layout kind)
{
    return kind == FV_LAYOUT_ONE_TO_MANY || kind == FV_LAYOUT_MANY_THEN_MANY;
}

/* A batch as the network takes it, and the answers packed as they come out. */
typedef struct batch {
    fv_packed_sequences from, to;
    fv_sequence_net_input in;
    int64_t answers[BATCH * LONGEST], count;
} batch;

static void pack_answers(fv_sequence_layout kind, const pair *p, batch *b, float *fed)
{
    const fv_packed_sequences *to = &b->to;
    b->count = to->total;
    for (int64_t t = 0; t < to->steps; t++)
        for (int64_t i = 0; i < to->rows[t]; i++) {
            const pair *one = &p[to->order[i]];
            const int64_t at = to->first[t] + i;
            b->answers[at] = one->out[t];
            if (writes(kind)) describe(kind, t > 0 ? one->out[t - 1] : -1, fed + at * BITS);
        }
    /* One answer each comes in the order given, not in the order of packing. */
    for (int64_t i = 0; to->steps == 1 && i < BATCH; i++)
        b->answers[i] = p[i].out[0];
}

static void make_batch(fv_ctx *ctx, fv_sequence_layout kind, const pair *p, batch *b)
{
    static float x[BATCH * LONGEST * BITS], fed[BATCH * LONGEST * BITS];
    int64_t read[BATCH], written[BATCH];
    for (int i = 0; i < BATCH; i++)
        read[i] = p[i].n_in, written[i] = p[i].n_out;
    must(ctx, fv_pack_sequences(ctx, BATCH, read, &b->from));
    must(ctx, fv_pack_sequences(ctx, BATCH, written, &b->to));
    for (int64_t t = 0; t < b->from.steps; t++)
        for (int64_t i = 0; i < b->from.rows[t]; i++)
            describe(kind, p[b->from.order[i]].in[t], x + (b->from.first[t] + i) * BITS);
    pack_answers(kind, p, b, fed);
    const bool one = kind == FV_LAYOUT_ONE_TO_ONE || kind == FV_LAYOUT_ONE_TO_MANY;
    b->in = (fv_sequence_net_input){
        .x = matrix(ctx, b->from.total, BITS, x), .from = one ? NULL : &b->from, .training = true};
    if (!writes(kind)) return;
    b->in.fed = matrix(ctx, b->to.total, BITS, fed);
    b->in.to = &b->to;
}

static fv_tensor *loss_of(fv_ctx *ctx, const fv_sequence_net *net, batch *b, int64_t *right)
{
    fv_tensor *y = fv_sequence_net_run(ctx, net, &b->in);
    static int64_t predicted[BATCH * LONGEST];
    must(ctx, fv_tensor_read(ctx, fv_argmax(ctx, y, -1, false), predicted,
                             (size_t)b->count * sizeof *predicted));
    *right = 0;
    for (int64_t i = 0; i < b->count; i++)
        *right += predicted[i] == b->answers[i];
    fv_tensor *wanted = fv_from_host(ctx, FV_I64, 1, &b->count, b->answers);
    return fv_cross_entropy(ctx, y, wanted, -1, 0, FV_REDUCTION_MEAN);
}

/* Trains, then answers unseen batches; the share that was right. */
static double learn(fv_sequence_layout kind, int steps)
{
    fv_ctx *ctx = example_start(FV_SIMD_AUTO);
    fv_params *params = NULL;
    must(ctx, fv_params_create(ctx, &params));
    fv_sequence_net_config cfg;
    fv_sequence_net_config_init(&cfg, sizeof cfg, kind);
    cfg.input = cfg.fed = BITS;
    cfg.hidden = HIDDEN;
    cfg.output = DIGITS;
    cfg.bidirectional = kind == FV_LAYOUT_MANY_TO_ONE;
    fv_sequence_net net;
    must(ctx, fv_sequence_net_create(params, "net", &cfg, &net));
    fv_optim_config adam;
    fv_optim_config_init(&adam, sizeof adam, FV_OPTIM_ADAM);
    adam.clip_norm = 1;
    fv_optim *optim = NULL;
    must(ctx, fv_optim_create(params, &adam, &optim));
    int64_t right = 0, asked = 0;
    for (int step = 0; step < steps + TEST / BATCH + 1; step++) {
        pair pairs[BATCH];
        for (int i = 0; i < BATCH; i++)
            pairs[i] = make(kind);
        batch b;
        int64_t now = 0;
        fv_scope_begin(ctx);
        make_batch(ctx, kind, pairs, &b);
        fv_tensor *loss = loss_of(ctx, &net, &b, &now);
        if (step >= steps) {
            right += now;
            asked += b.count;
        } else {
            must(ctx, fv_backward(ctx, loss));
            must(ctx, fv_optim_step(optim, 0.01, NULL));
        }
        fv_packed_free(&b.from);
        fv_packed_free(&b.to);
        fv_scope_end(ctx);
    }
    fv_optim_destroy(&optim);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
    return (double)right / (double)asked;
}

int main(void)
{
    static const struct {
        fv_sequence_layout kind;
        const char *name;
        int steps;
        double min_share;
    } tasks[] = {{FV_LAYOUT_ONE_TO_ONE, "one to one: a multiple of three?", 800, 0.95},
                 {FV_LAYOUT_ONE_TO_MANY, "one to many: counting down", 100, 0.99},
                 {FV_LAYOUT_MANY_TO_ONE, "many to one: which digit came most", 500, 0.85},
                 {FV_LAYOUT_MANY_TO_MANY, "many to many: the largest so far", 200, 0.98},
                 {FV_LAYOUT_MANY_THEN_MANY, "many, then many: backward", 500, 0.9}};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        const double share = learn(tasks[i].kind, tasks[i].steps);
        printf("%-38s %5.1f %% right\n", tasks[i].name, 100 * share);
        claim(share >= tasks[i].min_share, tasks[i].name);
    }
    return 0;
}
