/* Features: transforms against their definition, every step against plain loops in double, fixed
 * values of librosa and torchaudio, threads. */
#include "audio/fft.h"
#include "audio/sound.h"
#include "base/ctx.h"
#include "fovea/audio.h"
#include "fovea/file.h"
#include "support/test.h"

enum { LANES = FV_FFT_LANES };

static fv_ctx *ctx;

static void begin(int threads)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = threads;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
}

static double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

/* ---- transforms ------------------------------------------------------------------- */

/* Every lane against the definition; the error of a transform grows with log n. */
static void check_transform(int64_t n)
{
    const size_t count = (size_t)(n * LANES), bins = (size_t)(n / 2 + 1);
    double *x = malloc(count * sizeof *x), *re = malloc(2 * bins * LANES * sizeof *re),
           *im = re + bins * LANES;
    float *xf = malloc(count * sizeof *xf), *ref = malloc(2 * bins * LANES * sizeof *ref),
          *imf = ref + bins * LANES;
    fv_fft_f64 wide = {0};
    fv_fft_f32 narrow = {0};
    uint64_t state = (uint64_t)n;
    for (size_t i = 0; i < count; i++)
        x[i] = xf[i] = (float)noise(&state);
    CHECK_OK(ctx, fv_fft_f64_create(ctx, n, &wide));
    CHECK_OK(ctx, fv_fft_f32_create(ctx, n, &narrow));
    double *work = malloc(fv_fft_f64_work(&wide) * sizeof *work);
    float *workf = malloc(fv_fft_f32_work(&narrow) * sizeof *workf);
    fv_fft_f64_run(&wide, x, work, re, im);
    fv_fft_f32_run(&narrow, xf, workf, ref, imf);
    double worst = 0, worstf = 0, scale = 0;
    for (int lane = 0; lane < LANES; lane += LANES - 1)
        for (size_t k = 0; k < bins; k++) {
            double a = 0, b = 0;
            for (int64_t i = 0; i < n; i++) {
                const double angle = -2 * M_PI * (double)(i * (int64_t)k % n) / (double)n;
                a += x[i * LANES + lane] * cos(angle);
                b += x[i * LANES + lane] * sin(angle);
            }
            const size_t at = k * LANES + (size_t)lane;
            worst = test_worse(worst, hypot(re[at] - a, im[at] - b));
            worstf = test_worse(worstf, hypot(ref[at] - a, imf[at] - b));
            scale = fmax(scale, hypot(a, b));
        }
    if (!(worst <= 1e-14 * scale * log2(2.0 * (double)n)) ||
        !(worstf <= 4e-7 * scale * log2(2.0 * (double)n)))
        test_failed(__FILE__, __LINE__, "length %lld: %.2e in double, %.2e in float of %.1f",
                    (long long)n, worst, worstf, scale);
    fv_fft_f64_destroy(ctx, &wide);
    fv_fft_f32_destroy(ctx, &narrow);
    free(x), free(re), free(xf), free(ref), free(work), free(workf);
}

static void transforms_of_every_length(void)
{
    begin(1);
    for (int64_t n = 2; n <= 130; n++)
        check_transform(n);
    static const int64_t more[] = {200, 240, 256, 257, 400, 441, 480, 512, 514, 961, 1024, 2048};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        check_transform(more[i]);
    fv_ctx_destroy(&ctx);
}

/* ---- features against plain loops ------------------------------------------------- */

static double window_at(const fv_features_config *c, int64_t i)
{
    const int64_t n = c->window_length ? c->window_length : c->fft, at = i - (c->fft - n) / 2;
    const double turn = cos(2 * M_PI * (double)at / (double)n);
    if (at < 0 || at >= n) return 0;
    return c->window == FV_WINDOW_HANN      ? 0.5 - 0.5 * turn
           : c->window == FV_WINDOW_HAMMING ? 0.54 - 0.46 * turn
                                            : 1;
}

