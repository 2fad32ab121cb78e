/* fovea eval MODEL... SOURCES REFERENCES: BLEU, chrF and exact matches of models on texts and
 * references.
 */
#include "eval.h"

#include <stdlib.h>
#include <string.h>

#include "input.h"

/* BLEU of cased and lower-cased text: published figures use either, and the two cannot be compared.
 */
enum { MIXED_CASE, LOWER_CASE, CASES };

typedef struct result {
    int64_t texts, exact;
    fv_text_metric_result bleu[CASES], chrf;
} result;

static const eval_span every_length = {0, INT64_MAX};

static bool in_span(const fv_parallel *pairs, int64_t i, eval_span span)
{
    const int64_t words = eval_words(fv_parallel_source(pairs, i));
    return words >= span.low && words <= span.high;
}

fv_status eval_score(fv_ctx *ctx, fv_text_metric_kind metric, bool lowercase,
                     const fv_parallel *pairs, const fv_translations *all, eval_span span,
                     fv_text_metric_result *out)
{
    fv_text_metric_config cfg;
    fv_text_metric_config_init(&cfg, sizeof cfg, metric);
    cfg.lowercase = lowercase;
    fv_text_metric *scorer = NULL;
    fv_status status = fv_text_metric_create(ctx, &cfg, &scorer);
    for (int64_t i = 0; status == FV_OK && i < fv_parallel_count(pairs); i++) {
        if (!in_span(pairs, i, span)) continue;
        const char *text = fv_translations_get(all, i, 0)->text;
        const fv_string reference = fv_parallel_target(pairs, i);
        status = fv_text_metric_add(scorer, (fv_string){text, strlen(text)}, &reference, 1);
    }
    out->struct_size = sizeof *out;
    if (status == FV_OK) status = fv_text_metric_compute(scorer, out);
    fv_text_metric_destroy(&scorer);
    return status;
}

int64_t eval_exact(const fv_parallel *pairs, const fv_translations *all, eval_span span)
{
    int64_t exact = 0;
    for (int64_t i = 0; i < fv_parallel_count(pairs); i++) {
        if (!in_span(pairs, i, span)) continue;
        const char *text = fv_translations_get(all, i, 0)->text;
        const fv_string reference = fv_parallel_target(pairs, i);
        exact +=
            strlen(text) == reference.bytes && memcmp(text, reference.text, reference.bytes) == 0;
    }
    return exact;
}

static fv_status translate_all(fv_model *t, const cli_call *call, const fv_parallel *pairs,
                               fv_string *sources, fv_translations **out)
{
    fv_translate_config how;
    fv_translate_config_init(&how, sizeof how);
    how.search.beam = (int)cli_int(call, "beam");
    how.search.length_alpha = cli_float(call, "length-penalty");
    how.replace_unknown = cli_flag(call, "replace-unk");
    if (cli_int(call, "tokens") > 0) {
        how.length_ratio = 0;
        how.length_extra = cli_int(call, "tokens");
    }
    for (int64_t i = 0; i < fv_parallel_count(pairs); i++)
        sources[i] = fv_parallel_source(pairs, i);
    return fv_translate(t, fv_parallel_count(pairs), sources, &how, out);
}

static fv_status compute_metrics(fv_ctx *ctx, const cli_call *call, const fv_parallel *pairs,
                                 const fv_translations *all, result *out)
{
    fv_status status = FV_OK;
    out->texts = fv_parallel_count(pairs);
    out->exact = eval_exact(pairs, all, every_length);
    for (int lower = 0; status == FV_OK && lower < CASES; lower++)
        status = eval_score(ctx, FV_TEXT_METRIC_BLEU, lower == LOWER_CASE, pairs, all, every_length,
                            &out->bleu[lower]);
    if (status != FV_OK) return status;
    return eval_score(ctx, FV_TEXT_METRIC_CHRF, cli_flag(call, "lc"), pairs, all, every_length,
                      &out->chrf);
}

/* ---- capitals ------------------------------------------------------------------------- */

typedef struct capitals {
    bool references, translations;
} capitals;

