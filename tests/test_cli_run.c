/* 'fovea run' with Hugging Face folders: generating, answering, filling in, embedding, and what it
 * refuses. The folders are the fixtures with a tokenizer beside them. */
#include "fovea/tokenizer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/files.h"
#include "support/program.h"

/* A tokenizer of exactly as many tokens as the fixture's model knows. */
static void write_tokenizer(const char *path, size_t vocabulary, const char *mask)
{
    fv_ctx *ctx = NULL;
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *tok = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg,
                                     mask ? FV_TOKENIZER_BPE_WORDS : FV_TOKENIZER_BPE_BYTES);
    cfg.vocabulary = vocabulary;
    cfg.min_count = 1;
    cfg.specials[4] = mask;
    cfg.specials[5] = NULL;
    CHECK_OK(ctx, fv_tokenizer_trainer_create(ctx, &cfg, &trainer));
    for (int i = 0; i < 26 * 26; i++) {
        const char pair[2] = {(char)('a' + i % 26), (char)('a' + i / 26)};
        CHECK_OK(ctx, fv_tokenizer_trainer_add(trainer, pair, 2));
    }
    CHECK_OK(ctx, fv_tokenizer_trainer_finish(trainer, &tok));
    CHECK_EQ(fv_tokenizer_vocab_size(tok), vocabulary);
    CHECK_OK(ctx, fv_tokenizer_save(ctx, tok, path));
    fv_tokenizer_trainer_destroy(&trainer);
    fv_tokenizer_destroy(&tok);
    fv_ctx_destroy(&ctx);
}

