#include "io/npy_header.h"

#include <stdio.h>
#include <string.h>

#include "io/decimal.h"
#include "io/tensor_file.h"
#include "io/utf8.h"

const char fv_npy_magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

fv_status fv_npy_preamble(fv_ctx *ctx, const char *path, const unsigned char *raw, size_t have,
                          size_t *start, size_t *text_bytes)
{
    FV_RETURN_IF(have < 10 || memcmp(raw, fv_npy_magic, sizeof fv_npy_magic) != 0, ctx,
                 FV_ERR_FORMAT, "%s: not a NumPy array", path);
    int version = raw[6];
    FV_RETURN_IF(version < 1 || version > 3 || raw[7] != 0, ctx, FV_ERR_UNSUPPORTED,
                 "%s: format version %d.%d is not supported, expected 1.0 to 3.0", path, version,
                 raw[7]);
    FV_RETURN_IF(version > 1 && have < FV_NPY_PREAMBLE, ctx, FV_ERR_FORMAT, "%s: not a NumPy array",
                 path);
    uint64_t length = (uint64_t)raw[8] | (uint64_t)raw[9] << 8;
    if (version > 1) length |= (uint64_t)raw[10] << 16 | (uint64_t)raw[11] << 24;
    FV_RETURN_IF(length > ctx->limits.header_bytes, ctx, FV_ERR_LIMIT,
                 "%s: the header has %llu bytes, the limit is %llu", path,
                 (unsigned long long)length, (unsigned long long)ctx->limits.header_bytes);
    *start = version == 1 ? 10 : 12;
    *text_bytes = (size_t)length;
    return FV_OK;
}

/* ---- dictionary ------------------------------------------------------------------ */

typedef struct dict {
    fv_ctx *ctx;
    const char *path;
    const char *text;
    size_t bytes, pos;
} dict;

static int peek(const dict *d) { return d->pos < d->bytes ? (unsigned char)d->text[d->pos] : -1; }

static void skip_space(dict *d)
{
    while (peek(d) == ' ' || peek(d) == '\n' || peek(d) == '\t' || peek(d) == '\r')
        d->pos++;
}

static fv_status expected(const dict *d, const char *what)
{
    return fv_fail(d->ctx, FV_ERR_FORMAT, "%s: expected %s at character %zu of the header", d->path,
                   what, d->pos + 1);
}

/* Skips a character and the white space around it. */
static bool accept(dict *d, int c)
{
    skip_space(d);
    if (peek(d) != c) return false;
    d->pos++;
    skip_space(d);
    return true;
}

static bool accept_word(dict *d, const char *word)
{
    size_t n = strlen(word);
    if (n > d->bytes - d->pos || memcmp(d->text + d->pos, word, n) != 0) return false;
    d->pos += n;
    return true;
}

/* 'text' or "text" without escapes. */
static fv_status read_quoted(dict *d, const char **text, size_t *n)
{
    int quote = peek(d);
    if (quote != '\'' && quote != '"') return expected(d, "a quoted string");
    size_t start = ++d->pos;
    while (peek(d) != quote) {
        if (peek(d) < ' ' || peek(d) == '\\') return expected(d, "the end of a string");
        d->pos++;
    }
    *text = d->text + start;
    *n = d->pos++ - start;
    return FV_OK;
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

/* (), (3,), (3, 4) */
static fv_status read_shape(dict *d, fv_file_entry *entry)
{
    if (!accept(d, '(')) return expected(d, "'('");
    entry->rank = 0;
    while (!accept(d, ')')) {
        size_t start = d->pos;
        while (is_digit(peek(d)))
            d->pos++;
        FV_RETURN_IF(entry->rank == FV_MAX_RANK, d->ctx, FV_ERR_LIMIT,
                     "%s: the array has more than %d dimensions", d->path, FV_MAX_RANK);
        if (!fv_decimal_to_i64(d->text + start, d->pos - start, &entry->shape[entry->rank]))
            return expected(d, "a size");
        entry->rank++;
        bool comma = accept(d, ',');
        if (!comma && (entry->rank == 1 || peek(d) != ')')) return expected(d, "','");
    }
    return FV_OK;
}

/* ---- element types --------------------------------------------------------------- */

static const struct {
    const char *name;
    fv_dtype dtype;
} DTYPES[] = {{"<f4", FV_F32}, {"<f8", FV_F64}, {"<f2", FV_F16}, {"<i4", FV_I32},
              {"<i8", FV_I64}, {"|u1", FV_U8},  {"|b1", FV_U8}};

enum { DTYPE_COUNT = sizeof DTYPES / sizeof DTYPES[0], LONGEST_DESCR = 32 };

/* Parses [<>|=] kind size, e.g. "<f4", "|S10", "<M8[ns]"; *element is 0 if it is not valid. */
static void element_size(const char *descr, size_t n, int64_t *element)
{
    *element = 0;
    if (n < 3 || !strchr("<>|=", descr[0]) || !strchr("biufcmMSUV", descr[1])) return;
    size_t digits = 0;
    int64_t size = 0;
    while (2 + digits < n && is_digit(descr[2 + digits]))
        digits++;
    bool unit = n > 2 + digits && descr[2 + digits] == '[' && descr[n - 1] == ']';
    bool dated = descr[1] == 'm' || descr[1] == 'M';
    if (digits > 9 || (n > 2 + digits && !(unit && dated))) return;
    if (!fv_decimal_to_i64(descr + 2, digits, &size)) return;
    *element = descr[1] == 'U' ? 4 * size : size;
}

static fv_status read_descr(dict *d, fv_arena *arena, fv_file_entry *entry, int64_t *element)
{
    const char *text = NULL;
    size_t n = 0;
    char quoted[FV_QUOTED_BYTES];
    FV_RETURN_IF(peek(d) == '[' || peek(d) == '(', d->ctx, FV_ERR_UNSUPPORTED,
                 "%s: structured arrays are not supported", d->path);
    FV_TRY(read_quoted(d, &text, &n));
    FV_RETURN_IF(n >= 2 && text[1] == 'O', d->ctx, FV_ERR_UNSUPPORTED,
                 "%s: object arrays (pickles) are not supported", d->path);
    FV_RETURN_IF(n > LONGEST_DESCR || !fv_utf8_valid(text, n) || memchr(text, '\0', n), d->ctx,
                 FV_ERR_FORMAT, "%s: invalid dtype \"%s\"", d->path, fv_quote(text, n, quoted));
    element_size(text, n, element);
    FV_RETURN_IF(*element == 0, d->ctx, FV_ERR_UNSUPPORTED, "%s: dtype \"%s\" is not supported",
                 d->path, fv_quote(text, n, quoted));
    entry->dtype_name = fv_arena_text(arena, text, n);
    FV_RETURN_IF(!entry->dtype_name, d->ctx, FV_ERR_MEMORY, "%s: out of memory", d->path);
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(DTYPES[i].name, entry->dtype_name) == 0) {
            entry->loadable = true;
            entry->dtype = DTYPES[i].dtype;
        }
    return FV_OK;
}

