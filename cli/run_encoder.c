/* fovea run with an encoder: fills in masks, classifies, embeds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "input.h"
#include "output.h"
#include "run.h"

enum { MAX_TOKENS = 4096, MAX_SHOWN = 100, SHOWN = 5, TOGETHER = 32 };

typedef struct work {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
    fv_tokenizer *tok;
    fv_tokenizer_encoder *enc;
    fv_ability ability;
    int32_t mask;           /* id of the mask token; -1: none */
    fv_embedding_rule rule; /* embed: how a text becomes one vector */
    bool cut;               /* a text was too long */
} work;

/* One text as model input. */
typedef struct tokens {
    int64_t ids[MAX_TOKENS];
    int64_t count;
} tokens;

static bool encode(work *w, fv_string text, tokens *out)
{
    fv_encoding e = {.struct_size = sizeof e};
    const fv_status status =
        fv_tokenizer_encode(w->enc, text.text, text.bytes, FV_TOKENIZER_ADD_SPECIALS, &e);
    if (status != FV_OK) return cli_library_error("run", w->ctx, status) == CLI_DONE;
    size_t marks = 0, count = e.count; /* marks: special tokens at the end */
    while (marks < count && e.special_tokens_mask[count - 1 - marks])
        marks++;
    const size_t limit = (size_t)w->rule.max_tokens;
    if (limit > 0 && count > limit && marks < limit) {
        count = limit;
        w->cut = true;
    }
    if (count < 1 || count > MAX_TOKENS) {
        cli_error("run: a text has %zu tokens, which is not supported", e.count);
        return false;
    }
    out->count = (int64_t)count;
    for (size_t i = 0; i < count; i++)
        out->ids[i] = e.ids[i < count - marks ? i : e.count - count + i];
    return true;
}

/* ---- masked words -------------------------------------------------------------------- */

/* The text with token `at` replaced by `id`. */
static fv_status filled(work *w, const tokens *x, int64_t at, int32_t id, fv_text *out)
{
    static int32_t ids[MAX_TOKENS];
    for (int64_t i = 0; i < x->count; i++)
        ids[i] = i == at ? id : (int32_t)x->ids[i];
    return fv_tokenizer_decode(w->ctx, w->tok, ids, (size_t)x->count, FV_TOKENIZER_SKIP_SPECIALS,
                               out);
}

static fv_status print_word(work *w, const tokens *x, int64_t at, int32_t id, double p)
{
    const fv_string token = fv_tokenizer_id_to_token(w->tok, id);
    fv_text text = {0};
    const fv_status status = filled(w, x, at, id, &text);
    if (status != FV_OK) return status;
    if (cli_flag(w->call, "json")) {
        cli_json j = {.to = stdout};
        cli_json_open(&j, NULL, '{');
        cli_json_int(&j, "place", at);
        cli_json_text(&j, "token", token.text);
        cli_json_int(&j, "id", id);
        cli_json_real(&j, "p", p);
        cli_json_text(&j, "text", text.data);
        cli_json_close(&j, '}');
    } else {
        printf("%.4f\t%s\t%s\n", p, token.text ? token.text : "", text.data ? text.data : "");
    }
    fv_text_free(w->ctx, &text);
    return FV_OK;
}

/* Logits [1, vocabulary] at one position. */
static fv_tensor *logits_at(work *w, const fv_batch *batch, int64_t at)
{
    const int64_t one = 1, *position = &at;
    const void *row = position;
    fv_batch with = *batch;
    fv_batch_add(&with,
                 (fv_field){.name = "positions", .dtype = FV_I64, .row = &row, .length = &one});
    return fv_model_kind_of(w->model)->fill_mask(w->ctx, fv_model_self(w->model), &with, NULL);
}

