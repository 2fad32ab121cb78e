/*
 * A self-attention GAN (SAGAN, Zhang 2019): a generator that makes pictures of noise and a class,
 * and a discriminator that scores them. Its loss follows from the fields of the batch: with
 * "pixels" the discriminator's hinge loss, without them the generator's,
 *
 *     L_D = sum max(0, 1 - D(x, y)) + max(0, 1 + D(G(z, y), y)),     L_G = - sum D(G(z, y), y).
 *
 * Samples are drawn with a moving average of the generator's weights.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "models/model.h"
#include "models/sagan.h"
#include "tensor/launch.h"
#include "tensor/tensor.h"

enum {
    MAX_SIDE = 1024,
    MAX_CHANNELS = 64,
    MAX_CLASSES = 1 << 16,
    MAX_NOISE = 1 << 16,
    SMALLEST = 4,
    MAX_AVERAGED = 128
};

#define TRAINED "generator"
#define AVERAGE "average"

typedef struct sagan {
    fv_ctx *ctx;
    fv_sagan_sizes size;
    fv_spectral_norms spectral;
    fv_generator generator, average; /* average: absent where decay is 0 */
    fv_discriminator discriminator;
    double decay;
    bool has_trained; /* a pass for the generator's loss since the last step_done */
    fv_tensor *from[MAX_AVERAGED], *to[MAX_AVERAGED]; /* the average's tensors */
    int averaged;
} sagan;

static const fv_key keys[] = {
    {"sagan.channels", FV_KEY_INT, "16", 1, 512, NULL,
     "channels at the picture's size; they double where the size is halved"},
    {"sagan.levels", FV_KEY_INT, "0", 0, FV_SAGAN_LEVELS - 1, NULL,
     "how often the size is halved; 0: while it is even and at least 4 are left"},
    {"sagan.attention", FV_KEY_CHOICE, "both", 0, 0, "none|generator|discriminator|both",
     "which networks attend to their own grid"},
    {"sagan.attend", FV_KEY_INT, "1", 0, FV_SAGAN_LEVELS - 1, NULL,
     "grid that attends: the picture's size, halved so often"},
    {"sagan.features", FV_KEY_INT, "0", 0, 4096, NULL,
     "numbers that the discriminator makes of its whole last grid; 0: the sum over the grid"},
    {"sagan.class_std", FV_KEY_REAL, "1", 1e-6, 100, NULL,
     "deviation of the generator's first vectors of classes; that of noise is 1"},
    {"sagan.average", FV_KEY_REAL, "0.999", 0, 0.999999, NULL,
     "samples use a moving average of the generator with this decay; 0: its last weights"},
};

static fv_key_table sagan_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    sagan *m = self;
    fv_generator_free(&m->generator);
    fv_generator_free(&m->average);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

static int halvings(int64_t height, int64_t width)
{
    int n = 0;
    while (n < FV_SAGAN_LEVELS - 1 && height % 2 == 0 && width % 2 == 0 && height >= 2 * SMALLEST &&
           width >= 2 * SMALLEST) {
        height /= 2;
        width /= 2;
        n++;
    }
    return n;
}

static fv_status read_sizes(fv_ctx *ctx, const fv_recipe *recipe, const fv_data_spec *spec,
                            fv_sagan_sizes *out)
{
    FV_RETURN_IF(spec->ability != FV_CAN_DRAW, ctx, FV_ERR_ARGUMENT,
                 "model.kind is sagan: such a model can draw pictures, not %s",
                 fv_ability_name(spec->ability));
    fv_sagan_sizes s = {.channels = fv_data_spec_get(spec, "channels", 0),
                        .height = fv_data_spec_get(spec, "height", 0),
                        .width = fv_data_spec_get(spec, "width", 0),
                        .classes = spec->label_count,
                        .noise = fv_data_spec_get(spec, "noise", 0),
                        .base = fv_recipe_int(recipe, "sagan.channels"),
                        .last = (int)fv_recipe_int(recipe, "sagan.levels"),
                        .attend = (int)fv_recipe_int(recipe, "sagan.attend"),
                        .features = fv_recipe_int(recipe, "sagan.features"),
                        .class_std = fv_recipe_real(recipe, "sagan.class_std")};
    FV_RETURN_IF(s.channels < 1 || s.height < 1 || s.width < 1 || s.channels > MAX_CHANNELS ||
                     s.height > MAX_SIDE || s.width > MAX_SIDE,
                 ctx, FV_ERR_ARGUMENT, "sagan: pictures of %lld x %lld x %lld",
                 (long long)s.channels, (long long)s.height, (long long)s.width);
    FV_RETURN_IF(s.classes < 0 || s.classes > MAX_CLASSES, ctx, FV_ERR_ARGUMENT,
                 "sagan: %lld classes, expected at most %d", (long long)s.classes, MAX_CLASSES);
    FV_RETURN_IF(s.noise < 1 || s.noise > MAX_NOISE, ctx, FV_ERR_ARGUMENT,
                 "sagan: noise of %lld numbers, expected 1 to %d", (long long)s.noise, MAX_NOISE);
    if (s.last == 0) s.last = halvings(s.height, s.width);
    const int64_t step = (int64_t)1 << s.last;
    FV_RETURN_IF(s.last < 1 || s.height % step || s.width % step, ctx, FV_ERR_ARGUMENT,
                 "sagan.levels is %d: pictures of %lld x %lld pixels cannot be halved so often",
                 s.last, (long long)s.height, (long long)s.width);
    FV_RETURN_IF(s.attend > s.last, ctx, FV_ERR_ARGUMENT,
                 "sagan.attend is %d, expected at most sagan.levels, %d", s.attend, s.last);
    *out = s;
    return FV_OK;
}

