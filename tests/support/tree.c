#include "support/tree.h"

#include <math.h>

void tree_write(fv_json_writer *w, const fv_value *v)
{
    switch (v->kind) {
    case FV_VALUE_NULL:
        fv_json_null(w);
        break;
    case FV_VALUE_BOOL:
        fv_json_bool(w, v->as.boolean);
        break;
    case FV_VALUE_INT:
        fv_json_int(w, v->as.integer);
        break;
    case FV_VALUE_REAL:
        if (isfinite(v->as.real))
            fv_json_real(w, v->as.real);
        else
            fv_json_string(w, isnan(v->as.real) ? "nan" : v->as.real < 0 ? "-inf" : "inf");
        break;
    case FV_VALUE_STRING:
        fv_json_string_n(w, v->as.text, v->count);
        break;
    case FV_VALUE_ARRAY:
        fv_json_open(w, '[');
        for (uint32_t i = 0; i < v->count; i++)
            tree_write(w, &v->as.items[i]);
        fv_json_close(w, ']');
        break;
    case FV_VALUE_OBJECT:
        fv_json_open(w, '{');
        for (uint32_t i = 0; i < v->count; i++) {
            fv_json_key_n(w, v->as.members[i].key, v->as.members[i].key_bytes);
            tree_write(w, &v->as.members[i].value);
        }
        fv_json_close(w, '}');
        break;
    }
}
