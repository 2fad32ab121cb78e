/*
 * A real speech Transformer: the Keyword Transformer KWT-1 (Berg, O'Connor, Cruz 2021), its audio
 * front end and its twelve blocks from the published weights, against recorded logits for silence
 * and twenty spoken digits. Needs $FOVEA_DATA with weights/kwt1 and fsdd, xz and tar; else skipped.
 */
#include <sys/stat.h>

#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/layers.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/values.h"

enum {
    SAMPLES = 16000,
    FRAMES = 98,
    FRAME = 480,
    HOP = 160,
    WIDTH = 64,
    LAYERS = 12,
    LABELS = 12,
    SKIPPED = 77
};

static const fv_block_names names = {
    .self = {.q = "attn.q", .k = "attn.k", .v = "attn.v", .out = "attn.out"},
    .ff = {"mlp.fc1", NULL, "mlp.fc2"},
    .self_norm = "norm1",
    .ff_norm = "norm2"};

typedef struct kwt {
    fv_ctx *ctx;
    fv_params *params;
    fv_block blocks[LAYERS];
} kwt;

static fv_tensor *weight(const kwt *m, const char *name)
{
    fv_tensor *t = fv_params_find(m->params, name);
    if (!t) test_failed(__FILE__, __LINE__, "there is no '%s'", name);
    return t;
}

/* Every tensor of the file becomes a parameter of that name, in which the blocks are made. */
static bool kwt_load(kwt *m, const char *path)
{
    fv_ctx *ctx = m->ctx;
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, &m->params));
    CHECK_OK(ctx, fv_safetensors_open(ctx, path, 0, &file));
    for (size_t i = 0; file && i < fv_safetensors_count(file); i++) {
        const char *name = fv_safetensors_entry(file, i)->name;
        fv_params_add(m->params, name, fv_safetensors_load(ctx, file, name));
    }
    fv_safetensors_close(&file);
    const int loaded = fv_params_count(m->params);
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, WIDTH, 1);
    cfg.names = &names;
    cfg.post_norm = true;
    cfg.eps = 1e-6;
    cfg.self.bias = false;
    cfg.ff.act = FV_ACT_GELU_TANH;
    for (int i = 0; i < LAYERS; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blocks.%d", i);
        CHECK_OK(ctx, fv_block_create(m->params, prefix, &cfg, &m->blocks[i]));
    }
    CHECK_EQ(fv_params_count(m->params), loaded); /* nothing had to be made up */
    return test_failures() == 0;
}

/* Cepstra [98, 40] of 16,000 samples. */
static fv_tensor *listen(const kwt *m, const float *samples)
{
    static float frames[FRAMES][FRAME];
    fv_ctx *ctx = m->ctx;
    for (int f = 0; f < FRAMES; f++)
        memcpy(frames[f], samples + f * HOP, sizeof frames[f]);
    fv_tensor *x = fv_from_host(ctx, FV_F32, 2, (int64_t[]){FRAMES, FRAME}, frames);
    x = fv_mul(ctx, x, weight(m, "frontend.window"));
    fv_tensor *re = fv_linear(ctx, x, weight(m, "frontend.dft_cos"), NULL);
    fv_tensor *im = fv_linear(ctx, x, weight(m, "frontend.dft_sin"), NULL);
    fv_tensor *power = fv_add(ctx, fv_square(ctx, re), fv_square(ctx, im));
    x = fv_linear(ctx, fv_sqrt(ctx, power), weight(m, "frontend.mel"), NULL);
    x = fv_log(ctx, fv_clamp(ctx, x, 1e-12, INFINITY));
    x = fv_linear(ctx, x, weight(m, "frontend.dct"), NULL);
    return fv_mul(ctx, x, weight(m, "frontend.norm_scale"));
}

static fv_tensor *classify(const kwt *m, const float *samples)
{
    fv_ctx *ctx = m->ctx;
    fv_tensor *x =
        fv_linear(ctx, listen(m, samples), weight(m, "patch.weight"), weight(m, "patch.bias"));
    fv_tensor *first = fv_unsqueeze(ctx, weight(m, "cls_token"), 0);
    x = fv_concat(ctx, 2, (fv_tensor *[]){first, x}, 0);
    x = fv_unsqueeze(ctx, fv_add(ctx, x, weight(m, "pos_embed")), 0);
    for (int i = 0; i < LAYERS; i++)
        x = fv_block_run(ctx, &m->blocks[i], &(fv_block_input){.x = x}, NULL);
    x = fv_reshape(ctx, fv_slice(ctx, x, 1, 0, 1, 1), 1, (int64_t[]){WIDTH});
    return fv_linear(ctx, x, weight(m, "head.weight"), weight(m, "head.bias"));
}

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
static void check_line(const kwt *m, char *line)
{
    static float samples[SAMPLES];
    char *rest = NULL, path[512];
    const char *name = strtok_r(line, "\t", &rest);
    snprintf(path, sizeof path, "recordings/%s", name);
    if (strcmp(name, "zeros") == 0)
        memset(samples, 0, sizeof samples);
    else if (!read_recording(folder_path(path), samples))
        test_failed(__FILE__, __LINE__, "%s cannot be read", path);
    float *logits = tensor_floats(m->ctx, classify(m, samples));
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
    static kwt m;
    m = (kwt){.ctx = values_begin()};
    size_t bytes = 0;
    int lines = 0;
    snprintf(path, sizeof path, "%s/weights/kwt1/reference-logits.tsv", data_folder);
    char *text = file_read(path, &bytes), *rest = NULL;
    fv_no_grad_begin(m.ctx);
    if (kwt_load(&m, folder_path("kwt1.safetensors")) && text) {
        text[bytes - 1] = '\0'; /* the last newline */
        strtok_r(text, "\n", &rest);
        for (char *line; (line = strtok_r(NULL, "\n", &rest)); lines++) {
            fv_scope_begin(m.ctx);
            check_line(&m, line);
            fv_scope_end(m.ctx);
        }
    }
    CHECK_EQ(lines, 21);
    fv_no_grad_end(m.ctx);
    free(text);
    fv_params_destroy(&m.params);
    values_end(&m.ctx);
}

static bool unpack(void)
{
    char command[2048];
    snprintf(command, sizeof command,
             "xz -dc '%s/weights/kwt1/kwt1.safetensors.xz' > '%s' && tar -C '%s' -xJf "
             "'%s/fsdd/recordings.tar.xz'",
             data_folder, folder_path("kwt1.safetensors"), folder_path("."), data_folder);
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
