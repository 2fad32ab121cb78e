/* A run on plain text: from a recipe to a folder with a trained Transformer. */
#include <string.h>

#include "fovea/model.h"
#include "train/begin.h"
#include "train/folder.h"
#include "train/text.h"

static const fv_key keys[] = {
    {"train.task", FV_KEY_CHOICE, "translation", 0, 0, "translation|language|masked|classify",
     "what is learnt: pairs of texts, the next token, hidden words, or classes of texts"},
    {"train.init_from", FV_KEY_PATH, "", 0, 0, NULL,
     "a model's folder to begin from: its tokenizer, and its weights where name and shape fit"},
    {"train.next_sentence", FV_KEY_BOOL, "false", 0, 0, NULL,
     "masked: learn too whether one text goes on with another"},
    {"data.train_text", FV_KEY_PATH, "", 0, 0, NULL, "language, masked: the text to learn"},
    {"data.train_text2", FV_KEY_PATH, "", 0, 0, NULL, "language, masked: more of it"},
    {"data.train_text3", FV_KEY_PATH, "", 0, 0, NULL, "language, masked: still more"},
    {"data.valid_text", FV_KEY_PATH, "", 0, 0, NULL, "language, masked: held out to judge by"},
    {"data.train_csv", FV_KEY_PATH, "", 0, 0, NULL,
     "classify, masked: a table of texts, with a first line of names"},
    {"data.valid_csv", FV_KEY_PATH, "", 0, 0, NULL, "classify, masked: held out to judge by"},
    {"data.text_column", FV_KEY_TEXT, "text", 0, 0, NULL, "classify, masked: where a text stands"},
    {"data.label_column", FV_KEY_TEXT, "label", 0, 0, NULL, "classify: where its class stands"},
    {"data.valid_share", FV_KEY_REAL, "0.1", 0, 0.9, NULL,
     "not translation: without a file to judge by, this share of the text"},
    {"data.documents", FV_KEY_CHOICE, "stream", 0, 0, "stream|lines|paragraphs",
     "language, masked: one long text, or texts that do not see each other"},
    {"data.length", FV_KEY_INT, "0", 0, 1e7, NULL,
     "not translation: tokens of an example; 0: as many as the model reads"},
};

fv_key_table fv_text_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- making ----------------------------------------------------------------------------- */

/* What the task asks of the model. */
static fv_status fit_decoder(const fv_text_run *run, fv_transformer_config *cfg)
{
    FV_RETURN_IF(cfg->decoder_layers < 1 || cfg->encoder_layers > 0, run->ctx, FV_ERR_ARGUMENT,
                 "train.task is language: transformer.family must be one with a decoder alone, "
                 "gpt2 or llama, not %s",
                 fv_family_name(cfg->family));
    cfg->start = cfg->end = fv_tokenizer_id(run->tokenizer, FV_TEXT_END, sizeof FV_TEXT_END - 1);
    cfg->pad = -1;
    return FV_OK;
}

static fv_status fit_encoder(fv_text_run *run, fv_transformer_config *cfg)
{
    const bool masked = run->task == FV_TASK_MASKED;
    FV_RETURN_IF(cfg->family != FV_FAMILY_BERT || cfg->decoder_layers > 0, run->ctx,
                 FV_ERR_ARGUMENT, "train.task is %s: transformer.family must be bert, not %s",
                 masked ? "masked" : "classify", fv_family_name(cfg->family));
    run->next_sentence = masked && fv_recipe_bool(run->recipe, "train.next_sentence");
    cfg->words = cfg->logits_bias = masked;
    cfg->next_sentence = run->next_sentence;
    cfg->pooler = !masked || run->next_sentence;
    cfg->label_dropout = cfg->dropout;
    cfg->pad = fv_tokenizer_id(run->tokenizer, "[PAD]", 5);
    if (masked) return FV_OK;
    FV_FORWARD(fv_text_learn_labels(run));
    cfg->labels = (int64_t)run->labels.size;
    cfg->label_names = run->label_names;
    return FV_OK;
}

/* How long examples are: an encoder's hold [CLS] and [SEP], and a second [SEP] between texts. */
static fv_status size_window(fv_text_run *run)
{
    const int64_t most = fv_transformer_settings(run->model)->most_positions,
                  asked = fv_recipe_int(run->recipe, "data.length"),
                  marks = run->task == FV_TASK_LANGUAGE ? 0 : 2 + run->next_sentence;
    FV_RETURN_IF(most > 0 && asked > most, run->ctx, FV_ERR_ARGUMENT,
                 "data.length is %lld, more than the model's %lld positions", (long long)asked,
                 (long long)most);
    run->window = asked > 0 ? asked : most;
    run->piece = run->window - marks;
    FV_RETURN_IF(run->piece < 1 + (marks > 0), run->ctx, FV_ERR_ARGUMENT,
                 "data.length is %lld, too short for a text and its marks", (long long)run->window);
    return FV_OK;
}

static fv_status make_model(fv_text_run *run)
{
    fv_transformer_config cfg;
    fv_transformer_config_from(run->recipe, &cfg);
    FV_FORWARD(run->task == FV_TASK_LANGUAGE ? fit_decoder(run, &cfg) : fit_encoder(run, &cfg));
    cfg.vocabulary = (int64_t)fv_tokenizer_size(run->tokenizer);
    FV_FORWARD(fv_params_create(run->ctx, &run->params));
    FV_FORWARD(fv_transformer_create(run->params, &cfg, &run->model));
    return size_window(run);
}

