/*
 * 'fovea look' at a Transformer: the tokens (look_words.c), what is taken from each site of
 * attention during one pass (look_take.c), and the ways to show it: pictures and arrays
 * (look_views.c) and tables (look_tables.c). look_model.c puts them together.
 *
 * Memory is bounded by what is shown, not by tokens x tokens: maps are met in bands of rows and
 * made small on the way, unless --full asks for every value.
 */
#ifndef FOVEA_CLI_LOOK_MODEL_H
#define FOVEA_CLI_LOOK_MODEL_H

#include <stdio.h>

#include "fovea/transformer.h"
#include "options.h"

/* ---- tokens -------------------------------------------------------------------------------- */

/* The tokens of one side. */
typedef struct look_words {
    int64_t count;
    int64_t *ids;
    char **labels; /* as they stand in the text */
} look_words;

/* Some tokens, or rows or columns, that follow each other. */
typedef struct look_range {
    int64_t first, count;
} look_range;

/* Where `word` stands among the words, as runs of tokens; at most `room` of its places. Blanks
 * before a token do not count: " animal" is the word "animal". Returns how many there are. */
int look_words_find(const look_words *words, const char *word, look_range *places, int room);

void look_words_free(look_words *words);

/* ---- what is seen -------------------------------------------------------------------------- */

typedef enum look_mode {
    LOOK_ARRAYS,  /* every weight, for a file of numbers */
    LOOK_HEADS,   /* all heads of the layers, made small */
    LOOK_MAP,     /* one head, or the mean of a layer's */
    LOOK_LINKS,   /* heads of one layer as lines between words */
    LOOK_ROLLOUT, /* what reaches the last layer from each token */
    LOOK_TOP,     /* the strongest of each row */
    LOOK_ENTROPY, /* a number a head */
    LOOK_WORD     /* where one word looks, in every head */
} look_mode;

enum { LOOK_PLACES = 16 };

/* One site. `values` by mode: HEADS, LINKS, MAP [heads][rows][cols] as shown; TOP [heads][rows][k];
 * ENTROPY [heads]; WORD [heads][places][cols]. */
typedef struct look_site {
    char name[48];
    int64_t heads, rows, cols;
    int64_t row_part, col_part; /* how many weights one value stands for, each way */
    look_range shown_rows, shown_cols;
    float *values;
    int64_t *index;    /* TOP: keys, [heads][rows][k] */
    fv_tensor *tensor; /* ARRAYS */
} look_site;

typedef struct look_work {
    const cli_call *call;
    fv_ctx *ctx;
    const fv_transformer *t;
    look_mode mode;
    bool arrays, full;
    int64_t layer, head; /* -1: not chosen */
    int64_t layers;      /* sites that will be seen, but for ARRAYS */
    bool cross;
    look_range rows, cols;     /* count -1: all */
    look_words source, target; /* target: of a second side, else empty */
    look_range from[LOOK_PLACES], to[LOOK_PLACES];
    int from_count, to_count;
    look_site *sites;
    int count, room;
    uint64_t array_bytes;
    float *rolled; /* ROLLOUT: [tokens][tokens] */
    bool said;     /* what is wrong was told already */
} look_work;

/* Who looks, and at whom, at the chosen sites. */
const look_words *look_rows(const look_work *w);
const look_words *look_cols(const look_work *w);

/* The tokens of the text, and of what the model answers or is said to answer. */
fv_status look_read_texts(look_work *w, fv_model *model);

/* Takes what the mode wants of a site; for fv_capture.take, `user` is the work. */
fv_status look_take(void *user, fv_ctx *ctx, const fv_site_weights *site);
/* After the pass: the rollout becomes the values of one site. */
fv_status look_take_rollout(look_work *w);

/* Draws or prints what was seen; says what failed through the context. */
fv_status look_show(look_work *w);
fv_status look_print_entropy(const look_work *w, FILE *to);
fv_status look_print_top(const look_work *w, FILE *to);
fv_status look_print_word(const look_work *w, FILE *to);

/* The whole verb for an open Transformer; the exit code. */
int cli_look_model(const cli_call *call, fv_ctx *ctx, fv_model *model);

#endif
