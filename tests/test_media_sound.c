/*
 * Media sets of recordings: parts share no recording, strings say what their text and places claim
 * and only from recordings of their part, examples are a function of their arguments, bad files are
 * named, and memory may run out at any request.
 */
#include "base/ctx.h"
#include "data/media.h"
#include "data/spoken.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/media.h"
#include "support/test.h"

enum { MELS = 40 };

static fv_ctx *ctx;

static fv_media *open_set(const fv_media_config *cfg)
{
    fv_media *set = NULL;
    CHECK_OK(ctx, fv_media_open(ctx, cfg, &set));
    return set;
}

static void fails(const fv_media_config *cfg, fv_status status, const char *message)
{
    fv_media *set = NULL;
    CHECK_EQ(fv_media_open(ctx, cfg, &set), status);
    if (set || !strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx), message);
    fv_media_close(&set);
}

static uint64_t hash_of(const fv_media_example *e)
{
    uint64_t h = 1469598103934665603u;
    const unsigned char *bytes = (const unsigned char *)e->values;
    for (size_t i = 0; i < (size_t)(e->length * MELS) * sizeof(float); i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

static void get(fv_media *set, fv_media_part part, int64_t number, const fv_media_draw *draw,
                fv_media_example *out)
{
    CHECK_OK(ctx, fv_media_get(set, part, number, draw, out));
}

/* ---- splits --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Every recording is in exactly one part: all examples differ, and there are as many as recordings.
 */
static void check_split(const char *variant, uint64_t seed, const int64_t count[FV_MEDIA_PARTS],
                        uint64_t *first_test)
{
    static uint64_t hash[FV_SPOKEN_COUNT];
    fv_media *set = open_set(&(fv_media_config){.name = "tones", .variant = variant, .seed = seed});
    const fv_media_facts *facts = fv_media_facts_of(set);
    int64_t n = 0, per_word[FV_SPOKEN_WORDS] = {0};
    CHECK(facts->rank == 1 && facts->shape[0] == MELS && facts->has_text);
    check_texts(ctx, set, 20);
    CHECK(strcmp(facts->field, "frames") == 0 && facts->label_count == FV_SPOKEN_WORDS);
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++) {
        CHECK_EQ(facts->count[part], count[part]);
        for (int64_t i = 0; i < facts->count[part]; i++) {
            fv_media_example e;
            get(set, part, i, NULL, &e);
            CHECK(e.length > 0 && e.length <= facts->longest);
            CHECK(e.label >= 0 && strcmp(e.text, facts->labels[e.label]) == 0);
            per_word[e.label]++;
            if (part == FV_MEDIA_TEST && i == 0) *first_test = hash_of(&e);
            hash[n++] = hash_of(&e);
        }
    }
    CHECK_EQ(n, FV_SPOKEN_COUNT);
    for (int w = 0; w < FV_SPOKEN_WORDS; w++)
        CHECK_EQ(per_word[w], FV_SPOKEN_COUNT / FV_SPOKEN_WORDS);
    qsort(hash, (size_t)n, sizeof *hash, compare);
    for (int64_t i = 1; i < n; i++)
        CHECK(hash[i] != hash[i - 1]);
    fv_media_close(&set);
}

static void parts_share_no_recording(void)
{
    static const int64_t random[] = {2400, 300, 300}, official[] = {2400, 300, 300},
                         speaker[] = {2250, 250, 500};
    uint64_t first[4];
    check_split("random", 1, random, &first[0]);
    check_split(NULL, 2, random, &first[1]); /* the default */
    check_split("official", 1, official, &first[2]);
    CHECK(first[0] != first[1]); /* another seed, another split */
    for (int i = 0; i < FV_SPOKEN_SPEAKERS; i += FV_SPOKEN_SPEAKERS - 1)
        check_split(fv_spoken_speakers[i], 1, speaker, &first[3]);
}

/* ---- files whose pitch tells their part ---------------------------------------------------- */

enum { SAMPLES = 480, HEADER = 44 };

/* A tone of the given frequency as 16-bit PCM at 8 kHz. */
static void write_tone(const char *path, double hertz, int samples)
{
    static unsigned char data[HEADER + 2 * 50000];
    const unsigned sizes[] = {(unsigned)(36 + 2 * samples), (unsigned)(2 * samples)};
    memcpy(data,
           "RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data",
           40);
    for (int i = 0; i < 4; i++) {
        data[4 + i] = (unsigned char)(sizes[0] >> 8 * i);
        data[40 + i] = (unsigned char)(sizes[1] >> 8 * i);
    }
    for (int i = 0; i < samples; i++) {
        const int value = (int)(12000 * sin(2 * M_PI * hertz * i / 8000));
        data[HEADER + 2 * i] = (unsigned char)(value & 255);
        data[HEADER + 2 * i + 1] = (unsigned char)(value >> 8 & 255);
    }
    file_write(path, data, HEADER + 2 * (size_t)samples);
}

/* Takes of the official test part are low, of the validation part middle, of training high. A word
 * has no sound of its own, but its length. */
static void write_digits(const char *folder)
{
    for (int i = 0; i < FV_SPOKEN_COUNT; i++) {
        char path[512];
        const int take = fv_spoken_take(i);
        snprintf(path, sizeof path, "%.400s/%d_%s_%d.wav", folder, fv_spoken_word(i),
                 fv_spoken_speakers[fv_spoken_speaker(i)], take);
        write_tone(path,
                   take < 5    ? 500
                   : take < 10 ? 1500
                               : 3000,
                   SAMPLES + 80 * fv_spoken_word(i));
    }
}

/* The loudest column of frames [from, to). */
static int loudest(const fv_media_example *e, int64_t from, int64_t to)
{
    double sum[MELS] = {0};
    int best = 0;
    for (int64_t t = from; t < to; t++)
        for (int m = 0; m < MELS; m++)
            sum[m] += (double)e->values[t * MELS + m];
    for (int m = 1; m < MELS; m++)
        if (sum[m] > sum[best]) best = m;
    return best;
}

static double level(const fv_media_example *e, int64_t t, int column)
{
    return (double)e->values[t * MELS + column];
}

/* Checks text and places of one string; counts its words. */
static void check_string(const fv_media_example *e, int column, int words[8])
{
    char text[FV_MEDIA_TEXT], *rest = NULL;
    int n = 0;
    CHECK(e->places >= 3 && e->places <= 7 && e->label == -1);
    words[e->places]++;
    snprintf(text, sizeof text, "%s", e->text);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest), n++) {
        const fv_media_place *p = &e->place[n];
        int digit = 0;
        while (digit < FV_SPOKEN_WORDS && strcmp(word, fv_spoken_words[digit]) != 0)
            digit++;
        CHECK(digit < FV_SPOKEN_WORDS && p->word == n && p->y0 == 0 && p->y1 == 0);
        CHECK_NEAR(p->x1 - p->x0, 6 + digit + 1, 1.01); /* its length */
        CHECK(p->x0 >= 5 && p->x1 + 4 <= (float)e->length);
        if (n > 0) CHECK(p->x0 >= e->place[n - 1].x1 + 3); /* a gap */
        CHECK(abs(loudest(e, (int64_t)p->x0 + 1, (int64_t)p->x1 - 1) - column) <= 1);
        CHECK(level(e, (int64_t)(p->x0 + p->x1) / 2, column) >
              level(e, (int64_t)p->x0 - 3, column));
    }
    CHECK_EQ(n, e->places);
}

