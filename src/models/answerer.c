/* Answers to questions: the most likely parts of a context. */
#include <math.h>

#include "fovea/autograd.h"
#include "models/text_encoder.h"

enum {
    TOGETHER = 8,     /* windows in one pass */
    MAX_WINDOW = 384, /* tokens of a window, question included */
    OVERLAP = 128,    /* tokens of the context that two windows share */
    MAX_ANSWER = 15   /* tokens */
};

struct fv_answerer {
    fv_text_encoder base;
    int64_t best; /* of the call */
    fv_answer *rows;
    int64_t capacity, first; /* first: row of the current question */
    double *none;
    fv_answers found;
};

/* A question and its context as tokens, in the encoder's memory. */
typedef struct tokens {
    fv_encoding x;
    int64_t begin, end; /* those of the context */
    int64_t room;       /* context tokens that a window holds */
} tokens;

static const fv_text_encoder_kind answers = {.ability = FV_CAN_ANSWER,
                                             .bytes = sizeof(fv_answerer)};

fv_status fv_answerer_open(fv_ctx *ctx, const char *folder, fv_weight_form form, fv_answerer **out)
{
    fv_text_encoder *base = NULL;
    FV_TRY(fv_text_encoder_open(ctx, folder, form, &answers, &base));
    *out = (fv_answerer *)base;
    return FV_OK;
}

fv_status fv_answerer_take(fv_model **model, const char *folder, fv_weight_form form,
                           fv_answerer **out)
{
    fv_text_encoder *base = NULL;
    FV_TRY(fv_text_encoder_take(model, folder, form, &answers, &base));
    *out = (fv_answerer *)base;
    return FV_OK;
}

void fv_answerer_close(fv_answerer **answerer)
{
    if (*answerer) fv_text_encoder_close(&(*answerer)->base);
    *answerer = NULL;
}

/* ---- windows -------------------------------------------------------------------------------- */

static fv_status encode(fv_answerer *a, int64_t number, const fv_question *q, tokens *t)
{
    fv_ctx *ctx = a->base.ctx;
    const fv_model_kind *kind = fv_model_kind_of(a->base.model);
    const int64_t positions = kind->max_length ? kind->max_length(fv_model_self(a->base.model)) : 0;
    *t = (tokens){.x = {.struct_size = sizeof t->x}};
    FV_TRY(fv_tokenizer_encode_pair(a->base.enc, q->question, q->context, FV_TOKENIZER_ADD_SPECIALS,
                                    &t->x));
    const int64_t count = (int64_t)t->x.count;
    while (t->begin < count && (!t->x.sequence_ids[t->begin] || t->x.special_tokens_mask[t->begin]))
        t->begin++;
    for (t->end = t->begin; t->end < count && !t->x.special_tokens_mask[t->end];)
        t->end++;
    FV_RETURN_IF(t->end == t->begin, ctx, FV_ERR_ARGUMENT,
                 "the context of question %lld has no tokens", (long long)number);
    const int64_t limit = positions > 0 && positions < MAX_WINDOW ? positions : MAX_WINDOW;
    t->room = limit - (count - (t->end - t->begin));
    FV_RETURN_IF(t->room < 1, ctx, FV_ERR_LIMIT,
                 "question %lld has %lld tokens: no room for its context in %lld",
                 (long long)number, (long long)t->begin, (long long)limit);
    return FV_OK;
}

/* The whole question with context tokens from .. from + n - 1. */
static fv_status make_window(fv_answerer *a, const tokens *t, int64_t from, int64_t n,
                             const int64_t **ids, const int64_t **types)
{
    const int64_t count = (int64_t)t->x.count - (t->end - t->begin) + n;
    int64_t *id = fv_arena_array(&a->base.tokens, (size_t)count, sizeof *id);
    int64_t *type = fv_arena_array(&a->base.tokens, (size_t)count, sizeof *type);
    FV_RETURN_IF(!id || !type, a->base.ctx, FV_ERR_MEMORY, "no memory for %lld tokens",
                 (long long)count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i < t->begin       ? i
                           : i < t->begin + n ? from + i - t->begin
                                              : t->end + i - t->begin - n;
        id[i] = t->x.ids[at];
        type[i] = t->x.type_ids[at];
    }
    *ids = id;
    *types = type;
    return FV_OK;
}

