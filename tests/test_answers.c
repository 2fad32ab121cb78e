/* Answers to questions (fv_answerer of fovea/encode.h) and classes of words, in the library and in
 * 'fovea run'. The reference for answers is a pass over windows that are written by hand. */
#include "fovea/encode.h"
#include "fovea/ops.h"
#include "fovea/train.h"
#include "fovea/transformer.h"
#include "support/encoders.h"
#include "support/files.h"
#include "support/program.h"
#include "support/values.h"

/* [CLS] question [SEP] context [SEP], one token for each letter between blanks. */
static const char letters[] =
    "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"[UNK]\", \"vocab\": {\"[UNK]\": 0, "
    "\"[CLS]\": 1, \"[SEP]\": 2, \"a\": 3, \"b\": 4, \"c\": 5, \"d\": 6, \"e\": 7, \"f\": 8, "
    "\"g\": 9, \"h\": 10}}, \"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"added_tokens\": "
    "[{\"id\": 1, \"content\": \"[CLS]\", \"special\": true}, {\"id\": 2, \"content\": \"[SEP]\", "
    "\"special\": true}], \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", "
    "2], \"cls\": [\"[CLS]\", 1]}}";
enum { CLS = 1, SEP = 2, FIRST_LETTER = 3, MAX_ANSWER = 15, MOST = 64 };

static fv_string text_of(const char *text) { return (fv_string){text, strlen(text)}; }

static void write_letters(const char *folder)
{
    char path[1024];
    encoder_head_write(folder, ENCODER_ANSWERS, 0, NULL);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    file_write(path, letters, sizeof letters - 1);
}

/* "a b c ...", some letter at each place. */
static const char *context_of(int n)
{
    static char text[2 * MOST + 1];
    for (int i = 0; i < n; i++) {
        text[2 * i] = (char)('a' + (i * i + 3 * i) % 8);
        text[2 * i + 1] = ' ';
    }
    text[n > 0 ? 2 * n - 1 : 0] = '\0';
    return text;
}

/* ---- by hand -------------------------------------------------------------------------------- */

typedef struct reference {
    double p[MOST][MOST]; /* of answers from token i to token k of the context */
    double none;
} reference;

/* Raises probabilities to those of the window of n context tokens from `from` on. */
static void add_window(fv_ctx *ctx, const fv_model *model, const char *question,
                       const char *context, int from, int n, reference *r)
{
    int64_t ids[2 * MOST], types[2 * MOST], count = 0;
    ids[count++] = CLS;
    for (const char *c = question; *c; c += c[1] ? 2 : 1)
        ids[count++] = FIRST_LETTER + *c - 'a';
    ids[count++] = SEP;
    const int64_t begin = count;
    for (int i = 0; i < n; i++)
        ids[count++] = FIRST_LETTER + context[2 * (from + i)] - 'a';
    ids[count++] = SEP;
    for (int64_t i = 0; i < count; i++)
        types[i] = i >= begin;
    const int64_t *id = ids, *type = types;
    const fv_sequences one = {.count = 1, .tokens = &id, .length = &count, .types = &type};
    const fv_transformer *t = fv_model_transformer(model);
    const fv_token_rows rows = fv_token_rows_varlen(ctx, &one);
    float logits[2 * MOST][2];
    fv_tensor *out = fv_transformer_spans(ctx, t, fv_transformer_encode(ctx, t, &rows, NULL));
    CHECK_OK(ctx, fv_tensor_read(ctx, out, logits, (size_t)count * sizeof *logits));
    double sum[2];
    for (int side = 0; side < 2; side++) {
        sum[side] = exp((double)logits[0][side]);
        for (int i = 0; i < n; i++)
            sum[side] += exp((double)logits[begin + i][side]);
    }
    const double none = exp((double)logits[0][0]) / sum[0] * exp((double)logits[0][1]) / sum[1];
    if (none < r->none) r->none = none;
    for (int i = 0; i < n; i++)
        for (int k = i; k < n && k < i + MAX_ANSWER; k++) {
            const double p = exp((double)logits[begin + i][0]) / sum[0] *
                             exp((double)logits[begin + k][1]) / sum[1];
            if (p > r->p[from + i][from + k]) r->p[from + i][from + k] = p;
        }
}

/* The best answer that is left, which is then removed. */
static double take_best(reference *r, int *i, int *k)
{
    *i = *k = 0;
    for (int a = 0; a < MOST; a++)
        for (int b = 0; b < MOST; b++)
            if (r->p[a][b] > r->p[*i][*k]) *i = a, *k = b;
    const double p = r->p[*i][*k];
    r->p[*i][*k] = 0;
    return p;
}

