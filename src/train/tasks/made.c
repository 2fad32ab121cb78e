#include "train/tasks/made.h"

#include <string.h>

#include "base/ctx.h"

/* Rows of a step are allocated at once: of 10 KB each, this many are 160 GB. */
enum { MOST_ROWS = 1 << 24 };

static void read_recipe(fv_made_task *t, const fv_made_defaults *defaults)
{
    static const char *const names[FV_MADE_PARTS] = {"data.train_count", "data.valid_count",
                                                     "data.test_count"};
    const int64_t batch = fv_recipe_int(t->recipe, "train.batch_examples");
    t->batch = batch > 0 ? batch : defaults->batch;
    for (int i = 0; i < FV_MADE_PARTS; i++) {
        const int64_t asked = fv_recipe_int(t->recipe, names[i]);
        t->count[i] = asked > 0 ? asked : i == FV_MADE_TRAIN ? defaults->train : defaults->held_out;
    }
}

/* Examples of similar length come together, so that few steps are padding. */
static fv_status make_order(fv_made_task *t, const fv_made_defaults *defaults)
{
    const int64_t n = t->count[FV_MADE_TRAIN];
    const size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *length = fv_mem_alloc(&t->ctx->mem, bytes);
    FV_RETURN_IF(!length, t->ctx, FV_ERR_MEMORY, "no memory for %lld examples", (long long)n);
    for (int64_t i = 0; i < n; i++)
        length[i] = defaults->length ? defaults->length(i) : defaults->longest;
    fv_batches_config cfg;
    fv_batches_config_init(&cfg, sizeof cfg);
    cfg.examples = t->batch;
    cfg.tokens = t->batch * defaults->longest;
    cfg.seed = (uint64_t)fv_recipe_int(t->recipe, "train.seed");
    const fv_status status = fv_batches_create(t->ctx, n, length, &cfg, &t->order);
    fv_mem_free(&t->ctx->mem, length, bytes);
    return status;
}

fv_status fv_made_open(fv_made_task *t, const fv_task_config *cfg, const fv_made_defaults *defaults)
{
    *t = (fv_made_task){.ctx = cfg->ctx, .recipe = cfg->recipe};
    read_recipe(t, defaults);
    FV_TRY(fv_step_parts_create(t->ctx, t->recipe, &t->parts));
    FV_RETURN_IF(t->batch > MOST_ROWS / t->parts.count, t->ctx, FV_ERR_ARGUMENT,
                 "train.batch_examples is %lld, expected at most %lld with train.accumulate %lld",
                 (long long)t->batch, (long long)(MOST_ROWS / t->parts.count),
                 (long long)t->parts.count);
    return make_order(t, defaults);
}

void fv_made_close(fv_made_task *t)
{
    fv_batches_destroy(&t->order);
    fv_step_parts_free(t->ctx, &t->parts);
}

fv_status fv_made_tokenizer(fv_ctx *ctx, const char *(*word)(int), fv_tokenizer **out)
{
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_WORDS);
    FV_TRY(fv_tokenizer_trainer_create(ctx, &cfg, &trainer));
    fv_status status = FV_OK;
    const char *text;
    for (int i = 0; status == FV_OK && (text = word(i)); i++)
        status = fv_tokenizer_trainer_add(trainer, text, strlen(text));
    if (status == FV_OK) status = fv_tokenizer_trainer_finish(trainer, out);
    fv_tokenizer_trainer_destroy(&trainer);
    return status;
}

fv_status fv_made_check_kind(const fv_made_task *t, const fv_model *model, const char *task,
                             const char *kind)
{
    const char *name = fv_model_kind_of(model)->name;
    FV_RETURN_IF(strcmp(name, kind) != 0, t->ctx, FV_ERR_ARGUMENT,
                 "train.task is %s: expected model.kind = \"%s\", got \"%s\"", task, kind, name);
    return FV_OK;
}

fv_status fv_made_begin(fv_made_task *t, int64_t *rows, void (*add)(void *self, int64_t number),
                        fv_step_plan *plan)
{
    *rows = 0;
    for (int64_t part = 0; part < t->parts.count; part++) {
        fv_picked picked;
        FV_TRY(fv_batches_next(t->order, &picked));
        for (int64_t i = 0; i < picked.count; i++)
            add(t, picked.example[i]);
        t->parts.first[part + 1] = *rows;
        plan->epoch = (double)picked.epoch + (double)(picked.index + 1) / (double)picked.batches;
    }
    plan->parts = t->parts.count;
    plan->first_row = t->parts.first;
    return FV_OK;
}

void fv_made_get_position(void *self, int64_t position[FV_TASK_POSITION])
{
    const fv_made_task *t = self;
    fv_batches_place(t->order, &position[0], &position[1]);
}

fv_status fv_made_set_position(void *self, const int64_t position[FV_TASK_POSITION])
{
    const fv_made_task *t = self;
    return fv_batches_seek(t->order, position[0], position[1]);
}

fv_made_part fv_made_held_out(const fv_recipe *recipe)
{
    return strcmp(fv_recipe_text(recipe, "eval.part"), "test") == 0 ? FV_MADE_TEST : FV_MADE_VALID;
}
