/*
 * Text from outside: made safe for display, and measured.
 */
#ifndef FV_LOOK_DISPLAY_TEXT_H
#define FV_LOOK_DISPLAY_TEXT_H

#include <stdint.h>

#include "fovea/look.h"
#include "look/font_file.h"

/* The letters of a picture: those of its format, or in a PNG those of a font file. */
typedef struct fv_typeface {
    fv_look_format format;
    fv_font_file *file; /* or NULL */
} fv_typeface;

/* Opens the file if there is one and the format is PNG. Fails: as fv_font_file_open. */
fv_status fv_typeface_open(fv_ctx *ctx, fv_look_format format, const char *path, fv_typeface *out);

/*
 * Returns the next code point and advances *text; 0 at its end. Control characters become their
 * symbols (U+2400 ...); invalid bytes, non-characters, C1 controls and marks that override the
 * writing direction become U+FFFD. The result is safe in XML, in HTML and on a terminal.
 */
uint32_t fv_display_next(const char **text);

/* Columns of a code point on a terminal: 0 for combining marks, 2 for wide characters, otherwise 1.
 */
int fv_display_char_columns(uint32_t code);

/* Columns of a text. */
int64_t fv_display_columns(const char *text);

/* Whether a letter is written from right to left (Hebrew, Arabic, ...), and whether a text has one.
 */
bool fv_display_is_rtl(uint32_t code);
bool fv_display_has_rtl(const char *text);

/* Distance between stacked letters, in font sizes. */
#define FV_STACK_PITCH 1.05

/* Whether a text has only wide letters, which can be stacked: "\u56fe\u4e66". False for "". */
bool fv_display_is_wide(const char *text);

enum { FV_CLUSTER_BYTES = 36 };

/*
 * Copies the next grapheme cluster, a letter with its marks, and advances *text. Indic vowel signs
 * and consonants joined by a virama stay with the letter before them if they fit in two columns.
 * Returns the columns of the cluster, 0 at the end.
 */
int fv_display_next_cluster(const char **text, char letter[FV_CLUSTER_BYTES]);

/* Width of a text in pixels at a font size: exact for PNG and PDF, otherwise an estimate for common
 * sans-serif fonts that errs on the large side. */
double fv_display_width(const fv_typeface *face, const char *text, double size);

/* Labels longer than this many columns are truncated with an ellipsis. */
enum { FV_LABEL_COLUMNS = 64, FV_LABEL_BYTES = 4 * FV_LABEL_COLUMNS * 4 + 8 };

/* Sanitised `text`, truncated with an ellipsis if it is wider than `max` pixels. Returns `label`.
 */
const char *fv_display_fit(const fv_typeface *face, const char *text, double size, double max,
                           char label[FV_LABEL_BYTES]);

/* Sanitised `text` (NULL: empty), truncated to FV_LABEL_COLUMNS. Returns `label`. */
const char *fv_display_label(const char *text, char label[FV_LABEL_BYTES]);

#endif
