/* fovea run with a model that generates: continues prompts (decoder, LSTMN), or answers sources
 * (encoder-decoder). */
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "output.h"
#include "run.h"

enum { MAX_STOPS = 16 };

typedef struct generate_job {
    const cli_call *call;
    fv_ctx *ctx;
    fv_generator *gen;
    fv_generate_config how;
    char *stop_text; /* the texts of --stop, each NUL-terminated */
    const char *stops[MAX_STOPS];
    bool streamed;
    bool context_full; /* the note about it was printed */
    int64_t texts_done;
} generate_job;

/* ---- settings ---------------------------------------------------------------------- */

/* Splits --stop at "||" and replaces \n and \t. Returns CLI_DONE, or another code with the error
 * printed. */
static int read_stops(generate_job *w)
{
    const char *from = cli_text(w->call, "stop");
    if (!from) return CLI_DONE;
    char *to = w->stop_text = malloc(strlen(from) + 1);
    if (!to) {
        cli_error("run: out of memory");
        return CLI_FAILED;
    }
    w->stops[w->how.stop_count++] = to;
    for (; *from; from++) {
        if (from[0] == '|' && from[1] == '|') {
            if (w->how.stop_count == MAX_STOPS) {
                cli_error("run: --stop has more than %d texts", (int)MAX_STOPS);
                return CLI_USAGE;
            }
            *to++ = '\0';
            w->stops[w->how.stop_count++] = to;
            from++;
        } else if (from[0] == '\\' && (from[1] == 'n' || from[1] == 't')) {
            *to++ = *++from == 'n' ? '\n' : '\t';
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    w->how.stop = w->stops;
    return CLI_DONE;
}

/* The folder's generation settings, overridden by the command line. */
static void read_settings(generate_job *w)
{
    const cli_call *call = w->call;
    fv_generate_config_init(&w->how, sizeof w->how, fv_generator_defaults(w->gen));
    cli_read_search_options(call, &w->how.search);
    w->how.context_full = cli_flag(call, "no-context-shift") ? FV_CONTEXT_STOP : FV_CONTEXT_SHIFT;
    if (cli_given(call, "tokens")) w->how.max_tokens = cli_int(call, "tokens");
    /* In a vocabulary of words <unk> stands for a word of the text. */
    w->how.specials = !fv_generator_transformer(w->gen);
}

/* ---- results ----------------------------------------------------------------------- */

static bool print_piece(void *user, int64_t text, const char *piece, size_t bytes)
{
    (void)user;
    (void)text;
    return fwrite(piece, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
}

/* Of --json, by fv_generated_end; part of the program's interface. */
static const char *const ends[] = {"eos", "stop", "length", "context"};

static void print_json(const fv_generated_text *g, const char *prompt, int rank)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "prompt", prompt);
    cli_json_text(&j, "text", g->text);
    cli_json_int(&j, "rank", rank + 1);
    cli_json_int(&j, "tokens", g->count);
    cli_json_real(&j, "score", g->score);
    cli_json_real(&j, "log_prob", g->log_prob);
    cli_json_text(&j, "ended_by", ends[g->ended_by]);
    cli_json_open(&j, "ids", '[');
    for (int64_t i = 0; i < g->count; i++)
        cli_json_int(&j, NULL, g->tokens[i]);
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static void print_one(const generate_job *w, const char *prompt, const fv_generated_text *g,
                      int rank)
{
    if (cli_flag(w->call, "json"))
        print_json(g, prompt, rank);
    else if (w->streamed)
        printf("\n");
    else if (w->how.search.nbest > 1)
        printf("%d\t%.4f\t%s\n", rank + 1, g->score, g->text);
    else
        printf("%s\n", g->text);
}

/* Printed after the first output concerned, not for every one of them. */
static void note_full_context(generate_job *w, const fv_generated_text *g)
{
    if (!g->context_full || w->context_full) return;
    w->context_full = true;
    const bool cut = g->ended_by == FV_ENDED_BY_CONTEXT;
    fflush(stdout);
    cli_note("run: the model's context of %lld tokens was full: %s",
             (long long)fv_generator_context(w->gen),
             cut ? "the output ends there"
                 : "earlier tokens were dropped (--no-context-shift stops instead)");
}

static int generate(void *user, int64_t count, const fv_string *texts)
{
    generate_job *w = user;
    fv_generated *all = NULL;
    /* so that sampling draws the same numbers for any --batch */
    w->how.search.first_source = w->texts_done;
    const fv_search_config *search = &w->how.search;
    w->streamed = count == 1 && search->nbest == 1 && (search->sample || search->beam == 1) &&
                  !cli_flag(w->call, "json");
    w->how.on_text = w->streamed ? print_piece : NULL;
    const fv_status status = fv_generate(w->gen, count, texts, &w->how, &all);
    for (int64_t i = 0; status == FV_OK && i < count; i++) {
        const fv_generated_text *g;
        for (int n = 0; (g = fv_generated_get(all, i, n)); n++) {
            print_one(w, texts[i].text, g, n);
            note_full_context(w, g);
        }
    }
    fv_generated_free(&all);
    w->texts_done += count;
    return status == FV_OK ? CLI_DONE : cli_library_error("run", w->ctx, status);
}

int cli_run_generate(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    generate_job w = {.call = call, .ctx = ctx};
    fv_status status = fv_generator_take(model, call->words[0], cli_weight_form(call), &w.gen);
    const char *type = cli_text(call, "cache-dtype");
    if (status == FV_OK && cli_given(call, "cache-dtype") && !fv_generator_cache(w.gen)) {
        cli_error("run: --cache-dtype is for Transformers: this model has no cache of keys");
        fv_generator_close(&w.gen);
        return CLI_USAGE;
    }
    if (status == FV_OK && strcmp(type, "auto") != 0)
        status = fv_cache_set_dtype(fv_generator_cache(w.gen),
                                    strcmp(type, "bf16") == 0 ? FV_BF16 : FV_F32);
    if (status != FV_OK) {
        fv_generator_close(&w.gen);
        return cli_library_error("run", ctx, status);
    }
    read_settings(&w);
    int code = read_stops(&w);
    if (code == CLI_DONE)
        code = cli_for_each_batch(call, ctx, cli_int(call, "batch"), generate, &w);
    free(w.stop_text);
    fv_generator_close(&w.gen);
    return code;
}
