/* fovea run with an encoder: fills in masks, classifies, answers, embeds. */
#include <string.h>

#include "input.h"
#include "output.h"
#include "run.h"

enum { MAX_SHOWN = 100, SHOWN = 5, TOGETHER = 32 };

typedef struct work {
    const cli_call *call;
    fv_ctx *ctx;
    fv_embedder *embedder; /* one of the four */
    fv_classifier *classifier;
    fv_filler *filler;
    fv_answerer *answerer;
    bool of_tokens;   /* the classifier's classes are of tokens */
    bool pairs;       /* ... or of pairs of texts */
    bool printed;     /* words of a text: the next one's follow an empty line */
    int64_t together; /* texts in one call: what is printed before one that fails */
    bool cut;         /* a text was too long */
} work;

/* ---- masked words -------------------------------------------------------------------- */

static void print_word(const work *w, const fv_filling *x)
{
    if (cli_flag(w->call, "json")) {
        cli_json j = {.to = stdout};
        cli_json_open(&j, NULL, '{');
        cli_json_int(&j, "place", x->position);
        cli_json_text(&j, "token", x->token);
        cli_json_int(&j, "id", x->id);
        cli_json_real(&j, "p", x->p);
        cli_json_text(&j, "text", x->filled);
        cli_json_close(&j, '}');
    } else {
        printf("%.4f\t%s\t%s\n", x->p, x->token ? x->token : "", x->filled);
    }
}

static fv_status fill(work *w, int64_t count, const fv_string *texts)
{
    int64_t shown = cli_given(w->call, "top-k") ? cli_int(w->call, "top-k") : SHOWN;
    if (shown < 1 || shown > MAX_SHOWN) shown = MAX_SHOWN;
    const fv_fillings *words = NULL;
    const fv_status status = fv_fill_masks(w->filler, count, texts, shown, &words);
    for (int64_t i = 0; status == FV_OK && i < words->count; i++)
        print_word(w, &words->row[i]);
    if (status == FV_OK && words->count == 0)
        cli_note("run: the text has no mask token to fill in");
    return status;
}

/* ---- classes and embeddings ---------------------------------------------------------- */

static void json_numbers(cli_json *j, const char *name, const float *x, int64_t count)
{
    cli_json_open(j, name, '[');
    for (int64_t i = 0; i < count; i++)
        cli_json_exact(j, NULL, (double)x[i]);
    cli_json_close(j, ']');
}

static void print_embedding(const work *w, const char *text, const float *x, int64_t count)
{
    if (!cli_flag(w->call, "json")) {
        for (int64_t i = 0; i < count; i++)
            printf("%.9g%c", (double)x[i], i + 1 < count ? ' ' : '\n');
        return;
    }
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "text", text);
    json_numbers(&j, "embedding", x, count);
    cli_json_close(&j, '}');
}

static fv_status embed(work *w, int64_t count, const fv_string *texts)
{
    const fv_embeddings *x = NULL;
    const fv_status status = fv_embed_texts(w->embedder, count, texts, &x);
    for (int64_t i = 0; status == FV_OK && i < count; i++)
        print_embedding(w, texts[i].text, x->values + i * x->width, x->width);
    if (status == FV_OK && x->truncated > 0) w->cut = true;
    return status;
}

/* The most likely class, by name if the folder has names. */
static void print_class(const work *w, const char *text, const fv_classification *c,
                        int64_t classes)
{
    if (!cli_flag(w->call, "json")) {
        if (c->label)
            cli_safe_text(stdout, c->label);
        else
            printf("%lld", (long long)c->best);
        printf("\t%.4f\t%s\n", (double)c->p[c->best], text);
        return;
    }
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "text", text);
    cli_json_int(&j, "class", c->best);
    if (c->label) cli_json_text(&j, "label", c->label);
    json_numbers(&j, "classes", c->p, classes);
    cli_json_close(&j, '}');
}

static fv_status classify_pairs(work *w, int64_t count, const fv_string *texts)
{
    const fv_classifications *x = NULL;
    fv_text_pair pairs[TOGETHER];
    fv_status status = FV_OK;
    for (int64_t i = 0; i < count && status == FV_OK; i++)
        status = cli_split_pair(w->ctx, texts[i], &pairs[i]);
    if (status == FV_OK) status = fv_classify_pairs(w->classifier, count, pairs, &x);
    for (int64_t i = 0; status == FV_OK && i < x->count; i++)
        print_class(w, texts[i].text, &x->row[i], x->classes);
    return status;
}

