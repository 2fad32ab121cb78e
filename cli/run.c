/* fovea run MODEL [TEXT ...]: translates, generates, fills in masks, classifies, answers or embeds
 * texts of the command line, a file or a pipe. */
#include "run.h"

#include <string.h>

#include "bits.h"
#include "drawing.h"
#include "example.h"
#include "input.h"
#include "media.h"
#include "output.h"
#include "points.h"
#include "shots.h"

fv_weight_form cli_weight_form(const cli_call *call)
{
    const char *type = cli_text(call, "dtype");
    if (strcmp(type, "bf16") == 0) return FV_WEIGHT_BF16;
    return strcmp(type, "int8") == 0 ? FV_WEIGHT_I8 : FV_WEIGHT_F32;
}

void cli_read_search_options(const cli_call *call, fv_search_config *d)
{
    static const char *const drawing[] = {"sample", "temp", "top-k", "top-p", "min-p"};
    for (size_t i = 0; i < sizeof drawing / sizeof *drawing; i++)
        if (cli_given(call, drawing[i])) d->sample = true;
    if (cli_given(call, "beam")) d->beam = (int)cli_int(call, "beam");
    if (cli_given(call, "temp")) d->temperature = cli_float(call, "temp");
    if (d->temperature == 0) {
        d->sample = false;
        d->temperature = 1;
    }
    if (cli_given(call, "top-k")) d->top_k = cli_int(call, "top-k");
    if (cli_given(call, "top-p")) d->top_p = cli_float(call, "top-p");
    if (cli_given(call, "min-p")) d->min_p = cli_float(call, "min-p");
    if (cli_given(call, "repeat-penalty"))
        d->repetition_penalty = cli_float(call, "repeat-penalty");
    if (cli_given(call, "no-repeat-ngram")) d->no_repeat_ngram = cli_int(call, "no-repeat-ngram");
    if (cli_given(call, "min-tokens")) d->min_tokens = cli_int(call, "min-tokens");
    if (cli_given(call, "length-penalty")) d->length_alpha = cli_float(call, "length-penalty");
    d->nbest = (int)cli_int(call, "nbest");
    d->seed = (uint64_t)cli_int(call, "seed");
}

/* ---- what the model can do, and how it is run ----------------------------------------- */

/* How each ability is run; NULL: this program does not run it. */
static int (*const runners[FV_ABILITY_COUNT])(const cli_call *, fv_ctx *, fv_model **) = {
    [FV_CAN_TRANSLATE] = cli_run_translate, [FV_CAN_GENERATE] = cli_run_generate,
    [FV_CAN_FILL] = cli_run_encoder,        [FV_CAN_CLASSIFY] = cli_run_encoder,
    [FV_CAN_EMBED] = cli_run_encoder,       [FV_CAN_ANSWER] = cli_run_encoder,
    [FV_CAN_PREDICT] = cli_run_bits,        [FV_CAN_ACT] = cli_run_play,
    [FV_CAN_DRAW] = cli_run_draw,           [FV_CAN_RELATE] = cli_run_words,
    [FV_CAN_RATE] = cli_run_recommend,      [FV_CAN_LEARN] = cli_run_shots,
};

static unsigned bit(fv_ability ability) { return 1u << ability; }

fv_ability cli_run_ability(const cli_call *call, const fv_model *model)
{
    const char *task = cli_text(call, "task");
    const fv_ability main = fv_model_spec(model)->ability;
    for (int i = 0; i < FV_ABILITY_COUNT; i++)
        if (strcmp(task, fv_ability_name((fv_ability)i)) == 0) return (fv_ability)i;
    return main;
}

/* Which runner: a translator also answers to "generate", and an encoder-decoder with one tokenizer
 * generates its translations. */
static fv_ability runner_of(const cli_call *call, const fv_model *model)
{
    const fv_ability asked = cli_run_ability(call, model), main = fv_model_spec(model)->ability;
    const bool writes = asked == FV_CAN_TRANSLATE || asked == FV_CAN_GENERATE;
    return writes && (main == FV_CAN_TRANSLATE || main == FV_CAN_GENERATE) ? main : asked;
}

/* True if the model can do what --task asks for; else the error is printed. */
static bool can(const cli_call *call, const fv_model *model)
{
    const fv_ability asked = cli_run_ability(call, model);
    const bool head = asked == FV_CAN_FILL || asked == FV_CAN_CLASSIFY || asked == FV_CAN_ANSWER;
    const bool encoder = fv_model_can(model, FV_CAN_EMBED);
    /* an encoder without that head gets a message of its own */
    if (fv_model_can(model, asked) || (head && encoder) ||
        (asked == FV_CAN_GENERATE && fv_model_can(model, FV_CAN_TRANSLATE)))
        return true;
    cli_error("run: a %s model does not %s", fv_model_type(model), fv_ability_name(asked));
    return false;
}

