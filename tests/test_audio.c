/* Recordings: WAV and FLAC read, WAV written, what is refused, resampling. */
#include "base/ctx.h"
#include "fovea/audio.h"
#include "fovea/file.h"
#include "support/files.h"
#include "support/test.h"

enum { ROOM = 4096 };

static fv_ctx *ctx;
static memory_file file;

static void begin(uint64_t seconds)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 2;
    cfg.limits.audio_seconds = seconds;
    memory_io(&cfg.io, &file);
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
}

static void end(void) { fv_ctx_destroy(&ctx); }

/* ---- files made here -------------------------------------------------------------- */

typedef struct wav_spec {
    unsigned tag, bits, channels, rate, align; /* align 0: what fits */
    const void *data;
    size_t bytes;
    bool extensible;
} wav_spec;

static unsigned char made[ROOM];

static size_t put(size_t at, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        made[at + i] = (unsigned char)(value >> (8 * i));
    return at + bytes;
}

static size_t put_text(size_t at, const char *text, size_t bytes)
{
    memcpy(made + at, text, bytes);
    return at + bytes;
}

static size_t make_wav(const wav_spec *w)
{
    const unsigned align = w->align ? w->align : w->channels * ((w->bits + 7) / 8);
    size_t n = put_text(0, "RIFF    WAVE", 12);
    n = put_text(n, "junk", 4); /* a chunk of odd size, with its padding */
    n = put(n, 3, 4);
    n = put_text(n, "odd", 4);
    n = put_text(n, "fmt ", 4);
    n = put(n, w->extensible ? 40 : 16, 4);
    n = put(n, w->extensible ? 0xFFFE : w->tag, 2);
    n = put(n, w->channels, 2);
    n = put(n, w->rate, 4);
    n = put(n, w->rate * align, 4);
    n = put(n, align, 2);
    n = put(n, w->bits, 2);
    if (w->extensible) {
        n = put(n, 22, 2);
        n = put(n, w->bits, 2);
        n = put(n, 0, 4);
        n = put(n, w->tag, 2);
        n = put_text(n, "\0\0\0\0\x10\0\x80\0\0\xAA\0\x38\x9B\x71", 14);
    }
    n = put_text(n, "data", 4);
    n = put(n, (uint32_t)w->bytes, 4);
    memcpy(made + n, w->data, w->bytes);
    n += w->bytes;
    put(4, (uint32_t)n - 8, 4);
    return n;
}

static fv_status load(size_t bytes, fv_sound_mix mix, fv_sound **out)
{
    file = (memory_file){.data = made, .bytes = bytes};
    return fv_sound_load(ctx, "made.wav", mix, out);
}

/* Loads the file and compares its samples, channel after channel. */
static void check_samples(const wav_spec *w, const char *encoding, const float *expected)
{
    fv_sound *s = NULL;
    CHECK_OK(ctx, load(make_wav(w), FV_SOUND_MIX_NONE, &s));
    if (!s) return;
    const int64_t length = (int64_t)(w->bytes / (w->channels * ((w->bits + 7) / 8)));
    CHECK_EQ(fv_sound_rate(s), w->rate);
    CHECK_EQ(fv_sound_channels(s), w->channels);
    CHECK_EQ(fv_sound_length(s), length);
    CHECK_STR(fv_sound_encoding(s), encoding);
    for (int64_t c = 0; c < w->channels; c++)
        for (int64_t i = 0; i < length; i++)
            CHECK_NEAR(fv_sound_samples(s, c)[i], expected[c * length + i], 0);
    CHECK(!fv_sound_samples(s, w->channels) && !fv_sound_samples(s, -1));
    fv_sound_free(&s);
}