static double padded(const fv_features_config *c, const float *x, int64_t n, int64_t i)
{
    if (i >= 0 && i < n) return (double)x[i];
    if (c->edge == FV_EDGE_ZERO) return 0;
    return (double)x[i < 0 ? -i : 2 * n - 2 - i];
}

/* Row t of the features, up to what needs the largest value. */
static void plain_row(const fv_features_config *c, const float *filters, const float *x, int64_t n,
                      int64_t t, double *out)
{
    const int64_t bins = c->fft / 2 + 1, from = t * c->hop - (c->centered ? c->fft / 2 : 0);
    double power[1024];
    for (int64_t k = 0; k < bins; k++) {
        double re = 0, im = 0;
        for (int64_t i = 0; i < c->fft; i++) {
            const double v = window_at(c, i) * padded(c, x, n, from + i);
            const double angle = -2 * M_PI * (double)(i * k % c->fft) / (double)c->fft;
            re += v * cos(angle);
            im += v * sin(angle);
        }
        power[k] = c->power == 2 ? re * re + im * im : hypot(re, im);
        if (c->output == FV_FEATURES_OUTPUT_COMPLEX) out[2 * k] = re, out[2 * k + 1] = im;
        if (c->output == FV_FEATURES_OUTPUT_POWER) out[k] = power[k];
    }
    for (int64_t m = 0; c->output >= FV_FEATURES_OUTPUT_MEL && m < c->mels; m++) {
        double sum = 0;
        for (int64_t k = 0; k < bins; k++)
            sum += (double)filters[m * bins + k] * power[k];
        const double held = fmax(sum, c->floor);
        out[m] = c->output == FV_FEATURES_OUTPUT_MEL ? sum
                 : c->log == FV_MEL_LOG_LN           ? log(held)
                 : c->log == FV_MEL_LOG_LN_PLUS      ? log(sum + c->floor)
                 : c->log == FV_MEL_LOG_DB           ? 20.0 / c->power * log10(held)
                                                     : log10(held);
    }
}

/* Limits and the DCT, over all rows. */
static void plain_finish(const fv_features_config *c, int64_t frames, double *rows, double *out)
{
    double largest = -INFINITY;
    for (int64_t i = 0; i < frames * c->mels; i++)
        largest = fmax(largest, rows[i]);
    for (int64_t i = 0; i < frames * c->mels; i++) {
        if (c->log == FV_MEL_LOG_DB && c->top_db > 0) rows[i] = fmax(rows[i], largest - c->top_db);
        if (c->log == FV_MEL_LOG_WHISPER) rows[i] = (fmax(rows[i], largest - 8) + 4) / 4;
    }
    if (c->output != FV_FEATURES_OUTPUT_MFCC) {
        memcpy(out, rows, (size_t)(frames * c->mels) * sizeof *out);
        return;
    }
    const double mels = (double)c->mels;
    for (int64_t t = 0; t < frames; t++)
        for (int64_t k = 0; k < c->coefficients; k++) {
            double sum = 0;
            for (int64_t m = 0; m < c->mels; m++)
                sum += rows[t * c->mels + m] * cos(M_PI * (double)k * ((double)m + 0.5) / mels);
            out[t * c->coefficients + k] = sum * sqrt((k ? 2 : 1) / mels);
        }
}

enum { SIGNAL = 1000, ROOM = 64 * 1024 };

static const float *test_signal(void)
{
    static float x[SIGNAL];
    uint64_t state = 3;
    for (int i = 0; i < SIGNAL; i++)
        x[i] = (float)(0.4 * sin(i * 0.2) + 0.3 * sin(i * i * 0.0005) + 0.01 * noise(&state));
    return x;
}

