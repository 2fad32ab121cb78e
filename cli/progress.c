/* Training progress, on a terminal or in a log file. */
#include <math.h>
#include <string.h>
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
static void break_line(const cli_progress *p)
{
    if (p->live) fputs("\r\033[K", stderr);
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
    char bytes[24], spent[24], left[24];
    cli_bytes_text(bytes, memory.held_bytes);
    break_line(p);
    fprintf(stderr, "step %llu/%llu  epoch %.2f  loss %.4f  lr %.2g  %.0f tokens/s  %s  %s",
            (unsigned long long)e->step, (unsigned long long)e->steps, e->epoch, e->loss, e->lr,
            e->tokens_per_second, bytes, clock_text(spent, e->seconds));
    if (!last) fprintf(stderr, ", %s left", clock_text(left, e->seconds_left));
    if (!p->live || last) fputc('\n', stderr);
}

static void show_metrics(const cli_progress *p, const fv_train_event *e)
{
    break_line(p);
    fprintf(stderr, "step %llu:", (unsigned long long)e->step);
    for (int i = 0; i < e->metric_count; i++)
        fprintf(stderr, "  %s %.4g", e->metrics[i].name, e->metrics[i].value);
    fprintf(stderr, "%s\n", e->improved ? "  (best so far)" : "");
}

/* Sample outputs, one a line, indented under the metrics. */
static void show_samples(const cli_progress *p, const char *text)
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
