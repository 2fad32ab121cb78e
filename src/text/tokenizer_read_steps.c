/* Reads the normalizers, pre-tokenizers and decoders of a tokenizer.json. Sequences may nest; the
 * JSON parser bounds the depth. */
#include <string.h>

#include "io/utf8.h"
#include "text/base64.h"
#include "text/tokenizer_pipeline.h"

/* ---- members --------------------------------------------------------------------- */

static fv_status copy_text(fv_tokenizer *tok, const char *text, size_t bytes, fv_string *out)
{
    char *copy = fv_arena_text(&tok->arena, text, bytes);
    FV_RETURN_IF(!copy, tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    *out = (fv_string){copy, bytes};
    return FV_OK;
}

fv_status fv_read_string(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v, const char *key,
                         bool required, fv_string *out)
{
    const fv_value *member = fv_value_get(v, key);
    if (!member || member->kind == FV_VALUE_NULL) {
        if (required) return fv_doc_fail(doc, v, FV_ERR_FORMAT, "\"%s\" is missing", key);
        return FV_OK;
    }
    FV_TRY(fv_doc_kind(doc, member, FV_VALUE_STRING));
    return copy_text(tok, member->as.text, member->count, out);
}

fv_status fv_read_fail(const fv_doc *doc, const fv_value *where, fv_status s)
{
    char reason[FV_MESSAGE_BYTES];
    if (s == FV_OK || s == FV_ERR_MEMORY) return s;
    memcpy(reason, fv_ctx_message(doc->ctx), sizeof reason);
    return fv_doc_fail(doc, where, s, "%s", reason);
}

fv_status fv_read_bool(const fv_doc *doc, const fv_value *v, const char *key, bool *out)
{
    const fv_value *member = fv_value_get(v, key);
    if (!member || member->kind == FV_VALUE_NULL) return FV_OK;
    return fv_doc_bool(doc, member, out);
}

fv_status fv_read_type(const fv_doc *doc, const fv_value *v, const char *what,
                       const char *const *names, int *number)
{
    const char *type = NULL;
    char quoted[FV_QUOTED_BYTES];
    FV_TRY(fv_doc_kind(doc, v, FV_VALUE_OBJECT));
    FV_TRY(fv_doc_get_string(doc, v, "type", true, &type));
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], type) == 0) {
            *number = i;
            return FV_OK;
        }
    return fv_doc_fail(doc, v, FV_ERR_UNSUPPORTED, "the %s \"%s\" is not supported", what,
                       fv_quote(type, strlen(type), quoted));
}

/* The index of a member's string in a NULL-terminated list; *number is unchanged if it is absent.
 */
static fv_status read_word(const fv_doc *doc, const fv_value *v, const char *key,
                           const char *const *names, int *number)
{
    const char *word = NULL;
    char quoted[FV_QUOTED_BYTES];
    const fv_value *member = fv_value_get(v, key);
    if (!member || member->kind == FV_VALUE_NULL) return FV_OK;
    FV_TRY(fv_doc_string(doc, member, &word));
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0) {
            *number = i;
            return FV_OK;
        }
    return fv_doc_fail(doc, member, FV_ERR_UNSUPPORTED, "\"%s\": \"%s\" is not supported", key,
                       fv_quote(word, strlen(word), quoted));
}

/* {"String": text} sets *text, {"Regex": pattern} also *re. */
static fv_status read_pattern(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v,
                              fv_string *text, const fv_regex **re)
{
    const fv_value *pattern = NULL;
    FV_TRY(fv_doc_get(doc, v, "pattern", FV_VALUE_OBJECT, &pattern));
    const bool regex = fv_value_get(pattern, "Regex") != NULL;
    FV_TRY(fv_read_string(tok, doc, pattern, regex ? "Regex" : "String", true, text));
    if (text->bytes == 0) return fv_doc_fail(doc, pattern, FV_ERR_FORMAT, "the pattern is empty");
    if (!regex) return FV_OK;
    return fv_read_fail(doc, pattern,
                        fv_regex_compile(tok->ctx, &tok->arena, text->text, text->bytes, re));
}

static bool is_absent(const fv_value *v) { return !v || v->kind == FV_VALUE_NULL; }

typedef fv_status (*part_reader)(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v);

static fv_status read_sequence(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v,
                               const char *key, part_reader read)
{
    const fv_value *items = NULL;
    FV_TRY(fv_doc_get(doc, v, key, FV_VALUE_ARRAY, &items));
    for (uint32_t i = 0; i < items->count; i++)
        FV_TRY(read(tok, doc, &items->as.items[i]));
    return FV_OK;
}