static void check_features(const char *name, fv_features_config c)
{
    static float found[ROOM], filters[ROOM];
    static double rows[ROOM], expected[ROOM];
    const float *x = test_signal();
    fv_features *f = NULL;
    CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
    if (!f) return;
    const int64_t frames = fv_features_frames(f, SIGNAL), width = fv_features_width(f);
    const int64_t whole = c.centered ? SIGNAL + c.fft / 2 * 2 : SIGNAL;
    CHECK_EQ(frames, 1 + (whole - c.fft) / c.hop - c.drop_last);
    CHECK(frames * width <= ROOM && c.mels * (c.fft / 2 + 1) <= ROOM);
    CHECK_OK(ctx, fv_mel_filters(ctx, &c, filters));
    CHECK_OK(ctx, fv_features_run(ctx, f, x, SIGNAL, found));
    const bool logs = c.output >= FV_FEATURES_OUTPUT_LOG_MEL;
    for (int64_t t = 0; t < frames; t++)
        plain_row(&c, filters, x, SIGNAL, t, logs ? rows + t * c.mels : expected + t * width);
    if (logs) plain_finish(&c, frames, rows, expected);
    double scale = 0, worst = 0;
    for (int64_t i = 0; i < frames * width; i++) {
        scale = fmax(scale, fabs(expected[i]));
        worst = test_worse(worst, fabs((double)found[i] - expected[i]));
    }
    /* Quiet mels lose digits to the loud ones in float, and a logarithm shows that. */
    const double bound = c.compute == FV_F64 ? 1e-7 : logs ? 3e-5 : 1e-6;
    if (!(worst <= bound * scale) || !(scale > 0))
        test_failed(__FILE__, __LINE__, "%s: error %.2e of %.2e", name, worst, scale);
    fv_features_destroy(&f);
}

static void features_follow_their_definition(void)
{
    begin(2);
    static const int64_t lengths[][3] = {
        {400, 0, 160}, {256, 200, 64}, {57, 0, 20}, {202, 101, 50}};
    for (int compute = 0; compute < 2; compute++)
        for (int output = 0; output <= FV_FEATURES_OUTPUT_MFCC; output++)
            for (int variant = 0; variant < 12; variant++) {
                fv_features_config c;
                char name[64];
                fv_features_config_init(&c, sizeof c, (fv_features_preset)(variant % 3));
                c.output = (fv_features_output)output;
                c.compute = compute ? FV_F64 : FV_F32;
                c.rate = 8000;
                c.fft = lengths[variant % 4][0];
                c.window_length = lengths[variant % 4][1];
                c.hop = lengths[variant % 4][2];
                c.window = (fv_window)(variant % 3);
                c.centered = variant % 5 != 0;
                c.edge = variant % 2 ? FV_EDGE_ZERO : FV_EDGE_REFLECT;
                c.power = 1 + (variant + output) % 2;
                c.mels = 20;
                c.coefficients = 13;
                c.log = (fv_mel_log)(variant % 4);
                c.top_db = variant % 8 == 2 ? 30 : variant % 8 == 6 ? 0 : 80;
                c.low = variant % 4 == 3 ? 100 : 0;
                c.high = variant % 4 == 3 ? 3000 : 0;
                snprintf(name, sizeof name, "output %d, variant %d, compute %d", output, variant,
                         compute);
                check_features(name, c);
            }
    fv_ctx_destroy(&ctx);
}

/* Silence is at the floor, and where a log is relative to the largest value, no lower than allowed.
 */
