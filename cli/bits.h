/* Models that answer sequences of bits: examples from texts, and 'fovea run' and 'fovea look'. */
#ifndef FOVEA_CLI_BITS_H
#define FOVEA_CLI_BITS_H

#include "fovea/data.h"
#include "model.h"

/* One sequence with the model's answer. */
typedef struct cli_bits {
    fv_bits_example example;
    int64_t width; /* bits of a vector; further channels are marks */
    float *logits; /* [answers][output_width] */
    int64_t wrong; /* bits */
} cli_bits;

/*
 * Reads a text, "length 12" or "length 12 example 3" for a generated sequence of the model's task,
 * or for copying the vectors themselves, "10110011 01010101", and runs the model on it. With a
 * capture, its heads are passed on. Returns an exit code.
 */
int cli_bits_run(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                 const fv_capture *capture, cli_bits *out);
void cli_bits_free(fv_ctx *ctx, cli_bits *bits);

int cli_run_bits(const cli_call *call, fv_ctx *ctx, fv_model **model);
int cli_look_bits(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                  const char *path);

#endif
