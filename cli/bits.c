#include "bits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "input.h"
#include "output.h"
#include "run.h"

static int64_t number(const fv_model *model, const char *name)
{
    return fv_data_spec_get(fv_model_spec(model), name, 0);
}

/* ---- reading -------------------------------------------------------------------------------- */

static int usage(const cli_call *call, const fv_bits_config *cfg, const char *text)
{
    const bool copies = strcmp(cfg->task, "copy") == 0;
    cli_error("%s: '%.60s': expected \"length 12\" or \"length 12 example 3\"%s", call->verb->name,
              text, copies ? ", or vectors of bits such as \"10110011 01010101\"" : "");
    return CLI_USAGE;
}

/* Vectors of `width` bits each, separated by blanks or commas; free() them. NULL: not such a text.
 */
static float *read_vectors(const char *text, int64_t width, int64_t *count)
{
    const size_t bytes = strlen(text);
    float *values = malloc((bytes + 1) * sizeof *values);
    int64_t n = 0;
    for (const char *p = text; values && *p;) {
        const size_t digits = strspn(p, "01");
        if (digits != 0 && digits != (size_t)width) {
            free(values);
            return NULL;
        }
        for (size_t i = 0; i < digits; i++)
            values[n++] = p[i] == '1' ? 1 : 0;
        p += digits;
        const size_t blanks = strspn(p, " ,\t\r");
        if (digits == 0 && blanks == 0) {
            free(values);
            return NULL;
        }
        p += blanks;
    }
    *count = n / width;
    if (n > 0) return values;
    free(values);
    return NULL;
}

static int make_example(const cli_call *call, fv_ctx *ctx, const fv_model *model, const char *text,
                        cli_bits *out)
{
    long long length = 0, example = 0;
    fv_bits_config cfg = {.task = fv_bits_task_name((int)number(model, "bits_task")),
                          .width = number(model, "bits_width"),
                          .repeats = number(model, "bits_repeats"),
                          .seed = 1};
    int64_t inputs = 0, outputs = 0, count = 0;
    if (!cfg.task || fv_bits_widths(ctx, &cfg, &inputs, &outputs) != FV_OK ||
        inputs != number(model, "inputs") || outputs != number(model, "outputs")) {
        cli_error("%s: config.json: no known task of bits with %lld inputs and %lld outputs",
                  call->verb->name, (long long)number(model, "inputs"),
                  (long long)number(model, "outputs"));
        return CLI_BAD_FILE;
    }
    const bool copies = strcmp(cfg.task, "copy") == 0;
    out->width = copies ? outputs : 0;
    float *given = copies ? read_vectors(text, outputs, &count) : NULL;
    int one = 0, both = 0;
    sscanf(text, "length %lld %n example %lld %n", &length, &one, &example, &both);
    const int used = both ? both : one;
    if (!given && (used == 0 || text[used] || example < 0)) return usage(call, &cfg, text);
    cfg.given = given;
    cfg.length = given ? count : (int64_t)length;
    const fv_status status =
        fv_bits_make(ctx, &cfg, FV_BITS_TEST, (uint64_t)example, &out->example);
    free(given);
    return status == FV_OK ? CLI_DONE : cli_text_error(call->verb->name, ctx, status);
}

/* ---- running -------------------------------------------------------------------------------- */

static fv_field field_of(const char *name, int64_t width, const void *const *row,
                         const int64_t *length)
{
    return (fv_field){
        .name = name, .dtype = FV_F32, .rank = 1, .shape = {width}, .row = row, .length = length};
}

static fv_status predict(fv_ctx *ctx, fv_model *model, const fv_capture *capture, cli_bits *out)
{
    const fv_bits_example *e = &out->example;
    const void *inputs = e->inputs, *targets = e->targets;
    const int64_t count = e->answers * e->output_width;
    const fv_pass pass = {.capture = capture};
    fv_batch batch;
    fv_batch_init(&batch, 1);
    fv_batch_add(&batch, field_of("inputs", e->input_width, &inputs, &e->steps));
    fv_batch_add(&batch, field_of("targets", e->output_width, &targets, &e->answers));
    out->logits = malloc((size_t)count * sizeof *out->logits);
    if (!out->logits) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *logits = fv_model_kind_of(model)->predict(ctx, fv_model_self(model), &batch, &pass);
    const fv_status status =
        fv_tensor_read(ctx, logits, out->logits, (size_t)count * sizeof *out->logits);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    for (int64_t i = 0; i < count && status == FV_OK; i++)
        out->wrong += (out->logits[i] > 0) != (e->targets[i] > 0.5f);
    return status;
}

