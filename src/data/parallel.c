#include "data/parallel.h"

#include <string.h>

#include "base/config.h"
#include "fovea/data.h"

typedef struct side {
    fv_string text;
    const int64_t *tokens;
    int64_t count;
} side;

typedef struct pair {
    side source, target;
} pair;

struct fv_parallel {
    fv_ctx *ctx;
    fv_tokenizer_encoder *source_encoder, *target_encoder;
    fv_arena arena;
    pair *list;
    size_t count, room;
    /* results of fv_parallel_pick */
    const int64_t **picked; /* [2][pick_room] */
    int64_t *lengths;
    size_t pick_room;
};

void fv_parallel_config_init(fv_parallel_config *cfg, size_t struct_size)
{
    memset(cfg, 0, struct_size);
    cfg->struct_size = struct_size;
}

fv_status fv_parallel_create_with(fv_ctx *ctx, fv_tokenizer_encoder *source,
                                  fv_tokenizer_encoder *target, fv_parallel **out)
{
    fv_parallel *p = fv_mem_zalloc(&ctx->mem, sizeof *p);
    FV_RETURN_IF(!p, ctx, FV_ERR_MEMORY, "no memory for sentence pairs");
    p->ctx = ctx;
    p->source_encoder = source;
    p->target_encoder = target;
    fv_arena_init(&p->arena, &ctx->mem);
    *out = p;
    return FV_OK;
}

void fv_parallel_destroy(fv_parallel **pairs)
{
    fv_parallel *p = *pairs;
    if (!p) return;
    fv_mem *mem = &p->ctx->mem;
    fv_arena_free(&p->arena);
    if (p->list) fv_mem_free(mem, p->list, p->room * sizeof *p->list);
    if (p->picked) fv_mem_free(mem, p->picked, 2 * p->pick_room * sizeof *p->picked);
    if (p->lengths) fv_mem_free(mem, p->lengths, 2 * p->pick_room * sizeof *p->lengths);
    fv_mem_free(mem, p, sizeof *p);
    *pairs = NULL;
}

/* ---- adding ------------------------------------------------------------------------ */

fv_status fv_encode_to_arena(fv_ctx *ctx, fv_tokenizer_encoder *encoder, fv_string text,
                             fv_arena *arena, int64_t **tokens, int64_t *count)
{
    fv_encoding e = {.struct_size = sizeof e};
    FV_TRY(fv_tokenizer_encode(encoder, text.text, text.bytes, 0, &e));
    int64_t *out = fv_arena_array(arena, e.count, sizeof *out);
    FV_RETURN_IF(!out, ctx, FV_ERR_MEMORY, "no memory for %zu tokens", e.count);
    for (size_t i = 0; i < e.count; i++)
        out[i] = e.ids[i];
    *tokens = out;
    *count = (int64_t)e.count;
    return FV_OK;
}

static fv_status encode_side(fv_parallel *p, fv_tokenizer_encoder *encoder, fv_string text,
                             side *out)
{
    int64_t *tokens = NULL;
    FV_TRY(fv_encode_to_arena(p->ctx, encoder, text, &p->arena, &tokens, &out->count));
    char *copy = fv_arena_text(&p->arena, text.text, text.bytes);
    FV_RETURN_IF(!copy, p->ctx, FV_ERR_MEMORY, "no memory for a text");
    out->tokens = tokens;
    out->text = (fv_string){copy, text.bytes};
    return FV_OK;
}

static fv_status encode_pair(fv_parallel *p, fv_string source, fv_string target, pair *out)
{
    FV_TRY(encode_side(p, p->source_encoder, source, &out->source));
    return encode_side(p, p->target_encoder, target, &out->target);
}

static fv_status append(fv_parallel *p, const pair *one)
{
    fv_ctx *ctx = p->ctx;
    pair *list = fv_mem_grow(&ctx->mem, p->list, &p->room, p->count + 1, sizeof *list);
    FV_RETURN_IF(!list, ctx, FV_ERR_MEMORY, "no memory for %zu pairs", p->count + 1);
    p->list = list;
    p->list[p->count++] = *one;
    return FV_OK;
}

fv_status fv_parallel_add(fv_parallel *p, fv_string source, fv_string target)
{
    pair one;
    FV_TRY(encode_pair(p, source, target, &one));
    FV_RETURN_IF(one.source.count == 0, p->ctx, FV_ERR_ARGUMENT,
                 "expected a source with at least one token");
    return append(p, &one);
}

/* ---- files ------------------------------------------------------------------------- */

typedef struct reading {
    fv_parallel *p;
    const fv_parallel_config *cfg;
    fv_parallel_report report;
    fv_lines *source, *target;
} reading;

static fv_status add_lines(reading *r, const fv_line *source, const fv_line *target)
{
    if (!source->valid || !target->valid) {
        r->report.invalid++;
        return FV_OK;
    }
    pair one;
    FV_TRY(encode_pair(r->p, (fv_string){source->text, source->bytes},
                       (fv_string){target->text, target->bytes}, &one));
    const int64_t most = r->cfg->max_tokens;
    if (one.source.count == 0 || (one.target.count == 0 && !r->cfg->keep_empty)) {
        r->report.empty++;
    } else if (most > 0 && (one.source.count > most || one.target.count > most)) {
        r->report.too_long++;
    } else {
        FV_TRY(append(r->p, &one));
        r->report.pairs++;
    }
    return FV_OK;
}

