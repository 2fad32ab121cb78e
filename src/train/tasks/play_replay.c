#include <string.h>

#include "base/checked_math.h"
#include "train/tasks/play.h"

/* ---- memory --------------------------------------------------------------------------------- */

static size_t row_bytes(const fv_replay *r)
{
    return sizeof *r->number + sizeof *r->length + sizeof *r->ended + (size_t)r->limit;
}

fv_status fv_replay_create(fv_ctx *ctx, int64_t capacity, int64_t limit, fv_replay *out)
{
    *out = (fv_replay){.ctx = ctx, .capacity = capacity, .limit = limit};
    size_t bytes = 0;
    char *room = NULL;
    if (fv_checked_mul_size((size_t)capacity, row_bytes(out), &bytes))
        room = fv_mem_zalloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory for %lld episodes", (long long)capacity);
    out->number = (int64_t *)room;
    out->length = (int32_t *)(out->number + capacity);
    out->ended = (uint8_t *)(out->length + capacity);
    out->actions = out->ended + capacity;
    return FV_OK;
}

void fv_replay_free(fv_replay *r)
{
    if (r->number) fv_mem_free(&r->ctx->mem, r->number, (size_t)r->capacity * row_bytes(r));
    *r = (fv_replay){.ctx = r->ctx};
}

int64_t fv_replay_count(const fv_replay *r)
{
    return r->pushed < r->capacity ? r->pushed : r->capacity;
}

void fv_replay_push(fv_replay *r, const fv_played *played)
{
    const int64_t at = r->pushed++ % r->capacity;
    r->number[at] = played->number;
    r->length[at] = (int32_t)played->length;
    r->ended[at] = played->ended;
    memcpy(r->actions + at * r->limit, played->actions, (size_t)played->length);
    memset(r->actions + at * r->limit + played->length, 0, (size_t)(r->limit - played->length));
}

fv_played fv_replay_get(const fv_replay *r, int64_t i)
{
    return (fv_played){.number = r->number[i],
                       .length = r->length[i],
                       .actions = r->actions + i * r->limit,
                       .ended = r->ended[i]};
}

/* ---- states --------------------------------------------------------------------------------- */

fv_status fv_replay_save(const fv_replay *r, fv_params *state)
{
    fv_ctx *ctx = r->ctx;
    const int64_t count = fv_replay_count(r), one = 1, all[] = {count, r->limit};
    int64_t pushed = r->pushed;
    fv_params_add_buffer(state, "replay.pushed", fv_from_host(ctx, FV_I64, 1, &one, &pushed));
    fv_params_add_buffer(state, "replay.number", fv_from_host(ctx, FV_I64, 1, &count, r->number));
    fv_params_add_buffer(state, "replay.length", fv_from_host(ctx, FV_I32, 1, &count, r->length));
    fv_params_add_buffer(state, "replay.ended", fv_from_host(ctx, FV_U8, 1, &count, r->ended));
    fv_params_add_buffer(state, "replay.actions", fv_from_host(ctx, FV_U8, 2, all, r->actions));
    return fv_ctx_error(ctx);
}

static fv_status read(const fv_replay *r, const fv_params *state, const char *name, fv_dtype dtype,
                      int64_t count, void *out)
{
    const fv_tensor *kept = fv_params_find(state, name);
    FV_RETURN_IF(!kept || fv_tensor_dtype(kept) != dtype || fv_tensor_count(kept) != count, r->ctx,
                 FV_ERR_FORMAT, "the state has no %s of %lld elements", name, (long long)count);
    return fv_tensor_read(r->ctx, kept, out, (size_t)count * fv_dtype_size(dtype));
}

static bool is_whole(const fv_replay *r, const fv_game_kind *kind, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (r->number[i] < 0 || r->length[i] < 1 || r->length[i] > r->limit) return false;
        for (int64_t t = 0; t < r->length[i]; t++)
            if (r->actions[i * r->limit + t] >= kind->actions) return false;
    }
    return true;
}

fv_status fv_replay_load(fv_replay *r, const fv_game_kind *kind, const fv_params *state)
{
    int64_t pushed = 0;
    FV_TRY(read(r, state, "replay.pushed", FV_I64, 1, &pushed));
    FV_RETURN_IF(pushed < 0, r->ctx, FV_ERR_FORMAT, "the state has %lld episodes",
                 (long long)pushed);
    const int64_t count = pushed < r->capacity ? pushed : r->capacity;
    r->pushed = 0; /* until all is read */
    FV_TRY(read(r, state, "replay.number", FV_I64, count, r->number));
    FV_TRY(read(r, state, "replay.length", FV_I32, count, r->length));
    FV_TRY(read(r, state, "replay.ended", FV_U8, count, r->ended));
    FV_TRY(read(r, state, "replay.actions", FV_U8, count * r->limit, r->actions));
    FV_RETURN_IF(!is_whole(r, kind, count), r->ctx, FV_ERR_FORMAT,
                 "the state has episodes that game %s does not have", kind->name);
    r->pushed = pushed;
    return FV_OK;
}