static void silence_has_a_floor(void)
{
    begin(1);
    static float x[4000], out[ROOM];
    for (int i = 2000; i < 4000; i++)
        x[i] = (float)sin(i * 0.3);
    for (int log_form = 0; log_form <= FV_MEL_LOG_WHISPER; log_form++)
        for (int loud = 0; loud < 2; loud++) {
            fv_features_config c;
            fv_features *f = NULL;
            fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_WHISPER);
            c.log = (fv_mel_log)log_form;
            CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
            const int64_t length = loud ? 4000 : 1000,
                          count = fv_features_frames(f, length) * fv_features_width(f);
            CHECK_OK(ctx, fv_features_run(ctx, f, x, length, out));
            double largest = -INFINITY;
            for (int64_t i = 0; i < count; i++)
                largest = fmax(largest, (double)out[i]);
            const bool decibels = c.log == FV_MEL_LOG_DB, whisper = c.log == FV_MEL_LOG_WHISPER;
            const double floor = decibels ? -100 : whisper ? (-10.0 + 4) / 4 : log(1e-10);
            const double kept = decibels ? 80 : whisper ? 8.0 / 4 : INFINITY;
            CHECK_NEAR(out[0], fmax(floor, largest - kept), 1e-5);
            if (loud) CHECK(largest > floor + 2);
            fv_features_destroy(&f);
        }
    fv_ctx_destroy(&ctx);
}

/* ---- values of other libraries ---------------------------------------------------- */

static float *stored(const char *name, int64_t *count)
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

/* Features of the stored signal against a stored array, within `bound` of its largest value. */
static float *check_stored(const char *name, const fv_features_config *c, double bound)
{
    int64_t n = 0, count = 0;
    float *x = stored("x", &n), *expected = stored(name, &count);
    fv_features *f = NULL;
    CHECK_OK(ctx, fv_features_create(ctx, c, &f));
    CHECK_EQ(fv_features_frames(f, n) * fv_features_width(f), count);
    float *found = malloc((size_t)count * sizeof *found);
    CHECK_OK(ctx, fv_features_run(ctx, f, x, n, found));
    double worst = 0, scale = 0;
    for (int64_t i = 0; i < count; i++) {
        scale = fmax(scale, fabs((double)expected[i]));
        worst = test_worse(worst, fabs((double)found[i] - (double)expected[i]));
    }
    if (!(worst <= bound * scale))
        test_failed(__FILE__, __LINE__, "%s: error %.2e of %.2e", name, worst, scale);
    fv_features_destroy(&f);
    free(x);
    free(expected);
    return found;
}

static void other_libraries_agree(void)
{
    begin(2);
    fv_features_config c;
    fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_TORCHAUDIO);
    c.rate = 8000, c.mels = 40, c.output = FV_FEATURES_OUTPUT_MEL;
    free(check_stored("torchaudio_mel", &c, 1e-5));
    c.output = FV_FEATURES_OUTPUT_MFCC, c.coefficients = 13;
    float *mfcc = check_stored("torchaudio_mfcc", &c, 1e-5);
    int64_t count = 0;
    float *deltas = stored("torchaudio_deltas", &count),
          *found = malloc((size_t)count * sizeof *found);
    CHECK_OK(ctx, fv_deltas(ctx, mfcc, count / 13, 13, 2, found));
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(found[i], deltas[i], 2e-3);
    free(mfcc), free(deltas), free(found);
    fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_LIBROSA);
    c.rate = 8000, c.fft = 512, c.hop = 128, c.mels = 40, c.output = FV_FEATURES_OUTPUT_MFCC;
    free(check_stored("librosa_mfcc", &c, 1e-5));
    static float own[40][257];
    float *filters = stored("librosa_filters", &count);
    CHECK_OK(ctx, fv_mel_filters(ctx, &c, &own[0][0]));
    CHECK_EQ(count, 40 * 257);
    for (int i = 0; i < 40 * 257; i++)
        CHECK(own[i / 257][i % 257] == filters[i]); /* equal: a zero may have either sign */
    free(filters);
    fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_WHISPER);
    c.rate = 8000, c.mels = 40;
    free(check_stored("whisper", &c, 1e-5));
    fv_ctx_destroy(&ctx);
}

/* ---- bits, tensors, refusals ------------------------------------------------------ */

