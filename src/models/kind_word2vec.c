/*
 * Vectors of words, learned by predicting neighbours (Mikolov 2013). The model is two tables:
 * "inputs" and "outputs", one row for each token of the tokenizer. The task word2vec trains them
 * (train/tasks/word2vec.c); fovea/words.h finds the nearest words.
 */
#include "models/word2vec.h"

#include "fovea/ops.h"

enum { MOST_WIDTH = 4096 };

static const fv_key keys[] = {
    {"word2vec.width", FV_KEY_INT, "100", 1, MOST_WIDTH, NULL, "width of a word's vector"},
};

static fv_key_table word2vec_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

static void destroy(void *self)
{
    fv_word2vec *m = self;
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

/* As gensim begins: inputs uniform within 1 / width, outputs zero. */
static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(!spec->source, ctx, FV_ERR_ARGUMENT,
                 "model.kind is word2vec: such a model needs a tokenizer");
    fv_word2vec *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    m->ctx = ctx;
    const int64_t width = fv_recipe_int(recipe, "word2vec.width"),
                  words = (int64_t)fv_tokenizer_vocab_size(spec->source);
    const int64_t shape[] = {words, width};
    const double bound = 1.0 / (double)width;
    m->inputs =
        fv_params_add(params, "inputs", fv_rand_uniform(ctx, FV_F32, 2, shape, -bound, bound));
    m->outputs = fv_params_add(params, "outputs", fv_zeros(ctx, FV_F32, 2, shape));
    return ctx->error;
}

const fv_model_kind fv_kind_word2vec = {
    .struct_size = sizeof fv_kind_word2vec,
    .name = "word2vec",
    .types = "fovea-word2vec",
    .summary = "vectors of words, for the nearest words",
    .abilities = 1u << FV_CAN_RELATE,
    .keys = word2vec_keys,
    .create = create,
    .destroy = destroy,
};
