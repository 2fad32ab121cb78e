#include "io/choices.h"

#include <string.h>

const char *fv_choice_at(const char *choices, int64_t index, size_t *length)
{
    const char *p = choices;
    for (; index > 0 && strchr(p, '|'); index--)
        p += strcspn(p, "|") + 1;
    *length = strcspn(p, "|");
    return p;
}

fv_status fv_doc_choice(const fv_doc *doc, const fv_value *value, const char *choices, int64_t *out)
{
    const char *text = NULL;
    FV_TRY(fv_doc_string(doc, value, &text));
    const size_t n = strlen(text);
    const char *p = choices;
    for (int64_t i = 0; *p; i++) {
        const size_t length = strcspn(p, "|");
        if (length == n && memcmp(p, text, n) == 0) {
            *out = i;
            return FV_OK;
        }
        p += length + (p[length] == '|');
    }
    return fv_doc_fail(doc, value, FV_ERR_FORMAT, "'%.40s' is invalid, expected one of %s", text,
                       choices);
}
