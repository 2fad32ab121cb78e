/*
 * The files that lie beside a model's weights: tokenizers of several files, the settings of
 * sentence-transformers, names of classes. The input is a whole folder: byte 0x1E, a name and a
 * line end begin a file, which reaches to the next such byte.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/model.h"
#include "fovea/tokenizer.h"
#include "fuzz.h"
#include "models/hf_labels.h"

enum { MOST_FILES = 12, MARK = 0x1E, LABELS = 5 };
#define FOLDER "folder"

typedef struct part {
    const char *name, *data;
    size_t name_bytes, bytes;
} part;

static part parts[MOST_FILES];
static int part_count;

static void cut(const char *data, size_t bytes)
{
    const char *at = data, *end = data + bytes;
    part_count = 0;
    while (part_count < MOST_FILES && at < end && (at = memchr(at, MARK, (size_t)(end - at)))) {
        const char *name = ++at, *line = memchr(name, '\n', (size_t)(end - name));
        if (!line) return;
        const char *stop = memchr(line, MARK, (size_t)(end - line));
        if (!stop) stop = end;
        parts[part_count++] = (part){.name = name,
                                     .name_bytes = (size_t)(line - name),
                                     .data = line + 1,
                                     .bytes = (size_t)(stop - line - 1)};
        at = stop;
    }
}

static int64_t part_open(void *user, const char *path, fv_io_mode mode)
{
    (void)user;
    if (mode == FV_IO_DIRECTORY) return strcmp(path, FOLDER) == 0 ? MOST_FILES : -ENOTDIR;
    if (mode != FV_IO_READ || strncmp(path, FOLDER "/", sizeof FOLDER) != 0) return -ENOENT;
    const char *name = path + sizeof FOLDER;
    for (int i = 0; i < part_count; i++)
        if (strlen(name) == parts[i].name_bytes &&
            memcmp(name, parts[i].name, parts[i].name_bytes) == 0)
            return i;
    return -ENOENT;
}

static int64_t part_size(void *user, int64_t file)
{
    (void)user;
    return file < MOST_FILES ? (int64_t)parts[file].bytes : 0;
}

static int64_t part_read(void *user, int64_t file, void *buf, size_t n, uint64_t offset)
{
    (void)user;
    if (file >= MOST_FILES || offset >= parts[file].bytes) return 0;
    if (n > parts[file].bytes - offset) n = parts[file].bytes - (size_t)offset;
    memcpy(buf, parts[file].data + offset, n);
    return (int64_t)n;
}

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    fv_tokenizer *tok = NULL;
    fv_embedding_rule rule;
    fv_arena arena;
    const char *const *names = NULL;
    ctx->io.open = part_open;
    ctx->io.size = part_size;
    ctx->io.read = part_read;
    cut((const char *)data, bytes);
    if (fv_tokenizer_load(ctx, FOLDER, &tok) == FV_OK) fuzz_tokenizer(ctx, tok);
    tok = NULL;
    if (fv_tokenizer_load_target(ctx, FOLDER, &tok) == FV_OK) fuzz_tokenizer(ctx, tok);
    if (fv_embedding_rule_load(ctx, FOLDER, &rule) == FV_OK && rule.max_tokens < 0) abort();
    fv_arena_init(&arena, &ctx->mem);
    if (fv_hf_labels_load(ctx, FOLDER "/config.json", LABELS, &arena, &names) == FV_OK && names)
        for (int i = 0; i < LABELS; i++)
            if (!names[i]) abort();
    fv_arena_free(&arena);
    fuzz_check(ctx);
    return 0;
}
