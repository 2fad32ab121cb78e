/* config.json of Llama: how rotary positions are written. */
#include "models/hf_config_parts.h"

#include <string.h>

static fv_status read_stretching(const fv_doc *doc, const fv_value *rope, fv_rotary_config *r)
{
    const char *type = "default";
    FV_TRY(fv_doc_get_string(doc, rope, "type", false, &type));
    FV_TRY(fv_doc_get_string(doc, rope, "rope_type", false, &type));
    if (strcmp(type, "default") == 0) return FV_OK;
    if (strcmp(type, "linear") == 0)
        return fv_doc_get_real(doc, rope, "factor", true, &r->linear_factor);
    if (strcmp(type, "llama3") != 0)
        return fv_doc_fail(doc, rope, FV_ERR_FORMAT, "rope_type '%.40s' is not supported", type);
    FV_TRY(fv_doc_get_real(doc, rope, "factor", true, &r->llama3_factor));
    FV_TRY(fv_doc_get_real(doc, rope, "low_freq_factor", true, &r->low_freq));
    FV_TRY(fv_doc_get_real(doc, rope, "high_freq_factor", true, &r->high_freq));
    return fv_doc_get_real(doc, rope, "original_max_position_embeddings", true, &r->original);
}

fv_status fv_hf_read_llama(const fv_doc *doc, fv_transformer_config *c)
{
    static const char *const sections[] = {"rope_scaling", "rope_parameters"};
    FV_TRY(fv_doc_get_real(doc, &doc->root, "rope_theta", false, &c->rotary.base));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const fv_value *rope = fv_value_get(&doc->root, sections[i]);
        if (!rope || rope->kind == FV_VALUE_NULL) continue;
        FV_TRY(fv_doc_kind(doc, rope, FV_VALUE_OBJECT));
        FV_TRY(fv_doc_get_real(doc, rope, "rope_theta", false, &c->rotary.base));
        FV_TRY(read_stretching(doc, rope, &c->rotary));
    }
    return FV_OK;
}

void fv_hf_write_llama(fv_json_writer *w, const fv_transformer_config *c)
{
    const fv_rotary_config *r = &c->rotary;
    fv_hf_write_architecture(w, "LlamaForCausalLM");
    fv_hf_write_real(w, "rope_theta", r->base);
    fv_json_key(w, "rope_parameters");
    fv_json_open(w, '{');
    fv_hf_write_real(w, "rope_theta", r->base);
    fv_json_key(w, "rope_type");
    fv_json_string(w, r->llama3_factor > 0    ? "llama3"
                      : r->linear_factor != 1 ? "linear"
                                              : "default");
    if (r->llama3_factor > 0) {
        fv_hf_write_real(w, "factor", r->llama3_factor);
        fv_hf_write_real(w, "low_freq_factor", r->low_freq);
        fv_hf_write_real(w, "high_freq_factor", r->high_freq);
        fv_json_key(w, "original_max_position_embeddings");
        fv_json_int(w, (int64_t)r->original);
    } else if (r->linear_factor != 1) {
        fv_hf_write_real(w, "factor", r->linear_factor);
    }
    fv_json_close(w, '}');
}