/* Which networks attend. */
static fv_status create_attention(sagan *m, fv_params *params, const char *where)
{
    const int64_t width = fv_sagan_width(&m->size, m->size.attend);
    const bool both = strcmp(where, "both") == 0;
    if (both || strcmp(where, "generator") == 0)
        FV_TRY(fv_sagan_attention_create(params, TRAINED, width, &m->spectral,
                                         &m->generator.attention));
    if (both || strcmp(where, "discriminator") == 0)
        FV_TRY(fv_sagan_attention_create(params, "discriminator", width, &m->spectral,
                                         &m->discriminator.attention));
    return FV_OK;
}

/* Vectors of spectral norms follow their own weights. */
static bool is_vector(const char *name)
{
    const size_t n = strlen(name);
    return n > 2 && name[n - 2] == '.' && (name[n - 1] == 'u' || name[n - 1] == 'v');
}

/* Copies of the generator's tensors as buffers, from which the averaged generator is then made. */
static fv_status copy_generator(sagan *m, fv_params *params)
{
    const int count = fv_params_count(params);
    for (int i = 0; i < count; i++) {
        const char *name = fv_params_name(params, i);
        char copy[128];
        if (strncmp(name, TRAINED ".", sizeof TRAINED) != 0) continue;
        FV_RETURN_IF(m->averaged == MAX_AVERAGED, m->ctx, FV_ERR_LIMIT,
                     "sagan: more than %d tensors to average", MAX_AVERAGED);
        snprintf(copy, sizeof copy, "%s.%.100s", AVERAGE, name + sizeof TRAINED);
        fv_tensor *from = fv_params_tensor(params, i);
        fv_tensor *to = fv_params_add_buffer(params, copy, fv_scale(m->ctx, from, 1));
        if (m->ctx->error != FV_OK) return m->ctx->error;
        if (is_vector(copy)) continue;
        m->from[m->averaged] = from;
        m->to[m->averaged++] = to;
    }
    return FV_OK;
}

static fv_status create_average(sagan *m, fv_params *params)
{
    fv_no_grad_begin(m->ctx);
    fv_status status = copy_generator(m, params);
    fv_no_grad_end(m->ctx);
    FV_TRY(status);
    FV_TRY(fv_generator_create(params, AVERAGE, &m->average));
    if (!m->generator.attention.is_there) return FV_OK;
    return fv_sagan_attention_create(params, AVERAGE, fv_sagan_width(&m->size, m->size.attend),
                                     &m->spectral, &m->average.attention);
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    sagan *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    m->ctx = m->spectral.ctx = ctx;
    m->decay = fv_recipe_real(recipe, "sagan.average");
    FV_TRY(read_sizes(ctx, recipe, spec, &m->size));
    m->generator.size = m->average.size = m->discriminator.size = m->size;
    m->generator.spectral = m->average.spectral = m->discriminator.spectral = &m->spectral;
    FV_TRY(fv_generator_create(params, TRAINED, &m->generator));
    FV_TRY(fv_discriminator_create(params, "discriminator", &m->discriminator));
    FV_TRY(create_attention(m, params, fv_recipe_text(recipe, "sagan.attention")));
    return m->decay > 0 ? create_average(m, params) : FV_OK;
}

