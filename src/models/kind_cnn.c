/*
 * A convolutional classifier of pictures with self-attention over its grid (Wang 2018; SAGAN, Zhang
 * 2019): stages of two 3 x 3 convolutions, each with batch norm and ReLU; from stage to stage the
 * channels double and the grid is halved by maxima. After stage cnn.attend every cell of the grid
 * attends to all cells, added to what was there times a gamma that starts at 0. The mean over the
 * last grid goes to a linear classifier.
 */
#include <stdio.h>

#include "fovea/image.h"
#include "models/batch_norms.h"
#include "models/model.h"
#include "models/picture_input.h"
#include "tensor/tensor.h"

enum { MAX_STAGES = 6, LAYERS = 2 };

#define SITE "grid.0.self"

typedef struct cnn {
    fv_ctx *ctx;
    fv_picture_input in;
    int stages, attend; /* attend: stages before the attention; 0: none */
    double dropout;
    fv_batch_norms norms;
    struct {
        fv_conv2d_layer conv;
        int norm;
    } layer[MAX_STAGES][LAYERS];
    fv_nonlocal grid;
    fv_dense classes;
} cnn;

static const fv_key keys[] = {
    {"cnn.channels", FV_KEY_INT, "16", 1, 4096, NULL, "channels of the first stage"},
    {"cnn.stages", FV_KEY_INT, "3", 1, MAX_STAGES, NULL,
     "stages of two convolutions; each halves the grid and doubles the channels of the one before"},
    {"cnn.attend", FV_KEY_INT, "2", 0, MAX_STAGES, NULL,
     "self-attention over the grid after this stage; 0: none"},
    {"cnn.dropout", FV_KEY_REAL, "0.2", 0, 0.95, NULL, "dropout before the classifier"},
};

static fv_key_table cnn_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    cnn *m = self;
    fv_batch_norms_free(&m->norms);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

static fv_status create_stage(cnn *m, fv_params *params, int stage, int64_t in, int64_t out)
{
    const fv_conv2d_options same = {.padding = {1, 1}};
    for (int i = 0; i < LAYERS; i++) {
        char name[48];
        snprintf(name, sizeof name, "stage.%d.conv.%d", stage, i);
        FV_TRY(fv_conv2d_create(params, name, i ? out : in, out, (int64_t[]){3, 3}, false, &same,
                                &m->layer[stage][i].conv));
        snprintf(name, sizeof name, "stage.%d.norm.%d", stage, i);
        FV_TRY(fv_batch_norms_add(&m->norms, params, name, out, &m->layer[stage][i].norm));
    }
    return FV_OK;
}

static fv_status create_layers(cnn *m, fv_params *params, int64_t channels)
{
    int64_t in = m->in.channels, out = channels;
    for (int stage = 0; stage < m->stages; stage++) {
        if (stage > 0) out = 2 * in;
        FV_TRY(create_stage(m, params, stage, in, out));
        if (stage + 1 == m->attend)
            FV_TRY(
                fv_nonlocal_create(params, "grid", out, 0, out / 2 > 0 ? out / 2 : 1, 0, &m->grid));
        in = out;
    }
    return fv_dense_create(params, "classes", in, m->in.classes, true, 0, &m->classes);
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    cnn *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    m->ctx = ctx;
    m->stages = (int)fv_recipe_int(recipe, "cnn.stages");
    m->attend = (int)fv_recipe_int(recipe, "cnn.attend");
    m->dropout = fv_recipe_real(recipe, "cnn.dropout");
    FV_TRY(fv_picture_input_read(ctx, "cnn", spec, &m->in));
    FV_RETURN_IF(m->attend > m->stages, ctx, FV_ERR_ARGUMENT,
                 "cnn.attend is %d, expected at most cnn.stages, %d", m->attend, m->stages);
    const int64_t least = (int64_t)1 << (m->stages - 1);
    FV_RETURN_IF(m->in.height < least || m->in.width < least, ctx, FV_ERR_ARGUMENT,
                 "cnn.stages is %d: pictures of %lld x %lld pixels cannot be halved so often",
                 m->stages, (long long)m->in.height, (long long)m->in.width);
    FV_TRY(fv_batch_norms_init(&m->norms, ctx));
    return create_layers(m, params, fv_recipe_int(recipe, "cnn.channels"));
}

/* ---- passes --------------------------------------------------------------------------------- */

static fv_tensor *attend(fv_ctx *ctx, const cnn *m, fv_tensor *x, const fv_pass *pass)
{
    const bool wanted = pass && fv_capture_wants(pass->capture, SITE);
    fv_attention_result result;
    fv_tensor *y = fv_nonlocal_run(ctx, &m->grid, x, wanted, &result);
    if (wanted) fv_capture_give(ctx, pass, SITE, result.weights);
    return y;
}

/* The mean of the last grid, [rows, channels]. */
static fv_tensor *features(fv_ctx *ctx, cnn *m, const fv_batch *inputs, const fv_pass *pass)
{
    const bool training = pass && pass->training;
    fv_tensor *x = fv_picture_input_tensor(ctx, &m->in, inputs);
    for (int stage = 0; stage < m->stages; stage++) {
        if (stage > 0) x = fv_max_pool2d(ctx, x, &(fv_pool2d_options){.window = {2, 2}});
        for (int i = 0; i < LAYERS; i++) {
            x = fv_conv2d_run(ctx, &m->layer[stage][i].conv, x);
            x = fv_batch_norms_run(ctx, &m->norms, m->layer[stage][i].norm, x, training);
            x = fv_relu(ctx, x);
        }
        if (stage + 1 == m->attend) x = attend(ctx, m, x, pass);
    }
    return fv_mean(ctx, x, 2, (int[]){2, 3}, false);
}

static fv_tensor *classify(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    cnn *m = self;
    fv_tensor *x = features(ctx, m, inputs, pass);
    if (pass && pass->training && m->dropout > 0) x = fv_dropout(ctx, x, m->dropout);
    return fv_dense_run(ctx, &m->classes, x);
}

/* What the classifier reads; there is no other rule. */
static fv_tensor *embed(fv_ctx *ctx, void *self, const fv_batch *inputs,
                        const fv_embedding_rule *rule)
{
    (void)rule;
    return features(ctx, self, inputs, NULL);
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    return fv_picture_input_loss(ctx, batch, classify(ctx, self, batch, pass));
}

static fv_status step_done(void *self, uint64_t step, int phase)
{
    cnn *m = self;
    (void)step;
    (void)phase;
    return fv_batch_norms_step(&m->norms);
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const cnn *m = self;
    if (m->attend == 0) return 0;
    if (capacity > 0)
        *out = (fv_site){.name = SITE,
                         .heads = 1,
                         .queries = FV_AXIS_CELLS,
                         .keys = FV_AXIS_CELLS,
                         .rows = m->in.height >> (m->attend - 1),
                         .cols = m->in.width >> (m->attend - 1)};
    return 1;
}

const fv_model_kind fv_kind_cnn = {
    .struct_size = sizeof fv_kind_cnn,
    .name = "cnn",
    .types = "fovea-cnn",
    .summary = "convolutions with self-attention over the grid, for classes of pictures",
    .abilities = 1u << FV_CAN_CLASSIFY | 1u << FV_CAN_EMBED,
    .keys = cnn_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .classify = classify,
    .embed = embed,
    .attention_sites = sites,
    .step_done = step_done,
};
