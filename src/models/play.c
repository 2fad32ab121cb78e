#include "models/play.h"

#include <string.h>

#include "base/checked_math.h"
#include "fovea/autograd.h"

/* A random site that no op uses. */
#define MOVE_SITE 0x6d6f766573u

fv_status fv_model_game(const fv_model *model, const fv_game_kind **kind, int64_t *side)
{
    const fv_data_spec *spec = fv_model_spec(model);
    for (size_t i = 0; (*kind = fv_game_kind_at(i)) != NULL; i++)
        if ((*side = fv_data_spec_get(spec, (*kind)->name, 0)) > 0) break;
    FV_RETURN_IF(!*kind || !model->kind->act || !fv_model_can(model, FV_CAN_ACT), model->ctx,
                 FV_ERR_UNSUPPORTED, "a %s model does not play a game", model->type);
    FV_RETURN_IF(!fv_game_side_fits(*kind, *side), model->ctx, FV_ERR_FORMAT,
                 "game %s: side %lld, expected %d to %d in steps of %d", (*kind)->name,
                 (long long)*side, (*kind)->min_side, (*kind)->max_side, (*kind)->step);
    const fv_game_facts facts = (*kind)->facts((int32_t)*side);
    FV_RETURN_IF(fv_data_spec_get(spec, "channels", 0) != facts.channels ||
                     fv_data_spec_get(spec, "height", 0) != facts.height ||
                     fv_data_spec_get(spec, "width", 0) != facts.width ||
                     fv_data_spec_get(spec, "actions", 0) != (*kind)->actions,
                 model->ctx, FV_ERR_FORMAT,
                 "game %s of side %lld has pictures of %lld x %lld x %lld and %d actions, the "
                 "model reads others",
                 (*kind)->name, (long long)*side, (long long)facts.channels,
                 (long long)facts.height, (long long)facts.width, (*kind)->actions);
    return FV_OK;
}

/* ---- memory --------------------------------------------------------------------------------- */

static int64_t picture_size(const fv_playing *p)
{
    return p->facts.channels * p->facts.height * p->facts.width;
}

static void *rows_of(fv_playing *p, size_t bytes_each)
{
    size_t bytes = 0;
    if (!fv_checked_mul_size((size_t)p->capacity, bytes_each, &bytes)) return NULL;
    return fv_mem_zalloc(&p->model->ctx->mem, bytes);
}

static void free_rows(fv_playing *p, void *rows, size_t bytes_each)
{
    if (rows) fv_mem_free(&p->model->ctx->mem, rows, (size_t)p->capacity * bytes_each);
}

fv_status fv_playing_init(fv_playing *p, fv_model *model, int64_t capacity)
{
    *p = (fv_playing){.model = model, .capacity = capacity};
    FV_TRY(fv_model_game(model, &p->kind, &p->side));
    p->facts = p->kind->facts((int32_t)p->side);
    p->played = rows_of(p, sizeof *p->played);
    p->games = rows_of(p, sizeof *p->games);
    p->pixels = rows_of(p, (size_t)picture_size(p) * sizeof *p->pixels);
    p->actions = rows_of(p, (size_t)p->facts.limit);
    p->last_action = rows_of(p, sizeof *p->last_action);
    p->best = rows_of(p, sizeof *p->best);
    p->live = rows_of(p, sizeof *p->live);
    p->pixel_row = rows_of(p, sizeof *p->pixel_row);
    p->action_row = rows_of(p, sizeof *p->action_row);
    p->state_row = rows_of(p, sizeof *p->state_row);
    FV_RETURN_IF(!p->played || !p->games || !p->pixels || !p->actions || !p->last_action ||
                     !p->best || !p->live || !p->pixel_row || !p->action_row || !p->state_row,
                 model->ctx, FV_ERR_MEMORY, "no memory for %lld episodes", (long long)capacity);
    for (int64_t i = 0; i < capacity; i++)
        p->played[i].actions = p->actions + i * p->facts.limit;
    return FV_OK;
}

static void free_state(fv_playing *p)
{
    for (int i = 0; i < 2; i++) {
        free_rows(p, p->state[i], (size_t)p->state_width * sizeof(float));
        p->state[i] = NULL;
    }
}

void fv_playing_free(fv_playing *p)
{
    if (!p->model) return;
    free_state(p);
    free_rows(p, p->played, sizeof *p->played);
    free_rows(p, p->games, sizeof *p->games);
    free_rows(p, p->pixels, (size_t)picture_size(p) * sizeof *p->pixels);
    free_rows(p, p->actions, (size_t)p->facts.limit);
    free_rows(p, p->last_action, sizeof *p->last_action);
    free_rows(p, p->best, sizeof *p->best);
    free_rows(p, p->live, sizeof *p->live);
    free_rows(p, p->pixel_row, sizeof *p->pixel_row);
    free_rows(p, p->action_row, sizeof *p->action_row);
    free_rows(p, p->state_row, sizeof *p->state_row);
    *p = (fv_playing){.model = NULL};
}

