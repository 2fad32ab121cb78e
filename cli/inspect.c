/* fovea inspect FILE: names, types and shapes of a file's tensors. Reads headers only. A recording:
 * its facts and spectrogram. --arch: what a model would cost. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "fovea/file.h"
#include "inspect.h"
#include "memory.h"
#include "output.h"

static const cli_option options[] = {
    {.name = "json",
     .type = CLI_FLAG,
     .help = "print one JSON object per line: tensors, then totals"},
    {.name = "metadata", .letter = 'm', .type = CLI_FLAG, .help = "also print the file's metadata"},
    {.name = "verify",
     .type = CLI_FLAG,
     .help = "also read the data of safetensors and .bin files, verify checksums and look for NaN"},
    {.name = "output",
     .letter = 'o',
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FILE",
     .help = "of a recording: write the spectrogram (.svg, .png, .pdf, .html or .txt)"},
    {.name = "arch",
     .type = CLI_STRING,
     .metavar = "NAME",
     .help = "count parameters, operations and memory of a published Transformer instead: gpt2-xl, "
             "bert-large, ...; all"},
    {.name = "length",
     .type = CLI_INT,
     .default_value = "1024",
     .min = 1,
     .max = 1 << 24,
     .metavar = "N",
     .help = "with --arch: tokens of context"},
};

/* One open file of any format. */
typedef struct listing {
    const char *path;   /* as given by the user */
    const char *format; /* "safetensors", "pytorch", "npy" or "npz" */
    fv_safetensors *weights;
    fv_npy *arrays;
} listing;

static size_t entry_count(const listing *l)
{
    return l->weights ? fv_safetensors_count(l->weights) : fv_npy_count(l->arrays);
}

static const fv_file_entry *entry_at(const listing *l, size_t i)
{
    return l->weights ? fv_safetensors_entry(l->weights, i) : fv_npy_entry(l->arrays, i);
}

static size_t shard_count(const listing *l)
{
    return l->weights ? fv_safetensors_shard_count(l->weights) : 1;
}

static size_t note_count(const listing *l)
{
    return l->weights ? fv_safetensors_metadata_count(l->weights) : 0;
}

typedef struct totals {
    uint64_t bytes, elements;
    bool too_many; /* more elements than 64 bits count */
} totals;

static void add_totals(totals *t, const fv_file_entry *e)
{
    uint64_t elements = 1;
    for (int i = 0; i < e->rank; i++)
        if (__builtin_mul_overflow(elements, (uint64_t)e->shape[i], &elements)) t->too_many = true;
    if (__builtin_add_overflow(t->elements, elements, &t->elements)) t->too_many = true;
    t->bytes += e->bytes; /* the reader bounds the sum by the file's size and its limits */
}

/* ---- printing ------------------------------------------------------------------- */

static void shape_text(const fv_file_entry *e, char *out, size_t bytes)
{
    size_t at = 0;
    cli_format(out, bytes, "[");
    for (int i = 0; i < e->rank; i++) {
        at = strlen(out);
        cli_format(out + at, bytes - at, "%s%lld", i ? ", " : "", (long long)e->shape[i]);
    }
    at = strlen(out);
    cli_format(out + at, bytes - at, "]");
}

/* Columns wide enough for the longest name, within reason. */
static int name_width(const listing *l)
{
    enum { LEAST = 4, MOST = 56 };
    size_t width = LEAST;
    for (size_t i = 0; i < entry_count(l); i++) {
        size_t length = strlen(entry_at(l, i)->name);
        if (length > width) width = length;
    }
    return width < MOST ? (int)width : MOST;
}

/* Which checksums there are: those that fv_safetensors_save has written, or those of torch.save's
 * archive; numpy's formats have none of tensors. NULL: none. */
static const char *checksums(const listing *l)
{
    if (!l->weights) return NULL;
    if (fv_safetensors_form(l->weights) == FV_WEIGHTS_TORCH) return "CRC-32 of each storage";
    return fv_safetensors_metadata_find(l->weights, "fovea.crc32c")
               ? "CRC-32C of the header and of each tensor"
               : NULL;
}

/* Pickles have a bad name, so the listing states how this one is read. */
static const char *form_note(const listing *l)
{
    if (!l->weights) return NULL;
    switch (fv_safetensors_form(l->weights)) {
    case FV_WEIGHTS_TORCH:
        return "a pickle of torch.save, read as data: nothing in it is executed";
    case FV_WEIGHTS_TORCH_OLD:
        return "a pickle of torch.save before 1.6, read as data: nothing in it is executed";
    case FV_WEIGHTS_SAFETENSORS:
    default:
        return NULL;
    }
}

