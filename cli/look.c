/* fovea look MODEL SOURCE: the attention weights of a model. */
#include <string.h>

#include "fovea/file.h"
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
    const fv_status status = fv_npz_save(ctx, &name, &weights, 1, path);
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

/* Options for the attention inside a Transformer, beyond the alignment of all translators. */
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
        cli_error("look: --%s is for Transformers; a recurrent translator has one attention map, "
                  "from output words to source words",
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
            cli_error("look: no attention weights: %s",
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
        cli_error(
            "look: MODEL SOURCE is missing: expected a folder and a text, or a folder and --ids");
        return CLI_USAGE;
    }
    if ((code = cli_check_model("look", call->words[0])) != CLI_DONE) return code;
    fv_ctx *ctx = cli_context(call, 0, &code);
    if (!ctx) return code;
    const char *path = cli_text(call, "output");
    fv_look_format form;
    if (path && !cli_ends_with(path, ".npz") &&
        fv_look_format_from_path(ctx, path, &form) != FV_OK) {
        cli_error("look: -o %s: expected a name that ends with .svg, .png, .html, .txt or .npz",
                  path);
        fv_ctx_destroy(&ctx);
        return CLI_USAGE;
    }
    fv_model *model = NULL;
    const fv_status status = cli_open_model(ctx, call, call->words[0], &model);
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
     .writes = true,
     .metavar = "FILE",
     .help = "write a picture (.svg, .png, .html, .txt) or the weights (.npz)"},
    {.name = "target",
     .type = CLI_STRING,
     .metavar = "TEXT",
     .help = "attention of this output instead of the model's own"},
    {.name = "beam",
     .type = CLI_INT,
     .default_value = "1",
     .min = 1,
     .max = 1000,
     .metavar = "N",
     .help = "beam size"},
    {.name = "pharaoh", .type = CLI_FLAG, .help = "print the alignment as pairs, source-target"},
    {.name = "at",
     .type = CLI_CHOICE,
     .default_value = "auto",
     .choices = "auto|encoder|decoder|cross",
     .metavar = "SIDE",
     .help = "Transformers: which attention; auto is cross if the model has it"},
    {.name = "layer",
     .letter = 'l',
     .type = CLI_INT,
     .min = 0,
     .max = 100000,
     .metavar = "N",
     .help = "only this layer, counted from 0; default for one map: the last"},
    {.name = "head",
     .type = CLI_INT,
     .min = 0,
     .max = 100000,
     .metavar = "N",
     .help = "only this head, counted from 0"},
    {.name = "links", .type = CLI_FLAG, .help = "lines between words instead of maps"},
    {.name = "rollout", .type = CLI_FLAG, .help = "attention rollout through all layers"},
    {.name = "entropy", .type = CLI_FLAG, .help = "print the entropy of each head"},
    {.name = "top",
     .type = CLI_INT,
     .min = 1,
     .max = 64,
     .metavar = "K",
     .help = "print the K largest weights of each token; with --from: of the table"},
    {.name = "from",
     .type = CLI_STRING,
     .metavar = "WORD",
     .help = "weights of this word in every head; drawn as lines with -o"},
    {.name = "to",
     .type = CLI_STRING,
     .metavar = "WORD",
     .help = "with --from: heads ranked by the weight from one word to the other"},
    {.name = "rows",
     .type = CLI_STRING,
     .metavar = "A:B",
     .help = "only queries A to B - 1, counted from 0"},
    {.name = "cols", .type = CLI_STRING, .metavar = "A:B", .help = "only keys A to B - 1"},
    {.name = "full", .type = CLI_FLAG, .help = "all weights of a long text, whatever their size"},
    {.name = "ids",
     .type = CLI_PATH,
     .metavar = "FILE",
     .help = "tokens as .npy instead of a text, as for run"},
    CLI_IDS_OPTIONS,
    CLI_WEIGHTS,
    CLI_THREADS,
    CLI_MEMORY,
};

const cli_verb verb_look = {
    .name = "look",
    .about = "show the attention weights of a model",
    .notes = "Draws the attention of each output word over the source words: on the terminal, or "
             "as a file with -o. For a Transformer a picture shows every head of every layer, with "
             "--layer the heads of one layer, with --head one head; npz has an array [batch, "
             "heads, queries, keys] for each site. A map of more than 1024 tokens is reduced, each "
             "cell the maximum of a block; --rows and --cols show a part of it in full.",
    .words = {.metavar = "MODEL [SOURCE]",
              .type = CLI_PATH,
              .min = 1,
              .max = 2,
              .help = "the model's folder and a text"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
