/* fovea look MODEL TEXT: the attention weights of a model. */
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "drawing.h"
#include "example.h"
#include "input.h"
#include "look_model.h"
#include "media.h"
#include "output.h"
#include "points.h"
#include "run.h"
#include "shots.h"

const char *look_inside_option(const cli_call *call)
{
    static const char *const inside[] = {"layer", "head", "links", "rollout", "entropy",
                                         "top",   "from", "to",    "rows",    "cols",
                                         "full",  "ids",  "at"};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        if (cli_given(call, inside[i])) return inside[i];
    return NULL;
}

bool look_options_apply(const cli_call *call, const fv_model *model, const char *const *others)
{
    const char *unfit = look_inside_option(call);
    for (; !unfit && *others; others++)
        if (cli_given(call, *others)) unfit = *others;
    if (unfit) cli_error("look: --%s does not apply to a %s model", unfit, fv_model_type(model));
    return !unfit;
}

const char *look_text_option(const cli_call *call)
{
    static const char *const other[] = {"pharaoh", "target", "pixel",
                                        "invert",  "pieces", "no-special"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (cli_given(call, other[i])) return other[i];
    return NULL;
}

/* ---- texts ----------------------------------------------------------------------------------- */

typedef struct texts {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
    char *held;     /* with -o: the last text, until it is known whether another one follows */
    int64_t number; /* of the last text that was shown */
} texts;

typedef int (*viewer)(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                      const char *path);

/* Models that read neither files nor sentences. */
static const viewer viewers[FV_ABILITY_COUNT] = {
    [FV_CAN_PREDICT] = cli_look_bits,
    [FV_CAN_ACT] = cli_look_play,
    [FV_CAN_RATE] = cli_look_recommend,
    [FV_CAN_LEARN] = cli_look_shots,
};

/* Shows one text, or with NULL the tokens of --ids. */
static int show(const texts *t, const char *text, const char *path)
{
    if (cli_model_reads(t->model) == CLI_FILE_POINTS && text)
        return cli_look_points(t->call, t->ctx, t->model, text, path);
    if (cli_has_examples(t->model)) {
        const char *inside = look_inside_option(t->call);
        if (!inside) return cli_look_example(t->call, t->ctx, t->model, text, path);
        cli_error("look: --%s does not apply to a %s model", inside, fv_model_type(t->model));
        return CLI_USAGE;
    }
    if (cli_model_reads(t->model) != CLI_FILE_OTHER && text)
        return cli_look_media(t->call, t->ctx, t->model, text, path);
    const viewer view = viewers[fv_model_spec(t->model)->ability];
    if (view && text) return view(t->call, t->ctx, t->model, text, path);
    if (cli_given(t->call, "pixel") || cli_flag(t->call, "invert")) {
        cli_error("look: --pixel and --invert are for models that read files");
        return CLI_USAGE;
    }
    const bool translates = fv_model_spec(t->model)->ability == FV_CAN_TRANSLATE;
    if (cli_flag(t->call, "json") && (translates || fv_model_transformer(t->model))) {
        cli_error("look: --json is not for this model: -o FILE.npz has its weights%s",
                  translates ? ", and 'fovea run --json' the alignment" : "");
        return CLI_USAGE;
    }
    const bool inside = look_inside_option(t->call) || cli_ends_with(path, ".npz");
    if (translates && !(fv_model_transformer(t->model) && inside))
        return cli_look_translator(t->call, t->ctx, t->model, text, path);
    if (!fv_model_transformer(t->model) && text)
        return cli_look_reading(t->call, t->ctx, t->model, text, path);
    return cli_look_model(t->call, t->ctx, t->model, text, path);
}

/* "map.svg" as "map-2.svg"; free() it. */
static char *numbered(const char *path, int64_t number)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    const size_t bytes = strlen(path) + 24;
    char *name = malloc(bytes);
    if (name)
        cli_format(name, bytes, "%.*s-%lld%s", (int)(dot - path), path, (long long)number, dot);
    return name;
}

/* Shows the text that is held, the only one or one of several. */
static int show_held(texts *t, bool several)
{
    const char *path = cli_text(t->call, "output");
    t->number++;
    char *name = several ? numbered(path, t->number) : NULL;
    int code = name ? cli_check_output(t->call, "output", name) : CLI_DONE;
    if (!code) code = show(t, t->held, name ? name : path);
    free(name);
    free(t->held);
    t->held = NULL;
    return code;
}

