/* Sets of several files, and paths that are not what they seem or change while open. */
#include <sys/stat.h>
#include <unistd.h>

#include "fovea/file.h"
#include "io/json.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

static fv_status give_index(void *user, size_t index, uint64_t offset, void *buf, size_t bytes)
{
    (void)user;
    (void)offset;
    memset(buf, (int)index + 1, bytes);
    return FV_OK;
}

/* A file with byte tensors of these names, four bytes each: 1 1 1 1, 2 2 2 2, ... */
static void save(const char *path, const char *const *names, size_t count)
{
    fv_file_spec specs[4];
    for (size_t i = 0; i < count; i++)
        specs[i] = (fv_file_spec){.name = names[i], .dtype = FV_U8, .rank = 1, .shape = {4}};
    CHECK_OK(ctx, fv_safetensors_save_stream(ctx, specs, count, NULL, 0, give_index, NULL, path));
}

static fv_status try_open(const char *path)
{
    fv_safetensors *file = NULL;
    fv_npy *npy = NULL;
    fv_doc *doc = NULL;
    fv_status s = fv_safetensors_open(ctx, path, 0, &file);
    fv_safetensors_close(&file);
    /* All readers open files in one place; none may do better or worse. */
    fv_status other = fv_npy_open(ctx, path, &npy);
    CHECK(s == FV_OK || other != FV_OK);
    fv_npy_close(&npy);
    other = fv_json_load(ctx, path, &doc);
    CHECK(s == FV_OK || other != FV_OK);
    fv_doc_free(&doc);
    s = fv_safetensors_open(ctx, path, FV_SAFETENSORS_MAP, &file);
    fv_safetensors_close(&file);
    return s;
}

/* ---- sets ------------------------------------------------------------------------ */

static fv_status open_index(const char *text, fv_safetensors **file)
{
    file_write(folder_path("m.safetensors.index.json"), text, strlen(text));
    return fv_safetensors_open(ctx, folder_path("m.safetensors.index.json"), 0, file);
}

static void shards(void)
{
    fv_safetensors *file = NULL;
    save(folder_path("m-1.safetensors"), (const char *[]){"a", "c"}, 2);
    save(folder_path("m-2.safetensors"), (const char *[]){"b"}, 1);
    CHECK_OK(ctx, open_index("{\"metadata\":{\"total_size\":12},\"weight_map\":{"
                             "\"b\":\"m-2.safetensors\",\"a\":\"m-1.safetensors\","
                             "\"c\":\"m-1.safetensors\"}}",
                             &file));
    if (!file) return;
    CHECK_EQ(fv_safetensors_count(file), 3);
    CHECK_EQ(fv_safetensors_shard_count(file), 2);
    CHECK(strstr(fv_safetensors_shard_path(file, 1), "/m-2.safetensors"));
    const char *const order[] = {"a", "c", "b"};
    unsigned char got[4];
    for (size_t i = 0; i < 3; i++) {
        const fv_file_entry *e = fv_safetensors_entry(file, i);
        CHECK_STR(e->name, order[i]);
        CHECK_EQ(e->shard, i == 2);
        fv_tensor *t = fv_safetensors_load(ctx, file, order[i]);
        CHECK_OK(ctx, fv_tensor_read(ctx, t, got, 4));
        CHECK_EQ(got[3], i == 1 ? 2 : 1);
    }
    fv_safetensors_close(&file);
    CHECK_OK(ctx, open_index("{\"weight_map\":{}}", &file));
    CHECK(file && fv_safetensors_count(file) == 0);
    fv_safetensors_close(&file);
}

