#include <stdlib.h>
#include <string.h>

#include "fovea/tokenizer.h"
#include "fuzz.h"
#include "io/utf8.h"

static void check(const fv_tokenizer *tok, const fv_encoding *e, size_t bytes)
{
    for (size_t i = 0; i < e->count; i++) {
        /* The ids of a template are the file's own, and may have no token. */
        if (!e->special_tokens_mask[i] && !fv_tokenizer_id_to_token(tok, e->ids[i]).text) abort();
        if (e->offsets[i].begin > e->offsets[i].end || e->offsets[i].end > bytes) abort();
    }
}

/* What fv_limits allow for any text, beyond 16 tokens a byte and 1,024 bytes a token. */
enum { FREE = 1 << 16 };

static void use(fv_ctx *ctx, const fv_tokenizer *tok, fv_tokenizer_encoder *enc)
{
    /* The last one repeats a letter, on which patterns and pieces try much. */
    static char letters[2049];
    memset(letters, 'a', sizeof letters - 1);
    const char *const texts[] = {"", "the cat's 3.14 \xE6\x9D\xB1\xE4\xBA\xAC  e\xCC\x81 <s>a</s>",
                                 "  a\tb\n\xC3\x89 \xEF\xAC\x81\xF0\x9F\x99\x82",
                                 ">>fra<< the</s>>>x<<", letters};
    fv_text out = {0};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fv_encoding e = {.struct_size = sizeof e};
        size_t n = strlen(texts[i]);
        double began = fuzz_clock();
        fv_status s = fv_tokenizer_encode(enc, texts[i], n, FV_TOKENIZER_ADD_SPECIALS, &e);
        fuzz_bound("encode", s, e.count, FREE + 16 * n, began);
        if (s != FV_OK) continue;
        check(tok, &e, n);
        began = fuzz_clock();
        out.bytes = 0;
        s = fv_tokenizer_decode(ctx, tok, e.ids, e.count, 0, &out);
        fuzz_bound("decode", s, out.bytes, FREE + 1024 * e.count, began);
        if (s == FV_OK && !fv_utf8_valid(out.data, out.bytes)) abort();
    }
    fv_text_free(ctx, &out);
}

void fuzz_tokenizer(fv_ctx *ctx, fv_tokenizer *tok)
{
    fv_tokenizer_encoder *enc = NULL;
    if (fv_tokenizer_encoder_create(ctx, tok, &enc) == FV_OK) use(ctx, tok, enc);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
}

void fuzz_tokens(const uint8_t *data, size_t bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    fv_tokenizer *tok = NULL;
    const double began = fuzz_clock();
    const fv_status s = fv_tokenizer_parse(ctx, "input", (const char *)data, bytes, &tok);
    fuzz_bound("parse", s, 0, 0, began);
    if (s == FV_OK) fuzz_tokenizer(ctx, tok);
    fuzz_check(ctx);
}
