/*
 * Rules of tokenizer pipelines, one small tokenizer each: where added tokens match, what is
 * trimmed, split, fused and decoded. Then the trainer's merges against counting all pairs again
 * each time.
 */
#include "fovea/tokenizer.h"

#include "support/test.h"

static fv_ctx *ctx;
static fv_tokenizer *tok;
static fv_tokenizer_encoder *enc;
static fv_encoding e;

static void open_tokenizer(const char *json)
{
    CHECK_OK(ctx, fv_tokenizer_parse(ctx, "rule", json, strlen(json), &tok));
    if (tok) CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
}

static void close_tokenizer(void)
{
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
}

/* The ids of a text in `want`, ended by -1. */
static void check_ids(const char *text, const int64_t *want)
{
    e = (fv_encoding){.struct_size = sizeof e};
    if (enc) CHECK_OK(ctx, fv_tokenizer_encode(enc, text, strlen(text), 0, &e));
    size_t n = 0;
    for (; want[n] >= 0; n++)
        if (n >= e.count || e.ids[n] != want[n])
            test_failed(__FILE__, __LINE__, "\"%s\": token %zu is not %lld", text, n,
                        (long long)want[n]);
    CHECK_EQ(e.count, n);
}
#define IDS(...) ((const int64_t[]){__VA_ARGS__, -1})

static void check_decoded(const int64_t *ids, size_t count, const char *want, size_t bytes)
{
    fv_text out = {0};
    if (tok) CHECK_OK(ctx, fv_tokenizer_decode(ctx, tok, ids, count, 0, &out));
    CHECK_EQ(out.bytes, bytes);
    CHECK(out.bytes == bytes && memcmp(out.data, want, bytes) == 0);
    fv_text_free(ctx, &out);
}

static void check_refused(const char *json, fv_status status, const char *message)
{
    CHECK_EQ(fv_tokenizer_parse(ctx, "rule", json, strlen(json), &tok), status);
    CHECK(strstr(fv_ctx_message(ctx), message) != NULL);
    close_tokenizer();
}

#define LETTERS                                                                                    \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"merges\":[],"                               \
    "\"vocab\":{\"a\":0,\"b\":1,\"?\":2,\"c\":3,\"-\":4}}"

/* ---- added tokens ---------------------------------------------------------------- */

static void single_words_match_alone(void)
{
    open_tokenizer("{\"added_tokens\":[{\"id\":5,\"content\":\"ab\",\"single_word\":true}]," LETTERS
                   "}");
    check_ids("ab", IDS(5));
    check_ids("-ab-", IDS(4, 5, 4));
    check_ids("cab", IDS(3, 0, 1));
    check_ids("abc", IDS(0, 1, 3));
    close_tokenizer();
}

/* The model produces its own tokens even where they are added tokens too, but never the others. */
static void the_model_knows_its_own_tokens(void)
{
#define ADDED(id, content)                                                                         \
    "{\"id\":" #id ",\"content\":\"" content "\",\"single_word\":true,\"normalized\":false}"
    open_tokenizer("{\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":true},"
                   "\"added_tokens\":[" ADDED(1, "left") "," ADDED(3, "up") "," ADDED(
                       4, "on") "],"
                                "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\","
                                "\"vocab\":{\"?\":0,\"left\":1,\"1\":2}}}");
    check_ids("left", IDS(1));
    check_ids("up", IDS(3));
    /* A digit is a letter of a word: the model gets what is left. */
    check_ids("left1", IDS(1, 2));
    check_ids("up1", IDS(0, 2));
    check_ids("on1", IDS(0, 2));
    close_tokenizer();
#undef ADDED
}

/* Blanks that an added token takes with it are trimmed from its offsets. */
static void stripped_blanks_are_trimmed(void)
{
    open_tokenizer("{\"added_tokens\":[{\"id\":4,\"content\":\"<m>\",\"rstrip\":true}],"
                   "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                   "\"post_processor\":{\"type\":\"ByteLevel\",\"trim_offsets\":true},"
                   "\"model\":{\"type\":\"BPE\",\"merges\":[],"
                   "\"vocab\":{\"a\":0,\"\xC4\xA0\":1,\"b\":2,\"c\":3}}}");
    check_ids("a<m>  b", IDS(0, 4, 2));
    CHECK(e.count == 3 && e.offsets[1].begin == 1 && e.offsets[1].end == 4);
    close_tokenizer();
}

/* ---- pre-tokenizers -------------------------------------------------------------- */

