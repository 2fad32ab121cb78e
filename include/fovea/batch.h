/*
 * fovea/batch.h: what goes through a model: batches of named fields, and how a pass over them runs.
 *
 *     fv_batch batch;
 *     fv_batch_init(&batch, 2);                                       // two rows
 *     const void *picture[2] = {first, second};                       // float [1][28][28] each
 *     fv_batch_add(&batch, (fv_field){.name = "pixels", .dtype = FV_F32, .row = picture,
 *                                     .rank = 3, .shape = {1, 28, 28}});
 *     fv_tensor *pixels = fv_batch_tensor(ctx, &batch, "pixels", NULL);   // [2, 1, 28, 28]
 *
 *     fv_sequences x = {.count = 2, .tokens = xs, .length = x_lengths};
 *     fv_batch sources = fv_batch_of_pairs(&x, NULL);                 // one field, "source"
 *
 * A field belongs to every row of the batch. Row i has length[i] entries one after another, each
 * of the field's shape: tokens are entries of rank 0, points of a set rank 1, a grid of pixels one
 * entry of rank 3, audio frames entries of rank 1, an episode's actions and rewards rank 0. Fields
 * point into host memory of the data set, so making a batch copies nothing; the model moves what it
 * needs to its device, packed or padded as it likes.
 */
#ifndef FOVEA_BATCH_H
#define FOVEA_BATCH_H

#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/context.h"
#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FV_BATCH_FIELDS = 16, FV_FIELD_RANK = FV_MAX_RANK - 2 };

typedef struct fv_field {
    const char *name; /* "source", "target", "tokens", "label", "pixels", "frames", "reward" */
    fv_dtype dtype;
    int rank; /* of one entry; 0: a number */
    int64_t shape[FV_FIELD_RANK];
    const void *const *row; /* [rows]: where each row's entries begin */
    const int64_t *length;  /* [rows]: entries of each row; NULL: one each */
    double weight;          /* factor of the loss whose target the field is; 0 means 1 */
} fv_field;

typedef struct fv_batch {
    int64_t rows;
    int count; /* fields */
    fv_field field[FV_BATCH_FIELDS];
} fv_batch;

FV_API void fv_batch_init(fv_batch *batch, int64_t rows);
/* Adds a field; a weight of 0 becomes 1. False: all places are taken, or the name is. */
FV_API bool fv_batch_add(fv_batch *batch, fv_field field);
/* NULL: no such field. */
FV_API const fv_field *fv_batch_find(const fv_batch *batch, const char *name);

/* A field on the context's device: [rows, longest, shape ...], padded with zeros, or
 * [rows, shape ...] of a field without lengths. *lengths, unless NULL: i64 [rows].
 * Errors: ARGUMENT (no such field), MEMORY. */
FV_API fv_tensor *fv_batch_tensor(fv_ctx *ctx, const fv_batch *batch, const char *name,
                                  fv_tensor **lengths);

/* ---- token sequences -------------------------------------------------------------------- */

/* Sequences of tokens on the host. */
typedef struct fv_sequences {
    int64_t count;
    const int64_t *const *tokens;
    const int64_t *length;       /* each at least 1 */
    const int64_t *const *types; /* kinds of token; NULL: all 0 */
} fv_sequences;

/*
 * An i64 field of numbers as sequences, without a copy; `types` come from the field "types". A
 * field that is not there gives count 0. A model kind's loss reads its batch like this:
 *
 *     fv_sequences texts = fv_batch_sequences(&batch, "tokens");
 *     const fv_field *label = fv_batch_find(&batch, "label");
 *     if (texts.count == 0 || !label)
 *         s = fv_ctx_fail(ctx, FV_ERR_ARGUMENT, "the batch has no tokens or no labels");
 */
FV_API fv_sequences fv_batch_sequences(const fv_batch *batch, const char *name);
/* A batch with one field of tokens, or with "source" and "target" (NULL: sources alone). */
FV_API fv_batch fv_batch_of_tokens(const fv_sequences *tokens);
FV_API fv_batch fv_batch_of_pairs(const fv_sequences *source, const fv_sequences *target);
/* Tokens that a loss over "target" sums: all targets, and one end token each. */
FV_API int64_t fv_batch_target_tokens(const fv_batch *batch);

/* ---- attention sites and capture ---------------------------------------------------------- */

/* What the queries or keys of an attention site stand for; `fovea look` draws by it. */
typedef enum fv_axis {
    FV_AXIS_TOKENS,
    FV_AXIS_CELLS,  /* of a grid, row by row */
    FV_AXIS_FRAMES, /* of a recording */
    FV_AXIS_POINTS, /* of a set of vectors */
    FV_AXIS_SLOTS,  /* of a memory */
    FV_AXIS_STEPS,  /* of an episode, or examples of one */
    FV_AXIS_COUNT
} fv_axis;

/* One attention site of a model, as its kind lists them. */
typedef struct fv_site {
    char name[48]; /* "encoder.3.self", "decoder.0.cross" */
    int64_t heads; /* 1 where there is only one */
    fv_axis queries, keys;
    int64_t rows, cols; /* of the grid where keys (or queries and keys) are cells; else 0 */
    int64_t before;     /* positions before the first cell, such as a class token */
} fv_site;

/* What was captured at one site during a pass (a site is one attention layer of a model). The
 * fields follow from the name. Tensors live until `on_weights` returns. */