/* The given option that is for another kind of input; NULL: none. */
static const char *unfit_for_input(const cli_call *call, const fv_model *model)
{
    static const char *const of_texts[] = {"dtype", "pooling", "normalize", "pairs"};
    const cli_file_kind reads = cli_model_reads(model);
    const bool draws = fv_model_spec(model)->ability == FV_CAN_DRAW;
    if (cli_given(call, "invert") && (reads != CLI_FILE_PICTURE || draws)) return "invert";
    for (size_t i = 0; reads != CLI_FILE_OTHER && i < sizeof of_texts / sizeof *of_texts; i++)
        if (cli_given(call, of_texts[i])) return of_texts[i];
    return NULL;
}

/* True if every given option applies to the model; else the error is printed. */
static bool options_apply(const cli_call *call, const fv_model *model)
{
    enum {
        TRANSLATOR = 1 << FV_CAN_TRANSLATE,
        WRITER = 1 << FV_CAN_GENERATE,
        WORDS = 1 << FV_CAN_RELATE,
        SEARCHER = TRANSLATOR | WRITER | 1 << FV_CAN_DESCRIBE,
        DRAWER = 1 << FV_CAN_DRAW,
        FINDER = SEARCHER | 1 << FV_CAN_POINT,
        CLASSIFIER = 1 << FV_CAN_CLASSIFY,
        ENCODER = 1 << FV_CAN_FILL | 1 << FV_CAN_CLASSIFY | 1 << FV_CAN_EMBED | 1 << FV_CAN_ANSWER
    };
    static const struct {
        const char *option;
        unsigned abilities;
    } only[] = {{"pharaoh", TRANSLATOR},
                {"replace-unk", TRANSLATOR},
                {"coverage-penalty", TRANSLATOR},
                {"stop", WRITER},
                {"no-context-shift", WRITER},
                {"dtype", WRITER | ENCODER},
                {"cache-dtype", WRITER},
                {"compute-dtype", WRITER},
                {"pooling", ENCODER},
                {"normalize", ENCODER},
                {"pairs", CLASSIFIER},
                {"tokens", SEARCHER | WORDS},
                {"minus", WORDS},
                {"beam", FINDER},
                {"nbest", FINDER},
                {"length-penalty", SEARCHER},
                {"sample", SEARCHER},
                {"temp", SEARCHER},
                {"top-p", SEARCHER},
                {"min-p", SEARCHER},
                {"repeat-penalty", SEARCHER},
                {"no-repeat-ngram", SEARCHER},
                {"min-tokens", SEARCHER},
                {"top-k", SEARCHER | ENCODER},
                {"json", (unsigned)~DRAWER},
                {"output", DRAWER},
                {"count", DRAWER},
                {"class", DRAWER},
                {"interpolate", DRAWER}};
    const char *unfit = unfit_for_input(call, model);
    for (size_t i = 0; !unfit && i < sizeof only / sizeof *only; i++)
        if (cli_given(call, only[i].option) && !(only[i].abilities & bit(runner_of(call, model))))
            unfit = only[i].option;
    if (unfit) cli_error("run: --%s does not apply to a %s model", unfit, fv_model_type(model));
    return !unfit;
}

/* Sets what layers compute in; false: the error is printed. */
static bool set_compute(const cli_call *call, fv_ctx *ctx)
{
    if (strcmp(cli_text(call, "compute-dtype"), "bf16") != 0) return true;
    if (cli_weight_form(call) == FV_WEIGHT_F32) {
        cli_error("run: --compute-dtype bf16 needs --dtype bf16 or int8");
        return false;
    }
    return fv_ctx_set_compute(ctx, FV_BF16) == FV_OK;
}

static int run_model(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    if (!can(call, *model) || !options_apply(call, *model) || !cli_check_ask(call, *model) ||
        !cli_example_applies(call, "run", *model) || !set_compute(call, ctx))
        return CLI_USAGE;
    if (cli_has_examples(*model)) return cli_run_example(call, ctx, *model);
    if (cli_model_reads(*model) == CLI_FILE_POINTS) return cli_run_points(call, ctx, *model);
    const fv_ability ability = runner_of(call, *model);
    if (cli_model_reads(*model) != CLI_FILE_OTHER && ability != FV_CAN_DRAW)
        return cli_run_media(call, ctx, *model);
    if (runners[ability]) return runners[ability](call, ctx, model);
    cli_error("run: a %s model can %s, but 'fovea run' does not support that",
              fv_model_type(*model), fv_ability_name(ability));
    return CLI_MISSING;
}

