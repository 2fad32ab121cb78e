/* The classes of texts, or of their tokens, with the names of the folder. */
#include "fovea/ops.h"
#include "models/text_encoder.h"

enum { TOGETHER = 32 }; /* texts in one pass */

struct fv_classifier {
    fv_text_encoder base;
    bool of_tokens;
    fv_classification *rows;
    int64_t capacity;
    fv_classifications found;
};

static fv_status read_kind(fv_text_encoder *base, const char *folder)
{
    (void)folder;
    ((fv_classifier *)base)->of_tokens =
        fv_data_spec_get(fv_model_spec(base->model), "label_tokens", 0) != 0;
    return FV_OK;
}

static const fv_text_encoder_kind classifies = {
    .ability = FV_CAN_CLASSIFY, .bytes = sizeof(fv_classifier), .prepare = read_kind};

fv_status fv_classifier_open(fv_ctx *ctx, const char *folder, fv_weight_form form,
                             fv_classifier **out)
{
    fv_text_encoder *base = NULL;
    FV_TRY(fv_text_encoder_open(ctx, folder, form, &classifies, &base));
    *out = (fv_classifier *)base;
    return FV_OK;
}

fv_status fv_classifier_take(fv_model **model, const char *folder, fv_weight_form form,
                             fv_classifier **out)
{
    fv_text_encoder *base = NULL;
    FV_TRY(fv_text_encoder_take(model, folder, form, &classifies, &base));
    *out = (fv_classifier *)base;
    return FV_OK;
}

void fv_classifier_close(fv_classifier **classifier)
{
    if (*classifier) fv_text_encoder_close(&(*classifier)->base);
    *classifier = NULL;
}

static fv_classification make_row(const fv_classifier *c, int64_t text, const float *p)
{
    const fv_data_spec *spec = fv_model_spec(c->base.model);
    int64_t best = 0;
    for (int64_t i = 1; i < c->found.classes; i++)
        if (p[i] > p[best]) best = i;
    return (fv_classification){
        .text = text, .best = best, .label = spec->labels ? spec->labels[best] : NULL, .p = p};
}

static fv_status classify(fv_text_encoder *base, void *user, int64_t first,
                          const fv_sequences *tokens)
{
    fv_classifier *c = user;
    fv_ctx *ctx = base->ctx;
    const fv_batch batch = fv_batch_of_tokens(tokens);
    const fv_tensor *t = fv_softmax(ctx, fv_model_classify(base->model, &batch, NULL), -1);
    float *p = NULL;
    FV_TRY(fv_text_encoder_read(base, t, &p));
    const int64_t classes = fv_tensor_size(t, -1), rows = fv_tensor_count(t) / classes;
    c->found.classes = classes;
    c->rows =
        fv_text_encoder_grow(base, c->rows, c->found.count, &c->capacity, rows, sizeof *c->rows);
    if (!c->rows) return FV_ERR_MEMORY;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t id = c->of_tokens ? tokens->tokens[0][i] : 0;
        if (c->of_tokens && fv_tokenizer_is_special(base->tok, id)) continue;
        fv_classification *row = &c->rows[c->found.count++];
        *row = make_row(c, c->of_tokens ? first : first + i, p + i * classes);
        if (!c->of_tokens) continue;
        row->token = fv_tokenizer_id_to_token(base->tok, id).text;
        row->begin = base->spans[i].begin;
        row->end = base->spans[i].end;
    }
    return FV_OK;
}

static void forget(fv_classifier *classifier)
{
    classifier->rows = NULL;
    classifier->capacity = 0;
    classifier->found = (fv_classifications){0};
}

fv_status fv_classify_texts(fv_classifier *classifier, int64_t count, const fv_string *texts,
                            const fv_classifications **out)
{
    forget(classifier);
    FV_TRY(fv_text_encoder_run(&classifier->base, count, texts,
                               classifier->of_tokens ? 1 : TOGETHER, classify, classifier));
    classifier->found.row = classifier->rows;
    *out = &classifier->found;
    return FV_OK;
}

fv_status fv_classify_pairs(fv_classifier *classifier, int64_t count, const fv_text_pair *pairs,
                            const fv_classifications **out)
{
    fv_ctx *ctx = classifier->base.ctx;
    FV_RETURN_IF(classifier->of_tokens, ctx, FV_ERR_UNSUPPORTED,
                 "classify: the model has classes of tokens, not of pairs of texts");
    forget(classifier);
    FV_TRY(
        fv_text_encoder_run_pairs(&classifier->base, count, pairs, TOGETHER, classify, classifier));
    classifier->found.row = classifier->rows;
    *out = &classifier->found;
    return FV_OK;
}

bool fv_classifier_reads_pairs(const fv_classifier *classifier)
{
    return fv_data_spec_get(fv_model_spec(classifier->base.model), "text_pairs", 0) != 0;
}
