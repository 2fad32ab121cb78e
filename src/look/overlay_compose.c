/* The colours of a picture under attention. */
#include <math.h>
#include <string.h>

#include "look/overlay.h"

double fv_overlay_ratio(const fv_look_overlay *o)
{
    const double own = (double)o->height / (double)o->width;
    if (o->panel_width && o->panel_height) return (double)o->panel_height / o->panel_width;
    return own;
}

fv_overlay_view fv_overlay_view_of(const fv_look_overlay *overlay, int64_t panel,
                                   const fv_look_options *options)
{
    const fv_look_panel *p = &overlay->panels[panel];
    fv_overlay_view view = {
        .overlay = overlay, .panel = p, .low = options->low, .high = options->high};
    if (view.low < view.high) return view;
    view.low = view.high = 0;
    for (int64_t i = 0; p->weights && i < p->rows * p->cols; i++)
        if (p->weights[i] > view.high && isfinite(p->weights[i])) view.high = p->weights[i];
    return view;
}

/* The light of a weight: 0 to 1; NaN stays. */
static double light_of(const fv_overlay_view *v, double weight)
{
    if (isnan(weight)) return weight;
    if (!(v->low < v->high)) return 0; /* nothing is attended to */
    return fmin(fmax((weight - v->low) / (v->high - v->low), 0), 1);
}

static double clamp_index(double at, int64_t count)
{
    return fmin(fmax(at, 0), (double)(count - 1));
}

/* The light at (x, y), both in 0 .. 1 of the picture. */
static double light_at(const fv_overlay_view *v, double x, double y)
{
    const fv_look_panel *p = v->panel;
    if (!p->weights) return 1;
    const bool smooth = v->overlay->smooth;
    const double gx = clamp_index(x * (double)p->cols - (smooth ? 0.5 : 0), p->cols),
                 gy = clamp_index(y * (double)p->rows - (smooth ? 0.5 : 0), p->rows);
    const int64_t j = (int64_t)gx, i = (int64_t)gy;
    const float *at = p->weights + i * p->cols + j;
    if (!smooth) return light_of(v, *at);
    const int64_t right = j + 1 < p->cols, down = i + 1 < p->rows ? p->cols : 0;
    const double fx = gx - (double)j, fy = gy - (double)i,
                 top = light_of(v, at[0]) * (1 - fx) + light_of(v, at[right]) * fx,
                 low = light_of(v, at[down]) * (1 - fx) + light_of(v, at[down + right]) * fx;
    return top * (1 - fy) + low * fy;
}

/* The picture's pixels that cell i of `cells` covers: at least one. */
static void covered(int64_t i, int64_t cells, int64_t pixels, int64_t *first, int64_t *end)
{
    *first = i * pixels / cells;
    *end = (i + 1) * pixels / cells;
    if (*end <= *first) *end = *first + 1;
}

static double clamp_value(double value) { return value > 0 ? fmin(value, 1) : 0; /* NaN: 0 */ }

static void mean_of(const fv_overlay_view *v, const int64_t y[2], const int64_t x[2], double out[3])
{
    const fv_look_overlay *o = v->overlay;
    const float *pixels = v->panel->pixels ? v->panel->pixels : o->pixels;
    const double area = (double)((y[1] - y[0]) * (x[1] - x[0]));
    for (int64_t c = 0; c < 3; c++) {
        const float *plane = pixels + (o->channels == 3 ? c : 0) * o->height * o->width;
        double sum = 0;
        for (int64_t i = y[0]; i < y[1]; i++)
            for (int64_t j = x[0]; j < x[1]; j++)
                sum += clamp_value((double)plane[i * o->width + j]);
        out[c] = sum / area;
    }
}

/* The mean of the pixels under cell (i, j) of rows x cols. */
static void cell_mean(const fv_overlay_view *v, int64_t i, int64_t rows, int64_t j, int64_t cols,
                      double out[3])
{
    int64_t ys[2], xs[2];
    covered(i, rows, v->overlay->height, &ys[0], &ys[1]);
    covered(j, cols, v->overlay->width, &xs[0], &xs[1]);
    mean_of(v, ys, xs, out);
}

