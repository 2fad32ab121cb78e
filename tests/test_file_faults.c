/*
 * Every call into the system fails once and forever, every allocation too, during saves and
 * loads: an error comes back, the old or the new file is there and whole, nothing is left over.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/memory.h"
#include "fovea/file.h"
#include "io/json.h"
#include "support/files.h"
#include "support/test.h"

/* ---- scenarios ------------------------------------------------------------------- */

static fv_status give_bytes(void *user, size_t index, uint64_t offset, void *buf, size_t bytes)
{
    memset(buf, (int)(index + offset) + *(const int *)user, bytes);
    return FV_OK;
}

/* `generation` makes old and new files differ. */
static fv_status save_safetensors(fv_ctx *c, const char *path, int generation)
{
    const fv_file_spec specs[] = {{"w", FV_F32, 2, {30, 10}}, {"b", FV_U8, 1, {33}}};
    const fv_file_metadata notes[] = {{"format", "pt"}};
    return fv_safetensors_save_stream(c, specs, 2, notes, 1, give_bytes, &generation, path);
}

static fv_status load_safetensors(fv_ctx *c, const char *path, unsigned flags)
{
    fv_safetensors *file = NULL;
    fv_status s = fv_safetensors_open(c, path, flags, &file);
    if (s != FV_OK) return s;
    fv_scope_begin(c);
    fv_safetensors_load(c, file, "w");
    fv_safetensors_load(c, file, "b");
    fv_scope_end(c);
    fv_safetensors_close(&file);
    return fv_ctx_take_error(c);
}

static fv_status save_arrays(fv_ctx *c, const char *path, int generation, bool archive)
{
    float data[64];
    for (int i = 0; i < 64; i++)
        data[i] = (float)(i + generation);
    const char *names[] = {"x", "y"};
    fv_scope_begin(c);
    fv_tensor *t = fv_from_host(c, FV_F32, 2, (int64_t[]){8, 8}, data);
    fv_tensor *both[] = {t, t};
    fv_status s = fv_ctx_take_error(c);
    if (s == FV_OK) s = archive ? fv_npz_save(c, names, both, 2, path) : fv_npy_save(c, t, path);
    fv_scope_end(c);
    return s;
}

static fv_status load_arrays(fv_ctx *c, const char *path)
{
    fv_npy *file = NULL;
    fv_status s = fv_npy_open(c, path, &file);
    if (s != FV_OK) return s;
    fv_scope_begin(c);
    fv_npy_load(c, file, fv_npy_entry(file, 0)->name);
    fv_scope_end(c);
    fv_npy_close(&file);
    return fv_ctx_take_error(c);
}

static fv_status load_json(fv_ctx *c, const char *path)
{
    fv_doc *doc = NULL;
    fv_status s = fv_json_load(c, path, &doc);
    fv_doc_free(&doc);
    return s;
}

typedef enum scenario {
    SAVE_FIRST,
    SAVE_OVER,
    SAVE_NPY,
    SAVE_NPZ,
    LOAD_COPY,
    LOAD_MAP,
    LOAD_VERIFY,
    LOAD_NPY,
    LOAD_NPZ,
    LOAD_INDEX,
    LOAD_JSON,
    SCENARIOS
} scenario;

static bool is_save(scenario s) { return s <= SAVE_NPZ; }

static fv_status play(fv_ctx *c, scenario s)
{
    switch (s) {
    case SAVE_FIRST:
    case SAVE_OVER:
        return save_safetensors(c, folder_path("target"), 2);
    case SAVE_NPY:
        return save_arrays(c, folder_path("target"), 2, false);
    case SAVE_NPZ:
        return save_arrays(c, folder_path("target"), 2, true);
    case LOAD_COPY:
        return load_safetensors(c, folder_path("in.safetensors"), FV_SAFETENSORS_COPY);
    case LOAD_MAP:
        return load_safetensors(c, folder_path("in.safetensors"), FV_SAFETENSORS_MAP);
    case LOAD_VERIFY:
        return load_safetensors(c, folder_path("in.safetensors"), FV_SAFETENSORS_VERIFY);
    case LOAD_NPY:
        return load_arrays(c, folder_path("in.npy"));
    case LOAD_NPZ:
        return load_arrays(c, folder_path("in.npz"));
    case LOAD_INDEX:
        return load_safetensors(c, folder_path("in.safetensors.index.json"), 0);
    case LOAD_JSON:
        return load_json(c, folder_path("in.safetensors.index.json"));
    case SCENARIOS:
        break;
    }
    return FV_ERR_INTERNAL;
}

/* ---- state before and after ------------------------------------------------------ */

static unsigned char *old_file, *new_file[SCENARIOS];
static size_t old_bytes, new_bytes[SCENARIOS];