static void wav_encodings_are_read(void)
{
    begin(600);
    static const unsigned char b8[] = {0, 128, 255};
    static const int16_t b16[] = {-32768, 1, 32767, 0};
    static const unsigned char b24[] = {0, 0, 0x80, 1, 0, 0, 0xFF, 0xFF, 0x7F};
    static const int32_t b32[] = {INT32_MIN, 1 << 30, 0};
    static const float f32[] = {-1.5f, 0.25f};
    static const double f64[] = {0.1, -2};
    check_samples(&(wav_spec){1, 8, 1, 8000, 0, b8, sizeof b8, false}, "8-bit PCM",
                  (float[]){-1, 0, 127 / 128.f});
    check_samples(&(wav_spec){1, 16, 2, 44100, 0, b16, sizeof b16, false}, "16-bit PCM",
                  (float[]){-1, 32767 / 32768.f, 1 / 32768.f, 0});
    check_samples(&(wav_spec){1, 16, 1, 44100, 0, b16, sizeof b16, true}, "16-bit PCM",
                  (float[]){-1, 1 / 32768.f, 32767 / 32768.f, 0});
    check_samples(&(wav_spec){1, 24, 1, 96000, 0, b24, sizeof b24, false}, "24-bit PCM",
                  (float[]){-1, 1 / 8388608.f, 8388607 / 8388608.f});
    check_samples(&(wav_spec){1, 20, 1, 96000, 0, b24, sizeof b24, true}, "20-bit PCM",
                  (float[]){-1, 1 / 8388608.f, 8388607 / 8388608.f});
    check_samples(&(wav_spec){1, 32, 3, 8000, 0, b32, sizeof b32, false}, "32-bit PCM",
                  (float[]){-1, 0.5f, 0});
    check_samples(&(wav_spec){3, 32, 1, 8000, 0, f32, sizeof f32, false}, "32-bit float", f32);
    check_samples(&(wav_spec){3, 64, 2, 8000, 0, f64, sizeof f64, true}, "64-bit float",
                  (float[]){0.1f, -2});
    end();
}

static void channels_are_mixed(void)
{
    begin(600);
    static const float x[] = {1, 0.5f, 0, -1, 0.25f, 0}; /* two samples of three channels */
    fv_sound *s = NULL;
    const wav_spec w = {3, 32, 3, 8000, 0, x, sizeof x, false};
    CHECK_OK(ctx, load(make_wav(&w), FV_SOUND_MIX_MONO, &s));
    CHECK_EQ(fv_sound_channels(s), 1);
    CHECK_EQ(fv_sound_file_channels(s), 3);
    CHECK_NEAR(fv_sound_samples(s, 0)[0], 0.5, 1e-7);
    CHECK_NEAR(fv_sound_samples(s, 0)[1], -0.25, 1e-7);
    fv_sound_free(&s);
    end();
}

/* Longer than a block of the reader, in both mixes. */
static void long_files_are_read(void)
{
    begin(600);
    enum { LENGTH = 10000 };
    static unsigned char big[44 + LENGTH * 4];
    static int16_t x[LENGTH][2];
    for (int i = 0; i < LENGTH; i++)
        x[i][0] = (int16_t)i, x[i][1] = (int16_t)(3 * i);
    const wav_spec w = {1, 16, 2, 8000, 0, x, 0, false};
    const size_t head = make_wav(&w);
    memcpy(big, "RIFF", 4);
    memcpy(big + 8, made + 8, 4);
    memcpy(big + 12, made + head - 32, 32); /* format, and the head of the samples */
    memcpy(big + 44, x, sizeof x);
    for (int i = 0; i < 4; i++) {
        big[4 + i] = (unsigned char)((sizeof big - 8) >> (8 * i));
        big[40 + i] = (unsigned char)(sizeof x >> (8 * i));
    }
    for (int mix = 0; mix < 2; mix++) {
        fv_sound *s = NULL;
        file = (memory_file){.data = big, .bytes = sizeof big};
        CHECK_OK(ctx, fv_sound_load(ctx, "big.wav", (fv_sound_mix)mix, &s));
        if (!s) continue;
        CHECK_EQ(fv_sound_length(s), LENGTH);
        for (int i = 0; i < LENGTH; i++)
            if (mix == FV_SOUND_MIX_NONE) {
                CHECK_NEAR(fv_sound_samples(s, 0)[i], x[i][0] / 32768.0, 0);
                CHECK_NEAR(fv_sound_samples(s, 1)[i], x[i][1] / 32768.0, 0);
            } else {
                CHECK_NEAR(fv_sound_samples(s, 0)[i], (x[i][0] + x[i][1]) / 65536.0, 0);
            }
        fv_sound_free(&s);
    }
    end();
}

