/*
 * fovea bench tokenizer: how fast a text is tokenized on one thread. Every round begins with a new
 * encoder, whose word cache is empty, and encodes the text as a whole, then line by line. Times are
 * CPU times of the thread, which other programs do not affect.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fovea/data.h"
#include "input.h"
#include "output.h"

typedef struct bed {
    fv_ctx *ctx;
    fv_tokenizer *tok;
    char *text; /* lines, each ended by "\n" */
    size_t bytes, room;
    size_t tokens; /* of the last pass */
} bed;

static bool add_line(bed *b, const fv_line *line)
{
    if (b->room - b->bytes < line->bytes + 1) {
        const size_t room = 2 * b->room + line->bytes + 4096;
        char *text = realloc(b->text, room);
        if (!text) return false;
        b->text = text;
        b->room = room;
    }
    memcpy(b->text + b->bytes, line->text, line->bytes);
    b->bytes += line->bytes;
    b->text[b->bytes++] = '\n';
    return true;
}

static int read_text(bed *b, const char *path)
{
    cli_input in;
    fv_line line = {.text = ""};
    int code = cli_input_open(b->ctx, "bench", path, FV_LINES_POLICY_REJECT, &in);
    if (code) return code;
    while (!(code = cli_input_next(&in, &line)) && line.text && !cli_cancelled)
        if (!add_line(b, &line)) {
            cli_error("bench: out of memory");
            code = CLI_FAILED;
            break;
        }
    cli_input_close(&in);
    return code;
}

static fv_status encode_lines(bed *b, fv_tokenizer_encoder *enc)
{
    fv_encoding e = {.struct_size = sizeof e};
    for (const char *at = b->text, *end = at + b->bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        fv_status s = fv_tokenizer_encode(enc, at, (size_t)(stop - at), 0, &e);
        if (s != FV_OK) return s;
        b->tokens += e.count;
        at = stop + 1;
    }
    return FV_OK;
}

/* One pass with an empty cache; its seconds. */
static fv_status pass(bed *b, bool lines, double *seconds)
{
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_status s = fv_tokenizer_encoder_create(b->ctx, b->tok, &enc);
    b->tokens = 0;
    const double start = bench_thread_seconds();
    if (s == FV_OK && lines) s = encode_lines(b, enc);
    if (s == FV_OK && !lines) s = fv_tokenizer_encode(enc, b->text, b->bytes, 0, &e);
    *seconds = bench_thread_seconds() - start;
    if (s == FV_OK && !lines) b->tokens = e.count;
    fv_tokenizer_encoder_destroy(&enc);
    return s;
}

static void print_pass(bench_run *run, const bed *b, const char *name, double first, double median)
{
    const double megabytes = (double)b->bytes / 1e6;
    run->printed++;
    if (!run->json) {
        printf("%-6s %8.2f MB %10zu tokens %8.1f MB/s first round %8.1f MB/s median\n", name,
               megabytes, b->tokens, megabytes / first, megabytes / median);
        return;
    }
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "bench", "tokenizer");
    cli_json_text(&j, "name", name);
    cli_json_real(&j, "megabytes", megabytes);
    cli_json_int(&j, "tokens", (int64_t)b->tokens);
    cli_json_real(&j, "first_mb_s", megabytes / first);
    cli_json_real(&j, "mb_s", megabytes / median);
    cli_json_close(&j, '}');
}

static int measure(bench_run *run, bed *b)
{
    enum { ROUNDS = 7 };
    for (int lines = 0; lines < 2; lines++) {
        double seconds[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) {
            fv_status s = pass(b, lines, &seconds[i]);
            if (s != FV_OK) return cli_library_error("bench", b->ctx, s);
            if (cli_cancelled) return CLI_INTERRUPTED;
        }
        const double first = seconds[0];
        print_pass(run, b, lines ? "lines" : "whole", first, bench_median(seconds, ROUNDS));
    }
    return CLI_DONE;
}

int bench_tokenizer(bench_run *run)
{
    bed b = {.ctx = NULL};
    if (!run->model || !run->text) {
        cli_error("bench: tokenizer needs --model and --text");
        return CLI_USAGE;
    }
    int code = cli_plain_context("bench", &b.ctx);
    if (code) return code;
    fv_status s = fv_tokenizer_load(b.ctx, run->model, &b.tok);
    code = s == FV_OK ? read_text(&b, run->text) : cli_library_error("bench", b.ctx, s);
    if (!code) code = measure(run, &b);
    fv_tokenizer_destroy(&b.tok);
    free(b.text);
    fv_ctx_destroy(&b.ctx);
    return code;
}
