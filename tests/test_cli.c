/* The program as its users see it: words in, text and an exit code out. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/json.h"
#include "support/files.h"
#include "support/program.h"

/* ---- JSON ----------------------------------------------------------------------- */

static fv_ctx *json_ctx;

/* Parses each line of the output with our own strict reader; returns how many there were. */
static int each_json_line(void (*look)(const fv_value *object))
{
    int lines = 0;
    for (char *at = program.out; *at;) {
        char *end = strchr(at, '\n');
        CHECK(end != NULL);
        if (!end) break;
        fv_doc *doc = NULL;
        CHECK_OK(json_ctx, fv_json_parse(json_ctx, "line", at, (size_t)(end - at), &doc));
        if (doc) {
            CHECK_EQ(doc->root.kind, FV_VALUE_OBJECT);
            if (look) look(&doc->root);
        }
        fv_doc_free(&doc);
        at = end + 1;
        lines++;
    }
    return lines;
}

static bool has(const fv_value *object, const char *key, fv_value_kind kind)
{
    const fv_value *value = fv_value_get(object, key);
    if (value && (value->kind == kind || (kind == FV_VALUE_REAL && value->kind == FV_VALUE_INT)))
        return true;
    test_failed(__FILE__, __LINE__, "no '%s' of that kind in: %s", key, program.out);
    return false;
}

/* ---- verbs and help -------------------------------------------------------------- */

enum { MAX_VERBS = 24 };
static char verbs[MAX_VERBS][32];
static int verb_count;

/* The verbs as the overview lists them, so that a new one is tested at once. */
static void list_verbs(void)
{
    program_run("help");
    char *at = strstr(program.out, "Commands\n");
    while (at && (at = strchr(at, '\n')) && strncmp(at, "\n  ", 3) == 0 && verb_count < MAX_VERBS)
        if (sscanf(at += 3, "%31s", verbs[verb_count]) == 1) verb_count++;
}

static void overview(void)
{
    CHECK(verb_count >= 5);
    program_run("help");
    expect(0, "Usage: fovea COMMAND", NULL);
    static char text[sizeof program.out];
    memcpy(text, program.out, sizeof text);
    program_run("--help");
    expect(0, text, NULL);
    program_run("-h");
    expect(0, text, NULL);
    program_run("%s", "");
    expect(2, NULL, "Usage: fovea COMMAND");
    CHECK_STR(program.out, "");
}

static size_t widest_line(const char *text)
{
    size_t widest = 0;
    while (*text) {
        const size_t length = strcspn(text, "\n");
        if (length > widest) widest = length;
        text += length + (text[length] == '\n');
    }
    return widest;
}

/* Whether a paragraph has a short line before its end: it was folded twice. */
static bool has_broken_paragraph(const char *text)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        if (*text >= 'A' && end - text < 50 && end[1] >= 'a' && end[1] <= 'z') return true;
    return false;
}

/* The entry of an option in the help, up to the next option; NULL: there is none. */
static const char *entry_of(const char *help, const char *name, size_t *bytes)
{
    char head[64];
    snprintf(head, sizeof head, "--%s ", name);
    const char *at = strstr(help, "\nOptions");
    at = at ? strstr(at, head) : NULL;
    const char *end = at ? strchr(at, '\n') : NULL;
    while (end && strncmp(end, "\n          ", 11) == 0)
        end = strchr(end + 1, '\n');
    *bytes = end ? (size_t)(end - at) : 0;
    return end ? at : NULL;
}

/* An option that run, look and eval share means the same in each, and its help says the same. */
static void shared_options_are_the_same(void)
{
    static const char *const names[] = {"file",       "prompt",    "beam",        "pharaoh",
                                        "ids",        "type-ids",  "decoder-ids", "mask",
                                        "mmap",       "no-verify", "threads",     "memory",
                                        "replace-unk"},
                             *const others[] = {"look", "eval"};
    static char run[1 << 16];
    program_run("run --help");
    snprintf(run, sizeof run, "%.65000s", program.out);
    int shared = 0;
    for (size_t v = 0; v < 2; v++) {
        program_run("%s --help", others[v]);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            size_t bytes = 0, other = 0;
            const char *a = entry_of(run, names[i], &bytes),
                       *b = entry_of(program.out, names[i], &other);
            CHECK(a != NULL);
            if (!a || !b) continue;
            shared++;
            const bool own_default = v == 1 && strcmp(names[i], "beam") == 0;
            if (own_default) bytes -= 4; /* " [1]" */
            CHECK(other >= bytes && memcmp(a, b, bytes) == 0);
            CHECK(own_default || other == bytes);
        }
    }
    CHECK_EQ(shared, 12 + 6);
}

