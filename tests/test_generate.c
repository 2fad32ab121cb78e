/*
 * Generation: the ids that transformers gives for the same weights and prompts, greedy and by beam
 * search; stop texts, pieces of whole characters, bounds; and that neighbours do not matter.
 */
#include "fovea/generate.h"

#include "fovea/file.h"
#include "models/model.h"
#include "support/files.h"
#include "support/marian.h"
#include "support/test.h"

enum { MOST = 64 };

static const char *fixture(const char *name, const char *file)
{
    static char rest[256];
    snprintf(rest, sizeof rest, "fixtures/%s%s", name, file);
    return test_path(rest);
}

typedef struct world {
    fv_ctx *ctx;
    fv_model *model;
    fv_cache *cache;
    fv_safetensors *expected;
} world;

static world open_world(const char *name)
{
    world w = {.ctx = NULL};
    char folder[256];
    CHECK_EQ(fv_ctx_create(NULL, &w.ctx), FV_OK);
    folder_make();
    if (strcmp(name, "marian") == 0)
        CHECK(marian_with_positions(folder));
    else
        snprintf(folder, sizeof folder, "%s", fixture(name, ""));
    CHECK_OK(w.ctx, fv_model_open(w.ctx, folder, &w.model));
    folder_remove();
    CHECK_OK(w.ctx, fv_cache_create(fv_model_transformer(w.model), &w.cache));
    CHECK_OK(w.ctx, fv_safetensors_open(w.ctx, fixture(name, "/expected.safetensors"),
                                        FV_SAFETENSORS_COPY, &w.expected));
    return w;
}

static void close_world(world *w)
{
    fv_safetensors_close(&w->expected);
    fv_cache_destroy(&w->cache);
    fv_model_close(&w->model);
    fv_ctx_destroy(&w->ctx);
}

/* An i64 tensor [rows, cols] of the expected file. */
static int64_t *ids_of(world *w, const char *name, int64_t shape[2])
{
    fv_tensor *t = fv_safetensors_load(w->ctx, w->expected, name);
    CHECK(fv_tensor_valid(t) && fv_tensor_rank(t) == 2);
    shape[0] = fv_tensor_size(t, 0);
    shape[1] = fv_tensor_size(t, 1);
    const size_t bytes = (size_t)fv_tensor_count(t) * sizeof(int64_t);
    int64_t *out = malloc(bytes);
    CHECK_OK(w->ctx, fv_tensor_read(w->ctx, t, out, bytes));
    return out;
}

static fv_generate_config config(const world *w, int beam, int64_t most)
{
    fv_generate_config cfg;
    fv_generate_config_init(&cfg, sizeof cfg, fv_model_generation(w->model));
    cfg.search.beam = beam;
    cfg.max_tokens = most;
    return cfg;
}

/* The output is `want` from `from` on, whose rest may be filled up with the end token. */
static void check_ids(const fv_generated_text *g, const int64_t *want, int64_t from, int64_t count)
{
    CHECK(g != NULL);
    if (!g) return;
    CHECK(g->ended ? g->count <= count - from : g->count == count - from);
    for (int64_t i = 0; i < g->count && i < count - from; i++)
        CHECK_EQ(g->tokens[i], want[from + i]);
}

static void check_decoder(const char *name, const char *expected, int beam)
{
    world w = open_world(name);
    int64_t p[2], e[2];
    int64_t *prompt = ids_of(&w, "prompt_ids", p), *want = ids_of(&w, expected, e);
    const int64_t *list = prompt;
    const fv_sequences prompts = {.count = 1, .tokens = &list, .length = &p[1]};
    const fv_generate_config cfg = config(&w, beam, e[1] - p[1]);
    fv_generated *out = NULL;
    CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, &prompts, NULL, &cfg, &out));
    CHECK(memcmp(prompt, want, (size_t)p[1] * sizeof *want) == 0);
    check_ids(fv_generated_get(out, 0, 0), want, p[1], e[1]);
    fv_generated_free(&out);
    free(prompt);
    free(want);
    close_world(&w);
}

