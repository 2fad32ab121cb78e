#include "look/font_file.h"

#include "look/display_text.h"
#include "look/font.h"

#ifdef FV_HAVE_FONTS

#include <hb-ft.h>
#include <math.h>
#include <string.h>

#include <ft2build.h>
#include FT_FREETYPE_H

#include "base/library.h"
#include "io/file.h"

/* The functions of the two libraries that are used here. */
#define FREETYPE_FUNCTIONS(X)                                                                      \
    X(FT_Done_Face)                                                                                \
    X(FT_Done_FreeType)                                                                            \
    X(FT_Get_Char_Index)                                                                           \
    X(FT_Init_FreeType)                                                                            \
    X(FT_Load_Glyph)                                                                               \
    X(FT_New_Memory_Face)                                                                          \
    X(FT_Render_Glyph)                                                                             \
    X(FT_Set_Char_Size)                                                                            \
    X(FT_Set_Transform)
#define HARFBUZZ_FUNCTIONS(X)                                                                      \
    X(hb_buffer_add)                                                                               \
    X(hb_buffer_allocation_successful)                                                             \
    X(hb_buffer_create)                                                                            \
    X(hb_buffer_destroy)                                                                           \
    X(hb_buffer_get_glyph_infos)                                                                   \
    X(hb_buffer_get_glyph_positions)                                                               \
    X(hb_buffer_guess_segment_properties)                                                          \
    X(hb_buffer_reset)                                                                             \
    X(hb_buffer_set_content_type)                                                                  \
    X(hb_font_destroy)                                                                             \
    X(hb_ft_font_changed)                                                                          \
    X(hb_ft_font_create_referenced)                                                                \
    X(hb_ft_font_set_load_flags)                                                                   \
    X(hb_shape)

typedef struct font_api {
#define POINTER(name) __typeof__(&name) name;
    FREETYPE_FUNCTIONS(POINTER)
    HARFBUZZ_FUNCTIONS(POINTER)
#undef POINTER
} font_api;

struct fv_font_file {
    fv_ctx *ctx;
    font_api api;
    FT_Library library;
    FT_Face face;
    hb_font_t *font;
    hb_buffer_t *buffer;
    double size; /* that the face is set to */
    void *data;  /* of the file */
    size_t bytes;
};

/* Loads the libraries now, so that only a program that draws with a font file needs them. They stay
 * loaded: both keep data of their own. */
static fv_status load_libraries(fv_font_file *f, const char *path)
{
    void *freetype = fv_library_open(FV_LIBRARY_FREETYPE);
    void *harfbuzz = freetype ? fv_library_open(FV_LIBRARY_HARFBUZZ) : NULL;
    bool complete = true;
#define FIND(name) complete = fv_library_find(freetype, #name, &f->api.name) && complete;
    FREETYPE_FUNCTIONS(FIND)
#undef FIND
#define FIND(name) complete = fv_library_find(harfbuzz, #name, &f->api.name) && complete;
    HARFBUZZ_FUNCTIONS(FIND)
#undef FIND
    FV_RETURN_IF(!complete, f->ctx, FV_ERR_UNSUPPORTED,
                 "%s: font files need the libraries FreeType and HarfBuzz (libfreetype.so.6, "
                 "libharfbuzz.so.0)",
                 path);
    return FV_OK;
}

void fv_font_file_close(fv_font_file **font)
{
    fv_font_file *f = *font;
    if (!f) return;
    fv_mem *mem = &f->ctx->mem;
    if (f->buffer) f->api.hb_buffer_destroy(f->buffer);
    if (f->font) f->api.hb_font_destroy(f->font);
    if (f->face) f->api.FT_Done_Face(f->face);
    if (f->library) f->api.FT_Done_FreeType(f->library);
    fv_mem_free(mem, f->data, f->bytes);
    fv_mem_free(mem, f, sizeof *f);
    *font = NULL;
}

