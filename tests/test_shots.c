/*
 * Episodes of few-shot learning: which drawings they show, that no part sees another's characters,
 * that nothing but (seed, part, number) matters, one-shot runs, the files of Omniglot and what is
 * wrong with others.
 */
#include <sys/stat.h>

#include "data/shots.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"

enum { SIDE = FV_SHOTS_SIDE, PIXELS = FV_SHOTS_PIXELS };

static fv_ctx *ctx;
static fv_shots *drawn;

/* ---- episodes ------------------------------------------------------------------------------- */

/* Which drawing of a class an episode shows, rotated here by coordinates; -1: none. */
static int64_t drawing_of(const fv_shots *s, int64_t class, const float *pixels)
{
    for (int64_t k = 0; k < s->drawings; k++) {
        const uint8_t *ink = s->ink + (class / 4 * s->drawings + k) * PIXELS;
        bool same = true;
        for (int y = 0; y < SIDE && same; y++)
            for (int x = 0; x < SIDE && same; x++) {
                int from_x = x, from_y = y;
                for (int64_t turn = 0; turn < class % 4; turn++) {
                    const int kept = from_x; /* counter-clockwise: the right side becomes the top */
                    from_x = SIDE - 1 - from_y;
                    from_y = kept;
                }
                same =
                    fabsf(pixels[y * SIDE + x] - (float)ink[from_y * SIDE + from_x] / 255) < 1e-6F;
            }
        if (same) return k;
    }
    return -1;
}

static fv_shots_episode make(const fv_shots *s, const fv_shots_rule *rule, uint64_t number)
{
    fv_shots_episode e = {.ways = 0};
    CHECK_OK(ctx, fv_shots_episode_make(s, rule, number, &e));
    return e;
}

/* Every picture is a drawing of its class, examples are complete, no drawing comes twice. */
static void check_episode(const fv_shots *s, const fv_shots_rule *rule, const fv_shots_episode *e,
                          int64_t *drawings)
{
    int64_t shown[FV_SHOTS_MOST_WAYS] = {0};
    CHECK_EQ(e->examples, rule->ways * rule->shots);
    CHECK_EQ(e->queries, rule->queries);
    for (int64_t i = 0; i < e->ways; i++) {
        CHECK_EQ(s->character[e->classes[i] / 4].part, rule->part);
        for (int64_t k = 0; k < i; k++)
            CHECK(e->classes[i] != e->classes[k]);
    }
    for (int64_t i = 0; i < e->examples + e->queries; i++) {
        CHECK(e->labels[i] >= 0 && e->labels[i] < e->ways);
        drawings[i] = drawing_of(s, e->classes[e->labels[i]], e->pixels + i * PIXELS);
        CHECK(drawings[i] >= 0);
        if (i < e->examples) shown[e->labels[i]]++;
        for (int64_t k = 0; k < i; k++)
            CHECK(e->labels[i] != e->labels[k] || drawings[i] != drawings[k]);
    }
    for (int64_t i = 0; i < e->ways; i++)
        CHECK_EQ(shown[i], rule->shots);
}

static void episodes_show_drawings_of_their_classes(void)
{
    int64_t drawings[FV_SHOTS_MOST];
    bool rotated[4] = {false}, asked[5] = {false}, shuffled = false;
    for (int part = 0; part < FV_SHOTS_PARTS; part++)
        for (uint64_t n = 0; n < 12; n++) {
            const fv_shots_rule rule = {.ways = 5,
                                        .shots = 1 + (int64_t)n % 3,
                                        .queries = 4,
                                        .part = (fv_shots_part)part,
                                        .seed = 3};
            fv_shots_episode e = make(drawn, &rule, n);
            check_episode(drawn, &rule, &e, drawings);
            for (int64_t i = 0; i < e.ways; i++)
                rotated[e.classes[i] % 4] = true;
            for (int64_t q = 0; q < e.queries; q++)
                asked[e.labels[e.examples + q]] = true;
            for (int64_t i = 1; i < e.examples; i++)
                shuffled = shuffled || e.labels[i] < e.labels[i - 1];
            fv_shots_episode_free(ctx, &e);
        }
    CHECK(rotated[0] && rotated[1] && rotated[2] && rotated[3] && shuffled);
    CHECK(asked[0] && asked[1] && asked[2] && asked[3] && asked[4]);
}

