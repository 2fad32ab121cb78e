/* The tokenizer of a text task, loaded or learned, and its classes. */
#include <string.h>

#include "io/file.h"
#include "train/tasks/text.h"

/* ---- the tokenizer -------------------------------------------------------------------- */

typedef struct learning {
    fv_tokenizer_trainer *trainer;
    bool any;
} learning;

static fv_status learn_from(void *user, const fv_text_item *item)
{
    learning *l = user;
    l->any = l->any || item->text.bytes > 0;
    FV_TRY(fv_tokenizer_trainer_add(l->trainer, item->text.text, item->text.bytes));
    if (!item->second.text) return FV_OK;
    return fv_tokenizer_trainer_add(l->trainer, item->second.text, item->second.bytes);
}

static fv_status learn(fv_text_task *run, const fv_special_tokens *specials)
{
    learning l = {0};
    const int kind = fv_recipe_choice(run->recipe, "tokens.kind");
    FV_TRY(fv_tokenizer_trainer_from(run->ctx, run->recipe, kind, specials, &l.trainer));
    fv_status status = fv_text_each(run, FV_TEXT_TRAIN, learn_from, &l);
    if (status == FV_OK && !l.any)
        status = fv_fail(run->ctx, FV_ERR_FORMAT, "%.150s: no text, expected training text",
                         fv_text_train_file(run));
    if (status == FV_OK) status = fv_tokenizer_trainer_finish(l.trainer, &run->tokenizer);
    fv_tokenizer_trainer_destroy(&l.trainer);
    return status;
}

fv_status fv_text_find_tokenizer(fv_text_task *run, const fv_special_tokens *specials)
{
    char path[FV_PATH_BYTES];
    const char *first = fv_recipe_text(run->recipe, "train.init_from");
    FV_TRY(fv_path_join(run->ctx, path, run->folder, "tokenizer.json"));
    if (fv_file_exists(run->ctx, path)) return fv_tokenizer_load(run->ctx, path, &run->tokenizer);
    return *first ? fv_tokenizer_load(run->ctx, first, &run->tokenizer) : learn(run, specials);
}

fv_status fv_text_tokenizer(fv_text_task *run)
{
    static const fv_special_tokens writer = {.specials = {FV_TEXT_END, "<unk>"}},
                                   reader = {
                                       .specials = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"},
                                       .begin = "[CLS]",
                                       .end = "[SEP]"};
    FV_TRY(fv_text_find_tokenizer(run, run->goal == FV_TEXT_LANGUAGE ? &writer : &reader));
    if (run->goal == FV_TEXT_LANGUAGE) return FV_OK;
    const struct {
        const char *name;
        int64_t *id;
    } marks[] = {{"[CLS]", &run->cls}, {"[SEP]", &run->sep}, {"[MASK]", &run->mask}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        *marks[i].id =
            fv_tokenizer_token_to_id(run->tokenizer, marks[i].name, strlen(marks[i].name));
        FV_RETURN_IF(*marks[i].id < 0, run->ctx, FV_ERR_ARGUMENT,
                     "tokenizer.json: token %s is missing; masked and classify need it",
                     marks[i].name);
    }
    return FV_OK;
}

/* ---- classes -------------------------------------------------------------------------- */

static fv_status learn_label(void *user, const fv_text_item *item)
{
    fv_text_task *run = user;
    int32_t id;
    return fv_vocab_add(&run->labels, item->label.text, item->label.bytes, &id);
}

fv_status fv_text_learn_labels(fv_text_task *run)
{
    FV_TRY(fv_text_each(run, FV_TEXT_TRAIN, learn_label, run));
    const size_t count = run->labels.size;
    FV_RETURN_IF(count < 2, run->ctx, FV_ERR_FORMAT, "%.150s: %zu classes, expected at least two",
                 fv_text_train_file(run), count);
    run->label_names = fv_mem_alloc(&run->ctx->mem, count * sizeof *run->label_names);
    FV_RETURN_IF(!run->label_names, run->ctx, FV_ERR_MEMORY, "no memory for %zu classes", count);
    for (size_t i = 0; i < count; i++)
        run->label_names[i] = run->labels.tokens[i].text;
    return FV_OK;
}
