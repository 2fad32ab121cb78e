#include "text/tokenizer_write.h"

#include <string.h>

void fv_json_bool_member(fv_json_writer *w, const char *key, bool value)
{
    fv_json_key(w, key);
    fv_json_bool(w, value);
}

void fv_json_string_member(fv_json_writer *w, const char *key, const char *value)
{
    fv_json_key(w, key);
    if (value)
        fv_json_string(w, value);
    else
        fv_json_null(w);
}

void fv_json_open_typed(fv_json_writer *w, const char *type)
{
    fv_json_open(w, '{');
    fv_json_string_member(w, "type", type);
}

void fv_json_added_token(fv_json_writer *w, fv_string token, int64_t id, bool special)
{
    fv_json_open(w, '{');
    fv_json_key(w, "id");
    fv_json_int(w, id);
    fv_json_key(w, "content");
    fv_json_string_n(w, token.text, token.bytes);
    fv_json_bool_member(w, "single_word", false);
    fv_json_bool_member(w, "lstrip", false);
    fv_json_bool_member(w, "rstrip", false);
    fv_json_bool_member(w, "normalized", false);
    fv_json_bool_member(w, "special", special);
    fv_json_close(w, '}');
}

static void write_added(fv_json_writer *w, const fv_tokenizer_spec *spec)
{
    fv_json_key(w, "added_tokens");
    fv_json_open(w, '[');
    for (size_t i = 0; i < spec->special_count; i++) {
        const fv_string token = {spec->specials[i], strlen(spec->specials[i])};
        fv_json_added_token(w, token, fv_vocab_find(spec->vocab, token.text, token.bytes), true);
    }
    fv_json_close(w, ']');
}

static void write_normalizer(fv_json_writer *w, const fv_tokenizer_spec *spec)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    fv_json_key(w, "normalizer");
    if (spec->bert) {
        fv_json_open_typed(w, "BertNormalizer");
        fv_json_bool_member(w, "clean_text", true);
        fv_json_bool_member(w, "handle_chinese_chars", true);
        fv_json_string_member(w, "strip_accents", NULL);
        fv_json_bool_member(w, "lowercase", spec->lowercase);
        fv_json_close(w, '}');
        return;
    }
    if (!spec->lowercase && !spec->normalize) {
        fv_json_null(w);
        return;
    }
    fv_json_open_typed(w, "Sequence");
    fv_json_key(w, "normalizers");
    fv_json_open(w, '[');
    for (int step = 0; step < 2; step++) {
        if (!(step ? spec->lowercase : spec->normalize)) continue;
        fv_json_open_typed(w, step ? "Lowercase" : forms[spec->form]);
        fv_json_close(w, '}');
    }
    fv_json_close(w, ']');
    fv_json_close(w, '}');
}

static void write_byte_level(fv_json_writer *w, const char *key, bool trim)
{
    fv_json_key(w, key);
    fv_json_open_typed(w, "ByteLevel");
    fv_json_bool_member(w, "add_prefix_space", false);
    fv_json_bool_member(w, "trim_offsets", trim);
    fv_json_bool_member(w, "use_regex", true);
    fv_json_close(w, '}');
}

static void write_metaspace(fv_json_writer *w, const char *key)
{
    fv_json_key(w, key);
    fv_json_open_typed(w, "Metaspace");
    fv_json_string_member(w, "replacement", "\xE2\x96\x81");
    fv_json_string_member(w, "prepend_scheme", "always");
    fv_json_bool_member(w, "split", true);
    fv_json_close(w, '}');
}

static void write_simple(fv_json_writer *w, const char *key, const char *type)
{
    fv_json_key(w, key);
    if (!type) {
        fv_json_null(w);
        return;
    }
    fv_json_open_typed(w, type);
    fv_json_close(w, '}');
}

static void write_pre_tokenizer(fv_json_writer *w, const fv_tokenizer_spec *spec)
{
    static const char key[] = "pre_tokenizer";
    if (spec->split == FV_SPEC_BYTES)
        write_byte_level(w, key, true);
    else if (spec->split == FV_SPEC_METASPACE)
        write_metaspace(w, key);
    else
        write_simple(w, key,
                     spec->split == FV_SPEC_WORDS  ? "WhitespaceSplit"
                     : spec->split == FV_SPEC_BERT ? "BertPreTokenizer"
                                                   : NULL);
}

static void write_decoder(fv_json_writer *w, const fv_tokenizer_spec *spec)
{
    static const char key[] = "decoder";
    if (spec->split == FV_SPEC_BYTES) {
        write_byte_level(w, key, true);
    } else if (spec->split == FV_SPEC_METASPACE) {
        write_metaspace(w, key);
    } else if (spec->suffix) {
        fv_json_key(w, key);
        fv_json_open_typed(w, "BPEDecoder");
        fv_json_string_member(w, "suffix", spec->suffix);
        fv_json_close(w, '}');
    } else if (spec->model == FV_TOKEN_MODEL_WORD_PIECE) {
        fv_json_key(w, key);
        fv_json_open_typed(w, "WordPiece");
        fv_json_string_member(w, "prefix", "##");
        fv_json_bool_member(w, "cleanup", true);
        fv_json_close(w, '}');
    } else {
        write_simple(w, key, spec->split == FV_SPEC_WHOLE ? "Fuse" : NULL);
    }
}

/* ---- post-processor -------------------------------------------------------------- */