static int run(const cli_call *call)
{
    int code = cli_check_model("run", call->words[0]);
    fv_model *model = NULL;
    if (code != CLI_DONE) return code;
    if (cli_given(call, "ids")) return cli_run_ids(call);
    const int64_t nbest = cli_int(call, "nbest");
    if (nbest > cli_int(call, "beam") && !cli_flag(call, "sample")) {
        cli_error("run: --nbest %lld needs --beam %lld or more, or --sample", (long long)nbest,
                  (long long)nbest);
        return CLI_USAGE;
    }
    fv_ctx *ctx = cli_context(call, 0, &code);
    if (!ctx) return code;
    const fv_status status = cli_open_model(ctx, call, call->words[0], &model);
    code = status == FV_OK ? run_model(call, ctx, &model) : cli_library_error("run", ctx, status);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
    return code;
}

static const cli_option options[] = {
    CLI_TEXTS,
    {.name = "task",
     .type = CLI_CHOICE,
     .default_value = "auto",
     .choices = "auto|generate|translate|fill|classify|answer|embed",
     .metavar = "TASK",
     .help = "what to do with the texts; auto: what the model was trained for"},
    {.name = "dtype",
     .type = CLI_CHOICE,
     .default_value = "fp32",
     .choices = "fp32|bf16|int8",
     .metavar = "TYPE",
     .help = "data type of a Transformer's weights in memory"},
    {.name = "cache-dtype",
     .type = CLI_CHOICE,
     .default_value = "auto",
     .choices = "auto|fp32|bf16",
     .metavar = "TYPE",
     .help = "data type of cached keys and values; auto: what the device prefers, fp32 on the CPU"},
    {.name = "compute-dtype",
     .type = CLI_CHOICE,
     .default_value = "fp32",
     .choices = "fp32|bf16",
     .metavar = "TYPE",
     .help =
         "data type of activations; bf16, with --dtype bf16 or int8: faster prompts and batches "
         "on CPUs with AVX512_BF16 or AMX"},
    {.name = "tokens",
     .letter = 'n',
     .type = CLI_INT,
     .default_value = "0",
     .min = 0,
     .max = 1e9,
     .metavar = "N",
     .help =
         "maximum number of new tokens; 0: as in the model's files, else its context; translators: "
         "twice the source's length plus ten; vectors of words: number of nearest words, 10"},
    CLI_BEAM("1"),
    {.name = "nbest",
     .type = CLI_INT,
     .default_value = "1",
     .min = 1,
     .max = 1000,
     .metavar = "N",
     .help = "outputs for each text, with rank and score"},
    {.name = "length-penalty",
     .type = CLI_FLOAT,
     .default_value = "1",
     .min = -10,
     .max = 10,
     .metavar = "A",
     .help = "beam search: exponent of ((5 + length) / 6); Hugging Face folders: of the length"},
    {.name = "coverage-penalty",
     .type = CLI_FLOAT,
     .default_value = "0",
     .min = 0,
     .max = 100,
     .metavar = "B",
     .help = "penalty weight of source words without attention"},
    {.name = "sample", .type = CLI_FLAG, .help = "sample instead of searching"},
    {.name = "temp",
     .type = CLI_FLOAT,
     .default_value = "1",
     .min = 0,
     .max = 100,
     .metavar = "T",
     .help = "temperature of sampling; 0: the most likely token"},
    {.name = "top-k",
     .type = CLI_INT,
     .default_value = "0",
     .min = 0,
     .max = 1e9,
     .metavar = "K",
     .help =
         "sample from the K most likely tokens; 0: all; pictures and recordings: print K classes"},
    {.name = "top-p",
     .type = CLI_FLOAT,
     .default_value = "1",
     .min = 0.0001,
     .max = 1,
     .metavar = "P",
     .help = "sample from the smallest set of tokens with probability P"},
    {.name = "min-p",
     .type = CLI_FLOAT,
     .default_value = "0",
     .min = 0,
     .max = 1,
     .metavar = "P",
     .help = "sample from tokens with at least P times the highest probability"},
    {.name = "repeat-penalty",
     .type = CLI_FLOAT,
     .default_value = "1",
     .min = 0.01,
     .max = 100,
     .metavar = "R",
     .help = "divisor of the logits of tokens already generated"},
    {.name = "no-repeat-ngram",
     .type = CLI_INT,
     .default_value = "0",
     .min = 0,
     .max = 1e6,
     .metavar = "N",
     .help = "do not repeat any N tokens in a row; 0: off"},
    {.name = "min-tokens",
     .type = CLI_INT,
     .default_value = "0",
     .min = 0,
     .max = 1e9,
     .metavar = "N",
     .help = "minimum number of new tokens"},
    {.name = "stop",
     .type = CLI_STRING,
     .metavar = "TEXT",
     .help = "text that ends an output; several separated by ||; \\n is a line break"},
    {.name = "no-context-shift",
     .type = CLI_FLAG,
     .help = "when the model's context is full, end the output instead of dropping the older half "
             "of its tokens"},
    {.name = "pooling",
     .type = CLI_CHOICE,
     .choices = "mean|first",
     .metavar = "WHAT",
     .help = "embed: mean of the tokens, or the first token; default: as in the folder, else mean"},
    {.name = "minus",
     .type = CLI_STRING,
     .metavar = "WORDS",
     .help = "vectors of words: subtract these from the sum of the words (king woman --minus man)"},
    {.name = "normalize", .type = CLI_FLAG, .help = "embed: vectors of length 1"},
    {.name = "pairs",
     .type = CLI_FLAG,
     .help = "classify: each text is two with a tab between them; models that were trained on "
             "pairs do so by themselves, and take two words as a pair"},
    CLI_SEED,
    {.name = "output",
     .letter = 'o',
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FILE",
     .help = "models that draw: write the pictures as a grid (.png, .svg, .pdf, .html, .txt)"},
    {.name = "count",
     .type = CLI_INT,
     .min = 1,
     .max = 4096,
     .metavar = "N",
     .help = "models that draw: pictures of each class; default: a row of 10, without classes 64"},
    CLI_CLASS,
    {.name = "interpolate",
     .type = CLI_FLAG,
     .help = "models that draw: each row leads from one picture to another in --count steps"},
    CLI_REPLACE_UNK,
    CLI_PHARAOH,
    {.name = "json",
     .type = CLI_FLAG,
     .help = "print one JSON object per output, with its alignment"},
    CLI_INVERT,
    CLI_ASK,
    {.name = "batch",
     .type = CLI_INT,
     .default_value = "64",
     .min = 1,
     .max = 100000,
     .metavar = "N",
     .help = "texts decoded together; changes no result"},
    CLI_EXAMPLE,
    CLI_IDS,
    {.name = "logits",
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FILE",
     .help = "with --ids: where the logits go, .npy [batch, length, vocabulary]; of an encoder "
             "without a head its last states"},
    CLI_WEIGHTS,
    CLI_THREADS,
    CLI_DEVICE,
    CLI_MEMORY,
};

