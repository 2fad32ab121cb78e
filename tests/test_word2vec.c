/*
 * word2vec: the kernel's update against the formula, equal bits at every level and for any number
 * of threads, its distributions, and what the task learns from a text with planted synonyms.
 */
#include "kernels/word2vec.h"

#include "base/ctx.h"
#include "base/pool.h"
#include "base/rng.h"
#include "fovea/words.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/tasks/word2vec.h"

/* ---- the kernel ---------------------------------------------------------------------------------
 */

enum { WORDS = 40, WIDTH = 19, TEXT = 900 };

typedef struct bed {
    fv_word2vec_args args;
    int64_t text[TEXT], alias[WORDS];
    float keep[WORDS], share[WORDS];
    double result[2];
} bed;

static double number(uint64_t key, int64_t i)
{
    uint32_t r[4];
    fv_rng_draw(key, (uint64_t)i, 0, r);
    return (double)fv_rng_unit(r[0]);
}

/* Sentences of up to 20 words, low numbers more often. */
static void fill_bed(bed *b, bool cbow)
{
    *b = (bed){.args = {.vocabulary = WORDS,
                        .width = WIDTH,
                        .words = TEXT,
                        .count = TEXT,
                        .window = 4,
                        .negatives = 7,
                        .blocks = 8,
                        .block_words = 13,
                        .loss_every = 2,
                        .cbow = cbow,
                        .lr = 0.05,
                        .key = 77}};
    for (int64_t i = 0; i < TEXT; i++) {
        const double u = number(1, i);
        b->text[i] = number(2, i) < 0.05 ? -1 : (int64_t)(u * u * WORDS);
    }
    for (int64_t w = 0; w < WORDS; w++) {
        b->keep[w] = w < 5 ? 0.6f : 1;
        b->share[w] = 0.5f;
        b->alias[w] = (w + 7) % WORDS;
    }
}

/* Trains from the same weights with a table of kernels and some threads. */
static void train(bed *b, fv_simd level, int threads, fv_dtype dtype, void *in, void *out)
{
    static fv_kernel_table table;
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = threads;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    fv_kernel_table_register(&table, level);
    void *scratch = NULL;
    const size_t bytes = table.scratch[FV_KERNEL_WORD2VEC](&b->args, threads);
    CHECK(posix_memalign(&scratch, 64, bytes) == 0);
    memset(scratch, 0xff, bytes); /* nothing may count on zeros */
    fv_fault fault = {.set = 0};
    const fv_exec exec = {.parallel = (fv_parallel_fn)fv_pool_run,
                          .user = ctx->pool,
                          .threads = threads,
                          .table = &table,
                          .scratch = scratch,
                          .fault = &fault};
    b->result[0] = b->result[1] = 0;
    void *ptr[] = {in, out, b->result, b->text, b->keep, b->share, b->alias};
    table.fn[FV_KERNEL_WORD2VEC][dtype](&exec, ptr, &b->args);
    CHECK_EQ(fault.set, 0);
    free(scratch);
    fv_ctx_destroy(&ctx);
}

static void fill_floats(float *in, float *out)
{
    for (int i = 0; i < WORDS * WIDTH; i++) {
        in[i] = (float)number(3, i) - 0.5f;
        out[i] = (float)number(4, i) - 0.5f;
    }
}

static void bits_are_equal(void)
{
    static float in[2][WORDS * WIDTH], out[2][WORDS * WIDTH];
    static const int threads[] = {1, 2, 3, 8};
    fv_simd best = fv_simd_detect();
    for (int cbow = 0; cbow < 2; cbow++) {
        bed b;
        fill_bed(&b, cbow);
        fill_floats(in[0], out[0]);
        train(&b, FV_SIMD_SCALAR, 1, FV_F32, in[0], out[0]);
        const double loss = b.result[0], count = b.result[1];
        CHECK(loss > 0 && count > 0);
        for (int level = FV_SIMD_SCALAR; level <= (int)best; level++)
            for (int t = 0; t < 4; t++) {
                fill_floats(in[1], out[1]);
                train(&b, (fv_simd)level, threads[t], FV_F32, in[1], out[1]);
                CHECK(memcmp(in[0], in[1], sizeof in[0]) == 0);
                CHECK(memcmp(out[0], out[1], sizeof out[0]) == 0);
                CHECK(b.result[0] == loss && b.result[1] == count);
            }
    }
}

