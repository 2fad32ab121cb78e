/* Notation for the cases of fv_attention_run in compound_attention.c and scores.c. */
#ifndef FV_TESTS_COMPOUND_ATTENTION_H
#define FV_TESTS_COMPOUND_ATTENTION_H

#include "fovea/attention.h"
#include "support/compound.h"

typedef struct attention_params {
    fv_attention how;
    size_t role[FV_CASE_INPUTS]; /* which tensor of fv_attention_input each input is */
} attention_params;

/* All results of a description at once. */
fv_tensor *compound_attention(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params);

#define R(name) offsetof(fv_attention_input, name)
/* The defaults that are not zero, then settings; RULE(...) sets those of the rule. */
#define HOW_AT(heat, ...)                                                                          \
    .how = {.struct_size = sizeof(fv_attention), .temperature = (heat), __VA_ARGS__}
#define HOW(...)  HOW_AT(1, __VA_ARGS__)
#define RULE(...) .rule = {.left = -1, .right = -1, __VA_ARGS__}
#define PLAIN     RULE(.scale = 0)
#define CASE(about, n, settings, ...)                                                              \
    {                                                                                              \
        .name = (about), .params = (settings), .n_in = (n), .in = { __VA_ARGS__ }                  \
    }
#define Q    FV_IN(NORMAL, 2, 2, 3, 2)
#define K    FV_IN(NORMAL, 2, 1, 4, 2)
#define V    FV_IN(NORMAL, 2, 1, 4, 3)
#define MAPS .want_scores = true, .want_weights = true

#endif
