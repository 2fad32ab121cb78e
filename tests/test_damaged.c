/*
 * Files of every format that the program opens, damaged at random (tests/support/damage.h): each
 * gives a status, within a second and 64 MiB, and leaves no memory in use.
 *
 *     FV_DAMAGED=500000 build/release/fovea_tests test_damaged    # cases, 6,000 by default
 *     FV_DAMAGED=1 FV_DAMAGED_FIRST=4711 ...                      # one case again
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/ctx.h"
#include "fovea/audio.h"
#include "fovea/data.h"
#include "fovea/file.h"
#include "fovea/image.h"
#include "fovea/model.h"
#include "fovea/ops.h"
#include "fovea/recipe.h"
#include "fovea/task.h"
#include "fovea/tokenizer.h"
#include "support/damage.h"
#include "support/files.h"
#include "support/test.h"
#include "train/state.h"

enum { MEMORY_LIMIT = 64 << 20, MOST_FILES = 64, NAME = 64, EXTRA_ROOM = 8192, WATCHDOG = 60 };

/* ---- files in memory ------------------------------------------------------------------------- */

typedef struct named_file {
    char name[NAME]; /* last part of its path */
    unsigned char *data;
    size_t bytes;
} named_file;

#define FOLDER "folder"

/* What the context sees: every path of this last part opens that file. */
static named_file shown[MOST_FILES];
static size_t shown_count;

static int64_t shown_open(void *user, const char *path, fv_io_mode mode)
{
    (void)user;
    const char *slash = strrchr(path, '/');
    if (mode == FV_IO_DIRECTORY) return strcmp(path, FOLDER) == 0 ? MOST_FILES : -ENOTDIR;
    if (mode != FV_IO_READ) return -EACCES;
    for (size_t i = 0; i < shown_count; i++)
        if (strcmp(shown[i].name, slash ? slash + 1 : path) == 0) return (int64_t)i;
    return -ENOENT;
}

static int64_t shown_size(void *user, int64_t file)
{
    (void)user;
    return file < MOST_FILES ? (int64_t)shown[file].bytes : 0;
}

static int64_t shown_read(void *user, int64_t file, void *buf, size_t n, uint64_t offset)
{
    (void)user;
    if (file >= MOST_FILES || offset >= shown[file].bytes) return 0;
    const size_t left = shown[file].bytes - (size_t)offset;
    if (n > left) n = left;
    memcpy(buf, shown[file].data + offset, n);
    return (int64_t)n;
}

/* ---- readers --------------------------------------------------------------------------------- */

/* Reads what is shown; `path` is the damaged file or its folder, `turn` varies the settings. */
typedef fv_status (*reader)(fv_ctx *ctx, const char *path, size_t turn);

static fv_status read_weights(fv_ctx *ctx, const char *path, size_t turn)
{
    static const unsigned flags[] = {FV_SAFETENSORS_COPY, FV_SAFETENSORS_CHECK,
                                     FV_SAFETENSORS_VERIFY};
    fv_safetensors *set = NULL;
    fv_status s = fv_safetensors_open(ctx, path, flags[turn % 3], &set);
    for (size_t i = 0; set && i < fv_safetensors_count(set); i++) {
        const fv_file_entry *e = fv_safetensors_entry(set, i);
        fv_scope_begin(ctx);
        if (e->loadable) fv_safetensors_load(ctx, set, e->name);
        fv_scope_end(ctx);
        const fv_status loaded = fv_ctx_take_error(ctx);
        if (s == FV_OK) s = loaded;
    }
    fv_safetensors_close(&set);
    return s;
}

static fv_status read_numpy(fv_ctx *ctx, const char *path, size_t turn)
{
    (void)turn;
    fv_npy *npy = NULL;
    fv_status s = fv_npy_open(ctx, path, &npy);
    for (size_t i = 0; npy && i < fv_npy_count(npy); i++) {
        const fv_file_entry *e = fv_npy_entry(npy, i);
        fv_scope_begin(ctx);
        if (e->loadable) fv_npy_load(ctx, npy, e->name);
        fv_scope_end(ctx);
        const fv_status loaded = fv_ctx_take_error(ctx);
        if (s == FV_OK) s = loaded;
    }
    fv_npy_close(&npy);
    return s;
}

