/* Checksums of weights: the fast CRC against the plain one, and what a model's folder says when it
 * is damaged, has none, or holds values that are not finite. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "fovea/file.h"
#include "fovea/model.h"
#include "io/crc32c.h"
#include "io/scan.h"
#include "support/files.h"
#include "support/program.h"

/* ---- the sum -------------------------------------------------------------------------- */

static unsigned char *random_bytes(size_t n)
{
    unsigned char *data = malloc(n);
    uint32_t r[4];
    for (size_t i = 0; data && i < n; i++) {
        if (i % 16 == 0) fv_rng_draw(fv_rng_key(5, 0, 0), i, 0, r);
        data[i] = (unsigned char)(r[i / 4 % 4] >> (8 * (i % 4)));
    }
    return data;
}

static bool has_instruction(void)
{
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    const bool has = fv_ctx_simd(ctx) >= FV_SIMD_AVX2 && fv_crc32c_has_hardware();
    fv_ctx_destroy(&ctx);
    return has;
}

static void fast_equals_plain(void)
{
    enum { MOST = 4 * 3 * FV_CRC_STRIDE };
    static fv_crc32c fast, plain;
    unsigned char *data = random_bytes(MOST + 64);
    fv_crc32c_init(&fast, has_instruction());
    fv_crc32c_init(&plain, false);
    CHECK_EQ(fv_crc32c_add(&plain, 0, "123456789", 9), 0xE3069283u); /* the published check value */
    CHECK_EQ(fv_crc32c_add(&fast, 0, "123456789", 9), 0xE3069283u);
    static const size_t around[] = {0,
                                    8,
                                    16,
                                    FV_CRC_STRIDE,
                                    2 * FV_CRC_STRIDE,
                                    3 * FV_CRC_STRIDE,
                                    6 * FV_CRC_STRIDE,
                                    9 * FV_CRC_STRIDE,
                                    MOST};
    for (size_t k = 0; data && k < sizeof around / sizeof *around; k++)
        for (int extra = -9; extra <= 9; extra++)
            for (size_t from = 0; from < 9; from += 4) { /* also unaligned */
                if (extra < 0 && around[k] < (size_t)-extra) continue;
                const size_t n = around[k] + (size_t)(extra + 16) - 16;
                const uint32_t start = (uint32_t)(k * 2654435761u);
                CHECK_EQ(fv_crc32c_add(&fast, start, data + from, n),
                         fv_crc32c_add(&plain, start, data + from, n));
            }
    free(data);
}

static fv_ctx *make_context(int threads, fv_simd simd)
{
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = threads;
    cfg.simd = simd;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    return ctx;
}

/* Sums of chunks, by any number of threads, from a file or from memory. */
static void chunks_join(void)
{
    static const int64_t sizes[] = {0,
                                    1,
                                    FV_CRC_CHUNK - 4,
                                    FV_CRC_CHUNK,
                                    FV_CRC_CHUNK + 4,
                                    3 * FV_CRC_CHUNK - 4,
                                    3 * FV_CRC_CHUNK,
                                    3 * FV_CRC_CHUNK + 4};
    enum { MOST = 3 * FV_CRC_CHUNK + 4 };
    static fv_crc32c crc;
    unsigned char *data = random_bytes(MOST), *copy = malloc(MOST);
    fv_crc32c_init(&crc, has_instruction());
    file_write(folder_path("bytes"), data, MOST);
    for (int threads = 1; threads <= 3; threads += 2) {
        fv_ctx *ctx = make_context(threads, FV_SIMD_AUTO);
        fv_file file;
        CHECK_OK(ctx, fv_file_open(ctx, folder_path("bytes"), &file));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const size_t n = (size_t)sizes[i];
            const uint32_t expected = fv_crc_add(&crc.plain, 0, data, n);
            fv_scan scan = {.crc = &crc};
            CHECK_OK(ctx, fv_scan_memory(ctx, data, n, &scan));
            CHECK_EQ(scan.sum, expected);
            memset(copy, 0, MOST);
            scan.sum = 1;
            CHECK_OK(ctx, fv_scan_read(&file, copy, n, 0, &scan));
            CHECK_EQ(scan.sum, expected);
            CHECK(memcmp(copy, data, n) == 0);
        }
        /* beyond the end: an error with the file's name */
        fv_scan scan = {.crc = &crc};
        CHECK_EQ(fv_scan_read(&file, copy, MOST, 8, &scan), FV_ERR_IO);
        CHECK(strstr(fv_ctx_message(ctx), "bytes: ends at byte"));
        fv_file_close(&file);
        fv_ctx_destroy(&ctx);
    }
    free(data);
    free(copy);
}

