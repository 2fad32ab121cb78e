/*
 * fovea/datasets.h: data sets by name: what public ones there are and whether a copy is whole, sets
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
 * by h, which shuffles them for good. (Dates are split by calendar date, fovea/dates.h.)
 */
#ifndef FOVEA_DATASETS_H
#define FOVEA_DATASETS_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- public sets -------------------------------------------------------------------- */

typedef struct fv_dataset_file {
    const char *path;   /* in the folder that holds all sets: "multi30k/val.de.gz" */
    const char *sha256; /* of the file as it lies there, 64 hex digits; NULL: not known */
    int64_t lines;      /* of the text in it, unpacked; -1: it is not text, -2: not known */
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
 * lines that are not UTF-8; for a made set also that its two sides have equally many lines and that
 * no source is in two parts. All files are looked at; the first failure is returned. `observe` may
 * be NULL. Fails: FORMAT (damaged), IO (absent), LIMIT, UNSUPPORTED (packed, in a build that cannot
 * unpack), MEMORY, CANCELLED.
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

/* The part of a source by the rule above. */
FV_API fv_made_part fv_made_part_of(const char *source, size_t bytes);

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
    int64_t length;   /* most symbols of a sequence, up to 1,000 [10] */
    uint64_t seed;    /* [1] */
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

#ifdef __cplusplus
}
#endif
#endif
