/* Sets of vectors, each with a grid of pixels; two outputs are predicted at once. */
#include <stdlib.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/own_kinds.h"

enum { ROWS = 3, AXES = 2, SIDE = 2, CLASSES = 4, MOST = 3 };

typedef struct sets {
    fv_tensor *points, *pixels, *classes, *size;
} sets;

static const fv_key keys[] = {
    {"toy_sets.width", FV_KEY_INT, "5", 1, 64, NULL, "numbers in a set's summary"},
    {"toy_sets.scale", FV_KEY_REAL, "0.5", 0, 10, NULL, "of the pixels"},
    {"toy_sets.bias", FV_KEY_BOOL, "false", 0, 0, NULL, "refused: to see a setting that is"},
};

static fv_key_table key_table(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    const int64_t width = fv_recipe_int(recipe, "toy_sets.width");
    if (fv_recipe_bool(recipe, "toy_sets.bias"))
        return fv_ctx_fail(ctx, FV_ERR_ARGUMENT, "toy_sets.bias: a set has none");
    sets *m = calloc(1, sizeof *m);
    if (!m) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "no memory for a model");
    const int64_t p[] = {width, AXES}, x[] = {width, SIDE * SIDE}, size[] = {1, width},
                  classes[] = {spec->label_count, width};
    const double scale = fv_recipe_real(recipe, "toy_sets.scale");
    m->points = fv_params_add(params, "points", fv_rand_normal(ctx, FV_F32, 2, p, 0, 1));
    m->pixels = fv_params_add(params, "pixels", fv_rand_normal(ctx, FV_F32, 2, x, 0, scale));
    /* Zeros: the first losses are known. */
    m->classes = fv_params_add(params, "classes", fv_zeros(ctx, FV_F32, 2, classes));
    m->size = fv_params_add(params, "size", fv_zeros(ctx, FV_F32, 2, size));
    *self = m;
    return FV_OK;
}

/* The sum over a set's points, whose padding is zero, and its picture: [rows, width]. */
static fv_tensor *summary(fv_ctx *ctx, sets *m, const fv_batch *batch)
{
    fv_tensor *points = fv_batch_tensor(ctx, batch, "points", NULL);
    fv_tensor *pixels = fv_batch_tensor(ctx, batch, "pixels", NULL);
    pixels = fv_reshape(ctx, pixels, 2, (int64_t[]){batch->rows, -1});
    fv_tensor *sum = fv_sum(ctx, fv_linear(ctx, points, m->points, NULL), 1, (int[]){1}, false);
    return fv_tanh(ctx, fv_add(ctx, sum, fv_linear(ctx, pixels, m->pixels, NULL)));
}

static fv_tensor *classify(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    (void)pass;
    sets *m = self;
    return fv_linear(ctx, summary(ctx, m, inputs), m->classes, NULL);
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    (void)pass;
    sets *m = self;
    fv_tensor *x = summary(ctx, m, batch), *total = fv_scalar(ctx, FV_F32, 0);
    const fv_field *label = fv_batch_find(batch, "label"), *size = fv_batch_find(batch, "size");
    if (label) {
        fv_tensor *target = fv_batch_tensor(ctx, batch, "label", NULL);
        fv_tensor *logits = fv_linear(ctx, x, m->classes, NULL);
        fv_tensor *sum = fv_cross_entropy(ctx, logits, target, -1, 0, FV_REDUCTION_SUM);
        total = fv_add(ctx, total, fv_scale(ctx, sum, label->weight));
    }
    if (size) {
        fv_tensor *off = fv_sub(ctx, fv_squeeze(ctx, fv_linear(ctx, x, m->size, NULL), -1),
                                fv_batch_tensor(ctx, batch, "size", NULL));
        total =
            fv_add(ctx, total,
                   fv_scale(ctx, fv_sum(ctx, fv_square(ctx, off), 0, NULL, false), size->weight));
    }
    return total;
}

static const fv_model_kind kind = {.struct_size = sizeof kind,
                                   .name = "toy-sets",
                                   .abilities = 1u << FV_CAN_CLASSIFY,
                                   .keys = key_table,
                                   .create = create,
                                   .destroy = free,
                                   .loss = loss,
                                   .classify = classify};

static const float points[ROWS][MOST][AXES] = {
    {{1, 2}}, {{3, 4}, {5, 6}, {7, 8}}, {{-1, 0.5f}, {0.25f, -2}}};
static const int64_t lengths[ROWS] = {1, 3, 2}, labels[ROWS] = {3, 0, 2};
static const float pixels[ROWS][1][SIDE][SIDE] = {
    {{{0, 1}, {1, 0}}}, {{{1, 1}, {0, 0}}}, {{{0, 0}, {0, 1}}}};
static const float sizes[ROWS] = {1, 2, -3};

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    static const char *const names[CLASSES] = {"north", "east", "south", "west \"and\" more"};
    (void)cfg;
    spec->ability = FV_CAN_CLASSIFY;
    spec->labels = names;
    spec->label_count = CLASSES;
    *self = calloc(4 * ROWS, sizeof(void *)); /* the fields' rows */
    return *self && fv_data_spec_set(spec, "axes", AXES) ? FV_OK : FV_ERR_MEMORY;
}

static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    (void)step;
    (void)model;
    (void)phase;
    (void)part;
    const void **row = self;
    own_called();
    for (int i = 0; i < ROWS; i++) {
        row[i] = points[i];
        row[ROWS + i] = pixels[i];
        row[2 * ROWS + i] = &labels[i];
        row[3 * ROWS + i] = &sizes[i];
    }
    const fv_field fields[] = {
        {"points", FV_F32, 1, {AXES}, row, lengths, 0},
        {"pixels", FV_F32, 3, {1, SIDE, SIDE}, row + ROWS, NULL, 0},
        {"label", FV_I64, 0, {0}, row + 2 * ROWS, NULL, 2.0},
        {"size", FV_F32, 0, {0}, row + 3 * ROWS, NULL, 0.5},
    };
    fv_batch_init(out, ROWS);
    for (int i = 0; i < 4; i++)
        fv_batch_add(out, fields[i]);
    return FV_OK;
}

static const fv_task_kind task = {.struct_size = sizeof task,
                                  .name = "toy-directions",
                                  .model = "toy-sets",
                                  .open = open_task,
                                  .close = free,
                                  .batch = batch};

const own_pair own_sets = {.kind = &kind, .task = &task, .steps = "30"};
