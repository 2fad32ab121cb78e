/* Pictures as floats, and random changes of them. */
#include "base/rng.h"
#include "fovea/image.h"
#include "tensor/host_table.h"
#include "tensor/tensor.h"

static fv_tensor *refuse(fv_ctx *ctx, const char *who, const fv_tensor *x, const char *expected)
{
    char text[FV_SHAPE_TEXT];
    fv_poison(ctx, FV_ERR_SHAPE, "%s: x has shape %s, expected %s", who,
              fv_shape_text(text, x->rank, x->shape), expected);
    return ctx->invalid;
}

fv_tensor *fv_picture_floats(fv_ctx *ctx, fv_tensor *pixels, int64_t height, int64_t width)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (pixels->rank != 3 || pixels->dtype != FV_U8)
        return refuse(ctx, "picture_floats", pixels, "u8 [height, width, channels]");
    if (height == 0) height = pixels->shape[0];
    if (width == 0) width = pixels->shape[1];
    fv_tensor *x = fv_permute(ctx, pixels, (int[]){2, 0, 1});
    x = fv_scale(ctx, fv_cast(ctx, x, FV_F32), 1.0 / 255.0);
    if (height == pixels->shape[0] && width == pixels->shape[1]) return x;
    x = fv_unsqueeze(ctx, x, 0);
    const bool shrinks = 2 * height <= pixels->shape[0] && 2 * width <= pixels->shape[1];
    x = shrinks ? fv_adaptive_avg_pool2d(ctx, x, height, width)
                : fv_resize_bilinear(ctx, x, height, width, false);
    return fv_squeeze(ctx, x, 0);
}

/* The numbers of one picture: up to eight, each in [0, 1). The site is one that no op reaches by
 * counting, so that what a step computes before does not matter. */
enum { DRAW_DOWN, DRAW_RIGHT, DRAW_FLIP, DRAW_BRIGHTNESS, DRAW_CONTRAST, DRAWS = 8 };

static void draw(const fv_ctx *ctx, uint64_t row, double out[DRAWS])
{
    const uint64_t site = UINT64_C(1) << 63;
    const uint64_t key = fv_rng_key(ctx->seed, ctx->step, site);
    for (uint64_t block = 0; block < DRAWS / 4; block++) {
        uint32_t word[4];
        fv_rng_draw(key, row, block, word);
        for (int i = 0; i < 4; i++)
            out[block * 4 + (uint64_t)i] = (double)fv_rng_unit(word[i]);
    }
}

/* x moved along one axis: element i becomes element i + by, zeros come in. */
static fv_tensor *move(fv_ctx *ctx, fv_tensor *x, int axis, int64_t by)
{
    if (by == 0 || ctx->error != FV_OK) return x;
    const int64_t n = x->shape[axis], size = by < 0 ? -by : by;
    int64_t before[FV_MAX_RANK] = {0}, after[FV_MAX_RANK] = {0};
    (by > 0 ? before : after)[axis] = size;
    fv_tensor *padded = fv_pad(ctx, x, before, after, 0);
    return by > 0 ? fv_slice(ctx, padded, axis, 0, n, 1)
                  : fv_slice(ctx, padded, axis, size, size + n, 1);
}

static fv_tensor *mirror(fv_ctx *ctx, fv_tensor *x)
{
    if (ctx->error != FV_OK || x->count == 0) return x;
    const int64_t width = x->shape[2];
    int64_t *index = fv_host_alloc(ctx, FV_I64, 1, &width);
    for (int64_t i = 0; index && i < width; i++)
        index[i] = width - 1 - i;
    fv_tensor *order = fv_host_tensor(ctx, FV_I64, index, 1, &width, FV_I64);
    return fv_index_select(ctx, x, order, 2);
}

/* mean + f (x - mean), f in 1 - range .. 1 + range */
static fv_tensor *change_contrast(fv_ctx *ctx, fv_tensor *x, double range, double unit)
{
    const double f = 1 + range * (2 * unit - 1);
    fv_tensor *mean = fv_mean(ctx, x, 0, NULL, false);
    return fv_add(ctx, fv_scale(ctx, x, f), fv_scale(ctx, mean, 1 - f));
}

/* unit in [0, 1) as a whole number in -range .. range */
static int64_t offset_of(double unit, int64_t range)
{
    return (int64_t)(unit * (double)(2 * range + 1)) - range;
}

fv_tensor *fv_picture_augment(fv_ctx *ctx, fv_tensor *x, const fv_augment *how, uint64_t row)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (x->rank != 3) return refuse(ctx, "picture_augment", x, "[channels, height, width]");
    const double b = how->brightness, c = how->contrast;
    if (how->shift < 0 || how->shift > (1 << 20) || !(b >= 0 && b < 1) || !(c >= 0 && c < 1)) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "picture_augment: shift %lld, brightness %g, contrast %g",
                  (long long)how->shift, b, c);
        return ctx->invalid;
    }
    double unit[DRAWS];
    draw(ctx, row, unit);
    x = move(ctx, x, 1, offset_of(unit[DRAW_DOWN], how->shift));
    x = move(ctx, x, 2, offset_of(unit[DRAW_RIGHT], how->shift));
    if (how->flip && unit[DRAW_FLIP] < 0.5) x = mirror(ctx, x);
    if (b > 0) x = fv_scale(ctx, x, 1 + b * (2 * unit[DRAW_BRIGHTNESS] - 1));
    if (c > 0) x = change_contrast(ctx, x, c, unit[DRAW_CONTRAST]);
    return x;
}
