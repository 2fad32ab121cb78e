/*
 * Marian's tokenizers against transformers' MarianTokenizer: pairs of SentencePiece models with one
 * vocabulary or two (data/text/marian.jsonl has its ids and decoding of many texts), saved and read
 * again; broken folders; a translator with such files beside it in 'fovea run', 'look' and
 * 'tokenize'.
 */
#include "fovea/train.h"
#include "fovea/transformer.h"
#include "models/model.h"
#include "support/files.h"
#include "support/program.h"
#include "support/test.h"
#include "support/tokens.h"

static fv_ctx *ctx;
static fv_tokenizer *tok;
static fv_tokenizer_encoder *enc;
static char name[64];
static bool saved; /* read the tokenizer again from what was saved */
static int folders, cases;

static const char *data_path(const char *folder, const char *file)
{
    char path[128];
    snprintf(path, sizeof path, "data/text/marian/%s%s%s", folder, *file ? "/" : "", file);
    return test_path(path);
}

/* ---- tokens -------------------------------------------------------------------------- */

static void next_folder(const char *folder, bool target)
{
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    snprintf(name, sizeof name, "%s %s%s", folder, target ? "target" : "source",
             saved ? " as JSON" : "");
    CHECK_OK(ctx, target ? fv_tokenizer_load_target(ctx, data_path(folder, ""), &tok)
                         : fv_tokenizer_load(ctx, data_path(folder, ""), &tok));
    if (tok && saved) {
        CHECK_OK(ctx, fv_tokenizer_save(ctx, tok, folder_path("tokenizer.json")));
        fv_tokenizer_destroy(&tok);
        CHECK_OK(ctx, fv_tokenizer_load(ctx, folder_path("tokenizer.json"), &tok));
    }
    if (tok) CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    folders++;
}

/* What it says without special tokens. */
static void check_plain(const fv_value *root)
{
    const fv_value *ids = fv_value_get(root, "ids"), *plain = fv_value_get(root, "plain");
    int64_t list[512];
    fv_text out = {0};
    if (!plain || ids->count > 512) return;
    for (uint32_t i = 0; i < ids->count; i++)
        list[i] = ids->as.items[i].as.integer;
    CHECK_OK(ctx,
             fv_tokenizer_decode(ctx, tok, list, ids->count, FV_TOKENIZER_SKIP_SPECIALS, &out));
    if (out.bytes != plain->count || (out.bytes && memcmp(out.data, plain->as.text, out.bytes)))
        test_failed(__FILE__, __LINE__, "%s: \"%s\", not \"%s\"", name, out.data ? out.data : "",
                    plain->as.text);
    fv_text_free(ctx, &out);
}

static void use_line(const fv_doc *doc)
{
    const fv_value *folder = fv_value_get(&doc->root, "folder");
    const fv_value *target = fv_value_get(&doc->root, "target");
    const tokens_with with = {.ctx = ctx, .tok = tok, .enc = enc, .name = name};
    if (folder) {
        next_folder(folder->as.text, target->as.boolean);
    } else if (enc) {
        cases += tokens_compare(&with, doc);
        check_plain(&doc->root);
    }
}

static void as_marian(void)
{
    for (int again = 0; again < 2; again++) {
        saved = again;
        folders = cases = 0;
        const int lines = tokens_each_line(ctx, test_path("data/text/marian.jsonl"), use_line);
        CHECK_EQ(folders, 6);
        CHECK_EQ(cases, lines - folders);
    }
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    printf("Marian: %d tokenizers, %d encodings\n", folders, cases);
}

/* The vocabulary is that of vocab.json; pieces that only the model has are hidden. */
static void the_vocabulary_is_its_own(void)
{
    size_t bytes = 0;
    char *vocab = file_read(data_path("joint", "vocab.json"), &bytes);
    size_t tokens = 0;
    for (size_t i = 0; i + 1 < bytes; i++)
        tokens += vocab[i] == '"' && vocab[i + 1] == ':';
    free(vocab);
    CHECK_OK(ctx, fv_tokenizer_load(ctx, data_path("joint", ""), &tok));
    if (!tok) return;
    CHECK_EQ(fv_tokenizer_vocab_size(tok), tokens);
    CHECK_EQ(fv_tokenizer_token_to_id(tok, "</s>", 4), 0);
    CHECK_EQ(fv_tokenizer_token_to_id(tok, "<unk>", 5), 1);
    CHECK_EQ(fv_tokenizer_token_to_id(tok, "<pad>", 5), (int64_t)tokens - 1);
    CHECK_EQ(fv_tokenizer_token_to_id(tok, "<s>", 3), -1);
    CHECK(fv_tokenizer_id_to_token(tok, (int64_t)tokens).text == NULL);
    CHECK(fv_tokenizer_is_special(tok, 0) && fv_tokenizer_is_special(tok, (int64_t)tokens - 1));
    CHECK(!fv_tokenizer_is_special(tok, 2)); /* a language */
    fv_text out = {0};
    /* The pieces after the vocabulary are hidden: nothing to decode. */
    CHECK_OK(ctx, fv_tokenizer_decode(ctx, tok, &(int64_t){(int64_t)tokens}, 1, 0, &out));
    CHECK_STR(out.data, "");
    fv_text_free(ctx, &out);
    fv_tokenizer_destroy(&tok);
}