static fv_status read_tokens(fv_ctx *ctx, const char *path, size_t turn)
{
    static const char text[] = "The cat's \xC3\xA9t\xC3\xA9, 12 <s> [MASK]\xE4\xB8\xAD";
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    fv_status s = fv_tokenizer_load(ctx, path, &tok);
    if (s == FV_OK) s = fv_tokenizer_encoder_create(ctx, tok, &enc);
    if (s == FV_OK)
        s = fv_tokenizer_encode(enc, text, sizeof text - 1,
                                turn % 2 ? FV_TOKENIZER_ADD_SPECIALS : 0, &e);
    if (s == FV_OK) s = fv_tokenizer_decode(ctx, tok, e.ids, e.count, 0, &out);
    fv_text_free(ctx, &out);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    return s;
}

static fv_status read_recipe(fv_ctx *ctx, const char *path, size_t turn)
{
    fv_recipe *recipe = NULL;
    fv_status s = fv_run_recipe(ctx, &recipe);
    if (s == FV_OK)
        s = turn % 2 ? fv_recipe_load(recipe, path) : fv_recipe_load_small(recipe, path);
    fv_recipe_destroy(&recipe);
    return s;
}

static fv_status read_table(fv_ctx *ctx, const char *path, size_t turn)
{
    fv_table *table = NULL;
    fv_table_row row = {.fields = NULL};
    fv_status s = fv_table_open(ctx, path, (fv_table_header)(turn % 3), &table);
    while (s == FV_OK && (s = fv_table_next(table, &row)) == FV_OK && row.fields)
        continue;
    fv_table_close(&table);
    return s;
}

static fv_status read_lines(fv_ctx *ctx, const char *path, size_t turn)
{
    fv_lines *lines = NULL;
    fv_line line = {.text = ""};
    fv_status s =
        fv_lines_open(ctx, path, turn % 2 ? FV_LINES_POLICY_REJECT : FV_LINES_POLICY_MARK, &lines);
    while (s == FV_OK && line.text)
        s = fv_lines_next(lines, &line);
    fv_lines_close(&lines);
    return s;
}

static fv_status read_sound(fv_ctx *ctx, const char *path, size_t turn)
{
    fv_sound *sound = NULL;
    const fv_status s =
        fv_sound_load(ctx, path, turn % 2 ? FV_SOUND_MIX_MONO : FV_SOUND_MIX_NONE, &sound);
    fv_sound_free(&sound);
    return s;
}

static fv_status read_idx(fv_ctx *ctx, const char *path, size_t turn)
{
    (void)turn;
    fv_scope_begin(ctx);
    fv_idx_load(ctx, path);
    fv_scope_end(ctx);
    return fv_ctx_take_error(ctx);
}

#if defined FV_HAVE_PNG || defined FV_HAVE_JPEG
static fv_status read_picture(fv_ctx *ctx, const char *path, size_t turn)
{
    ctx->limits.picture_pixels = 1 << 20; /* within the memory limit */
    fv_scope_begin(ctx);
    fv_picture_load(ctx, path, turn % 2 ? 3 : 0);
    fv_scope_end(ctx);
    return fv_ctx_take_error(ctx);
}
#endif

