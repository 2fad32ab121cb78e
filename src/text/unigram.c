/*
 * Unigram: finds the segmentation of a piece into tokens with the largest sum of scores (Viterbi).
 * A character without a token scores 10 less than the worst token.
 *
 * Equal sums are common ("l ll" and "ll l"), so rounding decides: Hugging Face adds in double,
 * SentencePiece in float. Each is reproduced.
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

/* Uses a token from `start` to `end` if it gives the best path to `end` so far. */
static void try_token(fv_tokenizer_encoder *enc, size_t start, size_t end, int32_t id, double score)
{
    fv_lattice_node *p = &enc->lattice[end];
    if (enc->tok->model.kinds) score = (double)(float)score;
    if (p->start != NOWHERE && !(score > p->score)) return;
    *p = (fv_lattice_node){.score = score, .id = id, .start = (uint32_t)start};
}

/* Tries all tokens that begin at `start`. */
static fv_status try_tokens(fv_tokenizer_encoder *enc, const char *text, size_t start, size_t bytes)
{
    const fv_token_model *model = &enc->tok->model;
    const double here = enc->lattice[start].score;
    const size_t letter = fv_lead_length(text[start]);
    bool has_letter = false;
    uint32_t node = FV_ROOT_PIECES;
    size_t i = start;
    for (; i < bytes && (node = fv_trie_step(&model->pieces, node, text[i])); i++) {
        const int32_t id = model->pieces.values[node];
        if (id < 0) continue;
        double score = model->scores[id];
        /* Above any score of a model, which are log-probabilities: user-defined pieces always win.
         */
        if (model->kinds && model->kinds[id] == FV_PIECE_USER) score = 0.1 * (double)(i - start);
        try_token(enc, start, i + 1, id, score + here);
        if (i + 1 - start == letter) has_letter = true;
    }
    FV_TRY(fv_encoder_spend(enc, 4 * (i - start))); /* a step in the trie may miss the cache */
    if (has_letter) return FV_OK;
    FV_RETURN_IF(model->unk < 0, enc->ctx, FV_ERR_STATE,
                 "tokenizer: unknown character, and the model has no unknown token");
    try_token(enc, start, start + letter, model->unk, model->unk_score + here);
    return FV_OK;
}

/* Reverses the best path, so that it can be followed from the start. */
static void trace_back(fv_tokenizer_encoder *enc, size_t bytes)
{
    for (size_t end = bytes; end > 0; end = enc->lattice[end].start)
        enc->lattice[enc->lattice[end].start].next = (uint32_t)end;
}

/* Offsets of byte tokens differ: in Hugging Face each covers the whole text, in SentencePiece only
 * the last one does. */
fv_status fv_encoder_add_unknown(fv_tokenizer_encoder *enc, const char *text, size_t begin,
                                 size_t end)
{
    const fv_token_model *model = &enc->tok->model;
    bool as_bytes = model->byte_fallback;
    for (size_t i = begin; i < end && as_bytes; i++)
        as_bytes = model->fallback_ids[(unsigned char)text[i]] >= 0;
    /* Text unknown to the model may be in Marian's vocabulary, which has both languages. */
    const int32_t other = fv_token_model_is_marian(model)
                              ? fv_vocab_find(&enc->tok->vocab, text + begin, end - begin)
                              : -1;
    if (!as_bytes) return fv_encoder_add_token(enc, other >= 0 ? other : model->unk, begin, end);
    for (size_t i = begin; i < end; i++)
        FV_TRY(fv_encoder_add_token(enc, model->fallback_ids[(unsigned char)text[i]], begin,
                                    model->kinds && i + 1 < end ? begin : end));
    return FV_OK;
}

fv_status fv_encode_piece_unigram(fv_tokenizer_encoder *enc, const char *text, size_t bytes)
{
    const fv_token_model *model = &enc->tok->model;
    const bool fused = fv_token_model_fuses_unknown(model);
    FV_TRY(reserve(enc, bytes));
    for (size_t i = 0; i < bytes; i += fv_lead_length(text[i]))
        FV_TRY(try_tokens(enc, text, i, bytes));
    trace_back(enc, bytes);
    const fv_lattice_node *p = enc->lattice;
    for (size_t begin = 0, end; begin < bytes; begin = end) {
        end = p[begin].next;
        int32_t id = p[end].id;
        bool unknown = id == model->unk;
        while (unknown && fused && end < bytes && p[p[end].next].id == id)
            end = p[end].next;
        /* The text may spell the unknown token itself; Hugging Face then uses it. */
        if (unknown && !model->kinds) {
            id = fv_token_model_find(enc->tok, text + begin, end - begin);
            unknown = id < 0;
        }
        FV_TRY(unknown ? fv_encoder_add_unknown(enc, text, begin, end)
                       : fv_encoder_add_token(enc, id, begin, end));
    }
    return FV_OK;
}
