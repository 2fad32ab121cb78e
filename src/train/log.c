#include "train/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "io/decimal.h"
#include "io/json_write.h"
#include "train/events.h"
#include "train/state.h"

enum { JSONL, CSV, EVENTS };

static const char csv_head[] =
    "step,epoch,loss,lr,grad_norm,tokens,tokens_per_second,seconds,metric,value\n";

static double wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- cutting ---------------------------------------------------------------------- */

/* Bytes of the lines up to the first of a later step. Lines without a number (the head) stay. */
static size_t bytes_until(const char *text, size_t bytes, const char *lead, uint64_t step)
{
    const size_t skip = strlen(lead);
    for (size_t at = 0; at < bytes;) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        if (!newline) return at; /* torn by a crash */
        const size_t end = (size_t)(newline - text) + 1;
        if (memchr(text + at, '\0', end - at)) return at; /* zeros after a power failure */
        uint64_t number = 0;
        size_t i = at + skip;
        for (; i < end && text[i] >= '0' && text[i] <= '9' && number < UINT64_MAX / 16; i++)
            number = number * 10 + (uint64_t)(text[i] - '0');
        if (i > at + skip && number > step) return at;
        at = end;
    }
    return bytes;
}

static fv_status cut_lines(fv_ctx *ctx, const char *path, const char *lead, uint64_t step)
{
    if (!fv_file_exists(ctx, path) || fv_file_is_stream(ctx, path)) return FV_OK;
    char *text = NULL;
    size_t bytes = 0;
    FV_TRY(fv_file_read_text(ctx, path, &text, &bytes));
    const size_t keep = bytes_until(text, bytes, lead, step);
    fv_status status = keep < bytes ? fv_file_write_text(ctx, path, text, keep) : FV_OK;
    fv_mem_free(&ctx->mem, text, bytes);
    return status;
}

/* ---- appending -------------------------------------------------------------------- */

static fv_status append(fv_train_log *log, int which, const void *data, size_t n)
{
    return fv_append_file_write(&log->file[which], data, n);
}

/* `lead` comes before the number of a line's step; NULL: a file of this start alone. */
static fv_status open_one(fv_train_log *log, int which, const char *name, const char *lead,
                          uint64_t step)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(log->ctx, path, log->folder, name));
    const char *kept = fv_arena_text(&log->paths, path, strlen(path));
    FV_RETURN_IF(!kept, log->ctx, FV_ERR_MEMORY, "no memory for a log");
    if (lead) FV_TRY(cut_lines(log->ctx, path, lead, step));
    return fv_append_file_open(log->ctx, kept, &log->file[which]);
}

static fv_status open_files(fv_train_log *log, uint64_t step)
{
    char name[64];
    const double now = wall_time();
    FV_TRY(open_one(log, JSONL, "log.jsonl", "{\"step\":", step));
    FV_TRY(open_one(log, CSV, "log.csv", "", step));
    if (log->file[CSV].end == 0) FV_TRY(append(log, CSV, csv_head, sizeof csv_head - 1));
    snprintf(name, sizeof name, "events.out.tfevents.%.0f.fovea", now);
    FV_TRY(open_one(log, EVENTS, name, NULL, step));
    unsigned char record[FV_EVENT_BYTES];
    FV_TRY(append(log, EVENTS, record, fv_event_version(&log->crc, now, record)));
    return append(log, EVENTS, record, fv_event_start(&log->crc, now, step, record));
}

fv_status fv_train_log_open(fv_ctx *ctx, const char *folder, uint64_t step, fv_train_log *out)
{
    *out = (fv_train_log){.ctx = ctx, .folder = folder};
    fv_arena_init(&out->paths, &ctx->mem);
    if (!folder) return FV_OK;
    fv_crc_init(&out->crc, FV_CRC32C);
    fv_status status = open_files(out, step);
    if (status != FV_OK) fv_train_log_close(out);
    return status;
}

void fv_train_log_close(fv_train_log *log)
{
    if (!log->ctx) return;
    for (int i = 0; i < FV_LOG_FILES; i++)
        fv_append_file_close(&log->file[i]);
    fv_arena_free(&log->paths);
    log->ctx = NULL;
}

/* ---- lines ------------------------------------------------------------------------ */

typedef struct column {
    const char *name;
    double value;
    bool whole;
} column;

enum { COLUMNS = 8 };

