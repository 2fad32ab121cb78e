#include "train/init_from.h"

#include <stdio.h>
#include <string.h>

#include "fovea/model.h"
#include "io/file.h"
#include "tensor/tensor.h"

static fv_status copy(fv_ctx *ctx, fv_tensor *from, fv_tensor *to)
{
    const size_t bytes = (size_t)fv_tensor_count(from) * sizeof(float);
    void *room = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory to load weights");
    fv_status status = fv_tensor_read(ctx, from, room, bytes);
    if (status == FV_OK) status = fv_tensor_write(ctx, to, room, bytes);
    fv_mem_free(&ctx->mem, room, bytes);
    return status;
}

static bool fits(const fv_tensor *a, const fv_tensor *b)
{
    return a->dtype == FV_F32 && b->dtype == FV_F32 && a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

/* Names are listed while there is room for them whole. */
static void list_random(fv_init_report *t, const char *name)
{
    const size_t used = strlen(t->names), need = strlen(name) + 2;
    t->random++;
    if (used + need < sizeof t->names)
        snprintf(t->names + used, sizeof t->names - used, "%s%s", used ? ", " : "", name);
    else
        t->names_truncated = true;
}

static fv_status load_all(fv_ctx *ctx, fv_params *params, const fv_params *from,
                          fv_init_report *loaded)
{
    for (int i = 0; i < fv_params_count(params); i++) {
        const char *name = fv_params_name(params, i);
        fv_tensor *to = fv_params_tensor(params, i), *source = fv_params_find(from, name);
        if (source && fits(source, to)) {
            FV_TRY(copy(ctx, source, to));
            loaded->loaded++;
        } else {
            list_random(loaded, name);
        }
    }
    return FV_OK;
}

fv_status fv_init_from(fv_ctx *ctx, const char *run_folder, const char *folder, fv_params *params,
                       fv_init_report *loaded)
{
    char states[FV_PATH_BYTES];
    FV_TRY(fv_path_join(ctx, states, run_folder, "states.json"));
    if (!*folder || fv_file_exists(ctx, states)) return FV_OK;
    fv_model *model = NULL;
    FV_TRY(fv_model_open(ctx, folder, &model));
    const fv_status status = load_all(ctx, params, fv_model_params(model), loaded);
    fv_model_close(&model);
    FV_TRY(status);
    FV_RETURN_IF(loaded->loaded == 0, ctx, FV_ERR_ARGUMENT,
                 "train.init_from: no weight of %.150s has a name and shape of this model", folder);
    return FV_OK;
}
