#include "text/base64.h"

#include "base/checked_math.h"

fv_status fv_base64_encode(fv_ctx *ctx, const char *data, size_t bytes, fv_text *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = (const unsigned char *)data;
    size_t room;
    FV_RETURN_IF(!fv_checked_mul_size(bytes / 3 + 1, 4, &room), ctx, FV_ERR_MEMORY,
                 "out of memory");
    FV_TRY(fv_text_reserve(ctx, out, room));
    size_t used = 0;
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t left = bytes - i;
        uint32_t word = (uint32_t)at[i] << 16;
        if (left > 1) word |= (uint32_t)at[i + 1] << 8;
        if (left > 2) word |= at[i + 2];
        out->data[used++] = letters[word >> 18];
        out->data[used++] = letters[word >> 12 & 63];
        out->data[used++] = left > 1 ? letters[word >> 6 & 63] : '=';
        out->data[used++] = left > 2 ? letters[word & 63] : '=';
    }
    out->data[used] = '\0';
    out->bytes = used;
    return FV_OK;
}

/* 0 to 63, or -1. */
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

fv_status fv_base64_decode(fv_ctx *ctx, const char *text, size_t bytes, fv_text *out)
{
    size_t padding = 0, used = 0;
    while (padding < 2 && padding < bytes && text[bytes - 1 - padding] == '=')
        padding++;
    FV_RETURN_IF(bytes % 4 != 0, ctx, FV_ERR_FORMAT,
                 "base64: the length %zu is not a multiple of 4", bytes);
    FV_TRY(fv_text_reserve(ctx, out, bytes / 4 * 3));
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t word = 0;
        for (size_t k = i; k < i + 4; k++) {
            int value = k >= bytes - padding ? 0 : value_of(text[k]);
            FV_RETURN_IF(value < 0, ctx, FV_ERR_FORMAT, "base64: invalid character at %zu", k);
            word = word << 6 | (uint32_t)value;
        }
        for (int shift = 16; shift >= 0; shift -= 8)
            out->data[used++] = (char)(word >> shift & 255);
    }
    out->bytes = used - padding;
    out->data[out->bytes] = '\0';
    return FV_OK;
}
