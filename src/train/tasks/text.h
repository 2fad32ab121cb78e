/*
 * Tasks over plain text. A language model learns the next token: the text is one stream, and an
 * example is a window of data.length tokens at a random place; or it is documents, lines or
 * paragraphs, which do not attend to each other. Which windows a step reads depends on the seed and
 * the step alone.
 *
 * A masked model (BERT) predicts masked tokens: 15 of 100, and of those eight in ten become [MASK],
 * one another token, and one stays. With train.next_sentence a text is cut in two, half of the time
 * its second part is another text's, and the model learns which.
 *
 * A classifier learns the class of a text, or of a pair of texts (data.second_column), from a table
 * with a header line. The classes are those of the training file. Both kinds of encoder read
 * [CLS] text [SEP], a pair as [CLS] text [SEP] second text [SEP] with types 0 and 1.
 *
 *     text.c           the three task kinds, opening and closing
 *     text_files.c     files to texts
 *     text_tokenizer.c     the tokenizer and the classes
 *     text_data.c      texts to tokens, pieces and windows
 *     text_examples.c  pieces to what an encoder reads
 *     text_metrics.c     metrics of encoders
 *     text_samples.c     continuations of held-out texts
 *     text_steps.c     batches of a step
 */
#ifndef FV_TRAIN_TEXT_H
#define FV_TRAIN_TEXT_H

#include "base/ctx.h"
#include "data/generated.h"
#include "fovea/batch.h"
#include "fovea/task.h"
#include "text/vocab.h"
#include "train/step.h"
#include "train/tokenizer.h"

/* Ends every document of a language model. */
#define FV_TEXT_END "<|endoftext|>"

/* A document, or as much of it as a window holds. */
typedef struct fv_text_piece {
    int64_t at, length;
    int64_t second; /* tokens of the second text of a pair, at the end; 0: it is one text */
    int64_t label;  /* its class; 0 where there are none */
} fv_text_piece;

/* What a file has of one text; what is missing has text NULL. */
typedef struct fv_text_item {
    fv_string text, second, label;
} fv_text_item;

/* All tokens of a part, one after the other. */
typedef struct fv_text_part {
    int64_t *tokens, count;
    size_t token_room;
    fv_text_piece *pieces; /* a stream has none */
    int64_t piece_count;
    size_t piece_room;
    fv_batches *order;
} fv_text_part;

typedef enum fv_text_goal { FV_TEXT_LANGUAGE, FV_TEXT_MASKED, FV_TEXT_CLASSIFY } fv_text_goal;

/* The choices of data.documents. */
typedef enum fv_text_cut { FV_TEXT_STREAM, FV_TEXT_LINES, FV_TEXT_PARAGRAPHS } fv_text_cut;

enum { FV_TEXT_TRAIN, FV_TEXT_VALID, FV_TEXT_PARTS };

typedef struct fv_text_task {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    const char *folder;
    fv_text_goal goal;
    const fv_generated_set *made; /* data.made; NULL: files */
    fv_tokenizer *tokenizer;      /* the model's, once there is one */
    int64_t cls, sep, mask;       /* tokens of encoders */
    fv_vocab labels;              /* classes by name */
    const char **label_names;
    char report[96];
    fv_text_part part[FV_TEXT_PARTS];
    int64_t window;   /* tokens that an example predicts, or that an encoder reads, at most */
    int64_t piece;    /* tokens of a piece, at most: a window without its marks */
    int64_t examples; /* windows of a batch, for a stream */
    bool stream, next_sentence;
    bool pairs;        /* of texts, with a class */
    bool letters_only; /* texts without punctuation, but for apostrophes within words */
    /* the current step: example i is tokens[i], of length[i] */
    const int64_t **tokens;
    int64_t *length, count;
    size_t example_room, length_room;
    fv_step_parts parts;
    /* and, for encoders, its kinds of token, its masked tokens (-1: none) and its class */
    int64_t *cells; /* what these point into, and tokens too */
    const int64_t **types, **targets, **label_row;
    int64_t *label, masked; /* masked tokens of all examples */
    size_t cell_room, type_room, target_room, label_room, label_row_room;
} fv_text_task;

/* One text, which lives until the return. */
typedef fv_status (*fv_text_use)(void *user, const fv_text_item *item);

/* Calls `use` for every text of a part, in the order of the files. */
fv_status fv_text_each(fv_text_task *run, int part, fv_text_use use, void *user);
/* True if the recipe names a file for a part, or generates it. */
bool fv_text_has(const fv_text_task *run, int part);
/* The first training file, or the key of generated texts, for messages. */
const char *fv_text_train_file(const fv_text_task *run);

/* For tasks that read texts in the same way: what open sets first, and what close frees last; both
 * leave the struct itself to the caller. */
void fv_text_task_init(fv_text_task *run, const fv_task_config *cfg, fv_text_goal goal);
void fv_text_task_free(fv_text_task *run);

/* The tokenizer of the folder, of the model to start from, or learned from the text, with these
 * special tokens. */
fv_status fv_text_find_tokenizer(fv_text_task *run, const fv_special_tokens *specials);
/* The same with the special tokens of the goal. */
fv_status fv_text_tokenizer(fv_text_task *run);
/* The classes of the training part, numbered as they come. */
fv_status fv_text_learn_labels(fv_text_task *run);
/* Tokenizes both parts and cuts them into pieces. */
fv_status fv_text_read(fv_text_task *run);

/* Appends an example to the step; tokens NULL: fv_text_point sets them later. */
fv_status fv_text_add_example(fv_text_task *run, const int64_t *tokens, int64_t length);
/* The key of a step's draws. */
uint64_t fv_text_mask_key(const fv_text_task *run, uint64_t step);
/* Adds piece `number` as an encoder's example, with random draws of `key` and `row`. */
fv_status fv_text_add_made(fv_text_task *run, const fv_text_part *p, int64_t number, uint64_t key,
                           uint64_t row);
/* Sets the examples' pointers after the last one was added, since the arrays move as they grow. */
void fv_text_point(fv_text_task *run);

/* Examples first .. first + count - 1 of the step as a batch. */
fv_batch fv_text_batch(const fv_text_task *run, int64_t first, int64_t count);
/* Number of tokens or texts that the current examples predict. */
double fv_text_predicted(const fv_text_task *run);

typedef struct fv_text_score {
    double loss, right, count;
} fv_text_score;

/* Adds the scores of all current examples; `pairs` if the model has next_sentence. */
fv_status fv_text_add_scores(const fv_text_task *run, fv_model *model, fv_text_score *main,
                             fv_text_score *pairs);

/* Of fv_task_kind; `self` points to an fv_text_task, or to a struct that begins with one. */
const char *fv_text_report(void *self);
fv_status fv_text_begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan);
fv_status fv_text_step_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                             fv_batch *out);
fv_status fv_text_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count);
fv_status fv_text_evaluate_encoder(void *self, fv_model *model, fv_metric *metrics, int *count);
fv_status fv_text_show_classes(void *self, fv_model *model, int count, fv_text *out);
fv_status fv_text_show_continuations(void *self, fv_model *model, int count, fv_text *out);
void fv_text_get_position(void *self, int64_t position[FV_TASK_POSITION]);
fv_status fv_text_set_position(void *self, const int64_t position[FV_TASK_POSITION]);

#endif
