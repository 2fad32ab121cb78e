/*
 * Weights of torch.save: files that PyTorch wrote hold the tensors of their safetensors twins to
 * the bit, and pickles that are anything but a dictionary of tensors are refused by name.
 */
#include <inttypes.h>

#include "fovea/file.h"
#include "fovea/model.h"
#include "io/pickle_names.h"
#include "io/zip.h"
#include "support/files.h"
#include "support/program.h"
#include "support/test.h"
#include "tensor/params.h"

static fv_ctx *ctx;

/* ---- files of PyTorch ------------------------------------------------------------------------ */

static void compare_entry(fv_safetensors *have, fv_safetensors *want, const fv_file_entry *w)
{
    const fv_file_entry *h = fv_safetensors_find(have, w->name);
    unsigned char a[512], b[512];
    if (!h || h->bytes != w->bytes || w->bytes > sizeof a || h->rank != w->rank ||
        memcmp(h->shape, w->shape, sizeof h->shape) != 0 || strcmp(h->dtype_name, w->dtype_name)) {
        test_failed(__FILE__, __LINE__, "%s: missing, or of another type or shape", w->name);
        return;
    }
    const size_t n = (size_t)w->bytes;
    CHECK_OK(ctx, fv_safetensors_read(want, w, 0, b, n));
    CHECK_OK(ctx, fv_safetensors_read(have, h, 0, a, n));
    if (memcmp(a, b, n) != 0) test_failed(__FILE__, __LINE__, "%s: other values", w->name);
    /* Any part, even of an element. */
    for (size_t at = 0; at < n; at += 3) {
        const size_t part = n - at < 7 ? n - at : 7;
        CHECK_OK(ctx, fv_safetensors_read(have, h, at, a, part));
        if (memcmp(a, b + at, part) != 0)
            test_failed(__FILE__, __LINE__, "%s: other values from byte %zu on", w->name, at);
    }
}

static void compare_files(const char *name, unsigned flags, fv_weights_form form)
{
    fv_safetensors *have = NULL, *want = NULL;
    char path[600];
    snprintf(path, sizeof path, "%s", test_path(name));
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path("data/io/torch/views.safetensors"), 0, &want));
    CHECK_OK(ctx, fv_safetensors_open(ctx, path, flags, &have));
    if (have && want) {
        CHECK_EQ(fv_safetensors_form(have), form);
        CHECK_EQ(fv_safetensors_form(want), FV_WEIGHTS_SAFETENSORS);
        CHECK_EQ(fv_safetensors_count(have), fv_safetensors_count(want));
        for (size_t i = 0; i < fv_safetensors_count(want); i++)
            compare_entry(have, want, fv_safetensors_entry(want, i));
    }
    fv_safetensors_close(&have);
    fv_safetensors_close(&want);
}

static void views_equal_their_twins(void)
{
    static const unsigned flags[] = {FV_SAFETENSORS_COPY, FV_SAFETENSORS_MAP, FV_SAFETENSORS_CHECK,
                                     FV_SAFETENSORS_CHECK | FV_SAFETENSORS_MAP};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        compare_files("data/io/torch/views.bin", flags[i], FV_WEIGHTS_TORCH);
        compare_files("data/io/torch/views_4.bin", flags[i], FV_WEIGHTS_TORCH);
        compare_files("data/io/torch/views_old.bin", flags[i], FV_WEIGHTS_TORCH_OLD);
    }
    compare_files("data/io/torch/views.bin", FV_SAFETENSORS_VERIFY, FV_WEIGHTS_TORCH);
    fv_safetensors *old = NULL;
    CHECK_EQ(fv_safetensors_open(ctx, test_path("data/io/torch/views_old.bin"),
                                 FV_SAFETENSORS_VERIFY, &old),
             FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "without checksums"));
}