static void help_of_every_verb(void)
{
    for (int i = 0; i < verb_count; i++) {
        char usage[64];
        static char text[sizeof program.out];
        snprintf(usage, sizeof usage, "Usage: fovea %.31s", verbs[i]);
        program_run("%s --help", verbs[i]);
        expect(0, usage, NULL);
        CHECK_STR(program.err, "");
        memcpy(text, program.out, sizeof text);
        CHECK(widest_line(text) <= 80);
        CHECK(!has_broken_paragraph(text));
        program_run("help %s", verbs[i]);
        expect(0, NULL, NULL);
        CHECK_STR(program.out, text);
        program_run("%s -h", verbs[i]);
        CHECK_STR(program.out, text);
    }
}

/* Every option that --help names is in the manual and in each completion script. */
static void manual_and_completion_know_every_option(void)
{
    static char texts[4][sizeof program.out];
    static const char *const commands[4] = {"help --man", "help --completion bash",
                                            "help --completion=zsh", "help --completion fish"};
    int options = 0;
    for (int i = 0; i < 4; i++) {
        program_run("%s", commands[i]);
        expect(0, NULL, NULL);
        memcpy(texts[i], program.out, sizeof texts[i]);
    }
    for (int i = 0; i < verb_count; i++) {
        for (int t = 0; t < 4; t++)
            if (!strstr(texts[t], verbs[i]))
                test_failed(__FILE__, __LINE__, "%s: no '%s'", commands[t], verbs[i]);
        program_run("%s --help", verbs[i]);
        for (char *at = strstr(program.out, "\nOptions\n"); at && (at = strstr(at, "--"));) {
            char name[48], form[64];
            at += 2;
            int n = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz-");
            if (n == 0 || n >= (int)sizeof name || strncmp(at, "help", 4) == 0) continue;
            snprintf(name, sizeof name, "%.*s", n, at);
            /* In roff every dash is escaped; the name's first part is enough to find it there. */
            const char *const leads[4] = {"\\-\\-", "--", "--", "-l "};
            for (int t = 0; t < 4; t++) {
                int shown = t == 0 ? (int)strcspn(name, "-") : n;
                snprintf(form, sizeof form, "%s%.*s", leads[t], shown, name);
                if (!strstr(texts[t], form))
                    test_failed(__FILE__, __LINE__, "%s: no '%s'", commands[t], form);
            }
            options++;
        }
    }
    CHECK(options >= 8);
}

/* ---- mistakes -------------------------------------------------------------------- */

static void spelling_hints(void)
{
    program_run("bnch");
    expect(2, NULL, "unknown command 'bnch'; did you mean 'bench'?");
    program_run("help inspct");
    expect(2, NULL, "did you mean 'inspect'?");
    program_run("xylophone");
    expect(2, NULL, "unknown command 'xylophone'");
    CHECK(!strstr(program.err, "did you mean"));
    program_run("bench peak --thraeds 2");
    expect(2, NULL, "unknown option '--thraeds'; did you mean '--threads'?");
    program_run("score --tokenize none a");
    expect(2, NULL, "unknown option '--tokenize'; did you mean '--tok'?");
    program_run("bench peek");
    expect(2, NULL, "did you mean 'peak'?");
    program_run("bench peak --level=avx51");
    expect(2, NULL, "'avx51' is not one of auto|scalar|avx2|avx512|amx; did you mean 'avx512'?");
    program_run("help --completion bsh");
    expect(2, NULL, "did you mean 'bash'?");
    /* What came from the command line cannot steer the terminal. */
    program_run("\x1b[31mred");
    expect(2, NULL, "\\x1b[31mred");
    CHECK(!strchr(program.err, '\x1b'));
}

static void bad_values(void)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"bench peak --threads", "--threads needs a value"},
        {"demo -o --steps 1", "--output needs a value (FOLDER) before '--steps'"},
        {"score x -m", "--metric needs a value (bleu|chrf|chrf++|all)"},
        {"eval model source", "expected MODEL... SOURCES REFERENCES"},
        {"compare '' a b", " is empty"},
        {"--json inspect", "expected a command before '--json'"},
        {"'' inspect", "the command is empty"},
        {"bench peak --threads x", "expected a whole number, got 'x'"},
        {"bench peak --threads 2.5", "expected a whole number"},
        {"bench peak --threads=", "expected a whole number"},
        {"bench peak --threads 99999999999999999999", "expected a whole number"},
        {"bench peak --threads 0", "from 1 to 64"},
        {"bench peak -t65", "from 1 to 64"},
        {"bench attention -q --only nosuch", "no row of attention contains 'nosuch' in its name"},
        {"bench peak --cpu-time", "--cpu-time is the time of one thread: add --threads 1"},
        {"bench peak --cpu-time --threads 2", "add --threads 1"},
        {"bench peak --json=yes", "--json takes no value"},
        {"bench peak -z", "unknown option '-z'"},
        {"bench peak gemm", "unexpected word 'gemm'"},
        {"bench", "SUITE is missing: one of peak|gemm|attention|ops"},
        {"inspect", "FILE is missing"},
        {"version now", "unexpected word 'now'"},
        {"version -- --json", "unexpected word '--json'"},
        {"--bogus", "expected a command before '--bogus'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_run("%s", cases[i].line);
        expect(2, NULL, cases[i].message);
        CHECK_STR(program.out, "");
    }
}

