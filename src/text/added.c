/* Added tokens: cut out of the text before anything else happens to it. */
#include "base/check.h"
#include "text/encoder.h"
#include "text/hash.h"

/* The character that ends before, and the one that begins at, a place; 0 at the ends. */
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

/* ---- the trie -------------------------------------------------------------------- */

/* The slot of an edge, or the free one where it would be. */
static size_t edge_slot(const fv_added_trie *t, uint32_t node, char byte)
{
    const uint64_t key = ((uint64_t)node << 8 | (unsigned char)byte) + 1;
    size_t slot = (size_t)fv_hash_u64(key) & (t->slots - 1);
    while (t->edges[slot].key && t->edges[slot].key != key)
        slot = (slot + 1) & (t->slots - 1);
    return slot;
}

static fv_status add_node(fv_tokenizer *tok, uint32_t *node)
{
    fv_added_trie *t = &tok->trie;
    int32_t *tokens =
        fv_mem_grow(&tok->ctx->mem, t->tokens, &t->room, t->count + 1, sizeof *tokens);
    FV_RETURN_IF(!tokens, tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    t->tokens = tokens;
    tokens[t->count] = -1;
    *node = (uint32_t)t->count++;
    return FV_OK;
}

static fv_status add_token(fv_tokenizer *tok, size_t number)
{
    const fv_added *a = &tok->added[number];
    fv_added_trie *t = &tok->trie;
    uint32_t node = a->normalized;
    for (size_t i = 0; i < a->content.bytes; i++) {
        size_t slot = edge_slot(t, node, a->content.text[i]);
        if (!t->edges[slot].key) {
            uint32_t child = 0;
            FV_FORWARD(add_node(tok, &child));
            t->edges[slot].key = ((uint64_t)node << 8 | (unsigned char)a->content.text[i]) + 1;
            t->edges[slot].child = child;
        }
        node = t->edges[slot].child;
    }
    /* Of equal tokens the first counts. */
    if (a->content.bytes && t->tokens[node] < 0) t->tokens[node] = (int32_t)number;
    return FV_OK;
}

fv_status fv_added_index(fv_tokenizer *tok)
{
    enum { LONGEST = 256 };
    fv_added_trie *t = &tok->trie;
    size_t letters = 8, slots = 16, bytes;
    uint32_t root;
    for (size_t i = 0; i < tok->added_count; i++) {
        /* A longer one would cost its length at every byte of a text that repeats its beginning. */
        FV_RETURN_IF(tok->added[i].content.bytes > LONGEST, tok->ctx, FV_ERR_LIMIT,
                     "tokenizer: an added token of %zu bytes, the limit is %d",
                     tok->added[i].content.bytes, LONGEST);
        letters += tok->added[i].content.bytes;
    }
    while (slots < 2 * letters)
        slots *= 2;
    FV_RETURN_IF(!fv_mul_size(slots, sizeof *t->edges, &bytes), tok->ctx, FV_ERR_MEMORY,
                 "tokenizer: out of memory");
    t->edges = fv_mem_zalloc(&tok->ctx->mem, bytes);
    FV_RETURN_IF(!t->edges, tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    t->slots = slots;
    FV_FORWARD(add_node(tok, &root));
    FV_FORWARD(add_node(tok, &root));
    for (size_t i = 0; i < tok->added_count; i++)
        FV_FORWARD(add_token(tok, i));
    return FV_OK;
}

void fv_added_free(fv_tokenizer *tok)
{
    fv_mem_free(&tok->ctx->mem, tok->trie.edges, tok->trie.slots * sizeof *tok->trie.edges);
    fv_mem_free(&tok->ctx->mem, tok->trie.tokens, tok->trie.room * sizeof *tok->trie.tokens);
}

/* ---- finding --------------------------------------------------------------------- */

/* The longest token that stands here, of those that are matched in such text. */
static const fv_added *longest(const fv_tokenizer *tok, bool normalized, const char *text,
                               size_t left)
{
    const fv_added_trie *t = &tok->trie;
    const fv_added *best = NULL;
    uint32_t node = normalized;
    for (size_t i = 0; i < left; i++) {
        const fv_added_edge *edge = &t->edges[edge_slot(t, node, text[i])];
        if (!edge->key) break;
        node = edge->child;
        if (t->tokens[node] >= 0) best = &tok->added[t->tokens[node]];
    }
    return best;
}

static bool stands_alone(const char *text, size_t bytes, size_t begin, size_t end)
{
    return !(begin > 0 && fv_is_word_char(char_before(text, begin))) &&
           !(end < bytes && fv_is_word_char(char_at(text, bytes, end)));
}

void fv_added_find(const fv_tokenizer *tok, bool normalized, const char *text, size_t bytes,
                   size_t from, fv_added_match *out)
{
    const uint8_t bit = normalized ? 2 : 1;
    *out = (fv_added_match){.token = NULL, .begin = bytes, .end = bytes};
    for (size_t i = from; i < bytes; i++) {
        if (!(tok->added_first[(unsigned char)text[i]] & bit)) continue;
        const fv_added *token = longest(tok, normalized, text + i, bytes - i);
        if (!token) continue;
        size_t begin = i, end = i + token->content.bytes;
        if (token->single_word && !stands_alone(text, bytes, begin, end)) {
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
