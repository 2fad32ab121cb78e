/* Lists of pictures with labels: a TSV file beside them. */
#include <string.h>

#include "fovea/data.h"
#include "fovea/image.h"
#include "io/arena.h"
#include "io/file.h"
#include "io/sort.h"

typedef struct picture_entry {
    const char *file, *label;
    int64_t class_number;
    struct picture_entry *next;
} picture_entry;

struct fv_pictures {
    fv_ctx *ctx;
    fv_arena arena;
    int64_t count, classes;
    picture_entry *entries;
    const char **names;
};

static fv_status out_of_memory(fv_ctx *ctx, const char *path)
{
    return fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", path);
}

/* Whether a name stays inside the folder of its list. */
static bool is_inside(const char *name, size_t bytes)
{
    if (bytes == 0 || name[0] == '/') return false;
    for (const char *part = name; part;) {
        const char *slash = memchr(part, '/', (size_t)(name + bytes - part));
        const size_t length = (size_t)((slash ? slash : name + bytes) - part);
        if (length == 2 && memcmp(part, "..", 2) == 0) return false;
        part = slash ? slash + 1 : NULL;
    }
    return true;
}

static fv_status parse_line(fv_pictures *set, const char *tsv, const fv_line *line,
                            picture_entry *out)
{
    const char *tab = memchr(line->text, '\t', line->bytes), *slash = strrchr(tsv, '/');
    FV_RETURN_IF(!tab, set->ctx, FV_ERR_FORMAT, "%s:%llu: expected file, tab, label", tsv,
                 (unsigned long long)line->number);
    const size_t file = (size_t)(tab - line->text), folder = slash ? (size_t)(slash - tsv) + 1 : 0;
    FV_RETURN_IF(!is_inside(line->text, file), set->ctx, FV_ERR_FORMAT,
                 "%s:%llu: '%.80s' is not a path within the folder of the list", tsv,
                 (unsigned long long)line->number, line->text);
    char *path = fv_arena_array(&set->arena, folder + file + 1, 1);
    out->label = fv_arena_text(&set->arena, tab + 1, line->bytes - file - 1);
    if (!path || !out->label) return out_of_memory(set->ctx, tsv);
    memcpy(path, tsv, folder);
    memcpy(path + folder, line->text, file);
    path[folder + file] = '\0';
    out->file = path;
    return FV_OK;
}

/* Reads all lines as a list, the last one first. */
static fv_status read_lines(fv_pictures *set, const char *tsv, fv_lines *lines,
                            picture_entry **last)
{
    fv_line line;
    for (;;) {
        FV_TRY(fv_lines_next(lines, &line));
        if (!line.text) return FV_OK;
        picture_entry *entry = fv_arena_alloc(&set->arena, sizeof *entry);
        if (!entry) return out_of_memory(set->ctx, tsv);
        *entry = (picture_entry){.next = *last};
        FV_TRY(parse_line(set, tsv, &line, entry));
        *last = entry;
        FV_RETURN_IF(++set->count > INT32_MAX, set->ctx, FV_ERR_LIMIT, "%s: too many lines", tsv);
    }
}

static int by_label(const void *items, uint32_t a, uint32_t b)
{
    const picture_entry *entries = items;
    return strcmp(entries[a].label, entries[b].label);
}

/* Numbers the labels in the order of their bytes. */
static fv_status number_classes(fv_pictures *set, const char *tsv)
{
    const size_t count = (size_t)set->count;
    uint32_t *order = fv_arena_array(&set->arena, count + 1, 2 * sizeof *order);
    set->names = fv_arena_array(&set->arena, count + 1, sizeof *set->names);
    if (!order || !set->names) return out_of_memory(set->ctx, tsv);
    fv_argsort(set->entries, count, by_label, order, order + count + 1);
    for (size_t i = 0; i < count; i++) {
        picture_entry *entry = &set->entries[order[i]];
        if (i == 0 || strcmp(set->names[set->classes - 1], entry->label) != 0)
            set->names[set->classes++] = entry->label;
        entry->class_number = set->classes - 1;
    }
    return FV_OK;
}

static fv_status fill(fv_pictures *set, const char *tsv)
{
    fv_lines *lines = NULL;
    picture_entry *last = NULL;
    FV_TRY(fv_lines_open(set->ctx, tsv, FV_LINES_POLICY_REJECT, &lines));
    const fv_status s = read_lines(set, tsv, lines, &last);
    fv_lines_close(&lines);
    FV_TRY(s);
    set->entries = fv_arena_array(&set->arena, (size_t)set->count + 1, sizeof *set->entries);
    if (!set->entries) return out_of_memory(set->ctx, tsv);
    for (int64_t i = set->count - 1; i >= 0; i--, last = last->next)
        set->entries[i] = *last;
    return number_classes(set, tsv);
}

fv_status fv_pictures_open(fv_ctx *ctx, const char *tsv, fv_pictures **out)
{
    fv_pictures *set = fv_mem_alloc(&ctx->mem, sizeof *set);
    if (!set) return out_of_memory(ctx, tsv);
    *set = (fv_pictures){.ctx = ctx};
    fv_arena_init(&set->arena, &ctx->mem);
    const fv_status s = fill(set, tsv);
    if (s == FV_OK)
        *out = set;
    else
        fv_pictures_close(&set);
    return s;
}

void fv_pictures_close(fv_pictures **set)
{
    if (!*set) return;
    fv_arena_free(&(*set)->arena);
    fv_mem_free(&(*set)->ctx->mem, *set, sizeof **set);
    *set = NULL;
}

int64_t fv_pictures_count(const fv_pictures *set) { return set->count; }
int64_t fv_pictures_classes(const fv_pictures *set) { return set->classes; }

const char *fv_pictures_file(const fv_pictures *set, int64_t i)
{
    return i >= 0 && i < set->count ? set->entries[i].file : NULL;
}

int64_t fv_pictures_label(const fv_pictures *set, int64_t i)
{
    return i >= 0 && i < set->count ? set->entries[i].class_number : -1;
}

const char *fv_pictures_class(const fv_pictures *set, int64_t class_number)
{
    return class_number >= 0 && class_number < set->classes ? set->names[class_number] : NULL;
}