static void values_are_found(void)
{
    static const struct {
        fv_dtype dtype;
        size_t bytes;
        uint64_t finite, infinite, nan;
    } types[] = {{FV_F32, 4, 0x7F7FFFFF, 0x7F800000, 0xFFC00001},
                 {FV_F64, 8, 0x7FEFFFFFFFFFFFFF, 0xFFF0000000000000, 0x7FF8000000000000},
                 {FV_BF16, 2, 0x7F7F, 0xFF80, 0x7FC0},
                 {FV_F16, 2, 0x7BFF, 0x7C00, 0xFE00}};
    enum { COUNT = FV_CRC_CHUNK / 2 + 5 };
    fv_ctx *ctx = make_context(2, FV_SIMD_AUTO);
    unsigned char *data = malloc(COUNT * 8);
    for (int k = 0; k < 4; k++) {
        const size_t n = types[k].bytes;
        for (int where = 0; where < 4; where++) {
            static const size_t places[] = {0, COUNT / 2, COUNT - 1};
            const uint64_t bad = where % 2 ? types[k].nan : types[k].infinite;
            for (size_t i = 0; i < COUNT; i++)
                memcpy(data + i * n, &types[k].finite, n);
            if (where < 3) memcpy(data + places[where] * n, &bad, n);
            fv_scan scan = {.values = true, .dtype = types[k].dtype};
            CHECK_OK(ctx, fv_scan_memory(ctx, data, COUNT * n, &scan));
            CHECK_EQ(scan.nonfinite, where < 3);
        }
    }
    /* Integers have no such values, whatever their bits. */
    memset(data, 0xFF, COUNT * 8);
    for (int k = 0; k < 3; k++) {
        fv_scan scan = {.values = true, .dtype = k == 0 ? FV_I32 : k == 1 ? FV_I64 : FV_U8};
        CHECK_OK(ctx, fv_scan_memory(ctx, data, COUNT, &scan));
        CHECK(!scan.nonfinite);
    }
    free(data);
    fv_ctx_destroy(&ctx);
}

/* ---- folders ---------------------------------------------------------------------------- */

static const char *model_file(void) { return program_path("gpt2/model.safetensors"); }

/* The fixture, saved by the library: with checksums. */
static void write_model(void)
{
    fv_ctx *ctx = make_context(1, FV_SIMD_AUTO);
    fv_model *model = NULL;
    CHECK_EQ(mkdir(program_path("gpt2"), 0700), 0);
    CHECK_OK(ctx, fv_model_open(ctx, test_path("fixtures/gpt2"), &model));
    if (model) CHECK_OK(ctx, fv_model_save(model, program_path("gpt2")));
    fv_model_close(&model);
    static const int64_t ids[] = {1, 2, 3, 4}, shape[] = {1, 4};
    fv_scope_begin(ctx);
    CHECK_OK(ctx,
             fv_npy_save(ctx, fv_from_host(ctx, FV_I64, 2, shape, ids), program_path("ids.npy")));
    fv_scope_end(ctx);
    fv_ctx_destroy(&ctx);
}

/* Flips bits of the data, from `at` bytes before its end. */
static void damage(size_t before_end, unsigned char bits)
{
    size_t bytes = 0;
    unsigned char *data = file_read(model_file(), &bytes);
    CHECK(data && bytes > before_end);
    if (data) data[bytes - before_end] ^= bits;
    if (data) file_write(model_file(), data, bytes);
    free(data);
}

static void run_model(const char *options)
{
    program_run("run %s --ids %s --logits %s %s", program_path("gpt2"), program_path("ids.npy"),
                program_path("logits.npy"), options);
}

static void damage_is_noticed(void)
{
    run_model("");
    expect(0, NULL, NULL);
    program_run("inspect %s --verify", program_path("gpt2"));
    expect(0, "checksums: CRC-32C", "all checksums are right");
    damage(100, 1);
    run_model("");
    expect(3, NULL, "model.safetensors: wrong checksum of");
    expect(3, NULL, "--no-verify");
    run_model("--mmap");
    expect(3, NULL, "wrong checksum of");
    run_model("--no-verify");
    expect(0, NULL, NULL);
    program_run("inspect %s --verify", program_path("gpt2"));
    expect(3, NULL, "wrong checksum of");
    program_run("inspect %s", program_path("gpt2")); /* headers only */
    expect(0, NULL, NULL);
    damage(100, 1);
    run_model("");
    expect(0, NULL, NULL);
}

