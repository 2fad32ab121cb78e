/* Files a user may hand to the program by mistake: a clear message, the right code, nothing lost.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] = "[data]\ntrain_source = \"a\"\ntrain_target = \"b\"\n"
                             "[tokens]\nkind = \"word\"\nmin_count = 1\n"
                             "[model]\nhidden = 8\nencoder_hidden = 8\nembedding = 8\n"
                             "[train]\nsteps = 3\n";

/* Trains on these two texts into a fresh folder. */
static void train_on(const char *source, const char *target)
{
    tree_remove(program_path("m"));
    program_text("a", source);
    program_text("b", target);
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1", program_path("r.toml"), program_path("m"));
}

static void empty_files(void)
{
    train_on("", "");
    expect(3, "", "/a: the file is empty");
    train_on("x\n", "");
    expect(3, "", "/b: the file is empty");
    train_on("\n\n", "a\nb\n");
    expect(3, "", "/a: no pair left for training: 2 are empty");
    train_on("x\n", "a\n");
    expect(0, "", "1 pairs for training");
    program_text("e", "");
    program_run("eval %s %s %s -t 1", program_path("m"), program_path("e"), program_path("e"));
    expect(3, "", "/e: the file is empty, expected one text per line");
    program_run("score -i %s %s", program_path("e"), program_path("e"));
    expect(3, "", "the file is empty, expected one segment per line");
    program_run("train %s -o %s", program_path("e"), program_path("n"));
    expect(3, "", "/e: expected both data.train_source and data.train_target");
}

static void unequal_files(void)
{
    train_on("x\ny\nz\n", "a\n");
    expect(3, "", "a' has 3 lines, '");
    expect(3, "", "b' has 1: they must match line by line");
    train_on("x\n", "a\n");
    program_run("eval %s %s %s -t 1", program_path("m"), program_path("r.toml"), program_path("b"));
    expect(3, "", "they must match line by line");
    program_run("score -i %s %s", program_path("r.toml"), program_path("b"));
    expect(3, "", "which ends after line 1");
}

static void long_lines(void)
{
    enum { MEGABYTE = 1 << 20 };
    char *line = malloc(MEGABYTE + 16);
    CHECK(line != NULL);
    if (!line) return;
    for (int i = 0; i < MEGABYTE; i++)
        line[i] = i % 2 ? ' ' : 'x';
    strcpy(line + MEGABYTE, "\ny\n");
    train_on(line, "a\nb\n");
    expect(0, "", "1 pairs for training (left out: 0 empty, 1 too long, 0 not UTF-8)");
    line[MEGABYTE + 1] = '\0';
    train_on(line, "a\n");
    expect(3, "", "no pair left for training: 0 are empty, 1 too long");
    program_run("data check %s", program_path("a"));
    expect(0, "1 lines", "");
    free(line);
}

static void binary_files(void)
{
    static const char binary[] = "ELF\x7f\0\1\2\3\n\xff\xfe\n";
    train_on("x\n", "a\n");
    file_write(program_path("bin"), binary, sizeof binary - 1);
    program_run("train %s -o %s --data.train_source %s -t 1", program_path("r.toml"),
                program_path("n"), program_path("bin"));
    expect(3, "", "bin:1: NUL byte (a binary file?) at byte 5 of the line");
    program_run("train %s -o %s", program_path("bin"), program_path("n"));
    expect(3, "", "bin:1:");
    program_run("eval %s %s %s -t 1", program_path("m"), program_path("bin"), program_path("b"));
    expect(3, "", "bin:1: NUL byte");
    program_run("tokenize %s %s", program_path("m/source_tokenizer.json"), program_path("bin"));
    expect(3, "", "bin:1: NUL byte");
    train_on("x\n\xff\xfey\n", "a\nb\n");
    expect(3, "", "/a:2: invalid UTF-8 at byte 1 of the line");
    program_run("train %s -o %s -t 1 --data.skip_invalid true", program_path("r.toml"),
                program_path("m"));
    expect(0, "", "1 pairs for training (left out: 0 empty, 0 too long, 1 not UTF-8)");
}

