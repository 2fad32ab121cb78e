/*
 * Position tables of a model: made on the host once, kept by the model, and made again with twice
 * the positions when a longer context needs them. A pass takes its rows from them on the device. A
 * row depends on its position only, so how long a table is changes no bit.
 */
#include "base/checked_math.h"
#include "models/transformer.h"
#include "nn/rotary.h"

enum { FEWEST_POSITIONS = 64 };

/* Positions of a new table that must have `need`: a power of two, or the whole context. */
static int64_t room_for(const fv_transformer *m, int64_t need)
{
    const int64_t context = fv_context_of(&m->cfg);
    int64_t room = FEWEST_POSITIONS;
    while (room < need && room <= INT64_MAX / 2)
        room *= 2;
    if (room < need || (room > context && need <= context)) return need > context ? need : context;
    return room;
}

const fv_rotary_config *fv_transformer_rotary(const fv_transformer *m)
{
    const fv_side *s = m->decoder.layers ? &m->decoder : &m->encoder;
    return &s->blocks[0].self.cfg.rotary;
}

/* [room, 2, pairs]: cosines and sines of each position, as in a sequence of `length` tokens. */
static fv_tensor *rotary(fv_ctx *ctx, const fv_rotary_config *cfg, fv_dtype dtype, int64_t room,
                         int64_t length)
{
    size_t bytes;
    int64_t *position = NULL;
    if (fv_checked_mul_size((size_t)room, 2 * sizeof *position, &bytes))
        position = fv_mem_alloc(&ctx->mem, bytes);
    if (!position) {
        fv_poison(ctx, FV_ERR_MEMORY, "transformer: no memory for %lld positions", (long long)room);
        return ctx->invalid;
    }
    for (int64_t i = 0; i < room; i++) {
        position[i] = i;
        position[room + i] = length;
    }
    fv_tensor *t = fv_rotary_rows(ctx, dtype, cfg, room, position, position + room);
    fv_mem_free(&ctx->mem, position, bytes);
    return fv_contiguous(ctx, fv_transpose(ctx, t, 0, 1));
}

static fv_tensor *make(fv_ctx *ctx, const fv_transformer *m, fv_position_table which,
                       fv_dtype dtype, int64_t room)
{
    if (which == FV_TABLE_SINUSOID)
        return fv_sinusoid(ctx, dtype, 0, room, m->cfg.width, 10000, m->cfg.sinusoid);
    const int64_t length = which == FV_TABLE_ROTARY_LONG ? INT64_MAX : 0;
    return rotary(ctx, fv_transformer_rotary(m), dtype, room, length);
}

fv_tensor *fv_position_rows(fv_ctx *ctx, const fv_transformer *m, fv_position_table which,
                            fv_dtype dtype, int64_t first, int64_t n)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor **at = &m->tables->table[which];
    if (first < 0 || n < 0 || first > INT64_MAX / 2 - n) {
        fv_poison(ctx, FV_ERR_LIMIT, "transformer: %lld positions from %lld on", (long long)n,
                  (long long)first);
        return ctx->invalid;
    }
    if (!*at || (*at)->shape[0] < first + n || (*at)->dtype != dtype) {
        fv_scope_begin(ctx);
        fv_tensor *made = make(ctx, m, which, dtype, room_for(m, first + n));
        if (ctx->error == FV_OK) {
            fv_tensor_ref(made); /* the model holds it; its scope no longer does */
            fv_tensor_leave_scope(made);
            fv_tensor_unref(*at);
            *at = made;
        }
        fv_scope_end(ctx);
    }
    return fv_slice(ctx, *at, 0, first, first + n, 1);
}

fv_status fv_position_tables_create(fv_transformer *m)
{
    m->tables = fv_mem_zalloc(&m->ctx->mem, sizeof *m->tables);
    FV_RETURN_IF(!m->tables, m->ctx, FV_ERR_MEMORY, "no memory for a model");
    return FV_OK;
}

void fv_position_tables_destroy(fv_transformer *m)
{
    if (!m->tables) return;
    for (int i = 0; i < FV_TABLE_COUNT; i++)
        fv_tensor_unref(m->tables->table[i]);
    fv_mem_free(&m->ctx->mem, m->tables, sizeof *m->tables);
}