static bool same_episode(const fv_shots_rule *a, uint64_t n, const fv_shots_rule *b, uint64_t m)
{
    fv_shots_episode e = make(drawn, a, n), f = make(drawn, b, m);
    const bool same =
        memcmp(e.pixels, f.pixels, (size_t)(e.examples + e.queries) * PIXELS * sizeof(float)) == 0;
    fv_shots_episode_free(ctx, &e);
    fv_shots_episode_free(ctx, &f);
    return same;
}

static void drawn_characters_have_parts(void)
{
    const fv_shots_facts f = fv_shots_facts_of(drawn);
    CHECK(f.characters[FV_SHOTS_TRAIN] == 192 && f.characters[FV_SHOTS_VALID] == 32);
    CHECK(f.characters[FV_SHOTS_TEST] == 32 && f.drawings == 12 && f.runs == 20);
    CHECK(drawn->character[7].part == FV_SHOTS_VALID && drawn->character[15].number == 15);
    CHECK(drawn->character[19].part == FV_SHOTS_TEST && drawn->character[19].alphabet == 1);
    /* all drawings but one as examples */
    const fv_shots_rule rule = {.ways = 2, .shots = 11, .queries = 2, .seed = 3};
    fv_shots_episode e = make(drawn, &rule, 0);
    CHECK_EQ(e.examples, 22);
    fv_shots_episode_free(ctx, &e);
}

static void an_episode_is_a_function_of_its_number(void)
{
    const fv_shots_rule rule = {.ways = 3, .shots = 1, .queries = 1, .seed = 3},
                        seed = {.ways = 3, .shots = 1, .queries = 1, .seed = 4},
                        moved = {.ways = 3, .shots = 1, .queries = 1, .seed = 3, .shift = 2};
    CHECK(same_episode(&rule, 5, &rule, 5));
    CHECK(same_episode(&moved, 5, &moved, 5));
    CHECK(!same_episode(&rule, 5, &rule, 6));
    CHECK(!same_episode(&rule, 5, &seed, 5));
    CHECK(!same_episode(&rule, 5, &moved, 5));
}

/* One alphabet, one drawer of all examples, another of each query. */
static void episodes_can_be_like_one_shot_runs(void)
{
    int64_t drawings[FV_SHOTS_MOST];
    bool several_alphabets = false;
    for (uint64_t n = 0; n < 20; n++) {
        fv_shots_rule rule = {.ways = 10, .shots = 1, .queries = 3, .seed = 3, .within = 1};
        fv_shots_episode e = make(drawn, &rule, n);
        check_episode(drawn, &rule, &e, drawings);
        for (int64_t i = 1; i < e.ways; i++) {
            CHECK_EQ(drawn->character[e.classes[i] / 4].alphabet,
                     drawn->character[e.classes[0] / 4].alphabet);
            CHECK_EQ(e.classes[i] % 4, e.classes[0] % 4);
        }
        for (int64_t i = 0; i < e.examples + e.queries; i++)
            CHECK((drawings[i] == drawings[0]) == (i < e.examples));
        fv_shots_episode_free(ctx, &e);
        rule.ways = 20; /* more than an alphabet has: rotations are mixed */
        e = make(drawn, &rule, n);
        check_episode(drawn, &rule, &e, drawings);
        for (int64_t i = 1; i < e.ways; i++)
            CHECK_EQ(drawn->character[e.classes[i] / 4].alphabet,
                     drawn->character[e.classes[0] / 4].alphabet);
        fv_shots_episode_free(ctx, &e);
        rule.within = 0;
        e = make(drawn, &rule, n);
        for (int64_t i = 1; i < e.ways; i++)
            several_alphabets |= drawn->character[e.classes[i] / 4].alphabet !=
                                 drawn->character[e.classes[0] / 4].alphabet;
        fv_shots_episode_free(ctx, &e);
        rule.within = 1;
        rule.ways = 12; /* the part has two characters of each alphabet: eight classes */
        rule.part = FV_SHOTS_VALID;
        e = make(drawn, &rule, n);
        check_episode(drawn, &rule, &e, drawings);
        fv_shots_episode_free(ctx, &e);
    }
    CHECK(several_alphabets);
}