static void print_text(const listing *l, bool with_notes, bool with_path)
{
    int width = name_width(l);
    totals sum = {0};
    char shape[256], bytes[24];
    if (with_path) {
        cli_safe_text(stdout, l->path);
        fputs(":\n", stdout);
    }
    printf("%-*s  %-8s %-24s %s\n", width, "name", "dtype", "shape", "bytes");
    for (size_t i = 0; i < entry_count(l); i++) {
        const fv_file_entry *e = entry_at(l, i);
        shape_text(e, shape, sizeof shape);
        int columns = cli_safe_text(stdout, e->name[0] ? e->name : "-");
        printf("%*s  ", columns < width ? width - columns : 0, "");
        columns = cli_safe_text(stdout, e->dtype_name);
        printf("%*s %-24s %llu\n", columns < 8 ? 8 - columns : 0, "", shape,
               (unsigned long long)e->bytes);
        add_totals(&sum, e);
    }
    if (with_notes && note_count(l) > 0) fputc('\n', stdout);
    for (size_t i = 0; with_notes && i < note_count(l); i++) {
        const fv_file_metadata *note = fv_safetensors_metadata_at(l->weights, i);
        cli_safe_text(stdout, note->key);
        fputs(": ", stdout);
        cli_safe_text(stdout, note->value);
        fputc('\n', stdout);
    }
    cli_bytes_text(bytes, sum.bytes);
    printf("\n%s: %zu tensor%s in %zu file%s, ", l->format, entry_count(l),
           entry_count(l) == 1 ? "" : "s", shard_count(l), shard_count(l) == 1 ? "" : "s");
    if (sum.too_many)
        fputs("more than 2^64 elements", stdout);
    else
        printf("%llu elements", (unsigned long long)sum.elements);
    printf(", %llu bytes (%s)\n", (unsigned long long)sum.bytes, bytes);
    if (form_note(l)) printf("form: %s\n", form_note(l));
    if (l->weights)
        printf("checksums: %s\n",
               checksums(l) ? checksums(l) : "none, so damage cannot be detected");
    if (with_path) fputc('\n', stdout);
}

static void print_json(const listing *l, bool with_notes)
{
    cli_json j = {.to = stdout};
    totals sum = {0};
    for (size_t i = 0; i < entry_count(l); i++) {
        const fv_file_entry *e = entry_at(l, i);
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "name", e->name);
        cli_json_text(&j, "dtype", e->dtype_name);
        cli_json_open(&j, "shape", '[');
        for (int axis = 0; axis < e->rank; axis++)
            cli_json_int(&j, NULL, e->shape[axis]);
        cli_json_close(&j, ']');
        cli_json_size(&j, "bytes", e->bytes);
        cli_json_size(&j, "offset", e->offset);
        if (l->weights) cli_json_text(&j, "file", fv_safetensors_shard_path(l->weights, e->shard));
        cli_json_bool(&j, "loadable", e->loadable);
        cli_json_close(&j, '}');
        add_totals(&sum, e);
    }
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "total", l->path);
    cli_json_text(&j, "format", l->format);
    cli_json_size(&j, "tensors", entry_count(l));
    cli_json_size(&j, "files", shard_count(l));
    if (sum.too_many)
        cli_json_text(&j, "elements", NULL);
    else
        cli_json_size(&j, "elements", sum.elements);
    cli_json_size(&j, "bytes", sum.bytes);
    if (l->weights) cli_json_bool(&j, "checksums", checksums(l) != NULL);
    if (with_notes) {
        cli_json_open(&j, "metadata", '{');
        for (size_t i = 0; i < note_count(l); i++) {
            const fv_file_metadata *note = fv_safetensors_metadata_at(l->weights, i);
            cli_json_text(&j, note->key, note->value);
        }
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, '}');
}

/* ---- opening -------------------------------------------------------- */

/* torch.save writes NAME/data.pkl as the first entry of its archive. */
static bool begins_with_pickle(const unsigned char *start, size_t bytes)
{
    enum { HEADER = 30, LENGTH = 26 };
    static const char name[] = "/data.pkl";
    if (bytes < HEADER) return false;
    const size_t n = start[LENGTH] | (size_t)start[LENGTH + 1] << 8, m = sizeof name - 1;
    return n >= m && HEADER + n <= bytes && memcmp(start + HEADER + n - m, name, m) == 0;
}

