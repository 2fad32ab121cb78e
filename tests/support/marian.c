#include "support/marian.h"

#include "fovea/file.h"
#include "fovea/layers.h"
#include "fovea/ops.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/values.h"

bool marian_with_positions(char folder[256])
{
    enum { MOST = 128 };
    const char *names[MOST];
    fv_tensor *tensors[MOST];
    size_t n = 0, bytes = 0;
    fv_ctx *ctx = values_begin();
    fv_safetensors *file = NULL;
    CHECK_OK(ctx,
             fv_safetensors_open(ctx, test_path("fixtures/marian/model.safetensors"), 0, &file));
    for (; file && n < fv_safetensors_count(file) && n < MOST - 2; n++) {
        names[n] = fv_safetensors_entry(file, n)->name;
        tensors[n] = fv_safetensors_load(ctx, file, names[n]);
    }
    fv_tensor *table = fv_sinusoid(ctx, FV_F32, 0, 64, 64, 10000, FV_SINUSOID_HALVES);
    for (int side = 0; side < 2; side++) {
        names[n] =
            side ? "model.decoder.embed_positions.weight" : "model.encoder.embed_positions.weight";
        tensors[n++] = fv_scale(ctx, table, 6);
    }
    snprintf(folder, 256, "%s", folder_sub("marian"));
    CHECK_OK(ctx, fv_safetensors_save(ctx, names, tensors, n, NULL, 0,
                                      folder_path("marian/model.safetensors")));
    void *config = file_read(test_path("fixtures/marian/config.json"), &bytes);
    file_write(folder_path("marian/config.json"), config, bytes);
    free(config);
    fv_safetensors_close(&file);
    values_end(&ctx);
    return test_failures() == 0;
}