/* ---- inputs --------------------------------------------------------------------------------- */

static fv_tensor *refuse(fv_ctx *ctx, const char *what)
{
    fv_poison(ctx, FV_ERR_ARGUMENT, "sagan: %s", what);
    return ctx->invalid;
}

/* "noise" [rows, noise]; without such a field, drawn with the context's seed and step. */
static fv_tensor *noise_of(fv_ctx *ctx, const sagan *m, const fv_batch *batch, int64_t rows)
{
    const fv_field *f = batch ? fv_batch_find(batch, "noise") : NULL;
    if (!f) return fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){rows, m->size.noise}, 0, 1);
    if (f->dtype != FV_F32 || f->rank != 1 || f->length || f->shape[0] != m->size.noise ||
        batch->rows != rows)
        return refuse(ctx, "the field noise has another size than the model's");
    return fv_batch_tensor(ctx, batch, "noise", NULL);
}

/* "label" [rows], checked; NULL where the model has no classes. Without such a field, one class
 * after the other. */
static fv_tensor *label_of(fv_ctx *ctx, const sagan *m, const fv_batch *batch, int64_t rows)
{
    const fv_field *f = batch ? fv_batch_find(batch, "label") : NULL;
    if (m->size.classes == 0 || ctx->error != FV_OK) return NULL;
    if (f && (f->dtype != FV_I64 || f->rank != 0 || f->length || batch->rows != rows))
        return refuse(ctx, "the field label is not one class for each row");
    const size_t bytes = (size_t)rows * sizeof(int64_t);
    int64_t *label = fv_mem_alloc(&ctx->mem, bytes);
    if (!label) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld classes", (long long)rows);
        return ctx->invalid;
    }
    fv_tensor *out = NULL;
    for (int64_t i = 0; i < rows && !out; i++) {
        label[i] = f ? *(const int64_t *)f->row[i] : i % m->size.classes;
        if (label[i] < 0 || label[i] >= m->size.classes)
            out = refuse(ctx, "a label is not the number of a class");
    }
    if (!out) out = fv_from_host(ctx, FV_I64, 1, &rows, label);
    fv_mem_free(&ctx->mem, label, bytes);
    return out;
}

static fv_tensor *pixels_of(fv_ctx *ctx, const sagan *m, const fv_batch *batch)
{
    const fv_field *f = fv_batch_find(batch, "pixels");
    const fv_sagan_sizes *s = &m->size;
    if (f->dtype != FV_F32 || f->rank != 3 || f->length || f->shape[0] != s->channels ||
        f->shape[1] != s->height || f->shape[2] != s->width)
        return refuse(ctx, "the pictures have another size than the model's");
    return fv_batch_tensor(ctx, batch, "pixels", NULL);
}

/* ---- losses --------------------------------------------------------------------------------- */

static fv_tensor *twice(fv_ctx *ctx, fv_tensor *label)
{
    return label ? fv_concat(ctx, 2, (fv_tensor *[]){label, label}, 0) : NULL;
}

/* Real and generated pictures go through the discriminator together: it has no batch norm. */
static fv_tensor *discriminator_loss(fv_ctx *ctx, sagan *m, const fv_batch *batch, fv_tensor *noise,
                                     fv_tensor *label, const fv_pass *pass)
{
    fv_tensor *real = pixels_of(ctx, m, batch);
    fv_no_grad_begin(ctx);
    fv_tensor *made =
        fv_generator_run(ctx, &m->generator, noise, label, pass && pass->training, NULL);
    fv_no_grad_end(ctx);
    fv_tensor *all = fv_concat(ctx, 2, (fv_tensor *[]){real, made}, 0);
    fv_tensor *score =
        fv_discriminator_run(ctx, &m->discriminator, all, twice(ctx, label), false, NULL);
    fv_tensor *of_real = fv_slice(ctx, score, 0, 0, batch->rows, 1);
    fv_tensor *of_made = fv_slice(ctx, score, 0, batch->rows, 2 * batch->rows, 1);
    return fv_add(ctx, fv_sum(ctx, fv_relu(ctx, fv_affine(ctx, of_real, -1, 1)), 0, NULL, false),
                  fv_sum(ctx, fv_relu(ctx, fv_affine(ctx, of_made, 1, 1)), 0, NULL, false));
}

