/*
 * 'fovea look' at a Transformer: the tokens (look_words.c), what is captured at each attention site
 * during one pass (look_take.c), and how it is shown: pictures and arrays (look_views.c) and tables
 * (look_tables.c). look_model.c puts them together.
 *
 * Memory is bounded by what is shown, not by tokens x tokens: maps are computed in bands of rows
 * and reduced at once, unless --full asks for every value.
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
    char **labels; /* as in the text */
} look_words;

/* Some tokens, or rows or columns, that follow each other. */
typedef struct look_range {
    int64_t first, count;
} look_range;

/* The positions of `word` as ranges of tokens, at most `room` of them. Blanks before a token are
 * ignored: " animal" is the word "animal". Returns their number. */
int look_words_find(const look_words *words, const char *word, look_range *places, int room);

void look_words_free(look_words *words);

/* ---- captured weights ---------------------------------------------------------------------- */

typedef enum look_mode {
    LOOK_ARRAYS,  /* every weight, for a file of numbers */
    LOOK_HEADS,   /* all heads of the layers, reduced */
    LOOK_MAP,     /* one head, or the mean of a layer's */
    LOOK_LINKS,   /* heads of one layer as lines between words */
    LOOK_ROLLOUT, /* attention rollout */
    LOOK_TOP,     /* the largest weights of each row */
    LOOK_ENTROPY, /* one number per head */
    LOOK_WORD     /* weights of one word in every head */
} look_mode;

enum { LOOK_PLACES = 16 };

/* One site. `values` by mode: HEADS, LINKS, MAP [heads][rows][cols] as shown; TOP [heads][rows][k];
 * ENTROPY [heads]; WORD [heads][places][cols]. */
typedef struct look_site {
    char name[48];
    int64_t heads, rows, cols;
    int64_t row_part, col_part; /* size of the block of weights behind one value */
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
    int64_t layers;      /* number of captured sites; not for ARRAYS */
    bool cross;
    look_range rows, cols;     /* count -1: all */
    look_words source, target; /* target: of a second side, else empty */
    look_range from[LOOK_PLACES], to[LOOK_PLACES];
    int from_count, to_count;
    look_site *sites;
    int count, room;
    uint64_t array_bytes;
    float *rolled; /* ROLLOUT: [tokens][tokens] */
    bool reported; /* the error is already printed */
} look_work;

/* Queries and keys of the chosen sites. */
const look_words *look_rows(const look_work *w);
const look_words *look_cols(const look_work *w);

/* The tokens of the text, and of the model's output or of --target. */
fv_status look_read_texts(look_work *w, fv_model *model);

/* Keeps what the mode needs of a site; an fv_capture.take whose `user` is the look_work. */
fv_status look_take(void *user, fv_ctx *ctx, const fv_site_weights *site);
/* After the pass: the rollout becomes the values of one site. */
fv_status look_take_rollout(look_work *w);

/* Draws or prints the result; failures are in the context. */
fv_status look_show(look_work *w);
fv_status look_print_entropy(const look_work *w, FILE *to);
fv_status look_print_top(const look_work *w, FILE *to);
fv_status look_print_word(const look_work *w, FILE *to);

/* The whole verb for an open Transformer; the exit code. */
int cli_look_model(const cli_call *call, fv_ctx *ctx, fv_model *model);

#endif
