/*
 * The attention model of Kool, van Hoof and Welling (2019) as a model kind.
 *
 *     kind_attention_tsp.c      keys, parameters, the encoder
 *     attention_tsp_decode.c    the loss over given tours, and the stepper of a search
 */
#ifndef FV_MODELS_ATTENTION_TSP_H
#define FV_MODELS_ATTENTION_TSP_H

#include "fovea/layers.h"
#include "models/batch_norms.h"
#include "models/pointing.h"

enum { FV_ATTENTION_TSP_LAYERS = 16 };

typedef struct fv_attention_tsp_layer {
    fv_tensor *w_query, *w_key, *w_val; /* [heads, width, d] */
    fv_tensor *w_out;                   /* [heads, d, width] */
    fv_dense up, down;
    int norm[2]; /* after attention, after the feed-forward network */
} fv_attention_tsp_layer;

typedef struct fv_attention_tsp_search fv_attention_tsp_search;

typedef struct fv_attention_tsp {
    fv_ctx *ctx;
    fv_problem problem;
    int layers;
    int64_t width, heads;
    double clip;
    fv_batch_norms norms;
    fv_attention_tsp_layer layer[FV_ATTENTION_TSP_LAYERS];
    fv_dense embed;
    fv_tensor *before; /* [2 width]: stands for the first and last city before there is one */
    fv_tensor *nodes;  /* [3 width, width] */
    fv_tensor *fixed;  /* [width, width] */
    fv_tensor *step;   /* [width, 2 width] */
    fv_tensor *out;    /* [width, width] */
    fv_attention_tsp_search *search;
} fv_attention_tsp;

/* What the decoder reads of a batch. Choice 0, the end, is never valid; its rows are zeros, as are
 * those of choices beyond a shorter set. */
typedef struct fv_attention_tsp_memory {
    fv_tensor *k, *v; /* [rows, heads, 1 + longest, d], of the attention of a step */
    fv_tensor *point; /* [rows, 1 + longest, width], multiplied with W_out of that attention */
    fv_tensor *last;  /* [rows, 1 + longest, width]: what the last city adds to a query */
    fv_tensor *fixed; /* [rows, width]: of every query of a set */
    fv_tensor *none;  /* [1, width]: added before there is a first city */
    fv_tensor *h;     /* [total, width]: states of the cities */
} fv_attention_tsp_memory;

fv_attention_tsp_memory fv_attention_tsp_encode(fv_ctx *ctx, fv_attention_tsp *m,
                                                const fv_point_sets *sets, bool training);
/* [rows, width]: the part of a query that stays the same once there is a first city, `first`
 * i64 [rows] of the cities of all sets. */
fv_tensor *fv_attention_tsp_begun(fv_ctx *ctx, const fv_attention_tsp *m, fv_tensor *h,
                                  fv_tensor *fixed, fv_tensor *first);

/* For fv_model_kind. */
fv_tensor *fv_attention_tsp_loss(fv_ctx *ctx, void *self, const fv_batch *batch,
                                 const fv_pass *pass);
fv_status fv_attention_tsp_stepper(void *self, const fv_batch *inputs, fv_stepper *out);
void fv_attention_tsp_search_free(fv_attention_tsp *m);

#endif
