/*
 * The Keyword Transformer (Berg, O'Connor, Cruz 2021) as a model kind: a Vision Transformer whose
 * patches are the frames of a recording.
 *
 *     z_0 = class token, z_i = W x_i + b, i = 1 .. n;   z_i += position i
 *     z = norm(z + attention(z)),  z = norm(z + mlp(z))      kwt.layers times
 *     logits = H z_0 + c
 *
 * It reads the field "frames", rows of up to "frames" vectors of "frame" numbers. Where the
 * data has "samples", the model has a front end of its own, as the published weights do, and reads
 * the field "samples", a recording at the rate "rate": its middle "samples" samples, or itself in
 * the middle of zeros. Then frames of "window" samples start every "hop" samples, and
 *
 *     x = D ln max(M |F (window * frame)|, 1e-12)            F "bins", M "mels", D "frame" rows
 *
 * with F, M and D from the file. Rows of a batch are documents of one long row, so that a row's
 * bits do not depend on the others and nothing is computed for padding.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "fovea/ops.h"
#include "models/model.h"
#include "nn/weights.h"
#include "ops/draw.h"

enum { MOST_LAYERS = 64, MOST_WIDTH = 1 << 13, MOST_FRAMES = 1 << 16, MOST_SAMPLES = 1 << 24 };

static const fv_key keys[] = {
    {.name = "kwt.width",
     .type = FV_KEY_INT,
     .default_value = "64",
     .min = 1,
     .max = MOST_WIDTH,
     .help = "width of a state"},
    {.name = "kwt.layers",
     .type = FV_KEY_INT,
     .default_value = "12",
     .min = 1,
     .max = MOST_LAYERS,
     .help = "Transformer blocks"},
    {.name = "kwt.heads",
     .type = FV_KEY_INT,
     .default_value = "1",
     .min = 1,
     .max = MOST_WIDTH,
     .help = "attention heads of a block"},
    {.name = "kwt.hidden",
     .type = FV_KEY_INT,
     .default_value = "256",
     .min = 1,
     .max = MOST_WIDTH,
     .help = "units of a block's feed-forward network"},
    {.name = "kwt.dropout",
     .type = FV_KEY_REAL,
     .default_value = "0",
     .min = 0,
     .max = 0.99,
     .help = "share of values dropped in training"},
};

static fv_key_table kwt_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* Sizes that follow from the data, in the order of `numbers`. */
typedef struct sizes {
    int64_t frame, longest, samples, window, hop, bins, mels;
} sizes;

static const struct {
    const char *name;
    size_t at;
    int64_t max;
    bool front; /* of a front end only */
} numbers[] = {
    {"frame", offsetof(sizes, frame), MOST_WIDTH, false},
    {"window", offsetof(sizes, window), MOST_FRAMES, true},
    {"hop", offsetof(sizes, hop), MOST_FRAMES, true},
    {"bins", offsetof(sizes, bins), MOST_FRAMES, true},
    {"mels", offsetof(sizes, mels), MOST_WIDTH, true},
};

typedef struct front_end {
    fv_tensor *window, *dft_cos, *dft_sin, *mel, *dct, *scale;
} front_end;

typedef struct kwt {
    fv_ctx *ctx;
    sizes size;
    int layers;
    int64_t width, heads;
    double dropout;
    front_end front; /* with size.samples > 0 */
    fv_dense patch, head;
    fv_tensor *class_token, *positions;
    fv_block block[MOST_LAYERS];
} kwt;

/* ---- creation ------------------------------------------------------------------------------- */