/* Fewer classes than labels: as many examples altogether, each class of them about as often. */
static void classes_can_be_fewer(void)
{
    bool high = false;
    for (uint64_t n = 0; n < 10; n++) {
        const fv_shots_rule rule = {
            .ways = 7, .shots = 2, .queries = 5, .seed = 3, .classes = 4, .within = 0.5};
        fv_shots_episode e = make(drawn, &rule, n);
        int64_t shown[7] = {0}, used = 0, drawings[19];
        CHECK_EQ(e.examples, 14);
        for (int64_t i = 0; i < 19; i++) {
            CHECK(e.classes[e.labels[i]] >= 0);
            if (i < 14) shown[e.labels[i]]++;
            drawings[i] = drawing_of(drawn, e.classes[e.labels[i]], e.pixels + i * PIXELS);
            CHECK(drawings[i] >= 0);
            for (int64_t k = 0; k < i; k++)
                CHECK(e.labels[i] != e.labels[k] || drawings[i] != drawings[k]);
        }
        for (int64_t i = 0; i < 7; i++) {
            used += shown[i] > 0;
            CHECK(shown[i] == 0 ? e.classes[i] == -1 : shown[i] == 3 || shown[i] == 4);
        }
        CHECK_EQ(used, 4);
        high = high || shown[6] > 0;
        fv_shots_episode_free(ctx, &e);
    }
    CHECK(high);
}

/* ---- changes of drawings -------------------------------------------------------------------- */

/* Ink, and its centre. */
static void moments(const float *x, double out[3])
{
    out[0] = out[1] = out[2] = 0;
    for (int i = 0; i < PIXELS; i++) {
        out[0] += (double)x[i];
        out[1] += (double)x[i] * (i / SIDE);
        out[2] += (double)x[i] * (i % SIDE);
    }
    out[1] /= out[0];
    out[2] /= out[0];
}

static void drawings_are_moved(void)
{
    fv_shots_rule rule = {.ways = 5, .shots = 1, .queries = 1, .seed = 3};
    double most = 0;
    for (uint64_t n = 0; n < 10; n++) {
        rule.shift = rule.warp = 0;
        fv_shots_episode plain = make(drawn, &rule, n);
        rule.shift = rule.warp = 1e-7; /* hardly */
        fv_shots_episode same = make(drawn, &rule, n);
        rule.shift = 1.5;
        rule.warp = 0;
        fv_shots_episode moved = make(drawn, &rule, n);
        rule.shift = 0;
        rule.warp = 0.4;
        fv_shots_episode rotated = make(drawn, &rule, n);
        for (int64_t i = 0; i < 6; i++) {
            double a[3], b[3];
            moments(plain.pixels + i * PIXELS, a);
            moments(moved.pixels + i * PIXELS, b);
            for (int k = 0; k < PIXELS; k++)
                CHECK_NEAR((double)plain.pixels[i * PIXELS + k],
                           (double)same.pixels[i * PIXELS + k], 1e-4);
            if (fabs(a[0] - b[0]) < 1e-3 * a[0]) { /* no ink has left the picture */
                CHECK(fabs(a[1] - b[1]) < 1.501 && fabs(a[2] - b[2]) < 1.501);
                most = fmax(most, fmax(fabs(a[1] - b[1]), fabs(a[2] - b[2])));
            }
            moments(rotated.pixels + i * PIXELS,
                    b); /* about the middle: scaled by up to exp(0.4) */
            CHECK(b[0] > 0.5 * a[0] && b[0] < 2 * a[0]);
            CHECK(memcmp(rotated.pixels + i * PIXELS, plain.pixels + i * PIXELS,
                         PIXELS * sizeof(float)) != 0);
        }
        CHECK(memcmp(plain.labels, rotated.labels, 6 * sizeof(int64_t)) == 0);
        fv_shots_episode_free(ctx, &plain);
        fv_shots_episode_free(ctx, &same);
        fv_shots_episode_free(ctx, &moved);
        fv_shots_episode_free(ctx, &rotated);
    }
    CHECK(most > 1);
}

/* ---- one-shot runs -------------------------------------------------------------------------- */

static void runs_keep_their_answers_in_any_order(void)
{
    enum { N = FV_SHOTS_RUN_WAYS };
    fv_shots_episode a, b;
    bool moved = false, renamed = false;
    CHECK_OK(ctx, fv_shots_run_make(drawn, 1, 7, 0, &a));
    CHECK_OK(ctx, fv_shots_run_make(drawn, 1, 7, 1, &b));
    CHECK(a.ways == N && a.examples == N && a.queries == N);
    for (int64_t i = 0; i < N; i++) {
        const int64_t item = a.classes[a.labels[i]];
        moved = moved || item != b.classes[b.labels[i]];
        renamed = renamed || a.labels[i] != item;
        CHECK_EQ(a.classes[a.labels[N + i]], b.classes[b.labels[N + i]]);
        CHECK_EQ(a.classes[a.labels[N + i]], drawn->run_answer[7 * N + i]);
        for (int k = 0; k < PIXELS; k++) {
            CHECK_NEAR((double)a.pixels[i * PIXELS + k],
                       drawn->run_ink[(7 * 2 * N + item) * PIXELS + k] / 255.0, 1e-6);
            CHECK_NEAR((double)a.pixels[(N + i) * PIXELS + k],
                       drawn->run_ink[(7 * 2 * N + N + i) * PIXELS + k] / 255.0, 1e-6);
        }
    }
    CHECK(moved && renamed);
    fv_shots_episode_free(ctx, &a);
    fv_shots_episode_free(ctx, &b);
    CHECK_EQ(fv_shots_run_make(drawn, 1, 20, 0, &a), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "no one-shot run 20") != NULL);
}

