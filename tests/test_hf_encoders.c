/* What folders of encoders say beyond their weights: names of classes, and how
 * sentence-transformers makes a vector of a text; in the library and in 'fovea run'. */
#include <math.h>

#include "fovea/ops.h"
#include "fovea/transformer.h"
#include "support/encoders.h"
#include "support/files.h"
#include "support/program.h"
#include "support/values.h"

#define MEAN "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": false}"

static const char *const topics[] = {"sport", "wéather", "a \"quoted\" name"};

static void write(const char *name, const char *text)
{
    file_write(folder_path(name), text, strlen(text));
}

static void check_message(fv_ctx *ctx, const char *text)
{
    if (!strstr(fv_ctx_message(ctx), text))
        test_failed(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", fv_ctx_message(ctx), text);
}

/* ---- classes ------------------------------------------------------------------------- */

/* config.json with another "id2label"; NULL: without one. */
static void rename_classes(const char *list)
{
    size_t bytes = 0;
    char *text = file_read(folder_path("model/config.json"), &bytes);
    static char copy[1 << 14];
    char *at = text ? strstr(text, "\"id2label\":{") : NULL;
    char *end = at ? strchr(at, '}') : NULL;
    CHECK(end != NULL);
    if (end)
        snprintf(copy, sizeof copy, "%.*s\"%s\":%s%.*s", (int)(at - text), text,
                 list ? "id2label" : "other", list ? list : "0",
                 (int)(bytes - (size_t)(end + 1 - text)), end + 1);
    write("model/config.json", copy);
    free(text);
}

static void check_names(fv_ctx *ctx, const char *folder, const char *const *wanted)
{
    fv_model *model = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
    const fv_transformer_config *c =
        model ? fv_transformer_settings(fv_model_transformer(model)) : NULL;
    CHECK(c && c->labels == 3);
    CHECK(c && (c->label_names != NULL) == (wanted != NULL));
    for (int i = 0; c && c->label_names && wanted && i < 3; i++)
        CHECK_STR(c->label_names[i], wanted[i]);
    fv_model_close(&model);
}

static void names_of_classes_come_back(void)
{
    fv_ctx *ctx = values_begin();
    fv_model *model = NULL;
    folder_make();
    folder_sub("copy");
    encoder_folder_write(folder_sub("model"), 3, topics);
    check_names(ctx, folder_path("model"), topics);
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &model));
    if (model) CHECK_OK(ctx, fv_model_save(model, folder_path("copy")));
    fv_model_close(&model);
    check_names(ctx, folder_path("copy"), topics);
    rename_classes("{\"2\": \"two\", \"0\": \"none\"}");
    check_names(ctx, folder_path("model"), (const char *const[]){"none", "LABEL_1", "two"});
    rename_classes(NULL);
    check_names(ctx, folder_path("model"), NULL);
    folder_remove();
    values_end(&ctx);
}

static void bad_names_are_reported(void)
{
    static const struct {
        const char *list, *message;
    } bad[] = {{"{\"3\": \"x\"}", "'id2label' names '3', and the classes are 0 to 2"},
               {"{\"-1\": \"x\"}", "names '-1'"},
               {"{\"\": \"x\"}", "names ''"},
               {"{\"99999999999999999999999\": \"x\"}", "the classes are 0 to 2"},
               {"{\"one\": \"x\"}", "names 'one'"},
               {"{\"0\": 7}", "config.json"},
               {"{\"0\": \"a\\u0000b\"}", "NUL"},
               {"[\"a\", \"b\", \"c\"]", "config.json"}};
    fv_ctx *ctx = values_begin();
    folder_make();
    folder_sub("model");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fv_model *model = NULL;
        encoder_folder_write(folder_path("model"), 3, topics);
        rename_classes(bad[i].list);
        CHECK_EQ(fv_model_open(ctx, folder_path("model"), &model), FV_ERR_FORMAT);
        CHECK(model == NULL);
        check_message(ctx, bad[i].message);
        fv_model_close(&model);
    }
    folder_remove();
    values_end(&ctx);
}

static void the_program_names_the_class(void)
{
    folder_make();
    encoder_folder_write(folder_sub("model"), 3, topics);
    program_run("run %s abcabc --json", folder_path("model"));
    expect(0, "\"label\": ", NULL);
    const char *number = strstr(program.out, "\"class\": ");
    CHECK(number != NULL);
    const int best = number ? number[9] - '0' : 0;
    CHECK(best >= 0 && best < 3);
    const char *const escaped[] = {"\"sport\"", "ather\"", "\"a \\\"quoted\\\" name\""};
    if (best >= 0 && best < 3) CHECK(strstr(program.out, escaped[best]) != NULL);
    program_run("run %s abcabc", folder_path("model"));
    expect(0, best >= 0 && best < 3 ? topics[best] : "?", NULL);
    program_run("run %s abcdefghijklmnopqrstuvwxyz", folder_path("model"));
    expect(3, NULL, "the model has 24 positions");
    rename_classes(NULL);
    program_run("run %s abcabc", folder_path("model"));
    expect(0, NULL, NULL);
    CHECK_EQ(program.out[0] - '0', best);
    CHECK_EQ(program.out[1], '\t');
    folder_remove();
}

