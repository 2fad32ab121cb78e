/*
 * Models that read files, pictures or recordings, in place of texts: which files, and how 'fovea
 * run' and 'fovea look' use them. A new use is one line of the table in media.c.
 */
#ifndef FOVEA_CLI_MEDIA_H
#define FOVEA_CLI_MEDIA_H

#include "fovea/translate.h"
#include "model.h"

typedef enum cli_file_kind {
    CLI_FILE_OTHER,
    CLI_FILE_PICTURE, /* PNG or JPEG */
    CLI_FILE_SOUND,   /* WAV or FLAC */
    CLI_FILE_POINTS   /* points, one per line */
} cli_file_kind;

/* By the first bytes; OTHER also for a file that cannot be read. */
cli_file_kind cli_file_kind_of(const char *path);
/* "a picture (PNG or JPEG)", "a recording (WAV or FLAC)", "a text", "points" */
const char *cli_file_kind_name(cli_file_kind kind);

/* What a model reads: pictures if it has a "height", recordings if it has a "frame", points if it
 * has a "point", else texts, which are CLI_FILE_OTHER. */
cli_file_kind cli_model_reads(const fv_model *model);

/* One use of a model: what it reads and can do. Both functions return exit codes. */
typedef struct cli_media_use {
    cli_file_kind reads;
    fv_ability ability;
    /* Processes one file and prints the result. */
    int (*run)(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file);
    /* Shows attention over one file, on the terminal or, unless NULL, in `path`. */
    int (*look)(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                const char *path);
} cli_media_use;

/* 'fovea run' and 'fovea look' of a model that reads files; the words are their names. */
int cli_run_media(const cli_call *call, fv_ctx *ctx, fv_model *model);
int cli_look_media(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                   const char *path);
/* The error for a call without a file; returns its exit code. */
int cli_no_file(const cli_call *call, const fv_model *model);
/* True unless --ask is missing for a model that answers questions about pictures, or was given for
 * another one; else the error is printed. */
bool cli_check_ask(const cli_call *call, const fv_model *model);
/* True unless 'fovea look' was given an option or a file format that is for texts; else the error
 * is printed. */
bool cli_look_media_options(const cli_call *call, const char *path);

/* ---- classes ------------------------------------------------------------------------------- */

typedef struct cli_class {
    int64_t number;
    const char *label;
    double p;
} cli_class;

/* Classes of a batch of one row and their probabilities, the most likely first, at most `room`;
 * returns their number, which is 0 on failure. */
int64_t cli_classify(fv_model *model, const fv_batch *batch, cli_class *out, int64_t room,
                     fv_status *status);
/* Prints them, as many as --top-k says, or with --json as one object. */
fv_status cli_print_classes(const cli_call *call, fv_model *model, const char *file,
                            const fv_batch *batch);

/* ---- pictures ------------------------------------------------------------------------------ */

/* A picture as it is and as a model reads it. */
typedef struct cli_photo {
    int64_t channels, height, width;
    float *pixels; /* [channels][height][width]; the file's own size */
    float *input;  /* resized to the model's numbers, inverted with --invert */
    const void *row;
    fv_batch batch; /* one row, "pixels" */
} cli_photo;

/* Fails: as fv_picture_load; MEMORY. To be closed even then; it stays where it is, since the batch
 * points into it. Notes once if the picture is light where the model was trained on dark ones, or
 * the other way round. */
fv_status cli_photo_open(const cli_call *call, fv_model *model, const char *path, cli_photo *out);
void cli_photo_close(cli_photo *photo);

int cli_run_photo_classes(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file);
int cli_look_photo_classes(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                           const char *path);

/* Attention over a picture that the model draws itself, of --class and --seed. */
int cli_look_drawing(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *path);

int cli_run_photo_caption(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file);
int cli_look_photo_caption(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                           const char *path);

int cli_run_photo_answer(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file);
int cli_look_photo_answer(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                          const char *path);

/* ---- texts of pictures and recordings ------------------------------------------------------ */

/* What a model writes for one row, by the call's search options; and the printed result. */
fv_status cli_describe(const cli_call *call, fv_model *model, const fv_batch *batch,
                       fv_translations **out);
void cli_print_descriptions(const cli_call *call, const char *file, const fv_translations *texts);

/* Options of verbs that read pictures. */
#define CLI_INVERT                                                                                 \
    {                                                                                              \
        .name = "invert", .type = CLI_FLAG,                                                        \
        .help = "pictures: dark becomes light, for ink on paper where the model saw light on dark" \
    }
#define CLI_ASK                                                                                    \
    {                                                                                              \
        .name = "ask", .type = CLI_STRING, .metavar = "QUESTION",                                  \
        .help = "pictures: the question to answer, for models that were trained on questions"      \
    }

#endif