void fv_overlay_means_use(fv_ctx *ctx, fv_overlay_means *means, int64_t rows, int64_t cols,
                          fv_overlay_view *view)
{
    const fv_look_overlay *o = view->overlay;
    enum {
        LARGER = 4
    }; /* pixels for each cell: the means then take less memory than the picture */
    if (view->panel->pixels || o->panel_count < 2 || o->height * o->width < LARGER * rows * cols)
        return;
    if (!means->values || means->rows != rows || means->cols != cols) {
        fv_overlay_means_free(ctx, means);
        *means = (fv_overlay_means){
            .rows = rows, .cols = cols, .bytes = (size_t)(rows * cols) * 3 * sizeof(double)};
        means->values = fv_mem_alloc(&ctx->mem, means->bytes);
        if (!means->values) return;
        for (int64_t i = 0; i < rows * cols; i++)
            cell_mean(view, i / cols, rows, i % cols, cols, means->values + 3 * i);
    }
    view->means = means->values;
}

void fv_overlay_means_free(fv_ctx *ctx, fv_overlay_means *means)
{
    if (means->values) fv_mem_free(&ctx->mem, means->values, means->bytes);
    means->values = NULL;
}

static double channel_of(fv_rgb colour, int c)
{
    return (double)(colour >> (16 - 8 * c) & 255) / 255;
}

/* Dark where there is no light; light keeps the pixel's colour and tints dark pixels. */
static void light_bright(const double pixel[3], double light, double out[3])
{
    static const double tint[3] = {0.62, 0.36, 0.05};
    const double dark = 0.35;
    for (int c = 0; c < 3; c++)
        out[c] = dark * pixel[c] + light * ((1 - dark) * pixel[c] + (1 - pixel[c]) * tint[c]);
}

static void light_heat(const double pixel[3], double light, double out[3])
{
    const double grey = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
    const fv_rgb heat = fv_colour_at(FV_COLOUR_MAP_HEAT, light);
    for (int c = 0; c < 3; c++)
        out[c] = 0.45 * grey + 0.55 * channel_of(heat, c);
}

static void put_pixel(const fv_overlay_view *v, const double pixel[3], double light,
                      unsigned char out[3])
{
    double lit[3] = {pixel[0], pixel[1], pixel[2]};
    if (isnan(light))
        for (int c = 0; c < 3; c++)
            lit[c] = channel_of(FV_RGB_NAN, c);
    else if (v->panel->weights)
        (v->overlay->light == FV_LOOK_LIGHT_HEAT ? light_heat : light_bright)(pixel, light, lit);
    for (int c = 0; c < 3; c++)
        out[c] = (unsigned char)lround(255 * lit[c]);
}

static bool is_marked(const fv_overlay_view *v, double x, double y)
{
    const double *m = v->panel->mark, px = x * (double)v->overlay->width,
                 py = y * (double)v->overlay->height;
    return v->mark && px >= m[0] && px < m[2] && py >= m[1] && py < m[3];
}

void fv_overlay_compose(const fv_overlay_view *view, int64_t rows, int64_t cols, unsigned char *rgb)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++, rgb += 3) {
            double pixel[3];
            const double x = ((double)j + 0.5) / (double)cols, y = ((double)i + 0.5) / (double)rows;
            if (view->means)
                memcpy(pixel, view->means + 3 * (i * cols + j), sizeof pixel);
            else
                cell_mean(view, i, rows, j, cols, pixel);
            put_pixel(view, pixel, light_at(view, x, y), rgb);
            for (int c = 0; c < 3 && is_marked(view, x, y); c++)
                rgb[c] = (unsigned char)(FV_OVERLAY_MARK >> (16 - 8 * c));
        }
}
