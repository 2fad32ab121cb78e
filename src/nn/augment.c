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

fv_tensor *fv_picture_resize(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (x->rank != 3) return refuse(ctx, "picture_resize", x, "[channels, height, width]");
    if (height == x->shape[1] && width == x->shape[2]) return x;
    const bool shrinks = 2 * height <= x->shape[1] && 2 * width <= x->shape[2];
    x = fv_unsqueeze(ctx, x, 0);
    x = shrinks ? fv_adaptive_avg_pool2d(ctx, x, height, width)
                : fv_resize_bilinear(ctx, x, height, width, false);
    return fv_squeeze(ctx, x, 0);
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
    return fv_picture_resize(ctx, x, height, width);
}

/* The numbers of one picture, each in [0, 1); those of its channels follow DRAW_COLOUR. */
enum {
    DRAW_DOWN,
    DRAW_RIGHT,
    DRAW_FLIP,
    DRAW_BRIGHTNESS,
    DRAW_CONTRAST,
    DRAW_CROP_DOWN,
    DRAW_CROP_RIGHT,
    DRAW_COLOUR
};

/* Draw `index` of picture `row`. The site is one that no op reaches by counting, so that what a
 * step computes before does not matter. */
static double draw(const fv_ctx *ctx, uint64_t row, uint64_t index)
{
    const uint64_t site = UINT64_C(1) << 63;
    uint32_t word[4];
    fv_rng_draw(fv_rng_key(ctx->seed, ctx->step, site), row, index / 4, word);
    return (double)fv_rng_unit(word[index % 4]);
}

/* x moved along one axis: element i becomes element i + by, and `fill` comes in. */
static fv_tensor *move(fv_ctx *ctx, fv_tensor *x, int axis, int64_t by, double fill)
{
    if (by == 0 || ctx->error != FV_OK) return x;
    const int64_t n = x->shape[axis], size = by < 0 ? -by : by;
    int64_t before[FV_MAX_RANK] = {0}, after[FV_MAX_RANK] = {0};
    (by > 0 ? before : after)[axis] = size;
    fv_tensor *padded = fv_pad(ctx, x, before, after, fill);
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

/* unit in [0, 1) as a factor in 1 - range .. 1 + range */
static double factor_of(double unit, double range) { return 1 + range * (2 * unit - 1); }

/* mean + f (x - mean) */
static fv_tensor *change_contrast(fv_ctx *ctx, fv_tensor *x, double f)
{
    fv_tensor *mean = fv_mean(ctx, x, 0, NULL, false);
    return fv_add(ctx, fv_scale(ctx, x, f), fv_scale(ctx, mean, 1 - f));
}

/* Each channel times its own factor. */
static fv_tensor *change_colours(fv_ctx *ctx, fv_tensor *x, double range, uint64_t row)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t shape[3] = {x->shape[0], 1, 1};
    double *factors = fv_host_alloc(ctx, FV_F64, 3, shape);
    for (int64_t c = 0; factors && c < shape[0]; c++)
        factors[c] = factor_of(draw(ctx, row, DRAW_COLOUR + (uint64_t)c), range);
    return fv_mul(ctx, x, fv_host_tensor(ctx, FV_F64, factors, 3, shape, x->dtype));
}

/* `size` elements along an axis, from a place that `unit` in [0, 1) picks. */
static fv_tensor *crop(fv_ctx *ctx, fv_tensor *x, int axis, int64_t size, double unit)
{
    if (size == 0 || ctx->error != FV_OK) return x;
    const int64_t first = (int64_t)(unit * (double)(x->shape[axis] - size + 1));
    return fv_slice(ctx, x, axis, first, first + size, 1);
}

/* unit in [0, 1) as a whole number in -range .. range */
static int64_t offset_of(double unit, int64_t range)
{
    return (int64_t)(unit * (double)(2 * range + 1)) - range;
}

static bool is_part(double x) { return x >= 0 && x < 1; }

static fv_status check(fv_ctx *ctx, const fv_tensor *x, const fv_augment *how)
{
    if (how->shift < 0 || how->shift > (1 << 20) || !is_part(how->brightness) ||
        !is_part(how->contrast) || !is_part(how->colour))
        return fv_poison(ctx, FV_ERR_ARGUMENT,
                         "picture_augment: shift %lld, brightness %g, contrast %g, colour %g, "
                         "expected a shift of 0 to %d and the others at least 0 and below 1",
                         (long long)how->shift, how->brightness, how->contrast, how->colour,
                         1 << 20);
    if (how->crop[0] < 0 || how->crop[1] < 0 || how->crop[0] > x->shape[1] ||
        how->crop[1] > x->shape[2])
        return fv_poison(ctx, FV_ERR_SHAPE,
                         "picture_augment: a crop of %lld x %lld from %lld x %lld",
                         (long long)how->crop[0], (long long)how->crop[1], (long long)x->shape[1],
                         (long long)x->shape[2]);
    return FV_OK;
}

fv_tensor *fv_picture_augment(fv_ctx *ctx, fv_tensor *x, const fv_augment *how, uint64_t row)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (x->rank != 3) return refuse(ctx, "picture_augment", x, "[channels, height, width]");
    if (check(ctx, x, how) != FV_OK) return ctx->invalid;
    const double b = how->brightness, c = how->contrast;
    x = move(ctx, x, 1, offset_of(draw(ctx, row, DRAW_DOWN), how->shift), how->fill);
    x = move(ctx, x, 2, offset_of(draw(ctx, row, DRAW_RIGHT), how->shift), how->fill);
    x = crop(ctx, x, 1, how->crop[0], draw(ctx, row, DRAW_CROP_DOWN));
    x = crop(ctx, x, 2, how->crop[1], draw(ctx, row, DRAW_CROP_RIGHT));
    if (how->flip && draw(ctx, row, DRAW_FLIP) < 0.5) x = mirror(ctx, x);
    if (b > 0) x = fv_scale(ctx, x, factor_of(draw(ctx, row, DRAW_BRIGHTNESS), b));
    if (c > 0) x = change_contrast(ctx, x, factor_of(draw(ctx, row, DRAW_CONTRAST), c));
    if (how->colour > 0) x = change_colours(ctx, x, how->colour, row);
    return x;
}
