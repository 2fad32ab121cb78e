/* The tasks over plain text: language, masked, classify. */
#include <stdio.h>

#include "train/tasks/tasks.h"
#include "train/tasks/text.h"

static const fv_key keys[] = {
    {"train.next_sentence", FV_KEY_BOOL, "false", 0, 0, NULL,
     "masked: also learn whether two texts follow each other"},
    {"data.train_text", FV_KEY_PATH, "", 0, 0, NULL, "training text"},
    {"data.train_text2", FV_KEY_PATH, "", 0, 0, NULL, "more training text"},
    {"data.train_text3", FV_KEY_PATH, "", 0, 0, NULL, "more training text"},
    {"data.valid_text", FV_KEY_PATH, "", 0, 0, NULL, "validation text"},
    {"data.test_text", FV_KEY_PATH, "", 0, 0, NULL,
     "text that fovea eval reads in place of the validation text"},
    {"data.train_csv", FV_KEY_PATH, "", 0, 0, NULL,
     "classify, masked: training CSV (.tsv: separated by tabs) with a header line"},
    {"data.valid_csv", FV_KEY_PATH, "", 0, 0, NULL, "classify, masked: validation CSV or TSV"},
    {"data.text_column", FV_KEY_TEXT, "text", 0, 0, NULL, "classify, masked: column of the text"},
    {"data.second_column", FV_KEY_TEXT, "", 0, 0, NULL,
     "classify: column of a second text; the class is that of the pair"},
    {"data.label_column", FV_KEY_TEXT, "label", 0, 0, NULL, "classify: column of the class"},
    {"data.valid_share", FV_KEY_REAL, "0.1", 0, 0.9, NULL,
     "not translation: share held out for validation if there is no validation file"},
    {"data.documents", FV_KEY_CHOICE, "stream", 0, 0, "stream|lines|paragraphs",
     "one long text, or one document per line or paragraph"},
    {"data.length", FV_KEY_INT, "0", 0, 1e7, NULL,
     "not translation: tokens per example; 0: the model's context"},
};

static fv_key_table text_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

static fv_key_table no_keys(void) { return (fv_key_table){NULL, 0}; }

/* ---- opening -------------------------------------------------------------------------------- */

static void free_part(fv_mem *mem, fv_text_part *p)
{
    fv_batches_destroy(&p->order);
    if (p->tokens) fv_mem_free(mem, p->tokens, p->token_room * sizeof *p->tokens);
    if (p->pieces) fv_mem_free(mem, p->pieces, p->piece_room * sizeof *p->pieces);
}

static void free_examples(fv_text_task *run)
{
    fv_mem *mem = &run->ctx->mem;
    if (run->cells) fv_mem_free(mem, run->cells, run->cell_room * sizeof *run->cells);
    if (run->types) fv_mem_free(mem, run->types, run->type_room * sizeof *run->types);
    if (run->targets) fv_mem_free(mem, run->targets, run->target_room * sizeof *run->targets);
    if (run->label) fv_mem_free(mem, run->label, run->label_room * sizeof *run->label);
    if (run->label_row)
        fv_mem_free(mem, run->label_row, run->label_row_room * sizeof *run->label_row);
    if (run->tokens) fv_mem_free(mem, run->tokens, run->example_room * sizeof *run->tokens);
    if (run->length) fv_mem_free(mem, run->length, run->length_room * sizeof *run->length);
}

void fv_text_task_free(fv_text_task *run)
{
    fv_mem *mem = &run->ctx->mem;
    for (int part = 0; part < FV_TEXT_PARTS; part++)
        free_part(mem, &run->part[part]);
    if (run->label_names)
        fv_mem_free(mem, run->label_names, run->labels.size * sizeof *run->label_names);
    fv_vocab_free(&run->labels);
    free_examples(run);
    fv_step_parts_free(run->ctx, &run->parts);
}

static void close_task(void *self)
{
    fv_text_task *run = self;
    fv_text_task_free(run);
    fv_mem_free(&run->ctx->mem, run, sizeof *run);
}

static fv_status find_texts(fv_text_task *run, fv_data_spec *spec)
{
    FV_RETURN_IF(!fv_text_has(run, FV_TEXT_TRAIN), run->ctx, FV_ERR_ARGUMENT,
                 "%s is missing, expected a file (or data.made)",
                 run->goal == FV_TEXT_CLASSIFY ? "data.train_csv" : "data.train_text");
    FV_RETURN_IF(run->goal == FV_TEXT_CLASSIFY && run->made && !run->made->has_labels, run->ctx,
                 FV_ERR_ARGUMENT, "data.made: %s have no classes, expected sentences or entailment",
                 run->made->name);
    FV_RETURN_IF(run->goal != FV_TEXT_CLASSIFY &&
                     *fv_recipe_text(run->recipe, "data.second_column"),
                 run->ctx, FV_ERR_ARGUMENT, "data.second_column: only classify reads pairs");
    FV_TRY(fv_step_parts_create(run->ctx, run->recipe, &run->parts));
    const fv_status status = fv_text_tokenizer(run);
    spec->source = spec->target = run->tokenizer;
    FV_TRY(status);
    run->next_sentence =
        run->goal == FV_TEXT_MASKED && fv_recipe_bool(run->recipe, "train.next_sentence");
    if (run->next_sentence) fv_data_spec_set(spec, "next_sentence", 1);
    if (run->pairs) fv_data_spec_set(spec, "text_pairs", 1);
    if (run->goal != FV_TEXT_CLASSIFY) return FV_OK;
    FV_TRY(fv_text_learn_labels(run));
    spec->labels = run->label_names;
    spec->label_count = (int64_t)run->labels.size;
    return FV_OK;
}

