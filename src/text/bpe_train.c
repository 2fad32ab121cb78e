#include "text/bpe_train.h"

#include <string.h>

#include "base/checked_math.h"
#include "text/hash.h"

/* A pair of adjacent tokens: its count over all words, and the words that may contain it. */
typedef struct pair {
    uint64_t key; /* first << 32 | second */
    uint64_t count;
    uint32_t places;    /* the newest entry of its list + 1; 0: none */
    uint32_t last_word; /* the word of that entry */
    bool touched;       /* its count grew in the current merge */
} pair;

typedef struct place {
    uint32_t word, next; /* next entry + 1 */
} place;

/* A heap entry; its count may be outdated, which is checked when it reaches the top. */
typedef struct candidate {
    uint64_t count, key;
    uint32_t pair;
} candidate;

typedef struct trainer {
    fv_bpe_training *training;
    pair *pairs;
    size_t count, room;
    uint32_t *table; /* index of a pair + 1 */
    size_t slots;
    place *places;
    size_t place_count, place_room;
    candidate *heap;
    size_t heap_count, heap_room;
    uint32_t *touched;
    size_t touched_count, touched_room;
    fv_text joined;
} trainer;

static fv_status out_of_memory(const trainer *l)
{
    return fv_fail(l->training->ctx, FV_ERR_MEMORY, "tokenizer training: out of memory");
}

/* ---- pairs ----------------------------------------------------------------------- */

static uint64_t key_of(int32_t first, int32_t second)
{
    return (uint64_t)(uint32_t)first << 32 | (uint32_t)second;
}

static fv_status grow_table(trainer *l)
{
    enum { FIRST_SLOTS = 1024 };
    fv_mem *mem = &l->training->ctx->mem;
    if (l->count < l->slots / 2) return FV_OK;
    size_t slots = l->slots ? l->slots * 2 : FIRST_SLOTS, bytes;
    if (!fv_checked_mul_size(slots, sizeof *l->table, &bytes)) return out_of_memory(l);
    uint32_t *table = fv_mem_zalloc(mem, bytes);
    if (!table) return out_of_memory(l);
    for (size_t i = 0; i < l->count; i++) {
        size_t slot = (size_t)fv_hash_u64(l->pairs[i].key) & (slots - 1);
        while (table[slot])
            slot = (slot + 1) & (slots - 1);
        table[slot] = (uint32_t)(i + 1);
    }
    fv_mem_free(mem, l->table, l->slots * sizeof *l->table);
    l->table = table;
    l->slots = slots;
    return FV_OK;
}

/* Finds or adds a pair. The pointer is valid until the next call. */
static fv_status find_pair(trainer *l, uint64_t key, pair **out)
{
    FV_TRY(grow_table(l));
    size_t slot = (size_t)fv_hash_u64(key) & (l->slots - 1);
    for (; l->table[slot]; slot = (slot + 1) & (l->slots - 1))
        if (l->pairs[l->table[slot] - 1].key == key) {
            *out = &l->pairs[l->table[slot] - 1];
            return FV_OK;
        }
    FV_RETURN_IF(l->count >= UINT32_MAX - 1, l->training->ctx, FV_ERR_LIMIT,
                 "tokenizer training: more than 2^32 pairs");
    pair *pairs =
        fv_mem_grow(&l->training->ctx->mem, l->pairs, &l->room, l->count + 1, sizeof *pairs);
    if (!pairs) return out_of_memory(l);
    l->pairs = pairs;
    pairs[l->count] = (pair){.key = key};
    l->table[slot] = (uint32_t)(l->count + 1);
    *out = &pairs[l->count++];
    return FV_OK;
}

/* Counts a pair and records its word. */
static fv_status count_pair(trainer *l, int32_t first, int32_t second, uint32_t word)
{
    pair *p = NULL;
    if (first < 0 || second < 0) return FV_OK;
    FV_TRY(find_pair(l, key_of(first, second), &p));
    p->count += l->training->words[word].count;
    if (!p->touched) {
        uint32_t *touched = fv_mem_grow(&l->training->ctx->mem, l->touched, &l->touched_room,
                                        l->touched_count + 1, sizeof *touched);
        if (!touched) return out_of_memory(l);
        l->touched = touched;
        touched[l->touched_count++] = (uint32_t)(p - l->pairs);
        p->touched = true;
    }
    if (p->places && p->last_word == word) return FV_OK;
    FV_RETURN_IF(l->place_count >= UINT32_MAX - 1, l->training->ctx, FV_ERR_LIMIT,
                 "tokenizer training: too much text");
    place *places = fv_mem_grow(&l->training->ctx->mem, l->places, &l->place_room,
                                l->place_count + 1, sizeof *places);
    if (!places) return out_of_memory(l);
    l->places = places;
    places[l->place_count] = (place){word, p->places};
    p->places = (uint32_t)++l->place_count;
    p->last_word = word;
    return FV_OK;
}

static fv_status uncount_pair(trainer *l, int32_t first, int32_t second, uint32_t word)
{
    pair *p = NULL;
    if (first < 0 || second < 0) return FV_OK;
    FV_TRY(find_pair(l, key_of(first, second), &p));
    uint64_t n = l->training->words[word].count;
    p->count = p->count > n ? p->count - n : 0;
    return FV_OK;
}

/* ---- heap ------------------------------------------------------------------------ */

/* By count, on ties by smaller ids. */
static bool before(const candidate *a, const candidate *b)
{
    return a->count > b->count || (a->count == b->count && a->key < b->key);
}

