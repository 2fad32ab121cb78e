/* What the tasks over media sets share. */
#include "train/tasks/media.h"

#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"

enum { DEFAULT_BATCH = 64, LEVEL_EXAMPLES = 200 };

static const fv_key keys[] = {
    {"data.media", FV_KEY_CHOICE, "shapes", 0, 0, "shapes",
     "media-classes: set of pictures or recordings"},
    {"data.folder", FV_KEY_PATH, "", 0, 0, NULL, "folder of a media set's files"},
    {"data.list", FV_KEY_PATH, "", 0, 0, NULL,
     "media set pictures: TSV of files and their classes or texts"},
    {"data.variant", FV_KEY_TEXT, "", 0, 0, NULL, "form of a media set; default: its first"},
    {"data.size", FV_KEY_INT, "0", 0, 1024, NULL,
     "side of a media set's pictures; 0: the set's own"},
    {"data.train_count", FV_KEY_INT, "0", 0, 1e9, NULL,
     "examples of a media set for training; 0: all, or the set's default"},
    {"data.valid_count", FV_KEY_INT, "0", 0, 1e9, NULL, "examples for validation"},
    {"data.test_count", FV_KEY_INT, "0", 0, 1e9, NULL, "examples for the final test"},
    {"data.shift", FV_KEY_INT, "0", 0, 256, NULL,
     "training pictures are moved by up to so many pixels"},
    {"data.flip", FV_KEY_BOOL, "false", 0, 0, NULL, "training pictures are mirrored at random"},
    {"data.brightness", FV_KEY_REAL, "0", 0, 0.99, NULL,
     "b: training pictures are multiplied by 1 - b to 1 + b"},
    {"data.contrast", FV_KEY_REAL, "0", 0, 0.99, NULL,
     "c: their distance to the mean is multiplied by 1 - c to 1 + c"},
    {"data.colour", FV_KEY_REAL, "0", 0, 0.99, NULL,
     "j: each of their channels is multiplied by its own 1 - j to 1 + j"},
    {"data.crop", FV_KEY_INT, "0", 0, 1024, NULL,
     "of training pictures a random square of so many pixels is kept and enlarged; 0: all"},
    {"eval.part", FV_KEY_CHOICE, "valid", 0, 0, "valid|test",
     "part of a media set that metrics are computed on"},
};

fv_key_table fv_media_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- rows ----------------------------------------------------------------------------------- */

static int64_t entry_size(const fv_media_facts *facts)
{
    int64_t size = 1;
    for (int i = 0; i < facts->rank; i++)
        size *= facts->shape[i];
    return size;
}

static bool grow_lists(fv_media_rows *r, size_t need)
{
    fv_mem *mem = &r->ctx->mem;
    const void **row = fv_mem_grow(mem, r->row, &r->row_room, need, sizeof *row);
    if (row) r->row = row;
    const void **labels = fv_mem_grow(mem, r->label_row, &r->label_row_room, need, sizeof *labels);
    if (labels) r->label_row = labels;
    int64_t *length = fv_mem_grow(mem, r->length, &r->length_room, need, sizeof *length);
    if (length) r->length = length;
    int64_t *label = fv_mem_grow(mem, r->label, &r->label_room, need, sizeof *label);
    if (label) r->label = label;
    int64_t *number = fv_mem_grow(mem, r->number, &r->number_room, need, sizeof *number);
    if (number) r->number = number;
    return row && labels && length && label && number;
}

fv_status fv_media_rows_add(fv_media_rows *r, const fv_media_example *e, int64_t number)
{
    size_t size = 0, need = 0;
    const bool fits = e->length > 0 &&
                      fv_checked_mul_size((size_t)e->length, (size_t)entry_size(r->facts), &size) &&
                      !__builtin_add_overflow(r->used, size, &need);
    FV_RETURN_IF(!fits, r->ctx, FV_ERR_LIMIT, "an example of %lld entries", (long long)e->length);
    float *grown = fv_mem_grow(&r->ctx->mem, r->values, &r->value_room, need, sizeof *grown);
    if (grown) r->values = grown;
    FV_RETURN_IF(!grown || !grow_lists(r, (size_t)r->count + 1), r->ctx, FV_ERR_MEMORY,
                 "no memory for a batch");
    memcpy(r->values + r->used, e->values, size * sizeof *r->values);
    r->used = need;
    r->length[r->count] = e->length;
    r->label[r->count] = e->label;
    r->number[r->count++] = number;
    return FV_OK;
}

void fv_media_rows_point(fv_media_rows *r)
{
    const float *at = r->values;
    for (int64_t i = 0; i < r->count; i++) {
        r->row[i] = at;
        r->label_row[i] = &r->label[i];
        at += r->length[i] * entry_size(r->facts);
    }
}

