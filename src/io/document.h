/*
 * A parsed JSON or TOML document, and typed access to it. Reading a value as the wrong type fails
 * with "file:line:column: expected ..., found ...".
 *
 *     fv_doc *doc = NULL;
 *     FV_TRY(fv_json_parse(ctx, "config.json", text, bytes, &doc));
 *     int64_t heads = 8;                                       // unchanged if the key is absent
 *     s = fv_doc_get_int(doc, &doc->root, "n_head", false, 1, 1024, &heads);
 *     fv_doc_free(&doc);
 *
 * Keys are unique. Array access takes constant time, member lookup logarithmic time.
 */
#ifndef FV_IO_DOCUMENT_H
#define FV_IO_DOCUMENT_H

#include "base/ctx.h"
#include "io/arena.h"

typedef enum fv_value_kind {
    FV_VALUE_NULL,
    FV_VALUE_BOOL,
    FV_VALUE_INT,  /* no fraction, no exponent, fits int64_t */
    FV_VALUE_REAL, /* any other number */
    FV_VALUE_STRING,
    FV_VALUE_ARRAY,
    FV_VALUE_OBJECT
} fv_value_kind;

typedef struct fv_value {
    fv_value_kind kind;
    uint32_t line, column; /* from 1; columns count bytes */
    uint32_t count;        /* bytes of a string, items of an array, members of an object */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *text; /* valid UTF-8, NUL-terminated; may contain NUL bytes */
        const struct fv_value *items;
        const struct fv_member *members; /* in document order */
    } as;
} fv_value;

typedef struct fv_member {
    const char *key;
    uint32_t key_bytes;
    fv_value value;
} fv_member;

/* A parsed document; owns its values. */
typedef struct fv_doc {
    fv_ctx *ctx;
    fv_arena arena;
    const char *name; /* of the file, for messages */
    fv_value root;
} fv_doc;

/* ---- access ------------------------------------------------------------------------- */

void fv_doc_free(fv_doc **doc);

const char *fv_value_kind_name(fv_value_kind kind); /* "a string", ... */

/* The value of a member; NULL if it is absent or `object` is not an object. */
const fv_value *fv_value_get(const fv_value *object, const char *key);

/* Records "name:line:column: text" and returns `status`. */
fv_status fv_doc_fail(const fv_doc *doc, const fv_value *where, fv_status status, const char *fmt,
                      ...) FV_PRINTF(4, 5);

/* The value as a type; fails with FV_ERR_FORMAT if it has another. A real number with an integral
 * value is accepted as an integer, and an integer as a real. Strings with NUL bytes are rejected.
 */
fv_status fv_doc_int(const fv_doc *doc, const fv_value *v, int64_t min, int64_t max, int64_t *out);
fv_status fv_doc_real(const fv_doc *doc, const fv_value *v, double *out);
fv_status fv_doc_bool(const fv_doc *doc, const fv_value *v, bool *out);
fv_status fv_doc_string(const fv_doc *doc, const fv_value *v, const char **out);
fv_status fv_doc_kind(const fv_doc *doc, const fv_value *v, fv_value_kind kind);

/* The same for the member `key`. If it is absent: an error if `required`, otherwise *out is
 * unchanged.
 */
fv_status fv_doc_get(const fv_doc *doc, const fv_value *object, const char *key, fv_value_kind kind,
                     const fv_value **out); /* required */
fv_status fv_doc_get_int(const fv_doc *doc, const fv_value *object, const char *key, bool required,
                         int64_t min, int64_t max, int64_t *out);
fv_status fv_doc_get_real(const fv_doc *doc, const fv_value *object, const char *key, bool required,
                          double *out);
fv_status fv_doc_get_bool(const fv_doc *doc, const fv_value *object, const char *key, bool required,
                          bool *out);
fv_status fv_doc_get_string(const fv_doc *doc, const fv_value *object, const char *key,
                            bool required, const char **out);

/* ---- for parsers ----------------------------------------------------------------- */

/* An empty document with a copy of `name`; NULL if out of memory. */
fv_doc *fv_doc_create(fv_ctx *ctx, const char *name);

/*
 * Makes *at an object of `count` members: copies them and sorts an index by key. *duplicate is the
 * second of two members with the same key, or NULL. Returns false if out of memory.
 */
bool fv_doc_make_object(fv_doc *doc, const fv_member *members, size_t count, fv_value *at,
                        const fv_member **duplicate);

#endif
