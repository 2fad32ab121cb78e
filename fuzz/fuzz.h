/*
 * What every fuzz target has: one context for the whole run, files from memory, and the memory
 * back in its place after each input.
 */
#ifndef FV_FUZZ_H
#define FV_FUZZ_H

#include "base/ctx.h"
#include "fovea/tokenizer.h"
#include "support/files.h"

/* More than this for an input of some kilobytes is a finding. */
enum { FUZZ_MEMORY = 64 << 20 };

/* A fuzz target, on the list of those in the replay program. */
typedef struct fuzz_target {
    const char *path; /* __FILE__ */
    int (*run)(const uint8_t *data, size_t bytes);
    struct fuzz_target *next;
} fuzz_target;

void fuzz_register(fuzz_target *target); /* in replay.c */

/* The entry point of fuzz_<name>.c: libFuzzer's, one target to a program, or with FUZZ_REPLAY one
 * of several that register themselves. */
#ifdef FUZZ_REPLAY
#define FUZZ_TARGET(data, bytes)                                                                   \
    static int fuzz_run(const uint8_t *data, size_t bytes);                                        \
    __attribute__((constructor)) static void fuzz_enter(void)                                      \
    {                                                                                              \
        static fuzz_target self = {__FILE__, fuzz_run, NULL};                                      \
        fuzz_register(&self);                                                                      \
    }                                                                                              \
    static int fuzz_run(const uint8_t *data, size_t bytes)
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
#define FUZZ_TARGET(data, bytes) int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
#endif

/* The context; reads of any path give the current input. Made by the first call. */
fv_ctx *fuzz_context(const uint8_t *data, size_t bytes);
/* Ends the process if the input left memory in use or the context in error. */
void fuzz_check(fv_ctx *ctx);

/* Amplification is a finding as well: a call that fails for lack of memory, that makes more than
 * `max` bytes or tokens, or that takes long. Ends the process then. */
double fuzz_clock(void); /* CPU seconds of this thread */
void fuzz_bound(const char *what, fv_status status, size_t made, size_t max, double began);

/* Decodes a picture file as stored, as grey and as colours; two channels must be refused. */
void fuzz_picture(const uint8_t *data, size_t bytes, const char *name);

/* Reads a tokenizer of any kind; what is accepted must encode texts with ids and offsets in range,
 * and decode what it encoded. */
void fuzz_tokens(const uint8_t *data, size_t bytes);
/* The same demands of a tokenizer that was read already; it is destroyed. */
void fuzz_tokenizer(fv_ctx *ctx, fv_tokenizer *tok);

#endif
