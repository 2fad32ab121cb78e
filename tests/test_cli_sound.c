/* fovea inspect of recordings: facts, spectrogram, pictures, what is refused. */
#include "fovea/context.h"
#include "support/files.h"
#include "support/program.h"
#include "support/test.h"

static const char *sweep(void) { return test_path("data/audio/sweep.wav"); }

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void facts_are_printed(void)
{
    program_run("inspect %s", sweep());
    expect(0, "16-bit PCM, 8000 Hz, 2 channels, 0.625 s (5000 samples), peak 0.5211 (-5.7 dB)",
           NULL);
    CHECK_EQ(count_lines(program.out), 1 + 16 + 1); /* facts, rows of filters, the scale */
    program_run("inspect --json %s", sweep());
    expect(0, "\"encoding\": \"16-bit PCM\", \"rate\": 8000, \"channels\": 2, \"samples\": 5000",
           NULL);
    CHECK_EQ(count_lines(program.out), 1);
    program_run("inspect %s", test_path("../fuzz/corpus/wav/empty.wav"));
    expect(0, "0.000 s (0 samples), peak 0.0000\n", NULL);
}

/* The sweep rises: the loudest shade gets higher in the second half than in the first. */
static void the_spectrogram_shows_the_sweep(void)
{
    setenv("LC_ALL", "C", 1);
    program_run("inspect %s", sweep());
    unsetenv("LC_ALL");
    int first = -1, second = -1; /* the highest rows, counted from the top */
    const char *line = strchr(program.out, '\n');
    for (int row = 0; line && row < 16; row++) {
        const char *end = strchr(line + 1, '\n');
        if (!end) break;
        const char *middle = line + (end - line) / 2;
        for (const char *c = line; c < end; c++) {
            int *half = c < middle ? &first : &second;
            if (*c == '#' && *half < 0) *half = row;
        }
        line = end;
    }
    CHECK(second >= 0 && first > second);
}

static void pictures_are_drawn(void)
{
    folder_make();
    program_run("inspect %s -o %s", sweep(), folder_path("a.svg"));
    expect(0, "16-bit PCM", NULL);
    CHECK_EQ(count_lines(program.out), 1);
    size_t bytes = 0;
    char *svg = file_read(folder_path("a.svg"), &bytes);
    CHECK(svg && bytes > 5000 && memcmp(svg, "<svg", 4) == 0);
    free(svg);
    program_run("inspect %s -o %s", sweep(), folder_path("a.xyz"));
    expect(2, NULL, "a.xyz");
    program_run("inspect %s -o %s", test_path("data/io/v1.npy"), folder_path("b.svg"));
    expect(2, NULL, "--output draws the spectrogram of a recording");
    program_run("inspect %s %s -o %s", sweep(), sweep(), folder_path("b.svg"));
    expect(2, NULL, "--output needs one recording");
    CHECK_EQ(folder_count(".svg"), 1);
    folder_remove();
}

static void bad_recordings_are_refused(void)
{
    folder_make();
    program_run("inspect %s", test_path("../fuzz/corpus/wav/law.wav"));
    expect(4, NULL, "encoding 6 (A-law) is not supported");
    size_t bytes = 0;
    void *data = file_read(sweep(), &bytes);
    if (data) file_write(folder_path("cut.wav"), data, bytes / 2);
    free(data);
    program_run("inspect %s", folder_path("cut.wav"));
    expect(3, NULL, "states 20044 bytes, the file has 10022");
    file_write(folder_path("text.wav"), "not a recording", 15);
    program_run("inspect %s", folder_path("text.wav"));
    expect(3, NULL, "neither a WAV nor a FLAC file");
    folder_remove();
}

static void flac_needs_libflac(void)
{
    fv_feature f = {.struct_size = sizeof f};
    bool present = false;
    for (int i = 0; fv_feature_get(i, &f); i++)
        if (strcmp(f.name, "flac") == 0) present = f.present;
    program_run("inspect %s", test_path("data/audio/sweep.flac"));
    if (present)
        expect(0, "16-bit FLAC, 8000 Hz, 2 channels", NULL);
    else
        expect(4, NULL, "FLAC");
}

TEST_MAIN(argc, argv)
{
    program_needed();
    TEST_BEGIN(argc, argv);
    RUN(facts_are_printed);
    RUN(the_spectrogram_shows_the_sweep);
    RUN(pictures_are_drawn);
    RUN(bad_recordings_are_refused);
    RUN(flac_needs_libflac);
    return TEST_END();
}