static void columns_of(const fv_train_event *e, column out[COLUMNS])
{
    const column all[COLUMNS] = {
        {"step", (double)e->step, true},
        {"epoch", e->epoch, false},
        {"loss", e->loss, false},
        {"lr", e->lr, false},
        {"grad_norm", e->grad_norm, false},
        {"tokens", (double)e->tokens, true},
        {"tokens_per_second", e->tokens_per_second, false},
        {"seconds", e->seconds, false},
    };
    memcpy(out, all, sizeof all);
}

enum { TAG_BYTES = 48 };

/* The name of a metric in the logs and in TensorBoard. */
static void metric_tag(const fv_metric *metric, char out[TAG_BYTES])
{
    snprintf(out, TAG_BYTES, "eval/%s", metric->name);
}

static fv_status add_json(fv_train_log *log, const fv_train_event *e)
{
    column columns[COLUMNS];
    columns_of(e, columns);
    fv_json_writer w;
    fv_json_begin(&w, log->ctx);
    fv_json_open(&w, '{');
    for (int i = 0; i < COLUMNS; i++) {
        if (!isfinite(columns[i].value)) continue;
        fv_json_key(&w, columns[i].name);
        if (columns[i].whole)
            fv_json_int(&w, (int64_t)columns[i].value);
        else
            fv_json_real(&w, columns[i].value);
    }
    for (int i = 0; i < e->metric_count; i++) {
        if (!isfinite(e->metrics[i].value)) continue;
        char name[TAG_BYTES]; /* a metric may have a column's name: "loss" of both kinds */
        metric_tag(&e->metrics[i], name);
        fv_json_key(&w, name);
        fv_json_real(&w, e->metrics[i].value);
    }
    fv_json_close(&w, '}');
    fv_json_raw(&w, "\n", 1);
    fv_status status = fv_json_end(&w);
    if (status == FV_OK) status = append(log, JSONL, w.text, w.bytes);
    fv_json_free(&w);
    return status;
}

/* Numbers without the locale's comma; empty where there is none. */
static size_t csv_number(char *out, size_t room, double value, bool whole)
{
    char text[FV_DECIMAL_BYTES] = "";
    if (isfinite(value) && !whole) fv_double_to_decimal(value, text);
    const int n = isfinite(value) && whole ? snprintf(out, room, "%.0f", value)
                                           : snprintf(out, room, "%s", text);
    return n > 0 ? (size_t)n : 0;
}

static fv_status add_csv(fv_train_log *log, const fv_train_event *e, const fv_metric *metric)
{
    column columns[COLUMNS];
    columns_of(e, columns);
    char line[512];
    size_t n = 0;
    for (int i = 0; i < COLUMNS; i++) {
        n += csv_number(line + n, sizeof line - n, columns[i].value, columns[i].whole);
        line[n++] = ',';
    }
    if (metric) n += (size_t)snprintf(line + n, 40, "%s", metric->name);
    line[n++] = ',';
    if (metric) n += csv_number(line + n, sizeof line - n, metric->value, false);
    line[n++] = '\n';
    return append(log, CSV, line, n);
}

static fv_status add_scalar(fv_train_log *log, uint64_t step, const char *tag, double value)
{
    unsigned char record[FV_EVENT_BYTES];
    return append(log, EVENTS, record,
                  fv_event_scalar(&log->crc, wall_time(), step, tag, value, record));
}

fv_status fv_train_log_add(fv_train_log *log, const fv_train_event *e)
{
    if (!log->folder) return FV_OK;
    FV_TRY(add_json(log, e));
    if (e->metric_count == 0) {
        FV_TRY(add_csv(log, e, NULL));
        FV_TRY(add_scalar(log, e->step, "train/loss", e->loss));
        FV_TRY(add_scalar(log, e->step, "train/lr", e->lr));
        FV_TRY(add_scalar(log, e->step, "train/grad_norm", e->grad_norm));
        return add_scalar(log, e->step, "train/tokens_per_second", e->tokens_per_second);
    }
    for (int i = 0; i < e->metric_count; i++) {
        char tag[TAG_BYTES];
        FV_TRY(add_csv(log, e, &e->metrics[i]));
        metric_tag(&e->metrics[i], tag);
        FV_TRY(add_scalar(log, e->step, tag, e->metrics[i].value));
    }
    return FV_OK;
}