static fv_status count_rest(fv_lines *lines, uint64_t *number)
{
    for (;;) {
        fv_line line;
        FV_TRY(fv_lines_next(lines, &line));
        if (!line.text) return FV_OK;
        *number = line.number;
    }
}

static fv_status fail_unequal(const reading *r, uint64_t source, uint64_t target)
{
    FV_TRY(count_rest(r->source, &source));
    FV_TRY(count_rest(r->target, &target));
    return fv_fail(r->p->ctx, FV_ERR_FORMAT,
                   "'%.80s' has %llu lines, '%.80s' has %llu: they must match line by line",
                   fv_lines_name(r->source), (unsigned long long)source, fv_lines_name(r->target),
                   (unsigned long long)target);
}

static fv_status read_all(reading *r)
{
    for (uint64_t n = 0;; n++) {
        fv_line source, target;
        FV_TRY(fv_lines_next(r->source, &source));
        FV_TRY(fv_lines_next(r->target, &target));
        if (!source.text && !target.text) return FV_OK;
        if (!source.text || !target.text)
            return fail_unequal(r, source.text ? n + 1 : n, target.text ? n + 1 : n);
        FV_TRY(add_lines(r, &source, &target));
        if (fv_cancelled(r->p->ctx))
            return fv_fail(r->p->ctx, FV_ERR_CANCELLED, "interrupted while reading");
    }
}

fv_status fv_parallel_read(fv_parallel *p, const char *source, const char *target,
                           const fv_parallel_config *cfg, fv_parallel_report *report)
{
    fv_ctx *ctx = p->ctx;
    fv_parallel_config full;
    fv_parallel_config_init(&full, sizeof full);
    reading r = {.p = p, .cfg = &full};
    FV_RETURN_IF(cfg && !fv_config_copy(&full, sizeof full, cfg), ctx, FV_ERR_ARGUMENT,
                 "sentence pairs: the config is not initialised");
    const fv_lines_policy policy =
        r.cfg->skip_invalid ? FV_LINES_POLICY_MARK : FV_LINES_POLICY_REJECT;
    fv_status status = fv_lines_open(ctx, source, policy, &r.source);
    if (status == FV_OK) status = fv_lines_open(ctx, target, policy, &r.target);
    if (status == FV_OK) status = read_all(&r);
    fv_lines_close(&r.source);
    fv_lines_close(&r.target);
    if (report) *report = r.report;
    return status;
}

/* ---- using ------------------------------------------------------------------------- */

int64_t fv_parallel_count(const fv_parallel *p) { return (int64_t)p->count; }
fv_string fv_parallel_source(const fv_parallel *p, int64_t i) { return p->list[i].source.text; }
fv_string fv_parallel_target(const fv_parallel *p, int64_t i) { return p->list[i].target.text; }

int64_t fv_parallel_tokens(const fv_parallel *p, int64_t i)
{
    return p->list[i].source.count + p->list[i].target.count + 1;
}

static bool make_room(fv_parallel *p, size_t count)
{
    fv_mem *mem = &p->ctx->mem;
    if (count <= p->pick_room) return true;
    const int64_t **picked = fv_mem_alloc(mem, 2 * count * sizeof *picked);
    int64_t *lengths = fv_mem_alloc(mem, 2 * count * sizeof *lengths);
    if (!picked || !lengths) {
        if (picked) fv_mem_free(mem, picked, 2 * count * sizeof *picked);
        if (lengths) fv_mem_free(mem, lengths, 2 * count * sizeof *lengths);
        return false;
    }
    if (p->picked) fv_mem_free(mem, p->picked, 2 * p->pick_room * sizeof *p->picked);
    if (p->lengths) fv_mem_free(mem, p->lengths, 2 * p->pick_room * sizeof *p->lengths);
    p->picked = picked;
    p->lengths = lengths;
    p->pick_room = count;
    return true;
}

fv_status fv_parallel_pick(fv_parallel *p, int64_t count, const int64_t *which, fv_batch *out)
{
    fv_ctx *ctx = p->ctx;
    FV_RETURN_IF(count < 0 || !make_room(p, (size_t)count), ctx, FV_ERR_MEMORY,
                 "no memory for a batch of %lld", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        FV_RETURN_IF(which[i] < 0 || which[i] >= (int64_t)p->count, ctx, FV_ERR_INDEX,
                     "no pair %lld, expected 0 to %lld", (long long)which[i],
                     (long long)p->count - 1);
        const pair *one = &p->list[which[i]];
        p->picked[i] = one->source.tokens;
        p->picked[count + i] = one->target.tokens;
        p->lengths[i] = one->source.count;
        p->lengths[count + i] = one->target.count;
    }
    const fv_sequences source = {.count = count, .tokens = p->picked, .length = p->lengths},
                       target = {.count = count,
                                 .tokens = p->picked + count,
                                 .length = p->lengths + count};
    *out = fv_batch_of_pairs(&source, &target);
    return FV_OK;
}
