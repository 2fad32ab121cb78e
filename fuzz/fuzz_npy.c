/* npy and npz: opens and loads every array. */
#include <stdlib.h>

#include "fovea/file.h"
#include "fuzz.h"

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    fv_npy *npy = NULL;
    if (fv_npy_open(ctx, "input", &npy) == FV_OK) {
        fv_scope_begin(ctx);
        for (size_t i = 0; i < fv_npy_count(npy); i++) {
            const fv_file_entry *e = fv_npy_entry(npy, i);
            fv_tensor *t = fv_npy_load(ctx, npy, e->name);
            fv_status s = fv_ctx_take_error(ctx);
            if (s == FV_OK && !fv_tensor_valid(t)) abort();
            if (s == FV_ERR_IO || s == FV_ERR_INDEX) abort();
        }
        fv_scope_end(ctx);
        fv_npy_close(&npy);
    }
    fuzz_check(ctx);
    return 0;
}
