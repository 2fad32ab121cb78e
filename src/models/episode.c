/* One episode with everything that can be shown of it (fovea/play.h). */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "fovea/autograd.h"
#include "models/play.h"
#include "text/codepoints.h"

/* The episode and its arrays are one block of memory, in this order. */
typedef struct record {
    fv_episode episode;
    fv_episode_move *moves;
    float *pixels, *values, *weights;
    int64_t *last_action;
    char *boards;
} record;

/* ---- memory --------------------------------------------------------------------------------- */

typedef struct sizes {
    int64_t picture, board, weights; /* of one move */
} sizes;

static sizes sizes_of(const fv_episode *e)
{
    return (sizes){.picture = e->channels * e->height * e->width,
                   .board = e->side * e->side,
                   .weights = e->heads * e->rows * e->cols};
}

static fv_status make_record(fv_ctx *ctx, const fv_episode *facts, record **out)
{
    const sizes s = sizes_of(facts);
    const size_t n = (size_t)facts->count;
    size_t floats = 0, bytes = 0, each = 0;
    const bool fits =
        fv_checked_mul_size(n, (size_t)(s.picture + s.weights + facts->action_count), &floats) &&
        fv_checked_mul_size(floats, sizeof(float), &floats) &&
        fv_checked_mul_size(n + 1, sizeof(fv_episode_move) + sizeof(int64_t) + (size_t)s.board,
                            &each) &&
        fv_checked_add_size(floats, each, &bytes) &&
        fv_checked_add_size(bytes, sizeof(record), &bytes);
    record *r = fits ? fv_mem_zalloc(&ctx->mem, bytes) : NULL;
    FV_RETURN_IF(!r, ctx, FV_ERR_MEMORY, "no memory for an episode of %lld moves",
                 (long long)facts->count);
    r->episode = *facts;
    r->episode.bytes = bytes;
    r->moves = (fv_episode_move *)(r + 1);
    r->last_action = (int64_t *)(r->moves + n);
    r->pixels = (float *)(r->last_action + n);
    r->values = r->pixels + (int64_t)n * s.picture;
    r->weights = r->values + (int64_t)n * facts->action_count;
    r->boards = (char *)(r->weights + (int64_t)n * s.weights);
    *out = r;
    return FV_OK;
}

void fv_episode_free(fv_episode **episode)
{
    fv_episode *e = *episode;
    if (e) fv_mem_free(&e->ctx->mem, e, e->bytes);
    *episode = NULL;
}

/* ---- playing again -------------------------------------------------------------------------- */

/* Pictures, boards, rewards. */
static void replay(record *r, const fv_playing *p, const fv_play_how *how)
{
    fv_episode *e = &r->episode;
    const fv_played *played = &p->played[0];
    const sizes s = sizes_of(e);
    fv_game game;
    fv_game_start(&game, p->kind, p->side, how->seed, how->part, how->first);
    for (int64_t i = 0; i < e->count; i++) {
        fv_episode_move *m = &r->moves[i];
        r->last_action[i] = i ? played->actions[i - 1] : -1;
        fv_game_observe(&game, r->pixels + i * s.picture);
        p->kind->board(&game, r->boards + i * s.board);
        *m = (fv_episode_move){.action = played->actions[i],
                               .pixels = r->pixels + i * s.picture,
                               .values = r->values + i * e->action_count,
                               .weights = s.weights ? r->weights + i * s.weights : NULL,
                               .board = r->boards + i * s.board};
        m->reward = fv_game_move(&game, m->action);
    }
    p->kind->board(&game, r->boards + e->count * s.board);
    e->moves = r->moves;
    e->last = r->boards + e->count * s.board;
}

/* [1, heads, moves, cells], stored move by move. */
static fv_status take_weights(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    record *r = user;
    const fv_episode *e = &r->episode;
    fv_tensor *w = fv_contiguous(ctx, fv_transpose(ctx, site->captured.weights, 1, 2));
    const size_t bytes = (size_t)(e->count * sizes_of(e).weights) * sizeof *r->weights;
    return fv_tensor_read(ctx, w, r->weights, bytes);
}

