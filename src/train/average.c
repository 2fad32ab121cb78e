/* The mean of several states' weights. It is summed in double, oldest state first. */
#include "io/named.h"
#include "train/state.h"

/* sum += the weights of one state, in double on the host. */
static fv_status add_weights(const fv_named *list, fv_safetensors *file, double *sum)
{
    fv_ctx *ctx = list->ctx;
    FV_TRY(fv_named_check(list, file, false));
    for (size_t i = 0; i < list->count; i++) {
        const fv_file_entry *entry = fv_safetensors_find(file, list->name[i]);
        const size_t bytes = (size_t)entry->bytes, n = (size_t)list->tensor[i]->count;
        void *room = fv_mem_alloc(&ctx->mem, bytes);
        FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory to average weights");
        fv_status status = fv_safetensors_read(file, entry, 0, room, bytes);
        for (size_t j = 0; status == FV_OK && j < n; j++)
            sum[j] += entry->dtype == FV_F64 ? ((double *)room)[j] : (double)((float *)room)[j];
        fv_mem_free(&ctx->mem, room, bytes);
        FV_TRY(status);
        sum += n;
    }
    return FV_OK;
}

static fv_status write_mean(const fv_named *list, const double *sum, double states)
{
    fv_ctx *ctx = list->ctx;
    for (size_t i = 0; i < list->count; i++) {
        fv_tensor *t = list->tensor[i];
        const size_t n = (size_t)t->count, bytes = n * fv_dtype_size(t->dtype);
        void *room = fv_mem_alloc(&ctx->mem, bytes);
        FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory to average weights");
        for (size_t j = 0; j < n; j++) {
            if (t->dtype == FV_F64)
                ((double *)room)[j] = sum[j] / states;
            else
                ((float *)room)[j] = (float)(sum[j] / states);
        }
        fv_status status = fv_tensor_write(ctx, t, room, bytes);
        fv_mem_free(&ctx->mem, room, bytes);
        FV_TRY(status);
        sum += n;
    }
    return FV_OK;
}

static fv_status sum_states(const fv_named *weights, const char *folder, const fv_state_list *list,
                            size_t first, double *sum)
{
    fv_ctx *ctx = weights->ctx;
    for (size_t i = first; i < list->count; i++) {
        char path[FV_PATH_BYTES];
        FV_TRY(fv_state_file(ctx, path, folder, list->step[i]));
        fv_safetensors *file = NULL;
        FV_TRY(fv_safetensors_open(ctx, path, FV_SAFETENSORS_COPY | FV_SAFETENSORS_VERIFY, &file));
        fv_status status = add_weights(weights, file, sum);
        fv_safetensors_close(&file);
        FV_TRY(status);
    }
    return FV_OK;
}

fv_status fv_params_average(fv_params *params, const char *folder, int count)
{
    fv_ctx *ctx = params->ctx;
    fv_state_list list;
    FV_TRY(fv_state_list_read(ctx, folder, &list));
    FV_RETURN_IF(count < 1, ctx, FV_ERR_ARGUMENT, "averaging needs at least one state");
    FV_RETURN_IF(list.count == 0, ctx, FV_ERR_IO, "%.150s: no states to average", folder);
    const size_t first = list.count > (size_t)count ? list.count - (size_t)count : 0;
    fv_named weights;
    FV_TRY(fv_named_begin(ctx, (size_t)params->count, &weights));
    for (int i = 0; i < params->count; i++)
        if (!params->items[i].buffer)
            fv_named_add(&weights, "model.", params->items[i].name, params->items[i].tensor);
    const size_t bytes = (size_t)fv_params_elements(params) * sizeof(double);
    double *sum = fv_mem_zalloc(&ctx->mem, bytes);
    fv_status status = FV_OK;
    if (!sum) status = fv_fail(ctx, FV_ERR_MEMORY, "no memory to average weights");
    if (status == FV_OK) status = sum_states(&weights, folder, &list, first, sum);
    if (status == FV_OK) status = write_mean(&weights, sum, (double)(list.count - first));
    if (sum) fv_mem_free(&ctx->mem, sum, bytes);
    fv_named_end(&weights);
    return status;
}
