/* The parameter set's inside, for the optimizer. */
#ifndef FV_TRAIN_PARAMS_H
#define FV_TRAIN_PARAMS_H

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
    int *slots; /* 2 room of them: places of items + 1 by the hash of their names; 0 is empty */
};

#endif
