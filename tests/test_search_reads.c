/* Searches on a device that runs late: one read a token, and the tokens of the CPU. */
#include "device/guarded.h"
#include "fovea/ops.h"
#include "infer/sampling.h"
#include "support/opcase.h"
#include "tensor/tensor.h"

enum { SOURCES = 3, TOKENS = 12, POSITIONS = 5, MOST = 3000 };

/* A model whose logits are a table's row of the last token: [choices, choices], and attention. */
typedef struct table_model {
    fv_ctx *ctx;
    fv_tensor *table, *attention;
    int64_t rows, choices;
    double sharpness;
} table_model;

static fv_status begin(void *user, int64_t sources)
{
    ((table_model *)user)->rows = sources;
    return FV_OK;
}

static fv_status step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    const table_model *m = user;
    out->logits = fv_scale(ctx, fv_embedding(ctx, m->table, tokens, -1), m->sharpness);
    if (want_weights) out->weights = fv_embedding(ctx, m->attention, tokens, -1);
    return fv_ctx_error(ctx);
}

static fv_status select_rows(void *user, int64_t rows, const int64_t *from)
{
    (void)from;
    ((table_model *)user)->rows = rows;
    return FV_OK;
}

typedef struct found {
    int64_t tokens[SOURCES][2][TOKENS], count[SOURCES][2];
    double log_prob[SOURCES][2];
    float weights[SOURCES][TOKENS * POSITIONS];
    uint64_t waits;
    int64_t steps; /* of the longest output */
} found;

static void keep(const fv_outputs *out, found *f)
{
    for (int64_t i = 0; i < SOURCES; i++)
        for (int n = 0; n < 2; n++) {
            const fv_output *o = fv_outputs_get(out, i, n);
            if (!o) continue;
            f->count[i][n] = o->count;
            f->log_prob[i][n] = o->log_prob;
            memcpy(f->tokens[i][n], o->tokens, (size_t)o->count * sizeof *o->tokens);
            const int64_t steps = o->count + o->ended;
            if (steps > f->steps) f->steps = steps;
            if (o->weights && n == 0)
                memcpy(f->weights[i], o->weights, (size_t)(steps * POSITIONS) * sizeof(float));
        }
}

static void search(fv_device_kind device, int64_t choices, double sharpness,
                   const fv_search_config *cfg, found *f)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, device);
    table_model m = {.ctx = ctx, .choices = choices, .sharpness = sharpness};
    fv_ctx_set_step(ctx, 3, 0);
    m.table = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){choices, choices}, 0, 1);
    m.attention = fv_rand_uniform(ctx, FV_F32, 2, (int64_t[]){choices, POSITIONS}, 0, 1);
    const fv_stepper stepper = {.user = &m,
                                .max_choices = choices,
                                .bos = 1,
                                .eos = 0,
                                .first_tokens = (const int64_t[]){1, 2, 3},
                                .begin = begin,
                                .step = step,
                                .select = select_rows};
    const int64_t most[SOURCES] = {TOKENS, TOKENS, TOKENS};
    fv_outputs *out = NULL;
    *f = (found){.steps = 0};
    const bool guarded = device == FV_DEVICE_GUARDED;
    const uint64_t before = guarded ? fv_guarded_waits(ctx->device) : 0;
    CHECK_OK(ctx, fv_search(ctx, &stepper, SOURCES, most, cfg, &out));
    if (guarded) f->waits = fv_guarded_waits(ctx->device) - before;
    if (out) keep(out, f);
    fv_outputs_free(&out);
    fv_ctx_destroy(&ctx);
}

/* The same outputs on both devices, and `reads` of them for each token. */
static void check_search(int64_t choices, double sharpness, const fv_search_config *cfg,
                         uint64_t reads)
{
    static found cpu, late;
    search(FV_DEVICE_CPU, choices, sharpness, cfg, &cpu);
    search(FV_DEVICE_GUARDED, choices, sharpness, cfg, &late);
    CHECK(cpu.steps > 3);
    CHECK(memcmp(cpu.tokens, late.tokens, sizeof cpu.tokens) == 0);
    CHECK(memcmp(cpu.count, late.count, sizeof cpu.count) == 0);
    CHECK(memcmp(cpu.log_prob, late.log_prob, sizeof cpu.log_prob) == 0);
    CHECK(memcmp(cpu.weights, late.weights, sizeof cpu.weights) == 0);
    CHECK_EQ(late.waits, reads * (uint64_t)late.steps);
}

static fv_search_config config(void)
{
    fv_search_config cfg;
    fv_search_config_init(&cfg, sizeof cfg);
    return cfg;
}

static void greedy_reads_once(void)
{
    for (int kind = 0; kind < 4; kind++) {
        fv_search_config cfg = config();
        cfg.no_scores = kind & 1;
        cfg.want_weights = (kind & 2) != 0;
        check_search(50, 1, &cfg, 1);
    }
    fv_search_config cfg = config();
    cfg.repetition_penalty = 1.5; /* all logits, but still once */
    check_search(50, 1, &cfg, 1);
}