static fv_status push(trainer *l, uint32_t number)
{
    const pair *p = &l->pairs[number];
    if (p->count < l->training->min_count || p->count == 0) return FV_OK;
    candidate *heap = fv_mem_grow(&l->training->ctx->mem, l->heap, &l->heap_room, l->heap_count + 1,
                                  sizeof *heap);
    if (!heap) return out_of_memory(l);
    l->heap = heap;
    const candidate o = {p->count, p->key, number};
    size_t i = l->heap_count++;
    for (; i > 0 && before(&o, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = o;
    return FV_OK;
}

static candidate pop(trainer *l)
{
    const candidate top = l->heap[0], last = l->heap[--l->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < l->heap_count; i = child) {
        if (child + 1 < l->heap_count && before(&l->heap[child + 1], &l->heap[child])) child++;
        if (!before(&l->heap[child], &last)) break;
        l->heap[i] = l->heap[child];
    }
    l->heap[i] = last;
    return top;
}

/* Pushes every pair whose count grew. */
static fv_status push_touched(trainer *l)
{
    for (size_t i = 0; i < l->touched_count; i++) {
        l->pairs[l->touched[i]].touched = false;
        FV_TRY(push(l, l->touched[i]));
    }
    l->touched_count = 0;
    return FV_OK;
}

/* ---- merging --------------------------------------------------------------------- */

static fv_status merge_word(trainer *l, uint32_t number, int32_t a, int32_t b, int32_t new)
{
    fv_bpe_word *word = &l->training->words[number];
    int32_t *s = l->training->symbols + word->begin;
    uint32_t used = 0, n = word->length;
    for (uint32_t i = 0; i < n;) {
        if (i + 1 >= n || s[i] != a || s[i + 1] != b) {
            s[used++] = s[i++];
            continue;
        }
        if (used > 0) {
            FV_TRY(uncount_pair(l, s[used - 1], a, number));
            FV_TRY(count_pair(l, s[used - 1], new, number));
        }
        if (i + 2 < n) {
            FV_TRY(uncount_pair(l, b, s[i + 2], number));
            FV_TRY(count_pair(l, new, s[i + 2], number));
        }
        s[used++] = new;
        i += 2;
    }
    word->length = used;
    return FV_OK;
}

/* The token for a merged pair, added if it is new. */
static fv_status merged_token(trainer *l, int32_t a, int32_t b, int32_t *id)
{
    fv_vocab *vocab = l->training->vocab;
    l->joined.bytes = 0;
    FV_TRY(fv_text_append(l->training->ctx, &l->joined, vocab->tokens[a].text,
                          vocab->tokens[a].bytes));
    const size_t prefix_bytes = l->training->prefix_bytes;
    FV_TRY(fv_text_append(l->training->ctx, &l->joined, vocab->tokens[b].text + prefix_bytes,
                          vocab->tokens[b].bytes - prefix_bytes));
    return fv_vocab_add(vocab, l->joined.data, l->joined.bytes, id);
}

static fv_status merge_pair(trainer *l, uint32_t number)
{
    fv_bpe_training *training = l->training;
    const uint64_t key = l->pairs[number].key;
    const int32_t a = (int32_t)(key >> 32), b = (int32_t)(uint32_t)key;
    int32_t new = 0;
    FV_TRY(merged_token(l, a, b, &new));
    if ((size_t) new < training->specials) { /* the text of a special token: never a merge */
        l->pairs[number].count = 0;
        return FV_OK;
    }
    fv_id_pair *merges = fv_mem_grow(&training->ctx->mem, training->merges, &training->merge_room,
                                     training->merge_count + 1, sizeof *merges);
    if (!merges) return out_of_memory(l);
    training->merges = merges;
    merges[training->merge_count++] = (fv_id_pair){a, b};
    for (uint32_t at = l->pairs[number].places; at; at = l->places[at - 1].next)
        FV_TRY(merge_word(l, l->places[at - 1].word, a, b, new));
    l->pairs[number].count = 0;
    l->pairs[number].places = 0;
    return push_touched(l);
}

static fv_status train(trainer *l)
{
    fv_bpe_training *training = l->training;
    for (size_t w = 0; w < training->word_count; w++) {
        const fv_bpe_word *word = &training->words[w];
        const int32_t *s = training->symbols + word->begin;
        for (uint32_t i = 0; i + 1 < word->length; i++)
            FV_TRY(count_pair(l, s[i], s[i + 1], (uint32_t)w));
    }
    FV_TRY(push_touched(l));
    while (l->heap_count && training->vocab->size < training->target) {
        FV_RETURN_IF(fv_cancelled(training->ctx), training->ctx, FV_ERR_CANCELLED,
                     "tokenizer training: cancelled");
        const candidate top = pop(l);
        if (l->pairs[top.pair].count != top.count)
            FV_TRY(push(l, top.pair));
        else
            FV_TRY(merge_pair(l, top.pair));
    }
    return FV_OK;
}

fv_status fv_bpe_train(fv_bpe_training *training)
{
    trainer l = {.training = training};
    fv_mem *mem = &training->ctx->mem;
    fv_status s = train(&l);
    fv_mem_free(mem, l.pairs, l.room * sizeof *l.pairs);
    fv_mem_free(mem, l.table, l.slots * sizeof *l.table);
    fv_mem_free(mem, l.places, l.place_room * sizeof *l.places);
    fv_mem_free(mem, l.heap, l.heap_room * sizeof *l.heap);
    fv_mem_free(mem, l.touched, l.touched_room * sizeof *l.touched);
    fv_text_free(training->ctx, &l.joined);
    return s;
}
