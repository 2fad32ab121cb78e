/* A Neural Turing Machine: its parameters, the rows of a batch, and one pass over them. */
#ifndef FV_MODELS_NTM_H
#define FV_MODELS_NTM_H

#include "fovea/ops.h"
#include "fovea/recurrent.h"
#include "models/model.h"

typedef struct fv_ntm {
    fv_ctx *ctx;
    int64_t inputs, outputs, hidden;
    int64_t slots, width; /* of the memory; 0 slots: none */
    fv_ntm_heads heads;
    bool feed_forward, learned_memory;
    fv_dense controller, head, output;
    fv_tensor *start_h, *start_c, *start_read, *start_memory; /* NULL where there is none */
} fv_ntm;

/*
 * The rows of a batch, packed: step by step, longest sequence first. Answers are those of the
 * batch's rows, one row after the other; answer i is row `answer[i]` of the packed steps from
 * `first_answer` on.
 */
typedef struct fv_ntm_rows {
    fv_packed_sequences packed;
    fv_tensor *inputs; /* [packed.total, inputs] */
    int64_t first_answer, answers;
    int64_t *answer; /* [answers] */
} fv_ntm_rows;

/* Fails: ARGUMENT (fields that are missing or do not fit), LIMIT, MEMORY. */
fv_status fv_ntm_rows_make(fv_ctx *ctx, const fv_ntm *m, const fv_batch *batch, fv_ntm_rows *out);
void fv_ntm_rows_free(fv_ctx *ctx, fv_ntm_rows *rows);

/* What a pass records for pictures, of one sequence; NULL: nothing is. */
typedef struct fv_ntm_trace {
    int64_t steps;
    fv_tensor **params, **weights, **memory; /* [steps]: as fv_ntm_step has them, memory before */
} fv_ntm_trace;

fv_status fv_ntm_trace_make(fv_ctx *ctx, int64_t steps, fv_ntm_trace *out);
void fv_ntm_trace_free(fv_ctx *ctx, fv_ntm_trace *trace);
/* Passes everything the capture asks for to it. */
void fv_ntm_trace_give(fv_ctx *ctx, const fv_ntm *m, const fv_ntm_trace *trace,
                       const fv_pass *pass);
/* "read.0" or "write.1" of head h, and behind a dot what else is known of it. */
void fv_ntm_site_name(const fv_ntm *m, int64_t h, const char *what, char *out, size_t bytes);

#endif
