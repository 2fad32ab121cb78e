#include "text/vocab.h"

#include <string.h>

#include "base/checked_math.h"
#include "io/json.h"
#include "io/utf8.h"
#include "text/hash.h"

void fv_vocab_init(fv_vocab *v, fv_ctx *ctx)
{
    *v = (fv_vocab){.ctx = ctx, .limit = ctx->limits.vocabulary};
    fv_arena_init(&v->arena, &ctx->mem);
}

void fv_vocab_free(fv_vocab *v)
{
    if (!v->ctx) return;
    fv_mem_free(&v->ctx->mem, v->tokens, v->room * sizeof *v->tokens);
    fv_mem_free(&v->ctx->mem, v->table, v->slots * sizeof *v->table);
    fv_arena_free(&v->arena);
    fv_vocab_init(v, v->ctx);
}

int32_t fv_vocab_find(const fv_vocab *v, const char *text, size_t bytes)
{
    if (v->slots == 0) return -1;
    size_t slot = (size_t)fv_hash_bytes(text, bytes) & (v->slots - 1);
    for (; v->table[slot]; slot = (slot + 1) & (v->slots - 1)) {
        const fv_string *t = &v->tokens[v->table[slot] - 1];
        if (t->bytes == bytes && memcmp(t->text, text, bytes) == 0) return v->table[slot] - 1;
    }
    return -1;
}

static void enter(int32_t *table, size_t slots, const fv_string *token, int32_t id)
{
    size_t slot = (size_t)fv_hash_bytes(token->text, token->bytes) & (slots - 1);
    while (table[slot])
        slot = (slot + 1) & (slots - 1);
    table[slot] = id + 1;
}

/* Reserves memory for one more token and for its id. */
static fv_status grow(fv_vocab *v, size_t id)
{
    enum { FIRST_SLOTS = 64 };
    fv_mem *mem = &v->ctx->mem;
    if (id >= v->room) {
        fv_string *tokens = fv_mem_grow(mem, v->tokens, &v->room, id + 1, sizeof *tokens);
        FV_RETURN_IF(!tokens, v->ctx, FV_ERR_MEMORY, "vocabulary: out of memory");
        v->tokens = tokens;
    }
    if (v->count < v->slots / 2) return FV_OK;
    size_t slots = v->slots ? v->slots * 2 : FIRST_SLOTS;
    int32_t *table = fv_mem_zalloc(mem, slots * sizeof *table);
    FV_RETURN_IF(!table, v->ctx, FV_ERR_MEMORY, "vocabulary: out of memory");
    for (size_t i = 0; i < v->size; i++)
        if (v->tokens[i].text) enter(table, slots, &v->tokens[i], (int32_t)i);
    fv_mem_free(mem, v->table, v->slots * sizeof *table);
    v->table = table;
    v->slots = slots;
    return FV_OK;
}

fv_status fv_vocab_put(fv_vocab *v, const char *text, size_t bytes, int64_t id)
{
    fv_ctx *ctx = v->ctx;
    char quoted[FV_QUOTED_BYTES];
    uint64_t limit = v->limit < INT32_MAX ? v->limit : INT32_MAX;
    FV_RETURN_IF(id < 0 || (uint64_t)id >= limit, ctx, FV_ERR_LIMIT,
                 "token \"%s\" has id %lld, expected 0 to %llu", fv_quote(text, bytes, quoted),
                 (long long)id, (unsigned long long)limit - 1);
    FV_RETURN_IF(fv_vocab_find(v, text, bytes) >= 0, ctx, FV_ERR_FORMAT, "duplicate token \"%s\"",
                 fv_quote(text, bytes, quoted));
    FV_RETURN_IF((size_t)id < v->size && v->tokens[id].text, ctx, FV_ERR_FORMAT,
                 "duplicate token id %lld", (long long)id);
    FV_TRY(grow(v, (size_t)id));
    char *copy = fv_arena_text(&v->arena, text, bytes);
    FV_RETURN_IF(!copy, ctx, FV_ERR_MEMORY, "vocabulary: out of memory");
    for (; v->size <= (size_t)id; v->size++)
        v->tokens[v->size] = (fv_string){0};
    v->tokens[id] = (fv_string){copy, bytes};
    enter(v->table, v->slots, &v->tokens[id], (int32_t)id);
    v->count++;
    return FV_OK;
}

fv_status fv_vocab_add(fv_vocab *v, const char *text, size_t bytes, int32_t *id)
{
    int32_t found = fv_vocab_find(v, text, bytes);
    if (found < 0) {
        FV_TRY(fv_vocab_put(v, text, bytes, (int64_t)v->size));
        found = (int32_t)v->size - 1;
    }
    *id = found;
    return FV_OK;
}

fv_status fv_vocab_load(fv_vocab *v, const char *path)
{
    fv_doc *doc = NULL;
    FV_TRY(fv_json_load(v->ctx, path, &doc));
    fv_status s = fv_doc_kind(doc, &doc->root, FV_VALUE_OBJECT);
    for (uint32_t i = 0; s == FV_OK && i < doc->root.count; i++) {
        const fv_member *m = &doc->root.as.members[i];
        int64_t id = 0;
        s = fv_doc_int(doc, &m->value, 0, INT32_MAX, &id);
        if (s == FV_OK) s = fv_vocab_put(v, m->key, m->key_bytes, id);
    }
    fv_doc_free(&doc);
    return s;
}
