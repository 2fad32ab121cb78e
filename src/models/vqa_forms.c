/* The forms of a vqa model: how the question reads the cells (vqa.h has the formulas). */
#include <math.h>
#include <stdio.h>

#include "fovea/ops.h"
#include "models/capture.h"
#include "models/vqa.h"
#include "tensor/tensor.h"

#define WORDS_SITE "hop.0.words"

static bool is_wanted(const fv_pass *pass, const char *site)
{
    return pass && fv_capture_wants(pass->capture, site);
}

/* Weights [n, cells] of a site with one query. */
static void give(fv_ctx *ctx, const fv_pass *pass, const char *site, fv_tensor *weights)
{
    if (!is_wanted(pass, site)) return;
    fv_capture_give(ctx, pass, site, fv_unsqueeze(ctx, fv_unsqueeze(ctx, weights, 1), 1));
}

static void add_site(const fv_vqa *m, const char *name, fv_site *out, int capacity, int *count)
{
    if (*count < capacity) {
        out[*count] = (fv_site){.heads = 1,
                                .queries = FV_AXIS_TOKENS,
                                .keys = FV_AXIS_CELLS,
                                .rows = m->rows,
                                .cols = m->cols};
        snprintf(out[*count].name, sizeof out[*count].name, "%s", name);
    }
    ++*count;
}

/* ---- words ---------------------------------------------------------------------------------- */

static int64_t word_features(const fv_vqa *m) { return m->hops * m->width; }

/* Scores initially have a variance of about 1, so that no cell starts without a gradient. */
static fv_status create_words(fv_vqa *m, fv_params *params)
{
    const double std = 1 / sqrt((double)m->width * (double)m->embedding);
    FV_TRY(
        fv_dense_create(params, "hop.0.words", m->embedding, m->width, false, std, &m->word_key));
    for (int i = 1; i < m->hops; i++) {
        char name[32];
        snprintf(name, sizeof name, "hop.%d.next", i);
        FV_TRY(fv_dense_create(params, name, 2 * m->width, m->width, true, 0, &m->next[i]));
        snprintf(name, sizeof name, "hop.%d.query", i);
        FV_TRY(fv_dense_create(params, name, m->width, m->width, false, 1 / (double)m->width,
                               &m->query[i]));
    }
    return FV_OK;
}

static fv_tensor *first_hop(fv_ctx *ctx, const fv_vqa *m, fv_tensor *cells,
                            const fv_vqa_question *q, const fv_pass *pass)
{
    const bool wanted = is_wanted(pass, WORDS_SITE);
    fv_tensor *by_word = NULL, *words = fv_dense_run(ctx, &m->word_key, q->words);
    fv_tensor *weights =
        fv_vqa_weights_by_words(ctx, cells, words, q->padding, wanted ? &by_word : NULL);
    if (wanted) fv_capture_give(ctx, pass, WORDS_SITE, fv_unsqueeze(ctx, by_word, 1));
    give(ctx, pass, "hop.0", weights);
    return fv_vqa_read_cells(ctx, weights, cells);
}

static fv_tensor *run_words(fv_ctx *ctx, const fv_vqa *m, fv_tensor *cells,
                            const fv_vqa_question *q, const fv_pass *pass)
{
    fv_tensor *o[FV_VQA_HOPS];
    o[0] = first_hop(ctx, m, cells, q, pass);
    for (int i = 1; i < m->hops; i++) {
        char site[32];
        fv_tensor *next = fv_concat(ctx, 2, (fv_tensor *[]){q->vector, o[i - 1]}, 1);
        next = fv_relu(ctx, fv_dense_run(ctx, &m->next[i], next));
        fv_tensor *weights =
            fv_vqa_weights_by_vector(ctx, cells, fv_dense_run(ctx, &m->query[i], next));
        snprintf(site, sizeof site, "hop.%d", i);
        give(ctx, pass, site, weights);
        o[i] = fv_vqa_read_cells(ctx, weights, cells);
    }
    return m->hops == 1 ? o[0] : fv_concat(ctx, m->hops, o, 1);
}

static int word_sites(const fv_vqa *m, fv_site *out, int capacity)
{
    int count = 0;
    add_site(m, WORDS_SITE, out, capacity, &count);
    for (int i = 0; i < m->hops; i++) {
        char name[32];
        snprintf(name, sizeof name, "hop.%d", i);
        add_site(m, name, out, capacity, &count);
    }
    return count;
}

/* ---- maps ----------------------------------------------------------------------------------- */

static int64_t map_features(const fv_vqa *m) { return FV_VQA_MAPS * m->width; }

static fv_status create_maps(fv_vqa *m, fv_params *params)
{
    FV_TRY(fv_dense_create(params, "map.cells", m->width, m->width, true, 0, &m->map_cells));
    FV_TRY(fv_dense_create(params, "map.question", m->width, m->width, false, 0, &m->map_question));
    return fv_dense_create(params, "map.scores", m->width, FV_VQA_MAPS, false, 0, &m->map_scores);
}