/* ---- what is refused -------------------------------------------------------------- */

static void refused(size_t bytes, fv_status status, const char *text)
{
    fv_sound *s = NULL;
    CHECK_EQ(load(bytes, FV_SOUND_MIX_MONO, &s), status);
    CHECK(s == NULL);
    if (!strstr(fv_ctx_message(ctx), text))
        test_failed(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", fv_ctx_message(ctx), text);
}

static void wrong_wav_files_are_refused(void)
{
    begin(600);
    static const int16_t x[6] = {0};
    static const float bad[2] = {0, INFINITY}, loud[2] = {0x1p40f, -0x1.1p40f};
    const wav_spec good = {1, 16, 1, 8000, 0, x, sizeof x, false};
    wav_spec w = good;
    const size_t all = make_wav(&good);
    refused(all - 2, FV_ERR_FORMAT, "states"); /* cut off */
    put(4, (uint32_t)(all - 10), 4);           /* a RIFF size that fits the cut file */
    refused(all - 2, FV_ERR_FORMAT, "only 10 are left");
    for (size_t n = 0; n + 2 < all; n++) { /* cut anywhere */
        make_wav(&good);
        fv_sound *s = NULL;
        CHECK_EQ(load(n, FV_SOUND_MIX_NONE, &s), FV_ERR_FORMAT);
        if (n > 12) put(4, (uint32_t)n - 8, 4);
        CHECK_EQ(load(n, FV_SOUND_MIX_NONE, &s), FV_ERR_FORMAT);
    }
    make_wav(&good);
    put(4, 3, 4);
    refused(all, FV_ERR_FORMAT, "states 11 bytes");
    make_wav(&good);
    put_text(8, "AVI ", 4);
    refused(all, FV_ERR_FORMAT, "not a WAV file");
    make_wav(&good);
    put_text(0, "RF64", 4);
    refused(all, FV_ERR_UNSUPPORTED, "RF64");
    put_text(0, "OggS", 4);
    refused(all, FV_ERR_FORMAT, "neither a WAV nor a FLAC");
    make_wav(&good);
    put_text(24, "fmx ", 4);
    refused(all, FV_ERR_FORMAT, "before their format");
    make_wav(&good);
    put_text(48, "dat_", 4);
    refused(all, FV_ERR_FORMAT, "no \"data\"");
    make_wav(&good);
    put_text(48, "fmt ", 4);
    refused(all, FV_ERR_FORMAT, "a second format");
    w.tag = 6;
    refused(make_wav(&w), FV_ERR_UNSUPPORTED, "A-law");
    w = good, w.bits = 33, w.align = 5;
    refused(make_wav(&w), FV_ERR_UNSUPPORTED, "33-bit PCM");
    w = good, w.tag = 3;
    refused(make_wav(&w), FV_ERR_UNSUPPORTED, "16-bit float");
    w = good, w.align = 4;
    refused(make_wav(&w), FV_ERR_FORMAT, "blocks of 4 bytes");
    w = good, w.bytes = 5;
    refused(make_wav(&w), FV_ERR_FORMAT, "no multiple of 2");
    w = good, w.rate = 0;
    refused(make_wav(&w), FV_ERR_FORMAT, "at 0 Hz");
    w = good, w.channels = 0;
    refused(make_wav(&w), FV_ERR_FORMAT, "0 channels");
    w = good, w.channels = 65;
    refused(make_wav(&w), FV_ERR_LIMIT, "at most 64 channels");
    w = good, w.rate = 1000001;
    refused(make_wav(&w), FV_ERR_LIMIT, "1000000 Hz");
    w = (wav_spec){3, 32, 1, 8000, 0, bad, sizeof bad, false};
    refused(make_wav(&w), FV_ERR_FORMAT, "sample 1 of channel 0 is not a finite float");
    w.data = loud;
    refused(make_wav(&w), FV_ERR_FORMAT, "sample 1 of channel 0 is -1.16823e+12: expected at most");
    end();
}

static void extensible_files_are_checked(void)
{
    begin(600);
    static const int16_t x[2] = {0};
    const wav_spec w = {1, 16, 1, 8000, 0, x, sizeof x, true};
    size_t n = make_wav(&w);
    made[24 + 8 + 30] ^= 1; /* inside the GUID */
    refused(n, FV_ERR_UNSUPPORTED, "GUID");
    n = make_wav(&w);
    put(28, 18, 4); /* a format of 18 bytes, and the rest as another chunk */
    refused(n, FV_ERR_FORMAT, "expected 40");
    n = make_wav(&w);
    put(28, 14, 4);
    refused(n, FV_ERR_FORMAT, "at least 16");
    end();
}

/* Padding after an odd number of bytes at the end may be missing, though the RIFF size counts it.
 */
static void padding_at_the_end_may_be_missing(void)
{
    begin(600);
    static const unsigned char x[5] = {0, 64, 128, 192, 255};
    const wav_spec w = {1, 8, 1, 8000, 0, x, sizeof x, false};
    const size_t n = make_wav(&w);
    for (uint32_t counted = 0; counted < 2; counted++) {
        fv_sound *s = NULL;
        put(4, (uint32_t)n - 8 + counted, 4);
        CHECK_OK(ctx, load(n, FV_SOUND_MIX_NONE, &s));
        if (s) CHECK_EQ(fv_sound_length(s), 5);
        fv_sound_free(&s);
    }
    put(n - sizeof x - 4, 6, 4); /* one sample more than the file has */
    refused(n, FV_ERR_FORMAT, "a chunk of 6 bytes, but only 5 are left");
    end();
}

static void seconds_are_limited(void)
{
    static unsigned char x[2000];
    memset(x, 128, sizeof x);
    begin(2);
    wav_spec w = {1, 8, 1, 1000, 0, x, 2000, false};
    fv_sound *s = NULL;
    CHECK_OK(ctx, load(make_wav(&w), FV_SOUND_MIX_MONO, &s));
    fv_sound_free(&s);
    w.rate = 999;
    refused(make_wav(&w), FV_ERR_LIMIT, "limit of 2 seconds");
    w.rate = 600;
    refused(make_wav(&w), FV_ERR_LIMIT, "limit of 2 seconds");
    end();
    begin(1);
    w = (wav_spec){1, 8, 64, 1000000, 0, x, 1984, false}; /* counts as 6,000 Hz */
    CHECK_OK(ctx, load(make_wav(&w), FV_SOUND_MIX_MONO, &s));
    fv_sound_free(&s);
    end();
}

/* ---- writing ---------------------------------------------------------------------- */

static void wav_files_are_written(void)
{
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    folder_make();
    static const float x[2][4] = {{0, 1, -1, 0.5f}, {2, -2, 1.6f / 32768, -0.25f}};
    static const float rounded[2][4] = {{0, 32767 / 32768.f, -1, 0.5f},
                                        {32767 / 32768.f, -1, 2 / 32768.f, -0.25f}};
    for (int format = 0; format < 2; format++) {
        fv_sound *s = NULL, *back = NULL;
        const char *path = folder_path("x.wav");
        CHECK_OK(ctx, fv_sound_create(ctx, 16000, 2, 4, &x[0][0], &s));
        CHECK_STR(fv_sound_encoding(s), "");
        CHECK_OK(ctx, fv_sound_save(ctx, s, (fv_sound_format)format, path));
        CHECK_OK(ctx, fv_sound_load(ctx, path, FV_SOUND_MIX_NONE, &back));
        CHECK_EQ(fv_sound_rate(back), 16000);
        for (int c = 0; c < 2; c++)
            CHECK(memcmp(fv_sound_samples(back, c), format ? x[c] : rounded[c], sizeof x[c]) == 0);
        fv_sound_free(&s);
        fv_sound_free(&back);
    }
    fv_sound *s = NULL;
    CHECK_OK(ctx, fv_sound_load(ctx, test_path("data/audio/sweep.wav"), FV_SOUND_MIX_NONE, &s));
    CHECK_OK(ctx, fv_sound_save(ctx, s, FV_SOUND_FORMAT_PCM16, folder_path("copy.wav")));
    size_t a = 0, b = 0;
    unsigned char *from = file_read(test_path("data/audio/sweep.wav"), &a),
                  *copy = file_read(folder_path("copy.wav"), &b);
    CHECK(a == b && from && copy && memcmp(from, copy, a) == 0);
    free(from);
    free(copy);
    CHECK_EQ(fv_sound_save(ctx, s, (fv_sound_format)2, folder_path("y.wav")), FV_ERR_ARGUMENT);
    fv_sound_free(&s);
    CHECK_OK(ctx, fv_sound_create(ctx, 8000, 2, 3, NULL, &s));
    CHECK_NEAR(fv_sound_samples(s, 1)[2], 0, 0);
    fv_sound_free(&s);
    CHECK_EQ(fv_sound_create(ctx, 0, 1, 3, NULL, &s), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_sound_create(ctx, 8000, 65, 3, NULL, &s), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_sound_create(ctx, 8000, 1, -1, NULL, &s), FV_ERR_ARGUMENT);
    folder_remove();
    fv_ctx_destroy(&ctx);
}

/* ---- FLAC ------------------------------------------------------------------------- */

static bool flac_is_here(void)
{
    fv_feature f = {.struct_size = sizeof f};
    for (int i = 0; fv_feature_get(i, &f); i++)
        if (strcmp(f.name, "flac") == 0) return f.present;
    return false;
}

static void flac_files_are_read(void)
{
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    fv_sound *wav = NULL, *flac = NULL;
    CHECK_OK(ctx, fv_sound_load(ctx, test_path("data/audio/sweep.wav"), FV_SOUND_MIX_NONE, &wav));
    const fv_status status =
        fv_sound_load(ctx, test_path("data/audio/sweep.flac"), FV_SOUND_MIX_NONE, &flac);
    if (!flac_is_here()) {
        CHECK_EQ(status, FV_ERR_UNSUPPORTED);
    } else {
        CHECK_OK(ctx, status);
        CHECK_EQ(fv_sound_length(flac), fv_sound_length(wav));
        CHECK_EQ(fv_sound_rate(flac), 8000);
        CHECK_STR(fv_sound_encoding(flac), "16-bit FLAC");
        for (int c = 0; c < 2; c++)
            CHECK(memcmp(fv_sound_samples(flac, c), fv_sound_samples(wav, c),
                         (size_t)fv_sound_length(wav) * sizeof(float)) == 0);
    }
    fv_sound_free(&wav);
    fv_sound_free(&flac);
    fv_ctx_destroy(&ctx);
}

/* Every byte that is changed, and every length that is cut to, is noticed, or changes no sample:
 * CRCs cover frames, the MD5 all samples. */
static void damaged_flac_is_refused(void)
{
    if (!flac_is_here()) return;
    begin(600);
    size_t bytes = 0;
    unsigned char *whole = file_read(test_path("../fuzz/corpus/flac/stereo.flac"), &bytes),
                  *copy = malloc(bytes);
    fv_sound *good = NULL, *s = NULL;
    file = (memory_file){.data = whole, .bytes = bytes};
    CHECK_OK(ctx, fv_sound_load(ctx, "good", FV_SOUND_MIX_NONE, &good));
    int refusals = 0;
    for (size_t i = 0; good && copy && i < bytes; i++) {
        memcpy(copy, whole, bytes);
        copy[i] ^= 0x10;
        file = (memory_file){.data = copy, .bytes = bytes};
        const fv_status status = fv_sound_load(ctx, "damaged", FV_SOUND_MIX_NONE, &s);
        refusals += status != FV_OK;
        CHECK(status == FV_OK || status == FV_ERR_FORMAT || status == FV_ERR_LIMIT);
        if (status == FV_OK) CHECK_EQ(fv_sound_rate(s), 8000);
        if (status == FV_OK)
            CHECK(memcmp(fv_sound_samples(s, 0), fv_sound_samples(good, 0),
                         (size_t)fv_sound_length(good) * sizeof(float)) == 0);
        fv_sound_free(&s);
        memcpy(copy, whole, bytes);
        file = (memory_file){.data = copy, .bytes = i};
        CHECK_EQ(fv_sound_load(ctx, "cut", FV_SOUND_MIX_NONE, &s), FV_ERR_FORMAT);
    }
    CHECK(refusals > (int)bytes / 2);
    memcpy(copy, whole, bytes);
    memset(copy + 18 + 8, 0x55, 16); /* the MD5 in the stream's header */
    file = (memory_file){.data = copy, .bytes = bytes};
    CHECK_EQ(fv_sound_load(ctx, "md5", FV_SOUND_MIX_NONE, &s), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "MD5") != NULL);
    memcpy(copy, whole, bytes);
    copy[18 + 7] = 201; /* samples in all */
    CHECK_EQ(fv_sound_load(ctx, "count", FV_SOUND_MIX_NONE, &s), FV_ERR_FORMAT);
    copy[18 + 4] = 1; /* 2^24 more: refused before any is decoded */
    CHECK_EQ(fv_sound_load(ctx, "count", FV_SOUND_MIX_NONE, &s), FV_ERR_LIMIT);
    memcpy(copy, whole, bytes);
    copy[18 + 3] &= 0xF0; /* neither count nor MD5: each frame has its checksum */
    memset(copy + 18 + 4, 0, 4 + 16);
    CHECK_OK(ctx, fv_sound_load(ctx, "unknown", FV_SOUND_MIX_NONE, &s));
    fv_sound_free(&s);
    copy[bytes - 5] ^= 1;
    CHECK_EQ(fv_sound_load(ctx, "unknown", FV_SOUND_MIX_NONE, &s), FV_ERR_FORMAT);
    fv_sound_free(&good);
    free(whole);
    free(copy);
    end();
}

