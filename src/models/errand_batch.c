/* Errands as batches of a walker; walks. */
#include "models/errand_batch.h"

#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"

static const struct {
    const char *name;
    size_t offset;
    fv_dtype dtype;
    int64_t width; /* of an entry; 0: a number */
} fields[FV_ERRAND_FIELDS] = {
    {"words", offsetof(fv_errand_row, word), FV_I64, 0},
    {"seen", offsetof(fv_errand_row, seen), FV_F32, FV_WORLD_SEEN},
    {"action", offsetof(fv_errand_row, action), FV_I64, 0},
};

fv_status fv_errand_batch_create(fv_ctx *ctx, int64_t room, fv_errand_batch *out)
{
    fv_errand_batch b = {.ctx = ctx, .room = room};
    fv_mem *mem = &ctx->mem;
    const size_t n = (size_t)room;
    b.row = fv_mem_zalloc(mem, n * sizeof *b.row);
    b.words = fv_mem_zalloc(mem, 2 * n * sizeof *b.words);
    bool fits = b.row && b.words;
    for (int i = 0; i < FV_ERRAND_FIELDS; i++) {
        b.at[i] = fv_mem_zalloc(mem, n * sizeof *b.at[i]);
        fits = fits && b.at[i];
    }
    if (fits) b.steps = b.words + room;
    *out = b;
    if (fits) return FV_OK;
    fv_errand_batch_free(out);
    return fv_fail(ctx, FV_ERR_MEMORY, "no memory for %lld maps", (long long)room);
}

void fv_errand_batch_free(fv_errand_batch *b)
{
    if (!b->ctx) return;
    fv_mem *mem = &b->ctx->mem;
    const size_t n = (size_t)b->room;
    if (b->row) fv_mem_free(mem, b->row, n * sizeof *b->row);
    if (b->words) fv_mem_free(mem, b->words, 2 * n * sizeof *b->words);
    for (int i = 0; i < FV_ERRAND_FIELDS; i++)
        if (b->at[i]) fv_mem_free(mem, b->at[i], n * sizeof *b->at[i]);
    *b = (fv_errand_batch){.ctx = NULL};
}

fv_status fv_errand_tokens(fv_ctx *ctx, const fv_tokenizer *tokenizer,
                           int64_t out[FV_ERRAND_VOCABULARY])
{
    const char *word;
    for (int i = 0; i < FV_ERRAND_VOCABULARY && (word = fv_errand_word(i)); i++) {
        out[i] = tokenizer ? fv_tokenizer_token_to_id(tokenizer, word, strlen(word)) : -1;
        FV_RETURN_IF(out[i] < 0, ctx, FV_ERR_ARGUMENT,
                     "the model's tokenizer lacks the word '%s' of the instructions", word);
    }
    return FV_OK;
}

/* Adds what the agent sees before step r->steps. */
static void see(fv_errand_row *r)
{
    const int64_t t = r->steps;
    fv_world_see(&r->errand.world, r->agent[t], t > 0 ? (int)r->action[t - 1] : -1, r->seen[t]);
}

static void step(fv_errand_row *r, int action)
{
    r->action[r->steps] = action;
    r->agent[r->steps + 1] = fv_world_step(&r->errand.world, r->agent[r->steps], action);
    r->stopped = action == FV_ACTION_STOP;
    r->steps++;
}

void fv_errand_batch_add(fv_errand_batch *b, const int64_t words[FV_ERRAND_VOCABULARY],
                         const fv_errand *errand)
{
    fv_errand_row *r = &b->row[b->count++];
    r->errand = *errand;
    r->words = errand->word_count;
    r->steps = 0;
    r->stopped = false;
    r->agent[0] = errand->start;
    for (int i = 0; i < errand->word_count; i++)
        r->word[i] = words[errand->word[i]];
    for (int i = 0; i < errand->action_count; i++) {
        see(r);
        step(r, errand->action[i]);
    }
}

/* `ahead`: one step more than were done, for the next action. */
static fv_batch batch_of(fv_errand_batch *b, int64_t first, int64_t count, int ahead)
{
    fv_batch batch;
    fv_batch_init(&batch, count);
    for (int64_t i = 0; i < b->count; i++) {
        b->words[i] = b->row[i].words;
        b->steps[i] = b->row[i].steps + (b->row[i].stopped ? 0 : ahead);
        for (int k = 0; k < FV_ERRAND_FIELDS; k++)
            b->at[k][i] = (const char *)&b->row[i] + fields[k].offset;
    }
    for (int k = 0; k < FV_ERRAND_FIELDS; k++)
        fv_batch_add(&batch, (fv_field){.name = fields[k].name,
                                        .dtype = fields[k].dtype,
                                        .rank = fields[k].width > 0,
                                        .shape = {fields[k].width},
                                        .row = b->at[k] + first,
                                        .length = (k == 0 ? b->words : b->steps) + first});
    return batch;
}

fv_batch fv_errand_batch_of(fv_errand_batch *b, int64_t first, int64_t count)
{
    return batch_of(b, first, count, 0);
}

/* ---- walks ---------------------------------------------------------------------------------- */

static fv_status choose(fv_errand_batch *b, fv_model *model, int64_t *choice)
{
    fv_ctx *ctx = b->ctx;
    const fv_batch batch = batch_of(b, 0, b->count, 1);
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *logits = fv_model_kind_of(model)->act(ctx, fv_model_self(model), &batch, NULL);
    const fv_status status = fv_tensor_read(ctx, fv_argmax(ctx, logits, -1, false), choice,
                                            (size_t)b->count * sizeof *choice);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

fv_status fv_errand_batch_walk(fv_errand_batch *b, fv_model *model)
{
    fv_ctx *ctx = b->ctx;
    const size_t bytes = (size_t)b->room * sizeof(int64_t);
    int64_t *choice = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!choice, ctx, FV_ERR_MEMORY, "no memory for actions");
    fv_status status = FV_OK;
    for (int64_t i = 0; i < b->count; i++)
        b->row[i].steps = 0, b->row[i].stopped = false;
    bool moving = b->count > 0;
    for (int t = 0; status == FV_OK && moving && t < FV_ERRAND_ACTIONS; t++) {
        for (int64_t i = 0; i < b->count; i++)
            if (!b->row[i].stopped) see(&b->row[i]);
        status = choose(b, model, choice);
        moving = false;
        for (int64_t i = 0; status == FV_OK && i < b->count; i++)
            if (!b->row[i].stopped) {
                step(&b->row[i], (int)choice[i]);
                moving = moving || !b->row[i].stopped;
            }
    }
    fv_mem_free(&ctx->mem, choice, bytes);
    return status;
}

bool fv_errand_reached(const fv_errand_row *row)
{
    const fv_agent end = row->agent[row->steps], goal = row->errand.goal;
    return row->stopped && end.row == goal.row && end.col == goal.col &&
           end.heading == goal.heading;
}
