/* Three good files of each format, damaged in every small way (tests/support/corrupt.h). */
#include "base/ctx.h"
#include "fovea/data.h"
#include "fovea/file.h"
#include "fovea/tokenizer.h"
#include "io/json.h"
#include "io/toml.h"
#include "support/corrupt.h"
#include "support/files.h"
#include "support/test.h"

/* A damaged file of some kilobytes may never need more than this. */
enum { MEMORY_LIMIT = 8 << 20 };

static fv_ctx *ctx;
static memory_file file;
static uint64_t used_before;

/* ---- readers --------------------------------------------------------------------- */

static fv_status read_json(void *user, const void *data, size_t bytes)
{
    (void)user;
    fv_doc *doc = NULL;
    fv_status s = fv_json_parse(ctx, "t", data, bytes, &doc);
    fv_doc_free(&doc);
    return s;
}

/* Reads a tokenizer, and encodes and decodes with it if it is accepted. */
static fv_status read_tokenizer(void *user, const void *data, size_t bytes)
{
    (void)user;
    static const char text[] = "the cat's \xC3\xA9t\xC3\xA9 <s>";
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    fv_status s = fv_tokenizer_parse(ctx, "t", data, bytes, &tok);
    if (s == FV_OK) s = fv_tokenizer_encoder_create(ctx, tok, &enc);
    if (s == FV_OK)
        s = fv_tokenizer_encode(enc, text, sizeof text - 1, FV_TOKENIZER_ADD_SPECIALS, &e);
    if (s == FV_OK) s = fv_tokenizer_decode(ctx, tok, e.ids, e.count, 0, &out);
    fv_text_free(ctx, &out);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    return s;
}

/* Reads every line of a compressed text. */
static fv_status read_lines(void *user, const void *data, size_t bytes)
{
    (void)user;
    fv_lines *lines = NULL;
    fv_line line = {.text = ""};
    fv_status s = fv_lines_open_memory(ctx, "t", data, bytes, FV_LINES_POLICY_REJECT, &lines);
    while (s == FV_OK && line.text)
        s = fv_lines_next(lines, &line);
    fv_lines_close(&lines);
    return s;
}

static fv_status read_toml(void *user, const void *data, size_t bytes)
{
    (void)user;
    fv_doc *doc = NULL;
    fv_status s = fv_toml_parse(ctx, "t", data, bytes, &doc);
    fv_doc_free(&doc);
    return s;
}

/* Opens, then loads every tensor that can be loaded. */
static fv_status read_safetensors(void *user, const void *data, size_t bytes)
{
    fv_safetensors *set = NULL;
    file = (memory_file){.data = data, .bytes = bytes};
    fv_status s = fv_safetensors_open(ctx, "t", *(const unsigned *)user, &set);
    fv_scope_begin(ctx);
    for (size_t i = 0; set && i < fv_safetensors_count(set); i++) {
        const fv_file_entry *e = fv_safetensors_entry(set, i);
        if (e->loadable) fv_safetensors_load(ctx, set, e->name);
        fv_status loaded = fv_ctx_take_error(ctx);
        if (s == FV_OK) s = loaded;
    }
    fv_scope_end(ctx);
    fv_safetensors_close(&set);
    return s;
}

static fv_status read_npy(void *user, const void *data, size_t bytes)
{
    (void)user;
    fv_npy *npy = NULL;
    file = (memory_file){.data = data, .bytes = bytes};
    fv_status s = fv_npy_open(ctx, "t", &npy);
    fv_scope_begin(ctx);
    for (size_t i = 0; npy && i < fv_npy_count(npy); i++) {
        const fv_file_entry *e = fv_npy_entry(npy, i);
        if (e->loadable) fv_npy_load(ctx, npy, e->name);
        fv_status loaded = fv_ctx_take_error(ctx);
        if (s == FV_OK) s = loaded;
    }
    fv_scope_end(ctx);
    fv_npy_close(&npy);
    return s;
}

/* ---- one format ------------------------------------------------------------------ */

static void damage(const char *format, const void *data, size_t bytes, corrupt_reader read,
                   const void *user, corrupt_report *report)
{
    unsigned flags = user ? *(const unsigned *)user : 0;
    if (read(&flags, data, bytes) != FV_OK)
        test_failed(__FILE__, __LINE__, "%s: a seed is not good: %s", format, fv_ctx_message(ctx));
    corrupt_run(data, bytes, read, &flags, report);
    fv_memory_stats stats;
    fv_ctx_memory(ctx, &stats);
    CHECK_EQ(stats.used_bytes, used_before);
}

