/* Converts a SentencePiece model to a tokenizer.json. */
#include <string.h>

#include "io/sort.h"
#include "text/base64.h"
#include "text/sentencepiece.h"
#include "text/tokenizer_write.h"

static const char mark[] = "\xE2\x96\x81";

static void text(fv_json_writer *w, const char *key, fv_string value)
{
    fv_json_key(w, key);
    fv_json_string_n(w, value.text, value.bytes);
}

/* ---- pipeline -------------------------------------------------------------------- */

static bool is_added(const fv_sentencepiece *sp, const fv_sentence_piece *p)
{
    if (!sp->specials)
        return p->kind == FV_PIECE_UNKNOWN || p->kind == FV_PIECE_CONTROL ||
               p->kind == FV_PIECE_USER;
    for (int i = 0; sp->specials[i]; i++)
        if (p->text.bytes == strlen(sp->specials[i]) &&
            memcmp(p->text.text, sp->specials[i], p->text.bytes) == 0)
            return true;
    return false;
}

static void write_added(fv_json_writer *w, const fv_sentencepiece *sp)
{
    fv_json_key(w, "added_tokens");
    fv_json_open(w, '[');
    for (size_t i = 0; i < sp->count; i++)
        if (is_added(sp, &sp->pieces[i]))
            fv_json_added_token(w, sp->pieces[i].text, (int64_t)i,
                                sp->pieces[i].kind != FV_PIECE_USER);
    fv_json_close(w, ']');
}

/* A text, or a text and its pair, then the end token. */
static void write_post_processor(fv_json_writer *w, const fv_sentencepiece *sp)
{
    if (!sp->specials) {
        fv_json_string_member(w, "post_processor", NULL);
        return;
    }
    const char *end = sp->pieces[sp->end].text.text;
    fv_json_key(w, "post_processor");
    fv_json_open_typed(w, "TemplateProcessing");
    for (int pair = 0; pair < 2; pair++) {
        fv_json_key(w, pair ? "pair" : "single");
        fv_json_open(w, '[');
        fv_json_template_piece(w, "Sequence", "A", 0);
        if (pair) fv_json_template_piece(w, "Sequence", "B", 0);
        fv_json_template_piece(w, "SpecialToken", end, 0);
        fv_json_close(w, ']');
    }
    fv_json_key(w, "special_tokens");
    fv_json_open(w, '{');
    fv_json_special_token(w, end, (int64_t)sp->end);
    fv_json_close(w, '}');
    fv_json_close(w, '}');
}

static fv_status write_charsmap(fv_json_writer *w, const fv_sentencepiece *sp)
{
    fv_text letters = {0};
    FV_TRY(fv_base64_encode(w->ctx, sp->charsmap.text, sp->charsmap.bytes, &letters));
    fv_json_open_typed(w, "Precompiled");
    text(w, "precompiled_charsmap", (fv_string){letters.data, letters.bytes});
    fv_json_close(w, '}');
    fv_text_free(w->ctx, &letters);
    return FV_OK;
}

static fv_status write_normalizer(fv_json_writer *w, const fv_sentencepiece *sp)
{
    fv_json_key(w, "normalizer");
    fv_json_open_typed(w, "Sequence");
    fv_json_key(w, "normalizers");
    fv_json_open(w, '[');
    if (sp->charsmap.bytes) FV_TRY(write_charsmap(w, sp));
    if (sp->remove_extra_whitespaces) {
        fv_json_open_typed(w, "Strip");
        fv_json_bool_member(w, "strip_left", true);
        fv_json_bool_member(w, "strip_right", true);
        fv_json_close(w, '}');
        fv_json_open_typed(w, "Replace");
        fv_json_key(w, "pattern");
        fv_json_open(w, '{');
        fv_json_string_member(w, "Regex", " {2,}");
        fv_json_close(w, '}');
        fv_json_string_member(w, "content", " ");
        fv_json_close(w, '}');
    }
    fv_json_close(w, ']');
    fv_json_key(w, "sentencepiece");
    fv_json_open(w, '{');
    fv_json_bool_member(w, "add_dummy_prefix", sp->add_dummy_prefix);
    fv_json_bool_member(w, "remove_extra_whitespaces", sp->remove_extra_whitespaces);
    fv_json_bool_member(w, "escape_whitespaces", sp->escape_whitespaces);
    fv_json_bool_member(w, "treat_whitespace_as_suffix", sp->whitespace_as_suffix);
    fv_json_close(w, '}');
    fv_json_close(w, '}');
    return FV_OK;
}

