/* The translation task: keys and data. */
#include "train/tasks/translation.h"

#include <stdio.h>
#include <string.h>

#include "train/tasks/tasks.h"

static const fv_key keys[] = {
    {"data.made", FV_KEY_CHOICE, "none", 0, 0, "none",
     "generated data, in place of files; classify needs sentences or entailment"},
    {"data.train_pairs", FV_KEY_INT, "20000", 1, 1e9, NULL, "generated examples for training"},
    {"data.valid_pairs", FV_KEY_INT, "500", 1, 1e9, NULL, "generated examples for validation"},
    {"data.train_source", FV_KEY_PATH, "", 0, 0, NULL, "source texts for training, one per line"},
    {"data.train_target", FV_KEY_PATH, "", 0, 0, NULL, "target texts for training"},
    {"data.valid_source", FV_KEY_PATH, "", 0, 0, NULL, "source texts for validation"},
    {"data.valid_target", FV_KEY_PATH, "", 0, 0, NULL, "target texts for validation"},
    {"data.max_tokens", FV_KEY_INT, "100", 0, 1e9, NULL,
     "leave out training pairs with more tokens on a side; 0: keep all"},
    {"data.skip_invalid", FV_KEY_BOOL, "false", 0, 0, NULL, "leave out lines that are not UTF-8"},
    {"tokens.kind", FV_KEY_CHOICE, "bpe", 0, 0, "char|word|bpe|bytes|metaspace|wordpiece",
     "kind of tokenizer"},
    {"tokens.target_kind", FV_KEY_CHOICE, "same", 0, 0,
     "same|char|word|bpe|bytes|metaspace|wordpiece", "kind of tokenizer of the target side"},
    {"tokens.vocabulary", FV_KEY_INT, "8000", 8, 1e7, NULL, "maximum vocabulary size of a side"},
    {"tokens.min_count", FV_KEY_INT, "2", 1, 1e9, NULL, "minimum count of a word or pair"},
    {"tokens.joint", FV_KEY_BOOL, "false", 0, 0, NULL, "one vocabulary for both sides"},
    {"tokens.lowercase", FV_KEY_BOOL, "false", 0, 0, NULL, "lower-case all texts"},
    {"tokens.normalize", FV_KEY_CHOICE, "nfc", 0, 0, "none|nfc|nfkc", "Unicode normal form"},
    {"train.batch_tokens", FV_KEY_INT, "4000", 1, 1e9, NULL,
     "tokens per batch, source and target together"},
    {"train.batch_examples", FV_KEY_INT, "0", 0, 1e9, NULL, "maximum examples per batch; 0: any"},
    {"train.accumulate", FV_KEY_INT, "1", 1, 1e6, NULL, "batches per update"},
    {"eval.metric", FV_KEY_CHOICE, "bleu", 0, 0, "loss|bleu|exact",
     "metric that selects the best weights"},
    {"eval.max_texts", FV_KEY_INT, "0", 0, 1e9, NULL,
     "number of validation texts, the first ones; 0: all"},
    {"eval.beam", FV_KEY_INT, "1", 1, 1000, NULL, "beam size"},
    {"eval.max_tokens", FV_KEY_INT, "0", 0, 1e6, NULL,
     "maximum tokens of a translation; 0: twice the source's length plus ten"},
    {"eval.lowercase", FV_KEY_BOOL, "false", 0, 0, NULL, "lower-cased BLEU"},
};

static fv_key_table translation_keys(void)
{
    return (fv_key_table){keys, sizeof keys / sizeof *keys};
}

const char *fv_translation_file(const fv_translation_task *run, int part, bool source)
{
    static const char *const names[FV_PARTS][2] = {{"data.train_source", "data.train_target"},
                                                   {"data.valid_source", "data.valid_target"}};
    return fv_recipe_text(run->recipe, names[part][source ? 0 : 1]);
}

/* ---- data ---------------------------------------------------------------------------- */

int64_t fv_translation_made_count(const fv_translation_task *run, int part)
{
    return fv_recipe_int(run->recipe,
                         part == FV_PART_TRAIN ? "data.train_pairs" : "data.valid_pairs");
}

void fv_translation_made_pair(const fv_translation_task *run, int part, int64_t i, fv_drawn *out)
{
    const uint64_t seed = (uint64_t)fv_recipe_int(run->recipe, "train.seed");
    run->made->example(run->made, seed, (uint64_t)i, part == FV_PART_VALID, out);
}

static fv_status add_made(fv_translation_task *run, int part)
{
    for (int64_t i = 0; i < fv_translation_made_count(run, part); i++) {
        fv_drawn pair;
        fv_translation_made_pair(run, part, i, &pair);
        FV_TRY(fv_parallel_add(run->pairs[part], (fv_string){pair.source, strlen(pair.source)},
                               (fv_string){pair.target, strlen(pair.target)}));
        run->report[part].pairs++;
    }
    return FV_OK;
}

static fv_status read_files(fv_translation_task *run, int part)
{
    fv_parallel_config cfg;
    fv_parallel_config_init(&cfg, sizeof cfg);
    cfg.skip_invalid = fv_recipe_bool(run->recipe, "data.skip_invalid");
    cfg.keep_empty = part == FV_PART_VALID;
    if (part == FV_PART_TRAIN) cfg.max_tokens = fv_recipe_int(run->recipe, "data.max_tokens");
    return fv_parallel_read(run->pairs[part], fv_translation_file(run, part, true),
                            fv_translation_file(run, part, false), &cfg, &run->report[part]);
}

