#include "fovea/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/config.h"
#include "base/ctx.h"
#include "base/rng.h"

struct fv_batches {
    fv_ctx *ctx;
    fv_batches_config cfg;
    int64_t examples;
    int64_t *length;          /* [examples] */
    int64_t epoch;            /* the one planned below; -1: none */
    int64_t *order;           /* [examples]: the examples of a batch are adjacent */
    int64_t *first;           /* [examples + 1]: where batch i begins in `order` */
    int64_t *batch_order;     /* [examples]: which batch is the i-th */
    struct keyed_index *sort; /* [examples], scratch for sorting */
    int64_t batches, next;
};

/* An index and its sort key; equal keys keep their order. */
typedef struct keyed_index {
    uint64_t key;
    int64_t index;
} keyed_index;

void fv_batches_config_init(fv_batches_config *cfg, size_t struct_size)
{
    const fv_batches_config defaults = {
        .struct_size = struct_size, .tokens = 4096, .pool = 100, .shuffle = true};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

/* ---- creation --------------------------------------------------------------------- */

static size_t bytes_for(int64_t examples)
{
    return (4 * (size_t)examples + 1) * sizeof(int64_t) + (size_t)examples * sizeof(keyed_index);
}

fv_status fv_batches_create(fv_ctx *ctx, int64_t examples, const int64_t *lengths,
                            const fv_batches_config *given, fv_batches **out)
{
    fv_batches_config full, *cfg = &full;
    fv_batches_config_init(cfg, sizeof *cfg);
    FV_RETURN_IF(
        !fv_config_copy(cfg, sizeof *cfg, given) || cfg->tokens < 1 || cfg->examples < 0 ||
            cfg->pool < 1,
        ctx, FV_ERR_ARGUMENT,
        "batches: expected tokens >= 1, examples >= 0 and pool >= 1, and an initialised config");
    FV_RETURN_IF(examples < 1 || examples > INT64_MAX / 64, ctx, FV_ERR_ARGUMENT,
                 "batches: expected at least one example, got %lld", (long long)examples);
    for (int64_t i = 0; i < examples; i++)
        FV_RETURN_IF(lengths[i] < 1 || lengths[i] > INT32_MAX, ctx, FV_ERR_ARGUMENT,
                     "batches: example %lld has length %lld, expected 1 to %d", (long long)i,
                     (long long)lengths[i], INT32_MAX);
    fv_batches *b = fv_mem_zalloc(&ctx->mem, sizeof *b);
    int64_t *block = b ? fv_mem_alloc(&ctx->mem, bytes_for(examples)) : NULL;
    if (!block) {
        if (b) fv_mem_free(&ctx->mem, b, sizeof *b);
        return fv_fail(ctx, FV_ERR_MEMORY, "no memory for the order of %lld examples",
                       (long long)examples);
    }
    b->ctx = ctx;
    b->cfg = *cfg;
    b->examples = examples;
    b->epoch = -1;
    b->length = block;
    b->order = b->length + examples;
    b->batch_order = b->order + examples;
    b->first = b->batch_order + examples;
    b->sort = (keyed_index *)(void *)(b->first + examples + 1);
    memcpy(b->length, lengths, (size_t)examples * sizeof *lengths);
    *out = b;
    return FV_OK;
}

void fv_batches_destroy(fv_batches **batches)
{
    fv_batches *b = *batches;
    if (!b) return;
    fv_mem *mem = &b->ctx->mem;
    fv_mem_free(mem, b->length, bytes_for(b->examples));
    fv_mem_free(mem, b, sizeof *b);
    *batches = NULL;
}

/* ---- planning an epoch -------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const keyed_index *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* 0 .. n - 1 in an order drawn for (seed, epoch, what). */
static void shuffle(const fv_batches *b, uint64_t what, int64_t n, int64_t *out)
{
    const uint64_t key = fv_rng_key(b->cfg.seed, (uint64_t)b->epoch, what);
    for (int64_t i = 0; i < n; i++) {
        uint32_t words[4];
        fv_rng_draw(key, (uint64_t)i, 0, words);
        b->sort[i] = (keyed_index){(uint64_t)words[0] << 32 | words[1], i};
    }
    qsort(b->sort, (size_t)n, sizeof *b->sort, by_key);
    for (int64_t i = 0; i < n; i++)
        out[i] = b->sort[i].index;
}

/* The end of the examples from `begin` on that fill `batches` batches; at least one example. */
static int64_t pool_end(const fv_batches *b, int64_t begin, int64_t batches)
{
    const double most = (double)b->cfg.tokens * (double)batches;
    const int64_t examples = b->cfg.examples > 0 ? b->cfg.examples : INT64_MAX / batches;
    double sum = 0;
    int64_t end = begin;
    for (; end < b->examples && end - begin < examples * batches; end++) {
        sum += (double)b->length[b->order[end]];
        if (end > begin && sum > most) break;
    }
    return end;
}

static void sort_pools(const fv_batches *b)
{
    for (int64_t begin = 0; begin < b->examples;) {
        const int64_t end = pool_end(b, begin, b->cfg.pool), n = end - begin;
        /* The index breaks ties, so that examples of equal length stay shuffled. */
        for (int64_t i = 0; i < n; i++)
            b->sort[i] = (keyed_index){(uint64_t)b->length[b->order[begin + i]], i};
        qsort(b->sort, (size_t)n, sizeof *b->sort, by_key);
        for (int64_t i = 0; i < n; i++)
            b->sort[i].key = (uint64_t)b->order[begin + b->sort[i].index];
        for (int64_t i = 0; i < n; i++)
            b->order[begin + i] = (int64_t)b->sort[i].key;
        begin = end;
    }
}

static void plan_epoch(fv_batches *b, int64_t epoch)
{
    b->epoch = epoch;
    b->next = 0;
    b->batches = 0;
    for (int64_t i = 0; i < b->examples; i++)
        b->order[i] = i;
    if (b->cfg.shuffle) shuffle(b, 0, b->examples, b->order);
    if (b->cfg.shuffle && b->cfg.pool > 1) sort_pools(b);
    for (int64_t begin = 0; begin < b->examples; b->batches++) {
        b->first[b->batches] = begin;
        begin = pool_end(b, begin, 1);
    }
    b->first[b->batches] = b->examples;
    for (int64_t i = 0; i < b->batches; i++)
        b->batch_order[i] = i;
    if (b->cfg.shuffle) shuffle(b, 1, b->batches, b->batch_order);
}

/* ---- iterating --------------------------------------------------------------------- */

fv_status fv_batches_next(fv_batches *b, fv_picked *out)
{
    if (b->epoch < 0)
        plan_epoch(b, 0);
    else if (b->next == b->batches)
        plan_epoch(b, b->epoch + 1);
    const int64_t which = b->batch_order[b->next];
    *out = (fv_picked){.example = b->order + b->first[which],
                       .count = b->first[which + 1] - b->first[which],
                       .epoch = b->epoch,
                       .index = b->next,
                       .batches = b->batches};
    for (int64_t i = 0; i < out->count; i++)
        out->tokens += b->length[out->example[i]];
    b->next++;
    return FV_OK;
}

void fv_batches_place(const fv_batches *b, int64_t *epoch, int64_t *index)
{
    const bool at_end = b->epoch >= 0 && b->next == b->batches;
    *epoch = b->epoch < 0 ? 0 : at_end ? b->epoch + 1 : b->epoch;
    *index = b->epoch < 0 || at_end ? 0 : b->next;
}

fv_status fv_batches_seek(fv_batches *b, int64_t epoch, int64_t index)
{
    FV_RETURN_IF(epoch < 0 || index < 0, b->ctx, FV_ERR_ARGUMENT,
                 "batches: epoch and index must not be negative");
    if (epoch != b->epoch) plan_epoch(b, epoch);
    FV_RETURN_IF(
        index >= b->batches, b->ctx, FV_ERR_ARGUMENT,
        "batches: epoch %lld has %lld batches, expected more than %lld: other data or settings?",
        (long long)epoch, (long long)b->batches, (long long)index);
    b->next = index;
    return FV_OK;
}