/* Leaves the object open. */
static void open_metaspace(fv_json_writer *w, const fv_sentencepiece *sp)
{
    fv_json_open_typed(w, "Metaspace");
    fv_json_string_member(w, "replacement", mark);
    fv_json_string_member(w, "prepend_scheme", sp->add_dummy_prefix ? "always" : "never");
    fv_json_bool_member(w, "split", false);
}

static void write_pre_tokenizer(fv_json_writer *w, const fv_sentencepiece *sp)
{
    fv_json_key(w, "pre_tokenizer");
    open_metaspace(w, sp);
    fv_json_key(w, "sentencepiece");
    fv_json_open(w, '{');
    fv_json_close(w, '}');
    fv_json_close(w, '}');
}

static void write_decoder(fv_json_writer *w, const fv_sentencepiece *sp)
{
    fv_json_key(w, "decoder");
    fv_json_open_typed(w, "Sequence");
    fv_json_key(w, "decoders");
    fv_json_open(w, '[');
    if (sp->byte_fallback) {
        fv_json_open_typed(w, "ByteFallback");
        fv_json_close(w, '}');
    }
    open_metaspace(w, sp);
    fv_json_close(w, '}');
    fv_json_close(w, ']');
    fv_json_key(w, "sentencepiece");
    fv_json_open(w, '{');
    text(w, "unk_surface", sp->unknown);
    fv_json_bool_member(w, "add_dummy_prefix", sp->add_dummy_prefix);
    fv_json_bool_member(w, "remove_extra_whitespaces", sp->remove_extra_whitespaces);
    fv_json_close(w, '}');
    fv_json_close(w, '}');
}

/* ---- model ----------------------------------------------------------------------- */

/* One digit per piece. */
static fv_status write_kinds(fv_json_writer *w, const fv_sentencepiece *sp)
{
    fv_text digits = {0};
    FV_TRY(fv_text_reserve(w->ctx, &digits, sp->count));
    for (size_t i = 0; i < sp->count; i++)
        digits.data[i] = (char)('0' + (int)sp->pieces[i].kind);
    text(w, "kinds", (fv_string){digits.data, sp->count});
    fv_text_free(w->ctx, &digits);
    return FV_OK;
}

static fv_status write_unigram(fv_json_writer *w, const fv_sentencepiece *sp, int64_t unknown)
{
    fv_json_open_typed(w, "Unigram");
    fv_json_key(w, "unk_id");
    fv_json_int(w, unknown);
    fv_json_key(w, "vocab");
    fv_json_open(w, '[');
    for (size_t i = 0; i < sp->count; i++) {
        fv_json_open(w, '[');
        fv_json_string_n(w, sp->pieces[i].text.text, sp->pieces[i].text.bytes);
        fv_json_real(w, (double)sp->pieces[i].score);
        fv_json_close(w, ']');
    }
    fv_json_close(w, ']');
    return FV_OK;
}

static int by_score(const void *pieces, uint32_t a, uint32_t b)
{
    const fv_sentence_piece *p = pieces;
    return (p[a].score < p[b].score) - (p[a].score > p[b].score);
}

/* All pairs of pieces that concatenate to a piece. */
static void write_pairs_of(fv_json_writer *w, const fv_vocab *vocab, fv_string piece)
{
    for (size_t i = 1; i < piece.bytes; i++) {
        if ((piece.text[i] & 0xC0) == 0x80) continue;
        if (fv_vocab_find(vocab, piece.text, i) < 0 ||
            fv_vocab_find(vocab, piece.text + i, piece.bytes - i) < 0)
            continue;
        fv_json_open(w, '[');
        fv_json_string_n(w, piece.text, i);
        fv_json_string_n(w, piece.text + i, piece.bytes - i);
        fv_json_close(w, ']');
    }
}

