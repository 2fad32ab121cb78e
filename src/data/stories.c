/* Generates stories and the questions about them. */
#include "data/stories.h"

#include <string.h>

#include "data/datasets.h"
#include "data/draws.h"

enum { PEOPLE = 4, PLACES = 6, OBJECTS = 3, NOWHERE = -1, NO_HOLDER = -1 };

/* Words by number; 0 ends a sentence's words in tables. */
enum {
    W_PERSON = 1,
    W_PLACE = W_PERSON + PEOPLE,
    W_OBJECT = W_PLACE + PLACES,
    W_OTHER = W_OBJECT + OBJECTS
};
enum {
    W_WENT = W_OTHER,
    W_MOVED,
    W_TRAVELLED,
    W_TOOK,
    W_GRABBED,
    W_GOT,
    W_DROPPED,
    W_LEFT,
    W_DISCARDED,
    W_TO,
    W_THE,
    W_WHERE,
    W_IS,
    W_WAS,
    W_BEFORE,
    W_AND,
    W_THAT,
    W_STOP,
    W_ASK,
    WORDS
};

static const char *const words[WORDS] = {
    "",       "mary",      "john",      "sandra",  "daniel",  "kitchen", "garden",
    "office", "bathroom",  "bedroom",   "hallway", "apple",   "milk",    "football",
    "went",   "moved",     "travelled", "took",    "grabbed", "got",     "dropped",
    "left",   "discarded", "to",        "the",     "where",   "is",      "was",
    "before", "and",       "that",      ".",       "?"};

const char *fv_story_word(int i) { return i >= 0 && i < WORDS - 1 ? words[i + 1] : NULL; }
const char *fv_story_answer(int i) { return i >= 0 && i < PLACES ? words[W_PLACE + i] : NULL; }
int fv_story_answers(void) { return PLACES; }

int fv_story_most(int facts) { return facts < 3 ? 20 : FV_STORY_SENTENCES; }

void fv_story_text(const fv_story_sentence *s, char out[FV_STORY_TEXT])
{
    size_t used = 0;
    for (int i = 0; i < s->count; i++) {
        const char *word = words[s->word[i]];
        const size_t bytes = strlen(word);
        if (used > 0) out[used++] = ' ';
        memcpy(out + used, word, bytes);
        used += bytes;
    }
    out[used] = '\0';
}

/* A sentence of words up to a 0. */
static fv_story_sentence say(const int *list)
{
    fv_story_sentence s = {.count = 0};
    while (list[s.count]) {
        s.word[s.count] = (uint8_t)list[s.count];
        s.count++;
    }
    return s;
}

#define SAY(...) say((const int[]){__VA_ARGS__, 0})

/* ---- telling -------------------------------------------------------------------------------- */

/* A place that an object came to: by which sentence, while which sentence's taking held. */
typedef struct arrival {
    int place, moved, taken;
} arrival;

typedef struct object {
    int holder;
    int place;      /* its place, or that of its holder */
    int changed;    /* the sentence that last took it or left it; -1: none */
    int left_after; /* if it lies: the move that had brought it there */
    int taken;      /* the sentence of the last taking */
    arrival way[FV_STORY_SENTENCES];
    int way_count;
} object;

typedef struct telling {
    fv_draws draws;
    fv_story *story;
    int place[PEOPLE], moved[PEOPLE]; /* of each person, and by which sentence */
    object thing[OBJECTS];
} telling;

static int pick(telling *t, int n) { return (int)fv_draws_below(&t->draws, n); }

static void arrive(object *o, int place, int moved)
{
    o->place = place;
    o->way[o->way_count++] = (arrival){.place = place, .moved = moved, .taken = o->taken};
}

