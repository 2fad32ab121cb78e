/* npy and npz: files of NumPy, every rule of the reader, and what the writer makes. */
#include "base/ctx.h"
#include "fovea/file.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

static fv_status try_open(fv_ctx *c, const char *path)
{
    fv_npy *file = NULL;
    fv_status s = fv_npy_open(c, path, &file);
    CHECK_EQ(s == FV_OK, file != NULL);
    fv_npy_close(&file);
    return s;
}

static fv_tensor *load(const char *path, const char *name)
{
    fv_npy *file = NULL;
    CHECK_OK(ctx, fv_npy_open(ctx, path, &file));
    fv_tensor *t = file ? fv_npy_load(ctx, file, name) : ctx->invalid;
    fv_npy_close(&file);
    return t;
}

static size_t put_npy(unsigned char *out, const char *header, size_t data)
{
    size_t n = strlen(header);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (unsigned char)n;
    out[9] = (unsigned char)(n >> 8);
    memcpy(out + 10, header, n);
    memset(out + 10 + n, 1, data);
    return 10 + n + data;
}

/* ---- files of NumPy -------------------------------------------------------------- */

static void reads_plain_arrays(void)
{
    float x[6];
    int64_t n[4];
    fv_tensor *t = load(test_path("data/io/v1.npy"), "");
    CHECK(fv_tensor_dtype(t) == FV_F32 && fv_tensor_rank(t) == 2 && fv_tensor_size(t, 0) == 2);
    CHECK_OK(ctx, fv_tensor_read(ctx, t, x, sizeof x));
    for (int i = 0; i < 6; i++)
        CHECK(x[i] == (float)i * 0.5f);
    for (int version = 2; version <= 3; version++) {
        t = load(test_path(version == 2 ? "data/io/v2.npy" : "data/io/v3.npy"), "");
        CHECK_OK(ctx, fv_tensor_read(ctx, t, n, sizeof n));
        for (int i = 0; i < 4; i++)
            CHECK_EQ(n[i], i - 2);
    }
}

/* Listed, but not loaded: the byte order is not supported. */
static void refuses_another_byte_order(void)
{
    fv_npy *file = NULL;
    float x[6];
    CHECK_OK(ctx, fv_npy_open(ctx, test_path("data/io/big_endian.npy"), &file));
    if (!file) return;
    const fv_file_entry *e = fv_npy_entry(file, 0);
    CHECK(!e->loadable && e->rank == 2 && e->shape[1] == 3 && e->bytes == 24);
    CHECK_STR(e->dtype_name, ">f4");
    CHECK(!fv_tensor_valid(fv_npy_load(ctx, file, "")));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_UNSUPPORTED);
    CHECK_OK(ctx, fv_npy_read(file, e, x, sizeof x));
    fv_npy_close(&file);
}

/* NumPy's own file, and one for each rank, whose element at (i, j, ...) encodes its indices. */
static void reads_columns_first(void)
{
    float x[6];
    CHECK_OK(ctx, fv_tensor_read(ctx, load(test_path("data/io/fortran.npy"), ""), x, sizeof x));
    for (int i = 0; i < 6; i++)
        CHECK(x[i] == (float)i * 0.5f);
    static const char *const shapes[] = {"()",        "(5,)",         "(2, 3)",
                                         "(3, 1, 4)", "(2, 3, 4, 2)", "(2, 0, 3)"};
    static const int64_t sizes[][4] = {{0}, {5}, {2, 3}, {3, 1, 4}, {2, 3, 4, 2}, {2, 0, 3}};
    static const int ranks[] = {0, 1, 2, 3, 4, 3};
    for (int s = 0; s < 6; s++) {
        unsigned char file[512], read[48], header[128];
        int64_t count = 1;
        snprintf((char *)header, sizeof header,
                 "{'descr': '|u1', 'fortran_order': True, 'shape': %s}", shapes[s]);
        for (int axis = 0; axis < ranks[s]; axis++)
            count *= sizes[s][axis];
        const size_t bytes = put_npy(file, (char *)header, (size_t)count);
        unsigned char *data = file + bytes - count;
        for (int64_t i = 0; i < count; i++) { /* i counts with the first index fastest */
            int64_t rest = i, rows_first = 0;
            for (int axis = 0, below = (int)count; axis < ranks[s]; axis++) {
                below /= (int)sizes[s][axis];
                rows_first += rest % sizes[s][axis] * below;
                rest /= sizes[s][axis];
            }
            data[i] = (unsigned char)rows_first;
        }
        file_write(folder_path("f.npy"), file, bytes);
        fv_tensor *t = load(folder_path("f.npy"), "");
        CHECK(fv_tensor_rank(t) == ranks[s] && fv_tensor_count(t) == count);
        CHECK_OK(ctx, fv_tensor_read(ctx, t, read, (size_t)count));
        for (int64_t i = 0; i < count; i++)
            CHECK_EQ(read[i], i);
    }
}

