/*
 * Libraries that are loaded when a file needs them: what `fovea doctor` shows, and how a file is
 * refused while its library is missing. An empty file with the library's name, in a folder that the
 * dynamic loader searches first, makes it missing.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "fovea/image.h"
#include "support/files.h"
#include "support/opcase.h"
#include "support/program.h"
#include "support/tensors.h"

static bool uses(const char *name)
{
    fv_library library = {.struct_size = sizeof library};
    for (int i = 0; fv_library_get(i, &library); i++)
        if (strcmp(library.name, name) == 0) return library.used && library.found;
    return false;
}

static void hide_libraries(void)
{
    static const char *const files[] = {"libpng16.so.16", "libturbojpeg.so.0", "libFLAC.so.8",
                                        "libFLAC.so.12", "libFLAC.so.14"};
    folder_make();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        file_write(folder_path(files[i]), "", 0);
    setenv("LD_LIBRARY_PATH", folder_path(""), 1);
}

static void show_libraries(void)
{
    unsetenv("LD_LIBRARY_PATH");
    folder_remove();
}

static void doctor_names_libraries(void)
{
    program_run("doctor");
    expect(0, "Libraries", NULL);
    if (uses("libpng")) CHECK(strstr(program.out, "found     PNG files: /") != NULL);
    if (uses("libjpeg-turbo")) CHECK(strstr(program.out, "found     JPEG files: /") != NULL);
    if (uses("libFLAC")) CHECK(strstr(program.out, "found     FLAC files: /") != NULL);
    program_run("doctor --json");
    expect(0, "\"name\": \"libpng\", \"gives\": \"PNG files\"", NULL);
}

static void doctor_says_how_to_get_them(void)
{
    const bool png = uses("libpng"), jpeg = uses("libjpeg-turbo"), flac = uses("libFLAC");
    hide_libraries();
    program_run("doctor");
    expect(0, NULL, NULL);
    if (png)
        CHECK(strstr(program.out, "not found PNG files: install libpng16.so.16 (Debian: apt "
                                  "install libpng16-16)") != NULL);
    if (jpeg) CHECK(strstr(program.out, "not found JPEG files: install libturbojpeg.so.0") != NULL);
    if (flac) CHECK(strstr(program.out, "not found FLAC files: install libFLAC.so.12") != NULL);
    show_libraries();
}

static void a_recording_without_its_library(void)
{
    if (!uses("libFLAC")) return;
    hide_libraries();
    program_run("inspect %s", test_path("data/audio/sweep.flac"));
    expect(4, NULL, "sweep.flac: FLAC files need the library libFLAC (libFLAC.so.12)");
    show_libraries();
}

/* Run by the next test in a process whose libraries are hidden. */
static void pictures_while_hidden(void)
{
    if (!getenv("LD_LIBRARY_PATH")) return;
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_picture_load(ctx, test_path("data/image/rgb.png"), 3);
    CHECK_ERROR(ctx, FV_ERR_UNSUPPORTED, "rgb.png: PNG files need the library libpng");
    fv_picture_load(ctx, test_path("data/image/colour.jpg"), 3);
    CHECK_ERROR(ctx, FV_ERR_UNSUPPORTED, "colour.jpg: JPEG files need the library libjpeg-turbo");
    fv_ctx_destroy(&ctx);
}

static void pictures_without_their_libraries(void)
{
    if (!uses("libpng") || !uses("libjpeg-turbo")) return;
    hide_libraries();
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "fovea_tests", "test_cli_libraries", "while_hidden", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    show_libraries();
}

TEST_MAIN(argc, argv)
{
    program_needed();
    TEST_BEGIN(argc, argv);
    RUN(doctor_names_libraries);
    RUN(doctor_says_how_to_get_them);
    RUN(a_recording_without_its_library);
    RUN(pictures_while_hidden);
    RUN(pictures_without_their_libraries);
    return TEST_END();
}