/* A state over the two parameters that the seeds have, or the list of states. */
static fv_status read_state(fv_ctx *ctx, const char *path, size_t turn)
{
    fv_params *params = NULL, *extra = NULL;
    fv_optim *optim[2] = {NULL, NULL};
    fv_optim_config how;
    fv_progress progress = {.step = 77};
    fv_state_list list;
    const char *slash = strrchr(path, '/');
    if (strcmp(slash ? slash + 1 : path, "states.json") == 0)
        return fv_state_list_read(ctx, FOLDER, &list);
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_params_create(ctx, &extra));
    fv_params_add(params, "w", fv_full(ctx, FV_F32, 2, (int64_t[]){2, 3}, 0.5));
    fv_params_add(params, "b", fv_full(ctx, FV_F32, 1, (int64_t[]){3}, -0.5));
    fv_optim_config_init(&how, sizeof how, turn % 2 ? FV_OPTIM_SGD : FV_OPTIM_ADAMW);
    how.momentum = 0.9;
    for (int phase = 0; phase < 2; phase++) {
        how.group = phase ? "b" : "w";
        CHECK_OK(ctx, fv_optim_create(params, &how, &optim[phase]));
    }
    const fv_state_parts parts = {
        .params = params, .optim = {optim[0], optim[1]}, .phases = 2, .extra = extra};
    snprintf(shown[0].name, NAME, "state-00000012.safetensors");
    const fv_status s = fv_state_load(FOLDER, 12, &parts, &progress);
    CHECK(s == FV_OK || progress.step == 77);
    fv_optim_destroy(&optim[0]);
    fv_optim_destroy(&optim[1]);
    fv_params_destroy(&params);
    fv_params_destroy(&extra);
    return s;
}

static fv_status read_model(fv_ctx *ctx, const char *path, size_t turn)
{
    (void)path;
    (void)turn;
    fv_model *model = NULL;
    const fv_status s = fv_model_open(ctx, FOLDER, &model);
    fv_model_close(&model);
    const fv_status left = fv_ctx_take_error(ctx);
    return s == FV_OK ? left : s;
}

/* ---- formats --------------------------------------------------------------------------------- */

/* Seeds are the files of a folder under tests/ whose names have an ending, one by one, or with
 * `together` as one folder: the one with the ending is damaged, the others are as they were. */
typedef struct format {
    const char *name;
    reader read;
    bool together;
    bool unlimited; /* may ask for more memory than there is: sizes of a model that are not in a
                       file */
    const char *folders[6];
    const char *ending;
} format;

static const format formats[] = {
    {"safetensors", read_weights, false, false, {"data/io"}, ".safetensors"},
    {"safetensors, fuzzed", read_weights, false, false, {"../fuzz/corpus/safetensors"}, "s"},
    {"index", read_weights, true, false, {"data/io/torch/shards"}, ".index.json"},
    {"pytorch_model.bin", read_weights, false, false, {"data/io/torch"}, ".bin"},
    {"shard of .bin", read_weights, true, false, {"data/io/torch/shards"}, ".bin"},
    {"config.json",
     read_model,
     true,
     true,
     {"fixtures/bert", "fixtures/gpt2", "fixtures/llama", "fixtures/marian", "fixtures/t5"},
     "config.json"},
    {"model folder", read_model, true, false, {"data/io/torch/plain"}, ".safetensors"},
    {"model folder, .bin", read_model, true, false, {"data/io/torch/single"}, ".bin"},
    {"tokenizer.json", read_tokens, false, false, {"../fuzz/corpus/tokenizer"}, ".json"},
    {"sentencepiece", read_tokens, false, false, {"../fuzz/corpus/sentencepiece"}, ".model"},
    {"npy", read_numpy, false, false, {"data/io"}, ".npy"},
    {"npz", read_numpy, false, false, {"data/io"}, ".npz"},
    {"recipe", read_recipe, false, false, {"../recipes"}, ".toml"},
    {"state", read_state, false, false, {"../fuzz/corpus/state"}, ".safetensors"},
    {"list of states", read_state, true, false, {"../fuzz/corpus/state"}, "states.json"},
    {"csv", read_table, false, false, {"../fuzz/corpus/table"}, ".csv"},
    {"tsv", read_table, false, false, {"../fuzz/corpus/table"}, ".tsv"},
    {"jsonl", read_table, false, false, {"../fuzz/corpus/table"}, ".jsonl"},
    {"text", read_lines, false, false, {"../fuzz/corpus/text"}, ".txt"},
    {"idx", read_idx, false, false, {"../fuzz/corpus/idx"}, ""},
#ifdef FV_HAVE_PNG
    {"png", read_picture, false, false, {"../fuzz/corpus/png"}, ".png"},
#endif
#ifdef FV_HAVE_JPEG
    {"jpeg", read_picture, false, false, {"../fuzz/corpus/jpeg"}, ".jpg"},
#endif
#ifdef FV_HAVE_ZLIB
    {"gz", read_lines, false, false, {"../fuzz/corpus/text"}, ".gz"},
#endif
#ifdef FV_HAVE_LibLZMA
    {"xz", read_lines, false, false, {"../fuzz/corpus/text"}, ".xz"},
#endif
    {"wav", read_sound, false, false, {"../fuzz/corpus/wav"}, ".wav"},
#ifdef FV_HAVE_FLAC
    {"flac", read_sound, false, true, {"../fuzz/corpus/flac"}, ".flac"},
#endif
};

