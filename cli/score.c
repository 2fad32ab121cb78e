/* fovea score: BLEU and chrF of a translation against its references. */
#include "fovea/text_metric.h"

#include <string.h>

#include "input.h"
#include "options.h"
#include "output.h"

static const cli_option options[] = {
    {.name = "input",
     .letter = 'i',
     .type = CLI_PATH,
     .default_value = "-",
     .metavar = "FILE",
     .help = "the translation, one segment per line; - is standard input"},
    {.name = "metric",
     .letter = 'm',
     .type = CLI_CHOICE,
     .default_value = "bleu",
     .choices = "bleu|chrf|chrf++|all",
     .help = "what to compute"},
    {.name = "lc", .type = CLI_FLAG, .help = "compare lower-cased text"},
    {.name = "tok",
     .type = CLI_CHOICE,
     .default_value = "13a",
     .choices = "13a|char|none",
     .help = "tokenization of BLEU; none: the text is already tokenized"},
    {.name = "smooth",
     .type = CLI_CHOICE,
     .default_value = "exp",
     .choices = "exp|floor|add-k|none",
     .help = "smoothing of BLEU for n-gram orders without a match"},
    {.name = "smooth-value",
     .type = CLI_FLOAT,
     .min = 0,
     .max = 1e6,
     .metavar = "X",
     .help = "for floor (0.1) and add-k (1)"},
    {.name = "order",
     .type = CLI_INT,
     .default_value = "4",
     .min = 1,
     .max = 8,
     .metavar = "N",
     .help = "longest n-gram of BLEU"},
    {.name = "effective-order",
     .type = CLI_FLAG,
     .help = "leave out orders longer than the text; always on with --sentences"},
    {.name = "char-order",
     .type = CLI_INT,
     .default_value = "6",
     .min = 1,
     .max = 8,
     .metavar = "N",
     .help = "longest character n-gram of chrF"},
    {.name = "word-order",
     .type = CLI_INT,
     .min = 0,
     .max = 8,
     .metavar = "N",
     .help = "longest word n-gram of chrF (0; 2 in chrf++)"},
    {.name = "beta",
     .type = CLI_INT,
     .default_value = "2",
     .min = 0,
     .max = 1000,
     .metavar = "N",
     .help = "how much more recall weighs than precision in chrF"},
    {.name = "whitespace", .type = CLI_FLAG, .help = "keep white space in chrF's characters"},
    {.name = "eps-smoothing", .type = CLI_FLAG, .help = "average chrF over its orders"},
    {.name = "bootstrap",
     .type = CLI_INT,
     .default_value = "0",
     .min = 0,
     .max = 1e6,
     .metavar = "N",
     .help = "resample N times for a 95 % interval"},
    {.name = "seed",
     .type = CLI_INT,
     .default_value = "12345",
     .min = 0,
     .max = 9e15,
     .metavar = "N",
     .help = "random seed of the resampling"},
    {.name = "sentences", .type = CLI_FLAG, .help = "print the score of each segment first"},
    {.name = "width",
     .type = CLI_INT,
     .default_value = "2",
     .min = 0,
     .max = 15,
     .metavar = "N",
     .help = "digits after the decimal point"},
    {.name = "json", .type = CLI_FLAG, .help = "print one JSON object per line, with all digits"},
};

enum { MAX_SCORERS = 3 };

typedef struct session {
    const cli_call *call;
    fv_ctx *ctx;
    cli_input hypothesis, references[CLI_MAX_WORDS];
    int reference_count;
    fv_text_metric *scorers[MAX_SCORERS];
    int scorer_count;
} session;

/* ---- configuration --------------------------------------------------------------- */

/* The index of a text in an "a|b|c" list that contains it. */
static int choice_number(const char *choices, const char *text)
{
    int length;
    for (int i = 0;; i++) {
        const char *entry = cli_choice_at(choices, i, &length);
        if (!entry || (strlen(text) == (size_t)length && !strncmp(entry, text, (size_t)length)))
            return i;
    }
}

