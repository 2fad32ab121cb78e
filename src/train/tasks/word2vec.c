/*
 * The task word2vec: vectors of words from plain text. A step trains on the next
 * train.batch_tokens words of the text; the kernel does it in place (kernels/word2vec.h), so the
 * task makes the update itself. What a step does depends on its number alone.
 *
 *     keep(w)     = sqrt(t / f) + t / f,    f the share of word w in the text, t word2vec.sample
 *     negative(w) ~ count(w)^0.75
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "fovea/ops.h"
#include "fovea/words.h"
#include "kernels/word2vec.h"
#include "models/word2vec.h"
#include "tensor/launch.h"
#include "text/codepoints.h"
#include "train/tasks/tasks.h"
#include "train/tasks/text.h"
#include "train/tasks/word2vec.h"

/* Random sites that no op uses. */
#define WORDS_SITE    0x776f726473u
#define HELD_OUT_SITE 0x68656c64u

enum { LOSS_EVERY = 8 };

typedef struct word2vec_task {
    fv_text_task text; /* first */
    fv_word2vec_args args;
    fv_tensor *words[FV_TEXT_PARTS]; /* i64, on the device */
    fv_tensor *keep, *share, *alias;
    int64_t unknown; /* -1: none */
    uint64_t seed;
    int64_t step_words, steps; /* steps: of an epoch */
} word2vec_task;

static const fv_key keys[] = {
    {"word2vec.mode", FV_KEY_CHOICE, "skipgram", 0, 0, "skipgram|cbow",
     "predict a word from each neighbour, or from the mean of its neighbours"},
    {"word2vec.window", FV_KEY_INT, "5", 1, FV_WORD2VEC_MAX_WINDOW, NULL,
     "largest distance of a neighbour; each word's own is drawn from 1 to this"},
    {"word2vec.negatives", FV_KEY_INT, "5", 1, FV_WORD2VEC_MAX_NEGATIVES, NULL,
     "words drawn at random that are not to be predicted"},
    {"word2vec.sample", FV_KEY_REAL, "0.001", 0, 1, NULL,
     "words with a larger share of the text than this are left out at random; 0: none"},
    {"word2vec.power", FV_KEY_REAL, "0.75", 0, 2, NULL,
     "negatives are drawn in proportion to a word's count to this power"},
    {"word2vec.letters", FV_KEY_BOOL, "false", 0, 0, NULL,
     "punctuation separates words and is left out; an apostrophe within a word stays"},
    {"word2vec.blocks", FV_KEY_INT, "8", 1, FV_WORD2VEC_MAX_BLOCKS, NULL,
     "parts of the text trained side by side, at most as many threads have work; changes results"},
    {"word2vec.block_words", FV_KEY_INT, "64", 1, FV_WORD2VEC_MAX_BLOCK, NULL,
     "words of a block between two exchanges with the others; changes results"},
};

static fv_key_table word2vec_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- opening -------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    word2vec_task *run = self;
    for (int part = 0; part < FV_TEXT_PARTS; part++)
        fv_tensor_unref(run->words[part]);
    fv_tensor_unref(run->keep);
    fv_tensor_unref(run->share);
    fv_tensor_unref(run->alias);
    fv_text_task_free(&run->text);
    fv_mem_free(&run->text.ctx->mem, run, sizeof *run);
}