/* A name with no end, and one that is all there is. */
static void languages_are_cut_off(void)
{
    static const struct {
        const char *text;
        uint32_t end;
    } cases_of[] = {{">>fra<<The", 7}, {">>fra<<", 7}};
    CHECK_OK(ctx, fv_tokenizer_load(ctx, data_path("joint", ""), &tok));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    fv_encoding e = {.struct_size = sizeof e};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, fv_tokenizer_encode(enc, cases_of[i].text, strlen(cases_of[i].text), 0, &e));
        CHECK(e.count >= 1 && e.ids[0] == fv_tokenizer_token_to_id(tok, ">>fra<<", 7));
        CHECK(e.offsets[0].begin == 0 && e.offsets[0].end == cases_of[i].end);
        if (e.count > 1) CHECK(e.offsets[1].begin >= 7 && e.offsets[e.count - 1].end == 10);
    }
    CHECK_OK(ctx, fv_tokenizer_encode(enc, ">>fra", 5, 0, &e));
    CHECK(e.count > 1);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
}

/* ---- broken folders ------------------------------------------------------------------ */

static void copy_to(const char *folder, const char *from, const char *to)
{
    size_t bytes = 0;
    char path[128];
    void *data = file_read(data_path(folder, from), &bytes);
    CHECK(data != NULL);
    snprintf(path, sizeof path, "marian/%s", to);
    if (data) file_write(folder_path(path), data, bytes);
    free(data);
}

static void bad_folders_are_reported(void)
{
    static const struct {
        const char *vocab;
        fv_status status;
        const char *message;
    } bad[] = {
        {"{\"</s>\": 0, \"<unk>\": 1}", FV_ERR_FORMAT, "token <pad> is missing"},
        {"{\"</s>\": 0, \"<pad>\": 1}", FV_ERR_FORMAT, "token <unk> is missing"},
        {"{\"<pad>\": 0, \"<unk>\": 1}", FV_ERR_FORMAT, "token </s> is missing"},
        {"{\"</s>\": 0, \"<unk>\": 1, \"<pad>\": 3}", FV_ERR_FORMAT,
         "has 3 tokens but ids up to 3"},
        {"{\"</s>\": 0, \"<unk>\": 1, \"<pad>\": 1}", FV_ERR_FORMAT, "duplicate token id 1"},
        {"{\"</s>\": -1}", FV_ERR_FORMAT, "vocab.json"},
        {"{\"</s>\": 2000000000}", FV_ERR_LIMIT, "2000000000"},
        {"[]", FV_ERR_FORMAT, "vocab.json"},
        {"{}", FV_ERR_FORMAT, "is missing"},
        {"{", FV_ERR_FORMAT, "vocab.json"},
    };
    folder_sub("marian");
    copy_to("joint", "source.spm", "source.spm");
    CHECK_EQ(fv_tokenizer_load(ctx, folder_path("marian"), &tok), FV_ERR_IO);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file_write(folder_path("marian/vocab.json"), bad[i].vocab, strlen(bad[i].vocab));
        CHECK_EQ(fv_tokenizer_load(ctx, folder_path("marian"), &tok), bad[i].status);
        CHECK(tok == NULL);
        if (!strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "%s: %s", bad[i].vocab, fv_ctx_message(ctx));
    }
    /* A model that is cut off anywhere is refused, or is a smaller one. */
    copy_to("joint", "vocab.json", "vocab.json");
    size_t bytes = 0;
    char *model = file_read(data_path("joint", "source.spm"), &bytes);
    for (size_t n = 0; model && n < bytes; n += 7) {
        file_write(folder_path("marian/source.spm"), model, n);
        const fv_status status = fv_tokenizer_load(ctx, folder_path("marian"), &tok);
        CHECK(status == FV_OK || status == FV_ERR_FORMAT);
        fv_tokenizer_destroy(&tok);
    }
    free(model);
}

