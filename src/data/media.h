/*
 * Media sets: examples whose input is a picture or a recording, with a class or a text to predict.
 * Tasks that classify, describe, read or transcribe get them here, whether they are generated or
 * come from files.
 *
 *     fv_media_config cfg = {.name = "scenes", .seed = 1, .count = {20000, 500, 1000}};
 *     fv_media *set = NULL;
 *     s = fv_media_open(ctx, &cfg, &set);
 *     const fv_media_facts *facts = fv_media_facts_of(set);      // "pixels", 3 x 48 x 48
 *     fv_media_example e;
 *     s = fv_media_get(set, FV_MEDIA_TRAIN, 7, NULL, &e);        // e.values, e.text
 *     s = fv_media_text(set, FV_MEDIA_TRAIN, 8, &e);             // e.text alone, no picture
 *     fv_media_close(&set);
 *
 * A kind of set is one file with a constant table (fv_media_<name>) and one line in media.def.
 * An example is a function of (settings, part, number, draw): nothing depends on the order of
 * calls, so a run that resumes reads what an uninterrupted one would. No example of one part is in
 * another; a set states by what it keeps them apart (words, digits, speakers, emoji).
 */
#ifndef FV_DATA_MEDIA_H
#define FV_DATA_MEDIA_H

#include "base/ctx.h"
#include "fovea/image.h"

typedef enum fv_media_part {
    FV_MEDIA_TRAIN,
    FV_MEDIA_VALID,
    FV_MEDIA_TEST,
    FV_MEDIA_PARTS
} fv_media_part;

typedef struct fv_media_config {
    const char *name;              /* of the set: "scenes", "mnist", "recordings" */
    const char *folder;            /* of files; NULL or "": none */
    const char *list;              /* a TSV of files and their classes or texts; NULL or "": none */
    uint64_t seed;                 /* of generated examples and random splits */
    int64_t count[FV_MEDIA_PARTS]; /* examples; 0: all there are, or the set's default */
    int64_t size;                  /* of a picture's side; 0: the set's own */
    const char
        *variant;       /* a form that the set has ("strings", "official"); NULL or "": its first */
    fv_augment augment; /* how a draw changes a picture from files */
} fv_media_config;

/* What all examples of a set have in common. */
typedef struct fv_media_facts {
    const char *field; /* of a batch: "pixels" or "frames" */
    int rank;          /* of one entry: 3 for pictures, 1 for frames */
    int64_t shape[3];  /* channels, height, width; or the width of a frame */
    int64_t longest;   /* entries of a row at most; 1 for pictures */
    int64_t count[FV_MEDIA_PARTS];
    const char *const *labels; /* names of classes */
    int64_t label_count;       /* 0: there are none */
    bool has_text;             /* examples have a text to predict */
    bool has_questions;        /* examples ask something, and labels are the answers */
    const char *const *groups; /* names of kinds of questions, each a metric of its own */
    int group_count;           /* 0: there are none */
} fv_media_facts;

/* Where a word of the text is seen: in pixels from the left upper corner, or in frames with
 * y0 = y1 = 0; the end is not included. */
typedef struct fv_media_place {
    int word; /* of the text, from 0; a set says what counts as a word */
    float x0, y0, x1, y1;
} fv_media_place;

enum { FV_MEDIA_PLACES = 32, FV_MEDIA_TEXT = 512 };

typedef struct fv_media_example {
    const float *values; /* [length][shape], pictures in 0 .. 1; lives until the next call for this
                            set */
    int64_t length;
    int64_t label; /* -1: none */
    char text[FV_MEDIA_TEXT];
    char question[FV_MEDIA_TEXT]; /* "" where nothing is asked */
    int group;                    /* of the set's groups */
    int64_t picture; /* equal for questions about one picture, which follow each other */
    int places;
    fv_media_place place[FV_MEDIA_PLACES];
} fv_media_example;

/* Which random numbers change an example for training; keyed like all random numbers. */
typedef struct fv_media_draw {
    uint64_t seed, step, row;
} fv_media_draw;

typedef struct fv_media fv_media;

