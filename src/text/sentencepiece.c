#include "text/sentencepiece.h"

#include <math.h>
#include <string.h>

#include "io/utf8.h"

/* ---- protocol buffers ------------------------------------------------------------ */

typedef enum wire_type { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 } wire_type;

typedef struct field {
    uint64_t number;
    wire_type wire;
    uint64_t value;  /* of a varint or a fixed number */
    fv_string bytes; /* of a text or a message */
} field;

typedef struct message {
    fv_ctx *ctx;
    const char *name;
    const char *begin, *at, *end;
} message;

static fv_status broken(const message *m, const char *what)
{
    return fv_fail(m->ctx, FV_ERR_FORMAT, "%s: %s", m->name, what);
}

static fv_status read_varint(message *m, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char byte = (unsigned char)*m->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = value;
            return FV_OK;
        }
    }
    return broken(m, "unterminated varint");
}

static fv_status read_fixed(message *m, unsigned bytes, uint64_t *out)
{
    if ((size_t)(m->end - m->at) < bytes) return broken(m, "the file is truncated");
    *out = 0;
    for (unsigned i = 0; i < bytes; i++)
        *out |= (uint64_t)(unsigned char)*m->at++ << (8 * i);
    return FV_OK;
}

static fv_status read_field(message *m, field *f)
{
    uint64_t key = 0;
    FV_TRY(read_varint(m, &key));
    *f = (field){.number = key >> 3, .wire = (wire_type)(key & 7)};
    switch (f->wire) {
    case WIRE_VARINT:
        return read_varint(m, &f->value);
    case WIRE_64:
        return read_fixed(m, 8, &f->value);
    case WIRE_32:
        return read_fixed(m, 4, &f->value);
    case WIRE_BYTES:
        FV_TRY(read_varint(m, &f->value));
        if (f->value > (uint64_t)(m->end - m->at)) return broken(m, "the file is truncated");
        f->bytes = (fv_string){m->at, (size_t)f->value};
        m->at += f->value;
        return FV_OK;
    default:
        return broken(m, "not a SentencePiece model");
    }
}

static message inner(const message *m, const field *f)
{
    return (message){m->ctx, m->name, f->bytes.text, f->bytes.text, f->bytes.text + f->bytes.bytes};
}

/* Whether this is the field, with the expected wire type; otherwise it is skipped like an unknown
 * one. */
static bool is_field(const field *f, uint64_t number, wire_type wire)
{
    return f->number == number && f->wire == wire;
}

/* ---- model file ------------------------------------------------------------------ */

static fv_status put_piece(message *m, fv_sentencepiece *sp, fv_sentence_piece piece)
{
    fv_ctx *ctx = m->ctx;
    char quoted[FV_QUOTED_BYTES];
    FV_RETURN_IF(sp->count >= ctx->limits.vocabulary, ctx, FV_ERR_LIMIT,
                 "%s: has more than %llu pieces", m->name,
                 (unsigned long long)ctx->limits.vocabulary);
    FV_RETURN_IF(piece.text.bytes == 0 || memchr(piece.text.text, 0, piece.text.bytes) ||
                     !fv_utf8_valid(piece.text.text, piece.text.bytes),
                 ctx, FV_ERR_FORMAT, "%s: piece %zu is empty or not UTF-8", m->name, sp->count);
    FV_RETURN_IF(!isfinite(piece.score), ctx, FV_ERR_FORMAT,
                 "%s: the score of \"%s\" is not finite", m->name,
                 fv_quote(piece.text.text, piece.text.bytes, quoted));
    fv_sentence_piece *pieces =
        fv_mem_grow(&ctx->mem, sp->pieces, &sp->room, sp->count + 1, sizeof *pieces);
    FV_RETURN_IF(!pieces, ctx, FV_ERR_MEMORY, "%s: out of memory", m->name);
    sp->pieces = pieces;
    pieces[sp->count++] = piece;
    return FV_OK;
}

static fv_status read_piece(message m, fv_sentencepiece *sp)
{
    fv_sentence_piece piece = {.kind = FV_PIECE_NORMAL};
    while (m.at < m.end) {
        field f;
        FV_TRY(read_field(&m, &f));
        if (is_field(&f, 1, WIRE_BYTES)) piece.text = f.bytes;
        if (is_field(&f, 2, WIRE_32)) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&piece.score, &bits, sizeof bits);
        }
        if (is_field(&f, 3, WIRE_VARINT)) {
            if (f.value < FV_PIECE_NORMAL || f.value > FV_PIECE_BYTE)
                return broken(&m, "a piece has an unknown type");
            piece.kind = (fv_piece_kind)f.value;
        }
    }
    return put_piece(&m, sp, piece);
}

