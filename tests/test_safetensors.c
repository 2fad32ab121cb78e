/* safetensors: every rule of the reader, what it loads, and what the writer makes. */
#include "base/ctx.h"
#include "fovea/file.h"
#include "io/crc.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

/* A file with this header and `data` bytes 0, 1, 2, ... after it. */
static void make(const char *path, const char *header, size_t data)
{
    size_t n = strlen(header);
    unsigned char *file = malloc(8 + n + data);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < data; i++)
        file[8 + n + i] = (unsigned char)i;
    file_write(path, file, 8 + n + data);
    free(file);
}

static fv_status try_open(fv_ctx *c, const char *path, unsigned flags)
{
    fv_safetensors *file = NULL;
    fv_status s = fv_safetensors_open(c, path, flags, &file);
    CHECK_EQ(s == FV_OK, file != NULL);
    fv_safetensors_close(&file);
    return s;
}

/* ---- listing --------------------------------------------------------------------- */

static void lists_without_loading(void)
{
    make(folder_path("a.safetensors"),
         "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"two\\nlines\"},"
         "\"late\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]},"
         "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
         "\"none\":{\"dtype\":\"F16\",\"shape\":[4,0],\"data_offsets\":[24,24]},"
         "\"odd\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[32,34],\"more\":1}}  ",
         34);
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("a.safetensors"), 0, &file));
    if (!file) return;
    CHECK_EQ(fv_safetensors_count(file), 4);
    const char *const names[] = {"w", "none", "late", "odd"};
    for (size_t i = 0; i < 4; i++)
        CHECK_STR(fv_safetensors_entry(file, i)->name, names[i]);
    CHECK(!fv_safetensors_entry(file, 4));
    const fv_file_entry *w = fv_safetensors_find(file, "w");
    CHECK(w && w->rank == 2 && w->shape[0] == 2 && w->shape[1] == 3);
    CHECK(w && w->bytes == 24 && w->stored_bytes == 24 && w->shard == 0 && w->loadable);
    CHECK_STR(w->dtype_name, "F32");
    CHECK_EQ(w->offset, fv_safetensors_shard_bytes(file, 0) - 34);
    CHECK(!fv_safetensors_find(file, "odd")->loadable);
    CHECK(!fv_safetensors_find(file, "absent") && !fv_safetensors_find(file, "__metadata__"));
    CHECK_EQ(fv_safetensors_metadata_count(file), 2);
    CHECK_STR(fv_safetensors_metadata_at(file, 0)->key, "format");
    CHECK(fv_safetensors_metadata_at(file, 2) == NULL);
    CHECK_STR(fv_safetensors_metadata_find(file, "note"), "two\nlines");
    CHECK(fv_safetensors_metadata_find(file, "absent") == NULL);
    CHECK_EQ(fv_safetensors_shard_count(file), 1);
    CHECK(strstr(fv_safetensors_shard_path(file, 0), "a.safetensors"));
    CHECK(fv_safetensors_shard_path(file, 1) == NULL);
    fv_safetensors_close(&file);
    CHECK(file == NULL);
    fv_safetensors_close(&file);
}

/* ---- rules ----------------------------------------------------------------------- */

#define TENSOR(dtype, shape, range)                                                                \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" range "}}"