static fv_status fill(work *w, const tokens *x, const fv_batch *batch)
{
    fv_ctx *ctx = w->ctx;
    int64_t shown = cli_given(w->call, "top-k") ? cli_int(w->call, "top-k") : SHOWN;
    if (shown < 1 || shown > MAX_SHOWN) shown = MAX_SHOWN;
    int masks = 0;
    for (int64_t at = 0; at < x->count; at++) {
        if (x->ids[at] != w->mask) continue;
        fv_tensor *p = fv_softmax(ctx, logits_at(w, batch, at), -1), *index = NULL;
        if (fv_ctx_error(ctx) != FV_OK) return fv_ctx_error(ctx);
        const int64_t vocabulary = fv_tensor_size(p, -1);
        if (shown > vocabulary) shown = vocabulary;
        fv_tensor *top = fv_topk(ctx, p, shown, &index);
        float best[MAX_SHOWN];
        int64_t ids[MAX_SHOWN];
        fv_status status = fv_tensor_read(ctx, top, best, (size_t)shown * sizeof *best);
        if (status == FV_OK) status = fv_tensor_read(ctx, index, ids, (size_t)shown * sizeof *ids);
        for (int64_t i = 0; i < shown && status == FV_OK; i++)
            status = print_word(w, x, at, (int32_t)ids[i], (double)best[i]);
        if (status != FV_OK) return status;
        masks++;
    }
    if (masks == 0) cli_note("run: the text has no mask token to fill in");
    return FV_OK;
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

/* The most likely class, by name if the folder has names. */
static void print_class(const work *w, const char *text, const float *x, int64_t count)
{
    const char *const *names = fv_model_spec(w->model)->labels;
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (x[i] > x[best]) best = i;
    if (!cli_flag(w->call, "json")) {
        if (names)
            cli_safe_text(stdout, names[best]);
        else
            printf("%lld", (long long)best);
        printf("\t%.4f\t%s\n", (double)x[best], text);
        return;
    }
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "text", text);
    cli_json_int(&j, "class", best);
    if (names) cli_json_text(&j, "label", names[best]);
    json_numbers(&j, "classes", x, count);
    cli_json_close(&j, '}');
}

static bool classifies(const work *w) { return w->ability == FV_CAN_CLASSIFY; }
static bool of_tokens(const work *w)
{
    return classifies(w) && fv_data_spec_get(fv_model_spec(w->model), "label_tokens", 0) != 0;
}

/* Prints one row of numbers per text or, for token classes, per token of the only text. */
static fv_status print_rows(work *w, const fv_string *texts, const tokens *x, fv_tensor *t)
{
    if (fv_ctx_error(w->ctx) != FV_OK) return fv_ctx_error(w->ctx);
    const int64_t width = fv_tensor_shape(t)[fv_tensor_rank(t) - 1];
    const int64_t count = fv_tensor_count(t), rows = count / width;
    float *values = malloc((size_t)count * sizeof *values);
    if (!values) return FV_ERR_MEMORY;
    const fv_status status = fv_tensor_read(w->ctx, t, values, (size_t)count * sizeof *values);
    for (int64_t i = 0; i < rows && status == FV_OK; i++) {
        const char *text = texts[of_tokens(w) ? 0 : i].text;
        if (of_tokens(w)) {
            const int32_t id = (int32_t)x->ids[i];
            if (fv_tokenizer_is_special(w->tok, id)) continue;
            text = fv_tokenizer_id_to_token(w->tok, id).text;
        }
        (classifies(w) ? print_class : print_embedding)(w, text, values + i * width, width);
    }
    free(values);
    return status;
}

static fv_status run_task(work *w, int64_t count, const fv_string *texts, const tokens *x)
{
    fv_ctx *ctx = w->ctx;
    const int64_t *lists[TOGETHER];
    int64_t lengths[TOGETHER];
    for (int64_t i = 0; i < count; i++) {
        lists[i] = x[i].ids;
        lengths[i] = x[i].count;
    }
    const fv_sequences all = {.count = count, .tokens = lists, .length = lengths};
    const fv_batch batch = fv_batch_of_tokens(&all);
    const fv_model_kind *kind = fv_model_kind_of(w->model);
    void *self = fv_model_self(w->model);
    if (w->ability == FV_CAN_FILL) return fill(w, x, &batch);
    if (!classifies(w)) return print_rows(w, texts, x, kind->embed(ctx, self, &batch, &w->rule));
    return print_rows(w, texts, x, fv_softmax(ctx, kind->classify(ctx, self, &batch, NULL), -1));
}