static fv_status read_part(fv_translation_task *run, fv_model *model, int part)
{
    fv_ctx *ctx = run->ctx;
    FV_TRY(fv_parallel_create(model, &run->pairs[part]));
    FV_TRY(run->made ? add_made(run, part) : read_files(run, part));
    const fv_parallel_report *r = &run->report[part];
    FV_RETURN_IF(fv_parallel_count(run->pairs[part]) == 0, ctx, FV_ERR_FORMAT,
                 "%.120s: no pair left for %s: %lld are empty, %lld too long, %lld not UTF-8",
                 run->made ? "data.made" : fv_translation_file(run, part, true),
                 part == FV_PART_TRAIN ? "training" : "validation", (long long)r->empty,
                 (long long)r->too_long, (long long)r->invalid);
    return FV_OK;
}

static int64_t tokens_of(const void *pairs, int64_t i) { return fv_parallel_tokens(pairs, i); }

static fv_status prepare(void *self, fv_model *model)
{
    fv_translation_task *run = self;
    const bool valid = run->made || *fv_translation_file(run, FV_PART_VALID, true);
    for (int part = FV_PART_TRAIN; part < (valid ? FV_PARTS : FV_PART_VALID); part++) {
        FV_TRY(read_part(run, model, part));
        const fv_parallel *pairs = run->pairs[part];
        FV_TRY(fv_step_order(run->ctx, run->recipe, fv_parallel_count(pairs), tokens_of, pairs,
                             part == FV_PART_TRAIN, &run->order[part]));
    }
    return FV_OK;
}

/* ---- making -------------------------------------------------------------------------- */

static fv_status check_files(const fv_translation_task *run)
{
    if (run->made) return FV_OK;
    static const char *const parts[] = {"train", "valid"};
    for (int part = 0; part < FV_PARTS; part++) {
        const bool source = *fv_translation_file(run, part, true) != '\0';
        const bool target = *fv_translation_file(run, part, false) != '\0';
        FV_RETURN_IF(source != target || (part == FV_PART_TRAIN && !source), run->ctx,
                     FV_ERR_ARGUMENT,
                     "expected both data.%s_source and data.%s_target (or data.made)", parts[part],
                     parts[part]);
    }
    return FV_OK;
}

static void close_task(void *self)
{
    fv_translation_task *run = self;
    fv_mem *mem = &run->ctx->mem;
    for (int part = 0; part < FV_PARTS; part++) {
        fv_batches_destroy(&run->order[part]);
        fv_parallel_destroy(&run->pairs[part]);
    }
    if (run->example) fv_mem_free(mem, run->example, run->example_room * sizeof *run->example);
    fv_step_parts_free(run->ctx, &run->parts);
    fv_mem_free(mem, run, sizeof *run);
}

static fv_status find_data(fv_translation_task *run, fv_data_spec *spec)
{
    FV_TRY(check_files(run));
    FV_TRY(fv_step_parts_create(run->ctx, run->recipe, &run->parts));
    return fv_translation_tokenizers(run, &spec->source, &spec->target);
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    fv_translation_task *run = fv_mem_zalloc(&cfg->ctx->mem, sizeof *run);
    FV_RETURN_IF(!run, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    run->ctx = cfg->ctx;
    run->recipe = cfg->recipe;
    run->folder = cfg->folder;
    run->made = fv_generated_set_find(fv_recipe_text(cfg->recipe, "data.made"));
    spec->ability = FV_CAN_TRANSLATE;
    return fv_task_opened(find_data(run, spec), close_task, run, self);
}

/* "200 pairs for training; left out: 1 empty, 0 too long, 2 not UTF-8; 20 pairs for validation" */
static const char *report(void *self)
{
    static const char *const parts[] = {"training", "validation"};
    fv_translation_task *run = self;
    size_t used = 0;
    run->text[0] = '\0';
    for (int part = 0; part < FV_PARTS; part++) {
        const fv_parallel_report *r = &run->report[part];
        if (r->pairs == 0) continue;
        used += (size_t)snprintf(run->text + used, sizeof run->text - used, "%s%lld pairs for %s",
                                 used ? "; " : "", (long long)r->pairs, parts[part]);
        if (r->empty + r->too_long + r->invalid > 0)
            used += (size_t)snprintf(run->text + used, sizeof run->text - used,
                                     " (left out: %lld empty, %lld too long, %lld not UTF-8)",
                                     (long long)r->empty, (long long)r->too_long,
                                     (long long)r->invalid);
    }
    return run->text;
}

const fv_task_kind fv_task_translation = {
    .struct_size = sizeof fv_task_translation,
    .name = "translation",
    .summary = "translate the lines of one file into those of another",
    .model = "recurrent",
    .keys = translation_keys,
    .open = open_task,
    .prepare = prepare,
    .close = close_task,
    .report = report,
    .begin = fv_translation_begin,
    .batch = fv_translation_batch,
    .evaluate = fv_translation_evaluate,
    .show = fv_translation_show,
    .get_position = fv_translation_get_position,
    .set_position = fv_translation_set_position,
};