static fv_status read_sizes(fv_ctx *ctx, const fv_data_spec *spec, sizes *out)
{
    *out = (sizes){.longest = fv_data_spec_get(spec, "frames", 0),
                   .samples = fv_data_spec_get(spec, "samples", 0)};
    FV_RETURN_IF(out->samples < 0 || out->samples > MOST_SAMPLES, ctx, FV_ERR_ARGUMENT,
                 "kwt: samples is %lld, not 0 to %d", (long long)out->samples, (int)MOST_SAMPLES);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].front && out->samples == 0) continue;
        const int64_t value = fv_data_spec_get(spec, numbers[i].name, 0);
        FV_RETURN_IF(value < 1 || value > numbers[i].max, ctx, FV_ERR_ARGUMENT,
                     "kwt: %s is %lld, not 1 to %lld", numbers[i].name, (long long)value,
                     (long long)numbers[i].max);
        memcpy((char *)out + numbers[i].at, &value, sizeof value);
    }
    if (out->samples > 0)
        out->longest = out->samples < out->window ? 0 : 1 + (out->samples - out->window) / out->hop;
    FV_RETURN_IF(out->longest < 1 || out->longest > MOST_FRAMES, ctx, FV_ERR_ARGUMENT,
                 "kwt: a recording has %lld frames at most, not 1 to %d", (long long)out->longest,
                 (int)MOST_FRAMES);
    FV_RETURN_IF(spec->ability != FV_CAN_CLASSIFY || spec->label_count < 1, ctx, FV_ERR_ARGUMENT,
                 "model.kind is kwt: such a model names one of several classes");
    return FV_OK;
}

static fv_tensor *front_table(fv_params *params, const char *name, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    const int rank = rows > 1 ? 2 : 1;
    fv_ctx *ctx = fv_params_ctx(params);
    return fv_params_add_buffer(params, name, fv_zeros(ctx, FV_F32, rank, shape + 2 - rank));
}

static void create_front(fv_params *params, const sizes *n, front_end *f)
{
    *f = (front_end){
        .window = front_table(params, "frontend.window", 1, n->window),
        .dft_cos = front_table(params, "frontend.dft_cos", n->bins, n->window),
        .dft_sin = front_table(params, "frontend.dft_sin", n->bins, n->window),
        .mel = front_table(params, "frontend.mel", n->mels, n->bins),
        .dct = front_table(params, "frontend.dct", n->frame, n->mels),
        .scale = front_table(params, "frontend.norm_scale", 1, n->frame),
    };
}

static fv_status create_blocks(fv_params *params, const fv_recipe *recipe, kwt *m)
{
    static const fv_block_names names = {
        .self = {.q = "attn.q", .k = "attn.k", .v = "attn.v", .out = "attn.out"},
        .ff = {"mlp.fc1", NULL, "mlp.fc2"},
        .self_norm = "norm1",
        .ff_norm = "norm2"};
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, m->width, m->heads);
    cfg.names = &names;
    cfg.post_norm = true;
    cfg.eps = 1e-6;
    cfg.self.bias = false;
    cfg.ff.hidden = fv_recipe_int(recipe, "kwt.hidden");
    cfg.ff.act = FV_ACT_GELU_TANH;
    cfg.dropout = m->dropout;
    for (int i = 0; i < m->layers; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blocks.%d", i);
        FV_TRY(fv_block_create(params, prefix, &cfg, &m->block[i]));
    }
    return FV_OK;
}

static fv_status create_in(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                           kwt *m)
{
    fv_ctx *ctx = m->ctx;
    FV_TRY(read_sizes(ctx, spec, &m->size));
    m->width = fv_recipe_int(recipe, "kwt.width");
    m->heads = fv_recipe_int(recipe, "kwt.heads");
    m->layers = (int)fv_recipe_int(recipe, "kwt.layers");
    m->dropout = fv_recipe_real(recipe, "kwt.dropout");
    FV_RETURN_IF(m->width % m->heads != 0, ctx, FV_ERR_ARGUMENT,
                 "kwt.width %lld is not a multiple of kwt.heads %lld", (long long)m->width,
                 (long long)m->heads);
    if (m->size.samples > 0) create_front(params, &m->size, &m->front);
    FV_TRY(fv_dense_create(params, "patch", m->size.frame, m->width, true, 0, &m->patch));
    m->class_token = fv_nn_weight(params, "", "cls_token", 1, &m->width, fv_init_normal(0.02));
    m->positions = fv_nn_weight(params, "", "pos_embed", 2,
                                (int64_t[]){m->size.longest + 1, m->width}, fv_init_normal(0.02));
    FV_TRY(create_blocks(params, recipe, m));
    return fv_dense_create(params, "head", m->width, spec->label_count, true, 0, &m->head);
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    kwt *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    m->ctx = ctx;
    *self = m;
    return create_in(params, recipe, spec, m);
}

