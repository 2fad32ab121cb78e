/* fovea look: numbers that are made from maps, against plain computations from the maps themselves;
 * parts of maps; and long texts, whose pictures stay small. */
#include <math.h>
#include <sys/stat.h>

#include "fovea/file.h"
#include "support/files.h"
#include "support/program.h"
#include "support/reading.h"
#include "support/tensors.h"
#include "support/values.h"

enum { LAYERS = 2, HEADS = 4, MOST = 32 };

static char model[512];
static const char *const text = "animal-street-animal";

/* Arrays of a file that the program made; row-major floats, free() them. */
static float *read_array(const char *file, const char *name, int64_t *count)
{
    fv_ctx *ctx = values_begin();
    fv_npy *npz = NULL;
    float *data = NULL;
    CHECK_OK(ctx, fv_npy_open(ctx, program_path(file), &npz));
    if (npz) {
        fv_tensor *t = fv_npy_load(ctx, npz, name);
        *count = fv_tensor_count(t);
        if (fv_tensor_dtype(t) == FV_I64) t = fv_cast(ctx, t, FV_F32);
        data = tensor_floats(ctx, t);
    }
    fv_npy_close(&npz);
    values_end(&ctx);
    return data;
}

/* The maps of every layer [HEADS][n][n]; returns n. */
static int64_t read_maps(float *maps[LAYERS])
{
    int64_t count = 0;
    program_run("look %s %s -o %s -t 1", model, text, program_path("maps.npz"));
    expect(0, NULL, NULL);
    for (int l = 0; l < LAYERS; l++) {
        char name[32];
        snprintf(name, sizeof name, "encoder.%d.self", l);
        maps[l] = read_array("maps.npz", name, &count);
    }
    const int64_t n = (int64_t)lround(sqrt((double)count / HEADS));
    CHECK(n >= 5 && n <= MOST && maps[0] && maps[1]);
    return n;
}

static double largest_gap(const float *a, const double *b, int64_t n)
{
    double gap = 0;
    for (int64_t i = 0; i < n; i++)
        gap = test_worse(gap, fabs((double)a[i] - b[i]));
    return gap;
}

/* ---- rollout -------------------------------------------------------------------------------- */

typedef enum mistake { NO_MISTAKE, ORDER, NO_RESIDUAL, ONE_HEAD } mistake;

static double step_of(const float *map, int64_t n, int64_t i, int64_t j, mistake wrong)
{
    double mean = 0;
    const int heads = wrong == ONE_HEAD ? 1 : HEADS;
    for (int h = 0; h < heads; h++)
        mean += (double)map[(h * n + i) * n + j] / heads;
    return wrong == NO_RESIDUAL ? mean : 0.5 * (mean + (i == j ? 1 : 0));
}

/* R_ij = sum_k B_ik A_kj of two layers, A the lower one: written out, element by element. */
static void plain_rollout(float *const maps[LAYERS], int64_t n, mistake wrong, double *out)
{
    const float *upper = maps[wrong == ORDER ? 0 : 1], *lower = maps[wrong == ORDER ? 1 : 0];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            out[i * n + j] = 0;
            for (int64_t k = 0; k < n; k++)
                out[i * n + j] += step_of(upper, n, i, k, wrong) * step_of(lower, n, k, j, wrong);
        }
}

static void rollout_is_the_product_of_the_layers(void)
{
    float *maps[LAYERS] = {0};
    double plain[MOST * MOST];
    int64_t count = 0;
    const int64_t n = read_maps(maps);
    program_run("look %s %s --rollout -o %s -t 1", model, text, program_path("rollout.npz"));
    expect(0, NULL, NULL);
    float *rolled = read_array("rollout.npz", "rollout", &count);
    CHECK_EQ(count, n * n);
    plain_rollout(maps, n, NO_MISTAKE, plain);
    CHECK(largest_gap(rolled, plain, n * n) <= 1e-6);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += (double)rolled[i * n + j];
        CHECK(fabs(sum - 1) <= 1e-5);
    }
    static const mistake wrong[] = {ORDER, NO_RESIDUAL, ONE_HEAD};
    for (int i = 0; i < 3; i++) { /* the comparison can tell */
        plain_rollout(maps, n, wrong[i], plain);
        CHECK(largest_gap(rolled, plain, n * n) > 1e-4);
    }
    free(rolled);
    free(maps[0]);
    free(maps[1]);
}

