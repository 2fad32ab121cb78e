/*
 * Recordings for models that read sound: 'fovea run MODEL word.wav', 'fovea look MODEL word.wav'.
 *
 *     cli_recording r;
 *     fv_status s = cli_recording_open(model, "word.wav", &r);
 *     if (s == FV_OK) logits = fv_model_classify(model, &r.batch, NULL);
 *     cli_recording_close(&r);
 */
#ifndef FOVEA_CLI_SOUND_H
#define FOVEA_CLI_SOUND_H

#include "fovea/audio.h"
#include "model.h"

/* One recording as a model reads it: samples, or the frames of FV_FEATURES_PRESET_SPEECH. */
typedef struct cli_recording {
    int64_t frames, mels; /* of its spectrogram */
    float *spectrogram;   /* [frames][mels]: what the model reads, or the same of its samples */
    float *samples;       /* [length]; NULL for a model that reads frames */
    int64_t length;       /* entries of the field */
    const void *row;
    fv_batch batch; /* of one row, "frames" or "samples" */
} cli_recording;

/* Reads a file as the model wants it: one channel, at its rate. Fails: as fv_sound_load; FORMAT (no
 * samples). `out` is to be closed even then; it stays where it is, since the batch points into it.
 */
fv_status cli_recording_open(fv_model *model, const char *path, cli_recording *out);
void cli_recording_close(cli_recording *r);

/* For cli_media_use: the words or the text of a recording, and attention above its spectrogram. */
int cli_run_sound(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file);
int cli_look_sound(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                   const char *path);

/* Texts have no more tokens than this: about one for each 40 ms, and some. */
int64_t cli_recording_tokens(const cli_recording *r);

#endif
