/*
 * SNAIL for few-shot classification (Mishra, Rohaninejad, Chen, Abbeel 2018). An episode is a
 * sequence of T - 1 examples with their labels, and a query without one:
 *
 *     e_t = W cnn(picture_t) + b          four times: 3 x 3 convolution, batch norm, ReLU, maxima
 *                                         of 2 x 2; 28 x 28 pixels become 1 x 1
 *     x_t = [e_t ; one-hot(label_t)]      zeros in place of the query's label
 *     y   = snail(x_1 .. x_T)             models/snail.h
 *     logits = W y_T + b
 *
 * An episode with several queries is as many sequences with the same examples; every picture goes
 * through the CNN once.
 *
 * While the attention is nearly uniform, the loss says little about the CNN. So training adds
 * few-shot.matching times the loss of a matching network (Vinyals et al. 2016) over e:
 *
 *     p(c) = sum over examples i of label c of softmax_i(-|e_T - e_i|^2)
 */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "fovea/image.h"
#include "models/batch_norms.h"
#include "models/model.h"
#include "models/snail.h"
#include "tensor/tensor.h"

enum { BLOCKS = 4, MOST_SIDE = 256, MOST_WAYS = 256, MOST_EXAMPLES = 1024, MOST_PICTURES = 65536 };

typedef struct learner {
    fv_ctx *ctx;
    int64_t side, ways, examples; /* examples: of an episode, before the query */
    fv_batch_norms norms;
    struct {
        fv_conv2d_layer conv;
        int norm;
    } block[BLOCKS];
    fv_dense embedding, classes;
    fv_snail snail;
    double matching;
} learner;

static const fv_key keys[] = {
    {"few-shot.channels", FV_KEY_INT, "64", 1, 4096, NULL, "channels of the CNN's four blocks"},
    {"few-shot.width", FV_KEY_INT, "64", 1, 4096, NULL, "width of what the CNN makes of a picture"},
    {"few-shot.stages", FV_KEY_TEXT,
     "attention 64 32, tc 64, attention 128 64, tc 64, "
     "attention 256 128",
     0, 0, NULL, "blocks in order: tc FILTERS, or attention KEYS VALUES"},
    {"few-shot.matching", FV_KEY_REAL, "1", 0, 100, NULL,
     "weight of a second loss in training, of a query's nearest examples; 0: none"},
};

static fv_key_table few_shot_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    learner *m = self;
    fv_batch_norms_free(&m->norms);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

static fv_status read_sizes(learner *m, const fv_data_spec *spec)
{
    const int64_t shots = fv_data_spec_get(spec, "shots", 0);
    m->side = fv_data_spec_get(spec, "side", 0);
    m->ways = fv_data_spec_get(spec, "ways", 0);
    FV_RETURN_IF(spec->ability != FV_CAN_LEARN, m->ctx, FV_ERR_ARGUMENT,
                 "model.kind is few-shot: such a model learns from episodes, it cannot %s",
                 fv_ability_name(spec->ability));
    FV_RETURN_IF(m->side < 1 << BLOCKS || m->side > MOST_SIDE, m->ctx, FV_ERR_ARGUMENT,
                 "few-shot: pictures of %lld pixels, expected %d to %d", (long long)m->side,
                 1 << BLOCKS, (int)MOST_SIDE);
    FV_RETURN_IF(m->ways < 2 || m->ways > MOST_WAYS || shots < 1 || shots > MOST_EXAMPLES / m->ways,
                 m->ctx, FV_ERR_ARGUMENT,
                 "few-shot: %lld classes with %lld examples, expected 2 to %d classes and at most "
                 "%d examples",
                 (long long)m->ways, (long long)shots, (int)MOST_WAYS, (int)MOST_EXAMPLES);
    m->examples = m->ways * shots;
    return FV_OK;
}

