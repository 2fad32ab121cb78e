/* JSON: whatever is accepted must be written and read again as the same text. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "io/json.h"
#include "io/json_write.h"

/* Depth is bounded by fv_limits.json_depth. */
static void dump(fv_json_writer *w, const fv_value *v)
{
    switch (v->kind) {
    case FV_KIND_NULL:
        fv_json_null(w);
        break;
    case FV_KIND_BOOL:
        fv_json_bool(w, v->as.boolean);
        break;
    case FV_KIND_INT:
        fv_json_int(w, v->as.integer);
        break;
    case FV_KIND_REAL:
        fv_json_real(w, v->as.real);
        break;
    case FV_KIND_STRING:
        fv_json_string_n(w, v->as.text, v->count);
        break;
    case FV_KIND_ARRAY:
        fv_json_open(w, '[');
        for (uint32_t i = 0; i < v->count; i++)
            dump(w, &v->as.items[i]);
        fv_json_close(w, ']');
        break;
    case FV_KIND_OBJECT:
        fv_json_open(w, '{');
        for (uint32_t i = 0; i < v->count; i++) {
            const fv_member *m = &v->as.members[i];
            /* The writer's keys end at a NUL; such a text is left out of the comparison. */
            if (memchr(m->key, '\0', m->key_bytes)) w->status = FV_ERR_ARGUMENT;
            fv_json_key(w, m->key);
            dump(w, &m->value);
        }
        fv_json_close(w, '}');
        break;
    }
}

/* Writes the tree of a text; false if it is refused or cannot be written. */
static bool rewrite(fv_ctx *ctx, const char *text, size_t bytes, fv_json_writer *w)
{
    fv_doc *doc = NULL;
    fv_json_begin(w, ctx);
    if (fv_json_parse(ctx, "input", text, bytes, &doc) != FV_OK) return false;
    dump(w, &doc->root);
    fv_doc_free(&doc);
    return fv_json_end(w) == FV_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    fv_json_writer first, second;
    if (rewrite(ctx, (const char *)data, bytes, &first)) {
        if (!rewrite(ctx, first.text, first.bytes, &second) || first.bytes != second.bytes ||
            memcmp(first.text, second.text, first.bytes) != 0)
            abort();
        fv_json_free(&second);
    }
    fv_json_free(&first);
    fuzz_check(ctx);
    return 0;
}
