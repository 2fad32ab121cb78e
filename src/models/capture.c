/*
 * Calls the capture's callback with the attention weights of a site. A site is one attention layer
 * of a model, e.g. encoder.3.self; patterns say which ones are wanted.
 */
#include "models/capture.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"

/* Whether `name` matches the first pattern of a comma-separated list; '*' matches any bytes. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL;     /* the last star of the pattern so far */
    const char *star_end = NULL; /* where the text matched by that star ends */
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            star_end = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++star_end;
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
    if (!capture->sites) return true; /* NULL: all sites */
    for (const char *p = capture->sites; p; p = strchr(p, ',')) {
        if (*p == ',') p++;
        if (matches(p, site)) return true;
    }
    return false;
}

/* The number in "encoder.3.self"; 0 if there is none. */
static int64_t layer_of(const char *site)
{
    const char *dot = strchr(site, '.');
    return dot ? strtoll(dot + 1, NULL, 10) : 0;
}

void fv_capture_report(fv_ctx *ctx, const fv_capture *capture, const char *site,
                       const fv_attention_captured *captured)
{
    if (ctx->error != FV_OK || !fv_capture_wants(capture, site)) return;
    const fv_site_weights weights = {.name = site,
                                     .encoder = strncmp(site, "encoder", 7) == 0,
                                     .cross = strstr(site, ".cross") != NULL,
                                     .layer = layer_of(site),
                                     .captured = *captured};
    const fv_status status = capture->on_weights(capture->user, ctx, &weights);
    if (status != FV_OK && ctx->error == FV_OK) fv_make_last_failure_sticky(ctx, status);
}

void fv_capture_give(fv_ctx *ctx, const fv_pass *pass, const char *site, fv_tensor *weights)
{
    if (ctx->error != FV_OK || !pass || !fv_capture_wants(pass->capture, site)) return;
    const fv_attention_captured captured = {.heads = fv_tensor_size(weights, 1),
                                            .n_q = fv_tensor_size(weights, 2),
                                            .n_k = fv_tensor_size(weights, 3),
                                            .weights = weights};
    fv_capture_report(ctx, pass->capture, site, &captured);
}