/* With a rate of 0 nothing changes, and the loss is that of the formula's first values. */
static void evaluation_changes_nothing(void)
{
    static float in[2][WORDS * WIDTH], out[2][WORDS * WIDTH];
    bed b;
    fill_bed(&b, false);
    b.args.lr = 0;
    fill_floats(in[0], out[0]);
    fill_floats(in[1], out[1]);
    train(&b, fv_simd_detect(), 2, FV_F32, in[1], out[1]);
    CHECK(memcmp(in[0], in[1], sizeof in[0]) == 0);
    CHECK(memcmp(out[0], out[1], sizeof out[0]) == 0);
    CHECK(b.result[0] > 0);
}

/* What is drawn depends on the place in the text alone: without updates, blocks change nothing. */
static void blocks_draw_the_same(void)
{
    static float in[WORDS * WIDTH], out[WORDS * WIDTH];
    double loss = 0, count = 0, kept = 0;
    for (int i = 0; i < 3; i++) {
        bed b;
        fill_bed(&b, false);
        b.args.lr = 0;
        b.args.blocks = i == 1 ? 3 : 8;
        b.args.block_words = i == 1 ? 29 : 13;
        for (int w = 0; i == 2 && w < 5; w++)
            b.keep[w] = 0;
        fill_floats(in, out);
        train(&b, FV_SIMD_SCALAR, 1, FV_F32, in, out);
        if (i == 0) loss = b.result[0];
        if (i == 0) count = b.result[1];
        if (i == 2) kept = b.result[1];
        if (i == 1) CHECK_NEAR(b.result[0], loss, 1e-9 * loss);
        if (i == 1) CHECK_EQ(b.result[1], count);
    }
    CHECK(kept < 0.9 * count);
}

/* ---- the formula
 * ---------------------------------------------------------------------------------- */

enum { SMALL = 4, NARROW = 3 };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* One center with its contexts, as written in kernels/word2vec.h; the negative is word 3. */
static double plain(double in[SMALL][NARROW], double out[SMALL][NARROW], double lr, bool cbow,
                    int center, int contexts, const int *context)
{
    double dh[SMALL][NARROW] = {{0}}, dout[SMALL][NARROW] = {{0}}, loss = 0;
    const int outputs[2] = {center, 3}, inputs = cbow ? 1 : contexts;
    for (int i = 0; i < inputs; i++)
        for (int j = 0; j < 2; j++) {
            double h[NARROW] = {0}, x = 0;
            for (int k = 0; k < NARROW; k++) {
                for (int c = 0; cbow && c < contexts; c++)
                    h[k] += in[context[c]][k] / contexts;
                if (!cbow) h[k] = in[context[i]][k];
                x += h[k] * out[outputs[j]][k];
            }
            if (j == 1 && center == 3) continue;
            const double g = lr * ((j == 0) - sigmoid(x));
            loss -= log(sigmoid(j == 0 ? x : -x));
            for (int k = 0; k < NARROW; k++) {
                dout[outputs[j]][k] += g * h[k];
                for (int c = 0; cbow && c < contexts; c++)
                    dh[context[c]][k] += g * out[outputs[j]][k];
                if (!cbow) dh[context[i]][k] += g * out[outputs[j]][k];
            }
        }
    for (int w = 0; w < SMALL; w++)
        for (int k = 0; k < NARROW; k++) {
            in[w][k] += dh[w][k];
            out[w][k] += dout[w][k];
        }
    return loss;
}

