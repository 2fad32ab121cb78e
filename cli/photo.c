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
              *small = fv_picture_floats(ctx, bytes, shape[1], shape[2]);
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

static fv_status read_classes(fv_model *model, const cli_photo *photo, int64_t count, float *p,
                              int64_t *order)
{
    fv_ctx *ctx = fv_model_ctx(model);
    fv_tensor *index = NULL;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *all = fv_softmax(ctx, fv_model_classify(model, &photo->batch, NULL), -1);
    fv_tensor *best = fv_topk(ctx, all, count, &index);
    fv_status status = fv_tensor_read(ctx, best, p, (size_t)count * sizeof *p);
    if (status == FV_OK) status = fv_tensor_read(ctx, index, order, (size_t)count * sizeof *order);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

int64_t cli_classify_photo(fv_model *model, const cli_photo *photo, cli_class *out, int64_t room,
                           fv_status *status)
{
    enum { MOST = 1000 };
    float p[MOST];
    int64_t order[MOST];
    const fv_data_spec *spec = fv_model_spec(model);
    int64_t count = spec->label_count < room ? spec->label_count : room;
    if (count > MOST) count = MOST;
    *status = read_classes(model, photo, count, p, order);
    if (*status != FV_OK) return 0;
    for (int64_t i = 0; i < count; i++)
        out[i] = (cli_class){.number = order[i], .label = spec->labels[order[i]], .p = p[i]};
    return count;
}

static void print_json(const char *file, const cli_class *list, int64_t count)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", file);
    cli_json_int(&j, "class", list[0].number);
    cli_json_text(&j, "label", list[0].label);
    cli_json_open(&j, "classes", '[');
    for (int64_t i = 0; i < count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "label", list[i].label);
        cli_json_real(&j, "p", list[i].p);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

int cli_run_photo_classes(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file)
{
    enum { SHOWN = 3, MOST = 100 };
    cli_class list[MOST];
    cli_photo photo;
    int64_t shown = cli_given(call, "top-k") ? cli_int(call, "top-k") : SHOWN, count = 0;
    if (shown < 1 || shown > MOST) shown = MOST;
    fv_status status = cli_photo_open(call, model, file, &photo);
    if (status == FV_OK) count = cli_classify_photo(model, &photo, list, shown, &status);
    for (int64_t i = 0; i < count && !cli_flag(call, "json"); i++) {
        cli_safe_text(stdout, list[i].label);
        printf("\t%.4f\t", list[i].p);
        cli_safe_text(stdout, file);
        printf("\n");
    }
    if (count > 0 && cli_flag(call, "json")) print_json(file, list, count);
    cli_photo_close(&photo);
    return status == FV_OK ? CLI_DONE : cli_library_error("run", ctx, status);
}