fv_batch fv_media_rows_batch(const fv_media_rows *r, int64_t first, int64_t count)
{
    const fv_media_facts *facts = r->facts;
    fv_batch batch;
    fv_field field = {.name = facts->field,
                      .dtype = FV_F32,
                      .rank = facts->rank,
                      .row = r->row + first,
                      .length = facts->longest > 1 ? r->length + first : NULL};
    for (int i = 0; i < facts->rank; i++)
        field.shape[i] = facts->shape[i];
    fv_batch_init(&batch, count);
    fv_batch_add(&batch, field);
    if (facts->label_count > 0)
        fv_batch_add(&batch,
                     (fv_field){.name = "label", .dtype = FV_I64, .row = r->label_row + first});
    return batch;
}

void fv_media_rows_clear(fv_media_rows *r) { r->count = 0, r->used = 0; }

static void free_rows(fv_media_rows *r)
{
    if (!r->ctx) return;
    fv_mem *mem = &r->ctx->mem;
    if (r->values) fv_mem_free(mem, r->values, r->value_room * sizeof *r->values);
    if (r->row) fv_mem_free(mem, r->row, r->row_room * sizeof *r->row);
    if (r->label_row) fv_mem_free(mem, r->label_row, r->label_row_room * sizeof *r->label_row);
    if (r->length) fv_mem_free(mem, r->length, r->length_room * sizeof *r->length);
    if (r->label) fv_mem_free(mem, r->label, r->label_room * sizeof *r->label);
    if (r->number) fv_mem_free(mem, r->number, r->number_room * sizeof *r->number);
}

/* ---- opening -------------------------------------------------------------------------------- */

static fv_media_config config_of(const fv_recipe *recipe)
{
    const int64_t crop = fv_recipe_int(recipe, "data.crop");
    return (fv_media_config){.name = fv_recipe_text(recipe, "data.media"),
                             .folder = fv_recipe_text(recipe, "data.folder"),
                             .list = fv_recipe_text(recipe, "data.list"),
                             .seed = (uint64_t)fv_recipe_int(recipe, "train.seed"),
                             .count = {fv_recipe_int(recipe, "data.train_count"),
                                       fv_recipe_int(recipe, "data.valid_count"),
                                       fv_recipe_int(recipe, "data.test_count")},
                             .size = fv_recipe_int(recipe, "data.size"),
                             .variant = fv_recipe_text(recipe, "data.variant"),
                             .augment = {.shift = fv_recipe_int(recipe, "data.shift"),
                                         .flip = fv_recipe_bool(recipe, "data.flip"),
                                         .brightness = fv_recipe_real(recipe, "data.brightness"),
                                         .contrast = fv_recipe_real(recipe, "data.contrast"),
                                         .colour = fv_recipe_real(recipe, "data.colour"),
                                         .crop = {crop, crop}}};
}

/* The order of training: all examples count the same. */
static fv_status make_order(fv_media_task *t)
{
    const int64_t count = t->facts->count[FV_MEDIA_TRAIN];
    const size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *ones = fv_mem_alloc(&t->ctx->mem, bytes);
    FV_RETURN_IF(!ones, t->ctx, FV_ERR_MEMORY, "no memory for %lld examples", (long long)count);
    for (int64_t i = 0; i < count; i++)
        ones[i] = 1;
    fv_batches_config cfg;
    fv_batches_config_init(&cfg, sizeof cfg);
    cfg.tokens = cfg.examples = t->batch;
    cfg.seed = t->seed;
    const fv_status status = fv_batches_create(t->ctx, count, ones, &cfg, &t->order);
    fv_mem_free(&t->ctx->mem, ones, bytes);
    return status;
}

/* The mean of the first training examples, in thousandths. */
static fv_status find_level(fv_media_task *t, int64_t *out)
{
    const int64_t all = t->facts->count[FV_MEDIA_TRAIN],
                  n = all < LEVEL_EXAMPLES ? all : LEVEL_EXAMPLES;
    double sum = 0, count = 0;
    for (int64_t i = 0; i < n; i++) {
        fv_media_example e;
        FV_TRY(fv_media_get(t->set, FV_MEDIA_TRAIN, i, NULL, &e));
        const int64_t size = e.length * entry_size(t->facts);
        for (int64_t k = 0; k < size; k++)
            sum += (double)e.values[k];
        count += (double)size;
    }
    *out = (int64_t)(1000 * sum / count);
    return FV_OK;
}

