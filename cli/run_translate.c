/* fovea run with a translator: texts to translations, with their alignments. */
#include "input.h"
#include "output.h"
#include "run.h"

enum { TOGETHER = 512 }; /* texts sorted by length for batches */

typedef struct work {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
    fv_translate_config how;
    int64_t done;
} work;

static void settings_of(const cli_call *call, fv_translate_config *how)
{
    fv_translate_config_init(how, sizeof *how);
    how->search.length_alpha = cli_float(call, "length-penalty"); /* the same default as eval's */
    cli_read_search_options(call, &how->search);
    how->search.coverage_beta = cli_float(call, "coverage-penalty");
    if (cli_int(call, "tokens") > 0) {
        how->length_ratio = 0;
        how->length_extra = cli_int(call, "tokens");
    }
    how->search.want_weights = cli_flag(call, "json") || cli_flag(call, "pharaoh");
    how->search.no_scores = !cli_flag(call, "json") && how->search.nbest == 1;
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
    else if (w->how.search.nbest > 1)
        printf("%d\t%.4f\t%s\n", rank + 1, t->score, t->text);
    else
        printf("%s\n", t->text);
}

static int translate(void *user, int64_t count, const fv_string *sources)
{
    work *w = user;
    fv_translations *all = NULL;
    w->how.search.first_source = w->done;
    const fv_status status = fv_translate(w->model, count, sources, &w->how, &all);
    for (int64_t i = 0; status == FV_OK && i < count; i++) {
        const fv_translation *t;
        for (int n = 0; (t = fv_translations_get(all, i, n)); n++)
            print_one(w, sources[i].text, t, n);
    }
    fv_translations_free(&all);
    w->done += count;
    return status == FV_OK ? CLI_DONE : cli_library_error("run", w->ctx, status);
}

int cli_run_translate(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    work w = {.call = call, .ctx = ctx, .model = *model};
    settings_of(call, &w.how);
    return cli_for_each_batch(call, ctx, TOGETHER, translate, &w);
}
