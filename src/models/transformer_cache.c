/*
 * The key-value cache. The keys of a layer are one tensor [rows, room, kv_heads, d], the layout
 * that the products have, so that storing a token copies one row and attention reads the heads in
 * place.
 */
#include "models/transformer_cache.h"

#include <string.h>

#include "base/checked_math.h"
#include "fovea/autograd.h"
#include "tensor/host_table.h"
#include "tensor/launch.h"

enum { ROOM_STEP = 32 };

/* ---- memory ------------------------------------------------------------------------- */

static void hold(fv_tensor *t)
{
    fv_tensor_ref(t); /* the cache holds it; its scope no longer does */
    fv_tensor_leave_scope(t);
}

void fv_cache_replace(fv_tensor **at, fv_tensor *t)
{
    if (t) hold(t);
    fv_tensor_unref(*at);
    *at = t;
}

fv_tensor *fv_cache_part(fv_ctx *ctx, const fv_tensor *t, int64_t row, int64_t rows, int64_t first,
                         int64_t n)
{
    const int64_t shape[4] = {rows, n, t->shape[2], t->shape[3]};
    return fv_tensor_view(ctx, t, 4, shape, t->stride, row * t->stride[0] + first * t->stride[1]);
}

/* A tensor of `rows` rows for at most `room` positions, with what `old` holds of the first `n`. */
static fv_tensor *grown(fv_cache *c, const fv_tensor *old, int64_t rows, int64_t room,
                        int64_t heads, int64_t d, int64_t n)
{
    fv_ctx *ctx = c->ctx;
    fv_tensor *t = fv_tensor_new(ctx, c->dtype, 4, (int64_t[]){rows, room, heads, d});
    if (ctx->error != FV_OK || !old || n == 0) return t;
    const int64_t both = rows < old->shape[0] ? rows : old->shape[0];
    fv_copy_into(ctx, fv_cache_part(ctx, t, 0, both, 0, n), fv_cache_part(ctx, old, 0, both, 0, n));
    return t;
}

int64_t fv_cache_longest(const fv_cache *c)
{
    int64_t most = 0;
    for (int64_t i = 0; i < c->rows; i++)
        if (c->length[i] > most) most = c->length[i];
    return most;
}

fv_status fv_cache_reserve_rows(fv_cache *c, int64_t rows)
{
    if (rows <= c->row_room) return FV_OK;
    size_t bytes;
    int64_t *made = NULL;
    if (fv_checked_mul_size((size_t)rows, 3 * sizeof *made, &bytes))
        made = fv_mem_zalloc(&c->ctx->mem, bytes);
    FV_RETURN_IF(!made, c->ctx, FV_ERR_MEMORY, "cache: no memory for %lld rows", (long long)rows);
    if (c->length) {
        memcpy(made, c->length, (size_t)c->rows * sizeof *made);
        memcpy(made + rows, c->source, (size_t)c->rows * sizeof *made);
        fv_mem_free(&c->ctx->mem, c->length, 3 * (size_t)c->row_room * sizeof *made);
    }
    c->length = made;
    c->source = made + rows;
    c->chosen = made + 2 * rows;
    c->row_room = rows;
    return FV_OK;
}

/* Layer by layer, so that only one layer is in memory twice. */
static fv_status reserve(fv_cache *c, int64_t rows, int64_t room)
{
    fv_ctx *ctx = c->ctx;
    const int64_t kept = fv_cache_longest(c);
    FV_TRY(fv_cache_reserve_rows(c, rows));
    for (int64_t i = 0; i < c->model->decoder.layers; i++) {
        const fv_mha_config *h = &c->model->decoder.blocks[i].self.cfg;
        fv_cache_layer *l = &c->layers[i];
        if (l->k && l->k->shape[0] >= rows && l->k->shape[1] >= room) continue;
        fv_scope_begin(ctx);
        fv_tensor *k = grown(c, l->k, rows, room, h->kv_heads, h->d_k, kept);
        if (ctx->error == FV_OK) fv_cache_replace(&l->k, k);
        fv_tensor *v = grown(c, l->v, rows, room, h->kv_heads, h->d_v, kept);
        if (ctx->error == FV_OK) fv_cache_replace(&l->v, v);
        fv_scope_end(ctx);
        if (ctx->error != FV_OK) return ctx->error;
    }
    c->room = room;
    return FV_OK;
}