static const struct {
    const char *what, *header;
    size_t data;
    fv_status status;
    const char *message;
} RULES[] = {
    {"fits", TENSOR("F32", "[2]", "[0,8]"), 8, FV_OK, ""},
    {"no tensors", "{}", 0, FV_OK, ""},
    {"scalar", TENSOR("F64", "[]", "[0,8]"), 8, FV_OK, ""},
    {"empty", TENSOR("F32", "[0]", "[0,0]"), 0, FV_OK, ""},
    {"rank 8", TENSOR("U8", "[1,1,1,1,1,1,1,3]", "[0,3]"), 3, FV_OK, ""},
    {"rank 9", TENSOR("U8", "[1,1,1,1,1,1,1,1,3]", "[0,3]"), 3, FV_ERR_LIMIT, "rank 9"},
    {"negative size", TENSOR("F32", "[-2]", "[0,8]"), 8, FV_ERR_FORMAT, "-2 is out of range"},
    {"two negative sizes", TENSOR("F32", "[-1,-2]", "[0,8]"), 8, FV_ERR_FORMAT, "out of range"},
    {"size of 2^63", TENSOR("U8", "[9223372036854775808]", "[0,8]"), 8, FV_ERR_FORMAT, "integer"},
    {"product overflows", TENSOR("U8", "[4294967296,4294967296]", "[0,0]"), 0, FV_ERR_FORMAT,
     "overflows"},
    {"product wraps to the range", TENSOR("F32", "[4611686018427387905]", "[0,4]"), 4,
     FV_ERR_FORMAT, "overflows"},
    {"overflow before a zero", TENSOR("U8", "[4294967296,4294967296,0]", "[0,0]"), 0, FV_ERR_FORMAT,
     "overflows"},
    {"range too short", TENSOR("F32", "[2]", "[0,4]"), 4, FV_ERR_FORMAT, "needs 8 bytes"},
    {"range too long", TENSOR("F32", "[2]", "[0,12]"), 12, FV_ERR_FORMAT, "needs 8 bytes"},
    {"range past the file", TENSOR("F32", "[2]", "[0,8]"), 7, FV_ERR_FORMAT, "expected 0 to 7"},
    {"range begins past the file", TENSOR("F32", "[0]", "[9,9]"), 8, FV_ERR_FORMAT, "out of range"},
    {"range backwards", TENSOR("F32", "[2]", "[8,0]"), 8, FV_ERR_FORMAT, "expected 8 to"},
    {"negative offset", TENSOR("F32", "[2]", "[-8,0]"), 8, FV_ERR_FORMAT, "out of range"},
    {"huge offsets", TENSOR("F32", "[2]", "[9223372036854775800,9223372036854775807]"), 8,
     FV_ERR_FORMAT, "out of range"},
    {"fractional offset", TENSOR("F32", "[2]", "[0.5,8]"), 8, FV_ERR_FORMAT, "an integer"},
    {"one offset", TENSOR("F32", "[2]", "[0]"), 8, FV_ERR_FORMAT, "expected 2"},
    {"three offsets", TENSOR("F32", "[2]", "[0,8,8]"), 8, FV_ERR_FORMAT, "expected 2"},
    {"offsets as string", TENSOR("F32", "[2]", "\"0,8\""), 8, FV_ERR_FORMAT, "an array"},
    {"shape as number", TENSOR("F32", "2", "[0,8]"), 8, FV_ERR_FORMAT, "an array"},
    {"size as string", TENSOR("F32", "[\"2\"]", "[0,8]"), 8, FV_ERR_FORMAT, "an integer"},
    {"unknown dtype", TENSOR("F31", "[2]", "[0,8]"), 8, FV_ERR_UNSUPPORTED, "\"F31\""},
    {"dtype as number", "{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     FV_ERR_FORMAT, "a string"},
    {"no dtype", "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, FV_ERR_FORMAT, "\"dtype\""},
    {"no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, FV_ERR_FORMAT,
     "\"shape\""},
    {"no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, FV_ERR_FORMAT,
     "\"data_offsets\""},
    {"entry is no object", "{\"a\":[]}", 0, FV_ERR_FORMAT, "an object"},
    {"gap before", TENSOR("F32", "[1]", "[4,8]"), 8, FV_ERR_FORMAT, "gap of 4"},
    {"gap after", TENSOR("F32", "[1]", "[0,4]"), 8, FV_ERR_FORMAT, "expected 4 from"},
    {"gap between",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
     5, FV_ERR_FORMAT, "gap of 1"},
    {"overlap",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]}}",
     5, FV_ERR_FORMAT, "overlaps"},
    {"same range twice",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
     3, FV_ERR_FORMAT, "overlaps"},
    {"name twice",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, FV_ERR_FORMAT, "duplicate"},
    {"name with NUL", "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     FV_ERR_FORMAT, "NUL"},
    {"name not UTF-8", "{\"\xFF\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     FV_ERR_FORMAT, "UTF-8"},
    {"header is an array", "[]", 0, FV_ERR_FORMAT, "'{'"},
    {"header begins with space", " {}", 0, FV_ERR_FORMAT, "'{'"},
    {"header is cut", "{\"a\":", 0, FV_ERR_FORMAT, "found the end"},
    {"header has a tail", "{} x", 0, FV_ERR_FORMAT, "the end of the text"},
    {"header is empty", "", 4, FV_ERR_FORMAT, "'{'"},
    {"notes are no object", "{\"__metadata__\":[]}", 0, FV_ERR_FORMAT, "an object"},
    {"metadata is a number", "{\"__metadata__\":{\"a\":1}}", 0, FV_ERR_FORMAT, "a string"},
    {"same key", "{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, FV_ERR_FORMAT, "duplicate"},
    {"two metadata", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, FV_ERR_FORMAT, "duplicate"},
    {"note key with NUL", "{\"__metadata__\":{\"\\u0000\":\"\"}}", 0, FV_ERR_FORMAT, "NUL"},
    {"deep nesting", "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 0,
     FV_ERR_LIMIT, "deeper"},
};

static void rules(void)
{
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
        make(folder_path("r.safetensors"), RULES[i].header, RULES[i].data);
        for (unsigned flags = 0; flags < 2; flags++) {
            fv_status s = try_open(ctx, folder_path("r.safetensors"), flags);
            bool matches = s == FV_OK || strstr(fv_ctx_message(ctx), RULES[i].message);
            if (s != RULES[i].status || !matches)
                test_failed(__FILE__, __LINE__, "%s: %s, \"%s\"", RULES[i].what, fv_status_name(s),
                            fv_ctx_message(ctx));
        }
    }
    printf("safetensors: %zu rules\n", sizeof RULES / sizeof RULES[0]);
}

/* The first eight bytes against the file and the limit. */
static void header_length(void)
{
    static const struct {
        uint64_t length;
        fv_status status;
    } cases[] = {
        {2, FV_OK},
        {0, FV_ERR_FORMAT},
        {1, FV_ERR_FORMAT},
        {3, FV_ERR_FORMAT},
        {UINT64_MAX, FV_ERR_FORMAT},
        {UINT64_MAX - 7, FV_ERR_FORMAT},
        {1u << 31, FV_ERR_FORMAT},
        {(uint64_t)1 << 63, FV_ERR_FORMAT},
    };
    unsigned char file[10] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int k = 0; k < 8; k++)
            file[k] = (unsigned char)(cases[i].length >> (8 * k));
        file_write(folder_path("h.safetensors"), file, sizeof file);
        CHECK_EQ(try_open(ctx, folder_path("h.safetensors"), 0), cases[i].status);
    }
    for (size_t n = 0; n < 10; n++) {
        file[0] = 2;
        file_write(folder_path("h.safetensors"), file, n);
        CHECK_EQ(try_open(ctx, folder_path("h.safetensors"), 0), FV_ERR_FORMAT);
    }
}

