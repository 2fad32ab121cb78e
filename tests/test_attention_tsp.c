/*
 * Real trained weights: the attention models for 20, 50 and 100 cities (Kool, van Hoof, Welling
 * 2019) as model folders. Tours against recorded ones of 100 instances each, and mean lengths of
 * fresh instances. Needs $FOVEA_DATA with weights/attention-tsp, and xz; else skipped.
 */
#include <sys/stat.h>

#include "fovea/points.h"
#include "support/files.h"
#include "support/test.h"

enum { SKIPPED = 77, MOST = 100, INSTANCES = 100 };

/* docs/models/pointer.md has the same text. */
static const char config[] =
    "{\"model_type\": \"attention-tsp\", \"ability\": \"point\", "
    "\"settings\": {},\n \"data\": {\"problem\": 3, \"point\": 2}, \"labels\": []}\n";

static char data_folder[400];

typedef struct reference {
    int64_t n;
    double length;
    int64_t tour[MOST];
    float points[2 * MOST];
} reference;

/* Instances of n cities from the recorded list. */
static int read_references(int64_t n, reference *out)
{
    size_t bytes = 0;
    char *text = file_read(folder_path("reference.tsv"), &bytes), *rest = NULL;
    int count = 0;
    if (!text || bytes == 0) return 0;
    text[bytes - 1] = '\0';
    strtok_r(text, "\n", &rest);
    for (char *line; (line = strtok_r(NULL, "\n", &rest)) && count < INSTANCES;) {
        char *fields = NULL, *at;
        strtok_r(line, "\t", &fields);
        if (atoll(strtok_r(NULL, "\t", &fields)) != n) continue;
        reference *r = &out[count++];
        r->n = n;
        r->length = atof(strtok_r(NULL, "\t", &fields));
        at = strtok_r(NULL, "\t", &fields);
        for (int64_t i = 0; i < n; i++)
            r->tour[i] = strtoll(at, &at, 10);
        at = strtok_r(NULL, "\t", &fields);
        for (int64_t i = 0; i < 2 * n; i++)
            r->points[i] = strtof(at, &at);
    }
    free(text);
    return count;
}

static fv_batch batch_of(int64_t rows, const void **row, const int64_t *length)
{
    fv_batch batch;
    fv_batch_init(&batch, rows);
    fv_batch_add(&batch, (fv_field){.name = "points",
                                    .dtype = FV_F32,
                                    .rank = 1,
                                    .shape = {2},
                                    .row = row,
                                    .length = length});
    return batch;
}

/* A tour of the recorded length; the recorded tour itself in all but a near-tie or two. */
static void check_tours(fv_model *model, int count, const reference *list)
{
    const void *row[INSTANCES];
    int64_t length[INSTANCES];
    fv_search_config how;
    fv_outputs *outputs = NULL;
    int same = 0;
    for (int i = 0; i < count; i++) {
        row[i] = list[i].points;
        length[i] = list[i].n;
    }
    const fv_batch batch = batch_of(count, row, length);
    fv_search_config_init(&how, sizeof how);
    CHECK_OK(fv_model_ctx(model), fv_point(model, &batch, &how, &outputs));
    for (int i = 0; outputs && i < count; i++) {
        const fv_output *o = fv_outputs_get(outputs, i, 0);
        CHECK_EQ(o->count, list[i].n);
        same += memcmp(o->tokens, list[i].tour, (size_t)o->count * sizeof *o->tokens) == 0;
        CHECK_NEAR(fv_tour_length(o->count, list[i].points, o->tokens), list[i].length, 5e-3);
    }
    printf("%lld cities: %d of %d tours as recorded\n", (long long)list[0].n, same, count);
    CHECK(same >= count - 2);
    fv_outputs_free(&outputs);
}

static double mean_length(fv_model *model, int64_t n, int instances)
{
    fv_ctx *ctx = fv_model_ctx(model);
    /* uniform points; hulls are found sooner than tours */
    const fv_points_source from = {.problem = FV_PROBLEM_HULL, .min = n, .max = n, .seed = 1};
    fv_instance *set[64] = {NULL};
    const void *row[64];
    int64_t length[64];
    double sum = 0;
    fv_search_config how;
    fv_search_config_init(&how, sizeof how);
    how.no_scores = true;
    for (int first = 0; first < instances; first += 64) {
        fv_outputs *outputs = NULL;
        for (int i = 0; i < 64; i++) {
            CHECK_OK(ctx,
                     fv_instance_draw(ctx, &from, FV_POINTS_TEST, (uint64_t)(first + i), &set[i]));
            row[i] = set[i]->values;
            length[i] = n;
        }
        const fv_batch batch = batch_of(64, row, length);
        CHECK_OK(ctx, fv_point(model, &batch, &how, &outputs));
        for (int i = 0; i < 64; i++) {
            const fv_output *o = outputs ? fv_outputs_get(outputs, i, 0) : NULL;
            if (o) sum += fv_tour_length(n, set[i]->values, o->tokens);
            fv_instance_free(&set[i]);
        }
        fv_outputs_free(&outputs);
    }
    return sum / instances;
}

static void check_model(int64_t n, double mean, int instances)
{
    static reference list[INSTANCES];
    char command[1024];
    fv_ctx *ctx = NULL;
    fv_model *model = NULL;
    snprintf(command, sizeof command,
             "xz -dc '%s/weights/attention-tsp/tsp_%lld.safetensors.xz' > '%s'", data_folder,
             (long long)n, folder_path("model.safetensors"));
    CHECK_EQ(system(command), 0);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return;
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("."), &model));
    const int count = read_references(n, list);
    CHECK_EQ(count, INSTANCES);
    if (model && count == INSTANCES) {
        CHECK_EQ(fv_model_problem(model), FV_PROBLEM_TSP);
        check_tours(model, count, list);
        const double length = mean_length(model, n, instances);
        printf("%lld cities: mean length %.4f\n", (long long)n, length);
        /* three standard errors: lengths of instances vary by about 0.3 */
        CHECK_NEAR(length, mean, 3 * 0.3 / sqrt(instances) + 0.005);
    }
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

static void tours_of_20_cities(void) { check_model(20, 3.844, 640); }
static void tours_of_50_cities(void) { check_model(50, 5.796, 192); }
static void tours_of_100_cities(void) { check_model(100, 8.121, 64); }

TEST_MAIN(argc, argv)
{
    const char *data = getenv("FOVEA_DATA");
    char command[1024];
    struct stat st;
    snprintf(data_folder, sizeof data_folder, "%s/weights/attention-tsp", data ? data : "");
    if (!data || stat(data_folder, &st) != 0) {
        printf("skipped: FOVEA_DATA has no weights/attention-tsp\n");
        return SKIPPED;
    }
    snprintf(data_folder, sizeof data_folder, "%s", data);
    folder_make();
    snprintf(command, sizeof command,
             "xz -dc '%s/weights/attention-tsp/greedy-reference.tsv.xz' > '%s'", data_folder,
             folder_path("reference.tsv"));
    if (system(command) != 0) {
        printf("skipped: xz could not unpack the data\n");
        folder_remove();
        return SKIPPED;
    }
    file_write(folder_path("config.json"), config, sizeof config - 1);
    TEST_BEGIN(argc, argv);
    RUN(tours_of_20_cities);
    RUN(tours_of_50_cities);
    RUN(tours_of_100_cities);
    folder_remove();
    return TEST_END();
}