/* One more position for every row. Room doubles, so that copying stays linear in total. */
static fv_status make_room(fv_cache *c)
{
    const int64_t need = fv_cache_longest(c) + 1, context = fv_cache_max_tokens(c->model);
    if (need <= c->room) return FV_OK;
    const int64_t twice = c->room > ROOM_STEP / 2 ? 2 * c->room : ROOM_STEP;
    const int64_t room = twice < context ? twice : context;
    return reserve(c, c->rows, room > need ? room : need);
}

static void drop_sources(fv_cache *c)
{
    for (int64_t i = 0; c->layers && i < c->model->decoder.layers; i++) {
        fv_cache_layer *l = &c->layers[i];
        fv_tensor **const parts[] = {&l->cross_k, &l->cross_v, &l->now_k, &l->now_v};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            fv_cache_replace(parts[k], NULL);
    }
    if (c->source_length)
        fv_mem_free(&c->ctx->mem, c->source_length, (size_t)c->sources * sizeof *c->source_length);
    c->source_length = NULL;
    fv_cache_replace(&c->now_length, NULL);
}

fv_status fv_cache_create(fv_transformer *model, fv_cache **out)
{
    fv_ctx *ctx = model->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(model->decoder.layers == 0, ctx, FV_ERR_ARGUMENT,
                 "cache: the model has no decoder");
    fv_cache *c = fv_mem_zalloc(&ctx->mem, sizeof *c);
    FV_RETURN_IF(!c, ctx, FV_ERR_MEMORY, "cache: no memory");
    c->ctx = ctx;
    c->model = model;
    c->dtype =
        ctx->device->ops->traits.wants_bf16 && fv_cache_may_be_bf16(model) ? FV_BF16 : FV_F32;
    c->layers = fv_mem_zalloc(&ctx->mem, (size_t)model->decoder.layers * sizeof *c->layers);
    if (!c->layers) {
        fv_cache_destroy(&c);
        return fv_fail(ctx, FV_ERR_MEMORY, "cache: no memory");
    }
    *out = c;
    return FV_OK;
}

fv_status fv_cache_set_dtype(fv_cache *c, fv_dtype dtype)
{
    fv_ctx *ctx = c->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(dtype != FV_F32 && dtype != FV_BF16, ctx, FV_ERR_DTYPE,
                 "cache: %s is not supported; expected f32 or bf16", fv_dtype_name(dtype));
    FV_RETURN_IF(dtype == FV_BF16 && !fv_cache_may_be_bf16(c->model), ctx, FV_ERR_UNSUPPORTED,
                 "cache: bf16 is not supported for a model with vectors by distance");
    for (int64_t i = 0; i < c->model->decoder.layers; i++) {
        fv_cache_replace(&c->layers[i].k, NULL);
        fv_cache_replace(&c->layers[i].v, NULL);
    }
    c->dtype = dtype;
    c->rows = c->room = 0;
    return FV_OK;
}

void fv_cache_destroy(fv_cache **cache)
{
    fv_cache *c = *cache;
    if (!c) return;
    fv_mem *mem = &c->ctx->mem;
    drop_sources(c);
    for (int64_t i = 0; c->layers && i < c->model->decoder.layers; i++) {
        fv_tensor_unref(c->layers[i].k);
        fv_tensor_unref(c->layers[i].v);
    }
    if (c->layers)
        fv_mem_free(mem, c->layers, (size_t)c->model->decoder.layers * sizeof *c->layers);
    if (c->length) fv_mem_free(mem, c->length, 3 * (size_t)c->row_room * sizeof *c->length);
    fv_mem_free(mem, c, sizeof *c);
    *cache = NULL;
}

