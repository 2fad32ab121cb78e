/*
 * The two ways to use a charsmap. SentencePiece takes the longest entry at each place and looks
 * after the blanks in the same pass. Hugging Face's "Precompiled" takes characters as a reader sees
 * them (a letter with its marks): if one is short and begins with an entry, the shortest such entry
 * stands for all of it. That loses marks now and then, but it is what their files mean.
 */
#include "io/utf8.h"
#include "text/graphemes.h"
#include "text/tokenizer_pipeline.h"

enum {
    MARK = 0x2581, /* stands for a blank */
    SHORT = 6      /* bytes from which on a character is not looked up as a whole */
};

/* ---- SentencePiece --------------------------------------------------------------- */

typedef struct walk {
    const fv_tokenizer *tok;
    const fv_normalizer *normalizer;
    fv_codepoints *codepoints;
    fv_text text; /* of the runes */
    size_t at;    /* byte of the text */
    size_t index; /* that begins there */
} walk;

/* What stands at `at`, normalized; returns the bytes it is written with. */
static size_t peek(const walk *w, fv_string *form)
{
    const char *text = w->text.data + w->at;
    const size_t left = w->text.bytes - w->at;
    const fv_token_model *model = &w->tok->model;
    int32_t id;
    size_t n = model->has_user ? fv_token_model_user_piece(model, text, left, &id) : 0;
    if (n == 0 && w->normalizer->map) {
        n = fv_charsmap_find(w->normalizer->map, text, left, true, form);
        if (n) return n;
    }
    if (n == 0) n = fv_lead_length(text[0]);
    *form = (fv_string){text, n};
    return n;
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
        FV_FORWARD(fv_codepoints_push(w->codepoints, (fv_codepoint){code, begin, begin}));
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
        skip(w, used);
    }
    r->next_count = 0;
    if (w->at == w->text.bytes) return FV_OK;
    if (n->add_dummy_prefix && !n->whitespace_as_suffix)
        FV_FORWARD(put_form(w, blank, r->items[w->index].begin));
    bool after_blank = remove;
    while (w->at < w->text.bytes) {
        size_t used = peek(w, &form);
        for (; after_blank && form.bytes && form.text[0] == ' '; form.bytes--)
            form.text++;
        if (form.bytes) {
            FV_FORWARD(put_form(w, form, r->items[w->index].begin));
            after_blank = remove && form.text[form.bytes - 1] == ' ';
        }
        skip(w, used);
    }
    uint32_t end = r->items[r->count - 1].end;
    for (const uint32_t space = n->escape_whitespaces ? MARK : ' ';
         remove && r->next_count && r->next[r->next_count - 1].code == space;)
        end = r->next[--r->next_count].begin;
    if (n->add_dummy_prefix && n->whitespace_as_suffix) FV_FORWARD(put_form(w, blank, end));
    /* A rune reaches to where the next one begins: what was dropped belongs to the one before. */
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

/* Where the next rune of the form stands. */
typedef struct cursor {
    size_t place; /* rune of the text */
    bool extra;   /* the last rune of the form had no place of its own */
} cursor;

/* The runes of the form, for `old` runes of the text. They stand for the same places one by one;
 * what is more stands with the last, and what is less is passed over: by an extra rune first, and
 * not at all if nothing is written yet. That is their rule, and it may shift all that follows. */
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
        FV_FORWARD(fv_codepoints_push(r, index));
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

/* Runes [begin, end) as bytes; `text` holds a short character or one code point. */
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
    if (whole && fv_charsmap_find(n->map, text, spell(r, begin, end, text), false, &form))
        return put_instead(r, form, end - begin, c);
    for (size_t i = begin; i < end; i++) {
        size_t length = spell(r, i, i + 1, text);
        if (!fv_charsmap_find(n->map, text, length, false, &form)) form = (fv_string){text, length};
        FV_FORWARD(put_instead(r, form, 1, c));
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
        FV_FORWARD(put_character(r, n, begin, end, bytes < SHORT, &c));
    }
    fv_codepoints_swap(r);
    return FV_OK;
}
