/* tatoeba-en-fr and tatoeba-en-zh: the pairs of one file, "english<TAB>translation" per line, split
 * by the rule of fovea/data.h. */
#include <string.h>

#include "data/datasets.h"
#include "fovea/data.h"
#include "io/arena.h"
#include "io/file.h"
#include "io/sort.h"

typedef struct pair {
    fv_string source, target;
    uint64_t hash;
} pair;

typedef struct reading {
    fv_made_sink *sink;
    fv_arena arena;
    pair *list;
    size_t count, room;
    uint32_t *order; /* [2][count] */
} reading;

static fv_status out_of_memory(const reading *r)
{
    return fv_fail(r->sink->ctx, FV_ERR_MEMORY, "out of memory after %zu pairs", r->count);
}

static fv_status add_line(reading *r, const char *name, const fv_line *line)
{
    fv_ctx *ctx = r->sink->ctx;
    const char *tab = memchr(line->text, '\t', line->bytes);
    const size_t source = tab ? (size_t)(tab - line->text) : 0;
    const size_t target = tab ? line->bytes - source - 1 : 0;
    FV_RETURN_IF(source == 0 || target == 0 || memchr(tab + 1, '\t', target), ctx, FV_ERR_FORMAT,
                 "%s:%llu: expected two texts with one tab between them", name,
                 (unsigned long long)line->number);
    pair *list = fv_mem_grow(&ctx->mem, r->list, &r->room, r->count + 1, sizeof *list);
    if (!list) return out_of_memory(r);
    r->list = list;
    const char *copy = fv_arena_text(&r->arena, line->text, line->bytes);
    if (!copy) return out_of_memory(r);
    list[r->count++] = (pair){.source = {copy, source},
                              .target = {copy + source + 1, target},
                              .hash = fv_made_hash(copy, source)};
    return FV_OK;
}

static fv_status read_pairs(reading *r, const char *path)
{
    fv_ctx *ctx = r->sink->ctx;
    fv_lines *lines = NULL;
    FV_TRY(fv_lines_open(ctx, path, FV_LINES_POLICY_REJECT, &lines));
    fv_line line = {.text = ""};
    fv_status status = FV_OK;
    while (status == FV_OK && !fv_cancelled(ctx) &&
           (status = fv_lines_next(lines, &line)) == FV_OK && line.text)
        status = add_line(r, path, &line);
    fv_lines_close(&lines);
    if (status == FV_OK && fv_cancelled(ctx))
        status = fv_fail(ctx, FV_ERR_CANCELLED, "interrupted");
    FV_RETURN_IF(status == FV_OK && r->count > UINT32_MAX, ctx, FV_ERR_LIMIT, "%s: too many lines",
                 path);
    return status;
}

static int compare_texts(fv_string a, fv_string b)
{
    const int c = memcmp(a.text, b.text, a.bytes < b.bytes ? a.bytes : b.bytes);
    return c ? c : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* By hash, then by source, so that equal sources are adjacent. The sort is stable. */
static int compare_pairs(const void *list, uint32_t a, uint32_t b)
{
    const pair *p = (const pair *)list + a, *q = (const pair *)list + b;
    if (p->hash != q->hash) return p->hash < q->hash ? -1 : 1;
    return compare_texts(p->source, q->source);
}

/* Whether pair i of the order repeats an earlier one: both texts, or with source_alone the source.
 */
static bool repeats(const reading *r, size_t i, bool source_alone)
{
    const pair *p = &r->list[r->order[i]];
    for (size_t k = i; k > 0; k--) {
        const pair *q = &r->list[r->order[k - 1]];
        if (compare_texts(p->source, q->source) != 0) return false;
        if (source_alone || compare_texts(p->target, q->target) == 0) return true;
    }
    return false;
}

static fv_status split_pairs(reading *r)
{
    fv_argsort(r->list, r->count, compare_pairs, r->order, r->order + r->count);
    for (size_t i = 0; i < r->count; i++) {
        const pair *p = &r->list[r->order[i]];
        const fv_made_part part = fv_made_part_of(p->source.text, p->source.bytes);
        if (repeats(r, i, part != FV_MADE_TRAIN))
            r->sink->report.repeated++;
        else
            FV_TRY(fv_made_put(r->sink, part, p->source, p->target));
    }
    return FV_OK;
}

static fv_status make_from(fv_made_sink *sink, const char *file)
{
    fv_mem *mem = &sink->ctx->mem;
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(sink->ctx, path, sink->cfg->data, file));
    reading r = {.sink = sink};
    fv_arena_init(&r.arena, mem);
    fv_status status = read_pairs(&r, path);
    const size_t order_bytes = 2 * r.count * sizeof *r.order;
    if (status == FV_OK && !(r.order = fv_mem_alloc(mem, order_bytes))) status = out_of_memory(&r);
    if (status == FV_OK) status = split_pairs(&r);
    fv_mem_free(mem, r.order, order_bytes);
    fv_mem_free(mem, r.list, r.room * sizeof *r.list);
    fv_arena_free(&r.arena);
    return status;
}

fv_status fv_make_tatoeba_french(fv_made_sink *sink)
{
    return make_from(sink, "tatoeba-eng-fra/fra.txt.xz");
}

fv_status fv_make_tatoeba_chinese(fv_made_sink *sink)
{
    return make_from(sink, "tatoeba-eng-cmn/cmn.txt.xz");
}
