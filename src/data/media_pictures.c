/*
 * Pictures from files: a TSV list "file<TAB>class or text", the files relative to the list's folder
 * or to the folder that is given. All are resized to one square; the variant "classes" has the
 * second column as a class, "texts" as a text to predict. Which part a line belongs to depends on
 * its file name alone (fv_media_part_of_name).
 */
#include "data/media_list.h"
#include "fovea/tensor.h"

enum { SIDE = 64, MAX_SIDE = 1024, CHANNELS = 3 };
enum { CLASSES }; /* of the variants */

typedef struct picture_set {
    fv_ctx *ctx;
    fv_media_list list;
    fv_augment augment;
    int64_t shape[3];
    float *values;
    size_t value_bytes;
} picture_set;

static void close_set(void *self)
{
    picture_set *p = self;
    fv_mem *mem = &p->ctx->mem;
    if (p->values) fv_mem_free(mem, p->values, p->value_bytes);
    fv_media_list_close(&p->list);
    fv_mem_free(mem, p, sizeof *p);
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    const int64_t side = cfg->size ? cfg->size : SIDE;
    FV_RETURN_IF(side < 1 || side > MAX_SIDE, ctx, FV_ERR_ARGUMENT,
                 "media set pictures: size %lld, expected 1 to %d", (long long)side, MAX_SIDE);
    picture_set *p = fv_mem_zalloc(&ctx->mem, sizeof *p);
    FV_RETURN_IF(!p, ctx, FV_ERR_MEMORY, "no memory for media set pictures");
    *self = p;
    *p = (picture_set){.ctx = ctx, .augment = cfg->augment, .shape = {CHANNELS, side, side}};
    p->value_bytes = (size_t)(CHANNELS * side * side) * sizeof *p->values;
    p->values = fv_mem_alloc(&ctx->mem, p->value_bytes);
    FV_RETURN_IF(!p->values, ctx, FV_ERR_MEMORY, "no memory for a picture");
    const bool classes = fv_media_variant(cfg, fv_media_kind_find(cfg->name)->variants) == CLASSES;
    FV_TRY(fv_media_list_open(ctx, cfg, "picture", classes, &p->list));
    *facts = (fv_media_facts){.field = "pixels",
                              .rank = 3,
                              .shape = {CHANNELS, side, side},
                              .longest = 1,
                              .labels = p->list.labels,
                              .label_count = p->list.label_count,
                              .has_text = !classes};
    return fv_media_set_counts(ctx, cfg, p->list.count, facts);
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    picture_set *p = self;
    fv_ctx *ctx = p->ctx;
    const char *file;
    FV_TRY(fv_media_list_get(&p->list, part, number, out, &file));
    fv_scope_begin(ctx);
    fv_tensor *x = fv_picture_load(ctx, file, CHANNELS);
    x = fv_picture_floats(ctx, x, p->shape[1], p->shape[2]);
    const fv_status status = fv_tensor_read(ctx, x, p->values, p->value_bytes);
    fv_scope_end(ctx);
    FV_TRY(status);
    out->values = p->values;
    return fv_media_augment(ctx, &p->augment, draw, p->shape, p->values);
}

static fv_status get_text(void *self, fv_media_part part, int64_t number, fv_media_example *out)
{
    const char *file;
    return fv_media_list_get(&((picture_set *)self)->list, part, number, out, &file);
}

const fv_media_kind fv_media_pictures = {
    .name = "pictures",
    .summary = "pictures that a TSV lists with their classes or texts",
    .variants = "classes|texts",
    .open = open_set,
    .get = get,
    .text = get_text,
    .close = close_set,
};
