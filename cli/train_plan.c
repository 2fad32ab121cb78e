/*
 * The number of parameters that a recipe for a user's file gives: tokenizers are learned from its
 * rows as training will do it, and the model is made in a set without memory.
 */
#include <string.h>

#include "fovea/model.h"
#include "fovea/tokenizer.h"
#include "input.h"
#include "output.h"
#include "train_new.h"

/* Enough text to fill every vocabulary that --new proposes. */
#define MOST_BYTES (8.0 * 1024 * 1024)

typedef struct learning {
    const new_data *data;
    fv_tokenizer_trainer *side[2]; /* the second one: targets */
    double bytes;
    fv_status status;
} learning;

static fv_status make_trainer(fv_ctx *ctx, const fv_recipe *recipe, new_task task,
                              fv_tokenizer_trainer **out)
{
    static const char *const writer[] = {"<|endoftext|>", "<unk>", NULL}, *const reader[] = {
                                                                              "[PAD]",  "[UNK]",
                                                                              "[CLS]",  "[SEP]",
                                                                              "[MASK]", NULL};
    const bool chars = strcmp(fv_recipe_text(recipe, "tokens.kind"), "char") == 0;
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg,
                                     chars ? FV_TOKENIZER_CHARS : FV_TOKENIZER_BPE_BYTES);
    cfg.vocabulary = (size_t)fv_recipe_int(recipe, "tokens.vocabulary");
    cfg.min_count = (uint64_t)fv_recipe_int(recipe, "tokens.min_count");
    cfg.lowercase = fv_recipe_bool(recipe, "tokens.lowercase");
    cfg.normalize = strcmp(fv_recipe_text(recipe, "tokens.normalize"), "none") != 0;
    if (task == NEW_LANGUAGE) memcpy(cfg.specials, writer, sizeof writer);
    if (task == NEW_CLASSIFY || task == NEW_PAIRS) memcpy(cfg.specials, reader, sizeof reader);
    return fv_tokenizer_trainer_create(ctx, &cfg, out);
}

/* A cli_new_row_fn. */
static bool learn_row(void *user, const fv_string use[3], bool held_out)
{
    learning *l = user;
    const bool labelled = l->data->task == NEW_CLASSIFY || l->data->task == NEW_PAIRS;
    const int texts = l->data->column_count - (labelled ? 1 : 0);
    for (int i = 0; i < texts && !held_out && l->status == FV_OK; i++) {
        fv_tokenizer_trainer *trainer = l->side[l->side[1] ? i : 0];
        l->bytes += (double)use[i].bytes;
        l->status = fv_tokenizer_trainer_add(trainer, use[i].text, use[i].bytes);
    }
    return l->status == FV_OK && l->bytes < MOST_BYTES;
}

static fv_status learn(new_data *data, const fv_recipe *recipe, fv_data_spec *spec)
{
    learning l = {.data = data};
    fv_tokenizer **const made[] = {&spec->source, &spec->target};
    const int sides = data->task == NEW_TRANSLATION ? 2 : 1;
    for (int i = 0; i < sides && l.status == FV_OK; i++)
        l.status = make_trainer(data->ctx, recipe, data->task, &l.side[i]);
    /* A plain text is one stream, with its line breaks. */
    if (l.status == FV_OK && data->info->format == FV_TABLE_TEXT)
        l.status = fv_tokenizer_trainer_add(l.side[0], "\n", 1);
    if (l.status == FV_OK && cli_new_each_row(data, learn_row, &l) != CLI_DONE)
        l.status = FV_ERR_IO;
    for (int i = 0; i < sides; i++) {
        if (l.status == FV_OK) l.status = fv_tokenizer_trainer_finish(l.side[i], made[i]);
        fv_tokenizer_trainer_destroy(&l.side[i]);
    }
    return l.status;
}

static fv_status count(fv_ctx *ctx, const fv_recipe *recipe, const fv_data_spec *spec,
                       double *parameters)
{
    const fv_model_kind *kind =
        fv_model_kind_find(ctx, cli_is_transformer(recipe) ? "transformer" : "recurrent");
    fv_params *params = NULL;
    void *self = NULL;
    fv_status status = fv_params_create_plan(ctx, &params);
    if (status == FV_OK) status = kind->create(params, recipe, spec, &self);
    if (status == FV_OK) *parameters = (double)fv_params_elements(params);
    if (self) kind->destroy(self);
    fv_params_destroy(&params);
    return status;
}

fv_status cli_new_plan(new_data *data, const fv_recipe *recipe, cli_plan *out)
{
    static const fv_ability abilities[] = {FV_CAN_GENERATE, FV_CAN_TRANSLATE, FV_CAN_CLASSIFY,
                                           FV_CAN_CLASSIFY, FV_CAN_GENERATE};
    fv_data_spec spec = {.ability = abilities[data->task], .label_count = data->classes};
    fv_status status = learn(data, recipe, &spec);
    if (status == FV_OK) status = count(data->ctx, recipe, &spec, &out->parameters);
    if (status == FV_OK) {
        const fv_tokenizer *target = spec.target ? spec.target : spec.source;
        out->source_tokens = (double)fv_tokenizer_vocab_size(spec.source);
        out->target_tokens = (double)fv_tokenizer_vocab_size(target);
    }
    fv_tokenizer_destroy(&spec.source);
    fv_tokenizer_destroy(&spec.target);
    return status;
}