static void check_answers(const fv_answers *got, int64_t question, const char *context,
                          reference *r, int64_t best)
{
    for (int64_t row = 0; row < best; row++) {
        const fv_answer *x = &got->row[question * best + row];
        int i, k;
        CHECK_NEAR(x->p, take_best(r, &i, &k), 1e-6);
        CHECK_EQ(x->question, question);
        CHECK_EQ(x->begin, 2 * (size_t)i);
        CHECK_EQ(x->end, 2 * (size_t)k + 1);
        CHECK_EQ(strlen(x->text), x->end - x->begin);
        CHECK(memcmp(x->text, context + x->begin, x->end - x->begin) == 0);
    }
    CHECK_NEAR(got->none[question], r->none, 1e-6);
}

/* ---- answers -------------------------------------------------------------------------------- */

static void answers_are_those_by_hand(void)
{
    enum { BEST = 4 };
    static reference r;
    static char shorter[64], longer[2 * MOST + 1];
    /* 24 positions hold the question, its three special tokens and 19 tokens of the context; ten
     * tokens on begins the next window, as half of one is more than half of 19. */
    static const int from[] = {0, 10, 20, 30};
    fv_ctx *ctx = values_begin();
    fv_answerer *answerer = NULL;
    fv_model *model = NULL;
    const fv_answers *got = NULL;
    folder_make();
    write_letters(folder_sub("model"));
    snprintf(shorter, sizeof shorter, "%s", context_of(9));
    snprintf(longer, sizeof longer, "%s", context_of(40));
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &model));
    CHECK_OK(ctx, fv_answerer_open(ctx, folder_path("model"), FV_WEIGHT_F32, &answerer));
    const fv_question two[] = {{text_of("a b"), text_of(shorter)},
                               {text_of("h c"), text_of(longer)}};
    CHECK_OK(ctx, fv_answer_questions(answerer, 2, two, BEST, &got));
    CHECK(got && got->count == 2 * BEST);
    for (int64_t i = 0; model && got && got->count == 2 * BEST && i < 2; i++) {
        memset(&r, 0, sizeof r);
        r.none = 1;
        if (i == 0) add_window(ctx, model, "a b", shorter, 0, 9, &r);
        for (int w = 0; i == 1 && w < 4; w++)
            add_window(ctx, model, "h c", longer, from[w], w < 3 ? 19 : 10, &r);
        check_answers(got, i, i ? longer : shorter, &r, BEST);
    }
    fv_answerer_close(&answerer);
    CHECK(answerer == NULL);
    fv_answerer_close(&answerer); /* NULL is fine */
    fv_model_close(&model);
    folder_remove();
    values_end(&ctx);
}

/* A context of three tokens has six parts; one of 18 has 165 parts of at most 15 tokens. */
static void there_are_as_many_as_parts(void)
{
    fv_ctx *ctx = values_begin();
    fv_answerer *answerer = NULL;
    fv_model *model = NULL;
    const fv_answers *got = NULL;
    folder_make();
    write_letters(folder_sub("model"));
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &model));
    CHECK_OK(ctx, fv_answerer_take(&model, folder_path("model"), FV_WEIGHT_F32, &answerer));
    CHECK(model == NULL);
    const fv_question one = {text_of("a"), text_of("b c d")};
    CHECK_OK(ctx, fv_answer_questions(answerer, 1, &one, INT64_MAX, &got));
    CHECK(got && got->count == 6);
    for (int64_t i = 1; got && i < got->count; i++)
        CHECK(got->row[i].p <= got->row[i - 1].p);
    const fv_question more = {text_of("a"), text_of(context_of(18))};
    CHECK_OK(ctx, fv_answer_questions(answerer, 1, &more, INT64_MAX, &got));
    CHECK(got && got->count == 165);
    fv_answerer_close(&answerer);
    folder_remove();
    values_end(&ctx);
}

