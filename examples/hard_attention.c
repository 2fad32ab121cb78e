/*
 * Hard attention looks at one place only: cheap to compute, but a choice has no derivative. It is
 * trained by trying: choices after which the answer was likelier than usual are made likelier.
 *
 *     gradient = d log p(y|s) + (log p(y|s) - b) d log p(s) + lambda d H
 *
 * with b, a moving average, as what is usual. The task: eight cards, each with a colour and a
 * number; asked for a colour, say the number. Nobody tells the model which card to look at.
 *
 *     hard_attention [picture.svg]
 */
#include "example.h"

enum { CARDS = 8, COLOURS = 8, NUMBERS = 4, WIDTH = 16, BATCH = 64, STEPS = 600 };

typedef struct model {
    fv_tensor *ask, *colour, *number, *answer; /* embeddings of both, and the last layer */
} model;

typedef struct games {
    int64_t asked[BATCH], colour[BATCH * CARDS], number[BATCH * CARDS], right[BATCH];
} games;

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

static void deal(games *g, unsigned *state)
{
    for (int b = 0; b < BATCH; b++) {
        int64_t *colour = g->colour + b * CARDS;
        for (int i = 0; i < CARDS; i++) {
            const int j = (int)draw(state, (unsigned)i + 1);
            colour[i] = colour[j];
            colour[j] = i;
            g->number[b * CARDS + i] = draw(state, NUMBERS);
        }
        const int place = (int)draw(state, CARDS);
        g->asked[b] = colour[place];
        g->right[b] = g->number[b * CARDS + place];
    }
}

/* log p(right answer | card looked at) [batch], and what the choice was. */
static fv_tensor *play(fv_ctx *ctx, const model *m, const games *g, fv_attention_normaliser kind,
                       fv_attention_result *out, fv_tensor **logits)
{
    fv_tensor *asked = fv_from_host(ctx, FV_I64, 3, (int64_t[]){BATCH, 1, 1}, g->asked);
    fv_tensor *colour = fv_from_host(ctx, FV_I64, 3, (int64_t[]){BATCH, 1, CARDS}, g->colour);
    fv_tensor *number = fv_from_host(ctx, FV_I64, 3, (int64_t[]){BATCH, 1, CARDS}, g->number);
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.normaliser = kind;
    fv_attention_input in = {.q = fv_embedding(ctx, m->ask, asked, -1),
                             .k = fv_embedding(ctx, m->colour, colour, -1),
                             .v = fv_embedding(ctx, m->number, number, -1)};
    how.want_weights = true;
    fv_tensor *seen = fv_attention_run(ctx, &how, &in, out);
    *logits = fv_linear(ctx, fv_reshape(ctx, seen, 2, (int64_t[]){BATCH, WIDTH}), m->answer, NULL);
    fv_tensor *right = fv_from_host(ctx, FV_I64, 2, (int64_t[]){BATCH, 1}, g->right);
    return fv_gather(ctx, fv_log_softmax(ctx, *logits, -1), 1, right);
}

static int right_answers(fv_ctx *ctx, const games *g, fv_tensor *logits)
{
    int64_t said[BATCH];
    int right = 0;
    must(ctx, fv_tensor_read(ctx, fv_argmax(ctx, logits, -1, false), said, sizeof said));
    for (int b = 0; b < BATCH; b++)
        right += said[b] == g->right[b];
    return right;
}

static fv_tensor *parameter(fv_ctx *ctx, fv_params *params, const char *name, int64_t rows)
{
    return fv_params_add(params, name,
                         fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){rows, WIDTH}, 0, 0.5));
}

int main(int argc, char **argv)
{
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    fv_params *params = NULL;
    must(ctx, fv_params_create(ctx, &params));
    const model m = {
        parameter(ctx, params, "ask", COLOURS), parameter(ctx, params, "colour", COLOURS),
        parameter(ctx, params, "number", NUMBERS), parameter(ctx, params, "answer", NUMBERS)};
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_ADAM);
    fv_optim *optim = NULL;
    must(ctx, fv_optim_create(params, &cfg, &optim));
    fv_baseline usual = {.decay = 0.9};
    static games g;
    unsigned state = 1;
    fv_attention_result out;
    fv_tensor *logits;
    for (int step = 0; step < STEPS; step++) {
        fv_ctx_set_step(ctx, (uint64_t)step, 0);
        deal(&g, &state);
        fv_scope_begin(ctx);
        fv_tensor *log_py = play(ctx, &m, &g, FV_ATTENTION_HARD_SAMPLE, &out, &logits);
        fv_tensor *flat = fv_reshape(ctx, out.log_prob, 2, (int64_t[]){BATCH, 1});
        fv_tensor *entropy = fv_reshape(ctx, out.entropy, 2, (int64_t[]){BATCH, 1});
        fv_tensor *loss = fv_reinforce(ctx, &usual, log_py, flat, entropy, 1.0, 0.005);
        must(ctx, fv_backward(ctx, loss));
        must(ctx, fv_optim_step(optim, 0.02, NULL));
        fv_scope_end(ctx);
        if ((step + 1) % 100 == 0)
            printf("step %3d   log p(right answer), on average: %.3f\n", step + 1, usual.value);
    }
    deal(&g, &state);
    fv_no_grad_begin(ctx);
    play(ctx, &m, &g, FV_ATTENTION_HARD_ARGMAX, &out, &logits);
    const int right = right_answers(ctx, &g, logits);
    printf("right answers to new questions: %d of %d\n\n", right, BATCH);

    /* Where it looks: eight new games, the card's colour that was asked for in brackets. */
    enum { SHOWN = 8 };
    static float weights[BATCH * CARDS];
    static char names[SHOWN][32];
    const char *rows[SHOWN];
    read_floats(ctx, out.weights, weights);
    for (int b = 0; b < SHOWN; b++) {
        int place = 0;
        while (g.colour[b * CARDS + place] != g.asked[b])
            place++;
        snprintf(names[b], sizeof names[b], "card %d is right", place);
        rows[b] = names[b];
    }
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.high = 1;
    static const char *const cards[CARDS] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    show_map(ctx,
             &(fv_look_map){.rows = SHOWN,
                            .cols = CARDS,
                            .values = weights,
                            .row_labels = rows,
                            .col_labels = cards,
                            .title = "which card it would look at"},
             &options, argc > 1 ? argv[1] : NULL);
    claim(right >= BATCH * 95 / 100, "it learned where to look");
    fv_optim_destroy(&optim);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
    return 0;
}