/* ---- sentence-transformers ----------------------------------------------------------- */

static void rules_are_read(void)
{
    static const struct {
        const char *pooling, *lengths;
        fv_embedding_rule rule;
    } known[] = {
        {MEAN, "{\"max_seq_length\": 256, \"do_lower_case\": false}", {FV_POOLING_MEAN, true, 256}},
        {"{\"pooling_mode_mean_tokens\": false, \"pooling_mode_cls_token\": true}",
         "{\"max_seq_length\": null}",
         {FV_POOLING_FIRST, true, 77}},
        {"{\"pooling_mode\": \"cls\", \"include_prompt\": true}",
         "{}",
         {FV_POOLING_FIRST, true, 77}},
        {"{\"pooling_mode\": [\"mean\"]}",
         "{\"max_seq_length\": 1e30}",
         {FV_POOLING_MEAN, true, 77}},
        {"{}", "{\"max_seq_length\": 5}", {FV_POOLING_MEAN, true, 5}},
    };
    fv_ctx *ctx = values_begin();
    folder_make();
    folder_sub("model");
    write("model/tokenizer_config.json", "{\"model_max_length\": 77}");
    write("model/config_sentence_transformers.json",
          "{\"prompts\": {\"query\": \"\"}, \"default_prompt_name\": \"query\"}");
    fv_embedding_rule rule = {.normalize = true};
    CHECK_OK(ctx, fv_embedding_rule_load(ctx, folder_path("model"), &rule)); /* no modules.json */
    CHECK(rule.pooling == FV_POOLING_MEAN && !rule.normalize && rule.max_tokens == 0);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sentence_files_write(folder_path("model"), known[i].pooling, known[i].lengths);
        CHECK_OK(ctx, fv_embedding_rule_load(ctx, folder_path("model"), &rule));
        CHECK_EQ(rule.pooling, known[i].rule.pooling);
        CHECK_EQ(rule.normalize, known[i].rule.normalize);
        CHECK_EQ(rule.max_tokens, known[i].rule.max_tokens);
    }
    write("model/modules.json", "[{\"path\": \"\", \"type\": "
                                "\"sentence_transformers.base.modules.transformer.Transformer\"},"
                                " {\"path\": \"1_Pooling\", \"type\": \"a.b.Pooling\"}]");
    CHECK_OK(ctx, fv_embedding_rule_load(ctx, folder_path("model"), &rule));
    CHECK(!rule.normalize);
    folder_remove();
    values_end(&ctx);
}

#define FIRST "[{\"path\": \"\", \"type\": \"m.Transformer\"}, "

static void other_rules_are_named(void)
{
    static const struct {
        const char *file, *text;
        fv_status status;
        const char *message;
    } bad[] = {
        {"modules.json", "{}", FV_ERR_FORMAT, "modules.json"},
        {"modules.json", "[]", FV_ERR_UNSUPPORTED, "without pooling"},
        {"modules.json", "[1, 2]", FV_ERR_FORMAT, "modules.json"},
        {"modules.json", "[{\"path\": \"0_Transformer\", \"type\": \"m.Transformer\"}, {}]",
         FV_ERR_UNSUPPORTED, "the model is in '0_Transformer'"},
        {"modules.json", FIRST "{\"path\": \"2_Dense\", \"type\": \"m.Dense\"}]",
         FV_ERR_UNSUPPORTED, "module 1 is 'Dense'"},
        {"modules.json",
         FIRST "{\"path\": \"1_Pooling\", \"type\": \"m.Pooling\"}, {\"path\": \"2_Dense\", "
               "\"type\": \"m.Dense\"}]",
         FV_ERR_UNSUPPORTED, "module 2 is 'Dense'"},
        {"modules.json", FIRST "{\"path\": \"../1_Pooling\", \"type\": \"m.Pooling\"}]",
         FV_ERR_FORMAT, "'../1_Pooling' is not a subfolder"},
        {"modules.json", FIRST "{\"path\": \"..\", \"type\": \"m.Pooling\"}]", FV_ERR_FORMAT,
         "'..' is not a subfolder"},
        {"modules.json", FIRST "{\"path\": \"nothing\", \"type\": \"m.Pooling\"}]", FV_ERR_IO,
         "nothing/config.json"},
        {"1_Pooling/config.json", "{\"pooling_mode_max_tokens\": true}", FV_ERR_UNSUPPORTED,
         "'max' is not supported"},
        {"1_Pooling/config.json",
         "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": true}",
         FV_ERR_UNSUPPORTED, "two poolings"},
        {"1_Pooling/config.json", "{\"pooling_mode\": \"lasttoken\"}", FV_ERR_UNSUPPORTED,
         "'lasttoken' is not supported"},
        {"1_Pooling/config.json", "{\"pooling_mode\": [\"mean\", \"cls\"]}", FV_ERR_UNSUPPORTED,
         "2 poolings"},
        {"1_Pooling/config.json", "{\"pooling_mode\": 3}", FV_ERR_FORMAT, "config.json"},
        {"sentence_bert_config.json", "{\"do_lower_case\": true}", FV_ERR_UNSUPPORTED,
         "lower-casing"},
        {"sentence_bert_config.json", "{\"max_seq_length\": 0}", FV_ERR_FORMAT, "no room"},
        {"sentence_bert_config.json", "{\"max_seq_length\": \"long\"}", FV_ERR_FORMAT, "config"},
        {"config_sentence_transformers.json",
         "{\"prompts\": {\"q\": \"query: \"}, \"default_prompt_name\": \"q\"}", FV_ERR_UNSUPPORTED,
         "the prompt 'q'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fv_ctx *ctx = values_begin();
        fv_embedding_rule rule = {.max_tokens = -1};
        char path[128];
        folder_make();
        sentence_files_write(folder_sub("model"), MEAN, "{\"max_seq_length\": 9}");
        snprintf(path, sizeof path, "model/%s", bad[i].file);
        write(path, bad[i].text);
        CHECK_EQ(fv_embedding_rule_load(ctx, folder_path("model"), &rule), bad[i].status);
        CHECK_EQ(rule.max_tokens, -1);
        check_message(ctx, bad[i].message);
        folder_remove();
        values_end(&ctx);
    }
}

