/* fovea look at Transformers: maps as transformers gives them, and every view of them. */
#include "fovea/file.h"
#include "support/files.h"
#include "support/program.h"
#include "support/reading.h"
#include "support/tensors.h"
#include "support/values.h"

/* The arrays that a fixture's model is given, as files, and the options that name them. */
static void options_of(fv_ctx *ctx, fv_safetensors *file, char out[2048])
{
    static const char *const parts[][2] = {{"input_ids", "ids"},
                                           {"decoder_input_ids", "decoder-ids"},
                                           {"attention_mask", "mask"},
                                           {"token_type_ids", "type-ids"}};
    *out = '\0';
    for (int i = 0; i < 4; i++) {
        if (!fv_safetensors_find(file, parts[i][0])) continue;
        char name[64];
        snprintf(name, sizeof name, "%s.npy", parts[i][1]);
        CHECK_OK(ctx,
                 fv_npy_save(ctx, fv_safetensors_load(ctx, file, parts[i][0]), program_path(name)));
        const size_t used = strlen(out);
        snprintf(out + used, 2048 - used, "--%s %s ", parts[i][1], program_path(name));
    }
}

/* Our site's map is called attn.0, or encoder_attn.0, decoder_attn.0, cross_attn.0. */
static int compare_maps(fv_ctx *ctx, fv_safetensors *expected, bool both, double bound)
{
    fv_npy *made = NULL;
    int compared = 0;
    CHECK_OK(ctx, fv_npy_open(ctx, program_path("maps.npz"), &made));
    for (size_t i = 0; made && i < fv_npy_count(made); i++) {
        const char *name = fv_npy_entry(made, i)->name;
        char theirs[64], side[16], kind[16];
        int layer = 0;
        CHECK(sscanf(name, "%15[a-z].%d.%15[a-z]", side, &layer, kind) == 3);
        const bool cross = strcmp(kind, "cross") == 0;
        snprintf(theirs, sizeof theirs, "%s%sattn.%d", both ? cross ? "cross" : side : "",
                 both ? "_" : "", layer);
        if (!fv_safetensors_find(expected, theirs)) continue;
        const double off = tensor_distance(ctx, fv_npy_load(ctx, made, name),
                                           fv_safetensors_load(ctx, expected, theirs));
        if (!(off <= bound)) test_failed(__FILE__, __LINE__, "%s is off by %g", name, off);
        compared++;
    }
    fv_npy_close(&made);
    return compared;
}

static void arrays_are_the_recorded_maps(void)
{
    /* T5's recorded maps are themselves 1.3e-4 from the exact ones: tests/test_hf_parity.c. */
    static const struct {
        const char *family;
        int maps;
        double bound;
    } cases[] = {{"gpt2", 2, 2e-5}, {"bert", 2, 2e-5}, {"llama", 2, 2e-5}, {"t5", 4, 1.5e-4}};
    for (int i = 0; i < 4; i++) {
        fv_ctx *ctx = values_begin();
        fv_safetensors *file = NULL;
        char path[128], options[2048];
        snprintf(path, sizeof path, "fixtures/%s/expected.safetensors", cases[i].family);
        CHECK_OK(ctx, fv_safetensors_open(ctx, test_path(path), 0, &file));
        if (file) {
            options_of(ctx, file, options);
            snprintf(path, sizeof path, "fixtures/%s", cases[i].family);
            program_run("look %s %s -o %s -t 1", test_path(path), options,
                        program_path("maps.npz"));
            expect(0, NULL, NULL);
            CHECK_EQ(compare_maps(ctx, file, cases[i].maps == 4, cases[i].bound), cases[i].maps);
        }
        fv_safetensors_close(&file);
        values_end(&ctx);
    }
}

/* ---- views of a text --------------------------------------------------------------------- */

static void check_picture(const char *name, const char *text)
{
    size_t bytes = 0;
    char *data = file_read(program_path(name), &bytes);
    CHECK(data && bytes > 500);
    if (data && text) {
        data = realloc(data, bytes + 1);
        data[bytes] = '\0';
        if (!strstr(data, text)) test_failed(__FILE__, __LINE__, "%s lacks '%s'", name, text);
    }
    free(data);
}

static void texts_are_shown(void)
{
    char model[512];
    snprintf(model, sizeof model, "%s", reading_model());
    program_run("look %s animal", model);
    expect(0, "encoder.1.self, mean of 4 heads", NULL);
    expect(0, "[CLS]", NULL);
    program_run("look %s animal --layer 0 --head 3", model);
    expect(0, "encoder.0.self, head 3", NULL);
    program_run("look %s animal --entropy", model);
    expect(0, "encoder.0.self", NULL);
    expect(0, "encoder.1.self", NULL);
    program_run("look %s animal --top 2 --layer 0 --head 1", model);
    expect(0, "encoder.0.self, head 1: the largest weights", NULL);
    expect(0, "[SEP]\t", NULL);
    static const struct {
        const char *options, *file, *text;
    } pictures[] = {
        {"", "grid.svg", "encoder.1.self"},
        {"", "grid.html", "animal"},
        {"--links", "links.svg", "animal"},
        {"--layer 1 --head 2", "head.png", NULL},
        {"--rollout", "rollout.svg", "rollout over 2 layers"},
        {"--entropy", "entropy.svg", "encoder.1.self"},
        {"--from animal", "word.svg", "encoder.1.self"},
        {"--top 2", "top.txt", "encoder.1.self, head 3: the largest weights"},
    };
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        program_run("look %s animal %s -o %s", model, pictures[i].options,
                    program_path(pictures[i].file));
        expect(0, NULL, NULL);
        check_picture(pictures[i].file, pictures[i].text);
    }
}

