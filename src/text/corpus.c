#include "fovea/corpus.h"

#include <string.h>

#include "base/ctx.h"
#include "io/arena.h"

/* One side of one example. */
typedef struct sequence {
    const int64_t *tokens;
    int64_t count;
} sequence;

struct fv_corpus {
    fv_ctx *ctx;
    fv_corpus_config cfg;
    size_t sides;
    fv_arena arena;      /* all tokens */
    sequence *sequences; /* `sides` an example */
    size_t sequence_room;
    int64_t *lengths;
    size_t length_room;
    uint64_t *line_numbers;
    size_t line_room;
    int64_t count;
    fv_corpus_stats stats;
};

/* What is open while the files are read. */
typedef struct reading {
    fv_corpus *corpus;
    fv_lines *lines[FV_CORPUS_SIDES];
    fv_encoder *encoders[FV_CORPUS_SIDES];
} reading;

void fv_corpus_config_init(fv_corpus_config *cfg, size_t struct_size)
{
    memset(cfg, 0, struct_size);
    cfg->struct_size = struct_size;
}

/* ---- life ------------------------------------------------------------------------ */

void fv_corpus_destroy(fv_corpus **corpus)
{
    fv_corpus *c = *corpus;
    if (!c) return;
    fv_mem *mem = &c->ctx->mem;
    fv_arena_free(&c->arena);
    fv_mem_free(mem, c->sequences, c->sequence_room * sizeof *c->sequences);
    fv_mem_free(mem, c->lengths, c->length_room * sizeof *c->lengths);
    fv_mem_free(mem, c->line_numbers, c->line_room * sizeof *c->line_numbers);
    fv_mem_free(mem, c, sizeof *c);
    *corpus = NULL;
}

int64_t fv_corpus_count(const fv_corpus *corpus) { return corpus->count; }
const int64_t *fv_corpus_lengths(const fv_corpus *corpus) { return corpus->lengths; }

uint64_t fv_corpus_line(const fv_corpus *corpus, int64_t example)
{
    return example >= 0 && example < corpus->count ? corpus->line_numbers[example] : 0;
}

void fv_corpus_stats_get(const fv_corpus *corpus, fv_corpus_stats *out)
{
    size_t theirs = out->struct_size, full = sizeof corpus->stats;
    size_t bytes = theirs < full ? theirs : full;
    if (bytes <= sizeof theirs) return;
    memcpy((char *)out + sizeof theirs, (const char *)&corpus->stats + sizeof theirs,
           bytes - sizeof theirs);
}

fv_status fv_corpus_sequences(const fv_corpus *corpus, size_t side, const int64_t *examples,
                              int64_t count, const int64_t **tokens, int64_t *lengths)
{
    FV_RETURN_IF(side >= corpus->sides, corpus->ctx, FV_ERR_INDEX, "corpus: side %zu of %zu", side,
                 corpus->sides);
    for (int64_t i = 0; i < count; i++) {
        int64_t example = examples[i];
        FV_RETURN_IF(example < 0 || example >= corpus->count, corpus->ctx, FV_ERR_INDEX,
                     "corpus: example %lld of %lld", (long long)example, (long long)corpus->count);
        const sequence *s = &corpus->sequences[(size_t)example * corpus->sides + side];
        tokens[i] = s->tokens;
        lengths[i] = s->count;
    }
    return FV_OK;
}

/* ---- reading --------------------------------------------------------------------- */

static fv_status out_of_memory(const fv_corpus *c)
{
    return fv_fail(c->ctx, FV_ERR_MEMORY, "corpus: out of memory");
}

/* Room for one more example, so that keeping it cannot fail half way. */
static fv_status reserve(fv_corpus *c)
{
    fv_mem *mem = &c->ctx->mem;
    const size_t n = (size_t)c->count + 1;
    sequence *sequences =
        fv_mem_grow(mem, c->sequences, &c->sequence_room, n * c->sides, sizeof *sequences);
    if (!sequences) return out_of_memory(c);
    c->sequences = sequences;
    int64_t *lengths = fv_mem_grow(mem, c->lengths, &c->length_room, n, sizeof *lengths);
    if (!lengths) return out_of_memory(c);
    c->lengths = lengths;
    uint64_t *numbers = fv_mem_grow(mem, c->line_numbers, &c->line_room, n, sizeof *numbers);
    if (!numbers) return out_of_memory(c);
    c->line_numbers = numbers;
    return FV_OK;
}

/* Reads one line of each file. *more is false when all of them end here. */
static fv_status next_lines(reading *r, fv_line *lines, bool *more)
{
    fv_corpus *c = r->corpus;
    for (size_t side = 0; side < c->sides; side++) {
        FV_FORWARD(fv_lines_next(r->lines[side], &lines[side]));
        if (!lines[side].text == !lines[0].text) continue;
        bool first_is_longer = lines[0].text != NULL;
        const char *names[] = {fv_lines_name(r->lines[0]), fv_lines_name(r->lines[side])};
        return fv_fail(
            c->ctx, FV_ERR_FORMAT, "%s has more lines than %s, which ends after line %llu",
            names[!first_is_longer], names[first_is_longer],
            (unsigned long long)(first_is_longer ? lines[side].number : lines[0].number));
    }
    *more = lines[0].text != NULL;
    return FV_OK;
}