static void reads_archives(void)
{
    fv_npy *file = NULL;
    CHECK_OK(ctx, fv_npy_open(ctx, test_path("data/io/stored.npz"), &file));
    if (!file) return;
    CHECK(fv_npy_is_archive(file));
    CHECK_EQ(fv_npy_count(file), 3);
    CHECK_STR(fv_npy_entry(file, 0)->name, "x");
    CHECK(fv_npy_entry(file, 3) == NULL);
    CHECK(fv_npy_find(file, "absent") == NULL);
    CHECK_STR(fv_npy_find(file, "flag")->dtype_name, "|b1");
    float x[6];
    int32_t n = 0;
    unsigned char flag[3];
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_npy_load(ctx, file, "x"), x, sizeof x));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_npy_load(ctx, file, "n"), &n, sizeof n));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_npy_load(ctx, file, "flag"), flag, sizeof flag));
    CHECK(x[5] == 2.5f && n == 7 && flag[0] == 1 && flag[1] == 0 && flag[2] == 1);
    CHECK_EQ(fv_npy_read(file, fv_npy_entry(file, 0), x, 20), FV_ERR_ARGUMENT);
    CHECK(!fv_tensor_valid(fv_npy_load(ctx, file, "absent")));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_INDEX);
    fv_npy_close(&file);
    CHECK(file == NULL);
    fv_npy_close(&file);
}

static void reads_deflated_archives(void)
{
    fv_npy *file = NULL;
    fv_status s = fv_npy_open(ctx, test_path("data/io/deflated.npz"), &file);
    if (s == FV_ERR_UNSUPPORTED) {
        CHECK(strstr(fv_ctx_message(ctx), "needs a build with zlib"));
        printf("skipped: this build has no zlib; a deflated archive is refused by name\n");
        return;
    }
    CHECK_OK(ctx, s);
    if (!file) return;
    const fv_file_entry *e = fv_npy_find(file, "x");
    CHECK(e && e->bytes == 16384 && e->stored_bytes < 1000);
    static float x[64 * 64];
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_npy_load(ctx, file, "x"), x, sizeof x));
    int wrong = 0;
    for (int i = 0; i < 64 * 64; i++)
        wrong += x[i] != (float)(i % 64);
    CHECK_EQ(wrong, 0);
    fv_npy_close(&file);
}

/* ---- headers --------------------------------------------------------------------- */

#define HEADER(descr, shape) "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape "}"

