/*
 * SCAN: commands and the actions they mean, from lines "IN: command OUT: actions". A split of the
 * public set is one set here. Its test part is the published one. The published training part is
 * split once more by the rule of fovea/data.h: what the rule puts into `valid` is held out for
 * validation, the rest trains. Commands of one word always train, because the jump split shows
 * "jump" in no other way. Repeated training lines stay: the jump split weighs that command so.
 */
#include <stdio.h>
#include <string.h>

#include "data/datasets.h"
#include "fovea/data.h"
#include "io/file.h"

static const char in[] = "IN: ", out_mark[] = " OUT: ";

/* Splits a line. False: it does not have the form. */
static bool split_line(const fv_line *line, fv_string *command, fv_string *actions)
{
    const size_t head = sizeof in - 1, mark = sizeof out_mark - 1;
    if (line->bytes < head + mark || memcmp(line->text, in, head) != 0) return false;
    const char *end = line->text + line->bytes;
    for (const char *p = line->text + head; p + mark < end; p++)
        if (memcmp(p, out_mark, mark) == 0) {
            *command = (fv_string){line->text + head, (size_t)(p - line->text) - head};
            *actions = (fv_string){p + mark, (size_t)(end - p) - mark};
            return command->bytes > 0;
        }
    return false;
}

static fv_status add_line(fv_made_sink *sink, bool test, const char *path, const fv_line *line)
{
    fv_string command, actions;
    FV_RETURN_IF(!split_line(line, &command, &actions), sink->ctx, FV_ERR_FORMAT,
                 "%s:%llu: expected 'IN: command OUT: actions'", path,
                 (unsigned long long)line->number);
    const bool held_out = memchr(command.text, ' ', command.bytes) &&
                          fv_made_part_of(command.text, command.bytes) == FV_MADE_VALID;
    const fv_made_part part = test ? FV_MADE_TEST : held_out ? FV_MADE_VALID : FV_MADE_TRAIN;
    return fv_made_put(sink, part, command, actions);
}

static fv_status read_file(fv_made_sink *sink, const char *split, bool test)
{
    fv_ctx *ctx = sink->ctx;
    char name[96], path[FV_PATH_BYTES];
    snprintf(name, sizeof name, "scan/tasks_%s_%s.txt.xz", test ? "test" : "train", split);
    FV_TRY(fv_path_join(ctx, path, sink->cfg->data, name));
    fv_lines *lines = NULL;
    FV_TRY(fv_lines_open(ctx, path, FV_LINES_POLICY_REJECT, &lines));
    fv_line line = {.text = ""};
    fv_status status = FV_OK;
    while (status == FV_OK && (status = fv_lines_next(lines, &line)) == FV_OK && line.text)
        status = add_line(sink, test, path, &line);
    fv_lines_close(&lines);
    return status;
}

static fv_status make_split(fv_made_sink *sink, const char *split)
{
    FV_TRY(read_file(sink, split, false));
    return read_file(sink, split, true);
}

fv_status fv_make_scan_simple(fv_made_sink *sink) { return make_split(sink, "simple"); }
fv_status fv_make_scan_length(fv_made_sink *sink) { return make_split(sink, "length"); }
fv_status fv_make_scan_jump(fv_made_sink *sink) { return make_split(sink, "addprim_jump"); }