/* In the mapped file, what has strides must be read. */
static void views_in_place(void)
{
    fv_safetensors *file = NULL;
    const void *data = NULL;
    float first = 0;
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path("data/io/torch/views.bin"), FV_SAFETENSORS_MAP,
                                      &file));
    if (!file) return;
    CHECK_OK(ctx, fv_safetensors_view(file, fv_safetensors_find(file, "part"), &data));
    if (data) memcpy(&first, data, sizeof first);
    CHECK_EQ(first * 4, 1);
    CHECK_EQ(fv_safetensors_view(file, fv_safetensors_find(file, "transposed"), &data),
             FV_ERR_STATE);
    fv_safetensors_close(&file);
}

/* The same model from safetensors, from one .bin and from two. */
static void models_are_equal(void)
{
    static const char *const folders[] = {"single", "shards"};
    fv_model *plain = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, test_path("data/io/torch/plain"), &plain));
    for (int i = 0; i < 4 && plain; i++) {
        char path[600];
        fv_model *model = NULL;
        snprintf(path, sizeof path, "%s/%s", test_path("data/io/torch"), folders[i % 2]);
        CHECK_OK(ctx, i < 2 ? fv_model_open(ctx, path, &model) : fv_model_map(ctx, path, &model));
        if (!model) continue;
        fv_params *a = fv_model_params(model), *b = fv_model_params(plain);
        CHECK_EQ(fv_params_count(a), fv_params_count(b));
        for (int k = 0; k < fv_params_count(a); k++) {
            fv_tensor *x = fv_params_tensor(a, k), *y = fv_params_tensor(b, k);
            const size_t bytes = (size_t)fv_tensor_count(x) * sizeof(float);
            CHECK_EQ(fv_tensor_count(x), fv_tensor_count(y));
            CHECK(memcmp(fv_tensor_data(x), fv_tensor_data(y), bytes) == 0);
        }
        fv_model_close(&model);
    }
    fv_model_close(&plain);
}

/* A flipped bit of a storage is found by whatever tensor uses it; unverified, it loads. */
static void damage_is_found(void)
{
    size_t bytes = 0;
    unsigned char *data = file_read(test_path("data/io/torch/views.bin"), &bytes);
    fv_safetensors *file = NULL;
    static const char *const names[] = {"whole", "part", "transposed"};
    if (!data) return;
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path("data/io/torch/views.bin"), 0, &file));
    data[fv_safetensors_find(file, "whole")->offset + 21] ^= 4;
    fv_safetensors_close(&file);
    file_write(folder_path("damaged.bin"), data, bytes);
    for (int unverified = 0; unverified < 2; unverified++)
        for (int i = 0; i < 3; i++) {
            fv_ctx_set_verify(ctx, !unverified);
            CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("damaged.bin"), FV_SAFETENSORS_CHECK,
                                              &file));
            fv_scope_begin(ctx);
            const bool valid = fv_tensor_valid(fv_safetensors_load(ctx, file, names[i]));
            CHECK_EQ(valid, unverified);
            if (!valid) CHECK(strstr(fv_ctx_message(ctx), "wrong checksum"));
            CHECK_EQ(fv_ctx_take_error(ctx), unverified ? FV_OK : FV_ERR_FORMAT);
            fv_scope_end(ctx);
            fv_safetensors_close(&file);
        }
    fv_ctx_set_verify(ctx, true);
    free(data);
}

/* ---- pickles of strangers -------------------------------------------------------------------- */

enum { STORAGE = 64, ROOM = 1 << 16 };