/* ---- entropy, the strongest, words ------------------------------------------------------------
 */

static void entropies_are_those_of_the_maps(void)
{
    float *maps[LAYERS] = {0};
    int64_t count = 0;
    const int64_t n = read_maps(maps);
    program_run("look %s %s --entropy -o %s -t 1", model, text, program_path("entropy.npz"));
    expect(0, NULL, NULL);
    float *entropy = read_array("entropy.npz", "entropy", &count);
    CHECK_EQ(count, LAYERS * HEADS);
    for (int64_t h = 0; h < count; h++) {
        double sum = 0;
        for (int64_t i = 0; i < n * n; i++) {
            const double p = maps[h / HEADS][h % HEADS * n * n + i];
            sum -= p > 0 ? p * log(p) : 0;
        }
        CHECK(fabs(sum / (double)n - (double)entropy[h]) <= 1e-5);
    }
    free(entropy);
    free(maps[0]);
    free(maps[1]);
}

static void the_strongest_are_those_of_the_maps(void)
{
    float *maps[LAYERS] = {0};
    int64_t count = 0;
    const int64_t n = read_maps(maps);
    program_run("look %s %s --top 2 --layer 0 -o %s -t 1", model, text, program_path("top.npz"));
    expect(0, NULL, NULL);
    float *weights = read_array("top.npz", "weights", &count),
          *keys = read_array("top.npz", "keys", &count);
    CHECK_EQ(count, HEADS * n * 2);
    for (int64_t r = 0; r < HEADS * n; r++) {
        const float *row = maps[0] + r * n;
        const int64_t first = (int64_t)keys[2 * r], second = (int64_t)keys[2 * r + 1];
        CHECK(row[first] == weights[2 * r] && row[second] == weights[2 * r + 1]);
        for (int64_t j = 0; j < n; j++)
            CHECK(row[j] <= row[second] || j == first);
    }
    free(weights);
    free(keys);
    free(maps[0]);
    free(maps[1]);
}

/* "street" is token 3 of [CLS] animal - street - animal [SEP], "animal" 1 and 5: the best of both
 * counts, and of all heads the first line has the best. */