/* Values and attention of all moves, in one pass over the episode. */
static fv_status look_back(record *r, fv_model *model)
{
    fv_ctx *ctx = model->ctx;
    const fv_episode *e = &r->episode;
    const void *pixels = r->pixels, *actions = r->last_action;
    const fv_capture capture = {.on_weights = take_weights, .user = r};
    fv_batch batch;
    fv_batch_init(&batch, 1);
    fv_batch_add(&batch, (fv_field){.name = "pixels",
                                    .dtype = FV_F32,
                                    .rank = 3,
                                    .shape = {e->channels, e->height, e->width},
                                    .row = &pixels,
                                    .length = &e->count});
    fv_batch_add(
        &batch,
        (fv_field){.name = "last_action", .dtype = FV_I64, .row = &actions, .length = &e->count});
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *values = model->kind->act(ctx, model->self, &batch,
                                         &(fv_pass){.capture = e->heads ? &capture : NULL});
    const fv_status status = fv_tensor_read(
        ctx, values, r->values, (size_t)(e->count * e->action_count) * sizeof *r->values);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

static fv_episode facts_of(const fv_playing *p)
{
    const fv_model *model = p->model;
    const fv_played *played = &p->played[0];
    fv_episode e = {.ctx = model->ctx,
                    .game = p->kind->name,
                    .number = played->number,
                    .won = played->won,
                    .reward = played->reward,
                    .side = p->side,
                    .channels = p->facts.channels,
                    .height = p->facts.height,
                    .width = p->facts.width,
                    .action_count = p->kind->actions,
                    .actions = p->kind->action_names,
                    .count = played->length};
    fv_site site = {.heads = 0};
    if (model->kind->attention_sites && model->kind->attention_sites(model->self, &site, 1) > 0 &&
        site.keys == FV_AXIS_CELLS) {
        e.heads = site.heads;
        e.rows = site.rows;
        e.cols = site.cols;
    }
    return e;
}

fv_status fv_play_episode(fv_model *model, fv_game_part part, uint64_t seed, int64_t number,
                          fv_episode **out)
{
    const fv_play_how how = {.seed = seed, .part = part, .first = number, .count = 1};
    fv_playing p;
    record *r = NULL;
    FV_RETURN_IF((unsigned)part >= FV_GAME_PARTS || number < 0, model->ctx, FV_ERR_ARGUMENT,
                 "play: episode %lld of part %d, expected 0 or more of 0 to %d", (long long)number,
                 (int)part, FV_GAME_PARTS - 1);
    fv_status status = fv_playing_init(&p, model, 1);
    if (status == FV_OK) status = fv_playing_run(&p, &how);
    const fv_episode facts = status == FV_OK ? facts_of(&p) : (fv_episode){.count = 0};
    if (status == FV_OK) status = make_record(model->ctx, &facts, &r);
    if (status == FV_OK) {
        replay(r, &p, &how);
        status = look_back(r, model);
    }
    fv_playing_free(&p);
    fv_episode *episode = r ? &r->episode : NULL;
    if (status == FV_OK)
        *out = episode;
    else
        fv_episode_free(&episode);
    return status;
}

/* ---- text ----------------------------------------------------------------------------------- */

enum { GAP = 2, LABEL = 8 };

/* Text padded to a width; longer text is cut. */
static fv_status put(const fv_episode *e, fv_text *out, const char *text, int64_t bytes,
                     int64_t width)
{
    char line[FV_GAME_BOARD + GAP];
    const int64_t n = bytes < width ? bytes : width;
    memset(line, ' ', sizeof line);
    memcpy(line, text, (size_t)n);
    return fv_text_append(e->ctx, out, line, (size_t)(width + GAP));
}

static fv_status end_line(const fv_episode *e, fv_text *out)
{
    while (out->bytes > 0 && out->data[out->bytes - 1] == ' ')
        out->bytes--;
    return fv_text_append(e->ctx, out, "\n", 1);
}

/* Positions first .. end - 1 beside each other, each with the action that follows it. */
static fv_status put_boards(const fv_episode *e, int64_t first, int64_t end, int64_t width,
                            fv_text *out)
{
    for (int64_t row = 0; row < e->side; row++) {
        for (int64_t i = first; i < end; i++) {
            const char *board = i < e->count ? e->moves[i].board : e->last;
            FV_TRY(put(e, out, board + row * e->side, e->side, width));
        }
        FV_TRY(end_line(e, out));
    }
    for (int64_t i = first; i < end; i++) {
        const char *name = i < e->count ? e->actions[e->moves[i].action] : e->won ? "won" : "lost";
        FV_TRY(put(e, out, name, (int64_t)strlen(name), width));
    }
    return end_line(e, out);
}

fv_status fv_episode_text(const fv_episode *e, int columns, fv_text *out)
{
    const int64_t width = e->side > LABEL ? e->side : LABEL;
    const int64_t fits = columns / (width + GAP), across = fits > 1 ? fits : 1;
    char line[160];
    const int n =
        snprintf(line, sizeof line, "%s, episode %lld: %s after %lld moves, reward %.2f\n", e->game,
                 (long long)e->number, e->won ? "won" : "lost", (long long)e->count, e->reward);
    out->bytes = 0;
    FV_TRY(fv_text_append(e->ctx, out, line, (size_t)n));
    for (int64_t first = 0; first <= e->count; first += across) {
        const int64_t end = first + across < e->count + 1 ? first + across : e->count + 1;
        FV_TRY(fv_text_append(e->ctx, out, "\n", 1));
        FV_TRY(put_boards(e, first, end, width, out));
    }
    return FV_OK;
}