/* An archive with the pickle as a/data.pkl and STORAGE bytes as a/data/0, in a file. */
static void write_archive(const char *path, const void *pickle, size_t bytes)
{
    static unsigned char out[2 * ROOM];
    static const unsigned char zeros[STORAGE];
    const struct {
        const char *name;
        const void *data;
        size_t bytes;
    } parts[] = {{"a/data.pkl", pickle, bytes}, {"a/data/0", zeros, STORAGE}};
    fv_zip_entry entries[2];
    fv_crc *crc = malloc(sizeof *crc);
    size_t at = 0;
    if (!crc || bytes > ROOM) abort();
    fv_crc_init(crc, FV_CRC32);
    for (int i = 0; i < 2; i++) {
        entries[i] = (fv_zip_entry){.name = parts[i].name,
                                    .name_bytes = strlen(parts[i].name),
                                    .crc = fv_crc_add(crc, 0, parts[i].data, parts[i].bytes),
                                    .compressed_bytes = parts[i].bytes,
                                    .bytes = parts[i].bytes,
                                    .header = at};
        fv_zip_put_local(&entries[i], out + at);
        at += FV_ZIP_LOCAL_BYTES;
        memcpy(out + at, parts[i].name, entries[i].name_bytes);
        at += entries[i].name_bytes;
        memcpy(out + at, parts[i].data, parts[i].bytes);
        at += parts[i].bytes;
    }
    const size_t directory = at;
    for (int i = 0; i < 2; i++) {
        fv_zip_put_central(&entries[i], out + at);
        at += FV_ZIP_CENTRAL_BYTES;
        memcpy(out + at, parts[i].name, entries[i].name_bytes);
        at += entries[i].name_bytes;
    }
    fv_zip_put_end(2, directory, at - directory, out + at);
    at += FV_ZIP_END_BYTES;
    file_write(path, out, at);
    free(crc);
}

static fv_status try_pickle(const void *pickle, size_t bytes)
{
    fv_safetensors *file = NULL;
    write_archive(folder_path("p.bin"), pickle, bytes);
    const fv_status s = fv_safetensors_open(ctx, folder_path("p.bin"), FV_SAFETENSORS_CHECK, &file);
    fv_safetensors_close(&file);
    return s;
}

#define TEXT(n, text) "X" n "\0\0\0" text
#define REBUILD       "ctorch._utils\n_rebuild_tensor_v2\n"
#define FLOATS(count)                                                                              \
    "(" TEXT("\7", "storage") "ctorch\nFloatStorage\n" TEXT("\1", "0") TEXT("\3", "cpu") count "t" \
                                                                                               "Q"
#define HOOKS                                                                                      \
    "\x89"                                                                                         \
    "ccollections\nOrderedDict\n)R"
/* {"w": a tensor of 16 floats seen through these sizes} */
#define TENSOR(count, offset, shape, stride)                                                       \
    "\x80\2}" TEXT("\1", "w") REBUILD "(" FLOATS(count) offset shape stride HOOKS "tRs."

typedef struct hostile {
    const char *text;
    size_t bytes;
    fv_status status;
    const char *says;
} hostile;

#define CASE(text, status, says)                                                                   \
    {                                                                                              \
        text, sizeof(text) - 1, status, says                                                       \
    }

