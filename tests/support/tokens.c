#include "support/tokens.h"

#include "fovea/data.h"
#include "support/files.h"
#include "support/test.h"
#include "text/byte_stream.h"
#include "text/codepoints.h"

int tokens_each_line(fv_ctx *ctx, const char *path, void (*use)(const fv_doc *doc))
{
    fv_lines *lines = NULL;
    fv_line line = {.text = ""};
    int count = 0;
    fv_status s = fv_lines_open(ctx, path, FV_LINES_POLICY_REJECT, &lines);
    while (s == FV_OK && line.text) {
        fv_doc *doc = NULL;
        s = fv_lines_next(lines, &line);
        if (s != FV_OK || !line.text) break;
        s = fv_json_parse(ctx, path, line.text, line.bytes, &doc);
        if (s != FV_OK) break;
        use(doc);
        fv_doc_free(&doc);
        count++;
    }
    CHECK_OK(ctx, s);
    fv_lines_close(&lines);
    return count;
}

static uint32_t chars_before(fv_string text, uint32_t byte)
{
    uint32_t chars = 0;
    for (uint32_t i = 0; i < byte && i < text.bytes; i++)
        chars += (text.text[i] & 0xC0) != 0x80;
    return chars;
}

static int64_t int_at(const fv_value *array, uint32_t i) { return array->as.items[i].as.integer; }

/* A piece of unknown text is that text, and not the token's. */
static bool same_piece(const tokens_with *with, int64_t id, const fv_value *piece)
{
    fv_string token = fv_tokenizer_id_to_token(with->tok, id);
    if (fv_tokenizer_is_special(with->tok, id)) return true;
    return token.bytes == piece->count && memcmp(token.text, piece->as.text, token.bytes) == 0;
}

static bool same_tokens(const tokens_with *with, const fv_encoding *e, fv_string text,
                        fv_string pair, const fv_value *root)
{
    const fv_value *ids = fv_value_get(root, "ids"), *offsets = fv_value_get(root, "offsets");
    const fv_value *types = fv_value_get(root, "types"), *pieces = fv_value_get(root, "pieces");
    if (!types) types = fv_value_get(root, "type_ids");
    if (e->count != ids->count) return false;
    for (uint32_t i = 0; i < ids->count; i++) {
        fv_string of = e->sequence_ids[i] ? pair : text;
        if (e->ids[i] != int_at(ids, i)) return false;
        if (types && e->type_ids[i] != int_at(types, i)) return false;
        if (pieces && !same_piece(with, e->ids[i], &pieces->as.items[i])) return false;
        if (!offsets) continue;
        const fv_value *span = &offsets->as.items[i];
        if (chars_before(of, e->offsets[i].begin) != int_at(span, 0) ||
            chars_before(of, e->offsets[i].end) != int_at(span, 1))
            return false;
    }
    return true;
}

static bool same_text(const tokens_with *with, const fv_encoding *e, const fv_value *decoded)
{
    fv_text out = {0};
    CHECK_OK(with->ctx,
             fv_tokenizer_decode(with->ctx, with->tok, e->ids, e->count, with->decode_flags, &out));
    bool same = out.bytes == decoded->count &&
                (out.bytes == 0 || memcmp(out.data, decoded->as.text, out.bytes) == 0);
    if (!same)
        test_failed(__FILE__, __LINE__, "%s: decoded to \"%s\", not \"%s\"", with->name,
                    out.data ? out.data : "", decoded->as.text);
    fv_text_free(with->ctx, &out);
    return same;
}

bool tokens_compare(const tokens_with *with, const fv_doc *doc)
{
    const fv_value *root = &doc->root, *text = fv_value_get(root, "text");
    const fv_value *pair = fv_value_get(root, "pair"), *decoded = fv_value_get(root, "decoded");
    fv_encoding e = {.struct_size = sizeof e};
    const fv_string a = {text->as.text, text->count};
    fv_string b = {with->pair, with->pair ? strlen(with->pair) : 0};
    if (pair) b = (fv_string){pair->as.text, pair->count};
    CHECK_OK(with->ctx,
             b.text
                 ? fv_tokenizer_encode_pair(with->enc, a, b, FV_TOKENIZER_ADD_SPECIALS, &e)
                 : fv_tokenizer_encode(with->enc, a.text, a.bytes, FV_TOKENIZER_ADD_SPECIALS, &e));
    if (!same_tokens(with, &e, a, b, root)) {
        test_failed(__FILE__, __LINE__, "%s: other tokens for \"%s\"", with->name, a.text);
        return false;
    }
    return !decoded || same_text(with, &e, decoded);
}

void tokens_unpack(fv_ctx *ctx, const char *packed, const char *plain)
{
    fv_byte_stream source;
    fv_text whole = {0};
    size_t got = 1;
    char part[4096];
    const fv_status opened = fv_byte_stream_open(ctx, packed, &source);
    CHECK_OK(ctx, opened);
    if (opened != FV_OK) return;
    while (got > 0) {
        got = 0;
        CHECK_OK(ctx, fv_byte_stream_read(&source, part, sizeof part, &got));
        if (got) CHECK_OK(ctx, fv_text_append(ctx, &whole, part, got));
    }
    fv_byte_stream_close(&source);
    file_write(plain, whole.data, whole.bytes);
    fv_text_free(ctx, &whole);
}
