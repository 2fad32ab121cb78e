/*
 * Stories: a solver of the test's own answers every question from the sentences and finds what
 * supports it; parts share no story.
 */
#include "data/stories.h"

#include "data/datasets.h"
#include "support/test.h"

/* ---- the solver ----------------------------------------------------------------------------- */

typedef char word_list[FV_STORY_WORDS][16];

static int split(const char *text, word_list out)
{
    int n = 0;
    for (const char *at = text; *at && n < FV_STORY_WORDS; n++) {
        const size_t bytes = strcspn(at, " ");
        snprintf(out[n], sizeof out[n], "%.*s", (int)bytes, at);
        at += bytes + strspn(at + bytes, " ");
    }
    return n;
}

static bool one_of(const char *word, const char *list) { return strstr(list, word) != NULL; }

/* What the solver has read: who is where, who holds what, and where things have been. */
typedef struct fact {
    char who[16], where[16];
    int line;
} fact;

typedef struct thing {
    char name[16], holder[16], place[16];
    int line;       /* last taken or left */
    int left_after; /* if it lies somewhere: the move before */
    int taken;
    fact way[FV_STORY_SENTENCES]; /* where: place, who: unused, line: the move */
    int way_taken[FV_STORY_SENTENCES];
    int ways;
} thing;

typedef struct knowledge {
    fact people[8];
    thing things[8];
    int people_count, thing_count;
} knowledge;

static fact *person(knowledge *k, const char *who)
{
    for (int i = 0; i < k->people_count; i++)
        if (strcmp(k->people[i].who, who) == 0) return &k->people[i];
    fact *f = &k->people[k->people_count++];
    *f = (fact){.line = -1};
    snprintf(f->who, sizeof f->who, "%s", who);
    return f;
}

