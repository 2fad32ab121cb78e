/* fovea eval MODEL SOURCES REFERENCES: how good a trained model is on texts it has not seen. */
#include "fovea/score.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "input.h"
#include "model.h"
#include "output.h"

typedef struct result {
    int64_t texts, exact;
    double seconds;
    fv_score_result bleu, chrf;
} result;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static fv_status score(fv_ctx *ctx, const cli_call *call, fv_score_metric metric,
                       const fv_parallel *pairs, const fv_translations *all, fv_score_result *out)
{
    fv_score_config cfg;
    fv_score_config_init(&cfg, sizeof cfg, metric);
    cfg.lowercase = cli_flag(call, "lc");
    fv_scorer *scorer = NULL;
    fv_status status = fv_scorer_create(ctx, &cfg, &scorer);
    for (int64_t i = 0; status == FV_OK && i < fv_parallel_count(pairs); i++) {
        const char *text = fv_translations_get(all, i, 0)->text;
        const fv_string reference = fv_parallel_target(pairs, i);
        status = fv_scorer_add(scorer, (fv_string){text, strlen(text)}, &reference, 1);
    }
    out->struct_size = sizeof *out;
    if (status == FV_OK) status = fv_scorer_finish(scorer, out);
    fv_scorer_destroy(&scorer);
    return status;
}

static fv_status translate_all(fv_translator *t, const cli_call *call, const fv_parallel *pairs,
                               fv_string *sources, fv_translations **out)
{
    fv_translate_config how;
    fv_translate_config_init(&how, sizeof how);
    how.decode.beam = (int)cli_int(call, "beam");
    how.decode.length_alpha = cli_float(call, "length-penalty");
    how.replace_unknown = cli_flag(call, "replace-unk");
    for (int64_t i = 0; i < fv_parallel_count(pairs); i++)
        sources[i] = fv_parallel_source(pairs, i);
    return fv_translate(t, fv_parallel_count(pairs), sources, &how, out);
}

static fv_status judge(fv_ctx *ctx, const cli_call *call, const fv_parallel *pairs,
                       const fv_translations *all, result *out)
{
    out->texts = fv_parallel_count(pairs);
    for (int64_t i = 0; i < out->texts; i++) {
        const char *text = fv_translations_get(all, i, 0)->text;
        const fv_string wanted = fv_parallel_target(pairs, i);
        out->exact += strlen(text) == wanted.bytes && memcmp(text, wanted.text, wanted.bytes) == 0;
    }
    const fv_status status = score(ctx, call, FV_SCORE_BLEU, pairs, all, &out->bleu);
    return status == FV_OK ? score(ctx, call, FV_SCORE_CHRF, pairs, all, &out->chrf) : status;
}

static void print(const cli_call *call, const result *r)
{
    const double exact = 100.0 * (double)r->exact / (double)r->texts;
    if (cli_flag(call, "json")) {
        cli_json j = {.to = stdout};
        cli_json_open(&j, NULL, '{');
        cli_json_int(&j, "texts", r->texts);
        cli_json_real(&j, "bleu", r->bleu.score);
        cli_json_text(&j, "bleu_signature", r->bleu.signature);
        cli_json_real(&j, "chrf", r->chrf.score);
        cli_json_text(&j, "chrf_signature", r->chrf.signature);
        cli_json_real(&j, "exact", exact);
        cli_json_real(&j, "seconds", r->seconds);
        cli_json_close(&j, '}');
        return;
    }
    printf("%-6s %6.2f   %s\n", r->bleu.name, r->bleu.score, r->bleu.signature);
    printf("%-6s %6.2f   %s\n", r->chrf.name, r->chrf.score, r->chrf.signature);
    printf("exact  %6.2f   %lld of %lld texts, %.2f s to translate\n", exact, (long long)r->exact,
           (long long)r->texts, r->seconds);
}

static fv_status evaluate(fv_ctx *ctx, const cli_call *call, fv_translator *t, fv_parallel *pairs)
{
    fv_parallel_config cfg;
    fv_parallel_config_init(&cfg, sizeof cfg);
    cfg.keep_empty = true;
    fv_status status = fv_parallel_read(pairs, call->words[1], call->words[2], &cfg, NULL);
    if (status != FV_OK || fv_parallel_count(pairs) == 0) return status;
    result r = {.texts = 0};
    fv_translations *all = NULL;
    fv_string *sources = calloc((size_t)fv_parallel_count(pairs), sizeof *sources);
    if (!sources) return FV_ERR_MEMORY;
    const double start = now();
    status = translate_all(t, call, pairs, sources, &all);
    r.seconds = now() - start;
    free(sources);
    if (status == FV_OK) status = judge(ctx, call, pairs, all, &r);
    if (status == FV_OK) print(call, &r);
    fv_translations_free(&all);
    return status;
}

static int run(const cli_call *call)
{
    int code = CLI_FAILED;
    fv_ctx *ctx = cli_context(call, 0, &code);
    if (!ctx) return code;
    fv_translator *t = NULL;
    fv_parallel *pairs = NULL;
    fv_status status = fv_translator_load(ctx, call->words[0], &t);
    if (status == FV_OK) status = fv_parallel_create(t, &pairs);
    if (status == FV_OK) status = evaluate(ctx, call, t, pairs);
    code = status == FV_OK ? CLI_DONE : cli_library_error("eval", ctx, status);
    if (status == FV_OK && fv_parallel_count(pairs) == 0) {
        cli_error("eval: '%s' has no text", call->words[1]);
        code = CLI_BAD_FILE;
    }
    fv_parallel_destroy(&pairs);
    fv_translator_destroy(&t);
    fv_ctx_destroy(&ctx);
    return code;
}

static const cli_option options[] = {
    {.name = "beam",
     .type = CLI_INT,
     .fallback = "5",
     .least = 1,
     .most = 1000,
     .metavar = "N",
     .help = "prefixes kept in the search; 1 is greedy"},
    {.name = "length-penalty",
     .type = CLI_FLOAT,
     .fallback = "1",
     .least = -10,
     .most = 10,
     .metavar = "A",
     .help = "exponent of ((5 + length) / 6)"},
    {.name = "replace-unk",
     .type = CLI_FLAG,
     .help = "put the source word that got most attention for an unknown one"},
    {.name = "lc", .type = CLI_FLAG, .help = "compare lower-cased text"},
    {.name = "json", .type = CLI_FLAG, .help = "print one JSON object"},
    CLI_THREADS,
};

const cli_verb verb_eval = {
    .name = "eval",
    .about = "score a trained model on texts and their references",
    .notes = "Prints BLEU and chrF as 'fovea score' does, and the share of texts that came out "
             "exactly as the reference.",
    .words = {.metavar = "MODEL SOURCES REFERENCES",
              .type = CLI_PATH,
              .least = 3,
              .most = 3,
              .help = "the model's folder and two files with as many lines"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
