/* Stories as batches of a reader. */
#include "models/story_batch.h"

#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"

static const struct {
    const char *name;
    size_t offset;
    int64_t width; /* of an entry; 0: a number */
    bool of_sentences;
} fields[FV_STORY_FIELDS] = {
    {"story", offsetof(fv_story_row, story), FV_STORY_WORDS, true},
    {"question", offsetof(fv_story_row, question), FV_STORY_WORDS, false},
    {"previous", offsetof(fv_story_row, previous), 0, false},
    {"answer", offsetof(fv_story_row, answer), 0, false},
    {"support", offsetof(fv_story_row, support), FV_STORY_FACTS, false},
    {"summary", offsetof(fv_story_row, summary), 0, true},
};

fv_status fv_story_batch_create(fv_ctx *ctx, int64_t room, fv_story_batch *out)
{
    fv_story_batch b = {.ctx = ctx, .room = room};
    fv_mem *mem = &ctx->mem;
    const size_t n = (size_t)room;
    b.row = fv_mem_zalloc(mem, n * sizeof *b.row);
    b.sentences = fv_mem_zalloc(mem, 2 * n * sizeof *b.sentences);
    bool fits = b.row && b.sentences;
    for (int i = 0; i < FV_STORY_FIELDS; i++) {
        b.at[i] = fv_mem_zalloc(mem, n * sizeof *b.at[i]);
        fits = fits && b.at[i];
    }
    if (fits) b.questions = b.sentences + room;
    *out = b;
    if (fits) return FV_OK;
    fv_story_batch_free(out);
    return fv_fail(ctx, FV_ERR_MEMORY, "no memory for %lld stories", (long long)room);
}

void fv_story_batch_free(fv_story_batch *b)
{
    if (!b->ctx) return;
    fv_mem *mem = &b->ctx->mem;
    const size_t n = (size_t)b->room;
    if (b->row) fv_mem_free(mem, b->row, n * sizeof *b->row);
    if (b->sentences) fv_mem_free(mem, b->sentences, 2 * n * sizeof *b->sentences);
    for (int i = 0; i < FV_STORY_FIELDS; i++)
        if (b->at[i]) fv_mem_free(mem, b->at[i], n * sizeof *b->at[i]);
    *b = (fv_story_batch){.ctx = NULL};
}

fv_status fv_story_tokens(fv_ctx *ctx, const fv_tokenizer *tokenizer,
                          int64_t out[FV_STORY_VOCABULARY])
{
    const char *word;
    for (int i = 0; i < FV_STORY_VOCABULARY && (word = fv_story_word(i)); i++) {
        out[i + 1] = tokenizer ? fv_tokenizer_token_to_id(tokenizer, word, strlen(word)) : -1;
        FV_RETURN_IF(out[i + 1] < 0, ctx, FV_ERR_ARGUMENT,
                     "the model's tokenizer lacks the word '%s' of the stories", word);
    }
    out[0] = 0;
    return FV_OK;
}

static void put_words(const int64_t *words, const fv_story_sentence *s, int64_t out[FV_STORY_WORDS])
{
    for (int i = 0; i < FV_STORY_WORDS; i++)
        out[i] = i < s->count ? words[s->word[i]] : 0;
}

void fv_story_batch_add(fv_story_batch *b, const int64_t words[FV_STORY_VOCABULARY],
                        const fv_story *story)
{
    fv_story_row *r = &b->row[b->count++];
    r->sentences = story->sentence_count;
    r->questions = story->question_count;
    for (int i = 0; i < story->sentence_count; i++) {
        put_words(words, &story->sentence[i], r->story[i]);
        r->summary[i] = story->summary[i];
    }
    for (int i = 0; i < story->question_count; i++) {
        const fv_story_question *q = &story->question[i];
        put_words(words, &q->words, r->question[i]);
        r->previous[i] = i > 0 ? story->question[i - 1].answer : -1;
        r->answer[i] = q->answer;
        r->follow_up[i] = q->follow_up;
        for (int k = 0; k < FV_STORY_FACTS; k++)
            r->support[i][k] = q->support[k];
    }
}

