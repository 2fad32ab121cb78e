/* FLAC: loads with and without mixing; samples are within [-1, 1]. A frame of a few bytes may stand
 * for 65,535 samples, so running out of the memory that this target has is no finding. */
#include <stdlib.h>

#include "fovea/audio.h"
#include "fuzz.h"

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    for (int mix = 0; mix < 2; mix++) {
        fv_sound *sound = NULL;
        const fv_status s = fv_sound_load(ctx, "input", (fv_sound_mix)mix, &sound);
        if (s == FV_ERR_IO) abort();
        for (int64_t c = 0; s == FV_OK && c < fv_sound_channels(sound); c++)
            for (int64_t i = 0; i < fv_sound_length(sound); i++)
                if (!(fv_sound_samples(sound, c)[i] >= -1 && fv_sound_samples(sound, c)[i] <= 1))
                    abort();
        fv_sound_free(&sound);
    }
    fuzz_check(ctx);
    return 0;
}
