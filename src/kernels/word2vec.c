/* What is the same at every level: rounds and blocks, draws, and which rows a center trains. */
#include "kernels/word2vec.h"

#include <string.h>

#include "base/rng.h"
#include "kernels/simd/prefetch.h"

enum { ALIGN = 64, MAX_ELEMENT = sizeof(double) };

static int64_t stride_of(const fv_word2vec_args *a)
{
    return (a->width + FV_LANES - 1) / FV_LANES * FV_LANES;
}

/* Contexts and outputs of a center, and the products of all their pairs in lanes. */
int64_t fv_word2vec_work(int64_t stride)
{
    enum { PAIRS = FV_WORD2VEC_MAX_CONTEXTS * FV_WORD2VEC_MAX_OUTPUTS };
    return (FV_WORD2VEC_MAX_CONTEXTS + FV_WORD2VEC_MAX_OUTPUTS + 2) * stride +
           (FV_LANES + 2) * (PAIRS + FV_LANES);
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Kept words of a block and its margins. */
typedef struct kept_word {
    int64_t word, at; /* at: its place in the text; -1 for the end of a sentence */
    uint32_t draw[4];
    int32_t sum; /* number of its input's sum, from 1 on; 0: not looked up yet */
} kept_word;

/* Sizes of a block's memory; every part begins at a multiple of ALIGN. */
typedef struct layout {
    int64_t rows, slots, kept; /* slots: of the hash table, a power of two */
    size_t uses_at, slot_at, kept_at, work_at, sum_at, bytes;
} layout;

/* What the blocks of a round did to a row. */
typedef struct row_total {
    int32_t uses, blocks;
} row_total;

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* Groups of a center, at most. */
static int64_t groups_of(const fv_word2vec_args *a)
{
    return a->cbow ? 1 : (2 * a->window + FV_WORD2VEC_GROUP - 1) / FV_WORD2VEC_GROUP;
}

static layout layout_of(const fv_word2vec_args *a, size_t element)
{
    layout l = {.kept = a->block_words + 2 * a->window + 2, .slots = 64};
    const int64_t inputs = l.kept, groups = groups_of(a),
                  outputs = a->block_words * (1 + groups * a->negatives);
    l.rows = (inputs < a->vocabulary ? inputs : a->vocabulary) +
             (outputs < a->vocabulary ? outputs : a->vocabulary);
    while (l.slots < 2 * l.rows)
        l.slots *= 2;
    l.uses_at = aligned((size_t)l.rows * sizeof(int64_t));
    l.slot_at = l.uses_at + aligned((size_t)l.rows * sizeof(int32_t));
    l.kept_at = l.slot_at + aligned((size_t)l.slots * sizeof(int32_t));
    l.work_at = l.kept_at + aligned((size_t)l.kept * sizeof(kept_word));
    const int64_t stride = stride_of(a);
    l.sum_at = l.work_at + aligned((size_t)fv_word2vec_work(stride) * element);
    l.bytes = l.sum_at + aligned((size_t)(l.rows * stride) * element);
    return l;
}

static size_t totals_bytes(const fv_word2vec_args *a)
{
    return aligned(2 * (size_t)a->vocabulary * sizeof(row_total));
}

size_t fv_word2vec_scratch(const void *args, int threads)
{
    const fv_word2vec_args *a = args;
    (void)threads;
    return totals_bytes(a) + (size_t)a->blocks * layout_of(a, MAX_ELEMENT).bytes;
}

typedef struct block {
    int64_t *row;  /* the row of each sum: of the inputs, or vocabulary + that of the outputs */
    int32_t *uses; /* centers that trained it */
    int32_t *slot;
    kept_word *kept;
    char *work, *sum;
    int64_t rows;
    double loss;
    int64_t counted; /* centers of the loss */
} block;

typedef struct job {
    const fv_exec *exec;
    const fv_word2vec_args *args;
    const fv_word_level *level;
    char *table[2]; /* inputs, outputs */
    const int64_t *text, *alias;
    const float *keep, *share;
    layout layout;
    row_total *total;   /* of inputs, then outputs */
    int64_t first, end; /* of the round */
    block block[FV_WORD2VEC_MAX_BLOCKS];
} job;

static void place_blocks(job *j)
{
    char *base = j->exec->scratch;
    j->total = (row_total *)(void *)base;
    memset(j->total, 0, totals_bytes(j->args));
    base += totals_bytes(j->args);
    for (int64_t b = 0; b < j->args->blocks; b++, base += j->layout.bytes)
        j->block[b] = (block){.row = (int64_t *)(void *)base,
                              .uses = (int32_t *)(void *)(base + j->layout.uses_at),
                              .slot = (int32_t *)(void *)(base + j->layout.slot_at),
                              .kept = (kept_word *)(void *)(base + j->layout.kept_at),
                              .work = base + j->layout.work_at,
                              .sum = base + j->layout.sum_at};
}

/* ---- rows of a block ------------------------------------------------------------------------ */

static size_t row_bytes(const job *j) { return (size_t)j->args->width * j->level->element; }
static size_t sum_bytes(const job *j) { return (size_t)stride_of(j->args) * j->level->element; }

static char *value_of(const job *j, int64_t row)
{
    const int64_t v = j->args->vocabulary;
    return row < v ? j->table[0] + (size_t)row * row_bytes(j)
                   : j->table[1] + (size_t)(row - v) * row_bytes(j);
}

/* The number of a row's sum, from 1 on; zeros at its first use. */
static int32_t find_sum(const job *j, block *b, int64_t row)
{
    const uint64_t mask = (uint64_t)j->layout.slots - 1;
    uint64_t h = ((uint64_t)row * 0x9e3779b97f4a7c15u) >> 32 & mask;
    while (b->slot[h] > 0 && b->row[b->slot[h] - 1] != row)
        h = (h + 1) & mask;
    if (b->slot[h] == 0) {
        b->row[b->rows] = row;
        b->uses[b->rows] = 0;
        b->slot[h] = (int32_t)++b->rows;
        memset(b->sum + (size_t)(b->rows - 1) * sum_bytes(j), 0, sum_bytes(j));
    }
    return b->slot[h];
}

/* A sum, which one more center trains. */
static char *use_sum(const job *j, block *b, int32_t number)
{
    b->uses[number - 1]++;
    return b->sum + (size_t)(number - 1) * sum_bytes(j);
}

static void prefetch_row(const job *j, const char *value)
{
    for (size_t at = 0; at < row_bytes(j); at += ALIGN)
        fv_prefetch_l1(value + at);
}

/* ---- draws ---------------------------------------------------------------------------------- */

/* Draws of the word at `at`: 0 whether it is kept, 1 its window, then its negatives. */
static bool keep_word(const job *j, int64_t at, kept_word *out)
{
    const int64_t word = j->text[at];
    if (word < 0) {
        *out = (kept_word){.word = -1, .at = -1};
        return true;
    }
    if (word >= j->args->vocabulary) {
        fv_fault_raise(j->exec->fault, word, j->args->vocabulary);
        return false;
    }
    *out = (kept_word){.word = word, .at = at};
    fv_rng_draw(j->args->key, (uint64_t)at, 0, out->draw);
    return fv_rng_unit(out->draw[0]) < j->keep[word];
}

/* A word by the alias table, from 32 random bits: the product's high part is the place, the rest
 * decides between it and its alias. No branch: half of them would be mispredicted, and wait for a
 * table that is not in the cache. */
static int64_t draw_negative(const job *j, uint32_t bits)
{
    const uint64_t product = (uint64_t)bits * (uint64_t)j->args->vocabulary;
    const int64_t word = (int64_t)(product >> 32), alias = j->alias[word];
    const int64_t stays = -(int64_t)(fv_rng_unit((uint32_t)product) < j->share[word]);
    return (word & stays) | (alias & ~stays);
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* Collects the kept words of [begin, end), and as many on either side as a window may need, as far
 * as their sentence goes. *from: the first that is a center. */
static int64_t collect(const job *j, block *b, int64_t begin, int64_t end, int64_t *from)
{
    const fv_word2vec_args *a = j->args;
    kept_word before[FV_WORD2VEC_MAX_WINDOW];
    int64_t n = 0;
    for (int64_t at = begin - 1; at >= 0 && n < a->window && j->text[at] >= 0; at--)
        if (keep_word(j, at, &before[n])) n++;
    *from = n;
    for (int64_t i = 0; i < n; i++)
        b->kept[i] = before[n - 1 - i];
    for (int64_t at = begin; at < end; at++)
        if (keep_word(j, at, &b->kept[n])) n++;
    int64_t after = 0;
    for (int64_t at = end; at < a->words && after < a->window && j->text[at] >= 0; at++)
        if (keep_word(j, at, &b->kept[n + after])) after++;
    return n + after;
}

static void add_context(const job *j, block *b, kept_word *kept, fv_word_center *c)
{
    if (kept->sum == 0) kept->sum = find_sum(j, b, kept->word);
    c->in[c->contexts] = value_of(j, kept->word);
    c->in_sum[c->contexts] = use_sum(j, b, kept->sum);
    prefetch_row(j, c->in[c->contexts++]);
}

static void add_output(const job *j, block *b, int64_t word, bool skipped, fv_word_center *c)
{
    const int64_t row = j->args->vocabulary + word;
    c->out[c->outputs] = value_of(j, row);
    c->out_sum[c->outputs] = use_sum(j, b, find_sum(j, b, row));
    c->skipped[c->outputs] = skipped;
    c->any_skipped = c->any_skipped || skipped;
    prefetch_row(j, c->out[c->outputs++]);
}

/* Negatives of the center's group number `group`, each with draws of its own. */
static void add_negatives(const job *j, block *b, const kept_word *center, int64_t group,
                          fv_word_center *c)
{
    uint32_t draw[4];
    int64_t word[FV_WORD2VEC_MAX_NEGATIVES];
    const uint64_t first = 2 + (uint64_t)(group * j->args->negatives);
    uint64_t have = 0;
    memcpy(draw, center->draw, sizeof draw);
    /* All of them before the first is looked up, so that their reads overlap. */
    for (int64_t k = 0; k < j->args->negatives; k++) {
        const uint64_t number = first + (uint64_t)k;
        if (number / 4 != have) {
            have = number / 4;
            fv_rng_draw(j->args->key, (uint64_t)center->at, have, draw);
        }
        word[k] = draw_negative(j, draw[number % 4]);
    }
    for (int64_t k = 0; k < j->args->negatives; k++)
        add_output(j, b, word[k], word[k] == center->word, c);
}

/* Kept words [low, high) around number i, itself among them. */
typedef struct window {
    int64_t i, low, high;
} window;

static window window_of(const job *j, const block *b, int64_t i, int64_t kept)
{
    const uint64_t draw = b->kept[i].draw[1];
    const int64_t reach = 1 + (int64_t)(draw * (uint64_t)j->args->window >> 32);
    window w = {i, i, i + 1};
    while (w.low > 0 && i - w.low < reach && b->kept[w.low - 1].at >= 0)
        w.low--;
    while (w.high < kept && w.high - i <= reach && b->kept[w.high].at >= 0)
        w.high++;
    return w;
}

/* Takes contexts of the window from *next on, as many as a group holds, and draws its outputs.
 * False: there are no more. */
static bool describe(const job *j, block *b, window w, int64_t *next, int64_t group,
                     fv_word_center *c)
{
    const kept_word *center = &b->kept[w.i];
    const int most = j->args->cbow ? FV_WORD2VEC_MAX_CONTEXTS : FV_WORD2VEC_GROUP;
    c->contexts = c->outputs = 0;
    c->any_skipped = false;
    c->wants_loss = center->at % j->args->loss_every == 0;
    for (; *next < w.high && c->contexts < most; ++*next)
        if (*next != w.i) add_context(j, b, &b->kept[*next], c);
    if (c->contexts == 0) return false;
    add_output(j, b, center->word, false, c);
    add_negatives(j, b, center, group, c);
    return true;
}

/* Two groups: while one is trained, the rows of the other are on their way to the cache. */
typedef struct queue {
    fv_word_center center[2];
    bool has;
    int next;
} queue;

static void train_queued(const job *j, block *b, queue *q)
{
    const fv_word_center *c = &q->center[1 - q->next];
    if (!q->has) return;
    b->loss += j->level->train(j->args, c, stride_of(j->args), b->work);
    if (c->wants_loss) b->counted += j->args->cbow ? 1 : c->contexts;
}

static void train_block(const job *j, block *b, int64_t begin, int64_t end)
{
    queue q = {.has = false};
    int64_t from;
    b->rows = 0;
    b->loss = 0;
    b->counted = 0;
    memset(b->slot, 0, (size_t)j->layout.slots * sizeof *b->slot);
    const int64_t kept = collect(j, b, begin, end, &from);
    for (int64_t i = from; i < kept; i++) {
        if (b->kept[i].at < 0 || b->kept[i].at >= end) continue;
        const window w = window_of(j, b, i, kept);
        int64_t next = w.low;
        for (int64_t group = 0; describe(j, b, w, &next, group, &q.center[q.next]); group++) {
            train_queued(j, b, &q);
            q.has = true;
            q.next = 1 - q.next;
        }
    }
    train_queued(j, b, &q);
}

static void train_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    job *j = (job *)(uintptr_t)arg;
    (void)thread;
    for (int64_t n = begin; n < end; n++) {
        const int64_t first = j->first + n * j->args->block_words;
        const int64_t last = first + j->args->block_words;
        train_block(j, &j->block[n], first, last < j->end ? last : j->end);
    }
}

/* ---- rounds --------------------------------------------------------------------------------- */

typedef struct sums_job {
    const job *j;
    int64_t blocks, shares;
} sums_job;

/* Visits the rows of a round whose number modulo `shares` is in [begin, end). */
#define EACH_ROW(s, begin, end, ...)                                                               \
    for (int64_t n = 0; n < (s)->blocks; n++) {                                                    \
        const block *b = &(s)->j->block[n];                                                        \
        for (int64_t i = 0; i < b->rows; i++) {                                                    \
            const int64_t share = (s)->shares > 1 ? b->row[i] % (s)->shares : 0;                   \
            if (share >= (begin) && share < (end)) {                                               \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
        }                                                                                          \
    }

/* The factor of a row's sums. One that few centers trained has 1. Where blocks train a row often,
 * each goes most of the same way, and all of it together would be too far: the more, the nearer the
 * factor is to the mean of the blocks. */
static double factor_of(const job *j, row_total t)
{
    const double much = FV_WORD2VEC_DAMPING * j->args->lr * t.uses, mean = 1.0 / t.blocks;
    if (much <= 1) return 1;
    return 1 / much > mean ? 1 / much : mean;
}

static void count_uses(const void *arg, int64_t begin, int64_t end, int thread)
{
    const sums_job *s = arg;
    (void)thread;
    EACH_ROW(s, begin, end, row_total *t = &s->j->total[b->row[i]]; t->uses += b->uses[i];
             t->blocks++)
}

static void add_sums(const void *arg, int64_t begin, int64_t end, int thread)
{
    const sums_job *s = arg;
    const job *j = s->j;
    count_uses(arg, begin, end, thread);
    EACH_ROW(s, begin, end,
             j->level->add(j->args->width, factor_of(j, j->total[b->row[i]]),
                           b->sum + (size_t)i * sum_bytes(j), value_of(j, b->row[i])))
    EACH_ROW(s, begin, end, j->total[b->row[i]] = (row_total){0})
}

static void parallel(const fv_exec *exec, int64_t units, fv_range_fn fn, const void *arg)
{
    if (exec->threads <= 1 || units <= 1)
        fn(arg, 0, units, 0);
    else
        exec->parallel(exec->user, units, 1, fn, arg);
}

void fv_word2vec_run(const fv_exec *exec, void *const *ptr, const fv_word2vec_args *args,
                     const fv_word_level *level)
{
    job j = {.exec = exec,
             .args = args,
             .level = level,
             .table = {ptr[0], ptr[1]},
             .text = ptr[3],
             .keep = ptr[4],
             .share = ptr[5],
             .alias = ptr[6],
             .layout = layout_of(args, level->element)};
    const int64_t round = args->blocks * args->block_words, last = args->first + args->count;
    place_blocks(&j);
    for (j.first = args->first; j.first < last; j.first += round) {
        j.end = j.first + round < last ? j.first + round : last;
        const int64_t blocks = (j.end - j.first + args->block_words - 1) / args->block_words;
        const sums_job sums = {&j, blocks, exec->threads > 1 ? exec->threads : 1};
        parallel(exec, blocks, train_range, &j);
        parallel(exec, sums.shares, add_sums, &sums);
        for (int64_t n = 0; n < blocks; n++) {
            ((double *)ptr[2])[0] += j.block[n].loss;
            ((double *)ptr[2])[1] += (double)j.block[n].counted;
        }
    }
}
