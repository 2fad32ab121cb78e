/* fovea run with recordings: the text that is spoken, or the class. */
#include "input.h"
#include "media.h"
#include "output.h"
#include "run.h"
#include "sound.h"

static void print_text(const cli_call *call, const char *file, const fv_translation *t)
{
    if (!cli_flag(call, "json")) {
        cli_safe_text(stdout, t->text);
        printf("\t");
        cli_safe_text(stdout, file);
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
        status = fv_model_can(model, FV_CAN_CLASSIFY)
                     ? cli_print_classes(call, model, file, &r.batch)
                     : transcribe(call, model, file, &r);
    cli_recording_close(&r);
    return status == FV_OK ? CLI_DONE : cli_library_error("run", ctx, status);
}
