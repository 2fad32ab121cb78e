/* WAV: loads with and without mixing; what is accepted is finite and within the file. */
#include <math.h>
#include <stdlib.h>

#include "fovea/audio.h"
#include "fuzz.h"

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    for (int mix = 0; mix < 2; mix++) {
        fv_sound *sound = NULL;
        const double began = fuzz_clock();
        const fv_status s = fv_sound_load(ctx, "input", (fv_sound_mix)mix, &sound);
        if (s == FV_ERR_IO) abort();
        if (s == FV_OK) {
            const int64_t n = fv_sound_length(sound) * fv_sound_file_channels(sound);
            fuzz_bound("wav", s, (size_t)n, bytes, began);
            for (int64_t c = 0; c < fv_sound_channels(sound); c++)
                for (int64_t i = 0; i < fv_sound_length(sound); i++)
                    if (!isfinite(fv_sound_samples(sound, c)[i])) abort();
        }
        fv_sound_free(&sound);
    }
    fuzz_check(ctx);
    return 0;
}