static const struct {
    const char *header;
    size_t data;
    fv_status status;
} HEADERS[] = {
    {HEADER("<f4", "(2, 3)") "   \n", 24, FV_OK},
    {HEADER("<f4", "(2,3,)"), 24, FV_OK},
    {HEADER("<f4", "()"), 4, FV_OK},
    {HEADER("<f4", "(6,)"), 24, FV_OK},
    {HEADER("<f4", "(0, 3)"), 0, FV_OK},
    {HEADER("|S5", "(2,)"), 10, FV_OK},
    {HEADER("<U5", "(2,)"), 40, FV_OK},
    {HEADER("<M8[ns]", "(2,)"), 16, FV_OK},
    {HEADER("<f2", "(1,1,1,1,1,1,1,2)"), 4, FV_OK},
    {"{\"shape\": (1,), \"descr\": \"|u1\", \"fortran_order\": True, }", 1, FV_OK},
    {HEADER("<f2", "(1,1,1,1,1,1,1,1,2)"), 4, FV_ERR_LIMIT},
    {HEADER("<f4", "(2, 3)"), 23, FV_ERR_FORMAT},
    {HEADER("<f4", "(2, 3)"), 25, FV_ERR_FORMAT},
    {HEADER("<f4", "(6)"), 24, FV_ERR_FORMAT},
    {HEADER("<f4", "6"), 24, FV_ERR_FORMAT},
    {HEADER("<f4", "(-6,)"), 24, FV_ERR_FORMAT},
    {HEADER("<f4", "(2 3)"), 24, FV_ERR_FORMAT},
    {HEADER("<f4", "(,)"), 4, FV_ERR_FORMAT},
    {HEADER("<f4", "(2, 3"), 24, FV_ERR_FORMAT},
    {HEADER("<f4", "(9223372036854775808,)"), 24, FV_ERR_FORMAT},
    {HEADER("<f4", "(4611686018427387905,)"), 4, FV_ERR_FORMAT},
    {HEADER("<f4", "(4294967296, 4294967296)"), 0, FV_ERR_FORMAT},
    {HEADER("|O", "(2,)"), 16, FV_ERR_UNSUPPORTED},
    {HEADER("|O8", "(2,)"), 16, FV_ERR_UNSUPPORTED},
    {HEADER("<f", "(2,)"), 8, FV_ERR_UNSUPPORTED},
    {HEADER("f4", "(2,)"), 8, FV_ERR_UNSUPPORTED},
    {HEADER("<x4", "(2,)"), 8, FV_ERR_UNSUPPORTED},
    {HEADER("<f0", "(2,)"), 0, FV_ERR_UNSUPPORTED},
    {HEADER("<f4x", "(2,)"), 8, FV_ERR_UNSUPPORTED},
    {HEADER("<f99999999999", "(2,)"), 8, FV_ERR_UNSUPPORTED},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8, FV_ERR_UNSUPPORTED},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", 8, FV_ERR_FORMAT},
    {"{'descr': '<f4', 'fortran_order': Falsey, 'shape': (2,)}", 8, FV_ERR_FORMAT},
    {"{'descr': '<f4', 'shape': (2,)}", 8, FV_ERR_FORMAT},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8, FV_ERR_FORMAT},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", 8, FV_ERR_FORMAT},
    {HEADER("<f4", "(2,)") " x", 8, FV_ERR_FORMAT},
    {HEADER("<f4", "(2,)") "}", 8, FV_ERR_FORMAT},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", 8, FV_ERR_FORMAT},
    {"{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}", 8, FV_ERR_FORMAT},
    {"{'descr: '<f4'}", 8, FV_ERR_FORMAT},
    {"", 8, FV_ERR_FORMAT},
    {"[]", 8, FV_ERR_FORMAT},
};

static void headers(void)
{
    unsigned char file[512];
    for (size_t i = 0; i < sizeof HEADERS / sizeof HEADERS[0]; i++) {
        file_write(folder_path("h.npy"), file, put_npy(file, HEADERS[i].header, HEADERS[i].data));
        fv_status s = try_open(ctx, folder_path("h.npy"));
        if (s != HEADERS[i].status)
            test_failed(__FILE__, __LINE__, "%s: %s, \"%s\"", HEADERS[i].header, fv_status_name(s),
                        fv_ctx_message(ctx));
    }
    printf("npy: %zu headers\n", sizeof HEADERS / sizeof HEADERS[0]);
}