static void check_translation(const char *name, const char *expected, int beam)
{
    world w = open_world(name);
    int64_t s[2], m[2], e[2];
    int64_t *source = ids_of(&w, "input_ids", s), *mask = ids_of(&w, "attention_mask", m);
    int64_t *want = ids_of(&w, expected, e), length[8] = {0};
    const int64_t *lists[8];
    for (int64_t i = 0; i < s[0]; i++) {
        lists[i] = source + i * s[1];
        for (int64_t t = 0; t < s[1]; t++)
            length[i] += mask[i * s[1] + t] != 0;
    }
    const fv_sequences sources = {.count = s[0], .tokens = lists, .length = length};
    const fv_generate_config cfg = config(&w, beam, e[1] - 1);
    fv_generated *out = NULL;
    CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, NULL, &sources, &cfg, &out));
    for (int64_t i = 0; i < s[0]; i++)
        check_ids(fv_generated_get(out, i, 0), want + i * e[1], 1, e[1]);
    fv_generated_free(&out);
    free(source);
    free(mask);
    free(want);
    close_world(&w);
}

static void greedy_ids_are_those_of_transformers(void)
{
    check_decoder("gpt2", "greedy_ids", 1);
    check_decoder("llama", "greedy_ids", 1);
    check_translation("marian", "greedy_ids", 1);
}

static void beam_ids_are_those_of_transformers(void)
{
    check_decoder("gpt2", "beam4_ids", 4);
    check_translation("marian", "beam5_ids", 5);
}

/* ---- texts ------------------------------------------------------------------------------ */

/* A tokenizer whose token i is a byte or a part of a character: what a byte-level vocabulary has.
 */
static fv_tokenizer *bytes_tokenizer(fv_ctx *ctx)
{
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *tok = NULL;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_BPE_BYTES);
    cfg.vocabulary = 300;
    CHECK_OK(ctx, fv_tokenizer_trainer_create(ctx, &cfg, &trainer));
    static const char text[] = "one stone alone none the other bother the mother one stone";
    CHECK_OK(ctx, fv_tokenizer_trainer_add(trainer, text, sizeof text - 1));
    CHECK_OK(ctx, fv_tokenizer_trainer_finish(trainer, &tok));
    fv_tokenizer_trainer_destroy(&trainer);
    return tok;
}

typedef struct received {
    char text[4096];
    size_t bytes;
    int pieces, max_pieces;
} received;

static bool is_whole(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        const unsigned char c = (unsigned char)text[i];
        const size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        if ((c & 0xc0) == 0x80 || i + n > bytes) return false;
        i += n;
    }
    return true;
}

static bool receive(void *user, int64_t text, const char *piece, size_t bytes)
{
    received *h = user;
    CHECK_EQ(text, 0);
    CHECK(bytes > 0 && is_whole(piece, bytes));
    if (h->bytes + bytes < sizeof h->text) memcpy(h->text + h->bytes, piece, bytes);
    h->bytes += bytes;
    return ++h->pieces != h->max_pieces;
}

static fv_generated *drawn(world *w, const fv_tokenizer *tok, fv_generate_config *cfg, received *h)
{
    static const int64_t tokens[3] = {20, 30, 40}, length = 3;
    static const int64_t *const list = tokens;
    const fv_sequences prompt = {.count = 1, .tokens = &list, .length = &length};
    fv_generated *out = NULL;
    cfg->search.sample = true;
    cfg->search.temperature = 3;
    cfg->on_text = h ? receive : NULL;
    cfg->on_text_user = h;
    CHECK_OK(w->ctx, fv_generate_tokens(w->cache, tok, &prompt, NULL, cfg, &out));
    return out;
}

/* on_text receives whole characters, which together are the text; a callback that returns false
 * ends it. */
