/*
 * fovea/text_metric.h against what sacreBLEU says of the texts in data/text/score.jsonl: every
 * segment by itself and the whole corpus, with the signature, for each recorded configuration. Then
 * resampling against its documented draws, and the edges.
 */
#include "fovea/text_metric.h"

#include "base/rng.h"
#include "io/json.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

/* ---- the recorded scores --------------------------------------------------------- */

enum { MAX_CONFIGS = 32, REFERENCES = 3 };

typedef struct recorded {
    fv_text_metric *scorer;
    int64_t references;
    char name[32], signature[160];
    double score;
} recorded;

static recorded configs[MAX_CONFIGS];
static int config_count;

static int number_of(const char *text, const char *const *names)
{
    int i = 0;
    while (names[i] && strcmp(names[i], text) != 0)
        i++;
    return i;
}

static void read_config(const fv_doc *doc)
{
    static const char *const metrics[] = {"bleu", "chrf", NULL};
    static const char *const tokenizers[] = {"13a", "char", "none", NULL};
    static const char *const smoothings[] = {"exp", "floor", "add-k", "none", NULL};
    const fv_value *c = NULL;
    recorded *r = &configs[config_count];
    const char *metric = "", *tok = "13a", *smooth = "exp", *name = "", *signature = "";
    int64_t order = 4, characters = 6, words = 0, beta = 2;
    r->references = 1;
    CHECK_OK(ctx, fv_doc_get(doc, &doc->root, "config", FV_VALUE_OBJECT, &c));
    CHECK_OK(ctx, fv_doc_get_string(doc, c, "metric", true, &metric));
    fv_text_metric_config cfg;
    fv_text_metric_config_init(&cfg, sizeof cfg, (fv_text_metric_kind)number_of(metric, metrics));
    CHECK_OK(ctx, fv_doc_get_bool(doc, c, "lowercase", false, &cfg.lowercase));
    CHECK_OK(ctx, fv_doc_get_string(doc, c, "tokenize", false, &tok));
    CHECK_OK(ctx, fv_doc_get_string(doc, c, "smooth_method", false, &smooth));
    CHECK_OK(ctx, fv_doc_get_real(doc, c, "smooth_value", false, &cfg.smooth_value));
    CHECK_OK(ctx, fv_doc_get_bool(doc, c, "effective_order", false, &cfg.effective_order));
    CHECK_OK(ctx, fv_doc_get_int(doc, c, "max_ngram_order", false, 1, 8, &order));
    CHECK_OK(ctx, fv_doc_get_int(doc, c, "char_order", false, 1, 8, &characters));
    CHECK_OK(ctx, fv_doc_get_int(doc, c, "word_order", false, 0, 8, &words));
    CHECK_OK(ctx, fv_doc_get_int(doc, c, "beta", false, 0, 1000, &beta));
    CHECK_OK(ctx, fv_doc_get_bool(doc, c, "whitespace", false, &cfg.whitespace));
    CHECK_OK(ctx, fv_doc_get_bool(doc, c, "eps_smoothing", false, &cfg.eps_smoothing));
    CHECK_OK(ctx, fv_doc_get_int(doc, c, "nrefs", false, 1, REFERENCES, &r->references));
    CHECK_OK(ctx, fv_doc_get_string(doc, &doc->root, "name", true, &name));
    CHECK_OK(ctx, fv_doc_get_string(doc, &doc->root, "signature", true, &signature));
    CHECK_OK(ctx, fv_doc_get_real(doc, &doc->root, "score", true, &r->score));
    cfg.tokenizer = (fv_bleu_tokenizer)number_of(tok, tokenizers);
    cfg.smooth = (fv_bleu_smoothing)number_of(smooth, smoothings);
    cfg.order = (int)order;
    cfg.char_order = (int)characters;
    cfg.word_order = (int)words;
    cfg.beta = (int)beta;
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->signature, sizeof r->signature, "%s|version:fovea-", signature);
    CHECK_OK(ctx, fv_text_metric_create(ctx, &cfg, &r->scorer));
    config_count++;
}

