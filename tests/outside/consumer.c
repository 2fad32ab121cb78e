/* A program outside the project: builds against an installed Fovea and uses it a little. */
#include <fovea/context.h>
#include <fovea/tensor.h>

#include <stdio.h>

int main(void)
{
    fv_ctx *ctx = NULL;
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;

    fv_tensor *t = fv_full(ctx, FV_F32, 2, (int64_t[]){2, 3}, 1.5);
    float out[6] = {0};
    fv_status status = fv_tensor_read(ctx, t, out, sizeof out);
    if (status != FV_OK) fprintf(stderr, "%s: %s\n", fv_status_name(status), fv_ctx_message(ctx));
    fv_ctx_destroy(&ctx);
    if (status != FV_OK || ctx) return 1;

    for (int i = 0; i < 6; i++)
        if (out[i] != 1.5f) return 1;
    puts("outside: six times 1.5");
    return 0;
}