/* The first bytes of a file; 0 if it cannot be read. */
static size_t read_start(const char *path, unsigned char *start, size_t room)
{
    /* Not blocking: the path may have become a pipe since it was checked. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return 0;
    ssize_t got = read(file, start, room);
    close(file);
    return got > 0 ? (size_t)got : 0;
}

/* npy and npz are recognised by their first bytes; safetensors has no signature. */
static bool looks_like_numpy(const char *path)
{
    unsigned char start[512] = {0};
    const size_t got = read_start(path, start, sizeof start);
    if (got >= 6 && memcmp(start, "\x93NUMPY", 6) == 0) return true;
    return got >= 4 && memcmp(start, "PK", 2) == 0 && (start[2] == 3 || start[2] == 5) &&
           !begins_with_pickle(start, got);
}

static bool looks_like_sound(const char *path)
{
    unsigned char start[12] = {0};
    return inspect_is_sound(path, start, read_start(path, start, sizeof start));
}

/* ---- verifying ------------------------------------------------------------------------- */

/* Reads every tensor; all that are damaged are named. */
static int verify(fv_ctx *ctx, const listing *l)
{
    int code = CLI_DONE;
    for (size_t i = 0; l->weights && i < entry_count(l) && !cli_cancelled; i++) {
        const fv_file_entry *e = entry_at(l, i);
        void *data = malloc(e->bytes ? (size_t)e->bytes : 1);
        const fv_status status =
            data ? fv_safetensors_read(l->weights, e, 0, data, (size_t)e->bytes) : FV_ERR_MEMORY;
        free(data);
        if (status == FV_OK) continue;
        cli_error("inspect: %s", status == FV_ERR_MEMORY ? "out of memory" : fv_ctx_message(ctx));
        code = cli_exit_code(status);
        if (status != FV_ERR_FORMAT) break;
    }
    if (cli_cancelled) return CLI_INTERRUPTED;
    if (code == CLI_DONE && !checksums(l))
        cli_note("inspect: %s: has no checksums to verify", l->path);
    else if (code == CLI_DONE)
        cli_note("inspect: %s: all checksums are right", l->path);
    return code;
}

static int open_listing(fv_ctx *ctx, const char *path, bool checked, listing *l)
{
    fv_status status;
    if (looks_like_numpy(path) || cli_ends_with(path, ".npy") || cli_ends_with(path, ".npz")) {
        status = fv_npy_open(ctx, path, &l->arrays);
        if (status == FV_OK) l->format = fv_npy_is_archive(l->arrays) ? "npz" : "npy";
    } else {
        status = fv_safetensors_open(
            ctx, path, checked ? FV_SAFETENSORS_CHECK : FV_SAFETENSORS_COPY, &l->weights);
        l->format = status == FV_OK && fv_safetensors_form(l->weights) != FV_WEIGHTS_SAFETENSORS
                        ? "pytorch"
                        : "safetensors";
    }
    if (status == FV_OK) return CLI_DONE;
    const char *reason = fv_ctx_message(ctx);
    bool named = strstr(reason, path) != NULL;
    cli_error("inspect: %s%s%s", named ? "" : path, named ? "" : ": ",
              reason[0] ? reason : fv_status_name(status));
    return cli_exit_code(status);
}

static int inspect(fv_ctx *ctx, const cli_call *call, const char *path)
{
    char resolved[CLI_PATH_BYTES];
    int code = cli_weights_file("inspect", path, resolved);
    if (code) return code;
    const char *picture = cli_text(call, "output");
    if (looks_like_sound(resolved))
        return inspect_sound(ctx, resolved, cli_flag(call, "json"), picture);
    if (picture) {
        cli_error("inspect: %s: --output draws the spectrogram of a recording (WAV or FLAC)", path);
        return CLI_USAGE;
    }
    listing l = {.path = path};
    code = open_listing(ctx, resolved, cli_flag(call, "verify"), &l);
    if (code == CLI_DONE) {
        bool notes = cli_flag(call, "metadata");
        if (cli_flag(call, "json"))
            print_json(&l, notes);
        else
            print_text(&l, notes, call->word_count > 1);
        if (cli_flag(call, "verify")) code = verify(ctx, &l);
    }
    fv_safetensors_close(&l.weights);
    fv_npy_close(&l.arrays);
    return code;
}

static int run(const cli_call *call)
{
    fv_ctx_config config;
    cli_config_init(&config);
    config.threads = 1;
    fv_ctx *ctx = NULL;
    fv_status status = fv_ctx_create(&config, &ctx);
    if (status != FV_OK) {
        cli_error("inspect: cannot create a context: %s", fv_status_name(status));
        return cli_exit_code(status);
    }
    int code = CLI_DONE;
    if (cli_given(call, "output") && (call->word_count != 1 || cli_given(call, "arch"))) {
        cli_error("inspect: --output needs one recording");
        code = CLI_USAGE;
    } else if (cli_given(call, "arch"))
        code = inspect_architectures(ctx, cli_text(call, "arch"), cli_int(call, "length"),
                                     cli_flag(call, "json"));
    else if (call->word_count == 0) {
        cli_error("inspect: FILE is missing: expected a file, or --arch NAME");
        code = CLI_USAGE;
    }
    for (int i = 0; i < call->word_count && code == CLI_DONE; i++)
        code = inspect(ctx, call, call->words[i]);
    fv_ctx_destroy(&ctx);
    return code;
}

const cli_verb verb_inspect = {
    .name = "inspect",
    .about = "list a file's tensors, or describe a recording",
    .notes =
        "Reads safetensors and PyTorch's .bin (single, or sharded through the .index.json), npy\n"
        "and npz. Only headers are read, so files of any size are listed at once; --verify\n"
        "reads the data, too. A .bin is a pickle: its tensors are listed, nothing in it is\n"
        "executed. With --arch no file is needed: nothing is allocated. A recording (WAV; FLAC if\n"
        "libFLAC is installed) shows its rate, length and peak, and its spectrogram: 60 dB of\n"
        "mel filters, low at the bottom; -o draws it as a picture.",
    .words =
        {.metavar = "FILE",
         .type = CLI_PATH,
         .min = 0,
         .max = CLI_MAX_WORDS,
         .help = "a file, or a folder that holds model.safetensors, pytorch_model.bin or an index"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
