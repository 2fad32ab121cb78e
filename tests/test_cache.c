/*
 * Steps over a cache against passes over whole sequences, for every family of the fixtures: prompts
 * of different lengths side by side, rows that are chosen anew, packed-only weights; and the ids
 * that transformers generates from the same weights.
 */
#include "fovea/transformer.h"

#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/ops.h"
#include "support/files.h"
#include "support/tensors.h"

static const char *const decoders[] = {"gpt2", "llama"};
static const char *const pairs[] = {"marian", "t5"};

enum { MOST = 40 };

typedef struct world {
    fv_ctx *ctx;
    fv_model *model;
    fv_transformer *t;
    fv_cache *cache;
    int64_t vocabulary;
} world;

static const char *fixture(const char *name, const char *file)
{
    static char path[2][1024];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/fixtures/%s%s%s", getenv("FV_TEST_DIR"), name,
             *file ? "/" : "", file);
    return path[turn];
}

static world open_world(const char *name, int threads)
{
    world w = {.ctx = NULL};
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = threads;
    CHECK_EQ(fv_ctx_create(&cfg, &w.ctx), FV_OK);
    CHECK_OK(w.ctx, fv_model_open(w.ctx, fixture(name, ""), &w.model));
    w.t = fv_model_transformer(w.model);
    CHECK_OK(w.ctx, fv_cache_create(w.t, &w.cache));
    const fv_transformer_config *c = fv_transformer_settings(w.t);
    w.vocabulary = c->target_vocabulary ? c->target_vocabulary : c->vocabulary;
    return w;
}

static void close_world(world *w)
{
    fv_cache_destroy(&w->cache);
    fv_model_close(&w->model);
    fv_ctx_destroy(&w->ctx);
}

/* Tokens that look like nothing in particular. */
static void some_tokens(int64_t *out, int64_t n, int64_t key, int64_t vocabulary)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (key * 7919 + i * 104729 + i * i * 31) % (vocabulary - 2) + 1;
}

/* The logits of the last token of a sequence, by a pass over all of it. */
static void whole_pass(world *w, const int64_t *tokens, int64_t n, const fv_sequences *source,
                       float *out)
{
    fv_ctx *ctx = w->ctx;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const fv_sequences one = {.count = 1, .tokens = &tokens, .length = &n};
    fv_token_rows from = {.ids = NULL};
    fv_tensor *memory = NULL;
    if (source) {
        from = fv_token_rows_varlen(ctx, source);
        memory = fv_transformer_encode(ctx, w->t, &from, NULL);
    }
    const fv_token_rows rows = fv_token_rows_varlen(ctx, &one);
    fv_tensor *h = fv_transformer_decode(ctx, w->t, &rows, memory, source ? &from : NULL, NULL);
    h = fv_slice(ctx, h, 1, n - 1, n, 1);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_transformer_logits(ctx, w->t, h), out,
                                 (size_t)w->vocabulary * sizeof *out));
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
}

/* One step of every row; logits on the host. */
static void step(world *w, int64_t rows, const int64_t *tokens, float *out)
{
    fv_scope_begin(w->ctx);
    fv_tensor *t = fv_from_host(w->ctx, FV_I64, 1, &rows, tokens);
    CHECK_OK(w->ctx, fv_tensor_read(w->ctx, fv_cache_step(w->ctx, w->cache, t), out,
                                    (size_t)(rows * w->vocabulary) * sizeof *out));
    fv_scope_end(w->ctx);
}