static void strings_are_made_of_their_parts_recordings(void)
{
    folder_prefer_memory();
    folder_make();
    const char *folder = folder_sub("digits");
    write_digits(folder);
    fv_media *set = open_set(&(fv_media_config){
        .name = "fsdd", .folder = folder, .variant = "strings", .seed = 3, .count = {50, 40, 30}});
    const fv_media_facts *facts = fv_media_facts_of(set);
    CHECK(facts->count[0] == 50 && facts->count[1] == 40 && facts->count[2] == 30);
    CHECK(facts->label_count == 0 && facts->has_text);
    check_texts(ctx, set, 20);
    int words[8] = {0}, last = 0;
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++) {
        /* The column of that frequency, from a plain recording of the same part. */
        fv_media *plain =
            open_set(&(fv_media_config){.name = "fsdd", .folder = folder, .variant = "official"});
        fv_media_example e;
        get(plain, part, 0, NULL, &e);
        const int column = loudest(&e, 1, e.length - 1);
        fv_media_close(&plain);
        CHECK(part == 0 || column + 3 < last); /* the parts sound differently */
        last = column;
        for (int64_t i = 0; i < facts->count[part]; i++) {
            const fv_media_draw draw = {.seed = 5, .step = 2, .row = (uint64_t)i};
            get(set, part, i, NULL, &e);
            check_string(&e, column, words);
            if (part == FV_MEDIA_TRAIN) get(set, part, i, &draw, &e);
            CHECK(e.length <= facts->longest);
        }
    }
    for (int n = 3; n <= 7; n++)
        CHECK(words[n] > 0);
    fv_media_close(&set);
    folder_remove();
}

