/* A translation run: from a recipe and its data to a folder with a trained translator. */
#include "train/translation.h"

#include <string.h>

#include "train/begin.h"
#include "train/folder.h"

static const fv_key keys[] = {
    {"data.made", FV_KEY_CHOICE, "none", 0, 0, "none|dates", "data that needs no files"},
    {"data.train_pairs", FV_KEY_INT, "20000", 1, 1e9, NULL, "pairs of made data to train with"},
    {"data.valid_pairs", FV_KEY_INT, "500", 1, 1e9, NULL, "and to judge by"},
    {"data.train_source", FV_KEY_PATH, "", 0, 0, NULL, "texts to translate, one a line"},
    {"data.train_target", FV_KEY_PATH, "", 0, 0, NULL, "their translations"},
    {"data.valid_source", FV_KEY_PATH, "", 0, 0, NULL, "texts held out to judge by"},
    {"data.valid_target", FV_KEY_PATH, "", 0, 0, NULL, "their translations"},
    {"data.most_tokens", FV_KEY_INT, "100", 0, 1e9, NULL,
     "training pairs with a longer side are left out; 0: none"},
    {"data.skip_invalid", FV_KEY_BOOL, "false", 0, 0, NULL, "leave out lines that are not UTF-8"},
    {"model.kind", FV_KEY_CHOICE, "recurrent", 0, 0, "recurrent|transformer",
     "which family: the keys of [model] or those of [transformer] count"},
    {"tokens.kind", FV_KEY_CHOICE, "bpe", 0, 0, "char|word|bpe|bytes|metaspace|wordpiece",
     "how texts are cut into tokens"},
    {"tokens.vocabulary", FV_KEY_INT, "8000", 8, 1e7, NULL, "most tokens of a side"},
    {"tokens.min_count", FV_KEY_INT, "2", 1, 1e9, NULL, "rarer words or pairs get no token"},
    {"tokens.joint", FV_KEY_BOOL, "false", 0, 0, NULL, "one vocabulary for both sides"},
    {"tokens.lowercase", FV_KEY_BOOL, "false", 0, 0, NULL, "put texts in lower case"},
    {"tokens.normalize", FV_KEY_CHOICE, "nfc", 0, 0, "none|nfc|nfkc", "Unicode normal form"},
    {"train.batch_tokens", FV_KEY_INT, "4000", 1, 1e9, NULL,
     "tokens of a batch, source and target together"},
    {"train.batch_examples", FV_KEY_INT, "0", 0, 1e9, NULL, "most pairs in a batch; 0: any"},
    {"train.accumulate", FV_KEY_INT, "1", 1, 1e6, NULL, "batches of one update"},
    {"train.sampling", FV_KEY_REAL, "0", 0, 1, NULL,
     "share of steps fed the model's own last token"},
    {"train.seed", FV_KEY_INT, "1", 0, 1e15, NULL, "of weights, order and dropout"},
    {"eval.metric", FV_KEY_CHOICE, "bleu", 0, 0, "loss|bleu|exact",
     "what chooses the best weights"},
    {"eval.most", FV_KEY_INT, "0", 0, 1e9, NULL,
     "held-out texts to translate or judge by, the first ones; 0: all"},
    {"eval.beam", FV_KEY_INT, "1", 1, 1000, NULL, "prefixes kept in the search"},
    {"eval.lowercase", FV_KEY_BOOL, "false", 0, 0, NULL, "score in lower case"},
};

fv_key_table fv_translation_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

const char *fv_translation_file(const fv_translation_run *run, int part, bool source)
{
    static const char *const names[FV_PARTS][2] = {{"data.train_source", "data.train_target"},
                                                   {"data.valid_source", "data.valid_target"}};
    return fv_recipe_text(run->recipe, names[part][source ? 0 : 1]);
}

/* ---- data ---------------------------------------------------------------------------- */

bool fv_translation_is_made(const fv_translation_run *run)
{
    return fv_recipe_choice(run->recipe, "data.made") > 0;
}

