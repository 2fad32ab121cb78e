/* Saves and loads parameter sets. */
#include "fovea/train.h"
#include "io/named.h"

/* A packed-only weight has no memory to view; it is passed unchanged, and reading or writing it
 * fails.
 */
static fv_tensor *transposed_view(fv_ctx *ctx, fv_tensor *t)
{
    if (t->flags & FV_TENSOR_RELEASED) return t;
    const int64_t shape[] = {t->shape[1], t->shape[0]}, stride[] = {t->stride[1], t->stride[0]};
    return fv_tensor_view(ctx, t, 2, shape, stride, 0);
}

/* Views of the parameters in the layout of the file, in the innermost scope. */
static fv_status list_of(const fv_params *params, fv_named *out)
{
    fv_ctx *ctx = params->ctx;
    FV_TRY(fv_named_begin(ctx, (size_t)params->count, out));
    for (int i = 0; i < params->count; i++) {
        const fv_param *p = &params->items[i];
        fv_named_add(out, "", p->name, p->transposed ? transposed_view(ctx, p->tensor) : p->tensor);
    }
    if (ctx->error != FV_OK) fv_named_end(out);
    return ctx->error;
}

static fv_status save(fv_params *params, const char *path)
{
    fv_named list;
    FV_TRY(list_of(params, &list));
    const fv_file_metadata note = {"format", "pt"}; /* other readers expect it */
    fv_status status = fv_named_save(&list, path, &note, 1);
    fv_named_end(&list);
    return status;
}

fv_status fv_params_save(fv_params *params, const char *path)
{
    fv_scope_begin(params->ctx);
    const fv_status status = save(params, path);
    fv_scope_end(params->ctx);
    return status;
}

static fv_status load(fv_params *params, fv_safetensors *file)
{
    fv_named list;
    FV_TRY(list_of(params, &list));
    fv_status status = fv_named_check(&list, file, true);
    if (status == FV_OK) status = fv_named_read(&list, file);
    fv_named_end(&list);
    return status;
}

fv_status fv_params_load(fv_params *params, const char *path)
{
    fv_safetensors *file = NULL;
    FV_TRY(fv_safetensors_open(params->ctx, path, FV_SAFETENSORS_CHECK, &file));
    fv_scope_begin(params->ctx);
    const fv_status status = load(params, file);
    fv_scope_end(params->ctx);
    fv_safetensors_close(&file);
    return status;
}
