/* Checks the files of a data set: line counts, checksums, and that parts share no source. */
#include <stdio.h>
#include <string.h>

#include "data/datasets.h"
#include "fovea/data.h"
#include "io/file.h"
#include "io/json.h"
#include "io/sha256.h"
#include "io/sort.h"

enum { CHUNK = 1 << 16 };

/* The observer of each file's result, and the first failure. */
typedef struct checking {
    fv_ctx *ctx;
    fv_dataset_observer observe;
    void *user;
    fv_status first;
    char message[FV_MESSAGE_BYTES]; /* of the first failure */
} checking;

/* ---- one file ---------------------------------------------------------------------- */

static fv_status hash_file(fv_ctx *ctx, const char *path, char out[FV_SHA256_TEXT])
{
    fv_file file;
    FV_TRY(fv_file_open(ctx, path, &file));
    char *chunk = fv_mem_alloc(&ctx->mem, CHUNK);
    fv_status status = chunk ? FV_OK : fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    fv_sha256 sum;
    fv_sha256_init(&sum);
    for (uint64_t at = 0; status == FV_OK && at < file.bytes; at += CHUNK) {
        const size_t n = file.bytes - at < CHUNK ? (size_t)(file.bytes - at) : CHUNK;
        status = fv_cancelled(ctx) ? fv_fail(ctx, FV_ERR_CANCELLED, "interrupted")
                                   : fv_file_read(&file, chunk, n, at);
        if (status == FV_OK) fv_sha256_add(&sum, chunk, n);
    }
    fv_mem_free(&ctx->mem, chunk, CHUNK);
    fv_file_close(&file);
    if (status == FV_OK) fv_sha256_text(&sum, out);
    return status;
}

static fv_status count_lines(fv_ctx *ctx, const char *path, int64_t *out)
{
    fv_lines *lines = NULL;
    FV_TRY(fv_lines_open(ctx, path, FV_LINES_POLICY_REJECT, &lines));
    fv_line line = {.text = ""};
    fv_status status = FV_OK;
    while (status == FV_OK && line.text)
        status = fv_cancelled(ctx) ? fv_fail(ctx, FV_ERR_CANCELLED, "interrupted")
                                   : fv_lines_next(lines, &line);
    if (status == FV_OK) *out = (int64_t)line.number;
    fv_lines_close(&lines);
    return status;
}

/* Lines come before the checksum: if a text is damaged, that message has the line number. */
static fv_status check_contents(fv_ctx *ctx, const fv_dataset_file *expected,
                                fv_dataset_finding *finding)
{
    const char *path = finding->path;
    if (expected->lines != -1) FV_TRY(count_lines(ctx, path, &finding->lines));
    FV_RETURN_IF(expected->lines >= 0 && finding->lines != expected->lines, ctx, FV_ERR_FORMAT,
                 "%s: %lld lines, expected %lld", path, (long long)finding->lines,
                 (long long)expected->lines);
    FV_TRY(hash_file(ctx, path, finding->sha256));
    FV_RETURN_IF(expected->sha256 && strcmp(finding->sha256, expected->sha256) != 0, ctx,
                 FV_ERR_FORMAT, "%s: the checksum is %.16s..., expected %.16s...", path,
                 finding->sha256, expected->sha256);
    return FV_OK;
}

static void report(checking *c, fv_dataset_finding *finding, fv_status status)
{
    finding->status = status;
    finding->message = status == FV_OK ? "" : fv_ctx_message(c->ctx);
    if (c->observe) c->observe(c->user, finding);
    if (c->first != FV_OK || status == FV_OK) return;
    c->first = status;
    snprintf(c->message, sizeof c->message, "%s", fv_ctx_message(c->ctx));
}

static void check_file(checking *c, const char *path, const fv_dataset_file *expected)
{
    fv_dataset_finding finding = {.path = path, .lines = -1};
    if (c->first == FV_ERR_CANCELLED || c->first == FV_ERR_MEMORY) return;
    report(c, &finding, check_contents(c->ctx, expected, &finding));
}