static void read_segment(const fv_doc *doc)
{
    const fv_value *texts = NULL, *scores = NULL;
    CHECK_OK(ctx, fv_doc_get(doc, &doc->root, "texts", FV_VALUE_ARRAY, &texts));
    CHECK_OK(ctx, fv_doc_get(doc, &doc->root, "scores", FV_VALUE_ARRAY, &scores));
    if (!texts || !scores) return;
    CHECK(texts->count == 1 + REFERENCES && scores->count == (uint32_t)config_count);
    fv_string s[1 + REFERENCES];
    for (int i = 0; i <= REFERENCES; i++)
        s[i] = (fv_string){texts->as.items[i].as.text, texts->as.items[i].count};
    for (int c = 0; c < config_count; c++) {
        recorded *r = &configs[c];
        double want = 0;
        fv_text_metric_result have = {.struct_size = sizeof have};
        CHECK_OK(ctx, fv_doc_real(doc, &scores->as.items[c], &want));
        CHECK_OK(ctx, fv_text_metric_add(r->scorer, s[0], s + 1, (size_t)r->references));
        CHECK_OK(ctx, fv_text_metric_compute_segment(
                          r->scorer, fv_text_metric_segment_count(r->scorer) - 1, &have));
        if (!(fabs(have.score - want) <= 1e-9))
            test_failed(__FILE__, __LINE__,
                        "configuration %d, \"%s\" against \"%s\": %.12g, not %.12g", c, s[0].text,
                        s[1].text, have.score, want);
    }
}

static void as_sacrebleu(void)
{
    size_t bytes = 0;
    char *all = file_read(test_path("data/text/score.jsonl"), &bytes);
    CHECK(all != NULL);
    if (!all) return;
    int segments = 0;
    for (char *at = all; at < all + bytes;) {
        char *end = memchr(at, '\n', (size_t)(all + bytes - at));
        fv_doc *doc = NULL;
        if (!end) break;
        CHECK_OK(ctx, fv_json_parse(ctx, "score.jsonl", at, (size_t)(end - at), &doc));
        at = end + 1;
        if (!doc) continue;
        if (fv_value_get(&doc->root, "config")) {
            read_config(doc);
        } else {
            read_segment(doc);
            segments++;
        }
        fv_doc_free(&doc);
    }
    free(all);
    for (int c = 0; c < config_count; c++) {
        fv_text_metric_result have = {.struct_size = sizeof have};
        CHECK_OK(ctx, fv_text_metric_compute(configs[c].scorer, &have));
        CHECK_NEAR(have.score, configs[c].score, 1e-9);
        CHECK_STR(have.name, configs[c].name);
        have.signature[strlen(configs[c].signature)] = '\0';
        CHECK_STR(have.signature, configs[c].signature);
        fv_text_metric_destroy(&configs[c].scorer);
    }
    printf("scores: %d segments in %d configurations\n", segments, config_count);
    CHECK(segments >= 500 && config_count >= 16);
}

/* ---- resampling ------------------------------------------------------------------ */

static const char *const some[][2] = {
    {"the cat sat on the mat", "the cat is on the mat"},
    {"a dog runs in the park today", "a dog runs through the park"},
    {"nothing is the same here", "all things differ here now"},
    {"he read the book twice last week", "he read the book twice last week"},
    {"two birds", "two birds sing"},
};
enum { SOME = sizeof some / sizeof some[0] };

static fv_string string(const char *text) { return (fv_string){text, strlen(text)}; }

