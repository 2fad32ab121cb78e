/*
 * Answers to questions about pictures (visual question answering): convolutions make a grid of
 * cells, an LSTM reads the question, the question attends to cells in one of four forms, and a
 * classifier chooses among the known answers. vqa.h has the formulas.
 */
#include "fovea/ops.h"
#include "models/vqa.h"
#include "ops/draw.h"
#include "tensor/tensor.h"

enum { MAX_WIDTH = 4096, MAX_FEATURES = 1 << 20 };

static const fv_key keys[] = {
    {"vqa.form", FV_KEY_CHOICE, "words", 0, 0, "words|maps|pool|self",
     "how the question reads the picture: guided by its words, by two maps, without attention, or "
     "by self-attention over cells and question"},
    {"vqa.hops", FV_KEY_INT, "2", 1, FV_VQA_HOPS, NULL, "form words: times the picture is read"},
    {"vqa.channels", FV_KEY_INT, "32", 1, MAX_WIDTH, NULL, "channels of the convolutions"},
    {"vqa.stages", FV_KEY_INT, "4", 1, FV_VQA_STAGES, NULL, "convolutions"},
    {"vqa.halvings", FV_KEY_INT, "3", 0, FV_VQA_STAGES, NULL,
     "first convolutions, which halve height and width"},
    {"vqa.width", FV_KEY_INT, "64", 1, MAX_WIDTH, NULL, "width of cells and of the question"},
    {"vqa.embedding", FV_KEY_INT, "32", 1, MAX_WIDTH, NULL, "width of a word's vector"},
    {"vqa.hidden", FV_KEY_INT, "128", 1, MAX_WIDTH, NULL, "width of the classifier's hidden layer"},
    {"vqa.layers", FV_KEY_INT, "2", 1, FV_VQA_LAYERS, NULL, "form self: blocks"},
    {"vqa.heads", FV_KEY_INT, "4", 1, 1024, NULL, "form self: attention heads"},
    {"vqa.dropout", FV_KEY_REAL, "0.1", 0, 0.95, NULL,
     "dropout of the classifier, and of sublayers in form self"},
};

static fv_key_table vqa_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    fv_vqa *m = self;
    fv_batch_norms_free(&m->norms);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

static fv_status check(fv_vqa *m, const fv_data_spec *spec)
{
    fv_ctx *ctx = m->ctx;
    FV_RETURN_IF(spec->ability != FV_CAN_ANSWER, ctx, FV_ERR_ARGUMENT,
                 "model.kind is vqa: such a model can answer questions about pictures, not %s",
                 fv_ability_name(spec->ability));
    FV_RETURN_IF(!spec->source, ctx, FV_ERR_ARGUMENT,
                 "vqa: expected a tokenizer for the words of questions");
    FV_RETURN_IF(m->halvings > m->stages, ctx, FV_ERR_ARGUMENT,
                 "vqa.halvings is %d, expected at most vqa.stages, %d", m->halvings, m->stages);
    return fv_picture_input_sizes(ctx, "vqa", spec, &m->in);
}

static fv_status create_question(fv_vqa *m, fv_params *params, int64_t vocabulary)
{
    fv_rnn_config rnn;
    fv_rnn_config_init(&rnn, sizeof rnn);
    rnn.cell = FV_CELL_LSTM;
    rnn.input = m->embedding;
    rnn.hidden = m->width;
    FV_TRY(fv_embedding_create(params, "question.words", vocabulary, m->embedding, 0, &m->table));
    return fv_rnn_create(params, "question.rnn", &rnn, &m->rnn);
}