/* 9,000 samples at 8 kHz, as the header states or, with 0 there, as the frames turn out. */
static void flac_seconds_are_limited(void)
{
    if (!flac_is_here()) return;
    size_t bytes = 0;
    unsigned char *data = file_read(test_path("../fuzz/corpus/flac/silence.flac"), &bytes);
    for (int unknown = 0; data && unknown < 2; unknown++) {
        if (unknown) memset(data + 18 + 4, 0, 4);
        for (uint64_t seconds = 1; seconds <= 2; seconds++) {
            fv_sound *s = NULL;
            begin(seconds);
            file = (memory_file){.data = data, .bytes = bytes};
            CHECK_EQ(fv_sound_load(ctx, "x", FV_SOUND_MIX_NONE, &s),
                     seconds == 1 ? FV_ERR_LIMIT : FV_OK);
            if (s) CHECK_EQ(fv_sound_length(s), 9000);
            fv_sound_free(&s);
            end();
        }
    }
    free(data);
}

/* ---- resampling ------------------------------------------------------------------- */

static float *expected_array(const char *name, int64_t *count)
{
    fv_npy *npy = NULL;
    CHECK_OK(ctx, fv_npy_open(ctx, test_path("data/audio/expected.npz"), &npy));
    const fv_file_entry *e = npy ? fv_npy_find(npy, name) : NULL;
    float *values = e ? malloc(e->bytes) : NULL;
    CHECK(e && e->dtype == FV_F32);
    if (values) CHECK_OK(ctx, fv_npy_read(npy, e, values, e->bytes));
    *count = e ? (int64_t)(e->bytes / sizeof(float)) : 0;
    fv_npy_close(&npy);
    return values;
}