/* ---- moves ---------------------------------------------------------------------------------- */

/* What the first `count` live episodes show, as a batch. */
static fv_batch observe(fv_playing *p, int64_t count, bool first)
{
    const int64_t size = picture_size(p);
    fv_batch batch;
    fv_batch_init(&batch, count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = p->live[i];
        fv_game_observe(&p->games[row], p->pixels + i * size);
        p->pixel_row[i] = p->pixels + i * size;
        p->action_row[i] = &p->last_action[row];
        if (!first) p->state_row[i] = p->state[0] + row * p->state_width;
    }
    fv_batch_add(&batch, (fv_field){.name = "pixels",
                                    .dtype = FV_F32,
                                    .rank = 3,
                                    .shape = {p->facts.channels, p->facts.height, p->facts.width},
                                    .row = p->pixel_row});
    fv_batch_add(&batch, (fv_field){.name = "last_action", .dtype = FV_I64, .row = p->action_row});
    if (!first)
        fv_batch_add(&batch, (fv_field){.name = "state",
                                        .dtype = FV_F32,
                                        .rank = 1,
                                        .shape = {p->state_width},
                                        .row = p->state_row});
    return batch;
}

/* Keeps the state of the live rows for their next move. */
static fv_status keep_state(fv_playing *p, const fv_tensor *state, int64_t count)
{
    fv_ctx *ctx = p->model->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    const int64_t width = fv_tensor_size(state, 1);
    if (!p->state[0]) {
        p->state_width = width;
        for (int i = 0; i < 2; i++)
            p->state[i] = rows_of(p, (size_t)width * sizeof(float));
        FV_RETURN_IF(!p->state[0] || !p->state[1], ctx, FV_ERR_MEMORY, "no memory for %lld states",
                     (long long)p->capacity);
    }
    FV_TRY(fv_tensor_read(ctx, state, p->state[1], (size_t)(count * width) * sizeof(float)));
    for (int64_t i = 0; i < count; i++)
        memcpy(p->state[0] + p->live[i] * width, p->state[1] + i * width,
               (size_t)width * sizeof(float));
    return FV_OK;
}

/* The best action of each live episode, in p->best. */
static fv_status choose(fv_playing *p, int64_t count, bool first)
{
    fv_ctx *ctx = p->model->ctx;
    const fv_model_kind *kind = p->model->kind;
    const bool remembers = kind->act_with_state != NULL;
    const fv_batch batch = observe(p, count, first || !remembers);
    fv_tensor *state = NULL;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *values = remembers ? kind->act_with_state(ctx, p->model->self, &batch, NULL, &state)
                                  : kind->act(ctx, p->model->self, &batch, NULL);
    fv_status status = fv_tensor_read(ctx, fv_argmax(ctx, values, -1, false), p->best,
                                      (size_t)count * sizeof *p->best);
    if (status == FV_OK && remembers) status = keep_state(p, state, count);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

/* The model's choice, or one drawn at random. */
static int action_of(const fv_playing *p, const fv_play_how *how, int64_t i)
{
    const int64_t row = p->live[i];
    uint32_t word[4];
    if (!(how->explore > 0)) return (int)p->best[i];
    fv_rng_draw(fv_rng_key(how->seed, how->step, MOVE_SITE), (uint64_t)p->played[row].number,
                (uint64_t)p->played[row].length, word);
    if (!((double)fv_rng_unit(word[0]) < how->explore)) return (int)p->best[i];
    return (int)(fv_rng_unit(word[1]) * (float)p->kind->actions);
}

/* Makes the chosen moves; returns how many episodes are still live. */
static int64_t make_moves(fv_playing *p, const fv_play_how *how, int64_t count)
{
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = p->live[i];
        fv_game *game = &p->games[row];
        fv_played *played = &p->played[row];
        const int action = action_of(p, how, i);
        played->reward += fv_game_move(game, action);
        played->actions[played->length++] = (uint8_t)action;
        played->ended = game->ended;
        played->won = game->won;
        p->last_action[row] = action;
        if (!fv_game_over(game)) p->live[left++] = row;
    }
    return left;
}

fv_status fv_playing_run(fv_playing *p, const fv_play_how *how)
{
    FV_RETURN_IF(how->count > p->capacity || how->first < 0, p->model->ctx, FV_ERR_ARGUMENT,
                 "play: %lld episodes at once, expected at most %lld", (long long)how->count,
                 (long long)p->capacity);
    for (int64_t i = 0; i < how->count; i++) {
        fv_played *played = &p->played[i];
        uint8_t *actions = played->actions;
        fv_game_start(&p->games[i], p->kind, p->side, how->seed, how->part, how->first + i);
        *played = (fv_played){.number = how->first + i, .actions = actions};
        p->last_action[i] = -1;
        p->live[i] = i;
    }
    bool first = true;
    for (int64_t live = how->count; live > 0; first = false) {
        FV_TRY(choose(p, live, first));
        live = make_moves(p, how, live);
    }
    return FV_OK;
}