static const char *folder(const char *name, size_t vocabulary)
{
    static const char *const files[] = {"config.json", "generation_config.json",
                                        "model.safetensors"};
    char path[256];
    program_run("version"); /* makes the folder of this program */
    snprintf(path, sizeof path, "%s", program_path(name));
    if (mkdir(path, 0700) != 0) return program_path(name);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char from[128], to[128];
        size_t bytes = 0;
        snprintf(from, sizeof from, "fixtures/%s/%s", name, files[i]);
        snprintf(to, sizeof to, "%s/%s", name, files[i]);
        void *data = file_read(test_path(from), &bytes);
        if (data) file_write(program_path(to), data, bytes);
        free(data);
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", name);
    write_tokenizer(program_path(path), vocabulary, strcmp(name, "bert") == 0 ? "[MASK]" : NULL);
    return program_path(name);
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void a_decoder_continues_its_prompt(void)
{
    program_run("run %s -p abc -n 8 --json", folder("gpt2", 331));
    expect(0, "\"prompt\": \"abc\"", NULL);
    expect(0, "\"tokens\": 8", NULL);
    expect(0, "\"ended_by\": \"length\"", NULL);
    static char text[1 << 12];
    program_run("run %s -p abc -n 8", folder("gpt2", 331));
    expect(0, NULL, NULL);
    snprintf(text, sizeof text, "%.4000s", program.out);
    CHECK(strlen(text) > 1);
    program_run("run %s abc -n 8 --temp 0 -t 1", folder("gpt2", 331)); /* the same, as a word */
    CHECK(strcmp(program.out, text) == 0);
    program_run("run %s abc -n 8 --temp 2 --top-k 50 --top-p 0.9 --min-p 0.01 --seed 4",
                folder("gpt2", 331));
    expect(0, NULL, NULL);
    CHECK(strcmp(program.out, text) != 0);
    snprintf(text, sizeof text, "%.4000s", program.out);
    program_run("run %s abc -n 8 --temp 2 --top-k 50 --top-p 0.9 --min-p 0.01 --seed 4 -t 2",
                folder("gpt2", 331));
    CHECK(strcmp(program.out, text) == 0);
    program_run("run %s abc -n 8 --repeat-penalty 5 --json", folder("gpt2", 331));
    expect(0, "\"tokens\": ", NULL);
    program_run("run %s abc xyz -n 4 --beam 3 --nbest 2 --json", folder("gpt2", 331));
    expect(0, "\"rank\": 2", NULL);
    CHECK_EQ(lines_of(program.out), 4);
    program_run("run %s abc -n 60", folder("gpt2", 331));
    expect(0, NULL, NULL);
}

static int times_in_errors(const char *text)
{
    int n = 0;
    for (const char *at = program.err; (at = strstr(at, text)); at++)
        n++;
    return n;
}

/* The fixture has a context of 64 tokens, of which "abc" takes 2. */
static void a_full_context_drops_its_older_half(void)
{
    const char *const gpt2 = folder("gpt2", 331);
    program_run("run %s abc bcd abc -n 200 --min-tokens 200 --batch 1 --json", gpt2);
    expect(0, "\"tokens\": 200", "context of 64 tokens was full: earlier tokens were dropped");
    CHECK_EQ(times_in_errors("context"), 2); /* one note, which has the option's name, too */
    static char text[1 << 14];
    snprintf(text, sizeof text, "%.16000s", program.out);
    program_run("run %s abc bcd abc -n 200 --min-tokens 200 --batch 3 --json", gpt2);
    CHECK(strcmp(program.out, text) == 0);
    CHECK_EQ(times_in_errors("context"), 2);
    program_run("run %s abc bcd -n 200 --min-tokens 200 --json --no-context-shift", gpt2);
    expect(0, "\"tokens\": 6", "context of 64 tokens was full: the output ends there");
    expect(0, "\"ended_by\": \"context\"", NULL);
    CHECK_EQ(times_in_errors("context"), 1);
    program_run("run %s abc -n 20 --no-context-shift", gpt2);
    expect(0, NULL, "");
    CHECK_EQ(times_in_errors("context"), 0);
    program_run("run %s abc --no-context-shift", folder("bert", 211));
    expect(2, "", "--no-context-shift does not apply to a bert model");
    char prompt[401] = "";
    for (int i = 0; i < 400; i++)
        prompt[i] = (char)('a' + i % 7);
    program_run("run %s %s -n 4", gpt2, prompt);
    expect(0, NULL, "earlier tokens were dropped");
    program_run("run %s %s -n 4 --no-context-shift", gpt2, prompt);
    expect(3, "", "does not fit the model's context of 64");
}

static void weights_in_fewer_bits(void)
{
    static const char *const types[] = {"fp32", "bf16", "int8"};
    for (int i = 0; i < 3; i++) {
        program_run("run %s abc -n 8 --dtype %s --json", folder("llama", 263), types[i]);
        expect(0, "\"prompt\": \"abc\"", NULL);
    }
}

/* A cache of f32 is the default; bf16 answers too, and only models that generate have a cache. */
static void a_cache_in_fewer_bits(void)
{
    static char text[1 << 12];
    program_run("run %s abc -n 8 --json", folder("llama", 263));
    snprintf(text, sizeof text, "%.4000s", program.out);
    program_run("run %s abc -n 8 --json --cache-dtype fp32", folder("llama", 263));
    expect(0, text, NULL);
    program_run("run %s abc -n 8 --json --cache-dtype bf16", folder("llama", 263));
    expect(0, "\"tokens\": 8", NULL);
    program_run("run %s abc --cache-dtype int8", folder("llama", 263));
    expect(2, NULL, "'int8' is not one of auto|fp32|bf16");
    program_run("run %s abc --cache-dtype bf16", folder("bert", 211));
    expect(2, NULL, "--cache-dtype does not apply");
}

/* Activations of bf16 take weights of fewer bits, and generate; a level without faster products in
 * bf16 gives the text of f32. */
static void activations_in_fewer_bits(void)
{
    static const char *const types[] = {"bf16", "int8"};
    for (int i = 0; i < 2; i++) {
        program_run("run %s abc -n 8 --json --dtype %s --compute-dtype bf16", folder("llama", 263),
                    types[i]);
        expect(0, "\"tokens\": 8", NULL);
        program_run("run %s abc -n 8 --beam 2 --dtype %s --compute-dtype bf16 --cache-dtype bf16",
                    folder("gpt2", 331), types[i]);
        expect(0, NULL, NULL);
    }
    program_run("run %s abc --compute-dtype bf16", folder("llama", 263));
    expect(2, NULL, "--compute-dtype bf16 needs --dtype bf16 or int8");
    program_run("run %s abc --dtype int8 --compute-dtype bf16", folder("bert", 211));
    expect(2, NULL, "--compute-dtype does not apply");
}

static void a_stop_text_ends(void)
{
    program_run("run %s abc -n 12 --json", folder("llama", 263));
    const char *at = strstr(program.out, "\"text\": \"");
    CHECK(at != NULL);
    if (!at) return;
    const char letter = at[9];
    if (letter < 'a' || letter > 'z') return; /* a byte that would need escapes here */
    program_run("run %s abc -n 12 --json --stop never||%c", folder("llama", 263), letter);
    expect(0, "\"text\": \"\"", NULL);
    expect(0, "\"ended_by\": \"stop\"", NULL);
}

/* -n counts the end token, as transformers' max_new_tokens does. */
static void an_end_token_ends(void)
{
    const char *const gpt2 = folder("gpt2", 331);
    program_text("gpt2/generation_config.json",
                 "{\"forced_eos_token_id\": 5, \"eos_token_id\": 5}");
    program_run("run %s abc -n 8 --json", gpt2);
    expect(0, "\"ended_by\": \"eos\"", NULL);
    expect(0, "\"tokens\": 7", NULL);
}

static void stop_texts_are_at_most_16(void)
{
    program_run("run %s abc -n 2 --stop 0||1||2||3||4||5||6||7||8||9||A||B||C||D||E||F",
                folder("llama", 263));
    expect(0, NULL, NULL);
    program_run("run %s abc -n 2 --stop 0||1||2||3||4||5||6||7||8||9||A||B||C||D||E||F||G",
                folder("llama", 263));
    expect(2, "", "--stop has more than 16 texts");
}

static void an_encoder_fills_in_and_embeds(void)
{
    program_run("run %s ab[MASK]cd --top-k 3", folder("bert", 211));
    expect(0, NULL, NULL);
    CHECK_EQ(lines_of(program.out), 3);
    program_run("run %s ab[MASK]cd --json", folder("bert", 211));
    expect(0, "\"place\": ", NULL);
    program_run("run %s abcd efgh --task embed", folder("bert", 211));
    expect(0, NULL, NULL);
    CHECK_EQ(lines_of(program.out), 2);
    program_run("run %s abcd --task embed --pooling first --json --dtype int8",
                folder("bert", 211));
    expect(0, "\"embedding\": [", NULL);
}

static void mistakes_are_named(void)
{
    program_run("run %s abc --task fill", folder("gpt2", 331));
    expect(2, NULL, "does not fill");
    program_run("run %s abc --task translate", folder("gpt2", 331));
    expect(2, NULL, "a gpt2 model does not translate");
    program_run("run %s abc --pharaoh", folder("gpt2", 331));
    expect(2, NULL, "--pharaoh does not apply to a gpt2 model");
    program_run("run %s abc --beam 2", folder("bert", 211));
    expect(2, NULL, "--beam does not apply to a bert model");
    program_run("run %s abc --task classify", folder("bert", 211));
    expect(2, NULL, "cannot classify");
    program_run("run %s abc --dtype int4", folder("gpt2", 331));
    expect(2, NULL, "int4");
    program_run("run /nowhere abc");
    expect(3, NULL, "/nowhere");
}

/* The weights are in memory: emptying their file while the program waits for input changes nothing.
 * A mapped file would end it with SIGBUS. */
static void weights_survive_their_file(void)
{
    char weights[512];
    int ends[2];
    size_t bytes = 0;
    snprintf(weights, sizeof weights, "%s/model.safetensors", folder("llama", 263));
    void *whole = file_read(weights, &bytes);
    const int input = dup(0);
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    CHECK_EQ(dup2(ends[0], 0), 0);
    program_start("run %s -n 4", folder("llama", 263));
    CHECK_EQ(dup2(input, 0), 0);
    close(input);
    close(ends[0]);
    CHECK_EQ(write(ends[1], "abc\n", 4), 4);
    for (int i = 0; i < 5000 && !program_has_output(); i++) /* an answer: the weights are loaded */
        program_sleep(1);
    CHECK_EQ(truncate(weights, 0), 0);
    CHECK_EQ(write(ends[1], "xyz\n", 4), 4);
    close(ends[1]);
    program_wait();
    expect(0, NULL, NULL);
    CHECK_EQ(lines_of(program.out), 2);
    if (whole) file_write(weights, whole, bytes);
    free(whole);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    RUN(a_decoder_continues_its_prompt);
    RUN(a_full_context_drops_its_older_half);
    RUN(weights_in_fewer_bits);
    RUN(a_cache_in_fewer_bits);
    RUN(activations_in_fewer_bits);
    RUN(a_stop_text_ends);
    RUN(stop_texts_are_at_most_16);
    RUN(an_encoder_fills_in_and_embeds);
    RUN(mistakes_are_named);
    RUN(weights_survive_their_file);
    RUN(an_end_token_ends); /* last: it changes a folder */
    program_end();
    return TEST_END();
}
