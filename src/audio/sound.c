#include "audio/sound.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"

/* ---- making ----------------------------------------------------------------------- */

fv_status fv_sound_check(const fv_file *file, const fv_sound_facts *facts)
{
    fv_ctx *ctx = file->ctx;
    const uint64_t seconds = ctx->limits.audio_seconds;
    FV_RETURN_IF(facts->rate < 1 || facts->channels < 1, ctx, FV_ERR_FORMAT,
                 "%s: %lld channels at %lld Hz: expected at least one of each", file->path,
                 (long long)facts->channels, (long long)facts->rate);
    FV_RETURN_IF(facts->rate > FV_SOUND_MAX_RATE || facts->channels > FV_SOUND_MAX_CHANNELS, ctx,
                 FV_ERR_LIMIT, "%s: %lld channels at %lld Hz: at most %d channels at %d Hz",
                 file->path, (long long)facts->channels, (long long)facts->rate,
                 FV_SOUND_MAX_CHANNELS, FV_SOUND_MAX_RATE);
    const uint64_t second = (uint64_t)(facts->rate * facts->channels > FV_SOUND_LIMIT_RATE
                                           ? FV_SOUND_LIMIT_RATE / facts->channels
                                           : facts->rate);
    FV_RETURN_IF(
        (uint64_t)facts->length / second > seconds ||
            ((uint64_t)facts->length / second == seconds && (uint64_t)facts->length % second > 0),
        ctx, FV_ERR_LIMIT,
        "%s: %lld samples in %lld channels at %lld Hz are more than the limit of %llu "
        "seconds allows",
        file->path, (long long)facts->length, (long long)facts->channels, (long long)facts->rate,
        (unsigned long long)seconds);
    return FV_OK;
}

static fv_status make(fv_ctx *ctx, int64_t rate, int64_t channels, int64_t length, fv_sound **out)
{
    size_t bytes;
    FV_RETURN_IF(!fv_checked_mul_size((size_t)channels * sizeof(float), (size_t)length, &bytes),
                 ctx, FV_ERR_MEMORY, "sound: %lld channels of %lld samples are too many",
                 (long long)channels, (long long)length);
    fv_sound *s = fv_mem_zalloc(&ctx->mem, sizeof *s);
    float *data = s ? fv_mem_alloc(&ctx->mem, bytes) : NULL;
    if (!data) {
        if (s) fv_mem_free(&ctx->mem, s, sizeof *s);
        return fv_fail(ctx, FV_ERR_MEMORY, "sound: out of memory for %zu bytes", bytes);
    }
    *s = (fv_sound){.ctx = ctx,
                    .rate = rate,
                    .channels = channels,
                    .file_channels = channels,
                    .data = data,
                    .bytes = bytes,
                    .room = length};
    *out = s;
    return FV_OK;
}

fv_status fv_sound_begin(const fv_file *file, const fv_sound_facts *facts, fv_sound_mix mix,
                         fv_sound **out)
{
    FV_TRY(fv_sound_check(file, facts));
    const int64_t channels = mix == FV_SOUND_MIX_MONO ? 1 : facts->channels;
    FV_TRY(make(file->ctx, facts->rate, channels, facts->length, out));
    (*out)->file_channels = facts->channels;
    snprintf((*out)->encoding, sizeof(*out)->encoding, "%d-bit %s", facts->bits, facts->encoding);
    return FV_OK;
}

/* Doubles the room of every channel until `need` samples fit. */
static fv_status grow(fv_sound *s, int64_t need)
{
    int64_t room = s->room < 4096 ? 4096 : s->room;
    while (room < need)
        room *= 2;
    const size_t bytes = (size_t)(s->channels * room) * sizeof(float);
    float *data = fv_mem_alloc(&s->ctx->mem, bytes);
    FV_RETURN_IF(!data, s->ctx, FV_ERR_MEMORY, "sound: out of memory for %zu bytes", bytes);
    for (int64_t c = 0; c < s->channels; c++)
        memcpy(data + c * room, s->data + c * s->room, (size_t)s->length * sizeof(float));
    fv_mem_free(&s->ctx->mem, s->data, s->bytes);
    s->data = data;
    s->bytes = bytes;
    s->room = room;
    return FV_OK;
}

