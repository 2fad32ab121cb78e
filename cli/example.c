#include "example.h"

#include <string.h>

#include "fovea/read.h"
#include "fovea/walk.h"
#include "output.h"
#include "run.h"

bool cli_has_examples(const fv_model *model)
{
    return fv_model_is_reader(model) || fv_model_is_walker(model);
}

static bool has_text(const cli_call *call)
{
    return call->word_count > 1 || cli_given(call, "prompt") || cli_given(call, "file");
}

bool cli_example_applies(const cli_call *call, const char *verb, const fv_model *model)
{
    if (!cli_given(call, "example")) return true;
    if (fv_model_is_reader(model) && has_text(call)) {
        cli_error("%s: expected a text or --example, which is a story with its questions, not both",
                  verb);
        return false;
    }
    if (cli_has_examples(model)) return true;
    cli_error("%s: --example does not apply to a %s model: it is for readers of stories and "
              "walkers",
              verb, fv_model_type(model));
    return false;
}

typedef struct job {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
} job;

static int run_one(const job *j, const char *text)
{
    return fv_model_is_reader(j->model) ? cli_run_story(j->call, j->ctx, j->model, text)
                                        : cli_run_walk(j->call, j->ctx, j->model, text);
}

/* A cli_texts_fn. */
static int run_texts(void *user, int64_t count, const fv_string *texts)
{
    int code = CLI_DONE;
    for (int64_t i = 0; i < count && !code; i++)
        code = run_one(user, texts[i].text);
    return code;
}

int cli_run_example(const cli_call *call, fv_ctx *ctx, fv_model *model)
{
    const job j = {.call = call, .ctx = ctx, .model = model};
    if (cli_given(call, "example") && !has_text(call)) return run_one(&j, NULL);
    return cli_for_each_batch(call, ctx, 1, run_texts, (void *)&j);
}

int cli_look_example(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                     const char *path)
{
    return fv_model_is_reader(model) ? cli_look_story(call, ctx, model, text, path)
                                     : cli_look_walk(call, ctx, model, text, path);
}
