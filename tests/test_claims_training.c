/*
 * Claims that only trained models can show, each with a counterpart that must come out otherwise.
 * Numbers in brackets are those of the list of claims this project set out to show.
 *
 * Task: letters to the same letters, or to the letters from the last to the first. Every batch is
 * new, so there is nothing to learn by heart; measured is on sequences that were never trained on.
 */
#include <math.h>

#include "fovea/autograd.h"
#include "fovea/seq2seq.h"
#include "support/opcase.h"
#include "support/tensors.h"

enum {
    LETTERS = 8, /* tokens 2 .. 9; 0 and 1 begin and end an answer */
    ROWS = 32,
    SHORTEST = 2,
    LONGEST = 20,
    BRIEF = 4, /* up to this length a sequence is short */
    LONG = 17, /* and long from here on */
    STEPS = 500
};

typedef struct letters {
    int64_t in[ROWS][LONGEST], out[ROWS][LONGEST], length[ROWS];
    const int64_t *source[ROWS], *target[ROWS];
    fv_sequences x, y;
    fv_batch batch;
} letters;

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void draw(letters *l, uint64_t *state, int64_t from, int64_t to, bool reversed)
{
    for (int r = 0; r < ROWS; r++) {
        const int64_t n = from + (int64_t)(next(state) % (uint64_t)(to - from + 1));
        l->length[r] = n;
        for (int64_t i = 0; i < n; i++)
            l->in[r][i] = 2 + (int64_t)(next(state) % LETTERS);
        for (int64_t i = 0; i < n; i++)
            l->out[r][i] = l->in[r][reversed ? n - 1 - i : i];
        l->source[r] = l->in[r];
        l->target[r] = l->out[r];
    }
    l->x = (fv_sequences){.count = ROWS, .tokens = l->source, .length = l->length};
    l->y = (fv_sequences){.count = ROWS, .tokens = l->target, .length = l->length};
    l->batch = fv_batch_of_pairs(&l->x, &l->y);
}

typedef struct trained {
    fv_ctx *ctx;
    fv_params *params;
    fv_seq2seq *model;
} trained;

static trained train(fv_decoder_kind decoder, bool reversed)
{
    trained t = {.ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU)};
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = cfg.target_tokens = 2 + LETTERS;
    cfg.embedding = 16;
    cfg.encoder_hidden = 24;
    cfg.hidden = 48;
    cfg.attention_width = cfg.readout_width = 32;
    cfg.decoder = decoder;
    fv_optim_config how;
    fv_optim_config_init(&how, sizeof how, FV_OPTIM_ADAM);
    fv_optim *optim = NULL;
    static letters l;
    uint64_t state = 1;
    CHECK_OK(t.ctx, fv_params_create(t.ctx, &t.params));
    CHECK_OK(t.ctx, fv_seq2seq_create(t.params, &cfg, &t.model));
    CHECK_OK(t.ctx, fv_optim_create(t.params, &how, &optim));
    for (int step = 0; step < STEPS; step++) {
        draw(&l, &state, SHORTEST, LONGEST, reversed);
        fv_scope_begin(t.ctx);
        fv_tensor *loss = fv_seq2seq_loss(t.ctx, t.model, &l.batch, &(fv_pass){.training = true});
        CHECK_OK(t.ctx, fv_backward(t.ctx, fv_scale(t.ctx, loss, 1.0 / ROWS)));
        CHECK_OK(t.ctx, fv_optim_step(optim, 0.005 * (1 - (double)step / STEPS), NULL));
        fv_scope_end(t.ctx);
    }
    fv_optim_destroy(&optim);
    return t;
}

static void end(trained *t)
{
    CHECK_OK(t->ctx, fv_ctx_error(t->ctx));
    fv_seq2seq_destroy(&t->model);
    fv_params_destroy(&t->params);
    fv_ctx_destroy(&t->ctx);
}

/* Mean loss of a token, the end included, of new sequences of these lengths. */
static double loss_of(const trained *t, int64_t from, int64_t to)
{
    static letters l;
    uint64_t state = 99;
    double sum = NAN;
    int64_t tokens = 0;
    draw(&l, &state, from, to, false);
    for (int r = 0; r < ROWS; r++)
        tokens += l.length[r] + 1;
    fv_scope_begin(t->ctx);
    CHECK_OK(t->ctx,
             fv_tensor_item(t->ctx, fv_seq2seq_loss(t->ctx, t->model, &l.batch, NULL), &sum));
    fv_scope_end(t->ctx);
    return sum / (double)tokens;
}

/* Mean weight, over all letters of new sequences, of the input at the letter's own place and its
 * two neighbours, whose states know it as well; or at its place from the end. */
static double weight_on(const trained *t, bool reversed, bool from_end)
{
    static letters l;
    uint64_t state = 77;
    double sum = 0;
    int64_t count = 0;
    draw(&l, &state, LONG, LONGEST, reversed);
    fv_scope_begin(t->ctx);
    fv_tensor *map = fv_seq2seq_align(t->ctx, t->model, &l.batch);
    float *w = tensor_floats(t->ctx, map);
    const int64_t rows = fv_tensor_size(map, 1), cols = fv_tensor_size(map, 2);
    for (int r = 0; r < ROWS; r++)
        for (int64_t i = 0; i < l.length[r]; i++, count++) {
            const int64_t place = from_end ? l.length[r] - 1 - i : i;
            for (int64_t j = place - 1; j <= place + 1; j++)
                if (j >= 0 && j < l.length[r]) sum += (double)w[(r * rows + i) * cols + j];
        }
    free(w);
    fv_scope_end(t->ctx);
    return sum / (double)count;
}

/* (95) One vector holds a short sequence and not a long one; attention holds both. */
static void a_fixed_vector_fails_on_long_inputs(void)
{
    trained fixed = train(FV_DECODER_FIXED, false), attends = train(FV_DECODER_SEARCH, false);
    const double guess = log(LETTERS);
    const double brief[] = {loss_of(&fixed, SHORTEST, BRIEF), loss_of(&attends, SHORTEST, BRIEF)};
    const double far[] = {loss_of(&fixed, LONG, LONGEST), loss_of(&attends, LONG, LONGEST)};
    printf("loss of a token: fixed %.3f short, %.3f long; attention %.3f, %.3f\n", brief[0], far[0],
           brief[1], far[1]);
    CHECK(brief[0] < 0.1 * guess && far[0] > 0.3 * guess);
    CHECK(brief[1] < 0.1 * guess && far[1] < 0.05 * guess);
    end(&fixed);
    end(&attends);
}

/* (96) Where order is kept the map is the diagonal; where it is reversed it is the other one.
 * The loss does not mention the weights. */
static void the_map_follows_the_order(void)
{
    trained kept = train(FV_DECODER_SEARCH, false), flipped = train(FV_DECODER_SEARCH, true);
    const double a[] = {weight_on(&kept, false, false), weight_on(&kept, false, true)};
    const double b[] = {weight_on(&flipped, true, false), weight_on(&flipped, true, true)};
    printf("weight on the diagonal and on the other one: kept %.3f, %.3f; reversed %.3f, %.3f\n",
           a[0], a[1], b[0], b[1]);
    CHECK(a[0] > 0.7 && a[1] < 0.3);
    CHECK(b[0] < 0.3 && b[1] > 0.7);
    end(&kept);
    end(&flipped);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(a_fixed_vector_fails_on_long_inputs);
    RUN(the_map_follows_the_order);
    return TEST_END();
}