int64_t fv_translation_made_count(const fv_translation_run *run, int part)
{
    return fv_recipe_int(run->recipe,
                         part == FV_PART_TRAIN ? "data.train_pairs" : "data.valid_pairs");
}

/* Validation pairs are of training dates: the test dates stay unseen until the end. */
void fv_translation_made_pair(const fv_translation_run *run, int part, int64_t i, fv_date_pair *out)
{
    const uint64_t seed = (uint64_t)fv_recipe_int(run->recipe, "train.seed");
    fv_date_pair_make(2 * seed + (uint64_t)part, (uint64_t)i, FV_DATES_TRAIN, out);
}

static fv_status add_made(fv_translation_run *run, int part)
{
    for (int64_t i = 0; i < fv_translation_made_count(run, part); i++) {
        fv_date_pair pair;
        fv_translation_made_pair(run, part, i, &pair);
        FV_FORWARD(fv_parallel_add(run->pairs[part],
                                   (fv_string){pair.written, strlen(pair.written)},
                                   (fv_string){pair.iso, strlen(pair.iso)}));
        run->report[part].pairs++;
    }
    return FV_OK;
}

static fv_status read_files(fv_translation_run *run, int part)
{
    fv_parallel_config cfg;
    fv_parallel_config_init(&cfg, sizeof cfg);
    cfg.skip_invalid = fv_recipe_bool(run->recipe, "data.skip_invalid");
    cfg.keep_empty = part == FV_PART_VALID;
    if (part == FV_PART_TRAIN) cfg.most_tokens = fv_recipe_int(run->recipe, "data.most_tokens");
    return fv_parallel_read(run->pairs[part], fv_translation_file(run, part, true),
                            fv_translation_file(run, part, false), &cfg, &run->report[part]);
}

static fv_status read_part(fv_translation_run *run, int part)
{
    fv_ctx *ctx = run->ctx;
    FV_FORWARD(fv_parallel_create(run->translator, &run->pairs[part]));
    FV_FORWARD(fv_translation_is_made(run) ? add_made(run, part) : read_files(run, part));
    const fv_parallel_report *r = &run->report[part];
    FV_RETURN_IF(
        fv_parallel_count(run->pairs[part]) == 0, ctx, FV_ERR_FORMAT,
        "%.120s: no pair is left to %s with: %lld are empty, %lld too long, %lld not UTF-8",
        fv_translation_is_made(run) ? "data.made" : fv_translation_file(run, part, true),
        part == FV_PART_TRAIN ? "train" : "judge", (long long)r->empty, (long long)r->too_long,
        (long long)r->invalid);
    return FV_OK;
}

static int64_t tokens_of(const void *pairs, int64_t i) { return fv_parallel_tokens(pairs, i); }

static fv_status read_data(fv_translation_run *run)
{
    const bool valid =
        fv_translation_is_made(run) || *fv_translation_file(run, FV_PART_VALID, true);
    for (int part = FV_PART_TRAIN; part < (valid ? FV_PARTS : FV_PART_VALID); part++) {
        FV_FORWARD(read_part(run, part));
        const fv_parallel *pairs = run->pairs[part];
        FV_FORWARD(fv_step_order(run->ctx, run->recipe, fv_parallel_count(pairs), tokens_of, pairs,
                                 part == FV_PART_TRAIN, &run->order[part]));
    }
    return FV_OK;
}

/* ---- making -------------------------------------------------------------------------- */

static fv_status check_files(const fv_translation_run *run)
{
    if (fv_translation_is_made(run)) return FV_OK;
    static const char *const parts[] = {"train", "valid"};
    for (int part = 0; part < FV_PARTS; part++) {
        const bool source = *fv_translation_file(run, part, true) != '\0';
        const bool target = *fv_translation_file(run, part, false) != '\0';
        FV_RETURN_IF(source != target || (part == FV_PART_TRAIN && !source), run->ctx,
                     FV_ERR_ARGUMENT, "the recipe must name both data.%s_source and data.%s_target",
                     parts[part], parts[part]);
    }
    return FV_OK;
}

