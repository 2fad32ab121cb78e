/* Metrics of the captions task on held-out data, and samples. */
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/text_metric.h"
#include "fovea/translate.h"
#include "text/codepoints.h"
#include "text/edit_distance.h"
#include "train/tasks/captions.h"

/* Sums over the examples so far. */
typedef struct sums {
    double loss, tokens, texts, exact;
    double characters, character_errors, words, word_errors;
    double places, on_place;
    double recordings, monotone; /* attention over frames never goes back */
    fv_text_metric *bleu, *chrf;
} sums;

/* ---- where the model looks ------------------------------------------------------------------ */

/* How positions of the encoder lie on the input: cells of a grid, or frames in a row. */
typedef struct layout {
    int64_t rows, cols;   /* of cells */
    double height, width; /* of a picture in pixels; of a recording, 1 and its frames */
} layout;

static layout layout_of(const fv_captions_task *run, const fv_site *site, int64_t positions)
{
    const fv_media_facts *facts = run->media.facts;
    if (site->keys == FV_AXIS_CELLS && site->rows * site->cols == positions)
        return (layout){.rows = site->rows,
                        .cols = site->cols,
                        .height = (double)facts->shape[1],
                        .width = (double)facts->shape[2]};
    int64_t longest = 1;
    for (int64_t i = 0; i < run->media.rows.count; i++)
        if (run->media.rows.length[i] > longest) longest = run->media.rows.length[i];
    return (layout){.rows = 1, .cols = positions, .height = 1, .width = (double)longest};
}

/* Whether a position lies on a place: its cell and the box overlap. */
static bool lies_on(const layout *l, int64_t position, const fv_media_place *p)
{
    const double wide = l->width / (double)l->cols, high = l->height / (double)l->rows;
    const double x = wide * (double)(position % l->cols), y = high * (double)(position / l->cols);
    const bool across = x + wide > (double)p->x0 && x < (double)p->x1;
    return across && (p->y1 <= p->y0 || (y + high > (double)p->y0 && y < (double)p->y1));
}

static int64_t strongest(const float *weights, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (weights[i] > weights[best]) best = i;
    return best;
}

static bool are_characters(const fv_captions_task *run)
{
    return strcmp(fv_recipe_text(run->media.recipe, "tokens.kind"), "char") == 0;
}

/* With these kinds of tokenizer the token of a set's word is known. */
static bool words_are_tokens(const fv_captions_task *run)
{
    return are_characters(run) ||
           strcmp(fv_recipe_text(run->media.recipe, "tokens.kind"), "word") == 0;
}

int64_t fv_captions_token_of(const char *text, int word, bool characters)
{
    if (!characters || !strchr(text, ' ')) return word;
    int64_t token = 0;
    for (; *text && word > 0; text++) {
        if (*text == ' ') word--;
        token += ((unsigned char)*text & 0xC0) != 0x80; /* not inside a code point */
    }
    return token;
}

bool fv_captions_is_monotone(const float *weights, int64_t tokens, int64_t positions)
{
    int64_t last = 0;
    for (int64_t t = 0; t < tokens; t++) {
        const int64_t at = strongest(weights + t * positions, positions);
        if (at < last) return false;
        last = at;
    }
    return true;
}

static fv_status count_places(fv_captions_task *run, fv_model *model, const fv_batch *batch,
                              const fv_media_example *examples, sums *s)
{
    fv_ctx *ctx = run->media.ctx;
    const fv_model_kind *kind = fv_model_kind_of(model);
    fv_site site;
    if (!words_are_tokens(run) || !kind->align || !kind->attention_sites ||
        kind->attention_sites(fv_model_self(model), &site, 1) < 1)
        return FV_OK;
    fv_tensor *map = kind->align(ctx, fv_model_self(model), batch);
    if (ctx->error != FV_OK) return ctx->error;
    const int64_t steps = fv_tensor_size(map, 1), positions = fv_tensor_size(map, 2);
    const layout l = layout_of(run, &site, positions);
    const size_t bytes = (size_t)(batch->rows * steps * positions) * sizeof(float);
    float *weights = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!weights, ctx, FV_ERR_MEMORY, "no memory for attention weights");
    const fv_status status = fv_tensor_read(ctx, map, weights, bytes);
    for (int64_t i = 0; status == FV_OK && i < batch->rows; i++) {
        const float *map_of_row = weights + i * steps * positions;
        for (int p = 0; p < examples[i].places; p++) {
            const fv_media_place *place = &examples[i].place[p];
            const int64_t token =
                fv_captions_token_of(examples[i].text, place->word, are_characters(run));
            if (token >= run->target_count[i]) continue;
            const float *row = map_of_row + token * positions;
            s->places++;
            s->on_place += lies_on(&l, strongest(row, positions), place) ? 1 : 0;
        }
        if (site.keys != FV_AXIS_FRAMES) continue;
        s->recordings++;
        s->monotone += fv_captions_is_monotone(map_of_row, run->target_count[i], positions) ? 1 : 0;
    }
    fv_mem_free(&ctx->mem, weights, bytes);
    return status;
}

