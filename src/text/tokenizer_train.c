/*
 * Tokenizer training. Each text passes through the normalizer and pre-tokenizer of the future
 * tokenizer, and the pieces are counted; everything else happens at the end.
 */
#include <string.h>

#include "base/checked_math.h"
#include "base/config.h"
#include "io/sort.h"
#include "io/utf8.h"
#include "text/bpe_train.h"
#include "text/pretokenized.h"

static const char word_end[] = "</w>", inside[] = "##";

struct fv_tokenizer_trainer {
    fv_ctx *ctx;
    fv_tokenizer_trainer_config cfg;
    const char *specials[FV_TOKENIZER_MAX_SPECIALS];
    size_t special_count;
    fv_arena arena;         /* copies of the strings in cfg */
    fv_tokenizer *pipeline; /* a tokenizer without a model */
    fv_pretokenized work;
    fv_vocab words; /* distinct pieces so far */
    uint64_t *counts;
    size_t count_room;
    uint64_t texts;
};

/* ---- configuration --------------------------------------------------------------- */

void fv_tokenizer_trainer_config_init(fv_tokenizer_trainer_config *cfg, size_t struct_size,
                                      fv_tokenizer_kind kind)
{
    const fv_tokenizer_trainer_config defaults = {
        .struct_size = struct_size,
        .kind = kind,
        .vocabulary = 8000,
        .min_count = kind == FV_TOKENIZER_CHARS || kind == FV_TOKENIZER_WORDS ? 1 : 2,
        .specials = {"<pad>", "<s>", "</s>", "<unk>"},
    };
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

static bool is_listed(const fv_tokenizer_trainer *t, const char *token)
{
    for (size_t i = 0; i < t->special_count; i++)
        if (strcmp(t->specials[i], token) == 0) return true;
    return false;
}

static fv_status copy_text(fv_tokenizer_trainer *t, const char *from, const char **to)
{
    *to = from ? fv_arena_text(&t->arena, from, strlen(from)) : NULL;
    FV_RETURN_IF(from && !*to, t->ctx, FV_ERR_MEMORY, "tokenizer training: out of memory");
    return FV_OK;
}

static fv_status read_config(fv_tokenizer_trainer *t, const fv_tokenizer_trainer_config *cfg)
{
    fv_ctx *ctx = t->ctx;
    fv_tokenizer_trainer_config_init(&t->cfg, sizeof t->cfg, cfg->kind);
    FV_RETURN_IF(!fv_config_copy(&t->cfg, sizeof t->cfg, cfg), ctx, FV_ERR_ARGUMENT,
                 "tokenizer training: the config is not initialised");
    FV_RETURN_IF((unsigned)t->cfg.kind > FV_TOKENIZER_WORDPIECE, ctx, FV_ERR_ARGUMENT,
                 "tokenizer training: unknown kind %d", (int)t->cfg.kind);
    FV_RETURN_IF(t->cfg.normalize && (unsigned)t->cfg.form > FV_NORMAL_FORM_NFKD, ctx,
                 FV_ERR_ARGUMENT, "tokenizer training: unknown normal form %d", (int)t->cfg.form);
    FV_RETURN_IF(t->cfg.vocabulary > ctx->limits.vocabulary, ctx, FV_ERR_ARGUMENT,
                 "tokenizer training: vocabulary of %zu, the limit is %llu", t->cfg.vocabulary,
                 (unsigned long long)ctx->limits.vocabulary);
    for (int i = 0; i < FV_TOKENIZER_MAX_SPECIALS && t->cfg.specials[i]; i++) {
        const char *token = t->cfg.specials[i];
        FV_RETURN_IF(!token[0] || !fv_utf8_valid(token, strlen(token)) || is_listed(t, token), ctx,
                     FV_ERR_ARGUMENT,
                     "tokenizer training: special token %d is empty, not UTF-8 or a duplicate", i);
        FV_TRY(copy_text(t, token, &t->specials[i]));
        t->special_count++;
    }
    FV_RETURN_IF(t->cfg.kind == FV_TOKENIZER_WORDPIECE && !is_listed(t, "<unk>") &&
                     !is_listed(t, "[UNK]"),
                 ctx, FV_ERR_ARGUMENT,
                 "tokenizer training: WordPiece needs <unk> or [UNK] among the special tokens");
    const char *around[] = {t->cfg.begin, t->cfg.end};
    for (int i = 0; i < 2; i++)
        FV_RETURN_IF(around[i] && !is_listed(t, around[i]), ctx, FV_ERR_ARGUMENT,
                     "tokenizer training: \"%s\" is not among the special tokens", around[i]);
    FV_TRY(copy_text(t, around[0], &t->cfg.begin));
    return copy_text(t, around[1], &t->cfg.end);
}

/* Describes the future tokenizer, except for its merges. */
static fv_tokenizer_spec make_spec(const fv_tokenizer_trainer *t, const fv_vocab *vocab)
{
    const fv_tokenizer_trainer_config *c = &t->cfg;
    return (fv_tokenizer_spec){
        .model = c->kind == FV_TOKENIZER_WORDS       ? FV_TOKEN_MODEL_WORD_LEVEL
                 : c->kind == FV_TOKENIZER_WORDPIECE ? FV_TOKEN_MODEL_WORD_PIECE
                                                     : FV_TOKEN_MODEL_BPE,
        .vocab = vocab,
        .unk = c->kind == FV_TOKENIZER_BPE_BYTES ? NULL
               : is_listed(t, "<unk>")           ? "<unk>"
               : is_listed(t, "[UNK]")           ? "[UNK]"
                                                 : NULL,
        .suffix = c->kind == FV_TOKENIZER_BPE_WORDS ? word_end : NULL,
        .specials = t->specials,
        .special_count = t->special_count,
        .lowercase = c->lowercase,
        .normalize = c->normalize,
        .form = c->form,
        .bert = c->kind == FV_TOKENIZER_WORDPIECE,
        .split = c->kind == FV_TOKENIZER_CHARS           ? FV_SPEC_WHOLE
                 : c->kind == FV_TOKENIZER_WORDPIECE     ? FV_SPEC_BERT
                 : c->kind == FV_TOKENIZER_BPE_BYTES     ? FV_SPEC_BYTES
                 : c->kind == FV_TOKENIZER_BPE_METASPACE ? FV_SPEC_METASPACE
                                                         : FV_SPEC_WORDS,
        .begin = c->begin,
        .end = c->end,
        .trim_offsets = true,
    };
}

/* ---- create and destroy------------------------------------------------------------------- */

static fv_status add_specials(const fv_tokenizer_trainer *t, fv_vocab *vocab)
{
    for (size_t i = 0; i < t->special_count; i++)
        FV_TRY(fv_vocab_put(vocab, t->specials[i], strlen(t->specials[i]), (int64_t)i));
    return FV_OK;
}

static fv_status begin(fv_tokenizer_trainer *t, const fv_tokenizer_trainer_config *cfg)
{
    FV_TRY(read_config(t, cfg));
    fv_vocab vocab;
    fv_vocab_init(&vocab, t->ctx);
    fv_status s = add_specials(t, &vocab);
    if (s == FV_OK) {
        fv_tokenizer_spec spec = make_spec(t, &vocab);
        s = fv_tokenizer_build(t->ctx, "training", &spec, &t->pipeline);
    }
    fv_vocab_free(&vocab);
    return s;
}

fv_status fv_tokenizer_trainer_create(fv_ctx *ctx, const fv_tokenizer_trainer_config *cfg,
                                      fv_tokenizer_trainer **out)
{
    fv_tokenizer_trainer *t = fv_mem_zalloc(&ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, ctx, FV_ERR_MEMORY, "tokenizer training: out of memory");
    t->ctx = ctx;
    fv_arena_init(&t->arena, &ctx->mem);
    fv_vocab_init(&t->words, ctx);
    t->words.limit = INT32_MAX;
    fv_pretokenized_init(&t->work, ctx);
    fv_status s = begin(t, cfg);
    if (s == FV_OK)
        *out = t;
    else
        fv_tokenizer_trainer_destroy(&t);
    return s;
}

void fv_tokenizer_trainer_destroy(fv_tokenizer_trainer **trainer)
{
    fv_tokenizer_trainer *t = *trainer;
    if (!t) return;
    fv_tokenizer_destroy(&t->pipeline);
    fv_pretokenized_free(&t->work);
    fv_vocab_free(&t->words);
    fv_arena_free(&t->arena);
    fv_mem_free(&t->ctx->mem, t->counts, t->count_room * sizeof *t->counts);
    fv_mem_free(&t->ctx->mem, t, sizeof *t);
    *trainer = NULL;
}

/* ---- counting -------------------------------------------------------------------- */

static fv_status count_piece(fv_tokenizer_trainer *t, const char *text, size_t bytes)
{
    size_t known = t->words.size;
    int32_t id = 0;
    /* Reserve memory first, so that a failure leaves no word without a count. */
    uint64_t *counts =
        fv_mem_grow(&t->ctx->mem, t->counts, &t->count_room, known + 1, sizeof *counts);
    FV_RETURN_IF(!counts, t->ctx, FV_ERR_MEMORY, "tokenizer training: out of memory");
    t->counts = counts;
    FV_TRY(fv_vocab_add(&t->words, text, bytes, &id));
    if (t->words.size > known) counts[id] = 0;
    counts[id]++;
    return FV_OK;
}

fv_status fv_tokenizer_trainer_add(fv_tokenizer_trainer *t, const char *text, size_t bytes)
{
    fv_pretokenized *w = &t->work;
    FV_RETURN_IF(bytes >= UINT32_MAX, t->ctx, FV_ERR_LIMIT,
                 "tokenizer training: the text has 4 GiB or more");
    FV_RETURN_IF(!fv_utf8_valid(text, bytes), t->ctx, FV_ERR_FORMAT,
                 "tokenizer training: the text is not valid UTF-8");
    t->texts++;
    if (bytes == 0) return FV_OK;
    fv_pretokenized_begin_call(w, t->pipeline, bytes);
    FV_TRY(fv_pretokenized_begin(w, text, bytes, 0));
    FV_TRY(fv_pretokenized_normalize(w, t->pipeline));
    for (size_t i = 0; i < t->pipeline->pre_tokenizer_count; i++)
        FV_TRY(fv_pretokenized_split(w, &t->pipeline->pre_tokenizers[i]));
    for (size_t i = 0; i < w->count; i++) {
        const fv_piece p = w->pieces[i];
        if (t->cfg.kind != FV_TOKENIZER_CHARS) {
            FV_TRY(count_piece(t, w->text + p.begin, p.end - p.begin));
            continue;
        }
        for (size_t at = p.begin; at < p.end; at += fv_lead_length(w->text[at]))
            FV_TRY(count_piece(t, w->text + at, fv_lead_length(w->text[at])));
    }
    return FV_OK;
}

/* ---- characters and words ------------------------------------------------------- */

/* By count, on ties by bytes. */
static int by_count(const void *things, uint32_t a, uint32_t b)
{
    const fv_tokenizer_trainer *t = things;
    if (t->counts[a] != t->counts[b]) return t->counts[a] < t->counts[b] ? 1 : -1;
    const fv_string x = t->words.tokens[a], y = t->words.tokens[b];
    int order = memcmp(x.text, y.text, x.bytes < y.bytes ? x.bytes : y.bytes);
    return order ? order : (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

static fv_status keep_frequent(fv_tokenizer_trainer *t, fv_vocab *vocab)
{
    size_t n = t->words.size, bytes = 0;
    FV_RETURN_IF(!fv_checked_mul_size(n, sizeof(uint32_t), &bytes), t->ctx, FV_ERR_MEMORY,
                 "out of memory");
    uint32_t *order = fv_mem_alloc(&t->ctx->mem, bytes), *spare = fv_mem_alloc(&t->ctx->mem, bytes);
    fv_status s = FV_OK;
    if (order && spare) {
        fv_argsort(t, n, by_count, order, spare);
        for (size_t i = 0; i < n && s == FV_OK && vocab->size < t->cfg.vocabulary; i++) {
            const fv_string word = t->words.tokens[order[i]];
            int32_t id;
            if (t->counts[order[i]] < t->cfg.min_count) break;
            s = fv_vocab_add(vocab, word.text, word.bytes, &id);
        }
    } else {
        s = fv_fail(t->ctx, FV_ERR_MEMORY, "tokenizer training: out of memory");
    }
    fv_mem_free(&t->ctx->mem, order, bytes);
    fv_mem_free(&t->ctx->mem, spare, bytes);
    return s;
}

/* ---- BPE ------------------------------------------------------------------------ */

/* Called with each initial symbol of a word. */
typedef fv_status (*symbol_fn)(fv_tokenizer_trainer *t, const char *letter, size_t bytes,
                               void *user);

static fv_status for_each_symbol(fv_tokenizer_trainer *t, fv_string word, symbol_fn put, void *user)
{
    char letter[16];
    for (size_t i = 0; i < word.bytes;) {
        size_t length = 1, n;
        if (t->cfg.kind == FV_TOKENIZER_BPE_BYTES) {
            n = fv_utf8_put(fv_gpt2_byte_to_codepoint((unsigned char)word.text[i]), letter);
        } else {
            const bool marked = t->cfg.kind == FV_TOKENIZER_WORDPIECE && i > 0;
            n = marked ? sizeof inside - 1 : 0;
            memcpy(letter, inside, n);
            length = fv_lead_length(word.text[i]);
            memcpy(letter + n, word.text + i, length);
            n += length;
            if (t->cfg.kind == FV_TOKENIZER_BPE_WORDS && i + length == word.bytes) {
                memcpy(letter + n, word_end, sizeof word_end - 1);
                n += sizeof word_end - 1;
            }
        }
        FV_TRY(put(t, letter, n, user));
        i += length;
    }
    return FV_OK;
}

static fv_status add_to_alphabet(fv_tokenizer_trainer *t, const char *letter, size_t bytes,
                                 void *user)
{
    int32_t id;
    (void)t;
    return fv_vocab_add(user, letter, bytes, &id);
}

static int by_bytes(const void *things, uint32_t a, uint32_t b)
{
    const fv_vocab *v = things;
    return strcmp(v->tokens[a].text, v->tokens[b].text);
}

/* Adds the symbols of all words, sorted by bytes, which is code point order. */
static fv_status add_alphabet(fv_tokenizer_trainer *t, fv_vocab *letters, fv_vocab *vocab)
{
    if (t->cfg.kind == FV_TOKENIZER_BPE_BYTES) {
        for (unsigned b = 0; b < 256; b++) {
            char letter[4];
            int32_t id;
            FV_TRY(fv_vocab_add(letters, letter, fv_utf8_put(fv_gpt2_byte_to_codepoint(b), letter),
                                &id));
        }
    } else {
        for (size_t i = 0; i < t->words.size; i++)
            FV_TRY(for_each_symbol(t, t->words.tokens[i], add_to_alphabet, letters));
    }
    size_t n = letters->size, bytes = n * sizeof(uint32_t);
    uint32_t *order = fv_mem_alloc(&t->ctx->mem, bytes), *spare = fv_mem_alloc(&t->ctx->mem, bytes);
    fv_status s = order && spare
                      ? FV_OK
                      : fv_fail(t->ctx, FV_ERR_MEMORY, "tokenizer training: out of memory");
    if (s == FV_OK) fv_argsort(letters, n, by_bytes, order, spare);
    for (size_t i = 0; i < n && s == FV_OK; i++) {
        int32_t id;
        s = fv_vocab_add(vocab, letters->tokens[order[i]].text, letters->tokens[order[i]].bytes,
                         &id);
    }
    fv_mem_free(&t->ctx->mem, order, bytes);
    fv_mem_free(&t->ctx->mem, spare, bytes);
    return s;
}

static fv_status push_symbol(fv_tokenizer_trainer *t, const char *letter, size_t bytes, void *user)
{
    fv_bpe_training *training = user;
    fv_bpe_word *word = &training->words[training->word_count];
    (void)t;
    training->symbols[word->begin + word->length++] = fv_vocab_find(training->vocab, letter, bytes);
    return FV_OK;
}

static fv_status split_words(fv_tokenizer_trainer *t, fv_bpe_training *training)
{
    size_t begin = 0;
    for (size_t i = 0; i < t->words.size; i++) {
        training->words[i] = (fv_bpe_word){.count = t->counts[i], .begin = begin};
        FV_TRY(for_each_symbol(t, t->words.tokens[i], push_symbol, training));
        begin += training->words[i].length;
        training->word_count++;
    }
    return fv_bpe_train(training);
}

static fv_status train_merges(fv_tokenizer_trainer *t, fv_bpe_training *training)
{
    fv_mem *mem = &t->ctx->mem;
    size_t letters = 0, word_bytes, symbol_bytes;
    for (size_t i = 0; i < t->words.size; i++)
        letters += t->words.tokens[i].bytes;
    FV_RETURN_IF(!fv_checked_mul_size(t->words.size, sizeof *training->words, &word_bytes) ||
                     !fv_checked_mul_size(letters, sizeof *training->symbols, &symbol_bytes),
                 t->ctx, FV_ERR_MEMORY, "tokenizer training: out of memory");
    training->words = fv_mem_alloc(mem, word_bytes);
    training->symbols = fv_mem_alloc(mem, symbol_bytes);
    fv_status s = training->words && training->symbols
                      ? split_words(t, training)
                      : fv_fail(t->ctx, FV_ERR_MEMORY, "tokenizer training: out of memory");
    fv_mem_free(mem, training->words, word_bytes);
    fv_mem_free(mem, training->symbols, symbol_bytes);
    return s;
}

/* ---- finish ---------------------------------------------------------------------- */

static fv_status train(fv_tokenizer_trainer *t, fv_vocab *vocab, fv_bpe_training *training)
{
    FV_TRY(add_specials(t, vocab));
    if (t->cfg.kind == FV_TOKENIZER_CHARS || t->cfg.kind == FV_TOKENIZER_WORDS)
        return keep_frequent(t, vocab);
    fv_vocab letters;
    fv_vocab_init(&letters, t->ctx);
    fv_status s = add_alphabet(t, &letters, vocab);
    fv_vocab_free(&letters);
    return s == FV_OK ? train_merges(t, training) : s;
}

fv_status fv_tokenizer_trainer_finish(fv_tokenizer_trainer *t, fv_tokenizer **out)
{
    FV_RETURN_IF(t->texts == 0, t->ctx, FV_ERR_STATE, "tokenizer training: no text was added");
    fv_vocab vocab;
    fv_vocab_init(&vocab, t->ctx);
    fv_bpe_training training = {.ctx = t->ctx,
                                .vocab = &vocab,
                                .specials = t->special_count,
                                .target = t->cfg.vocabulary,
                                .min_count = t->cfg.min_count,
                                .prefix_bytes =
                                    t->cfg.kind == FV_TOKENIZER_WORDPIECE ? sizeof inside - 1 : 0};
    fv_status s = train(t, &vocab, &training);
    if (s == FV_OK) {
        fv_tokenizer_spec spec = make_spec(t, &vocab);
        spec.merges = training.merges;
        spec.merge_count = training.merge_count;
        s = fv_tokenizer_build(t->ctx, "training", &spec, out);
    }
    fv_mem_free(&t->ctx->mem, training.merges, training.merge_room * sizeof *training.merges);
    fv_vocab_free(&vocab);
    return s;
}