void fv_json_template_piece(fv_json_writer *w, const char *kind, const char *id, int type)
{
    fv_json_open(w, '{');
    fv_json_key(w, kind);
    fv_json_open(w, '{');
    fv_json_string_member(w, "id", id);
    fv_json_key(w, "type_id");
    fv_json_int(w, type);
    fv_json_close(w, '}');
    fv_json_close(w, '}');
}

static void write_template(fv_json_writer *w, const fv_tokenizer_spec *spec, bool pair)
{
    fv_json_key(w, pair ? "pair" : "single");
    fv_json_open(w, '[');
    if (spec->begin) fv_json_template_piece(w, "SpecialToken", spec->begin, 0);
    for (int i = 0; i <= pair; i++) {
        fv_json_template_piece(w, "Sequence", i ? "B" : "A", i);
        if (spec->end) fv_json_template_piece(w, "SpecialToken", spec->end, i);
    }
    fv_json_close(w, ']');
}

void fv_json_special_token(fv_json_writer *w, const char *token, int64_t id)
{
    fv_json_key(w, token);
    fv_json_open(w, '{');
    fv_json_string_member(w, "id", token);
    fv_json_key(w, "ids");
    fv_json_open(w, '[');
    fv_json_int(w, id);
    fv_json_close(w, ']');
    fv_json_key(w, "tokens");
    fv_json_open(w, '[');
    fv_json_string(w, token);
    fv_json_close(w, ']');
    fv_json_close(w, '}');
}

static void write_mark(fv_json_writer *w, const fv_vocab *vocab, const char *token)
{
    fv_json_special_token(w, token, fv_vocab_find(vocab, token, strlen(token)));
}

static void write_post_processor(fv_json_writer *w, const fv_tokenizer_spec *spec)
{
    if (!spec->begin && !spec->end) {
        if (spec->split == FV_SPEC_BYTES)
            write_byte_level(w, "post_processor", spec->trim_offsets);
        else
            write_simple(w, "post_processor", NULL);
        return;
    }
    fv_json_key(w, "post_processor");
    fv_json_open_typed(w, "TemplateProcessing");
    write_template(w, spec, false);
    write_template(w, spec, true);
    fv_json_key(w, "special_tokens");
    fv_json_open(w, '{');
    if (spec->begin) write_mark(w, spec->vocab, spec->begin);
    if (spec->end && !(spec->begin && strcmp(spec->begin, spec->end) == 0))
        write_mark(w, spec->vocab, spec->end);
    fv_json_close(w, '}');
    fv_json_close(w, '}');
}

/* ---- model ----------------------------------------------------------------------- */

static void write_vocab(fv_json_writer *w, const fv_vocab *vocab)
{
    fv_json_key(w, "vocab");
    fv_json_open(w, '{');
    for (size_t i = 0; i < vocab->size; i++) {
        if (!vocab->tokens[i].text) continue;
        fv_json_key_n(w, vocab->tokens[i].text, vocab->tokens[i].bytes);
        fv_json_int(w, (int64_t)i);
    }
    fv_json_close(w, '}');
}

static void write_merges(fv_json_writer *w, const fv_tokenizer_spec *spec)
{
    fv_json_key(w, "merges");
    fv_json_open(w, '[');
    for (size_t i = 0; i < spec->merge_count; i++) {
        fv_string a = spec->vocab->tokens[spec->merges[i].first];
        fv_string b = spec->vocab->tokens[spec->merges[i].second];
        fv_json_open(w, '[');
        fv_json_string_n(w, a.text, a.bytes);
        fv_json_string_n(w, b.text, b.bytes);
        fv_json_close(w, ']');
    }
    fv_json_close(w, ']');
}

static void write_model(fv_json_writer *w, const fv_tokenizer_spec *spec)
{
    static const char *const names[] = {"BPE", "WordLevel", "WordPiece"};
    fv_json_key(w, "model");
    fv_json_open_typed(w, names[spec->model]);
    fv_json_string_member(w, "unk_token", spec->unk);
    if (spec->model == FV_TOKEN_MODEL_BPE) {
        fv_json_string_member(w, "dropout", NULL);
        fv_json_string_member(w, "continuing_subword_prefix", NULL);
        fv_json_string_member(w, "end_of_word_suffix", spec->suffix);
        fv_json_bool_member(w, "fuse_unk", false);
        fv_json_bool_member(w, "byte_fallback", false);
        fv_json_bool_member(w, "ignore_merges", false);
    } else if (spec->model == FV_TOKEN_MODEL_WORD_PIECE) {
        fv_json_string_member(w, "continuing_subword_prefix", "##");
        fv_json_key(w, "max_input_chars_per_word");
        fv_json_int(w, 100);
    }
    write_vocab(w, spec->vocab);
    if (spec->model == FV_TOKEN_MODEL_BPE) write_merges(w, spec);
    fv_json_close(w, '}');
}

fv_status fv_tokenizer_build(fv_ctx *ctx, const char *name, const fv_tokenizer_spec *spec,
                             fv_tokenizer **out)
{
    fv_json_writer w;
    fv_json_begin(&w, ctx);
    fv_json_open(&w, '{');
    fv_json_string_member(&w, "version", "1.0");
    fv_json_string_member(&w, "truncation", NULL);
    fv_json_string_member(&w, "padding", NULL);
    write_added(&w, spec);
    write_normalizer(&w, spec);
    write_pre_tokenizer(&w, spec);
    write_post_processor(&w, spec);
    write_decoder(&w, spec);
    write_model(&w, spec);
    fv_json_close(&w, '}');
    fv_status s = fv_json_end(&w);
    if (s == FV_OK) s = fv_tokenizer_parse(ctx, name, w.text, w.bytes, out);
    fv_json_free(&w);
    return s;
}
