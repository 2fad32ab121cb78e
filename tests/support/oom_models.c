#include "support/oom_models.h"

#include <unistd.h>

#include "fovea/autograd.h"
#include "fovea/encode.h"
#include "fovea/generate.h"
#include "fovea/seq2seq.h"
#include "fovea/task.h"
#include "fovea/transformer.h"
#include "support/encoders.h"
#include "support/files.h"
#include "support/test.h"

static fv_status look_at(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    (void)ctx;
    *(bool *)user = site->captured.weights != NULL;
    return FV_OK;
}

/* A small encoder-decoder: created, trained on a pair, its attention captured. */
static bool both_sides(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const int64_t list[3] = {3, 4, 5};
    static const int64_t *const lists[2] = {list, list};
    static const int64_t lengths[2] = {3, 2};
    const fv_batch pairs =
        fv_batch_of_pairs(&(fv_sequences){.count = 2, .tokens = lists, .length = lengths},
                          &(fv_sequences){.count = 2, .tokens = lists, .length = lengths});
    fv_transformer_config cfg;
    fv_transformer_config_init(&cfg, sizeof cfg, FV_FAMILY_MARIAN);
    cfg.vocabulary = 6;
    cfg.width = 4;
    cfg.heads = 2;
    cfg.hidden = 4;
    cfg.encoder_layers = cfg.decoder_layers = 1;
    cfg.bos = 0;
    cfg.eos = 1;
    bool seen = false;
    const fv_capture capture = {.options = {.weights = true}, .on_weights = look_at, .user = &seen};
    fv_params *params = NULL;
    fv_transformer *t = NULL;
    fv_scope_begin(ctx);
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) status = fv_transformer_create(params, &cfg, &t);
    if (status == FV_OK)
        status = fv_backward(
            ctx, fv_transformer_pair_loss(ctx, t, &pairs, &(fv_pass){.training = true}));
    if (status == FV_OK) {
        const fv_sequences one = {.count = 1, .tokens = lists, .length = lengths};
        const fv_token_rows rows = fv_token_rows_varlen(ctx, &one);
        fv_transformer_encode(ctx, t, &rows, &(fv_pass){.capture = &capture});
        status = fv_ctx_error(ctx);
    }
    fv_transformer_destroy(&t);
    fv_params_destroy(&params);
    fv_scope_end(ctx);
    return status == FV_OK && seen;
}

