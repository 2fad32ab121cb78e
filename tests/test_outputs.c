/* Outputs that are not plain files: devices, FIFOs and descriptors are written through, links are
 * followed, and an output that is also an input is refused. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fovea/file.h"
#include "io/file.h"
#include "support/files.h"
#include "support/program.h"

static fv_ctx *ctx;

enum { ROOM = 1 << 16 };

static mode_t kind_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

/* Two arrays: the file has a header that is written after the data. */
static fv_status save(const char *path)
{
    static const float values[] = {1, 2, 3, 4, 5, 6};
    const char *const names[] = {"a", "b"};
    const int64_t shape[] = {3};
    fv_scope_begin(ctx);
    fv_tensor *tensors[2];
    for (int i = 0; i < 2; i++)
        tensors[i] = fv_from_host(ctx, FV_F32, 1, shape, values + 3 * i);
    const fv_status status = fv_safetensors_save(ctx, names, tensors, 2, NULL, 0, path);
    fv_scope_end(ctx);
    return status;
}

/* The bytes that a plain file gets. */
static size_t expected(char out[ROOM])
{
    size_t bytes = 0;
    CHECK_OK(ctx, save(folder_path("plain")));
    void *data = file_read(folder_path("plain"), &bytes);
    CHECK(data && bytes > 0 && bytes < ROOM);
    if (data) memcpy(out, data, bytes);
    free(data);
    return bytes;
}

static void check_content(const char *path)
{
    static char plain[ROOM];
    size_t n = expected(plain), bytes = 0;
    void *data = file_read(path, &bytes);
    CHECK(data && bytes == n && memcmp(data, plain, n) == 0);
    free(data);
}

/* ---- the library --------------------------------------------------------------------- */

static void fifos_are_written_through(void)
{
    static char plain[ROOM], got[ROOM];
    const size_t n = expected(plain);
    CHECK_EQ(mkfifo(folder_path("fifo"), 0600), 0);
    const int reader = open(folder_path("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(reader >= 0);
    CHECK_OK(ctx, save(folder_path("fifo")));
    CHECK_EQ(read(reader, got, sizeof got), (ssize_t)n);
    CHECK(memcmp(got, plain, n) == 0);
    CHECK_EQ(kind_of(folder_path("fifo")), S_IFIFO);
    /* through a link too */
    CHECK_EQ(symlink("fifo", folder_path("to-fifo")), 0);
    CHECK_OK(ctx, save(folder_path("to-fifo")));
    CHECK_EQ(read(reader, got, sizeof got), (ssize_t)n);
    CHECK_EQ(kind_of(folder_path("to-fifo")), S_IFLNK);
    CHECK_EQ(kind_of(folder_path("fifo")), S_IFIFO);
    close(reader);
}

/* Nodes of our own, as /dev/null and /dev/full: a mistake must not hurt the machine's. */
static void devices_are_written_through(void)
{
    static const struct {
        const char *name;
        unsigned minor;
        fv_status status;
    } nodes[] = {{"null", 3, FV_OK}, {"full", 7, FV_ERR_IO}};
    for (int i = 0; i < 2; i++) {
        const char *path = folder_path(nodes[i].name);
        if (mknod(path, S_IFCHR | 0600, makedev(1, nodes[i].minor)) != 0) {
            printf("devices: not tested, mknod is not permitted\n");
            return;
        }
        const int usable = open(path, O_WRONLY | O_CLOEXEC);
        if (usable < 0) {
            printf("devices: not opened, as the file system forbids it\n");
        } else {
            close(usable);
            CHECK_EQ(save(path), nodes[i].status);
        }
        CHECK_EQ(kind_of(path), S_IFCHR);
        CHECK_EQ(folder_count(".tmp"), 0);
        (void)save(path);
        CHECK_EQ(kind_of(path), S_IFCHR);
    }
}

static void links_are_followed(void)
{
    CHECK_EQ(mkdir(folder_path("real"), 0700), 0);
    file_write(folder_path("real/old"), "old", 3);
    CHECK_EQ(symlink("real/old", folder_path("one")), 0);
    CHECK_EQ(symlink("one", folder_path("two")), 0);
    CHECK_EQ(symlink("real/new", folder_path("dangling")), 0);
    CHECK_EQ(symlink(folder_path("real/absolute"), folder_path("to-absolute")), 0);
    static const char *const links[] = {"two", "dangling", "to-absolute"};
    static const char *const targets[] = {"real/old", "real/new", "real/absolute"};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ctx, save(folder_path(links[i])));
        CHECK_EQ(kind_of(folder_path(links[i])), S_IFLNK);
        CHECK_EQ(kind_of(folder_path(targets[i])), S_IFREG);
        check_content(folder_path(targets[i]));
    }
    CHECK_EQ(kind_of(folder_path("one")), S_IFLNK);
    CHECK_EQ(symlink("loop", folder_path("loop")), 0);
    CHECK_EQ(save(folder_path("loop")), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(ctx), "loop: cannot write"));
    CHECK_EQ(save(folder_path("real")), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(ctx), "Is a directory"));
}

