/* fovea look at a Transformer: tokens in, one pass with somebody watching, and what was seen. */
#include "look_model.h"

#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/generate.h"
#include "fovea/ops.h"
#include "input.h"
#include "model.h"
#include "output.h"

/* Sides of the small maps of a grid. */
enum { SMALL = 256 };

const look_words *look_rows(const look_work *w)
{
    return w->target.count && strcmp(cli_text(w->call, "at"), "encoder") != 0 ? &w->target
                                                                              : &w->source;
}

const look_words *look_cols(const look_work *w) { return w->cross ? &w->source : look_rows(w); }

/* ---- words ------------------------------------------------------------------------------- */

static void words_free(look_words *words)
{
    for (int64_t i = 0; words->labels && i < words->count; i++)
        free(words->labels[i]);
    free(words->labels);
    free(words->ids);
    *words = (look_words){0};
}

static char *copy_of(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (!copy) return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

static bool words_room(look_words *words, int64_t count)
{
    *words = (look_words){.count = count};
    words->ids = calloc((size_t)count + 1, sizeof *words->ids);
    words->labels = calloc((size_t)count + 1, sizeof *words->labels);
    return words->ids && words->labels;
}

/* A token as its text stands in the original, or by its name where it is not of the text. */
static char *label_of(const fv_tokenizer *tok, const char *text, const fv_encoding *e, size_t i)
{
    const fv_token_span span = e->offsets[i];
    if (!e->specials[i] && span.end > span.begin)
        return copy_of(text + span.begin, span.end - span.begin);
    const fv_string name = fv_tokenizer_token(tok, e->ids[i]);
    return copy_of(name.text ? name.text : "?", name.text ? name.bytes : 1);
}

/* The words of a text, behind a start token unless it is negative. */
static fv_status encode(fv_ctx *ctx, const fv_tokenizer *tok, const char *text, unsigned flags,
                        int64_t start, look_words *words)
{
    fv_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_status status = fv_encoder_create(ctx, tok, &enc);
    if (status == FV_OK) status = fv_encode(enc, text, strlen(text), flags, &e);
    const int64_t first = start >= 0;
    if (status == FV_OK && !words_room(words, (int64_t)e.count + first)) status = FV_ERR_MEMORY;
    if (status == FV_OK && first) {
        words->ids[0] = start;
        words->labels[0] = copy_of("(start)", 7);
    }
    for (size_t i = 0; status == FV_OK && i < e.count; i++) {
        words->ids[first + (int64_t)i] = e.ids[i];
        words->labels[first + (int64_t)i] = label_of(tok, text, &e, i);
        if (!words->labels[first + (int64_t)i]) status = FV_ERR_MEMORY;
    }
    fv_encoder_destroy(&enc);
    return status;
}

/* What the model itself answers to the source. */
static fv_status answer(look_work *w, fv_transformer *t, const fv_tokenizer *tok)
{
    fv_cache *cache = NULL;
    fv_generated *out = NULL;
    fv_generate_config cfg;
    fv_generate_config_init(&cfg, sizeof cfg, NULL);
    const int64_t *list = w->source.ids;
    const fv_sequences source = {.count = 1, .tokens = &list, .length = &w->source.count};
    fv_status status = fv_cache_create(t, &cache);
    if (status == FV_OK) status = fv_generate_tokens(cache, tok, NULL, &source, &cfg, &out);
    if (status == FV_OK) {
        const fv_generated_text *best = fv_generated_get(out, 0, 0);
        if (!words_room(&w->target, best->count + 1)) status = FV_ERR_MEMORY;
        for (int64_t i = 0; status == FV_OK && i <= best->count; i++) {
            const int64_t id = i ? best->tokens[i - 1] : fv_transformer_settings(t)->start;
            const fv_string name = fv_tokenizer_token(tok, (int32_t)id);
            w->target.ids[i] = id;
            w->target.labels[i] =
                i == 0 ? copy_of("(start)", 7)
                       : copy_of(name.text ? name.text : "?", name.text ? name.bytes : 1);
        }
    }
    fv_generated_free(&out);
    fv_cache_destroy(&cache);
    return status;
}

/* A tokenizer of the model's folder: of one side, or of the whole. */
static fv_status load_words(look_work *w, const char *name, fv_tokenizer **out)
{
    char path[4096];
    cli_format(path, sizeof path, "%s%s%s", w->call->words[0], *name ? "/" : "", name);
    return fv_tokenizer_load(w->ctx, path, out);
}

static fv_status read_texts(look_work *w, fv_model *model)
{
    fv_transformer *t = fv_model_transformer(model);
    const fv_transformer_config *c = fv_transformer_settings(t);
    const bool pair = fv_model_translator(model) != NULL;
    fv_tokenizer *source = NULL, *target = NULL;
    fv_status status = load_words(w, pair ? "source_tokenizer.json" : "", &source);
    if (status == FV_OK && pair) status = load_words(w, "target_tokenizer.json", &target);
    if (status == FV_OK) /* translators read their sources bare */
        status = encode(w->ctx, source, w->call->words[1], pair ? 0 : FV_ENCODE_SPECIALS, -1,
                        &w->source);
    if (status == FV_OK && c->encoder_layers && c->decoder_layers) {
        const fv_tokenizer *tok = target ? target : source;
        const char *text = cli_text(w->call, "target");
        status = text ? encode(w->ctx, tok, text, 0, c->start, &w->target) : answer(w, t, tok);
    }
    fv_tokenizer_destroy(&source);
    fv_tokenizer_destroy(&target);
    return status;
}

/* ---- watching ------------------------------------------------------------------------------ */

static look_site *next_site(look_work *w)
{
    if (w->count == w->room) {
        const int room = w->room ? 2 * w->room : 16;
        look_site *larger = realloc(w->sites, (size_t)room * sizeof *larger);
        if (!larger) return NULL;
        w->sites = larger;
        w->room = room;
    }
    w->sites[w->count] = (look_site){0};
    return &w->sites[w->count++];
}

static fv_status read_floats(fv_ctx *ctx, fv_tensor *t, float **out)
{
    const size_t bytes = (size_t)fv_tensor_count(t) * sizeof **out;
    *out = malloc(bytes + 1);
    return *out ? fv_tensor_read(ctx, t, *out, bytes) : FV_ERR_MEMORY;
}

/* The largest of each part, where a map is larger than its place. */
static fv_tensor *made_small(fv_ctx *ctx, fv_tensor *map)
{
    for (int axis = 1; axis <= 2; axis++) {
        const int64_t n = fv_tensor_size(map, axis), part = (n + SMALL - 1) / SMALL;
        if (part <= 1) continue;
        int64_t before[3] = {0}, after[3] = {0}, shape[4];
        after[axis] = (part - n % part) % part;
        map = fv_contiguous(ctx, fv_pad(ctx, map, before, after, 0));
        for (int i = 0, k = 0; i < 3; i++) {
            shape[k++] = i == axis ? fv_tensor_size(map, i) / part : fv_tensor_size(map, i);
            if (i == axis) shape[k++] = part;
        }
        map = fv_max(ctx, fv_reshape(ctx, map, 4, shape), 1, (int[]){axis + 1}, false);
    }
    return map;
}

/* The first sequence's numbers, by mode. */
static fv_tensor *wanted_of(const look_work *w, fv_ctx *ctx, const fv_attention_seen *seen)
{
    fv_tensor *x = w->mode == LOOK_ENTROPY ? seen->summary.head_entropy
                   : w->mode == LOOK_TOP   ? seen->top_weights
                                           : seen->weights;
    x = fv_squeeze(ctx, fv_slice(ctx, x, 0, 0, 1, 1), 0);
    if (w->mode == LOOK_GRID) return made_small(ctx, x);
    if (w->mode == LOOK_ROLLOUT) return fv_mean(ctx, x, 1, (int[]){0}, true);
    return x;
}

static fv_status look_take(void *user, fv_ctx *ctx, const fv_site *site)
{
    look_work *w = user;
    look_site *s = next_site(w);
    if (!s) return FV_ERR_MEMORY;
    cli_format(s->name, sizeof s->name, "%s", site->name);
    s->layer = site->layer;
    if (w->mode == LOOK_ARRAYS) { /* out of the scopes of the block and of the pass */
        s->tensor = fv_scope_keep(ctx, site->seen.weights);
        return fv_ctx_error(ctx);
    }
    fv_tensor *x = wanted_of(w, ctx, &site->seen);
    s->heads = fv_tensor_size(x, 0);
    s->rows = fv_tensor_rank(x) > 1 ? fv_tensor_size(x, 1) : 1;
    s->cols = fv_tensor_rank(x) > 2 ? fv_tensor_size(x, 2) : 1;
    fv_status status = read_floats(ctx, x, &s->values);
    if (status == FV_OK && w->mode == LOOK_TOP) {
        fv_tensor *index = fv_squeeze(ctx, fv_slice(ctx, site->seen.top_index, 0, 0, 1, 1), 0);
        const size_t bytes = (size_t)fv_tensor_count(index) * sizeof *s->index;
        s->index = malloc(bytes + 1);
        status = s->index ? fv_tensor_read(ctx, index, s->index, bytes) : FV_ERR_MEMORY;
    }
    return status;
}

/* ---- the pass ------------------------------------------------------------------------------ */

static fv_rows rows_of(const look_work *w, const look_words *words)
{
    const int64_t *list = words->ids;
    const fv_sequences one = {.count = 1, .tokens = &list, .length = &words->count};
    return fv_rows_pack(w->ctx, &one);
}

static fv_status watch(look_work *w, const char *sites)
{
    fv_ctx *ctx = w->ctx;
    const fv_transformer_config *c = fv_transformer_settings(w->t);
    const fv_capture capture = {.sites = sites,
                                .look = {.weights = w->mode != LOOK_TOP && w->mode != LOOK_ENTROPY,
                                         .top = w->mode == LOOK_TOP ? cli_int(w->call, "top") : 0,
                                         .summary = w->mode == LOOK_ENTROPY},
                                .take = look_take,
                                .user = w};
    const fv_pass pass = {.capture = &capture};
    fv_status status = FV_OK;
    const bool given = cli_given(w->call, "ids");
    fv_rows source = {0}, target = {0};
    if (given) {
        source = (fv_rows){.ids = cli_load_ids(ctx, w->call, "ids", &status),
                           .mask = cli_load_ids(ctx, w->call, "mask", &status),
                           .types = cli_load_ids(ctx, w->call, "type-ids", &status)};
        target.ids = cli_load_ids(ctx, w->call, "decoder-ids", &status);
    } else {
        source = rows_of(w, &w->source);
        if (w->target.count) target = rows_of(w, &w->target);
    }
    if (status != FV_OK) return status;
    if (c->encoder_layers == 0) {
        fv_transformer_decode(ctx, w->t, &source, NULL, NULL, &pass);
    } else {
        fv_tensor *memory = fv_transformer_encode(ctx, w->t, &source, &pass);
        if (c->decoder_layers) fv_transformer_decode(ctx, w->t, &target, memory, &source, &pass);
    }
    return fv_ctx_error(ctx);
}

/* ---- choices -------------------------------------------------------------------------------- */

static look_mode mode_of(const cli_call *call)
{
    const char *path = cli_text(call, "output");
    const size_t n = path ? strlen(path) : 0;
    if (n >= 4 && strcmp(path + n - 4, ".npz") == 0) return LOOK_ARRAYS;
    if (cli_flag(call, "entropy")) return LOOK_ENTROPY;
    if (cli_given(call, "top")) return LOOK_TOP;
    if (cli_flag(call, "rollout")) return LOOK_ROLLOUT;
    if (cli_given(call, "head") || !path) return LOOK_HEAD;
    return cli_given(call, "layer") ? LOOK_LAYER : LOOK_GRID;
}

/* The pattern of the sites that are wanted; false: it was said what is wrong. */
static bool choose(look_work *w, char sites[64])
{
    const fv_transformer_config *c = fv_transformer_settings(w->t);
    const char *at = cli_text(w->call, "at");
    const bool both = c->encoder_layers && c->decoder_layers;
    const bool encoder =
        strcmp(at, "encoder") == 0 || (strcmp(at, "auto") == 0 && !c->decoder_layers);
    w->cross = strcmp(at, "cross") == 0 || (strcmp(at, "auto") == 0 && both);
    const int64_t layers = encoder ? c->encoder_layers : c->decoder_layers;
    const int64_t heads = encoder ? c->heads : c->decoder_heads;
    w->layer = cli_given(w->call, "layer") ? cli_int(w->call, "layer") : -1;
    w->head = cli_given(w->call, "head") ? cli_int(w->call, "head") : -1;
    if (layers == 0 || (w->cross && !both)) {
        cli_error("look: this model has no attention --at %s", at);
        return false;
    }
    if (w->layer >= layers || w->head >= heads) {
        cli_error("look: there are layers 0 to %lld and heads 0 to %lld", (long long)layers - 1,
                  (long long)heads - 1);
        return false;
    }
    if (w->mode == LOOK_ROLLOUT && w->cross) {
        cli_error("look: --rollout is for self-attention: --at encoder or --at decoder");
        return false;
    }
    const bool one = w->mode == LOOK_HEAD || w->mode == LOOK_TOP || w->mode == LOOK_LAYER;
    if (one && w->layer < 0) w->layer = layers - 1;
    char layer[24] = "*";
    if (w->layer >= 0) cli_format(layer, sizeof layer, "%lld", (long long)w->layer);
    cli_format(sites, 64, "%s.%s.%s", encoder ? "encoder" : "decoder", layer,
               w->cross ? "cross" : "self");
    if (w->mode == LOOK_ARRAYS && strcmp(at, "auto") == 0) cli_format(sites, 64, "*");
    return true;
}

static void work_free(look_work *w)
{
    for (int i = 0; i < w->count; i++) {
        free(w->sites[i].values);
        free(w->sites[i].index);
    }
    free(w->sites);
    words_free(&w->source);
    words_free(&w->target);
}

int cli_look_model(const cli_call *call, fv_ctx *ctx, fv_model *model)
{
    look_work w = {
        .call = call, .ctx = ctx, .t = fv_model_transformer(model), .mode = mode_of(call)};
    char sites[64];
    if (cli_given(call, "ids") != (call->word_count == 1)) {
        cli_error("look: a text, or tokens by --ids");
        return CLI_USAGE;
    }
    if (!choose(&w, sites)) return CLI_USAGE;
    fv_no_grad_begin(ctx);
    fv_status status = FV_OK;
    if (!cli_given(call, "ids")) status = read_texts(&w, model);
    if (status == FV_OK) status = watch(&w, sites);
    if (status == FV_OK) status = look_show(&w);
    fv_no_grad_end(ctx);
    work_free(&w);
    return status == FV_OK ? CLI_DONE : cli_library_error("look", ctx, status);
}