/* A saved tokenizer whose parts contradict each other. */
static void bad_files_are_reported(void)
{
    static const char *const changes[][2] = {{"\"marian\":", "\"marian\":1,\"x\":"},
                                             {"\"marian\":", "\"marian\":9999,\"x\":"},
                                             {"\"marian\":", "\"marian\":-1,\"x\":"},
                                             {"\"content\":\"</s>\"", "\"content\":\"</t>\""}};
    size_t bytes = 0;
    CHECK_OK(ctx, fv_tokenizer_load(ctx, data_path("joint", ""), &tok));
    CHECK_OK(ctx, fv_tokenizer_save(ctx, tok, folder_path("tokenizer.json")));
    fv_tokenizer_destroy(&tok);
    char *text = file_read(folder_path("tokenizer.json"), &bytes);
    char *copy = malloc(bytes + 64);
    for (size_t i = 0; text && copy && i < sizeof changes / sizeof *changes; i++) {
        const size_t n = strlen(changes[i][0]), m = strlen(changes[i][1]);
        size_t at = 0;
        while (at + n < bytes && memcmp(text + at, changes[i][0], n) != 0)
            at++;
        CHECK(at + n < bytes);
        memcpy(copy, text, at);
        memcpy(copy + at, changes[i][1], m);
        memcpy(copy + at + m, text + at + n, bytes - at - n);
        CHECK_EQ(fv_tokenizer_parse(ctx, "changed", copy, bytes - n + m, &tok), FV_ERR_FORMAT);
        fv_tokenizer_destroy(&tok);
    }
    free(text);
    free(copy);
}

/* ---- a translator with these files ---------------------------------------------------- */

/* A small model whose vocabulary is that of the files, in "marian". */
static void write_translator(const char *folder, const char *generation)
{
    static const char *const files[] = {"source.spm", "target.spm", "vocab.json",
                                        "target_vocab.json", "tokenizer_config.json"};
    fv_tokenizer *source = NULL, *target = NULL;
    fv_params *params = NULL;
    fv_transformer *t = NULL;
    fv_transformer_config cfg;
    const bool apart = strcmp(folder, "apart") == 0;
    CHECK_OK(ctx, fv_tokenizer_load(ctx, data_path(folder, ""), &source));
    CHECK_OK(ctx, fv_tokenizer_load_target(ctx, data_path(folder, ""), &target));
    tree_remove(folder_path("marian"));
    folder_sub("marian");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (apart || i != 3) copy_to(folder, files[i], files[i]);
    fv_transformer_config_init(&cfg, sizeof cfg, FV_FAMILY_MARIAN);
    cfg.vocabulary = (int64_t)fv_tokenizer_vocab_size(source);
    cfg.target_vocabulary = apart ? (int64_t)fv_tokenizer_vocab_size(target) : 0;
    cfg.width = 16;
    cfg.heads = 2;
    cfg.hidden = 16;
    cfg.encoder_layers = cfg.decoder_layers = 1;
    cfg.max_positions = 32;
    cfg.init_std = 0.5;
    cfg.bos = cfg.pad = fv_tokenizer_token_to_id(target, "<pad>", 5);
    cfg.eos = fv_tokenizer_token_to_id(target, "</s>", 4);
    if (apart) cfg.tied = false;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_transformer_create(params, &cfg, &t));
    CHECK_OK(ctx, fv_transformer_save_settings(t, folder_path("marian")));
    CHECK_OK(ctx, fv_params_save(params, folder_path("marian/model.safetensors")));
    if (generation)
        file_write(folder_path("marian/generation_config.json"), generation, strlen(generation));
    fv_transformer_destroy(&t);
    fv_params_destroy(&params);
    fv_tokenizer_destroy(&source);
    fv_tokenizer_destroy(&target);
}

/* The ids of a reply are decoded to its text by 'tokenize'. */
static void check_reply(void)
{
    static char ids[1 << 12], text[1 << 12];
    const char *from = strstr(program.out, "\"ids\": ["),
               *reply = strstr(program.out, "\"text\": ");
    CHECK(from && reply);
    if (!from || !reply) return;
    size_t n = 0;
    for (from += 8; *from && *from != ']' && n + 1 < sizeof ids; from++)
        if (*from != ',') ids[n++] = *from;
    ids[n] = '\0';
    CHECK(n > 0);
    const char *end = strstr(reply, "\", \"rank\"");
    snprintf(text, sizeof text, "%.*s", end ? (int)(end - reply - 9) : 0, reply + 9);
    program_text("ids.txt", ids);
    program_run("tokenize %s %s --decode --no-specials --target", folder_path("marian"),
                program_path("ids.txt"));
    expect(0, NULL, NULL);
    program.out[strcspn(program.out, "\n")] = '\0';
    if (!strchr(text, '\\')) CHECK_STR(program.out, text); /* quotes are escaped in JSON */
}