/* Merges, for other libraries; this one uses the scores. */
static void write_merges(fv_json_writer *w, const fv_sentencepiece *sp, const fv_vocab *vocab,
                         const uint32_t *order)
{
    enum { LONGEST = 256 };
    fv_json_key(w, "merges");
    fv_json_open(w, '[');
    for (size_t i = 0; i < sp->count && sp->type == FV_SENTENCEPIECE_BPE; i++) {
        const fv_sentence_piece *p = &sp->pieces[order[i]];
        if (p->kind == FV_PIECE_NORMAL && p->text.bytes <= LONGEST)
            write_pairs_of(w, vocab, p->text);
    }
    fv_json_close(w, ']');
}

static fv_status write_bpe(fv_json_writer *w, const fv_sentencepiece *sp, int64_t unknown)
{
    fv_vocab vocab;
    fv_status s = FV_OK;
    size_t bytes = 2 * sp->count * sizeof(uint32_t);
    uint32_t *order = fv_mem_alloc(&w->ctx->mem, bytes);
    FV_RETURN_IF(!order, w->ctx, FV_ERR_MEMORY, "out of memory");
    fv_vocab_init(&vocab, w->ctx);
    fv_json_open_typed(w, "BPE");
    text(w, "unk_token", sp->pieces[unknown].text);
    fv_json_bool_member(w, "fuse_unk", true);
    fv_json_key(w, "vocab");
    fv_json_open(w, '{');
    for (size_t i = 0; i < sp->count && s == FV_OK; i++) {
        const fv_string piece = sp->pieces[i].text;
        s = fv_vocab_put(&vocab, piece.text, piece.bytes, (int64_t)i);
        fv_json_key_n(w, piece.text, piece.bytes);
        fv_json_int(w, (int64_t)i);
    }
    fv_json_close(w, '}');
    if (s == FV_OK) {
        fv_argsort(sp->pieces, sp->count, by_score, order, order + sp->count);
        write_merges(w, sp, &vocab, order);
    }
    fv_vocab_free(&vocab);
    fv_mem_free(&w->ctx->mem, order, bytes);
    return s;
}

static void write_scores(fv_json_writer *w, const fv_sentencepiece *sp)
{
    fv_json_key(w, "scores");
    fv_json_open(w, '[');
    for (size_t i = 0; i < sp->count; i++)
        fv_json_real(w, (double)sp->pieces[i].score);
    fv_json_close(w, ']');
    fv_json_bool_member(w, "joins", sp->type == FV_SENTENCEPIECE_BPE);
}

static fv_status write_model(fv_json_writer *w, const fv_sentencepiece *sp)
{
    const bool unigram = sp->type == FV_SENTENCEPIECE_UNIGRAM;
    int64_t unknown = 0;
    while (sp->pieces[unknown].kind != FV_PIECE_UNKNOWN)
        unknown++;
    fv_json_key(w, "model");
    FV_TRY(unigram ? write_unigram(w, sp, unknown) : write_bpe(w, sp, unknown));
    fv_json_bool_member(w, "byte_fallback", sp->byte_fallback);
    fv_json_key(w, "sentencepiece");
    fv_json_open(w, '{');
    FV_TRY(write_kinds(w, sp));
    if (!unigram) write_scores(w, sp);
    if (sp->visible_ids) {
        fv_json_key(w, "marian");
        fv_json_int(w, (int64_t)sp->visible_ids);
    }
    fv_json_close(w, '}');
    fv_json_close(w, '}');
    return FV_OK;
}

static fv_status write_all(fv_json_writer *w, const fv_sentencepiece *sp)
{
    fv_json_open(w, '{');
    fv_json_string_member(w, "version", "1.0");
    fv_json_string_member(w, "truncation", NULL);
    fv_json_string_member(w, "padding", NULL);
    write_added(w, sp);
    FV_TRY(write_normalizer(w, sp));
    write_pre_tokenizer(w, sp);
    write_post_processor(w, sp);
    write_decoder(w, sp);
    FV_TRY(write_model(w, sp));
    fv_json_close(w, '}');
    return FV_OK;
}

fv_status fv_sentencepiece_build(fv_ctx *ctx, const char *name, const fv_sentencepiece *sp,
                                 fv_tokenizer **out)
{
    fv_json_writer w;
    fv_json_begin(&w, ctx);
    fv_status s = write_all(&w, sp);
    fv_status end = fv_json_end(&w);
    if (s == FV_OK) s = end;
    if (s == FV_OK) s = fv_tokenizer_parse(ctx, name, w.text, w.bytes, out);
    fv_json_free(&w);
    return s;
}
