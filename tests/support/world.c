#include "support/world.h"

static int marker;

fv_tensor *world_manhattan(fv_ctx *ctx, void *user, fv_tensor *q, fv_tensor *k)
{
    CHECK(user == &marker);
    k = fv_concat(ctx, 2, (fv_tensor *[]){k, k}, 2); /* [b, g, 2 nk, d]: heads 2g and 2g + 1 */
    k = fv_reshape(ctx, k, 4, (int64_t[]){B, H, NK, D});
    fv_tensor *d = fv_sub(ctx, fv_unsqueeze(ctx, q, -2), fv_unsqueeze(ctx, k, -3));
    return fv_neg(ctx, fv_sum(ctx, fv_abs(ctx, d), 1, (int[]){-1}, false));
}

world *world_new(void)
{
    world *w = calloc(1, sizeof *w);
    w->ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU);
    double *all = &w->q[0][0][0][0];
    const size_t n = (offsetof(world, visible) - offsetof(world, q)) / sizeof(double);
    fv_tensor *random = fv_rand_normal(w->ctx, FV_F64, 1, (int64_t[]){(int64_t)n}, 0, 1);
    CHECK_OK(w->ctx, fv_tensor_read(w->ctx, random, all, n * sizeof(double)));
    for (int h = 0; h < H; h++) {
        w->heat[h] = 0.5 + fabs(w->heat[h]);
        w->slopes[h] = -fabs(w->slopes[h]);
    }
    for (int i = 0; i < B * NQ * NK; i++)
        (&w->visible[0][0][0][0])[i] = (uint8_t)(i * 7 % 5 != 0);
    w->key_lengths[0] = NK;
    w->key_lengths[1] = 4;
    return w;
}

void world_free(world *w)
{
    CHECK_OK(w->ctx, fv_ctx_error(w->ctx));
    fv_ctx_destroy(&w->ctx);
    free(w);
}

fv_tensor *world_tensor(world *w, const void *data, int rank, const int64_t *shape)
{
    return fv_from_host(w->ctx, FV_F64, rank, shape, data);
}
fv_attention_input world_basic(world *w)
{
    return (fv_attention_input){.q = REALS(w, q, B, H, NQ, D),
                                .k = REALS(w, k, B, G, NK, D),
                                .v = REALS(w, v, B, G, NK, DV)};
}

fv_attention world_described(fv_attention_score score)
{
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = score;
    how.score_fn = world_manhattan;
    how.score_user = &marker;
    return how;
}

double *world_read(world *w, fv_tensor *t)
{
    const size_t bytes = (size_t)fv_tensor_count(t) * sizeof(double);
    double *x = calloc(1, bytes + 8);
    CHECK_OK(w->ctx, fv_tensor_read(w->ctx, t, x, bytes));
    return x;
}