/* ---- formats --------------------------------------------------------------------- */

static void json_files(void)
{
    static const char *const seeds[] = {
        "{\"model_type\": \"gpt2\", \"n_head\": 12, \"eps\": 1e-05, \"bias\": true, \"x\": null}",
        "[[1, -2.5e3, [\"a\\u00e9\\ud83d\\ude00\\n\", {}]], {\"k\": [[], {\"k\": -0}]}, "
        "12345678901234567890]",
        "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],"
        "\"data_offsets\":[0,24]},\"\xC3\xA9\":\"\xE2\x82\xAC \xF0\x9F\x98\x80\"}\n",
    };
    corrupt_report report = {0};
    for (int i = 0; i < 3; i++)
        damage("json", seeds[i], strlen(seeds[i]), read_json, NULL, &report);
    corrupt_conclude("json", &report);
}

static void toml_files(void)
{
    static const char *const seeds[] = {
        "# recipe\n[model]\nname = \"sort\"\nheads = 4\n[train]\nrate = 3e-4\nbetas = [0.9, "
        "0.98]\n",
        "a.b.\"c d\" = 'x'\na.e = {f = 1, g.h = [true, {}]}\n[a.z]\ni = 0xFF\nj = -inf\nk = "
        "1_000\n",
        "s = \"\"\"\none \\\n  two \"\" \xE2\x82\xAC\\u00e9\"\"\"\nt = '''\nraw\\\n'''\n[x.y]\nz = "
        "[\n 1, # c\n]\n",
    };
    corrupt_report report = {0};
    for (int i = 0; i < 3; i++)
        damage("toml", seeds[i], strlen(seeds[i]), read_toml, NULL, &report);
    corrupt_conclude("toml", &report);
}

static fv_status give_bytes(void *user, size_t index, uint64_t offset, void *buf, size_t bytes)
{
    (void)user;
    memset(buf, (int)(index + offset + 1), bytes);
    return FV_OK;
}

static void damage_file(const char *format, const char *path, corrupt_reader read,
                        const unsigned *flags, corrupt_report *report)
{
    size_t bytes = 0;
    void *data = file_read(path, &bytes);
    if (data)
        damage(format, data, bytes, read, flags, report);
    else
        test_failed(__FILE__, __LINE__, "%s is missing", path);
    free(data);
}

static void safetensors_files(void)
{
    const fv_file_spec specs[] = {
        {"w", FV_F32, 2, {2, 3}}, {"b", FV_BF16, 1, {5}}, {"e", FV_I64, 0, {0}}};
    const unsigned plain = FV_SAFETENSORS_COPY, verify = FV_SAFETENSORS_VERIFY;
    static const char two[] = "\x89\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"U8\",\"shape\":[1,0,2],"
                              "\"data_offsets\":[3,3]},\"y\":{\"dtype\":\"BOOL\",\"shape\":[3],"
                              "\"data_offsets\":[0,3]},\"__metadata__\":{\"\":\"\"}}   abc";
    corrupt_report report = {0}, verified = {0};
    fv_ctx *writer = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &writer), FV_OK);
    CHECK_OK(writer, fv_safetensors_save_stream(writer, specs, 3, NULL, 0, give_bytes, NULL,
                                                folder_path("s")));
    fv_ctx_destroy(&writer);
    damage_file("safetensors", folder_path("s"), read_safetensors, &plain, &report);
    damage_file("safetensors", test_path("data/io/reference.safetensors"), read_safetensors, &plain,
                &report);
    damage("safetensors", two, sizeof two - 1, read_safetensors, &plain, &report);
    corrupt_conclude("safetensors", &report);
    /* With checksums, nothing damaged is good; writing a byte's own value is not damage. */
    damage_file("safetensors", folder_path("s"), read_safetensors, &verify, &verified);
    size_t bytes = 0, same = 0;
    unsigned char *data = file_read(folder_path("s"), &bytes);
    for (size_t i = 0; i < bytes; i++)
        same += data[i] == 0x00 || data[i] == 0x7F || data[i] == 0xFF;
    CHECK_EQ(verified.answers[FV_OK], same);
    corrupt_conclude("safetensors, verified", &verified);
    free(data);
}

