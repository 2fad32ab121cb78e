#include "support/oom_layers.h"

#include "fovea/autograd.h"
#include "fovea/image.h"
#include "fovea/layers.h"
#include "fovea/recurrent.h"

/* A draw of hard attention and the estimator of its gradient, with its moving baseline. */
static bool estimator(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const int64_t shape[4] = {1, 1, 3, 2};
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.normaliser = FV_ATTENTION_HARD_SAMPLE;
    fv_baseline baseline = {.decay = 0.9};
    fv_scope_begin(ctx);
    fv_tensor *x = fv_leaf(ctx, fv_rand_normal(ctx, FV_F32, 4, shape, 0, 1));
    fv_attention_result r;
    fv_attention_run(ctx, &(fv_attention_input){.q = x, .k = x, .v = x}, &how, &r);
    bool worked = fv_ctx_error(ctx) == FV_OK;
    if (worked) {
        fv_tensor *good = fv_sum(ctx, r.context, 1, (int[]){-1}, false);
        fv_tensor *loss = fv_reinforce(ctx, &baseline, good, r.log_prob, r.entropy, 1, 0.1);
        worked = fv_backward(ctx, loss) == FV_OK && baseline.updates == 1;
    }
    fv_scope_end(ctx);
    return worked;
}

/* A decoder block with every part that has parameters: created, run forward and backward, freed. */
static fv_status make_block(fv_params *params, fv_block *block)
{
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, 4, 2);
    cfg.self.attention.score = FV_ATTENTION_ADDITIVE;
    cfg.self.relative = (fv_relative){.kind = FV_RELATIVE_CLIPPED, .max_distance = 1};
    cfg.self.rotary.width = 2;
    fv_mha_config_init(&cfg.cross, sizeof cfg.cross, 4, 1);
    cfg.cross.attention.normaliser = FV_ATTENTION_LOCAL_P;
    cfg.cross.attention.half_width = 2;
    cfg.ff.gated = true;
    return fv_block_create(params, "b", &cfg, block);
}

static bool block_once(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_params *params = NULL;
    fv_block block;
    fv_scope_begin(ctx);
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) status = make_block(params, &block);
    if (status == FV_OK) {
        fv_tensor *x = fv_full(ctx, FV_F32, 3, (int64_t[]){1, 2, 4}, 0.5);
        fv_tensor *y = fv_block_run(ctx, &block, &(fv_block_input){.x = x, .memory = x}, NULL);
        status = fv_backward(ctx, fv_sum(ctx, y, 0, NULL, false));
    }
    if (params) fv_params_destroy(&params);
    fv_scope_end(ctx);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

/* Tables, heads with a key cache, and a grid. */
static bool parts(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_params *params = NULL;
    fv_nonlocal grid;
    fv_conv1d_layer near;
    fv_mha heads;
    fv_tensor *table = NULL, *k = NULL, *v = NULL;
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, 4, 2);
    cfg.fused_qkv = true;
    fv_scope_begin(ctx);
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) status = fv_embedding_create(params, "t", 3, 4, 0, &table);
    if (status == FV_OK) status = fv_mha_create(params, "h", &cfg, &heads);
    if (status == FV_OK) status = fv_nonlocal_create(params, "g", 4, 0, 0, 0, &grid);
    if (status == FV_OK) status = fv_conv1d_create(params, "c", 2, 4, 3, true, NULL, &near);
    if (status == FV_OK) {
        fv_tensor *x = fv_unsqueeze(ctx, fv_positions_learned(ctx, table, 0, 2), 0);
        fv_mha_project_keys(ctx, &heads, x, NULL, 0, NULL, &k, &v);
        fv_tensor *y = fv_mha_run(ctx, &heads, &(fv_mha_input){.x = x, .k = k, .v = v}, NULL);
        y = fv_reshape(ctx, y, 4, (int64_t[]){1, 4, 1, 2});
        y = fv_nonlocal_run(ctx, &grid, y, true, NULL);
        y = fv_reshape(ctx, y, 3, (int64_t[]){1, 2, 4});
        y = fv_reshape(ctx, fv_conv1d_run(ctx, &near, y), 2, (int64_t[]){8, 2});
        y = fv_conv1d_run_varlen(ctx, &near, y, 2, (int64_t[]){0, 3, 8});
        status = fv_backward(ctx, fv_sum(ctx, y, 0, NULL, false));
    }
    if (params) fv_params_destroy(&params);
    fv_scope_end(ctx);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