const cli_verb verb_run = {
    .name = "run",
    .about = "run a model on texts",
    .notes =
        "MODEL is a folder made by 'fovea train' or a Hugging Face folder (gpt2, llama, marian, "
        "bart, t5, bert, distilbert, roberta). Texts come from --prompt, from the command line, or "
        "one per line from --file or standard input. A decoder or LSTMN continues a text; "
        "translators "
        "and encoder-decoders answer it; an encoder fills in masks, classifies the text or its "
        "words, "
        "or embeds it. A model for question answering reads a question, a tab and the context that "
        "has the answer. A model of word vectors (word2vec) prints the nearest words of each word; "
        "with --minus, those of the sum of all words minus others.\n\n"
        "A model that was trained on pictures or recordings reads files in place of texts, PNG or "
        "JPEG, WAV or FLAC, and prints the most likely classes (--top-k of them) with their "
        "probabilities, or the text that it writes. A model that was trained on questions about "
        "pictures needs one, --ask, and prints its answer.\n\n"
        "An agent plays episodes of its game that training has not seen; the words are their "
        "numbers, from 0. A model that draws takes no text: it shows pictures of its own, on the "
        "terminal or, with -o, in a file. A model that was trained on points reads files of "
        "points, "
        "one per line, or standard input, and prints the inputs it points at.\n\n"
        "A reader of stories answers the questions of a text (\"mary went to the garden. where is "
        "mary?\"), or of a generated story with --example. A walker follows the instruction of a "
        "generated map, --example N, or another one that is given as text. A recommender proposes "
        "movies to generated viewers; the words are their numbers.",
    .words = CLI_MODEL_AND_TEXTS,
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
