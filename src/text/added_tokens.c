/* Added tokens: matched in the text before anything else. */
#include "text/hf_unicode.h"
#include "text/tokenizer_encoder.h"

/* The characters before and at a position; 0 at the ends of the text. */
static uint32_t char_before(const char *text, size_t at)
{
    if (at == 0) return 0;
    size_t begin = at - 1;
    while (begin > 0 && (text[begin] & 0xC0) == 0x80)
        begin--;
    return fv_code_of(text + begin, at - begin);
}

static uint32_t char_at(const char *text, size_t bytes, size_t at)
{
    return at < bytes ? fv_code_of(text + at, fv_lead_length(text[at])) : 0;
}

/* ---- index ----------------------------------------------------------------------- */

/* Raw and normalized tokens have separate roots. */
static uint32_t root_of(bool normalized) { return normalized ? 2 : 1; }

fv_status fv_added_index(fv_tokenizer *tok)
{
    size_t letters = 0;
    for (size_t i = 0; i < tok->added_count; i++)
        letters += tok->added[i].content.bytes;
    FV_TRY(fv_trie_make(tok->ctx, &tok->trie, letters, 2));
    for (size_t i = 0; i < tok->added_count; i++) {
        const fv_added *a = &tok->added[i];
        if (a->content.bytes)
            FV_TRY(fv_trie_add(tok->ctx, &tok->trie, root_of(a->normalized), a->content.text,
                               a->content.bytes, (int32_t)i));
    }
    return FV_OK;
}

/* ---- matching -------------------------------------------------------------------- */

/* The longest raw (or normalized) token at the start of `text`. */
static const fv_added *longest(const fv_tokenizer *tok, bool normalized, const char *text,
                               size_t left, fv_text_budget *budget)
{
    const fv_trie *t = &tok->trie;
    const fv_added *best = NULL;
    uint32_t node = root_of(normalized);
    size_t i = 0;
    for (; i < left && (node = fv_trie_step(t, node, text[i])); i++)
        if (t->values[node] >= 0) best = &tok->added[t->values[node]];
    fv_text_budget_spend(budget, 4 * i); /* a step in the trie may miss the cache */
    return best;
}

static bool is_whole_word(const char *text, size_t bytes, size_t begin, size_t end)
{
    return !(begin > 0 && fv_hf_is_word_char(char_before(text, begin))) &&
           !(end < bytes && fv_hf_is_word_char(char_at(text, bytes, end)));
}

void fv_added_find(const fv_tokenizer *tok, bool normalized, const char *text, size_t bytes,
                   size_t from, fv_text_budget *budget, fv_added_match *out)
{
    const uint8_t bit = normalized ? 2 : 1;
    *out = (fv_added_match){.token = NULL, .begin = bytes, .end = bytes};
    for (size_t i = from; i < bytes; i++) {
        if (!(tok->added_first[(unsigned char)text[i]] & bit)) continue;
        const fv_added *token = longest(tok, normalized, text + i, bytes - i, budget);
        if (!token) continue;
        size_t begin = i, end = i + token->content.bytes;
        if (token->single_word && !is_whole_word(text, bytes, begin, end)) {
            i = end - 1;
            continue;
        }
        while (token->lstrip && begin > from && fv_unicode_is_space(char_before(text, begin)))
            do {
                begin--;
            } while (begin > from && (text[begin] & 0xC0) == 0x80);
        while (token->rstrip && end < bytes && fv_unicode_is_space(char_at(text, bytes, end)))
            end += fv_lead_length(text[end]);
        *out = (fv_added_match){.token = token, .begin = begin, .end = end};
        return;
    }
}