int64_t fv_cache_rows(const fv_cache *cache) { return cache->rows; }

int64_t fv_cache_length(const fv_cache *cache, int64_t row)
{
    return row >= 0 && row < cache->rows ? cache->length[row] : 0;
}

size_t fv_cache_bytes(const fv_cache *cache)
{
    size_t sum = 0;
    for (int64_t i = 0; i < cache->model->decoder.layers; i++) {
        const fv_cache_layer *l = &cache->layers[i];
        const fv_tensor *const parts[] = {l->k, l->v, l->cross_k, l->cross_v};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            if (parts[k]) sum += (size_t)parts[k]->count * fv_dtype_size(parts[k]->dtype);
    }
    return sum;
}

/* ---- reading ------------------------------------------------------------------------ */

/* The first n positions of all rows as attention reads them: [rows, kv_heads, n, d]. */
static fv_tensor *all_keys(fv_ctx *ctx, const fv_tensor *t, int64_t rows, int64_t n)
{
    return fv_transpose(ctx, fv_cache_part(ctx, t, 0, rows, 0, n), 1, 2);
}

/* ---- sources -------------------------------------------------------------------------- */

static bool relative(const fv_transformer *m)
{
    return m->cfg.positions == FV_POSITION_RELATIVE || fv_has_distance_vectors(&m->cfg);
}

/* Keys and values of one layer for all sources, as rectangles [sources, longest, heads, d]. */
static void cross_keys(fv_cache *c, int64_t layer, const fv_memory *memory, fv_tensor *places)
{
    fv_ctx *ctx = c->ctx;
    const fv_mha *h = &c->model->decoder.blocks[layer].cross;
    fv_cache_layer *l = &c->layers[layer];
    const int64_t n = memory->n, most = memory->positions;
    fv_scope_begin(ctx);
    fv_tensor *from[2] = {ctx->invalid, ctx->invalid}, *to[2];
    fv_mha_project_keys(ctx, h, memory->states, NULL, 0, NULL, &from[0], &from[1]);
    const int64_t heads = h->cfg.kv_heads;
    to[0] = fv_tensor_new(ctx, FV_F32, 4, (int64_t[]){n, most, heads, h->cfg.d_k});
    to[1] = fv_tensor_new(ctx, FV_F32, 4, (int64_t[]){n, most, heads, h->cfg.d_v});
    for (int which = 0; which < 2 && ctx->error == FV_OK; which++)
        fv_fill(ctx, to[which], 0); /* positions past a source's end must be finite */
    fv_cache_append(ctx, to, from[0], from[1], places);
    if (ctx->error == FV_OK) {
        fv_cache_replace(&l->cross_k, to[0]);
        fv_cache_replace(&l->cross_v, to[1]);
        l->now_k = l->cross_k;
        l->now_v = l->cross_v;
        fv_tensor_ref(l->now_k);
        fv_tensor_ref(l->now_v);
    }
    fv_scope_end(ctx);
}

static fv_status fill_sources(fv_cache *c, const fv_memory *memory)
{
    fv_ctx *ctx = c->ctx;
    c->sources = memory->n;
    c->source_length = fv_mem_zalloc(&ctx->mem, (size_t)c->sources * sizeof *c->source_length);
    FV_RETURN_IF(!c->source_length, ctx, FV_ERR_MEMORY, "cache: no memory for sources");
    for (int64_t i = 0; i < memory->n; i++)
        c->source_length[i] = memory->row_lengths[i];
    const bool varlen = memory->states->shape[0] != memory->n;
    fv_scope_begin(ctx);
    fv_tensor *places = fv_cache_places(ctx, memory->n, NULL, NULL, memory->row_lengths,
                                        varlen ? 0 : memory->states->shape[1]);
    for (int64_t i = 0; i < c->model->decoder.layers && ctx->error == FV_OK; i++)
        cross_keys(c, i, memory, places);
    fv_tensor *length = fv_from_host(ctx, FV_I64, 1, &memory->n, memory->row_lengths);
    if (ctx->error == FV_OK) fv_cache_replace(&c->now_length, length);
    fv_scope_end(ctx);
    return ctx->error;
}