static void nothing_follows_byte_level(void)
{
    check_refused("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
                  "{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}," LETTERS "}",
                  FV_ERR_UNSUPPORTED, "after ByteLevel");
    open_tokenizer("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
                   "{\"type\":\"Digits\"},{\"type\":\"ByteLevel\"}]}," LETTERS "}");
    close_tokenizer();
}

/* Words as in GPT-2 unless "use_regex" is false: a merge does not reach across a blank. */
static void byte_level_splits_by_default(void)
{
#define BYTES(regex)                                                                               \
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false" regex                  \
    "},\"model\":{\"type\":\"BPE\",\"merges\":[\"a \xC4\xA0\"],"                                   \
    "\"vocab\":{\"a\":0,\"\xC4\xA0\":1,\"a\xC4\xA0\":2}}}"
    open_tokenizer(BYTES(""));
    check_ids("a a", IDS(0, 1, 0));
    close_tokenizer();
    open_tokenizer(BYTES(",\"use_regex\":false"));
    check_ids("a a", IDS(2, 0));
    close_tokenizer();
#undef BYTES
}

/* A pattern that has a scanner of its own, and the same pattern in a group, which has none. */
static void scanners_follow_the_behavior(void)
{
#define PATTERN                                                                                    \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+"                  \
    "|\\\\s+(?!\\\\S)|\\\\s+"
    static const char *const behaviors[] = {"Removed", "Isolated", "MergedWithPrevious",
                                            "MergedWithNext", "Contiguous"};
    for (int i = 0; i < 10; i++) {
        int64_t ids[2][64] = {{0}};
        size_t count[2] = {0};
        for (int grouped = 0; grouped < 2; grouped++) {
            char json[1024];
            snprintf(
                json, sizeof json,
                "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s%s%s\"},"
                "\"behavior\":\"%s\",\"invert\":%s},\"model\":{\"type\":\"BPE\",\"unk_token\":"
                "\"?\",\"fuse_unk\":true,\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"ab\":3,\"ba\":4},"
                "\"merges\":[\"a b\",\"b a\"]}}",
                grouped ? "(" : "", PATTERN, grouped ? ")" : "", behaviors[i % 5],
                i < 5 ? "true" : "false");
            open_tokenizer(json);
            e = (fv_encoding){.struct_size = sizeof e};
            const char *text = "ab ba!!  b1a ab";
            if (enc) CHECK_OK(ctx, fv_tokenizer_encode(enc, text, strlen(text), 0, &e));
            count[grouped] = e.count < 64 ? e.count : 64;
            if (e.count) memcpy(ids[grouped], e.ids, count[grouped] * sizeof **ids);
            close_tokenizer();
        }
        CHECK_EQ(count[0], count[1]);
        CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
    }
#undef PATTERN
}

/* BERT's splitting of a piece that is not the first one. */
static void bert_splits_every_piece(void)
{
    open_tokenizer("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
                   "{\"type\":\"WhitespaceSplit\"},{\"type\":\"BertPreTokenizer\"}]},"
                   "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\","
                   "\"vocab\":{\"?\":0,\"ab\":1,\",\":2,\"c\":3}}}");
    check_ids("ab ab,c c,,ab", IDS(1, 1, 2, 3, 3, 2, 2, 1));
    close_tokenizer();
}

/* ---- normalizers and models ------------------------------------------------------ */

/* A pattern that continues past the end of the text; the text encoded before it had the rest. */
static void replacing_ends_with_the_text(void)
{
    open_tokenizer("{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},"
                   "\"content\":\"c\"}," LETTERS "}");
    check_ids("ab", IDS(3));
    check_ids("b", IDS(1));
    check_ids("ab-ab", IDS(3, 4, 3));
    check_ids("ab-a", IDS(3, 4, 0));
    check_ids("----b", IDS(4, 4, 4, 4, 1));
    check_ids("---a", IDS(4, 4, 4, 0));
    check_ids("aab", IDS(0, 3));
    check_ids("aa", IDS(0, 0));
    close_tokenizer();
}

/* Only unknown characters fuse, not one with the token before it, whatever its id. */
static void unknowns_fuse_with_unknowns(void)
{
    open_tokenizer("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true,"
                   "\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,\"?\":2}}}");
    check_ids("axy", IDS(0, 2));
    check_ids("bxa", IDS(1, 2, 0));
    check_ids("xay", IDS(2, 0, 2));
    close_tokenizer();
}