static fv_status look_for_capitals(fv_ctx *ctx, fv_string text, fv_text *room, bool *found)
{
    if (*found) return FV_OK;
    const fv_status status = fv_text_lower(ctx, text.text, text.bytes, room);
    if (status == FV_OK)
        *found = room->bytes != text.bytes || memcmp(room->data, text.text, text.bytes) != 0;
    return status;
}

static fv_status find_capitals(fv_ctx *ctx, const fv_parallel *pairs, const fv_translations *all,
                               capitals *out)
{
    fv_text room = {0};
    fv_status status = FV_OK;
    *out = (capitals){false, false};
    for (int64_t i = 0; status == FV_OK && i < fv_parallel_count(pairs); i++) {
        const char *text = fv_translations_get(all, i, 0)->text;
        status = look_for_capitals(ctx, fv_parallel_target(pairs, i), &room, &out->references);
        if (status == FV_OK)
            status =
                look_for_capitals(ctx, (fv_string){text, strlen(text)}, &room, &out->translations);
    }
    fv_text_free(ctx, &room);
    return status;
}

/* ---- printing ------------------------------------------------------------------------- */

static double exact_share(const result *r) { return 100.0 * (double)r->exact / (double)r->texts; }

static void print_json(const cli_call *call, const eval_model *model, const result *r,
                       const capitals *found, const eval_lengths *lengths, int m)
{
    const fv_text_metric_result *asked = &r->bleu[cli_flag(call, "lc") ? LOWER_CASE : MIXED_CASE];
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "model", model->folder);
    cli_json_int(&j, "texts", r->texts);
    cli_json_real(&j, "bleu", asked->score);
    cli_json_text(&j, "bleu_signature", asked->signature);
    cli_json_real(&j, "bleu_lowercase", r->bleu[LOWER_CASE].score);
    cli_json_text(&j, "bleu_lowercase_signature", r->bleu[LOWER_CASE].signature);
    cli_json_real(&j, "bleu_cased", r->bleu[MIXED_CASE].score);
    cli_json_text(&j, "bleu_cased_signature", r->bleu[MIXED_CASE].signature);
    cli_json_bool(&j, "capitals_in_references", found->references);
    cli_json_bool(&j, "capitals_in_translations", found->translations);
    cli_json_real(&j, "chrf", r->chrf.score);
    cli_json_text(&j, "chrf_signature", r->chrf.signature);
    cli_json_real(&j, "exact", exact_share(r));
    cli_json_real(&j, "seconds", model->seconds);
    if (lengths) eval_lengths_json(lengths, m, &j);
    cli_json_close(&j, '}');
}

static void print_score(const fv_text_metric_result *score)
{
    printf("%-6s %6.2f   %s\n", score->name, score->score, score->signature);
}

static void print_text(const cli_call *call, const eval_model *model, const result *r,
                       const capitals *found, bool named)
{
    const bool lower = cli_flag(call, "lc");
    if (named) printf("%s\n", model->folder);
    print_score(&r->bleu[lower ? LOWER_CASE : MIXED_CASE]);
    if (found->references) {
        print_score(&r->bleu[lower ? MIXED_CASE : LOWER_CASE]);
        if (!found->translations) printf("%13s   the model writes no capitals\n", "");
    } else {
        printf("%13s   the references have no capitals: lower-cased or not is the same\n", "");
    }
    print_score(&r->chrf);
    printf("exact  %6.2f   %lld of %lld texts, %.2f s to translate\n", exact_share(r),
           (long long)r->exact, (long long)r->texts, model->seconds);
}

