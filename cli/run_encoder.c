/* fovea run with an encoder: fills in masks, names classes, embeds texts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "input.h"
#include "output.h"
#include "run.h"

enum { MOST_TOKENS = 4096, MOST_SHOWN = 100, SHOWN = 5 };

typedef struct work {
    const cli_call *call;
    fv_ctx *ctx;
    fv_transformer *t;
    fv_tokenizer *tok;
    fv_encoder *enc;
    const char *task;
    int32_t mask; /* the token that is to be filled in; -1: none */
} work;

/* One text as a pass reads it. */
typedef struct tokens {
    int64_t ids[MOST_TOKENS];
    int64_t count;
} tokens;

static bool encode(work *w, fv_string text, tokens *out)
{
    fv_encoding e = {.struct_size = sizeof e};
    const fv_status status = fv_encode(w->enc, text.text, text.bytes, FV_ENCODE_SPECIALS, &e);
    if (status != FV_OK) return cli_library_error("run", w->ctx, status) == CLI_DONE;
    if (e.count < 1 || e.count > MOST_TOKENS) {
        cli_error("run: a text of %zu tokens", e.count);
        return false;
    }
    out->count = (int64_t)e.count;
    for (size_t i = 0; i < e.count; i++)
        out->ids[i] = e.ids[i];
    return true;
}

/* ---- masked words -------------------------------------------------------------------- */

/* The text with `id` in the place of token `at`. */
static fv_status filled(work *w, const tokens *x, int64_t at, int32_t id, fv_text *out)
{
    static int32_t ids[MOST_TOKENS];
    for (int64_t i = 0; i < x->count; i++)
        ids[i] = i == at ? id : (int32_t)x->ids[i];
    return fv_tokenizer_decode(w->ctx, w->tok, ids, (size_t)x->count, FV_DECODE_SKIP_SPECIALS, out);
}

static fv_status print_word(work *w, const tokens *x, int64_t at, int32_t id, double p)
{
    const fv_string token = fv_tokenizer_token(w->tok, id);
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

static fv_status fill(work *w, const tokens *x, fv_tensor *states)
{
    fv_ctx *ctx = w->ctx;
    int64_t shown = cli_given(w->call, "top-k") ? cli_int(w->call, "top-k") : SHOWN;
    const int64_t vocabulary = fv_transformer_settings(w->t)->vocabulary;
    if (shown < 1 || shown > MOST_SHOWN) shown = MOST_SHOWN;
    if (shown > vocabulary) shown = vocabulary;
    int masks = 0;
    for (int64_t at = 0; at < x->count; at++) {
        if (x->ids[at] != w->mask) continue;
        fv_tensor *state = fv_slice(ctx, states, 1, at, at + 1, 1), *index = NULL;
        fv_tensor *p = fv_softmax(ctx, fv_transformer_logits(ctx, w->t, state), -1);
        fv_tensor *top = fv_topk(ctx, p, shown, &index);
        float best[MOST_SHOWN];
        int64_t ids[MOST_SHOWN];
        fv_status status = fv_tensor_read(ctx, top, best, (size_t)shown * sizeof *best);
        if (status == FV_OK) status = fv_tensor_read(ctx, index, ids, (size_t)shown * sizeof *ids);
        for (int64_t i = 0; i < shown && status == FV_OK; i++)
            status = print_word(w, x, at, (int32_t)ids[i], (double)best[i]);
        if (status != FV_OK) return status;
        masks++;
    }
    if (masks == 0) cli_note("run: a text without a mask has nothing to fill in");
    return FV_OK;
}

/* ---- classes and embeddings ---------------------------------------------------------- */

/* `count` numbers of a text, with the largest one's place where they are classes. */
static fv_status print_numbers(work *w, const char *text, fv_tensor *t, const char *name)
{
    const int64_t count = fv_tensor_count(t);
    float *x = malloc((size_t)count * sizeof *x);
    if (!x) return FV_ERR_MEMORY;
    const fv_status status = fv_tensor_read(w->ctx, t, x, (size_t)count * sizeof *x);
    int64_t best = 0;
    for (int64_t i = 1; i < count && status == FV_OK; i++)
        if (x[i] > x[best]) best = i;
    const bool classes = strcmp(name, "classes") == 0;
    if (status == FV_OK && cli_flag(w->call, "json")) {
        cli_json j = {.to = stdout};
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "text", text);
        if (classes) cli_json_int(&j, "class", best);
        cli_json_open(&j, name, '[');
        for (int64_t i = 0; i < count; i++)
            cli_json_exact(&j, NULL, (double)x[i]);
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
    } else if (status == FV_OK && classes) {
        printf("%lld\t%.4f\t%s\n", (long long)best, (double)x[best], text);
    } else if (status == FV_OK) {
        for (int64_t i = 0; i < count; i++)
            printf("%.9g%c", (double)x[i], i + 1 < count ? ' ' : '\n');
    }
    free(x);
    return status;
}