/* ---- probabilities -------------------------------------------------------------------------- */

/* A window's logits [count][2] and what the softmax is over: its context, and token 0 if that
 * stands for "no answer". */
typedef struct window {
    const float *logits;
    int64_t begin, end; /* of the context in the window */
    int64_t from;       /* number of its first context token among all tokens */
    bool has_none;
    double max[2], sum[2];
} window;

static double probability(const window *w, int64_t token, int side)
{
    return exp((double)w->logits[2 * token + side] - w->max[side]) / w->sum[side];
}

static void normalize(window *w)
{
    for (int side = 0; side < 2; side++) {
        w->max[side] = w->has_none ? (double)w->logits[side] : -INFINITY;
        for (int64_t i = w->begin; i < w->end; i++)
            w->max[side] = fmax(w->max[side], (double)w->logits[2 * i + side]);
        w->sum[side] = 1;
        double sum = w->has_none ? probability(w, 0, side) : 0;
        for (int64_t i = w->begin; i < w->end; i++)
            sum += probability(w, i, side);
        w->sum[side] = sum;
    }
}

/* Keeps the best answers of the question in order. Windows overlap: an answer may come twice. */
static void keep(fv_answerer *a, fv_answer answer)
{
    fv_answer *row = a->rows + a->first;
    int64_t count = a->found.count - a->first, at;
    for (int64_t i = 0; i < count; i++)
        if (row[i].begin == answer.begin && row[i].end == answer.end) {
            if (row[i].p >= answer.p) return;
            for (at = i; at + 1 < count; at++)
                row[at] = row[at + 1];
            count--;
            break;
        }
    if (count == a->best && row[count - 1].p >= answer.p) return;
    if (count < a->best) count++;
    for (at = count - 1; at > 0 && row[at - 1].p < answer.p; at--)
        row[at] = row[at - 1];
    row[at] = answer;
    a->found.count = a->first + count;
}

static void take_answers(fv_answerer *a, int64_t question, const tokens *t, window *w)
{
    normalize(w);
    const double none = w->has_none ? probability(w, 0, 0) * probability(w, 0, 1) : 0;
    a->none[question] = fmin(a->none[question], none);
    const fv_token_span *spans = t->x.offsets + w->from;
    for (int64_t i = w->begin; i < w->end; i++) {
        const double first = probability(w, i, 0);
        for (int64_t k = i; k < w->end && k < i + MAX_ANSWER; k++) {
            const size_t begin = spans[i - w->begin].begin, end = spans[k - w->begin].end;
            if (end > begin)
                keep(a, (fv_answer){.question = question,
                                    .begin = begin,
                                    .end = end,
                                    .p = first * probability(w, k, 1)});
        }
    }
}

/* ---- a question ----------------------------------------------------------------------------- */

/* Reads `count` windows whose contexts begin at from[i]. */
static fv_status read_windows(fv_answerer *a, int64_t question, const tokens *t, int64_t count,
                              const int64_t *from)
{
    fv_text_encoder *e = &a->base;
    fv_ctx *ctx = e->ctx;
    const int64_t *ids[TOGETHER], *types[TOGETHER];
    int64_t length[TOGETHER], room[TOGETHER], total = 0;
    const int64_t rest = (int64_t)t->x.count - (t->end - t->begin);
    for (int64_t i = 0; i < count; i++) {
        room[i] = t->end - from[i] < t->room ? t->end - from[i] : t->room;
        total += length[i] = rest + room[i];
        FV_TRY(make_window(a, t, from[i], room[i], &ids[i], &types[i]));
    }
    const fv_sequences rows = {.count = count, .tokens = ids, .length = length, .types = types};
    const fv_batch batch = fv_batch_of_tokens(&rows);
    fv_tensor *out =
        fv_model_kind_of(e->model)->find_spans(ctx, fv_model_self(e->model), &batch, NULL);
    float *logits = fv_arena_array(&e->tokens, (size_t)total, 2 * sizeof *logits);
    FV_RETURN_IF(!logits, ctx, FV_ERR_MEMORY, "no memory for %lld numbers", (long long)total);
    out = fv_cast(ctx, out, FV_F32);
    FV_TRY(fv_tensor_read(ctx, out, logits, 2 * (size_t)total * sizeof *logits));
    for (int64_t i = 0; i < count; logits += 2 * length[i++]) {
        window w = {.logits = logits,
                    .begin = t->begin,
                    .end = t->begin + room[i],
                    .from = from[i],
                    .has_none = t->begin > 0 && t->x.special_tokens_mask[0]};
        take_answers(a, question, t, &w);
    }
    return FV_OK;
}

