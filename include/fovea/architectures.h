/*
 * fovea/architectures.h: what published Transformers cost, counted from our own model code.
 *
 *     fv_architecture a;
 *     fv_model_cost cost;
 *     if (!fv_architecture_find("gpt2-xl", &a)) return 1;
 *     s = fv_transformer_cost(ctx, &a.config, 1024, &cost);
 *     printf("%" PRId64 " parameters, published as %s\n", cost.parameters, a.published);
 *
 * The model is made in a set without memory (fv_params_create_plan), so its size does not matter.
 */
#ifndef FOVEA_ARCHITECTURES_H
#define FOVEA_ARCHITECTURES_H

#include "fovea/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_architecture {
    const char *name;      /* "bert-large" */
    const char *published; /* its parameters as its authors count them, "340M" */
    const char *note;      /* where our model differs from theirs, or NULL */
    fv_transformer_config config;
} fv_architecture;

/* All of them: *out gets number i; false past the last. */
FV_API bool fv_architecture_get(int i, fv_architecture *out);
/* By name; false if there is none. */
FV_API bool fv_architecture_find(const char *name, fv_architecture *out);

/* One sequence of `length` tokens on each side that the model has. */
typedef struct fv_model_cost {
    int64_t parameters;
    int64_t tables; /* those of them that are only looked up: embeddings, positions */
    /* Multiplications and additions for one token, forward: products with weights (the output
     * matrix among them), and attention over `length` keys (a decoder sees half of them on
     * average). Training costs three times as much. With two sides, of a pair of tokens. */
    double flops_weights, flops_attention;
    double run_bytes;   /* f32 weights, and the keys and values of `length` tokens */
    double train_bytes; /* f32 weights, gradients and Adam's two moments; no activations */
} fv_model_cost;

/* Fails: ARGUMENT (settings out of range, length < 1), MEMORY. */
FV_API FV_MUST_USE fv_status fv_transformer_cost(fv_ctx *ctx, const fv_transformer_config *cfg,
                                                 int64_t length, fv_model_cost *out);

#ifdef __cplusplus
}
#endif
#endif