static void the_program_translates(void)
{
    for (int apart = 0; apart < 2; apart++) {
        write_translator(apart ? "apart" : "joint", "{\"bad_words_ids\": [[0]]}"); /* no end */
        program_run("run %s Themill --json -n 6 --beam 2", folder_path("marian"));
        expect(0, "\"tokens\": 6", NULL);
        check_reply();
        program_run("run %s -f %s", folder_path("marian"), folder_path("marian/vocab.json"));
        CHECK(program.code == 0 || program.code == 3); /* one long line: may not fit the model */
        program_run("look %s The --entropy", folder_path("marian"));
        expect(0, NULL, NULL);
    }
    program_text("line.txt", "The mill\n");
    program_run("tokenize %s %s", folder_path("marian"), program_path("line.txt"));
    expect(0, "</s>", NULL);
}

/* Before there was a generation_config.json, config.json had its settings. */
static void older_folders_have_generation_settings_in_config(void)
{
    fv_model *model = NULL;
    size_t bytes = 0;
    write_translator("joint", NULL);
    char *text = file_read(folder_path("marian/config.json"), &bytes);
    static char copy[1 << 14];
    snprintf(copy, sizeof copy, "{\"num_beams\": 5, \"bad_words_ids\": [[7]], %.*s", (int)bytes - 1,
             text ? text + 1 : "");
    free(text);
    file_write(folder_path("marian/config.json"), copy, strlen(copy));
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("marian"), &model));
    if (model) CHECK_EQ(fv_model_generation(model)->beams, 1); /* the newer file counts */
    fv_model_close(&model);
    CHECK_EQ(remove(folder_path("marian/generation_config.json")), 0);
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("marian"), &model));
    const fv_generation_defaults *g = model ? fv_model_generation(model) : NULL;
    CHECK(g && g->beams == 5 && g->banned_count == 1 && g->banned[0] == 7 && g->eos[0] == 0);
    fv_model_close(&model);
}

/* The likeliest token comes no more once it is banned. */
static void banned_tokens_do_not_come(void)
{
    fv_model *model = NULL;
    char settings[384];
    write_translator("joint", NULL);
    program_run("run %s The --json -n 4 --beam 3", folder_path("marian"));
    expect(0, NULL, NULL);
    const char *first = strstr(program.out, "\"ids\": [");
    CHECK(first != NULL);
    const long token = first ? strtol(first + 8, NULL, 10) : 0;
    snprintf(
        settings, sizeof settings,
        "{\"bad_words_ids\": [[5, 6, 7], [%ld]], \"renormalize_logits\": true, \"num_beams\": 3, "
        "\"min_length\": 3, \"min_new_tokens\": 2, \"no_repeat_ngram_size\": 4, \"min_p\": 0.25, "
        "\"eos_token_id\": 0, \"decoder_start_token_id\": 20, \"pad_token_id\": 20}",
        token);
    write_translator("joint", settings);
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("marian"), &model));
    for (int again = 0; model && again < 2; again++) { /* and it is saved */
        const fv_generation_defaults *g = fv_model_generation(model);
        CHECK(g->banned_count == 2 && g->banned[2] == 7 && g->banned[3] == token);
        CHECK(g->banned_lengths[0] == 3 && g->banned_lengths[1] == 1);
        CHECK(g->renormalize && g->beams == 3 && g->no_repeat_ngram == 4);
        CHECK(g->min_length == 3 && g->min_new_tokens == 2 && g->min_p == 0.25);
        CHECK_OK(ctx, fv_model_save(model, folder_path("marian")));
        fv_model_close(&model);
        CHECK_OK(ctx, fv_model_open(ctx, folder_path("marian"), &model));
    }
    fv_model_close(&model);
    program_run("run %s The --json -n 4", folder_path("marian"));
    expect(0, "\"ids\": [", NULL);
    const char *list = strstr(program.out, "\"ids\": [");
    for (const char *at = list ? list + 8 : ""; *at && *at != ']'; at++) {
        char *end = NULL;
        CHECK(strtol(at, &end, 10) != token);
        if (end == at) break;
        at = *end == ',' ? end + 1 : end - 1;
    }
    static const struct {
        const char *text, *message;
    } bad[] = {{"{\"bad_words_ids\": [[3], []]}", "a bad word of 0 tokens"},
               {"{\"bad_words_ids\": [3]}", "generation_config.json"},
               {"{\"bad_words_ids\": 3}", "generation_config.json"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file_write(folder_path("marian/generation_config.json"), bad[i].text, strlen(bad[i].text));
        CHECK_EQ(fv_model_open(ctx, folder_path("marian"), &model), FV_ERR_FORMAT);
        if (!strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(as_marian);
    RUN(the_vocabulary_is_its_own);
    RUN(languages_are_cut_off);
    RUN(bad_folders_are_reported);
    RUN(bad_files_are_reported);
    RUN(the_program_translates);
    RUN(older_folders_have_generation_settings_in_config);
    RUN(banned_tokens_do_not_come);
    fv_ctx_destroy(&ctx);
    folder_remove();
    program_end();
    return TEST_END();
}