static fv_status create_layers(learner *m, fv_params *params, int64_t channels, int64_t width,
                               const char *stages)
{
    const fv_conv2d_options same = {.padding = {1, 1}};
    int64_t side = m->side;
    for (int i = 0; i < BLOCKS; i++, side /= 2) {
        char name[32];
        snprintf(name, sizeof name, "block.%d.conv", i);
        FV_TRY(fv_conv2d_create(params, name, i ? channels : 1, channels, (int64_t[]){3, 3}, false,
                                &same, &m->block[i].conv));
        snprintf(name, sizeof name, "block.%d.norm", i);
        FV_TRY(fv_batch_norms_add(&m->norms, params, name, channels, &m->block[i].norm));
    }
    FV_TRY(fv_dense_create(params, "embedding", channels * side * side, width, true, 0,
                           &m->embedding));
    fv_snail_config cfg = {.inputs = width + m->ways, .steps = m->examples + 1};
    FV_TRY(fv_snail_read_stages(m->ctx, stages, &cfg));
    FV_TRY(fv_snail_create(params, "snail", &cfg, &m->snail));
    return fv_dense_create(params, "classes", m->snail.outputs, m->ways, true, 0, &m->classes);
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    learner *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    m->ctx = ctx;
    FV_TRY(read_sizes(m, spec));
    m->matching = fv_recipe_real(recipe, "few-shot.matching");
    FV_TRY(fv_batch_norms_init(&m->norms, ctx));
    return create_layers(m, params, fv_recipe_int(recipe, "few-shot.channels"),
                         fv_recipe_int(recipe, "few-shot.width"),
                         fv_recipe_text(recipe, "few-shot.stages"));
}

/* ---- a batch -------------------------------------------------------------------------------- */

/* The episodes of a batch. Sequence s is a query and the examples before it. */
typedef struct episodes {
    const fv_field *pixels, *label;
    int64_t pictures, sequences;
    int64_t *step;   /* [sequences][examples + 1]: a picture of the batch */
    int64_t *answer; /* [sequences] */
    float *hot;      /* [sequences][examples + 1][ways] */
    size_t bytes;
} episodes;

static fv_status find_fields(const learner *m, const fv_batch *batch, episodes *e)
{
    e->pixels = fv_batch_find(batch, "pixels");
    e->label = fv_batch_find(batch, "label");
    const fv_field *p = e->pixels, *l = e->label;
    FV_RETURN_IF(!p || !p->length || p->dtype != FV_F32 || p->rank != 3 || p->shape[0] != 1 ||
                     p->shape[1] != m->side || p->shape[2] != m->side || batch->rows < 1,
                 m->ctx, FV_ERR_ARGUMENT,
                 "few-shot: the batch has no \"pixels\", rows of pictures of 1 x %lld x %lld",
                 (long long)m->side, (long long)m->side);
    FV_RETURN_IF(!l || !l->length || l->dtype != FV_I64 || l->rank != 0, m->ctx, FV_ERR_ARGUMENT,
                 "few-shot: the batch has no \"label\" for each picture");
    for (int64_t r = 0; r < batch->rows; r++) {
        FV_RETURN_IF(p->length[r] <= m->examples || p->length[r] > MOST_PICTURES ||
                         l->length[r] != p->length[r],
                     m->ctx, FV_ERR_ARGUMENT,
                     "few-shot: row %lld has %lld pictures and %lld labels, expected %lld examples "
                     "and one query or more",
                     (long long)r, (long long)p->length[r], (long long)l->length[r],
                     (long long)m->examples);
        e->pictures += p->length[r];
        e->sequences += p->length[r] - m->examples;
        FV_RETURN_IF(e->pictures > MOST_PICTURES, m->ctx, FV_ERR_LIMIT,
                     "few-shot: more than %d pictures in a batch", (int)MOST_PICTURES);
    }
    return FV_OK;
}

