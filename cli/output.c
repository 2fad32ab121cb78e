#include "output.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "options.h"

static void message(cli_style style, const char *fmt, va_list ap)
{
    /* Escaped as a whole: the text may quote the command line or a file. */
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    cli_styled(stderr, style, "fovea:", 0);
    fputc(' ', stderr);
    cli_safe_text(stderr, text);
    fputc('\n', stderr);
}

void cli_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    message(CLI_RED, fmt, ap);
    va_end(ap);
}

void cli_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    message(CLI_PLAIN, fmt, ap);
    va_end(ap);
}

void cli_log(void *user, fv_log_level level, const char *text)
{
    (void)user;
    /* Errors are printed by the verb, and skipped steps by the progress line. */
    if (level == FV_LOG_WARN && strncmp(text, "step skipped", 12) != 0)
        cli_note("warning: %s", text);
}

void cli_format(char *out, size_t bytes, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(out, bytes, fmt, ap) < 0) out[0] = '\0';
    va_end(ap);
}

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int cli_exit_code(fv_status status)
{
    switch (status) {
    case FV_OK:
        return CLI_DONE;
    case FV_ERR_FORMAT:
    case FV_ERR_LIMIT:
    case FV_ERR_IO:
        return CLI_BAD_FILE;
    case FV_ERR_UNSUPPORTED:
        return CLI_MISSING;
    case FV_ERR_NONFINITE:
        return CLI_DIVERGED;
    case FV_ERR_CANCELLED:
        return CLI_INTERRUPTED;
    default:
        return CLI_FAILED;
    }
}

/* ---- colour --------------------------------------------------------------------- */

bool cli_colour(FILE *to)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    if (none && none[0]) return false;
    if (!term || strcmp(term, "dumb") == 0) return false;
    return isatty(fileno(to)) == 1;
}

bool cli_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < CLI_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (!value || !value[0]) continue;
        return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

void cli_styled(FILE *to, cli_style style, const char *text, int width)
{
    static const char *const codes[] = {"", "1", "2", "32", "33", "31"};
    if (style != CLI_PLAIN && cli_colour(to))
        fprintf(to, "\x1b[%sm%s\x1b[0m", codes[style], text);
    else
        fputs(text, to);
    int length = (int)strlen(text);
    if (length < width) fprintf(to, "%*s", width - length, "");
}

/* ---- text from outside ---------------------------------------------------------- */

/* Bytes of the UTF-8 sequence at s: 0 if it is broken, overlong, a surrogate or past U+10FFFF. */
static int utf8_length(const unsigned char *s)
{
    unsigned c = s[0];
    if (c < 0x80) return 1;
    int n = c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 0;
    if (n == 0) return 0;
    unsigned point = c & (0xffu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        point = point << 6 | (s[i] & 0x3fu);
    }
    if (n == 3 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) return 0;
    if (n == 4 && (point < 0x10000 || point > 0x10ffff)) return 0;
    return n;
}

/* C0, DEL and the two-byte C1 controls. */
static bool is_control(const unsigned char *s, int n)
{
    return (n == 1 && (s[0] < 0x20 || s[0] == 0x7f)) || (n == 2 && s[0] == 0xc2 && s[1] < 0xa0);
}

int cli_safe_text(FILE *to, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    int columns = 0;
    while (*s) {
        int n = utf8_length(s);
        if (n > 0 && !is_control(s, n)) {
            fwrite(s, 1, (size_t)n, to);
            columns++;
        } else {
            n = n > 0 ? n : 1;
            for (int i = 0; i < n; i++)
                columns += fprintf(to, "\\x%02x", s[i]);
        }
        s += n;
    }
    return columns;
}

void cli_bytes_text(char out[24], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < CLI_COUNT(units) - 1) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 24, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

/* ---- JSON ----------------------------------------------------------------------- */

static void json_quote(FILE *to, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    fputc('"', to);
    while (*s) {
        int n = utf8_length(s);
        if (n == 0) {
            fputs("\\ufffd", to);
            n = 1;
        } else if (*s == '"' || *s == '\\') {
            fprintf(to, "\\%c", *s);
        } else if (is_control(s, n)) {
            fprintf(to, "\\u%04x", n == 1 ? s[0] : s[1]);
        } else {
            fwrite(s, 1, (size_t)n, to);
        }
        s += n;
    }
    fputc('"', to);
}

static void json_lead(cli_json *j, const char *key)
{
    if (j->comma) fputs(", ", j->to);
    j->comma = true;
    if (!key) return;
    json_quote(j->to, key);
    fputs(": ", j->to);
}

void cli_json_open(cli_json *j, const char *key, char bracket)
{
    json_lead(j, key);
    fputc(bracket, j->to);
    j->comma = false;
    j->depth++;
}

void cli_json_close(cli_json *j, char bracket)
{
    fputc(bracket, j->to);
    j->comma = --j->depth > 0;
    if (j->depth == 0) fputc('\n', j->to);
}

void cli_json_text(cli_json *j, const char *key, const char *text)
{
    json_lead(j, key);
    if (text)
        json_quote(j->to, text);
    else
        fputs("null", j->to);
}

void cli_json_int(cli_json *j, const char *key, int64_t value)
{
    json_lead(j, key);
    fprintf(j->to, "%lld", (long long)value);
}

void cli_json_size(cli_json *j, const char *key, uint64_t value)
{
    json_lead(j, key);
    fprintf(j->to, "%llu", (unsigned long long)value);
}

void cli_json_real(cli_json *j, const char *key, double value)
{
    json_lead(j, key);
    if (isfinite(value))
        fprintf(j->to, "%.6g", value);
    else
        fputs("null", j->to);
}

void cli_json_exact(cli_json *j, const char *key, double value)
{
    json_lead(j, key);
    if (isfinite(value))
        fprintf(j->to, "%.17g", value);
    else
        fputs("null", j->to);
}

void cli_json_bool(cli_json *j, const char *key, bool value)
{
    json_lead(j, key);
    fputs(value ? "true" : "false", j->to);
}