static void output_that_cannot_be_written(void)
{
    program_run_to(PROGRAM_CLOSED, "version");
    expect(1, NULL, "cannot write to standard output");
    program_run_to(PROGRAM_FULL, "help --man");
    expect(1, NULL, "No space left");
    program_run_to(PROGRAM_READER_GONE, "help --man");
    expect(1, NULL, NULL);
    CHECK_STR(program.err, "");
    program_run_to(PROGRAM_READER_GONE, "bench peak --quick --only fma --json");
    expect(1, NULL, NULL);
    CHECK_STR(program.err, "");
}

static void interrupted(void)
{
    program_run_signalled(SIGINT, NULL, "bench peak");
    expect(130, NULL, NULL);
    program_run_signalled(SIGTERM, NULL, "bench peak");
    expect(130, NULL, NULL);
}

static void colours_on_a_terminal_only(void)
{
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    program_run("help");
    CHECK(!strchr(program.out, '\x1b'));
    program_run_to(PROGRAM_TERMINAL, "help");
    expect(0, "\x1b[1mCommands\x1b[0m", NULL);
    setenv("NO_COLOR", "1", 1);
    program_run_to(PROGRAM_TERMINAL, "help");
    expect(0, "Commands", NULL);
    CHECK(!strchr(program.out, '\x1b'));
    unsetenv("NO_COLOR");
}

/* ---- version, doctor, bench ------------------------------------------------------ */

static void look_at_version(const fv_value *v)
{
    CHECK(has(v, "version", FV_VALUE_STRING));
    CHECK(has(v, "compiler", FV_VALUE_STRING));
    CHECK(has(v, "features", FV_VALUE_OBJECT));
}

static void version(void)
{
    program_run("version");
    expect(0, "fovea ", NULL);
    static char text[sizeof program.out];
    memcpy(text, program.out, sizeof text);
    program_run("--version");
    CHECK_STR(program.out, text);
    program_run("version --json");
    expect(0, NULL, NULL);
    CHECK_EQ(each_json_line(look_at_version), 1);
}

static void look_at_doctor(const fv_value *v)
{
    const fv_value *ok = fv_value_get(v, "ok"), *checks = fv_value_get(v, "checks");
    CHECK(has(v, "cpu", FV_VALUE_OBJECT) && has(v, "memory", FV_VALUE_OBJECT));
    CHECK(has(v, "features", FV_VALUE_ARRAY) && has(v, "libraries", FV_VALUE_ARRAY));
    CHECK(ok && ok->kind == FV_VALUE_BOOL && ok->as.boolean);
    CHECK(checks && checks->kind == FV_VALUE_ARRAY && checks->count >= 2);
}

static void doctor(void)
{
    program_run("doctor");
    expect(0, "Self-test", NULL);
    CHECK(strstr(program.out, "scalar   ok") != NULL);
    CHECK(!strstr(program.out, "FAIL"));
    program_run("doctor --json");
    expect(0, NULL, NULL);
    CHECK_EQ(each_json_line(look_at_doctor), 1);
}

static void look_at_bench(const fv_value *v)
{
    CHECK(has(v, "bench", FV_VALUE_STRING) && has(v, "name", FV_VALUE_STRING));
    CHECK(has(v, "dtype", FV_VALUE_STRING) && has(v, "level", FV_VALUE_STRING));
    CHECK(has(v, "threads", FV_VALUE_INT) && has(v, "noisy", FV_VALUE_BOOL));
    int rates = 0;
    static const char *const keys[] = {"gflops", "gbs", "gops", "ns"};
    for (int i = 0; i < 4; i++)
        if (fv_value_get(v, keys[i])) rates += has(v, keys[i], FV_VALUE_REAL);
    CHECK_EQ(rates, 1);
}