static void preambles(void)
{
    unsigned char file[512];
    size_t n = put_npy(file, HEADER("|u1", "(1,)"), 1);
    static const struct {
        int at, value;
        fv_status status;
    } cases[] = {
        {0, 0x93, FV_OK},           {0, 0x92, FV_ERR_FORMAT},   {5, 'y', FV_ERR_FORMAT},
        {6, 0, FV_ERR_UNSUPPORTED}, {6, 4, FV_ERR_UNSUPPORTED}, {7, 1, FV_ERR_UNSUPPORTED},
        {9, 0xFF, FV_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char kept = file[cases[i].at];
        file[cases[i].at] = (unsigned char)cases[i].value;
        file_write(folder_path("p.npy"), file, n);
        CHECK_EQ(try_open(ctx, folder_path("p.npy")), cases[i].status);
        file[cases[i].at] = kept;
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

static void check_limit(const char *path, fv_limits *limits, uint64_t *field)
{
    fv_ctx *c = limited(limits);
    CHECK_OK(c, try_open(c, path));
    fv_ctx_destroy(&c);
    --*field;
    c = limited(limits);
    CHECK_EQ(try_open(c, path), FV_ERR_LIMIT);
    fv_ctx_destroy(&c);
    fv_limits_init(limits, sizeof *limits);
}

static void limit_boundaries(void)
{
    size_t bytes = 0;
    fv_limits limits;
    fv_limits_init(&limits, sizeof limits);
    free(file_read(test_path("data/io/v1.npy"), &bytes));
    limits.total_bytes = bytes;
    check_limit(test_path("data/io/v1.npy"), &limits, &limits.total_bytes);
    limits.header_bytes = 118; /* of the 128 that begin the file */
    check_limit(test_path("data/io/v1.npy"), &limits, &limits.header_bytes);
    limits.tensors = 3;
    check_limit(test_path("data/io/stored.npz"), &limits, &limits.tensors);
    limits.name_bytes = 4; /* "flag" */
    check_limit(test_path("data/io/stored.npz"), &limits, &limits.name_bytes);
}

/* ---- archives -------------------------------------------------------------------- */

/* Changes bytes of a good archive: each change must be refused for its own reason. */
static void archive_rules(void)
{
    size_t bytes = 0;
    unsigned char *file = file_read(test_path("data/io/stored.npz"), &bytes);
    if (!file) {
        test_failed(__FILE__, __LINE__, "stored.npz is missing");
        return;
    }
    size_t end = bytes - 22;
    size_t directory = file[end + 16] | (size_t)file[end + 17] << 8;
    size_t second = directory + 46 + file[directory + 28];
    const struct {
        const char *what;
        size_t at;
        unsigned char value;
        fv_status status;
        const char *message;
    } cases[] = {
        {"unchanged", 0, 'P', FV_OK, ""},
        {"no end record", end, 0, FV_ERR_FORMAT, "no end record"},
        {"a comment longer than the file", end + 20, 9, FV_ERR_FORMAT, "no end record"},
        {"second disk", end + 4, 1, FV_ERR_FORMAT, "multi-part archives"},
        {"counts differ", end + 8, 2, FV_ERR_FORMAT, "multi-part archives"},
        {"directory outside", end + 18, 1, FV_ERR_FORMAT, "outside the file"},
        {"directory of 16 MiB", end + 15, 1, FV_ERR_FORMAT, "outside the file"},
        {"more entries than fit", end + 12, 100, FV_ERR_FORMAT, "100 bytes, too few for 3 entries"},
        {"directory cut", end + 12, 140, FV_ERR_FORMAT, "directory is corrupt"},
        {"directory mark", directory, 'Q', FV_ERR_FORMAT, "directory is corrupt"},
        {"encrypted", directory + 8, 1, FV_ERR_UNSUPPORTED, "encrypted"},
        {"method 12", directory + 10, 12, FV_ERR_UNSUPPORTED, "method 12"},
        {"two sizes", directory + 20, 1, FV_ERR_FORMAT, "two sizes differ"},
        {"name length", directory + 28, 255, FV_ERR_FORMAT, "directory is corrupt"},
        {"local header far away", directory + 44, 1, FV_ERR_FORMAT, "outside the archive"},
        {"local header inside another", second + 42, 0, FV_ERR_FORMAT, ""},
        {"names differ", directory + 46, 'y', FV_ERR_FORMAT, "another name"},
        {"name not UTF-8", directory + 46, 0xFF, FV_ERR_FORMAT, "not UTF-8"},
        {"name with NUL", directory + 46, 0, FV_ERR_FORMAT, "not UTF-8"},
        {"local mark", 0 + 2, 9, FV_ERR_FORMAT, "corrupt header"},
        {"local name length", 26, 6, FV_ERR_FORMAT, "corrupt header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char kept = file[cases[i].at];
        file[cases[i].at] = cases[i].value;
        file_write(folder_path("z.npz"), file, bytes);
        fv_status s = try_open(ctx, folder_path("z.npz"));
        if (s != cases[i].status || (s != FV_OK && !strstr(fv_ctx_message(ctx), cases[i].message)))
            test_failed(__FILE__, __LINE__, "%s: %s, \"%s\"", cases[i].what, fv_status_name(s),
                        fv_ctx_message(ctx));
        file[cases[i].at] = kept;
    }
    /* A wrong sum is found when the data is read. */
    file[directory + 16] ^= 1;
    file_write(folder_path("z.npz"), file, bytes);
    CHECK(!fv_tensor_valid(load(folder_path("z.npz"), "x")));
    CHECK(strstr(fv_ctx_message(ctx), "CRC-32"));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_FORMAT);
    free(file);
    printf("npz: %zu archives\n", sizeof cases / sizeof cases[0]);
}

/* A field of ones says that the number is in a record of ZIP64; this file has none. */
static void zip64_without_its_record(void)
{
    size_t bytes = 0;
    unsigned char *file = file_read(test_path("data/io/stored.npz"), &bytes);
    if (!file) return;
    const size_t end = bytes - 22, directory = file[end + 16] | (size_t)file[end + 17] << 8;
    const struct {
        size_t at, count;
    } fields[] = {{end + 10, 2},       {end + 12, 4},       {end + 16, 4},
                  {directory + 20, 4}, {directory + 24, 4}, {directory + 42, 4}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        unsigned char kept[4];
        memcpy(kept, file + fields[i].at, fields[i].count);
        memset(file + fields[i].at, 0xFF, fields[i].count);
        file_write(folder_path("z64.npz"), file, bytes);
        CHECK_EQ(try_open(ctx, folder_path("z64.npz")), FV_ERR_FORMAT);
        CHECK(strstr(fv_ctx_message(ctx), i < 3    ? "no ZIP64 end record"
                                          : i == 4 ? "its two sizes differ"
                                                   : "is outside the archive"));
        memcpy(file + fields[i].at, kept, fields[i].count);
    }
    free(file);
}

static unsigned char *put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

/* The same archive with every number in the records of ZIP64. */
static void zip64_is_read(void)
{
    enum { CENTRAL = 46, EXTRA = 28 };
    size_t bytes = 0;
    unsigned char *file = file_read(test_path("data/io/stored.npz"), &bytes);
    if (!file) return;
    const size_t end = bytes - 22, count = file[end + 10],
                 directory = file[end + 16] | (size_t)file[end + 17] << 8;
    unsigned char *large = calloc(1, bytes + count * EXTRA + 100), *to = large + directory;
    if (!large) abort();
    memcpy(large, file, directory);
    for (const unsigned char *from = file + directory; from < file + end;) {
        const size_t name = from[28];
        memcpy(to, from, CENTRAL + name);
        put(to + 20, UINT64_MAX, 8);
        put(to + 42, UINT32_MAX, 4);
        put(to + 30, EXTRA, 2);
        to = put(put(to + CENTRAL + name, 1, 2), EXTRA - 4, 2);
        memcpy(to, from + 24, 4);
        memcpy(to + 8, from + 20, 4);
        memcpy(to + 16, from + 42, 4);
        to += EXTRA - 4;
        from += CENTRAL + name;
    }
    const uint64_t record = (uint64_t)(to - large);
    to = put(put(put(put(to, 0x06064B50, 4), 44, 8), 0, 4), 0, 8);
    to = put(put(put(put(to, count, 8), count, 8), record - directory, 8), directory, 8);
    to = put(put(put(put(to, 0x07064B50, 4), 0, 4), record, 8), 1, 4);
    memcpy(to, file + end, 22);
    put(put(to + 8, UINT32_MAX, 4), UINT64_MAX, 8);
    const size_t all = (size_t)(to + 22 - large);
    file_write(folder_path("large.npz"), large, all);
    CHECK_OK(ctx, try_open(ctx, folder_path("large.npz")));
    CHECK(fv_tensor_valid(load(folder_path("large.npz"), "x")));
    /* A record that points outside, and a directory that does. */
    to[-12 + 7] = 0xFF;
    file_write(folder_path("large.npz"), large, all);
    CHECK_EQ(try_open(ctx, folder_path("large.npz")), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "no ZIP64 end record"));
    to[-12 + 7] = 0;
    put(large + record + 48, UINT64_MAX - 8, 8);
    file_write(folder_path("large.npz"), large, all);
    CHECK_EQ(try_open(ctx, folder_path("large.npz")), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "directory is outside the file"));
    free(large);
    free(file);
}

/* Few bytes that say they unpack to many. */
static void archives_that_swell(void)
{
    size_t bytes = 0;
    unsigned char *file = file_read(test_path("data/io/deflated.npz"), &bytes);
    if (!file) return;
    size_t end = bytes - 22, directory = file[end + 16] | (size_t)file[end + 17] << 8;
    file[directory + 26] = 0xFF; /* 16 MiB from some hundred bytes */
    file_write(folder_path("b.npz"), file, bytes);
    CHECK_EQ(try_open(ctx, folder_path("b.npz")), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "cannot decompress to"));
    free(file);
}

