/*
 * A font file for PNG pictures in any script, through FreeType and HarfBuzz. Builds without these
 * libraries have no font files: opening one fails with UNSUPPORTED.
 *
 *     fv_font_file *font = NULL;
 *     FV_TRY(fv_font_file_open(ctx, "NotoSans-Regular.ttf", &font));
 *     double width = fv_font_file_width(font, "word", 12);
 *     fv_font_file_close(&font);
 */
#ifndef FV_LOOK_FONT_FILE_H
#define FV_LOOK_FONT_FILE_H

#include "base/ctx.h"

typedef struct fv_font_file fv_font_file;

/* Fails: UNSUPPORTED (a build without fonts), IO, FORMAT (not a scalable font), LIMIT, MEMORY. */
fv_status fv_font_file_open(fv_ctx *ctx, const char *path, fv_font_file **out);
void fv_font_file_close(fv_font_file **font); /* NULL is fine */

/* Bytes at the beginning of a text, at least one character's, that are drawn together: with the
 * file's glyphs and in one direction, or (*lacking) with the built-in font because the file has no
 * glyphs for them. 0 at the end. */
size_t fv_font_file_run(const fv_font_file *font, const char *text, bool *lacking);

/* Width of a text in pixels at a font size, with built-in glyphs where the file lacks them. */
double fv_font_file_width(fv_font_file *font, const char *text, double size);

/* Receives the pixels of a text: `along` from its left end, `down` from its baseline. */
typedef void fv_font_pixel_fn(void *user, int64_t along, int64_t down, double cover);

/* Draws one run at a font size in pixels, from `left` on, and returns its width. */
double fv_font_file_draw(fv_font_file *font, const char *text, size_t bytes, double size,
                         double left, fv_font_pixel_fn *pixel, void *user);

#endif