static void bench_lines(void)
{
    program_run("bench peak --quick --json --only fma -t1 --level scalar");
    expect(0, NULL, NULL);
    CHECK_EQ(each_json_line(look_at_bench), 2); /* f32 and f64 */
    program_run("bench peak --quick --json --only fma -t1 --level scalar --cpu-time");
    expect(0, NULL, NULL);
    CHECK_EQ(each_json_line(look_at_bench), 2);
    program_run("bench ops --quick --json --only tiny");
    expect(0, NULL, NULL);
    CHECK_EQ(each_json_line(look_at_bench), 2); /* forward, and with backward */
    program_run("bench shared --quick --json --only add -t1");
    expect(0, "\"of_undisturbed\":", NULL);
    CHECK_EQ(each_json_line(look_at_bench), 2); /* beside threads that are busy, that yield */
    program_run("bench gemm --quick --json --only tiny -t1");
    expect(0, "\"trans\": \"nn\"", NULL);
    CHECK(each_json_line(look_at_bench) >= 1);
    program_run("bench attention --quick --json --only decode -t1");
    expect(0, "\"pass\": \"decode\"", NULL);
    CHECK(each_json_line(look_at_bench) >= 3); /* widths and element types */
    program_run("bench attention --quick --json --only decode,f32,d=128 -t1");
    expect(0, "\"d\": 128", NULL);
    CHECK_EQ(each_json_line(look_at_bench), 1);
    program_run("bench attention --long --quick --json");
    expect(0, "\"of_half\": ", NULL);
    CHECK_EQ(each_json_line(look_at_bench), 2); /* both passes */
    program_run("bench attention --types --quick --json --only bwd,n=9");
    expect(0, "\"of_f32\": ", NULL);
    CHECK(each_json_line(look_at_bench) % 2 == 0); /* bf16 and f16 at each level above scalar */
    program_run("bench seq2seq --quick --json --only greedy_8 -t1");
    expect(0, "\"name\": \"greedy_8\"", NULL);
    CHECK_EQ(each_json_line(look_at_bench), 1);
    program_run("bench peak -q -t 1 -l scalar --only fma");
    expect(0, "GFLOP/s", NULL);
}

/* ---- inspect --------------------------------------------------------------------- */

static void write_file(const char *name, const void *data, size_t bytes)
{
    file_write(program_path(name), data, bytes);
}

/* Length, header, data: little-endian, as the format says. */
static void write_weights(const char *name, const char *header, size_t data_bytes)
{
    unsigned char file[4096] = {0};
    size_t n = strlen(header);
    CHECK(8 + n + data_bytes <= sizeof file);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(file + 8, header, n);
    write_file(name, file, 8 + n + data_bytes);
}

static const char two_tensors[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]}}";

static void look_at_inspect(const fv_value *v)
{
    if (fv_value_get(v, "total")) {
        CHECK(has(v, "tensors", FV_VALUE_INT) && has(v, "elements", FV_VALUE_INT));
        CHECK(has(v, "format", FV_VALUE_STRING));
    } else {
        CHECK(has(v, "name", FV_VALUE_STRING) && has(v, "dtype", FV_VALUE_STRING));
        CHECK(has(v, "shape", FV_VALUE_ARRAY));
    }
    CHECK(has(v, "bytes", FV_VALUE_INT));
}

static void inspect_safetensors(void)
{
    write_weights("two.safetensors", two_tensors, 26);
    program_run("inspect %s", program_path("two.safetensors"));
    expect(0, "a.weight", NULL);
    expect(0, "[2, 3]", NULL);
    expect(0, "2 tensors in 1 file, 7 elements, 26 bytes", NULL);
    program_run("inspect --metadata %s", program_path("two.safetensors"));
    expect(0, "format: pt", NULL);
    program_run("inspect --json %s", program_path("two.safetensors"));
    expect(0, "\"shape\": [2, 3]", NULL);
    CHECK_EQ(each_json_line(look_at_inspect), 3);
}

static void inspect_counts_architectures(void)
{
    program_run("inspect --arch all");
    expect(0, "megatron-8.3b", "");
    program_run("inspect --arch gpt2 --length 10 --json");
    expect(0, "\"parameters\": 124439808", "");
    program_run("inspect --arch gpt3");
    expect(2, "", "did you mean 'gpt2'?");
}