static fv_status find_text(word2vec_task *run, fv_data_spec *spec)
{
    static const fv_special_tokens marks = {.specials = {"<unk>"}};
    fv_text_task *text = &run->text;
    FV_RETURN_IF(!fv_text_has(text, FV_TEXT_TRAIN), text->ctx, FV_ERR_ARGUMENT,
                 "data.train_text is missing, expected a file (or data.made)");
    const fv_status status = fv_text_find_tokenizer(text, &marks);
    spec->source = spec->target = text->tokenizer;
    return status;
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    const fv_recipe *recipe = cfg->recipe;
    word2vec_task *run = fv_mem_zalloc(&cfg->ctx->mem, sizeof *run);
    FV_RETURN_IF(!run, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    fv_text_task_init(&run->text, cfg, FV_TEXT_LANGUAGE);
    run->text.letters_only = fv_recipe_bool(recipe, "word2vec.letters");
    run->seed = (uint64_t)fv_recipe_int(recipe, "train.seed");
    run->args = (fv_word2vec_args){.window = fv_recipe_int(recipe, "word2vec.window"),
                                   .negatives = fv_recipe_int(recipe, "word2vec.negatives"),
                                   .blocks = fv_recipe_int(recipe, "word2vec.blocks"),
                                   .block_words = fv_recipe_int(recipe, "word2vec.block_words"),
                                   .cbow = fv_recipe_choice(recipe, "word2vec.mode") == 1};
    spec->ability = FV_CAN_RELATE;
    return fv_task_opened(find_text(run, spec), close_task, run, self);
}

/* ---- the text ------------------------------------------------------------------------------- */

typedef struct reader {
    word2vec_task *run;
    fv_text_part *part;
    fv_tokenizer_encoder *encoder;
    int64_t words;
} reader;

/* Appends the known words of a text and the end of a sentence. */
static fv_status add_text(void *user, const fv_text_item *item)
{
    reader *r = user;
    fv_ctx *ctx = r->run->text.ctx;
    fv_text_part *p = r->part;
    fv_encoding e = {.struct_size = sizeof e};
    FV_RETURN_IF(fv_cancelled(ctx), ctx, FV_ERR_CANCELLED, "cancelled while reading");
    FV_TRY(fv_tokenizer_encode(r->encoder, item->text.text, item->text.bytes, 0, &e));
    const size_t need = (size_t)p->count + e.count + 1;
    int64_t *grown = fv_mem_grow(&ctx->mem, p->tokens, &p->token_room, need, sizeof *grown);
    FV_RETURN_IF(!grown, ctx, FV_ERR_MEMORY, "no memory for %zu words", need);
    p->tokens = grown;
    const int64_t before = p->count;
    for (size_t i = 0; i < e.count; i++)
        if (e.ids[i] != r->run->unknown) p->tokens[p->count++] = e.ids[i];
    r->words += p->count - before;
    if (p->count > before) p->tokens[p->count++] = -1;
    return FV_OK;
}

static fv_status read_part(word2vec_task *run, int part, int64_t *words)
{
    reader r = {.run = run, .part = &run->text.part[part]};
    FV_TRY(fv_tokenizer_encoder_create(run->text.ctx, run->text.tokenizer, &r.encoder));
    const fv_status status = fv_text_each(&run->text, part, add_text, &r);
    fv_tokenizer_encoder_destroy(&r.encoder);
    *words = r.words;
    return status;
}

/* A tensor of host values that the task keeps. */
static fv_tensor *keep_tensor(fv_ctx *ctx, fv_dtype dtype, int64_t count, const void *values)
{
    fv_tensor *t = fv_tensor_new(ctx, dtype, 1, &count);
    if (ctx->error == FV_OK &&
        fv_tensor_write(ctx, t, values, (size_t)count * fv_dtype_size(dtype)))
        return NULL;
    fv_tensor_ref(t);
    return t;
}

/* ---- tables --------------------------------------------------------------------------------- */

double fv_word2vec_keep(double sample, double share)
{
    if (!(sample > 0) || !(share > 0)) return 1;
    const double ratio = sample / share, keep = sqrt(ratio) + ratio;
    return keep < 1 ? keep : 1;
}

/* Vose's method: every place holds its own word and at most one other. */
void fv_word2vec_alias(int64_t words, double *weight, int64_t *stack, float *share, int64_t *alias)
{
    double total = 0;
    int64_t low = 0, high = words; /* stack[0 .. low): below 1; stack[high .. words): the others */
    for (int64_t i = 0; i < words; i++)
        total += weight[i];
    for (int64_t i = 0; i < words; i++) {
        weight[i] *= (double)words / total;
        stack[weight[i] < 1 ? low++ : --high] = i;
    }
    while (low > 0 && high < words) {
        const int64_t poor = stack[--low], rich = stack[high];
        share[poor] = (float)weight[poor];
        alias[poor] = rich;
        weight[rich] -= 1 - weight[poor];
        if (weight[rich] >= 1) continue;
        high++;
        stack[low++] = rich;
    }
    while (low > 0 || high < words) { /* 1 but for rounding */
        const int64_t i = low > 0 ? stack[--low] : stack[high++];
        share[i] = 1;
        alias[i] = i;
    }
}

typedef struct tables {
    double *weight;
    int64_t *stack, *alias;
    float *keep, *share;
} tables;

static void fill_tables(const word2vec_task *run, int64_t words, tables *t)
{
    const fv_text_part *p = &run->text.part[FV_TEXT_TRAIN];
    const double sample = fv_recipe_real(run->text.recipe, "word2vec.sample"),
                 power = fv_recipe_real(run->text.recipe, "word2vec.power");
    int64_t total = 0;
    for (int64_t i = 0; i < p->count; i++)
        if (p->tokens[i] >= 0) {
            t->stack[p->tokens[i]]++;
            total++;
        }
    for (int64_t w = 0; w < words; w++) {
        const double count = (double)t->stack[w];
        t->keep[w] = (float)fv_word2vec_keep(sample, count / (double)total);
        t->weight[w] = count > 0 ? pow(count, power) : 0;
    }
    fv_word2vec_alias(words, t->weight, t->stack, t->share, t->alias);
}

static fv_status make_tables(word2vec_task *run, int64_t words)
{
    fv_ctx *ctx = run->text.ctx;
    const size_t bytes = (size_t)words * (sizeof(double) + 2 * sizeof(int64_t) + 2 * sizeof(float));
    char *memory = fv_mem_zalloc(&ctx->mem, bytes);
    FV_RETURN_IF(!memory, ctx, FV_ERR_MEMORY, "no memory for the tables of %lld words",
                 (long long)words);
    tables t = {.weight = (double *)(void *)memory};
    t.stack = (int64_t *)(t.weight + words);
    t.alias = t.stack + words;
    t.keep = (float *)(t.alias + words);
    t.share = t.keep + words;
    fill_tables(run, words, &t);
    run->keep = keep_tensor(ctx, FV_F32, words, t.keep);
    run->share = keep_tensor(ctx, FV_F32, words, t.share);
    run->alias = keep_tensor(ctx, FV_I64, words, t.alias);
    fv_mem_free(&ctx->mem, memory, bytes);
    return run->keep && run->share && run->alias ? ctx->error : fv_ctx_error(ctx);
}

/* ---- preparing ------------------------------------------------------------------------------ */

/* Without a validation file the last sentences of the text, as many as make the share. */
static fv_status split(word2vec_task *run)
{
    fv_text_part *a = &run->text.part[FV_TEXT_TRAIN], *b = &run->text.part[FV_TEXT_VALID];
    const double share = fv_recipe_real(run->text.recipe, "data.valid_share");
    int64_t from = a->count - (int64_t)((double)a->count * share);
    while (from < a->count && from > 0 && a->tokens[from - 1] >= 0)
        from++;
    const size_t count = (size_t)(a->count - from);
    b->tokens = fv_mem_grow(&run->text.ctx->mem, NULL, &b->token_room, count + 1, sizeof(int64_t));
    FV_RETURN_IF(!b->tokens, run->text.ctx, FV_ERR_MEMORY, "no memory for %zu words", count);
    memcpy(b->tokens, a->tokens + from, count * sizeof *b->tokens);
    b->count = (int64_t)count;
    a->count = from;
    return FV_OK;
}

static int64_t count_words(const fv_text_part *p, int64_t first, int64_t count)
{
    int64_t words = 0;
    for (int64_t i = first; i < first + count; i++)
        words += p->tokens[i] >= 0;
    return words;
}

static fv_status read_text(word2vec_task *run)
{
    int64_t words = 0;
    fv_text_part *part = run->text.part;
    FV_TRY(read_part(run, FV_TEXT_TRAIN, &words));
    if (fv_text_has(&run->text, FV_TEXT_VALID))
        FV_TRY(read_part(run, FV_TEXT_VALID, &words));
    else
        FV_TRY(split(run));
    FV_RETURN_IF(count_words(&part[FV_TEXT_TRAIN], 0, part[FV_TEXT_TRAIN].count) < 2, run->text.ctx,
                 FV_ERR_FORMAT, "%.150s: fewer than two known words for training",
                 fv_text_train_file(&run->text));
    for (int p = 0; p < FV_TEXT_PARTS; p++)
        if (part[p].count > 0) {
            run->words[p] = keep_tensor(run->text.ctx, FV_I64, part[p].count, part[p].tokens);
            if (!run->words[p]) return fv_ctx_error(run->text.ctx);
        }
    return run->text.ctx->error;
}

static fv_status prepare(void *self, fv_model *model)
{
    word2vec_task *run = self;
    FV_RETURN_IF(fv_model_kind_of(model) != &fv_kind_word2vec, run->text.ctx, FV_ERR_ARGUMENT,
                 "model.kind: task word2vec trains models of kind word2vec");
    const fv_tensor *inputs = ((const fv_word2vec *)fv_model_self(model))->inputs;
    run->unknown = fv_tokenizer_token_to_id(run->text.tokenizer, "<unk>", 5);
    FV_TRY(read_text(run));
    FV_TRY(make_tables(run, inputs->shape[0]));
    run->args.vocabulary = inputs->shape[0];
    run->args.width = inputs->shape[1];
    run->step_words = fv_recipe_int(run->text.recipe, "train.batch_tokens");
    run->steps = (run->text.part[FV_TEXT_TRAIN].count + run->step_words - 1) / run->step_words;
    return FV_OK;
}

static const char *report(void *self)
{
    word2vec_task *run = self;
    const fv_text_part *p = run->text.part;
    snprintf(run->text.report, sizeof run->text.report,
             "%lld words of text for training, %lld for validation",
             (long long)count_words(&p[0], 0, p[0].count),
             (long long)count_words(&p[1], 0, p[1].count));
    return run->text.report;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Plain updates keep no state; the schedule is the recipe's. */
static void optimizer(void *self, int phase, fv_optim_config *optim, fv_schedule *schedule)
{
    (void)self;
    (void)phase;
    (void)schedule;
    const char *group = optim->group;
    fv_optim_config_init(optim, sizeof *optim, FV_OPTIM_SGD);
    optim->group = group;
}

/* The range of the text that a step trains on. */
static void range_of(const word2vec_task *run, uint64_t step, fv_word2vec_args *args)
{
    const int64_t count = run->text.part[FV_TEXT_TRAIN].count;
    args->first = (int64_t)(step % (uint64_t)run->steps) * run->step_words;
    args->count = args->first + run->step_words < count ? run->step_words : count - args->first;
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    const word2vec_task *run = self;
    fv_word2vec_args args;
    (void)model;
    (void)phase;
    range_of(run, step, &args);
    const int64_t words = count_words(&run->text.part[FV_TEXT_TRAIN], args.first, args.count);
    plan->tokens = words > 0 ? (double)words : 1;
    plan->epoch = (double)(step + 1) / (double)run->steps;
    return FV_OK;
}

/* Runs the kernel over a range of a part; [loss, contexts]. */
static fv_tensor *launch(fv_ctx *ctx, const word2vec_task *run, fv_model *model, int part,
                         fv_word2vec_args args)
{
    const fv_word2vec *m = fv_model_self(model);
    fv_tensor *result = fv_zeros(ctx, FV_F64, 1, (int64_t[]){2});
    if (ctx->error != FV_OK) return ctx->invalid;
    args.words = run->text.part[part].count;
    void *ptr[] = {m->inputs->data, m->outputs->data, result->data,    run->words[part]->data,
                   run->keep->data, run->share->data, run->alias->data};
    fv_launch(ctx, FV_KERNEL_WORD2VEC, m->inputs->dtype, ptr, &args, sizeof args);
    m->inputs->buffer->version++;
    m->outputs->buffer->version++;
    return result;
}

/* The mean loss of a context, times the words of the step. */
static fv_tensor *update(fv_ctx *ctx, void *self, fv_model *model, uint64_t step, int phase,
                         double lr)
{
    word2vec_task *run = self;
    fv_word2vec_args args = run->args;
    (void)phase;
    range_of(run, step, &args);
    args.lr = lr;
    args.loss_every = LOSS_EVERY;
    args.key = fv_rng_key(run->seed, step / (uint64_t)run->steps, WORDS_SITE);
    const int64_t words = count_words(&run->text.part[FV_TEXT_TRAIN], args.first, args.count);
    fv_tensor *sums = launch(ctx, run, model, FV_TEXT_TRAIN, args);
    fv_tensor *count = fv_maximum(ctx, fv_slice(ctx, sums, 0, 1, 2, 1), fv_scalar(ctx, FV_F64, 1));
    return fv_scale(ctx, fv_div(ctx, fv_slice(ctx, sums, 0, 0, 1, 1), count), (double)words);
}

/* The same draws at every evaluation. */
static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    word2vec_task *run = self;
    fv_ctx *ctx = run->text.ctx;
    fv_word2vec_args args = run->args;
    double sums[2];
    if (!run->words[FV_TEXT_VALID]) return FV_OK;
    args.count = run->text.part[FV_TEXT_VALID].count;
    args.loss_every = 1;
    args.key = fv_rng_key(run->seed, 0, HELD_OUT_SITE);
    FV_TRY(fv_tensor_read(ctx, launch(ctx, run, model, FV_TEXT_VALID, args), sums, sizeof sums));
    if (sums[1] > 0) fv_metric_add(metrics, count, "loss", sums[0] / sums[1], false);
    return FV_OK;
}

static fv_status append_text(const word2vec_task *run, fv_text *out, const char *text)
{
    return fv_text_append(run->text.ctx, out, text, strlen(text));
}

/* Neighbours of some of the most frequent words. */
static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    enum { NEAR = 6, APART = 20 };
    const word2vec_task *run = self;
    for (int i = 0; i < count && (int64_t)(i + 1) * APART < fv_words_count(model); i++) {
        const int64_t id = fv_words_first(model) + (int64_t)(i + 1) * APART;
        const fv_words_query query = {.plus = &id, .plus_count = 1};
        fv_word_match near[NEAR];
        int found = 0;
        FV_TRY(fv_words_nearest(model, &query, NEAR, near, &found));
        FV_TRY(append_text(run, out, fv_words_text(model, id)));
        for (int k = 0; k < found; k++) {
            FV_TRY(append_text(run, out, k ? " " : ": "));
            FV_TRY(append_text(run, out, near[k].word));
        }
        FV_TRY(append_text(run, out, "\n"));
    }
    return FV_OK;
}

const fv_task_kind fv_task_word2vec = {
    .struct_size = sizeof fv_task_word2vec,
    .name = "word2vec",
    .summary = "learn vectors of words from their neighbours",
    .model = "word2vec",
    .keys = word2vec_keys,
    .open = open_task,
    .prepare = prepare,
    .close = close_task,
    .report = report,
    .optimizer = optimizer,
    .begin = begin,
    .update = update,
    .evaluate = evaluate,
    .show = show,
};