static void pieces_are_whole_characters(void)
{
    world w = open_world("llama");
    fv_tokenizer *tok = bytes_tokenizer(w.ctx);
    int several = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        fv_generate_config cfg = config(&w, 1, 60);
        cfg.search.seed = seed;
        received h = {.bytes = 0};
        fv_generated *out = drawn(&w, tok, &cfg, &h);
        const fv_generated_text *g = fv_generated_get(out, 0, 0);
        CHECK(h.bytes == g->bytes && memcmp(h.text, g->text, h.bytes) == 0);
        CHECK(is_whole(g->text, g->bytes) && g->text[g->bytes] == '\0');
        several += h.pieces > 3;
        fv_generated_free(&out);
    }
    CHECK(several > 5);
    received two = {.max_pieces = 2};
    fv_generate_config cfg = config(&w, 1, 60);
    cfg.search.seed = 3;
    fv_generated *out = drawn(&w, tok, &cfg, &two);
    CHECK_EQ(two.pieces, 2);
    CHECK(fv_generated_get(out, 0, 0)->stopped);
    fv_generated_free(&out);
    fv_tokenizer_destroy(&tok);
    close_world(&w);
}

/* A stop text of every length, wherever it stands: the output is what stood before it. */
static void stop_texts_end_outputs(void)
{
    world w = open_world("llama");
    fv_tokenizer *tok = bytes_tokenizer(w.ctx);
    fv_generate_config cfg = config(&w, 1, 60);
    cfg.search.min_tokens = 60;
    cfg.search.seed = 5;
    fv_generated *whole = drawn(&w, tok, &cfg, NULL);
    const fv_generated_text *g = fv_generated_get(whole, 0, 0);
    int tried = 0;
    CHECK(g->bytes > 30 && !g->stopped);
    for (size_t at = 1; at + 6 < g->bytes; at++)
        for (size_t n = 1; n <= 5; n += 2) {
            char stop[8] = {0};
            memcpy(stop, g->text + at, n);
            if (strlen(stop) < n || !is_whole(stop, n) || !is_whole(g->text, at)) continue;
            tried++;
            const char *const stops[2] = {"never generated at all", stop};
            cfg.stop = stops;
            cfg.stop_count = 2;
            received h = {.bytes = 0};
            fv_generated *out = drawn(&w, tok, &cfg, &h);
            const fv_generated_text *cut = fv_generated_get(out, 0, 0);
            const size_t want = (size_t)((char *)memmem(g->text, g->bytes, stop, n) - g->text);
            CHECK(cut->stopped && !cut->ended);
            CHECK_EQ(cut->bytes, want);
            CHECK(memcmp(cut->text, g->text, want) == 0);
            CHECK(h.bytes == want && memcmp(h.text, g->text, want) == 0);
            fv_generated_free(&out);
        }
    CHECK(tried > 20);
    fv_generated_free(&whole);
    fv_tokenizer_destroy(&tok);
    close_world(&w);
}

/* A stop text that is complete with the last token before the context is full ends the output. */
static void a_stop_text_comes_before_a_full_context(void)
{
    world w = open_world("llama");
    fv_tokenizer *tok = bytes_tokenizer(w.ctx);
    fv_generate_config cfg = config(&w, 1, 1000);
    cfg.context_full = FV_CONTEXT_STOP;
    cfg.search.min_tokens = 1000;
    cfg.search.seed = 5;
    fv_generated *whole = drawn(&w, tok, &cfg, NULL);
    const fv_generated_text *g = fv_generated_get(whole, 0, 0);
    CHECK(g->count == 125 && g->context_full && !g->stopped);
    cfg.stop = &g->text;
    cfg.stop_count = 1;
    fv_generated *stopped = drawn(&w, tok, &cfg, NULL);
    const fv_generated_text *s = fv_generated_get(stopped, 0, 0);
    CHECK(s->count == 125 && s->bytes == 0 && s->stopped && !s->context_full);
    fv_generated_free(&stopped);
    fv_generated_free(&whole);
    fv_tokenizer_destroy(&tok);
    close_world(&w);
}