/* ---- passes ---------------------------------------------------------------------------- */

typedef struct pass {
    fv_cache *cache;
    int64_t layer;
    bool prefill;            /* attention reads the keys of this pass alone */
    const fv_tensor *places; /* of the tokens of this pass */
} pass;

static void keep(void *user, fv_ctx *ctx, fv_tensor **k, fv_tensor **v)
{
    const pass *p = user;
    const fv_cache *c = p->cache;
    const fv_cache_layer *l = &c->layers[p->layer];
    fv_cache_append(ctx, (fv_tensor *[2]){l->k, l->v}, *k, *v, p->places);
    if (p->prefill || ctx->error != FV_OK) return;
    const int64_t n = fv_cache_longest(c) + 1;
    *k = all_keys(ctx, l->k, c->rows, n);
    *v = all_keys(ctx, l->v, c->rows, n);
}

static fv_tensor *run_blocks(fv_ctx *ctx, pass *p, fv_block_input *in)
{
    const fv_side *s = &p->cache->model->decoder;
    in->on_keys_values = keep;
    in->on_keys_values_user = p;
    for (p->layer = 0; p->layer < s->layers && ctx->error == FV_OK; p->layer++) {
        const fv_cache_layer *l = &p->cache->layers[p->layer];
        fv_scope_begin(ctx);
        if (l->now_k) {
            in->cross_k = fv_transpose(ctx, l->now_k, 1, 2);
            in->cross_v = fv_transpose(ctx, l->now_v, 1, 2);
        }
        in->x = fv_scope_keep(ctx, fv_block_run(ctx, &s->blocks[p->layer], in, NULL));
        fv_scope_end(ctx);
    }
    return in->x;
}

/* Prefill: every token of the prompts but the last. */
static fv_status prefill(fv_cache *c, const fv_sequences *prompts, const int64_t *row)
{
    fv_ctx *ctx = c->ctx;
    const fv_transformer *m = c->model;
    const fv_side *s = &m->decoder;
    fv_scope_begin(ctx);
    const fv_token_rows rows = fv_transformer_rows(ctx, m, prompts);
    const int64_t padded = relative(m) ? rows.longest : 0;
    pass p = {.cache = c, .prefill = true};
    p.places = fv_cache_places(ctx, prompts->count, row, NULL, prompts->length, padded);
    fv_block_input in = {.x = NULL};
    if (fv_token_rows_check(ctx, m, &rows)) {
        in.q_begin = in.k_begin = rows.begin;
        in.visible = fv_token_rows_visible(ctx, &rows);
        in.rotary_table = in.key_rotary_table = fv_side_angles(ctx, m, &rows, 0, 1);
        if (s->relative_table)
            in.bias = fv_relative_bias(ctx, s->relative_table, &s->relative, 0, rows.ids->shape[1],
                                       rows.ids->shape[1]);
        in.x = fv_side_embed(ctx, m, s, &rows, 0, false);
        run_blocks(ctx, &p, &in);
    }
    fv_scope_end(ctx);
    return ctx->error;
}

/* ---- beginning -------------------------------------------------------------------------- */

fv_status fv_cache_check(const fv_cache *c, const fv_sequences *prompts,
                         const fv_sequences *sources)
{
    fv_ctx *ctx = c->ctx;
    const bool encoder = c->model->encoder.layers > 0;
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(prompts->count < 1, ctx, FV_ERR_ARGUMENT, "cache: no prompts");
    for (int64_t i = 0; i < prompts->count; i++) {
        FV_RETURN_IF(prompts->length[i] < 1, ctx, FV_ERR_ARGUMENT, "cache: prompt %lld is empty",
                     (long long)i);
        FV_RETURN_IF(prompts->length[i] > fv_cache_max_tokens(c->model), ctx, FV_ERR_LIMIT,
                     "cache: prompt %lld has %lld tokens, the model's context %lld", (long long)i,
                     (long long)prompts->length[i], (long long)fv_cache_max_tokens(c->model));
    }
    FV_RETURN_IF(encoder != (sources != NULL), ctx, FV_ERR_ARGUMENT,
                 encoder ? "cache: the model reads sources" : "cache: the model reads no sources");
    FV_RETURN_IF(sources && sources->count != prompts->count, ctx, FV_ERR_ARGUMENT,
                 "cache: %lld sources for %lld prompts", (long long)sources->count,
                 (long long)prompts->count);
    return FV_OK;
}

