/* What the two halves of `fovea inspect` share. */
#ifndef FOVEA_CLI_INSPECT_H
#define FOVEA_CLI_INSPECT_H

#include "fovea/context.h"
#include "options.h"

/* One architecture, or "all"; an exit code. */
int inspect_architectures(fv_ctx *ctx, const char *name, int64_t length, bool json);

#endif
