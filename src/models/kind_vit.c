/*
 * A Vision Transformer (Dosovitskiy 2021): a picture as a set of patches, each a vector, with
 * learned positions; Transformer blocks; a class token or the mean to a linear classifier. With
 * patches of one pixel it is the picture as a set of pixels; vit.pool first averages blocks of
 * pixels, which keeps the set small.
 */
#include <stdio.h>

#include "fovea/image.h"
#include "models/capture.h"
#include "models/model.h"
#include "models/picture_input.h"
#include "tensor/tensor.h"

enum { MAX_LAYERS = 64, MAX_PATCHES = 1 << 16 };

typedef struct vit {
    fv_ctx *ctx;
    fv_picture_input in;
    int64_t patch, pool, rows, cols, width; /* rows, cols: of the grid of patches */
    int layers;
    double dropout;
    bool has_token;
    fv_dense embed, classes;
    fv_tensor *positions, *token; /* NULL: none */
    fv_block *blocks;
    fv_norm_layer norm;
} vit;

static const fv_key keys[] = {
    {"vit.patch", FV_KEY_INT, "4", 1, 256, NULL,
     "side of a patch; 1: the picture is a set of pixels"},
    {"vit.pool", FV_KEY_INT, "1", 1, 64, NULL,
     "blocks of so many pixels a side are averaged before patches are cut"},
    {"vit.width", FV_KEY_INT, "64", 1, 65536, NULL, "width of the states"},
    {"vit.layers", FV_KEY_INT, "4", 1, MAX_LAYERS, NULL, "blocks"},
    {"vit.heads", FV_KEY_INT, "4", 1, 1024, NULL, "attention heads"},
    {"vit.positions", FV_KEY_BOOL, "true", 0, 0, NULL,
     "learned positions; without them the order of patches is lost"},
    {"vit.class_token", FV_KEY_BOOL, "true", 0, 0, NULL,
     "classify a token of its own; false: the mean over the patches"},
    {"vit.dropout", FV_KEY_REAL, "0.1", 0, 0.95, NULL, "dropout of each sublayer"},
};

static fv_key_table vit_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    vit *m = self;
    fv_mem *mem = &m->ctx->mem;
    if (m->blocks) fv_mem_free(mem, m->blocks, (size_t)m->layers * sizeof *m->blocks);
    fv_mem_free(mem, m, sizeof *m);
}

static fv_status check_sizes(vit *m, int64_t heads)
{
    fv_ctx *ctx = m->ctx;
    const int64_t side = m->patch * m->pool;
    FV_RETURN_IF(m->in.height % side != 0 || m->in.width % side != 0, ctx, FV_ERR_ARGUMENT,
                 "vit.patch %lld times vit.pool %lld does not divide pictures of %lld x %lld",
                 (long long)m->patch, (long long)m->pool, (long long)m->in.height,
                 (long long)m->in.width);
    m->rows = m->in.height / side;
    m->cols = m->in.width / side;
    FV_RETURN_IF(m->rows * m->cols > MAX_PATCHES, ctx, FV_ERR_ARGUMENT,
                 "vit.patch: %lld patches, expected at most %d", (long long)(m->rows * m->cols),
                 MAX_PATCHES);
    FV_RETURN_IF(m->width % heads != 0, ctx, FV_ERR_ARGUMENT,
                 "vit.heads %lld does not divide vit.width %lld", (long long)heads,
                 (long long)m->width);
    return FV_OK;
}

static fv_status create_blocks(vit *m, fv_params *params, int64_t heads)
{
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, m->width, heads);
    cfg.dropout = m->dropout;
    m->blocks = fv_mem_zalloc(&m->ctx->mem, (size_t)m->layers * sizeof *m->blocks);
    FV_RETURN_IF(!m->blocks, m->ctx, FV_ERR_MEMORY, "no memory for a model");
    for (int i = 0; i < m->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "encoder.%d", i);
        FV_TRY(fv_block_create(params, name, &cfg, &m->blocks[i]));
    }
    return FV_OK;
}