static fv_status make_translator(fv_translation_run *run)
{
    fv_tokenizer *source = NULL, *target = NULL;
    FV_FORWARD(fv_translation_tokenizers(run, &source, &target));
    if (fv_recipe_choice(run->recipe, "model.kind") == 1) {
        fv_transformer_config cfg;
        fv_transformer_config_from(run->recipe, &cfg);
        return fv_translator_create_transformer(run->ctx, &cfg, source, target, &run->translator);
    }
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    fv_seq2seq_config_from(run->recipe, &cfg);
    return fv_translator_create(run->ctx, &cfg, source, target, &run->translator);
}

static fv_status build(fv_translation_run *run)
{
    fv_ctx *ctx = run->ctx;
    FV_RETURN_IF(run->train.compute != FV_F32 && fv_recipe_choice(run->recipe, "model.kind") != 1,
                 ctx, FV_ERR_ARGUMENT,
                 "train.compute_dtype is bf16: recurrent models train in f32 only");
    FV_RETURN_IF(run->train.recompute && fv_recipe_choice(run->recipe, "model.kind") != 1, ctx,
                 FV_ERR_ARGUMENT, "train.recompute: recurrent models have no blocks to forget");
    FV_FORWARD(check_files(run));
    FV_FORWARD(fv_step_parts_create(ctx, run->recipe, &run->parts));
    FV_FORWARD(make_translator(run));
    FV_FORWARD(fv_begin_from(ctx, run->folder, fv_recipe_text(run->recipe, "train.init_from"),
                             fv_translator_params(run->translator), &run->taken));
    return read_data(run);
}

fv_status fv_translation_run_create(fv_ctx *ctx, fv_recipe *recipe, const char *folder,
                                    fv_train_observer observe, void *user, fv_translation_run **out)
{
    fv_translation_run *run = fv_mem_zalloc(&ctx->mem, sizeof *run);
    FV_RETURN_IF(!run, ctx, FV_ERR_MEMORY, "no memory for a training run");
    run->ctx = ctx;
    run->recipe = recipe;
    run->folder = folder;
    run->train = fv_step_settings(recipe, folder, observe, user);
    run->train.lower_is_better = fv_recipe_choice(recipe, "eval.metric") == 0;
    const fv_status status = build(run);
    if (status == FV_OK)
        *out = run;
    else
        fv_translation_run_destroy(&run);
    return status;
}

void fv_translation_run_destroy(fv_translation_run **run_ptr)
{
    fv_translation_run *run = *run_ptr;
    if (!run) return;
    fv_mem *mem = &run->ctx->mem;
    for (int part = 0; part < FV_PARTS; part++) {
        fv_batches_destroy(&run->order[part]);
        fv_parallel_destroy(&run->pairs[part]);
    }
    fv_translator_destroy(&run->translator);
    if (run->example) fv_mem_free(mem, run->example, run->example_room * sizeof *run->example);
    fv_step_parts_free(run->ctx, &run->parts);
    fv_mem_free(mem, run, sizeof *run);
    *run_ptr = NULL;
}

static fv_status save(const void *run, const char *folder)
{
    return fv_translator_save_settings(((const fv_translation_run *)run)->translator, folder);
}

fv_status fv_translation_run_train(fv_translation_run *run)
{
    const fv_folder_run in_folder = {.params = fv_translator_params(run->translator),
                                     .task = fv_translation_task(run),
                                     .train = &run->train,
                                     .recipe = run->recipe,
                                     .save_settings = save,
                                     .model = run};
    return fv_folder_train(run->ctx, &in_folder);
}

fv_translator *fv_translation_run_translator(const fv_translation_run *run)
{
    return run->translator;
}

fv_parallel_report fv_translation_run_report(const fv_translation_run *run, int part)
{
    return part >= 0 && part < FV_PARTS ? run->report[part] : (fv_parallel_report){0};
}

fv_taken fv_translation_run_taken(const fv_translation_run *run) { return run->taken; }
