/* Encoded pictures, and creation of the canvas. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "io/file.h"
#include "look/figure.h"
#include "look/png.h"

struct fv_picture {
    fv_ctx *ctx;
    char *data;
    size_t bytes, room;
};

fv_status fv_picture_from_writer(fv_writer *o, fv_picture **out)
{
    fv_ctx *ctx = o->ctx;
    fv_writer_bytes(o, "", 1); /* terminating NUL */
    fv_picture *picture = o->failed ? NULL : fv_mem_alloc(&ctx->mem, sizeof *picture);
    FV_RETURN_IF(!picture, ctx, FV_ERR_MEMORY, "look: out of memory");
    *picture = (fv_picture){ctx, o->data, o->bytes - 1, o->room};
    *o = (fv_writer){.ctx = ctx};
    *out = picture;
    return FV_OK;
}

const char *fv_picture_data(const fv_picture *picture, size_t *bytes)
{
    if (bytes) *bytes = picture->bytes;
    return picture->data;
}

fv_status fv_picture_save(const fv_picture *picture, const char *path)
{
    fv_atomic_file save;
    FV_RETURN_IF(!path, picture->ctx, FV_ERR_ARGUMENT, "look: path is NULL");
    FV_TRY(fv_atomic_file_create(picture->ctx, path, picture->bytes, &save));
    return fv_atomic_file_close(&save,
                                fv_atomic_file_write(&save, picture->data, picture->bytes, 0));
}

void fv_picture_free(fv_picture **picture)
{
    if (!*picture) return;
    fv_mem *mem = &(*picture)->ctx->mem;
    fv_mem_free(mem, (*picture)->data, (*picture)->room);
    fv_mem_free(mem, *picture, sizeof **picture);
    *picture = NULL;
}

fv_status fv_look_format_from_path(fv_ctx *ctx, const char *path, fv_look_format *out)
{
    static const struct {
        const char *ending;
        fv_look_format format;
    } endings[] = {{".svg", FV_LOOK_FORMAT_SVG},  {".png", FV_LOOK_FORMAT_PNG},
                   {".pdf", FV_LOOK_FORMAT_PDF},  {".html", FV_LOOK_FORMAT_HTML},
                   {".htm", FV_LOOK_FORMAT_HTML}, {".txt", FV_LOOK_FORMAT_TEXT}};
    FV_RETURN_IF(!path, ctx, FV_ERR_ARGUMENT, "look: path is NULL");
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i].ending) == 0) {
            *out = endings[i].format;
            return FV_OK;
        }
    return fv_fail(ctx, FV_ERR_ARGUMENT,
                   "%s: unknown picture format, expected .svg, .png, .pdf, .html or .txt", path);
}

/* ---- canvas ---------------------------------------------------------------------- */

/* Enlarging smooths bitmap letters and lines; large pictures are not enlarged. */
static int raster_scale(double width, double height)
{
    const double enlarge_up_to = 4e6;
    return width * height <= enlarge_up_to ? 2 : 1;
}

fv_status fv_canvas_begin(fv_ctx *ctx, const fv_typeface *face, double width, double height,
                          const char *title, fv_canvas *out)
{
    const fv_look_format format = face->format;
    const double max = 4.0 * FV_LOOK_MAX_SIDE;
    FV_RETURN_IF(format == FV_LOOK_FORMAT_TEXT || format == FV_LOOK_FORMAT_TERMINAL, ctx,
                 FV_ERR_UNSUPPORTED,
                 "look: this figure has no text format, expected SVG, PNG, PDF or HTML");
    FV_RETURN_IF(!(width <= max && height <= max), ctx, FV_ERR_LIMIT,
                 "look: a picture of %.0f x %.0f pixels is too large", width, height);
    fv_canvas c = {.ctx = ctx,
                   .format = format,
                   .face = *face,
                   .ops = format == FV_LOOK_FORMAT_PNG   ? &fv_canvas_raster
                          : format == FV_LOOK_FORMAT_PDF ? &fv_canvas_pdf
                                                         : &fv_canvas_svg,
                   .width = (int64_t)ceil(fmax(width, 1)),
                   .height = (int64_t)ceil(fmax(height, 1)),
                   .out = {.ctx = ctx},
                   .content = {.ctx = ctx},
                   .offsets = {.ctx = ctx},
                   .title = title,
                   .scale = 1};
    if (format == FV_LOOK_FORMAT_PNG) {
        FV_RETURN_IF(c.width * c.height > FV_PNG_PIXELS, ctx, FV_ERR_LIMIT,
                     "look: %lld x %lld pixels are too many for PNG, use smaller cells or SVG",
                     (long long)c.width, (long long)c.height);
        c.scale = raster_scale(width, height);
        c.pixel_bytes = (size_t)(3 * c.width * c.height) * (size_t)(c.scale * c.scale);
        c.pixels = fv_mem_alloc(&ctx->mem, c.pixel_bytes);
        FV_RETURN_IF(!c.pixels, ctx, FV_ERR_MEMORY, "look: out of memory");
        memset(c.pixels, 255, c.pixel_bytes);
    } else if (format == FV_LOOK_FORMAT_PDF) {
        fv_canvas_pdf_begin(&c);
    } else {
        if (format == FV_LOOK_FORMAT_HTML) fv_html_begin(&c.out, title);
        fv_writer_format(
            &c.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%n\" height=\"%n\" "
            "viewBox=\"0 0 %n %n\" xml:space=\"preserve\" font-family=\"Helvetica, Arial, "
            "'Noto Sans', 'DejaVu Sans', sans-serif\">\n"
            "<rect width=\"%n\" height=\"%n\" fill=\"#ffffff\"/>\n",
            (double)c.width, (double)c.height, (double)c.width, (double)c.height, (double)c.width,
            (double)c.height);
    }
    *out = c;
    return FV_OK;
}

fv_status fv_canvas_end(fv_canvas *c, fv_picture **out)
{
    if (c->status == FV_OK) c->ops->end(c);
    if (c->status == FV_OK && c->format == FV_LOOK_FORMAT_HTML) {
        if (c->script) c->script(&c->out, c->script_user);
        fv_html_end(&c->out);
    }
    fv_status status = c->status == FV_OK ? fv_picture_from_writer(&c->out, out) : c->status;
    fv_mem_free(&c->ctx->mem, c->pixels, c->pixel_bytes);
    fv_writer_free(&c->out);
    fv_writer_free(&c->content);
    fv_writer_free(&c->offsets);
    return status;
}

fv_status fv_look_map_save(fv_ctx *ctx, const fv_look_map *map, const fv_look_options *options,
                           const char *path)
{
    fv_look_format format;
    fv_picture *picture = NULL;
    FV_TRY(fv_look_format_from_path(ctx, path, &format));
    FV_TRY(fv_look_map_draw(ctx, map, format, options, &picture));
    const fv_status status = fv_picture_save(picture, path);
    fv_picture_free(&picture);
    return status;
}