/* A cli_texts_fn: lines without text are skipped. */
static int take_texts(void *user, int64_t count, const fv_string *list)
{
    texts *t = user;
    int code = CLI_DONE;
    for (int64_t i = 0; i < count && !code; i++) {
        if (t->call->word_count == 1 && strspn(list[i].text, " \t\r") == list[i].bytes) continue;
        if (t->held) code = show_held(t, true);
        if (code) break;
        if (cli_text(t->call, "output")) {
            t->held = strndup(list[i].text, list[i].bytes);
            if (t->held) continue;
            cli_error("look: out of memory");
            return CLI_FAILED;
        }
        if (t->number++ > 0) printf("\n");
        code = show(t, list[i].text, NULL);
    }
    return code;
}

static int show_all(const cli_call *call, fv_ctx *ctx, fv_model *model)
{
    texts t = {.call = call, .ctx = ctx, .model = model};
    if (!cli_check_ask(call, model) || !cli_example_applies(call, "look", model)) return CLI_USAGE;
    if (fv_model_spec(model)->ability == FV_CAN_RELATE) return cli_look_plane(call, ctx, model);
    if (fv_model_spec(model)->ability == FV_CAN_DRAW)
        return cli_look_drawing(call, ctx, model, cli_text(call, "output"));
    if (cli_given(call, "class")) {
        cli_error("look: --class is for models that draw");
        return CLI_USAGE;
    }
    const bool has_text =
        call->word_count > 1 || cli_given(call, "prompt") || cli_given(call, "file");
    if (cli_given(call, "ids") || (cli_given(call, "example") && !has_text))
        return show(&t, NULL, cli_text(call, "output"));
    if (cli_plays_first(call, model)) return show(&t, "0", cli_text(call, "output"));
    if (cli_model_reads(model) == CLI_FILE_POINTS && call->word_count == 1)
        return show(&t, cli_text(call, "file"), cli_text(call, "output"));
    const bool pairs = fv_data_spec_get(fv_model_spec(model), "text_pairs", 0) != 0;
    int code = (pairs ? cli_for_each_pair : cli_for_each_batch)(call, ctx, 1, take_texts, &t);
    if (!code && t.held) code = show_held(&t, t.number > 0);
    free(t.held);
    if (code || t.number > 0) return code;
    const cli_file_kind reads = cli_model_reads(model);
    if (reads == CLI_FILE_PICTURE || reads == CLI_FILE_SOUND) return cli_no_file(call, model);
    cli_error("look: no text: expected one after the model, or lines in --file or standard input");
    return CLI_USAGE;
}

static int run(const cli_call *call)
{
    int code = CLI_FAILED;
    if (cli_given(call, "ids") &&
        (call->word_count > 1 || cli_given(call, "file") || cli_given(call, "prompt"))) {
        cli_error("look: expected a text or --ids, not both");
        return CLI_USAGE;
    }
    if ((code = cli_check_model("look", call->words[0])) != CLI_DONE) return code;
    fv_ctx *ctx = cli_context(call, 0, &code);
    if (!ctx) return code;
    const char *path = cli_text(call, "output");
    fv_look_format form = FV_LOOK_FORMAT_COUNT;
    if (path && !cli_ends_with(path, ".npz") &&
        fv_look_format_from_path(ctx, path, &form) != FV_OK) {
        cli_error("look: -o %s: expected a name that ends with .svg, .png, .pdf, .html, .txt or "
                  ".npz",
                  path);
        fv_ctx_destroy(&ctx);
        return CLI_USAGE;
    }
    if (cli_given(call, "font") && !(path && form == FV_LOOK_FORMAT_PNG)) {
        cli_error("look: --font is for -o FILE.png: the other formats have fonts of their own");
        fv_ctx_destroy(&ctx);
        return CLI_USAGE;
    }
    fv_model *model = NULL;
    const fv_status status = cli_open_model(ctx, call, call->words[0], &model);
    code = status == FV_OK ? show_all(call, ctx, model) : cli_library_error("look", ctx, status);
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
     .help = "write a picture (.svg, .png, .pdf, .html, .txt) or the weights (.npz)"},
    CLI_TEXTS,
    {.name = "pieces",
     .type = CLI_FLAG,
     .help = "tokens instead of words; words sum the weights of a key's tokens and average those "
             "of a query's"},
    {.name = "no-special",
     .type = CLI_FLAG,
     .help = "leave out special tokens such as [CLS], and scale the other weights of each row to "
             "its sum"},
    {.name = "target",
     .type = CLI_STRING,
     .metavar = "TEXT",
     .help = "attention of this output instead of the model's own"},
    CLI_BEAM("1"),
    CLI_PHARAOH,
    {.name = "at",
     .type = CLI_CHOICE,
     .default_value = "auto",
     .choices = "auto|encoder|decoder|cross|memory",
     .metavar = "SIDE",
     .help = "Transformers: which attention; auto is cross if the model has it. A Neural Turing "
             "Machine: memory shows what it holds in place of its heads"},
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
     .help = "print the K largest weights of each word; with --from: of the table"},
    {.name = "from",
     .type = CLI_STRING,
     .metavar = "WORD",
     .help = "weights of this word in every head; with -o FILE drawn as lines, layer by layer"},
    {.name = "to",
     .type = CLI_STRING,
     .metavar = "WORD",
     .help = "with --from: heads ranked by the weight from one word to the other"},
    {.name = "numbers", .type = CLI_FLAG, .help = "write each weight into its cell"},
    {.name = "palette",
     .type = CLI_CHOICE,
     .default_value = "blues",
     .choices = "blues|heat|greys|diverging",
     .metavar = "NAME",
     .help = "colours of a map"},
    {.name = "range",
     .type = CLI_STRING,
     .metavar = "LOW:HIGH",
     .help = "weights of the first and the last colour; default: 0 to the largest"},
    {.name = "title", .type = CLI_STRING, .metavar = "TEXT", .help = "title of the picture"},
    {.name = "cell",
     .type = CLI_INT,
     .min = 1,
     .max = 128,
     .metavar = "PIXELS",
     .help = "size of a cell of a map; of a whole map where every head is shown"},
    {.name = "font",
     .type = CLI_PATH,
     .metavar = "FILE",
     .help = "letters of a .png from this font file, for any script"},
    {.name = "rows",
     .type = CLI_STRING,
     .metavar = "A:B",
     .help = "only queries A to B - 1: words, or tokens with --pieces, counted from 0"},
    {.name = "cols", .type = CLI_STRING, .metavar = "A:B", .help = "only keys A to B - 1"},
    {.name = "full", .type = CLI_FLAG, .help = "all weights of a long text, whatever their size"},
    {.name = "pixel",
     .type = CLI_STRING,
     .metavar = "X,Y",
     .help = "pictures: attention of this pixel; default: the class token, or the cell that gets "
             "the most attention"},
    {.name = "json",
     .type = CLI_FLAG,
     .help = "not of Transformers and translators: print the weights as one JSON object"},
    CLI_INVERT,
    CLI_ASK,
    CLI_CLASS,
    CLI_SEED,
    CLI_EXAMPLE,
    CLI_IDS,
    CLI_WEIGHTS,
    CLI_THREADS,
    CLI_DEVICE,
    CLI_MEMORY,
};