static void npy_files(void)
{
    corrupt_report report = {0}, archives = {0};
    damage_file("npy", test_path("data/io/v1.npy"), read_npy, NULL, &report);
    damage_file("npy", test_path("data/io/v2.npy"), read_npy, NULL, &report);
    damage_file("npy", test_path("data/io/v3.npy"), read_npy, NULL, &report);
    damage_file("npy", test_path("data/io/fortran.npy"), read_npy, NULL, &report);
    corrupt_conclude("npy", &report);

    fv_ctx *writer = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &writer), FV_OK);
    const float x[4] = {1, 2, 3, 4};
    fv_tensor *t = fv_from_host(writer, FV_F32, 1, (int64_t[]){4}, x);
    const char *name = "a";
    CHECK_OK(writer, fv_npz_save(writer, &name, &t, 1, folder_path("z")));
    fv_ctx_destroy(&writer);
    damage_file("npz", folder_path("z"), read_npy, NULL, &archives);
    damage_file("npz", test_path("data/io/stored.npz"), read_npy, NULL, &archives);
    size_t bytes = 0;
    void *deflated = file_read(test_path("data/io/deflated.npz"), &bytes);
    if (deflated && read_npy(NULL, deflated, bytes) == FV_ERR_UNSUPPORTED)
        printf("skipped: no zlib, so no deflated archive\n");
    else if (deflated)
        damage("npz", deflated, bytes, read_npy, NULL, &archives);
    free(deflated);
    corrupt_conclude("npz", &archives);
}

static void tokenizer_files(void)
{
    static const char *const seeds[] = {
        "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true,\"lstrip\":true}],"
        "\"normalizer\":{\"type\":\"NFKC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"t\":0,"
        "\"h\":1,\"e\":2,\"th\":3,\"the\":4,\"\xC4\xA0\":5},\"merges\":[\"t h\",[\"th\",\"e\"]]}}",
        "{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
        "\"BertPreTokenizer\"},\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"S\",1],"
        "\"cls\":[\"C\",2]},\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\","
        "\"unk_token\":\"U\",\"vocab\":{\"U\":0,\"S\":1,\"C\":2,\"the\":3,\"##s\":4,\"ete\":5}}}",
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Metaspace\"},"
        "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Isolated\"}]},"
        "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1}},"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
        "\"?\"}},{\"Sequence\":{\"id\":\"A\"}}],\"pair\":[],\"special_tokens\":{\"?\":{\"ids\":[0]}"
        "}}}",
    };
    corrupt_report report = {0};
    for (int i = 0; i < 3; i++)
        damage("tokenizer.json", seeds[i], strlen(seeds[i]), read_tokenizer, NULL, &report);
    corrupt_conclude("tokenizer.json", &report);
}

static void packed_texts(void)
{
    static const char *const names[] = {"../fuzz/corpus/text/packed.gz",
                                        "../fuzz/corpus/text/packed.xz"};
    corrupt_report report = {0};
    for (int i = 0; i < 2; i++) {
        size_t bytes = 0;
        void *data = file_read(test_path(names[i]), &bytes);
        CHECK(data != NULL);
        if (data && read_lines(NULL, data, bytes) == FV_ERR_UNSUPPORTED)
            printf("skipped: %s, which this build cannot decompress\n", names[i]);
        else if (data)
            damage("compressed text", data, bytes, read_lines, NULL, &report);
        free(data);
    }
    if (report.reads) corrupt_conclude("compressed text", &report);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    fv_ctx_config cfg;
    fv_memory_stats stats;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.memory_limit = MEMORY_LIMIT;
    memory_io(&cfg.io, &file);
    if (fv_ctx_create(&cfg, &ctx) != FV_OK) return 1;
    folder_make();
    fv_scope_begin(ctx); /* made and ended once, so that what it keeps is counted */
    fv_scope_end(ctx);
    fv_ctx_memory(ctx, &stats);
    used_before = stats.used_bytes;
    RUN(json_files);
    RUN(toml_files);
    RUN(safetensors_files);
    RUN(npy_files);
    RUN(tokenizer_files);
    RUN(packed_texts);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
