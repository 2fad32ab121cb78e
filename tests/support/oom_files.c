#include "support/oom_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fovea/audio.h"
#include "fovea/file.h"
#include "fovea/image.h"
#include "io/json.h"
#include "io/json_write.h"
#include "io/toml.h"
#include "support/test.h"

/* A file of this process in the temporary folder; the text lives until the fourth call after. */
static const char *scratch(const char *name)
{
    static char paths[4][256];
    static int next;
    const char *dir = getenv("TMPDIR");
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/fovea-oom-%d-%s", dir ? dir : "/tmp", (int)getpid(), name);
    return path;
}

static bool parse_json(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const char text[] = "{\"a\": [1, 2.5, \"x\\u00e9\", null, {\"b\": true}], \"c\": \"d\"}";
    fv_doc *doc = NULL;
    bool ok = fv_json_parse(ctx, "text", text, sizeof text - 1, &doc) == FV_OK;
    fv_doc_free(&doc);
    return ok;
}

static bool write_json(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_json_writer w;
    fv_json_begin(&w, ctx);
    fv_json_open(&w, '{');
    for (int i = 0; i < 50; i++) {
        char key[16];
        snprintf(key, sizeof key, "key %d", i);
        fv_json_key(&w, key);
        fv_json_string(&w, "a text that is long enough to make the buffer grow");
    }
    fv_json_close(&w, '}');
    bool ok = fv_json_end(&w) == FV_OK;
    fv_json_free(&w);
    return ok;
}

static bool parse_toml(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const char text[] = "name = \"x\"\n[model]\nsizes = [1, 2, 3]\n[model.deep]\n"
                               "rate = 1e-3\ninner = {a = 1, b = [true, false]}\n";
    fv_doc *doc = NULL;
    bool ok = fv_toml_parse(ctx, "text", text, sizeof text - 1, &doc) == FV_OK;
    fv_doc_free(&doc);
    return ok;
}

static void two_tensors(fv_ctx *ctx, fv_tensor *out[2])
{
    out[0] = fv_full(ctx, FV_F32, 2, (int64_t[]){3, 5}, 1.5);
    out[1] = fv_full(ctx, FV_I64, 1, (int64_t[]){7}, 2);
}

static const char *const names[] = {"layer.weight", "layer.index"};

static bool save_and_load_safetensors(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const char *path = scratch("a.safetensors");
    const fv_file_metadata notes[] = {{"format", "pt"}};
    fv_tensor *tensors[2];
    fv_safetensors *file = NULL;
    fv_scope_begin(ctx);
    two_tensors(ctx, tensors);
    bool ok = fv_safetensors_save(ctx, names, tensors, 2, notes, 1, path) == FV_OK;
    static const unsigned modes[] = {FV_SAFETENSORS_COPY | FV_SAFETENSORS_VERIFY,
                                     FV_SAFETENSORS_MAP};
    for (int m = 0; m < 2; m++) {
        if (fv_safetensors_open(ctx, path, modes[m], &file) != FV_OK) {
            ok = false;
            continue;
        }
        for (int i = 0; i < 2; i++)
            fv_safetensors_load(ctx, file, names[i]);
        fv_safetensors_close(&file);
    }
    fv_scope_end(ctx);
    unlink(path);
    return ok && fv_ctx_error(ctx) == FV_OK;
}

static bool open_sharded_safetensors(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    char index[256], shard[256], text[600];
    snprintf(shard, sizeof shard, "%s", scratch("shard.safetensors"));
    snprintf(index, sizeof index, "%s", scratch("model.safetensors.index.json"));
    fv_scope_begin(ctx);
    fv_tensor *tensors[2];
    two_tensors(ctx, tensors);
    bool ok = fv_safetensors_save(ctx, names, tensors, 2, NULL, 0, shard) == FV_OK;
    if (ok) {
        const char *base = strrchr(shard, '/') + 1;
        snprintf(text, sizeof text, "{\"weight_map\": {\"%s\": \"%s\", \"%s\": \"%s\"}}", names[0],
                 base, names[1], base);
        FILE *f = fopen(index, "w");
        if (f) {
            fputs(text, f);
            fclose(f);
        }
        fv_safetensors *file = NULL;
        ok = fv_safetensors_open(ctx, index, FV_SAFETENSORS_COPY, &file) == FV_OK;
        if (ok) fv_safetensors_load(ctx, file, names[0]);
        fv_safetensors_close(&file);
    }
    fv_scope_end(ctx);
    unlink(shard);
    unlink(index);
    return ok && fv_ctx_error(ctx) == FV_OK;
}

/* Files of torch.save in both forms, with tensors that must be gathered. */
static bool open_pickles(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const char *const files[] = {"data/io/torch/views.bin", "data/io/torch/views_old.bin"};
    for (int i = 0; i < 2; i++) {
        fv_safetensors *file = NULL;
        if (fv_safetensors_open(ctx, test_path(files[i]), FV_SAFETENSORS_CHECK, &file) != FV_OK)
            return false;
        fv_scope_begin(ctx);
        fv_safetensors_load(ctx, file, "part");
        fv_safetensors_load(ctx, file, "transposed");
        fv_scope_end(ctx);
        fv_safetensors_close(&file);
        if (fv_ctx_error(ctx) != FV_OK) return false;
    }
    return true;
}

static bool load_npy(fv_ctx *ctx, const char *path, const char *name)
{
    fv_npy *file = NULL;
    bool ok = fv_npy_open(ctx, path, &file) == FV_OK;
    if (ok) fv_npy_load(ctx, file, name);
    fv_npy_close(&file);
    return ok && fv_ctx_error(ctx) == FV_OK;
}

