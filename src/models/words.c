/* The nearest words, and words in a plane (fovea/words.h). */
#include "fovea/words.h"

#include <math.h>
#include <string.h>

#include "models/word2vec.h"

/* ---- words ---------------------------------------------------------------------------------- */

static fv_status check_kind(const fv_model *model)
{
    FV_RETURN_IF(model->kind != &fv_kind_word2vec, model->ctx, FV_ERR_UNSUPPORTED,
                 "words: a %s model has no vectors of words", model->kind->name);
    return FV_OK;
}

int64_t fv_words_first(const fv_model *model)
{
    const fv_tokenizer *tok = model->spec.source;
    int64_t first = 0;
    while (first < (int64_t)fv_tokenizer_vocab_size(tok) && fv_tokenizer_is_special(tok, first))
        first++;
    return first;
}

int64_t fv_words_count(const fv_model *model)
{
    return (int64_t)fv_tokenizer_vocab_size(model->spec.source) - fv_words_first(model);
}

const char *fv_words_text(const fv_model *model, int64_t id)
{
    return fv_tokenizer_id_to_token(model->spec.source, id).text;
}

fv_status fv_words_find(fv_model *model, const char *word, int64_t *id)
{
    FV_TRY(check_kind(model));
    const fv_tokenizer *tok = model->spec.source;
    const int64_t found = fv_tokenizer_token_to_id(tok, word, strlen(word));
    if (found >= 0 && !fv_tokenizer_is_special(tok, found)) {
        *id = found;
        return FV_OK;
    }
    fv_nearest nearest;
    fv_nearest_init(&nearest, word);
    for (int64_t i = fv_words_first(model); i < (int64_t)fv_tokenizer_vocab_size(tok); i++) {
        const fv_string other = fv_tokenizer_id_to_token(tok, i);
        if (other.text) fv_nearest_add(&nearest, other.text, other.bytes);
    }
    const char *best = fv_nearest_best(&nearest);
    return fv_fail(model->ctx, FV_ERR_ARGUMENT, "the model does not know the word '%.80s'%s%.80s%s",
                   word, best ? "; did you mean '" : "", best ? best : "", best ? "'?" : "");
}

/* ---- vectors -------------------------------------------------------------------------------- */

/* All vectors on the host. */
typedef struct vectors {
    fv_ctx *ctx;
    int64_t words, width;
    float *values;
} vectors;

static size_t bytes_of(const vectors *v)
{
    return (size_t)(v->words * v->width) * sizeof *v->values;
}

static void free_vectors(vectors *v)
{
    if (v->values) fv_mem_free(&v->ctx->mem, v->values, bytes_of(v));
}

static fv_status read_vectors(const fv_model *model, vectors *out)
{
    FV_TRY(check_kind(model));
    const fv_tensor *table = ((const fv_word2vec *)model->self)->inputs;
    *out = (vectors){.ctx = model->ctx, .words = table->shape[0], .width = table->shape[1]};
    out->values = fv_mem_alloc(&model->ctx->mem, bytes_of(out));
    FV_RETURN_IF(!out->values, model->ctx, FV_ERR_MEMORY, "no memory for %lld vectors",
                 (long long)out->words);
    const fv_status status = fv_tensor_read(model->ctx, table, out->values, bytes_of(out));
    if (status != FV_OK) free_vectors(out);
    return status;
}

static double length_of(const vectors *v, int64_t word)
{
    const float *x = v->values + word * v->width;
    double sum = 0;
    for (int64_t k = 0; k < v->width; k++)
        sum += (double)x[k] * (double)x[k];
    return sqrt(sum);
}

/* sum += factor * unit vector of the word. */
static void add_unit(const vectors *v, int64_t word, double factor, double *sum)
{
    const float *x = v->values + word * v->width;
    const double length = length_of(v, word), scale = length > 0 ? factor / length : 0;
    for (int64_t k = 0; k < v->width; k++)
        sum[k] += scale * (double)x[k];
}

static fv_status check_ids(const vectors *v, const int64_t *ids, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        FV_RETURN_IF(ids[i] < 0 || ids[i] >= v->words, v->ctx, FV_ERR_ARGUMENT,
                     "words: number %lld, expected 0 to %lld", (long long)ids[i],
                     (long long)v->words - 1);
    return FV_OK;
}

/* ---- the nearest words ---------------------------------------------------------------------- */