static void prepare(fv_ctx *c)
{
    static const char index[] =
        "{\"weight_map\":{\"w\":\"in.safetensors\",\"b\":\"in.safetensors\"}}";
    CHECK_OK(c, save_safetensors(c, folder_path("in.safetensors"), 1));
    CHECK_OK(c, save_arrays(c, folder_path("in.npy"), 1, false));
    CHECK_OK(c, save_arrays(c, folder_path("in.npz"), 1, true));
    file_write(folder_path("in.safetensors.index.json"), index, sizeof index - 1);
    old_file = file_read(folder_path("in.safetensors"), &old_bytes);
    for (scenario s = SAVE_FIRST; is_save(s); s++) {
        CHECK_OK(c, play(c, s));
        new_file[s] = file_read(folder_path("target"), &new_bytes[s]);
    }
}

static void reset(scenario s)
{
    remove(folder_path("target"));
    if (is_save(s) && s != SAVE_FIRST) file_write(folder_path("target"), old_file, old_bytes);
}

/* 0: none, 1: the old file, 2: the new one, -1: neither. */
static int state(scenario s)
{
    size_t bytes = 0;
    unsigned char *file = file_read(folder_path("target"), &bytes);
    int result = -1;
    if (!file)
        result = 0;
    else if (bytes == old_bytes && memcmp(file, old_file, bytes) == 0)
        result = 1;
    else if (bytes == new_bytes[s] && memcmp(file, new_file[s], bytes) == 0)
        result = 2;
    free(file);
    return result;
}

static void check_after(scenario s, fv_status status, bool may_be_new, const char *what)
{
    int files_left = folder_count(".tmp"), now = is_save(s) ? state(s) : 0;
    int before = s == SAVE_FIRST ? 0 : 1;
    bool whole = !is_save(s) || (status == FV_OK && now == 2) ||
                 (status != FV_OK && (now == before || (may_be_new && now == 2)));
    if (files_left || !whole)
        test_failed(__FILE__, __LINE__, "scenario %d, %s: status %s, state %d, %d temporary files",
                    s, what, fv_status_name(status), now, files_left);
}

/* ---- I/O faults ------------------------------------------------------------------ */

static fv_ctx *make_context(const fv_io *io, const fv_allocator *allocator)
{
    fv_ctx_config cfg;
    fv_ctx *c = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.memory_uncached = true;
    if (io) cfg.io = *io;
    if (allocator) cfg.allocator = *allocator;
    if (fv_ctx_create(&cfg, &c) != FV_OK) test_failed(__FILE__, __LINE__, "no context");
    return c;
}

/* Only the very last step of a save, the folder's sync, comes after the rename. */
static bool after_rename(const fault_io *f) { return f->count[FAULT_RENAME] > 0; }

/* The message names a file that the user knows, or its folder, and the reason. */
static void check_message(const fv_ctx *c, scenario s, int error, const char *what)
{
    const char *message = fv_ctx_message(c), *known = folder_path("");
    if (strncmp(message, known, strlen(known) - 1) != 0 || strstr(message, ".tmp") ||
        !strstr(message, strerror(error)))
        test_failed(__FILE__, __LINE__, "scenario %d, %s: \"%s\"", s, what, message);
}

static int injections;

static void inject(scenario s, int error, bool forever, size_t piece)
{
    static const char *const kinds[] = {"open",  "size",   "read",   "write", "reserve", "sync",
                                        "close", "rename", "remove", "map",   "resolve"};
    fault_io faults;
    fv_io io;
    fault_io_init(&faults, &io);
    fv_ctx *c = make_context(&io, NULL);
    if (!c) return;
    fv_memory_stats base, after;
    fv_ctx_memory(c, &base);
    for (int64_t n = 1;; n++) {
        reset(s);
        int open_before = open_files();
        fv_io kept = faults.base;
        faults = (fault_io){
            .base = kept, .fail_at = n, .forever = forever, .error = error, .piece = piece};
        fv_status status = play(c, s);
        if (!faults.failed) {
            CHECK_OK(c, status);
            break;
        }
        injections++;
        char what[64];
        snprintf(what, sizeof what, "call %lld (%s), error %d", (long long)n, kinds[faults.failing],
                 error);
        /* A failed close after reading loses nothing; neither does an interrupted one. */
        bool harmless = (faults.failing == FAULT_CLOSE && (!is_save(s) || error == EINTR)) ||
                        (error == EINTR && !forever) ||
                        (faults.failing == FAULT_CLOSE && after_rename(&faults));
        if (status != FV_OK) check_message(c, s, error, what);
        if (harmless != (status == FV_OK) || (status != FV_OK && status != FV_ERR_IO))
            test_failed(__FILE__, __LINE__, "scenario %d, %s: %s", s, what, fv_status_name(status));
        check_after(s, status, after_rename(&faults), what);
        CHECK_EQ(open_files(), open_before);
        fv_ctx_memory(c, &after);
        CHECK_EQ(after.used_bytes, base.used_bytes);
    }
    fv_ctx_destroy(&c);
}

static void io_faults(void)
{
    const int errors[] = {EIO, ENOSPC, EINTR};
    injections = 0;
    for (scenario s = 0; s < SCENARIOS; s++)
        for (int e = 0; e < 3; e++)
            for (int forever = 0; forever < 2; forever++)
                inject(s, errors[e], forever, 0);
    printf("files: %d faults injected into the system's calls\n", injections);
}