static void resampling_is_torchaudios(void)
{
    static const struct {
        const char *name;
        int64_t rate;
    } cases[] = {{"resample_16000", 16000}, {"resample_3000", 3000}};
    for (int threads = 1; threads <= 3; threads += 2)
        for (int i = 0; i < 2; i++) {
            fv_ctx_config cfg;
            fv_ctx_config_init(&cfg, sizeof cfg);
            cfg.threads = threads;
            CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
            int64_t n = 0, count = 0;
            float *x = expected_array("x", &n), *y = expected_array(cases[i].name, &count);
            fv_sound *s = NULL;
            CHECK_OK(ctx, fv_sound_create(ctx, 8000, 1, n, x, &s));
            CHECK_OK(ctx, fv_sound_resample(ctx, &s, cases[i].rate));
            CHECK_EQ(fv_sound_rate(s), cases[i].rate);
            CHECK_EQ(fv_sound_length(s), count);
            for (int64_t k = 0; k < count; k++)
                CHECK_NEAR(fv_sound_samples(s, 0)[k], y[k], 1e-7);
            fv_sound_free(&s);
            free(x);
            free(y);
            fv_ctx_destroy(&ctx);
        }
}

/* More outputs than are computed between two looks at the cancel flag. */
static void long_sounds_are_resampled(void)
{
    enum { LENGTH = 600000 };
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    fv_memory_stats before, after;
    fv_sound *s = NULL;
    fv_ctx_memory(ctx, &before);
    CHECK_OK(ctx, fv_sound_create(ctx, 8000, 1, LENGTH, NULL, &s));
    for (int64_t i = 0; i < LENGTH; i++)
        fv_sound_samples(s, 0)[i] = 1;
    CHECK_OK(ctx, fv_sound_resample(ctx, &s, 16000));
    for (int64_t i = 40; i < 2 * LENGTH - 40; i++)
        CHECK_NEAR(fv_sound_samples(s, 0)[i], 1, 1e-3);
    fv_sound_free(&s);
    fv_ctx_memory(ctx, &after);
    CHECK_EQ(after.used_bytes, before.used_bytes);
    fv_ctx_destroy(&ctx);
}

