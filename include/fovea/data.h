/*
 * fovea/data.h: data sets by name: what public ones there are and whether a copy is whole, sets
 * that are made without any data, and parallel sets made from public ones.
 *
 *     const fv_made_set *set = fv_made_set_find("tatoeba-en-fr");
 *     fv_made_config cfg;
 *     fv_made_config_init(&cfg, sizeof cfg);
 *     cfg.data = getenv("FOVEA_DATA");          // the folder of the public sets
 *     fv_made_report report;
 *     s = fv_made_set_write(ctx, set, &cfg, "sets/tatoeba-en-fr", &report); // it exists
 *     s = fv_made_set_check(ctx, "sets/tatoeba-en-fr", print_file, NULL);
 *
 * A made set is a folder with two files for each part, "train.en" and "train.fr", "valid.en", ...,
 * "test.fr", line by line source and target, and dataset.json with their checksums, line counts and
 * what they were made from. Each file is replaced in one step, dataset.json last.
 *
 * The parts of a set share no source. Which part a source belongs to depends on its words alone:
 * let key be its bytes without ASCII punctuation and blanks, ASCII letters lower-cased, and h the
 * first eight bytes of SHA-256(key) as a big-endian number. Then h mod 100 is 0 or 1 for `valid`,
 * 2 or 3 for `test`, and more for `train`. "Go!" and "go." are thus in one part. Lines are ordered
 * by h, which shuffles them for good. (Dates are split by calendar date, see below.)
 */
#ifndef FOVEA_DATA_H
#define FOVEA_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "fovea/context.h"
#include "fovea/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- public sets -------------------------------------------------------------------- */

typedef struct fv_dataset_file {
    const char *path;   /* in the folder that holds all sets: "multi30k/val.de.gz" */
    const char *sha256; /* of the file as stored, 64 hex digits; NULL: not known */
    int64_t lines;      /* of the text in it, decompressed; -1: it is not text, -2: not known */
} fv_dataset_file;

typedef struct fv_dataset {
    const char *name, *about, *licence;
    const char *source; /* where it comes from */
    const fv_dataset_file *files;
    size_t file_count;
} fv_dataset;

/* NULL past the last, or without such a name. */
FV_API const fv_dataset *fv_dataset_at(size_t i);
FV_API const fv_dataset *fv_dataset_find(const char *name);
/* How many of the set's files are under the folder `data`. */
FV_API size_t fv_dataset_present(fv_ctx *ctx, const fv_dataset *set, const char *data);

/* ---- checking ------------------------------------------------------------------------- */

/* A file that was looked at. */
typedef struct fv_dataset_finding {
    const char *path;
    fv_status status;    /* FV_OK: whole */
    const char *message; /* what is wrong with it; "" */
    char sha256[65];
    int64_t lines; /* -1: not text, or not read to the end */
} fv_dataset_finding;

/* Called for each file; the texts live for the call. */
typedef void (*fv_dataset_observer)(void *user, const fv_dataset_finding *finding);

/*
 * Reads every file of a public set, or of a made one, or a single file: checksums, line counts,
 * lines that are not UTF-8; for a made set also that its two sides have the same number of lines
 * and that no source is in two parts. All files are looked at; the first failure is returned.
 * `observe` may be NULL. Fails: FORMAT (damaged), IO (absent), LIMIT, UNSUPPORTED (compressed, in a
 * build that cannot decompress), MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_dataset_check(fv_ctx *ctx, const fv_dataset *set, const char *data,
                                              fv_dataset_observer observe, void *user);
FV_API FV_MUST_USE fv_status fv_made_set_check(fv_ctx *ctx, const char *folder,
                                               fv_dataset_observer observe, void *user);
FV_API FV_MUST_USE fv_status fv_text_file_check(fv_ctx *ctx, const char *path,
                                                fv_dataset_observer observe, void *user);

/* ---- made sets -------------------------------------------------------------------------- */

typedef enum fv_made_part {
    FV_MADE_TRAIN,
    FV_MADE_VALID,
    FV_MADE_TEST,
    FV_MADE_PARTS
} fv_made_part;

FV_API const char *fv_made_part_name(fv_made_part part); /* "train", "valid", "test" */

typedef struct fv_made_set {
    const char *name, *about;
    const char *from;            /* the public set it is made from; NULL: from nothing */
    const char *source, *target; /* endings of its files */
} fv_made_set;

FV_API const fv_made_set *fv_made_set_at(size_t i);
FV_API const fv_made_set *fv_made_set_find(const char *name);

