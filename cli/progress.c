/* Training progress, on a terminal or in a log file. */
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "model.h"
#include "output.h"

void cli_progress_begin(cli_progress *p, fv_ctx *ctx, bool quiet)
{
    *p = (cli_progress){.ctx = ctx, .quiet = quiet, .live = isatty(STDERR_FILENO) == 1};
}

/* 75 -> "1:15". */
static const char *clock_text(char out[24], double seconds)
{
    const long s = seconds > 0 ? lround(seconds) : 0;
    if (s >= 3600)
        cli_format(out, 24, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        cli_format(out, 24, "%ld:%02ld", s / 60, s % 60);
    return out;
}

/* Clears the progress line before another line is printed. */
static void break_line(cli_progress *p)
{
    if (p->live) fputs("\r\033[K", stderr);
    p->open = false;
}

/* Columns of the terminal that shows the progress; 80 where it does not say. */
static int terminal_width(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

enum { FIELDS = 8, FIELD_BYTES = 64, BAR = 10 };

/* A bar of BAR columns, or nothing for a log file. */
static void bar_text(char out[FIELD_BYTES], double share, bool live)
{
    static const char *const blocks[] = {"\xE2\x96\x91", "\xE2\x96\x92", "\xE2\x96\x93",
                                         "\xE2\x96\x88"},
                             *const ascii[] = {"-", "-", "#", "#"};
    const char *const *shades = cli_utf8() ? blocks : ascii;
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; live && i < BAR; i++) {
        const int shade = (int)lround(3 * (share * BAR - i)); /* of this column */
        cli_format(out + used, FIELD_BYTES - used, "%s",
                   shades[shade < 0   ? 0
                          : shade > 3 ? 3
                                      : shade]);
        used += strlen(out + used);
    }
}

/* Columns of a text of single-width characters. */
static int columns_of(const char *text)
{
    int columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xC0) != 0x80;
    return columns;
}

/* Joins the fields in their order. What does not fit into `width` columns is left out, the field
 * with the largest rank first. */
static void join_fields(char *out, size_t bytes, char fields[FIELDS][FIELD_BYTES],
                        const int rank[FIELDS], int width)
{
    for (int kept = FIELDS; kept > 0; kept--) {
        size_t used = 0;
        out[0] = '\0';
        for (int i = 0; i < FIELDS; i++) {
            if (rank[i] >= kept || !fields[i][0]) continue;
            cli_format(out + used, bytes - used, "%s%s", used ? "  " : "", fields[i]);
            used += strlen(out + used);
        }
        if (columns_of(out) <= width) return;
    }
}

static void show_step(cli_progress *p, const fv_train_event *e)
{
    const double when = cli_now();
    const bool last = e->step == e->steps;
    /* On a terminal ten times a second; in a file ten times a run. */
    const uint64_t tenth = e->steps / 10 ? e->steps / 10 : 1;
    if (p->live ? when - p->last < 0.1 && !last : e->step % tenth != 0 && !last) return;
    p->last = when;
    fv_memory_stats memory;
    fv_ctx_memory(p->ctx, &memory);
    /* The last to go are the step, the loss and the time left. */
    static const int rank[FIELDS] = {3, 0, 5, 1, 7, 4, 6, 2};
    char fields[FIELDS][FIELD_BYTES], bytes[24], spent[24], left[24], line[FIELDS * FIELD_BYTES];
    bar_text(fields[0], (double)e->step / (double)e->steps, p->live);
    cli_format(fields[1], FIELD_BYTES, "step %llu/%llu", (unsigned long long)e->step,
               (unsigned long long)e->steps);
    fields[2][0] = '\0'; /* data made for every step has no epochs */
    if (e->epoch > 0) cli_format(fields[2], FIELD_BYTES, "epoch %.2f", e->epoch);
    cli_format(fields[3], FIELD_BYTES, "loss %.4f", e->loss);
    cli_format(fields[4], FIELD_BYTES, "lr %.2g", e->lr);
    cli_format(fields[5], FIELD_BYTES, "%.0f tokens/s", e->tokens_per_second);
    cli_bytes_text(bytes, memory.held_bytes);
    cli_format(fields[6], FIELD_BYTES, "%s", bytes);
    clock_text(spent, e->seconds);
    if (last)
        cli_format(fields[7], FIELD_BYTES, "%s", spent);
    else
        cli_format(fields[7], FIELD_BYTES, "%s, %s left", spent, clock_text(left, e->seconds_left));
    /* The last column stays empty: some terminals wrap when it is written. */
    join_fields(line, sizeof line, fields, rank, p->live ? terminal_width() - 1 : INT_MAX);
    break_line(p);
    fputs(line, stderr);
    p->open = p->live && !last;
    if (!p->open) fputc('\n', stderr);
}

void cli_progress_end(cli_progress *p)
{
    if (p->open) fputc('\n', stderr);
    p->open = false;
}

static void show_metrics(cli_progress *p, const fv_train_event *e)
{
    break_line(p);
    fprintf(stderr, "step %llu:", (unsigned long long)e->step);
    for (int i = 0; i < e->metric_count; i++)
        fprintf(stderr, "  %s %.4g", e->metrics[i].name, e->metrics[i].value);
    fprintf(stderr, "%s\n", e->improved ? "  (best so far)" : "");
}

/* Sample outputs, one a line, indented under the metrics. */
static void show_samples(cli_progress *p, const char *text)
{
    break_line(p);
    while (*text) {
        const size_t bytes = strcspn(text, "\n");
        char line[1024];
        cli_format(line, sizeof line, "%.*s", (int)(bytes < 1000 ? bytes : 1000), text);
        fputs("    ", stderr);
        cli_safe_text(stderr, line);
        fputc('\n', stderr);
        text += bytes + (text[bytes] == '\n');
    }
}

void cli_progress_show(void *user, const fv_train_event *e)
{
    cli_progress *p = user;
    if (e->kind == FV_TRAIN_BAD_STATE) {
        break_line(p);
        cli_note("a state cannot be used (%s); trying the previous one", e->text);
    }
    if (e->kind == FV_TRAIN_RESUMED && p->lr != p->old_lr)
        cli_note("lr %g -> %g from step %llu", p->old_lr, p->lr, (unsigned long long)e->step);
    if (p->quiet) return;
    switch (e->kind) {
    case FV_TRAIN_STEP:
        show_step(p, e);
        break;
    case FV_TRAIN_EVALUATED:
        show_metrics(p, e);
        break;
    case FV_TRAIN_SAMPLES:
        show_samples(p, e->text);
        break;
    case FV_TRAIN_RESUMED:
        cli_note("resuming after step %llu", (unsigned long long)e->step);
        break;
    case FV_TRAIN_SKIPPED:
        break_line(p);
        cli_note("step %llu had no finite gradient and was skipped (%llu so far)",
                 (unsigned long long)e->step, (unsigned long long)e->skipped);
        break;
    case FV_TRAIN_STOPPED_EARLY:
        break_line(p);
        cli_note("stopped early at step %llu: no improvement (train.patience)",
                 (unsigned long long)e->step);
        break;
    default:
        break;
    }
}
