/* Writes WAV files: 16-bit PCM and 32-bit float. */
#include <math.h>
#include <string.h>

#include "audio/sound.h"

enum { BLOCK = 4096, HEADER_ROOM = 58 };

static size_t put(unsigned char *at, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
    return bytes;
}

static size_t put_name(unsigned char *at, const char *name)
{
    memcpy(at, name, 4);
    return 4;
}

/* RIFF, format and the head of the samples. Formats other than PCM have a "fact" chunk. */
static size_t make_header(unsigned char out[HEADER_ROOM], const fv_sound *s, bool is_float,
                          uint32_t data_bytes)
{
    const uint32_t bytes = is_float ? 4 : 2, channels = (uint32_t)s->channels,
                   rate = (uint32_t)s->rate, extra = is_float ? 14 : 0;
    size_t n = 0;
    n += put_name(out + n, "RIFF");
    n += put(out + n, 36 + extra + data_bytes, 4);
    n += put_name(out + n, "WAVE");
    n += put_name(out + n, "fmt ");
    n += put(out + n, is_float ? 18 : 16, 4);
    n += put(out + n, is_float ? 3 : 1, 2);
    n += put(out + n, channels, 2);
    n += put(out + n, rate, 4);
    n += put(out + n, rate * channels * bytes, 4);
    n += put(out + n, channels * bytes, 2);
    n += put(out + n, 8 * bytes, 2);
    if (is_float) {
        n += put(out + n, 0, 2);
        n += put_name(out + n, "fact");
        n += put(out + n, 4, 4);
        n += put(out + n, (uint32_t)s->length, 4);
    }
    n += put_name(out + n, "data");
    n += put(out + n, data_bytes, 4);
    return n;
}

static size_t put_sample(unsigned char *at, float x, bool is_float)
{
    if (is_float) {
        memcpy(at, &x, sizeof x);
        return sizeof x;
    }
    const double scaled = rint(32768.0 * (double)x);
    const double kept = scaled > 32767 ? 32767 : scaled > -32768 ? scaled : -32768;
    return put(at, (uint32_t)(int32_t)kept, 2);
}

static fv_status write_samples(fv_atomic_file *file, const fv_sound *s, bool is_float,
                               uint64_t offset)
{
    const size_t bytes = is_float ? 4 : 2, room = (size_t)BLOCK * (size_t)s->channels * bytes;
    unsigned char *block = fv_mem_alloc(&s->ctx->mem, room);
    FV_RETURN_IF(!block, s->ctx, FV_ERR_MEMORY, "sound: out of memory");
    fv_status status = FV_OK;
    for (int64_t first = 0; first < s->length && status == FV_OK; first += BLOCK) {
        const int64_t last = s->length - first < BLOCK ? s->length : first + BLOCK;
        size_t n = 0;
        for (int64_t i = first; i < last; i++)
            for (int64_t c = 0; c < s->channels; c++)
                n += put_sample(block + n, s->data[c * s->room + i], is_float);
        status = fv_atomic_file_write(file, block, n, offset);
        offset += n;
    }
    fv_mem_free(&s->ctx->mem, block, room);
    return status;
}

fv_status fv_sound_save(fv_ctx *ctx, const fv_sound *sound, fv_sound_format format,
                        const char *path)
{
    FV_RETURN_IF(!sound || !path ||
                     (format != FV_SOUND_FORMAT_PCM16 && format != FV_SOUND_FORMAT_FLOAT32),
                 ctx, FV_ERR_ARGUMENT, "sound: no sound, no path, or an unknown format to save");
    const bool is_float = format == FV_SOUND_FORMAT_FLOAT32;
    const uint64_t most = UINT32_MAX - HEADER_ROOM,
                   each = (uint64_t)sound->channels * (is_float ? 4 : 2);
    FV_RETURN_IF((uint64_t)sound->length > most / each, ctx, FV_ERR_ARGUMENT,
                 "%s: %lld samples in %lld channels do not fit into a WAV file (4 GiB)", path,
                 (long long)sound->length, (long long)sound->channels);
    const uint64_t data_bytes = (uint64_t)sound->length * each;
    unsigned char header[HEADER_ROOM];
    const size_t n = make_header(header, sound, is_float, (uint32_t)data_bytes);
    fv_atomic_file file;
    FV_TRY(fv_atomic_file_create(ctx, path, n + data_bytes, &file));
    fv_status status = fv_atomic_file_write(&file, header, n, 0);
    if (status == FV_OK) status = write_samples(&file, sound, is_float, n);
    return fv_atomic_file_close(&file, status);
}