typedef struct fv_made_config {
    size_t struct_size;
    const char *data; /* folder of the public sets; needed where `from` is set [NULL] */
    /* of sets made from nothing */
    int64_t pairs;    /* to learn from [10,000] */
    int64_t held_out; /* in valid and in test, each [1,000] */
    int64_t length;   /* most symbols of a sequence, up to 1,000; of trees their depth [10] */
    uint64_t seed;    /* [1] */
    int64_t shortest; /* least symbols, or depth, up to `length` [1] */
} fv_made_config;

FV_API void fv_made_config_init(fv_made_config *cfg, size_t struct_size);

typedef struct fv_made_report {
    int64_t pairs[FV_MADE_PARTS];
    int64_t repeated; /* left out: the same pair again, or a held-out source's second target */
} fv_made_report;

/*
 * Writes a set into a folder that exists. A held-out source is kept once, with its first target.
 * cfg and report may be NULL. Fails: ARGUMENT (bounds; `data` is missing; too few different
 * sequences of that length), IO, FORMAT (the public set is damaged), UNSUPPORTED, LIMIT, MEMORY,
 * CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_made_set_write(fv_ctx *ctx, const fv_made_set *set,
                                               const fv_made_config *cfg, const char *folder,
                                               fv_made_report *report);

/* ==== corpus ======================================================================== */

/*
 * corpus: text files line by line, plain or compressed.
 *
 *     fv_lines *lines = NULL;
 *     s = fv_lines_open(ctx, "train.en.gz", FV_LINES_POLICY_REJECT, &lines);
 *     for (fv_line line; (s = fv_lines_next(lines, &line)) == FV_OK && line.text;)
 *         use(line.text, line.bytes);
 *     fv_lines_close(&lines);
 *
 * gzip and xz files are recognised by their first bytes, not by name, and decompressed while they
 * are read. This needs zlib or liblzma (fv_feature_get); builds without them fail with
 * FV_ERR_UNSUPPORTED. Memory use depends on the longest line, not on the size of the file.
 *
 * A line ends at "\n" or "\r\n", which are not part of it; the last line may end with the file.
 * Lines are UTF-8 without NUL bytes. The policy decides whether any other line is an error, with
 * file, line and byte, or is returned marked as invalid.
 */

typedef struct fv_lines fv_lines;

/* What to do with a line that is not valid text. */
typedef enum fv_lines_policy {
    FV_LINES_POLICY_REJECT, /* FV_ERR_FORMAT */
    FV_LINES_POLICY_MARK    /* return it with `valid` false */
} fv_lines_policy;

typedef struct fv_line {
    const char *text; /* NUL-terminated, valid until the next call; NULL at the end of the file */
    size_t bytes;
    uint64_t number; /* from 1 */
    bool valid;      /* UTF-8 without NUL bytes */
} fv_line;

/* Fails: IO, LIMIT (fv_limits.total_bytes), UNSUPPORTED, MEMORY, ARGUMENT. */
FV_API FV_MUST_USE fv_status fv_lines_open(fv_ctx *ctx, const char *path, fv_lines_policy policy,
                                           fv_lines **out);
/*
 * Lines of a text in memory, plain or compressed. The text must outlive `lines`; messages use
 * `name`.
 *
 *     const char text[] = "a line\nanother\n";
 *     s = fv_lines_open_memory(ctx, "notes", text, strlen(text), FV_LINES_POLICY_MARK, &lines);
 *     for (fv_line line; (s = fv_lines_next(lines, &line)) == FV_OK && line.text;)
 *         if (!line.valid)
 *             printf("%s:%" PRIu64 ": not UTF-8\n", fv_lines_name(lines), line.number);
 */
FV_API FV_MUST_USE fv_status fv_lines_open_memory(fv_ctx *ctx, const char *name, const void *data,
                                                  size_t bytes, fv_lines_policy policy,
                                                  fv_lines **out);
/*
 * Lines of a stream, such as a pipe, plain or compressed. `read` is called whenever the buffered
 * bytes hold no complete line. It may block; it writes up to `capacity` > 0 bytes to `out` and
 * their number to *got, 0 at the end. fv_lines_next returns its errors, and so does this call,
 * which reads the first bytes.
 */
typedef fv_status (*fv_lines_reader)(void *user, void *out, size_t capacity, size_t *got);
FV_API FV_MUST_USE fv_status fv_lines_open_stream(fv_ctx *ctx, const char *name,
                                                  fv_lines_reader read, void *user,
                                                  fv_lines_policy policy, fv_lines **out);