int64_t fv_cache_max_tokens(const fv_transformer *m) { return fv_context_of(&m->cfg); }

/* Prefills prompts that have more than one token. Prompt i belongs to row rows[i]; NULL: row i. */
static fv_status fill_prompts(fv_cache *c, const fv_sequences *prompts, const int64_t *rows)
{
    fv_ctx *ctx = c->ctx;
    fv_sequences some = {.count = 0};
    const size_t bytes = (size_t)prompts->count * (2 * sizeof(int64_t) + sizeof(int64_t *));
    char *room = fv_mem_zalloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "cache: no memory for prompts");
    const int64_t **tokens = (const int64_t **)(void *)room;
    int64_t *length = (int64_t *)(void *)(tokens + prompts->count), *row = length + prompts->count;
    for (int64_t i = 0; i < prompts->count; i++) {
        if (prompts->length[i] < 2) continue;
        tokens[some.count] = prompts->tokens[i];
        length[some.count] = prompts->length[i] - 1;
        row[some.count++] = rows ? rows[i] : i;
    }
    some.tokens = tokens;
    some.length = length;
    fv_status status = FV_OK;
    if (some.count > 0 && c->model->encoder.layers > 0)
        status = fv_fail(ctx, FV_ERR_UNSUPPORTED,
                         "cache: prompts of several tokens need a model without an encoder");
    else if (some.count > 0)
        status = prefill(c, &some, row);
    fv_mem_free(&ctx->mem, room, bytes);
    return status;
}

fv_status fv_cache_fill(fv_cache *c, const fv_sequences *prompts, const fv_memory *memory,
                        int64_t more)
{
    fv_ctx *ctx = c->ctx;
    int64_t most = 0;
    for (int64_t i = 0; i < prompts->count; i++)
        if (prompts->length[i] > most) most = prompts->length[i];
    if (more < 0 || more > fv_cache_max_tokens(c->model) - most) more = 0;
    c->rows = 0;
    drop_sources(c);
    FV_TRY(reserve(c, prompts->count, most + more));
    c->rows = prompts->count;
    for (int64_t i = 0; i < c->rows; i++) {
        c->length[i] = 0;
        c->source[i] = i;
    }
    fv_no_grad_begin(ctx);
    fv_status status = memory ? fill_sources(c, memory) : FV_OK;
    if (status == FV_OK) status = fill_prompts(c, prompts, NULL);
    fv_no_grad_end(ctx);
    for (int64_t i = 0; i < c->rows; i++)
        c->length[i] = prompts->length[i] - 1;
    if (status != FV_OK) c->rows = 0;
    return status;
}

fv_status fv_cache_refill(fv_cache *c, const fv_sequences *prompts, const int64_t *rows)
{
    fv_no_grad_begin(c->ctx);
    const fv_status status = fill_prompts(c, prompts, rows);
    fv_no_grad_end(c->ctx);
    for (int64_t i = 0; i < prompts->count && status == FV_OK; i++)
        c->length[rows[i]] = prompts->length[i] - 1;
    return status;
}

/* ---- stepping --------------------------------------------------------------------------- */

fv_tensor *fv_cache_by_row(fv_ctx *ctx, const fv_cache *c, const int64_t *values)
{
    return fv_from_host(ctx, FV_I64, 1, &c->rows, values);
}

