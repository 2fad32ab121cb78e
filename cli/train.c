/* fovea train RECIPE: trains a model in a run folder, or resumes training there. */
#include <string.h>

#include "folder.h"
#include "input.h"
#include "model.h"
#include "output.h"
#include "train_new.h"
#include "train_recipe.h"

/* "recipes/dates.toml" -> "runs/dates"; the small form has a folder of its own. */
static bool default_folder(char out[CLI_PATH_BYTES], const char *recipe, bool small)
{
    const char *slash = strrchr(recipe, '/'), *name = slash ? slash + 1 : recipe;
    const char *dot = strrchr(name, '.');
    const int n = (int)(dot && dot != name ? dot - name : (long)strlen(name));
    return cli_path(out, "runs/%.*s%s", n, name, small ? "-small" : "");
}

/* ---- the run ------------------------------------------------------------------------ */

static void print_loaded(const fv_init_report *l)
{
    if (l->loaded == 0) return;
    if (l->random == 0)
        cli_note("all %lld tensors loaded from the checkpoint", (long long)l->loaded);
    else
        cli_note("%lld tensors loaded from the checkpoint; %lld initialised randomly: %s%s",
                 (long long)l->loaded, (long long)l->random, l->names,
                 l->names_truncated ? ", ..." : "");
}

static void print_data(const fv_run *run)
{
    const fv_init_report loaded = fv_run_init_report(run);
    const char *report = fv_run_report(run);
    print_loaded(&loaded);
    if (*report) cli_note("%s", report);
    cli_note("%lld parameters", (long long)fv_params_elements(fv_model_params(fv_run_model(run))));
}

/* The mean of the last states, in a folder of its own. */
static fv_status average(fv_model *model, fv_recipe *recipe, const char *folder, int count)
{
    char to[CLI_PATH_BYTES], path[CLI_PATH_BYTES];
    fv_status status = fv_params_average(fv_model_params(model), folder, count);
    if (status != FV_OK) return status;
    if (!cli_path(to, "%s-average", folder) || !cli_path(path, "%s/recipe.toml", to) ||
        !cli_make_folder(to))
        return FV_ERR_IO;
    status = fv_recipe_save(recipe, path); /* first: it shows whose folder this is */
    if (status == FV_OK) status = fv_model_save_settings(model, to);
    if (status == FV_OK && !cli_path(path, "%s/model.safetensors", to)) status = FV_ERR_IO;
    if (status == FV_OK) status = fv_params_save(fv_model_params(model), path);
    if (status == FV_OK) cli_note("the mean of the last states is in %s", to);
    return status;
}

/* *made: the run was created. */
static fv_status train(fv_ctx *ctx, const cli_call *call, fv_recipe *recipe, const char *folder,
                       bool *made)
{
    cli_progress progress;
    cli_progress_begin(&progress, ctx, cli_flag(call, "quiet"));
    progress.lr = fv_recipe_real(recipe, "train.lr");
    progress.old_lr = cli_recorded_lr(ctx, recipe, folder);
    fv_run *run = NULL;
    fv_status status = fv_run_create(ctx, recipe, folder, cli_progress_show, &progress, &run);
    *made = status == FV_OK;
    if (*made && !progress.quiet) print_data(run);
    if (*made) {
        fv_run_set_save_request(run, &cli_save_request);
        status = fv_run_train(run);
    }
    cli_progress_end(&progress);
    /* A run that was stopped before it was created has nothing to save. */
    if (status == FV_ERR_CANCELLED && *made)
        cli_note("saved in %s; run the same command to resume", folder);
    if (status == FV_OK) cli_note("the model is in %s", folder);
    if (status == FV_OK && cli_given(call, "average"))
        status = average(fv_run_model(run), recipe, folder, (int)cli_int(call, "average"));
    fv_run_destroy(&run);
    return status;
}

static int run_recipe(const cli_call *call, const char *folder)
{
    int code = CLI_FAILED;
    bool made = false;
    cli_lock lock = {.descriptor = -1};
    fv_ctx *ctx = cli_context(call, 0, &code);
    if (!ctx) return code;
    fv_recipe *recipe = NULL;
    code = cli_train_recipe(ctx, call, &recipe);
    const bool check = cli_flag(call, "check");
    if (code == CLI_DONE && !check) code = cli_check_memory(recipe);
    if (code == CLI_DONE) {
        fv_ctx_set_seed(ctx, (uint64_t)fv_recipe_int(recipe, "train.seed"));
        code = check ? cli_train_check(ctx, call, recipe, folder)
                     : cli_train_check_folders(call, recipe, folder);
    }
    if (code == CLI_DONE && !check)
        code = cli_lock_folder("train", folder, cli_flag(call, "force"), &lock);
    if (code == CLI_DONE && !check) {
        if (!cli_flag(call, "quiet")) cli_print_changes(ctx, recipe, folder);
        const fv_status status = train(ctx, call, recipe, folder, &made);
        if (status == FV_ERR_ARGUMENT) {
            cli_error("train: %s: %s", call->words[0], fv_ctx_message(ctx));
            code = CLI_BAD_FILE;
        } else if (status != FV_OK) {
            code = cli_library_error("train", ctx, status);
            if (status == FV_ERR_IO) cli_print_missing(recipe, call->words[0]);
        } else if (cli_flag(call, "new")) {
            cli_train_new_done(ctx, call, recipe, folder);
        }
    }
    cli_unlock_folder(&lock, made);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return code;
}

