/*
 * The logs of a run: log.jsonl (one object a line), log.csv, and a TensorBoard event
 * file for each start. Lines are appended and a failed write is the run's failure: a full disk is
 * better noticed here than at the next state.
 */
#ifndef FV_TRAIN_LOG_H
#define FV_TRAIN_LOG_H

#include "fovea/train.h"
#include "io/arena.h"
#include "io/crc.h"
#include "io/file.h"

enum { FV_LOG_FILES = 3 };

typedef struct fv_train_log {
    fv_ctx *ctx;
    const char *folder; /* NULL: no log */
    fv_arena paths;
    fv_append_file file[FV_LOG_FILES];
    fv_crc crc;
} fv_train_log;

/* Resumes after `step`: removes lines of later steps. Fails: IO, MEMORY, ARGUMENT. */
fv_status fv_train_log_open(fv_ctx *ctx, const char *folder, uint64_t step, fv_train_log *out);
/* A step's line, or an evaluation's. */
fv_status fv_train_log_add(fv_train_log *log, const fv_train_event *event);
void fv_train_log_close(fv_train_log *log);

#endif