static bool may_step(fv_ctx *ctx, fv_cache *c, const fv_tensor *tokens)
{
    if (ctx->error != FV_OK) return false;
    if (tokens->rank != 1 || tokens->dtype != FV_I64 || tokens->shape[0] != c->rows || c->rows < 1)
        fv_poison(ctx, FV_ERR_SHAPE, "cache: a step takes i64 [%lld], a token of each row",
                  (long long)c->rows);
    else if (fv_cache_longest(c) >= fv_cache_max_tokens(c->model))
        fv_poison(ctx, FV_ERR_LIMIT, "cache: the context of %lld tokens is full",
                  (long long)fv_cache_max_tokens(c->model));
    else if (make_room(c) != FV_OK && ctx->error == FV_OK)
        fv_make_last_failure_sticky(ctx, FV_ERR_MEMORY);
    c->uniform = true;
    for (int64_t i = 1; i < c->rows; i++)
        c->uniform = c->uniform && c->length[i] == c->length[0];
    if (ctx->error == FV_OK && !c->uniform && relative(c->model))
        fv_poison(ctx, FV_ERR_UNSUPPORTED,
                  "cache: with relative positions all rows must have the same length");
    return ctx->error == FV_OK;
}

/* u8 [rows, 1, 1, n]: the keys in each row's own window. The attention rule has one position for
 * the queries of all rows. */
static fv_tensor *windows(fv_ctx *ctx, const fv_cache *c, int64_t n)
{
    const int64_t window = c->model->cfg.window, shape[4] = {c->rows, 1, 1, n};
    uint8_t *x = fv_host_alloc(ctx, FV_U8, 4, shape);
    for (int64_t i = 0; x && i < c->rows; i++)
        for (int64_t j = 0; j < n; j++)
            x[i * n + j] = j <= c->length[i] && j > c->length[i] - window;
    return fv_host_tensor(ctx, FV_U8, x, 4, shape, FV_U8);
}

/* Positions of the tokens, and the keys they attend to. */
static void set_positions(fv_ctx *ctx, const fv_cache *c, fv_token_rows *rows, fv_block_input *in)
{
    const fv_transformer *m = c->model;
    const fv_side *s = &m->decoder;
    const int64_t n = fv_cache_longest(c) + 1;
    in->position = n - 1;
    in->memory_lengths = c->now_length;
    if (!c->uniform) {
        for (int64_t i = 0; i < c->rows; i++)
            c->chosen[i] = c->length[i] + 1;
        in->key_lengths = fv_cache_by_row(ctx, c, c->chosen);
        rows->positions = fv_unsqueeze(ctx, fv_cache_by_row(ctx, c, c->length), 1);
        rows->longest = n;
        in->rotary_table_per_sequence = true;
        if (m->cfg.window > 0) in->window_visible = windows(ctx, c, n);
    }
    in->rotary_table = in->key_rotary_table = fv_side_angles(ctx, m, rows, n - 1, 0);
    if (s->relative_table)
        in->bias = fv_relative_bias(ctx, s->relative_table, &s->relative, n - 1, 1, n);
    in->x = fv_side_embed(ctx, m, s, rows, n - 1, false);
}

fv_tensor *fv_cache_step(fv_ctx *ctx, fv_cache *c, fv_tensor *tokens)
{
    if (!may_step(ctx, c, tokens)) return ctx->invalid;
    const fv_transformer *m = c->model;
    pass p = {.cache = c};
    fv_block_input in = {.x = NULL};
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_token_rows rows = {.ids = fv_unsqueeze(ctx, tokens, 1)};
    p.places = fv_cache_places(ctx, c->rows, NULL, c->length, NULL, 0);
    set_positions(ctx, c, &rows, &in);
    fv_tensor *x = fv_side_finish(ctx, &m->decoder, run_blocks(ctx, &p, &in));
    fv_tensor *logits = fv_squeeze(ctx, fv_transformer_logits(ctx, m, x), 1);
    fv_no_grad_end(ctx);
    logits = fv_scope_keep(ctx, logits);
    fv_scope_end(ctx);
    for (int64_t i = 0; i < c->rows && ctx->error == FV_OK; i++)
        c->length[i]++;
    return logits;
}