static fv_status create_layers(fv_vqa *m, fv_params *params, const fv_data_spec *spec)
{
    FV_TRY(fv_vqa_grid_create(m, params));
    FV_TRY(create_question(m, params, (int64_t)fv_tokenizer_vocab_size(spec->source)));
    FV_TRY(m->form->create(m, params));
    const int64_t features = m->width + m->form->features(m);
    FV_RETURN_IF(features > MAX_FEATURES, m->ctx, FV_ERR_ARGUMENT,
                 "vqa.form %s reads %lld numbers from a picture, expected at most %d: try a larger "
                 "vqa.halvings",
                 m->form->name, (long long)features, MAX_FEATURES);
    FV_TRY(fv_dense_create(params, "hidden", features, m->hidden, true, 0, &m->hidden_layer));
    return fv_dense_create(params, "classes", m->hidden, m->in.classes, true, 0, &m->classes);
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_vqa *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    m->ctx = ctx;
    m->form = fv_vqa_form_at(fv_recipe_choice(recipe, "vqa.form"));
    m->hops = (int)fv_recipe_int(recipe, "vqa.hops");
    m->channels = fv_recipe_int(recipe, "vqa.channels");
    m->stages = (int)fv_recipe_int(recipe, "vqa.stages");
    m->halvings = (int)fv_recipe_int(recipe, "vqa.halvings");
    m->width = fv_recipe_int(recipe, "vqa.width");
    m->embedding = fv_recipe_int(recipe, "vqa.embedding");
    m->hidden = fv_recipe_int(recipe, "vqa.hidden");
    m->layers = (int)fv_recipe_int(recipe, "vqa.layers");
    m->heads = fv_recipe_int(recipe, "vqa.heads");
    m->dropout = fv_recipe_real(recipe, "vqa.dropout");
    FV_TRY(check(m, spec));
    return create_layers(m, params, spec);
}

/* ---- passes --------------------------------------------------------------------------------- */

static fv_tensor *answer(fv_ctx *ctx, fv_vqa *m, const fv_batch *inputs, const fv_pass *pass,
                         const fv_sequences *questions, const fv_packed_sequences *p)
{
    const bool training = pass && pass->training;
    fv_rnn_state last;
    fv_tensor *cells = fv_vqa_grid_run(ctx, m, inputs, training);
    fv_tensor *tokens = fv_packed_tokens(ctx, p, questions->tokens);
    fv_tensor *words = fv_embedding(ctx, m->table, tokens, -1);
    fv_rnn_run(ctx, &m->rnn, words, p, NULL, training, &last);
    if (ctx->error != FV_OK) return ctx->invalid;
    const fv_vqa_question q = {.vector = last.h[0][0],
                               .words = fv_packed_pad(ctx, p, words, NULL),
                               .padding = fv_packed_padding_mask(ctx, p)};
    fv_tensor *read = m->form->run(ctx, m, cells, &q, pass);
    fv_tensor *h = fv_concat(ctx, 2, (fv_tensor *[]){q.vector, read}, 1);
    h = fv_relu(ctx, fv_dense_run(ctx, &m->hidden_layer, h));
    if (training && m->dropout > 0) h = fv_dropout(ctx, h, m->dropout);
    return fv_dense_run(ctx, &m->classes, h);
}

static fv_tensor *classify(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    const fv_sequences questions = fv_batch_sequences(inputs, "question");
    fv_packed_sequences p;
    if (ctx->error != FV_OK) return ctx->invalid;
    if (questions.count != inputs->rows || inputs->rows < 1) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "the batch has no \"question\" for each picture");
        return ctx->invalid;
    }
    const fv_status status = fv_pack_sequences(ctx, questions.count, questions.length, &p);
    if (status != FV_OK) {
        fv_make_last_failure_sticky(ctx, status);
        return ctx->invalid;
    }
    fv_tensor *logits = answer(ctx, self, inputs, pass, &questions, &p);
    fv_packed_free(&p);
    return ctx->error == FV_OK ? logits : ctx->invalid;
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    return fv_picture_input_loss(ctx, batch, classify(ctx, self, batch, pass));
}

static fv_status step_done(void *self, uint64_t step, int phase)
{
    fv_vqa *m = self;
    (void)step;
    (void)phase;
    return fv_batch_norms_step(&m->norms);
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const fv_vqa *m = self;
    return m->form->sites(m, out, capacity);
}

const fv_model_kind fv_kind_vqa = {
    .struct_size = sizeof fv_kind_vqa,
    .name = "vqa",
    .types = "fovea-vqa",
    .summary = "answers to questions about pictures, by attention over a grid",
    .abilities = 1u << FV_CAN_ANSWER,
    .keys = vqa_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .classify = classify,
    .attention_sites = sites,
    .step_done = step_done,
};
