/*
 * A model kind and a training task of your own, on the public headers alone (docs/models/own.md).
 *
 * A market stall is a set of baskets, each a vector: a price, and which of four fruits is in it.
 * The model names the dearest fruit. It attends over the baskets with one learned query:
 *     a = softmax_j(q . K x_j / sqrt(d)),   logits = O sum_j a_j V x_j
 * Nothing tells it to look at prices; attention.svg shows that it learns to.
 */
#include <fovea/fovea.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRUITS = 4, SIZE = 1 + FRUITS, MOST = 8, STALLS = 28, WIDTH = 8, HELD_OUT = 1 << 20 };
static const char *const fruits[FRUITS] = {"apple", "fig", "pear", "plum"};

/* ---- the model ---------------------------------------------------------------------------- */
typedef struct picker {
    fv_tensor *query;
    fv_dense key, value, out;
} picker;

/* Makes the parameters, to train them or to load them from a folder. */
static fv_status create(fv_params *p, const fv_recipe *r, const fv_data_spec *spec, void **self)
{
    (void)r;
    fv_ctx *ctx = fv_params_ctx(p);
    picker *m = *self = calloc(1, sizeof *m);
    if (!m) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "no memory for a picker");
    fv_tensor *q = fv_rand_normal(ctx, FV_F32, 1, (int64_t[]){WIDTH}, 0, 0.5);
    m->query = fv_params_add(p, "query", q); /* the context keeps errors of tensor functions */
    fv_status s = fv_dense_create(p, "key", SIZE, WIDTH, false, 0.5, &m->key);
    if (s == FV_OK) s = fv_dense_create(p, "value", SIZE, WIDTH, false, 0.5, &m->value);
    if (s == FV_OK) s = fv_dense_create(p, "out", WIDTH, spec->label_count, true, 0.5, &m->out);
    return s;
}

/* Logits [stalls, fruits]. Sets have different sizes: key_lengths hides the padding. */
static fv_tensor *classify(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    picker *m = self;
    fv_tensor *counts, *x = fv_batch_tensor(ctx, batch, "points", &counts);
    const fv_attention_input in = {
        .q = fv_broadcast(ctx, m->query, 4, (int64_t[]){batch->rows, 1, 1, WIDTH}),
        .k = fv_unsqueeze(ctx, fv_dense_run(ctx, &m->key, x), 1),
        .v = fv_unsqueeze(ctx, fv_dense_run(ctx, &m->value, x), 1),
        .key_lengths = counts};
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.want_weights = pass && pass->capture;
    fv_attention_result result;
    fv_tensor *y = fv_attention_run(ctx, &in, &how, &result);
    fv_capture_give(ctx, pass, "stall", result.weights);
    return fv_dense_run(ctx, &m->out, fv_reshape(ctx, y, 2, (int64_t[]){batch->rows, WIDTH}));
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    fv_tensor *label = fv_batch_tensor(ctx, batch, "label", NULL);
    return fv_cross_entropy(ctx, classify(ctx, self, batch, pass), label, -1, 0, FV_REDUCTION_SUM);
}

static const fv_model_kind picker_kind = {.struct_size = sizeof picker_kind,
                                          .name = "picker",
                                          .abilities = 1u << FV_CAN_CLASSIFY,
                                          .create = create,
                                          .destroy = free,
                                          .loss = loss,
                                          .classify = classify};

/* ---- the task ----------------------------------------------------------------------------- */
typedef struct market {
    float basket[STALLS][MOST][SIZE];
    int64_t count[STALLS], dearest[STALLS], fruit[STALLS]; /* the dearest basket; what is in it */
    const void *baskets[STALLS], *labels[STALLS];
} market;

/* A batch is a function of the step, so a resumed run gets the batches of an uninterrupted one. */
static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    (void)model, (void)phase, (void)part;
    market *t = self;
    uint64_t state = 2 * step + 1;
    *t = (market){.count = {0}};
    for (int i = 0; i < STALLS; i++) {
        t->count[i] = 2 + i % (MOST - 1);
        for (int j = 0, best = -1; j < t->count[i]; j++) {
            const int price = (int)((state *= 6364136223846793005u) >> 33) % 100;
            const int fruit = (int)((state *= 6364136223846793005u) >> 33) % FRUITS;
            t->basket[i][j][0] = (float)price / 50 - 1;
            t->basket[i][j][1 + fruit] = 1;
            if (price > best) best = price, t->dearest[i] = j, t->fruit[i] = fruit;
        }
        t->baskets[i] = t->basket[i], t->labels[i] = &t->fruit[i];
    }
    const fv_field points = {"points", FV_F32, 1, {SIZE}, t->baskets, t->count, 0};
    fv_batch_init(out, STALLS);
    fv_batch_add(out, points);
    fv_batch_add(out, (fv_field){.name = "label", .dtype = FV_I64, .row = t->labels});
    return FV_OK;
}

