/* TOML: the root is a table, and each of its keys is found again. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "io/toml.h"

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    fv_doc *doc = NULL;
    if (fv_toml_parse(ctx, "input", (const char *)data, bytes, &doc) == FV_OK) {
        if (doc->root.kind != FV_VALUE_OBJECT) abort();
        for (uint32_t i = 0; i < doc->root.count; i++) {
            const fv_member *m = &doc->root.as.members[i];
            bool searchable = !memchr(m->key, '\0', m->key_bytes);
            if (searchable && fv_value_get(&doc->root, m->key) != &m->value) abort();
        }
    }
    fv_doc_free(&doc);
    fuzz_check(ctx);
    return 0;
}
