/* Matches names of attention sites against patterns and passes weights to the capture. */
#include <string.h>

#include "fovea/batch.h"
#include "tensor/tensor.h"

/* Whether a pattern, up to its comma, is the name; '*' stands for any bytes. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL, *back = NULL; /* the last star, and where its part of the name ends */
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            back = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++back;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0' || *pattern == ',';
}

bool fv_capture_wants(const fv_capture *capture, const char *site)
{
    if (!capture) return false;
    for (const char *p = capture->sites; p; p = strchr(p, ',')) {
        if (*p == ',') p++;
        if (matches(p, site)) return true;
    }
    return capture->sites == NULL;
}

void fv_capture_give(fv_ctx *ctx, const fv_pass *pass, const char *site, fv_tensor *weights)
{
    if (ctx->error != FV_OK || !pass || !fv_capture_wants(pass->capture, site)) return;
    const fv_site_weights shown = {.name = site,
                                   .encoder = strncmp(site, "encoder", 7) == 0,
                                   .cross = strstr(site, ".cross") != NULL,
                                   .captured = {.heads = fv_tensor_size(weights, 1),
                                                .n_q = fv_tensor_size(weights, 2),
                                                .n_k = fv_tensor_size(weights, 3),
                                                .weights = weights}};
    const fv_status status = pass->capture->on_weights(pass->capture->user, ctx, &shown);
    if (status != FV_OK && ctx->error == FV_OK) fv_poison_last(ctx, status);
}