static void hostile_pickles_are_refused(void)
{
    static const hostile cases[] = {
        CASE(TENSOR("K\x10", "K\0", "K\4K\4\x86", "K\1K\4\x86"), FV_OK, ""),
        CASE("\x80\2cos\nsystem\n" TEXT("\2", "ls") "\x85R.", FV_ERR_FORMAT,
             "\"os.system\" at byte 2 is not allowed, only tensors are; nothing was executed"),
        CASE("\x80\4\x8c\2os\x8c\6system\x93.", FV_ERR_FORMAT, "\"os.system\""),
        CASE("\x80\2"
             "cbuiltins\neval\n.",
             FV_ERR_FORMAT, "\"builtins.eval\""),
        CASE("\x80\2"
             "ctorch\nload\n.",
             FV_ERR_FORMAT, "\"torch.load\""),
        CASE("\x80\2"
             "ctorch._utils\n_rebuild_tensor_v3\n.",
             FV_ERR_FORMAT, "_rebuild_tensor_v3"),
        CASE("\x80\2"
             "ctorch\nFloatStorage\n)R.",
             FV_ERR_FORMAT, "a storage's type is called"),
        CASE("\x80\2"
             "ccollections\nOrderedDict\nK\1\x85R.",
             FV_ERR_FORMAT, "has arguments"),
        CASE("\x80\2}}R.", FV_ERR_FORMAT, "something else is called"),
        CASE("\x80\1}.", FV_ERR_FORMAT, "protocol 1"),
        CASE("\x80\6}.", FV_ERR_FORMAT, "protocol 6"),
        CASE("}.", FV_ERR_FORMAT, "does not begin with PROTO"),
        CASE("", FV_ERR_FORMAT, "does not begin with PROTO"),
        CASE("\x80\2}", FV_ERR_FORMAT, "STOP is missing"),
        CASE("\x80\2.", FV_ERR_FORMAT, "STOP leaves several values"),
        CASE("\x80\2}}.", FV_ERR_FORMAT, "STOP leaves several values"),
        CASE("\x80\2}(.", FV_ERR_FORMAT, "STOP leaves several values"),
        CASE("\x80\2(}u.", FV_ERR_FORMAT, "the stack is empty"),
        CASE("\x80\2}(Nu.", FV_ERR_FORMAT, "a key has no value"),
        CASE("\x80\2}Nt.", FV_ERR_FORMAT, "a MARK is missing"),
        CASE("\x80\2NNNs.", FV_ERR_FORMAT, "items are added to something else"),
        CASE("\x80\2Nb.", FV_ERR_FORMAT, "the stack is empty"),
        CASE("\x80\2NNb.", FV_ERR_FORMAT, "attributes are set on something else"),
        CASE("\x80\2X\xff\xff\xff\xff", FV_ERR_LIMIT, "a string has 4294967295 bytes"),
        CASE("\x80\2X\xff\0\0\0abc", FV_ERR_FORMAT, "the text ends inside an opcode"),
        CASE("\x80\2"
             "ctorch\nFloat",
             FV_ERR_FORMAT, "the text ends inside an opcode"),
        CASE("\x80\2\x8a\x09"
             "123456789.",
             FV_ERR_FORMAT, "more than 64 bits"),
        CASE("\x80\2}q\5.", FV_ERR_FORMAT, "a memo number is out of order"),
        CASE("\x80\2}r\xff\xff\xff\xff.", FV_ERR_FORMAT, "a memo number is out of order"),
        CASE("\x80\2q\0.", FV_ERR_FORMAT, "the stack is empty"),
        CASE("\x80\2}q\0h\1.", FV_ERR_FORMAT, "a memo number is not known"),
        CASE("\x80\2}j\xff\xff\xff\xff.", FV_ERR_FORMAT, "a memo number is not known"),
        /* a dictionary in itself, a list in itself, no dictionary at all */
        CASE("\x80\2}q\0" TEXT("\1", "a") "h\0s.", FV_ERR_FORMAT, "\"a\" is not a tensor"),
        CASE("\x80\2]q\0h\0a.", FV_ERR_FORMAT, "the pickle is not a dictionary"),
        CASE("\x80\2}K\1Ns.", FV_ERR_FORMAT, "a key that is not a string"),
        CASE("\x80\2}" TEXT("\1", "\xff") "Ns.", FV_ERR_FORMAT, "is not UTF-8"),
        CASE("\x80\2}" TEXT("\2", "a\0") "Ns.", FV_ERR_FORMAT, "is not UTF-8"),
        /* storages */
        CASE("\x80\2NQ.", FV_ERR_FORMAT, "a persistent id is not that of a storage"),
        CASE("\x80\2(" TEXT("\6", "module") "NNNNtQ.", FV_ERR_FORMAT, "a persistent id"),
        CASE("\x80\2(" TEXT("\7", "storage") "NNNNtQ.", FV_ERR_FORMAT, "no type, key or size"),
        CASE("\x80\2" FLOATS("J\xff\xff\xff\xff") ".", FV_ERR_FORMAT, "no type, key or size"),
        CASE("\x80\2" FLOATS("K\1K\1") ".", FV_ERR_FORMAT, "a view of another storage"),
        CASE(TENSOR("K\x11", "K\0", "K\4\x85", "K\1\x85"), FV_ERR_FORMAT,
             "has 64 bytes, too few for 17 elements"),
        CASE(TENSOR("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "K\0", "K\4\x85", "K\1\x85"),
             FV_ERR_FORMAT, "too few for 9223372036854775807 elements"),
        /* views */
        CASE(TENSOR("K\x10", "K\1", "K\x10\x85", "K\1\x85"), FV_ERR_FORMAT, "outside its storage"),
        CASE(TENSOR("K\x10", "K\x11", "K\0\x85", "K\1\x85"), FV_ERR_FORMAT, "outside its storage"),
        CASE(TENSOR("K\x10", "K\0", "K\4\x85", "K\6\x85"), FV_ERR_FORMAT, "outside its storage"),
        CASE(TENSOR("K\x10", "K\x10", ")", ")"), FV_ERR_FORMAT, "outside its storage"),
        CASE(TENSOR("K\x10", "K\x0f", ")", ")"), FV_OK, ""),
        CASE(TENSOR("K\x10", "K\x10", "K\0\x85", "K\1\x85"), FV_OK, ""),
        CASE(TENSOR("K\x10", "J\xff\xff\xff\xff", "K\1\x85", "K\1\x85"), FV_ERR_FORMAT,
             "a tensor has the wrong arguments"),
        CASE(TENSOR("K\x10", "K\4", "K\4\x85", "J\xff\xff\xff\xff\x85"), FV_ERR_FORMAT,
             "a size or stride is negative"),
        CASE(TENSOR("K\x10", "K\4", "J\xff\xff\xff\xff\x85", "K\1\x85"), FV_ERR_FORMAT,
             "a size or stride is negative"),
        CASE(TENSOR("K\x10", "K\0", "M\xff\xff\x85", "K\0\x85"), FV_ERR_FORMAT,
             "more elements than its storage"),
        CASE(TENSOR("K\x10", "K\0", "J\0\0\0\x7fJ\0\0\0\x7fJ\0\0\0\x7f\x87", "K\0K\0K\0\x87"),
             FV_ERR_FORMAT, "outside its storage"),
        CASE(TENSOR("K\x10", "K\0", "\x8a\x08\0\0\0\0\0\0\0\x40K\2\x86",
                    "\x8a\x08\0\0\0\0\0\0\0\x40K\1\x86"),
             FV_ERR_FORMAT, "outside its storage"),
        CASE(TENSOR("K\x10", "K\0", "K\0\x8a\x08\0\0\0\0\0\0\0\x40\x86", "K\0K\0\x86"), FV_OK, ""),
        CASE(TENSOR("K\x10", "K\0", "K\4\x85", "K\1K\1\x86"), FV_ERR_FORMAT, "another rank"),
        CASE(TENSOR("K\x10", "K\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", "K\1\x85"), FV_ERR_LIMIT,
             "has rank 9"),
        CASE(TENSOR("K\x10", "K\0", "]", "]"), FV_ERR_FORMAT, "a shape is not a tuple"),
        CASE("\x80\2" REBUILD ")R.", FV_ERR_FORMAT, "a tensor has the wrong arguments"),
        CASE("\x80\2"
             "ctorch._utils\n_rebuild_parameter\nNNN\x87R.",
             FV_ERR_FORMAT, "a parameter has the wrong arguments"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fv_status s = try_pickle(cases[i].text, cases[i].bytes);
        const char *message = fv_ctx_message(ctx);
        const bool named = strstr(message, "p.bin") && strstr(message, cases[i].says);
        if (s != cases[i].status || (s != FV_OK && !named))
            test_failed(__FILE__, __LINE__, "case %zu (%s): %s, \"%s\"", i, cases[i].says,
                        fv_status_name(s), message);
    }
}

/* Every byte as an opcode: those that are not on the list are refused by name. */
static void opcodes_are_on_a_list(void)
{
    static const char allowed[] = "(.)JKMNQRX]abcehjqrstu}"
                                  "\x80\x85\x86\x87\x88\x89\x8a\x8c\x93\x94\x95";
    for (int op = 0; op < 256; op++) {
        const char pickle[] = {'\x80', 2, '}', '}', (char)op, 1, '\n', '1', '\n', '.'};
        char says[64];
        const char *name = fv_pickle_opcode_name((unsigned char)op);
        snprintf(says, sizeof says, "opcode %s (0x%02x) at byte 4 is not allowed",
                 name ? name : "that does not exist", (unsigned)op);
        (void)try_pickle(pickle, sizeof pickle);
        CHECK_EQ(strstr(fv_ctx_message(ctx), says) == NULL, op && strchr(allowed, op) != NULL);
    }
}

/* Long inputs that ask for much. */
static void bombs_are_bounded(void)
{
    static char text[ROOM];
    memset(text, '(', sizeof text);
    memcpy(text, "\x80\2", 2);
    CHECK_EQ(try_pickle(text, sizeof text), FV_ERR_LIMIT);
    CHECK(strstr(fv_ctx_message(ctx), "nested"));
    memset(text + 2, '}', sizeof text - 2);
    CHECK_EQ(try_pickle(text, sizeof text), FV_ERR_FORMAT);
}

/* 64 bytes of data under 4,000 names: the limit is for all of them together. */
static void names_of_one_storage(void)
{
    static char text[ROOM];
    static const char start[] =
        "\x80\2}(" TEXT("\1", "w") REBUILD "(" FLOATS("K\x10") "K\0K\x10\x85K\1\x85" HOOKS "tRq\0";
    size_t at = sizeof start - 1;
    memcpy(text, start, at);
    for (int i = 0; i < 4000; i++) {
        char item[16];
        snprintf(item, sizeof item, "X....%04dh.", i);
        memcpy(item + 1, "\4\0\0", 4);
        item[10] = 0;
        memcpy(text + at, item, 11);
        at += 11;
    }
    memcpy(text + at, "u.", 2);
    CHECK_OK(ctx, try_pickle(text, at + 2));
    fv_ctx_config cfg;
    fv_ctx *strict = NULL, *kept = ctx;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.limits.decompressed_ratio = 2;
    CHECK_EQ(fv_ctx_create(&cfg, &strict), FV_OK);
    ctx = strict;
    CHECK_EQ(try_pickle(text, at + 2), FV_ERR_LIMIT);
    CHECK(strstr(fv_ctx_message(ctx), "its tensors have 256064 bytes"));
    ctx = kept;
    fv_ctx_destroy(&strict);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void the_program_refuses(void)
{
    static const char evil[] = "\x80\2cos\nsystem\n" TEXT("\2", "ls") "\x85R.";
    write_archive(folder_path("evil.bin"), evil, sizeof evil - 1);
    program_run("inspect %s", folder_path("evil.bin"));
    expect(3, NULL, "evil.bin: pickle: \"os.system\" at byte 2 is not allowed");
    program_run("inspect %s", test_path("data/io/torch/module.bin"));
    expect(3, NULL, "\"torch.nn.modules.linear.Linear\"");
    program_run("inspect %s", test_path("data/io/torch/checkpoint.bin"));
    expect(3, NULL, "\"epoch\" is not a tensor, expected a state_dict");
}

static void the_program_lists(void)
{
    program_run("inspect --verify %s", test_path("data/io/torch/single"));
    expect(0, "pytorch: 17 tensors in 1 file", "all checksums are right");
    CHECK(strstr(program.out, "checksums: CRC-32 of each storage"));
    CHECK(strstr(program.out, "nothing in it is executed"));
    program_run("inspect %s", test_path("data/io/torch/shards"));
    expect(0, "pytorch: 17 tensors in 2 files", NULL);
    program_run("inspect --verify %s", test_path("data/io/torch/views_old.bin"));
    expect(0, "checksums: none, so damage cannot be detected", "has no checksums to verify");
    program_run("inspect --json %s", test_path("data/io/torch/views.bin"));
    expect(0, "\"format\": \"pytorch\"", NULL);
    program_run("compare %s %s", test_path("data/io/torch/shards"),
                test_path("data/io/torch/plain"));
    expect(0, "17 tensors, equal to the bit", NULL);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_prefer_memory();
    folder_make();
    RUN(views_equal_their_twins);
    RUN(views_in_place);
    RUN(models_are_equal);
    RUN(damage_is_found);
    RUN(hostile_pickles_are_refused);
    RUN(opcodes_are_on_a_list);
    RUN(bombs_are_bounded);
    RUN(names_of_one_storage);
    fv_ctx_destroy(&ctx);
    if (getenv("FV_PROGRAM")) {
        RUN(the_program_refuses);
        RUN(the_program_lists);
    }
    program_end();
    folder_remove();
    return TEST_END();
}
