/*
 * Hard attention looks at one place only: cheap to compute, but a choice has no derivative. It is
 * trained by trying: choices after which the answer was likelier than usual are made likelier.
 *
 *     gradient = d log p(y|s) + (log p(y|s) - b) d log p(s) + lambda d H
 *
 * with b, a moving average, as what is usual. The task: eight cards, each with a colour and a
 * number; given a colour, answer the number. The model is not told which card to look at. Soft
 * attention learns the same game beside it.
 *
 *     hard_attention [picture.svg]
 */
#include "example.h"

enum { CARDS = 8, COLOURS = 8, NUMBERS = 4, WIDTH = 16, BATCH = 64, STEPS = 600, EARLY = 20 };

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

/* New games. In an exam the right card of game b is card b, so that a good map is a diagonal. */
static void deal(games *g, unsigned *state, bool exam)
{
    for (int b = 0; b < BATCH; b++) {
        int64_t *colour = g->colour + b * CARDS;
        for (int i = 0; i < CARDS; i++) {
            const int j = (int)draw(state, (unsigned)i + 1);
            colour[i] = colour[j];
            colour[j] = i;
            g->number[b * CARDS + i] = draw(state, NUMBERS);
        }
        const int place = exam ? b % CARDS : (int)draw(state, CARDS);
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
    fv_tensor *seen = fv_attention_run(ctx, &in, &how, out);
    *logits = fv_linear(ctx, fv_reshape(ctx, seen, 2, (int64_t[]){BATCH, WIDTH}), m->answer, NULL);
    fv_tensor *right = fv_from_host(ctx, FV_I64, 2, (int64_t[]){BATCH, 1}, g->right);
    return fv_gather(ctx, fv_log_softmax(ctx, *logits, -1), right, 1);
}

static int right_answers(fv_ctx *ctx, const games *g, fv_tensor *logits)
{
    int64_t predicted[BATCH];
    int right = 0;
    must(ctx, fv_tensor_read(ctx, fv_argmax(ctx, logits, -1, false), predicted, sizeof predicted));
    for (int b = 0; b < BATCH; b++)
        right += predicted[b] == g->right[b];
    return right;
}

static fv_tensor *parameter(fv_ctx *ctx, fv_params *params, const char *name, int64_t rows)
{
    return fv_params_add(params, name,
                         fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){rows, WIDTH}, 0, 0.5));
}

/* One update. Soft attention has a gradient of its own; hard attention is rewarded for
 * choices that make the answer likelier than average. */
static void learn(fv_ctx *ctx, const model *m, fv_optim *optim, const games *g, bool hard,
                  fv_baseline *usual)
{
    fv_attention_result out;
    fv_tensor *logits, *loss;
    fv_scope_begin(ctx);
    fv_tensor *log_py =
        play(ctx, m, g, hard ? FV_ATTENTION_HARD_SAMPLE : FV_ATTENTION_SOFTMAX, &out, &logits);
    if (hard) {
        fv_tensor *chosen = fv_reshape(ctx, out.log_prob, 2, (int64_t[]){BATCH, 1});
        fv_tensor *entropy = fv_reshape(ctx, out.entropy, 2, (int64_t[]){BATCH, 1});
        loss = fv_reinforce(ctx, usual, log_py, chosen, entropy, 1.0, 0.005);
    } else {
        loss = fv_neg(ctx, fv_mean(ctx, log_py, 0, NULL, false));
    }
    must(ctx, fv_backward(ctx, loss));
    must(ctx, fv_optim_step(optim, 0.02, NULL));
    fv_scope_end(ctx);
}

/* Plays the exam; map[game][card] is what the answer was made of. Returns the right answers. */
static int examine(fv_ctx *ctx, const model *m, bool hard, float map[CARDS][CARDS])
{
    static games g;
    static float weights[BATCH * CARDS];
    int64_t choice[BATCH];
    unsigned state = 12345;
    fv_attention_result out;
    fv_tensor *logits;
    deal(&g, &state, true);
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    play(ctx, m, &g, hard ? FV_ATTENTION_HARD_ARGMAX : FV_ATTENTION_SOFTMAX, &out, &logits);
    fv_no_grad_end(ctx);
    read_floats(ctx, out.weights, weights);
    if (hard) must(ctx, fv_tensor_read(ctx, out.choice, choice, sizeof choice));
    for (int b = 0; b < CARDS; b++)
        for (int j = 0; j < CARDS; j++)
            map[b][j] = hard ? choice[b] == j : weights[b * CARDS + j];
    const int right = right_answers(ctx, &g, logits);
    fv_scope_end(ctx);
    return right;
}

/* Learns the game; maps after EARLY steps and at the end. Returns the right answers then. */
static int train(bool hard, float early[CARDS][CARDS], float late[CARDS][CARDS])
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
    int right = 0;
    for (int step = 1; step <= STEPS; step++) {
        fv_ctx_set_step(ctx, (uint64_t)step, 0);
        deal(&g, &state, false);
        learn(ctx, &m, optim, &g, hard, &usual);
        if (step != EARLY && step % 200 != 0) continue;
        right = examine(ctx, &m, hard, step == EARLY ? early : late);
        printf("%s, step %3d: %2d of %d new questions answered correctly\n", hard ? "hard" : "soft",
               step, right, BATCH);
    }
    fv_optim_destroy(&optim);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
    return right;
}

int main(int argc, char **argv)
{
    static float maps[2][2][CARDS][CARDS]; /* early and late, soft and hard */
    const int soft = train(false, maps[0][0], maps[1][0]);
    const int hard = train(true, maps[0][1], maps[1][1]);
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    static const char *const kinds[] = {"soft", "hard"}, *const when[] = {"early", "late"};
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.high = 1;
    printf("\n");
    for (int t = 0; t < 2; t++)
        for (int k = 0; k < 2; k++) {
            char title[64];
            snprintf(title, sizeof title, "%s, %s", kinds[k], when[t]);
            show_map(ctx,
                     &(fv_look_map){.rows = CARDS,
                                    .cols = CARDS,
                                    .values = maps[t][k][0],
                                    .title = title,
                                    .row_title = "game",
                                    .col_title = "card"},
                     &options, NULL);
        }
    save_panels(ctx,
                &(fv_look_heads){.layers = 2,
                                 .heads = 2,
                                 .rows = CARDS,
                                 .cols = CARDS,
                                 .values = maps[0][0][0],
                                 .layer_names = (const char *[]){"after 20 steps", "after 600"},
                                 .head_names = kinds,
                                 .title = "eight games, eight cards"},
                &options, argc > 1 ? argv[1] : NULL);
    claim(soft >= BATCH * 95 / 100, "soft attention learned where to look");
    claim(hard >= BATCH * 95 / 100, "hard attention learned where to look");
    fv_ctx_destroy(&ctx);
    return 0;
}