static void threads_give_the_same_bits(void)
{
    enum { LENGTH = 40000 };
    static float x[LENGTH], first[LENGTH], next[LENGTH];
    uint64_t state = 9;
    for (int i = 0; i < LENGTH; i++)
        x[i] = (float)noise(&state);
    for (int output = 0; output <= FV_FEATURES_OUTPUT_MFCC; output++)
        for (int threads = 1; threads <= 5; threads++) {
            begin(threads);
            fv_features_config c;
            fv_features *f = NULL;
            fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_WHISPER);
            c.output = (fv_features_output)output;
            c.fft = 128, c.mels = 40;
            CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
            const size_t bytes = (size_t)(fv_features_frames(f, LENGTH) * fv_features_width(f)) * 4;
            CHECK(bytes <= sizeof first);
            CHECK_OK(ctx, fv_features_run(ctx, f, x, LENGTH, threads == 1 ? first : next));
            if (threads > 1) CHECK(memcmp(first, next, bytes) == 0);
            fv_features_destroy(&f);
            fv_ctx_destroy(&ctx);
        }
}

/* A row depends on its own samples alone: the last of thousands equals that of its samples. */
static void rows_are_independent(void)
{
    enum { LENGTH = 40000, FFT = 16, HOP = 8, FRAMES_HERE = 1 + (LENGTH - FFT) / HOP };
    static float x[LENGTH], all[FRAMES_HERE][FFT + 2], one[FFT + 2];
    uint64_t state = 11;
    for (int i = 0; i < LENGTH; i++)
        x[i] = (float)noise(&state);
    begin(2);
    fv_features_config c;
    fv_features *f = NULL;
    fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_TORCHAUDIO);
    c.output = FV_FEATURES_OUTPUT_COMPLEX;
    c.fft = FFT, c.hop = HOP, c.centered = false;
    CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
    CHECK_EQ(fv_features_frames(f, LENGTH), FRAMES_HERE);
    CHECK_OK(ctx, fv_features_run(ctx, f, x, LENGTH, &all[0][0]));
    for (int t = 0; t < FRAMES_HERE; t += 997) {
        CHECK_OK(ctx, fv_features_run(ctx, f, x + t * HOP, FFT, one));
        CHECK(memcmp(one, all[t], sizeof one) == 0);
    }
    CHECK_EQ(fv_features_frames(f, FFT - 1), 0);
    CHECK_OK(ctx, fv_features_run(ctx, f, x, FFT - 1, NULL));
    fv_features_destroy(&f);
    fv_ctx_destroy(&ctx);
}

static void features_become_tensors(void)
{
    begin(1);
    fv_features_config c;
    fv_features *f = NULL;
    fv_sound *s = NULL;
    float row[80];
    fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_WHISPER);
    CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
    CHECK_OK(ctx, fv_sound_create(ctx, 16000, 1, SIGNAL, test_signal(), &s));
    fv_tensor *t = fv_features_tensor(ctx, f, s, 0);
    CHECK_EQ(fv_tensor_size(t, 0), SIGNAL / 160);
    CHECK_EQ(fv_tensor_size(t, 1), 80);
    static float all[SIGNAL / 160][80];
    CHECK_OK(ctx, fv_features_run(ctx, f, test_signal(), SIGNAL, &all[0][0]));
    static float read[SIGNAL / 160][80];
    CHECK_OK(ctx, fv_tensor_read(ctx, t, read, sizeof read));
    CHECK(memcmp(all, read, sizeof all) == 0);
    CHECK(!fv_tensor_valid(fv_features_tensor(ctx, f, s, 1)));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "channel 1 of a sound with 1") != NULL);
    fv_sound_free(&s);
    CHECK_OK(ctx, fv_sound_create(ctx, 8000, 1, SIGNAL, test_signal(), &s));
    CHECK(!fv_tensor_valid(fv_features_tensor(ctx, f, s, 0)));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "8000 Hz") != NULL);
    CHECK_EQ(fv_features_run(ctx, f, test_signal(), 200, row), FV_ERR_ARGUMENT); /* half the fft */
    CHECK_OK(ctx, fv_features_run(ctx, f, test_signal(), 201, row));
    CHECK_EQ(fv_features_run(ctx, f, NULL, 201, row), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_features_run(ctx, f, test_signal(), 201, NULL), FV_ERR_ARGUMENT);
    fv_sound_free(&s);
    fv_features_destroy(&f);
    fv_ctx_destroy(&ctx);
}