/* RoBERTa has one kind of token, whatever the tokenizer says about the second text. */
static void one_kind_of_token_is_enough(void)
{
    fv_ctx *ctx = values_begin();
    fv_params *params = NULL;
    fv_transformer *t = NULL;
    fv_answerer *answerer = NULL;
    const fv_answers *got = NULL;
    fv_transformer_config cfg;
    fv_transformer_config_init(&cfg, sizeof cfg, FV_FAMILY_ROBERTA);
    cfg.vocabulary = 11;
    cfg.width = 16;
    cfg.heads = 2;
    cfg.hidden = 24;
    cfg.encoder_layers = 1;
    cfg.max_positions = ENCODER_POSITIONS;
    cfg.mlm_head = cfg.logits_bias = false;
    cfg.spans = true;
    CHECK_EQ(cfg.types, 1);
    folder_make();
    folder_sub("model");
    file_write(folder_path("model/tokenizer.json"), letters, sizeof letters - 1);
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_transformer_create(params, &cfg, &t));
    CHECK_OK(ctx, fv_transformer_save_settings(t, folder_path("model")));
    CHECK_OK(ctx, fv_params_save(params, folder_path("model/model.safetensors")));
    CHECK_OK(ctx, fv_answerer_open(ctx, folder_path("model"), FV_WEIGHT_F32, &answerer));
    const fv_question one = {text_of("a"), text_of("b c d")};
    CHECK_OK(ctx, fv_answer_questions(answerer, 1, &one, 2, &got));
    CHECK(got && got->count == 2);
    fv_answerer_close(&answerer);
    fv_transformer_destroy(&t);
    fv_params_destroy(&params);
    folder_remove();
    values_end(&ctx);
}

static void bad_questions_are_errors(void)
{
    fv_ctx *ctx = values_begin();
    fv_answerer *answerer = NULL;
    const fv_answers *got = NULL;
    folder_make();
    write_letters(folder_sub("model"));
    encoder_folder_write(folder_sub("bare"), 0, NULL);
    CHECK_EQ(fv_answerer_open(ctx, folder_path("bare"), FV_WEIGHT_F32, &answerer),
             FV_ERR_UNSUPPORTED);
    CHECK(strstr(fv_ctx_message(ctx), "a bert model cannot answer") != NULL);
    CHECK_OK(ctx, fv_answerer_open(ctx, folder_path("model"), FV_WEIGHT_F32, &answerer));
    const fv_question good = {text_of("a"), text_of("b c")}, empty = {text_of("a"), text_of(" ")},
                      long_ = {text_of(context_of(21)), text_of("b")};
    CHECK_EQ(fv_answer_questions(answerer, 0, &good, 1, &got), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_answer_questions(answerer, 1, &good, 0, &got), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_answer_questions(answerer, 1, &empty, 1, &got), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "question 0 has no tokens") != NULL);
    CHECK_EQ(fv_answer_questions(answerer, 1, &long_, 1, &got), FV_ERR_LIMIT);
    CHECK(got == NULL);
    (void)fv_ctx_take_error(ctx);
    const fv_question room = {text_of(context_of(20)), text_of("b c")}; /* one token at a time */
    CHECK_OK(ctx, fv_answer_questions(answerer, 1, &room, 9, &got));
    CHECK(got && got->count == 2);
    fv_answerer_close(&answerer);
    folder_remove();
    values_end(&ctx);
}

static void the_program_answers(void)
{
    folder_make();
    write_letters(folder_sub("model"));
    const char texts[] = "a\tb c\nb\tc\n";
    file_write(folder_path("questions"), texts, sizeof texts - 1);
    program_run("run %s -f %s", folder_path("model"), folder_path("questions"));
    expect(0, "\ta\n", NULL); /* the answer, its probability, the question */
    CHECK(strstr(program.out, "\tb\n") != NULL);
    CHECK(program.out[0] == 'b' || program.out[0] == 'c');
    program_run("run %s -f %s --json --top-k 3", folder_path("model"), folder_path("questions"));
    expect(0, "{\"question\": \"a\", \"answer\": \"b c\", \"begin\": 0, \"end\": 3, \"p\": ", NULL);
    CHECK(strstr(program.out, "\"none\": 0.") != NULL);
    program_run("run %s abc --task answer", folder_path("model"));
    expect(3, "", "no tab in \"abc\": a text is a question, a tab and the context");
    encoder_folder_write(folder_sub("bare"), 0, NULL);
    program_run("run %s abc --task answer", folder_path("bare"));
    expect(2, "", "the model cannot answer: it has no such head");
    folder_remove();
}

/* ---- words ---------------------------------------------------------------------------------- */

static const char *const tags[] = {"O", "B-PER", "I-PER"};

/* "Yorkers" is york ##ers. */
static const char pieces[] =
    "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", "
    "\"continuing_subword_prefix\": "
    "\"##\", \"max_input_chars_per_word\": 100, \"vocab\": {\"[UNK]\": 0, \"[CLS]\": 1, \"[SEP]\": "
    "2, \"new\": 3, \"york\": 4, \"##ers\": 5, \"sing\": 6, \".\": 7}}, \"normalizer\": {\"type\": "
    "\"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": true, \"lowercase\": "
    "true}, "
    "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"added_tokens\": [{\"id\": 1, "
    "\"content\": \"[CLS]\", \"special\": true}, {\"id\": 2, \"content\": \"[SEP]\", \"special\": "
    "true}], \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 2], \"cls\": "
    "[\"[CLS]\", 1]}}";