/* Prints the results of all models, after all of them have translated. */
static fv_status report(fv_ctx *ctx, const cli_call *call, const fv_parallel *pairs,
                        const eval_model *models, int count)
{
    const bool by_length = cli_given(call, "by-length"), json = cli_flag(call, "json");
    const eval_metric metric = eval_metric_of(cli_text(call, "metric"));
    const char *path = cli_text(call, "output");
    eval_lengths lengths;
    fv_status status = FV_OK;
    if (by_length)
        status = eval_lengths_find(ctx, call, pairs, models, count, cli_int(call, "by-length"),
                                   &lengths);
    for (int m = 0; status == FV_OK && m < count; m++) {
        result r;
        capitals found;
        status = compute_metrics(ctx, call, pairs, models[m].all, &r);
        if (status == FV_OK) status = find_capitals(ctx, pairs, models[m].all, &found);
        if (status != FV_OK) break;
        if (json)
            print_json(call, &models[m], &r, &found, by_length ? &lengths : NULL, m);
        else
            print_text(call, &models[m], &r, &found, count > 1);
    }
    if (status != FV_OK || !by_length) return status;
    if (!json) eval_lengths_print(&lengths, metric, models, count);
    return path ? eval_lengths_draw(ctx, &lengths, metric, models, count, path) : FV_OK;
}

/* Translates all sources with one model. */
static fv_status use(const cli_call *call, fv_model *t, const fv_parallel *pairs, eval_model *model)
{
    fv_string *sources = calloc((size_t)fv_parallel_count(pairs), sizeof *sources);
    if (!sources) return FV_ERR_MEMORY;
    const double start = cli_now();
    const fv_status status = translate_all(t, call, pairs, sources, &model->all);
    model->seconds = cli_now() - start;
    free(sources);
    return status;
}

/* The texts are read once, with the first model's tokenizers; all models translate them. */
static fv_status evaluate(fv_ctx *ctx, const cli_call *call, const fv_parallel *pairs,
                          fv_model *first)
{
    const int count = call->word_count - 2;
    eval_model models[EVAL_MAX_MODELS] = {{.folder = call->words[0]}};
    fv_status status = use(call, first, pairs, &models[0]);
    for (int m = 1; status == FV_OK && m < count; m++) {
        fv_model *t = NULL;
        models[m].folder = call->words[m];
        status = cli_open_model(ctx, call, call->words[m], &t);
        if (status == FV_OK) status = use(call, t, pairs, &models[m]);
        fv_model_close(&t);
    }
    if (status == FV_OK) status = report(ctx, call, pairs, models, count);
    for (int m = 0; m < count; m++)
        fv_translations_free(&models[m].all);
    return status;
}

static fv_status read_texts(const cli_call *call, fv_model *t, fv_parallel **pairs)
{
    fv_parallel_config cfg;
    fv_parallel_config_init(&cfg, sizeof cfg);
    cfg.keep_empty = true;
    fv_parallel_report report;
    fv_status status = fv_parallel_create(t, pairs);
    if (status == FV_OK)
        status = fv_parallel_read(*pairs, call->words[call->word_count - 2],
                                  call->words[call->word_count - 1], &cfg, &report);
    if (status == FV_OK && report.empty > 0 && report.pairs > 0)
        cli_note("eval: %lld texts with an empty source are left out", (long long)report.empty);
    return status;
}

/* True if the options fit what is evaluated: texts, or a run, which has the settings of its recipe;
 * else the error is printed. */
static bool options_apply(const cli_call *call)
{
    static const char *const of_texts[] = {"beam", "length-penalty", "tokens", "replace-unk",
                                           "lc",   "by-length",      "metric", "output"};
    const bool is_run = call->word_count == 1;
    for (size_t i = 0; is_run && i < sizeof of_texts / sizeof *of_texts; i++)
        if (cli_given(call, of_texts[i])) {
            cli_error("eval: --%s needs MODEL... SOURCES REFERENCES; a run alone is evaluated as "
                      "its recipe says",
                      of_texts[i]);
            return false;
        }
    if (!is_run && cli_given(call, "part")) {
        cli_error("eval: --part is for the folder of one run alone");
        return false;
    }
    if (cli_given(call, "output") && !cli_given(call, "by-length")) {
        cli_error("eval: --output draws metrics by length: it needs --by-length");
        return false;
    }
    return true;
}

