/* --device: every verb that computes gives the same answers on the guarded device as on the CPU,
 * and names the reason where a device is absent. */
#include "fovea/file.h"

#include <sys/stat.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] =
    "[data]\nmade = \"dates\"\ntrain_pairs = 60\nvalid_pairs = 5\n"
    "[tokens]\nkind = \"char\"\nmin_count = 1\n"
    "[model]\nhidden = 8\nencoder_hidden = 5\nembedding = 6\nattention_width = 6\nreadout_width = "
    "7\n[train]\nsteps = 3\nbatch_tokens = 200\neval_every = 0\n";

static void train_on(const char *device)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1 -q --device %s", program_path("r.toml"), program_path(device),
                device);
    expect(0, NULL, NULL);
}

static void training_has_equal_bits(void)
{
    train_on("cpu");
    train_on("guarded");
    program_run("compare %s %s", program_path("cpu"), program_path("guarded"));
    expect(0, "equal to the bit", NULL);
}

/* The last output, except for the time it took, which eval prints. */
static void forget_time(void)
{
    char *time = strstr(program.out, " s to translate");
    for (; time && time > program.out && time[-1] != ' '; time--)
        time[-1] = '?';
}

/* Runs one line on both devices and compares what it prints. */
static void same_answer(const char *line)
{
    static char cpu[sizeof program.out];
    program_run("%s --device cpu", line);
    expect(0, NULL, NULL);
    forget_time();
    snprintf(cpu, sizeof cpu, "%s", program.out);
    CHECK(strlen(cpu) > 3);
    program_run("%s --device guarded", line);
    expect(0, NULL, NULL);
    forget_time();
    CHECK_STR(program.out, cpu);
}

static void verbs_answer_alike(void)
{
    char line[1024];
    const char *model = program_path("cpu");
    program_text("x.txt", "3.5.79\n1.2.2001\n");
    program_text("y.txt", "1979-05-03\n2001-02-01\n");
    snprintf(line, sizeof line, "run %s -t 1 --json 3.5.79 1.2.2001", model);
    same_answer(line);
    snprintf(line, sizeof line, "run %s -t 1 --beam 3 --nbest 2 --file %s", model,
             program_path("x.txt"));
    same_answer(line);
    snprintf(line, sizeof line, "look %s -t 1 3.5.79", model);
    same_answer(line);
    snprintf(line, sizeof line, "eval %s %s %s -t 1 --by-length 2", model, program_path("x.txt"),
             program_path("y.txt"));
    same_answer(line);
}

/* A pass of a Transformer: the files of logits are equal. */
static void passes_have_equal_bits(void)
{
    size_t bytes[2] = {0, 0};
    void *file[2];
    char fixture[256], ids[256];
    static const char *const device[2] = {"cpu", "guarded"};
    snprintf(fixture, sizeof fixture, "%s", test_path("fixtures/llama"));
    snprintf(ids, sizeof ids, "%s", program_path("ids.npy"));
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    const int64_t tokens[6] = {5, 9, 2, 200, 71, 3}, shape[2] = {1, 6};
    CHECK_OK(ctx, fv_npy_save(ctx, fv_from_host(ctx, FV_I64, 2, shape, tokens), ids));
    fv_ctx_destroy(&ctx);
    for (int i = 0; i < 2; i++) {
        program_run("run %s --ids %s --logits %s -t 1 --device %s", fixture, ids,
                    program_path(i ? "b.npy" : "a.npy"), device[i]);
        expect(0, NULL, NULL);
        file[i] = file_read(program_path(i ? "b.npy" : "a.npy"), &bytes[i]);
    }
    CHECK(file[0] && file[1] && bytes[0] > 1000 && bytes[0] == bytes[1]);
    if (file[0] && file[1]) CHECK(memcmp(file[0], file[1], bytes[0]) == 0);
    free(file[0]);
    free(file[1]);
}

static void an_absent_device_is_named(void)
{
    static const char *const lines[] = {"train %s -o new", "train %s --new -o new", "run %s a",
                                        "look %s a",       "eval %s x y",           "demo -o %s-d",
                                        "bench model"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[512];
        const bool trains = strncmp(lines[i], "train", 5) == 0;
        snprintf(line, sizeof line, "%s", lines[i]);
        if (strstr(lines[i], "%s"))
            snprintf(line, sizeof line, "%.*s%s%s", (int)(strstr(lines[i], "%s") - lines[i]),
                     lines[i], program_path(trains ? "r.toml" : "cpu"), strstr(lines[i], "%s") + 2);
        program_run("%s --device cuda", line);
        expect(4, "", "--device cuda: this build has no CUDA back end");
    }
    struct stat about;
    CHECK(stat("new", &about) != 0); /* nothing was written */
    program_run("run x --device gpu");
    expect(2, NULL, "'gpu' is not one of cpu|guarded|cuda; did you mean 'cpu'?");
    program_run("bench peak --device guarded");
    expect(2, NULL, "--device is for model, seq2seq and pointer: peak measures the CPU");
}

static int errors;
static char last_error[256];

static void collect(void *user, fv_log_level level, const char *text)
{
    (void)user;
    if (level != FV_LOG_ERROR) return;
    errors++;
    snprintf(last_error, sizeof last_error, "%s", text);
}

static void a_context_says_which_device_it_lacks(void)
{
    fv_ctx *ctx = NULL;
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.device = FV_DEVICE_CUDA;
    cfg.log = collect;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_ERR_UNSUPPORTED);
    CHECK(ctx == NULL);
    CHECK_EQ(errors, 1);
    CHECK_STR(last_error, "device cuda: this build has no CUDA back end");
    CHECK(!fv_device_absence(FV_DEVICE_CPU) && !fv_device_absence(FV_DEVICE_GUARDED));
    CHECK_STR(fv_device_name(FV_DEVICE_GUARDED), "guarded");
    CHECK(!fv_device_name((fv_device_kind)3) && fv_device_absence((fv_device_kind)3));
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(a_context_says_which_device_it_lacks);
    program_needed();
    RUN(training_has_equal_bits);
    RUN(verbs_answer_alike);
    RUN(passes_have_equal_bits);
    RUN(an_absent_device_is_named);
    program_end();
    return TEST_END();
}
