/*
 * Lines of text from files, plain or compressed, or from standard input.
 *
 *     cli_input in;
 *     int code = cli_input_open(ctx, "score", path, FV_LINES_POLICY_REJECT, &in);  // "-": stdin
 *     while ((code = cli_input_next(&in, &line)) == CLI_DONE && line.text) ...
 *     cli_input_close(&in);
 */
#ifndef FOVEA_CLI_INPUT_H
#define FOVEA_CLI_INPUT_H

#include "fovea/data.h"

typedef struct cli_input {
    fv_ctx *ctx;
    const char *verb; /* for messages */
    const char *name;
    fv_lines *lines;
    bool streamed; /* standard input */
    int failed;    /* errno of a read that failed, else 0 */
} cli_input;

/* On a terminal, open prints that it reads from there. Both return an exit code; the error is
 * already printed. */
int cli_input_open(fv_ctx *ctx, const char *verb, const char *path, fv_lines_policy policy,
                   cli_input *out);
int cli_input_next(cli_input *in, fv_line *line);
/* True if reading the next line would block; the caller then flushes pending answers. */
bool cli_input_waits(const cli_input *in);
/* May be called after a failed open, and twice. */
void cli_input_close(cli_input *in);

/* Creates a context with one thread that a signal cancels. Returns an exit code; the error is
 * already printed. */
int cli_plain_context(const char *verb, fv_ctx **out);

/* "verb: message" of the context's last failure; returns its exit code. */
int cli_library_error(const char *verb, fv_ctx *ctx, fv_status status);
/* The same where ARGUMENT is about the text that was given. */
int cli_text_error(const char *verb, fv_ctx *ctx, fv_status status);

#endif
