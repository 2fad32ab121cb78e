/* Encoder-decoders with one layout: Marian and BART. The bare model has no bias of the logits. */
#include "models/hf_config_parts.h"

static fv_status need_post_norm(const fv_doc *doc)
{
    FV_TRY(fv_hf_must_be(doc, "normalize_before", false));
    return fv_hf_must_be(doc, "add_final_layer_norm", false);
}

/* ---- Marian ------------------------------------------------------------------------- */

fv_status fv_hf_read_marian(const fv_doc *doc, fv_transformer_config *c)
{
    FV_TRY(need_post_norm(doc));
    FV_TRY(fv_hf_must_be(doc, "normalize_embedding", false));
    bool shared = true, fixed = true;
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "share_encoder_decoder_embeddings", false, &shared));
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "static_position_embeddings", false, &fixed));
    if (!fixed) c->positions = FV_POSITION_LEARNED;
    c->logits_bias = !fv_hf_is_named(doc, "MarianModel");
    if (shared) return FV_OK;
    c->target_vocabulary = c->vocabulary;
    return fv_doc_get_int(doc, &doc->root, "decoder_vocab_size", false, 1, 1 << 28,
                          &c->target_vocabulary);
}

void fv_hf_write_marian(fv_json_writer *w, const fv_transformer_config *c)
{
    fv_hf_write_architecture(w, c->logits_bias ? "MarianMTModel" : "MarianModel");
    fv_hf_write_flag(w, "is_encoder_decoder", true);
    fv_hf_write_flag(w, "static_position_embeddings", c->positions == FV_POSITION_SINUSOID);
    fv_hf_write_flag(w, "share_encoder_decoder_embeddings", c->target_vocabulary == 0);
    fv_json_key(w, "decoder_vocab_size");
    fv_json_int(w, c->target_vocabulary ? c->target_vocabulary : c->vocabulary);
    fv_json_key(w, "forced_eos_token_id");
    fv_json_null(w);
}

/* ---- BART --------------------------------------------------------------------------- */

fv_status fv_hf_read_bart(const fv_doc *doc, fv_transformer_config *c)
{
    int64_t offset = c->position_offset;
    FV_TRY(need_post_norm(doc));
    FV_TRY(fv_hf_must_be(doc, "normalize_embedding", true));
    FV_TRY(fv_hf_must_be(doc, "static_position_embeddings", false));
    FV_TRY(fv_hf_must_be(doc, "tie_word_embeddings", true));
    c->logits_bias = !fv_hf_is_named(doc, "BartModel");
    return fv_doc_get_int(doc, &doc->root, "extra_pos_embeddings", false, offset, offset, &offset);
}

void fv_hf_write_bart(fv_json_writer *w, const fv_transformer_config *c)
{
    fv_hf_write_architecture(w, c->logits_bias ? "BartForConditionalGeneration" : "BartModel");
    fv_hf_write_flag(w, "is_encoder_decoder", true);
    fv_json_key(w, "forced_eos_token_id");
    fv_json_null(w);
}