/* /proc/self/fd/N, to which /dev/stdout is a link: written at the descriptor's position, which
 * moves. */
static void descriptors_are_written_through(void)
{
    static char plain[ROOM];
    const size_t n = expected(plain);
    size_t bytes = 0;
    char path[64];
    const int fd = open(folder_path("redirected"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_EQ(write(fd, "before", 6), 6);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK_OK(ctx, save(path));
    CHECK_EQ(write(fd, "after", 5), 5);
    close(fd);
    char *data = file_read(folder_path("redirected"), &bytes);
    CHECK_EQ(bytes, 6 + n + 5);
    CHECK(data && memcmp(data, "before", 6) == 0 && memcmp(data + 6, plain, n) == 0);
    CHECK(data && memcmp(data + 6 + n, "after", 5) == 0);
    free(data);
}

/* Logs are appended to; they follow links and pass through FIFOs as well. */
static void logs_follow(void)
{
    fv_append_file file;
    char got[8] = "";
    CHECK_EQ(symlink("elsewhere", folder_path("log")), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, fv_append_file_open(ctx, folder_path("log"), &file));
        CHECK_OK(ctx, fv_append_file_write(&file, "line\n", 5));
        fv_append_file_close(&file);
    }
    size_t bytes = 0;
    free(file_read(folder_path("elsewhere"), &bytes));
    CHECK_EQ(bytes, 10);
    CHECK_EQ(kind_of(folder_path("log")), S_IFLNK);
    CHECK_EQ(mkfifo(folder_path("log-fifo"), 0600), 0);
    const int reader = open(folder_path("log-fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK_OK(ctx, fv_append_file_open(ctx, folder_path("log-fifo"), &file));
    CHECK_OK(ctx, fv_append_file_write(&file, "a\n", 2));
    CHECK_OK(ctx, fv_append_file_write(&file, "b\n", 2));
    fv_append_file_close(&file);
    CHECK_EQ(read(reader, got, sizeof got), 4);
    CHECK(memcmp(got, "a\nb\n", 4) == 0);
    close(reader);
    CHECK(fv_file_is_stream(ctx, folder_path("log-fifo")));
    CHECK(!fv_file_is_stream(ctx, folder_path("log")));
}

/* ---- the program --------------------------------------------------------------------- */

static void copy(const char *from, const char *to)
{
    size_t bytes = 0;
    void *data = file_read(from, &bytes);
    CHECK(data != NULL);
    if (data) file_write(to, data, bytes);
    free(data);
}

/* A small GPT-2 without a tokenizer, and ids for it. */
static void write_inputs(void)
{
    static const int64_t ids[] = {1, 2, 3, 4}, shape[] = {1, 4};
    CHECK_EQ(mkdir(program_path("gpt2"), 0700), 0);
    copy(test_path("fixtures/gpt2/config.json"), program_path("gpt2/config.json"));
    copy(test_path("fixtures/gpt2/model.safetensors"), program_path("gpt2/model.safetensors"));
    fv_scope_begin(ctx);
    CHECK_OK(ctx,
             fv_npy_save(ctx, fv_from_host(ctx, FV_I64, 2, shape, ids), program_path("ids.npy")));
    fv_scope_end(ctx);
}

static void run_logits(const char *output)
{
    program_run("run %s --ids %s --logits %s", program_path("gpt2"), program_path("ids.npy"),
                output);
}

static void the_program_writes_through(void)
{
    static char got[1 << 20];
    run_logits(program_path("plain.npy"));
    expect(0, NULL, NULL);
    size_t n = 0;
    void *plain = file_read(program_path("plain.npy"), &n);
    CHECK_EQ(mkfifo(program_path("fifo.npy"), 0600), 0);
    const int reader = open(program_path("fifo.npy"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    (void)fcntl(reader, F_SETPIPE_SZ, (int)sizeof got);
    run_logits(program_path("fifo.npy"));
    expect(0, NULL, NULL);
    CHECK_EQ(kind_of(program_path("fifo.npy")), S_IFIFO);
    CHECK_EQ(read(reader, got, sizeof got), (ssize_t)n);
    CHECK(plain && memcmp(got, plain, n) == 0);
    close(reader);
    free(plain);
    CHECK_EQ(symlink("target.npy", program_path("link.npy")), 0);
    run_logits(program_path("link.npy"));
    expect(0, NULL, NULL);
    CHECK_EQ(kind_of(program_path("link.npy")), S_IFLNK);
    CHECK_EQ(kind_of(program_path("target.npy")), S_IFREG);
    /* A link of our own in place of /dev/stdout: a mistake would replace the machine's. */
    CHECK_EQ(symlink("/proc/self/fd/1", program_path("stdout-link")), 0);
    run_logits(program_path("stdout-link"));
    expect(0, "NUMPY", NULL);
    CHECK_EQ(kind_of(program_path("stdout-link")), S_IFLNK);
}

static void an_output_is_not_an_input(void)
{
    size_t bytes = 0;
    void *weights = file_read(program_path("gpt2/model.safetensors"), &bytes);
    CHECK_EQ(link(program_path("ids.npy"), program_path("hard.npy")), 0);
    CHECK_EQ(symlink("gpt2/model.safetensors", program_path("weights")), 0);
    static const char *const outputs[] = {"ids.npy", "hard.npy", "weights",
                                          "gpt2/../gpt2/config.json"};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        run_logits(program_path(outputs[i]));
        expect(2, NULL, "is the same file as the input");
    }
    size_t after = 0;
    void *now = file_read(program_path("gpt2/model.safetensors"), &after);
    CHECK(now && weights && after == bytes && memcmp(now, weights, bytes) == 0);
    free(now);
    free(weights);
    /* A picture in the model's folder is not an input. */
    run_logits(program_path("gpt2/earlier.npy"));
    expect(0, NULL, NULL);
    run_logits(program_path("gpt2/earlier.npy"));
    expect(0, NULL, NULL);
    program_text("text.txt", "a text\n");
    program_run("tokenize --learn chars %s -o %s", program_path("text.txt"),
                program_path("text.txt"));
    expect(2, NULL, "is the same file as the input");
    CHECK_EQ(symlink("learned.json", program_path("learned")), 0);
    program_run("tokenize --learn chars %s -o %s", program_path("text.txt"),
                program_path("learned"));
    expect(0, NULL, NULL);
    CHECK_EQ(kind_of(program_path("learned")), S_IFLNK);
    CHECK_EQ(kind_of(program_path("learned.json")), S_IFREG);
    program_run("run '' text");
    expect(2, NULL, "run: MODEL [TEXT ...] is empty");
    program_run("run %s --ids %s --logits ''", program_path("gpt2"), program_path("ids.npy"));
    expect(2, NULL, "run: --logits is empty");
}

/* A file that exists is replaced by one of its kind only, unless it is empty. */
static void other_kinds_of_files_stay(void)
{
    static const char *const names[] = {"own.tsv", "config.json"};
    static const char mine[] = "{\"mine\": 1}\n";
    program_text("words.txt", "one two one two\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t bytes = 0;
        program_text(names[i], mine);
        program_run("tokenize --learn words %s -o %s", program_path("words.txt"),
                    program_path(names[i]));
        expect(2, "", "the file exists and is not a tokenizer; remove it, or name another output");
        char *now = file_read(program_path(names[i]), &bytes);
        CHECK(now && bytes == sizeof mine - 1 && memcmp(now, mine, bytes) == 0);
        free(now);
    }
    program_text("empty.json", "");
    for (int i = 0; i < 2; i++) { /* the second time onto a tokenizer */
        program_run("tokenize --learn words %s -o %s", program_path("words.txt"),
                    program_path("empty.json"));
        expect(0, NULL, NULL);
    }
    program_text("map.svg", "my text\n");
    program_run("look %s text -o %s", program_folder(), program_path("map.svg"));
    expect(2, "", "the file exists and is not an SVG picture");
    program_run("run %s --ids x.npy --logits %s", program_folder(), program_path("map.svg"));
    expect(2, "", "the file exists and is not an .npy file");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(fifos_are_written_through);
    RUN(devices_are_written_through);
    RUN(links_are_followed);
    RUN(descriptors_are_written_through);
    RUN(logs_follow);
    program_needed();
    program_run("version"); /* makes the folder */
    write_inputs();
    RUN(the_program_writes_through);
    RUN(an_output_is_not_an_input);
    RUN(other_kinds_of_files_stay);
    program_end();
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
