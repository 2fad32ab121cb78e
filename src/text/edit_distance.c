#include "text/edit_distance.h"

#include <string.h>

/* The length of the next unit of a text, which is not empty; *skip: blanks before it. */
static size_t next_unit(fv_string t, fv_edit_unit unit, size_t *skip)
{
    size_t end = 0;
    *skip = 0;
    if (unit == FV_EDIT_CHARACTERS) {
        for (end = 1; end < t.bytes && ((unsigned char)t.text[end] & 0xC0) == 0x80;)
            end++;
        return end;
    }
    while (*skip < t.bytes && t.text[*skip] == ' ')
        ++*skip;
    for (end = *skip; end < t.bytes && t.text[end] != ' ';)
        end++;
    return end - *skip;
}

/* The units of a text, at most as many as it has bytes. */
static size_t split(fv_string t, fv_edit_unit unit, fv_string *out)
{
    size_t count = 0;
    while (t.bytes > 0) {
        size_t skip = 0;
        const size_t length = next_unit(t, unit, &skip);
        if (length > 0) out[count++] = (fv_string){t.text + skip, length};
        t = (fv_string){t.text + skip + length, t.bytes - skip - length};
    }
    return count;
}

static bool same(fv_string a, fv_string b)
{
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* row[j] is the distance of the first i units of a to the first j of b. */
static int64_t distance_of(const fv_string *a, size_t an, const fv_string *b, size_t bn,
                           int64_t *row)
{
    for (size_t j = 0; j <= bn; j++)
        row[j] = (int64_t)j;
    for (size_t i = 0; i < an; i++) {
        int64_t corner = row[0];
        row[0] = (int64_t)i + 1;
        for (size_t j = 0; j < bn; j++) {
            const int64_t replaced = corner + !same(a[i], b[j]);
            corner = row[j + 1];
            row[j + 1] = least(replaced, 1 + least(row[j], row[j + 1]));
        }
    }
    return row[bn];
}

fv_status fv_edit_distance(fv_ctx *ctx, fv_string text, fv_string reference, fv_edit_unit unit,
                           int64_t *distance, int64_t *units)
{
    const size_t most = text.bytes + reference.bytes + 1,
                 bytes = most * sizeof(fv_string) + (reference.bytes + 1) * sizeof(int64_t);
    fv_string *room = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory to compare two texts");
    fv_string *other = room + text.bytes;
    const size_t an = split(text, unit, room), bn = split(reference, unit, other);
    *distance = distance_of(room, an, other, bn, (int64_t *)(room + most));
    *units = (int64_t)bn;
    fv_mem_free(&ctx->mem, room, bytes);
    return FV_OK;
}
