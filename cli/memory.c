#include "memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "machine.h"
#include "output.h"

static uint64_t cap; /* 0: none */
static bool can_be_set;

/* "8G", "1.5GiB", "512M", "800k", "1000000"; powers of 1024. */
static bool parse_size(const char *text, uint64_t *out)
{
    static const char letters[] = "kmgt";
    char *end = NULL;
    if (!(text[0] >= '0' && text[0] <= '9')) return false;
    double value = strtod(text, &end);
    for (int i = 0; letters[i] && *end; i++)
        if ((*end | 32) == letters[i]) {
            value *= pow(1024, i + 1);
            end++;
            break;
        }
    const bool named = strcasecmp(end, "iB") == 0 || strcasecmp(end, "B") == 0;
    if ((*end && !named) || !(value < 9e18)) return false;
    *out = (uint64_t)value;
    return true;
}

int cli_memory_begin(const cli_call *call)
{
    machine_memory memory;
    can_be_set = false;
    for (int i = 0; i < call->verb->option_count; i++)
        if (strcmp(call->verb->options[i].name, "memory") == 0) can_be_set = true;
    if (can_be_set && cli_given(call, "memory")) {
        if (parse_size(cli_text(call, "memory"), &cap)) return CLI_DONE;
        cli_error("%s: --memory: expected a size such as 512M or 8G, got '%s'", call->verb->name,
                  cli_text(call, "memory"));
        return CLI_USAGE;
    }
    machine_memory_get(&memory);
    uint64_t room = memory.available;
    if (memory.cap > 0 && (room == 0 || memory.cap < room)) room = memory.cap;
    cap = room / 5 * 4;
    return CLI_DONE;
}

uint64_t cli_memory_cap(void) { return cap; }

void cli_config_init(fv_ctx_config *cfg)
{
    fv_ctx_config_init(cfg, sizeof *cfg);
    cfg->cancel = &cli_cancelled;
    cfg->memory_limit = cap;
    cfg->log = cli_log;
    cfg->log_level = FV_LOG_WARN;
}

void cli_memory_explain(char *out, size_t bytes, const char *reason)
{
    char size[24];
    if (cap == 0) {
        cli_format(out, bytes, "%s", reason);
        return;
    }
    cli_bytes_text(size, cap);
    cli_format(out, bytes, "%s; the memory cap is %s%s", reason, size,
               can_be_set ? ", --memory SIZE sets another" : "");
}