/* Three classes with two examples each, whose means are known. */
static void the_nearest_mean_is_found(void)
{
    static float pixels[7 * PIXELS];
    int64_t labels[7] = {2, 0, 1, 0, 2, 1, 0}, classes[3] = {0};
    const float ink[7] = {0, 0.2F, 1, 0.6F, 0, 0.6F, 0.42F}; /* means: 0.4, 0.8, 0 */
    const fv_shots_episode e = {.ways = 3,
                                .examples = 6,
                                .queries = 1,
                                .pixels = pixels,
                                .labels = labels,
                                .classes = classes};
    for (int i = 0; i < 7; i++)
        pixels[i * PIXELS + 5] = ink[i];
    CHECK_EQ(fv_shots_nearest(&e, 0), 0);
    pixels[6 * PIXELS + 5] = 0.61F;
    CHECK_EQ(fv_shots_nearest(&e, 0), 1);
    pixels[6 * PIXELS + 5] = 0.19F;
    CHECK_EQ(fv_shots_nearest(&e, 0), 2);
}

/* ---- files ---------------------------------------------------------------------------------- */

enum { LARGE = 56, FIRST = 10, SECOND = 3, CHARACTERS = FIRST + SECOND };

static void write_idx(const char *name, int64_t count, const uint8_t *pixels)
{
    const size_t bytes = (size_t)count * LARGE * LARGE;
    uint8_t *data = calloc(1, 16 + bytes);
    const uint8_t head[16] = {0, 0,     8, 3, 0, 0,    (uint8_t)(count >> 8), (uint8_t)count, 0, 0,
                              0, LARGE, 0, 0, 0, LARGE};
    memcpy(data, head, sizeof head);
    memcpy(data + 16, pixels, bytes);
    file_write(folder_path(name), data, 16 + bytes);
    free(data);
}

/* Files of Omniglot's form: ten characters of one alphabet in set 1, three of one in both. `fault`
 * says what is wrong with them; 0: nothing. */
static void write_files(int fault)
{
    static uint8_t pixels[800 * LARGE * LARGE];
    char *text = malloc(1 << 20);
    int n = snprintf(text, 1 << 20, "index\tclass\talphabet\tcharacter\t%s\tfile\tsmall_set\n",
                     fault == 1 ? "hand" : "drawer");
    for (int i = 0; i < CHARACTERS * 20 - (fault == 2); i++) {
        const int c = i / 20, drawer = i % 20 + 1;
        n += snprintf(
            text + n, (size_t)((1 << 20) - n), "%d\t%d\t%s\tcharacter%02d\t%d\tx.png\t%s\n", i,
            fault == 3 && i == 45 ? 7 : c, c < FIRST && !(fault == 4 && i == 45) ? "Early" : "Late",
            c, fault == 5 && i == 45 ? 3 : drawer, c < FIRST ? "1" : "1+2");
    }
    file_write(folder_path("background8.tsv"), text, (size_t)n);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 2654435761U >> 13);
    write_idx("background8-images-idx3-ubyte", CHARACTERS * 20 + (fault == 6), pixels);
    write_idx("oneshot-images-idx3-ubyte", fault == 7 ? 799 : 800, pixels);
    n = snprintf(text, 1 << 20, "index\trun\trole\titem\tfile\ttrue_training_file\n");
    for (int i = 0; i < 800; i++) {
        const bool test = i % 40 >= 20;
        char answer[24] = "-";
        if (test) snprintf(answer, sizeof answer, "class%02d.png", (i * 7 + i / 40) % 20 + 1);
        if (fault == 8 && i == 61) snprintf(answer, sizeof answer, "class21.png");
        n += snprintf(text + n, (size_t)((1 << 20) - n), "%d\trun%02d\t%s\t%d\tx.png\t%s\n", i,
                      i / 40 + 1, test || (fault == 9 && i == 3) ? "test" : "training",
                      fault == 10 && i == 3 ? 9 : i % 20 + 1, answer);
    }
    file_write(folder_path("oneshot.tsv"), text, (size_t)n);
    free(text);
}

