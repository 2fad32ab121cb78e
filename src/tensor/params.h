/* The fields of a parameter set, for optimizers and files of parameters. */
#ifndef FV_TENSOR_PARAMS_H
#define FV_TENSOR_PARAMS_H

#include "fovea/optim.h"
#include "tensor/launch.h"

enum { FV_PARAM_NAME = 256 };

typedef struct fv_param {
    char name[FV_PARAM_NAME];
    fv_tensor *tensor;
    bool transposed; /* in model files */
    bool buffer;     /* not trained */
} fv_param;

/* Whether an optimizer over `group` (NULL: all) updates parameter i. */
bool fv_params_in_group(const fv_params *params, int i, const char *group);

struct fv_params {
    fv_ctx *ctx;
    bool plan;
    int count, room;
    fv_param *items;
    int *slots; /* [2 room], hash table of names: index into items + 1, or 0 if empty */
};

/* Adds the squares of all gradients of the group to *total, a double in device memory; waits for
 * nothing. Poisons on failure. */
void fv_params_add_sumsq(const fv_params *params, const char *group, void *total);

/* Whether the set was made by fv_params_create_plan. */
bool fv_params_is_plan(const fv_params *params);

/* Model files hold this matrix transposed (GPT-2's): fv_params_save and fv_params_load turn it.
 * Fails: INDEX (no such parameter), SHAPE (not a matrix). */
fv_status fv_params_store_transposed(fv_params *params, const char *name);
bool fv_params_stored_transposed(const fv_params *params, int i);

#endif
