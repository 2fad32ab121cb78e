/* A model folder opened for generation: weights, tokenizer, cache. */
#include "base/ctx.h"
#include "io/file.h"
#include "models/generate.h"
#include "models/model.h"
#include "models/transformer.h"

struct fv_generator {
    fv_ctx *ctx;
    fv_model *model;
    fv_transformer *transformer;
    fv_tokenizer *tok;     /* of what is read */
    fv_tokenizer *written; /* of the target, where it has a vocabulary of its own */
    fv_tokenizer_encoder *enc;
    fv_cache *cache;
    int64_t bos; /* of an empty prompt; -1: none */
};

/* Documents are separated by it in training, so that a new one can begin after it. */
static const char end_of_text[] = "<|endoftext|>";

static fv_status load_words(fv_generator *g, const char *folder)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_tokenizer_load(g->ctx, folder, &g->tok));
    FV_TRY(fv_path_join(g->ctx, path, folder, "target_vocab.json"));
    if (fv_file_exists(g->ctx, path)) FV_TRY(fv_tokenizer_load_target(g->ctx, folder, &g->written));
    return fv_tokenizer_encoder_create(g->ctx, g->tok, &g->enc);
}

static fv_status prepare(fv_generator *g, const char *folder, fv_weight_form form)
{
    fv_ctx *ctx = g->ctx;
    g->transformer = fv_model_transformer(g->model);
    const bool decodes = g->transformer
                             ? fv_transformer_settings(g->transformer)->decoder_layers > 0
                             : fv_model_kind_of(g->model)->make_stepper != NULL &&
                                   fv_model_can(g->model, FV_CAN_GENERATE);
    FV_RETURN_IF(!decodes, ctx, FV_ERR_UNSUPPORTED,
                 "%.200s: a %s model does not generate text, expected a language model or a "
                 "Transformer with a decoder",
                 folder, fv_model_type(g->model));
    FV_RETURN_IF(!g->transformer && form != FV_WEIGHT_F32, ctx, FV_ERR_UNSUPPORTED,
                 "%.200s: the weights of a %s model stay in f32; other types are for Transformers",
                 folder, fv_model_type(g->model));
    FV_TRY(load_words(g, folder));
    g->bos = fv_generator_defaults(g)
                 ? fv_generator_defaults(g)->bos
                 : fv_tokenizer_token_to_id(g->tok, end_of_text, sizeof end_of_text - 1);
    if (!g->transformer) return FV_OK;
    FV_TRY(fv_cache_create(g->transformer, &g->cache));
    return fv_transformer_pack(g->transformer, form);
}

fv_status fv_generator_take(fv_model **model, const char *folder, fv_weight_form form,
                            fv_generator **out)
{
    fv_ctx *ctx = fv_params_ctx(fv_model_params(*model));
    if (ctx->error != FV_OK) return ctx->error;
    fv_generator *g = fv_mem_zalloc(&ctx->mem, sizeof *g);
    FV_RETURN_IF(!g, ctx, FV_ERR_MEMORY, "no memory for a generator");
    g->ctx = ctx;
    g->model = *model;
    const fv_status status = prepare(g, folder, form);
    if (status == FV_OK) {
        *model = NULL;
        *out = g;
        return FV_OK;
    }
    g->model = NULL;
    fv_generator_close(&g);
    return status;
}

fv_status fv_generator_open(fv_ctx *ctx, const char *folder, fv_weight_form form,
                            fv_generator **out)
{
    fv_model *model = NULL;
    FV_TRY(fv_model_open(ctx, folder, &model));
    const fv_status status = fv_generator_take(&model, folder, form, out);
    fv_model_close(&model);
    return status;
}

void fv_generator_close(fv_generator **gen)
{
    fv_generator *g = *gen;
    if (!g) return;
    fv_cache_destroy(&g->cache);
    fv_tokenizer_encoder_destroy(&g->enc);
    fv_tokenizer_destroy(&g->tok);
    fv_tokenizer_destroy(&g->written);
    fv_model_close(&g->model);
    fv_mem_free(&g->ctx->mem, g, sizeof *g);
    *gen = NULL;
}

const fv_generation_defaults *fv_generator_defaults(const fv_generator *gen)
{
    return gen->transformer ? fv_model_generation(gen->model) : NULL;
}

int64_t fv_generator_context(const fv_generator *gen)
{
    if (!gen->transformer) return fv_generate_context(gen->model);
    const int64_t context = fv_transformer_context(gen->transformer);
    return context < FV_CONTEXT_UNBOUNDED ? context : 0;
}

fv_transformer *fv_generator_transformer(const fv_generator *gen) { return gen->transformer; }
const fv_tokenizer *fv_generator_tokenizer(const fv_generator *gen) { return gen->tok; }
fv_cache *fv_generator_cache(const fv_generator *gen) { return gen->cache; }

/* Tokens of a text; an empty prompt becomes the BOS token. */
static fv_status encode(fv_generator *g, fv_string text, bool source, fv_arena *arena,
                        const int64_t **tokens, int64_t *count)
{
    fv_encoding e = {.struct_size = sizeof e};
    FV_TRY(fv_tokenizer_encode(g->enc, text.text, text.bytes, FV_TOKENIZER_ADD_SPECIALS, &e));
    int64_t *list = fv_arena_array(arena, e.count + 1, sizeof *list);
    FV_RETURN_IF(!list, g->ctx, FV_ERR_MEMORY, "generate: no memory for a prompt");
    for (size_t i = 0; i < e.count; i++)
        list[i] = e.ids[i];
    *count = (int64_t)e.count;
    if (*count == 0 && !source && g->bos >= 0) list[(*count)++] = g->bos;
    *tokens = list;
    return FV_OK;
}

fv_status fv_generate(fv_generator *g, int64_t count, const fv_string *texts,
                      const fv_generate_config *cfg, fv_generated **out)
{
    fv_ctx *ctx = g->ctx;
    FV_RETURN_IF(count < 1, ctx, FV_ERR_ARGUMENT, "generate: %lld texts", (long long)count);
    const bool source =
        g->transformer && fv_transformer_settings(g->transformer)->encoder_layers > 0;
    fv_arena arena;
    fv_arena_init(&arena, &ctx->mem);
    const int64_t **tokens = fv_arena_array(&arena, (size_t)count, sizeof *tokens);
    int64_t *length = fv_arena_array(&arena, (size_t)count, sizeof *length);
    fv_status status = FV_OK;
    if (!tokens || !length)
        status =
            fv_fail(ctx, FV_ERR_MEMORY, "generate: no memory for %lld texts", (long long)count);
    for (int64_t i = 0; i < count && status == FV_OK; i++)
        status = encode(g, texts[i], source, &arena, &tokens[i], &length[i]);
    const fv_sequences all = {.count = count, .tokens = tokens, .length = length};
    if (status == FV_OK && !g->transformer)
        status = fv_generate_by_steps(g->model, g->tok, &all, cfg, out);
    else if (status == FV_OK)
        status = fv_generate_tokens(g->cache, g->written ? g->written : g->tok,
                                    source ? NULL : &all, source ? &all : NULL, cfg, out);
    fv_arena_free(&arena);
    return status;
}