static void destroy(void *self)
{
    kwt *m = self;
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The rows of a batch one after the other, each behind its class token. Tables on the host. */
typedef struct rows {
    int64_t count, total; /* tokens in all */
    int64_t *length;      /* [count]: tokens, the class token included */
    int64_t *begin;       /* [count + 1]: where each row starts */
    int64_t *source;      /* [total]: 0 the class token, 1 + i the i-th frame of the batch */
    int64_t *position;    /* [total] */
    size_t bytes;
} rows;

static void rows_free(fv_ctx *ctx, rows *r)
{
    if (r->length) fv_mem_free(&ctx->mem, r->length, r->bytes);
}

/* Makes the tables for rows of length[i] frames, or of `same` frames with NULL. */
static fv_status rows_make(fv_ctx *ctx, int64_t count, const int64_t *length, int64_t same,
                           int64_t longest, rows *r)
{
    *r = (rows){.count = count};
    for (int64_t i = 0; i < count; i++) {
        const int64_t n = length ? length[i] : same;
        FV_RETURN_IF(n < 1 || n > longest, ctx, FV_ERR_ARGUMENT,
                     "kwt: a recording of %lld frames; the model reads 1 to %lld", (long long)n,
                     (long long)longest);
        FV_RETURN_IF(!fv_checked_add_i64(r->total, n + 1, &r->total), ctx, FV_ERR_LIMIT,
                     "kwt: too many frames");
    }
    FV_RETURN_IF(r->total > INT64_MAX / 64 || count > r->total, ctx, FV_ERR_LIMIT,
                 "kwt: too many frames");
    r->bytes = (size_t)(2 * count + 1 + 2 * r->total) * sizeof(int64_t);
    r->length = fv_mem_alloc(&ctx->mem, r->bytes);
    FV_RETURN_IF(!r->length, ctx, FV_ERR_MEMORY, "no memory for %lld frames", (long long)r->total);
    r->begin = r->length + count;
    r->source = r->begin + count + 1;
    r->position = r->source + r->total;
    int64_t at = 0, frame = 1;
    for (int64_t i = 0; i < count; i++) {
        r->length[i] = (length ? length[i] : same) + 1;
        r->begin[i] = at;
        for (int64_t k = 0; k < r->length[i]; k++, at++) {
            r->position[at] = k;
            r->source[at] = k ? frame++ : 0;
        }
    }
    r->begin[count] = at;
    return FV_OK;
}

/* ---- what it reads -------------------------------------------------------------------------- */

/* Room on the host for a table of floats, or NULL and the context's error. */
static float *take_floats(fv_ctx *ctx, int64_t count, int64_t width, size_t *bytes)
{
    float *room = NULL;
    if (fv_checked_mul_size((size_t)count, (size_t)width, bytes) &&
        fv_checked_mul_size(*bytes, sizeof *room, bytes))
        room = fv_mem_zalloc(&ctx->mem, *bytes);
    if (!room) fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld frames", (long long)count);
    return room;
}

/* All frames of the batch, [all, frame]. */
static fv_tensor *given_frames(fv_ctx *ctx, const kwt *m, const fv_field *field, const rows *r)
{
    const int64_t shape[] = {r->total - r->count, m->size.frame};
    size_t bytes = 0;
    float *all = take_floats(ctx, shape[0], shape[1], &bytes), *at = all;
    if (!all) return ctx->invalid;
    for (int64_t i = 0; i < r->count; i++) {
        const size_t floats = (size_t)((r->length[i] - 1) * m->size.frame);
        memcpy(at, field->row[i], floats * sizeof *at);
        at += floats;
    }
    fv_tensor *t = fv_from_host(ctx, FV_F32, 2, shape, all);
    fv_mem_free(&ctx->mem, all, bytes);
    return t;
}

/* Frame f of a recording that is centred in, or cut to, size->samples samples. */
static void copy_window(const sizes *size, const float *samples, int64_t length, int64_t f,
                        float *out)
{
    const int64_t shift = f * size->hop + (length - size->samples) / 2;
    for (int64_t i = 0; i < size->window; i++) {
        const int64_t at = shift + i;
        out[i] = at >= 0 && at < length ? samples[at] : 0;
    }
}

/* The front end: [all, frame] from samples. */
static fv_tensor *front_frames(fv_ctx *ctx, const kwt *m, const fv_field *field, const rows *r)
{
    const sizes *size = &m->size;
    const front_end *front = &m->front;
    const int64_t shape[] = {r->total - r->count, size->window};
    size_t bytes = 0;
    float *all = take_floats(ctx, shape[0], shape[1], &bytes), *at = all;
    if (!all) return ctx->invalid;
    for (int64_t i = 0; i < r->count; i++)
        for (int64_t f = 0; f < size->longest; f++, at += size->window)
            copy_window(size, field->row[i], field->length[i], f, at);
    fv_tensor *x = fv_from_host(ctx, FV_F32, 2, shape, all);
    fv_mem_free(&ctx->mem, all, bytes);
    x = fv_mul(ctx, x, front->window);
    fv_tensor *re = fv_linear(ctx, x, front->dft_cos, NULL);
    fv_tensor *im = fv_linear(ctx, x, front->dft_sin, NULL);
    x = fv_sqrt(ctx, fv_add(ctx, fv_square(ctx, re), fv_square(ctx, im)));
    x = fv_log(ctx, fv_clamp(ctx, fv_linear(ctx, x, front->mel, NULL), 1e-12, INFINITY));
    return fv_mul(ctx, fv_linear(ctx, x, front->dct, NULL), front->scale);
}

static fv_status find_field(fv_ctx *ctx, const kwt *m, const fv_batch *batch, const fv_field **out)
{
    const bool front = m->size.samples > 0;
    const char *name = front ? "samples" : "frames";
    const fv_field *f = fv_batch_find(batch, name);
    FV_RETURN_IF(!f || !f->length || f->dtype != FV_F32, ctx, FV_ERR_ARGUMENT,
                 "kwt: the batch has no \"%s\" of floats", name);
    FV_RETURN_IF(front ? f->rank != 0 : f->rank != 1 || f->shape[0] != m->size.frame, ctx,
                 FV_ERR_ARGUMENT, "kwt: \"%s\" must be rows of %s%.0lld", name,
                 front ? "numbers" : "vectors of width ", (long long)(front ? 0 : m->size.frame));
    *out = f;
    return FV_OK;
}

/* ---- a pass --------------------------------------------------------------------------------- */

/* The class token's weights on the frames, [1, heads, 1, frames], of one recording. */
static void give_weights(fv_ctx *ctx, const fv_pass *pass, const rows *r, const char *site,
                         fv_tensor *weights)
{
    if (r->count != 1) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "kwt: attention is captured of one recording at a time");
        return;
    }
    weights = fv_slice(ctx, fv_slice(ctx, weights, 2, 0, 1, 1), 3, 1, r->total, 1);
    fv_capture_give(ctx, pass, site, weights);
}