/* Mean 0 and variance 1 for a recording of any loudness; zeros stay finite. */
static void standardised_features_have_no_loudness(void)
{
    enum { LENGTH = 3000, MOST = 40 * 40 };
    static float x[LENGTH], loud[MOST], soft[MOST];
    uint64_t state = 5;
    begin(2);
    fv_features_config c;
    fv_features *f = NULL;
    fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_SPEECH);
    CHECK(c.standardise);
    CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
    const int64_t count = fv_features_frames(f, LENGTH) * 40;
    CHECK(count > 0 && count <= MOST);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < LENGTH; i++)
            x[i] = pass ? x[i] / 64 : (float)(noise(&state) * sin(0.01 * i));
        CHECK_OK(ctx, fv_features_run(ctx, f, x, LENGTH, pass ? soft : loud));
    }
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)loud[i];
        squares += (double)loud[i] * (double)loud[i];
        CHECK_NEAR(soft[i], loud[i], 1e-4);
    }
    CHECK_NEAR(sum / (double)count, 0, 1e-5);
    CHECK_NEAR(squares / (double)count, 1, 1e-3);
    memset(x, 0, sizeof x);
    CHECK_OK(ctx, fv_features_run(ctx, f, x, LENGTH, loud));
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(loud[i], 0, 1e-3);
    fv_features_destroy(&f);
    fv_ctx_destroy(&ctx);
}

/* The largest sample that a file may have: a constant and the highest frequency, whose sums are the
 * largest. */
static void the_loudest_samples_have_finite_features(void)
{
    enum { LENGTH = 5000, MOST = 40 * 128 };
    static float x[LENGTH], out[MOST];
    begin(1);
    for (int preset = 0; preset < 4; preset++) {
        fv_features_config c;
        fv_features *f = NULL;
        fv_features_config_init(&c, sizeof c, (fv_features_preset)preset);
        CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
        const int64_t count = fv_features_frames(f, LENGTH) * fv_features_width(f);
        CHECK(count > 0 && count <= MOST);
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < LENGTH; i++)
                x[i] = pass && i % 2 ? -FV_SOUND_MAX_SAMPLE : FV_SOUND_MAX_SAMPLE;
            CHECK_OK(ctx, fv_features_run(ctx, f, x, LENGTH, out));
            for (int64_t i = 0; i < count; i++)
                CHECK(isfinite(out[i]));
        }
        fv_features_destroy(&f);
    }
    fv_ctx_destroy(&ctx);
}

static void presets_are_those_of_their_libraries(void)
{
    static const struct {
        int64_t rate, fft, hop, mels, coefficients;
    } expected[] = {{16000, 400, 160, 80, 13},
                    {16000, 400, 200, 128, 40},
                    {22050, 2048, 512, 128, 20},
                    {8000, 256, 80, 40, 13}};
    begin(1);
    for (int preset = 0; preset < 4; preset++) {
        fv_features_config c;
        fv_features *f = NULL;
        fv_features_config_init(&c, sizeof c, (fv_features_preset)preset);
        CHECK_EQ(c.rate, expected[preset].rate);
        CHECK_EQ(c.fft, expected[preset].fft);
        CHECK_EQ(c.hop, expected[preset].hop);
        c.output = FV_FEATURES_OUTPUT_MEL;
        CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
        CHECK_EQ(fv_features_width(f), expected[preset].mels);
        fv_features_destroy(&f);
        c.output = FV_FEATURES_OUTPUT_MFCC;
        CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
        CHECK_EQ(fv_features_width(f), expected[preset].coefficients);
        CHECK_EQ(fv_features_frames(f, 16000), 16000 / c.hop + (preset > 0));
        fv_features_destroy(&f);
    }
    fv_ctx_destroy(&ctx);
}