static fv_status make_room(const learner *m, episodes *e)
{
    size_t steps = (size_t)(m->examples + 1), hot = 0, rest = 0, bytes = 0;
    const size_t n = (size_t)e->sequences;
    const bool fits = fv_checked_mul_size(n, steps * (size_t)m->ways * sizeof *e->hot, &hot) &&
                      fv_checked_mul_size(n, (steps + 1) * sizeof *e->step, &rest) &&
                      fv_checked_add_size(hot, rest, &bytes);
    char *memory = fits ? fv_mem_zalloc(&m->ctx->mem, bytes) : NULL;
    FV_RETURN_IF(!memory, m->ctx, FV_ERR_MEMORY, "no memory for %lld sequences",
                 (long long)e->sequences);
    e->bytes = bytes;
    e->step = (int64_t *)(void *)memory;
    e->answer = e->step + n * steps;
    e->hot = (float *)(void *)(memory + rest);
    return FV_OK;
}

/* The labels of examples are read, those of queries only kept as answers. */
static fv_status fill(const learner *m, const fv_batch *batch, episodes *e)
{
    const int64_t steps = m->examples + 1;
    int64_t picture = 0, s = 0;
    for (int64_t r = 0; r < batch->rows; r++) {
        const int64_t *label = e->label->row[r];
        for (int64_t i = 0; i < m->examples; i++)
            FV_RETURN_IF(label[i] < 0 || label[i] >= m->ways, m->ctx, FV_ERR_ARGUMENT,
                         "few-shot: row %lld: example %lld has label %lld, expected 0 to %lld",
                         (long long)r, (long long)i, (long long)label[i], (long long)m->ways - 1);
        for (int64_t q = m->examples; q < e->pixels->length[r]; q++, s++) {
            for (int64_t i = 0; i < m->examples; i++) {
                e->step[s * steps + i] = picture + i;
                e->hot[(s * steps + i) * m->ways + label[i]] = 1;
            }
            e->step[s * steps + m->examples] = picture + q;
            e->answer[s] = label[q];
        }
        picture += e->pixels->length[r];
    }
    return FV_OK;
}

static void free_episodes(const learner *m, episodes *e)
{
    if (e->step) fv_mem_free(&m->ctx->mem, e->step, e->bytes);
}

/* ---- a pass --------------------------------------------------------------------------------- */

/* All pictures of the batch, [pictures, 1, side, side], as 2 ink - 1. */
static fv_tensor *pictures_of(fv_ctx *ctx, const learner *m, const fv_batch *batch,
                              const episodes *e)
{
    const int64_t shape[] = {e->pictures, 1, m->side, m->side};
    const size_t one = (size_t)(m->side * m->side) * sizeof(float),
                 bytes = (size_t)e->pictures * one;
    char *all = fv_mem_alloc(&ctx->mem, bytes), *at = all;
    if (!all) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld pictures", (long long)e->pictures);
        return ctx->invalid;
    }
    for (int64_t r = 0; r < batch->rows; r++) {
        memcpy(at, e->pixels->row[r], (size_t)e->pixels->length[r] * one);
        at += (size_t)e->pixels->length[r] * one;
    }
    fv_tensor *x = fv_from_host(ctx, FV_F32, 4, shape, all);
    fv_mem_free(&ctx->mem, all, bytes);
    return fv_affine(ctx, x, 2, -1);
}

static fv_tensor *embed(fv_ctx *ctx, learner *m, fv_tensor *x, bool training)
{
    for (int i = 0; i < BLOCKS; i++) {
        x = fv_conv2d_run(ctx, &m->block[i].conv, x);
        x = fv_relu(ctx, fv_batch_norms_run(ctx, &m->norms, m->block[i].norm, x, training));
        x = fv_max_pool2d(ctx, x, &(fv_pool2d_options){.window = {2, 2}});
    }
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t pictures = fv_tensor_size(x, 0), flat = fv_tensor_count(x) / pictures;
    x = fv_reshape(ctx, x, 2, (int64_t[]){pictures, flat});
    return fv_dense_run(ctx, &m->embedding, x);
}

/* What a pass makes. */
typedef struct results {
    fv_tensor *logits, *answers, *matched; /* [sequences, ways], [sequences], as logits */
} results;

