/* Pairs of token sequences, and the recurrent models behind the interface of all models of them. */
#include "fovea/pairs.h"

#include "io/file.h"
#include "models/seq2seq.h"

int64_t fv_token_pairs_tokens(const fv_token_pairs *batch)
{
    int64_t n = batch->count;
    for (int64_t i = 0; i < batch->count; i++)
        n += batch->target_length[i];
    return n;
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_token_pairs *batch,
                       const fv_teaching *teaching)
{
    return fv_seq2seq_loss(ctx, self, batch, teaching);
}

static fv_tensor *align(fv_ctx *ctx, void *self, const fv_token_pairs *batch)
{
    return fv_seq2seq_align(ctx, self, batch);
}

static fv_status stepper(void *self, const fv_token_pairs *sources, fv_stepper *out)
{
    return fv_seq2seq_stepper(self, sources, out);
}

static fv_status save(fv_ctx *ctx, const void *self, const char *folder)
{
    char path[FV_PATH_BYTES];
    FV_FORWARD(fv_path_join(ctx, path, folder, "config.json"));
    return fv_seq2seq_config_save(ctx, fv_seq2seq_settings(self), path);
}

static void destroy(void *self)
{
    fv_seq2seq *model = self;
    fv_seq2seq_destroy(&model);
}

fv_pair_model fv_seq2seq_pairs(fv_seq2seq *model)
{
    const bool attends = fv_seq2seq_settings(model)->decoder != FV_DECODER_FIXED;
    return (fv_pair_model){.self = model,
                           .loss = loss,
                           .align = attends ? align : NULL,
                           .stepper = stepper,
                           .save = save,
                           .destroy = destroy,
                           .get_numbers = fv_seq2seq_get_numbers,
                           .set_numbers = fv_seq2seq_set_numbers};
}