static int add_scorer(session *s, fv_text_metric_kind metric, int word_order)
{
    const cli_call *call = s->call;
    fv_text_metric_config cfg;
    fv_text_metric_config_init(&cfg, sizeof cfg, metric);
    cfg.lowercase = cli_flag(call, "lc");
    cfg.tokenizer = (fv_bleu_tokenizer)choice_number("13a|char|none", cli_text(call, "tok"));
    cfg.smooth = (fv_bleu_smoothing)choice_number("exp|floor|add-k|none", cli_text(call, "smooth"));
    if (cli_given(call, "smooth-value")) cfg.smooth_value = cli_float(call, "smooth-value");
    cfg.order = (int)cli_int(call, "order");
    cfg.effective_order = cli_flag(call, "effective-order") || cli_flag(call, "sentences");
    cfg.char_order = (int)cli_int(call, "char-order");
    cfg.word_order = cli_given(call, "word-order") ? (int)cli_int(call, "word-order") : word_order;
    cfg.beta = (int)cli_int(call, "beta");
    cfg.whitespace = cli_flag(call, "whitespace");
    cfg.eps_smoothing = cli_flag(call, "eps-smoothing");
    cfg.bootstrap_samples = (int)cli_int(call, "bootstrap");
    cfg.seed = (uint64_t)cli_int(call, "seed");
    fv_status status = fv_text_metric_create(s->ctx, &cfg, &s->scorers[s->scorer_count]);
    if (status != FV_OK) return cli_library_error("score", s->ctx, status);
    s->scorer_count++;
    return CLI_DONE;
}

static int make_scorers(session *s)
{
    const char *metric = cli_text(s->call, "metric");
    bool all = strcmp(metric, "all") == 0;
    int code = CLI_DONE;
    if (all || strcmp(metric, "bleu") == 0) code = add_scorer(s, FV_TEXT_METRIC_BLEU, 0);
    if (!code && (all || strcmp(metric, "chrf") == 0)) code = add_scorer(s, FV_TEXT_METRIC_CHRF, 0);
    if (!code && (all || strcmp(metric, "chrf++") == 0))
        code = add_scorer(s, FV_TEXT_METRIC_CHRF, 2);
    return code;
}

/* ---- output ---------------------------------------------------------------------- */

static void print_text(const fv_text_metric_result *score, const char *lead, int width)
{
    printf("%s%s|%s = %.*f", lead, score->name, score->signature, width, score->score);
    if (score->mean > 0)
        printf(" (\xce\xbc = %.*f \xc2\xb1 %.*f)", width, score->mean, width,
               score->interval_half_width);
    for (int n = 0; n < score->order; n++)
        printf("%s%.1f", n ? "/" : " ", score->precision[n]);
    if (score->order)
        printf(" (BP = %.3f ratio = %.3f hyp_len = %lld ref_len = %lld)", score->brevity_penalty,
               score->reference_length
                   ? (double)score->hypothesis_length / (double)score->reference_length
                   : 0.0,
               (long long)score->hypothesis_length, (long long)score->reference_length);
    putchar('\n');
}

static void print_json(const fv_text_metric_result *score, int64_t segment, bool sampled)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    if (segment > 0) cli_json_int(&j, "segment", segment);
    cli_json_text(&j, "name", score->name);
    cli_json_exact(&j, "score", score->score);
    cli_json_text(&j, "signature", score->signature);
    if (sampled) {
        cli_json_exact(&j, "confidence_mean", score->mean);
        cli_json_exact(&j, "confidence_var", score->interval_half_width);
    }
    if (score->order) {
        cli_json_exact(&j, "bp", score->brevity_penalty);
        cli_json_int(&j, "hyp_len", score->hypothesis_length);
        cli_json_int(&j, "ref_len", score->reference_length);
        cli_json_open(&j, "precisions", '[');
        for (int n = 0; n < score->order; n++)
            cli_json_exact(&j, NULL, score->precision[n]);
        cli_json_close(&j, ']');
        cli_json_open(&j, "counts", '[');
        for (int n = 0; n < score->order; n++)
            cli_json_int(&j, NULL, score->matched[n]);
        cli_json_close(&j, ']');
        cli_json_open(&j, "totals", '[');
        for (int n = 0; n < score->order; n++)
            cli_json_int(&j, NULL, score->total[n]);
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, '}');
}

/* `segment`: from 1; 0 for the whole. */
static void print_score(const session *s, const fv_text_metric_result *score, size_t segment)
{
    int width = (int)cli_int(s->call, "width");
    char lead[32] = "";
    if (segment > 0) cli_format(lead, sizeof lead, "%zu: ", segment);
    if (cli_flag(s->call, "json"))
        print_json(score, (int64_t)segment, segment == 0 && cli_int(s->call, "bootstrap") > 1);
    else
        print_text(score, lead, width);
}

