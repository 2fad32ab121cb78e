/*
 * Unigram: of all ways to write a piece as tokens, the one whose scores have the largest sum. Going
 * from left to right, the best way to every place is known before any token begins there (Viterbi).
 * A character without a token costs 10 more than the worst token.
 *
 * Sums of equal value are common ("l ll" and "ll l"), so rounding decides: Hugging Face adds in
 * double, SentencePiece in float. Both are done as they do it.
 */
#include "text/tokenizer_encoder.h"

enum { NOWHERE = UINT32_MAX };

static fv_status reserve(fv_tokenizer_encoder *enc, size_t bytes)
{
    fv_lattice_node *lattice =
        fv_mem_grow(&enc->ctx->mem, enc->lattice, &enc->lattice_room, bytes + 1, sizeof *lattice);
    FV_RETURN_IF(!lattice, enc->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    enc->lattice = lattice;
    for (size_t i = 0; i <= bytes; i++)
        lattice[i] = (fv_lattice_node){.id = -1, .start = NOWHERE};
    lattice[0].score = 0;
    return FV_OK;
}

/* A token from `start` to `end`, if there is no better way to the end yet. */
static void try_token(fv_tokenizer_encoder *enc, size_t start, size_t end, int32_t id, double score)
{
    fv_lattice_node *p = &enc->lattice[end];
    if (enc->tok->model.kinds) score = (double)(float)score;
    if (p->start != NOWHERE && !(score > p->score)) return;
    *p = (fv_lattice_node){.score = score, .id = id, .start = (uint32_t)start};
}

/* All tokens that begin at `start`. */
static fv_status try_tokens(fv_tokenizer_encoder *enc, const char *text, size_t start, size_t bytes)
{
    const fv_token_model *model = &enc->tok->model;
    const double here = enc->lattice[start].score;
    const size_t letter = fv_lead_length(text[start]);
    bool has_letter = false;
    uint32_t node = FV_ROOT_PIECES;
    for (size_t i = start; i < bytes && (node = fv_trie_step(&model->pieces, node, text[i])); i++) {
        const int32_t id = model->pieces.values[node];
        if (id < 0) continue;
        double score = model->scores[id];
        /* More than any score of a model, which are logarithms: what the user defined wins. */
        if (model->kinds && model->kinds[id] == FV_PIECE_USER) score = 0.1 * (double)(i - start);
        try_token(enc, start, i + 1, id, score + here);
        if (i + 1 - start == letter) has_letter = true;
    }
    if (has_letter) return FV_OK;
    FV_RETURN_IF(model->unk < 0, enc->ctx, FV_ERR_STATE,
                 "tokenizer: an unknown character, and the model has no token for such");
    try_token(enc, start, start + letter, model->unk, model->unk_score + here);
    return FV_OK;
}

/* Turns the way back into a way forward. */
static void trace_back(fv_tokenizer_encoder *enc, size_t bytes)
{
    for (size_t end = bytes; end > 0; end = enc->lattice[end].start)
        enc->lattice[enc->lattice[end].start].next = (uint32_t)end;
}

/* Where the bytes lie differs: each stands for all of the text to Hugging Face, and only the last
 * one to SentencePiece. */
fv_status fv_encoder_add_unknown(fv_tokenizer_encoder *enc, const char *text, size_t begin,
                                 size_t end)
{
    const fv_token_model *model = &enc->tok->model;
    bool as_bytes = model->byte_fallback;
    for (size_t i = begin; i < end && as_bytes; i++)
        as_bytes = model->fallback_ids[(unsigned char)text[i]] >= 0;
    /* What the model does not know may be in Marian's vocabulary, which has both languages. */
    const int32_t other = fv_token_model_is_marian(model)
                              ? fv_vocab_find(&enc->tok->vocab, text + begin, end - begin)
                              : -1;
    if (!as_bytes) return fv_encoder_add_token(enc, other >= 0 ? other : model->unk, begin, end);
    for (size_t i = begin; i < end; i++)
        FV_FORWARD(fv_encoder_add_token(enc, model->fallback_ids[(unsigned char)text[i]], begin,
                                        model->kinds && i + 1 < end ? begin : end));
    return FV_OK;
}

fv_status fv_encode_piece_unigram(fv_tokenizer_encoder *enc, const char *text, size_t bytes)
{
    const fv_token_model *model = &enc->tok->model;
    const bool fused = fv_token_model_fuses_unknown(model);
    FV_FORWARD(reserve(enc, bytes));
    for (size_t i = 0; i < bytes; i += fv_lead_length(text[i]))
        FV_FORWARD(try_tokens(enc, text, i, bytes));
    trace_back(enc, bytes);
    const fv_lattice_node *p = enc->lattice;
    for (size_t begin = 0, end; begin < bytes; begin = end) {
        end = p[begin].next;
        int32_t id = p[end].id;
        bool unknown = id == model->unk;
        while (unknown && fused && end < bytes && p[p[end].next].id == id)
            end = p[end].next;
        /* The text may spell the unknown token itself, which Hugging Face takes at its word. */
        if (unknown && !model->kinds) {
            id = fv_token_model_find(enc->tok, text + begin, end - begin);
            unknown = id < 0;
        }
        FV_FORWARD(unknown ? fv_encoder_add_unknown(enc, text, begin, end)
                           : fv_encoder_add_token(enc, id, begin, end));
    }
    return FV_OK;
}
