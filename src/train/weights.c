/* A parameter set to and from a file. */
#include "fovea/train.h"
#include "train/named.h"

static fv_status list_of(const fv_params *params, fv_named *out)
{
    FV_FORWARD(fv_named_begin(params->ctx, (size_t)params->count, out));
    fv_named_add_params(out, "", params);
    return FV_OK;
}

fv_status fv_params_save(fv_params *params, const char *path)
{
    fv_named list;
    FV_FORWARD(list_of(params, &list));
    const fv_file_note note = {"format", "pt"}; /* what other readers look for */
    fv_status status = fv_named_save(&list, path, &note, 1);
    fv_named_end(&list);
    return status;
}

fv_status fv_params_load(fv_params *params, const char *path)
{
    fv_safetensors *file = NULL;
    FV_FORWARD(fv_safetensors_open(params->ctx, path, FV_SAFETENSORS_COPY, &file));
    fv_named list;
    fv_status status = list_of(params, &list);
    if (status == FV_OK) {
        status = fv_named_check(&list, file, true);
        if (status == FV_OK) status = fv_named_read(&list, file);
        fv_named_end(&list);
    }
    fv_safetensors_close(&file);
    return status;
}