static fv_status open_files_of(int64_t subset, fv_shots **out)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_path(""));
    const fv_shots_config cfg = {.source = "omniglot", .folder = folder, .subset = subset};
    return fv_shots_open(ctx, &cfg, out);
}

static void files_are_read_and_split(void)
{
    fv_shots *s = NULL;
    write_files(0);
    for (int64_t subset = 0; subset < 3; subset++) {
        CHECK_OK(ctx, open_files_of(subset, &s));
        const fv_shots_facts f = fv_shots_facts_of(s);
        CHECK_EQ(f.characters[FV_SHOTS_VALID], subset < 2 ? 1 : 0);
        CHECK_EQ(f.characters[FV_SHOTS_TEST], subset == 0 ? 1 : subset == 1 ? 0 : FIRST);
        CHECK_EQ(f.characters[FV_SHOTS_TRAIN], subset == 0   ? CHARACTERS - 2
                                               : subset == 1 ? CHARACTERS - 1
                                                             : SECOND);
        CHECK(f.drawings == 20 && f.runs == 20);
        CHECK_EQ(s->character[9].part, subset == 2 ? FV_SHOTS_TEST : FV_SHOTS_VALID);
        CHECK_EQ(s->character[FIRST].alphabet, 1);
        CHECK_EQ(s->character[FIRST].number, 0);
        /* the mean of four pixels, where 0 is ink; drawing 31 is the second character's twelfth */
        const int row = 9, col = 20;
        int64_t sum = 0;
        for (int i = 0; i < 4; i++) {
            const size_t at =
                (31U * LARGE + (size_t)(2 * row + i / 2)) * LARGE + (size_t)(2 * col + i % 2);
            sum += 255 - (uint8_t)(at * 2654435761U >> 13);
        }
        CHECK_EQ(s->ink[31 * PIXELS + row * SIDE + col], sum / 4);
        CHECK_EQ(s->run_ink[31 * PIXELS + row * SIDE + col], sum / 4);
        CHECK_EQ(s->run_answer[20 + 13], (73 * 7 + 1) % 20);
        fv_shots_close(&s);
    }
}

static void damaged_files_are_refused(void)
{
    static const char *const messages[] = {"no column \"drawer\"",
                                           "259 rows for 260 drawings",
                                           "drawing 45 is of class 7 by drawer 6, expected 2 and 6",
                                           "drawing 45 begins alphabet Late within a character",
                                           "drawing 45 is of class 2 by drawer 3",
                                           "261 drawings, expected 20 of each",
                                           "799 drawings, expected 800",
                                           "row 62 is run02, test, item 2, class21.png",
                                           "row 4 is run01, test",
                                           "row 4 is run01, training, item 9"};
    for (int fault = 1; fault <= 10; fault++) {
        fv_shots *s = NULL;
        write_files(fault);
        CHECK_EQ(open_files_of(0, &s), FV_ERR_FORMAT);
        CHECK(s == NULL);
        if (!strstr(fv_ctx_message(ctx), messages[fault - 1]))
            test_failed(__FILE__, __LINE__, "fault %d: %s", fault, fv_ctx_message(ctx));
        fv_ctx_take_error(ctx);
    }
}

/* The published files, where they are. */
static void omniglot_is_as_published(void)
{
    const char *data = getenv("FOVEA_DATA");
    char folder[512];
    struct stat st;
    snprintf(folder, sizeof folder, "%s/omniglot", data ? data : "");
    if (!data || stat(folder, &st) != 0) return;
    static const int64_t parts[3][3] = {{197, 21, 24}, {124, 12, 106}, {143, 13, 86}};
    for (int64_t subset = 0; subset < 3; subset++) {
        const fv_shots_config cfg = {.source = "omniglot", .folder = folder, .subset = subset};
        fv_shots *s = NULL;
        CHECK_OK(ctx, fv_shots_open(ctx, &cfg, &s));
        const fv_shots_facts f = fv_shots_facts_of(s);
        for (int part = 0; part < 3; part++)
            CHECK_EQ(f.characters[part], parts[subset][part]);
        CHECK_EQ(s->alphabets, 8);
        CHECK(s->run_answer[0] == 7 && s->run_answer[1] == 8 && s->run_answer[2] == 1);
        fv_shots_close(&s);
    }
}

