/* JSON: whatever is accepted must be written and read again as the same text. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "io/json.h"
#include "support/tree.h"

/* Writes the tree of a text; false if it is refused or cannot be written. */
static bool rewrite(fv_ctx *ctx, const char *text, size_t bytes, fv_json_writer *w)
{
    fv_doc *doc = NULL;
    fv_json_begin(w, ctx);
    if (fv_json_parse(ctx, "input", text, bytes, &doc) != FV_OK) return false;
    tree_write(w, &doc->root);
    fv_doc_free(&doc);
    return fv_json_end(w) == FV_OK;
}

FUZZ_TARGET(data, bytes)
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