static void cancelled_runs_fail(void)
{
    fv_ctx_config cfg;
    volatile int cancel = 1;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.cancel = &cancel;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    fv_features_config c;
    fv_features *f = NULL;
    fv_sound *s = NULL;
    static float out[SIGNAL][80];
    fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_WHISPER);
    CHECK_OK(ctx, fv_features_create(ctx, &c, &f));
    CHECK_EQ(fv_features_run(ctx, f, test_signal(), SIGNAL, &out[0][0]), FV_ERR_CANCELLED);
    CHECK_OK(ctx, fv_sound_create(ctx, 8000, 1, SIGNAL, test_signal(), &s));
    CHECK_EQ(fv_sound_resample(ctx, &s, 16000), FV_ERR_CANCELLED);
    CHECK_EQ(fv_sound_rate(s), 8000);
    fv_sound_free(&s);
    CHECK_EQ(fv_sound_load(ctx, test_path("data/audio/sweep.wav"), FV_SOUND_MIX_MONO, &s),
             FV_ERR_CANCELLED);
    fv_features_destroy(&f);
    fv_ctx_destroy(&ctx);
}

static void wrong_settings_are_refused(void)
{
    begin(1);
#define REFUSED(text, ...)                                                                         \
    do {                                                                                           \
        fv_features_config c;                                                                      \
        fv_features *f = NULL;                                                                     \
        fv_features_config_init(&c, sizeof c, FV_FEATURES_PRESET_WHISPER);                         \
        __VA_ARGS__;                                                                               \
        CHECK_EQ(fv_features_create(ctx, &c, &f), FV_ERR_ARGUMENT);                                \
        if (!strstr(fv_ctx_message(ctx), text))                                                    \
            test_failed(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", fv_ctx_message(ctx),     \
                        text);                                                                     \
        fv_features_destroy(&f);                                                                   \
    } while (0)
    REFUSED("fft is 1", c.fft = 1);
    REFUSED("fft is 65537", c.fft = 65537);
    REFUSED("window_length is 401", c.window_length = 401);
    REFUSED("window_length is -1", c.window_length = -1);
    REFUSED("hop is 0", c.hop = 0);
    REFUSED("rate is 0", c.rate = 0);
    REFUSED("mels is 0", c.mels = 0);
    REFUSED("mels is 4097", c.mels = 4097);
    REFUSED("coefficients is 81", c.output = FV_FEATURES_OUTPUT_MFCC, c.coefficients = 81);
    REFUSED("outside its enum", c.output = (fv_features_output)5);
    REFUSED("outside its enum", c.window = (fv_window)3);
    REFUSED("outside its enum", c.edge = (fv_edge)2);
    REFUSED("outside its enum", c.scale = (fv_mel_scale)2);
    REFUSED("outside its enum", c.log = (fv_mel_log)4);
    REFUSED("power is 3", c.power = 3);
    REFUSED("compute is bf16", c.compute = FV_BF16);
    REFUSED("filters from 100 to 50", c.low = 100, c.high = 50);
    REFUSED("filters from -1", c.low = -1);
    REFUSED("to 8001 Hz", c.high = 8001);
    REFUSED("filters from nan", c.low = NAN);
    REFUSED("floor is 0", c.floor = 0);
    REFUSED("top_db -1", c.top_db = -1);
#undef REFUSED
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(transforms_of_every_length);
    RUN(features_follow_their_definition);
    RUN(silence_has_a_floor);
    RUN(other_libraries_agree);
    RUN(threads_give_the_same_bits);
    RUN(rows_are_independent);
    RUN(features_become_tensors);
    RUN(standardised_features_have_no_loudness);
    RUN(the_loudest_samples_have_finite_features);
    RUN(presets_are_those_of_their_libraries);
    RUN(cancelled_runs_fail);
    RUN(wrong_settings_are_refused);
    return TEST_END();
}