/* The logarithms of p of the matching network; x and labels [sequences, steps, ...]. */
static fv_tensor *match(fv_ctx *ctx, const learner *m, fv_tensor *x, fv_tensor *labels)
{
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = FV_ATTENTION_L2;
    const fv_attention_input in = {
        .q = fv_unsqueeze(ctx, fv_slice(ctx, x, 1, m->examples, m->examples + 1, 1), 1),
        .k = fv_unsqueeze(ctx, fv_slice(ctx, x, 1, 0, m->examples, 1), 1),
        .v = fv_unsqueeze(ctx, fv_slice(ctx, labels, 1, 0, m->examples, 1), 1)};
    fv_tensor *p = fv_attention_run(ctx, &in, &how, NULL);
    p = fv_reshape(ctx, p, 2, (int64_t[]){-1, m->ways});
    return fv_log(ctx, fv_affine(ctx, p, 1, 1e-6));
}

static void run(fv_ctx *ctx, learner *m, const fv_batch *batch, const episodes *e,
                const fv_pass *pass, results *out)
{
    const int64_t steps = m->examples + 1, n = e->sequences, all = n * steps;
    const bool training = pass && pass->training;
    fv_tensor *embedded = embed(ctx, m, pictures_of(ctx, m, batch, e), training);
    if (ctx->error != FV_OK) return;
    fv_tensor *index = fv_from_host(ctx, FV_I64, 1, &all, e->step);
    fv_tensor *x[] = {
        fv_reshape(ctx, fv_index_select(ctx, embedded, index, 0), 3, (int64_t[]){n, steps, -1}),
        fv_from_host(ctx, FV_F32, 3, (int64_t[]){n, steps, m->ways}, e->hot)};
    fv_tensor *y = fv_snail_run(ctx, &m->snail, fv_concat(ctx, 2, x, 2), pass);
    y = fv_reshape(ctx, fv_slice(ctx, y, 1, steps - 1, steps, 1), 2, (int64_t[]){n, -1});
    out->logits = fv_dense_run(ctx, &m->classes, y);
    out->answers = fv_from_host(ctx, FV_I64, 1, &n, e->answer);
    if (training && m->matching > 0) out->matched = match(ctx, m, x[0], x[1]);
}

static void read_and_run(fv_ctx *ctx, learner *m, const fv_batch *batch, const fv_pass *pass,
                         results *out)
{
    episodes e = {.pictures = 0};
    *out = (results){.logits = ctx->invalid, .answers = ctx->invalid};
    if (ctx->error != FV_OK) return;
    fv_status status = find_fields(m, batch, &e);
    if (status == FV_OK) status = make_room(m, &e);
    if (status == FV_OK) status = fill(m, batch, &e);
    if (status == FV_OK)
        run(ctx, m, batch, &e, pass, out);
    else
        fv_make_last_failure_sticky(ctx, status);
    free_episodes(m, &e);
}

static fv_tensor *classify(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    results r;
    read_and_run(ctx, self, inputs, pass, &r);
    return r.logits;
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    const learner *m = self;
    results r;
    read_and_run(ctx, self, batch, pass, &r);
    fv_tensor *sum = fv_cross_entropy(ctx, r.logits, r.answers, -1, 0, FV_REDUCTION_SUM);
    if (!r.matched) return sum;
    fv_tensor *matching = fv_cross_entropy(ctx, r.matched, r.answers, -1, 0, FV_REDUCTION_SUM);
    return fv_add(ctx, sum, fv_scale(ctx, matching, m->matching));
}

static fv_status step_done(void *self, uint64_t step, int phase)
{
    learner *m = self;
    (void)step;
    (void)phase;
    return fv_batch_norms_step(&m->norms);
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const learner *m = self;
    return fv_snail_sites(&m->snail, out, capacity);
}

const fv_model_kind fv_kind_few_shot = {
    .struct_size = sizeof fv_kind_few_shot,
    .name = "few-shot",
    .types = "fovea-few-shot",
    .summary = "a CNN and SNAIL, for classes that each episode shows a few examples of",
    .abilities = 1u << FV_CAN_LEARN,
    .keys = few_shot_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .classify = classify,
    .attention_sites = sites,
    .step_done = step_done,
};