static fv_status create_layers(vit *m, fv_params *params, const fv_recipe *recipe)
{
    const int64_t pixels = m->in.channels * m->patch * m->patch,
                  heads = fv_recipe_int(recipe, "vit.heads");
    FV_TRY(fv_dense_create(params, "patch", pixels, m->width, true, 0, &m->embed));
    if (fv_recipe_bool(recipe, "vit.positions"))
        FV_TRY(fv_embedding_create(params, "positions", m->rows * m->cols, m->width, 0.3,
                                   &m->positions));
    if (m->has_token) FV_TRY(fv_embedding_create(params, "token", 1, m->width, 0.02, &m->token));
    FV_TRY(create_blocks(m, params, heads));
    FV_TRY(fv_norm_layer_create(params, "norm", m->width, FV_NORM_LAYER, true, 1e-5, &m->norm));
    return fv_dense_create(params, "classes", m->width, m->in.classes, true, 0, &m->classes);
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    vit *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    *m = (vit){.ctx = ctx,
               .patch = fv_recipe_int(recipe, "vit.patch"),
               .pool = fv_recipe_int(recipe, "vit.pool"),
               .width = fv_recipe_int(recipe, "vit.width"),
               .layers = (int)fv_recipe_int(recipe, "vit.layers"),
               .dropout = fv_recipe_real(recipe, "vit.dropout"),
               .has_token = fv_recipe_bool(recipe, "vit.class_token")};
    FV_TRY(fv_picture_input_read(ctx, "vit", spec, &m->in));
    FV_TRY(check_sizes(m, fv_recipe_int(recipe, "vit.heads")));
    return create_layers(m, params, recipe);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* [n, channels, height, width] as patches [n, rows cols, channels patch patch]. */
static fv_tensor *cut(fv_ctx *ctx, const vit *m, fv_tensor *x, int64_t n)
{
    if (m->pool > 1) x = fv_avg_pool2d(ctx, x, &(fv_pool2d_options){.window = {m->pool, m->pool}});
    x = fv_reshape(ctx, x, 6, (int64_t[]){n, m->in.channels, m->rows, m->patch, m->cols, m->patch});
    x = fv_permute(ctx, x, (int[]){0, 2, 4, 1, 3, 5});
    return fv_reshape(ctx, x, 3,
                      (int64_t[]){n, m->rows * m->cols, m->in.channels * m->patch * m->patch});
}

static fv_tensor *add_token(fv_ctx *ctx, const vit *m, fv_tensor *x, int64_t n)
{
    fv_tensor *token = fv_broadcast(ctx, m->token, 3, (int64_t[]){n, 1, m->width});
    return fv_concat(ctx, 2, (fv_tensor *[]){token, x}, 1);
}

static void name_site(int layer, char out[32]) { snprintf(out, 32, "encoder.%d.self", layer); }

static fv_tensor *run_block(fv_ctx *ctx, const vit *m, int layer, fv_tensor *x, const fv_pass *pass)
{
    char site[32];
    fv_block_result result;
    name_site(layer, site);
    const bool wanted = pass && fv_capture_wants(pass->capture, site);
    fv_block_input in = {.x = x, .training = pass && pass->training};
    if (wanted) in.capture_self = pass->capture->options;
    x = fv_block_run(ctx, &m->blocks[layer], &in, &result);
    if (wanted) fv_capture_report(ctx, pass->capture, site, &result.self.captured);
    return x;
}

static fv_tensor *classify(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    vit *m = self;
    const int64_t n = inputs->rows;
    fv_tensor *x = cut(ctx, m, fv_picture_input_tensor(ctx, &m->in, inputs), n);
    x = fv_dense_run(ctx, &m->embed, x);
    if (m->positions) x = fv_positions_apply(ctx, x, m->positions, FV_POSITIONS_ADD);
    if (m->token) x = add_token(ctx, m, x, n);
    if (pass && pass->training && m->dropout > 0) x = fv_dropout(ctx, x, m->dropout);
    for (int i = 0; i < m->layers; i++)
        x = run_block(ctx, m, i, x, pass);
    x = fv_norm_layer_run(ctx, &m->norm, x);
    x = m->token ? fv_squeeze(ctx, fv_slice(ctx, x, 1, 0, 1, 1), 1)
                 : fv_mean(ctx, x, 1, (int[]){1}, false);
    return fv_dense_run(ctx, &m->classes, x);
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    return fv_picture_input_loss(ctx, batch, classify(ctx, self, batch, pass));
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const vit *m = self;
    for (int i = 0; i < m->layers && i < capacity; i++) {
        char name[32];
        name_site(i, name);
        out[i] = (fv_site){.heads = m->blocks[i].self.cfg.heads,
                           .queries = FV_AXIS_CELLS,
                           .keys = FV_AXIS_CELLS,
                           .rows = m->rows,
                           .cols = m->cols,
                           .before = m->token ? 1 : 0};
        snprintf(out[i].name, sizeof out[i].name, "%s", name);
    }
    return m->layers;
}

const fv_model_kind fv_kind_vit = {
    .struct_size = sizeof fv_kind_vit,
    .name = "vit",
    .types = "fovea-vit",
    .summary = "Transformer over the patches or pixels of a picture, for its class",
    .abilities = 1u << FV_CAN_CLASSIFY,
    .keys = vit_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .classify = classify,
    .attention_sites = sites,
};
