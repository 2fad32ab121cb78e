/*
 * What one call of a tokenizer may produce and how long it may take, in proportion to its input. A
 * tokenizer file is not trusted: three replacements of one letter by 500 would turn one letter into
 * 125 million, and a pattern may try every position again and again.
 *
 *     fv_text_budget b;
 *     fv_text_budget_begin(&b, ctx, tok->name, bytes);       // of the text to encode
 *     b.stage = "normalizer Replace";                        // for messages
 *     FV_TRY(fv_text_budget_make(&b, count));            // may this stage make `count` bytes?
 *     fv_text_budget_spend(&b, steps);
 *     FV_TRY(fv_text_budget_check(&b));                  // LIMIT once the steps are used up
 */
#ifndef FV_TEXT_BUDGET_H
#define FV_TEXT_BUDGET_H

#include "base/ctx.h"

/* Short inputs get this many bytes and steps in any case. */
enum { FV_TEXT_BUDGET_FREE = 1 << 16 };

typedef struct fv_text_budget {
    fv_ctx *ctx;
    const char *file;  /* of the tokenizer */
    const char *stage; /* that is running, with its name in the file */
    const char *unit;  /* what the input is counted in: "bytes" or "tokens" */
    size_t input;
    size_t max_made;    /* of any stage */
    int64_t steps_left; /* of all stages together; a step takes a few nanoseconds */
} fv_text_budget;

/* For `bytes` of text to encode: fv_limits.text_growth and text_steps. `file` must outlive it. */
void fv_text_budget_begin(fv_text_budget *b, fv_ctx *ctx, const char *file, size_t bytes);
/* For `count` tokens to decode, which are spelled with `bytes`: fv_limits.decoded_bytes. */
void fv_text_budget_begin_decoding(fv_text_budget *b, fv_ctx *ctx, const char *file, size_t count,
                                   size_t bytes);

/* Fails with LIMIT, naming file and stage, if a stage would make more than it may. */
fv_status fv_text_budget_make(const fv_text_budget *b, size_t made);

/* Counts steps; cheap enough for inner loops, which check afterwards. */
static inline void fv_text_budget_spend(fv_text_budget *b, size_t steps)
{
    const int64_t most = INT64_MAX / 4; /* so that the difference never overflows */
    b->steps_left -= steps < (size_t)most ? (int64_t)steps : most;
}

/* Fails with LIMIT, naming file and stage, if more steps were counted than allowed. */
fv_status fv_text_budget_check(const fv_text_budget *b);

#endif