static void sampling_reads_once(void)
{
    static const struct {
        int64_t choices, top_k;
        double sharpness, temperature, top_p, min_p;
    } cases[] = {
        {50, 0, 1, 1, 1, 0},      {50, 5, 1, 0.7, 1, 0},      {50, 0, 1, 1.3, 0.8, 0},
        {50, 0, 1, 1, 1, 0.2},    {MOST, 40, 1, 1, 1, 0},     {MOST, 40, 1, 0.8, 0.9, 0},
        {MOST, 0, 4, 1, 0.9, 0},  {MOST, 0, 4, 1, 1, 0.05},   {MOST, 0, 12, 0.9, 1, 0},
        {MOST, 2000, 1, 1, 1, 0}, {MOST, MOST, 1, 1, 0.9, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fv_search_config cfg = config();
        cfg.sample = true;
        cfg.nbest = 2;
        cfg.seed = i;
        cfg.top_k = cases[i].top_k;
        cfg.temperature = cases[i].temperature;
        cfg.top_p = cases[i].top_p;
        cfg.min_p = cases[i].min_p;
        cfg.want_weights = i % 2 != 0;
        check_search(cases[i].choices, cases[i].sharpness, &cfg, 1);
    }
}

static void beams_read_once(void)
{
    for (int beam = 2; beam <= 4; beam++) {
        fv_search_config cfg = config();
        cfg.beam = beam;
        cfg.nbest = 2;
        cfg.want_weights = beam == 3;
        static found late;
        search(FV_DEVICE_GUARDED, 50, 1, &cfg, &late);
        /* Outputs may end before the search does, which TOKENS bounds. */
        CHECK(late.waits >= (uint64_t)late.steps && late.waits <= TOKENS);
    }
}

/* ---- draws --------------------------------------------------------------------------- */

/* A draw from the largest logits is the draw from all, or says that it goes beyond them. */
static void some_logits_are_enough(void)
{
    enum { N = 400, SOME = 30, DRAWS = 300 };
    static float all[N], some[SOME];
    static double weight[N];
    static int64_t order[N], place[SOME];
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_tensor *index = NULL, *logits = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){1, N}, 0, 3);
    fv_tensor *top = fv_topk(ctx, logits, SOME, &index);
    CHECK_OK(ctx, fv_tensor_read(ctx, logits, all, sizeof all));
    CHECK_OK(ctx, fv_tensor_read(ctx, top, some, sizeof some));
    CHECK_OK(ctx, fv_tensor_read(ctx, index, place, sizeof place));
    int beyond = 0, within = 0;
    for (int kind = 0; kind < 6; kind++) {
        fv_search_config cfg = config();
        cfg.temperature = kind % 2 ? 0.7 : 1;
        cfg.top_p = kind / 2 == 1 ? 0.85 : 1;
        cfg.min_p = kind / 2 == 2 ? 0.01 : 0;
        double total = 0;
        for (int i = 0; i < N; i++)
            total += exp((double)all[i] / cfg.temperature);
        for (int i = 0; i < DRAWS; i++) {
            const double unit = (double)i / DRAWS;
            fv_draw_row row = {
                .logit = all, .count = N, .choices = N, .weight = weight, .order = order};
            const int64_t expected = fv_search_draw(&cfg, &row, unit);
            row.logit = some;
            row.count = SOME;
            row.log_total = log(total);
            const int64_t pick = fv_search_draw(&cfg, &row, unit);
            beyond += pick < 0;
            within += pick >= 0;
            if (pick >= 0) CHECK_EQ(place[pick], expected);
        }
    }
    CHECK(beyond > 0 && within > 800);
    fv_ctx_destroy(&ctx);
}

/* Flat distributions: draws beyond the candidates read all logits, and the tokens are those of a
 * search that had all of them (a penalty of almost 1 makes it read them). */
static void rare_tokens_are_drawn(void)
{
    static found few, all;
    int differing = 0;
    for (uint64_t seed = 0; seed < 5; seed++) {
        fv_search_config cfg = config();
        cfg.sample = true;
        cfg.seed = seed;
        search(FV_DEVICE_GUARDED, MOST, 0.1, &cfg, &few);
        cfg.no_repeat_ngram = TOKENS + 1; /* never happens */
        search(FV_DEVICE_GUARDED, MOST, 0.1, &cfg, &all);
        CHECK(memcmp(few.tokens, all.tokens, sizeof few.tokens) == 0);
        CHECK(few.waits > (uint64_t)few.steps && few.waits <= 2 * (uint64_t)few.steps);
        for (int64_t i = 0; i < SOURCES; i++)
            differing += !(fabs(few.log_prob[i][0] - all.log_prob[i][0]) < 1e-9);
    }
    CHECK_EQ(differing, 0);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(greedy_reads_once);
    RUN(sampling_reads_once);
    RUN(beams_read_once);
    RUN(some_logits_are_enough);
    RUN(rare_tokens_are_drawn);
    return TEST_END();
}