static void tell_move(telling *t, int person, int at)
{
    int place = pick(t, PLACES - (t->place[person] != NOWHERE));
    if (t->place[person] != NOWHERE && place >= t->place[person]) place++;
    t->place[person] = place;
    t->moved[person] = at;
    for (int i = 0; i < OBJECTS; i++)
        if (t->thing[i].holder == person) arrive(&t->thing[i], place, at);
    t->story->sentence[at] =
        SAY(W_PERSON + person, W_WENT + pick(t, 3), W_TO, W_THE, W_PLACE + place, W_STOP);
}

static void tell_take(telling *t, int person, int thing, int at)
{
    object *o = &t->thing[thing];
    const bool first = o->changed < 0;
    o->holder = person;
    o->taken = o->changed = at;
    if (first) arrive(o, t->place[person], t->moved[person]);
    t->story->sentence[at] =
        SAY(W_PERSON + person, W_TOOK + pick(t, 3), W_THE, W_OBJECT + thing, W_STOP);
}

static void tell_leave(telling *t, int person, int thing, int at)
{
    object *o = &t->thing[thing];
    o->holder = NO_HOLDER;
    o->changed = at;
    o->left_after = t->moved[person];
    t->story->sentence[at] =
        SAY(W_PERSON + person, W_DROPPED + pick(t, 3), W_THE, W_OBJECT + thing, W_STOP);
}

/* What `person` can do with `thing`: leave it (1), take it (2), nothing (0). */
static int can_do(const telling *t, int person, int thing)
{
    const object *o = &t->thing[thing];
    if (t->place[person] == NOWHERE) return 0;
    if (o->holder == person) return 1;
    return o->holder == NO_HOLDER && (o->changed < 0 || o->place == t->place[person]) ? 2 : 0;
}

static void tell_next(telling *t, int at)
{
    const int person = pick(t, PEOPLE), thing = pick(t, OBJECTS), able = can_do(t, person, thing);
    /* things are taken more often than left, or few would be carried anywhere */
    const double unit = fv_draws_unit(&t->draws);
    if (able == 2 && unit < 0.7)
        tell_take(t, person, thing, at);
    else if (able == 1 && unit < 0.25)
        tell_leave(t, person, thing, at);
    else
        tell_move(t, person, at);
}

static void mark_summary(const telling *t)
{
    for (int i = 0; i < PEOPLE; i++)
        if (t->moved[i] >= 0) t->story->summary[t->moved[i]] = true;
    for (int i = 0; i < OBJECTS; i++)
        if (t->thing[i].changed >= 0) t->story->summary[t->thing[i].changed] = true;
}

/* ---- asking --------------------------------------------------------------------------------- */

static void ask(fv_story *s, fv_story_sentence words_of, int answer, bool follow_up,
                const int support[FV_STORY_FACTS])
{
    if (s->question_count == FV_STORY_QUESTIONS) return;
    fv_story_question *q = &s->question[s->question_count++];
    *q = (fv_story_question){.words = words_of, .answer = answer, .follow_up = follow_up};
    memcpy(q->support, support, sizeof q->support);
}

/* A random order of 0 .. n - 1. */
static void shuffle(telling *t, int n, int *order)
{
    for (int i = 0; i < n; i++) {
        const int k = pick(t, i + 1);
        order[i] = i;
        order[i] = order[k];
        order[k] = i;
    }
}

/* Every second question is a follow-up. */
static bool follows(const fv_story *s) { return s->question_count % 2 == 1; }

static void ask_people(telling *t)
{
    fv_story *s = t->story;
    int order[PEOPLE];
    shuffle(t, PEOPLE, order);
    for (int i = 0; i < PEOPLE; i++) {
        const int p = order[i];
        if (t->place[p] == NOWHERE) continue;
        const bool follow_up = follows(s);
        ask(s,
            follow_up ? SAY(W_AND, W_PERSON + p, W_ASK) : SAY(W_WHERE, W_IS, W_PERSON + p, W_ASK),
            t->place[p], follow_up, (const int[]){t->moved[p], -1, -1});
    }
}