static fv_status open_market(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    spec->ability = FV_CAN_CLASSIFY;
    spec->labels = fruits, spec->label_count = FRUITS;
    *self = calloc(1, sizeof(market));
    return *self ? FV_OK : fv_ctx_fail(cfg->ctx, FV_ERR_MEMORY, "no memory for a market");
}

/* The share of right answers, on a batch that training does not get to. */
static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    fv_ctx *ctx = fv_model_ctx(model);
    fv_batch stalls;
    double share = 0;
    batch(self, model, HELD_OUT, 0, 0, &stalls);
    fv_tensor *answer = fv_argmax(ctx, fv_model_classify(model, &stalls, NULL), 1, false);
    fv_tensor *right = fv_eq(ctx, answer, fv_batch_tensor(ctx, &stalls, "label", NULL));
    right = fv_mean(ctx, fv_cast(ctx, right, FV_F32), 0, NULL, false);
    const fv_status status = fv_tensor_item(ctx, right, &share);
    fv_metric_add(metrics, count, "accuracy", share, true);
    return status;
}

static const fv_task_kind market_task = {.struct_size = sizeof market_task,
                                         .name = "market",
                                         .model = "picker",
                                         .open = open_market,
                                         .close = free,
                                         .batch = batch,
                                         .evaluate = evaluate};

/* ---- the program -------------------------------------------------------------------------- */
static fv_ctx *ctx;
static void must(fv_status status)
{
    if (status == FV_OK) return;
    fprintf(stderr, "own_model: %s: %s\n", fv_status_name(status), fv_ctx_message(ctx));
    exit(1);
}

/* Trains in a folder, from what it holds, up to a step. Returns the accuracy. */
static double train(fv_recipe *recipe, const char *folder, const char *steps)
{
    fv_run *run = NULL;
    fv_metric metric[FV_MAX_METRICS];
    int count = 0;
    must(fv_recipe_set(recipe, "train.steps", steps));
    must(fv_run_create(ctx, recipe, folder, NULL, NULL, &run));
    must(fv_run_train(run));
    must(fv_run_evaluate(run, metric, &count));
    must(fv_model_save(fv_run_model(run), folder)); /* these weights, not the best so far */
    fv_run_destroy(&run);
    return metric->value;
}

static fv_status take(void *map, fv_ctx *in, const fv_site_weights *site)
{
    return fv_tensor_read(in, site->captured.weights, map, sizeof(float[STALLS][MOST]));
}

int main(int argc, char **argv)
{
    static float map[STALLS][MOST];
    static market shown;
    fv_recipe *recipe = NULL;
    fv_model *whole = NULL, *model = NULL;
    fv_batch stalls;
    bool same = false;
    int found = 0;
    if (argc != 3 || fv_ctx_create(NULL, &ctx) != FV_OK) return 2;
    must(fv_register_model(ctx, &picker_kind));
    must(fv_register_task(ctx, &market_task));
    must(fv_run_recipe(ctx, &recipe)); /* fv_recipe_load would read a file */
    must(fv_recipe_set(recipe, "train.task", "market"));
    must(fv_recipe_set(recipe, "train.lr", "0.03"));
    const double accuracy = train(recipe, argv[1], "400");
    train(recipe, argv[2], "150");
    train(recipe, argv[2], "400"); /* resumes at step 150 */

    /* A run's folder is a model. Open both, compare, and capture and draw the attention. */
    const fv_capture capture = {.options.weights = true, .on_weights = take, .user = map};
    const fv_look_map drawn = {STALLS, MOST, map[0], 0, NULL, NULL, "attention", "stall", "basket"};
    must(fv_model_open(ctx, argv[1], &whole));
    must(fv_model_open(ctx, argv[2], &model));
    must(fv_params_equal(fv_model_params(whole), fv_model_params(model), &same));
    batch(&shown, model, HELD_OUT, 0, 0, &stalls);
    must(fv_model_capture_attention(model, &stalls, &(fv_pass){.capture = &capture}));
    must(fv_look_map_save(ctx, &drawn, NULL, "attention.svg"));
    for (int i = 0; i < STALLS; i++)
        found += map[i][shown.dearest[i]] > 0.5f;
    printf("accuracy %.2f; resumed: %s bits; looks at the dearest basket in %d of %d stalls\n",
           accuracy, same ? "same" : "OTHER", found, STALLS);
    fv_model_close(&whole);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return same && accuracy > 0.8 && found > STALLS / 2 ? 0 : 1;
}