static fv_tensor *run_blocks(fv_ctx *ctx, const kwt *m, const rows *r, fv_tensor *x,
                             const fv_pass *pass)
{
    const bool training = pass && pass->training;
    const fv_capture *capture = pass ? pass->capture : NULL;
    const int64_t ends = r->count + 1;
    fv_tensor *begin = fv_from_host(ctx, FV_I64, 1, &ends, r->begin), *before = ctx->draw_numbers;
    if (training) fv_draw_numbers_set(ctx, fv_draw_numbers_of(ctx, r->count, r->length));
    for (int i = 0; i < m->layers; i++) {
        char site[32];
        snprintf(site, sizeof site, "encoder.%d.class", i);
        const bool wanted = capture && fv_capture_wants(capture, site);
        const fv_block_input in = {.x = x,
                                   .q_begin = begin,
                                   .k_begin = begin,
                                   .capture_self = {.weights = wanted},
                                   .training = training};
        fv_block_result result;
        x = fv_block_run(ctx, &m->block[i], &in, &result);
        if (wanted) give_weights(ctx, pass, r, site, result.self.captured.weights);
    }
    fv_draw_numbers_set(ctx, before);
    return x;
}

static fv_tensor *run(fv_ctx *ctx, const kwt *m, const fv_field *field, const rows *r,
                      const fv_pass *pass)
{
    fv_tensor *x =
        m->size.samples > 0 ? front_frames(ctx, m, field, r) : given_frames(ctx, m, field, r);
    x = fv_dense_run(ctx, &m->patch, x);
    fv_tensor *first = fv_unsqueeze(ctx, m->class_token, 0);
    x = fv_concat(ctx, 2, (fv_tensor *[]){first, x}, 0);
    x = fv_index_select(ctx, x, fv_from_host(ctx, FV_I64, 1, &r->total, r->source), 0);
    fv_tensor *at = fv_from_host(ctx, FV_I64, 1, &r->total, r->position);
    x = fv_add(ctx, x, fv_embedding(ctx, m->positions, at, -1));
    x = fv_squeeze(ctx, run_blocks(ctx, m, r, fv_unsqueeze(ctx, x, 0), pass), 0);
    x = fv_index_select(ctx, x, fv_from_host(ctx, FV_I64, 1, &r->count, r->begin), 0);
    return fv_dense_run(ctx, &m->head, x);
}

