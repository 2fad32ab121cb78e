/*
 * The inside of fovea/text_train.h.
 *
 *     text_run.c   from a recipe to a folder
 *     text_data.c  texts to tokens, documents and windows
 *     text_init.c  weights to begin from
 *     text_task.c  the training loop's view
 */
#ifndef FV_TRAIN_TEXT_H
#define FV_TRAIN_TEXT_H

#include "base/ctx.h"
#include "fovea/batches.h"
#include "fovea/text_train.h"

/* A document, or as much of it as a window holds. */
typedef struct fv_text_piece {
    int64_t at, length;
} fv_text_piece;

/* All tokens of a part, one after the other. */
typedef struct fv_text_part {
    int64_t *tokens, count;
    size_t token_room;
    fv_text_piece *pieces; /* a stream has none */
    int64_t piece_count;
    size_t piece_room;
    fv_batches *order;
} fv_text_part;

enum { FV_TEXT_TRAIN, FV_TEXT_VALID, FV_TEXT_PARTS };

struct fv_text_run {
    fv_ctx *ctx;
    fv_recipe *recipe;
    const char *folder;
    fv_tokenizer *tokenizer;
    fv_params *params;
    fv_transformer *model;
    fv_train_config train;
    fv_text_taken taken;
    fv_text_part part[FV_TEXT_PARTS];
    int64_t window;   /* tokens that an example predicts, at most */
    int64_t examples; /* windows of a batch, for a stream */
    int64_t accumulate;
    bool stream;
    /* the step at hand: example i is tokens[i], of length[i] */
    const int64_t **tokens;
    int64_t *length, count;
    size_t example_room, length_room;
    int64_t *part_first; /* [accumulate + 1] */
};

/* The tokenizer of the folder, that of the model to begin from, or one learnt from the text. */
fv_status fv_text_tokenizer(fv_text_run *run);
/* Both parts as tokens, cut as the recipe says. */
fv_status fv_text_read(fv_text_run *run);

/* The weights that train.init_from asks for, into a run that starts afresh. */
fv_status fv_text_init(fv_text_run *run);

/* The trainer's view of the run. */
fv_task fv_text_task(fv_text_run *run);

#endif