#define PIECES(vocab, kinds, scores)                                                               \
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"merges\":[],\"vocab\":{" vocab         \
    "},\"sentencepiece\":{\"kinds\":\"" kinds "\",\"scores\":[" scores "]}}}"

/* Text never becomes a control piece. */
static void control_pieces_are_not_text(void)
{
    open_tokenizer(PIECES("\"x\":0,\"<unk>\":1,\"a\":2", "321", "0,0,0"));
    check_ids("axa", IDS(2, 1, 2));
    close_tokenizer();
}

/* The piece of the best score is merged first. */
static void the_best_score_is_merged_first(void)
{
    open_tokenizer(PIECES("\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,\"ab\":4,\"bc\":5", "211111",
                          "0,-5,-6,-7,-1,-2"));
    check_ids("abc", IDS(4, 3));
    close_tokenizer();
    open_tokenizer(PIECES("\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,\"ab\":4,\"bc\":5", "211111",
                          "-9,-5,-6,-7,-2,-1"));
    check_ids("abc", IDS(1, 5));
    close_tokenizer();
}

/* A language is a token of its own, of the first type. The vocabulary must have the unknown token.
 */
static void marian_needs_the_unknown_token(void)
{
#define MARIAN(visible)                                                                            \
    "{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\">>a<<\",-1.0],[\"<unk>\",0.0],"   \
    "[\"b\",-1.0]],\"sentencepiece\":{\"kinds\":\"121\",\"marian\":" #visible "}}}"
    check_refused(MARIAN(0), FV_ERR_FORMAT, "expected 2 to 3");
    check_refused(MARIAN(1), FV_ERR_FORMAT, "expected 2 to 3");
    open_tokenizer(MARIAN(3));
    check_ids(">>a<<b", IDS(0, 2));
    CHECK(e.count == 2 && e.type_ids[0] == 0 && e.type_ids[1] == 0);
    close_tokenizer();
#undef MARIAN
}

/* ---- decoding -------------------------------------------------------------------- */

static void zero_is_a_byte_too(void)
{
    open_tokenizer("{\"decoder\":{\"type\":\"ByteFallback\"},"
                   "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"merges\":[],"
                   "\"vocab\":{\"a\":0,\"?\":1,\"<0x00>\":2,\"<0x41>\":3}}}");
    check_decoded((const int64_t[]){0, 2, 3}, 3, "a\0A", 3);
    close_tokenizer();
}

/* The beginning of a character is one U+FFFD, however many bytes it has. */
static void cut_characters_are_one_replacement(void)
{
    open_tokenizer("{\"decoder\":{\"type\":\"ByteLevel\"},"
                   "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                   "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0,"
                   "\"\xC3\xA2\":1,\"\xC4\xA4\":2,\"\xC3\xB0\":3,\"\xC5\x81\":4}}}");
    /* E2 82 and F0 9F 82 are cut; 82 alone is no beginning. */
    check_decoded((const int64_t[]){1, 2, 0}, 3,
                  "\xEF\xBF\xBD"
                  "a",
                  4);
    check_decoded((const int64_t[]){1, 2}, 2, "\xEF\xBF\xBD", 3);
    check_decoded((const int64_t[]){3, 4, 2, 0}, 4,
                  "\xEF\xBF\xBD"
                  "a",
                  4);
    check_decoded((const int64_t[]){2, 2}, 2, "\xEF\xBF\xBD\xEF\xBF\xBD", 6);
    close_tokenizer();
}

/* ---- training -------------------------------------------------------------------- */

static void special_tokens_are_text(void)
{
    static const char *const bad[] = {"", "\xff", "<s>"};
    for (int i = 0; i < 3; i++) {
        fv_tokenizer_trainer *trainer = NULL;
        fv_tokenizer_trainer_config cfg;
        fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_BPE_BYTES);
        cfg.specials[3] = bad[i];
        CHECK_EQ(fv_tokenizer_trainer_create(ctx, &cfg, &trainer), FV_ERR_ARGUMENT);
        CHECK(trainer == NULL && strstr(fv_ctx_message(ctx), "special token 3") != NULL);
        fv_tokenizer_trainer_destroy(&trainer);
    }
}

enum { WORDS = 400, LETTERS_IN_USE = 52, LONGEST = 7, MERGES = 150, MOST_IDS = 256 };

/* Words as lists of ids, each merged pair by pair. */
typedef struct corpus {
    int ids[WORDS][LONGEST + 1];
    int length[WORDS];
} corpus;