/* A vector in, a sequence out. */
static bool one_to_many(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_params *params = NULL;
    fv_sequence_net_config cfg;
    fv_sequence_net_config_init(&cfg, sizeof cfg, FV_LAYOUT_ONE_TO_MANY);
    fv_sequence_net net;
    fv_packed_sequences to = {.ctx = ctx};
    const int64_t rows = 2, total = 5;
    fv_scope_begin(ctx);
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) status = fv_sequence_net_create(params, "s", &cfg, &net);
    if (status == FV_OK) status = fv_pack_sequences(ctx, rows, (int64_t[]){2, 3}, &to);
    if (status == FV_OK) {
        const fv_sequence_net_input in = {.x = fv_full(ctx, FV_F32, 2, (int64_t[]){rows, 1}, 0.5),
                                          .fed =
                                              fv_full(ctx, FV_F32, 2, (int64_t[]){total, 1}, 0.25),
                                          .to = &to};
        fv_tensor *y = fv_sequence_net_run(ctx, &net, &in);
        status = fv_backward(ctx, fv_sum(ctx, y, 0, NULL, false));
    }
    fv_packed_free(&to);
    if (params) fv_params_destroy(&params);
    fv_scope_end(ctx);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

/* Every layer of images: created, run in training and after it, forward and backward. */
static fv_status make_images(fv_params *params, fv_conv2d_layer conv[2], fv_batch_norm_layer *norm,
                             fv_spectral_norm *spectral)
{
    const int64_t window[2] = {2, 2};
    const fv_conv2d_options options = {.stride = {2, 2}};
    fv_status status = fv_conv2d_create(params, "down", 2, 3, window, true, &options, &conv[0]);
    if (status == FV_OK)
        status = fv_conv_transpose2d_create(params, "up", 3, 2, window, true, &options, &conv[1]);
    if (status == FV_OK) status = fv_batch_norm_create(params, "norm", 3, 1e-5, 0.1, norm);
    if (status == FV_OK)
        status = fv_spectral_norm_create(params, "spectral", conv[0].weight, 0, 1, 1e-12, spectral);
    return status;
}

static bool images(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_params *params = NULL;
    fv_conv2d_layer conv[2];
    fv_batch_norm_layer norm;
    fv_spectral_norm spectral;
    fv_scope_begin(ctx);
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) status = make_images(params, conv, &norm, &spectral);
    for (int training = 0; status == FV_OK && training < 2; training++) {
        fv_tensor *x = fv_rand_normal(ctx, FV_F32, 4, (int64_t[]){2, 2, 4, 4}, 0, 1);
        fv_conv2d_layer scaled = conv[0];
        scaled.weight = fv_spectral_norm_run(ctx, &spectral, scaled.weight, training);
        fv_tensor *y = fv_batch_norm_run(ctx, &norm, fv_conv2d_run(ctx, &scaled, x), training);
        y = fv_conv2d_run(ctx, &conv[1], y);
        status = fv_backward(ctx, fv_sum(ctx, y, 0, NULL, false));
    }
    if (params) fv_params_destroy(&params);
    fv_scope_end(ctx);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

const oom_file_scenario oom_layer_scenarios[] = {{"estimator", estimator},
                                                 {"block", block_once},
                                                 {"layer parts", parts},
                                                 {"shape", one_to_many},
                                                 {"layers of images", images}};
const int oom_layer_scenario_count =
    (int)(sizeof oom_layer_scenarios / sizeof *oom_layer_scenarios);