/* A translator that is a Transformer: its alignment, and its inside. */
static void translators_are_looked_into(void)
{
    program_text(
        "r.toml",
        "[data]\nmade = \"dates\"\ntrain_pairs = 60\nvalid_pairs = 5\n[tokens]\nkind = "
        "\"char\"\nmin_count = 1\n[model]\nkind = \"transformer\"\n[transformer]\nfamily = "
        "\"marian\"\nwidth = 8\nencoder_layers = 2\ndecoder_layers = 2\nheads = 2\nhidden "
        "= 8\n[train]\nsteps = 2\nbatch_tokens = 200\n");
    program_run("train %s -o %s -t 1", program_path("r.toml"), program_path("pair"));
    expect(0, NULL, NULL);
    program_run("look %s 3.5.79 --target 1979-05-03", program_path("pair"));
    expect(0, "rows: output; columns: source", NULL);
    program_run("look %s 3.5.79 --target 1979 --top 1", program_path("pair"));
    expect(0, "decoder.1.cross, head 0", NULL);
    expect(0, "(start)\t", NULL);
    program_run("look %s 3.5.79 --at encoder --layer 0", program_path("pair"));
    expect(0, "encoder.0.self, mean of 2 heads", NULL);
    program_run("look %s 3.5.79 -o %s", program_path("pair"), program_path("pair.npz"));
    expect(0, NULL, NULL);
    fv_ctx *ctx = values_begin();
    fv_npy *file = NULL;
    CHECK_OK(ctx, fv_npy_open(ctx, program_path("pair.npz"), &file));
    if (file) {
        CHECK_EQ(fv_npy_count(file), 6);
        const fv_file_entry *cross = fv_npy_find(file, "decoder.1.cross");
        CHECK(cross && cross->rank == 4 && cross->shape[1] == 2 && cross->shape[3] == 6);
    }
    fv_npy_close(&file);
    values_end(&ctx);
}

static void wrong_options_are_rejected(void)
{
    enum { BERT, BERT_WITH_WORDS, GPT2, T5, PAIR, ABSENT, MODELS };
    static const struct {
        int model;
        const char *rest;
        int code;
        const char *message;
    } cases[] = {
        {BERT, "", 2, "no text: expected one after the model"},
        {BERT, "text --ids absent.npy", 2, "expected a text or --ids"},
        {BERT, "text --layer 2", 2, "a layer from 0 to 1"},
        {BERT, "text --head 4", 2, "a head from 0 to 3"},
        {BERT, "text --at cross", 2, "--at cross: this model has no such attention"},
        {BERT, "text --links", 2, "--links needs -o FILE"},
        {BERT, "text --top 2 -o top.svg", 2, "--top is a table"},
        {BERT_WITH_WORDS, "text --layer 0 -o picture.gif", 2, "fovea: look: "},
        {BERT, "text --to text", 2, "--to needs --from"},
        {BERT, "text --rows 3", 2, "expected A:B"},
        {BERT, "text --cols 4:4", 2, "expected A:B"},
        {BERT_WITH_WORDS, "text --from word", 2, "does not contain this word"},
        {BERT_WITH_WORDS, "text --cols 2:9", 2, "expected a range within 3 words"},
        {BERT, "text --pharaoh", 2, "--pharaoh is for translators"},
        {BERT, "text --target word", 2, "are for encoder-decoders"},
        {GPT2, "text --beam 3", 2, "are for encoder-decoders"},
        {PAIR, "3.5.79 --pharaoh --layer 0", 2, "--pharaoh is for translators"},
        {PAIR, "'' --at encoder", 2, "the text is empty"},
        {T5, "text --rollout", 2, "--at encoder"},
        {T5, "text", 3, "tokenizer"},
        {ABSENT, "text", 3, "no such folder"},
    };
    static const struct {
        bool made; /* by this test */
        const char *name;
    } models[MODELS] = {[BERT] = {false, "fixtures/bert"}, [BERT_WITH_WORDS] = {true, "bert"},
                        [GPT2] = {false, "fixtures/gpt2"}, [T5] = {false, "fixtures/t5"},
                        [PAIR] = {true, "pair"},           [ABSENT] = {true, "absent"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = models[cases[i].model].name;
        program_run("look %s %s",
                    models[cases[i].model].made ? program_path(name) : test_path(name),
                    cases[i].rest);
        expect(cases[i].code, NULL, cases[i].message);
        CHECK(strstr(program.err, "look: look:") == NULL);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(arrays_are_the_recorded_maps);
    RUN(texts_are_shown);
    RUN(translators_are_looked_into);
    RUN(wrong_options_are_rejected);
    program_end();
    return TEST_END();
}