/* Prompts of different lengths together give what each gives alone. */
static void neighbours_do_not_matter(void)
{
    world w = open_world("gpt2");
    static const int64_t tokens[3][8] = {{5, 9, 2}, {77, 3, 8, 1, 100, 7, 40, 41}, {300}};
    static const int64_t length[3] = {3, 8, 1};
    const int64_t *const lists[3] = {tokens[0], tokens[1], tokens[2]};
    for (int mode = 0; mode < 3; mode++) {
        fv_generate_config cfg = config(&w, mode == 1 ? 3 : 1, 20);
        cfg.search.sample = mode == 2;
        cfg.search.nbest = mode == 0 ? 1 : 2;
        cfg.search.repetition_penalty = 1.3;
        cfg.search.seed = 9;
        const fv_sequences all = {.count = 3, .tokens = lists, .length = length};
        fv_generated *together = NULL, *alone = NULL;
        CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, &all, NULL, &cfg, &together));
        for (int64_t i = 0; i < 3; i++) {
            const fv_sequences one = {.count = 1, .tokens = lists + i, .length = length + i};
            cfg.search.first_source = i;
            CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, &one, NULL, &cfg, &alone));
            for (int n = 0; n < cfg.search.nbest; n++) {
                const fv_generated_text *x = fv_generated_get(together, i, n);
                const fv_generated_text *y = fv_generated_get(alone, 0, n);
                CHECK(x && y && x->count == y->count && x->log_prob == y->log_prob);
                if (x && y)
                    CHECK(memcmp(x->tokens, y->tokens, (size_t)x->count * sizeof(int64_t)) == 0);
            }
            fv_generated_free(&alone);
        }
        fv_generated_free(&together);
    }
    close_world(&w);
}

/* An empty line in a file of sources: an empty answer, and the others as if it were not there. */
static void an_empty_source_has_an_empty_answer(void)
{
    world w = open_world("marian");
    static const int64_t tokens[2][4] = {{5, 9, 2, 0}, {77, 3, 8, 0}};
    const int64_t *const lists[3] = {tokens[0], NULL, tokens[1]};
    const int64_t *const full[2] = {tokens[0], tokens[1]};
    static const int64_t length[3] = {4, 0, 4}, full_length[2] = {4, 4};
    const fv_sequences with = {.count = 3, .tokens = lists, .length = length};
    const fv_sequences without = {.count = 2, .tokens = full, .length = full_length};
    const fv_sequences empty = {.count = 1, .tokens = lists + 1, .length = length + 1};
    for (int beam = 1; beam <= 3; beam += 2) {
        const fv_generate_config cfg = config(&w, beam, 8);
        fv_generated *out = NULL, *want = NULL, *none = NULL;
        CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, NULL, &with, &cfg, &out));
        CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, NULL, &without, &cfg, &want));
        CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, NULL, &empty, &cfg, &none));
        for (int64_t i = 0; i < 2 && out && want; i++) {
            const fv_generated_text *x = fv_generated_get(out, 2 * i, 0);
            const fv_generated_text *y = fv_generated_get(want, i, 0);
            CHECK(x && y && x->count > 0 && x->count == y->count && x->log_prob == y->log_prob);
            if (x && y)
                CHECK(memcmp(x->tokens, y->tokens, (size_t)x->count * sizeof(int64_t)) == 0);
        }
        const fv_generated_text *answers[2] = {out ? fv_generated_get(out, 1, 0) : NULL,
                                               none ? fv_generated_get(none, 0, 0) : NULL};
        for (int i = 0; i < 2; i++)
            CHECK(answers[i] && answers[i]->count == 0 && answers[i]->bytes == 0 &&
                  answers[i]->ended);
        fv_generated_free(&out);
        fv_generated_free(&want);
        fv_generated_free(&none);
    }
    close_world(&w);
}

