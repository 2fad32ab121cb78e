/*
 * The two ways to apply a charsmap. SentencePiece replaces the longest entry at each position and
 * handles blanks in the same pass. Hugging Face's "Precompiled" works on grapheme clusters: if a
 * short cluster begins with an entry, the shortest such entry replaces all of it. That can lose
 * marks, but it is what their files mean.
 */
#include "io/utf8.h"
#include "text/graphemes.h"
#include "text/tokenizer_pipeline.h"

enum {
    MARK = 0x2581, /* replaces a blank */
    SHORT = 6      /* clusters of this many bytes or more are looked up by code point */
};

/* ---- SentencePiece --------------------------------------------------------------- */

typedef struct walk {
    const fv_tokenizer *tok;
    const fv_normalizer *normalizer;
    fv_codepoints *codepoints;
    fv_text text; /* of the code points */
    size_t at;    /* position in the text, in bytes */
    size_t index; /* of the code point there */
    size_t steps; /* taken to look up entries */
} walk;

/* The normalized form of the text at `at`; returns how many bytes it replaces. */
static size_t peek(walk *w, fv_string *form)
{
    const char *text = w->text.data + w->at;
    const size_t left = w->text.bytes - w->at;
    const fv_token_model *model = &w->tok->model;
    int32_t id;
    size_t n = model->has_user ? fv_token_model_user_piece(model, text, left, &id, &w->steps) : 0;
    if (n == 0 && w->normalizer->map) {
        n = fv_charsmap_find(w->normalizer->map, text, left, true, form, &w->steps);
        if (n) return n;
    }
    if (n == 0) n = fv_lead_length(text[0]);
    *form = (fv_string){text, n};
    return n;
}

/* Charges the steps of the last lookup to the budget. */
static fv_status pay(walk *w)
{
    fv_text_budget *budget = w->codepoints->budget;
    if (!budget) return FV_OK;
    fv_text_budget_spend(budget, w->steps);
    w->steps = 0;
    return fv_text_budget_check(budget);
}

static void skip(walk *w, size_t bytes)
{
    for (const size_t end = w->at + bytes; w->at < end; w->index++)
        w->at += fv_lead_length(w->text.data[w->at]);
}

static fv_status put_form(walk *w, fv_string form, uint32_t begin)
{
    for (size_t i = 0, length; i < form.bytes; i += length) {
        length = fv_lead_length(form.text[i]);
        uint32_t code = fv_code_of(form.text + i, length);
        if (code == ' ' && w->normalizer->escape_whitespaces) code = MARK;
        FV_TRY(fv_codepoints_push(w->codepoints, (fv_codepoint){code, begin, begin}));
    }
    return FV_OK;
}

static fv_status walk_all(walk *w)
{
    const fv_normalizer *n = w->normalizer;
    fv_codepoints *r = w->codepoints;
    fv_string form = {"", 0};
    const fv_string blank = {" ", 1};
    const bool remove = n->remove_extra_whitespaces;
    while (remove && w->at < w->text.bytes) {
        size_t used = peek(w, &form);
        if (form.bytes != 1 || form.text[0] != ' ') break;
        FV_TRY(pay(w));
        skip(w, used);
    }
    r->next_count = 0;
    if (w->at == w->text.bytes) return FV_OK;
    if (n->add_dummy_prefix && !n->whitespace_as_suffix)
        FV_TRY(put_form(w, blank, r->items[w->index].begin));
    bool after_blank = remove;
    while (w->at < w->text.bytes) {
        size_t used = peek(w, &form);
        for (; after_blank && form.bytes && form.text[0] == ' '; form.bytes--)
            form.text++;
        if (form.bytes) {
            FV_TRY(put_form(w, form, r->items[w->index].begin));
            after_blank = remove && form.text[form.bytes - 1] == ' ';
        }
        FV_TRY(pay(w));
        skip(w, used);
    }
    uint32_t end = r->items[r->count - 1].end;
    for (const uint32_t space = n->escape_whitespaces ? MARK : ' ';
         remove && r->next_count && r->next[r->next_count - 1].code == space;)
        end = r->next[--r->next_count].begin;
    if (n->add_dummy_prefix && n->whitespace_as_suffix) FV_TRY(put_form(w, blank, end));
    /* Each code point extends to the next one, so that it covers the text removed after it. */
    for (size_t i = r->next_count; i > 0; i--)
        r->next[i - 1].end = i == r->next_count ? end : r->next[i].begin;
    return FV_OK;
}

