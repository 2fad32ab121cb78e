/*
 * fovea/shots.h: episodes of few-shot learning: a few examples of each of some classes of
 * characters, and drawings to classify after them.
 *
 *     fv_shots_config cfg = {.source = "omniglot", .folder = "data/omniglot", .subset = 1};
 *     fv_shots *shots = NULL;
 *     s = fv_shots_open(ctx, &cfg, &shots);
 *     fv_shots_rule rule = {.ways = 5, .shots = 1, .queries = 3, .seed = 1};
 *     fv_shots_episode e;
 *     s = fv_shots_episode_make(shots, &rule, 17, &e);     // e.pixels [5 + 3][28][28]
 *     bool found = fv_shots_nearest(&e, 0) == e.labels[e.examples];
 *     fv_shots_episode_free(ctx, &e);
 *     int64_t right = 0;                                   // of the one-shot runs' queries
 *     for (int64_t run = 0; run < fv_shots_facts_of(shots).runs && s == FV_OK; run++) {
 *         s = fv_shots_run_make(shots, 1, run, 0, &e);
 *         for (int64_t q = 0; q < e.queries; q++)
 *             right += fv_shots_nearest(&e, q) == e.labels[e.examples + q];
 *         fv_shots_episode_free(ctx, &e);
 *     }
 *     fv_shots_close(&shots);
 *
 * A class is a character in one of four rotations. Characters belong to alphabets and to one part
 * each; the drawings of the one-shot runs belong to no part. An episode is a function of (seed,
 * part, number).
 */
#ifndef FOVEA_SHOTS_H
#define FOVEA_SHOTS_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_shots_part {
    FV_SHOTS_TRAIN,
    FV_SHOTS_VALID,
    FV_SHOTS_TEST,
    FV_SHOTS_PARTS
} fv_shots_part;

enum {
    FV_SHOTS_SIDE = 28,      /* pixels of a drawing's side */
    FV_SHOTS_ROTATIONS = 4,  /* classes of a character */
    FV_SHOTS_RUN_WAYS = 20,  /* classes of a one-shot run, and its queries */
    FV_SHOTS_MOST_WAYS = 64, /* classes of an episode */
    FV_SHOTS_MOST = 1024     /* drawings of an episode */
};

/*
 * Where characters come from.
 *
 * "drawn": 256 characters in 16 alphabets, made of two to four random strokes; every drawing moves
 * them a little. Of each alphabet, the 8th and the 16th are for validation, the 4th and the 12th
 * for the test.
 *
 * "omniglot": the files background8-images-idx3-ubyte, background8.tsv, oneshot-images-idx3-ubyte
 * and oneshot.tsv, plain or with the ending .xz, in `folder`: eight alphabets of the background
 * sets "small 1" and "small 2", and the one-shot classification task of 20 runs. Every tenth
 * character of an alphabet is for validation. subset 1 or 2 learns from the five alphabets of that
 * set alone, and the alphabets that only the other one has are the test; with subset 0 it is
 * characters 5, 15, ... of every alphabet.
 */
typedef struct fv_shots_config {
    const char *source; /* "drawn" or "omniglot" */
    const char *folder; /* of Omniglot's files */
    int64_t subset;     /* omniglot: 0 (all), 1 or 2 */
    uint64_t seed;      /* of drawn characters */
} fv_shots_config;

typedef struct fv_shots_facts {
    int64_t characters[FV_SHOTS_PARTS];
    int64_t drawings; /* of each character */
    int64_t runs;     /* one-shot runs */
} fv_shots_facts;

typedef struct fv_shots fv_shots;

/* Fails: ARGUMENT (no such source or subset, no folder), IO, FORMAT, LIMIT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_shots_open(fv_ctx *ctx, const fv_shots_config *cfg, fv_shots **out);
FV_API void fv_shots_close(fv_shots **shots); /* NULL is fine; before the context */
FV_API fv_shots_facts fv_shots_facts_of(const fv_shots *shots);

/* What an episode is drawn by. */
typedef struct fv_shots_rule {
    int64_t ways, shots, queries; /* classes, examples of each, drawings to classify */
    fv_shots_part part;
    uint64_t seed;
    /* Of fewer classes than `ways` each has more examples: as many altogether, their numbers equal
     * or one apart. An easier question for the same model. 0: `ways` */
    int64_t classes;
    /* The share of episodes that are like a one-shot run: classes of one alphabet in one rotation
     * (in all of them where the part has fewer than `ways` characters of it), the examples by
     * as many drawers as a class has, each query by another. Other episodes mix all of the part. */
    double within;
    /* Each drawing is moved by up to `shift` pixels along each axis, and rotated by up to `warp`
     * radians, scaled and sheared by up to `warp` / 2. 0: not at all. */
    double shift, warp;
} fv_shots_rule;

typedef struct fv_shots_episode {
    int64_t ways, examples, queries;
    float *pixels;    /* [examples + queries][side][side]; ink is 1 */
    int64_t *labels;  /* [examples + queries], 0 .. ways - 1: classes are numbered at random */
    int64_t *classes; /* [ways]: what labels stand for: four times the number of a character in its
                         set plus the quarter turns, -1: nothing; in a one-shot run the training
                         item from 0 */
    size_t bytes;
} fv_shots_episode;

/* Examples come in random order. Queries are of random classes, never drawings that are examples.
 * Fails: ARGUMENT (a rule out of range, more classes than the part has), MEMORY. */
FV_API FV_MUST_USE fv_status fv_shots_episode_make(const fv_shots *shots, const fv_shots_rule *rule,
                                                   uint64_t number, fv_shots_episode *out);
/* One-shot run number `run`, its examples in an order and with labels that are drawn by (seed,
 * run, order): 20 examples of one alphabet by one drawer, 20 queries by another. Fails: ARGUMENT
 * (no such run), MEMORY. */
FV_API FV_MUST_USE fv_status fv_shots_run_make(const fv_shots *shots, uint64_t seed, int64_t run,
                                               uint64_t order, fv_shots_episode *out);
/* A zeroed one is fine. */
FV_API void fv_shots_episode_free(fv_ctx *ctx, fv_shots_episode *episode);

/* The label of the class whose mean drawing has the least squared distance to a query's pixels:
 * with one shot, that of the nearest neighbour. What a model has to beat. */
FV_API int64_t fv_shots_nearest(const fv_shots_episode *episode, int64_t query);

#ifdef __cplusplus
}
#endif
#endif
