/* The normalizers of a tokenizer; each rewrites the code points. */
#include <string.h>

#include "io/utf8.h"
#include "text/hf_unicode.h"
#include "text/tokenizer_pipeline.h"

/* ---- basic steps ----------------------------------------------------------------- */

static void strip(fv_codepoints *r, bool left, bool right)
{
    size_t begin = 0, end = r->count;
    while (left && begin < end && fv_unicode_is_space(r->items[begin].code))
        begin++;
    while (right && end > begin && fv_unicode_is_space(r->items[end - 1].code))
        end--;
    if (begin) memmove(r->items, r->items + begin, (end - begin) * sizeof *r->items);
    r->count = end - begin;
}

/* Removes the code points for which `dropped` is true. */
static void drop(fv_codepoints *r, bool (*dropped)(uint32_t code))
{
    size_t used = 0;
    for (size_t i = 0; i < r->count; i++)
        if (!dropped(r->items[i].code)) r->items[used++] = r->items[i];
    r->count = used;
}

/* Pushes the code points of a text, with the byte range of `model`. */
static fv_status put_text(fv_codepoints *r, fv_string text, fv_codepoint model)
{
    for (size_t i = 0; i < text.bytes;) {
        size_t length = fv_lead_length(text.text[i]);
        model.code = fv_code_of(text.text + i, length);
        FV_TRY(fv_codepoints_push(r, model));
        i += length;
    }
    return FV_OK;
}

/* The number of code points from `at` on that spell `text`, or 0. */
static size_t spells(fv_codepoints *r, size_t at, fv_string text)
{
    size_t n = 0, i = 0;
    while (i < text.bytes) {
        const size_t length = fv_lead_length(text.text[i]);
        if (at + n >= r->count || r->items[at + n].code != fv_code_of(text.text + i, length)) break;
        i += length;
        n++;
    }
    fv_text_budget_spend(r->budget, n);
    return i == text.bytes ? n : 0;
}

static fv_status replace(fv_codepoints *r, fv_string from, fv_string to)
{
    r->next_count = 0;
    for (size_t i = 0; i < r->count;) {
        size_t n = spells(r, i, from);
        FV_TRY(fv_text_budget_check(r->budget));
        if (n == 0) {
            FV_TRY(fv_codepoints_push(r, r->items[i++]));
            continue;
        }
        /* The replacement gets the range of the last code point it replaces. */
        i += n;
        FV_TRY(put_text(r, to, r->items[i - 1]));
    }
    fv_codepoints_swap(r);
    return FV_OK;
}

/* The same for matches of a pattern. */
static fv_status replace_matches(fv_codepoints *r, const fv_regex *re, fv_string to)
{
    fv_text text = {0};
    fv_regex_run run = {.ctx = r->ctx, .budget = r->budget};
    bool found = true;
    size_t at = 0, index = 0, begin = 0, end = 0;
    fv_status s = fv_codepoints_encode(r, &text);
    if (s == FV_OK) fv_regex_begin(&run, text.data, text.bytes);
    r->next_count = 0;
    while (s == FV_OK && found) {
        s = fv_regex_find(&run, re, at, &found, &begin, &end);
        if (!found) begin = end = text.bytes;
        for (; s == FV_OK && at < begin; at += fv_lead_length(text.data[at]))
            s = fv_codepoints_push(r, r->items[index++]);
        for (; at < end; at += fv_lead_length(text.data[at]))
            index++;
        const fv_codepoint nothing = {.begin = 0, .end = 0};
        if (s == FV_OK && found) s = put_text(r, to, index > 0 ? r->items[index - 1] : nothing);
    }
    if (s == FV_OK) fv_codepoints_swap(r);
    fv_regex_end(&run);
    fv_text_free(r->ctx, &text);
    return s;
}

static fv_status prepend(fv_codepoints *r, fv_string text)
{
    if (r->count == 0) return FV_OK;
    r->next_count = 0;
    FV_TRY(put_text(r, text, r->items[0]));
    for (size_t i = 0; i < r->count; i++)
        FV_TRY(fv_codepoints_push(r, r->items[i]));
    fv_codepoints_swap(r);
    return FV_OK;
}

/* ---- BERT ------------------------------------------------------------------------ */

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
}