/* The text 0 1 0 | 3 2 with a window of one word: every window and every draw is known. */
static void update_is_the_formula(void)
{
    for (int cbow = 0; cbow < 2; cbow++) {
        double in[2][SMALL][NARROW], out[2][SMALL][NARROW], loss = 0;
        bed b = {.args = {.vocabulary = SMALL,
                          .width = NARROW,
                          .words = 7,
                          .count = 7,
                          .window = 1,
                          .negatives = 1,
                          .blocks = 2,
                          .block_words = 16,
                          .loss_every = 1,
                          .cbow = cbow,
                          .lr = 0.3,
                          .key = 5},
                 .text = {0, 1, 0, -1, 3, 2, -1}};
        for (int w = 0; w < SMALL; w++) {
            b.keep[w] = 1;
            b.share[w] = 0;
            b.alias[w] = 3;
            for (int k = 0; k < NARROW; k++) {
                in[0][w][k] = in[1][w][k] = number(8, w * NARROW + k) - 0.5;
                out[0][w][k] = out[1][w][k] = number(9, w * NARROW + k) - 0.5;
            }
        }
        train(&b, FV_SIMD_SCALAR, 1, FV_F64, in[0], out[0]);
        loss += plain(in[1], out[1], 0.3, cbow, 0, 1, (int[]){1});
        loss += plain(in[1], out[1], 0.3, cbow, 1, 2, (int[]){0, 0});
        loss += plain(in[1], out[1], 0.3, cbow, 0, 1, (int[]){1});
        loss += plain(in[1], out[1], 0.3, cbow, 3, 1, (int[]){2});
        loss += plain(in[1], out[1], 0.3, cbow, 2, 1, (int[]){3});
        for (int w = 0; w < SMALL; w++)
            for (int k = 0; k < NARROW; k++) {
                CHECK_NEAR(in[0][w][k], in[1][w][k], 1e-14);
                CHECK_NEAR(out[0][w][k], out[1][w][k], 1e-14);
            }
        CHECK_NEAR(b.result[0], loss, 1e-13);
        CHECK_EQ(b.result[1], cbow ? 5 : 6);
    }
}

/* Two blocks that train the same rows: their sums are added, or damped once there are many. */
static void blocks_are_added(void)
{
    double in[3][SMALL][NARROW], out[3][SMALL][NARROW];
    bed b = {.args = {.vocabulary = SMALL,
                      .width = NARROW,
                      .words = 6,
                      .window = 1,
                      .negatives = 1,
                      .blocks = 2,
                      .block_words = 3,
                      .loss_every = 1,
                      .key = 5},
             .text = {0, 1, -1, 0, 1, -1}};
    for (int w = 0; w < SMALL; w++) {
        b.keep[w] = 1;
        b.alias[w] = 3;
        for (int k = 0; k < NARROW; k++)
            for (int n = 0; n < 3; n++) {
                in[n][w][k] = number(8, w * NARROW + k) - 0.5;
                out[n][w][k] = number(9, w * NARROW + k) - 0.5;
            }
    }
    /* a small rate adds both, a large one takes their mean: both blocks did the same */
    static const double rates[] = {0.01, 4};
    for (int i = 0; i < 2; i++) {
        b.args.lr = rates[i];
        b.args.count = 3;
        memcpy(in[1], in[2], sizeof in[1]);
        memcpy(out[1], out[2], sizeof out[1]);
        train(&b, FV_SIMD_SCALAR, 1, FV_F64, in[1], out[1]);
        b.args.count = 6;
        memcpy(in[0], in[2], sizeof in[0]);
        memcpy(out[0], out[2], sizeof out[0]);
        train(&b, FV_SIMD_SCALAR, 2, FV_F64, in[0], out[0]);
        for (int w = 0; w < SMALL; w++)
            for (int k = 0; k < NARROW; k++)
                CHECK_NEAR(in[0][w][k] - in[2][w][k],
                           (i == 0 ? 2 : 1) * (in[1][w][k] - in[2][w][k]), 1e-14);
    }
}