static fv_status describe(fv_media_task *t, fv_data_spec *spec)
{
    const fv_media_facts *facts = t->facts;
    static const char *const pictures[] = {"channels", "height", "width"};
    bool fits = true;
    int64_t level = 0;
    for (int i = 0; facts->rank == 3 && i < 3; i++)
        fits = fv_data_spec_set(spec, pictures[i], facts->shape[i]) && fits;
    if (facts->rank == 1)
        fits = fv_data_spec_set(spec, "frame", facts->shape[0]) &&
               fv_data_spec_set(spec, "frames", facts->longest);
    FV_TRY(find_level(t, &level));
    fits = fv_data_spec_set(spec, "level", level) && fits;
    FV_RETURN_IF(!fits, t->ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    spec->labels = facts->labels;
    spec->label_count = facts->label_count;
    return FV_OK;
}

fv_status fv_media_task_open(fv_media_task *t, const fv_task_config *cfg, fv_data_spec *spec)
{
    const fv_recipe *recipe = cfg->recipe;
    const int64_t asked = fv_recipe_int(recipe, "train.batch_examples");
    *t = (fv_media_task){.ctx = cfg->ctx,
                         .recipe = recipe,
                         .seed = (uint64_t)fv_recipe_int(recipe, "train.seed"),
                         .batch = asked > 0 ? asked : DEFAULT_BATCH};
    const fv_media_config media = config_of(recipe);
    FV_TRY(fv_media_open(cfg->ctx, &media, &t->set));
    t->facts = fv_media_facts_of(t->set);
    t->rows.ctx = cfg->ctx;
    t->rows.facts = t->facts;
    FV_TRY(make_order(t));
    FV_TRY(fv_step_parts_create(cfg->ctx, recipe, &t->parts));
    return describe(t, spec);
}

void fv_media_task_free(fv_media_task *t)
{
    fv_batches_destroy(&t->order);
    fv_step_parts_free(t->ctx, &t->parts);
    free_rows(&t->rows);
    fv_media_close(&t->set);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static fv_status add_drawn(fv_media_task *t, const fv_picked *picked, uint64_t step)
{
    for (int64_t i = 0; i < picked->count; i++) {
        fv_media_example e;
        const fv_media_draw draw = {.seed = t->seed, .step = step, .row = (uint64_t)t->rows.count};
        FV_TRY(fv_media_get(t->set, FV_MEDIA_TRAIN, picked->example[i], &draw, &e));
        FV_TRY(fv_media_rows_add(&t->rows, &e, picked->example[i]));
    }
    return FV_OK;
}

fv_status fv_media_task_begin(void *self, fv_model *model, uint64_t step, int phase,
                              fv_step_plan *plan)
{
    fv_media_task *t = self;
    (void)model;
    (void)phase;
    fv_media_rows_clear(&t->rows);
    for (int64_t part = 0; part < t->parts.count; part++) {
        fv_picked picked;
        FV_TRY(fv_batches_next(t->order, &picked));
        FV_TRY(add_drawn(t, &picked, step));
        t->parts.first[part + 1] = t->rows.count;
        plan->epoch = (double)picked.epoch + (double)(picked.index + 1) / (double)picked.batches;
    }
    fv_media_rows_point(&t->rows);
    plan->parts = t->parts.count;
    plan->first_row = t->parts.first;
    plan->tokens = (double)t->rows.count;
    return FV_OK;
}

fv_status fv_media_task_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                              fv_batch *out)
{
    const fv_media_task *t = self;
    const int64_t *first = t->parts.first + part;
    (void)model;
    (void)step;
    (void)phase;
    *out = fv_media_rows_batch(&t->rows, first[0], first[1] - first[0]);
    return FV_OK;
}

const char *fv_media_task_report(void *self)
{
    fv_media_task *t = self;
    const int64_t *count = t->facts->count;
    snprintf(t->report, sizeof t->report,
             "%lld examples for training, %lld for validation, %lld for the test",
             (long long)count[FV_MEDIA_TRAIN], (long long)count[FV_MEDIA_VALID],
             (long long)count[FV_MEDIA_TEST]);
    return t->report;
}

void fv_media_task_get_position(void *self, int64_t position[FV_TASK_POSITION])
{
    const fv_media_task *t = self;
    fv_batches_place(t->order, &position[0], &position[1]);
}

fv_status fv_media_task_set_position(void *self, const int64_t position[FV_TASK_POSITION])
{
    const fv_media_task *t = self;
    return fv_batches_seek(t->order, position[0], position[1]);
}

/* ---- held-out parts ------------------------------------------------------------------------- */

fv_media_part fv_media_task_held_out(const fv_media_task *t, int64_t *count)
{
    const fv_media_part part = strcmp(fv_recipe_text(t->recipe, "eval.part"), "test") == 0
                                   ? FV_MEDIA_TEST
                                   : FV_MEDIA_VALID;
    const int64_t most = fv_recipe_int(t->recipe, "eval.max_texts"), all = t->facts->count[part];
    *count = most > 0 && most < all ? most : all;
    return part;
}

fv_status fv_media_task_read(fv_media_task *t, fv_media_part part, int64_t first, int64_t count)
{
    fv_media_rows_clear(&t->rows);
    for (int64_t i = first; i < first + count; i++) {
        fv_media_example e;
        FV_TRY(fv_media_get(t->set, part, i, NULL, &e));
        FV_TRY(fv_media_rows_add(&t->rows, &e, i));
    }
    fv_media_rows_point(&t->rows);
    return FV_OK;
}
