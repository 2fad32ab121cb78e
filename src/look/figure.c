#include "look/figure.h"

#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/config.h"

void fv_look_options_init(fv_look_options *options, size_t struct_size)
{
    const fv_look_options defaults = {.struct_size = struct_size, .colours = FV_COLOUR_MAP_BLUES};
    fv_config_set_defaults(options, struct_size, &defaults, sizeof defaults);
}

fv_status fv_look_options_check(fv_ctx *ctx, const fv_look_options *options, fv_look_options *full)
{
    fv_look_options_init(full, sizeof *full);
    FV_RETURN_IF(options && !fv_config_copy(full, sizeof *full, options), ctx, FV_ERR_ARGUMENT,
                 "look: options.struct_size is invalid, call fv_look_options_init first");
    FV_RETURN_IF((unsigned)full->colours >= FV_COLOUR_MAP_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown colour map %d", (int)full->colours);
    FV_RETURN_IF((unsigned)full->shades >= FV_LOOK_SHADES_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown shades %d", (int)full->shades);
    FV_RETURN_IF(!isfinite(full->low) || !isfinite(full->high) || full->low > full->high, ctx,
                 FV_ERR_ARGUMENT, "look: invalid colour range from %g to %g", full->low,
                 full->high);
    FV_RETURN_IF(full->cell < 0 || full->cell > 128, ctx, FV_ERR_ARGUMENT,
                 "look: a cell of %d pixels, expected 1 to 128", full->cell);
    FV_RETURN_IF(full->columns != 0 && (full->columns < 20 || full->columns > 1000), ctx,
                 FV_ERR_ARGUMENT, "look: %d columns, expected 20 to 1000", full->columns);
    if (full->columns == 0) full->columns = 80;
    return FV_OK;
}

/* ---- values ---------------------------------------------------------------------- */

float fv_values_pooled(const fv_values *v, int64_t out_rows, int64_t out_cols, int64_t i, int64_t j,
                       bool signed_)
{
    const int64_t r0 = i * v->rows / out_rows, r1 = (i + 1) * v->rows / out_rows,
                  c0 = j * v->cols / out_cols, c1 = (j + 1) * v->cols / out_cols;
    float best = NAN;
    for (int64_t r = r0; r < r1; r++)
        for (int64_t c = c0; c < c1; c++) {
            const float value = v->at[r * v->stride + c];
            if (isnan(value)) continue;
            if (isnan(best) || (signed_ ? fabsf(value) > fabsf(best) : value > best)) best = value;
        }
    return best;
}

void fv_figure_cells(fv_canvas *c, const fv_values *v, const fv_colour_range *range,
                     const fv_cells *where)
{
    const bool signed_ = range->map == FV_COLOUR_MAP_DIVERGING;
    size_t bytes = 0;
    unsigned char *rgb = NULL;
    if (c->status != FV_OK || where->rows == 0 || where->cols == 0) return;
    if (fv_checked_mul_size((size_t)where->rows, (size_t)where->cols, &bytes) &&
        fv_checked_mul_size(bytes, 3, &bytes))
        rgb = fv_mem_alloc(&c->ctx->mem, bytes);
    if (!rgb) {
        c->status = fv_fail(c->ctx, FV_ERR_MEMORY, "look: out of memory");
        return;
    }
    unsigned char *p = rgb;
    for (int64_t i = 0; i < where->rows; i++)
        for (int64_t j = 0; j < where->cols; j++, p += 3) {
            const float value = fv_values_pooled(v, where->rows, where->cols, i, j, signed_);
            const fv_rgb colour = fv_colour_of(range, value);
            p[0] = (unsigned char)(colour >> 16);
            p[1] = (unsigned char)(colour >> 8);
            p[2] = (unsigned char)colour;
        }
    fv_cells cells = *where;
    cells.rgb = rgb;
    fv_canvas_cells(c, &cells);
    fv_mem_free(&c->ctx->mem, rgb, bytes);
}

/* ---- legend and labels ----------------------------------------------------------- */

enum { BAR = 12, BAR_GAP = 4, BAR_TEXT = 11 };

double fv_figure_title(const fv_typeface *face, const char *title, double width, double margin,
                       double max, char label[FV_LABEL_BYTES])
{
    const double size = 1.1 * FV_TITLE_SIZE; /* bold is wider */
    fv_display_fit(face, title, size, fmax(width, max), label);
    return fmax(width, fv_display_width(face, label, size) + 2 * margin);
}

double fv_figure_colour_bar_width(const fv_typeface *face, const fv_colour_range *range)
{
    char low[FV_FIXED_BYTES], high[FV_FIXED_BYTES];
    return BAR + BAR_GAP +
           fmax(fv_display_width(face, fv_short_number(range->low, low), BAR_TEXT),
                fv_display_width(face, fv_short_number(range->high, high), BAR_TEXT));
}

void fv_figure_colour_bar(fv_canvas *c, const fv_colour_range *range, double x, double y,
                          double height)
{
    enum { STEPS = 32 };
    float steps[STEPS];
    char text[FV_FIXED_BYTES];
    for (int i = 0; i < STEPS; i++)
        steps[i] = (float)(range->high - (range->high - range->low) * i / (STEPS - 1));
    fv_figure_cells(c, &(fv_values){steps, STEPS, 1, 1}, range,
                    &(fv_cells){x, y, BAR, height, .rows = STEPS, .cols = 1});
    fv_text_style at = {
        .x = x + BAR + BAR_GAP, .y = y + 5, .size = BAR_TEXT, .colour = FV_RGB_FAINT};
    fv_canvas_text(c, &at, fv_short_number(range->high, text));
    at.y = y + height - 5;
    fv_canvas_text(c, &at, fv_short_number(range->low, text));
}

double fv_figure_widest(const fv_typeface *face, const char *const *labels, int64_t count,
                        int64_t step, double size)
{
    double widest = 0;
    char label[FV_LABEL_BYTES];
    for (int64_t i = 0; labels && i < count; i += step)
        widest = fmax(widest, fv_display_width(face, fv_display_label(labels[i], label), size));
    return widest;
}

/* ---- pages ----------------------------------------------------------------------- */

void fv_html_begin(fv_writer *o, const char *title)
{
    fv_writer_text(o, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>");
    fv_writer_markup(o, title && *title ? title : "Fovea");
    fv_writer_text(o, "</title>\n<style>\n"
                      "body{margin:16px;font:14px Helvetica,Arial,sans-serif;color:#1f2430;"
                      "background:#fff}\n"
                      "svg{max-width:100%;height:auto}\n" /* not wider than the window */
                      "#tip{position:fixed;display:none;pointer-events:none;background:#1f2430;"
                      "color:#fff;padding:4px 8px;border-radius:4px;font-size:13px;"
                      "white-space:pre}\n"
                      "@media(prefers-color-scheme:dark){body{color:#dfe2ea;background:#000}\n"
                      "svg,canvas{filter:invert(1) hue-rotate(180deg)}}\n"
                      "</style>\n</head>\n<body>\n");
}

void fv_html_end(fv_writer *o) { fv_writer_text(o, "</body>\n</html>\n"); }

void fv_script_labels(fv_writer *o, const char *const *labels, int64_t count)
{
    fv_writer_text(o, "[");
    for (int64_t i = 0; labels && i < count; i++) {
        if (i > 0) fv_writer_text(o, ",");
        fv_writer_script(o, labels[i] ? labels[i] : "");
    }
    fv_writer_text(o, "]");
}

void fv_script_rows(fv_writer *o, const fv_values *v)
{
    fv_writer_text(o, "[");
    for (int64_t i = 0; i < v->rows && !o->failed; i++) {
        fv_writer_text(o, i > 0 ? ",\n\"" : "\"");
        if (v->cols > 0)
            fv_writer_base64(o, v->at + i * v->stride, (size_t)v->cols * sizeof *v->at);
        fv_writer_text(o, "\"");
    }
    fv_writer_text(o, "]");
}