void fv_text_task_init(fv_text_task *run, const fv_task_config *cfg, fv_text_goal goal)
{
    run->ctx = cfg->ctx;
    run->recipe = cfg->recipe;
    run->folder = cfg->folder;
    run->goal = goal;
    run->made = fv_generated_set_find(fv_recipe_text(cfg->recipe, "data.made"));
    if (goal == FV_TEXT_CLASSIFY)
        run->pairs = run->made ? run->made->has_pairs
                               : *fv_recipe_text(cfg->recipe, "data.second_column") != '\0';
    fv_vocab_init(&run->labels, cfg->ctx);
}

static fv_status open_task(const fv_task_config *cfg, fv_text_goal goal, fv_data_spec *spec,
                           void **self)
{
    static const fv_ability abilities[] = {FV_CAN_GENERATE, FV_CAN_FILL, FV_CAN_CLASSIFY};
    fv_text_task *run = fv_mem_zalloc(&cfg->ctx->mem, sizeof *run);
    FV_RETURN_IF(!run, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    fv_text_task_init(run, cfg, goal);
    spec->ability = abilities[goal];
    return fv_task_opened(find_texts(run, spec), close_task, run, self);
}

static fv_status open_language(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    return open_task(cfg, FV_TEXT_LANGUAGE, spec, self);
}

static fv_status open_masked(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    return open_task(cfg, FV_TEXT_MASKED, spec, self);
}

static fv_status open_classify(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    return open_task(cfg, FV_TEXT_CLASSIFY, spec, self);
}

/* ---- preparing ------------------------------------------------------------------------------ */

/* How long examples are: an encoder's hold [CLS] and [SEP], and a second [SEP] between texts. */
static fv_status size_window(fv_text_task *run, const fv_model *model)
{
    const fv_model_kind *kind = fv_model_kind_of(model);
    const int64_t most = kind->max_length ? kind->max_length(fv_model_self(model)) : 0,
                  asked = fv_recipe_int(run->recipe, "data.length"),
                  marks =
                      run->goal == FV_TEXT_LANGUAGE ? 0 : 2 + (run->next_sentence || run->pairs);
    FV_RETURN_IF(most > 0 && asked > most, run->ctx, FV_ERR_ARGUMENT,
                 "data.length is %lld, expected at most the model's %lld positions",
                 (long long)asked, (long long)most);
    run->window = asked > 0 ? asked : most;
    run->piece = run->window - marks;
    FV_RETURN_IF(run->piece < 1 + (marks > 0), run->ctx, FV_ERR_ARGUMENT,
                 "data.length is %lld, too short for a text and its special tokens",
                 (long long)run->window);
    return FV_OK;
}

static void size_batches(fv_text_task *run)
{
    run->stream = run->goal == FV_TEXT_LANGUAGE &&
                  fv_recipe_choice(run->recipe, "data.documents") == FV_TEXT_STREAM;
    const int64_t asked = fv_recipe_int(run->recipe, "train.batch_examples"),
                  tokens = fv_recipe_int(run->recipe, "train.batch_tokens");
    const bool several = run->window > 0 && tokens > run->window;
    run->examples = asked > 0 ? asked : several ? tokens / run->window : 1;
}

static fv_status prepare(void *self, fv_model *model)
{
    fv_text_task *run = self;
    FV_TRY(size_window(run, model));
    size_batches(run);
    return fv_text_read(run);
}

const char *fv_text_report(void *self)
{
    fv_text_task *run = self;
    snprintf(run->report, sizeof run->report, "%lld tokens for training, %lld for validation",
             (long long)run->part[FV_TEXT_TRAIN].count, (long long)run->part[FV_TEXT_VALID].count);
    return run->report;
}

/* ---- the kinds ------------------------------------------------------------------------------ */

#define TEXT_TASK(word, line, table, opener, metrics, samples)                                     \
    {                                                                                              \
        .struct_size = sizeof(fv_task_kind), .name = word, .summary = line,                        \
        .model = "transformer", .keys = table, .open = opener, .prepare = prepare,                 \
        .close = close_task, .report = fv_text_report, .begin = fv_text_begin,                     \
        .batch = fv_text_step_batch, .evaluate = metrics, .show = samples,                         \
        .get_position = fv_text_get_position, .set_position = fv_text_set_position                 \
    }

const fv_task_kind fv_task_language =
    TEXT_TASK("language", "predict the next token of a text", text_keys, open_language,
              fv_text_evaluate, fv_text_show_continuations);
const fv_task_kind fv_task_masked = TEXT_TASK("masked", "predict masked tokens, as BERT does",
                                              no_keys, open_masked, fv_text_evaluate_encoder, NULL);
const fv_task_kind fv_task_classify =
    TEXT_TASK("classify", "classify texts", no_keys, open_classify, fv_text_evaluate_encoder,
              fv_text_show_classes);