fv_status fv_normalize_sentencepiece(const fv_tokenizer *tok, const fv_normalizer *n,
                                     fv_codepoints *r)
{
    if (r->count == 0) return FV_OK;
    walk w = {.tok = tok, .normalizer = n, .codepoints = r};
    fv_status s = fv_codepoints_encode(r, &w.text);
    if (s == FV_OK) s = walk_all(&w);
    if (s == FV_OK) fv_codepoints_swap(r);
    fv_text_free(r->ctx, &w.text);
    return s;
}

/* ---- Hugging Face ---------------------------------------------------------------- */

/* The original position of the next code point. */
typedef struct cursor {
    size_t place; /* index of a code point of the text */
    bool extra;   /* the last code point had no position of its own */
} cursor;

/* Pushes the code points of the form in place of `old` code points of the text. They take the
 * positions of the old ones in order. Additional ones share the last position; unused positions are
 * skipped, by an additional code point first, and not at all if nothing has been written yet. This
 * reproduces Hugging Face's alignment, which may shift everything that follows. */
static fv_status put_instead(fv_codepoints *r, fv_string form, size_t old, cursor *c)
{
    size_t next = 0;
    for (size_t i = 0, length; i < form.bytes; i += length, next++) {
        length = fv_lead_length(form.text[i]);
        fv_codepoint index = {.begin = 0, .end = 0};
        c->extra = next >= old;
        if (!c->extra)
            index = r->items[c->place++];
        else if (c->place > 0)
            index = r->items[c->place - 1];
        index.code = fv_code_of(form.text + i, length);
        FV_TRY(fv_codepoints_push(r, index));
    }
    if (next >= old || r->next_count == 0) return FV_OK;
    if (c->extra) {
        fv_codepoint *last = &r->next[r->next_count - 1];
        last->begin = r->items[c->place].begin;
        last->end = r->items[c->place].end;
    }
    c->extra = false;
    c->place += old - next;
    return FV_OK;
}

/* Code points [begin, end) as UTF-8; `text` has room for a short cluster or one code point. */
static size_t spell(const fv_codepoints *r, size_t begin, size_t end, char text[8])
{
    size_t used = 0;
    for (size_t i = begin; i < end; i++)
        used += fv_utf8_put(r->items[i].code, text + used);
    return used;
}

static fv_status put_character(fv_codepoints *r, const fv_normalizer *n, size_t begin, size_t end,
                               bool whole, cursor *c)
{
    char text[8];
    fv_string form;
    size_t steps = 0; /* few: the text is short, and put_instead bounds the form */
    if (whole && fv_charsmap_find(n->map, text, spell(r, begin, end, text), false, &form, &steps))
        return put_instead(r, form, end - begin, c);
    for (size_t i = begin; i < end; i++) {
        size_t length = spell(r, i, i + 1, text);
        if (!fv_charsmap_find(n->map, text, length, false, &form, &steps))
            form = (fv_string){text, length};
        FV_TRY(put_instead(r, form, 1, c));
    }
    return FV_OK;
}

fv_status fv_normalize_precompiled(const fv_normalizer *n, fv_codepoints *r)
{
    cursor c = {0};
    r->next_count = 0;
    for (size_t begin = 0, end; begin < r->count; begin = end) {
        size_t bytes = 0;
        end = fv_grapheme_end(r, begin, &bytes);
        FV_TRY(put_character(r, n, begin, end, bytes < SHORT, &c));
    }
    fv_codepoints_swap(r);
    return FV_OK;
}