static fv_ctx *limited(const fv_limits *limits)
{
    fv_ctx_config cfg;
    fv_ctx *made = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.limits = *limits;
    CHECK_EQ(fv_ctx_create(&cfg, &made), FV_OK);
    return made;
}

/* Each limit at the file's own figure, and one below. */
static void limit_boundaries(void)
{
    static const char header[] =
        "{\"__metadata__\":{\"key\":\"0123456789abcdef\"},"
        "\"first\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}";
    const uint64_t file_bytes = 8 + sizeof header - 1 + 5;
    fv_limits tight[6];
    for (int i = 0; i < 6; i++)
        fv_limits_init(&tight[i], sizeof tight[i]);
    tight[0].header_bytes = sizeof header - 1;
    tight[1].tensors = 2;
    tight[2].name_bytes = 5;
    tight[3].string_bytes = 16;
    tight[4].json_depth = 3;
    tight[5].total_bytes = file_bytes;
    make(folder_path("l.safetensors"), header, 5);
    for (int i = 0; i < 6; i++) {
        fv_ctx *c = limited(&tight[i]);
        CHECK_OK(c, try_open(c, folder_path("l.safetensors"), 0));
        fv_ctx_destroy(&c);
        uint64_t *field = i == 0   ? &tight[i].header_bytes
                          : i == 1 ? &tight[i].tensors
                          : i == 2 ? &tight[i].name_bytes
                          : i == 3 ? &tight[i].string_bytes
                          : i == 4 ? &tight[i].json_depth
                                   : &tight[i].total_bytes;
        --*field;
        c = limited(&tight[i]);
        CHECK_EQ(try_open(c, folder_path("l.safetensors"), 0), FV_ERR_LIMIT);
        fv_ctx_destroy(&c);
    }
}

/* ---- loading --------------------------------------------------------------------- */