static fv_tensor *classify(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    const kwt *m = self;
    const fv_field *field = NULL;
    rows r = {.count = 0};
    fv_status status = find_field(ctx, m, inputs, &field);
    if (status == FV_OK)
        status = rows_make(ctx, inputs->rows, m->size.samples > 0 ? NULL : field->length,
                           m->size.longest, m->size.longest, &r);
    fv_tensor *logits = status == FV_OK ? run(ctx, m, field, &r, pass) : ctx->invalid;
    if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
    rows_free(ctx, &r);
    return logits;
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    fv_tensor *label = fv_batch_tensor(ctx, batch, "label", NULL);
    return fv_cross_entropy(ctx, classify(ctx, self, batch, pass), label, -1, 0, FV_REDUCTION_SUM);
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const kwt *m = self;
    for (int i = 0; i < m->layers && i < capacity; i++) {
        out[i] = (fv_site){.heads = m->heads, .queries = FV_AXIS_TOKENS, .keys = FV_AXIS_FRAMES};
        snprintf(out[i].name, sizeof out[i].name, "encoder.%d.class", i);
    }
    return m->layers;
}

static int64_t max_length(const void *self) { return ((const kwt *)self)->size.longest; }

const fv_model_kind fv_kind_kwt = {
    .struct_size = sizeof fv_kind_kwt,
    .name = "kwt",
    .summary = "Keyword Transformer: names the class of a recording",
    .abilities = 1u << FV_CAN_CLASSIFY,
    .keys = kwt_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .classify = classify,
    .attention_sites = sites,
    .max_length = max_length,
};