int cli_bits_run(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                 const fv_capture *capture, cli_bits *out)
{
    *out = (cli_bits){.wrong = 0};
    const int code = make_example(call, ctx, model, text, out);
    if (code) return code;
    const fv_status status = predict(ctx, model, capture, out);
    return status == FV_OK ? CLI_DONE : cli_library_error(call->verb->name, ctx, status);
}

void cli_bits_free(fv_ctx *ctx, cli_bits *bits)
{
    free(bits->logits);
    fv_bits_free(ctx, &bits->example);
}

/* ---- fovea run ------------------------------------------------------------------------------ */

/* One vector: its bits as digits; a number that is neither 0 nor 1 in brackets. */
static void print_vector(const float *x, int64_t width, double threshold)
{
    for (int64_t k = 0; k < width; k++) {
        const double v = (double)x[k];
        if (threshold == threshold || v == 0 || v == 1)
            putchar((threshold == threshold ? v > threshold : v > 0.5) ? '1' : '0');
        else
            printf("(%.2f)", v);
    }
}

/* Vectors on one line; `threshold` of logits, NAN for numbers as they are. */
static void print_vectors(const char *name, const float *x, int64_t count, int64_t width,
                          double threshold)
{
    printf("%-7s", name);
    for (int64_t i = 0; i < count; i++) {
        putchar(' ');
        print_vector(x + i * width, width, threshold);
    }
    putchar('\n');
}

/* Steps up to the last that is not blank. */
static int64_t asked_steps(const fv_bits_example *e)
{
    int64_t n = e->steps * e->input_width;
    while (n > 0 && e->inputs[n - 1] == 0)
        n--;
    return (n + e->input_width - 1) / e->input_width;
}

static void json_vectors(cli_json *j, const char *name, const float *x, int64_t count,
                         int64_t width)
{
    cli_json_open(j, name, '[');
    for (int64_t i = 0; i < count; i++) {
        cli_json_open(j, NULL, '[');
        for (int64_t k = 0; k < width; k++)
            cli_json_real(j, NULL, (double)x[i * width + k]);
        cli_json_close(j, ']');
    }
    cli_json_close(j, ']');
}

static void print_result(const cli_call *call, const cli_bits *b)
{
    const fv_bits_example *e = &b->example;
    const int64_t bits = e->answers * e->output_width;
    if (cli_flag(call, "json")) {
        cli_json j = {.to = stdout};
        cli_json_open(&j, NULL, '{');
        json_vectors(&j, "input", e->inputs, e->steps, e->input_width);
        json_vectors(&j, "logits", b->logits, e->answers, e->output_width);
        json_vectors(&j, "target", e->targets, e->answers, e->output_width);
        cli_json_int(&j, "wrong", b->wrong);
        cli_json_int(&j, "bits", bits);
        cli_json_close(&j, '}');
        return;
    }
    print_vectors("input", e->inputs, asked_steps(e), e->input_width, (double)NAN);
    print_vectors("output", b->logits, e->answers, e->output_width, 0);
    print_vectors("target", e->targets, e->answers, e->output_width, 0.5);
    printf("%lld of %lld bits wrong\n", (long long)b->wrong, (long long)bits);
}

typedef struct work {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
} work;

static int run_texts(void *user, int64_t count, const fv_string *texts)
{
    const work *w = user;
    int code = CLI_DONE;
    for (int64_t i = 0; i < count && !code; i++) {
        cli_bits b = {.wrong = 0};
        char *text = strndup(texts[i].text, texts[i].bytes);
        if (!text) {
            cli_error("run: out of memory");
            return CLI_FAILED;
        }
        code = cli_bits_run(w->call, w->ctx, w->model, text, NULL, &b);
        if (!code) print_result(w->call, &b);
        cli_bits_free(w->ctx, &b);
        free(text);
    }
    return code;
}

int cli_run_bits(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    work w = {call, ctx, *model};
    return cli_for_each_batch(call, ctx, 1, run_texts, &w);
}