/* ---- draws ---------------------------------------------------------------------------------- */

static void examples_depend_on_their_arguments_alone(void)
{
    static const char *const variants[] = {"random", "strings"};
    for (int v = 0; v < 2; v++) {
        fv_media *set =
            open_set(&(fv_media_config){.name = "tones", .variant = variants[v], .seed = 4});
        const fv_media_draw draw = {7, 11, 3}, row = {7, 11, 4}, step = {7, 12, 3},
                            seed = {8, 11, 3};
        const fv_media_draw *const others[] = {NULL, &row, &step, &seed};
        fv_media_example e;
        char text[FV_MEDIA_TEXT];
        fv_ctx_set_step(ctx, 99, 17); /* the context's own step does not matter */
        get(set, FV_MEDIA_TRAIN, 5, &draw, &e);
        const uint64_t first = hash_of(&e);
        snprintf(text, sizeof text, "%s", e.text);
        for (int i = 0; i < 4; i++) {
            get(set, FV_MEDIA_TRAIN, 5, others[i], &e);
            CHECK(hash_of(&e) != first && strcmp(e.text, text) == 0);
            get(set, FV_MEDIA_TEST, 1, NULL, &e);
        }
        fv_ctx_set_step(ctx, 3, 9);
        get(set, FV_MEDIA_TRAIN, 5, &draw, &e);
        CHECK(hash_of(&e) == first && ctx->step == 3 && ctx->row_offset == 9);
        const int64_t length = e.length;
        get(set, FV_MEDIA_TRAIN, 5, &row, &e);
        CHECK((e.length != length) == (v == 1)); /* a string is spoken anew, a digit is not */
        fv_media_close(&set);
    }
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void write_list(const char *folder, int count)
{
    static char text[8192];
    size_t used = 0;
    char path[512];
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%.400s/%d.wav", folder, i);
        write_tone(path, 300 + 40 * i, 700 + 10 * i);
        used += (size_t)snprintf(text + used, sizeof text - used, "%d.wav\t%s\n", i,
                                 i % 2 ? "odd one" : "even");
    }
    snprintf(path, sizeof path, "%.400s/list.tsv", folder);
    file_write(path, text, used);
}

static void lists_of_recordings_are_read(void)
{
    enum { FILES = 60 };
    folder_make();
    const char *folder = folder_sub("list");
    write_list(folder, FILES);
    fv_media_config cfg = {.name = "recordings", .folder = folder, .list = "list.tsv"};
    for (int classes = 0; classes < 2; classes++) {
        cfg.variant = classes ? "classes" : "";
        fv_media *set = open_set(&cfg);
        const fv_media_facts *facts = fv_media_facts_of(set);
        bool seen[FILES] = {false};
        int64_t all = 0;
        CHECK(facts->has_text == !classes && facts->label_count == (classes ? 2 : 0));
        if (facts->has_text) check_texts(ctx, set, FILES);
        for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
            for (int64_t i = 0; i < facts->count[part]; i++, all++) {
                fv_media_example e;
                get(set, part, i, NULL, &e);
                const bool odd = strcmp(e.text, "odd one") == 0;
                CHECK(classes ? e.label == (odd ? 1 : 0) : e.label == -1);
                /* 1 + samples / 80 frames; eight files share a length. */
                for (int f = 0; f < FILES; f++)
                    if (!seen[f] && f % 2 == odd && 1 + (700 + 10 * f) / 80 == e.length) {
                        seen[f] = true;
                        break;
                    }
            }
        CHECK_EQ(all, FILES);
        for (int f = 0; f < FILES; f++)
            CHECK(seen[f]);
        fv_media_close(&set);
    }
    folder_remove();
}