static fv_status separate_chinese(fv_codepoints *r)
{
    r->next_count = 0;
    for (size_t i = 0; i < r->count; i++) {
        fv_codepoint index = r->items[i], blank = {' ', index.begin, index.end};
        bool apart = is_chinese(index.code);
        if (apart) FV_TRY(fv_codepoints_push(r, blank));
        FV_TRY(fv_codepoints_push(r, index));
        if (apart) FV_TRY(fv_codepoints_push(r, blank));
    }
    fv_codepoints_swap(r);
    return FV_OK;
}

static fv_status bert(fv_codepoints *r, const fv_normalizer *n)
{
    if (n->clean) {
        drop(r, fv_hf_is_control);
        for (size_t i = 0; i < r->count; i++)
            if (fv_unicode_is_space(r->items[i].code)) r->items[i].code = ' ';
    }
    if (n->chinese) FV_TRY(separate_chinese(r));
    if (n->accents) {
        FV_TRY(fv_codepoints_normalize(r, FV_NORMAL_FORM_NFD));
        drop(r, fv_hf_is_accent);
    }
    return n->lower ? fv_codepoints_lower(r, false) : FV_OK;
}

/* ---- pipeline -------------------------------------------------------------------- */

/* By fv_normalizer_kind: the name for messages, and about how many steps a code point takes. */
static const struct {
    const char *name;
    unsigned steps;
} kinds[] = {{"normalizer NFC", 10},         {"normalizer NFD", 10},
             {"normalizer NFKC", 10},        {"normalizer NFKD", 10},
             {"normalizer Lowercase", 5},    {"normalizer Strip", 1},
             {"normalizer StripAccents", 5}, {"normalizer Replace", 5},
             {"normalizer Prepend", 2},      {"normalizer BertNormalizer", 30},
             {"normalizer Precompiled", 20}, {"normalizer of SentencePiece", 10}};

fv_status fv_normalizers_apply(const fv_tokenizer *tok, fv_codepoints *r)
{
    enum { STEPS = 64 }; /* for an empty text, too */
    r->keeps = fv_hf_keeps;
    for (size_t i = 0; i < tok->normalizer_count; i++) {
        const fv_normalizer *n = &tok->normalizers[i];
        r->budget->stage = kinds[n->kind].name;
        fv_text_budget_spend(r->budget, STEPS + r->count * kinds[n->kind].steps);
        FV_TRY(fv_text_budget_check(r->budget));
        switch (n->kind) {
        case FV_NORMALIZER_NFC:
        case FV_NORMALIZER_NFD:
        case FV_NORMALIZER_NFKC:
        case FV_NORMALIZER_NFKD:
            FV_TRY(fv_codepoints_normalize(r, (fv_normal_form)n->kind));
            break;
        case FV_NORMALIZER_LOWERCASE:
            FV_TRY(fv_codepoints_lower(r, false));
            break;
        case FV_NORMALIZER_STRIP:
            strip(r, n->left, n->right);
            break;
        case FV_NORMALIZER_STRIP_ACCENTS:
            drop(r, fv_hf_is_mark);
            break;
        case FV_NORMALIZER_REPLACE:
            FV_TRY(n->re ? replace_matches(r, n->re, n->to) : replace(r, n->from, n->to));
            break;
        case FV_NORMALIZER_PREPEND:
            FV_TRY(prepend(r, n->to));
            break;
        case FV_NORMALIZER_BERT:
            FV_TRY(bert(r, n));
            break;
        case FV_NORMALIZER_PRECOMPILED:
            FV_TRY(fv_normalize_precompiled(n, r));
            break;
        case FV_NORMALIZER_SENTENCEPIECE:
            FV_TRY(fv_normalize_sentencepiece(tok, n, r));
            break;
        }
    }
    return FV_OK;
}

bool fv_normalizers_are_noop(const fv_tokenizer *tok, const char *text, size_t bytes)
{
    for (size_t i = 0; i < tok->normalizer_count; i++) {
        if (tok->normalizers[i].kind > FV_NORMALIZER_NFKD) return false;
        if (!fv_text_is_normal(text, bytes, (fv_normal_form)tok->normalizers[i].kind)) return false;
    }
    return true;
}