static fv_status read_file(fv_font_file *f, const char *path)
{
    const uint64_t max_bytes = (uint64_t)256 << 20;
    fv_file file;
    FV_TRY(fv_file_open(f->ctx, path, &file));
    fv_status status = FV_OK;
    if (file.bytes == 0 || file.bytes > max_bytes) {
        status = fv_fail(f->ctx, FV_ERR_FORMAT, "%s: %llu bytes are no font", path,
                         (unsigned long long)file.bytes);
    } else {
        f->data = fv_mem_alloc(&f->ctx->mem, (size_t)file.bytes);
        f->bytes = f->data ? (size_t)file.bytes : 0;
        status = f->data ? fv_file_read(&file, f->data, f->bytes, 0)
                         : fv_fail(f->ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    }
    fv_file_close(&file);
    return status;
}

static fv_status make(fv_font_file *f, const char *path)
{
    fv_ctx *ctx = f->ctx;
    FV_TRY(load_libraries(f, path));
    FV_TRY(read_file(f, path));
    FV_RETURN_IF(f->api.FT_Init_FreeType(&f->library) != 0, ctx, FV_ERR_MEMORY, "%s: out of memory",
                 path);
    const bool read =
        f->api.FT_New_Memory_Face(f->library, f->data, (FT_Long)f->bytes, 0, &f->face) == 0;
    FV_RETURN_IF(!read || !FT_IS_SCALABLE(f->face), ctx, FV_ERR_FORMAT,
                 "%s: not a font that FreeType can scale", path);
    FV_RETURN_IF(f->api.FT_Set_Char_Size(f->face, 0, 64 * 16, 72, 72) != 0, ctx, FV_ERR_FORMAT,
                 "%s: cannot set the size of the font", path);
    f->font = f->api.hb_ft_font_create_referenced(f->face);
    f->buffer = f->api.hb_buffer_create();
    f->api.hb_ft_font_set_load_flags(f->font, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP);
    FV_RETURN_IF(!f->api.hb_buffer_allocation_successful(f->buffer), ctx, FV_ERR_MEMORY,
                 "%s: out of memory", path);
    return FV_OK;
}

fv_status fv_font_file_open(fv_ctx *ctx, const char *path, fv_font_file **out)
{
    fv_font_file *f = fv_mem_alloc(&ctx->mem, sizeof *f);
    FV_RETURN_IF(!f, ctx, FV_ERR_MEMORY, "look: out of memory");
    *f = (fv_font_file){.ctx = ctx};
    const fv_status status = make(f, path);
    if (status == FV_OK)
        *out = f;
    else
        fv_font_file_close(&f);
    return status;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Marks, joiners and variation selectors are drawn with the character before them. */
static bool follows(uint32_t code) { return fv_display_char_columns(code) == 0; }

/* Blanks and punctuation between letters of one direction take that direction. */
static bool is_neutral(uint32_t code)
{
    return code < 0x80 && !(code >= 'A' && code <= 'Z') && !(code >= 'a' && code <= 'z') &&
           !(code >= '0' && code <= '9');
}

/* Fonts of other scripts often have digits and brackets but no Latin letters. ASCII then comes from
 * the built-in font altogether, so that "[CLS]" is of one kind. */
static bool lacks_glyph(const fv_font_file *f, uint32_t code)
{
    const bool foreign = code > 0x20 && code < 0x7F && f->api.FT_Get_Char_Index(f->face, 'A') == 0;
    return foreign || f->api.FT_Get_Char_Index(f->face, code) == 0;
}

size_t fv_font_file_run(const fv_font_file *font, const char *text, bool *lacking)
{
    const char *at = text, *end = text;
    bool rtl = false;
    for (uint32_t code; (code = fv_display_next(&at)) != 0;) {
        const bool lacks = lacks_glyph(font, code);
        if (end == text) {
            *lacking = lacks;
            rtl = fv_display_is_rtl(code);
        } else if (!follows(code)) {
            if (lacks != *lacking) break;
            if (is_neutral(code)) continue; /* ends the run unless a letter of it follows */
            if (fv_display_is_rtl(code) != rtl) break;
        }
        end = at;
    }
    if (!rtl || *at == '\0') { /* trailing neutrals join a run from left to right, or the last */
        const char *next = end;
        for (uint32_t code; (code = fv_display_next(&next)) != 0;) {
            if (!is_neutral(code) || lacks_glyph(font, code) != *lacking) break;
            end = next;
        }
    }
    return (size_t)(end - text);
}

static bool set_size(fv_font_file *f, double size)
{
    if (f->size == size) return true;
    if (f->api.FT_Set_Char_Size(f->face, 0, (FT_F26Dot6)lround(size * 64), 72, 72) != 0)
        return false;
    f->api.hb_ft_font_changed(f->font);
    f->size = size;
    return true;
}

/* Shapes a run; the buffer then has its glyphs from left to right. */
static bool shape(fv_font_file *f, const char *text, size_t bytes, double size)
{
    const char *end = text + bytes;
    if (!set_size(f, size)) return false;
    f->api.hb_buffer_reset(f->buffer);
    f->api.hb_buffer_set_content_type(f->buffer, HB_BUFFER_CONTENT_TYPE_UNICODE);
    while (text < end)
        f->api.hb_buffer_add(f->buffer, fv_display_next(&text), 0);
    f->api.hb_buffer_guess_segment_properties(f->buffer);
    f->api.hb_shape(f->font, f->buffer, NULL, 0);
    return f->api.hb_buffer_allocation_successful(f->buffer);
}

/* A run in the built-in font. */
static double built_in_width(const char *text, size_t bytes, double size)
{
    char one[8];
    double width = 0;
    for (const char *at = text; at < text + bytes;) {
        const char *begin = at;
        fv_display_next(&at);
        const size_t n = (size_t)(at - begin);
        memcpy(one, begin, n);
        one[n] = '\0';
        width += fv_font_width(one, size);
    }
    return width;
}

double fv_font_file_width(fv_font_file *font, const char *text, double size)
{
    double width = 0;
    bool lacking = false;
    for (size_t n; (n = fv_font_file_run(font, text, &lacking)) > 0; text += n) {
        if (lacking) {
            width += built_in_width(text, n, size);
            continue;
        }
        unsigned count = 0;
        if (!shape(font, text, n, size)) return width;
        const hb_glyph_position_t *at =
            font->api.hb_buffer_get_glyph_positions(font->buffer, &count);
        for (unsigned i = 0; i < count; i++)
            width += at[i].x_advance / 64.0;
    }
    return width;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void put_bitmap(const FT_GlyphSlot glyph, int64_t x, int64_t y, fv_font_pixel_fn *pixel,
                       void *user)
{
    const FT_Bitmap *map = &glyph->bitmap;
    if (map->pixel_mode != FT_PIXEL_MODE_GRAY) return;
    for (unsigned j = 0; j < map->rows; j++)
        for (unsigned i = 0; i < map->width; i++) {
            const unsigned char cover = map->buffer[(int64_t)j * map->pitch + i];
            if (cover)
                pixel(user, x + glyph->bitmap_left + i, y - glyph->bitmap_top + j, cover / 255.0);
        }
}

double fv_font_file_draw(fv_font_file *font, const char *text, size_t bytes, double size,
                         double left, fv_font_pixel_fn *pixel, void *user)
{
    unsigned count = 0;
    if (!shape(font, text, bytes, size)) return 0;
    const hb_glyph_info_t *glyphs = font->api.hb_buffer_get_glyph_infos(font->buffer, &count);
    const hb_glyph_position_t *at = font->api.hb_buffer_get_glyph_positions(font->buffer, &count);
    double x = left, y = 0;
    for (unsigned i = 0; i < count; i++) {
        const double gx = x + at[i].x_offset / 64.0, gy = y + at[i].y_offset / 64.0;
        FT_Vector part = {lround((gx - floor(gx)) * 64), 0};
        font->api.FT_Set_Transform(font->face, NULL, &part);
        if (font->api.FT_Load_Glyph(font->face, glyphs[i].codepoint,
                                    FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) == 0 &&
            font->api.FT_Render_Glyph(font->face->glyph, FT_RENDER_MODE_NORMAL) == 0)
            put_bitmap(font->face->glyph, (int64_t)floor(gx), -lround(gy), pixel, user);
        x += at[i].x_advance / 64.0;
        y += at[i].y_advance / 64.0;
    }
    font->api.FT_Set_Transform(font->face, NULL, NULL);
    return x - left;
}

#else

fv_status fv_font_file_open(fv_ctx *ctx, const char *path, fv_font_file **out)
{
    (void)out;
    return fv_fail(ctx, FV_ERR_UNSUPPORTED,
                   "%s: this build has no font files: it was built without the headers of FreeType "
                   "and HarfBuzz",
                   path);
}

void fv_font_file_close(fv_font_file **font) { *font = NULL; }

size_t fv_font_file_run(const fv_font_file *font, const char *text, bool *lacking)
{
    (void)font, (void)text, (void)lacking;
    return 0;
}

double fv_font_file_width(fv_font_file *font, const char *text, double size)
{
    (void)font, (void)text, (void)size;
    return 0;
}

double fv_font_file_draw(fv_font_file *font, const char *text, size_t bytes, double size,
                         double left, fv_font_pixel_fn *pixel, void *user)
{
    (void)font, (void)text, (void)bytes, (void)size, (void)left, (void)pixel, (void)user;
    return 0;
}

#endif