static thing *object(knowledge *k, const char *name)
{
    for (int i = 0; i < k->thing_count; i++)
        if (strcmp(k->things[i].name, name) == 0) return &k->things[i];
    thing *t = &k->things[k->thing_count++];
    *t = (thing){.line = -1, .taken = -1};
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static void came(thing *t, const char *place, int line)
{
    snprintf(t->place, sizeof t->place, "%s", place);
    snprintf(t->way[t->ways].where, sizeof t->way[0].where, "%s", place);
    t->way[t->ways].line = line;
    t->way_taken[t->ways++] = t->taken;
}

static void read_line(knowledge *k, const char *text, int line)
{
    word_list w;
    const int n = split(text, w);
    CHECK(n == 5 || n == 6);
    fact *who = person(k, w[0]);
    if (one_of(w[1], "went moved travelled")) {
        CHECK(strcmp(who->where, w[4]) != 0); /* no move leads to where a person already is */
        snprintf(who->where, sizeof who->where, "%s", w[4]);
        who->line = line;
        for (int i = 0; i < k->thing_count; i++)
            if (strcmp(k->things[i].holder, w[0]) == 0) came(&k->things[i], w[4], line);
        return;
    }
    thing *t = object(k, w[3]);
    CHECK(who->line >= 0); /* the first act is a move */
    if (one_of(w[1], "took grabbed got")) {
        CHECK(!t->holder[0]);
        CHECK(t->line < 0 || strcmp(t->place, who->where) == 0);
        const bool first = t->line < 0;
        t->line = t->taken = line;
        snprintf(t->holder, sizeof t->holder, "%s", w[0]);
        if (first) came(t, who->where, who->line);
    } else {
        CHECK(one_of(w[1], "dropped left discarded"));
        CHECK_STR(t->holder, w[0]);
        t->holder[0] = '\0';
        t->line = line;
        t->left_after = who->line;
    }
}

/* The answer and the sentences that support it. */
static const char *solve(knowledge *k, word_list q, int n, const char *before[2], int support[3])
{
    const char *last = q[n - 2];
    support[0] = support[1] = support[2] = -1;
    if (strcmp(last, "that") == 0 || (n >= 4 && one_of("before", q[n - 4]))) {
        const thing *t = object(k, strcmp(last, "that") == 0 ? before[0] : q[3]);
        const char *place = strcmp(last, "that") == 0 ? before[1] : last;
        int at = -1, found = 0;
        for (int i = 0; i < t->ways; i++)
            if (strcmp(t->way[i].where, place) == 0) at = i, found++;
        CHECK_EQ(found, 1); /* one answer only */
        CHECK(at > 0);
        if (at < 1) return "";
        support[0] = t->way_taken[at];
        support[1] = t->way[at].line;
        support[2] = t->way[at - 1].line;
        return t->way[at - 1].where;
    }
    if (strcmp(q[n - 3], "the") == 0) {
        thing *t = object(k, last);
        support[0] = t->line;
        support[1] = t->holder[0] ? person(k, t->holder)->line : t->left_after;
        return t->holder[0] ? person(k, t->holder)->where : t->place;
    }
    support[0] = person(k, last)->line;
    return person(k, last)->where;
}

static void check_summary(const knowledge *k, const fv_story *s)
{
    bool due[FV_STORY_SENTENCES] = {false};
    for (int i = 0; i < k->people_count; i++)
        if (k->people[i].line >= 0) due[k->people[i].line] = true;
    for (int i = 0; i < k->thing_count; i++)
        if (k->things[i].line >= 0) due[k->things[i].line] = true;
    for (int i = 0; i < s->sentence_count; i++)
        CHECK_EQ(s->summary[i], due[i]);
}

static void check_story(int facts, const fv_story *s, int *follow_ups)
{
    static knowledge k;
    const char *before[2] = {"", ""};
    char asked[16] = "";
    k.people_count = k.thing_count = 0;
    for (int i = 0; i < s->sentence_count; i++) {
        char text[FV_STORY_TEXT];
        fv_story_text(&s->sentence[i], text);
        read_line(&k, text, i);
    }
    check_summary(&k, s);
    CHECK(s->question_count > 0 && s->sentence_count <= (facts == 3 ? 60 : 20));
    for (int i = 0; i < s->question_count; i++) {
        word_list w;
        char text[FV_STORY_TEXT];
        int support[3];
        const fv_story_question *q = &s->question[i];
        fv_story_text(&q->words, text);
        const int n = split(text, w);
        CHECK_EQ(q->follow_up, strcmp(w[0], "and") == 0);
        CHECK(!q->follow_up || i > 0);
        const char *answer = solve(&k, w, n, before, support);
        CHECK_STR(fv_story_answer(q->answer), answer);
        for (int h = 0; h < 3; h++)
            CHECK_EQ(q->support[h], support[h]);
        CHECK_EQ((support[0] >= 0) + (support[1] >= 0) + (support[2] >= 0), facts);
        if (!q->follow_up && n > 3) snprintf(asked, sizeof asked, "%s", w[3]);
        before[0] = asked;
        before[1] = fv_story_answer(q->answer);
        *follow_ups += q->follow_up;
    }
}

static void every_question_has_the_answer_of_its_facts(void)
{
    for (int facts = 1; facts <= 3; facts++) {
        int follow_ups = 0, longest = 0;
        for (uint64_t i = 0; i < 1500; i++) {
            fv_story s;
            fv_story_make(facts, FV_MADE_TRAIN, i, &s);
            check_story(facts, &s, &follow_ups);
            if (s.sentence_count > longest) longest = s.sentence_count;
        }
        CHECK_EQ(longest, facts == 3 ? 60 : 20);
        CHECK(follow_ups > 300);
    }
}

static void parts_share_no_story(void)
{
    for (int part = 0; part < FV_MADE_PARTS; part++)
        for (uint64_t i = 0; i < 20; i++) {
            fv_story s, again;
            char text[FV_STORY_SENTENCES * FV_STORY_TEXT] = "";
            fv_story_make(2, (fv_made_part)part, i, &s);
            fv_story_make(2, (fv_made_part)part, i, &again);
            CHECK(memcmp(&s, &again, sizeof s) == 0);
            for (int k = 0; k < s.sentence_count; k++) {
                char line[FV_STORY_TEXT];
                fv_story_text(&s.sentence[k], line);
                strcat(text, line);
            }
            CHECK_EQ(fv_made_part_of(text, strlen(text)), part);
        }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(every_question_has_the_answer_of_its_facts);
    RUN(parts_share_no_story);
    return TEST_END();
}