static fv_status encode_side(reading *r, size_t side, const fv_line *line, sequence *out)
{
    fv_corpus *c = r->corpus;
    fv_encoding e = {.struct_size = sizeof e};
    fv_status s = fv_encode(r->encoders[side], line->text, line->bytes, c->cfg.flags[side], &e);
    if (s == FV_ERR_STATE)
        return fv_fail(c->ctx, s, "%s:%llu: a word that the tokenizer has no token for",
                       fv_lines_name(r->lines[side]), (unsigned long long)line->number);
    if (s != FV_OK) return s;
    *out = (sequence){.count = (int64_t)e.count};
    if (c->cfg.max_tokens > 0 && out->count > c->cfg.max_tokens) return FV_OK;
    int64_t *tokens = fv_arena_array(&c->arena, e.count, sizeof *tokens);
    if (!tokens) return out_of_memory(c);
    for (size_t i = 0; i < e.count; i++)
        tokens[i] = e.ids[i];
    out->tokens = tokens;
    return FV_OK;
}

static fv_status add_example(reading *r, const fv_line *lines)
{
    fv_corpus *c = r->corpus;
    int64_t total = 0;
    bool empty = false, too_long = false;
    for (size_t side = 0; side < c->sides; side++)
        if (!lines[side].valid) {
            c->stats.invalid++;
            return FV_OK;
        }
    FV_FORWARD(reserve(c));
    sequence *made = c->sequences + (size_t)c->count * c->sides;
    for (size_t side = 0; side < c->sides; side++) {
        FV_FORWARD(encode_side(r, side, &lines[side], &made[side]));
        empty = empty || made[side].count == 0;
        too_long = too_long || !made[side].tokens;
        total += made[side].count;
    }
    if (too_long || (empty && !c->cfg.keep_empty)) {
        if (too_long)
            c->stats.too_long++;
        else
            c->stats.empty++;
        return FV_OK;
    }
    for (size_t side = 0; side < c->sides; side++)
        c->stats.tokens[side] += (uint64_t)made[side].count;
    c->lengths[c->count] = total > 0 ? total : 1;
    c->line_numbers[c->count++] = lines[0].number;
    return FV_OK;
}

static fv_status read_all(reading *r, const char *const *paths,
                          const fv_tokenizer *const *tokenizers)
{
    fv_corpus *c = r->corpus;
    for (size_t side = 0; side < c->sides; side++) {
        FV_FORWARD(fv_lines_open(c->ctx, paths[side], c->cfg.invalid, &r->lines[side]));
        FV_FORWARD(fv_encoder_create(c->ctx, tokenizers[side], &r->encoders[side]));
    }
    fv_line lines[FV_CORPUS_SIDES];
    for (;;) {
        bool more = false;
        FV_RETURN_IF(fv_cancelled(c->ctx), c->ctx, FV_ERR_CANCELLED, "corpus: cancelled");
        FV_FORWARD(next_lines(r, lines, &more));
        if (!more) break;
        c->stats.lines++;
        FV_FORWARD(add_example(r, lines));
        if (c->cfg.max_examples > 0 && c->count == c->cfg.max_examples) break;
    }
    FV_RETURN_IF(c->count == 0, c->ctx, FV_ERR_FORMAT, "%s: no example to learn from in %llu lines",
                 paths[0], (unsigned long long)c->stats.lines);
    return FV_OK;
}

fv_status fv_corpus_load(fv_ctx *ctx, const char *const *paths,
                         const fv_tokenizer *const *tokenizers, size_t sides,
                         const fv_corpus_config *cfg, fv_corpus **out)
{
    FV_RETURN_IF(sides < 1 || sides > FV_CORPUS_SIDES, ctx, FV_ERR_ARGUMENT,
                 "corpus: from 1 to %d sides, not %zu", FV_CORPUS_SIDES, sides);
    fv_corpus *c = fv_mem_zalloc(&ctx->mem, sizeof *c);
    FV_RETURN_IF(!c, ctx, FV_ERR_MEMORY, "corpus: out of memory");
    c->ctx = ctx;
    c->sides = sides;
    fv_arena_init(&c->arena, &ctx->mem);
    fv_corpus_config_init(&c->cfg, sizeof c->cfg);
    memcpy(&c->cfg, cfg, cfg->struct_size < sizeof c->cfg ? cfg->struct_size : sizeof c->cfg);
    reading r = {.corpus = c};
    fv_status s = read_all(&r, paths, tokenizers);
    for (size_t side = 0; side < sides; side++) {
        fv_encoder_destroy(&r.encoders[side]);
        fv_lines_close(&r.lines[side]);
    }
    if (s == FV_OK)
        *out = c;
    else
        fv_corpus_destroy(&c);
    return s;
}
