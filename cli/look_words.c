/* The tokens that 'fovea look' shows: of the source, of the output, and the positions of a word. */
#include <stdlib.h>
#include <string.h>

#include "fovea/generate.h"
#include "look_model.h"
#include "output.h"
#include "run.h"

void look_words_free(look_words *words)
{
    for (int64_t i = 0; words->labels && i < words->count; i++)
        free(words->labels[i]);
    free(words->labels);
    free(words->ids);
    free(words->special);
    free(words->spans);
    free(words->types);
    free(words->text);
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

bool look_words_room(look_words *words, int64_t count, const char *text)
{
    *words = (look_words){.count = count};
    words->ids = calloc((size_t)count + 1, sizeof *words->ids);
    words->labels = calloc((size_t)count + 1, sizeof *words->labels);
    words->special = calloc((size_t)count + 1, sizeof *words->special);
    words->spans = calloc((size_t)count + 1, sizeof *words->spans);
    words->text = copy_of(text, strlen(text));
    return words->ids && words->labels && words->special && words->spans && words->text;
}

/* A token's part of the text, or its name if it is a special token. */
static char *label_of(const fv_tokenizer *tok, const char *text, const fv_encoding *e, size_t i)
{
    const fv_token_span span = e->offsets[i];
    if (!e->special_tokens_mask[i] && span.end > span.begin)
        return copy_of(text + span.begin, span.end - span.begin);
    const fv_string name = fv_tokenizer_id_to_token(tok, e->ids[i]);
    return copy_of(name.text ? name.text : "?", name.text ? name.bytes : 1);
}

static void put_start(look_words *words, int64_t start)
{
    words->ids[0] = start;
    words->special[0] = true;
    words->labels[0] = copy_of("(start)", 7);
}

fv_status look_words_encode(fv_ctx *ctx, const fv_tokenizer *tok, const char *text, unsigned flags,
                            int64_t start, look_words *words)
{
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_status status = fv_tokenizer_encoder_create(ctx, tok, &enc);
    if (status == FV_OK) status = fv_tokenizer_encode(enc, text, strlen(text), flags, &e);
    const int64_t first = start >= 0;
    if (status == FV_OK && !look_words_room(words, (int64_t)e.count + first, text))
        status = FV_ERR_MEMORY;
    if (status == FV_OK && first) put_start(words, start);
    for (size_t i = 0; status == FV_OK && i < e.count; i++) {
        const int64_t at = first + (int64_t)i;
        words->ids[at] = e.ids[i];
        words->special[at] = e.special_tokens_mask[i];
        words->spans[at] = (look_range){e.offsets[i].begin, e.offsets[i].end - e.offsets[i].begin};
        words->labels[at] = label_of(tok, text, &e, i);
        if (!words->labels[at]) status = FV_ERR_MEMORY;
    }
    fv_tokenizer_encoder_destroy(&enc);
    return status;
}

/* Token i of a pair; spans count bytes of "text<tab>second text". */
static bool take_token(const fv_tokenizer *tok, const fv_text_pair *pair, const fv_encoding *e,
                       size_t i, look_words *words)
{
    const bool second = e->sequence_ids[i] && !e->special_tokens_mask[i];
    const char *text = second ? pair->second.text : pair->first.text;
    words->ids[i] = e->ids[i];
    words->types[i] = e->type_ids[i];
    words->special[i] = e->special_tokens_mask[i];
    words->spans[i] = (look_range){(int64_t)e->offsets[i].begin + (text - pair->first.text),
                                   (int64_t)(e->offsets[i].end - e->offsets[i].begin)};
    words->labels[i] = label_of(tok, text, e, i);
    return words->labels[i] != NULL;
}

fv_status look_words_encode_pair(fv_ctx *ctx, const fv_tokenizer *tok, const char *text,
                                 look_words *words)
{
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text_pair pair;
    fv_status status = cli_split_pair(ctx, (fv_string){text, strlen(text)}, &pair);
    if (status == FV_OK) status = fv_tokenizer_encoder_create(ctx, tok, &enc);
    if (status == FV_OK)
        status =
            fv_tokenizer_encode_pair(enc, pair.first, pair.second, FV_TOKENIZER_ADD_SPECIALS, &e);
    if (status == FV_OK && !look_words_room(words, (int64_t)e.count, text)) status = FV_ERR_MEMORY;
    if (status == FV_OK) words->types = calloc(e.count + 1, sizeof *words->types);
    if (status == FV_OK && !words->types) status = FV_ERR_MEMORY;
    for (size_t i = 0; status == FV_OK && i < e.count; i++)
        if (!take_token(tok, &pair, &e, i, words)) status = FV_ERR_MEMORY;
    fv_tokenizer_encoder_destroy(&enc);
    return status;
}

/* A generated token as text, or its name if it has none. */
static fv_status written(fv_ctx *ctx, const fv_tokenizer *tok, int64_t id, char **label)
{
    const fv_string name = fv_tokenizer_id_to_token(tok, id);
    fv_text text = {0};
    if (name.text) {
        const fv_status status = fv_tokenizer_decode(ctx, tok, &id, 1, 0, &text);
        if (status != FV_OK) return status;
    }
    if (text.bytes > 0)
        *label = copy_of(text.data, text.bytes);
    else
        *label = copy_of(name.text ? name.text : "?", name.text ? name.bytes : 1);
    fv_text_free(ctx, &text);
    return *label ? FV_OK : FV_ERR_MEMORY;
}

/* The tokens of an output, and the words they form. */
static fv_status take_answer(look_work *w, const fv_transformer_config *c, const fv_tokenizer *tok,
                             const fv_generated_text *best)
{
    look_words *words = &w->target;
    if (!look_words_room(words, best->count + 1, best->text)) return FV_ERR_MEMORY;
    put_start(words, c->bos);
    fv_status status = words->labels[0] ? FV_OK : FV_ERR_MEMORY;
    for (int64_t i = 1; status == FV_OK && i <= best->count; i++) {
        words->ids[i] = best->tokens[i - 1];
        words->special[i] = words->ids[i] == c->eos || words->ids[i] == c->pad;
        status = written(w->ctx, tok, words->ids[i], &words->labels[i]);
    }
    if (status != FV_OK) return status;
    look_words_align(words, words->text);
    return FV_OK;
}

/* The model's own output for the source. */
static fv_status answer(look_work *w, fv_transformer *t, const fv_tokenizer *tok)
{
    fv_cache *cache = NULL;
    fv_generated *out = NULL;
    fv_generate_config cfg;
    fv_generate_config_init(&cfg, sizeof cfg, NULL);
    cfg.search.beam = (int)cli_int(w->call, "beam");
    const int64_t *list = w->source.ids;
    const fv_sequences source = {.count = 1, .tokens = &list, .length = &w->source.count};
    fv_status status = fv_cache_create(t, &cache);
    if (status == FV_OK) status = fv_generate_tokens(cache, tok, NULL, &source, &cfg, &out);
    if (status == FV_OK)
        status = take_answer(w, fv_transformer_settings(t), tok, fv_generated_get(out, 0, 0));
    fv_generated_free(&out);
    fv_cache_destroy(&cache);
    return status;
}

fv_status look_read_texts(look_work *w, fv_model *model)
{
    fv_transformer *t = fv_model_transformer(model);
    const fv_transformer_config *c = fv_transformer_settings(t);
    const bool pair = fv_model_spec(model)->ability == FV_CAN_TRANSLATE;
    const char *folder = w->call->words[0];
    fv_tokenizer *source = NULL, *target = NULL;
    const bool two = fv_data_spec_get(fv_model_spec(model), "text_pairs", 0) != 0;
    fv_status status = fv_tokenizer_load(w->ctx, folder, &source);
    if (status == FV_OK && two)
        status = look_words_encode_pair(w->ctx, source, w->text, &w->source);
    else if (status == FV_OK) /* translators read sources without special tokens */
        status = look_words_encode(w->ctx, source, w->text, pair ? 0 : FV_TOKENIZER_ADD_SPECIALS,
                                   -1, &w->source);
    if (status == FV_OK && c->encoder_layers && c->decoder_layers) {
        const char *text = cli_text(w->call, "target");
        status = fv_tokenizer_load_target(w->ctx, folder, &target);
        if (status == FV_OK)
            status = text ? look_words_encode(w->ctx, target, text, 0, c->bos, &w->target)
                          : answer(w, t, target);
    }
    fv_tokenizer_destroy(&source);
    fv_tokenizer_destroy(&target);
    return status;
}

/* ---- finding ------------------------------------------------------------------------------- */

static const char *without_blanks(const char *label)
{
    while (*label == ' ')
        label++;
    return label;
}

/* How many tokens from i on make up the word; 0: none do. */
static int64_t spells(const look_words *words, int64_t i, const char *word)
{
    for (int64_t n = 0; i + n < words->count; n++) {
        const char *label = n ? words->labels[i + n] : without_blanks(words->labels[i]);
        const size_t bytes = strlen(label);
        if (bytes == 0 || strncmp(word, label, bytes) != 0) return 0;
        word += bytes;
        if (*word == '\0') return n + 1;
    }
    return 0;
}

int look_words_find(const look_words *words, const char *word, look_range *places, int room)
{
    int found = 0;
    for (int64_t i = 0; *word && i < words->count && found < room; i++) {
        const int64_t count = spells(words, i, word);
        if (count) places[found++] = (look_range){i, count};
    }
    return found;
}
