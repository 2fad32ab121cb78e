/* fovea run MODEL [TEXT ...]: translates texts from the command line, a file or a pipe. */
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "model.h"
#include "output.h"

/* Texts that are translated together: enough for full batches, few enough to keep a pipe moving. */
enum { TOGETHER = 512 };

typedef struct work {
    const cli_call *call;
    fv_ctx *ctx;
    fv_translator *translator;
    fv_translate_config how;
    int64_t done;
} work;

static void settings_of(const cli_call *call, fv_translate_config *how)
{
    fv_translate_config_init(how, sizeof *how);
    how->decode.beam = (int)cli_int(call, "beam");
    how->decode.nbest = (int)cli_int(call, "nbest");
    how->decode.length_alpha = cli_float(call, "length-penalty");
    how->decode.coverage_beta = cli_float(call, "coverage-penalty");
    how->decode.sample = cli_flag(call, "sample");
    how->decode.temperature = cli_float(call, "temp");
    how->decode.top_k = cli_int(call, "top-k");
    how->decode.top_p = cli_float(call, "top-p");
    how->decode.seed = (uint64_t)cli_int(call, "seed");
    how->decode.want_weights = cli_flag(call, "json") || cli_flag(call, "pharaoh");
    how->batch = cli_int(call, "batch");
    how->replace_unknown = cli_flag(call, "replace-unk");
}

/* ---- results --------------------------------------------------------------------- */

static void print_json(const fv_translation *t, const char *source, int rank)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "source", source);
    cli_json_text(&j, "text", t->text);
    cli_json_int(&j, "rank", rank + 1);
    cli_json_real(&j, "score", t->score);
    cli_json_real(&j, "log_prob", t->log_prob);
    cli_json_bool(&j, "ended", t->ended);
    if (t->weights) {
        cli_json_open(&j, "source_tokens", '[');
        for (int64_t i = 0; i < t->source_count; i++)
            cli_json_text(&j, NULL, t->source_tokens[i]);
        cli_json_close(&j, ']');
        cli_json_open(&j, "target_tokens", '[');
        for (int64_t i = 0; i < t->target_count; i++)
            cli_json_text(&j, NULL, t->target_tokens[i]);
        cli_json_close(&j, ']');
        cli_json_open(&j, "alignment", '[');
        for (int64_t r = 0; r < t->target_count + (t->ended ? 1 : 0); r++) {
            cli_json_open(&j, NULL, '[');
            for (int64_t c = 0; c < t->source_count; c++)
                cli_json_real(&j, NULL, (double)t->weights[r * t->source_count + c]);
            cli_json_close(&j, ']');
        }
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, '}');
}

static void print_one(const work *w, const char *source, const fv_translation *t, int rank)
{
    if (cli_flag(w->call, "json"))
        print_json(t, source, rank);
    else if (cli_flag(w->call, "pharaoh"))
        cli_print_pharaoh(t);
    else if (w->how.decode.nbest > 1)
        printf("%d\t%.4f\t%s\n", rank + 1, t->score, t->text);
    else
        printf("%s\n", t->text);
}

static fv_status translate(work *w, int64_t count, const fv_string *sources)
{
    fv_translations *all = NULL;
    w->how.decode.first_source = w->done;
    const fv_status status = fv_translate(w->translator, count, sources, &w->how, &all);
    for (int64_t i = 0; status == FV_OK && i < count; i++) {
        const fv_translation *t;
        for (int n = 0; (t = fv_translations_get(all, i, n)); n++)
            print_one(w, sources[i].text, t, n);
    }
    fv_translations_free(&all);
    w->done += count;
    return status;
}

/* ---- sources --------------------------------------------------------------------- */

static int translate_words(work *w)
{
    fv_string sources[CLI_MAX_WORDS];
    const int count = w->call->word_count - 1;
    for (int i = 0; i < count; i++)
        sources[i] = (fv_string){w->call->words[i + 1], strlen(w->call->words[i + 1])};
    const fv_status status = translate(w, count, sources);
    return status == FV_OK ? CLI_DONE : cli_library_error("run", w->ctx, status);
}

typedef struct waiting {
    fv_string line[TOGETHER];
    int64_t count;
} waiting;

static int flush_lines(work *w, waiting *lines)
{
    const fv_status status = lines->count ? translate(w, lines->count, lines->line) : FV_OK;
    for (int64_t i = 0; i < lines->count; i++)
        free((void *)(uintptr_t)lines->line[i].text);
    lines->count = 0;
    fflush(stdout);
    return status == FV_OK ? CLI_DONE : cli_library_error("run", w->ctx, status);
}

static int take_line(waiting *lines, const fv_line *line)
{
    char *copy = malloc(line->bytes + 1);
    if (!copy) {
        cli_error("run: out of memory");
        return CLI_FAILED;
    }
    memcpy(copy, line->text, line->bytes + 1);
    lines->line[lines->count++] = (fv_string){copy, line->bytes};
    return CLI_DONE;
}