static void words_are_found_in_the_maps(void)
{
    float *maps[LAYERS] = {0};
    const int64_t n = read_maps(maps);
    CHECK_EQ(n, 7);
    double best = 0;
    int site = 0, head = 0;
    for (int h = 0; h < LAYERS * HEADS; h++) {
        const float *row = maps[h / HEADS] + (h % HEADS * n + 3) * n;
        const double weight = fmax((double)row[1], (double)row[5]);
        if (weight <= best) continue;
        best = weight;
        site = h / HEADS;
        head = h % HEADS;
    }
    char line[128];
    int64_t before = 0;
    const float *row = maps[site] + (head * n + 3) * n;
    for (int64_t j = 0; j < n; j++)
        before += (double)row[j] > best;
    snprintf(line, sizeof line, "head\n%-7.3f %-6lld encoder.%d.self     %d\n", best,
             (long long)before + 1, site, head);
    program_run("look %s %s --from street --to animal --pieces -t 1", model, text);
    expect(0, line, NULL);
    program_run("look %s %s --from street --to animal --layer %d --head %d --pieces -t 1", model,
                text, site, head);
    expect(0, strstr(line, "\n"), NULL);
    /* a word of several tokens is looked at by the sum of its parts: here all but the marks */
    program_run("look %s %s --from street --to %s --top 1 -t 1", model, text, text);
    expect(0, "street looks at animal-street-animal, in each head of 8", NULL);
    double whole = 0;
    for (int h = 0; h < LAYERS * HEADS; h++) {
        const float *r = maps[h / HEADS] + (h % HEADS * n + 3) * n;
        whole = fmax(whole, 1 - (double)r[0] - (double)r[6]);
    }
    snprintf(line, sizeof line, "head\n%.3f ", whole);
    expect(0, line, NULL);
    program_run("look %s %s --from street --layer 1 --head 2 --top 1 --pieces -t 1", model, text);
    row = maps[1] + (2 * n + 3) * n;
    best = 0;
    for (int64_t j = 0; j < n; j++)
        best = fmax(best, (double)row[j]);
    snprintf(line, sizeof line, "encoder.1.self, head 2\t%.3f ", best);
    expect(0, line, NULL);
    free(maps[0]);
    free(maps[1]);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void parts_are_cut_out_of_the_maps(void)
{
    float *maps[LAYERS] = {0};
    int64_t count = 0;
    const int64_t n = read_maps(maps);
    program_run("look %s %s --layer 1 --head 3 --rows 2:5 --cols 1:3 -o %s -t 1", model, text,
                program_path("part.npz"));
    expect(0, NULL, NULL);
    float *part = read_array("part.npz", "encoder.1.self", &count);
    CHECK_EQ(count, 6);
    for (int64_t i = 0; i < count; i++)
        CHECK(part[i] == maps[1][(3 * n + 2 + i / 2) * n + 1 + i % 2]);
    free(part);
    free(maps[0]);
    free(maps[1]);
}

/* ---- long texts -------------------------------------------------------------------------------
 */

static int64_t bytes_of(const char *name)
{
    struct stat about = {0};
    CHECK_EQ(stat(program_path(name), &about), 0);
    return (int64_t)about.st_size;
}

/* T5 has no last position. 1,100 tokens have 1.2 million weights in each of 8 heads. */
static void long_texts_have_small_pictures(void)
{
    enum { LONG = 1100 };
    fv_ctx *ctx = values_begin();
    int64_t ids[LONG];
    for (int i = 0; i < LONG; i++)
        ids[i] = 1 + i % 31;
    fv_tensor *x = fv_from_host(ctx, FV_I64, 2, (int64_t[]){1, LONG}, ids);
    CHECK_OK(ctx, fv_npy_save(ctx, x, program_path("long.npy")));
    CHECK_OK(ctx, fv_npy_save(ctx, fv_slice(ctx, x, 1, 0, 2, 1), program_path("short.npy")));
    values_end(&ctx);
    char options[1024];
    snprintf(options, sizeof options, "%s --ids %s --decoder-ids %s --at encoder",
             test_path("fixtures/t5"), program_path("long.npy"), program_path("short.npy"));
    program_run("look %s -o %s", options, program_path("heads.html"));
    expect(0, NULL, NULL);
    CHECK(bytes_of("heads.html") < (int64_t)4 << 20);
    program_run("look %s --layer 0 --head 1 -o %s", options, program_path("map.html"));
    expect(0, NULL, NULL);
    const int64_t small = bytes_of("map.html");
    CHECK(small < (int64_t)3 << 20);
    program_run("look %s --layer 0 --head 1 --full -o %s", options, program_path("map.html"));
    expect(0, NULL, NULL);
    CHECK(bytes_of("map.html") > 2 * small);
    program_run("look %s --layer 0 --head 1", options);
    expect(0, "head 1, maxima of 2 x 2", NULL);
    program_run("look %s --layer 0 --head 1 --rows 1000:1004 --cols 8:12", options);
    expect(0, "1003", NULL);
    program_run("look %s --links -o %s", options, program_path("links.svg"));
    expect(2, NULL, "--rows and --cols");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    snprintf(model, sizeof model, "%s", reading_model());
    RUN(rollout_is_the_product_of_the_layers);
    RUN(entropies_are_those_of_the_maps);
    RUN(the_strongest_are_those_of_the_maps);
    RUN(words_are_found_in_the_maps);
    RUN(parts_are_cut_out_of_the_maps);
    RUN(long_texts_have_small_pictures);
    program_end();
    return TEST_END();
}