static void ask_objects(telling *t)
{
    fv_story *s = t->story;
    int order[OBJECTS];
    shuffle(t, OBJECTS, order);
    for (int i = 0; i < OBJECTS; i++) {
        const object *o = &t->thing[order[i]];
        if (o->changed < 0) continue;
        const bool follow_up = follows(s);
        const int moved = o->holder == NO_HOLDER ? o->left_after : t->moved[o->holder];
        ask(s,
            follow_up ? SAY(W_AND, W_THE, W_OBJECT + order[i], W_ASK)
                      : SAY(W_WHERE, W_IS, W_THE, W_OBJECT + order[i], W_ASK),
            o->place, follow_up, (const int[]){o->changed, moved, -1});
    }
}

/* Whether the object came to the place of arrival `at` once only. */
static bool came_once(const object *o, int at)
{
    for (int i = 0; i < o->way_count; i++)
        if (i != at && o->way[i].place == o->way[at].place) return false;
    return true;
}

static void ask_arrival(fv_story *s, int thing, const object *o, int at, bool follow_up)
{
    const arrival *here = &o->way[at], *before = here - 1;
    ask(s,
        follow_up ? SAY(W_AND, W_BEFORE, W_THAT, W_ASK)
                  : SAY(W_WHERE, W_WAS, W_THE, W_OBJECT + thing, W_BEFORE, W_THE,
                        W_PLACE + here->place, W_ASK),
        before->place, follow_up, (const int[]){here->taken, here->moved, before->moved});
}

/* Each object once, at a random arrival, and where it was before that if that has one answer. */
static void ask_ways(telling *t)
{
    int order[OBJECTS];
    shuffle(t, OBJECTS, order);
    for (int i = 0; i < OBJECTS; i++) {
        const object *o = &t->thing[order[i]];
        if (o->way_count < 2) continue;
        const int first = pick(t, o->way_count - 1);
        for (int k = 0; k < o->way_count - 1; k++) {
            const int at = 1 + (first + k) % (o->way_count - 1);
            if (!came_once(o, at)) continue;
            ask_arrival(t->story, order[i], o, at, false);
            if (at > 1 && came_once(o, at - 1)) ask_arrival(t->story, order[i], o, at - 1, true);
            break;
        }
    }
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void draw_story(int facts, uint64_t row, fv_story *out)
{
    telling t = {.draws = fv_draws_begin(fv_rng_key((uint64_t)facts, 0x73746f72, 0), row),
                 .story = out};
    for (int i = 0; i < PEOPLE; i++)
        t.place[i] = NOWHERE, t.moved[i] = -1;
    for (int i = 0; i < OBJECTS; i++)
        t.thing[i].holder = NO_HOLDER, t.thing[i].place = NOWHERE, t.thing[i].changed = -1;
    const int most = fv_story_most(facts), least = most / 4;
    *out = (fv_story){.facts = facts, .sentence_count = least + pick(&t, most - least + 1)};
    for (int at = 0; at < out->sentence_count; at++)
        tell_next(&t, at);
    mark_summary(&t);
    if (facts == 1) ask_people(&t);
    if (facts == 2) ask_objects(&t);
    if (facts == 3) ask_ways(&t);
}

static fv_made_part part_of(const fv_story *s)
{
    char text[FV_STORY_SENTENCES * FV_STORY_TEXT];
    size_t used = 0;
    for (int i = 0; i < s->sentence_count; i++) {
        fv_story_text(&s->sentence[i], text + used);
        used += strlen(text + used);
    }
    return fv_made_part_of(text, used);
}

/* Draws until a story belongs to the part and has a question. One in 50 is a held-out part's. */
void fv_story_make(int facts, fv_made_part part, uint64_t number, fv_story *out)
{
    enum { ROUND_BITS = 16 };
    for (uint64_t round = 0; round < (uint64_t)1 << ROUND_BITS; round++) {
        draw_story(facts, number << ROUND_BITS | round, out);
        if (out->question_count > 0 && part_of(out) == part) return;
    }
}
