/*
 * 'fovea look' at a Transformer: the tokens (look_words.c), the words they form (look_axis.c), what
 * is captured at each attention site during one pass (look_take.c), and how it is shown: pictures
 * and arrays (look_views.c) and tables (look_tables.c). look_model.c puts them together.
 *
 * Memory is bounded by what is shown, not by tokens x tokens: maps are computed in bands of rows
 * and reduced at once, unless --full asks for every value.
 */
#ifndef FOVEA_CLI_LOOK_MODEL_H
#define FOVEA_CLI_LOOK_MODEL_H

#include <stdio.h>

#include "model.h"
#include "output.h"

/* ---- tokens -------------------------------------------------------------------------------- */

/* Some tokens, rows, columns or bytes that follow each other. */
typedef struct look_range {
    int64_t first, count;
} look_range;

/* The tokens of one side. */
typedef struct look_words {
    int64_t count;
    int64_t *ids;
    char **labels;     /* as in the text */
    bool *special;     /* added around the text, such as [CLS] */
    int64_t *types;    /* of a pair: 0 for the first text, 1 for the second; else NULL */
    look_range *spans; /* bytes in `text`; count 0: none of its own */
    char *text;
} look_words;

/* The tokens of a text, after a bos token unless that is negative; `flags` as for
 * fv_tokenizer_encode. */
fv_status look_words_encode(fv_ctx *ctx, const fv_tokenizer *tok, const char *text, unsigned flags,
                            int64_t bos, look_words *words);

/* The same for a pair, "text<tab>second text", with the tokenizer's special tokens. */
fv_status look_words_encode_pair(fv_ctx *ctx, const fv_tokenizer *tok, const char *text,
                                 look_words *words);

/* Finds each token's label in the text, in order; sets the spans. */
void look_words_align(look_words *words, const char *text);

/* The positions of `word` as ranges of tokens, at most `room` of them. Blanks before a token are
 * ignored: " animal" is the word "animal". Returns their number. */
int look_words_find(const look_words *words, const char *word, look_range *places, int room);

/* Room for `count` tokens, and a copy of their text; false if memory runs out. */
bool look_words_room(look_words *words, int64_t count, const char *text);
void look_words_free(look_words *words);

/* What one side of a map shows: words, or tokens with --pieces and --ids. */
typedef struct look_axis {
    int64_t count;
    look_range *tokens; /* of each entry, in ascending order */
    char **labels;
} look_axis;

/* `tokens` is the number of tokens; words->count may be 0 if they have no text. If all of them are
 * single characters, they are not joined to words. False if memory runs out. */
bool look_axis_make(const look_words *words, int64_t tokens, bool pieces, bool no_special,
                    look_axis *out);
void look_axis_free(look_axis *axis);

/*
 * Row r of the map between two axes, into out[cols->count]: weights are summed over the tokens of a
 * key and averaged over the tokens of the query. `x` has the weights of the query's tokens,
 * `stride` keys each. With `renormalise`, the row is scaled to its sum over all tokens; the result
 * is then the share of that sum which `cols` leaves out.
 */
double look_axis_row(const look_axis *rows, int64_t r, const look_axis *cols, const float *x,
                     int64_t stride, bool renormalise, float *out);

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
 * ENTROPY [heads]; WORD [heads][places][tokens]. Rows, columns and ranges count words (look_axis),
 * in a file of numbers tokens. */
typedef struct look_site {
    char name[48];
    int64_t heads, rows, cols;
    int64_t row_part, col_part; /* size of the block of words behind one value */
    look_range shown_rows, shown_cols;
    float *values;
    int64_t *index;    /* TOP: keys, [heads][rows][k]; -1: none */
    fv_tensor *tensor; /* ARRAYS */
} look_site;

/* The share of the weight that special tokens had: of all maps, and the extremes. */
typedef struct look_lost {
    double sum, min, max;
    int64_t maps;
} look_lost;

typedef struct look_work {
    const cli_call *call;
    fv_ctx *ctx;
    const char *text; /* NULL with --ids */
    const char *path; /* of the output; NULL: the terminal */
    fv_look_options how;
    const fv_transformer *t;
    look_mode mode;
    bool arrays, full;
    int64_t layer, head; /* -1: not chosen */
    int64_t layers;      /* number of captured sites; not for ARRAYS */
    int64_t heads;       /* of each */
    bool cross;
    look_range rows, cols;     /* of --rows and --cols; count -1: all */
    look_words source, target; /* target: of a second side, else empty */
    look_axis row_axis, col_axis;
    bool pieces, no_special;
    look_lost lost;
    look_range from[LOOK_PLACES], to[LOOK_PLACES];
    int from_count, to_count;
    look_site *sites;
    int count, room;
    uint64_t array_bytes;
    float *rolled; /* ROLLOUT: [tokens][tokens] */
    bool reported; /* the error is already printed */
} look_work;

/* Tokens of the queries and of the keys of the chosen sites. */
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

/* The options of pictures on the command line. False: the error is already printed. */
bool look_picture_options(const cli_call *call, fv_look_options *out);
/* --title, or else `title`. */
const char *look_title(const cli_call *call, const char *title);
/* Saves a picture unless `status` is a failure, and frees it. */
fv_status look_save_picture(fv_status status, fv_picture *picture, const char *path);
/* An overlay as a file, or on the terminal where path is NULL. */
fv_status look_show_overlay(fv_ctx *ctx, const char *path, const fv_look_overlay *overlay,
                            const fv_look_options *how);
/* {"name": caption, "weights": [[..], ..]} */
void look_json_panel(cli_json *j, const fv_look_panel *panel);
/* Draws a map to a file, or with path NULL on the terminal. */
fv_status look_draw_map(fv_ctx *ctx, const fv_look_map *map, const fv_look_options *how,
                        const char *path);

/* The given option that is about the attention inside a Transformer, beyond the alignment that all
 * translators have; or NULL. */
const char *look_inside_option(const cli_call *call);
/* True unless such an option was given, or one of `others`, which end with NULL; else the error is
 * printed. */
bool look_options_apply(const cli_call *call, const fv_model *model, const char *const *others);
/* The given option that is about the tokens of a text or the pixels of a picture, or NULL. */
const char *look_text_option(const cli_call *call);

/* The whole verb for an open Transformer and one text (NULL with --ids); the exit code. */
int cli_look_model(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                   const char *path);
/* The same for a translator and its alignment. */
int cli_look_plane(const cli_call *call, fv_ctx *ctx, fv_model *model);
int cli_look_translator(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                        const char *path);
/* The same for a recurrent model that attends over what it has read. */
int cli_look_reading(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                     const char *path);

/* Whether the call names no episode of a model that plays a game or learns from examples: then it
 * is the first one. */
bool cli_plays_first(const cli_call *call, const fv_model *model);
/* The whole verb for an agent and the number of an episode. */
int cli_look_play(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *number,
                  const char *path);
/* The whole verb for a model that plays trials, and the number of a problem. */
int cli_look_trial(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *number,
                   const char *path);
/* The whole verb for a recommender and the number of a viewer. */
int cli_look_recommend(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *number,
                       const char *path);

#endif