static double distance(const float *a, const float *b, int64_t n)
{
    double most = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        most = test_worse(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most / size;
}

/* Rows that end up with these tokens after a begin and steps, each against its own pass. */
static void steps_equal_passes(void)
{
    enum { ROWS = 3, STEPS = 12 };
    static const int64_t lengths[ROWS] = {1, 9, 5};
    for (size_t f = 0; f < 2; f++) {
        world w = open_world(decoders[f], 2);
        static int64_t tokens[ROWS][MOST];
        const int64_t *lists[ROWS];
        for (int64_t r = 0; r < ROWS; r++) {
            some_tokens(tokens[r], MOST, r + 1, w.vocabulary);
            lists[r] = tokens[r];
        }
        const fv_sequences prompts = {.count = ROWS, .tokens = lists, .length = lengths};
        /* without and with room made beforehand */
        for (int64_t more = 0; more <= STEPS; more += STEPS) {
            CHECK_OK(w.ctx, fv_cache_begin(w.cache, &prompts, NULL, more));
            float *got = malloc((size_t)(ROWS * w.vocabulary) * sizeof *got);
            float *want = malloc((size_t)w.vocabulary * sizeof *want);
            for (int64_t s = 0; s < STEPS; s++) {
                int64_t next[ROWS];
                for (int64_t r = 0; r < ROWS; r++)
                    next[r] = tokens[r][lengths[r] - 1 + s];
                step(&w, ROWS, next, got);
                for (int64_t r = 0; r < ROWS; r++) {
                    CHECK_EQ(fv_cache_length(w.cache, r), lengths[r] + s);
                    whole_pass(&w, tokens[r], lengths[r] + s, NULL, want);
                    CHECK(distance(got + r * w.vocabulary, want, w.vocabulary) < 2e-5);
                }
            }
            free(got);
            free(want);
        }
        close_world(&w);
    }
}

/* A row has the same bits alone and beside others, with one thread and with three. */
static void rows_do_not_see_each_other(void)
{
    enum { ROWS = 3, STEPS = 6 };
    static const int64_t lengths[ROWS] = {7, 2, 11};
    for (size_t f = 0; f < 2; f++) {
        world all = open_world(decoders[f], 1), one = open_world(decoders[f], 3);
        const size_t row_bytes = (size_t)all.vocabulary * sizeof(float);
        static int64_t tokens[ROWS][MOST];
        const int64_t *lists[ROWS];
        for (int64_t r = 0; r < ROWS; r++) {
            some_tokens(tokens[r], MOST, r + 5, all.vocabulary);
            lists[r] = tokens[r];
        }
        float *together = malloc(ROWS * row_bytes), *alone = malloc(row_bytes);
        for (int64_t r = 0; r < ROWS; r++) {
            const fv_sequences prompts = {.count = ROWS, .tokens = lists, .length = lengths};
            const fv_sequences single = {.count = 1, .tokens = lists + r, .length = lengths + r};
            CHECK_OK(all.ctx, fv_cache_begin(all.cache, &prompts, NULL, 0));
            CHECK_OK(one.ctx, fv_cache_begin(one.cache, &single, NULL, 20));
            for (int64_t s = 0; s < STEPS; s++) {
                int64_t next[ROWS];
                for (int64_t i = 0; i < ROWS; i++)
                    next[i] = tokens[i][lengths[i] - 1 + s];
                step(&all, ROWS, next, together);
                step(&one, 1, next + r, alone);
                CHECK(memcmp(alone, together + r * all.vocabulary, row_bytes) == 0);
            }
        }
        free(together);
        free(alone);
        close_world(&all);
        close_world(&one);
    }
}

/* Rows that are copied, dropped and swapped continue from their own history. */
static void rows_are_chosen(void)
{
    world w = open_world("gpt2", 1);
    static int64_t tokens[2][MOST];
    some_tokens(tokens[0], MOST, 3, w.vocabulary);
    some_tokens(tokens[1], MOST, 4, w.vocabulary);
    const int64_t *lists[2] = {tokens[0], tokens[1]}, lengths[2] = {4, 8};
    const fv_sequences prompts = {.count = 2, .tokens = lists, .length = lengths};
    CHECK_OK(w.ctx, fv_cache_begin(w.cache, &prompts, NULL, 0));
    float *got = malloc((size_t)(4 * w.vocabulary) * sizeof *got);
    float *want = malloc((size_t)w.vocabulary * sizeof *want);
    step(&w, 2, (int64_t[]){tokens[0][3], tokens[1][7]}, got);
    CHECK_OK(w.ctx, fv_cache_select(w.cache, 4, (int64_t[]){1, 0, 1, 1}));
    CHECK_EQ(fv_cache_rows(w.cache), 4);
    step(&w, 4, (int64_t[]){9, tokens[0][4], tokens[1][8], 11}, got);
    CHECK_OK(w.ctx, fv_cache_select(w.cache, 2, (int64_t[]){2, 1}));
    step(&w, 2, (int64_t[]){tokens[1][9], tokens[0][5]}, got);
    whole_pass(&w, tokens[1], 10, NULL, want);
    CHECK(distance(got, want, w.vocabulary) < 2e-5);
    whole_pass(&w, tokens[0], 6, NULL, want);
    CHECK(distance(got + w.vocabulary, want, w.vocabulary) < 2e-5);
    CHECK_OK(w.ctx, fv_cache_select(w.cache, 1, (int64_t[]){0}));
    step(&w, 1, &tokens[1][10], got);
    whole_pass(&w, tokens[1], 11, NULL, want);
    CHECK(distance(got, want, w.vocabulary) < 2e-5);
    CHECK_EQ(fv_cache_select(w.cache, 1, (int64_t[]){1}), FV_ERR_INDEX);
    CHECK_EQ(fv_cache_select(w.cache, 0, NULL), FV_ERR_ARGUMENT);
    free(got);
    free(want);
    close_world(&w);
}

static void sources_are_read(void)
{
    enum { ROWS = 3, STEPS = 6 };
    static const int64_t lengths[ROWS] = {5, 9, 1}, ones[ROWS] = {1, 1, 1};
    for (size_t f = 0; f < 2; f++) {
        world w = open_world(pairs[f], 2);
        static int64_t sources[ROWS][MOST], targets[ROWS][MOST];
        const int64_t *from[ROWS], *to[ROWS];
        for (int64_t r = 0; r < ROWS; r++) {
            some_tokens(sources[r], MOST, r + 1, w.vocabulary);
            some_tokens(targets[r], MOST, r + 11, w.vocabulary);
            from[r] = sources[r];
            to[r] = targets[r];
        }
        const fv_sequences read = {.count = ROWS, .tokens = from, .length = lengths};
        const fv_sequences prompts = {.count = ROWS, .tokens = to, .length = ones};
        CHECK_OK(w.ctx, fv_cache_begin(w.cache, &prompts, &read, 0));
        float *got = malloc((size_t)(ROWS * w.vocabulary) * sizeof *got);
        float *want = malloc((size_t)w.vocabulary * sizeof *want);
        int64_t row[ROWS] = {0, 1, 2}; /* which sequence each row holds */
        for (int64_t s = 0; s < STEPS; s++) {
            int64_t next[ROWS];
            for (int64_t r = 0; r < ROWS; r++)
                next[r] = targets[row[r]][s];
            step(&w, ROWS, next, got);
            for (int64_t r = 0; r < ROWS; r++) {
                const fv_sequences one = {
                    .count = 1, .tokens = from + row[r], .length = lengths + row[r]};
                whole_pass(&w, targets[row[r]], s + 1, &one, want);
                CHECK(distance(got + r * w.vocabulary, want, w.vocabulary) < 2e-5);
            }
            if (s != 2) continue;
            CHECK_OK(w.ctx, fv_cache_select(w.cache, ROWS, (int64_t[]){2, 0, 1}));
            memcpy(row, (int64_t[]){2, 0, 1}, sizeof row);
        }
        free(got);
        free(want);
        close_world(&w);
    }
}

/* What packed-only weights give stays near, and f32 has the same bits; the memory shrinks. */
static void frozen_models(void)
{
    static const double most[] = {0, 2e-2, 5e-2};
    for (size_t f = 0; f < 2; f++) {
        world plain = open_world(decoders[f], 1);
        static int64_t tokens[MOST];
        some_tokens(tokens, MOST, 3, plain.vocabulary);
        const int64_t *list = tokens, length = 12;
        const fv_sequences prompt = {.count = 1, .tokens = &list, .length = &length};
        float *want = malloc((size_t)plain.vocabulary * sizeof *want);
        float *got = malloc((size_t)plain.vocabulary * sizeof *got);
        CHECK_OK(plain.ctx, fv_cache_begin(plain.cache, &prompt, NULL, 0));
        step(&plain, 1, tokens + 11, want);
        for (int form = FV_WEIGHT_F32; form < FV_WEIGHT_FORM_COUNT; form++) {
            world w = open_world(decoders[f], 2);
            CHECK_OK(w.ctx, fv_transformer_pack(w.t, (fv_weight_form)form));
            CHECK_OK(w.ctx, fv_cache_begin(w.cache, &prompt, NULL, 0));
            step(&w, 1, tokens + 11, got);
            const double far = distance(got, want, w.vocabulary);
            CHECK(form == FV_WEIGHT_F32 ? far == 0 : far > 0 && far < most[form]);
            CHECK_EQ(fv_transformer_pack(w.t, FV_WEIGHT_F32), FV_ERR_STATE);
            close_world(&w);
        }
        free(want);
        free(got);
        close_world(&plain);
    }
}

static void bad_calls_are_refused(void)
{
    world w = open_world("gpt2", 1);
    static int64_t tokens[128];
    const int64_t *list = tokens;
    int64_t length = 0;
    const fv_sequences prompt = {.count = 1, .tokens = &list, .length = &length};
    CHECK_EQ(fv_cache_begin(w.cache, &prompt, NULL, 0), FV_ERR_ARGUMENT);
    length = 65; /* the model has 64 positions */
    CHECK_EQ(fv_cache_begin(w.cache, &prompt, NULL, 0), FV_ERR_LIMIT);
    length = 64;
    CHECK_EQ(fv_cache_begin(w.cache, &prompt, &prompt, 0), FV_ERR_ARGUMENT);
    CHECK_OK(w.ctx, fv_cache_begin(w.cache, &prompt, NULL, 0));
    fv_cache_step(w.ctx, w.cache, indices_of(w.ctx, (int64_t[]){1, 2}, 2));
    CHECK_ERROR(w.ctx, FV_ERR_SHAPE, "a token of each row");
    fv_tensor *one = indices_of(w.ctx, (int64_t[]){1}, 1);
    CHECK(fv_tensor_valid(fv_cache_step(w.ctx, w.cache, one)));
    fv_cache_step(w.ctx, w.cache, one);
    CHECK_ERROR(w.ctx, FV_ERR_LIMIT, "context of 64 tokens is full");
    tokens[0] = w.vocabulary;
    length = 5;
    CHECK_EQ(fv_cache_begin(w.cache, &prompt, NULL, 0), FV_ERR_INDEX);
    CHECK_EQ(fv_ctx_take_error(w.ctx), FV_ERR_INDEX);
    close_world(&w);

    world m = open_world("marian", 1);
    tokens[0] = 1;
    length = 1;
    CHECK_EQ(fv_cache_begin(m.cache, &prompt, NULL, 0), FV_ERR_ARGUMENT);
    fv_cache_destroy(&m.cache);
    fv_cache_destroy(&m.cache);
    close_world(&m);
    fv_ctx *ctx = NULL;
    fv_model *bert = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    CHECK_OK(ctx, fv_model_open(ctx, fixture("bert", ""), &bert));
    fv_cache *none = NULL;
    CHECK_EQ(fv_cache_create(fv_model_transformer(bert), &none), FV_ERR_ARGUMENT);
    CHECK(none == NULL);
    fv_model_close(&bert);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(steps_equal_passes);
    RUN(rows_do_not_see_each_other);
    RUN(rows_are_chosen);
    RUN(sources_are_read);
    RUN(frozen_models);
    RUN(bad_calls_are_refused);
    return TEST_END();
}
