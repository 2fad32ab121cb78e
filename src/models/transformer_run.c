/* Forward passes through encoder and decoder, and capture of attention. */
#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "models/capture.h"
#include "models/transformer.h"
#include "ops/draw.h"

static const fv_pass plain = {.training = false};

/* ---- capture ------------------------------------------------------------------------ */

static void set_site_name(const fv_side *s, int64_t layer, const char *kind, char name[64])
{
    snprintf(name, 64, "%s.%lld.%s", s->encoder ? "encoder" : "decoder", (long long)layer, kind);
}

/* ---- one stack ---------------------------------------------------------------------- */

/* Converts a block's input to a list of tensors, and back. */
enum { X, VISIBLE, BEGIN, ANGLES, BIAS, MEMORY, MEMORY_VISIBLE, MEMORY_BEGIN, INPUTS };

static fv_tensor *recompute_block(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    const fv_side_call *call = user;
    const fv_block_input input = {.x = in[X],
                                  .visible = in[VISIBLE],
                                  .q_begin = in[BEGIN],
                                  .k_begin = in[BEGIN],
                                  .rotary_table = in[ANGLES],
                                  .key_rotary_table = in[ANGLES],
                                  .bias = in[BIAS],
                                  .memory = in[MEMORY],
                                  .memory_visible = in[MEMORY_VISIBLE],
                                  .memory_begin = in[MEMORY_BEGIN],
                                  .training = call->training};
    return fv_block_run(ctx, call->block, &input, NULL);
}

static fv_tensor *run_checkpointed(fv_ctx *ctx, const fv_side *s, int64_t layer,
                                   const fv_block_input *in, fv_checkpoint_kept keep)
{
    fv_tensor *const list[INPUTS] = {[X] = in->x,
                                     [VISIBLE] = in->visible,
                                     [BEGIN] = in->q_begin,
                                     [ANGLES] = in->rotary_table,
                                     [BIAS] = in->bias,
                                     [MEMORY] = in->memory,
                                     [MEMORY_VISIBLE] = in->memory_visible,
                                     [MEMORY_BEGIN] = in->memory_begin};
    return fv_checkpoint_keeping(ctx, recompute_block, &s->calls[2 * layer + in->training], INPUTS,
                                 list, keep);
}

/* Runs one block. Captured tensors are freed after it. */
static fv_tensor *run_block(fv_ctx *ctx, const fv_side *s, int64_t layer, fv_block_input *in,
                            const fv_pass *pass)
{
    const fv_capture *capture = pass->capture;
    if (!capture && pass->checkpoint) return run_checkpointed(ctx, s, layer, in, pass->kept);
    if (!capture) return fv_block_run(ctx, &s->blocks[layer], in, NULL);
    char self[64], cross[64];
    set_site_name(s, layer, "self", self);
    set_site_name(s, layer, "cross", cross);
    const fv_attention_capture nothing = {.weights = false};
    in->capture_self = fv_capture_wants(capture, self) ? capture->options : nothing;
    in->capture_cross = fv_capture_wants(capture, cross) ? capture->options : nothing;
    fv_block_result result;
    fv_scope_begin(ctx);
    fv_tensor *y = fv_block_run(ctx, &s->blocks[layer], in, &result);
    fv_capture_report(ctx, capture, self, &result.self.captured);
    if (s->blocks[layer].cfg.cross.heads > 0)
        fv_capture_report(ctx, capture, cross, &result.cross.captured);
    y = fv_scope_keep(ctx, y);
    fv_scope_end(ctx);
    return y;
}

fv_tensor *fv_side_finish(fv_ctx *ctx, const fv_side *side, fv_tensor *x)
{
    return side->final_norm.weight ? fv_norm_layer_run(ctx, &side->final_norm, x) : x;
}

/* `in` holds what all blocks share. */
static fv_tensor *run_layers(fv_ctx *ctx, const fv_transformer *m, const fv_side *s,
                             const fv_token_rows *rows, fv_block_input *in, const fv_pass *pass)
{
    const int64_t n = rows->ids->shape[1];
    in->training = pass->training;
    in->visible = fv_token_rows_visible(ctx, rows);
    in->q_begin = in->k_begin = rows->begin;
    in->rotary_table = in->key_rotary_table = fv_side_angles(ctx, m, rows, 0, 0);
    if (s->relative_table)
        in->bias = fv_relative_bias(ctx, s->relative_table, &s->relative, 0, n, n);
    in->x = fv_side_embed(ctx, m, s, rows, 0, pass->training);
    for (int64_t i = 0; i < s->layers && ctx->error == FV_OK; i++)
        in->x = run_block(ctx, s, i, in, pass);
    fv_tensor *y = fv_side_finish(ctx, s, in->x);
    return pass->training && s->final_norm.weight && m->cfg.family == FV_FAMILY_T5
               ? fv_dropout(ctx, y, m->cfg.dropout)
               : y;
}

static fv_tensor *run_stack(fv_ctx *ctx, const fv_transformer *m, const fv_side *s,
                            const fv_token_rows *rows, fv_block_input *in, const fv_pass *pass)
{
    fv_tensor *before = fv_draw_numbers_set(ctx, rows->numbers);
    fv_tensor *y = run_layers(ctx, m, s, rows, in, pass);
    fv_draw_numbers_set(ctx, before);
    return y;
}

static bool may_pass(fv_ctx *ctx, const fv_transformer *m, const fv_side *s,
                     const fv_token_rows *rows)
{
    if (!fv_token_rows_check(ctx, m, rows)) return false;
    if (s->layers == 0)
        fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: the model has no %s",
                  s == &m->encoder ? "encoder" : "decoder");
    return ctx->error == FV_OK;
}

/* ---- passes ------------------------------------------------------------------------- */

fv_tensor *fv_transformer_encode(fv_ctx *ctx, const fv_transformer *model,
                                 const fv_token_rows *source, const fv_pass *pass)
{
    if (!pass) pass = &plain;
    if (!may_pass(ctx, model, &model->encoder, source)) return ctx->invalid;
    fv_block_input in = {.x = NULL};
    return run_stack(ctx, model, &model->encoder, source, &in, pass);
}

/* Sets what cross-attention reads. */
static bool set_memory(fv_ctx *ctx, fv_block_input *in, const fv_token_rows *target,
                       fv_tensor *memory, const fv_token_rows *source)
{
    if (!memory || !source) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: the decoder needs the encoder's states");
        return false;
    }
    if (!target->begin != !source->begin ||
        fv_token_rows_documents(target) != fv_token_rows_documents(source)) {
        fv_poison(ctx, FV_ERR_SHAPE,
                  "transformer: source and target must both be varlen or both padded");
        return false;
    }
    in->memory = memory;
    in->memory_visible = fv_token_rows_visible(ctx, source);
    in->memory_begin = source->begin;
    return ctx->error == FV_OK;
}

fv_tensor *fv_transformer_decode(fv_ctx *ctx, const fv_transformer *model,
                                 const fv_token_rows *target, fv_tensor *memory,
                                 const fv_token_rows *source, const fv_pass *pass)
{
    if (!pass) pass = &plain;
    if (!may_pass(ctx, model, &model->decoder, target)) return ctx->invalid;
    fv_block_input in = {.x = NULL};
    if (model->encoder.layers > 0 && !set_memory(ctx, &in, target, memory, source))
        return ctx->invalid;
    return run_stack(ctx, model, &model->decoder, target, &in, pass);
}