/* " sing" is a blank and sing. */
static const char bytes[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"<s>\": 0, \"</s>\": 2, \"\\u0120\": 3, \"s\": "
    "4, "
    "\"i\": 5, \"n\": 6, \"g\": 7, \"si\": 8, \"ng\": 9, \"sing\": 10}, \"merges\": [\"s i\", \"n "
    "g\", \"si ng\"]}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
    "\"trim_offsets\": true, \"use_regex\": true}, \"added_tokens\": [{\"id\": 0, \"content\": "
    "\"<s>\", \"special\": true}, {\"id\": 2, \"content\": \"</s>\", \"special\": true}], "
    "\"post_processor\": {\"type\": \"RobertaProcessing\", \"sep\": [\"</s>\", 2], \"cls\": "
    "[\"<s>\", 0], \"trim_offsets\": true, \"add_prefix_space\": false}}";

/* The line of a word: the class of token `row`, and the word. */
static void check_line(const fv_classifications *tokens, int64_t row, const char *word)
{
    char line[64];
    const fv_classification *c = &tokens->row[row];
    snprintf(line, sizeof line, "%s\t%.4f\t%s\n", c->label, (double)c->p[c->best], word);
    if (!strstr(program.out, line))
        test_failed(__FILE__, __LINE__, "no line \"%s\" in: %s", line, program.out);
}

static void words_have_the_class_of_their_first_token(void)
{
    static const struct {
        const char *tokenizer, *text;
        size_t bytes;
        int64_t tokens;
        int words;
        int64_t first[4];
        const char *word[4];
    } known[] = {{pieces,
                  "New Yorkers sing.",
                  sizeof pieces - 1,
                  5,
                  4,
                  {0, 1, 3, 4},
                  {"New", "Yorkers", "sing", "."}},
                 {bytes, "sing sing", sizeof bytes - 1, 3, 2, {0, 1}, {"sing", "sing"}}};
    fv_ctx *ctx = values_begin();
    folder_make();
    encoder_head_write(folder_sub("model"), ENCODER_CLASSIFIES_TOKENS, 3, tags);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        fv_classifier *classifier = NULL;
        const fv_classifications *got = NULL;
        const fv_string text = text_of(known[i].text);
        file_write(folder_path("model/tokenizer.json"), known[i].tokenizer, known[i].bytes);
        file_write(folder_path("texts"), text.text, text.bytes);
        CHECK_OK(ctx, fv_classifier_open(ctx, folder_path("model"), FV_WEIGHT_F32, &classifier));
        CHECK_OK(ctx, fv_classify_texts(classifier, 1, &text, &got));
        CHECK(got && got->count == known[i].tokens);
        program_run("run %s -f %s", folder_path("model"), folder_path("texts"));
        expect(0, NULL, NULL);
        int lines = 0;
        for (const char *at = program.out; *at; at++)
            lines += *at == '\n';
        CHECK_EQ(lines, known[i].words);
        for (int k = 0; got && got->count == known[i].tokens && k < known[i].words; k++)
            check_line(got, known[i].first[k], known[i].word[k]);
        fv_classifier_close(&classifier);
    }
    folder_remove();
    values_end(&ctx);
}

static void words_of_several_texts(void)
{
    folder_make();
    encoder_head_write(folder_sub("model"), ENCODER_CLASSIFIES_TOKENS, 3, tags);
    file_write(folder_path("model/tokenizer.json"), pieces, sizeof pieces - 1);
    program_run("run %s new sing.", folder_path("model"));
    expect(0, "\tnew\n\n", NULL); /* an empty line between texts */
    program_run("run %s new yorkers. --json", folder_path("model"));
    expect(0, "{\"text\": \"new\", \"words\": [{\"word\": \"new\", \"begin\": 0, \"end\": 3, ",
           NULL);
    CHECK(strstr(program.out, "{\"word\": \"yorkers\", \"begin\": 0, \"end\": 7, ") != NULL);
    CHECK(strstr(program.out, "{\"word\": \".\", \"begin\": 7, \"end\": 8, ") != NULL);
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(answers_are_those_by_hand);
    RUN(there_are_as_many_as_parts);
    RUN(one_kind_of_token_is_enough);
    RUN(bad_questions_are_errors);
    RUN(the_program_answers);
    RUN(words_have_the_class_of_their_first_token);
    RUN(words_of_several_texts);
    program_end();
    return TEST_END();
}