/* --new: the same with the recipe that was written for the file. */
static int run_new(const cli_call *call, const char *folder)
{
    char recipe[CLI_PATH_BYTES];
    const int code = cli_train_new(call, folder, recipe);
    cli_call own = *call;
    own.words[0] = recipe;
    return code || cli_flag(call, "check") ? code : run_recipe(&own, folder);
}

static int run(const cli_call *call)
{
    char folder[CLI_PATH_BYTES];
    const char *name = call->words[0];
    if (cli_flag(call, "new") && strcmp(name, "-") == 0) name = CLI_NEW_STREAM;
    const bool named = cli_given(call, "output")
                           ? cli_path(folder, "%s", cli_text(call, "output"))
                           : default_folder(folder, name, cli_flag(call, "small"));
    if (!named) return CLI_USAGE;
    fv_device_kind device; /* --new writes files before there is a context */
    const int code = cli_device(call, &device);
    if (code != CLI_DONE) return code;
    if (cli_flag(call, "new")) return run_new(call, folder);
    return cli_is_data_file(call->words[0]) ? CLI_USAGE : run_recipe(call, folder);
}

static const cli_option options[] = {
    {.name = "output",
     .letter = 'o',
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FOLDER",
     .help = "run folder; default: runs/ and the recipe's name"},
    {.name = "new",
     .type = CLI_FLAG,
     .help = "read a data file in place of a recipe, and write a recipe for it"},
    {.name = "columns",
     .type = CLI_STRING,
     .metavar = "A,B",
     .help = "with --new: columns by name or number: source,target; text,class; text,text,class"},
    {.name = "task",
     .type = CLI_CHOICE,
     .choices = CLI_NEW_TASKS,
     .default_value = "auto",
     .metavar = "TASK",
     .help = "with --new: what to learn"},
    {.name = "header",
     .type = CLI_CHOICE,
     .choices = "auto|yes|no",
     .default_value = "auto",
     .metavar = "WHEN",
     .help = "with --new: whether the first line names the columns"},
    {.name = "small",
     .type = CLI_FLAG,
     .help = "train the recipe's small form: the same kinds of model and data, in under a minute"},
    {.name = "init-from",
     .type = CLI_PATH,
     .metavar = "FOLDER",
     .help = "start from the weights and the tokenizer of this model"},
    {.name = "average",
     .type = CLI_INT,
     .min = 1,
     .max = 63,
     .metavar = "N",
     .help = "at the end, write the mean of the last N states to FOLDER-average"},
    {.name = "check",
     .type = CLI_FLAG,
     .help = "print what would be read, written and replaced, and the memory and time of a few "
             "steps; write nothing"},
    CLI_FORCE,
    CLI_THREADS,
    CLI_DEVICE,
    CLI_MEMORY,
    {.name = "quiet", .letter = 'q', .type = CLI_FLAG, .help = "no progress"},
};

const cli_verb verb_train = {
    .name = "train",
    .about = "train a model from a recipe",
    .notes =
        "A recipe is a TOML file. Every key of it can be set here too: --train.lr 0.002, "
        "--model.decoder=luong; without the section where only one key has that name: --lr. "
        "The folder gets recipe.toml with all keys and what they mean, "
        "the best weights (model.safetensors), the states to resume from, log.jsonl, log.csv "
        "and TensorBoard events. Ctrl-C saves; run the same command to resume. The result has "
        "the same bits as that of an uninterrupted run.\n\n"
        "SIGTERM, SIGHUP and SIGXCPU save and end like Ctrl-C; SIGHUP is ignored under nohup. "
        "SIGUSR1 saves and continues.\n\n"
        "A folder that is not empty and not a run of this program is refused; --force writes "
        "into it and replaces files of the same names.\n\n"
        "--new FILE trains on a file of your own: values separated by tabs, commas or semicolons, "
        "JSON Lines, or plain text. It finds the columns and the task, holds out rows for "
        "validation, chooses a model size, writes a recipe to data/ in the run folder, and "
        "trains it. Then it shows the model's answer to a held-out text and draws its attention "
        "in sample.svg. - reads standard input and saves it in the run folder.\n\n"
        "--small trains the small form that the sections [small.data], [small.model] and so "
        "on of the recipe describe, in runs/ and the recipe's name with -small. If the "
        "recipe's data files do not exist it generates data. A recipe without a small form "
        "ends with exit code 4.",
    .words = {.metavar = "RECIPE",
              .type = CLI_PATH,
              .min = 1,
              .max = 1,
              .help = "a TOML file; with --new a data file, or - for standard input"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .takes_settings = true,
    .is_setting = cli_is_short_key,
    .run = run,
};
