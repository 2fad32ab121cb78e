/* fovea run with recordings: what is said, or which word it is. */
#include <stdlib.h>

#include "input.h"
#include "output.h"
#include "run.h"
#include "sound.h"

enum { SHOWN = 5, MAX_SHOWN = 100 };

/* ---- classes -------------------------------------------------------------------------------- */

static void print_label(const fv_model *model, int64_t i)
{
    const fv_data_spec *spec = fv_model_spec(model);
    if (spec->labels && i < spec->label_count)
        cli_safe_text(stdout, spec->labels[i]);
    else
        printf("%lld", (long long)i);
}

static void json_classes(const fv_model *model, const char *file, const float *p, int64_t count)
{
    const fv_data_spec *spec = fv_model_spec(model);
    cli_json j = {.to = stdout};
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (p[i] > p[best]) best = i;
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", file);
    cli_json_int(&j, "class", best);
    if (best < spec->label_count) cli_json_text(&j, "label", spec->labels[best]);
    cli_json_open(&j, "classes", '[');
    for (int64_t i = 0; i < count; i++)
        cli_json_exact(&j, NULL, (double)p[i]);
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

/* The most likely ones, with the file's name where there are several files. */
static void print_classes(const cli_call *call, const fv_model *model, const char *file, float *p,
                          int64_t count)
{
    int64_t shown = cli_given(call, "top-k") ? cli_int(call, "top-k") : SHOWN;
    if (shown < 1 || shown > MAX_SHOWN) shown = MAX_SHOWN;
    for (int64_t n = 0; n < shown && n < count; n++) {
        int64_t best = 0;
        for (int64_t i = 1; i < count; i++)
            if (p[i] > p[best]) best = i;
        print_label(model, best);
        printf("\t%.4f", (double)p[best]);
        if (call->word_count > 2) {
            printf("\t");
            cli_safe_text(stdout, file);
        }
        printf("\n");
        p[best] = -1;
    }
}

static fv_status classify(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                          const fv_batch *batch)
{
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *p = fv_softmax(ctx, fv_model_classify(model, batch, NULL), -1);
    const int64_t count = fv_tensor_count(p);
    float *values = malloc((size_t)(count + 1) * sizeof *values);
    const fv_status status = values ? fv_tensor_read(ctx, p, values, (size_t)count * sizeof *values)
                                    : fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    if (status == FV_OK && cli_flag(call, "json")) json_classes(model, file, values, count);
    if (status == FV_OK && !cli_flag(call, "json")) print_classes(call, model, file, values, count);
    free(values);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

/* ---- texts ---------------------------------------------------------------------------------- */

static void print_text(const cli_call *call, const char *file, const fv_translation *t)
{
    if (!cli_flag(call, "json")) {
        if (call->word_count > 2) {
            cli_safe_text(stdout, file);
            printf("\t");
        }
        cli_safe_text(stdout, t->text);
        printf("\n");
        return;
    }
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", file);
    cli_json_text(&j, "text", t->text);
    cli_json_real(&j, "log_prob", t->log_prob);
    cli_json_close(&j, '}');
}

static fv_status transcribe(const cli_call *call, fv_model *model, const char *file,
                            const cli_recording *r)
{
    fv_search_config how;
    fv_translations *texts = NULL;
    fv_search_config_init(&how, sizeof how);
    cli_read_search_options(call, &how);
    const int64_t tokens = cli_int(call, "tokens");
    const fv_status status =
        fv_describe(model, &r->batch, tokens ? tokens : cli_recording_tokens(r), &how, &texts);
    for (int n = 0; status == FV_OK && n < how.nbest; n++) {
        const fv_translation *t = fv_translations_get(texts, 0, n);
        if (t) print_text(call, file, t);
    }
    fv_translations_free(&texts);
    return status;
}

int cli_run_sound(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file)
{
    cli_recording r;
    fv_status status = cli_recording_open(model, file, &r);
    if (status == FV_OK)
        status = fv_model_can(model, FV_CAN_CLASSIFY) ? classify(call, ctx, model, file, &r.batch)
                                                      : transcribe(call, model, file, &r);
    cli_recording_close(&r);
    return status == FV_OK ? CLI_DONE : cli_library_error("run", ctx, status);
}
