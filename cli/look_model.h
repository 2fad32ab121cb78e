/* 'fovea look' at a Transformer: what its sites of attention showed, and the ways to show it. */
#ifndef FOVEA_CLI_LOOK_MODEL_H
#define FOVEA_CLI_LOOK_MODEL_H

#include "fovea/model.h"
#include "options.h"

/* The tokens of one side. */
typedef struct look_words {
    int64_t count;
    int64_t *ids;
    char **labels; /* as they stand in the text */
} look_words;

typedef enum look_mode {
    LOOK_ARRAYS,  /* every map, for a file of numbers */
    LOOK_GRID,    /* all heads of all layers, made small */
    LOOK_LAYER,   /* all heads of one layer */
    LOOK_HEAD,    /* one head, or the mean of a layer's */
    LOOK_ROLLOUT, /* what reaches the last layer from each token */
    LOOK_TOP,     /* the strongest of each row */
    LOOK_ENTROPY  /* a number a head */
} look_mode;

/* One site: [heads][rows][cols] for most modes, see look_take. */
typedef struct look_site {
    char name[48];
    int64_t layer, heads, rows, cols;
    float *values;
    int64_t *index;    /* LOOK_TOP: keys, [heads][rows][cols] */
    fv_tensor *tensor; /* LOOK_ARRAYS: the whole map of every sequence */
} look_site;

typedef struct look_work {
    const cli_call *call;
    fv_ctx *ctx;
    const fv_transformer *t;
    look_mode mode;
    int64_t layer, head; /* -1: not chosen */
    bool cross;
    look_words source, target; /* target: of a second side, else empty */
    look_site *sites;
    int count, room;
} look_work;

/* Who looks, and at whom, at the chosen sites. */
const look_words *look_rows(const look_work *w);
const look_words *look_cols(const look_work *w);

/* Draws or prints what was seen; says what failed through the context. */
fv_status look_show(look_work *w);

/* The whole verb for an open Transformer; the exit code. */
int cli_look_model(const cli_call *call, fv_ctx *ctx, fv_model *model);

#endif