static void vectors_follow_the_rule(void)
{
    enum { N = 3, WIDTH = 4 };
    static const float states[N][WIDTH] = {{1, 2, 0, -3}, {5, 0, 0, 1}, {0, 4, 0, -4}};
    static const float mean[WIDTH] = {2, 2, 0, -2}, first[WIDTH] = {1, 2, 0, -3};
    static const int64_t list[N] = {1, 2, 3}, count = N;
    static const int64_t *const lists[1] = {list};
    fv_ctx *ctx = values_begin();
    const fv_sequences one = {.count = 1, .tokens = lists, .length = &count};
    const fv_token_rows rows = fv_token_rows_varlen(ctx, &one);
    for (int i = 0; i < 4; i++) {
        const fv_embedding_rule rule = {.pooling = i & 1 ? FV_POOLING_MEAN : FV_POOLING_FIRST,
                                        .normalize = i > 1};
        const float *wanted = i & 1 ? mean : first;
        const double length = rule.normalize ? sqrt(i & 1 ? 12.0 : 14.0) : 1;
        float got[WIDTH] = {0};
        fv_tensor *x = fv_from_host(ctx, FV_F32, 3, (int64_t[]){1, N, WIDTH}, states);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_embed(ctx, &rows, x, &rule), got, sizeof got));
        for (int k = 0; k < WIDTH; k++)
            CHECK_NEAR((double)got[k], (double)wanted[k] / length, 1e-6);
    }
    values_end(&ctx);
}

static void the_program_cuts_and_normalizes(void)
{
    static char kept[1 << 12];
    folder_make();
    encoder_folder_write(folder_sub("model"), 0, NULL);
    program_run("run %s abc", folder_path("model"));
    expect(0, NULL, NULL);
    const double plain = strtod(program.out, NULL);
    sentence_files_write(folder_path("model"), MEAN, "{\"max_seq_length\": 5}");
    program_run("run %s abc", folder_path("model")); /* [CLS] a b c [SEP] */
    expect(0, NULL, NULL);
    CHECK(strstr(program.err, "truncated") == NULL);
    snprintf(kept, sizeof kept, "%.4000s", program.out);
    double sum = 0, first = strtod(kept, NULL);
    char *at = kept;
    for (int i = 0; i < ENCODER_WIDTH; i++) {
        const double x = strtod(at, &at);
        sum += x * x;
    }
    CHECK_NEAR(sum, 1, 1e-5);
    CHECK(fabs(first - plain) > 1e-3);
    program_run("run %s abcdefgh", folder_path("model"));
    expect(0, NULL, "more than 5 tokens were truncated");
    CHECK_STR(program.out, kept);
    program_run("run %s zzzzz abc q --batch 8", folder_path("model")); /* in company */
    expect(0, kept, NULL);
    CHECK_STR(strchr(program.out, '\n') ? strchr(program.out, '\n') + 1 : "",
              strstr(program.out, kept));
    program_run("run %s abc --pooling first", folder_path("model"));
    CHECK(strcmp(program.out, kept) != 0);
    sentence_files_write(folder_path("model"), "{\"pooling_mode\": \"max\"}", "{}");
    program_run("run %s abc", folder_path("model"));
    expect(4, NULL, "'max' is not supported");
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(names_of_classes_come_back);
    RUN(bad_names_are_reported);
    RUN(the_program_names_the_class);
    RUN(rules_are_read);
    RUN(other_rules_are_named);
    RUN(vectors_follow_the_rule);
    RUN(the_program_cuts_and_normalizes);
    program_end();
    return TEST_END();
}
