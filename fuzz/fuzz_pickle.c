/*
 * Weights of torch.save. An input that begins as an archive or as a file of the older form is
 * opened as weights, and every tensor is loaded; any other is run as a pickle, so that the search
 * need not find its way through the archive first. Checksums are not verified for the same reason.
 * What the tensors have in bytes is bounded by the input's length.
 */
#include <stdlib.h>
#include <string.h>

#include "fovea/file.h"
#include "fuzz.h"
#include "io/pickle.h"

static void check_tensor(const fv_pickle_tensor *t)
{
    int64_t last = t->offset;
    bool empty = false;
    if (t->rank < 0 || t->rank > FV_MAX_RANK || t->offset < 0) abort();
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0 || t->stride[i] < 0) abort();
        empty = empty || t->shape[i] == 0;
    }
    for (int i = 0; i < t->rank && !empty; i++)
        last += (t->shape[i] - 1) * t->stride[i];
    if (!empty && last >= t->storage_count) abort();
}

static void run_pickle(fv_ctx *ctx, const char *data, size_t bytes)
{
    fv_pickle *p = NULL;
    fv_arena arena;
    fv_pickle_tensor *tensors = NULL;
    fv_pickle_text *strings = NULL;
    size_t count = 0;
    uint32_t root = 0;
    const double began = fuzz_clock();
    fv_arena_init(&arena, &ctx->mem);
    fv_status s = fv_pickle_create(ctx, "input", data, bytes, &p);
    /* A file of the older form has several pickles in a row. */
    for (int i = 0; i < 4 && s == FV_OK; i++) {
        s = fv_pickle_run(p, &root);
        if (s == FV_OK && fv_pickle_tensors(p, root, &arena, &tensors, &count) == FV_OK)
            for (size_t k = 0; k < count; k++)
                check_tensor(&tensors[k]);
        if (s == FV_OK && fv_pickle_strings(p, root, &arena, &strings, &count) != FV_OK) count = 0;
    }
    fuzz_bound("pickle", s, count, bytes, began);
    fv_pickle_free(&p);
    fv_arena_free(&arena);
}

static void load_all(fv_ctx *ctx, fv_safetensors *set, size_t bytes)
{
    uint64_t total = 0;
    const double began = fuzz_clock();
    for (size_t i = 0; i < fv_safetensors_count(set); i++) {
        const fv_file_entry *e = fv_safetensors_entry(set, i);
        if (fv_safetensors_find(set, e->name) != e) abort();
        if (e->offset > bytes || (e->bytes > 0 && e->offset == bytes)) abort();
        total += e->bytes;
        if (!e->loadable) continue;
        fv_scope_begin(ctx);
        const bool valid = fv_tensor_valid(fv_safetensors_load(ctx, set, e->name));
        fv_scope_end(ctx);
        if (fv_ctx_take_error(ctx) != FV_OK || !valid) abort();
    }
    fuzz_bound("tensors", FV_OK, (size_t)total, bytes * ctx->limits.decompressed_ratio, began);
}

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    fv_safetensors *set = NULL;
    if (bytes >= 4 &&
        (memcmp(data, "PK\3\4", 4) == 0 || memcmp(data, "\x80\x02\x8A\x0A", 4) == 0)) {
        const fv_status s = fv_safetensors_open(ctx, "input", FV_SAFETENSORS_COPY, &set);
        if (s == FV_ERR_MEMORY || s == FV_ERR_IO) abort();
        if (s == FV_OK) load_all(ctx, set, bytes);
        fv_safetensors_close(&set);
    } else {
        run_pickle(ctx, (const char *)data, bytes);
    }
    fuzz_check(ctx);
    return 0;
}