/* A folder opened, mapped and saved. */
static bool folder(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_model *model = NULL, *mapped = NULL;
    fv_scope_begin(ctx);
    fv_status status = fv_model_open(ctx, test_path("fixtures/gpt2"), &model);
    if (status == FV_OK) status = fv_model_map(ctx, test_path("fixtures/gpt2"), &mapped);
    if (status == FV_OK) status = fv_model_save(model, folder_path("."));
    fv_model_close(&model);
    fv_model_close(&mapped);
    fv_scope_end(ctx);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

/* Packed-only weights, a cache, and a search over it: prompts of two lengths, or sources. */
static bool generation(fv_ctx *ctx, fv_family family, int beam)
{
    static const int64_t list[3] = {3, 4, 5};
    static const int64_t *const lists[2] = {list, list};
    static const int64_t lengths[2] = {3, 2};
    const fv_sequences texts = {.count = 2, .tokens = lists, .length = lengths};
    fv_transformer_config cfg;
    fv_transformer_config_init(&cfg, sizeof cfg, family);
    const bool answers = cfg.encoder_layers > 0;
    cfg.vocabulary = 6;
    cfg.width = 4;
    cfg.heads = 2;
    cfg.hidden = 4;
    cfg.decoder_layers = 1;
    if (answers) cfg.encoder_layers = 1;
    cfg.max_positions = 4;
    cfg.bos = 0;
    cfg.eos = 1;
    static const double factors[1] = {1.5};
    if (family == FV_FAMILY_QWEN3) { /* windows, and factors that the model keeps */
        cfg.window = 2;
        cfg.rotary.scaling = FV_ROTARY_SCALING_LONGROPE;
        cfg.rotary.original = 2;
        cfg.rotary.short_factors = cfg.rotary.long_factors = factors;
    }
    fv_generate_config how;
    fv_generate_config_init(&how, sizeof how, NULL);
    how.search.beam = beam;
    how.search.repetition_penalty = 1.2;
    how.max_tokens = 3;
    how.context_full = FV_CONTEXT_SHIFT; /* prompts and new tokens do not fit the context */
    fv_params *params = NULL;
    fv_transformer *t = NULL;
    fv_cache *cache = NULL;
    fv_generated *out = NULL;
    fv_scope_begin(ctx);
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) status = fv_transformer_create(params, &cfg, &t);
    if (status == FV_OK) status = fv_transformer_pack(t, FV_WEIGHT_I8);
    if (status == FV_OK) status = fv_cache_create(t, &cache);
    if (status == FV_OK)
        status = fv_generate_tokens(cache, NULL, answers ? NULL : &texts, answers ? &texts : NULL,
                                    &how, &out);
    fv_generated_free(&out);
    fv_cache_destroy(&cache);
    fv_transformer_destroy(&t);
    fv_params_destroy(&params);
    fv_scope_end(ctx);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

static bool generate_from_prompts(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return generation(ctx, FV_FAMILY_GPT2, 1);
}

static bool generate_in_windows(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return generation(ctx, FV_FAMILY_QWEN3, 1);
}

static bool answers(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return generation(ctx, FV_FAMILY_MARIAN, 2);
}

/* A greedy search over enough sources that a recurrent model uses tables and a candidate
 * pre-filter.
 */
static bool kept_ready(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    enum { SOURCES = 300 };
    static const int64_t list[1] = {4};
    static const int64_t *lists[SOURCES];
    static int64_t ones[SOURCES];
    for (int i = 0; i < SOURCES; i++) {
        lists[i] = list;
        ones[i] = 1;
    }
    const fv_batch pairs =
        fv_batch_of_pairs(&(fv_sequences){.count = SOURCES, .tokens = lists, .length = ones}, NULL);
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = cfg.target_tokens = 6;
    cfg.embedding = cfg.encoder_hidden = cfg.attention_width = cfg.readout_width = cfg.hidden = 4;
    fv_search_config how;
    fv_search_config_init(&how, sizeof how);
    how.no_scores = true;
    fv_params *params = NULL;
    fv_seq2seq *model = NULL;
    fv_stepper stepper;
    fv_outputs *out = NULL;
    fv_scope_begin(ctx);
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) status = fv_seq2seq_create(params, &cfg, &model);
    if (status == FV_OK) status = fv_seq2seq_stepper(model, &pairs, &stepper);
    if (status == FV_OK) status = fv_search(ctx, &stepper, SOURCES, ones, &how, &out);
    fv_outputs_free(&out);
    fv_seq2seq_destroy(&model);
    fv_params_destroy(&params);
    fv_scope_end(ctx);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

/* A run on text from the recipe to its first step, without the files of an earlier run. */
static bool text_run(fv_ctx *ctx, const char *const (*settings)[2], size_t count)
{
    static const char *const left[] = {"tokenizer.json", "states.json"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        unlink(folder_path(left[i]));
    fv_recipe *recipe = NULL;
    fv_run *run = NULL;
    fv_status status = fv_run_recipe(ctx, &recipe);
    for (size_t i = 0; i < count && status == FV_OK; i++)
        status = fv_recipe_set(recipe, settings[i][0], settings[i][1]);
    if (status == FV_OK) status = fv_run_create(ctx, recipe, folder_path("."), NULL, NULL, &run);
    if (status == FV_OK) status = fv_run_train(run);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

static bool encoder_run(fv_ctx *ctx, const char *task)
{
    static const char table[] = "text,label\na b,x\nb a,y\na a,x\nb b,y\n";
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("table.csv"));
    file_write(path, table, sizeof table - 1);
    const char *const settings[][2] = {{"train.task", task},
                                       {"train.next_sentence", "true"},
                                       {"data.train_csv", path},
                                       {"data.valid_share", "0.5"},
                                       {"tokens.kind", "char"},
                                       {"transformer.family", "bert"},
                                       {"transformer.encoder_layers", "1"},
                                       {"transformer.width", "4"},
                                       {"transformer.heads", "2"},
                                       {"transformer.hidden", "4"},
                                       {"transformer.length", "8"},
                                       {"train.steps", "1"}};
    return text_run(ctx, settings, sizeof settings / sizeof *settings);
}

static bool hidden_words(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return encoder_run(ctx, "masked");
}

static bool classes(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return encoder_run(ctx, "classify");
}

static bool captions(fv_ctx *ctx, const void *unused)
{
    static const char *const settings[][2] = {{"train.task", "captions"},
                                              {"data.media", "scenes"},
                                              {"data.size", "32"},
                                              {"data.train_count", "1"},
                                              {"data.valid_count", "1"},
                                              {"tokens.kind", "word"},
                                              {"tokens.min_count", "1"},
                                              {"model.encoder", "grid"},
                                              {"model.grid_stages", "3"},
                                              {"model.grid_halvings", "3"},
                                              {"model.grid_channels", "2"},
                                              {"model.grid_rows", "true"},
                                              {"model.grid_neighbours", "true"},
                                              {"model.coverage", "0.1"},
                                              {"model.embedding", "2"},
                                              {"model.encoder_hidden", "2"},
                                              {"model.hidden", "2"},
                                              {"model.attention_width", "2"},
                                              {"model.readout_width", "2"},
                                              {"train.batch_examples", "1"},
                                              {"train.steps", "1"}};
    (void)unused;
    return text_run(ctx, settings, sizeof settings / sizeof *settings);
}

/* Encoder-decoders without recurrence: a loss with its gradients, and a step of a search. */
static bool unrolled(fv_ctx *ctx, fv_encoder_kind encoder, fv_seq2seq_positions positions)
{
    static const int64_t list[2] = {4, 2}, one = 2;
    static const int64_t *const lists[] = {list};
    const fv_sequences both = {.count = 1, .tokens = lists, .length = &one};
    const fv_batch pairs = fv_batch_of_pairs(&both, &both);
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = cfg.target_tokens = 6;
    cfg.embedding = cfg.encoder_hidden = cfg.attention_width = cfg.readout_width = cfg.hidden = 2;
    cfg.encoder = encoder;
    cfg.decoder = FV_DECODER_ATTENTION;
    cfg.positions = positions;
    cfg.conv_layers = cfg.self_layers = 1;
    cfg.self_heads = 1;
    fv_params *params = NULL;
    fv_seq2seq *model = NULL;
    fv_stepper stepper;
    fv_scope_begin(ctx);
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) status = fv_seq2seq_create(params, &cfg, &model);
    if (status == FV_OK)
        status =
            fv_backward(ctx, fv_seq2seq_loss(ctx, model, &pairs, &(fv_pass){.training = true}));
    if (status == FV_OK) status = fv_seq2seq_stepper(model, &pairs, &stepper);
    fv_seq2seq_destroy(&model);
    fv_params_destroy(&params);
    fv_scope_end(ctx);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

static bool convolutions(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return unrolled(ctx, FV_ENCODER_CONV, FV_SEQ2SEQ_POSITIONS_LEARNED);
}

static bool bare_attention(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return unrolled(ctx, FV_ENCODER_ATTENTION, FV_SEQ2SEQ_POSITIONS_RELATIVE);
}

/* A folder with names of classes and the files of sentence-transformers. */
static bool sentences(fv_ctx *ctx, const void *unused)
{
    static const char *const names[] = {"one", "two"};
    (void)unused;
    fv_model *model = NULL;
    fv_embedding_rule rule;
    if (access(folder_path("encoder"), F_OK) != 0) {
        encoder_folder_write(folder_sub("encoder"), 2, names);
        sentence_files_write(folder_path("encoder"), "{\"pooling_mode\": \"cls\"}", "{}");
    }
    fv_status status = fv_model_open(ctx, folder_path("encoder"), &model);
    if (status == FV_OK) status = fv_embedding_rule_load(ctx, folder_path("encoder"), &rule);
    fv_model_close(&model);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

/* Texts through encoders of each kind. */
static bool encoded_texts(fv_ctx *ctx, const void *unused)
{
    static const fv_string texts[] = {{"ab[MASK]", 8}, {"c", 1}};
    (void)unused;
    fv_embedder *embedder = NULL;
    fv_classifier *classifier = NULL;
    fv_filler *filler = NULL;
    fv_answerer *answerer = NULL;
    const fv_embeddings *vectors = NULL;
    const fv_classifications *classes_found = NULL;
    const fv_fillings *words = NULL;
    const fv_answers *answers_found = NULL;
    const fv_question question = {texts[1], {"abcdefghijklmnopqrstuvwxyz", 26}}; /* two windows */
    if (access(folder_path("tokens"), F_OK) != 0) {
        encoder_head_write(folder_sub("tokens"), ENCODER_CLASSIFIES_TOKENS, 2, NULL);
        encoder_head_write(folder_sub("classes"), ENCODER_CLASSIFIES, 2, NULL);
        encoder_head_write(folder_sub("fills"), ENCODER_FILLS, 0, NULL);
        encoder_head_write(folder_sub("spans"), ENCODER_ANSWERS, 0, NULL);
    }
    fv_status status = fv_embedder_open(ctx, folder_path("fills"), FV_WEIGHT_F32, &embedder);
    if (status == FV_OK) status = fv_embed_texts(embedder, 2, texts, &vectors);
    fv_embedder_close(&embedder);
    if (status == FV_OK)
        status = fv_classifier_open(ctx, folder_path("tokens"), FV_WEIGHT_F32, &classifier);
    if (status == FV_OK) status = fv_classify_texts(classifier, 2, texts, &classes_found);
    fv_classifier_close(&classifier);
    if (status == FV_OK)
        status = fv_classifier_open(ctx, folder_path("classes"), FV_WEIGHT_F32, &classifier);
    if (status == FV_OK)
        status =
            fv_classify_pairs(classifier, 1, &(fv_text_pair){texts[1], texts[1]}, &classes_found);
    fv_classifier_close(&classifier);
    if (status == FV_OK) status = fv_filler_open(ctx, folder_path("fills"), FV_WEIGHT_F32, &filler);
    if (status == FV_OK) status = fv_fill_masks(filler, 2, texts, 2, &words);
    fv_filler_close(&filler);
    if (status == FV_OK)
        status = fv_answerer_open(ctx, folder_path("spans"), FV_WEIGHT_F32, &answerer);
    if (status == FV_OK) status = fv_answer_questions(answerer, 1, &question, 3, &answers_found);
    fv_answerer_close(&answerer);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

const oom_file_scenario oom_model_scenarios[] = {
    {"transformer", both_sides},       {"model folder", folder}, {"prompts", generate_from_prompts},
    {"windows", generate_in_windows},  {"answers", answers},     {"kept ready", kept_ready},
    {"hidden words", hidden_words},    {"classes", classes},     {"sentences", sentences},
    {"encoded texts", encoded_texts},  {"captions", captions},   {"convolutions", convolutions},
    {"bare attention", bare_attention}};
const int oom_model_scenario_count =
    (int)(sizeof oom_model_scenarios / sizeof *oom_model_scenarios);