static void a_word_past_the_vocabulary_is_a_fault(void)
{
    static float in[WORDS * WIDTH], out[WORDS * WIDTH];
    static fv_kernel_table table;
    bed b;
    fv_fault fault = {.set = 0};
    fill_bed(&b, false);
    fill_floats(in, out);
    b.text[30] = WORDS;
    fv_kernel_table_register(&table, FV_SIMD_SCALAR);
    void *scratch = malloc(table.scratch[FV_KERNEL_WORD2VEC](&b.args, 1));
    const fv_exec exec = {.threads = 1, .table = &table, .scratch = scratch, .fault = &fault};
    void *ptr[] = {in, out, b.result, b.text, b.keep, b.share, b.alias};
    table.fn[FV_KERNEL_WORD2VEC][FV_F32](&exec, ptr, &b.args);
    CHECK(fault.set && fault.index == WORDS && fault.bound == WORDS);
    free(scratch);
}

/* ---- distributions ------------------------------------------------------------------------ */

static void negatives_follow_the_counts(void)
{
    enum { N = 300 };
    double weight[N], mass[N] = {0}, total = 0;
    int64_t stack[N], alias[N];
    float share[N];
    for (int i = 0; i < N; i++) {
        weight[i] = i == 7 ? 0 : pow(1 + 10000.0 / (1 + i), 0.75);
        total += weight[i];
    }
    fv_word2vec_alias(N, weight, stack, share, alias);
    for (int i = 0; i < N; i++) {
        CHECK(alias[i] >= 0 && alias[i] < N);
        mass[i] += (double)share[i] / N;
        mass[alias[i]] += (1 - (double)share[i]) / N;
    }
    for (int i = 0; i < N; i++) {
        const double want = i == 7 ? 0 : pow(1 + 10000.0 / (1 + i), 0.75) / total;
        CHECK_NEAR(mass[i], want, 1e-7 * N * want + 1e-12);
    }
}

static void frequent_words_are_left_out(void)
{
    CHECK_NEAR(fv_word2vec_keep(1e-3, 0.1), sqrt(0.01) + 0.01, 1e-15);
    CHECK_EQ(fv_word2vec_keep(1e-3, 1e-4), 1);
    CHECK_EQ(fv_word2vec_keep(0, 0.5), 1);
    CHECK_EQ(fv_word2vec_keep(1e-3, 0), 1);
}

/* ---- training
 * ------------------------------------------------------------------------------------- */

enum { TOPICS = 12, LINES = 3000 };

/* Sentences of one topic each; "a3" and "b3" are synonyms: both stand among the same words. */
static void write_text(const char *path)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; i < LINES; i++) {
        const int topic = (int)(number(20, i) * TOPICS);
        for (int k = 0; k < 6; k++) {
            const double u = number(21 + (uint64_t)k, i);
            if (k == 3)
                fprintf(f, "%c%d, ", u < 0.5 ? 'a' : 'B', topic);
            else
                fprintf(f, "t%d'%c ", topic, 'p' + (int)(u * 5));
        }
        fputs("\n", f);
    }
    fclose(f);
}

static fv_status learn(const char *folder, const char *mode, int threads, run_watch *w)
{
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("synonyms.txt"));
    write_text(path);
    fv_ctx *ctx = run_context(threads, 5);
    const run_setting values[] = {{"train.task", "word2vec"},   {"data.train_text", path},
                                  {"data.documents", "lines"},  {"tokens.kind", "word"},
                                  {"tokens.min_count", "1"},    {"tokens.lowercase", "true"},
                                  {"word2vec.mode", mode},      {"word2vec.width", "24"},
                                  {"word2vec.letters", "true"}, {"train.batch_tokens", "2000"},
                                  {"train.epochs", "8"},        {"train.lr", "0.05"},
                                  {"train.schedule", "linear"}, {"train.eval_every", "30"},
                                  {"train.save_every", "30"},   {NULL, NULL}};
    return run_text(ctx, run_recipe(ctx, values), folder, w);
}