static int run(const cli_call *call)
{
    if (!options_apply(call)) return CLI_USAGE;
    if (call->word_count == 1) return cli_eval_run(call);
    if (call->word_count == 2) {
        cli_error("eval: expected MODEL... SOURCES REFERENCES, or the folder of one run alone");
        return CLI_USAGE;
    }
    int code = CLI_DONE;
    for (int m = 0; m < call->word_count - 2 && code == CLI_DONE; m++)
        code = cli_check_model("eval", call->words[m]);
    if (code != CLI_DONE) return code;
    fv_ctx *ctx = cli_context(call, 0, &code);
    if (!ctx) return code;
    fv_look_format form; /* checked now, since translating takes long */
    const char *path = cli_text(call, "output");
    if (path &&
        (fv_look_format_from_path(ctx, path, &form) != FV_OK || form == FV_LOOK_FORMAT_TEXT)) {
        cli_error("eval: -o %s: expected a name that ends with .svg, .png or .html", path);
        fv_ctx_destroy(&ctx);
        return CLI_USAGE;
    }
    fv_model *t = NULL;
    fv_parallel *pairs = NULL;
    fv_status status = cli_open_model(ctx, call, call->words[0], &t);
    if (status == FV_OK) status = read_texts(call, t, &pairs);
    const bool any = status == FV_OK && fv_parallel_count(pairs) > 0;
    if (any) status = evaluate(ctx, call, pairs, t);
    code = status == FV_OK ? CLI_DONE : cli_library_error("eval", ctx, status);
    if (status == FV_OK && !any) {
        cli_error("eval: %s: the file is empty, expected one text per line",
                  call->words[call->word_count - 2]);
        code = CLI_BAD_FILE;
    }
    fv_parallel_destroy(&pairs);
    fv_model_close(&t);
    fv_ctx_destroy(&ctx);
    return code;
}

static const cli_option options[] = {
    CLI_BEAM("5"),
    {.name = "length-penalty",
     .type = CLI_FLOAT,
     .default_value = "1",
     .min = -10,
     .max = 10,
     .metavar = "A",
     .help = "exponent of ((5 + length) / 6)"},
    {.name = "tokens",
     .letter = 'n',
     .type = CLI_INT,
     .default_value = "0",
     .min = 0,
     .max = 1e6,
     .metavar = "N",
     .help = "maximum tokens of a translation; 0: twice the source's length plus ten"},
    CLI_REPLACE_UNK,
    {.name = "lc", .type = CLI_FLAG, .help = "lower-cased BLEU first, and lower-cased chrF"},
    {.name = "by-length",
     .type = CLI_INT,
     .min = 1,
     .max = 1000,
     .metavar = "N",
     .help = "also metrics by source length, in ranges of N words"},
    {.name = "metric",
     .type = CLI_CHOICE,
     .default_value = "bleu",
     .choices = "bleu|chrf|exact",
     .metavar = "NAME",
     .help = "metric of that table and plot"},
    {.name = "output",
     .letter = 'o',
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FILE",
     .help = "draw the metrics by length as .svg, .png or .html"},
    {.name = "part",
     .type = CLI_CHOICE,
     .default_value = "test",
     .choices = "valid|test",
     .metavar = "PART",
     .help = "of a run over pictures or recordings: which examples"},
    {.name = "json", .type = CLI_FLAG, .help = "print one JSON object per model"},
    CLI_WEIGHTS,
    CLI_THREADS,
    CLI_DEVICE,
    CLI_MEMORY,
};

const cli_verb verb_eval = {
    .name = "eval",
    .about = "compute BLEU, chrF and exact matches of models",
    .notes = "Prints BLEU, cased and lower-cased, and chrF as 'fovea score' does with the "
             "tokenizer 13a, and the share of translations that equal their reference. "
             "Several models are compared side by side. With --by-length the texts are grouped by "
             "the number of words of their source; a group of fewer than 20 texts is merged with "
             "the next shorter one.\n\n"
             "A run's folder alone is evaluated on the data of its recipe, with the metrics of its "
             "task: pictures and recordings on their test part, others on their validation data.",
    .words = {.metavar = "MODEL... [SOURCES REFERENCES]",
              .type = CLI_PATH,
              .min = 1,
              .max = EVAL_MAX_MODELS + 2,
              .help =
                  "folders of models, then two files with the same number of lines; or the folder "
                  "of one training run"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
