#include <string.h>

#include "base/checked_math.h"
#include "train/tasks/play.h"

enum { FIELDS = 7, NUMBERS = 3, REALS = 3 };

/* ---- targets -------------------------------------------------------------------------------- */

int64_t fv_q_target_count(int64_t length, bool ended) { return ended ? length : length - 1; }

void fv_q_targets(const fv_q_rule *rule, int64_t length, bool ended, const float *rewards,
                  fv_q_target *out)
{
    for (int64_t t = 0; t < length; t++) {
        /* The end counts as an observation only where the game has ended. */
        const int64_t last = ended ? length : length - 1;
        const int64_t to = t + rule->n_step < last ? t + rule->n_step : last;
        double sum = 0, factor = 1;
        for (int64_t i = t; i < to; i++, factor *= rule->discount)
            sum += factor * (double)rewards[i];
        const bool continues = to > t && to < length;
        out[t] = (fv_q_target){.reward = (float)sum,
                               .discount = continues ? (float)factor : 0,
                               .weight = to > t ? 1 : 0,
                               .next = continues ? to : t};
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Places in one block of memory, one array after another. */
static void *take(char **at, size_t count, size_t size)
{
    void *place = *at;
    *at += (count * size + 7) / 8 * 8;
    return place;
}

static void place_arrays(fv_play_rows *r, char *at)
{
    const size_t rows = (size_t)r->capacity, moves = rows * (size_t)r->limit;
    const size_t picture = (size_t)(r->picture[0] * r->picture[1] * r->picture[2]);
    r->row = take(&at, FIELDS * rows, sizeof *r->row);
    r->length = take(&at, rows, sizeof *r->length);
    r->last_action = take(&at, moves, sizeof *r->last_action);
    r->action = take(&at, moves, sizeof *r->action);
    r->next = take(&at, moves, sizeof *r->next);
    r->targets = take(&at, (size_t)r->limit, sizeof *r->targets);
    r->target_reward = take(&at, moves, sizeof(float));
    r->discount = take(&at, moves, sizeof(float));
    r->weight = take(&at, moves, sizeof(float));
    r->rewards = take(&at, (size_t)r->limit, sizeof(float));
    r->pixels = take(&at, moves * picture, sizeof(float));
}

fv_status fv_play_rows_create(fv_ctx *ctx, int64_t capacity, const fv_game_facts *facts,
                              const fv_q_rule *rule, fv_play_rows *out)
{
    *out = (fv_play_rows){.ctx = ctx,
                          .rule = *rule,
                          .capacity = capacity,
                          .limit = facts->limit,
                          .picture = {facts->channels, facts->height, facts->width}};
    const size_t picture = (size_t)(facts->channels * facts->height * facts->width);
    const size_t move = NUMBERS * sizeof(int64_t) + (REALS + picture) * sizeof(float);
    const size_t once = sizeof(fv_q_target) + sizeof(float); /* arrays of a single episode */
    size_t each = 0, bytes = 0;
    const bool fits =
        fv_checked_mul_size((size_t)facts->limit, move, &each) &&
        fv_checked_add_size(each, FIELDS * sizeof(void *) + sizeof(int64_t), &each) &&
        fv_checked_mul_size((size_t)capacity, each, &bytes) &&
        fv_checked_add_size(bytes, (size_t)facts->limit * once + 16 * sizeof(int64_t), &bytes);
    char *room = fits ? fv_mem_alloc(&ctx->mem, bytes) : NULL;
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory for a batch of %lld episodes",
                 (long long)capacity);
    out->bytes = bytes;
    place_arrays(out, room);
    return FV_OK;
}

void fv_play_rows_free(fv_play_rows *r)
{
    if (r->row) fv_mem_free(&r->ctx->mem, r->row, r->bytes);
    r->row = NULL;
}

void fv_play_rows_clear(fv_play_rows *r) { r->count = 0, r->longest = 0; }

void fv_play_rows_add(fv_play_rows *r, fv_game *game, const fv_played *played)
{
    const int64_t picture = r->picture[0] * r->picture[1] * r->picture[2];
    const int64_t first = r->count * r->limit, length = played->length;
    for (int64_t t = 0; t < length; t++) {
        const int64_t at = first + t;
        fv_game_observe(game, r->pixels + at * picture);
        r->last_action[at] = t ? played->actions[t - 1] : -1;
        r->action[at] = played->actions[t];
        r->rewards[t] = (float)fv_game_move(game, played->actions[t]);
    }
    fv_q_targets(&r->rule, length, played->ended, r->rewards, r->targets);
    for (int64_t t = 0; t < length; t++) {
        r->target_reward[first + t] = r->targets[t].reward;
        r->discount[first + t] = r->targets[t].discount;
        r->weight[first + t] = r->targets[t].weight;
        r->next[first + t] = r->targets[t].next;
    }
    r->length[r->count++] = length;
    if (length > r->longest) r->longest = length;
}

/* ---- batches -------------------------------------------------------------------------------- */

static fv_field field_of(fv_play_rows *r, int i, const char *name, fv_dtype dtype,
                         const void *values, int64_t entry)
{
    const void **row = r->row + i * r->capacity;
    for (int64_t k = 0; k < r->count; k++)
        row[k] = (const char *)values + (size_t)(k * r->limit * entry) * fv_dtype_size(dtype);
    return (fv_field){.name = name, .dtype = dtype, .row = row, .length = r->length};
}

fv_batch fv_play_rows_batch(fv_play_rows *r)
{
    fv_batch batch;
    fv_batch_init(&batch, r->count);
    for (int64_t k = 0; k < r->count; k++)
        for (int64_t t = 0; t < r->length[k]; t++)
            r->next[k * r->limit + t] += k * r->longest;
    const int64_t picture = r->picture[0] * r->picture[1] * r->picture[2];
    fv_field pixels = field_of(r, 0, "pixels", FV_F32, r->pixels, picture);
    pixels.rank = 3;
    memcpy(pixels.shape, r->picture, sizeof r->picture);
    fv_batch_add(&batch, pixels);
    fv_batch_add(&batch, field_of(r, 1, "last_action", FV_I64, r->last_action, 1));
    fv_batch_add(&batch, field_of(r, 2, "action", FV_I64, r->action, 1));
    fv_batch_add(&batch, field_of(r, 3, "next", FV_I64, r->next, 1));
    fv_batch_add(&batch, field_of(r, 4, "reward", FV_F32, r->target_reward, 1));
    fv_batch_add(&batch, field_of(r, 5, "discount", FV_F32, r->discount, 1));
    fv_batch_add(&batch, field_of(r, 6, "weight", FV_F32, r->weight, 1));
    return batch;
}
