/* Answers to questions about a story that is given as text or by its number (fovea/read.h). */
#include "fovea/read.h"

#include <math.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "io/arena.h"
#include "models/kind_reader.h"
#include "models/model.h"
#include "models/story_batch.h"

_Static_assert((int)FV_READING_SENTENCES == (int)FV_STORY_SENTENCES &&
                   (int)FV_READING_QUESTIONS == (int)FV_STORY_QUESTIONS &&
                   (int)FV_READING_FACTS == (int)FV_STORY_FACTS,
               "the public sizes are those of stories");

typedef struct reading {
    fv_reading shown; /* first */
    fv_model *model;
    fv_arena arena;
    fv_story_batch batch; /* one story */
    const char *sentence[FV_STORY_SENTENCES];
    fv_reading_question question[FV_STORY_QUESTIONS];
    float *weights; /* [questions][hops][sentences] */
    float *summary;
} reading;

bool fv_model_is_reader(const fv_model *model)
{
    return strcmp(fv_model_kind_of(model)->name, fv_kind_reader.name) == 0;
}

void fv_reading_free(fv_reading **r)
{
    reading *own = r ? (reading *)(void *)*r : NULL;
    if (!own) return;
    fv_ctx *ctx = own->model->ctx;
    fv_story_batch_free(&own->batch);
    fv_arena_free(&own->arena);
    fv_mem_free(&ctx->mem, own, sizeof *own);
    *r = NULL;
}

static fv_status begin(fv_model *model, reading **out)
{
    fv_ctx *ctx = model->ctx;
    FV_RETURN_IF(!fv_model_is_reader(model), ctx, FV_ERR_UNSUPPORTED,
                 "a %s model does not read stories", fv_model_kind_of(model)->name);
    FV_RETURN_IF(
        fv_data_spec_get(&model->spec, "words", 0) != FV_STORY_WORDS || !model->spec.source, ctx,
        FV_ERR_FORMAT, "the model does not read sentences of %d words", (int)FV_STORY_WORDS);
    reading *r = fv_mem_zalloc(&ctx->mem, sizeof *r);
    FV_RETURN_IF(!r, ctx, FV_ERR_MEMORY, "no memory for a story");
    r->model = model;
    fv_arena_init(&r->arena, &ctx->mem);
    const fv_status status = fv_story_batch_create(ctx, 1, &r->batch);
    fv_reading *shown = &r->shown;
    if (status == FV_OK)
        *out = r;
    else
        fv_reading_free(&shown);
    return status;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* A sentence that is being read. */
typedef struct sentence {
    int64_t token[FV_STORY_WORDS];
    int64_t words;
} sentence;

static fv_status add_word(const reading *r, sentence *s, const char *word, size_t bytes)
{
    fv_ctx *ctx = r->model->ctx;
    char lower[64];
    FV_RETURN_IF(s->words == FV_STORY_WORDS, ctx, FV_ERR_ARGUMENT,
                 "expected sentences of at most %d words", (int)FV_STORY_WORDS - 1);
    for (size_t i = 0; i < bytes && i < sizeof lower; i++)
        lower[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] + ('a' - 'A') : word[i]);
    const int64_t token =
        bytes > sizeof lower ? -1 : fv_tokenizer_token_to_id(r->model->spec.source, lower, bytes);
    FV_RETURN_IF(token < 0, ctx, FV_ERR_ARGUMENT, "the model has not learned the word '%.*s'",
                 (int)(bytes < 40 ? bytes : 40), word);
    s->token[s->words++] = token;
    return FV_OK;
}

static fv_status end_sentence(reading *r, sentence *s, const char *text, size_t bytes, char mark)
{
    fv_ctx *ctx = r->model->ctx;
    fv_story_row *row = &r->batch.row[0];
    const bool asks = mark == '?';
    FV_RETURN_IF(s->words == 0, ctx, FV_ERR_ARGUMENT, "a sentence without words before '%c'", mark);
    FV_TRY(add_word(r, s, asks ? "?" : ".", 1));
    FV_RETURN_IF(asks ? row->questions == FV_STORY_QUESTIONS : row->sentences == FV_STORY_SENTENCES,
                 ctx, FV_ERR_LIMIT, "expected at most %d sentences and %d questions",
                 (int)FV_STORY_SENTENCES, (int)FV_STORY_QUESTIONS);
    const char *copy = fv_arena_text(&r->arena, text, bytes);
    FV_RETURN_IF(!copy, ctx, FV_ERR_MEMORY, "no memory for a story");
    if (asks)
        r->question[row->questions] = (fv_reading_question){.text = copy, .support = {-1, -1, -1}};
    else
        r->sentence[row->sentences] = copy;
    memcpy(asks ? row->question[row->questions] : row->story[row->sentences], s->token,
           sizeof s->token);
    if (asks)
        row->questions++;
    else
        row->sentences++;
    *s = (sentence){.words = 0};
    return FV_OK;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ','; }

static fv_status read_text(reading *r, const char *text)
{
    fv_ctx *ctx = r->model->ctx;
    sentence s = {.words = 0};
    const char *first = NULL; /* of the sentence */
    for (const char *at = text; *at;) {
        const size_t bytes = strcspn(at, " \t\r\n,.!?");
        if (bytes > 0) {
            if (!first) first = at;
            FV_TRY(add_word(r, &s, at, bytes));
            at += bytes;
        } else {
            if (!is_blank(*at)) {
                FV_TRY(end_sentence(r, &s, first ? first : at, first ? (size_t)(at - first) + 1 : 1,
                                    *at));
                first = NULL;
            }
            at++;
        }
    }
    const fv_story_row *row = &r->batch.row[0];
    FV_RETURN_IF(s.words > 0, ctx, FV_ERR_ARGUMENT, "the last sentence ends without '.' or '?'");
    FV_RETURN_IF(row->sentences == 0 || row->questions == 0, ctx, FV_ERR_ARGUMENT,
                 "expected sentences that end with '.' and then a question that ends with '?'");
    r->batch.count = 1;
    return FV_OK;
}

