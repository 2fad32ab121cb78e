/* fovea look MODEL SOURCE: where a model looked while it wrote. */
#include <string.h>

#include "fovea/npy.h"
#include "input.h"
#include "look_model.h"
#include "model.h"
#include "output.h"

static fv_string string_of(const char *text) { return (fv_string){text, strlen(text)}; }

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
    if (path && cli_ends_with(path, ".npz")) return save_arrays(ctx, t, path);
    return cli_show_alignment(ctx, t, t->text, path);
}

/* Options that look inside a Transformer, beyond the alignment that all translators have. */
static const char *inside_option(const cli_call *call)
{
    static const char *const inside[] = {"at",      "layer", "head", "links", "rollout",
                                         "entropy", "top",   "from", "to",    "rows",
                                         "cols",    "full",  "ids"};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        if (cli_given(call, inside[i])) return inside[i];
    return NULL;
}

static bool looks_inside(const cli_call *call)
{
    const char *path = cli_text(call, "output");
    return inside_option(call) || (path && cli_ends_with(path, ".npz"));
}

static int look_at_translator(const cli_call *call, fv_ctx *ctx, fv_model *t)
{
    fv_translations *out = NULL;
    fv_status status = FV_OK;
    int code = CLI_DONE;
    const char *inside = inside_option(call);
    if (inside) {
        cli_error(
            "look: --%s is for Transformers; this is a recurrent translator, which has one map: "
            "where each output word looks in the source",
            inside);
        return CLI_USAGE;
    }
    const fv_string source = string_of(call->words[1]);
    if (cli_given(call, "target")) {
        status = fv_translate_given(t, source, string_of(cli_text(call, "target")), &out);
    } else {
        fv_translate_config how;
        fv_translate_config_init(&how, sizeof how);
        how.search.beam = (int)cli_int(call, "beam");
        how.search.want_weights = true;
        status = fv_translate(t, 1, &source, &how, &out);
    }
    if (status == FV_OK) {
        const fv_translation *best = fv_translations_get(out, 0, 0);
        if (best && best->weights) {
            status = show(ctx, call, best);
        } else {
            cli_error("look: there is nothing to see: %s",
                      source.bytes ? "this model has no attention" : "the source is empty");
            code = source.bytes ? CLI_MISSING : CLI_USAGE;
        }
    }
    if (status != FV_OK) code = cli_library_error("look", ctx, status);
    fv_translations_free(&out);
    return code;
}

static int run(const cli_call *call)
{
    int code = CLI_FAILED;
    if (call->word_count < 2 && !cli_given(call, "ids")) {
        cli_error("look: MODEL SOURCE is missing: a folder and a text, or a folder and --ids");
        return CLI_USAGE;
    }
    fv_ctx *ctx = cli_context(call, 0, &code);
    if (!ctx) return code;
    const char *path = cli_text(call, "output");
    fv_look_format form;
    if (path && !cli_ends_with(path, ".npz") &&
        fv_look_format_from_path(ctx, path, &form) != FV_OK) {
        cli_error("look: -o %s: its ending is none of .svg, .png, .html, .txt and .npz", path);
        fv_ctx_destroy(&ctx);
        return CLI_USAGE;
    }
    fv_model *model = NULL;
    const fv_status status = fv_model_map(ctx, call->words[0], &model);
    if (status != FV_OK)
        code = cli_library_error("look", ctx, status);
    else if (fv_model_spec(model)->ability == FV_CAN_TRANSLATE &&
             !(fv_model_transformer(model) && looks_inside(call)))
        code = look_at_translator(call, ctx, model);
    else
        code = cli_look_model(call, ctx, model);
    fv_model_close(&model);
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
    {.name = "at",
     .type = CLI_CHOICE,
     .fallback = "auto",
     .choices = "auto|encoder|decoder|cross",
     .metavar = "SIDE",
     .help = "Transformers: which attention; auto is cross where there is one"},
    {.name = "layer",
     .letter = 'l',
     .type = CLI_INT,
     .least = 0,
     .most = 100000,
     .metavar = "N",
     .help = "of this layer alone, from 0; one map needs one: the last"},
    {.name = "head",
     .type = CLI_INT,
     .least = 0,
     .most = 100000,
     .metavar = "N",
     .help = "of this head alone, from 0"},
    {.name = "links", .type = CLI_FLAG, .help = "lines between words instead of maps"},
    {.name = "rollout",
     .type = CLI_FLAG,
     .help = "what reaches the last layer, through all of them"},
    {.name = "entropy", .type = CLI_FLAG, .help = "print how widely each head looks"},
    {.name = "top",
     .type = CLI_INT,
     .least = 1,
     .most = 64,
     .metavar = "K",
     .help = "print the K strongest of each token; with --from: of the table"},
    {.name = "from",
     .type = CLI_STRING,
     .metavar = "WORD",
     .help = "where this word looks, in every head; drawn as lines with -o"},
    {.name = "to",
     .type = CLI_STRING,
     .metavar = "WORD",
     .help = "with --from: the heads that look from the one word to the other, best first"},
    {.name = "rows",
     .type = CLI_STRING,
     .metavar = "A:B",
     .help = "only the tokens that look from A to before B, counted from 0"},
    {.name = "cols",
     .type = CLI_STRING,
     .metavar = "A:B",
     .help = "only the tokens looked at from A to before B"},
    {.name = "full", .type = CLI_FLAG, .help = "every weight of a long text, however large"},
    {.name = "ids",
     .type = CLI_PATH,
     .metavar = "FILE",
     .help = "tokens as .npy instead of a text, as for run"},
    CLI_IDS_BESIDE,
    CLI_THREADS,
};

const cli_verb verb_look = {
    .name = "look",
    .about = "show where a model looks",
    .notes = "Draws the attention of each output word over the source words: on the terminal, or "
             "as a file with -o. Of a Transformer a picture shows every head of every layer, with "
             "--layer those of one, with --head one; npz has an array for each site, "
             "[batch, heads, queries, keys]. A map of more than 1024 tokens is made smaller, each "
             "cell the largest of a part; --rows and --cols show a part as it is.",
    .words = {.metavar = "MODEL [SOURCE]",
              .type = CLI_PATH,
              .least = 1,
              .most = 2,
              .help = "the model's folder and a text"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