static fv_status classify(work *w, int64_t count, const fv_string *texts)
{
    if (w->pairs) return classify_pairs(w, count, texts);
    const fv_classifications *x = NULL;
    const fv_status status = fv_classify_texts(w->classifier, count, texts, &x);
    if (status == FV_OK && w->of_tokens) {
        if (w->printed && !cli_flag(w->call, "json")) printf("\n");
        w->printed = true;
        return cli_print_words(w->call, w->ctx, texts[0].text, x->count, x->row);
    }
    for (int64_t i = 0; status == FV_OK && i < x->count; i++) {
        const fv_classification *c = &x->row[i];
        print_class(w, texts[c->text].text, c, x->classes);
    }
    return status;
}

static fv_status answer(work *w, int64_t count, const fv_string *texts)
{
    fv_status status = FV_OK;
    for (int64_t i = 0; status == FV_OK && i < count; i++)
        status = cli_print_answer(w->call, w->ctx, w->answerer, texts[i]);
    return status;
}

static int run_texts(void *user, int64_t count, const fv_string *texts)
{
    work *w = user;
    fv_status status = FV_OK;
    for (int64_t done = 0; done < count && status == FV_OK; done += w->together) {
        const int64_t n = count - done < w->together ? count - done : w->together;
        status = (w->filler       ? fill
                  : w->classifier ? classify
                  : w->answerer   ? answer
                                  : embed)(w, n, texts + done);
    }
    return status == FV_OK ? CLI_DONE : cli_library_error("run", w->ctx, status);
}

/* ---- what to do ---------------------------------------------------------------------- */

/* The folder's rule, overridden by the command line. */
static fv_status set_rule(work *w)
{
    fv_embedding_rule rule = *fv_embedder_rule(w->embedder);
    if (cli_given(w->call, "pooling"))
        rule.pooling =
            strcmp(cli_text(w->call, "pooling"), "first") == 0 ? FV_POOLING_FIRST : FV_POOLING_MEAN;
    if (cli_flag(w->call, "normalize")) rule.normalize = true;
    return fv_embedder_set_rule(w->embedder, &rule);
}

/* Opens what --task asks for, or what the model has a head for; a model that fills in masks embeds
 * if its tokenizer has no mask. */
static fv_status open_task(work *w, fv_ability ability, fv_model **model)
{
    const char *folder = w->call->words[0];
    const fv_weight_form form = cli_weight_form(w->call);
    const bool automatic = strcmp(cli_text(w->call, "task"), "auto") == 0;
    if (ability == FV_CAN_CLASSIFY) {
        w->of_tokens = fv_data_spec_get(fv_model_spec(*model), "label_tokens", 0) != 0;
        w->together = w->of_tokens ? 1 : TOGETHER;
        const fv_status status = fv_classifier_take(model, folder, form, &w->classifier);
        w->pairs = status == FV_OK &&
                   (cli_flag(w->call, "pairs") || fv_classifier_reads_pairs(w->classifier));
        return status;
    }
    if (ability == FV_CAN_ANSWER) {
        w->together = 1;
        return fv_answerer_take(model, folder, form, &w->answerer);
    }
    if (ability == FV_CAN_FILL) {
        const fv_status status = fv_filler_take(model, folder, form, &w->filler);
        w->together = 1;
        if (status != FV_ERR_UNSUPPORTED || !automatic) return status;
    }
    w->together = TOGETHER;
    const fv_status status = fv_embedder_take(model, folder, form, &w->embedder);
    return status == FV_OK ? set_rule(w) : status;
}

int cli_run_encoder(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    work w = {.call = call, .ctx = ctx};
    const fv_ability ability = cli_run_ability(call, *model);
    if (!fv_model_can(*model, ability)) {
        cli_error("run: the model cannot %s: it has no such head", fv_ability_name(ability));
        return CLI_USAGE;
    }
    const fv_status status = open_task(&w, ability, model);
    const int64_t batch = cli_int(call, "batch");
    const int code = status != FV_OK ? cli_library_error("run", ctx, status)
                     : w.pairs       ? cli_for_each_pair(call, ctx, batch, run_texts, &w)
                                     : cli_for_each_batch(call, ctx, batch, run_texts, &w);
    if (w.cut)
        cli_note("run: texts of more than %lld tokens were truncated",
                 (long long)fv_embedder_rule(w.embedder)->max_tokens);
    fv_embedder_close(&w.embedder);
    fv_classifier_close(&w.classifier);
    fv_filler_close(&w.filler);
    fv_answerer_close(&w.answerer);
    return code;
}