fv_batch fv_story_batch_of(fv_story_batch *b, int64_t first, int64_t count)
{
    fv_batch batch;
    fv_batch_init(&batch, count);
    for (int64_t i = 0; i < b->count; i++) {
        b->sentences[i] = b->row[i].sentences;
        b->questions[i] = b->row[i].questions;
        for (int k = 0; k < FV_STORY_FIELDS; k++)
            b->at[k][i] = (const char *)&b->row[i] + fields[k].offset;
    }
    for (int k = 0; k < FV_STORY_FIELDS; k++)
        fv_batch_add(
            &batch,
            (fv_field){.name = fields[k].name,
                       .dtype = FV_I64,
                       .rank = fields[k].width > 0,
                       .shape = {fields[k].width},
                       .row = b->at[k] + first,
                       .length = (fields[k].of_sentences ? b->sentences : b->questions) + first});
    return batch;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* One pass: the most likely answers, and their probabilities. */
static fv_status answer_once(fv_story_batch *b, fv_model *model,
                             int64_t (*answer)[FV_STORY_QUESTIONS], float (*p)[FV_STORY_QUESTIONS],
                             int64_t *room)
{
    fv_ctx *ctx = b->ctx;
    const fv_batch batch = fv_story_batch_of(b, 0, b->count);
    fv_tensor *share = fv_softmax(ctx, fv_model_classify(model, &batch, NULL), -1);
    const int64_t most = fv_tensor_size(share, 1);
    const size_t cells = (size_t)(b->count * most);
    float *values = (float *)(room + b->room * FV_STORY_QUESTIONS);
    FV_TRY(fv_tensor_read(ctx, fv_argmax(ctx, share, -1, false), room, cells * sizeof *room));
    FV_TRY(fv_tensor_read(ctx, fv_max(ctx, share, 1, (int[]){-1}, false), values,
                          cells * sizeof *values));
    for (int64_t i = 0; i < b->count; i++)
        for (int64_t k = 0; k < b->row[i].questions; k++) {
            answer[i][k] = room[i * most + k];
            if (p) p[i][k] = values[i * most + k];
        }
    return FV_OK;
}

/* Sets "previous" to what was answered. False: it already was. */
static bool set_previous(fv_story_batch *b, int64_t (*answer)[FV_STORY_QUESTIONS])
{
    bool changed = false;
    for (int64_t i = 0; i < b->count; i++)
        for (int64_t k = 1; k < b->row[i].questions; k++) {
            changed = changed || b->row[i].previous[k] != answer[i][k - 1];
            b->row[i].previous[k] = answer[i][k - 1];
        }
    return changed;
}

/* Answer k depends on the answers before it only, so after k passes it is final. */
fv_status fv_story_batch_answer(fv_story_batch *b, fv_model *model,
                                int64_t (*answer)[FV_STORY_QUESTIONS],
                                float (*p)[FV_STORY_QUESTIONS])
{
    fv_ctx *ctx = b->ctx;
    const size_t bytes = (size_t)(b->room * FV_STORY_QUESTIONS) * (sizeof(int64_t) + sizeof(float));
    int64_t *room = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory for answers");
    fv_status status = FV_OK;
    for (int64_t i = 0; i < b->count; i++)
        for (int k = 0; k < FV_STORY_QUESTIONS; k++)
            b->row[i].previous[k] = -1;
    for (int pass = 0; status == FV_OK && pass < FV_STORY_QUESTIONS; pass++) {
        fv_scope_begin(ctx);
        fv_no_grad_begin(ctx);
        status = answer_once(b, model, answer, p, room);
        fv_no_grad_end(ctx);
        fv_scope_end(ctx);
        if (status == FV_OK && !set_previous(b, answer)) break;
    }
    fv_mem_free(&ctx->mem, room, bytes);
    return status;
}