static fv_status read_context(fv_answerer *a, int64_t question, const tokens *t)
{
    const int64_t half = t->room / 2, step = t->room - (half < OVERLAP ? half : OVERLAP);
    int64_t from[TOGETHER], count = 0, at = t->begin;
    for (bool last = false; !last; at += step) {
        last = at + t->room >= t->end;
        from[count++] = at;
        if (!last && count < TOGETHER) continue;
        fv_scope_begin(a->base.ctx);
        fv_no_grad_begin(a->base.ctx);
        const fv_status status = read_windows(a, question, t, count, from);
        fv_no_grad_end(a->base.ctx);
        fv_scope_end(a->base.ctx);
        if (status != FV_OK) return status;
        count = 0;
    }
    return FV_OK;
}

static fv_status answer(fv_answerer *a, int64_t question, const fv_question *q)
{
    fv_text_encoder *e = &a->base;
    tokens t;
    FV_TRY(encode(a, question, q, &t));
    const int64_t all = (t.end - t.begin) * MAX_ANSWER, most = a->best < all ? a->best : all;
    a->rows = fv_text_encoder_grow(e, a->rows, a->found.count, &a->capacity, most, sizeof *a->rows);
    if (!a->rows) return FV_ERR_MEMORY;
    a->first = a->found.count;
    a->none[question] = 1;
    FV_TRY(read_context(a, question, &t));
    for (int64_t i = a->first; i < a->found.count; i++) {
        fv_answer *row = &a->rows[i];
        const char *text = q->context.text;
        while (row->begin < row->end && text[row->begin] == ' ') /* some tokens include it */
            row->begin++;
        row->text = fv_arena_text(&e->results, text + row->begin, row->end - row->begin);
        FV_RETURN_IF(!row->text, e->ctx, FV_ERR_MEMORY, "no memory for an answer");
    }
    return FV_OK;
}

fv_status fv_answer_questions(fv_answerer *answerer, int64_t count, const fv_question *questions,
                              int64_t best, const fv_answers **out)
{
    fv_text_encoder *e = &answerer->base;
    fv_ctx *ctx = e->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(count < 1 || !questions, ctx, FV_ERR_ARGUMENT,
                 "no questions: their number is %lld", (long long)count);
    FV_RETURN_IF(best < 1, ctx, FV_ERR_ARGUMENT, "answer: the best %lld answers", (long long)best);
    fv_arena_free(&e->results);
    answerer->best = best;
    answerer->rows = NULL;
    answerer->capacity = 0;
    answerer->found = (fv_answers){0};
    answerer->none = fv_arena_array(&e->results, (size_t)count, sizeof *answerer->none);
    FV_RETURN_IF(!answerer->none, ctx, FV_ERR_MEMORY, "no memory for %lld questions",
                 (long long)count);
    fv_status status = FV_OK;
    for (int64_t i = 0; i < count && status == FV_OK; i++) {
        status = answer(answerer, i, &questions[i]);
        fv_arena_free(&e->tokens);
    }
    if (status != FV_OK) return status;
    answerer->found.row = answerer->rows;
    answerer->found.none = answerer->none;
    *out = &answerer->found;
    return FV_OK;
}