static void absence_is_reported(void)
{
    program_run("inspect --verify %s", test_path("fixtures/gpt2/model.safetensors"));
    expect(0, "checksums: none", "has no checksums to verify");
    program_run("inspect --json %s", test_path("fixtures/gpt2/model.safetensors"));
    expect(0, "\"checksums\": false", NULL);
}

/* A value that was NaN when it was saved: the sum is right, the value is reported. */
static void nonfinite_values_are_reported(void)
{
    static const char *const names[] = {"a", "b"};
    static const int64_t shape[] = {3};
    const float values[2][3] = {{1, 2, 3}, {1, NAN, 3}};
    fv_ctx *ctx = make_context(1, FV_SIMD_AUTO);
    fv_scope_begin(ctx);
    fv_tensor *tensors[2];
    for (int i = 0; i < 2; i++)
        tensors[i] = fv_from_host(ctx, FV_F32, 1, shape, values[i]);
    CHECK_OK(ctx,
             fv_safetensors_save(ctx, names, tensors, 2, NULL, 0, program_path("nan.safetensors")));
    fv_scope_end(ctx);
    fv_ctx_destroy(&ctx);
    program_run("inspect --verify %s", program_path("nan.safetensors"));
    expect(0, NULL, "warning: ");
    expect(0, NULL, "tensor \"b\" has NaN or infinite values");
    CHECK(!strstr(program.err, "\"a\""));
}

/* A file cut short between its header and its data gives an error, never a signal. */
static void a_cut_file_is_an_error(void)
{
    size_t bytes = 0;
    void *whole = file_read(model_file(), &bytes);
    CHECK_EQ(truncate(model_file(), (off_t)(bytes / 2)), 0);
    run_model("");
    expect(3, NULL, "model.safetensors");
    if (whole) file_write(model_file(), whole, bytes);
    /* cut after it was opened, through the library */
    fv_ctx *ctx = make_context(2, FV_SIMD_AUTO);
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, model_file(), FV_SAFETENSORS_CHECK, &file));
    CHECK_EQ(truncate(model_file(), (off_t)(bytes / 2)), 0);
    const fv_file_entry *last =
        file ? fv_safetensors_entry(file, fv_safetensors_count(file) - 1) : NULL;
    void *room = last ? malloc((size_t)last->bytes) : NULL;
    if (room) CHECK_EQ(fv_safetensors_read(file, last, 0, room, (size_t)last->bytes), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(ctx), "ends at byte"));
    free(room);
    fv_safetensors_close(&file);
    fv_ctx_destroy(&ctx);
    if (whole) file_write(model_file(), whole, bytes);
    free(whole);
}

/* Wrong settings in a model's files are bad files, named in the message. */
static void bad_settings_name_the_file(void)
{
    size_t bytes = 0;
    char *config = file_read(program_path("gpt2/config.json"), &bytes), *text = NULL;
    text = config ? calloc(1, bytes + 64) : NULL;
    if (text) {
        memcpy(text, config, bytes);
        char *heads = strstr(text, "\"n_head\"");
        CHECK(heads != NULL);
        if (heads) memcpy(strchr(heads, ':') + 1, "7", 1); /* does not divide the width */
        program_text("gpt2/config.json", text);
        run_model("");
        expect(3, NULL, "config.json");
    }
    file_write(program_path("gpt2/config.json"), config, bytes);
    free(text);
    free(config);
}

static void dtype_applies_to_ids(void)
{
    size_t n = 0, m = 0;
    run_model("");
    expect(0, NULL, NULL);
    void *f32 = file_read(program_path("logits.npy"), &n);
    run_model("--dtype int8");
    expect(0, NULL, NULL);
    void *i8 = file_read(program_path("logits.npy"), &m);
    CHECK(f32 && i8 && n == m && memcmp(f32, i8, n) != 0);
    free(f32);
    free(i8);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(fast_equals_plain);
    RUN(chunks_join);
    RUN(values_are_found);
    program_needed();
    program_run("version"); /* makes the folder */
    write_model();
    RUN(damage_is_noticed);
    RUN(absence_is_reported);
    RUN(nonfinite_values_are_reported);
    RUN(a_cut_file_is_an_error);
    RUN(bad_settings_name_the_file);
    RUN(dtype_applies_to_ids);
    program_end();
    folder_remove();
    return TEST_END();
}