/* Runs texts in batches; one by one where each prints several rows. */
static int run_texts(void *user, int64_t count, const fv_string *texts)
{
    work *w = user;
    static tokens x[TOGETHER];
    const int64_t batch = w->ability == FV_CAN_FILL || of_tokens(w) ? 1 : TOGETHER;
    fv_status status = FV_OK;
    for (int64_t done = 0, n = 0; done < count && status == FV_OK; done += n) {
        for (n = 0; n < batch && done + n < count; n++)
            if (!encode(w, texts[done + n], &x[n])) return CLI_FAILED;
        fv_scope_begin(w->ctx);
        fv_no_grad_begin(w->ctx);
        status = run_task(w, n, texts + done, x);
        fv_no_grad_end(w->ctx);
        fv_scope_end(w->ctx);
    }
    return status == FV_OK ? CLI_DONE : cli_library_error("run", w->ctx, status);
}

/* ---- what to do ---------------------------------------------------------------------- */

/* --task, or what the model has a head for; a model that fills in masks needs a mask. False: the
 * error is already printed. */
static bool choose_ability(work *w)
{
    w->ability = cli_run_ability(w->call, w->model);
    const bool automatic = strcmp(cli_text(w->call, "task"), "auto") == 0;
    const bool no_mask = w->ability == FV_CAN_FILL && w->mask < 0;
    if (automatic && no_mask) w->ability = FV_CAN_EMBED;
    if (fv_model_can(w->model, w->ability) && !(no_mask && !automatic)) return true;
    cli_error("run: the model cannot %s: it has no such head", fv_ability_name(w->ability));
    return false;
}

static fv_status prepare(work *w)
{
    const fv_model_kind *kind = fv_model_kind_of(w->model);
    fv_status status = fv_tokenizer_load(w->ctx, w->call->words[0], &w->tok);
    if (status == FV_OK) status = fv_tokenizer_encoder_create(w->ctx, w->tok, &w->enc);
    const fv_weight_form form = cli_weight_form(w->call);
    if (status == FV_OK && form != FV_WEIGHT_F32 && kind->pack)
        status = kind->pack(fv_model_self(w->model), form);
    if (status != FV_OK) return status;
    w->mask = fv_tokenizer_token_to_id(w->tok, "[MASK]", 6);
    if (w->mask < 0) w->mask = fv_tokenizer_token_to_id(w->tok, "<mask>", 6);
    return FV_OK;
}

/* The folder's rule, overridden by the command line. */
static fv_status read_rule(work *w)
{
    const fv_model_kind *kind = fv_model_kind_of(w->model);
    const int64_t positions = kind->max_length ? kind->max_length(fv_model_self(w->model)) : 0;
    const fv_status status = fv_embedding_rule_load(w->ctx, w->call->words[0], &w->rule);
    if (status != FV_OK) return status;
    if (positions > 0 && (w->rule.max_tokens == 0 || w->rule.max_tokens > positions))
        w->rule.max_tokens = positions;
    if (cli_given(w->call, "pooling"))
        w->rule.pooling =
            strcmp(cli_text(w->call, "pooling"), "first") == 0 ? FV_POOLING_FIRST : FV_POOLING_MEAN;
    if (cli_flag(w->call, "normalize")) w->rule.normalize = true;
    return FV_OK;
}

static int run_all(work *w)
{
    if (!choose_ability(w)) return CLI_USAGE;
    const fv_status status = w->ability == FV_CAN_EMBED ? read_rule(w) : FV_OK;
    if (status != FV_OK) return cli_library_error("run", w->ctx, status);
    const int code = cli_for_each_batch(w->call, w->ctx, cli_int(w->call, "batch"), run_texts, w);
    if (w->cut)
        cli_note("run: texts of more than %lld tokens were truncated",
                 (long long)w->rule.max_tokens);
    return code;
}

int cli_run_encoder(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    work w = {.call = call, .ctx = ctx, .model = *model};
    const fv_status status = prepare(&w);
    const int code = status == FV_OK ? run_all(&w) : cli_library_error("run", ctx, status);
    fv_tokenizer_encoder_destroy(&w.enc);
    fv_tokenizer_destroy(&w.tok);
    return code;
}
