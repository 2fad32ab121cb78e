/*
 * MNIST: handwritten digits, grey, 28 x 28. The folder has the training files (IDX, plain or gzip)
 *     train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz]
 * and the test files with the prefix t10k, or t10k-first3000 (the first 3,000 of them). The last
 * twelfth of the training files, 5,000 digits, is for validation: parts are kept apart by number.
 */
#include <stdio.h>

#include "data/media.h"
#include "fovea/tensor.h"
#include "io/file.h"

enum { CLASSES = 10, VALID_SHARE = 12, MAX_SIDE = 1024 };

static const char *const digit_names[CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

/* One pair of files. */
typedef struct digits {
    uint8_t *pixels, *label;
    int64_t count, height, width;
    size_t pixel_bytes, label_bytes;
} digits;

typedef struct mnist {
    fv_ctx *ctx;
    digits train, test;
    fv_augment augment;
    int64_t shape[3], valid_first;
    float *values;
    size_t value_bytes;
} mnist;

/* ---- files ---------------------------------------------------------------------------------- */

/* The file of one of the prefixes that exists; none: the first name, whose opening then fails. */
static fv_status find_file(fv_ctx *ctx, const char *folder, const char *const *prefixes,
                           const char *rest, char out[FV_PATH_BYTES])
{
    for (int i = 0; prefixes[i]; i++)
        for (int packed = 0; packed < 2; packed++) {
            char name[64];
            snprintf(name, sizeof name, "%s-%s%s", prefixes[i], rest, packed ? ".gz" : "");
            FV_TRY(fv_path_join(ctx, out, folder, name));
            if (fv_file_exists(ctx, out)) return FV_OK;
        }
    char name[64];
    snprintf(name, sizeof name, "%s-%s", prefixes[0], rest);
    return fv_path_join(ctx, out, folder, name);
}

/* The bytes of an IDX file of the given rank. */
static fv_status read_bytes(fv_ctx *ctx, const char *path, int rank, int64_t shape[3],
                            uint8_t **data, size_t *bytes)
{
    fv_scope_begin(ctx);
    fv_tensor *t = fv_idx_load(ctx, path);
    fv_status s = ctx->error;
    if (s == FV_OK && (fv_tensor_rank(t) != rank || fv_tensor_dtype(t) != FV_U8))
        s = fv_fail(ctx, FV_ERR_FORMAT, "%.200s: expected bytes with %d axes", path, rank);
    for (int i = 0; s == FV_OK && i < rank; i++)
        shape[i] = fv_tensor_size(t, i);
    if (s == FV_OK) {
        *bytes = (size_t)fv_tensor_count(t);
        *data = fv_mem_alloc(&ctx->mem, *bytes);
        s = *data ? fv_tensor_read(ctx, t, *data, *bytes)
                  : fv_fail(ctx, FV_ERR_MEMORY, "%.200s: no memory for %zu bytes", path, *bytes);
    }
    fv_scope_end(ctx);
    return s;
}

static fv_status check_labels(fv_ctx *ctx, const char *path, const digits *d)
{
    for (int64_t i = 0; i < d->count; i++)
        FV_RETURN_IF(d->label[i] >= CLASSES, ctx, FV_ERR_FORMAT,
                     "%.200s: label %lld is %d, expected 0 to 9", path, (long long)i, d->label[i]);
    return FV_OK;
}

static fv_status read_digits(fv_ctx *ctx, const char *folder, const char *const *prefixes,
                             digits *d)
{
    char path[FV_PATH_BYTES];
    int64_t shape[3] = {0}, labels[3] = {0};
    FV_TRY(find_file(ctx, folder, prefixes, "images-idx3-ubyte", path));
    FV_TRY(read_bytes(ctx, path, 3, shape, &d->pixels, &d->pixel_bytes));
    d->count = shape[0];
    d->height = shape[1];
    d->width = shape[2];
    FV_RETURN_IF(d->height < 1 || d->width < 1 || d->height > MAX_SIDE || d->width > MAX_SIDE, ctx,
                 FV_ERR_FORMAT, "%.200s: pictures of %lld x %lld pixels", path,
                 (long long)d->height, (long long)d->width);
    FV_TRY(find_file(ctx, folder, prefixes, "labels-idx1-ubyte", path));
    FV_TRY(read_bytes(ctx, path, 1, labels, &d->label, &d->label_bytes));
    FV_RETURN_IF(labels[0] != d->count, ctx, FV_ERR_FORMAT, "%.200s: %lld labels for %lld pictures",
                 path, (long long)labels[0], (long long)d->count);
    return check_labels(ctx, path, d);
}

/* ---- reading and parts --------------------------------------------------------------------- */

static void free_digits(fv_mem *mem, digits *d)
{
    if (d->pixels) fv_mem_free(mem, d->pixels, d->pixel_bytes);
    if (d->label) fv_mem_free(mem, d->label, d->label_bytes);
}

static void close_set(void *self)
{
    mnist *m = self;
    fv_mem *mem = &m->ctx->mem;
    free_digits(mem, &m->train);
    free_digits(mem, &m->test);
    if (m->values) fv_mem_free(mem, m->values, m->value_bytes);
    fv_mem_free(mem, m, sizeof *m);
}

static fv_status read_set(mnist *m, const fv_media_config *cfg)
{
    static const char *const train[] = {"train", NULL}, *const test[] = {"t10k", "t10k-first3000",
                                                                         NULL};
    fv_ctx *ctx = m->ctx;
    FV_RETURN_IF(!cfg->folder || !*cfg->folder, ctx, FV_ERR_ARGUMENT,
                 "media set mnist needs a folder with its IDX files");
    FV_TRY(read_digits(ctx, cfg->folder, train, &m->train));
    FV_TRY(read_digits(ctx, cfg->folder, test, &m->test));
    FV_RETURN_IF(m->train.height != m->test.height || m->train.width != m->test.width, ctx,
                 FV_ERR_FORMAT,
                 "%.200s: training pictures have %lld x %lld pixels, test pictures %lld x %lld",
                 cfg->folder, (long long)m->train.height, (long long)m->train.width,
                 (long long)m->test.height, (long long)m->test.width);
    FV_RETURN_IF(cfg->size != 0 && (cfg->size != m->train.height || cfg->size != m->train.width),
                 ctx, FV_ERR_ARGUMENT, "media set mnist: size %lld, but its pictures have %lld",
                 (long long)cfg->size, (long long)m->train.height);
    m->shape[0] = 1;
    m->shape[1] = m->train.height;
    m->shape[2] = m->train.width;
    m->value_bytes = (size_t)(m->shape[1] * m->shape[2]) * sizeof *m->values;
    m->values = fv_mem_alloc(&ctx->mem, m->value_bytes);
    FV_RETURN_IF(!m->values, ctx, FV_ERR_MEMORY, "no memory for a picture");
    return FV_OK;
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    mnist *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for media set mnist");
    *self = m;
    m->ctx = ctx;
    m->augment = cfg->augment;
    FV_TRY(read_set(m, cfg));
    const int64_t valid = m->train.count / VALID_SHARE;
    m->valid_first = m->train.count - valid;
    *facts = (fv_media_facts){.field = "pixels",
                              .rank = 3,
                              .shape = {1, m->shape[1], m->shape[2]},
                              .longest = 1,
                              .labels = digit_names,
                              .label_count = CLASSES};
    const int64_t available[FV_MEDIA_PARTS] = {m->valid_first, valid, m->test.count};
    return fv_media_set_counts(ctx, cfg, available, facts);
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    mnist *m = self;
    const digits *d = part == FV_MEDIA_TEST ? &m->test : &m->train;
    const int64_t i = part == FV_MEDIA_VALID ? m->valid_first + number : number,
                  size = m->shape[1] * m->shape[2];
    for (int64_t k = 0; k < size; k++)
        m->values[k] = (float)d->pixels[i * size + k] * (float)(1.0 / 255.0);
    FV_TRY(fv_media_augment(m->ctx, &m->augment, draw, m->shape, m->values));
    out->values = m->values;
    out->label = d->label[i];
    snprintf(out->text, sizeof out->text, "%s", digit_names[out->label]);
    return FV_OK;
}

const fv_media_kind fv_media_mnist = {
    .name = "mnist",
    .summary = "handwritten digits, from the IDX files of MNIST in a folder",
    .open = open_set,
    .get = get,
    .close = close_set,
};