static fv_status out_of_memory(fv_tokenizer *tok)
{
    return fv_fail(tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
}

/* ---- normalizer ------------------------------------------------------------------ */

static fv_status read_charsmap(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v,
                               const fv_charsmap **out)
{
    const fv_value *letters = NULL;
    fv_text blob = {0};
    FV_TRY(fv_doc_get(doc, v, "precompiled_charsmap", FV_VALUE_STRING, &letters));
    fv_charsmap *map = fv_arena_alloc(&tok->arena, sizeof *map);
    if (!map) return out_of_memory(tok);
    fv_status s = fv_base64_decode(tok->ctx, letters->as.text, letters->count, &blob);
    if (s == FV_OK) s = fv_charsmap_read(tok->ctx, &tok->arena, blob.data, blob.bytes, map);
    fv_text_free(tok->ctx, &blob);
    *out = map;
    return fv_read_fail(doc, letters, s);
}

/* A sequence with a "sentencepiece" member. */
static fv_status read_sentencepiece(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v,
                                    fv_normalizer *out)
{
    const fv_value *options = fv_value_get(v, "sentencepiece"), *items = NULL;
    fv_normalizer n = {.kind = FV_NORMALIZER_SENTENCEPIECE,
                       .add_dummy_prefix = true,
                       .remove_extra_whitespaces = true,
                       .escape_whitespaces = true};
    FV_TRY(fv_read_bool(doc, options, "add_dummy_prefix", &n.add_dummy_prefix));
    FV_TRY(fv_read_bool(doc, options, "remove_extra_whitespaces", &n.remove_extra_whitespaces));
    FV_TRY(fv_read_bool(doc, options, "escape_whitespaces", &n.escape_whitespaces));
    FV_TRY(fv_read_bool(doc, options, "treat_whitespace_as_suffix", &n.whitespace_as_suffix));
    FV_TRY(fv_doc_get(doc, v, "normalizers", FV_VALUE_ARRAY, &items));
    if (items->count && fv_value_get(&items->as.items[0], "precompiled_charsmap"))
        FV_TRY(read_charsmap(tok, doc, &items->as.items[0], &n.map));
    *out = n;
    return FV_OK;
}

static fv_status add_normalizer(fv_tokenizer *tok, fv_normalizer n)
{
    fv_normalizer *normalizers =
        fv_mem_grow(&tok->ctx->mem, tok->normalizers, &tok->normalizer_room,
                    tok->normalizer_count + 1, sizeof *normalizers);
    if (!normalizers) return out_of_memory(tok);
    tok->normalizers = normalizers;
    normalizers[tok->normalizer_count++] = n;
    return FV_OK;
}

fv_status fv_read_normalizer(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    static const char *const names[] = {
        "NFC",     "NFD",     "NFKC",           "NFKD",        "Lowercase", "Strip", "StripAccents",
        "Replace", "Prepend", "BertNormalizer", "Precompiled", "Sequence",  NULL};
    int kind = 0;
    if (is_absent(v)) return FV_OK;
    FV_TRY(fv_read_type(doc, v, "normalizer", names, &kind));
    const bool sequence = kind > FV_NORMALIZER_PRECOMPILED;
    if (sequence && !fv_value_get(v, "sentencepiece"))
        return read_sequence(tok, doc, v, "normalizers", fv_read_normalizer);
    fv_normalizer n = {.kind = (fv_normalizer_kind)kind,
                       .left = true,
                       .right = true,
                       .clean = true,
                       .chinese = true,
                       .lower = true,
                       .from = {"", 0},
                       .to = {"", 0}};
    FV_TRY(fv_read_bool(doc, v, "strip_left", &n.left));
    FV_TRY(fv_read_bool(doc, v, "strip_right", &n.right));
    FV_TRY(fv_read_bool(doc, v, "clean_text", &n.clean));
    FV_TRY(fv_read_bool(doc, v, "handle_chinese_chars", &n.chinese));
    FV_TRY(fv_read_bool(doc, v, "lowercase", &n.lower));
    n.accents = n.lower; /* null means as `lower` */
    FV_TRY(fv_read_bool(doc, v, "strip_accents", &n.accents));
    if (kind == FV_NORMALIZER_REPLACE) {
        FV_TRY(read_pattern(tok, doc, v, &n.from, &n.re));
        FV_TRY(fv_read_string(tok, doc, v, "content", true, &n.to));
    }
    if (kind == FV_NORMALIZER_PREPEND) FV_TRY(fv_read_string(tok, doc, v, "prepend", true, &n.to));
    if (kind == FV_NORMALIZER_PRECOMPILED) FV_TRY(read_charsmap(tok, doc, v, &n.map));
    if (sequence) FV_TRY(read_sentencepiece(tok, doc, v, &n));
    return add_normalizer(tok, n);
}

/* ---- pre-tokenizer --------------------------------------------------------------- */

/* "prepend_scheme", or the older "add_prefix_space". */
static fv_status read_prepend(const fv_doc *doc, const fv_value *v, fv_prepend *out)
{
    static const char *const schemes[] = {"always", "first", "never", NULL};
    int scheme = FV_PREPEND_ALWAYS;
    bool add = true;
    FV_TRY(fv_read_bool(doc, v, "add_prefix_space", &add));
    if (!add) scheme = FV_PREPEND_NEVER;
    FV_TRY(read_word(doc, v, "prepend_scheme", schemes, &scheme));
    *out = (fv_prepend)scheme;
    return FV_OK;
}

/* The replacement for a blank in Metaspace. */
static fv_status read_replacement(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v,
                                  fv_string *out)
{
    *out = (fv_string){"\xE2\x96\x81", 3};
    FV_TRY(fv_read_string(tok, doc, v, "replacement", false, out));
    if (out->bytes == 0 || fv_lead_length(out->text[0]) != out->bytes)
        return fv_doc_fail(doc, v, FV_ERR_FORMAT, "\"replacement\" must be one character");
    return FV_OK;
}

fv_status fv_read_pre_tokenizer(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    static const char *const names[] = {"ByteLevel",        "Whitespace",  "WhitespaceSplit",
                                        "Metaspace",        "Punctuation", "Digits",
                                        "BertPreTokenizer", "Split",       "CharDelimiterSplit",
                                        "Sequence",         NULL};
    static const char *const behaviors[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                            "MergedWithNext", "Contiguous", NULL};
    enum { DELIMITER = FV_PRE_TOKENIZER_STRING + 1, SEQUENCE };
    int kind = 0;
    if (is_absent(v)) return FV_OK;
    FV_TRY(fv_read_type(doc, v, "pre-tokenizer", names, &kind));
    /* SentencePiece's normalizer has already handled the blanks. */
    if (fv_value_get(v, "sentencepiece")) return FV_OK;
    if (kind == SEQUENCE) return read_sequence(tok, doc, v, "pretokenizers", fv_read_pre_tokenizer);
    int behavior = FV_SPLIT_ISOLATED;
    fv_pre_tokenizer s = {.kind = kind == DELIMITER ? FV_PRE_TOKENIZER_STRING
                                                    : (fv_pre_tokenizer_kind)kind,
                          .regex = true,
                          .split = true,
                          .pattern = {"", 0}};
    FV_TRY(fv_read_bool(doc, v, "use_regex", &s.regex));
    FV_TRY(fv_read_bool(doc, v, "individual_digits", &s.individual));
    FV_TRY(fv_read_bool(doc, v, "invert", &s.invert));
    FV_TRY(fv_read_bool(doc, v, "split", &s.split));
    FV_TRY(read_word(doc, v, "behavior", behaviors, &behavior));
    s.behavior = (fv_split_behavior)behavior;
    if (kind == FV_PRE_TOKENIZER_BYTE_LEVEL) {
        s.prefix_space = true;
        FV_TRY(fv_read_bool(doc, v, "add_prefix_space", &s.prefix_space));
        tok->byte_level = true;
    } else if (kind == FV_PRE_TOKENIZER_METASPACE) {
        FV_TRY(read_replacement(tok, doc, v, &s.pattern));
        FV_TRY(read_prepend(doc, v, &s.prepend));
    } else if (kind == FV_PRE_TOKENIZER_STRING) {
        FV_TRY(read_pattern(tok, doc, v, &s.pattern, &s.re));
        if (s.re) {
            s.kind = FV_PRE_TOKENIZER_REGEX;
            s.scan = fv_split_scanner_find(s.pattern);
        }
    } else if (kind == DELIMITER) {
        s.behavior = FV_SPLIT_REMOVED;
        FV_TRY(fv_read_string(tok, doc, v, "delimiter", true, &s.pattern));
        if (s.pattern.bytes == 0)
            return fv_doc_fail(doc, v, FV_ERR_FORMAT, "the delimiter is empty");
    }
    if (tok->byte_level && kind != FV_PRE_TOKENIZER_BYTE_LEVEL && tok->pre_tokenizer_count > 0 &&
        tok->pre_tokenizers[tok->pre_tokenizer_count - 1].kind == FV_PRE_TOKENIZER_BYTE_LEVEL)
        return fv_doc_fail(doc, v, FV_ERR_UNSUPPORTED,
                           "a pre-tokenizer after ByteLevel is not supported");
    fv_pre_tokenizer *pre_tokenizers =
        fv_mem_grow(&tok->ctx->mem, tok->pre_tokenizers, &tok->pre_tokenizer_room,
                    tok->pre_tokenizer_count + 1, sizeof *pre_tokenizers);
    if (!pre_tokenizers) return out_of_memory(tok);
    tok->pre_tokenizers = pre_tokenizers;
    pre_tokenizers[tok->pre_tokenizer_count++] = s;
    return FV_OK;
}

/* ---- decoder --------------------------------------------------------------------- */

static fv_status read_count(const fv_doc *doc, const fv_value *v, const char *key, size_t *out)
{
    int64_t value = 0;
    FV_TRY(fv_doc_get_int(doc, v, key, false, 0, INT32_MAX, &value));
    *out = (size_t)value;
    return FV_OK;
}

static fv_status read_sentencepiece_decoder(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v,
                                            fv_token_decoder *d)
{
    bool add_dummy_prefix = true, remove = true;
    if (!tok->model.kinds || tok->decoder_count)
        return fv_doc_fail(doc, v, FV_ERR_FORMAT,
                           "the decoder needs a SentencePiece model, and must be the only one");
    FV_TRY(fv_read_string(tok, doc, v, "unk_surface", true, &d->to));
    FV_TRY(fv_read_bool(doc, v, "add_dummy_prefix", &add_dummy_prefix));
    FV_TRY(fv_read_bool(doc, v, "remove_extra_whitespaces", &remove));
    d->prepend = remove             ? FV_PREPEND_ALWAYS
                 : add_dummy_prefix ? FV_PREPEND_FIRST
                                    : FV_PREPEND_NEVER;
    return FV_OK;
}

fv_status fv_read_decoder(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    static const char *const names[] = {"ByteLevel", "BPEDecoder", "WordPiece", "Metaspace",
                                        "Fuse",      "Strip",      "Replace",   "ByteFallback",
                                        "Sequence",  NULL};
    int kind = 0;
    if (is_absent(v)) return FV_OK;
    FV_TRY(fv_read_type(doc, v, "decoder", names, &kind));
    const fv_value *sentencepiece = fv_value_get(v, "sentencepiece");
    if (sentencepiece) kind = FV_TOKEN_DECODER_SENTENCEPIECE;
    if (kind > FV_TOKEN_DECODER_BYTE_FALLBACK && !sentencepiece)
        return read_sequence(tok, doc, v, "decoders", fv_read_decoder);
    fv_token_decoder d = {
        .kind = (fv_token_decoder_kind)kind, .cleanup = true, .from = {"", 0}, .to = {"", 0}};
    FV_TRY(fv_read_bool(doc, v, "cleanup", &d.cleanup));
    if (kind == FV_TOKEN_DECODER_SENTENCEPIECE) {
        FV_TRY(read_sentencepiece_decoder(tok, doc, sentencepiece, &d));
    } else if (kind == FV_TOKEN_DECODER_BPE) {
        d.from = (fv_string){"</w>", 4};
        FV_TRY(fv_read_string(tok, doc, v, "suffix", false, &d.from));
    } else if (kind == FV_TOKEN_DECODER_WORD_PIECE) {
        d.from = (fv_string){"##", 2};
        FV_TRY(fv_read_string(tok, doc, v, "prefix", false, &d.from));
    } else if (kind == FV_TOKEN_DECODER_METASPACE) {
        FV_TRY(read_replacement(tok, doc, v, &d.from));
        FV_TRY(read_prepend(doc, v, &d.prepend));
    } else if (kind == FV_TOKEN_DECODER_STRIP) {
        FV_TRY(fv_read_string(tok, doc, v, "content", true, &d.from));
        if (d.from.bytes == 0) return fv_doc_fail(doc, v, FV_ERR_FORMAT, "\"content\" is empty");
        FV_TRY(read_count(doc, v, "start", &d.start));
        FV_TRY(read_count(doc, v, "stop", &d.stop));
    } else if (kind == FV_TOKEN_DECODER_REPLACE) {
        FV_TRY(read_pattern(tok, doc, v, &d.from, &d.re));
        FV_TRY(fv_read_string(tok, doc, v, "content", true, &d.to));
    }
    fv_token_decoder *steps = fv_mem_grow(&tok->ctx->mem, tok->decoders, &tok->decoder_room,
                                          tok->decoder_count + 1, sizeof *steps);
    if (!steps) return out_of_memory(tok);
    tok->decoders = steps;
    steps[tok->decoder_count++] = d;
    return FV_OK;
}
