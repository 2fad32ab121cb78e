#include "input.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "options.h"
#include "output.h"

int cli_library_error(const char *verb, fv_ctx *ctx, fv_status status)
{
    const char *reason = fv_ctx_message(ctx);
    const size_t n = strlen(verb);
    char explained[512];
    if (status == FV_ERR_MEMORY) {
        cli_memory_explain(explained, sizeof explained, reason[0] ? reason : "out of memory");
        reason = explained;
    }
    /* The user does not need to know which op Ctrl-C interrupted. */
    if (status == FV_ERR_CANCELLED && !strstr(reason, "interrupted")) reason = "interrupted";
    if (strncmp(reason, verb, n) == 0 && reason[n] == ':') /* the message names the verb already */
        cli_error("%s", reason);
    else
        cli_error("%s: %s", verb, reason[0] ? reason : fv_status_name(status));
    if (strstr(reason, ": wrong checksum of ") && strcmp(verb, "train") != 0)
        cli_note("the file is damaged: get it again, or add --no-verify to use it as it is");
    return cli_exit_code(status);
}

int cli_text_error(const char *verb, fv_ctx *ctx, fv_status status)
{
    const int code = cli_library_error(verb, ctx, status);
    return status == FV_ERR_ARGUMENT ? CLI_USAGE : code;
}

int cli_plain_context(const char *verb, fv_ctx **out)
{
    fv_ctx_config config;
    cli_config_init(&config);
    config.threads = 1;
    fv_status status = fv_ctx_create(&config, out);
    if (status == FV_OK) return CLI_DONE;
    cli_error("%s: cannot create a context: %s", verb, fv_status_name(status));
    return cli_exit_code(status);
}

/* True if standard input becomes readable, or ends, within this many milliseconds. */
static bool has_input(int milliseconds)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, milliseconds) > 0;
}

/* Standard input may be a pipe, which the library does not open, and whose writer may wait for an
 * answer to its first line. Ctrl-C may have come just before a read, or to another thread, and
 * would not end it: hence the short waits. */
static fv_status read_standard(void *user, void *out, size_t room, size_t *got)
{
    cli_input *in = user;
    while (!cli_cancelled) {
        if (!has_input(100)) continue;
        const ssize_t n = read(STDIN_FILENO, out, room);
        if (n >= 0) {
            *got = (size_t)n;
            return FV_OK;
        }
        if (errno == EINTR) continue;
        in->failed = errno;
        return FV_ERR_IO;
    }
    return FV_ERR_CANCELLED;
}

static int failed(const cli_input *in, fv_status status)
{
    if (in->failed == 0) return cli_library_error(in->verb, in->ctx, status);
    cli_error("%s: cannot read standard input: %s", in->verb, strerror(in->failed));
    return CLI_BAD_FILE;
}

int cli_input_open(fv_ctx *ctx, const char *verb, const char *path, fv_lines_policy policy,
                   cli_input *out)
{
    *out = (cli_input){.ctx = ctx, .verb = verb, .name = path};
    fv_status status;
    if (strcmp(path, "-") == 0) {
        out->name = "standard input";
        out->streamed = true;
        if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
            cli_note("%s: reading from the terminal, one text a line; Ctrl-D ends", verb);
        status = fv_lines_open_stream(ctx, out->name, read_standard, out, policy, &out->lines);
    } else {
        status = fv_lines_open(ctx, path, policy, &out->lines);
    }
    return status == FV_OK ? CLI_DONE : failed(out, status);
}

int cli_input_next(cli_input *in, fv_line *line)
{
    const fv_status status = fv_lines_next(in->lines, line);
    return status == FV_OK ? CLI_DONE : failed(in, status);
}

bool cli_input_waits(const cli_input *in)
{
    return in->streamed && !fv_lines_is_ready(in->lines) && !has_input(0);
}

void cli_input_close(cli_input *in) { fv_lines_close(&in->lines); }