/* True if the next line is already buffered, so that fv_lines_next will not read. */
FV_API bool fv_lines_is_ready(const fv_lines *lines);
/* Accepts NULL; sets *lines to NULL. */
FV_API void fv_lines_close(fv_lines **lines);

/* Fails: FORMAT (invalid text or compressed data), IO, LIMIT (fv_limits.line_bytes; total_bytes for
 * the decompressed file), MEMORY. After a failure, only close may be called. */
FV_API FV_MUST_USE fv_status fv_lines_next(fv_lines *lines, fv_line *out);

/*
 * Reads the string member `key` of a JSON object, such as a line of a .jsonl file; messages use
 * `name`. *found is false if the object has no such key. Fails: FORMAT (invalid JSON, not an
 * object, not a string), LIMIT, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_json_get_string(fv_ctx *ctx, const char *name, const char *json,
                                                size_t bytes, const char *key, fv_text *out,
                                                bool *found);

/* The name passed to open. */
FV_API const char *fv_lines_name(const fv_lines *lines);

/* ==== tables ======================================================================== */

/*
 * tables: the rows of a user's file, whatever its format: values separated by tabs, semicolons or
 * commas, with or without a line of column names, JSON Lines, or plain text. The format is found
 * from the file's first rows; its name only decides between plain text and a table of one column.
 *
 *     fv_table *table = NULL;
 *     s = fv_table_open(ctx, "own.tsv", FV_TABLE_HEADER_AUTO, &table);
 *     const fv_table_info *info = fv_table_get_info(table);
 *     for (fv_table_row row; (s = fv_table_next(table, &row)) == FV_OK && row.fields;)
 *         if (!row.problem) use(row.fields[0].text, row.fields[info->column_count - 1].bytes);
 *     fv_table_close(&table);
 *
 * Quotes: as in CSV, for commas and semicolons; with tabs they are ordinary characters. JSON
 * objects have a column for each member that is a string, a number or a truth value; a member of an
 * object in it is named "outer.inner". Compressed files are read like lines (above).
 */

typedef enum fv_table_format {
    FV_TABLE_TEXT, /* one column, "text"; a row is a line, empty ones too */
    FV_TABLE_SEPARATED,
    FV_TABLE_JSON_LINES
} fv_table_format;

typedef enum fv_table_header {
    FV_TABLE_HEADER_AUTO, /* found from the first rows */
    FV_TABLE_HEADER_YES,
    FV_TABLE_HEADER_NO
} fv_table_header;

enum { FV_TABLE_COLUMNS = 64, FV_TABLE_NAME = 64 };

typedef struct fv_table_info {
    fv_table_format format;
    char separator;  /* of FV_TABLE_SEPARATED, else 0 */
    bool has_header; /* without one columns are named "1", "2", ... */
    int column_count;
    char column_names[FV_TABLE_COLUMNS][FV_TABLE_NAME];
} fv_table_info;

typedef struct fv_table_row {
    const fv_string *fields; /* column_count of them, valid until the next call; NULL at the end */
    uint64_t line;           /* where the row begins, from 1 */
    const char *problem;     /* why the row cannot be used, or NULL; its fields are then empty */
} fv_table_row;

typedef struct fv_table fv_table;

/* Fails: IO, FORMAT (no row), LIMIT, UNSUPPORTED (a JSON array; compressed, in a build that cannot
 * decompress), MEMORY. */
FV_API FV_MUST_USE fv_status fv_table_open(fv_ctx *ctx, const char *path, fv_table_header header,
                                           fv_table **out);
/* Accepts NULL; sets *table to NULL. */
FV_API void fv_table_close(fv_table **table);
FV_API const fv_table_info *fv_table_get_info(const fv_table *table);
/* A row of the wrong number of fields, that is not UTF-8 or not JSON has a `problem`. Fails: FORMAT
 * (a quote that is never closed), IO, LIMIT, MEMORY. After a failure, only close may be called. */
FV_API FV_MUST_USE fv_status fv_table_next(fv_table *table, fv_table_row *row);
/* Starts again before the first row. */
FV_API FV_MUST_USE fv_status fv_table_rewind(fv_table *table);

/* ==== dates ========================================================================= */

