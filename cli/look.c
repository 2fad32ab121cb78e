/* fovea look MODEL SOURCE: where a model looked while it wrote. */
#include <string.h>

#include "fovea/npy.h"
#include "input.h"
#include "model.h"
#include "output.h"

static fv_string string_of(const char *text) { return (fv_string){text, strlen(text)}; }

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The weights as arrays, for other programs. */
static fv_status save_arrays(fv_ctx *ctx, const fv_translation *t, const char *path)
{
    const int64_t shape[] = {t->target_count + (t->ended ? 1 : 0), t->source_count};
    fv_scope_begin(ctx);
    fv_tensor *weights = fv_from_host(ctx, FV_F32, 2, shape, t->weights);
    const char *name = "decoder.0.cross";
    const fv_status status = fv_npz_save(ctx, path, &name, &weights, 1);
    fv_scope_end(ctx);
    return status;
}

static fv_status show(fv_ctx *ctx, const cli_call *call, const fv_translation *t)
{
    const char *path = cli_text(call, "output");
    if (cli_flag(call, "pharaoh")) {
        cli_print_pharaoh(t);
        return FV_OK;
    }
    if (path && ends_with(path, ".npz")) return save_arrays(ctx, t, path);
    return cli_show_alignment(ctx, t, t->text, path);
}

static int run(const cli_call *call)
{
    int code = CLI_FAILED;
    fv_ctx *ctx = cli_context(call, 0, &code);
    if (!ctx) return code;
    fv_translator *t = NULL;
    fv_translations *out = NULL;
    const fv_string source = string_of(call->words[1]);
    fv_status status = fv_translator_load(ctx, call->words[0], &t);
    if (status == FV_OK && cli_given(call, "target")) {
        status = fv_translate_given(t, source, string_of(cli_text(call, "target")), &out);
    } else if (status == FV_OK) {
        fv_translate_config how;
        fv_translate_config_init(&how, sizeof how);
        how.decode.beam = (int)cli_int(call, "beam");
        how.decode.want_weights = true;
        status = fv_translate(t, 1, &source, &how, &out);
    }
    if (status == FV_OK) {
        const fv_translation *best = fv_translations_get(out, 0, 0);
        if (best && best->weights) {
            status = show(ctx, call, best);
        } else {
            cli_error("look: there is nothing to see: %s",
                      source.bytes ? "this model has no attention" : "the source is empty");
            code = CLI_MISSING;
        }
    }
    if (status != FV_OK)
        code = cli_library_error("look", ctx, status);
    else if (code != CLI_MISSING)
        code = CLI_DONE;
    fv_translations_free(&out);
    fv_translator_destroy(&t);
    fv_ctx_destroy(&ctx);
    return code;
}

static const cli_option options[] = {
    {.name = "output",
     .letter = 'o',
     .type = CLI_PATH,
     .metavar = "FILE",
     .help = "a picture by its ending: svg, png, html, txt; npz for the numbers"},
    {.name = "target",
     .type = CLI_STRING,
     .metavar = "TEXT",
     .help = "look at this output instead of the model's own"},
    {.name = "beam",
     .type = CLI_INT,
     .fallback = "1",
     .least = 1,
     .most = 1000,
     .metavar = "N",
     .help = "prefixes kept in the search"},
    {.name = "pharaoh", .type = CLI_FLAG, .help = "print the alignment as pairs, source-target"},
    CLI_THREADS,
};

const cli_verb verb_look = {
    .name = "look",
    .about = "show where a model looks",
    .notes = "Draws the attention of each output word over the source words: on the terminal, or "
             "as a file with -o.",
    .words = {.metavar = "MODEL SOURCE",
              .type = CLI_PATH,
              .least = 2,
              .most = 2,
              .help = "the model's folder and a text"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
