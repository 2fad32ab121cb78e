#include "drawing.h"

#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "output.h"

fv_status cli_samples_create(fv_model *model, int64_t count, cli_samples *out)
{
    const fv_data_spec *spec = fv_model_spec(model);
    cli_samples s = {.count = count,
                     .channels = fv_data_spec_get(spec, "channels", 0),
                     .height = fv_data_spec_get(spec, "height", 0),
                     .width = fv_data_spec_get(spec, "width", 0),
                     .noise_width = fv_data_spec_get(spec, "noise", 0)};
    *out = (cli_samples){0};
    if ((s.channels != 1 && s.channels != 3) || s.height < 1 || s.width < 1 || s.noise_width < 1)
        return fv_ctx_fail(fv_model_ctx(model), FV_ERR_UNSUPPORTED,
                           "a %s model does not make grey or colour pictures of noise",
                           fv_model_type(model));
    const size_t n = (size_t)count;
    s.noise = calloc(n * (size_t)s.noise_width, sizeof *s.noise);
    s.noise_row = calloc(n, sizeof *s.noise_row);
    s.label = spec->label_count > 0 ? calloc(n, sizeof *s.label) : NULL;
    s.label_row = calloc(n, sizeof *s.label_row);
    s.pixels = calloc(n * (size_t)(s.channels * s.height * s.width), sizeof *s.pixels);
    *out = s;
    if (!s.noise || !s.noise_row || !s.label_row || !s.pixels ||
        (spec->label_count > 0 && !s.label))
        return fv_ctx_fail(fv_model_ctx(model), FV_ERR_MEMORY, "out of memory");
    for (int64_t i = 0; i < count; i++) {
        s.noise_row[i] = s.noise + i * s.noise_width;
        if (s.label) s.label_row[i] = s.label + i;
    }
    fv_batch_init(&out->batch, count);
    fv_batch_add(&out->batch, (fv_field){.name = "noise",
                                         .dtype = FV_F32,
                                         .rank = 1,
                                         .shape = {s.noise_width},
                                         .row = s.noise_row});
    if (s.label)
        fv_batch_add(&out->batch, (fv_field){.name = "label", .dtype = FV_I64, .row = s.label_row});
    return FV_OK;
}

void cli_samples_free(cli_samples *s)
{
    free(s->noise);
    free(s->noise_row);
    free(s->label);
    free(s->label_row);
    free(s->pixels);
    *s = (cli_samples){0};
}

fv_status cli_samples_noise(fv_model *model, int64_t seed, int64_t count, float *out)
{
    fv_ctx *ctx = fv_model_ctx(model);
    const int64_t width = fv_data_spec_get(fv_model_spec(model), "noise", 0);
    fv_ctx_set_seed(ctx, (uint64_t)seed);
    fv_ctx_set_step(ctx, 0, 0);
    fv_scope_begin(ctx);
    fv_tensor *noise = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){count, width}, 0, 1);
    const fv_status status = fv_tensor_read(ctx, noise, out, (size_t)(count * width) * sizeof *out);
    fv_scope_end(ctx);
    return status;
}

fv_status cli_samples_draw(fv_model *model, cli_samples *s)
{
    fv_ctx *ctx = fv_model_ctx(model);
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *x = fv_model_kind_of(model)->draw(ctx, fv_model_self(model), s->count, &s->batch);
    const fv_status status =
        fv_tensor_read(ctx, x, s->pixels,
                       (size_t)(s->count * s->channels * s->height * s->width) * sizeof *s->pixels);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

/* The class of a name of `length` bytes, or of a number from 0; -1: there is none. */
static int64_t find_class(const fv_data_spec *spec, const char *name, size_t length)
{
    char *end = NULL;
    for (int64_t i = 0; i < spec->label_count; i++)
        if (strlen(spec->labels[i]) == length && memcmp(spec->labels[i], name, length) == 0)
            return i;
    const long long number = strtoll(name, &end, 10);
    const bool is_number = length > 0 && end == name + length && *name != '-' && *name != '+';
    return is_number && number < spec->label_count ? number : -1;
}

int64_t cli_read_classes(const cli_call *call, const fv_model *model, int64_t *list)
{
    const fv_data_spec *spec = fv_model_spec(model);
    const char *verb = call->verb->name, *text = cli_text(call, "class");
    int64_t count = 0;
    if (!text)
        for (; count < spec->label_count && count < CLI_CLASSES; count++)
            list[count] = count;
    if (text && spec->label_count == 0) {
        cli_error("%s: --class %s: this model has no classes", verb, text);
        return -1;
    }
    while (text) {
        const size_t length = strcspn(text, ",");
        const int64_t found = find_class(spec, text, length);
        if (found < 0 || count == CLI_CLASSES) {
            cli_error("%s: --class %.*s: expected one of the model's %lld classes, such as %s",
                      verb, (int)(length < 60 ? length : 60), text, (long long)spec->label_count,
                      spec->labels[0]);
            return -1;
        }
        list[count++] = found;
        text = text[length] ? text + length + 1 : NULL;
    }
    return count;
}
