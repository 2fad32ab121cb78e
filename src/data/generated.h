/* Examples that are generated from random numbers: for the sets that 'fovea data make' writes, and
 * for training without any files (data.made). */
#ifndef FV_DATA_GENERATED_H
#define FV_DATA_GENERATED_H

#include "data/datasets.h"

enum { FV_DRAWN_BYTES = 2 * FV_MADE_LENGTH };

typedef struct fv_drawn {
    char source[FV_DRAWN_BYTES], target[FV_DRAWN_BYTES];
    const char *label; /* class of the source, or of both; NULL: the set has none */
    fv_made_part part;
} fv_drawn;

/* Example `number` of a set with cfg's seed and length. */
typedef void (*fv_draw_fn)(const fv_made_config *cfg, uint64_t number, fv_drawn *out);
void fv_draw_date(const fv_made_config *cfg, uint64_t number, fv_drawn *out);
void fv_draw_copy(const fv_made_config *cfg, uint64_t number, fv_drawn *out);
void fv_draw_reverse(const fv_made_config *cfg, uint64_t number, fv_drawn *out);
void fv_draw_sort(const fv_made_config *cfg, uint64_t number, fv_drawn *out);
void fv_draw_sentence(const fv_made_config *cfg, uint64_t number, fv_drawn *out);
void fv_draw_tree(const fv_made_config *cfg, uint64_t number, fv_drawn *out);
void fv_draw_entailment(const fv_made_config *cfg, uint64_t number, fv_drawn *out);

/* Draws until each part of the sink is full. Fails: ARGUMENT (too few different sources), MEMORY,
 * CANCELLED. */
fv_status fv_made_generate(fv_made_sink *sink, fv_draw_fn draw);

/* ---- training without files ----------------------------------------------------------------- */

/* A choice of data.made. */
typedef struct fv_generated_set {
    const char *name;
    bool has_labels;
    bool has_pairs; /* the class is that of source and target together */
    int64_t length; /* of fv_made_config */
    /* Example `number` of the training or of the held-out part: a function of its arguments. */
    void (*example)(const struct fv_generated_set *set, uint64_t seed, uint64_t number,
                    bool held_out, fv_drawn *out);
    fv_draw_fn draw;
} fv_generated_set;

/* Set number i; NULL past the last. The choices of data.made are "none", then their names. */
const fv_generated_set *fv_generated_set_at(size_t i);
/* NULL: there is none of that name. */
const fv_generated_set *fv_generated_set_find(const char *name);

#endif