static void merge_everywhere(corpus *c, int first, int second, int merged)
{
    for (int w = 0; w < WORDS; w++) {
        int used = 0;
        for (int i = 0; i < c->length[w]; used++) {
            const bool here =
                i + 1 < c->length[w] && c->ids[w][i] == first && c->ids[w][i + 1] == second;
            c->ids[w][used] = here ? merged : c->ids[w][i];
            i += here ? 2 : 1;
        }
        c->length[w] = used;
    }
}

/* The most frequent pair, on ties the one with the smaller ids: first * MOST_IDS + second. */
static int most_frequent(const corpus *c)
{
    static int counts[MOST_IDS * MOST_IDS];
    memset(counts, 0, sizeof counts);
    int best = 0;
    for (int w = 0; w < WORDS; w++)
        for (int i = 0; i + 1 < c->length[w]; i++)
            counts[c->ids[w][i] * MOST_IDS + c->ids[w][i + 1]]++;
    for (int pair = 1; pair < MOST_IDS * MOST_IDS; pair++)
        if (counts[pair] > counts[best]) best = pair;
    return best;
}

/* Words without a letter twice, so that pairs never overlap, and enough of them for more pairs than
 * the first table of pairs has room for. */
static void merges_are_those_of_counting_again(void)
{
    static corpus c;
    static char text[WORDS * (LONGEST + 1)];
    size_t n = 0;
    uint32_t random = 1;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_BPE_METASPACE);
    cfg.specials[0] = NULL;
    cfg.min_count = 1;
    cfg.vocabulary = LETTERS_IN_USE + 1 + MERGES;
    fv_memory_stats before, after;
    fv_ctx_memory(ctx, &before);
    for (int w = 0; w < WORDS; w++) {
        bool used[LETTERS_IN_USE] = {false};
        c.ids[w][0] = LETTERS_IN_USE; /* U+2581 comes after the letters */
        c.length[w] = 1;
        for (int i = 0; i < LONGEST; i++) {
            random = random * 1664525u + 1013904223u;
            const int letter = (int)((random >> 8) % LETTERS_IN_USE * (random >> 20 & 1) +
                                     (random >> 12) % 16 * (~random >> 20 & 1));
            if (used[letter]) continue;
            used[letter] = true;
            c.ids[w][c.length[w]++] = letter;
            text[n++] = (char)(letter < 26 ? 'A' + letter : 'a' + letter - 26);
        }
        text[n++] = ' ';
    }
    CHECK_OK(ctx, fv_tokenizer_trainer_create(ctx, &cfg, &trainer));
    CHECK_OK(ctx, fv_tokenizer_trainer_add(trainer, text, n));
    CHECK_OK(ctx, fv_tokenizer_trainer_finish(trainer, &tok));
    fv_tokenizer_trainer_destroy(&trainer);
    CHECK(tok && fv_tokenizer_vocab_size(tok) == cfg.vocabulary);
    int next = LETTERS_IN_USE + 1;
    for (int i = 0; tok && i < 4 * MERGES && next < (int)cfg.vocabulary; i++) {
        char joined[64];
        const int pair = most_frequent(&c), first = pair / MOST_IDS, second = pair % MOST_IDS;
        snprintf(joined, sizeof joined, "%s%s", fv_tokenizer_id_to_token(tok, first).text,
                 fv_tokenizer_id_to_token(tok, second).text);
        const int64_t id = fv_tokenizer_token_to_id(tok, joined, strlen(joined));
        CHECK(id >= 0 && id <= next);
        if (id < 0 || id > next) break;
        next += id == next;
        merge_everywhere(&c, first, second, (int)id);
    }
    CHECK_EQ(next, cfg.vocabulary);
    close_tokenizer();
    fv_ctx_memory(ctx, &after);
    CHECK_EQ(after.used_bytes, before.used_bytes); /* each block was freed with its size */
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(single_words_match_alone);
    RUN(the_model_knows_its_own_tokens);
    RUN(stripped_blanks_are_trimmed);
    RUN(nothing_follows_byte_level);
    RUN(byte_level_splits_by_default);
    RUN(scanners_follow_the_behavior);
    RUN(bert_splits_every_piece);
    RUN(replacing_ends_with_the_text);
    RUN(unknowns_fuse_with_unknowns);
    RUN(control_pieces_are_not_text);
    RUN(the_best_score_is_merged_first);
    RUN(marian_needs_the_unknown_token);
    RUN(zero_is_a_byte_too);
    RUN(cut_characters_are_one_replacement);
    RUN(special_tokens_are_text);
    RUN(merges_are_those_of_counting_again);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