static void bad_files_are_named(void)
{
    char path[512];
    folder_make();
    const char *folder = folder_sub("digits");
    fails(&(fv_media_config){.name = "fsdd"}, FV_ERR_ARGUMENT, "needs a folder");
    fails(&(fv_media_config){.name = "fsdd", .folder = folder}, FV_ERR_IO, "0_george_0.wav");
    fails(&(fv_media_config){.name = "tones", .variant = "mary"}, FV_ERR_ARGUMENT, "yweweler");
    fails(&(fv_media_config){.name = "tones", .count = {2401}}, FV_ERR_ARGUMENT,
          "2401 examples for train");
    fails(&(fv_media_config){.name = "tones", .variant = "strings", .count = {-1}}, FV_ERR_ARGUMENT,
          "-1 examples");
    snprintf(path, sizeof path, "%s/0_george_0.wav", folder);
    write_tone(path, 400, 41000);
    fails(&(fv_media_config){.name = "fsdd", .folder = folder}, FV_ERR_FORMAT,
          "5.125 seconds of one digit");
    write_tone(path, 400, 0);
    fails(&(fv_media_config){.name = "fsdd", .folder = folder}, FV_ERR_FORMAT,
          "0.000 seconds of one digit");
    fv_media_config cfg = {.name = "recordings", .folder = folder};
    fails(&cfg, FV_ERR_ARGUMENT, "needs a list");
    cfg.list = "list.tsv";
    fails(&cfg, FV_ERR_IO, "list.tsv");
    write_list(folder, 0);
    fails(&cfg, FV_ERR_FORMAT, "no line with a recording");
    write_list(folder, 3);
    fails(&cfg, FV_ERR_FORMAT, "more files are needed");
    write_list(folder, 60);
    fv_media *set = open_set(&cfg);
    fv_media_example e;
    for (int i = 0; i < 60; i++) {
        snprintf(path, sizeof path, "%s/%d.wav", folder, i);
        write_tone(path, 400, 0);
    }
    CHECK_EQ(fv_media_get(set, FV_MEDIA_TEST, 0, NULL, &e), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "0.000 seconds"));
    fv_media_close(&set);
    folder_remove();
}

/* ---- memory --------------------------------------------------------------------------------- */

static fv_status use(fv_ctx *in, const void *cfg)
{
    fv_media *set = NULL;
    fv_media_example e;
    const fv_media_draw draw = {1, 2, 3};
    fv_status s = fv_media_open(in, cfg, &set);
    if (s == FV_OK) s = fv_media_get(set, FV_MEDIA_TRAIN, 0, &draw, &e);
    fv_media_close(&set);
    return s;
}

static void failing_memory_is_reported(void)
{
    folder_make();
    const char *folder = folder_sub("list");
    write_list(folder, 60);
    const fv_media_config list = {.name = "recordings", .folder = folder, .list = "list.tsv"},
                          tones = {.name = "tones", .variant = "strings"};
    CHECK(failing_everywhere(use, &list, 0) > 5);
    CHECK(failing_everywhere(use, &tones, 3) > 10);
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(parts_share_no_recording);
    RUN(strings_are_made_of_their_parts_recordings);
    RUN(examples_depend_on_their_arguments_alone);
    RUN(lists_of_recordings_are_read);
    RUN(bad_files_are_named);
    RUN(failing_memory_is_reported);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
