/* Marian. */
#include "models/hf_config_parts.h"

fv_status fv_hf_read_marian(const fv_doc *doc, fv_transformer_config *c)
{
    static const char *const never[] = {"normalize_before", "normalize_embedding",
                                        "add_final_layer_norm"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        FV_TRY(fv_hf_must_be(doc, never[i], false));
    bool shared = true, fixed = true;
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "share_encoder_decoder_embeddings", false, &shared));
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "static_position_embeddings", false, &fixed));
    if (!fixed) c->positions = FV_POSITION_LEARNED;
    if (shared) return FV_OK;
    c->target_vocabulary = c->vocabulary;
    return fv_doc_get_int(doc, &doc->root, "decoder_vocab_size", false, 1, 1 << 28,
                          &c->target_vocabulary);
}

void fv_hf_write_marian(fv_json_writer *w, const fv_transformer_config *c)
{
    fv_hf_write_architecture(w, "MarianMTModel");
    fv_hf_write_flag(w, "is_encoder_decoder", true);
    fv_hf_write_flag(w, "static_position_embeddings", c->positions == FV_POSITION_SINUSOID);
    fv_hf_write_flag(w, "share_encoder_decoder_embeddings", c->target_vocabulary == 0);
    fv_json_key(w, "decoder_vocab_size");
    fv_json_int(w, c->target_vocabulary ? c->target_vocabulary : c->vocabulary);
    fv_json_key(w, "forced_eos_token_id");
    fv_json_null(w);
}
