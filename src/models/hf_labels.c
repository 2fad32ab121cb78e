#include "models/hf_labels.h"

#include <stdio.h>
#include <string.h>

#include "io/json.h"

const char *fv_hf_label_plain(int64_t label, char out[FV_LABEL_BYTES])
{
    snprintf(out, FV_LABEL_BYTES, "LABEL_%lld", (long long)label);
    return out;
}

/* Keys are decimal numbers, as texts. -1: not one of the classes'. */
static int64_t number_of(const fv_member *m, int64_t labels)
{
    int64_t number = 0;
    for (uint32_t i = 0; i < m->key_bytes; i++) {
        const char c = m->key[i];
        if (c < '0' || c > '9' || number >= labels) return -1;
        number = 10 * number + (c - '0');
    }
    return m->key_bytes > 0 && number < labels ? number : -1;
}

static fv_status read_names(const fv_doc *doc, const fv_value *list, int64_t labels,
                            fv_arena *arena, const char **names)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const fv_member *m = &list->as.members[i];
        const int64_t at = number_of(m, labels);
        const char *text = NULL;
        if (at < 0)
            return fv_doc_fail(doc, &m->value, FV_ERR_FORMAT,
                               "'id2label' names '%.40s', and the classes are 0 to %lld", m->key,
                               (long long)labels - 1);
        FV_TRY(fv_doc_string(doc, &m->value, &text));
        names[at] = fv_arena_text(arena, text, strlen(text));
        FV_RETURN_IF(!names[at], doc->ctx, FV_ERR_MEMORY, "no memory for names of classes");
    }
    return FV_OK;
}

static fv_status name_all(const fv_doc *doc, const fv_value *list, int64_t labels, fv_arena *arena,
                          const char *const **out)
{
    const char **names = fv_arena_array(arena, (size_t)labels, sizeof *names);
    FV_RETURN_IF(!names, doc->ctx, FV_ERR_MEMORY, "no memory for names of classes");
    for (int64_t i = 0; i < labels; i++)
        names[i] = NULL;
    FV_TRY(read_names(doc, list, labels, arena, names));
    for (int64_t i = 0; i < labels; i++) {
        char plain[FV_LABEL_BYTES];
        if (names[i]) continue;
        fv_hf_label_plain(i, plain);
        names[i] = fv_arena_text(arena, plain, strlen(plain));
        FV_RETURN_IF(!names[i], doc->ctx, FV_ERR_MEMORY, "no memory for names of classes");
    }
    *out = names;
    return FV_OK;
}

fv_status fv_hf_labels_load(fv_ctx *ctx, const char *config, int64_t labels, fv_arena *arena,
                            const char *const **out)
{
    fv_doc *doc = NULL;
    FV_TRY(fv_json_load(ctx, config, &doc));
    const fv_value *list = fv_value_get(&doc->root, "id2label");
    fv_status status = FV_OK;
    *out = NULL;
    if (list && list->kind != FV_VALUE_NULL) {
        status = fv_doc_kind(doc, list, FV_VALUE_OBJECT);
        if (status == FV_OK) status = name_all(doc, list, labels, arena, out);
    }
    fv_doc_free(&doc);
    return status;
}