/* How many words a<i> have b<i> as the nearest word that is no neighbour in sentences. */
static int synonyms_found(const char *folder)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = NULL;
    int right = 0;
    CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
    for (int i = 0; model && i < TOPICS; i++) {
        char word[8];
        int64_t id = 0;
        int found = 0;
        fv_word_match near[TOPICS * 8];
        snprintf(word, sizeof word, "a%d", i);
        CHECK_OK(ctx, fv_words_find(model, word, &id));
        const fv_words_query query = {.plus = &id, .plus_count = 1};
        CHECK_OK(ctx, fv_words_nearest(model, &query, TOPICS * 8, near, &found));
        int k = 0;
        while (k < found && near[k].word[0] == 't')
            k++;
        snprintf(word, sizeof word, "b%d", i);
        right += k < found && strcmp(near[k].word, word) == 0;
        for (int n = 1; n < found; n++)
            CHECK(near[n].cosine <= near[n - 1].cosine);
    }
    int64_t id;
    CHECK_EQ(fv_words_find(model, "a33", &id), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "did you mean 'a3'") != NULL);
    CHECK_EQ(fv_words_find(model, "<unk>", &id), FV_ERR_ARGUMENT);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
    return right;
}

static void synonyms_are_near(void)
{
    static const char *const modes[] = {"skipgram", "cbow"};
    for (int i = 0; i < 2; i++) {
        run_watch w = {0};
        const char *folder = folder_sub(modes[i]);
        CHECK_EQ(learn(folder, modes[i], 2, &w), FV_OK);
        CHECK(w.count == 1 && w.last[0].value < w.first[0].value);
        CHECK(synonyms_found(folder) >= TOPICS - 1);
    }
}

static char whole[512]; /* the folder of an uninterrupted run */

static void a_resumed_run_has_the_same_bits(void)
{
    char parts[512];
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    snprintf(parts, sizeof parts, "%s", folder_sub("parts"));
    CHECK_EQ(learn(whole, "skipgram", 1, &(run_watch){0}), FV_OK);
    CHECK_EQ(learn(parts, "skipgram", 3, &(run_watch){.stop = 17}), FV_ERR_CANCELLED);
    CHECK_EQ(learn(parts, "skipgram", 2, &(run_watch){0}), FV_OK);
    CHECK(file_same_in(whole, parts, "model.safetensors"));
}

/* Words on a line in space lie on the first axis, in their order. */
static void planes_keep_the_spread(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = NULL;
    double xy[2 * TOPICS], spread[2] = {0};
    int64_t ids[TOPICS];
    CHECK_OK(ctx, fv_model_open(ctx, whole, &model));
    for (int i = 0; model && i < TOPICS; i++)
        ids[i] = fv_words_first(model) + i;
    CHECK_EQ(fv_words_plane(model, ids, 2, xy), FV_ERR_ARGUMENT);
    CHECK_OK(ctx, fv_words_plane(model, ids, TOPICS, xy));
    for (int axis = 0; axis < 2; axis++) {
        double mean = 0;
        for (int i = 0; i < TOPICS; i++)
            mean += xy[2 * i + axis];
        CHECK_NEAR(mean, 0, 1e-9);
        for (int i = 0; i < TOPICS; i++)
            spread[axis] += xy[2 * i + axis] * xy[2 * i + axis];
    }
    CHECK(spread[0] >= spread[1] && spread[1] > 0);
    double both = 0;
    for (int i = 0; i < TOPICS; i++)
        both += xy[2 * i] * xy[2 * i + 1];
    CHECK(fabs(both) < 1e-3 * spread[0]);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    RUN(bits_are_equal);
    RUN(evaluation_changes_nothing);
    RUN(blocks_draw_the_same);
    RUN(update_is_the_formula);
    RUN(blocks_are_added);
    RUN(a_word_past_the_vocabulary_is_a_fault);
    RUN(negatives_follow_the_counts);
    RUN(frequent_words_are_left_out);
    RUN(synonyms_are_near);
    RUN(a_resumed_run_has_the_same_bits);
    RUN(planes_keep_the_spread);
    folder_remove();
    return TEST_END();
}