typedef struct fv_media_kind {
    const char *name, *summary;
    const char *variants; /* "digits|strings", the first is the default; NULL: one form */
    /* Fills facts, which point into *self. Fails: IO, FORMAT, LIMIT, MEMORY, ARGUMENT. *self is
     * closed even on failure. */
    fv_status (*open)(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts, void **self);
    /* draw NULL: as it is, for evaluation. part and number are in range; *out is zero but for
     * length 1, label -1 and the picture, which is `number`. */
    fv_status (*get)(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out);
    /* Fills in the text of *out, the same as get's, without making or reading the picture or
     * recording; NULL: the set has no texts. */
    fv_status (*text)(void *self, fv_media_part part, int64_t number, fv_media_example *out);
    void (*close)(void *self);
} fv_media_kind;

/* The i-th kind; NULL past the last. By name; NULL: there is none. */
const fv_media_kind *fv_media_kind_at(size_t i);
const fv_media_kind *fv_media_kind_find(const char *name);

/* Fails: ARGUMENT (no such set or variant; the message lists them), and what the kind fails with;
 * a file that cannot be read sets the context's sticky error, as other tensor functions do. */
fv_status fv_media_open(fv_ctx *ctx, const fv_media_config *cfg, fv_media **out);
void fv_media_close(fv_media **set); /* NULL is fine */
const fv_media_facts *fv_media_facts_of(const fv_media *set);
/* Fails: ARGUMENT (no such example), IO, FORMAT, MEMORY. */
fv_status fv_media_get(fv_media *set, fv_media_part part, int64_t number, const fv_media_draw *draw,
                       fv_media_example *out);
/* The text of an example without its values: no picture is drawn, no file is read. Other fields of
 * *out may or may not be set. "" if the set has no texts. Fails: as fv_media_get. */
fv_status fv_media_text(fv_media *set, fv_media_part part, int64_t number, fv_media_example *out);
const char *fv_media_part_name(fv_media_part part); /* "train", "valid", "test" */

/* ---- for kinds ------------------------------------------------------------------------------ */

/* Sets facts->count from cfg->count, or from `usual` where that is 0, for a kind that generates as
 * many examples as are asked for. Fails: ARGUMENT (a negative count). */
fv_status fv_media_choose_counts(fv_ctx *ctx, const fv_media_config *cfg,
                                 const int64_t usual[FV_MEDIA_PARTS], fv_media_facts *facts);

/* Sets facts->count from cfg->count: `available` where that is 0. Fails: ARGUMENT (more than there
 * are, or none at all). */
fv_status fv_media_set_counts(fv_ctx *ctx, const fv_media_config *cfg,
                              const int64_t available[FV_MEDIA_PARTS], fv_media_facts *facts);
/* The part of a file of a list, from its name alone: with h the hash of fv_media_hash, `valid` has
 * h mod 20 = 0 or 1, `test` 2 or 3. */
fv_media_part fv_media_part_of_name(const char *name);
/* SpecAugment of frames [frames][width] in place, with the draw's seed, step and row: two masks of
 * at most 10 frames and a fifth of them, two of at most 6 columns. draw NULL: leaves them. Fails:
 * ARGUMENT. */
fv_status fv_media_hide_bands(fv_ctx *ctx, const fv_media_draw *draw, int64_t frames, int64_t width,
                              float *values);
/* Changes a picture [channels][height][width] in place as fv_picture_augment does with the draw's
 * seed, step and row, which the context need not have; a crop is resized to the picture's size.
 * draw NULL: leaves it. Fails: ARGUMENT, SHAPE (a crop larger than the picture), MEMORY. */
fv_status fv_media_augment(fv_ctx *ctx, const fv_augment *how, const fv_media_draw *draw,
                           const int64_t shape[3], float *values);
/* The first eight bytes of SHA-256(name) as a big-endian number, by which names get their part. */
uint64_t fv_media_hash(const char *name);
/* The index of the config's variant among "a|b|c"; -1: there is none of that name. */
int fv_media_variant(const fv_media_config *cfg, const char *variants);

#endif