static void add_pair(fv_text_metric *scorer, size_t i)
{
    fv_string reference = string(some[i][1]);
    CHECK_OK(ctx, fv_text_metric_add(scorer, string(some[i][0]), &reference, 1));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Each sample as a corpus of its own, drawn as the header says. */
static void intervals(void)
{
    enum { SAMPLES = 200 };
    for (int metric = FV_TEXT_METRIC_BLEU; metric <= FV_TEXT_METRIC_CHRF; metric++) {
        fv_text_metric_config cfg;
        fv_text_metric_config_init(&cfg, sizeof cfg, (fv_text_metric_kind)metric);
        double scores[SAMPLES], sum = 0;
        const uint64_t key = fv_rng_key(77, 0, 0);
        for (size_t s = 0; s < SAMPLES; s++) {
            fv_text_metric *scorer = NULL;
            fv_text_metric_result one = {.struct_size = sizeof one};
            CHECK_OK(ctx, fv_text_metric_create(ctx, &cfg, &scorer));
            for (size_t i = 0; i < SOME; i++) {
                uint32_t draw[4];
                fv_rng_draw(key, s, i / 4, draw);
                add_pair(scorer, (size_t)((uint64_t)draw[i % 4] * SOME >> 32));
            }
            CHECK_OK(ctx, fv_text_metric_compute(scorer, &one));
            CHECK(one.mean == 0 && one.interval_half_width == 0);
            sum += scores[s] = one.score;
            fv_text_metric_destroy(&scorer);
        }
        qsort(scores, SAMPLES, sizeof scores[0], by_value);
        cfg.bootstrap_samples = SAMPLES;
        cfg.seed = 77;
        fv_text_metric *scorer = NULL;
        fv_text_metric_result all = {.struct_size = sizeof all};
        CHECK_OK(ctx, fv_text_metric_create(ctx, &cfg, &scorer));
        for (size_t i = 0; i < SOME; i++)
            add_pair(scorer, i);
        CHECK_OK(ctx, fv_text_metric_compute(scorer, &all));
        CHECK_NEAR(all.mean, sum / SAMPLES, 1e-9);
        CHECK_NEAR(all.interval_half_width, 0.5 * (scores[SAMPLES - 6] - scores[5]), 1e-9);
        CHECK(all.interval_half_width > 0);
        CHECK(strstr(all.signature, "nrefs:1|bs:200|seed:77|case:mixed|") == all.signature);
        fv_text_metric_destroy(&scorer);
    }
}

/* ---- edges ----------------------------------------------------------------------- */

static void bad_configurations(void)
{
    fv_text_metric *scorer = NULL;
    for (int i = 0; i < 8; i++) {
        fv_text_metric_config cfg;
        fv_text_metric_config_init(&cfg, sizeof cfg, FV_TEXT_METRIC_BLEU);
        if (i == 0) cfg.kind = (fv_text_metric_kind)9;
        if (i == 1) cfg.tokenizer = (fv_bleu_tokenizer)9;
        if (i == 2) cfg.smooth = (fv_bleu_smoothing)9;
        if (i == 3) cfg.order = 9;
        if (i == 4) cfg.char_order = 0;
        if (i == 5) cfg.word_order = -1;
        if (i == 6) cfg.smooth_value = NAN;
        if (i == 7) cfg.bootstrap_samples = -1;
        CHECK_EQ(fv_text_metric_create(ctx, &cfg, &scorer), FV_ERR_ARGUMENT);
        CHECK(scorer == NULL);
    }
}

static void refused_segments_are_not_counted(void)
{
    fv_text_metric_config cfg;
    fv_text_metric *scorer = NULL;
    fv_text_metric_result score = {.struct_size = sizeof score};
    const fv_string good[2] = {string("x y"), string("x")}, bad = string("x\xff");
    fv_text_metric_config_init(&cfg, sizeof cfg, FV_TEXT_METRIC_CHRF);
    CHECK_OK(ctx, fv_text_metric_create(ctx, &cfg, &scorer));
    CHECK_EQ(fv_text_metric_compute(scorer, &score), FV_ERR_STATE);
    CHECK_EQ(fv_text_metric_add(scorer, good[0], good, 0), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_text_metric_add(scorer, bad, good, 1), FV_ERR_FORMAT);
    CHECK_EQ(fv_text_metric_add(scorer, good[0], &bad, 1), FV_ERR_FORMAT);
    CHECK_EQ(fv_text_metric_add(scorer, (fv_string){0}, good, 1), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_text_metric_segment_count(scorer), 0);
    CHECK_OK(ctx, fv_text_metric_add(scorer, good[0], good, 1));
    CHECK_OK(ctx, fv_text_metric_add(scorer, good[0], good, 2));
    CHECK_OK(ctx, fv_text_metric_compute(scorer, &score));
    CHECK_NEAR(score.score, 100, 1e-12);
    CHECK(strstr(score.signature, "nrefs:var|") == score.signature);
    CHECK_EQ(fv_text_metric_compute_segment(scorer, 2, &score), FV_ERR_INDEX);
    fv_text_metric_destroy(&scorer);
    CHECK(scorer == NULL);
    fv_text_metric_destroy(&scorer);
}

/* A caller that knows only the first fields gets these, and nothing after them. */
static void older_struct(void)
{
    fv_text_metric_config cfg;
    fv_text_metric *scorer = NULL;
    fv_text_metric_result score;
    memset(&score, 0x55, sizeof score);
    score.struct_size = offsetof(fv_text_metric_result, mean);
    fv_text_metric_config_init(&cfg, sizeof cfg, FV_TEXT_METRIC_BLEU);
    CHECK_OK(ctx, fv_text_metric_create(ctx, &cfg, &scorer));
    add_pair(scorer, 3);
    CHECK_OK(ctx, fv_text_metric_compute(scorer, &score));
    CHECK_NEAR(score.score, 100, 1e-9);
    CHECK_STR(score.name, "BLEU");
    CHECK_EQ(score.struct_size, offsetof(fv_text_metric_result, mean));
    CHECK_EQ(((unsigned char *)&score)[offsetof(fv_text_metric_result, mean)], 0x55);
    fv_text_metric_destroy(&scorer);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(as_sacrebleu);
    RUN(intervals);
    RUN(bad_configurations);
    RUN(refused_segments_are_not_counted);
    RUN(older_struct);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