/* A tokenizer of another model, and settings that do not fit what was trained: the model stays. */
static void wrong_vocabulary(void)
{
    train_on("w x y z\n", "a b\n");
    expect(0, "", "the model is in");
    size_t bytes = 0;
    void *good = file_read(program_path("m/source_tokenizer.json"), &bytes);
    CHECK(good != NULL);
    if (!good) return;
    size_t other_bytes = 0;
    void *other = file_read(program_path("m/target_tokenizer.json"), &other_bytes);
    file_write(program_path("m/source_tokenizer.json"), other, other_bytes);
    program_run("run %s x", program_path("m"));
    expect(3, "", "tokens, the tokenizers have");
    program_run("train %s -o %s -t 1 --train.steps 5", program_path("r.toml"), program_path("m"));
    expect(3, "", "encoder.embedding.weight' is F32");
    file_write(program_path("m/source_tokenizer.json"), good, bytes);
    program_run("train %s -o %s -t 1 --model.hidden 9", program_path("r.toml"), program_path("m"));
    expect(3, "", "state-00000003.safetensors: tensor");
    program_run("run %s x", program_path("m"));
    expect(0, NULL, "");
    program_run("train %s -o %s -t 1 --train.steps 5", program_path("r.toml"), program_path("m"));
    expect(0, "", "resuming after step 3");
    free(good);
    free(other);
}

static void wrong_recipes(void)
{
    train_on("x\n", "a\n");
    program_text("k.toml", "[data]\ntrain_source = \"a\"\n");
    program_run("train %s -o %s", program_path("k.toml"), program_path("n"));
    expect(3, "", "k.toml: expected both data.train_source and data.train_target");
    program_text("k.toml", "[model]\nhiden = 8\n");
    program_run("train %s -o %s", program_path("k.toml"), program_path("n"));
    expect(3, "", "k.toml:2:9: unknown key 'model.hiden'; did you mean 'model.hidden'?");
    program_text("k.toml", "[train]\nsteps = \"many\"\n");
    program_run("train %s -o %s", program_path("k.toml"), program_path("n"));
    expect(3, "", "k.toml:2:9: train.steps: expected an integer");
    program_text("k.toml", "[data]\ntrain_source = \"$FOVEA_DATA/x\"\n");
    unsetenv("FOVEA_DATA");
    program_run("train %s -o %s", program_path("k.toml"), program_path("n"));
    expect(4, "", "set FOVEA_DATA");
}

/* /proc takes no files, not even from root. */
static void folders_that_cannot_be_written(void)
{
    train_on("x\n", "a\n");
    program_run("train %s -o /proc -t 1 --force", program_path("r.toml"));
    expect(3, "", "/proc/recipe.toml: cannot create");
    program_run("train %s -o /proc/none/x", program_path("r.toml"));
    expect(1, "", "/proc/none: cannot create the folder");
    program_text("plain", "");
    program_run("train %s -o %s", program_path("r.toml"), program_path("plain"));
    expect(1, "", "cannot open the folder");
    program_run("data make copy -o /proc --force");
    expect(3, "", "/proc/train.source: cannot create");
    program_run("look %s x -o /proc/x.svg", program_path("m"));
    expect(3, "", "/proc/x.svg: cannot create");
}

/* A training that cannot begin leaves no folder of its own, but one that was there stays. */
static void folders_of_trainings_that_cannot_begin(void)
{
    train_on("", "");
    expect(3, "", "/a: the file is empty");
    CHECK(access(program_path("m"), F_OK) != 0);
    CHECK(mkdir(program_path("m"), 0777) == 0);
    program_run("train %s -o %s -t 1", program_path("r.toml"), program_path("m"));
    expect(3, "", "/a: the file is empty");
    CHECK(access(program_path("m"), F_OK) == 0);
}

/* A path that is cut would name another file. */
static void long_paths(void)
{
    enum { LONG = 5000, FITS = 700 };
    char path[LONG + 1];
    for (int i = 0; i < LONG; i++)
        path[i] = i % 200 == 199 ? '/' : 'p';
    path[LONG] = '\0';
    train_on("x\n", "a\n");
    program_run("train %s -o %s", program_path("r.toml"), path);
    expect(2, "", "ppp...: a path of 5000 bytes is too long");
    program_run("train %s --data.train_source %s", program_path("r.toml"), path);
    expect(2, "", "bytes is too long");
    program_run("data make copy -o %s", path);
    expect(2, "", "a path of 5000 bytes is too long");
    path[FITS] = '\0';
    program_run("train %s -o %s/%s -t 1", program_path("r.toml"), program_path("long"), path);
    expect(0, "", "1 pairs for training");
    char recipe_path[2 * LONG];
    snprintf(recipe_path, sizeof recipe_path, "%s/%s/recipe.toml", program_path("long"), path);
    CHECK(access(recipe_path, R_OK) == 0);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    RUN(empty_files);
    RUN(unequal_files);
    RUN(long_lines);
    RUN(binary_files);
    RUN(wrong_vocabulary);
    RUN(wrong_recipes);
    RUN(folders_that_cannot_be_written);
    RUN(folders_of_trainings_that_cannot_begin);
    RUN(long_paths);
    program_end();
    return TEST_END();
}
