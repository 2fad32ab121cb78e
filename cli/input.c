#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "output.h"

int cli_library_error(const char *verb, fv_ctx *ctx, fv_status status)
{
    const char *reason = fv_ctx_message(ctx);
    const size_t n = strlen(verb);
    /* Which op Ctrl-C came in is nobody's business. */
    if (status == FV_ERR_CANCELLED && !strstr(reason, "interrupted")) reason = "interrupted";
    if (strncmp(reason, verb, n) == 0 && reason[n] == ':') /* a part of the library of that name */
        cli_error("%s", reason);
    else
        cli_error("%s: %s", verb, reason[0] ? reason : fv_status_name(status));
    return cli_exit_code(status);
}

int cli_plain_context(const char *verb, fv_ctx **out)
{
    fv_ctx_config config;
    fv_ctx_config_init(&config, sizeof config);
    config.threads = 1;
    config.cancel = &cli_cancelled;
    fv_status status = fv_ctx_create(&config, out);
    if (status == FV_OK) return CLI_DONE;
    cli_error("%s: cannot make a context: %s", verb, fv_status_name(status));
    return cli_exit_code(status);
}

/* All of standard input: it may be a pipe, which the library does not open. */
static int read_all(const char *verb, char **out, size_t *bytes)
{
    size_t room = 1 << 16, used = 0;
    char *all = malloc(room);
    while (all) {
        size_t got = fread(all + used, 1, room - used, stdin);
        used += got;
        if (got == 0) break;
        if (used < room) continue;
        char *bigger = room <= SIZE_MAX / 2 ? realloc(all, room * 2) : NULL;
        if (!bigger) {
            free(all);
            all = NULL;
            break;
        }
        all = bigger;
        room *= 2;
    }
    if (!all) {
        cli_error("%s: out of memory for standard input", verb);
        return CLI_FAILED;
    }
    if (ferror(stdin)) {
        cli_error("%s: cannot read standard input: %s", verb, strerror(errno));
        free(all);
        return CLI_BAD_FILE;
    }
    *out = all;
    *bytes = used;
    return CLI_DONE;
}

int cli_input_open(fv_ctx *ctx, const char *verb, const char *path, fv_lines_policy policy,
                   cli_input *out)
{
    *out = (cli_input){.ctx = ctx, .verb = verb, .name = path};
    fv_status status;
    if (strcmp(path, "-") == 0) {
        size_t bytes = 0;
        out->name = "standard input";
        int code = read_all(verb, &out->memory, &bytes);
        if (code) return code;
        status = fv_lines_open_memory(ctx, out->name, out->memory, bytes, policy, &out->lines);
    } else {
        status = fv_lines_open(ctx, path, policy, &out->lines);
    }
    if (status == FV_OK) return CLI_DONE;
    int code = cli_library_error(verb, ctx, status);
    cli_input_close(out);
    return code;
}

int cli_input_next(cli_input *in, fv_line *line)
{
    fv_status status = fv_lines_next(in->lines, line);
    return status == FV_OK ? CLI_DONE : cli_library_error(in->verb, in->ctx, status);
}

void cli_input_close(cli_input *in)
{
    fv_lines_close(&in->lines);
    free(in->memory);
    in->memory = NULL;
}