/* ---- settings and memory -------------------------------------------------------------------- */

static void wrong_settings_are_named(void)
{
    static const fv_shots_config sets[] = {{.source = "written"},
                                           {.source = "omniglot"},
                                           {.source = "omniglot", .folder = "x", .subset = 3}};
    static const char *const messages[] = {"no characters 'written'", "need the folder",
                                           "subset 3"};
    static const fv_shots_rule rules[] = {
        {.ways = 1, .shots = 1, .queries = 1},
        {.ways = 65, .shots = 1, .queries = 1},
        {.ways = 5, .shots = 0, .queries = 1},
        {.ways = 5, .shots = 12, .queries = 1},
        {.ways = 5, .shots = 1, .queries = 0},
        {.ways = 5, .shots = 1, .queries = 1020},
        {.ways = 5, .shots = 1, .queries = 1, .part = FV_SHOTS_PARTS},
        {.ways = 5, .shots = 1, .queries = 1, .within = 1.5},
        {.ways = 5, .shots = 1, .queries = 1, .warp = 1},
        {.ways = 5, .shots = 1, .queries = 1, .classes = 1},
        {.ways = 5, .shots = 1, .queries = 1, .classes = 6},
        {.ways = 24, .shots = 1, .queries = 1, .classes = 2}};
    for (int i = 0; i < 3; i++) {
        fv_shots *s = NULL;
        CHECK_EQ(fv_shots_open(ctx, &sets[i], &s), FV_ERR_ARGUMENT);
        CHECK(s == NULL && strstr(fv_ctx_message(ctx), messages[i]) != NULL);
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        fv_shots_episode e = {.ways = 77};
        if (fv_shots_episode_make(drawn, &rules[i], 0, &e) != FV_ERR_ARGUMENT)
            test_failed(__FILE__, __LINE__, "rule %d is accepted", (int)i);
        CHECK(e.ways == 77 && e.pixels == NULL);
    }
    fv_shots *s = NULL;
    write_files(0);
    CHECK_OK(ctx, open_files_of(0, &s));
    const fv_shots_rule many = {.ways = 5, .shots = 1, .queries = 1, .part = FV_SHOTS_VALID};
    fv_shots_episode e = {.ways = 0};
    CHECK_EQ(fv_shots_episode_make(s, &many, 0, &e), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "5 classes are asked for, but the part has 4") != NULL);
    fv_shots_close(&s);
}

/* Opens a set, makes an episode and a run. */
static fv_status use_all(fv_ctx *small, const void *cfg)
{
    const fv_shots_rule rule = {.ways = 4, .shots = 1, .queries = 1, .shift = 1};
    fv_shots *s = NULL;
    fv_shots_episode e = {.ways = 0}, r = {.ways = 0};
    fv_status status = fv_shots_open(small, cfg, &s);
    CHECK((status == FV_OK) == (s != NULL));
    if (status == FV_OK) status = fv_shots_episode_make(s, &rule, 0, &e);
    if (status == FV_OK) status = fv_shots_run_make(s, 1, 0, 0, &r);
    fv_shots_episode_free(small, &e);
    fv_shots_episode_free(small, &r);
    fv_shots_close(&s);
    return status;
}

static void memory_may_run_out(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_path(""));
    write_files(0);
    const fv_shots_config sets[] = {{.source = "drawn"}, {.source = "omniglot", .folder = folder}};
    for (int set = 0; set < 2; set++)
        CHECK(failing_everywhere(use_all, &sets[set], 30) > 7);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    ctx = run_context(1, 1);
    CHECK_OK(ctx, fv_shots_open(ctx, &(fv_shots_config){.source = "drawn", .seed = 1}, &drawn));
    RUN(episodes_show_drawings_of_their_classes);
    RUN(drawn_characters_have_parts);
    RUN(an_episode_is_a_function_of_its_number);
    RUN(episodes_can_be_like_one_shot_runs);
    RUN(classes_can_be_fewer);
    RUN(drawings_are_moved);
    RUN(runs_keep_their_answers_in_any_order);
    RUN(the_nearest_mean_is_found);
    RUN(files_are_read_and_split);
    RUN(damaged_files_are_refused);
    RUN(omniglot_is_as_published);
    RUN(wrong_settings_are_named);
    RUN(memory_may_run_out);
    fv_shots_close(&drawn);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