/* Returns the first failure with its message, which later files may have overwritten. */
static fv_status first_failure(const checking *c)
{
    return c->first == FV_OK ? FV_OK : fv_fail(c->ctx, c->first, "%s", c->message);
}

fv_status fv_text_file_check(fv_ctx *ctx, const char *path, fv_dataset_observer observe, void *user)
{
    checking c = {.ctx = ctx, .observe = observe, .user = user};
    check_file(&c, path, &(fv_dataset_file){.path = path, .lines = -2});
    return first_failure(&c);
}

/* ---- public sets ------------------------------------------------------------------- */

fv_status fv_dataset_check(fv_ctx *ctx, const fv_dataset *set, const char *data,
                           fv_dataset_observer observe, void *user)
{
    checking c = {.ctx = ctx, .observe = observe, .user = user};
    for (size_t i = 0; i < set->file_count; i++) {
        char path[FV_PATH_BYTES];
        FV_TRY(fv_path_join(ctx, path, data, set->files[i].path));
        check_file(&c, path, &set->files[i]);
    }
    return first_failure(&c);
}

size_t fv_dataset_present(fv_ctx *ctx, const fv_dataset *set, const char *data)
{
    size_t present = 0;
    for (size_t i = 0; i < set->file_count; i++) {
        char path[FV_PATH_BYTES];
        if (fv_path_join(ctx, path, data, set->files[i].path) == FV_OK)
            present += fv_file_exists(ctx, path);
    }
    return present;
}

/* ---- generated sets ---------------------------------------------------------------- */

/* Digests of the sources of all parts. */
typedef struct source_list {
    struct source_digest {
        uint64_t digest;
        fv_made_part part;
        int64_t line;
    } * items;
    size_t count, room;
} source_list;

static fv_status add_sources(fv_ctx *ctx, const char *path, fv_made_part part, source_list *list)
{
    fv_lines *lines = NULL;
    FV_TRY(fv_lines_open(ctx, path, FV_LINES_POLICY_REJECT, &lines));
    fv_line line = {.text = ""};
    fv_status status;
    while ((status = fv_lines_next(lines, &line)) == FV_OK && line.text) {
        struct source_digest *items =
            fv_mem_grow(&ctx->mem, list->items, &list->room, list->count + 1, sizeof *items);
        if (!items) status = fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", path);
        if (status != FV_OK) break;
        list->items = items;
        items[list->count++] = (struct source_digest){fv_text_digest(line.text, line.bytes), part,
                                                      (int64_t)line.number};
    }
    fv_lines_close(&lines);
    return status;
}

static int compare_digests(const void *list, uint32_t a, uint32_t b)
{
    const struct source_digest *items = list;
    return (items[a].digest > items[b].digest) - (items[a].digest < items[b].digest);
}

static fv_status find_shared(fv_ctx *ctx, const source_list *list)
{
    const size_t bytes = 2 * list->count * sizeof(uint32_t);
    FV_RETURN_IF(list->count > UINT32_MAX, ctx, FV_ERR_LIMIT, "too many sources");
    uint32_t *order = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!order, ctx, FV_ERR_MEMORY, "out of memory for %zu sources", list->count);
    fv_argsort(list->items, list->count, compare_digests, order, order + list->count);
    fv_status status = FV_OK;
    for (size_t i = 1; i < list->count && status == FV_OK; i++) {
        const struct source_digest *a = &list->items[order[i - 1]], *b = &list->items[order[i]];
        if (a->digest == b->digest && a->part != b->part)
            status = fv_fail(ctx, FV_ERR_FORMAT, "line %lld of %s and line %lld of %s are the same",
                             (long long)a->line, fv_made_part_name(a->part), (long long)b->line,
                             fv_made_part_name(b->part));
    }
    fv_mem_free(&ctx->mem, order, bytes);
    return status;
}

