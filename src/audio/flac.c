/* FLAC files through libFLAC, which is loaded when a file is opened, so that only programs that
 * read FLAC need it. */
#include "audio/sound.h"

#ifdef FV_HAVE_FLAC

#include <string.h>

#include <FLAC/stream_decoder.h>

#include "base/library.h"

/* The functions that are used here. */
#define FLAC_FUNCTIONS(X)                                                                          \
    X(FLAC__stream_decoder_delete)                                                                 \
    X(FLAC__stream_decoder_finish)                                                                 \
    X(FLAC__stream_decoder_get_state)                                                              \
    X(FLAC__stream_decoder_init_stream)                                                            \
    X(FLAC__stream_decoder_new)                                                                    \
    X(FLAC__stream_decoder_process_single)                                                         \
    X(FLAC__stream_decoder_set_md5_checking)

typedef struct flac_api {
#define POINTER(name) __typeof__(&name) name;
    FLAC_FUNCTIONS(POINTER)
#undef POINTER
} flac_api;

typedef struct flac_reader {
    const fv_file *file;
    fv_sound_mix mix;
    fv_sound *sound; /* NULL until the stream's facts are known */
    fv_sound_facts facts;
    uint64_t at;      /* bytes handed to libFLAC */
    fv_status status; /* the first failure of a callback */
    float *block;     /* [channels][largest block] */
    size_t block_bytes;
    int64_t largest;
} flac_reader;

static fv_status load_library(const fv_file *file, flac_api *api)
{
    void *library = fv_library_open(FV_LIBRARY_FLAC);
    bool complete = true;
#define FIND(name) complete = fv_library_find(library, #name, &api->name) && complete;
    FLAC_FUNCTIONS(FIND)
#undef FIND
    return complete ? FV_OK : fv_library_missing(file->ctx, FV_LIBRARY_FLAC, file->path);
}

/* ---- callbacks -------------------------------------------------------------------- */

/* Keeps the first failure. */
static bool record(flac_reader *r, fv_status status)
{
    if (r->status == FV_OK) r->status = status;
    return r->status == FV_OK;
}

static FLAC__StreamDecoderReadStatus on_read(const FLAC__StreamDecoder *decoder, FLAC__byte *buffer,
                                             size_t *bytes, void *user)
{
    (void)decoder;
    flac_reader *r = user;
    const uint64_t left = r->file->bytes - r->at;
    if (*bytes > left) *bytes = (size_t)left;
    if (*bytes == 0) return FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM;
    if (!record(r, fv_file_read(r->file, buffer, *bytes, r->at)))
        return FLAC__STREAM_DECODER_READ_STATUS_ABORT;
    r->at += *bytes;
    return FLAC__STREAM_DECODER_READ_STATUS_CONTINUE;
}

static fv_status begin(flac_reader *r, const FLAC__StreamMetadata_StreamInfo *info)
{
    fv_ctx *ctx = r->file->ctx;
    FV_RETURN_IF(r->sound, ctx, FV_ERR_FORMAT, "%s: a second stream header", r->file->path);
    FV_RETURN_IF(info->total_samples > INT64_MAX, ctx, FV_ERR_FORMAT, "%s: too many samples",
                 r->file->path);
    r->facts = (fv_sound_facts){.rate = info->sample_rate,
                                .channels = info->channels,
                                .length = (int64_t)info->total_samples,
                                .bits = (int)info->bits_per_sample,
                                .encoding = "FLAC"};
    r->largest = info->max_blocksize;
    FV_TRY(fv_sound_check(r->file, &r->facts));
    /* The count is a statement of the file; memory grows with the samples that are there. */
    fv_sound_facts growing = r->facts;
    growing.length = 0;
    FV_TRY(fv_sound_begin(r->file, &growing, r->mix, &r->sound));
    r->block_bytes = (size_t)(r->facts.channels * r->largest) * sizeof(float);
    r->block = fv_mem_alloc(&ctx->mem, r->block_bytes);
    FV_RETURN_IF(!r->block, ctx, FV_ERR_MEMORY, "sound: out of memory");
    return FV_OK;
}

static void on_metadata(const FLAC__StreamDecoder *decoder, const FLAC__StreamMetadata *metadata,
                        void *user)
{
    (void)decoder;
    flac_reader *r = user;
    if (metadata->type == FLAC__METADATA_TYPE_STREAMINFO)
        record(r, begin(r, &metadata->data.stream_info));
}

