/* What the task of instructions and fovea/walk.h use of the walker besides its kind. */
#ifndef FV_MODELS_KIND_WALKER_H
#define FV_MODELS_KIND_WALKER_H

#include "fovea/model.h"

#define FV_WALKER_SITE "walker"

/* Whether it attends to words; false: a walker without attention. */
bool fv_walker_attends(const void *self);

#endif