static fv_status check_sources(fv_ctx *ctx, const char *folder, const char *ending)
{
    source_list list = {.items = NULL};
    fv_status status = FV_OK;
    for (int part = 0; part < FV_MADE_PARTS && status == FV_OK; part++) {
        char name[FV_MADE_NAME], path[FV_PATH_BYTES];
        fv_made_file_name(name, (fv_made_part)part, ending);
        status = fv_path_join(ctx, path, folder, name);
        if (status == FV_OK) status = add_sources(ctx, path, (fv_made_part)part, &list);
    }
    if (status == FV_OK) status = find_shared(ctx, &list);
    fv_mem_free(&ctx->mem, list.items, list.room * sizeof *list.items);
    return status;
}

/* The entry of a file in the manifest. */
static fv_status find_entry(const fv_doc *doc, const fv_value *files, const char *name,
                            fv_dataset_file *out)
{
    for (uint32_t i = 0; i < files->count; i++) {
        const char *file = NULL;
        FV_TRY(fv_doc_get_string(doc, &files->as.items[i], "file", true, &file));
        if (strcmp(file, name) != 0) continue;
        FV_TRY(fv_doc_get_string(doc, &files->as.items[i], "sha256", true, &out->sha256));
        return fv_doc_get_int(doc, &files->as.items[i], "lines", true, 0, INT64_MAX, &out->lines);
    }
    return fv_doc_fail(doc, files, FV_ERR_FORMAT, "expected an entry for file '%s'", name);
}

static fv_status check_part(checking *c, const fv_doc *doc, const char *folder, fv_made_part part,
                            const char *const endings[FV_MADE_SIDES])
{
    const fv_value *files = NULL;
    int64_t lines[FV_MADE_SIDES] = {0};
    FV_TRY(fv_doc_get(doc, &doc->root, "files", FV_VALUE_ARRAY, &files));
    for (int side = 0; side < FV_MADE_SIDES; side++) {
        char name[FV_MADE_NAME], path[FV_PATH_BYTES];
        fv_dataset_file expected = {.lines = 0};
        fv_made_file_name(name, part, endings[side]);
        FV_TRY(find_entry(doc, files, name, &expected));
        FV_TRY(fv_path_join(c->ctx, path, folder, name));
        check_file(c, path, &expected);
        lines[side] = expected.lines;
    }
    FV_RETURN_IF(lines[0] != lines[1], c->ctx, FV_ERR_FORMAT,
                 "%s: the two sides of %s have %lld and %lld lines", doc->name,
                 fv_made_part_name(part), (long long)lines[0], (long long)lines[1]);
    return FV_OK;
}

static fv_status check_generated(checking *c, const fv_doc *doc, const char *folder)
{
    const char *endings[FV_MADE_SIDES] = {NULL, NULL};
    FV_TRY(fv_doc_get_string(doc, &doc->root, "source", true, &endings[FV_MADE_SOURCE]));
    FV_TRY(fv_doc_get_string(doc, &doc->root, "target", true, &endings[FV_MADE_TARGET]));
    /* A manifest may name files of its folder only. */
    FV_RETURN_IF(strchr(endings[0], '/') || strchr(endings[1], '/'), c->ctx, FV_ERR_FORMAT,
                 "%s: expected file name endings without '/', got '%.40s' and '%.40s'", doc->name,
                 endings[0], endings[1]);
    for (int part = 0; part < FV_MADE_PARTS; part++)
        FV_TRY(check_part(c, doc, folder, (fv_made_part)part, endings));
    return c->first == FV_OK ? check_sources(c->ctx, folder, endings[FV_MADE_SOURCE]) : FV_OK;
}

fv_status fv_made_set_check(fv_ctx *ctx, const char *folder, fv_dataset_observer observe,
                            void *user)
{
    checking c = {.ctx = ctx, .observe = observe, .user = user};
    char path[FV_PATH_BYTES];
    fv_doc *doc = NULL;
    FV_TRY(fv_path_join(ctx, path, folder, FV_MADE_MANIFEST));
    FV_TRY(fv_json_load(ctx, path, &doc));
    fv_status status = check_generated(&c, doc, folder);
    fv_doc_free(&doc);
    return status == FV_OK ? first_failure(&c) : status;
}