/* ---- texts ---------------------------------------------------------------------------------- */

static fv_status compare(fv_ctx *ctx, const char *found, const char *expected, sums *s)
{
    const fv_string text = {found, strlen(found)}, reference = {expected, strlen(expected)};
    int64_t errors = 0, units = 0;
    s->texts++;
    s->exact += strcmp(found, expected) == 0 ? 1 : 0;
    FV_TRY(fv_edit_distance(ctx, text, reference, FV_EDIT_CHARACTERS, &errors, &units));
    s->character_errors += (double)errors;
    s->characters += (double)units;
    FV_TRY(fv_edit_distance(ctx, text, reference, FV_EDIT_WORDS, &errors, &units));
    s->word_errors += (double)errors;
    s->words += (double)units;
    FV_TRY(fv_text_metric_add(s->bleu, text, &reference, 1));
    return fv_text_metric_add(s->chrf, text, &reference, 1);
}

/* Longer than any training text, so that a model that does not end is seen. */
static int64_t most_tokens(const fv_captions_task *run)
{
    return run->train.longest + run->train.longest / 2 + 5;
}

static fv_status describe(fv_captions_task *run, fv_model *model, const fv_batch *batch,
                          fv_translations **out)
{
    fv_search_config how;
    fv_search_config_init(&how, sizeof how);
    how.beam = (int)fv_recipe_int(run->media.recipe, "eval.beam");
    how.no_scores = true;
    return fv_describe(model, batch, most_tokens(run), &how, out);
}

/* ---- a batch of held-out examples ------------------------------------------------------------ */

/* Reads rows and their examples, and makes a batch of both. */
static fv_status read_held_out(fv_captions_task *run, fv_media_part part, int64_t first, int64_t n,
                               fv_media_example *examples, int64_t *which, fv_batch *out)
{
    FV_TRY(fv_media_task_read(&run->media, part, first, n));
    run->held_out.count = 0;
    for (int64_t i = 0; i < n; i++) {
        FV_TRY(fv_media_get(run->media.set, part, first + i, NULL, &examples[i]));
        FV_TRY(fv_captions_encode(run, examples[i].text, &run->held_out));
        which[i] = i;
    }
    return fv_captions_batch_of(run, &run->held_out, which, 0, n, out);
}

static fv_status add_loss(fv_captions_task *run, fv_model *model, const fv_batch *batch, sums *s)
{
    double value = 0;
    fv_ctx *ctx = run->media.ctx;
    fv_tensor *loss = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), batch, NULL);
    FV_TRY(fv_tensor_item(ctx, loss, &value));
    s->loss += value;
    s->tokens += (double)fv_batch_target_tokens(batch);
    return FV_OK;
}

static fv_status add_texts(fv_captions_task *run, fv_model *model, const fv_batch *batch,
                           const fv_media_example *examples, sums *s)
{
    fv_translations *all = NULL;
    FV_TRY(describe(run, model, batch, &all));
    fv_status status = FV_OK;
    for (int64_t i = 0; status == FV_OK && i < batch->rows; i++)
        status = compare(run->media.ctx, fv_translations_get(all, i, 0)->text, examples[i].text, s);
    fv_translations_free(&all);
    return status;
}

static fv_status add_batch(fv_captions_task *run, fv_model *model, fv_media_part part,
                           int64_t first, int64_t n, sums *s)
{
    fv_ctx *ctx = run->media.ctx;
    const size_t bytes = (size_t)n * (sizeof(fv_media_example) + sizeof(int64_t));
    fv_media_example *examples = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!examples, ctx, FV_ERR_MEMORY, "no memory for a validation");
    fv_batch batch;
    fv_status status =
        read_held_out(run, part, first, n, examples, (int64_t *)(examples + n), &batch);
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    if (status == FV_OK) status = add_loss(run, model, &batch, s);
    if (status == FV_OK) status = add_texts(run, model, &batch, examples, s);
    if (status == FV_OK) status = count_places(run, model, &batch, examples, s);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    fv_mem_free(&ctx->mem, examples, bytes);
    return status;
}

/* ---- metrics -------------------------------------------------------------------------------- */