typedef struct fv_site_weights {
    const char *name; /* "encoder.3.self" */
    bool encoder, cross;
    int64_t layer; /* the number in the name */
    fv_attention_captured captured;
} fv_site_weights;

/*
 * Which attention weights to capture during a pass. They are recomputed from the log-sum-exp, so
 * capturing does not change the results. Of varlen sequences the map is that of the long row, zero
 * between them; with options.saved the map of sequence i alone is the region that starts at row
 * begin[i] and column begin[i] (of the source's `begin` at cross sites), and nothing else is
 * computed.
 */
typedef struct fv_capture {
    const char
        *sites; /* names separated by commas, '*' for any part: "encoder.*.self"; NULL: all */
    fv_attention_capture options;
    /* Called for each site in the order of the pass. Not FV_OK: the pass fails with it. */
    fv_status (*on_weights)(void *user, fv_ctx *ctx, const fv_site_weights *site);
    void *user;
} fv_capture;

/*
 * Whether a site's weights were asked for. capture may be NULL. In a model kind's pass:
 *
 *     if (fv_capture_wants(pass->capture, "decoder.0.self"))        // they cost time otherwise
 *         fv_capture_give(ctx, pass, "decoder.0.self", fv_attention_weights(ctx, &saved, NULL));
 */
FV_API bool fv_capture_wants(const fv_capture *capture, const char *site);
/* For model kinds: passes the weights of a site, [rows, heads, queries, keys], to the capture of
 * the pass if it asks for the site; otherwise does nothing, and weights may be NULL. Sets the error
 * that `on_weights` returns. */
struct fv_pass;
FV_API void fv_capture_give(fv_ctx *ctx, const struct fv_pass *pass, const char *site,
                            fv_tensor *weights);

/* ---- passes ------------------------------------------------------------------------------- */

/* How a pass runs; NULL in calls: all zero, which is evaluation. */
typedef struct fv_pass {
    bool training;             /* dropout and smoothing happen */
    bool checkpoint;           /* activations of a block are freed and recomputed in backward */
    double sampling;           /* share of decoder steps that are fed the model's own last token */
    const fv_capture *capture; /* or NULL */
    fv_checkpoint_kept kept;   /* with checkpoint: what is not recomputed */
} fv_pass;

/* ==== batches ======================================================================= */

/*
 * batches: the order in which a training run reads its examples.
 *
 *     fv_batches_config cfg;
 *     fv_batches_config_init(&cfg, sizeof cfg);
 *     cfg.tokens = 4000;                      // a batch holds about as many
 *     cfg.seed = 1;
 *     fv_batches *batches = NULL;
 *     s = fv_batches_create(ctx, count, lengths, &cfg, &batches);
 *     for (;;) {
 *         fv_picked b;
 *         s = fv_batches_next(batches, &b);   // b.example[0 .. b.count - 1]
 *     }
 *     fv_batches_destroy(&batches);
 *
 * Each epoch shuffles all examples, puts those of similar length into a batch (sorting within
 * pools of some hundred batches, so that batches differ from epoch to epoch), and shuffles the
 * batches. The order depends on seed and epoch alone: a place in it is two numbers, and going back
 * to it needs nothing else.
 */

typedef struct fv_batches_config {
    size_t struct_size;
    int64_t tokens;   /* lengths of a batch's examples add up to at most this; a longer example is
                         a batch of its own [4096] */
    int64_t examples; /* at most so many in a batch; 0: no bound [0] */
    int64_t pool;     /* batches that are sorted by length together; 1: none are [100] */
    uint64_t seed;    /* [0] */
    bool shuffle;     /* false: examples keep their order [true] */
} fv_batches_config;

FV_API void fv_batches_config_init(fv_batches_config *cfg, size_t struct_size);

typedef struct fv_picked {
    const int64_t *example; /* numbers of examples; lives until the next call */
    int64_t count;
    int64_t tokens;  /* their lengths together */
    int64_t epoch;   /* from 0 */
    int64_t index;   /* of the batch in its epoch, from 0 */
    int64_t batches; /* of this epoch */
} fv_picked;

typedef struct fv_batches fv_batches;

/* Copies the lengths (each >= 1). Fails: ARGUMENT (no examples, a length < 1), MEMORY. */
FV_API FV_MUST_USE fv_status fv_batches_create(fv_ctx *ctx, int64_t examples,
                                               const int64_t *lengths, const fv_batches_config *cfg,
                                               fv_batches **out);
FV_API void fv_batches_destroy(fv_batches **batches); /* NULL is fine; before the context */

FV_API FV_MUST_USE fv_status fv_batches_next(fv_batches *batches, fv_picked *out);

/*
 * The batch that comes next. Two numbers are all that a checkpoint needs of it:
 *
 *     int64_t epoch, index;
 *     fv_batches_place(batches, &epoch, &index);        // saved beside the weights
 *     s = fv_batches_seek(batches, epoch, index);       // resumed: the same batches follow
 */
FV_API void fv_batches_place(const fv_batches *batches, int64_t *epoch, int64_t *index);
/* Goes there. Fails: ARGUMENT (no such place). */
FV_API FV_MUST_USE fv_status fv_batches_seek(fv_batches *batches, int64_t epoch, int64_t index);

#ifdef __cplusplus
}
#endif
#endif
