#include "text/ngrams.h"

#include <string.h>

#include "base/checked_math.h"
#include "text/codepoints.h"
#include "text/hash.h"

enum { FIRST_SLOTS = 256 };

void fv_ngrams_init(fv_ngrams *g, fv_ctx *ctx) { *g = (fv_ngrams){.ctx = ctx}; }

void fv_ngrams_free(fv_ngrams *g)
{
    fv_mem *mem = &g->ctx->mem;
    fv_mem_free(mem, g->nodes, g->room * sizeof *g->nodes);
    fv_mem_free(mem, g->table, g->slots * sizeof *g->table);
    fv_mem_free(mem, g->words, g->word_room * sizeof *g->words);
    fv_mem_free(mem, g->word_table, g->word_slots * sizeof *g->word_table);
    fv_text_free(g->ctx, &g->letters);
    fv_ngrams_init(g, g->ctx);
}

void fv_ngrams_clear(fv_ngrams *g)
{
    for (size_t i = 0; i < g->count; i++)
        g->table[g->nodes[i].slot] = 0;
    for (size_t i = 0; i < g->word_count; i++)
        g->word_table[g->words[i].slot] = 0;
    g->count = 0;
    g->word_count = 0;
    g->letters.bytes = 0;
}

static fv_status out_of_memory(fv_ngrams *g)
{
    return fv_fail(g->ctx, FV_ERR_MEMORY, "out of memory");
}

/* An empty table of twice the size; NULL if out of memory. */
static uint32_t *larger_table(fv_ngrams *g, size_t old, size_t *slots)
{
    size_t more = FIRST_SLOTS, bytes;
    if (old && !fv_checked_mul_size(old, 2, &more)) return NULL;
    if (!fv_checked_mul_size(more, sizeof(uint32_t), &bytes)) return NULL;
    uint32_t *table = fv_mem_zalloc(&g->ctx->mem, bytes);
    if (table) *slots = more;
    return table;
}

/* ---- words ----------------------------------------------------------------------- */

static size_t free_slot(const uint32_t *table, size_t slots, uint64_t hash)
{
    size_t slot = (size_t)hash & (slots - 1);
    while (table[slot])
        slot = (slot + 1) & (slots - 1);
    return slot;
}

static fv_status grow_words(fv_ngrams *g)
{
    if (g->word_count < g->word_slots / 2) return FV_OK;
    size_t slots = 0;
    uint32_t *table = larger_table(g, g->word_slots, &slots);
    if (!table) return out_of_memory(g);
    for (size_t i = 0; i < g->word_count; i++) {
        fv_ngram_word *w = &g->words[i];
        size_t slot = free_slot(table, slots, fv_hash_bytes(g->letters.data + w->at, w->bytes));
        table[slot] = (uint32_t)(i + 1);
        w->slot = (uint32_t)slot;
    }
    fv_mem_free(&g->ctx->mem, g->word_table, g->word_slots * sizeof *table);
    g->word_table = table;
    g->word_slots = slots;
    return FV_OK;
}

fv_status fv_ngrams_word(fv_ngrams *g, const char *text, size_t bytes, uint32_t *symbol)
{
    FV_TRY(grow_words(g));
    size_t slot = (size_t)fv_hash_bytes(text, bytes) & (g->word_slots - 1);
    for (; g->word_table[slot]; slot = (slot + 1) & (g->word_slots - 1)) {
        const fv_ngram_word *w = &g->words[g->word_table[slot] - 1];
        if (w->bytes == bytes && memcmp(g->letters.data + w->at, text, bytes) == 0) {
            *symbol = g->word_table[slot] - 1;
            return FV_OK;
        }
    }
    FV_RETURN_IF(g->letters.bytes + bytes >= UINT32_MAX, g->ctx, FV_ERR_LIMIT,
                 "a segment has 4 GiB of words");
    fv_ngram_word *words =
        fv_mem_grow(&g->ctx->mem, g->words, &g->word_room, g->word_count + 1, sizeof *words);
    if (!words) return out_of_memory(g);
    g->words = words;
    uint32_t at = (uint32_t)g->letters.bytes;
    FV_TRY(fv_text_append(g->ctx, &g->letters, text, bytes));
    words[g->word_count] =
        (fv_ngram_word){.at = at, .bytes = (uint32_t)bytes, .slot = (uint32_t)slot};
    *symbol = (uint32_t)g->word_count++;
    g->word_table[slot] = *symbol + 1;
    return FV_OK;
}

/* ---- n-grams --------------------------------------------------------------------- */

/* Reserves `more` nodes, so that the counting loop cannot fail. */
static fv_status reserve_nodes(fv_ngrams *g, size_t more)
{
    size_t need;
    FV_RETURN_IF(!fv_checked_add_size(g->count, more, &need) || need >= UINT32_MAX / 2, g->ctx,
                 FV_ERR_LIMIT, "a segment has more than 2^31 n-grams");
    fv_ngram *nodes = fv_mem_grow(&g->ctx->mem, g->nodes, &g->room, need, sizeof *nodes);
    if (!nodes) return out_of_memory(g);
    g->nodes = nodes;
    while (g->slots / 2 <= need) {
        size_t slots = 0;
        uint32_t *table = larger_table(g, g->slots, &slots);
        if (!table) return out_of_memory(g);
        for (size_t i = 0; i < g->count; i++) {
            size_t slot = free_slot(table, slots, fv_hash_u64(nodes[i].key));
            table[slot] = (uint32_t)(i + 1);
            nodes[i].slot = (uint32_t)slot;
        }
        fv_mem_free(&g->ctx->mem, g->table, g->slots * sizeof *table);
        g->table = table;
        g->slots = slots;
    }
    return FV_OK;
}

/* The child of node `from` (0: the root, otherwise index + 1) for a symbol. */
static uint32_t follow(fv_ngrams *g, uint32_t from, uint32_t symbol, uint32_t order)
{
    const uint64_t key = (uint64_t)from << 32 | symbol;
    size_t slot = (size_t)fv_hash_u64(key) & (g->slots - 1);
    for (; g->table[slot]; slot = (slot + 1) & (g->slots - 1))
        if (g->nodes[g->table[slot] - 1].key == key) return g->table[slot] - 1;
    g->nodes[g->count] = (fv_ngram){.key = key, .slot = (uint32_t)slot, .order = order};
    g->table[slot] = (uint32_t)(g->count + 1);
    return (uint32_t)g->count++;
}

fv_status fv_ngrams_count(fv_ngrams *g, fv_ngram_side side, const uint32_t *symbols, size_t n,
                          int order)
{
    /* In chunks: reserving for the worst case of a long text would take far too much memory. */
    enum { PIECE = 4096 };
    for (size_t begin = 0; begin < n; begin += PIECE) {
        size_t end = n - begin < PIECE ? n : begin + PIECE;
        FV_TRY(reserve_nodes(g, (end - begin) * (size_t)order));
        for (size_t i = begin; i < end; i++) {
            uint32_t node = 0;
            for (uint32_t k = 0; k < (uint32_t)order && i + k < n; k++) {
                uint32_t number = follow(g, node, symbols[i + k], k + 1);
                g->nodes[number].count[side]++;
                node = number + 1;
            }
        }
    }
    return FV_OK;
}