static void bad_indexes(void)
{
    save(folder_path("m-1.safetensors"), (const char *[]){"a", "c"}, 2);
    save(folder_path("m-2.safetensors"), (const char *[]){"b"}, 1);
    save(folder_path("m-3.safetensors"), (const char *[]){"b"}, 1);
    static const struct {
        const char *text;
        fv_status status;
        const char *message;
    } cases[] = {
        {"{}", FV_ERR_FORMAT, "\"weight_map\" is missing"},
        {"{\"weight_map\":[]}", FV_ERR_FORMAT, "an object"},
        {"{\"weight_map\":{\"a\":1}}", FV_ERR_FORMAT, "a string"},
        {"{\"weight_map\":{\"a\":\"\"}}", FV_ERR_FORMAT, "plain file name"},
        {"{\"weight_map\":{\"a\":\".\"}}", FV_ERR_FORMAT, "plain file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", FV_ERR_FORMAT, "plain file name"},
        {"{\"weight_map\":{\"a\":\"../m-1.safetensors\"}}", FV_ERR_FORMAT, "plain file name"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", FV_ERR_FORMAT, "plain file name"},
        {"{\"weight_map\":{\"a\":\"x/m-1.safetensors\"}}", FV_ERR_FORMAT, "plain file name"},
        {"{\"weight_map\":{\"a\":\"x\\\\m\"}}", FV_ERR_FORMAT, "plain file name"},
        {"{\"weight_map\":{\"a\":\"m\\u0000\"}}", FV_ERR_FORMAT, "NUL"},
        {"{\"weight_map\":{\"a\":\"absent.safetensors\"}}", FV_ERR_IO, "cannot open"},
        {"{\"weight_map\":{\"a\":\"m-1.safetensors\"}}", FV_ERR_FORMAT, "the files have 2"},
        {"{\"weight_map\":{\"a\":\"m-1.safetensors\",\"d\":\"m-1.safetensors\"}}", FV_ERR_FORMAT,
         "\"d\" is not in that file"},
        {"{\"weight_map\":{\"a\":\"m-1.safetensors\",\"c\":\"m-2.safetensors\"}}", FV_ERR_FORMAT,
         "\"c\" is not in that file"},
        {"{\"weight_map\":{\"b\":\"m-2.safetensors\",\"x\":\"m-3.safetensors\"}}", FV_ERR_FORMAT,
         "duplicate tensor \"b\""},
    };
    int files = open_files();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fv_safetensors *file = NULL;
        fv_status s = open_index(cases[i].text, &file);
        if (s != cases[i].status || !strstr(fv_ctx_message(ctx), cases[i].message))
            test_failed(__FILE__, __LINE__, "%s: %s, \"%s\"", cases[i].text, fv_status_name(s),
                        fv_ctx_message(ctx));
        CHECK(file == NULL);
        fv_safetensors_close(&file);
    }
    CHECK_EQ(open_files(), files);
}

/* ---- not regular files ----------------------------------------------------------- */

static void not_files(void)
{
    CHECK_EQ(mkfifo(folder_path("fifo"), 0600), 0);
    CHECK_EQ(mkdir(folder_path("folder"), 0700), 0);
    const char *const paths[] = {"fifo", "folder", "absent", ""};
    int files = open_files();
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(try_open(folder_path(paths[i])), FV_ERR_IO);
    CHECK_EQ(try_open("/dev/null"), FV_ERR_IO);
    CHECK_EQ(try_open("/dev/zero"), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(ctx), "/dev/zero: not a regular file"));
    CHECK_EQ(try_open(""), FV_ERR_IO);
    CHECK_EQ(open_files(), files);
}

static void make_sparse(const char *path, const void *head, size_t n, int64_t bytes)
{
    file_write(path, head, n);
    CHECK_EQ(truncate(path, bytes), 0);
}

