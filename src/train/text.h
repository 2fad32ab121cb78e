/*
 * The inside of fovea/text_train.h.
 *
 *     text_run.c       from a recipe to a folder
 *     text_files.c     files to texts
 *     text_words.c     the tokenizer and the classes
 *     text_data.c      texts to tokens, pieces and windows
 *     text_examples.c  pieces to what an encoder reads
 *     text_judge.c     losses and scores of encoders
 *     text_task.c      the training loop's view
 */
#ifndef FV_TRAIN_TEXT_H
#define FV_TRAIN_TEXT_H

#include "base/ctx.h"
#include "fovea/batches.h"
#include "fovea/text_train.h"
#include "text/vocab.h"
#include "train/step.h"

/* Stands behind every document of a language model. */
#define FV_TEXT_END "<|endoftext|>"

/* A document, or as much of it as a window holds. */
typedef struct fv_text_piece {
    int64_t at, length;
    int64_t label; /* its class; 0 where there are none */
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
    fv_train_task task;
    fv_tokenizer *tokenizer;
    int32_t cls, sep, mask; /* tokens of encoders */
    fv_vocab labels;        /* classes by name */
    const char **label_names;
    fv_params *params;
    fv_transformer *model;
    fv_train_config train;
    fv_taken taken;
    fv_text_part part[FV_TEXT_PARTS];
    int64_t window;   /* tokens that an example predicts, or that an encoder reads, at most */
    int64_t piece;    /* tokens of a piece, at most: a window without its marks */
    int64_t examples; /* windows of a batch, for a stream */
    bool stream, next_sentence;
    /* the step at hand: example i is tokens[i], of length[i] */
    const int64_t **tokens;
    int64_t *length, count;
    size_t example_room, length_room;
    fv_step_parts parts;
    /* and, for encoders, its kinds of token, its hidden words (-1: none) and its class */
    int64_t *cells; /* what these point into, and tokens too */
    const int64_t **types, **wanted;
    int64_t *label, wishes; /* hidden words of all examples */
    size_t cell_room, type_room, wanted_room, label_room;
};

/* One text; its class where it has one, else label.text is NULL. Both live until the return. */
typedef fv_status (*fv_text_use)(void *user, fv_string text, fv_string label);

/* Calls `use` for every text of a part, in the order of the files. */
fv_status fv_text_each(fv_text_run *run, int part, fv_text_use use, void *user);
/* Whether the recipe names a file for a part. */
bool fv_text_has(const fv_text_run *run, int part);
/* The first file that is learnt from, for messages. */
const char *fv_text_train_file(const fv_text_run *run);

/* The tokenizer of the folder, that of the model to begin from, or one learnt from the text. */
fv_status fv_text_tokenizer(fv_text_run *run);
/* The classes of the training part, numbered as they come. */
fv_status fv_text_learn_labels(fv_text_run *run);
/* Both parts as tokens, cut as the recipe says. */
fv_status fv_text_read(fv_text_run *run);

/* Puts an example behind those of the step; tokens NULL: fv_text_point says later where. */
fv_status fv_text_add_example(fv_text_run *run, const int64_t *tokens, int64_t length);
/* The key of a step's draws. */
uint64_t fv_text_mask_key(const fv_text_run *run, uint64_t step);
/* Makes piece `number` an encoder's example, by draws of `key` and `row`. */
fv_status fv_text_add_made(fv_text_run *run, const fv_text_part *p, int64_t number, uint64_t key,
                           uint64_t row);
/* Lets the examples point at what was made: after the last one, for room moves as it grows. */
void fv_text_point(fv_text_run *run);

/* Summed over the hidden words, or the texts, of examples first .. first + count - 1. */
fv_tensor *fv_text_encoder_loss(const fv_text_run *run, fv_ctx *ctx, int64_t first, int64_t count);

typedef struct fv_text_score {
    double loss, right, count;
} fv_text_score;

/* Adds the scores of all examples at hand; `pairs` where the model has next_sentence. */
fv_status fv_text_judge(fv_text_run *run, fv_text_score *main, fv_text_score *pairs);

/* The trainer's view of the run. */
fv_task fv_text_task(fv_text_run *run);

#endif