static void size_batches(fv_text_run *run)
{
    run->stream =
        run->task == FV_TASK_LANGUAGE && fv_recipe_choice(run->recipe, "data.documents") == 0;
    const int64_t asked = fv_recipe_int(run->recipe, "train.batch_examples"),
                  tokens = fv_recipe_int(run->recipe, "train.batch_tokens");
    run->examples = asked > 0 ? asked : tokens > run->window ? tokens / run->window : 1;
}

static fv_status build(fv_text_run *run)
{
    fv_ctx *ctx = run->ctx;
    FV_RETURN_IF(!fv_text_has(run, FV_TEXT_TRAIN), ctx, FV_ERR_ARGUMENT, "the recipe must name %s",
                 run->task == FV_TASK_CLASSIFY ? "data.train_csv" : "data.train_text");
    FV_FORWARD(fv_step_parts_create(ctx, run->recipe, &run->parts));
    FV_FORWARD(fv_text_tokenizer(run));
    FV_FORWARD(make_model(run));
    FV_FORWARD(fv_begin_from(run->ctx, run->folder, fv_recipe_text(run->recipe, "train.init_from"),
                             run->params, &run->taken));
    size_batches(run);
    return fv_text_read(run);
}

fv_status fv_text_run_create(fv_ctx *ctx, fv_recipe *recipe, const char *folder,
                             fv_train_observer observe, void *user, fv_text_run **out)
{
    fv_text_run *run = fv_mem_zalloc(&ctx->mem, sizeof *run);
    FV_RETURN_IF(!run, ctx, FV_ERR_MEMORY, "no memory for a training run");
    run->ctx = ctx;
    run->recipe = recipe;
    run->folder = folder;
    run->task = (fv_train_task)fv_recipe_choice(recipe, "train.task");
    fv_vocab_init(&run->labels, ctx);
    run->train = fv_step_settings(recipe, folder, observe, user);
    run->train.lower_is_better = run->task != FV_TASK_CLASSIFY;
    const fv_status status = build(run);
    if (status == FV_OK)
        *out = run;
    else
        fv_text_run_destroy(&run);
    return status;
}

static void free_part(fv_mem *mem, fv_text_part *p)
{
    fv_batches_destroy(&p->order);
    if (p->tokens) fv_mem_free(mem, p->tokens, p->token_room * sizeof *p->tokens);
    if (p->pieces) fv_mem_free(mem, p->pieces, p->piece_room * sizeof *p->pieces);
}

static void free_made(fv_text_run *run)
{
    fv_mem *mem = &run->ctx->mem;
    if (run->label_names)
        fv_mem_free(mem, run->label_names, run->labels.size * sizeof *run->label_names);
    fv_vocab_free(&run->labels);
    if (run->cells) fv_mem_free(mem, run->cells, run->cell_room * sizeof *run->cells);
    if (run->types) fv_mem_free(mem, run->types, run->type_room * sizeof *run->types);
    if (run->wanted) fv_mem_free(mem, run->wanted, run->wanted_room * sizeof *run->wanted);
    if (run->label) fv_mem_free(mem, run->label, run->label_room * sizeof *run->label);
}

void fv_text_run_destroy(fv_text_run **run_ptr)
{
    fv_text_run *run = *run_ptr;
    if (!run) return;
    fv_mem *mem = &run->ctx->mem;
    for (int part = 0; part < FV_TEXT_PARTS; part++)
        free_part(mem, &run->part[part]);
    fv_transformer_destroy(&run->model);
    fv_params_destroy(&run->params);
    fv_tokenizer_destroy(&run->tokenizer);
    free_made(run);
    if (run->tokens) fv_mem_free(mem, run->tokens, run->example_room * sizeof *run->tokens);
    if (run->length) fv_mem_free(mem, run->length, run->length_room * sizeof *run->length);
    fv_step_parts_free(run->ctx, &run->parts);
    fv_mem_free(mem, run, sizeof *run);
    *run_ptr = NULL;
}

/* ---- using ------------------------------------------------------------------------------ */

static fv_status save(const void *run, const char *folder)
{
    return fv_text_run_save_settings(run, folder);
}

fv_status fv_text_run_train(fv_text_run *run)
{
    const fv_folder_run in_folder = {.params = run->params,
                                     .task = fv_text_task(run),
                                     .train = &run->train,
                                     .recipe = run->recipe,
                                     .save_settings = save,
                                     .model = run};
    return fv_folder_train(run->ctx, &in_folder);
}

fv_transformer *fv_text_run_model(const fv_text_run *run) { return run->model; }

fv_status fv_text_run_save_settings(const fv_text_run *run, const char *folder)
{
    FV_FORWARD(fv_transformer_save_settings(run->model, folder));
    return fv_tokenizer_save_folder(run->ctx, run->tokenizer, folder);
}

int64_t fv_text_run_tokens(const fv_text_run *run, int part)
{
    return part >= 0 && part < FV_TEXT_PARTS ? run->part[part].count : 0;
}

fv_taken fv_text_run_taken(const fv_text_run *run) { return run->taken; }