static fv_status append(flac_reader *r, const FLAC__FrameHeader *h,
                        const FLAC__int32 *const *buffer)
{
    fv_ctx *ctx = r->file->ctx;
    const float *by_channel[FLAC__MAX_CHANNELS] = {NULL};
    FV_RETURN_IF(!r->sound, ctx, FV_ERR_FORMAT, "%s: samples come before the stream's header",
                 r->file->path);
    FV_RETURN_IF(
        h->channels != r->facts.channels || h->sample_rate != r->facts.rate ||
            (int)h->bits_per_sample != r->facts.bits || h->blocksize > r->largest,
        ctx, FV_ERR_FORMAT,
        "%s: sample %lld: a frame of %u channels, %u bits, %u samples at %u Hz contradicts "
        "the header",
        r->file->path, (long long)r->sound->length, h->channels, h->bits_per_sample, h->blocksize,
        h->sample_rate);
    const double scale = 1.0 / (double)((uint64_t)1 << (r->facts.bits - 1));
    for (unsigned c = 0; c < h->channels; c++) {
        float *to = r->block + c * r->largest;
        for (unsigned i = 0; i < h->blocksize; i++)
            to[i] = (float)((double)buffer[c][i] * scale);
        by_channel[c] = to;
    }
    return fv_sound_append(r->file, r->sound, by_channel, h->blocksize);
}

static FLAC__StreamDecoderWriteStatus on_samples(const FLAC__StreamDecoder *decoder,
                                                 const FLAC__Frame *frame,
                                                 const FLAC__int32 *const buffer[], void *user)
{
    (void)decoder;
    flac_reader *r = user;
    return record(r, append(r, &frame->header, buffer)) ? FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE
                                                        : FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
}

static void on_error(const FLAC__StreamDecoder *decoder, FLAC__StreamDecoderErrorStatus error,
                     void *user)
{
    (void)decoder;
    flac_reader *r = user;
    static const char *const reasons[] = {"lost the stream's frames", "a damaged frame header",
                                          "a frame's checksum is wrong",
                                          "a frame cannot be parsed"};
    if (r->status != FV_OK) return;
    record(r, fv_fail(r->file->ctx, FV_ERR_FORMAT, "%s: sample %lld: %s", r->file->path,
                      (long long)(r->sound ? r->sound->length : 0),
                      (size_t)error < sizeof reasons / sizeof *reasons ? reasons[error]
                                                                       : "a damaged stream"));
}

/* ---- decoding --------------------------------------------------------------------- */

static fv_status decode(const flac_api *api, FLAC__StreamDecoder *decoder, flac_reader *r)
{
    fv_ctx *ctx = r->file->ctx;
    FV_RETURN_IF(api->FLAC__stream_decoder_init_stream(decoder, on_read, NULL, NULL, NULL, NULL,
                                                       on_samples, on_metadata, on_error,
                                                       r) != FLAC__STREAM_DECODER_INIT_STATUS_OK,
                 ctx, FV_ERR_MEMORY, "%s: libFLAC cannot begin", r->file->path);
    bool more = true;
    while (more && r->status == FV_OK) {
        if (fv_cancelled(ctx)) record(r, fv_fail(ctx, FV_ERR_CANCELLED, "cancelled"));
        more = api->FLAC__stream_decoder_process_single(decoder) &&
               api->FLAC__stream_decoder_get_state(decoder) != FLAC__STREAM_DECODER_END_OF_STREAM;
    }
    const FLAC__StreamDecoderState state = api->FLAC__stream_decoder_get_state(decoder);
    const bool md5_right = api->FLAC__stream_decoder_finish(decoder);
    FV_TRY(r->status);
    FV_RETURN_IF(state == FLAC__STREAM_DECODER_MEMORY_ALLOCATION_ERROR, ctx, FV_ERR_MEMORY,
                 "%s: libFLAC is out of memory", r->file->path);
    FV_RETURN_IF(state != FLAC__STREAM_DECODER_END_OF_STREAM || !r->sound, ctx, FV_ERR_FORMAT,
                 "%s: a damaged FLAC stream", r->file->path);
    FV_RETURN_IF(r->facts.length > 0 && r->sound->length != r->facts.length, ctx, FV_ERR_FORMAT,
                 "%s: its header states %lld samples, the file has %lld", r->file->path,
                 (long long)r->facts.length, (long long)r->sound->length);
    FV_RETURN_IF(!md5_right, ctx, FV_ERR_FORMAT, "%s: the MD5 of its samples is wrong",
                 r->file->path);
    return FV_OK;
}

fv_status fv_flac_read(const fv_file *file, fv_sound_mix mix, fv_sound **out)
{
    flac_api api;
    flac_reader r = {.file = file, .mix = mix};
    FV_TRY(load_library(file, &api));
    FLAC__StreamDecoder *decoder = api.FLAC__stream_decoder_new();
    FV_RETURN_IF(!decoder, file->ctx, FV_ERR_MEMORY, "%s: libFLAC is out of memory", file->path);
    api.FLAC__stream_decoder_set_md5_checking(decoder, true);
    const fv_status status = decode(&api, decoder, &r);
    api.FLAC__stream_decoder_delete(decoder);
    if (r.block) fv_mem_free(&file->ctx->mem, r.block, r.block_bytes);
    *out = r.sound;
    return status;
}

#else

fv_status fv_flac_read(const fv_file *file, fv_sound_mix mix, fv_sound **out)
{
    (void)mix, (void)out;
    return fv_fail(file->ctx, FV_ERR_UNSUPPORTED,
                   "%s: this build cannot read FLAC files: build with libFLAC's headers",
                   file->path);
}

#endif
