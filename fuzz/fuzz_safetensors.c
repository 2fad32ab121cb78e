/* safetensors: opens, with and without checksums, and loads every tensor. */
#include <stdlib.h>

#include "fovea/file.h"
#include "fuzz.h"

static void load_all(fv_ctx *ctx, fv_safetensors *set)
{
    for (size_t i = 0; i < fv_safetensors_count(set); i++) {
        const fv_file_entry *e = fv_safetensors_entry(set, i);
        if (fv_safetensors_find(set, e->name) != e) abort();
        fv_tensor *t = fv_safetensors_load(ctx, set, e->name);
        fv_status s = fv_ctx_take_error(ctx);
        /* What opened without checksums and is of our types must load. */
        if (s == FV_OK && !fv_tensor_valid(t)) abort();
        if (s == FV_ERR_IO || s == FV_ERR_INDEX) abort();
    }
}

FUZZ_TARGET(data, bytes)
{
    static const unsigned flags[] = {FV_SAFETENSORS_COPY, FV_SAFETENSORS_VERIFY};
    fv_ctx *ctx = fuzz_context(data, bytes);
    for (int i = 0; i < 2; i++) {
        fv_safetensors *set = NULL;
        if (fv_safetensors_open(ctx, "input", flags[i], &set) != FV_OK) continue;
        fv_scope_begin(ctx);
        load_all(ctx, set);
        fv_scope_end(ctx);
        fv_safetensors_close(&set);
    }
    /* The same bytes as an index, which names itself as every shard. */
    fv_safetensors *set = NULL;
    if (fv_safetensors_open(ctx, "input.index.json", 0, &set) == FV_OK) fv_safetensors_close(&set);
    fuzz_check(ctx);
    return 0;
}