static bool is_among(const int64_t *ids, int count, int64_t id)
{
    for (int i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

/* Keeps `out` sorted; ids come in rising order, so an equal cosine goes behind. */
static void insert(fv_word_match *out, int count, int *found, fv_word_match m)
{
    int at = *found;
    while (at > 0 && out[at - 1].cosine < m.cosine)
        at--;
    if (at == count) return;
    const int moved = (*found < count ? *found : count - 1) - at;
    memmove(out + at + 1, out + at, (size_t)moved * sizeof *out);
    out[at] = m;
    if (*found < count) ++*found;
}

static void search(const fv_model *model, const vectors *v, const fv_words_query *q,
                   const double *sum, int count, fv_word_match *out, int *found)
{
    double norm = 0;
    for (int64_t k = 0; k < v->width; k++)
        norm += sum[k] * sum[k];
    for (int64_t id = fv_words_first(model); id < v->words; id++) {
        const double length = length_of(v, id) * sqrt(norm);
        if (length <= 0 || is_among(q->plus, q->plus_count, id) ||
            is_among(q->minus, q->minus_count, id))
            continue;
        double dot = 0;
        for (int64_t k = 0; k < v->width; k++)
            dot += sum[k] * (double)v->values[id * v->width + k];
        const fv_word_match m = {id, fv_words_text(model, id), dot / length};
        if (m.word) insert(out, count, found, m);
    }
}

static fv_status nearest(const fv_model *model, const vectors *v, const fv_words_query *q,
                         int count, fv_word_match *out, int *found)
{
    const size_t bytes = (size_t)v->width * sizeof(double);
    FV_TRY(check_ids(v, q->plus, q->plus_count));
    FV_TRY(check_ids(v, q->minus, q->minus_count));
    double *sum = fv_mem_zalloc(&v->ctx->mem, bytes);
    FV_RETURN_IF(!sum, v->ctx, FV_ERR_MEMORY, "no memory for a vector");
    for (int i = 0; i < q->plus_count; i++)
        add_unit(v, q->plus[i], 1, sum);
    for (int i = 0; i < q->minus_count; i++)
        add_unit(v, q->minus[i], -1, sum);
    *found = 0;
    search(model, v, q, sum, count, out, found);
    fv_mem_free(&v->ctx->mem, sum, bytes);
    return FV_OK;
}

fv_status fv_words_nearest(fv_model *model, const fv_words_query *query, int count,
                           fv_word_match *out, int *found)
{
    vectors v;
    FV_RETURN_IF(count < 1 || query->plus_count < 0 || query->minus_count < 0 ||
                     query->plus_count + query->minus_count < 1,
                 model->ctx, FV_ERR_ARGUMENT, "words: a query without words or results");
    FV_TRY(read_vectors(model, &v));
    const fv_status status = nearest(model, &v, query, count, out, found);
    free_vectors(&v);
    return status;
}

/* ---- the plane ------------------------------------------------------------------------------ */

/* Unit vectors of some words minus their mean, [count, width], and two components. */
typedef struct cloud {
    int64_t count, width;
    double *x, *component[2], *next;
} cloud;

static void centre(const vectors *v, const int64_t *ids, cloud *c)
{
    for (int64_t i = 0; i < c->count; i++)
        add_unit(v, ids[i], 1, c->x + i * c->width);
    for (int64_t k = 0; k < c->width; k++) {
        double mean = 0;
        for (int64_t i = 0; i < c->count; i++)
            mean += c->x[i * c->width + k] / (double)c->count;
        for (int64_t i = 0; i < c->count; i++)
            c->x[i * c->width + k] -= mean;
    }
}

static double dot(int64_t n, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

/* Power iteration with the covariance; the second component stays orthogonal to the first. */
static void find_component(cloud *c, int which)
{
    enum { ROUNDS = 300 };
    double *u = c->component[which];
    for (int64_t k = 0; k < c->width; k++)
        u[k] = 1.0 / (double)(1 + (k + 3 * which) % 7);
    for (int round = 0; round < ROUNDS; round++) {
        memset(c->next, 0, (size_t)c->width * sizeof *c->next);
        for (int64_t i = 0; i < c->count; i++) {
            const double *x = c->x + i * c->width, along = dot(c->width, x, u);
            for (int64_t k = 0; k < c->width; k++)
                c->next[k] += along * x[k];
        }
        const double first = which ? dot(c->width, c->next, c->component[0]) : 0;
        for (int64_t k = 0; which && k < c->width; k++)
            c->next[k] -= first * c->component[0][k];
        const double norm = sqrt(dot(c->width, c->next, c->next));
        for (int64_t k = 0; k < c->width; k++)
            u[k] = norm > 0 ? c->next[k] / norm : 0;
    }
    int64_t largest = 0;
    for (int64_t k = 1; k < c->width; k++)
        if (fabs(u[k]) > fabs(u[largest])) largest = k;
    for (int64_t k = 0; u[largest] < 0 && k < c->width; k++)
        u[k] = -u[k];
}

static fv_status place(const vectors *v, const int64_t *ids, int64_t count, double *xy)
{
    FV_TRY(check_ids(v, ids, count));
    cloud c = {.count = count, .width = v->width};
    const size_t bytes = (size_t)((count + 3) * c.width) * sizeof(double);
    c.x = fv_mem_zalloc(&v->ctx->mem, bytes);
    FV_RETURN_IF(!c.x, v->ctx, FV_ERR_MEMORY, "no memory for %lld words", (long long)count);
    c.component[0] = c.x + count * c.width;
    c.component[1] = c.component[0] + c.width;
    c.next = c.component[1] + c.width;
    centre(v, ids, &c);
    for (int which = 0; which < 2; which++) {
        find_component(&c, which);
        for (int64_t i = 0; i < count; i++)
            xy[2 * i + which] = dot(c.width, c.x + i * c.width, c.component[which]);
    }
    fv_mem_free(&v->ctx->mem, c.x, bytes);
    return FV_OK;
}

fv_status fv_words_plane(fv_model *model, const int64_t *ids, int64_t count, double *xy)
{
    enum { MOST = 1 << 16 };
    vectors v;
    FV_RETURN_IF(count < 3 || count > MOST, model->ctx, FV_ERR_ARGUMENT,
                 "words: a plane of %lld words, expected 3 to %d", (long long)count, (int)MOST);
    FV_TRY(read_vectors(model, &v));
    const fv_status status = place(&v, ids, count, xy);
    free_vectors(&v);
    return status;
}