static bool save_and_load_npy(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const char *path = scratch("a.npy");
    fv_tensor *tensors[2];
    fv_scope_begin(ctx);
    two_tensors(ctx, tensors);
    bool ok = fv_npy_save(ctx, tensors[0], path) == FV_OK;
    ok = load_npy(ctx, path, "") && ok;
    fv_scope_end(ctx);
    unlink(path);
    return ok;
}

static bool save_and_load_npz(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const char *path = scratch("a.npz");
    fv_tensor *tensors[2];
    fv_scope_begin(ctx);
    two_tensors(ctx, tensors);
    bool ok = fv_npz_save(ctx, names, tensors, 2, path) == FV_OK;
    ok = load_npy(ctx, path, names[1]) && ok;
    fv_scope_end(ctx);
    unlink(path);
    return ok;
}

/* Written, read in both mixes, resampled, and turned into features of every kind and both types. */
static bool save_and_load_sound(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static float x[2][700];
    const char *path = scratch("a.wav");
    fv_sound *s = NULL;
    bool ok = fv_sound_create(ctx, 8000, 2, 700, &x[0][0], &s) == FV_OK;
    ok = ok && fv_sound_save(ctx, s, FV_SOUND_FORMAT_PCM16, path) == FV_OK;
    fv_sound_free(&s);
    ok = ok && fv_sound_load(ctx, path, FV_SOUND_MIX_NONE, &s) == FV_OK;
    fv_sound_free(&s);
    ok = ok && fv_sound_load(ctx, path, FV_SOUND_MIX_MONO, &s) == FV_OK;
    ok = ok && fv_sound_resample(ctx, &s, 16000) == FV_OK;
    fv_scope_begin(ctx);
    for (int i = 0; ok && i < 10; i++) {
        fv_features *front = NULL;
        fv_features_config cfg;
        fv_features_config_init(&cfg, sizeof cfg, FV_FEATURES_PRESET_WHISPER);
        cfg.output = (fv_features_output)(i % 5);
        cfg.compute = i < 5 ? FV_F32 : FV_F64;
        cfg.fft = i % 2 ? 37 * 2 : 64; /* 37: by a convolution */
        cfg.mels = 16;
        ok = fv_features_create(ctx, &cfg, &front) == FV_OK;
        if (ok) fv_features_tensor(ctx, front, s, 0);
        ok = ok && fv_ctx_error(ctx) == FV_OK;
        fv_features_destroy(&front);
    }
    fv_scope_end(ctx);
    fv_sound_free(&s);
    unlink(path);
    return ok;
}

#ifdef FV_HAVE_FLAC
static bool load_flac(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_sound *s = NULL;
    const bool ok =
        fv_sound_load(ctx, test_path("data/audio/sweep.flac"), FV_SOUND_MIX_MONO, &s) == FV_OK;
    fv_sound_free(&s);
    return ok;
}
#endif

#if defined FV_HAVE_PNG || defined FV_HAVE_JPEG
/* A picture, as floats of another size and changed. */
static bool load_picture(fv_ctx *ctx, const char *name)
{
    const fv_augment how = {.shift = 1,
                            .flip = true,
                            .brightness = 0.1,
                            .contrast = 0.1,
                            .colour = 0.1,
                            .crop = {4, 4}};
    fv_scope_begin(ctx);
    fv_tensor *x = fv_picture_load(ctx, test_path(name), 3);
    x = fv_picture_floats(ctx, x, 6, 5);
    for (uint64_t row = 0; row < 4; row++)
        fv_picture_augment(ctx, x, &how, row);
    fv_scope_end(ctx);
    return fv_ctx_error(ctx) == FV_OK;
}
#endif

#ifdef FV_HAVE_PNG
static bool load_png(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return load_picture(ctx, "data/image/rgb.png");
}
#endif

#ifdef FV_HAVE_JPEG
static bool load_jpeg(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return load_picture(ctx, "data/image/colour.jpg");
}
#endif

static bool load_idx(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_scope_begin(ctx);
    fv_idx_load(ctx, test_path("data/image/digits.idx"));
#ifdef FV_HAVE_ZLIB
    fv_idx_load(ctx, test_path("data/image/labels.idx.gz"));
#endif
    fv_scope_end(ctx);
    return fv_ctx_error(ctx) == FV_OK;
}

static bool open_list(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_pictures *set = NULL;
    const fv_status status = fv_pictures_open(ctx, test_path("data/image/list.tsv"), &set);
    fv_pictures_close(&set);
    return status == FV_OK;
}

const oom_file_scenario oom_file_scenarios[] = {
    {"json read", parse_json},
    {"json write", write_json},
    {"toml read", parse_toml},
    {"safetensors", save_and_load_safetensors},
    {"safetensors shards", open_sharded_safetensors},
    {"pickles", open_pickles},
    {"npy", save_and_load_npy},
    {"npz", save_and_load_npz},
    {"wav", save_and_load_sound},
#ifdef FV_HAVE_FLAC
    {"flac", load_flac},
#endif
#ifdef FV_HAVE_PNG
    {"png", load_png},
#endif
#ifdef FV_HAVE_JPEG
    {"jpeg", load_jpeg},
#endif
    {"idx", load_idx},
    {"list of pictures", open_list},
};
const int oom_file_scenario_count = (int)(sizeof oom_file_scenarios / sizeof *oom_file_scenarios);