/* ---- saving ---------------------------------------------------------------------- */

static void saves_and_loads(void)
{
    enum { N = 6 };
    const fv_dtype dtypes[N] = {FV_U8, FV_F32, FV_F64, FV_F16, FV_I32, FV_I64};
    const char *names[N] = {"u8", "f32", "a/f64", "f16", "\xC3\xA9", "i64"};
    unsigned char data[N][40], got[40];
    fv_tensor *tensors[N];
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 40; k++)
            data[i][k] = (unsigned char)(i * 40 + k);
        int rank = i % 4;
        tensors[i] =
            fv_from_host(ctx, dtypes[i], rank, (int64_t[]){rank == 1 ? 5 : 1, 5, 1}, data[i]);
        CHECK_OK(ctx, fv_npy_save(ctx, tensors[i], folder_path("s.npy")));
        fv_tensor *t = load(folder_path("s.npy"), "");
        size_t n = (size_t)fv_tensor_count(tensors[i]) * fv_dtype_size(dtypes[i]);
        CHECK_EQ(fv_tensor_rank(t), rank);
        CHECK_OK(ctx, fv_tensor_read(ctx, t, got, n));
        CHECK(memcmp(got, data[i], n) == 0);
    }
    CHECK_OK(ctx, fv_npz_save(ctx, names, tensors, N, folder_path("s.npz")));
    for (int i = 0; i < N; i++) {
        fv_tensor *t = load(folder_path("s.npz"), names[i]);
        size_t n = (size_t)fv_tensor_count(tensors[i]) * fv_dtype_size(dtypes[i]);
        CHECK_OK(ctx, fv_tensor_read(ctx, t, got, n));
        CHECK(memcmp(got, data[i], n) == 0);
    }
    CHECK_OK(ctx, fv_npz_save(ctx, NULL, NULL, 0, folder_path("none.npz")));
    CHECK_OK(ctx, try_open(ctx, folder_path("s.npz")));
}