static fv_status make_scorers(fv_ctx *ctx, sums *s)
{
    fv_text_metric_config cfg;
    fv_text_metric_config_init(&cfg, sizeof cfg, FV_TEXT_METRIC_BLEU);
    cfg.order = 1;
    FV_TRY(fv_text_metric_create(ctx, &cfg, &s->bleu));
    fv_text_metric_config_init(&cfg, sizeof cfg, FV_TEXT_METRIC_CHRF);
    return fv_text_metric_create(ctx, &cfg, &s->chrf);
}

static fv_status score_of(fv_text_metric *metric, double *out)
{
    fv_text_metric_result result = {.struct_size = sizeof result};
    FV_TRY(fv_text_metric_compute(metric, &result));
    *out = result.score;
    return FV_OK;
}

static double percent(double part, double all) { return all > 0 ? 100 * part / all : 0; }

/* eval.metric has the choices loss, bleu (here of single words) and exact; it comes first. */
static fv_status give_metrics(const fv_captions_task *run, const sums *s, fv_metric *metrics,
                              int *count)
{
    enum { LOSS, BLEU, EXACT, FIRST };
    static const char *const names[FIRST] = {"loss", "bleu1", "exact"};
    double values[FIRST] = {[LOSS] = s->loss / s->tokens, [EXACT] = percent(s->exact, s->texts)},
           chrf = 0;
    FV_TRY(score_of(s->bleu, &values[BLEU]));
    FV_TRY(score_of(s->chrf, &chrf));
    const int first = fv_recipe_choice(run->media.recipe, "eval.metric");
    fv_metric_add(metrics, count, names[first], values[first], first != LOSS);
    for (int i = 0; i < FIRST; i++)
        if (i != first) fv_metric_add(metrics, count, names[i], values[i], i != LOSS);
    fv_metric_add(metrics, count, "chrf", chrf, true);
    fv_metric_add(metrics, count, "character_error", percent(s->character_errors, s->characters),
                  false);
    fv_metric_add(metrics, count, "word_error", percent(s->word_errors, s->words), false);
    if (s->places > 0)
        fv_metric_add(metrics, count, "on_place", percent(s->on_place, s->places), true);
    if (s->recordings > 0)
        fv_metric_add(metrics, count, "monotone", percent(s->monotone, s->recordings), true);
    return FV_OK;
}

fv_status fv_captions_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    fv_captions_task *run = self;
    int64_t all = 0;
    const fv_media_part part = fv_media_task_held_out(&run->media, &all);
    sums s = {.loss = 0};
    fv_status status = make_scorers(run->media.ctx, &s);
    for (int64_t first = 0; status == FV_OK && first < all; first += run->media.batch) {
        const int64_t n = all - first < run->media.batch ? all - first : run->media.batch;
        status = add_batch(run, model, part, first, n, &s);
    }
    if (status == FV_OK) status = give_metrics(run, &s, metrics, count);
    fv_text_metric_destroy(&s.bleu);
    fv_text_metric_destroy(&s.chrf);
    return status;
}

/* ---- samples -------------------------------------------------------------------------------- */

static fv_status add_line(fv_ctx *ctx, fv_text *out, const char *head, const char *text)
{
    FV_TRY(fv_text_append(ctx, out, head, strlen(head)));
    FV_TRY(fv_text_append(ctx, out, text, strlen(text)));
    return fv_text_append(ctx, out, "\n", 1);
}

/* The text and what the model writes for the first held-out examples, a line each. */
fv_status fv_captions_show(void *self, fv_model *model, int count, fv_text *out)
{
    enum { MOST = 16 };
    fv_captions_task *run = self;
    fv_ctx *ctx = run->media.ctx;
    fv_media_example e;
    fv_translations *texts = NULL;
    int64_t all = 0;
    const fv_media_part part = fv_media_task_held_out(&run->media, &all);
    const int64_t asked = count < MOST ? count : MOST, n = asked < all ? asked : all;
    if (n < 1) return FV_OK;
    FV_TRY(fv_media_task_read(&run->media, part, 0, n));
    const fv_batch batch = fv_media_rows_batch(&run->media.rows, 0, n);
    FV_TRY(describe(run, model, &batch, &texts));
    fv_status status = FV_OK;
    for (int64_t i = 0; status == FV_OK && i < n; i++) {
        status = fv_media_get(run->media.set, part, i, NULL, &e);
        if (status == FV_OK) status = add_line(ctx, out, "reference   ", e.text);
        if (status == FV_OK)
            status = add_line(ctx, out, "hypothesis  ", fv_translations_get(texts, i, 0)->text);
    }
    fv_translations_free(&texts);
    return status;
}