/*
 * dates: written dates and their ISO form, made without any data: the smallest real
 * translation task there is. English, German, French and Spanish, long and short.
 *
 *     fv_date_pair p;
 *     fv_date_pair_make(seed, 17, FV_DATES_TRAIN, &p);
 *     printf("%s -> %s\n", p.written, p.iso);       // "le 14 juillet 1989 -> 1989-07-14"
 *
 * A pair is a function of (seed, number). Each format fixes the order of its fields; two-digit
 * years mean 1930 to 2029, others run from 1900 to 2099. Training and test are split by calendar
 * date, whatever the format: no date of the one occurs in the other.
 */

typedef enum fv_dates_part { FV_DATES_TRAIN, FV_DATES_TEST } fv_dates_part;

/* A field in the written form: code points begin .. end - 1. */
typedef struct fv_date_field {
    int begin, end;
} fv_date_field;

enum { FV_DATE_WRITTEN = 80, FV_DATE_ISO = 11, FV_DATE_FORMATS = 18 };

typedef struct fv_date_pair {
    char written[FV_DATE_WRITTEN]; /* UTF-8 */
    char iso[FV_DATE_ISO];         /* "yyyy-mm-dd" */
    int year, month, day;
    int format; /* 0 .. FV_DATE_FORMATS - 1 */
    fv_date_field year_at, month_at, day_at;
    int year_digits; /* 2 or 4, as written */
} fv_date_pair;

FV_API void fv_date_pair_make(uint64_t seed, uint64_t number, fv_dates_part part,
                              fv_date_pair *out);

/* ==== bit sequences ================================================================= */

/*
 * bit sequences: the tasks of the Neural Turing Machine (Graves, Wayne, Danihelka 2014), made
 * without any data. A sequence of vectors goes in; the answers come after it.
 *
 *     fv_bits_config cfg = {.task = "copy", .length = 5};
 *     fv_bits_example e;
 *     s = fv_bits_make(ctx, &cfg, FV_BITS_TRAIN, 17, &e);
 *     float first = e.inputs[0];                    // [e.steps][e.input_width]
 *     fv_bits_free(ctx, &e);
 *
 * | task | inputs | answers |
 * |---|---|---|
 * | copy | `length` vectors of bits, an end mark, blanks | the vectors |
 * | repeat-copy | the same, and how often (normalised) | the vectors so often, an end mark |
 * | recall | `length` items of three vectors, one of them again | the item after it |
 * | ngrams | `length` bits, each drawn by the five before it from a random table | the next bit |
 * | sort | `length` vectors with a priority each | the first four fifths by priority |
 */

enum { FV_BITS_LONGEST = 4096 }; /* steps of a sequence */

/* Numbers of an example's draws are (seed, part, number). */
typedef enum fv_bits_part { FV_BITS_TRAIN, FV_BITS_VALID, FV_BITS_TEST } fv_bits_part;

typedef struct fv_bits_config {
    const char *task;
    int64_t length;  /* vectors, items (recall, at least 2) or bits (ngrams) */
    int64_t width;   /* bits of a vector; 0: 8, for recall 6; ngrams has 1 */
    int64_t repeats; /* repeat-copy: the most; 0: 10 */
    uint64_t seed;
    const float *given; /* [length][width]: the vectors of copy; NULL: drawn */
} fv_bits_config;

typedef struct fv_bits_example {
    int64_t steps, input_width, answers, output_width;
    float *inputs;       /* [steps][input_width] */
    float *targets;      /* [answers][output_width]: 0 or 1; the answers to the last steps */
    double optimal_bits; /* of the best possible predictor of this sequence: 0 but for ngrams */
    size_t bytes;
} fv_bits_example;

/* The i-th task's name; NULL past the last. */
FV_API const char *fv_bits_task_name(int i);
/* Widths of inputs and outputs of a task. Fails: ARGUMENT (no such task, a width out of range). */
FV_API FV_MUST_USE fv_status fv_bits_widths(fv_ctx *ctx, const fv_bits_config *cfg, int64_t *input,
                                            int64_t *output);
/* Fails: ARGUMENT (as above; a length out of range or with more than FV_BITS_LONGEST steps),
 * MEMORY. */
FV_API FV_MUST_USE fv_status fv_bits_make(fv_ctx *ctx, const fv_bits_config *cfg, fv_bits_part part,
                                          uint64_t number, fv_bits_example *out);
FV_API void fv_bits_free(fv_ctx *ctx, fv_bits_example *e); /* a zeroed one is fine */

#ifdef __cplusplus
}
#endif
#endif