/* The bytes NumPy itself writes for the same array, and of an array of rank 8. */
static void writes_numpy_headers(void)
{
    size_t n = 0;
    const float x[6] = {0};
    fv_tensor *t = fv_from_host(ctx, FV_F32, 2, (int64_t[]){2, 3}, x);
    CHECK_OK(ctx, fv_npy_save(ctx, t, folder_path("w.npy")));
    unsigned char *ours = file_read(folder_path("w.npy"), &n);
    const char wanted[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    CHECK(ours && memcmp(ours, "\x93NUMPY\x01\x00", 8) == 0);
    CHECK(ours && memcmp(ours + 10, wanted, sizeof wanted - 1) == 0);
    CHECK_EQ((n - 24) % 64, 0);
    CHECK(ours && ours[n - 25] == '\n');
    free(ours);
    const int64_t large = 1000000000;
    fv_tensor *wide = fv_empty(ctx, FV_F32, 8, (int64_t[]){0, large, large, 1, 1, 1, 1, 1});
    CHECK(fv_tensor_valid(wide));
    CHECK_OK(ctx, fv_npy_save(ctx, wide, folder_path("w8.npy")));
    CHECK_OK(ctx, try_open(ctx, folder_path("w8.npy")));
}

/* Tensors whose memory the host cannot touch go through copies, both ways. */
static void guarded_device(void)
{
    fv_ctx_config cfg;
    fv_ctx *c = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.device = FV_DEVICE_GUARDED;
    cfg.threads = 1;
    CHECK_EQ(fv_ctx_create(&cfg, &c), FV_OK);
    if (!c) return;
    const float x[6] = {1, 2, 3, 4, 5, 6};
    float got[6] = {0};
    const char *name = "x";
    fv_tensor *t = fv_from_host(c, FV_F32, 2, (int64_t[]){2, 3}, x);
    CHECK(fv_tensor_valid(t) && fv_tensor_data(t) == NULL);
    CHECK_OK(c, fv_npz_save(c, &name, &t, 1, folder_path("g.npz")));
    CHECK_OK(c, fv_safetensors_save(c, &name, &t, 1, NULL, 0, folder_path("g.safetensors")));
    fv_npy *npy = NULL;
    CHECK_OK(c, fv_npy_open(c, folder_path("g.npz"), &npy));
    if (npy) CHECK_OK(c, fv_tensor_read(c, fv_npy_load(c, npy, "x"), got, sizeof got));
    CHECK(memcmp(got, x, sizeof x) == 0);
    fv_npy_close(&npy);
    fv_safetensors *file = NULL;
    memset(got, 0, sizeof got);
    CHECK_OK(c, fv_safetensors_open(c, folder_path("g.safetensors"), 2, &file));
    if (file) CHECK_OK(c, fv_tensor_read(c, fv_safetensors_load(c, file, "x"), got, sizeof got));
    CHECK(memcmp(got, x, sizeof x) == 0);
    fv_safetensors_close(&file);
    fv_ctx_destroy(&c);
}

static void refuses_bad_saves(void)
{
    const uint16_t raw[2] = {0, 0};
    fv_tensor *bf16 = fv_from_host(ctx, FV_BF16, 1, (int64_t[]){2}, raw);
    fv_tensor *f16 = fv_from_host(ctx, FV_F16, 1, (int64_t[]){2}, raw);
    fv_tensor *pair[] = {f16, f16};
    const char *same[] = {"a", "a"}, *empty[] = {"", "a"};
    int files = folder_count("");
    CHECK_EQ(fv_npy_save(ctx, bf16, folder_path("x.npy")), FV_ERR_UNSUPPORTED);
    CHECK_EQ(fv_npy_save(ctx, NULL, folder_path("x.npy")), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_npy_save(ctx, f16, NULL), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_npz_save(ctx, same, pair, 2, folder_path("x.npz")), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_npz_save(ctx, empty, pair, 2, folder_path("x.npz")), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_npz_save(ctx, NULL, pair, 2, folder_path("x.npz")), FV_ERR_ARGUMENT);
    CHECK_EQ(folder_count(""), files);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_make();
    RUN(reads_plain_arrays);
    RUN(refuses_another_byte_order);
    RUN(reads_columns_first);
    RUN(reads_archives);
    RUN(reads_deflated_archives);
    RUN(headers);
    RUN(preambles);
    RUN(limit_boundaries);
    RUN(archive_rules);
    RUN(archives_that_swell);
    RUN(zip64_without_its_record);
    RUN(zip64_is_read);
    RUN(saves_and_loads);
    RUN(writes_numpy_headers);
    RUN(guarded_device);
    RUN(refuses_bad_saves);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