/* ---- a generated story ---------------------------------------------------------------------- */

static fv_status read_number(reading *r, uint64_t number)
{
    fv_ctx *ctx = r->model->ctx;
    const int64_t facts = fv_data_spec_get(&r->model->spec, "facts", 0);
    fv_story story;
    int64_t words[FV_STORY_VOCABULARY];
    FV_RETURN_IF(facts < 1 || facts > FV_STORY_FACTS || number >= (uint64_t)1 << 40, ctx,
                 FV_ERR_ARGUMENT, "expected a model of 1 to %d facts and a number below 2^40",
                 (int)FV_STORY_FACTS);
    FV_TRY(fv_story_tokens(ctx, r->model->spec.source, words));
    fv_story_make((int)facts, FV_MADE_TEST, number, &story);
    fv_story_batch_add(&r->batch, words, &story);
    for (int i = 0; i < story.sentence_count + story.question_count; i++) {
        const bool asks = i >= story.sentence_count;
        const int k = asks ? i - story.sentence_count : i;
        char text[FV_STORY_TEXT];
        fv_story_text(asks ? &story.question[k].words : &story.sentence[k], text);
        const char *copy = fv_arena_text(&r->arena, text, strlen(text));
        FV_RETURN_IF(!copy, ctx, FV_ERR_MEMORY, "no memory for a story");
        if (!asks) {
            r->sentence[k] = copy;
            continue;
        }
        const fv_story_question *q = &story.question[k];
        r->question[k] = (fv_reading_question){
            .text = copy, .expected = fv_story_answer(q->answer), .follow_up = q->follow_up};
        memcpy(r->question[k].support, q->support, sizeof q->support);
    }
    return FV_OK;
}

/* ---- answers and weights -------------------------------------------------------------------- */

/* [1, 1, questions, sentences] of hop `layer`. */
static fv_status take_weights(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    reading *r = user;
    const fv_reading *shown = &r->shown;
    const int64_t n = shown->sentence_count;
    float map[FV_STORY_QUESTIONS * FV_STORY_SENTENCES];
    FV_TRY(fv_tensor_read(ctx, site->captured.weights, map,
                          (size_t)(shown->question_count * n) * sizeof *map));
    for (int64_t q = 0; q < shown->question_count; q++)
        memcpy(r->weights + (q * shown->hops + site->layer) * n, map + q * n,
               (size_t)n * sizeof *map);
    return FV_OK;
}

static fv_status capture(reading *r, const fv_batch *batch)
{
    fv_ctx *ctx = r->model->ctx;
    const fv_capture what = {
        .sites = "hop.*", .options = {.weights = true}, .on_weights = take_weights, .user = r};
    const fv_pass pass = {.capture = &what};
    fv_tensor *logits = NULL;
    fv_reader_run(ctx, r->model->self, batch, &pass, &logits);
    if (!logits) return fv_ctx_error(ctx);
    r->summary = fv_arena_array(&r->arena, (size_t)r->shown.sentence_count, sizeof(float));
    FV_RETURN_IF(!r->summary, ctx, FV_ERR_MEMORY, "no memory for a summary");
    r->shown.summary = r->summary;
    return fv_tensor_read(ctx, fv_sigmoid(ctx, logits), r->summary,
                          (size_t)r->shown.sentence_count * sizeof(float));
}

static fv_status answer(reading *r)
{
    fv_ctx *ctx = r->model->ctx;
    const fv_story_row *row = &r->batch.row[0];
    r->shown = (fv_reading){.sentence_count = row->sentences,
                            .question_count = row->questions,
                            .hops = fv_reader_hops(r->model->self),
                            .sentence = r->sentence,
                            .question = r->question};
    const int64_t per_question = r->shown.hops * row->sentences;
    r->weights = fv_arena_array(&r->arena, (size_t)(row->questions * per_question), sizeof(float));
    FV_RETURN_IF(!r->weights, ctx, FV_ERR_MEMORY, "no memory for weights");
    int64_t choice[1][FV_STORY_QUESTIONS];
    float p[1][FV_STORY_QUESTIONS];
    FV_TRY(fv_story_batch_answer(&r->batch, r->model, choice, p));
    for (int64_t i = 0; i < row->questions; i++) {
        r->question[i].answer = r->model->spec.labels[choice[0][i]];
        r->question[i].probability = (double)p[0][i];
        r->question[i].weights = r->weights + i * per_question;
    }
    const fv_batch batch = fv_story_batch_of(&r->batch, 0, 1);
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const fv_status status = capture(r, &batch);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

static fv_status finish(reading *r, fv_status status, fv_reading **out)
{
    if (status == FV_OK) status = answer(r);
    fv_reading *shown = &r->shown;
    if (status == FV_OK)
        *out = shown;
    else
        fv_reading_free(&shown);
    return status;
}

fv_status fv_read_story(fv_model *model, const char *text, fv_reading **out)
{
    reading *r = NULL;
    FV_TRY(begin(model, &r));
    return finish(r, read_text(r, text), out);
}

fv_status fv_read_example(fv_model *model, uint64_t number, fv_reading **out)
{
    reading *r = NULL;
    FV_TRY(begin(model, &r));
    return finish(r, read_number(r, number), out);
}
