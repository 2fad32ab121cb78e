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

/* The entry point of libFuzzer and of standalone.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The context; reads of any path give the current input. Made by the first call. */
fv_ctx *fuzz_context(const uint8_t *data, size_t bytes);
/* Ends the process if the input left memory in use or the context in error. */
void fuzz_check(fv_ctx *ctx);

/* Reads a tokenizer of any kind; what is accepted must encode texts with ids and offsets in range,
 * and decode what it encoded. */
void fuzz_tokens(const uint8_t *data, size_t bytes);
/* The same demands of a tokenizer that was read already; it is destroyed. */
void fuzz_tokenizer(fv_ctx *ctx, fv_tokenizer *tok);

#endif
