#include "support/toy.h"

#include "fovea/ops.h"
#include "support/test.h"

/* A fixed number in (-2, 2) for each combination of arguments. */
static double wild(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return 2 * sin((double)(a * 7919 + b * 104729 + c * 1299709 + d * 15485863) * 0.6180339887);
}

double toy_logit(int64_t source, int64_t place, int64_t last, int64_t token)
{
    if (token == START) return -30;
    return 1.5 * wild(source, place, last, token);
}

double toy_weight(int64_t source, int64_t last, int64_t position)
{
    double e[POSITIONS], sum = 0;
    for (int64_t i = 0; i < POSITIONS; i++)
        sum += e[i] = exp(wild(source, 77, last, i));
    return e[position] / sum;
}

static fv_status begin(void *user, int64_t sources)
{
    toy *t = user;
    t->rows = sources;
    for (int64_t i = 0; i < sources; i++) {
        t->source[i] = t->first + i;
        t->place[i] = 0;
    }
    return FV_OK;
}

static fv_status step(void *user, fv_ctx *c, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    toy *t = user;
    t->steps++;
    static int64_t last[ROWS];
    static float logits[ROWS * VOCABULARY], w[ROWS * POSITIONS];
    CHECK_EQ(fv_tensor_size(tokens, 0), t->rows);
    CHECK_OK(c, fv_tensor_read(c, tokens, last, (size_t)t->rows * sizeof *last));
    for (int64_t r = 0; r < t->rows; r++) {
        for (int64_t v = 0; v < VOCABULARY; v++)
            logits[r * VOCABULARY + v] =
                t->flat ? 0 : (float)toy_logit(t->source[r], t->place[r], last[r], v);
        for (int64_t i = 0; i < POSITIONS; i++)
            w[r * POSITIONS + i] = (float)toy_weight(t->source[r], last[r], i);
        t->place[r]++;
    }
    if (want_weights) out->weights = fv_from_host(c, FV_F32, 2, (int64_t[]){t->rows, POSITIONS}, w);
    out->logits = fv_from_host(c, FV_F32, 2, (int64_t[]){t->rows, VOCABULARY}, logits);
    return FV_OK;
}

static fv_status choose(void *user, int64_t rows, const int64_t *from)
{
    toy *t = user;
    const toy before = *t;
    for (int64_t i = 0; i < rows; i++) {
        CHECK(from[i] >= 0 && from[i] < before.rows);
        t->source[i] = before.source[from[i]];
        t->place[i] = before.place[from[i]];
    }
    t->rows = rows;
    t->selects++;
    return FV_OK;
}

fv_stepper toy_stepper(toy *t)
{
    return (fv_stepper){.user = t,
                        .max_choices = VOCABULARY,
                        .bos = START,
                        .eos = END,
                        .begin = begin,
                        .step = step,
                        .select = choose};
}

double toy_log_p(int64_t source, int64_t place, int64_t last, int64_t token)
{
    double sum = 0;
    for (int64_t v = 0; v < VOCABULARY; v++)
        sum += exp((double)(float)toy_logit(source, place, last, v));
    return (double)(float)toy_logit(source, place, last, token) - log(sum);
}

void toy_run(fv_ctx *ctx, toy *t, int64_t sources, const fv_search_config *cfg, fv_outputs **out)
{
    int64_t max_tokens[ROWS];
    for (int64_t i = 0; i < sources; i++)
        max_tokens[i] = MOST;
    const fv_stepper stepper = toy_stepper(t);
    CHECK_OK(ctx, fv_search(ctx, &stepper, sources, max_tokens, cfg, out));
}

fv_search_config toy_config(int beam, int nbest)
{
    fv_search_config cfg;
    fv_search_config_init(&cfg, sizeof cfg);
    cfg.beam = beam;
    cfg.nbest = nbest;
    return cfg;
}