static int print_all(session *s)
{
    for (int i = 0; i < s->scorer_count; i++) {
        fv_text_metric_result score = {.struct_size = sizeof score};
        size_t segments =
            cli_flag(s->call, "sentences") ? fv_text_metric_segment_count(s->scorers[i]) : 0;
        for (size_t k = 0; k < segments; k++) {
            fv_status status = fv_text_metric_compute_segment(s->scorers[i], k, &score);
            if (status != FV_OK) return cli_library_error("score", s->ctx, status);
            print_score(s, &score, k + 1);
        }
        fv_status status = fv_text_metric_compute(s->scorers[i], &score);
        if (status != FV_OK) return cli_library_error("score", s->ctx, status);
        print_score(s, &score, 0);
    }
    return CLI_DONE;
}

/* ---- reading --------------------------------------------------------------------- */

static int open_inputs(session *s)
{
    const char *hypothesis = cli_text(s->call, "input");
    int code = cli_input_open(s->ctx, "score", hypothesis, FV_LINES_POLICY_REJECT, &s->hypothesis);
    for (int i = 0; i < s->call->word_count && !code; i++) {
        if (strcmp(s->call->words[i], "-") == 0 && strcmp(hypothesis, "-") == 0) {
            cli_error(
                "score: standard input cannot be both translation and reference: add --input FILE");
            return CLI_USAGE;
        }
        code = cli_input_open(s->ctx, "score", s->call->words[i], FV_LINES_POLICY_REJECT,
                              &s->references[i]);
        if (!code) s->reference_count++;
    }
    return code;
}

/* Reads the next segment. *more is false when all files end here. */
static int next_segment(session *s, fv_string *hypothesis, fv_string *references, bool *more)
{
    fv_line line, reference;
    int code = cli_input_next(&s->hypothesis, &line);
    if (code) return code;
    for (int i = 0; i < s->reference_count; i++) {
        if ((code = cli_input_next(&s->references[i], &reference))) return code;
        if (!line.text != !reference.text) {
            const char *names[] = {s->hypothesis.name, s->references[i].name};
            cli_error("score: %s has more lines than %s, which ends after line %llu",
                      names[!line.text], names[!!line.text],
                      (unsigned long long)(line.text ? reference.number : line.number));
            return CLI_BAD_FILE;
        }
        references[i] = (fv_string){reference.text, reference.bytes};
    }
    *hypothesis = (fv_string){line.text, line.bytes};
    *more = line.text != NULL;
    return CLI_DONE;
}

static int count_all(session *s)
{
    bool more = true;
    while (!cli_cancelled) {
        fv_string hypothesis, references[CLI_MAX_WORDS];
        int code = next_segment(s, &hypothesis, references, &more);
        if (code || !more) return code;
        for (int i = 0; i < s->scorer_count; i++) {
            fv_status status = fv_text_metric_add(s->scorers[i], hypothesis, references,
                                                  (size_t)s->reference_count);
            if (status != FV_OK) return cli_library_error("score", s->ctx, status);
        }
    }
    return CLI_INTERRUPTED;
}

static int run(const cli_call *call)
{
    session s = {.call = call};
    int code = cli_plain_context("score", &s.ctx);
    if (code) return code;
    code = open_inputs(&s);
    if (!code) code = make_scorers(&s);
    if (!code) code = count_all(&s);
    if (!code && fv_text_metric_segment_count(s.scorers[0]) == 0) {
        cli_error("score: %s: the file is empty, expected one segment per line", s.hypothesis.name);
        code = CLI_BAD_FILE;
    }
    if (!code) code = print_all(&s);
    for (int i = 0; i < s.scorer_count; i++)
        fv_text_metric_destroy(&s.scorers[i]);
    for (int i = 0; i < s.reference_count; i++)
        cli_input_close(&s.references[i]);
    cli_input_close(&s.hypothesis);
    fv_ctx_destroy(&s.ctx);
    return code;
}

const cli_verb verb_score = {
    .name = "score",
    .about = "compute BLEU and chrF of a translation against its references",
    .notes =
        "Numbers and signatures equal sacreBLEU's, except for the version. Files hold one "
        "segment per line, plain or compressed with gzip or xz, and must have the same number of "
        "lines.",
    .words = {.metavar = "REFERENCE",
              .type = CLI_PATH,
              .min = 1,
              .max = CLI_MAX_WORDS,
              .help = "a reference; several are used together"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
