/* Questions as rows of a batch. */
#include <string.h>

#include "train/tasks/questions.h"

void fv_question_rows_clear(fv_question_rows *r) { r->count = 0, r->used = 0; }

void fv_question_rows_free(fv_question_rows *r)
{
    if (!r->ctx) return;
    fv_mem *mem = &r->ctx->mem;
    int64_t *const numbers[] = {r->picture, r->label, r->length, r->group};
    const void **const addresses[] = {r->picture_at, r->label_at, r->token_at};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i]) fv_mem_free(mem, numbers[i], r->room * sizeof *r->label);
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        if (addresses[i]) fv_mem_free(mem, addresses[i], r->room * sizeof *r->label_at);
    if (r->token) fv_mem_free(mem, r->token, r->token_room * sizeof *r->token);
    *r = (fv_question_rows){0};
}

/* All lists have one size; what could not grow stays as it was. */
static bool grow_lists(fv_question_rows *r)
{
    enum { NUMBERS = 4, ADDRESSES = 3 };
    const size_t room = r->room ? 2 * r->room : 64;
    fv_mem *mem = &r->ctx->mem;
    int64_t **const numbers[NUMBERS] = {&r->picture, &r->label, &r->length, &r->group};
    const void ***const addresses[ADDRESSES] = {&r->picture_at, &r->label_at, &r->token_at};
    int64_t *number[NUMBERS] = {NULL};
    const void **address[ADDRESSES] = {NULL};
    bool complete = true;
    for (int i = 0; i < NUMBERS; i++)
        complete = (number[i] = fv_mem_alloc(mem, room * sizeof **number)) && complete;
    for (int i = 0; i < ADDRESSES; i++)
        complete = (address[i] = fv_mem_alloc(mem, room * sizeof **address)) && complete;
    for (int i = 0; i < NUMBERS; i++) {
        if (complete && r->count > 0)
            memcpy(number[i], *numbers[i], (size_t)r->count * sizeof **number);
        int64_t *old = complete ? *numbers[i] : number[i];
        if (old) fv_mem_free(mem, old, (complete ? r->room : room) * sizeof *old);
        if (complete) *numbers[i] = number[i];
    }
    for (int i = 0; i < ADDRESSES; i++) { /* set by fv_question_rows_point */
        const void **old = complete ? *addresses[i] : address[i];
        if (old) fv_mem_free(mem, old, (complete ? r->room : room) * sizeof *old);
        if (complete) *addresses[i] = address[i];
    }
    if (complete) r->room = room;
    return complete;
}

fv_status fv_question_rows_add(fv_question_rows *r, int64_t picture, int64_t label, int group,
                               int64_t tokens, const int64_t *token)
{
    int64_t *grown = fv_mem_grow(&r->ctx->mem, r->token, &r->token_room, (size_t)(r->used + tokens),
                                 sizeof *grown);
    if (grown) r->token = grown;
    FV_RETURN_IF(!grown || ((size_t)r->count == r->room && !grow_lists(r)), r->ctx, FV_ERR_MEMORY,
                 "no memory for a batch");
    memcpy(r->token + r->used, token, (size_t)tokens * sizeof *token);
    r->used += tokens;
    r->picture[r->count] = picture;
    r->label[r->count] = label;
    r->group[r->count] = group;
    r->length[r->count++] = tokens;
    return FV_OK;
}

void fv_question_rows_point(fv_question_rows *r, const fv_media_rows *pictures)
{
    const int64_t *token = r->token;
    for (int64_t i = 0; i < r->count; i++) {
        r->picture_at[i] = pictures->row[r->picture[i]];
        r->label_at[i] = &r->label[i];
        r->token_at[i] = token;
        token += r->length[i];
    }
}

fv_batch fv_question_rows_batch(const fv_question_rows *r, const fv_media_rows *pictures,
                                int64_t first, int64_t count)
{
    const fv_media_facts *facts = pictures->facts;
    fv_batch batch;
    fv_field field = {
        .name = facts->field, .dtype = FV_F32, .rank = facts->rank, .row = r->picture_at + first};
    for (int i = 0; i < facts->rank; i++)
        field.shape[i] = facts->shape[i];
    fv_batch_init(&batch, count);
    fv_batch_add(&batch, field);
    fv_batch_add(&batch, (fv_field){.name = "question",
                                    .dtype = FV_I64,
                                    .row = r->token_at + first,
                                    .length = r->length + first});
    fv_batch_add(&batch, (fv_field){.name = "label", .dtype = FV_I64, .row = r->label_at + first});
    return batch;
}