static void loads_every_dtype(void)
{
    static const char *const dtypes[] = {"F32", "F64", "BF16", "F16", "I32", "I64", "U8", "BOOL"};
    static const fv_dtype ours[] = {FV_F32, FV_F64, FV_BF16, FV_F16, FV_I32, FV_I64, FV_U8, FV_U8};
    for (size_t i = 0; i < 8; i++) {
        char header[200];
        size_t bytes = 6 * fv_dtype_size(ours[i]);
        snprintf(header, sizeof header,
                 "{\"x\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[0,%zu]}}", dtypes[i],
                 bytes);
        make(folder_path("d.safetensors"), header, bytes);
        for (unsigned flags = 0; flags < 2; flags++) {
            fv_safetensors *file = NULL;
            CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("d.safetensors"), flags, &file));
            if (!file) return;
            fv_tensor *t = fv_safetensors_load(ctx, file, "x");
            CHECK(fv_tensor_valid(t) && fv_tensor_dtype(t) == ours[i]);
            CHECK(fv_tensor_rank(t) == 2 && fv_tensor_size(t, 1) == 3);
            unsigned char got[48];
            CHECK_OK(ctx, fv_tensor_read(ctx, t, got, bytes));
            for (size_t k = 0; k < bytes; k++)
                CHECK_EQ(got[k], k);
            fv_safetensors_close(&file);
        }
    }
}

static void failed_loads_are_sticky(void)
{
    make(folder_path("f.safetensors"),
         "{\"i8\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"ok\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
         4);
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("f.safetensors"), 0, &file));
    if (!file) return;
    CHECK(!fv_tensor_valid(fv_safetensors_load(ctx, file, "absent")));
    CHECK(strstr(fv_ctx_message(ctx), "has no tensor \"absent\""));
    CHECK(!fv_tensor_valid(fv_safetensors_load(ctx, file, "ok")));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_INDEX);
    CHECK(!fv_tensor_valid(fv_safetensors_load(ctx, file, "i8")));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_UNSUPPORTED);
    CHECK(fv_tensor_valid(fv_safetensors_load(ctx, file, "ok")));
    /* Bytes of any type can be had. */
    unsigned char raw[2] = {9, 9};
    const fv_file_entry *i8 = fv_safetensors_find(file, "i8");
    CHECK_OK(ctx, fv_safetensors_read(file, i8, 0, raw, 2));
    CHECK(raw[0] == 0 && raw[1] == 1);
    CHECK_OK(ctx, fv_safetensors_read(file, i8, 1, raw, 1));
    CHECK_EQ(raw[0], 1);
    CHECK_OK(ctx, fv_safetensors_read(file, i8, 2, raw, 0));
    CHECK_EQ(fv_safetensors_read(file, i8, 1, raw, 2), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_safetensors_read(file, i8, UINT64_MAX, raw, 2), FV_ERR_ARGUMENT);
    fv_file_entry copy = *i8;
    CHECK_EQ(fv_safetensors_read(file, &copy, 0, raw, 2), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_safetensors_read(file, NULL, 0, raw, 2), FV_ERR_ARGUMENT);
    const void *view = NULL;
    CHECK_EQ(fv_safetensors_view(file, i8, &view), FV_ERR_STATE);
    fv_safetensors_close(&file);
}

/* ---- saving ---------------------------------------------------------------------- */

static void saves_and_loads(void)
{
    enum { N = 7 };
    const fv_dtype dtypes[N] = {FV_U8, FV_F32, FV_F64, FV_BF16, FV_F16, FV_I32, FV_I64};
    const char *names[N] = {"u8", "f32", "f64", "bf16", "f16", "i32", "i64"};
    fv_tensor *tensors[N];
    unsigned char data[N][40], got[40];
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 40; k++)
            data[i][k] = (unsigned char)(i * 40 + k);
        tensors[i] = fv_from_host(ctx, dtypes[i], 2, (int64_t[]){5, 1}, data[i]);
    }
    const fv_file_metadata notes[] = {{"format", "pt"}, {"a\"", "\n"}, {"fovea.crc32c", "stale"}};
    const char *path = folder_path("s.safetensors");
    CHECK_OK(ctx, fv_safetensors_save(ctx, names, tensors, N, notes, 3, path));
    for (unsigned flags = 0; flags < 4; flags++) {
        fv_safetensors *file = NULL;
        CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("s.safetensors"), flags, &file));
        if (!file) return;
        CHECK_EQ(fv_safetensors_count(file), N);
        CHECK_EQ(fv_safetensors_entry(file, 0)->offset % 64, 0);
        CHECK_STR(fv_safetensors_metadata_find(file, "a\""), "\n");
        CHECK_EQ(strlen(fv_safetensors_metadata_find(file, "fovea.crc32c")), 8 * (N + 1));
        for (int i = 0; i < N; i++) {
            size_t element = fv_dtype_size(dtypes[i]);
            const fv_file_entry *e = fv_safetensors_find(file, names[i]);
            CHECK(e && e->offset % element == 0);
            fv_tensor *t = fv_safetensors_load(ctx, file, names[i]);
            CHECK_OK(ctx, fv_tensor_read(ctx, t, got, 5 * element));
            CHECK(memcmp(got, data[i], 5 * element) == 0);
            const void *view = NULL;
            if (flags & FV_SAFETENSORS_MAP) {
                CHECK_OK(ctx, fv_safetensors_view(file, e, &view));
                CHECK((uintptr_t)view % element == 0);
                CHECK(view && memcmp(view, data[i], 5 * element) == 0);
            }
        }
        fv_safetensors_close(&file);
    }
}

