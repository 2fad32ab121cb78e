/* Checks that every media set must pass. */
#ifndef FV_TEST_MEDIA_H
#define FV_TEST_MEDIA_H

#include "data/media.h"

/* fv_media_text gives the texts that fv_media_get gives, for up to `most` examples of each part,
 * and refuses numbers that there are not. The set must have texts. */
void check_texts(fv_ctx *ctx, fv_media *set, int64_t most);

#endif