static fv_tensor *generator_loss(fv_ctx *ctx, sagan *m, fv_tensor *noise, fv_tensor *label,
                                 const fv_pass *pass)
{
    const bool training = pass && pass->training;
    fv_tensor *made = fv_generator_run(ctx, &m->generator, noise, label, training, NULL);
    fv_tensor *score = fv_discriminator_run(ctx, &m->discriminator, made, label, true, NULL);
    m->has_trained = training;
    return fv_neg(ctx, fv_sum(ctx, score, 0, NULL, false));
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    sagan *m = self;
    fv_tensor *noise = noise_of(ctx, m, batch, batch->rows);
    fv_tensor *label = label_of(ctx, m, batch, batch->rows);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (fv_batch_find(batch, "pixels"))
        return discriminator_loss(ctx, m, batch, noise, label, pass);
    return generator_loss(ctx, m, noise, label, pass);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* average = d average + (1 - d) weights; d is smaller at first, so that the first weights, which
 * are random, are soon forgotten. */
static fv_status move_average(sagan *m, uint64_t step)
{
    fv_ctx *ctx = m->ctx;
    const double t = (double)step, d = fmin(m->decay, (1 + t) / (10 + t));
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    for (int i = 0; i < m->averaged; i++) {
        fv_tensor *next = fv_add(ctx, fv_scale(ctx, m->to[i], d), fv_scale(ctx, m->from[i], 1 - d));
        if (ctx->error == FV_OK) fv_copy_into(ctx, m->to[i], next);
    }
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return ctx->error;
}

static fv_status step_done(void *self, uint64_t step, int phase)
{
    sagan *m = self;
    (void)phase;
    FV_TRY(fv_batch_norms_step(&m->generator.norms));
    if (m->has_trained) FV_TRY(move_average(m, step));
    m->has_trained = false;
    return fv_spectral_norms_step(&m->spectral);
}

/* ---- samples -------------------------------------------------------------------------------- */

static fv_generator *drawing(sagan *m) { return m->decay > 0 ? &m->average : &m->generator; }

static fv_tensor *draw(fv_ctx *ctx, void *self, int64_t rows, const fv_batch *conditions)
{
    sagan *m = self;
    if (ctx->error == FV_OK && rows < 1) return refuse(ctx, "expected one row or more");
    fv_tensor *noise = noise_of(ctx, m, conditions, rows);
    fv_tensor *label = label_of(ctx, m, conditions, rows);
    if (ctx->error != FV_OK) return ctx->invalid;
    return fv_generator_run(ctx, drawing(m), noise, label, false, NULL);
}

/* With "pixels" the discriminator over them, else both networks over samples. */
static fv_status capture_attention(fv_ctx *ctx, void *self, const fv_batch *batch,
                                   const fv_pass *pass)
{
    sagan *m = self;
    fv_tensor *label = label_of(ctx, m, batch, batch->rows), *pictures;
    if (ctx->error != FV_OK) return ctx->error;
    if (fv_batch_find(batch, "pixels"))
        pictures = pixels_of(ctx, m, batch);
    else
        pictures = fv_generator_run(ctx, drawing(m), noise_of(ctx, m, batch, batch->rows), label,
                                    false, pass);
    if (fv_capture_wants(pass->capture, FV_DISCRIMINATOR_SITE))
        fv_discriminator_run(ctx, &m->discriminator, pictures, label, true, pass);
    return ctx->error;
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const sagan *m = self;
    const bool has[] = {m->generator.attention.is_there, m->discriminator.attention.is_there};
    static const char *const names[] = {FV_GENERATOR_SITE, FV_DISCRIMINATOR_SITE};
    int count = 0;
    for (int i = 0; i < 2; i++) {
        if (!has[i]) continue;
        if (count < capacity) {
            out[count] = (fv_site){.heads = 1,
                                   .queries = FV_AXIS_CELLS,
                                   .keys = FV_AXIS_CELLS,
                                   .rows = m->size.height >> m->size.attend,
                                   .cols = m->size.width >> m->size.attend};
            snprintf(out[count].name, sizeof out[count].name, "%s", names[i]);
        }
        count++;
    }
    return count;
}

const fv_model_kind fv_kind_sagan = {
    .struct_size = sizeof fv_kind_sagan,
    .name = "sagan",
    .types = "fovea-sagan",
    .summary = "generator and discriminator with self-attention, to draw pictures",
    .abilities = 1u << FV_CAN_DRAW,
    .keys = sagan_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .draw = draw,
    .attention_sites = sites,
    .capture_attention = capture_attention,
    .step_done = step_done,
};