static fv_status read_trainer(message m, fv_sentencepiece *sp)
{
    while (m.at < m.end) {
        field f;
        FV_TRY(read_field(&m, &f));
        if (is_field(&f, 3, WIRE_VARINT)) sp->type = f.value;
        if (is_field(&f, 24, WIRE_VARINT)) sp->whitespace_as_suffix = f.value != 0;
        if (is_field(&f, 35, WIRE_VARINT)) sp->byte_fallback = f.value != 0;
        if (is_field(&f, 44, WIRE_BYTES)) sp->unknown = f.bytes;
    }
    return FV_OK;
}

static fv_status read_normalizer(message m, fv_sentencepiece *sp)
{
    while (m.at < m.end) {
        field f;
        FV_TRY(read_field(&m, &f));
        if (is_field(&f, 2, WIRE_BYTES)) sp->charsmap = f.bytes;
        if (is_field(&f, 3, WIRE_VARINT)) sp->add_dummy_prefix = f.value != 0;
        if (is_field(&f, 4, WIRE_VARINT)) sp->remove_extra_whitespaces = f.value != 0;
        if (is_field(&f, 5, WIRE_VARINT)) sp->escape_whitespaces = f.value != 0;
    }
    return FV_OK;
}

/* A denormalizer, which would normalize decoded text again, is not supported. */
static fv_status reject_denormalizer(message m)
{
    while (m.at < m.end) {
        field f;
        FV_TRY(read_field(&m, &f));
        FV_RETURN_IF(is_field(&f, 2, WIRE_BYTES) && f.bytes.bytes, m.ctx, FV_ERR_UNSUPPORTED,
                     "%s: denormalizers are not supported", m.name);
    }
    return FV_OK;
}

static fv_status read_model(message m, fv_sentencepiece *sp)
{
    enum { PIECE = 1, TRAINER, NORMALIZER, DENORMALIZER = 5 };
    while (m.at < m.end) {
        field f;
        FV_TRY(read_field(&m, &f));
        if (is_field(&f, PIECE, WIRE_BYTES)) FV_TRY(read_piece(inner(&m, &f), sp));
        if (is_field(&f, TRAINER, WIRE_BYTES)) FV_TRY(read_trainer(inner(&m, &f), sp));
        if (is_field(&f, NORMALIZER, WIRE_BYTES)) FV_TRY(read_normalizer(inner(&m, &f), sp));
        if (is_field(&f, DENORMALIZER, WIRE_BYTES)) FV_TRY(reject_denormalizer(inner(&m, &f)));
    }
    return FV_OK;
}

static fv_status check_model(message *m, const fv_sentencepiece *sp)
{
    size_t unknown = 0, bytes = 0;
    bool unused = false;
    for (size_t i = 0; i < sp->count; i++) {
        const fv_sentence_piece *p = &sp->pieces[i];
        unknown += p->kind == FV_PIECE_UNKNOWN;
        unused = unused || p->kind == FV_PIECE_UNUSED;
        bytes += p->kind == FV_PIECE_BYTE;
        if (p->kind == FV_PIECE_BYTE && fv_fallback_byte(p->text) < 0)
            return broken(m, "a byte piece is not \"<0x00>\" to \"<0xFF>\"");
    }
    if (unknown != 1) return broken(m, "expected exactly one unknown piece");
    if (sp->byte_fallback ? bytes != 256 : bytes != 0)
        return broken(m, "expected 256 byte pieces with byte fallback, and none without");
    if (!fv_utf8_valid(sp->unknown.text, sp->unknown.bytes))
        return broken(m, "the text of the unknown piece is not UTF-8");
    FV_RETURN_IF(sp->type != FV_SENTENCEPIECE_UNIGRAM && sp->type != FV_SENTENCEPIECE_BPE &&
                     sp->type != FV_SENTENCEPIECE_CHAR,
                 m->ctx, FV_ERR_UNSUPPORTED,
                 "%s: word models are not supported, expected unigram, BPE or char", m->name);
    FV_RETURN_IF(unused && sp->type == FV_SENTENCEPIECE_BPE, m->ctx, FV_ERR_UNSUPPORTED,
                 "%s: unused pieces in a BPE model are not supported", m->name);
    return FV_OK;
}

fv_status fv_sentencepiece_read(fv_ctx *ctx, const char *name, const char *data, size_t bytes,
                                fv_sentencepiece *out)
{
    message m = {ctx, name, data, data, data + bytes};
    fv_sentencepiece sp = {.type = FV_SENTENCEPIECE_UNIGRAM,
                           .add_dummy_prefix = true,
                           .remove_extra_whitespaces = true,
                           .escape_whitespaces = true,
                           .charsmap = {"", 0},
                           .unknown = {" \xE2\x81\x87 ", 5}};
    fv_status s = read_model(m, &sp);
    if (s == FV_OK) s = check_model(&m, &sp);
    if (s == FV_OK)
        *out = sp;
    else
        fv_sentencepiece_free(ctx, &sp);
    return s;
}

void fv_sentencepiece_free(fv_ctx *ctx, fv_sentencepiece *sp)
{
    fv_mem_free(&ctx->mem, sp->pieces, sp->room * sizeof *sp->pieces);
    *sp = (fv_sentencepiece){0};
}