/* A view with strides is written row by row. */
static void saves_views(void)
{
    const float data[6] = {1, 2, 3, 4, 5, 6};
    fv_tensor *whole = fv_from_host(ctx, FV_F32, 2, (int64_t[]){2, 3}, data);
    fv_tensor *strided =
        fv_wrap(ctx, FV_F32, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, fv_tensor_data(whole));
    const char *name = "t";
    float got[6];
    CHECK(fv_tensor_valid(strided) && !fv_tensor_contiguous(strided));
    CHECK_OK(ctx,
             fv_safetensors_save(ctx, &name, &strided, 1, NULL, 0, folder_path("v.safetensors")));
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("v.safetensors"), 2, &file));
    if (!file) return;
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_safetensors_load(ctx, file, "t"), got, sizeof got));
    CHECK(got[0] == 1 && got[1] == 4 && got[2] == 2 && got[3] == 5 && got[4] == 3 && got[5] == 6);
    fv_safetensors_close(&file);
}

typedef struct pattern {
    uint64_t asked, largest;
    size_t stop_at; /* tensor whose data cannot be had */
} pattern;

static unsigned char pattern_byte(size_t index, uint64_t at)
{
    return (unsigned char)(index * 31 + at * 7 + (at >> 13));
}

static fv_status give_pattern(void *user, size_t index, uint64_t offset, void *buf, size_t bytes)
{
    pattern *p = user;
    if (index == p->stop_at) return FV_ERR_CANCELLED;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)buf)[i] = pattern_byte(index, offset + i);
    p->asked += bytes;
    if (bytes > p->largest) p->largest = bytes;
    return FV_OK;
}

static void streams(void)
{
    const fv_file_spec specs[] = {{"bytes", FV_U8, 1, {(1 << 20) + 13}},
                                  {"none", FV_F32, 2, {0, 7}},
                                  {"words", FV_I32, 1, {700001}},
                                  {"one", FV_F64, 0, {0}}};
    pattern p = {.stop_at = 99};
    fv_memory_stats stats;
    fv_ctx_memory_reset_peak(ctx);
    fv_ctx_memory(ctx, &stats);
    uint64_t before = stats.used_bytes;
    CHECK_OK(ctx, fv_safetensors_save_stream(ctx, specs, 4, NULL, 0, give_pattern, &p,
                                             folder_path("p.safetensors")));
    fv_ctx_memory(ctx, &stats);
    CHECK(stats.peak_bytes - before < 2 << 20); /* never a second copy */
    CHECK_EQ(p.asked, (1 << 20) + 13 + 700001 * 4 + 8);
    CHECK_EQ(p.largest, 1 << 20);
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("p.safetensors"), 2, &file));
    for (size_t i = 0; file && i < 4; i++) {
        const fv_file_entry *e = fv_safetensors_find(file, specs[i].name);
        unsigned char *data = malloc(e->bytes + 1);
        CHECK_OK(ctx, fv_safetensors_read(file, e, 0, data, e->bytes));
        size_t wrong = 0;
        for (uint64_t k = 0; k < e->bytes; k++)
            wrong += data[k] != pattern_byte(i, k);
        CHECK_EQ(wrong, 0);
        free(data);
    }
    fv_safetensors_close(&file);
    /* A source that stops leaves the old file and nothing else. */
    p.stop_at = 2;
    int files = folder_count("");
    CHECK_EQ(fv_safetensors_save_stream(ctx, specs, 4, NULL, 0, give_pattern, &p,
                                        folder_path("p.safetensors")),
             FV_ERR_CANCELLED);
    CHECK_EQ(folder_count(""), files);
    CHECK_OK(ctx, try_open(ctx, folder_path("p.safetensors"), 2));
}

