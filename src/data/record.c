#include "data/record.h"

#include <string.h>

#include "base/checked_math.h"

void fv_line_skip_mark(fv_line *line)
{
    if (line->number != 1 || line->bytes < 3 || memcmp(line->text, "\xEF\xBB\xBF", 3) != 0) return;
    line->text += 3;
    line->bytes -= 3;
}

void fv_record_init(fv_record *r, fv_ctx *ctx, const char *path, char separator)
{
    *r = (fv_record){.ctx = ctx, .path = path, .separator = separator};
}

void fv_record_free(fv_record *r)
{
    if (r->bytes) fv_mem_free(&r->ctx->mem, r->bytes, r->room);
    r->bytes = NULL;
    r->room = r->used = 0;
}

static fv_status put(fv_record *r, char c)
{
    size_t need;
    char *grown = NULL;
    if (fv_checked_add_size(r->used, 1, &need))
        grown = fv_mem_grow(&r->ctx->mem, r->bytes, &r->room, need, 1);
    FV_RETURN_IF(!grown, r->ctx, FV_ERR_MEMORY, "no memory for a record");
    r->bytes = grown;
    r->bytes[r->used++] = c;
    return FV_OK;
}

static fv_status end_field(fv_record *r) { return put(r, '\0'); }

static void begin_field(fv_record *r)
{
    r->quoted = r->closed = false;
    if (r->count == FV_RECORD_FIELDS)
        r->problem = "more than 256 fields";
    else
        r->field[r->count++] = r->used;
}

/* One line, which may end inside quotes. A malformed one is read to its end. */
static fv_status read_line(fv_record *r, const fv_line *line)
{
    const bool quotes = r->separator != '\t';
    if (!line->valid) r->problem = "invalid UTF-8";
    for (size_t i = 0; i < line->bytes; i++) {
        const char c = line->text[i];
        if (r->quoted && c == '"') {
            const bool doubled = i + 1 < line->bytes && line->text[i + 1] == '"';
            if (doubled) FV_TRY(put(r, line->text[++i]));
            r->quoted = doubled;
            r->closed = !doubled;
        } else if (!r->quoted && c == r->separator) {
            FV_TRY(end_field(r));
            begin_field(r);
        } else if (quotes && c == '"' && !r->quoted && !r->closed &&
                   r->used == r->field[r->count - 1]) {
            r->quoted = true;
        } else {
            if (r->closed) r->problem = "text after a closing quote";
            FV_TRY(put(r, c));
        }
    }
    return FV_OK;
}

fv_status fv_record_next(fv_lines *lines, fv_record *r)
{
    fv_line line = {.text = ""};
    r->count = 0;
    r->used = 0;
    r->problem = NULL;
    r->is_open = false;
    while (line.bytes == 0) {
        FV_TRY(fv_lines_next(lines, &line));
        if (!line.text) return FV_OK;
        fv_line_skip_mark(&line);
    }
    r->line = line.number;
    begin_field(r);
    for (;;) {
        FV_TRY(read_line(r, &line));
        if (!r->quoted) return end_field(r);
        FV_TRY(put(r, '\n'));
        FV_TRY(fv_lines_next(lines, &line));
        if (!line.text || line.number - r->line >= FV_RECORD_LINES || r->used > FV_RECORD_BYTES) {
            r->problem = "a quote is never closed";
            r->is_open = true;
            return end_field(r);
        }
    }
}

fv_status fv_record_check(const fv_record *r)
{
    FV_RETURN_IF(r->problem, r->ctx, FV_ERR_FORMAT, "%.150s:%llu: %s", r->path,
                 (unsigned long long)r->line, r->problem);
    return FV_OK;
}

fv_string fv_record_field(const fv_record *r, int i)
{
    const size_t end = i + 1 < r->count ? r->field[i + 1] : r->used;
    return (fv_string){r->bytes + r->field[i], end - r->field[i] - 1};
}
