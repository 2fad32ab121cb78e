/*
 * A real speech Transformer: the Keyword Transformer KWT-1 (Berg, O'Connor, Cruz 2021), its audio
 * front end and its twelve blocks from the published weights as a model folder, against recorded
 * logits for silence and twenty spoken digits. Needs $FOVEA_DATA with weights/kwt1 and fsdd, xz and
 * tar; else skipped.
 */
#include <sys/stat.h>

#include "fovea/model.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/test.h"

enum { SAMPLES = 16000, LABELS = 12, SKIPPED = 77 };

/* docs/models/speech.md has the same text. */
static const char config[] =
    "{\"model_type\": \"kwt\", \"ability\": \"classify\", \"settings\": {},\n"
    " \"data\": {\"rate\": 16000, \"samples\": 16000, \"window\": 480, \"hop\": 160, \"bins\": "
    "244,\n"
    "          \"mels\": 80, \"frame\": 40},\n"
    " \"labels\": [\"silence\", \"unknown\", \"yes\", \"no\", \"up\", \"down\", \"left\", "
    "\"right\",\n"
    "            \"on\", \"off\", \"stop\", \"go\"]}\n";

/* ---- recordings ------------------------------------------------------------------------ */

/* 8 kHz, 16 bits, one channel: twice the rate by the means of neighbours, in the middle of a
 * second. */
static bool read_recording(const char *path, float out[SAMPLES])
{
    enum { HEADER = 44 };
    size_t bytes = 0;
    unsigned char *data = file_read(path, &bytes);
    memset(out, 0, SAMPLES * sizeof *out);
    if (!data || bytes < HEADER || memcmp(data, "RIFF", 4) != 0) {
        free(data);
        return false;
    }
    const int n = (int)((bytes - HEADER) / 2), doubled = 2 * n < SAMPLES ? 2 * n : SAMPLES;
    const int from = (SAMPLES - doubled) / 2;
    for (int i = 0; i < doubled; i++) {
        double value[2] = {0, 0};
        for (int k = 0; k < 2 && i / 2 + k < n; k++) {
            const unsigned char *at = data + HEADER + 2 * (i / 2 + k);
            value[k] = (int16_t)(uint16_t)(at[0] | at[1] << 8);
        }
        out[from + i] = (float)((i % 2 ? (value[0] + value[1]) / 2 : value[0]) / 32768);
    }
    free(data);
    return true;
}

/* A line of the reference: name, twelve logits, the label. */
static void check_line(fv_model *model, char *line)
{
    static float samples[SAMPLES];
    char *rest = NULL, path[512];
    const char *name = strtok_r(line, "\t", &rest);
    snprintf(path, sizeof path, "recordings/%s", name);
    if (strcmp(name, "zeros") == 0)
        memset(samples, 0, sizeof samples);
    else if (!read_recording(folder_path(path), samples))
        test_failed(__FILE__, __LINE__, "%s cannot be read", path);
    const void *const row = samples;
    const int64_t length = SAMPLES;
    fv_batch batch;
    fv_batch_init(&batch, 1);
    fv_batch_add(&batch,
                 (fv_field){.name = "samples", .dtype = FV_F32, .row = &row, .length = &length});
    float *logits = tensor_floats(fv_model_ctx(model), fv_model_classify(model, &batch, NULL));
    for (int i = 0; i < LABELS; i++) {
        const char *field = strtok_r(NULL, "\t", &rest);
        /* The reference has five digits after the decimal point. */
        if (!field || !(fabs(atof(field) - (double)logits[i]) <= 3e-5))
            test_failed(__FILE__, __LINE__, "%s: logit %d is %g, not %s", name, i,
                        (double)logits[i], field ? field : "there");
    }
    free(logits);
}

static char data_folder[400];

static void logits_are_the_recorded_ones(void)
{
    char path[512];
    fv_ctx *ctx = NULL;
    fv_model *model = NULL;
    size_t bytes = 0;
    int lines = 0;
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return;
    snprintf(path, sizeof path, "%s/weights/kwt1/reference-logits.tsv", data_folder);
    char *text = file_read(path, &bytes), *rest = NULL;
    file_write(folder_path("config.json"), config, sizeof config - 1);
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("."), &model));
    fv_no_grad_begin(ctx);
    if (model && text) {
        text[bytes - 1] = '\0'; /* the last newline */
        strtok_r(text, "\n", &rest);
        for (char *line; (line = strtok_r(NULL, "\n", &rest)); lines++) {
            fv_scope_begin(ctx);
            check_line(model, line);
            fv_scope_end(ctx);
        }
    }
    CHECK_EQ(lines, 21);
    fv_no_grad_end(ctx);
    free(text);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

static bool unpack(void)
{
    char command[2048];
    snprintf(command, sizeof command,
             "xz -dc '%s/weights/kwt1/kwt1.safetensors.xz' > '%s' && tar -C '%s' -xJf "
             "'%s/fsdd/recordings.tar.xz'",
             data_folder, folder_path("model.safetensors"), folder_path("."), data_folder);
    return system(command) == 0;
}

TEST_MAIN(argc, argv)
{
    const char *data = getenv("FOVEA_DATA");
    struct stat st;
    snprintf(data_folder, sizeof data_folder, "%s/weights/kwt1", data ? data : "");
    if (!data || stat(data_folder, &st) != 0) {
        printf("skipped: FOVEA_DATA has no weights/kwt1\n");
        return SKIPPED;
    }
    snprintf(data_folder, sizeof data_folder, "%s", data);
    folder_make();
    if (!unpack()) {
        printf("skipped: xz or tar could not unpack the data\n");
        folder_remove();
        return SKIPPED;
    }
    TEST_BEGIN(argc, argv);
    RUN(logits_are_the_recorded_ones);
    folder_remove();
    return TEST_END();
}
