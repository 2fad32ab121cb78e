/* What the parts of `fovea inspect` share. */
#ifndef FOVEA_CLI_INSPECT_H
#define FOVEA_CLI_INSPECT_H

#include "fovea/context.h"
#include "options.h"

/* Whether a file is a recording, by its first bytes or, if those are of nothing, its name. */
bool inspect_is_sound(const char *path, const unsigned char *start, size_t bytes);
/* Facts and a spectrogram, in the file `picture` or, if it is NULL, as text; an exit code. */
int inspect_sound(fv_ctx *ctx, const char *path, bool json, const char *picture);

/* One architecture, or "all"; an exit code. */
int inspect_architectures(fv_ctx *ctx, const char *name, int64_t length, bool json);

#endif
