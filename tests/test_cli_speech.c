/* fovea run and look with recordings: words with probabilities, attention above the spectrogram. */
#include "fovea/audio.h"
#include "fovea/model.h"
#include "support/files.h"
#include "support/program.h"
#include "support/test.h"

enum { FEW = 40 }; /* frames, fewer than the recording has */

static const char *sweep(void) { return test_path("data/audio/sweep.wav"); }

/* A small Keyword Transformer with a front end of its own, or without one, in a folder; it reads at
 * most so many frames. */
static void make_kwt(const char *folder, bool front, int frames)
{
    static const char *const labels[] = {"yes", "no", "up"};
    fv_ctx *ctx = NULL;
    fv_model *model = NULL;
    fv_recipe *recipe = NULL;
    fv_data_spec spec = {.ability = FV_CAN_CLASSIFY, .labels = labels, .label_count = 3};
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return;
    const fv_key_table table = fv_model_kind_find(ctx, "kwt")->keys();
    CHECK_OK(ctx, fv_recipe_create(ctx, &table, 1, &recipe));
    CHECK_OK(ctx, fv_recipe_set(recipe, "kwt.width", "8"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "kwt.layers", "2"));
    fv_data_spec_set(&spec, "frame", front ? 6 : 20);
    fv_data_spec_set(&spec, "frames", frames);
    if (front) {
        fv_data_spec_set(&spec, "rate", 16000);
        fv_data_spec_set(&spec, "samples", 8000);
        fv_data_spec_set(&spec, "window", 400);
        fv_data_spec_set(&spec, "hop", 200);
        fv_data_spec_set(&spec, "bins", 20);
        fv_data_spec_set(&spec, "mels", 10);
    }
    CHECK_OK(ctx, fv_model_create(ctx, "kwt", recipe, &spec, &model));
    CHECK_OK(ctx, fv_model_save(model, folder));
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* Numbers of the first JSON list in the text. */
static int numbers_of(const char *text)
{
    int numbers = 1;
    if (!text) return 0;
    for (; *text && *text != ']'; text++)
        numbers += *text == ',';
    return numbers;
}

static void words_are_printed(void)
{
    for (int front = 0; front < 2; front++) {
        folder_make();
        const char *model = folder_sub("kwt");
        make_kwt(model, front, FEW);
        program_run("run %s %s", model, sweep());
        expect(0, "yes\t0.", NULL);
        CHECK_EQ(lines_of(program.out), 3);
        double sum = 0, last = 1;
        for (const char *at = program.out; (at = strstr(at, "\t0.")) != NULL; at++) {
            const double p = atof(at + 1);
            CHECK(p <= last); /* the most likely first */
            sum += last = p;
        }
        CHECK_NEAR(sum, 1, 2e-4);
        program_run("run %s --top-k 1 %s %s", model, sweep(), sweep());
        expect(0, "sweep.wav", NULL);
        CHECK_EQ(lines_of(program.out), 2);
        program_run("run %s --json %s", model, sweep());
        expect(0, "\"label\": \"", NULL);
        expect(0, "\"classes\": [{\"label\": ", NULL);
        folder_remove();
    }
}

static void attention_is_drawn(void)
{
    for (int front = 0; front < 2; front++) {
        char model[1024];
        folder_make();
        snprintf(model, sizeof model, "%s", folder_sub("kwt"));
        make_kwt(model, front, FEW);
        program_run("look %s %s", model, sweep());
        expect(0, "layer 1", NULL);
        CHECK_EQ(lines_of(program.out), 1 + 2 + 1 + 8 + 1); /* title, layers, gap, bands, scale */
        program_run("look %s %s -o %s", model, sweep(), folder_path("a.svg"));
        expect(0, NULL, front ? "(2 rows over 39 frames)" : "(2 rows over 40 frames)");
        size_t bytes = 0;
        char *svg = file_read(folder_path("a.svg"), &bytes);
        CHECK(svg && bytes > 3000 && strstr(svg, "layer 0"));
        free(svg);
        if (!front)
            expect(0, NULL, "sweep.wav: the model reads 40 frames: those in the middle of 63");
        program_run("look %s %s -o %s", model, sweep(), folder_path("a.npz"));
        expect(0, NULL, "1 array");
        CHECK_EQ(folder_count(".npz"), 1);
        program_run("look %s %s --json", model, sweep());
        expect(0, "\"rows\": [{\"name\": \"layer 0\", \"weights\": [", NULL);
        program_run("look %s %s --json -o %s", model, sweep(), folder_path("both.svg"));
        expect(0, "\"rows\": [{\"name\": \"layer 0\"", "both.svg");
        CHECK_EQ(folder_count(".svg"), 2);
        folder_remove();
    }
}

/* A picture of a long recording is no wider than can be seen; the numbers are of every frame. */
static void long_recordings_share_columns(void)
{
    enum { RATE = 8000, SECONDS = 15, FRAMES = 1501 };
    char model[1024], wav[1024];
    fv_ctx *ctx = NULL;
    fv_sound *sound = NULL;
    folder_make();
    snprintf(model, sizeof model, "%s", folder_sub("kwt"));
    snprintf(wav, sizeof wav, "%s", folder_path("long.wav"));
    make_kwt(model, false, 2000);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return;
    CHECK_OK(ctx, fv_sound_create(ctx, RATE, 1, RATE * SECONDS, NULL, &sound));
    CHECK_OK(ctx, fv_sound_save(ctx, sound, FV_SOUND_FORMAT_PCM16, wav));
    fv_sound_free(&sound);
    fv_ctx_destroy(&ctx);
    program_run("look %s %s -o %s", model, wav, folder_path("long.svg"));
    expect(0, NULL, "(2 rows over 1501 frames)");
    size_t bytes = 0;
    char *svg = file_read(folder_path("long.svg"), &bytes);
    const char *width = svg ? strstr(svg, "width=\"") : NULL;
    CHECK(width && atoi(width + 7) > 500 && atoi(width + 7) < 1500);
    free(svg);
    program_run("look %s %s --json", model, wav);
    expect(0, "\"frames\": 1501", NULL);
    CHECK_EQ(numbers_of(strstr(program.out, "\"weights\": [")), FRAMES);
    folder_remove();
}

static void what_does_not_fit_is_refused(void)
{
    folder_make();
    const char *model = folder_sub("kwt");
    make_kwt(model, false, FEW);
    program_run("run %s", model);
    expect(2, NULL, "expected a recording (WAV or FLAC) after the model");
    program_run("look %s", model);
    expect(2, NULL, "look: no file: expected a recording (WAV or FLAC) after the model");
    program_run("look %s %s --beam 2", model, sweep());
    expect(2, NULL, "--beam does not apply to a recording");
    program_run("look %s %s --pieces", model, sweep());
    expect(2, NULL, "--pieces does not apply to a recording");
    program_run("run %s %s --invert", model, sweep());
    expect(2, NULL, "--invert does not apply to a kwt model");
    program_run("run %s nothing.wav", model);
    expect(3, NULL, "run: nothing.wav: no such file; the model reads a recording (WAV or FLAC)");
    program_run("run %s %s", model, test_path("data/io/v1.npy"));
    expect(3, NULL, "v1.npy");
    program_run("run %s %s", model, test_path("../fuzz/corpus/wav/empty.wav"));
    expect(3, NULL, "without samples");
    program_run("look %s %s --layer 1", model, sweep());
    expect(2, NULL, "--layer does not apply to a recording");
    program_run("look %s %s --pharaoh", model, sweep());
    expect(2, NULL, "--pharaoh does not apply to a recording");
    program_run("look %s %s --pixel 1,1", model, sweep());
    expect(2, NULL, "--pixel does not apply to a recording");
    program_run("run %s %s", model, test_path("data/image/rgb.png"));
    expect(3, NULL, "is a picture (PNG or JPEG), but the model reads a recording");
    program_run("look %s nothing.wav", model);
    expect(3, NULL, "nothing.wav");
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    program_needed();
    TEST_BEGIN(argc, argv);
    RUN(words_are_printed);
    RUN(attention_is_drawn);
    RUN(long_recordings_share_columns);
    RUN(what_does_not_fit_is_refused);
    program_end();
    return TEST_END();
}
