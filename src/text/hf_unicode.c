#include "text/hf_unicode.h"

#include <stddef.h>

#include "fovea/unicode.h"
#include "text/data/hugging_face.inc"

/* The row of a table of ranges that has the code point, or NULL. Rows of `columns` numbers begin
 * with the first and the last code point. */
static const int32_t *find(const int32_t *table, size_t rows, size_t columns, uint32_t code)
{
    size_t low = 0, high = rows;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int32_t *row = table + middle * columns;
        if (code > (uint32_t)row[1])
            low = middle + 1;
        else if (code < (uint32_t)row[0])
            high = middle;
        else
            return row;
    }
    return NULL;
}

#define FIND(table, code)                                                                          \
    find(&(table)[0][0], sizeof(table) / sizeof(table)[0], sizeof(table)[0] / sizeof(table)[0][0], \
         code)

/* Most text is ASCII: it needs no search. */
static bool is_printable(uint32_t code) { return code >= ' ' && code <= '~'; }

static bool is_ascii_word(uint32_t code)
{
    return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') ||
           (code >= 'A' && code <= 'Z') || code == '_';
}

bool fv_hf_is_control(uint32_t code)
{
    return !is_printable(code) && FIND(hf_control, code) != NULL;
}
bool fv_hf_is_accent(uint32_t code) { return code >= 0x300 && FIND(hf_accent, code) != NULL; }
bool fv_hf_is_mark(uint32_t code) { return code >= 0x300 && FIND(hf_mark, code) != NULL; }
bool fv_hf_is_punctuation(uint32_t code)
{
    if (is_printable(code)) return code != ' ' && (code == '_' || !is_ascii_word(code));
    return FIND(hf_punctuation, code) != NULL;
}
bool fv_hf_is_number(uint32_t code) { return FIND(hf_number, code) != NULL; }
bool fv_hf_is_word_char(uint32_t code)
{
    return is_printable(code) ? is_ascii_word(code) : FIND(hf_word, code) != NULL;
}

bool fv_hf_keeps(uint32_t code, bool compatible)
{
    const int32_t *row = FIND(hf_kept, code);
    return row && (compatible || row[2] == 0);
}

int fv_hf_lower(uint32_t code, uint32_t out[2])
{
    const int32_t *row = code < 0x80 ? NULL : FIND(hf_lower, code);
    if (!row) return fv_unicode_lower(code, out);
    out[0] = (uint32_t)((int32_t)code + row[2]);
    return 1;
}