/* Calls that move a few bytes at a time, with and without a fault between. */
static void short_transfers(void)
{
    injections = 0;
    for (scenario s = 0; s < SCENARIOS; s++)
        inject(s, EIO, false, 61);
    printf("files: %d faults injected between short transfers\n", injections);
}

/* ---- failing allocations --------------------------------------------------------- */

typedef struct failing_allocator {
    fv_allocator base;
    int64_t calls, fail_at;
    bool forever, failed;
} failing_allocator;

static void *failing_alloc(void *user, size_t size, size_t align)
{
    failing_allocator *a = user;
    a->calls++;
    bool fails = a->fail_at && (a->calls == a->fail_at || (a->forever && a->calls > a->fail_at));
    a->failed = a->failed || fails;
    return fails ? NULL : a->base.alloc(a->base.user, size, align);
}

static void failing_free(void *user, void *ptr, size_t size)
{
    failing_allocator *a = user;
    a->base.free(a->base.user, ptr, size);
}

static void allocation_faults(void)
{
    failing_allocator a = {.calls = 0};
    fv_allocator_system(&a.base);
    fv_allocator table = {.user = &a, .alloc = failing_alloc, .free = failing_free};
    fv_ctx *c = make_context(NULL, &table);
    if (!c) return;
    fv_memory_stats base, after;
    int count = 0;
    fv_ctx_memory(c, &base);
    for (scenario s = 0; s < SCENARIOS; s++)
        for (int forever = 0; forever < 2; forever++)
            for (int64_t n = 1;; n++) {
                reset(s);
                a.calls = 0;
                a.fail_at = n;
                a.forever = forever;
                a.failed = false;
                fv_status status = play(c, s);
                a.fail_at = 0;
                fv_ctx_memory(c, &after);
                CHECK_EQ(after.used_bytes, base.used_bytes);
                if (!a.failed) {
                    CHECK_OK(c, status);
                    break;
                }
                count++;
                CHECK_EQ(status, FV_ERR_MEMORY);
                check_after(s, status, false, "allocation");
            }
    fv_ctx_destroy(&c);
    printf("files: %d failed allocations\n", count);
}

/* A file that may not grow: the system itself says no, past the first bytes. */
static void file_size_limit(void)
{
    struct rlimit old, tight = {.rlim_cur = 700};
    fv_ctx *c = make_context(NULL, NULL);
    if (!c) return;
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight.rlim_max = old.rlim_max;
    for (scenario s = SAVE_FIRST; is_save(s); s++) {
        reset(s);
        CHECK(new_bytes[s] > tight.rlim_cur || s == SAVE_NPY);
        tight.rlim_cur = s == SAVE_NPY ? 200 : 700;
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
        fv_status status = play(c, s);
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
        CHECK_EQ(status, FV_ERR_IO);
        CHECK(strstr(fv_ctx_message(c), "File too large"));
        check_after(s, status, false, "file size limit");
    }
    fv_ctx_destroy(&c);
}

/* A temporary file that a killed process left behind is not in the way. */
static void leftovers(void)
{
    fv_ctx *c = make_context(NULL, NULL);
    if (!c) return;
    reset(SAVE_FIRST);
    file_write(folder_path("target.fovea-0.tmp"), "x", 1);
    file_write(folder_path("target.fovea-1.tmp"), "x", 1);
    CHECK_OK(c, play(c, SAVE_FIRST));
    CHECK_EQ(state(SAVE_FIRST), 2);
    CHECK_EQ(folder_count(".tmp"), 2);
    remove(folder_path("target.fovea-0.tmp"));
    remove(folder_path("target.fovea-1.tmp"));
    fv_ctx_destroy(&c);
}

/* So many of them are: the message says what to remove. */
static void too_many_leftovers(void)
{
    enum { NAMES = 1000 };
    fv_ctx *c = make_context(NULL, NULL);
    if (!c) return;
    char name[32];
    reset(SAVE_FIRST);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "target.fovea-%d.tmp", i);
        file_write(folder_path(name), "x", 1);
    }
    CHECK_EQ(play(c, SAVE_FIRST), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(c), "target: cannot save: found 1000 temporary files"));
    CHECK(strstr(fv_ctx_message(c), "target.fovea-999.tmp"));
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "target.fovea-%d.tmp", i);
        remove(folder_path(name));
    }
    fv_ctx_destroy(&c);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    fv_ctx *c = make_context(NULL, NULL);
    if (!c) return 1;
    prepare(c);
    fv_ctx_destroy(&c);
    RUN(io_faults);
    RUN(short_transfers);
    RUN(allocation_faults);
    RUN(file_size_limit);
    RUN(leftovers);
    RUN(too_many_leftovers);
    folder_remove();
    free(old_file);
    for (scenario s = SAVE_FIRST; is_save(s); s++)
        free(new_file[s]);
    return TEST_END();
}