static int translate_lines(work *w, const char *path)
{
    static waiting lines;
    cli_input in;
    int code = cli_input_open(w->ctx, "run", path, FV_LINES_REFUSE, &in);
    while (!code) {
        fv_line line;
        code = cli_input_next(&in, &line);
        if (code || !line.text) break;
        code = take_line(&lines, &line);
        if (!code && lines.count == TOGETHER) code = flush_lines(w, &lines);
    }
    const int rest = flush_lines(w, &lines);
    cli_input_close(&in);
    return code ? code : rest;
}

static int run(const cli_call *call)
{
    int code = CLI_FAILED;
    work w = {.call = call};
    if (cli_given(call, "ids")) return cli_run_ids(call);
    if (!(w.ctx = cli_context(call, 0, &code))) return code;
    settings_of(call, &w.how);
    const fv_status status = fv_translator_load(w.ctx, call->words[0], &w.translator);
    if (status != FV_OK)
        code = cli_library_error("run", w.ctx, status);
    else if (call->word_count > 1)
        code = translate_words(&w);
    else
        code = translate_lines(&w, cli_text(call, "file"));
    fv_translator_destroy(&w.translator);
    fv_ctx_destroy(&w.ctx);
    return code;
}

static const cli_option options[] = {
    {.name = "file",
     .letter = 'f',
     .type = CLI_PATH,
     .fallback = "-",
     .metavar = "FILE",
     .help = "texts, one a line, when none are given; - is standard input"},
    {.name = "beam",
     .type = CLI_INT,
     .fallback = "1",
     .least = 1,
     .most = 1000,
     .metavar = "N",
     .help = "prefixes kept in the search; 1 is greedy"},
    {.name = "nbest",
     .type = CLI_INT,
     .fallback = "1",
     .least = 1,
     .most = 1000,
     .metavar = "N",
     .help = "outputs for each text, with rank and score"},
    {.name = "length-penalty",
     .type = CLI_FLOAT,
     .fallback = "0",
     .least = -10,
     .most = 10,
     .metavar = "A",
     .help = "exponent of ((5 + length) / 6)"},
    {.name = "coverage-penalty",
     .type = CLI_FLOAT,
     .fallback = "0",
     .least = 0,
     .most = 100,
     .metavar = "B",
     .help = "weight of source words that got no attention"},
    {.name = "sample", .type = CLI_FLAG, .help = "draw outputs instead of searching"},
    {.name = "temp",
     .type = CLI_FLOAT,
     .fallback = "1",
     .least = 0.01,
     .most = 100,
     .metavar = "T",
     .help = "temperature of drawing"},
    {.name = "top-k",
     .type = CLI_INT,
     .fallback = "0",
     .least = 0,
     .most = 1e9,
     .metavar = "K",
     .help = "draw from the K likeliest tokens; 0: all"},
    {.name = "top-p",
     .type = CLI_FLOAT,
     .fallback = "1",
     .least = 0.0001,
     .most = 1,
     .metavar = "P",
     .help = "draw from the smallest set with mass P"},
    {.name = "seed",
     .letter = 's',
     .type = CLI_INT,
     .fallback = "1",
     .least = 0,
     .most = 1e15,
     .metavar = "N",
     .help = "of drawing"},
    {.name = "replace-unk",
     .type = CLI_FLAG,
     .help = "put the source word that got most attention for an unknown one"},
    {.name = "pharaoh", .type = CLI_FLAG, .help = "print alignments, source-target from 0"},
    {.name = "json", .type = CLI_FLAG, .help = "print one object an output, with its alignment"},
    {.name = "batch",
     .type = CLI_INT,
     .fallback = "64",
     .least = 1,
     .most = 100000,
     .metavar = "N",
     .help = "texts decoded together; changes no result"},
    {.name = "ids",
     .type = CLI_PATH,
     .metavar = "FILE",
     .help = "tokens as .npy, [batch, length]: one pass of a Transformer, for --logits"},
    {.name = "decoder-ids",
     .type = CLI_PATH,
     .metavar = "FILE",
     .help = "with --ids: tokens of the decoder"},
    {.name = "mask", .type = CLI_PATH, .metavar = "FILE", .help = "with --ids: 0 hides a token"},
    {.name = "type-ids",
     .type = CLI_PATH,
     .metavar = "FILE",
     .help = "with --ids: kinds of token (sentence A, B)"},
    {.name = "logits",
     .type = CLI_PATH,
     .metavar = "FILE",
     .help = "with --ids: where the logits go, .npy [batch, length, vocabulary]"},
    CLI_THREADS,
};

const cli_verb verb_run = {
    .name = "run",
    .about = "run a trained model on texts",
    .notes = "MODEL is a folder made by 'fovea train'. Texts come from the command line, or one a "
             "line from --file or standard input.",
    .words = {.metavar = "MODEL [TEXT ...]",
              .type = CLI_PATH,
              .least = 1,
              .most = CLI_MAX_WORDS,
              .help = "the model's folder, and texts"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