enum { FORMATS = sizeof formats / sizeof *formats, MOST_FOLDERS = 6 };

/* The files of one folder of a format; `damaged` of them, which come first, have the ending. */
typedef struct seeds {
    named_file files[MOST_FILES];
    size_t count, damaged;
} seeds;

typedef struct report {
    uint64_t reads, good;
    double slowest;
} report;

static seeds loaded[FORMATS][MOST_FOLDERS];
static size_t folder_counts[FORMATS], largest;
static report reports[FORMATS];

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named_file *)a)->name, ((const named_file *)b)->name);
}

/* Loads the files with the ending first, each group in the order of their names. */
static void load_folder(const format *f, const char *folder, seeds *out)
{
    char path[1024];
    for (int pass = 0; pass < 2; pass++) {
        DIR *dir = opendir(test_path(folder));
        const size_t first = out->count;
        if (!dir) return;
        for (struct dirent *d; (d = readdir(dir)) && out->count < MOST_FILES;) {
            const bool wanted = ends_with(d->d_name, f->ending), first_pass = pass == 0;
            if (wanted != first_pass || d->d_name[0] == '.' || strlen(d->d_name) >= NAME) continue;
            if (strcmp(d->d_name, "expected.safetensors") == 0) continue;
            snprintf(path, sizeof path, "%s/%s", test_path(folder), d->d_name);
            struct stat info;
            if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) continue;
            named_file *file = &out->files[out->count];
            file->data = file_read(path, &file->bytes);
            if (!file->data) continue;
            snprintf(file->name, NAME, "%s", d->d_name);
            if (file->bytes > largest) largest = file->bytes;
            out->count++;
        }
        closedir(dir);
        qsort(out->files + first, out->count - first, sizeof *out->files, by_name);
        if (pass == 0) out->damaged = out->count;
    }
}

static void load_seeds(void)
{
    for (int i = 0; i < FORMATS; i++) {
        for (int k = 0; k < MOST_FOLDERS && formats[i].folders[k]; k++) {
            seeds *s = &loaded[i][folder_counts[i]];
            load_folder(&formats[i], formats[i].folders[k], s);
            folder_counts[i] += s->damaged > 0;
        }
        if (folder_counts[i] == 0) test_failed(__FILE__, __LINE__, "%s: no seeds", formats[i].name);
    }
}

/* ---- cases ----------------------------------------------------------------------------------- */

static volatile sig_atomic_t hung_format;
static volatile uint64_t hung_case;