fv_status fv_sound_append(const fv_file *file, fv_sound *s, const float *const *in, int64_t count)
{
    const fv_sound_facts after = {
        .rate = s->rate, .channels = s->file_channels, .length = s->length + count};
    FV_TRY(fv_sound_check(file, &after));
    if (after.length > s->room) FV_TRY(grow(s, after.length));
    for (int64_t c = 0; c < s->channels; c++) {
        float *to = s->data + c * s->room + s->length;
        if (s->channels == s->file_channels) {
            memcpy(to, in[c], (size_t)count * sizeof(float));
            continue;
        }
        const double part = 1.0 / (double)s->file_channels;
        for (int64_t i = 0; i < count; i++) {
            double sum = 0;
            for (int64_t k = 0; k < s->file_channels; k++)
                sum += (double)in[k][i];
            to[i] = (float)(sum * part);
        }
    }
    s->length = after.length;
    return FV_OK;
}

fv_status fv_sound_create(fv_ctx *ctx, int64_t rate, int64_t channels, int64_t length,
                          const float *samples, fv_sound **out)
{
    FV_RETURN_IF(!out, ctx, FV_ERR_ARGUMENT, "sound: no place for the result");
    FV_RETURN_IF(rate < 1 || rate > FV_SOUND_MAX_RATE || channels < 1 ||
                     channels > FV_SOUND_MAX_CHANNELS || length < 0,
                 ctx, FV_ERR_ARGUMENT,
                 "sound: %lld channels of %lld samples at %lld Hz: expected 1 to %d channels and 1 "
                 "to %d Hz",
                 (long long)channels, (long long)length, (long long)rate, FV_SOUND_MAX_CHANNELS,
                 FV_SOUND_MAX_RATE);
    fv_sound *s = NULL;
    FV_TRY(make(ctx, rate, channels, length, &s));
    s->length = length;
    if (samples)
        memcpy(s->data, samples, (size_t)(channels * length) * sizeof(float));
    else
        memset(s->data, 0, s->bytes);
    *out = s;
    return FV_OK;
}

void fv_sound_free(fv_sound **sound)
{
    fv_sound *s = *sound;
    if (!s) return;
    fv_mem *mem = &s->ctx->mem;
    fv_mem_free(mem, s->data, s->bytes);
    fv_mem_free(mem, s, sizeof *s);
    *sound = NULL;
}

/* ---- facts ------------------------------------------------------------------------ */

int64_t fv_sound_rate(const fv_sound *sound) { return sound->rate; }
int64_t fv_sound_channels(const fv_sound *sound) { return sound->channels; }
int64_t fv_sound_length(const fv_sound *sound) { return sound->length; }
const char *fv_sound_encoding(const fv_sound *sound) { return sound->encoding; }
int64_t fv_sound_file_channels(const fv_sound *sound) { return sound->file_channels; }

float *fv_sound_samples(fv_sound *sound, int64_t channel)
{
    if (channel < 0 || channel >= sound->channels) return NULL;
    return sound->data + channel * sound->room;
}

/* ---- loading ---------------------------------------------------------------------- */

static fv_status load(const fv_file *file, fv_sound_mix mix, fv_sound **out)
{
    char start[4] = {0};
    if (file->bytes >= sizeof start) FV_TRY(fv_file_read(file, start, sizeof start, 0));
    if (memcmp(start, "fLaC", 4) == 0) return fv_flac_read(file, mix, out);
    if (memcmp(start, "RIFF", 4) == 0) return fv_wav_read(file, mix, out);
    FV_RETURN_IF(memcmp(start, "RF64", 4) == 0 || memcmp(start, "RIFX", 4) == 0, file->ctx,
                 FV_ERR_UNSUPPORTED, "%s: %.4s files are not supported, only RIFF (WAV) and FLAC",
                 file->path, start);
    return fv_fail(file->ctx, FV_ERR_FORMAT, "%s: neither a WAV nor a FLAC file", file->path);
}

fv_status fv_sound_load(fv_ctx *ctx, const char *path, fv_sound_mix mix, fv_sound **out)
{
    FV_RETURN_IF(!path || !out || (mix != FV_SOUND_MIX_MONO && mix != FV_SOUND_MIX_NONE), ctx,
                 FV_ERR_ARGUMENT, "sound: no path, no place for the result, or an unknown mix");
    fv_file file;
    fv_sound *s = NULL;
    FV_TRY(fv_file_open(ctx, path, &file));
    const fv_status status = load(&file, mix, &s);
    fv_file_close(&file);
    if (status != FV_OK) {
        fv_sound_free(&s);
        return status;
    }
    *out = s;
    return FV_OK;
}