static fv_tensor *run_maps(fv_ctx *ctx, const fv_vqa *m, fv_tensor *cells, const fv_vqa_question *q,
                           const fv_pass *pass)
{
    fv_tensor *o[FV_VQA_MAPS];
    fv_tensor *about = fv_unsqueeze(ctx, fv_dense_run(ctx, &m->map_question, q->vector), 1);
    fv_tensor *h = fv_relu(ctx, fv_add(ctx, fv_dense_run(ctx, &m->map_cells, cells), about));
    fv_tensor *weights = fv_softmax(ctx, fv_dense_run(ctx, &m->map_scores, h), 1);
    for (int g = 0; g < FV_VQA_MAPS; g++) {
        char site[32];
        fv_tensor *map = fv_squeeze(ctx, fv_slice(ctx, weights, 2, g, g + 1, 1), 2);
        snprintf(site, sizeof site, "map.%d", g);
        give(ctx, pass, site, map);
        o[g] = fv_vqa_read_cells(ctx, map, cells);
    }
    return fv_concat(ctx, FV_VQA_MAPS, o, 1);
}

static int map_sites(const fv_vqa *m, fv_site *out, int capacity)
{
    int count = 0;
    for (int g = 0; g < FV_VQA_MAPS; g++) {
        char name[32];
        snprintf(name, sizeof name, "map.%d", g);
        add_site(m, name, out, capacity, &count);
    }
    return count;
}

/* ---- pool ----------------------------------------------------------------------------------- */

static int64_t pool_features(const fv_vqa *m) { return m->rows * m->cols * m->width; }

static fv_status create_pool(fv_vqa *m, fv_params *params)
{
    (void)m;
    return fv_params_ctx(params)->error;
}

static fv_tensor *run_pool(fv_ctx *ctx, const fv_vqa *m, fv_tensor *cells, const fv_vqa_question *q,
                           const fv_pass *pass)
{
    (void)q;
    (void)pass;
    return fv_reshape(ctx, cells, 2, (int64_t[]){-1, pool_features(m)});
}

static int pool_sites(const fv_vqa *m, fv_site *out, int capacity)
{
    (void)m;
    (void)out;
    (void)capacity;
    return 0;
}

/* ---- self ----------------------------------------------------------------------------------- */

static int64_t self_features(const fv_vqa *m) { return m->width; }

static fv_status create_self(fv_vqa *m, fv_params *params)
{
    fv_block_config cfg;
    FV_RETURN_IF(m->width % m->heads != 0, m->ctx, FV_ERR_ARGUMENT,
                 "vqa.heads %lld does not divide vqa.width %lld", (long long)m->heads,
                 (long long)m->width);
    fv_block_config_init(&cfg, sizeof cfg, m->width, m->heads);
    cfg.dropout = m->dropout;
    FV_TRY(fv_dense_create(params, "self.question", m->width, m->width, true, 0, &m->first));
    FV_TRY(fv_dense_create(params, "self.cells", m->width, m->width, true, 0, &m->place));
    FV_TRY(fv_dense_create(params, "self.about", m->width, m->width, false, 0, &m->about));
    for (int i = 0; i < m->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "encoder.%d", i);
        FV_TRY(fv_block_create(params, name, &cfg, &m->blocks[i]));
    }
    return fv_norm_layer_create(params, "norm", m->width, FV_NORM_LAYER, true, 1e-5, &m->norm);
}

static fv_tensor *run_block(fv_ctx *ctx, const fv_vqa *m, int layer, fv_tensor *x,
                            const fv_pass *pass)
{
    char site[32];
    fv_block_result result;
    snprintf(site, sizeof site, "encoder.%d.self", layer);
    const bool wanted = is_wanted(pass, site);
    fv_block_input in = {.x = x, .training = pass && pass->training};
    if (wanted) in.capture_self = pass->capture->options;
    x = fv_block_run(ctx, &m->blocks[layer], &in, &result);
    if (wanted) fv_capture_report(ctx, pass->capture, site, &result.self.captured);
    return x;
}

static fv_tensor *run_self(fv_ctx *ctx, const fv_vqa *m, fv_tensor *cells, const fv_vqa_question *q,
                           const fv_pass *pass)
{
    fv_tensor *question = fv_unsqueeze(ctx, fv_dense_run(ctx, &m->first, q->vector), 1);
    fv_tensor *about = fv_unsqueeze(ctx, fv_dense_run(ctx, &m->about, q->vector), 1);
    fv_tensor *x = fv_add(ctx, fv_dense_run(ctx, &m->place, cells), about);
    x = fv_concat(ctx, 2, (fv_tensor *[]){question, x}, 1);
    for (int i = 0; i < m->layers; i++)
        x = run_block(ctx, m, i, x, pass);
    return fv_norm_layer_run(ctx, &m->norm, fv_squeeze(ctx, fv_slice(ctx, x, 1, 0, 1, 1), 1));
}

static int self_sites(const fv_vqa *m, fv_site *out, int capacity)
{
    int count = 0;
    for (int i = 0; i < m->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "encoder.%d.self", i);
        add_site(m, name, out, capacity, &count);
        if (count > capacity) continue;
        out[i].heads = m->heads;
        out[i].queries = FV_AXIS_CELLS;
        out[i].before = 1; /* the question */
    }
    return count;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* In the order of the choices of vqa.form. */
static const fv_vqa_form forms[] = {
    {"words", word_features, create_words, run_words, word_sites},
    {"maps", map_features, create_maps, run_maps, map_sites},
    {"pool", pool_features, create_pool, run_pool, pool_sites},
    {"self", self_features, create_self, run_self, self_sites},
};

const fv_vqa_form *fv_vqa_form_at(int form) { return &forms[form]; }