static void inspect_sharded_folder(void)
{
    static const char index[] = "{\"metadata\":{\"total_size\":32},\"weight_map\":{"
                                "\"x\":\"model-1.safetensors\",\"y\":\"model-2.safetensors\"}}";
    mkdir(program_path("model"), 0700);
    write_file("model/model.safetensors.index.json", index, strlen(index));
    write_weights("model/model-1.safetensors",
                  "{\"x\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16);
    write_weights("model/model-2.safetensors",
                  "{\"y\":{\"dtype\":\"F64\",\"shape\":[1,2],\"data_offsets\":[0,16]}}", 16);
    program_run("inspect %s", program_path("model"));
    expect(0, "2 tensors in 2 files, 6 elements, 32 bytes", NULL);
    program_run("inspect --json %s", program_path("model/model.safetensors.index.json"));
    expect(0, "model-2.safetensors", NULL);
    CHECK_EQ(each_json_line(look_at_inspect), 3);
}

static void inspect_npy(void)
{
    char file[128 + 24] = "\x93NUMPY\x01";
    char header[119];
    snprintf(header, sizeof header, "%-117s\n",
             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    file[8] = 118;
    memcpy(file + 10, header, 118);
    write_file("six.npy", file, sizeof file);
    program_run("inspect %s", program_path("six.npy"));
    expect(0, "[2, 3]", NULL);
    expect(0, "npy: 1 tensor in 1 file, 6 elements, 24 bytes", NULL);
    program_run("inspect --json %s", program_path("six.npy"));
    CHECK_EQ(each_json_line(look_at_inspect), 2);
    write_file("short.npy", file, sizeof file - 1);
    program_run("inspect %s", program_path("short.npy"));
    expect(3, NULL, "short.npy");
    write_file("empty.npz", "PK\x03\x04", 4);
    program_run("inspect %s", program_path("empty.npz"));
    expect(3, NULL, "empty.npz");
}

/* Names out of a file cannot steer the terminal, nor break the JSON. */
static void inspect_escapes_names(void)
{
    write_weights("evil.safetensors",
                  "{\"\\u001b[2J\\u0007\\\"\\u0085\":"
                  "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                  1);
    program_run("inspect %s", program_path("evil.safetensors"));
    expect(0, "\\x1b[2J\\x07\"\\xc2\\x85", NULL);
    CHECK(!strchr(program.out, '\x1b') && !strchr(program.out, '\x07'));
    program_run("inspect --json %s", program_path("evil.safetensors"));
    expect(0, "\\u001b[2J\\u0007\\\"\\u0085", NULL);
    CHECK_EQ(each_json_line(look_at_inspect), 2);
}

static void inspect_broken_files(void)
{
    write_weights("good.safetensors", two_tensors, 26);
    write_weights("cut.safetensors", two_tensors, 25);
    write_weights("long.safetensors", two_tensors, 27);
    write_weights("text.safetensors", "{\"a\": [}", 0);
    write_weights("twice.safetensors",
                  "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                  "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                  1);
    write_weights("overlap.safetensors",
                  "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                  "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
                  3);
    write_weights("huge.safetensors",
                  "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],"
                  "\"data_offsets\":[0,0]}}",
                  0);
    write_file("header.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    write_file("nothing.safetensors", "", 0);
    write_file("seven.safetensors", "1234567", 7);
    mkdir(program_path("no-model"), 0700);
    mkfifo(program_path("pipe.safetensors"), 0600);
    static const char *const names[] = {
        "cut.safetensors",     "long.safetensors", "text.safetensors",   "twice.safetensors",
        "overlap.safetensors", "huge.safetensors", "header.safetensors", "nothing.safetensors",
        "seven.safetensors",   "no-model",         "pipe.safetensors",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        program_run("inspect %s", program_path(names[i]));
        expect(3, NULL, names[i]);
        CHECK_STR(program.out, "");
    }
    program_run("inspect %s", program_path("goood.safetensors"));
    expect(3, NULL, "good.safetensors'?");
    program_run("inspect %s", program_path("text.safetensors"));
    expect(3, NULL, "1:"); /* the place in the header */
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    if (fv_ctx_create(NULL, &json_ctx) != FV_OK) return 1;
    list_verbs();
    RUN(overview);
    RUN(help_of_every_verb);
    RUN(shared_options_are_the_same);
    RUN(manual_and_completion_know_every_option);
    RUN(spelling_hints);
    RUN(bad_values);
    RUN(output_that_cannot_be_written);
    RUN(interrupted);
    RUN(colours_on_a_terminal_only);
    RUN(version);
    RUN(doctor);
    RUN(bench_lines);
    RUN(inspect_safetensors);
    RUN(inspect_counts_architectures);
    RUN(inspect_sharded_folder);
    RUN(inspect_npy);
    RUN(inspect_escapes_names);
    RUN(inspect_broken_files);
    fv_ctx_destroy(&json_ctx);
    program_end();
    return TEST_END();
}