const cli_verb verb_look = {
    .name = "look",
    .about = "show the attention weights of a model",
    .notes =
        "Draws the attention of each output word over the source words: on the terminal, or "
        "as a file with -o. For a Transformer a picture shows every head of every layer, with "
        "--layer the heads of one layer, with --head one head; npz has an array [batch, "
        "heads, queries, keys] for each site. A map of more than 1024 words is reduced, each "
        "cell the maximum of a block; --rows and --cols show a part of it in full.\n\n"
        "Maps show words; if every token is one character, they show tokens. --entropy and "
        ".npz are always of tokens. Texts come as for run: from --prompt, from the command "
        "line, or one per line from --file or standard input. Of several texts, -o map.svg "
        "writes map-1.svg, map-2.svg and so on.\n\n"
        "A model that was trained on pictures takes files, PNG or JPEG: the picture with its "
        "class, then the attention of one pixel in each layer, with --layer in each head. A model "
        "that writes captions shows the picture once for each word, with its attention; one that "
        "answers questions, --ask, once for each word of the question and each map of "
        "attention.\n\n"
        "A model that draws takes no file: it shows a picture of its own, of --class and --seed, "
        "with the attention of one pixel in the generator and in the discriminator.\n\n"
        "A model of word vectors draws words in the plane of their first two principal components: "
        "the words given, or the 100 most frequent ones.\n\n"
        "One that was trained on recordings takes WAV or FLAC: a row of attention for each "
        "character or word of the output, or for each layer, above the spectrogram.\n\n"
        "For a model of bit sequences a text is \"length 12\", a generated sequence, or for "
        "copying "
        "\"10110011 01010101\": the weights of each head over the slots of its memory, its gate, "
        "shift and sharpness, from step to step; npz and --json have the numbers.\n\n"
        "An agent plays an episode that training has not seen, whose number is the text; each "
        "picture that it saw has the attention of its move, with --head that of one head.\n\n"
        "One that was trained on points takes files of points, one per line, or standard input: "
        "the tour, hull or triangulation on the plane, and the probability of each input at each "
        "step.\n\n"
        "Of a reader of stories, a map shows the hops over the sentences, with supporting "
        "sentences "
        "marked; of a walker, the path on the map and the words that it looked at in each step. "
        "--example N takes a generated story or map. Of a recommender, whose text is the number of "
        "a viewer, the ratings that each proposal looked at.",
    .words = CLI_MODEL_AND_TEXTS,
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
