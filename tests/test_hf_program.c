/* fovea run --ids on folders of transformers: logits as it gives them, and refusals. */
#include "fovea/file.h"
#include "support/program.h"
#include "support/tensors.h"
#include "support/values.h"

/* Arrays of a fixture's expected.safetensors as files for options; the text of the options. */
static const char *options_of(fv_ctx *ctx, const char *family, bool small, char out[2048])
{
    static const char *const parts[][2] = {{"input_ids", "ids"},
                                           {"decoder_input_ids", "decoder-ids"},
                                           {"attention_mask", "mask"},
                                           {"token_type_ids", "type-ids"}};
    char path[128];
    fv_safetensors *file = NULL;
    *out = '\0';
    snprintf(path, sizeof path, "fixtures/%s/expected.safetensors", family);
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path(path), 0, &file));
    for (int i = 0; file && i < 4; i++) {
        if (!fv_safetensors_find(file, parts[i][0])) continue;
        char name[64];
        snprintf(name, sizeof name, "%s.npy", parts[i][1]);
        fv_tensor *t = fv_safetensors_load(ctx, file, parts[i][0]);
        if (small) t = fv_cast(ctx, t, FV_I32);
        CHECK_OK(ctx, fv_npy_save(ctx, t, program_path(name)));
        const size_t used = strlen(out);
        snprintf(out + used, 2048 - used, "--%s %s ", parts[i][1], program_path(name));
    }
    fv_safetensors_close(&file);
    return out;
}

static void compare_logits(fv_ctx *ctx, const char *family)
{
    char path[128];
    double largest = 0;
    fv_safetensors *file = NULL;
    fv_npy *made = NULL;
    snprintf(path, sizeof path, "fixtures/%s/expected.safetensors", family);
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path(path), 0, &file));
    CHECK_OK(ctx, fv_npy_open(ctx, program_path("logits.npy"), &made));
    if (file && made) {
        fv_tensor *theirs = fv_safetensors_load(ctx, file, "logits");
        fv_tensor *ours = fv_npy_load(ctx, made, "");
        CHECK_OK(ctx,
                 fv_tensor_item(ctx, fv_max(ctx, fv_abs(ctx, theirs), 0, NULL, false), &largest));
        CHECK(tensor_distance(ctx, ours, theirs) <= 2e-5 * largest);
    }
    fv_npy_close(&made);
    fv_safetensors_close(&file);
}

static void logits_are_written(void)
{
    static const char *const families[] = {"gpt2", "bert", "llama", "t5"};
    for (int f = 0; f < 4; f++) {
        fv_ctx *ctx = values_begin();
        char options[2048], path[64];
        snprintf(path, sizeof path, "fixtures/%s", families[f]);
        options_of(ctx, families[f], f % 2, options);
        program_run("run %s %s --logits %s -t 1", test_path(path), options,
                    program_path("logits.npy"));
        expect(0, NULL, NULL);
        compare_logits(ctx, families[f]);
        values_end(&ctx);
    }
}

static void wrong_calls_are_refused(void)
{
    fv_ctx *ctx = values_begin();
    char options[2048];
    const char *gpt2 = test_path("fixtures/gpt2"), *t5 = test_path("fixtures/t5");
    options_of(ctx, "gpt2", false, options);
    program_run("run %s %s", gpt2, options);
    expect(2, NULL, "--logits");
    program_run("run %s %s --logits %s text", gpt2, options, program_path("logits.npy"));
    expect(2, NULL, "expected a text or --ids, not both");
    program_run("run %s %s --logits %s", t5, options, program_path("logits.npy"));
    expect(2, NULL, "--decoder-ids");
    program_run("run %s %s --type-ids %s --logits %s", gpt2, options, program_path("ids.npy"),
                program_path("logits.npy"));
    expect(2, NULL, "--type-ids");
    program_run("run %s --ids %s --logits %s", gpt2, program_path("absent.npy"),
                program_path("logits.npy"));
    expect(3, NULL, "absent.npy");
    program_run("run %s %s --logits %s", program_path("absent"), options,
                program_path("logits.npy"));
    expect(3, NULL, "no such folder");
    fv_tensor *foreign = fv_full(ctx, FV_I64, 2, (int64_t[]){1, 3}, 331);
    CHECK_OK(ctx, fv_npy_save(ctx, foreign, program_path("foreign.npy")));
    program_run("run %s --ids %s --logits %s", gpt2, program_path("foreign.npy"),
                program_path("logits.npy"));
    expect(1, NULL, "331 is outside");
    fv_tensor *many = fv_zeros(ctx, FV_I64, 2, (int64_t[]){1, 65});
    CHECK_OK(ctx, fv_npy_save(ctx, many, program_path("many.npy")));
    program_run("run %s --ids %s --logits %s", gpt2, program_path("many.npy"),
                program_path("logits.npy"));
    expect(3, NULL, "65 tokens, but the model has 64 positions");
    /* Ids with a fraction are not cut off. */
    const float half[] = {1, 2, 2.5f}, whole[] = {1, 2, 3};
    fv_tensor *broken = fv_from_host(ctx, FV_F32, 2, (int64_t[]){1, 3}, half);
    fv_tensor *fits = fv_from_host(ctx, FV_F32, 2, (int64_t[]){1, 3}, whole);
    CHECK_OK(ctx, fv_npy_save(ctx, broken, program_path("half.npy")));
    CHECK_OK(ctx, fv_npy_save(ctx, fits, program_path("whole.npy")));
    program_run("run %s --ids %s --logits %s", gpt2, program_path("half.npy"),
                program_path("logits.npy"));
    expect(3, NULL, "half.npy: element 2 is 2.5, expected a whole number");
    program_run("run %s --ids %s --logits %s", gpt2, program_path("whole.npy"),
                program_path("logits.npy"));
    expect(0, NULL, NULL);
    values_end(&ctx);
}

/* The memory cap: the message names it and the option. */
static void memory_is_capped(void)
{
    const char *gpt2 = test_path("fixtures/gpt2");
    program_run("run %s text --memory 10k", gpt2);
    expect(1, NULL, "the memory cap is 10.0 KiB, --memory SIZE sets another");
    program_run("run %s --ids %s --logits %s --memory 200k", gpt2, program_path("whole.npy"),
                program_path("logits.npy"));
    expect(1, NULL, "the memory cap is 200 KiB, --memory SIZE sets another");
    static const char *const enough[] = {"1G", "0.5gib", "800MB", "0", "1000000000"};
    for (size_t i = 0; i < sizeof enough / sizeof enough[0]; i++) {
        program_run("run %s --ids %s --logits %s --memory %s", gpt2, program_path("whole.npy"),
                    program_path("logits.npy"), enough[i]);
        expect(0, NULL, NULL);
    }
    static const char *const wrong[] = {"much", "-1", "1Q", "5GG", "nan"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        program_run("run %s text --memory=%s", gpt2, wrong[i]);
        expect(2, NULL, "--memory: expected a size such as 512M or 8G");
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(logits_are_written);
    RUN(wrong_calls_are_refused);
    RUN(memory_is_capped);
    program_end();
    return TEST_END();
}