static void hang(int signal)
{
    (void)signal;
    fprintf(stderr, "case %llu (%s) hangs\n", (unsigned long long)hung_case,
            formats[hung_format].name);
    _exit(1);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show(const format *f, const seeds *s, const named_file *file, unsigned char *data,
                 size_t bytes)
{
    shown[0] = (named_file){.data = data, .bytes = bytes};
    memcpy(shown[0].name, file->name, NAME);
    shown_count = 1;
    for (size_t i = 0; f->together && i < s->count && shown_count < MOST_FILES; i++)
        if (&s->files[i] != file) shown[shown_count++] = s->files[i];
}

/* Every format has seeds that open, or the test would prove little. */
static void good_files_are_read(fv_ctx *ctx)
{
    for (int i = 0; i < FORMATS; i++) {
        size_t good = 0;
        for (size_t k = 0; k < folder_counts[i]; k++)
            for (size_t n = 0; n < loaded[i][k].damaged; n++) {
                const named_file *file = &loaded[i][k].files[n];
                show(&formats[i], &loaded[i][k], file, file->data, file->bytes);
                good += formats[i].read(ctx, shown[0].name, 0) == FV_OK;
            }
        if (good == 0)
            test_failed(__FILE__, __LINE__, "%s: no seed opens: %s", formats[i].name,
                        fv_ctx_message(ctx));
    }
}

static void run_case(fv_ctx *ctx, uint64_t number, uint64_t used, unsigned char *room)
{
    damage_rng rng = damage_begin(number);
    const int which = (int)(number % FORMATS);
    const format *f = &formats[which];
    if (folder_counts[which] == 0) return;
    const seeds *s = &loaded[which][damage_pick(&rng, folder_counts[which])];
    const named_file *seed = &s->files[damage_pick(&rng, s->damaged)],
                     *other = &s->files[damage_pick(&rng, s->damaged)];
    const size_t bytes = damage_file(&rng, seed->data, seed->bytes, other->data, other->bytes, room,
                                     seed->bytes + EXTRA_ROOM),
                 turn = damage_pick(&rng, 6);
    /* In memory of exactly that size, so that a sanitizer notices any access outside. */
    unsigned char *exact = malloc(bytes ? bytes : 1);
    if (!exact) abort();
    memcpy(exact, room, bytes);
    show(f, s, seed, exact, bytes);
    hung_format = which;
    hung_case = number;
    alarm(WATCHDOG);
    const double start = seconds();
    const fv_status status = f->read(ctx, shown[0].name, turn);
    const double taken = seconds() - start;
    alarm(0);
    fv_memory_stats stats;
    fv_ctx_memory(ctx, &stats);
    report *r = &reports[which];
    r->reads++;
    r->good += status == FV_OK;
    if (taken > r->slowest) r->slowest = taken;
    if (taken > 1 || status == FV_ERR_INTERNAL || stats.used_bytes != used ||
        fv_ctx_error(ctx) != FV_OK || (status == FV_ERR_MEMORY && !f->unlimited))
        test_failed(__FILE__, __LINE__, "case %llu (%s, %s): %s, %.2f s, %lld bytes left: %s",
                    (unsigned long long)number, f->name, seed->name, fv_status_name(status), taken,
                    (long long)(stats.used_bytes - used), fv_ctx_message(ctx));
    free(exact);
}

static uint64_t number_of(const char *variable, uint64_t fallback)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : fallback;
}

static void damaged_files_are_survived(void)
{
    const uint64_t count = number_of("FV_DAMAGED", 6000), first = number_of("FV_DAMAGED_FIRST", 0);
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_memory_stats stats;
    memory_file unused = {0};
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.memory_limit = MEMORY_LIMIT;
    memory_io(&cfg.io, &unused);
    cfg.io.open = shown_open;
    cfg.io.size = shown_size;
    cfg.io.read = shown_read;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    load_seeds();
    unsigned char *room = malloc(largest + EXTRA_ROOM);
    if (!room || !ctx) abort();
    good_files_are_read(ctx); /* what the context keeps for later calls is counted then */
    fv_ctx_memory(ctx, &stats);
    signal(SIGALRM, hang);
    const double start = seconds();
    for (uint64_t i = 0; i < count && test_failures() < 20; i++)
        run_case(ctx, first + i, stats.used_bytes, room);
    for (int i = 0; i < FORMATS && count > 1; i++)
        printf("%-20s %8llu damaged files, %7llu still good, slowest %.2f ms\n", formats[i].name,
               (unsigned long long)reports[i].reads, (unsigned long long)reports[i].good,
               1e3 * reports[i].slowest);
    printf("%llu damaged files in %.0f s\n", (unsigned long long)count, seconds() - start);
    free(room);
    for (int i = 0; i < FORMATS; i++)
        for (size_t k = 0; k < folder_counts[i]; k++)
            for (size_t n = 0; n < loaded[i][k].count; n++)
                free(loaded[i][k].files[n].data);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(damaged_files_are_survived);
    return TEST_END();
}