/* A terabyte of nothing must neither be read nor held. */
static void sparse_files(void)
{
    const int64_t terabyte = (int64_t)1 << 40;
    make_sparse(folder_path("sparse"), "", 0, terabyte);
    CHECK_EQ(try_open(folder_path("sparse")), FV_ERR_FORMAT);
    make_sparse(folder_path("sparse"), "", 0, terabyte + 1);
    CHECK_EQ(try_open(folder_path("sparse")), FV_ERR_LIMIT);
    /* A header of nearly the whole file. */
    make_sparse(folder_path("sparse"), "\x00\x00\x00\x00\xFF", 5, terabyte);
    CHECK_EQ(try_open(folder_path("sparse")), FV_ERR_LIMIT);

    /* A good header and a tensor of a terabyte: listed at once, not loaded for lack of memory. */
    char head[256] = {0};
    const int64_t data = terabyte - 128;
    int n = snprintf(head + 8, sizeof head - 8,
                     "{\"x\":{\"dtype\":\"U8\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                     (long long)data, (long long)data);
    memset(head + 8 + n, ' ', (size_t)(120 - n));
    head[0] = 120;
    make_sparse(folder_path("sparse"), head, 128, terabyte);
    fv_ctx_config cfg;
    fv_ctx *small = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.memory_limit = 64 << 20;
    CHECK_EQ(fv_ctx_create(&cfg, &small), FV_OK);
    fv_safetensors *file = NULL;
    CHECK_OK(small, fv_safetensors_open(small, folder_path("sparse"), 0, &file));
    if (file) {
        CHECK_EQ(fv_safetensors_entry(file, 0)->bytes, data);
        CHECK(!fv_tensor_valid(fv_safetensors_load(small, file, "x")));
        CHECK_EQ(fv_ctx_take_error(small), FV_ERR_MEMORY);
    }
    fv_safetensors_close(&file);
    fv_ctx_destroy(&small);
}

/* ---- changed while open ---------------------------------------------------------- */

/* Cut after opening, in copies and in a mapping: an error, never SIGBUS. */
static void cut_while_open(void)
{
    for (unsigned flags = 0; flags < 2; flags++) {
        fv_safetensors *file = NULL;
        const void *view = NULL;
        unsigned char got[4];
        save(folder_path("cut.safetensors"), (const char *[]){"a", "b"}, 2);
        CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("cut.safetensors"), flags, &file));
        if (!file) return;
        const fv_file_entry *a = fv_safetensors_find(file, "a"),
                            *b = fv_safetensors_find(file, "b");
        int64_t whole = (int64_t)fv_safetensors_shard_bytes(file, 0);
        CHECK_EQ(truncate(folder_path("cut.safetensors"), whole - 1), 0);
        CHECK_EQ(fv_safetensors_read(file, a, 0, got, 4), flags ? FV_ERR_IO : FV_OK);
        CHECK_EQ(fv_safetensors_read(file, b, 0, got, 4), FV_ERR_IO);
        CHECK_EQ(truncate(folder_path("cut.safetensors"), 0), 0);
        CHECK_EQ(fv_safetensors_read(file, a, 0, got, 4), FV_ERR_IO);
        if (flags) CHECK_EQ(fv_safetensors_view(file, a, &view), FV_ERR_IO);
        CHECK(!fv_tensor_valid(fv_safetensors_load(ctx, file, "b")));
        CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_IO);
        fv_safetensors_close(&file);
    }
    size_t bytes = 0;
    void *array = file_read(test_path("data/io/v1.npy"), &bytes);
    file_write(folder_path("cut.npy"), array, bytes);
    free(array);
    fv_npy *npy = NULL;
    float x[6];
    CHECK_OK(ctx, fv_npy_open(ctx, folder_path("cut.npy"), &npy));
    CHECK_EQ(truncate(folder_path("cut.npy"), (int64_t)bytes - 1), 0);
    if (npy) CHECK_EQ(fv_npy_read(npy, fv_npy_entry(npy, 0), x, sizeof x), FV_ERR_IO);
    fv_npy_close(&npy);
}

/* Another file put under the same name: what was opened is what is read. */
static void swapped_while_open(void)
{
    fv_safetensors *file = NULL;
    unsigned char got[4] = {0};
    save(folder_path("old.safetensors"), (const char *[]){"a"}, 1);
    save(folder_path("new.safetensors"), (const char *[]){"b", "a"}, 2);
    CHECK_EQ(symlink(folder_path("old.safetensors"), folder_path("link")), 0);
    CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("link"), 0, &file));
    CHECK_EQ(unlink(folder_path("link")), 0);
    CHECK_EQ(symlink(folder_path("new.safetensors"), folder_path("link")), 0);
    if (file) CHECK_OK(ctx, fv_safetensors_read(file, fv_safetensors_find(file, "a"), 0, got, 4));
    CHECK_EQ(got[0], 1);
    fv_safetensors_close(&file);
    /* A save replaces the name; who has the old file open keeps it. */
    CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("old.safetensors"), 1, &file));
    save(folder_path("old.safetensors"), (const char *[]){"x", "y"}, 2);
    memset(got, 0, sizeof got);
    if (file) CHECK_OK(ctx, fv_safetensors_read(file, fv_safetensors_find(file, "a"), 0, got, 4));
    CHECK_EQ(got[0], 1);
    fv_safetensors_close(&file);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_make();
    RUN(shards);
    RUN(bad_indexes);
    RUN(not_files);
    RUN(sparse_files);
    RUN(cut_while_open);
    RUN(swapped_while_open);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
