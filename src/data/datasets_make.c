/* The table of generated data sets, and writing their folders. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "data/datasets.h"
#include "io/file.h"
#include "io/json_write.h"
#include "io/sha256.h"
#include "text/codepoints.h"

typedef struct generated_set {
    fv_made_set set;
    fv_made_maker make;
} generated_set;

static const generated_set sets[] = {
    {{.name = "dates",
      .about = "written dates in four languages and their ISO form",
      .source = "written",
      .target = "iso"},
     fv_make_dates},
    {{.name = "copy",
      .about = "letters, and the same letters",
      .source = "source",
      .target = "target"},
     fv_make_copy},
    {{.name = "reverse",
      .about = "letters, and the same from the last to the first",
      .source = "source",
      .target = "target"},
     fv_make_reverse},
    {{.name = "sort",
      .about = "letters, and the same in alphabetical order",
      .source = "source",
      .target = "target"},
     fv_make_sort},
    {{.name = "sentences",
      .about = "short English sentences of a small grammar and their French translation",
      .source = "en",
      .target = "fr"},
     fv_make_sentences},
    {{.name = "trees",
      .about = "arithmetic, and the same with brackets around every operation",
      .source = "infix",
      .target = "tree"},
     fv_make_trees},
    {{.name = "scan-simple",
      .about = "SCAN: commands and actions; the test commands are any of the language",
      .from = "scan",
      .source = "command",
      .target = "actions"},
     fv_make_scan_simple},
    {{.name = "scan-length",
      .about = "SCAN: the test commands have longer action sequences than training shows",
      .from = "scan",
      .source = "command",
      .target = "actions"},
     fv_make_scan_length},
    {{.name = "scan-jump",
      .about = "SCAN: the test commands combine \"jump\", which training shows alone",
      .from = "scan",
      .source = "command",
      .target = "actions"},
     fv_make_scan_jump},
    {{.name = "tatoeba-en-fr",
      .about = "English sentences and French translations, in parts that share no sentence",
      .from = "tatoeba-eng-fra",
      .source = "en",
      .target = "fr"},
     fv_make_tatoeba_french},
    {{.name = "tatoeba-en-zh",
      .about = "English sentences and Chinese translations, in parts that share no sentence",
      .from = "tatoeba-eng-cmn",
      .source = "en",
      .target = "zh"},
     fv_make_tatoeba_chinese},
};

const fv_made_set *fv_made_set_at(size_t i)
{
    return i < sizeof sets / sizeof *sets ? &sets[i].set : NULL;
}

const fv_made_set *fv_made_set_find(const char *name)
{
    const fv_made_set *set;
    for (size_t i = 0; (set = fv_made_set_at(i)); i++)
        if (strcmp(set->name, name) == 0) return set;
    return NULL;
}

void fv_made_config_init(fv_made_config *cfg, size_t struct_size)
{
    const fv_made_config defaults = {.struct_size = struct_size,
                                     .pairs = 10000,
                                     .held_out = 1000,
                                     .length = 10,
                                     .seed = 1,
                                     .shortest = 1};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

/* ---- the split rule ---------------------------------------------------------------- */

static uint64_t first_digest_word(fv_sha256 *sum)
{
    unsigned char bytes[FV_SHA256_BYTES];
    uint64_t word = 0;
    fv_sha256_end(sum, bytes);
    for (int i = 0; i < 8; i++)
        word = word << 8 | bytes[i];
    return word;
}

uint64_t fv_text_digest(const char *text, size_t bytes)
{
    fv_sha256 sum;
    fv_sha256_init(&sum);
    fv_sha256_add(&sum, text, bytes);
    return first_digest_word(&sum);
}

uint64_t fv_made_hash(const char *source, size_t bytes)
{
    fv_sha256 sum;
    fv_sha256_init(&sum);
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)source[i];
        const bool upper = c >= 'A' && c <= 'Z';
        const bool kept = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c >= 0x80;
        const unsigned char lower = (unsigned char)(upper ? c + ('a' - 'A') : c);
        if (kept) fv_sha256_add(&sum, &lower, 1);
    }
    return first_digest_word(&sum);
}

fv_made_part fv_made_part_of(const char *source, size_t bytes)
{
    const uint64_t percent = fv_made_hash(source, bytes) % 100;
    return percent < 2 ? FV_MADE_VALID : percent < 4 ? FV_MADE_TEST : FV_MADE_TRAIN;
}

const char *fv_made_part_name(fv_made_part part)
{
    static const char *const names[FV_MADE_PARTS] = {"train", "valid", "test"};
    return (unsigned)part < FV_MADE_PARTS ? names[part] : "";
}

/* ---- writing ----------------------------------------------------------------------- */

void fv_made_file_name(char out[FV_MADE_NAME], fv_made_part part, const char *ending)
{
    snprintf(out, FV_MADE_NAME, "%s.%s", fv_made_part_name(part), ending);
}

static fv_status append_line(fv_ctx *ctx, fv_text *file, fv_string line)
{
    FV_TRY(fv_text_append(ctx, file, line.text, line.bytes));
    return fv_text_append(ctx, file, "\n", 1);
}