static fv_status run_task(work *w, const char *text, const tokens *x)
{
    fv_ctx *ctx = w->ctx;
    const int64_t *list = x->ids;
    const fv_sequences one = {.count = 1, .tokens = &list, .length = &x->count};
    const fv_rows rows = fv_rows_pack(ctx, &one);
    fv_tensor *states = fv_transformer_encode(ctx, w->t, &rows, NULL);
    if (strcmp(w->task, "fill") == 0) return fill(w, x, states);
    if (strcmp(w->task, "classify") == 0) {
        fv_tensor *logits = fv_transformer_labels(ctx, w->t, &rows, states, NULL);
        return print_numbers(w, text, fv_softmax(ctx, logits, -1), "classes");
    }
    const bool first = strcmp(cli_text(w->call, "pooling"), "first") == 0;
    fv_tensor *pooled =
        fv_transformer_pool(ctx, &rows, states, first ? FV_POOLING_FIRST : FV_POOLING_MEAN);
    return print_numbers(w, text, pooled, "embedding");
}

static int run_texts(void *user, int64_t count, const fv_string *texts)
{
    work *w = user;
    static tokens x;
    fv_status status = FV_OK;
    for (int64_t i = 0; i < count && status == FV_OK; i++) {
        if (!encode(w, texts[i], &x)) return CLI_FAILED;
        fv_scope_begin(w->ctx);
        fv_no_grad_begin(w->ctx);
        status = run_task(w, texts[i].text, &x);
        fv_no_grad_end(w->ctx);
        fv_scope_end(w->ctx);
    }
    return status == FV_OK ? CLI_DONE : cli_library_error("run", w->ctx, status);
}

/* ---- what to do ---------------------------------------------------------------------- */

/* --task, or what the model has a head for. NULL: it was said what is missing. */
static const char *choose_task(const work *w)
{
    const fv_transformer_config *cfg = fv_transformer_settings(w->t);
    const char *task = cli_text(w->call, "task");
    if (strcmp(task, "auto") == 0)
        task = cfg->labels > 0 ? "classify" : cfg->words && w->mask >= 0 ? "fill" : "embed";
    const bool no_head = (strcmp(task, "classify") == 0 && cfg->labels == 0) ||
                         (strcmp(task, "fill") == 0 && (!cfg->words || w->mask < 0));
    if (!no_head) return task;
    cli_error("run: the model cannot %s: it has no head for that", task);
    return NULL;
}

static fv_status prepare(work *w, fv_model *model)
{
    w->t = fv_model_transformer(model);
    fv_status status = fv_tokenizer_load(w->ctx, w->call->words[0], &w->tok);
    if (status == FV_OK) status = fv_encoder_create(w->ctx, w->tok, &w->enc);
    const fv_weight_form form = cli_weight_form(w->call);
    if (status == FV_OK && form != FV_WEIGHT_F32) status = fv_transformer_freeze(w->t, form);
    if (status != FV_OK) return status;
    w->mask = fv_tokenizer_id(w->tok, "[MASK]", 6);
    if (w->mask < 0) w->mask = fv_tokenizer_id(w->tok, "<mask>", 6);
    return FV_OK;
}

int cli_run_encoder(const cli_call *call, fv_ctx *ctx, fv_model *model)
{
    work w = {.call = call, .ctx = ctx};
    int code = CLI_USAGE;
    const fv_status status = prepare(&w, model);
    if (status != FV_OK)
        code = cli_library_error("run", ctx, status);
    else if ((w.task = choose_task(&w)))
        code = cli_run_texts(call, ctx, cli_int(call, "batch"), run_texts, &w);
    fv_encoder_destroy(&w.enc);
    fv_tokenizer_destroy(&w.tok);
    return code;
}