/* ---- header ---------------------------------------------------------------------- */

enum { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, ALL_KEYS = 7 };

static unsigned key_of(const char *text, size_t n)
{
    if (n == 5 && memcmp(text, "descr", n) == 0) return KEY_DESCR;
    if (n == 13 && memcmp(text, "fortran_order", n) == 0) return KEY_ORDER;
    if (n == 5 && memcmp(text, "shape", n) == 0) return KEY_SHAPE;
    return 0;
}

static fv_status read_member(dict *d, fv_arena *arena, unsigned *seen, fv_file_entry *entry,
                             int64_t *element, bool *fortran)
{
    const char *text = NULL;
    size_t n = 0;
    FV_TRY(read_quoted(d, &text, &n));
    unsigned key = key_of(text, n);
    FV_RETURN_IF(key == 0 || (*seen & key), d->ctx, FV_ERR_FORMAT,
                 "%s: unknown or duplicate key in the header", d->path);
    *seen |= key;
    if (!accept(d, ':')) return expected(d, "':'");
    if (key == KEY_DESCR) return read_descr(d, arena, entry, element);
    if (key == KEY_SHAPE) return read_shape(d, entry);
    *fortran = accept_word(d, "True");
    return *fortran || accept_word(d, "False") ? FV_OK : expected(d, "True or False");
}

fv_status fv_npy_parse(fv_ctx *ctx, const char *path, fv_arena *arena, const char *text,
                       size_t bytes, fv_file_entry *entry, bool *fortran)
{
    dict d = {.ctx = ctx, .path = path, .text = text, .bytes = bytes};
    unsigned seen = 0;
    int64_t element = 0;
    *fortran = false;
    if (!accept(&d, '{')) return expected(&d, "'{'");
    while (!accept(&d, '}')) {
        FV_TRY(read_member(&d, arena, &seen, entry, &element, fortran));
        skip_space(&d);
        if (!accept(&d, ',') && peek(&d) != '}') return expected(&d, "',' or '}'");
    }
    if (d.pos != bytes) return expected(&d, "the end");
    FV_RETURN_IF(seen != ALL_KEYS, ctx, FV_ERR_FORMAT,
                 "%s: the header lacks descr, fortran_order or shape", path);
    FV_RETURN_IF(!fv_shape_bytes(entry->rank, entry->shape, (size_t)element, &entry->bytes), ctx,
                 FV_ERR_FORMAT, "%s: the size of the array overflows", path);
    /* For a vector both orders are the same. */
    *fortran = *fortran && entry->rank > 1;
    return FV_OK;
}

size_t fv_npy_header(const fv_file_spec *spec, char out[FV_NPY_HEADER_BYTES])
{
    const char *descr = NULL;
    for (size_t i = 0; i < DTYPE_COUNT && !descr; i++)
        if (DTYPES[i].dtype == spec->dtype) descr = DTYPES[i].name;
    if (!descr) return 0;
    const size_t start = 10;
    char *text = out + start;
    size_t room = FV_NPY_HEADER_BYTES - start, used;
    used =
        (size_t)snprintf(text, room, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < spec->rank; i++)
        used += (size_t)snprintf(text + used, room - used, i ? " %lld," : "%lld,",
                                 (long long)spec->shape[i]);
    if (spec->rank > 1) used--; /* only "(3,)" keeps its comma */
    used += (size_t)snprintf(text + used, room - used, "), }");
    while ((start + used + 1) % 64 != 0)
        text[used++] = ' ';
    text[used++] = '\n';
    memcpy(out, fv_npy_magic, sizeof fv_npy_magic);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)(used & 0xFF);
    out[9] = (char)(used >> 8);
    return start + used;
}