static void refuses_bad_saves(void)
{
    const char *path = folder_path("bad.safetensors");
    char longest[258];
    memset(longest, 'x', sizeof longest);
    longest[256] = '\0';
    pattern p = {.stop_at = 99};
    const struct {
        fv_file_spec spec;
        fv_status status;
    } cases[] = {
        {{longest, FV_U8, 1, {1}}, FV_OK},
        {{longest + 1, FV_U8, 0, {0}}, FV_OK},
        {{"", FV_U8, 1, {1}}, FV_ERR_ARGUMENT},
        {{NULL, FV_U8, 1, {1}}, FV_ERR_ARGUMENT},
        {{"__metadata__", FV_U8, 1, {1}}, FV_ERR_ARGUMENT},
        {{"\xFF", FV_U8, 1, {1}}, FV_ERR_ARGUMENT},
        {{"a", FV_DTYPE_COUNT, 1, {1}}, FV_ERR_ARGUMENT},
        {{"a", FV_U8, 9, {1}}, FV_ERR_ARGUMENT},
        {{"a", FV_U8, -1, {1}}, FV_ERR_ARGUMENT},
        {{"a", FV_U8, 1, {-1}}, FV_ERR_ARGUMENT},
        {{"a", FV_F32, 1, {INT64_MAX / 2}}, FV_ERR_ARGUMENT},
        {{"a", FV_U8, 1, {(int64_t)1 << 41}}, FV_ERR_LIMIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_EQ(
            fv_safetensors_save_stream(ctx, &cases[i].spec, 1, NULL, 0, give_pattern, &p, path),
            cases[i].status);
    longest[256] = 'x';
    longest[257] = '\0';
    fv_file_spec spec = {longest, FV_U8, 1, {1}};
    CHECK_EQ(fv_safetensors_save_stream(ctx, &spec, 1, NULL, 0, give_pattern, &p, path),
             FV_ERR_LIMIT);
    const fv_file_spec twice[] = {{"a", FV_U8, 1, {1}}, {"b", FV_U8, 1, {1}}, {"a", FV_U8, 1, {2}}};
    CHECK_EQ(fv_safetensors_save_stream(ctx, twice, 3, NULL, 0, give_pattern, &p, path),
             FV_ERR_ARGUMENT);
    const fv_file_metadata notes[] = {{"k", "1"}, {"k", "2"}};
    CHECK_EQ(fv_safetensors_save_stream(ctx, twice, 2, notes, 2, give_pattern, &p, path),
             FV_ERR_ARGUMENT);
    CHECK_EQ(fv_safetensors_save_stream(ctx, twice, 2, notes, 1, give_pattern, &p, ""),
             FV_ERR_ARGUMENT);
    CHECK_EQ(fv_safetensors_save_stream(ctx, twice, 2, notes, 1, give_pattern, &p, NULL),
             FV_ERR_ARGUMENT);
    CHECK_EQ(fv_safetensors_save_stream(ctx, twice, 2, notes, 1, give_pattern, &p,
                                        folder_path("no/such/folder")),
             FV_ERR_IO);
    CHECK_EQ(try_open(ctx, path, 8), FV_ERR_ARGUMENT);
    CHECK_EQ(try_open(ctx, NULL, 0), FV_ERR_ARGUMENT);
    CHECK_EQ(folder_count(".tmp"), 0);
}

/* While an op has failed, nothing is written. */
static void saves_nothing_after_an_error(void)
{
    const float data[2] = {1, 2};
    const char *name = "t";
    fv_tensor *t = fv_from_host(ctx, FV_F32, 1, (int64_t[]){2}, data);
    fv_poison(ctx, FV_ERR_SHAPE, "an earlier op");
    CHECK_EQ(fv_safetensors_save(ctx, &name, &t, 1, NULL, 0, folder_path("e.safetensors")),
             FV_ERR_SHAPE);
    CHECK_STR(fv_ctx_message(ctx), "an earlier op");
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    CHECK_EQ(folder_count("e.safetensors"), 0);
}

/* ---- checksums ------------------------------------------------------------------- */

/* The check values every description of these polynomials gives for "123456789". */
static void crc_values(void)
{
    fv_crc crc;
    fv_crc_init(&crc, FV_CRC32C);
    CHECK_EQ(fv_crc_add(&crc, 0, "123456789", 9), 0xE3069283u);
    CHECK_EQ(fv_crc_add(&crc, fv_crc_add(&crc, 0, "1234", 4), "56789", 5), 0xE3069283u);
    fv_crc_init(&crc, FV_CRC32);
    CHECK_EQ(fv_crc_add(&crc, 0, "123456789", 9), 0xCBF43926u);
    unsigned char zeros[32] = {0};
    fv_crc_init(&crc, FV_CRC32C);
    CHECK_EQ(fv_crc_add(&crc, 0, zeros, 32), 0x8A9136AAu);
}

/* Opens with verification and reads every tensor. */
static fv_status read_all(const char *path)
{
    fv_safetensors *file = NULL;
    char data[256];
    fv_status s = fv_safetensors_open(ctx, path, FV_SAFETENSORS_VERIFY, &file);
    for (size_t i = 0; s == FV_OK && i < fv_safetensors_count(file); i++) {
        const fv_file_entry *e = fv_safetensors_entry(file, i);
        s = e->bytes <= sizeof data ? fv_safetensors_read(file, e, 0, data, e->bytes)
                                    : FV_ERR_FORMAT;
    }
    fv_safetensors_close(&file);
    return s;
}

/* No single flipped bit of a saved file goes unseen. */
static void verification_sees_every_bit(void)
{
    const fv_file_spec specs[] = {{"w", FV_F32, 2, {3, 5}}, {"b", FV_U8, 1, {7}}};
    const fv_file_metadata notes[] = {{"step", "1200"}};
    pattern p = {.stop_at = 99};
    size_t bytes = 0, seen = 0;
    CHECK_OK(ctx, fv_safetensors_save_stream(ctx, specs, 2, notes, 1, give_pattern, &p,
                                             folder_path("c.safetensors")));
    CHECK_OK(ctx, read_all(folder_path("c.safetensors")));
    unsigned char *file = file_read(folder_path("c.safetensors"), &bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
        file_write(folder_path("c2.safetensors"), file, bytes);
        seen += read_all(folder_path("c2.safetensors")) != FV_OK;
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    printf("safetensors: %zu of %zu flipped bits seen\n", seen, 8 * bytes);
    CHECK_EQ(seen, 8 * bytes);
    free(file);
    make(folder_path("n.safetensors"), TENSOR("U8", "[3]", "[0,3]"), 3);
    CHECK_EQ(try_open(ctx, folder_path("n.safetensors"), FV_SAFETENSORS_VERIFY), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "has no checksums"));
}

/* ---- a file of another library --------------------------------------------------- */

static void reads_the_reference_file(void)
{
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path("data/io/reference.safetensors"), 0, &file));
    if (!file) return;
    CHECK_EQ(fv_safetensors_count(file), 5);
    CHECK_STR(fv_safetensors_metadata_find(file, "made by"), "safetensors");
    float w[6];
    int64_t n = 0;
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_safetensors_load(ctx, file, "w"), w, sizeof w));
    for (int i = 0; i < 6; i++)
        CHECK(w[i] == (float)i * 0.5f);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_safetensors_load(ctx, file, "n"), &n, sizeof n));
    CHECK_EQ(n, -5);
    CHECK(fv_tensor_size(fv_safetensors_load(ctx, file, "empty"), 0) == 0);
    CHECK(!fv_safetensors_find(file, "i16")->loadable);
    CHECK_STR(fv_safetensors_find(file, "flag")->dtype_name, "BOOL");
    fv_safetensors_close(&file);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_make();
    RUN(lists_without_loading);
    RUN(rules);
    RUN(header_length);
    RUN(limit_boundaries);
    RUN(loads_every_dtype);
    RUN(failed_loads_are_sticky);
    RUN(saves_and_loads);
    RUN(saves_views);
    RUN(streams);
    RUN(refuses_bad_saves);
    RUN(saves_nothing_after_an_error);
    RUN(crc_values);
    RUN(verification_sees_every_bit);
    RUN(reads_the_reference_file);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