fv_status fv_made_put(fv_made_sink *sink, fv_made_part part, fv_string source, fv_string target)
{
    FV_RETURN_IF(fv_cancelled(sink->ctx), sink->ctx, FV_ERR_CANCELLED, "interrupted");
    FV_TRY(append_line(sink->ctx, &sink->files[part][FV_MADE_SOURCE], source));
    FV_TRY(append_line(sink->ctx, &sink->files[part][FV_MADE_TARGET], target));
    sink->report.pairs[part]++;
    return FV_OK;
}

static void write_text(fv_json_writer *w, const char *key, const char *text)
{
    fv_json_key(w, key);
    fv_json_string(w, text);
}

static void write_int(fv_json_writer *w, const char *key, int64_t value)
{
    fv_json_key(w, key);
    fv_json_int(w, value);
}

static void write_origin(fv_json_writer *w, const fv_made_set *set, const fv_made_config *cfg)
{
    const fv_dataset *from = set->from ? fv_dataset_find(set->from) : NULL;
    write_text(w, "name", set->name);
    write_text(w, "about", set->about);
    write_text(w, "source", set->source);
    write_text(w, "target", set->target);
    if (from) {
        write_text(w, "from", from->name);
        write_text(w, "licence", from->licence);
        write_text(w, "origin", from->source);
    } else {
        char seed[24];
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)cfg->seed);
        write_text(w, "seed", seed);
        write_int(w, "length", cfg->length);
        write_int(w, "shortest", cfg->shortest);
    }
}

/* Writes a file and its entry in the manifest. */
static fv_status write_file(const fv_made_sink *sink, const char *folder, const char *name,
                            const fv_text *text, int64_t lines, fv_json_writer *w)
{
    char path[FV_PATH_BYTES], digits[FV_SHA256_TEXT];
    FV_TRY(fv_path_join(sink->ctx, path, folder, name));
    FV_TRY(fv_file_write_text(sink->ctx, path, text->data, text->bytes));
    fv_sha256 sum;
    fv_sha256_init(&sum);
    fv_sha256_add(&sum, text->data, text->bytes);
    fv_sha256_text(&sum, digits);
    fv_json_open(w, '{');
    write_text(w, "file", name);
    write_text(w, "sha256", digits);
    write_int(w, "lines", lines);
    fv_json_close(w, '}');
    return FV_OK;
}

static fv_status write_all(const fv_made_sink *sink, const fv_made_set *set, const char *folder,
                           fv_json_writer *w)
{
    fv_json_open(w, '{');
    write_origin(w, set, sink->cfg);
    fv_json_key(w, "files");
    fv_json_open(w, '[');
    for (int part = 0; part < FV_MADE_PARTS; part++)
        for (int side = 0; side < FV_MADE_SIDES; side++) {
            char name[FV_MADE_NAME];
            fv_made_file_name(name, (fv_made_part)part,
                              side == FV_MADE_SOURCE ? set->source : set->target);
            FV_TRY(write_file(sink, folder, name, &sink->files[part][side],
                              sink->report.pairs[part], w));
        }
    fv_json_close(w, ']');
    fv_json_close(w, '}');
    FV_TRY(fv_json_end(w));
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(sink->ctx, path, folder, FV_MADE_MANIFEST));
    return fv_file_write_text(sink->ctx, path, w->text, w->bytes);
}

static fv_status check_config(fv_ctx *ctx, const fv_made_set *set, const fv_made_config *cfg)
{
    FV_RETURN_IF(set->from && !cfg->data, ctx, FV_ERR_ARGUMENT,
                 "%s is made from %s: expected the folder of the public sets", set->name,
                 set->from);
    FV_RETURN_IF(
        cfg->pairs < 1 || cfg->pairs > 10000000 || cfg->held_out < 0 || cfg->held_out > 1000000 ||
            cfg->length < 1 || cfg->length > FV_MADE_LENGTH,
        ctx, FV_ERR_ARGUMENT,
        "%s: expected 1 to 10000000 pairs, up to 1000000 held out and a length of 1 to %d, got "
        "%lld, %lld and %lld",
        set->name, (int)FV_MADE_LENGTH, (long long)cfg->pairs, (long long)cfg->held_out,
        (long long)cfg->length);
    FV_RETURN_IF(cfg->shortest < 1 || cfg->shortest > cfg->length, ctx, FV_ERR_ARGUMENT,
                 "%s: expected a shortest length of 1 to %lld, got %lld", set->name,
                 (long long)cfg->length, (long long)cfg->shortest);
    return FV_OK;
}

fv_status fv_made_set_write(fv_ctx *ctx, const fv_made_set *set, const fv_made_config *cfg,
                            const char *folder, fv_made_report *report)
{
    fv_made_config own;
    fv_made_config_init(&own, sizeof own);
    FV_RETURN_IF(cfg && !fv_config_copy(&own, sizeof own, cfg), ctx, FV_ERR_ARGUMENT,
                 "data set: the config is not initialised");
    FV_TRY(check_config(ctx, set, &own));
    fv_made_sink sink = {.ctx = ctx, .cfg = &own};
    fv_json_writer w;
    fv_json_begin(&w, ctx);
    fv_status status = FV_ERR_ARGUMENT;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (&sets[i].set == set) status = sets[i].make(&sink);
    if (status == FV_OK) status = write_all(&sink, set, folder, &w);
    fv_json_free(&w);
    for (int part = 0; part < FV_MADE_PARTS; part++)
        for (int side = 0; side < FV_MADE_SIDES; side++)
            fv_text_free(ctx, &sink.files[part][side]);
    if (status == FV_OK && report) *report = sink.report;
    return status;
}
