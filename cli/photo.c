/* Pictures as models read them, and 'fovea run' of classifiers of pictures. */
#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/image.h"
#include "fovea/ops.h"
#include "input.h"
#include "media.h"
#include "output.h"

static int64_t number(const fv_model *model, const char *name, int64_t fallback)
{
    return fv_data_spec_get(fv_model_spec(model), name, fallback);
}

/* ---- reading -------------------------------------------------------------------------------- */

void cli_photo_close(cli_photo *photo)
{
    free(photo->pixels);
    free(photo->input);
    *photo = (cli_photo){0};
}

/* A tensor's floats in memory of their own. */
static fv_status read_floats(fv_ctx *ctx, fv_tensor *t, float **out)
{
    if (fv_ctx_error(ctx) != FV_OK) return fv_ctx_error(ctx);
    const size_t bytes = (size_t)fv_tensor_count(t) * sizeof **out;
    *out = malloc(bytes);
    if (!*out) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    return fv_tensor_read(ctx, t, *out, bytes);
}

static double mean_of(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i];
    return sum / (double)count;
}

/* Ink on paper given to a model of light on dark is read wrongly without any error. */
static void note_level(const cli_call *call, const fv_model *model, const char *path, double mean)
{
    const double level = (double)number(model, "level", -1) / 1000;
    const bool light = mean > 0.65 && level < 0.35, dark = mean < 0.35 && level > 0.65;
    if (level >= 0 && (light || dark))
        cli_note("%s: %s is %s, the model's training pictures were %s: try --invert",
                 call->verb->name, path, light ? "light" : "dark", light ? "dark" : "light");
}

static fv_status read_photo(const cli_call *call, fv_model *model, const char *path, cli_photo *out)
{
    fv_ctx *ctx = fv_model_ctx(model);
    const int64_t shape[3] = {number(model, "channels", 1), number(model, "height", 1),
                              number(model, "width", 1)};
    fv_tensor *bytes = fv_picture_load(ctx, path, shape[0] == 1 ? 1 : 3);
    fv_tensor *whole = fv_picture_floats(ctx, bytes, 0, 0),
              *small = fv_picture_resize(ctx, whole, shape[1], shape[2]);
    if (cli_flag(call, "invert")) small = fv_affine(ctx, small, -1, 1);
    fv_status status = read_floats(ctx, whole, &out->pixels);
    if (status == FV_OK) status = read_floats(ctx, small, &out->input);
    if (status != FV_OK) return status;
    out->channels = fv_tensor_size(whole, 0);
    out->height = fv_tensor_size(whole, 1);
    out->width = fv_tensor_size(whole, 2);
    out->row = out->input;
    fv_batch_init(&out->batch, 1);
    fv_batch_add(&out->batch, (fv_field){.name = "pixels",
                                         .dtype = FV_F32,
                                         .rank = 3,
                                         .shape = {shape[0], shape[1], shape[2]},
                                         .row = &out->row});
    note_level(call, model, path, mean_of(out->input, shape[0] * shape[1] * shape[2]));
    return FV_OK;
}

fv_status cli_photo_open(const cli_call *call, fv_model *model, const char *path, cli_photo *out)
{
    fv_ctx *ctx = fv_model_ctx(model);
    *out = (cli_photo){0};
    fv_scope_begin(ctx);
    const fv_status status = read_photo(call, model, path, out);
    fv_scope_end(ctx);
    return status;
}

/* ---- classes -------------------------------------------------------------------------------- */

int cli_run_photo_classes(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file)
{
    cli_photo photo;
    fv_status status = cli_photo_open(call, model, file, &photo);
    if (status == FV_OK) status = cli_print_classes(call, model, file, &photo.batch);
    cli_photo_close(&photo);
    return status == FV_OK ? CLI_DONE : cli_library_error("run", ctx, status);
}