static void resampling_keeps_channels_and_facts(void)
{
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    fv_sound *loaded = NULL;
    CHECK_OK(ctx,
             fv_sound_load(ctx, test_path("data/audio/sweep.wav"), FV_SOUND_MIX_MONO, &loaded));
    CHECK_OK(ctx, fv_sound_resample(ctx, &loaded, 16000));
    CHECK_STR(fv_sound_encoding(loaded), "16-bit PCM");
    CHECK_EQ(fv_sound_file_channels(loaded), 2);
    fv_sound_free(&loaded);
    static float x[2][300];
    for (int i = 0; i < 300; i++)
        x[0][i] = 1, x[1][i] = (float)sin(i * 0.1);
    fv_sound *s = NULL;
    CHECK_OK(ctx, fv_sound_create(ctx, 44101, 2, 300, &x[0][0], &s));
    const fv_sound *before = s;
    CHECK_OK(ctx, fv_sound_resample(ctx, &s, 44101));
    CHECK(s == before);
    CHECK_EQ(fv_sound_resample(ctx, &s, 0), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_sound_resample(ctx, &s, FV_SOUND_MAX_RATE + 1), FV_ERR_ARGUMENT);
    CHECK(s == before);
    CHECK_OK(ctx, fv_sound_resample(ctx, &s, 16000)); /* no common divisor */
    CHECK_EQ(fv_sound_length(s), (300 * 16000 + 44100) / 44101);
    for (int64_t i = 20; i < fv_sound_length(s) - 20; i++) {
        CHECK_NEAR(fv_sound_samples(s, 0)[i], 1, 1e-3);
        CHECK_NEAR(fv_sound_samples(s, 1)[i], sin((double)i * 44101 / 16000 * 0.1), 2e-3);
    }
    fv_sound_free(&s);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(wav_encodings_are_read);
    RUN(channels_are_mixed);
    RUN(long_files_are_read);
    RUN(wrong_wav_files_are_refused);
    RUN(extensible_files_are_checked);
    RUN(padding_at_the_end_may_be_missing);
    RUN(seconds_are_limited);
    RUN(wav_files_are_written);
    RUN(flac_files_are_read);
    RUN(damaged_flac_is_refused);
    RUN(flac_seconds_are_limited);
    RUN(resampling_is_torchaudios);
    RUN(long_sounds_are_resampled);
    RUN(resampling_keeps_channels_and_facts);
    return TEST_END();
}
