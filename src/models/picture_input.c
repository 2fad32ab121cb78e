#include "models/picture_input.h"

#include "fovea/ops.h"
#include "tensor/tensor.h"

enum { MAX_SIDE = 4096, MAX_CHANNELS = 64, MAX_CLASSES = 1 << 20 };

fv_status fv_picture_input_read(fv_ctx *ctx, const char *kind, const fv_data_spec *spec,
                                fv_picture_input *out)
{
    FV_RETURN_IF(spec->ability != FV_CAN_CLASSIFY, ctx, FV_ERR_ARGUMENT,
                 "model.kind is %s: such a model can classify pictures, not %s", kind,
                 fv_ability_name(spec->ability));
    return fv_picture_input_sizes(ctx, kind, spec, out);
}

fv_status fv_picture_input_sizes(fv_ctx *ctx, const char *kind, const fv_data_spec *spec,
                                 fv_picture_input *out)
{
    const fv_picture_input in = {.channels = fv_data_spec_get(spec, "channels", 0),
                                 .height = fv_data_spec_get(spec, "height", 0),
                                 .width = fv_data_spec_get(spec, "width", 0),
                                 .classes = spec->label_count,
                                 .level = (double)fv_data_spec_get(spec, "level", 500) / 1000};
    FV_RETURN_IF(in.channels < 1 || in.height < 1 || in.width < 1 || in.channels > MAX_CHANNELS ||
                     in.height > MAX_SIDE || in.width > MAX_SIDE,
                 ctx, FV_ERR_ARGUMENT, "%s: pictures of %lld x %lld x %lld", kind,
                 (long long)in.channels, (long long)in.height, (long long)in.width);
    FV_RETURN_IF(in.classes < 2 || in.classes > MAX_CLASSES, ctx, FV_ERR_ARGUMENT,
                 "%s: %lld classes, expected two or more", kind, (long long)in.classes);
    *out = in;
    return FV_OK;
}

fv_tensor *fv_picture_input_tensor(fv_ctx *ctx, const fv_picture_input *in, const fv_batch *batch)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const fv_field *f = fv_batch_find(batch, "pixels");
    if (f && (f->dtype != FV_F32 || f->rank != 3 || f->length || f->shape[0] != in->channels ||
              f->shape[1] != in->height || f->shape[2] != in->width)) {
        fv_poison(ctx, FV_ERR_SHAPE, "the model reads pictures of %lld x %lld x %lld",
                  (long long)in->channels, (long long)in->height, (long long)in->width);
        return ctx->invalid;
    }
    return fv_affine(ctx, fv_batch_tensor(ctx, batch, "pixels", NULL), 2, -2 * in->level);
}

fv_tensor *fv_picture_input_loss(fv_ctx *ctx, const fv_batch *batch, fv_tensor *logits)
{
    fv_tensor *label = fv_batch_tensor(ctx, batch, "label", NULL);
    return fv_cross_entropy(ctx, logits, label, -1, 0, FV_REDUCTION_SUM);
}
