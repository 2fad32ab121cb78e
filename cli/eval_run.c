/* fovea eval RUN: the metrics of a training run's task, for its best weights. */
#include <string.h>
#include <unistd.h>

#include "eval.h"
#include "folder.h"
#include "fovea/train.h"
#include "input.h"

static fv_status read_recipe(fv_ctx *ctx, const cli_call *call, fv_recipe **out)
{
    char path[CLI_PATH_BYTES];
    if (!cli_path(path, "%s/recipe.toml", call->words[0])) return FV_ERR_ARGUMENT;
    fv_status status = fv_run_recipe(ctx, out);
    if (status == FV_OK) status = fv_recipe_load(*out, path);
    return status == FV_OK ? fv_recipe_set(*out, "eval.part", cli_text(call, "part")) : status;
}

static void print(const cli_call *call, const fv_run *run, const fv_metric *metrics, int count,
                  double seconds)
{
    cli_json j = {.to = stdout};
    if (!cli_flag(call, "json")) {
        for (int i = 0; i < count; i++)
            printf("%-10s %.4f\n", metrics[i].name, metrics[i].value);
        cli_note("%s; %.1f s", fv_run_report(run), seconds);
        return;
    }
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "model", call->words[0]);
    cli_json_text(&j, "part", cli_text(call, "part"));
    for (int i = 0; i < count; i++)
        cli_json_real(&j, metrics[i].name, metrics[i].value);
    cli_json_real(&j, "seconds", seconds);
    cli_json_close(&j, '}');
}

/* Data and model of the recipe, with the weights of the folder. */
static fv_status evaluate(fv_ctx *ctx, const cli_call *call, fv_recipe *recipe)
{
    char weights[CLI_PATH_BYTES];
    fv_metric metrics[FV_MAX_METRICS];
    int count = 0;
    fv_run *run = NULL;
    if (!cli_path(weights, "%s/model.safetensors", call->words[0])) return FV_ERR_ARGUMENT;
    fv_status status = fv_run_create(ctx, recipe, call->words[0], NULL, NULL, &run);
    if (status == FV_OK) status = fv_params_load(fv_model_params(fv_run_model(run)), weights);
    const double start = cli_now();
    if (status == FV_OK) status = fv_run_evaluate(run, metrics, &count);
    if (status == FV_OK) print(call, run, metrics, count, cli_now() - start);
    fv_run_destroy(&run);
    return status;
}

int cli_eval_run(const cli_call *call)
{
    int code = cli_check_model("eval", call->words[0]);
    char recipe_path[CLI_PATH_BYTES];
    if (!code && cli_path(recipe_path, "%s/recipe.toml", call->words[0]) &&
        access(recipe_path, F_OK) != 0) {
        cli_error(
            "eval: %s has no recipe.toml, so it is not the folder of a training run; of other "
            "models: MODEL... SOURCES REFERENCES",
            call->words[0]);
        code = CLI_BAD_FILE;
    }
    fv_ctx *ctx = code ? NULL : cli_context(call, 0, &code);
    if (!ctx) return code;
    fv_recipe *recipe = NULL;
    fv_status status = read_recipe(ctx, call, &recipe);
    if (status == FV_OK) status = evaluate(ctx, call, recipe);
    code = status == FV_OK ? CLI_DONE : cli_library_error("eval", ctx, status);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return code;
}