/* max_length counts the prompt: that of an encoder-decoder is its first token. */
static void the_length_of_the_folder_is_kept(void)
{
    static const struct {
        const char *name;
        int64_t max_length, max_tokens, count;
    } known[] = {{"gpt2", 9, 0, 4},     {"gpt2", 9, 7, 7},   {"gpt2", 3, 0, 1},
                 {"gpt2", 1000, 0, 59}, {"bart", 12, 0, 11}, {"bart", 12, 3, 3},
                 {"marian", 40, 0, 39}};
    static const int64_t tokens[] = {5, 6, 7, 8, 9}, length = 5;
    const int64_t *list = tokens;
    const fv_sequences one = {.count = 1, .tokens = &list, .length = &length};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        world w = open_world(known[i].name);
        const bool both = strcmp(known[i].name, "gpt2") != 0;
        fv_generation_defaults folder = *fv_model_generation(w.model);
        fv_generate_config cfg;
        fv_generated *out = NULL;
        folder.max_length = known[i].max_length;
        folder.max_new_tokens = known[i].max_tokens;
        folder.min_new_tokens = 1000; /* no end token before */
        folder.forced_last = -1;
        fv_generate_config_init(&cfg, sizeof cfg, &folder);
        CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, both ? NULL : &one, both ? &one : NULL,
                                           &cfg, &out));
        const fv_generated_text *g = out ? fv_generated_get(out, 0, 0) : NULL;
        CHECK(g != NULL);
        if (g) CHECK_EQ(g->count, known[i].count);
        fv_generated_free(&out);
        close_world(&w);
    }
}

static void bad_calls_are_refused(void)
{
    world w = open_world("gpt2");
    static int64_t tokens[64];
    const int64_t *list = tokens;
    int64_t length = 60;
    const fv_sequences prompt = {.count = 1, .tokens = &list, .length = &length};
    fv_generated *out = NULL;
    fv_generate_config cfg = config(&w, 1, 5); /* 60 + 5 of 64 */
    CHECK_EQ(fv_generate_tokens(w.cache, NULL, &prompt, NULL, &cfg, &out), FV_ERR_LIMIT);
    CHECK(strstr(fv_ctx_message(w.ctx), "60 tokens") && strstr(fv_ctx_message(w.ctx), "64"));
    cfg.max_tokens = 0; /* as many as fit */
    CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, &prompt, NULL, &cfg, &out));
    CHECK(fv_generated_get(out, 0, 0)->count <= 4);
    fv_generated_free(&out);
    cfg.max_length = -1;
    CHECK_EQ(fv_generate_tokens(w.cache, NULL, &prompt, NULL, &cfg, &out), FV_ERR_ARGUMENT);
    cfg.max_length = 0;
    length = 64;
    CHECK_EQ(fv_generate_tokens(w.cache, NULL, &prompt, NULL, &cfg, &out), FV_ERR_LIMIT);
    length = 0;
    CHECK_EQ(fv_generate_tokens(w.cache, NULL, &prompt, NULL, &cfg, &out), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_generate_tokens(w.cache, NULL, NULL, NULL, &cfg, &out), FV_ERR_ARGUMENT);
    length = 3;
    const char *const stop[1] = {"x"};
    cfg.stop = stop;
    cfg.stop_count = 1;
    CHECK_EQ(fv_generate_tokens(w.cache, NULL, &prompt, NULL, &cfg, &out), FV_ERR_ARGUMENT);
    cfg.stop_count = 0;
    cfg.struct_size = 1;
    CHECK_EQ(fv_generate_tokens(w.cache, NULL, &prompt, NULL, &cfg, &out), FV_ERR_ARGUMENT);
    fv_generator *gen = NULL;
    CHECK_EQ(fv_generator_open(w.ctx, fixture("bert", ""), FV_WEIGHT_F32, &gen),
             FV_ERR_UNSUPPORTED);
    CHECK_EQ(fv_generator_open(w.ctx, "nowhere", FV_WEIGHT_F32, &gen), FV_ERR_IO);
    CHECK(out == NULL && gen == NULL);
    close_world(&w);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(greedy_ids_are_those_of_transformers);
    RUN(beam_ids_are_those_of_transformers);
    RUN(pieces_are_whole_characters);
    RUN(stop_texts_end_outputs);
    RUN(a_stop_text_comes_before_a_full_context);
    RUN(neighbours_do_not_matter);
    RUN(an_empty_source_has_an_empty_answer);
    RUN(the_length_of_the_folder_is_kept);
    RUN(bad_calls_are_refused);
    return TEST_END();
}
