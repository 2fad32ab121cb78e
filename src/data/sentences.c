/*
 * Short English sentences with their French translation, from a small grammar:
 *
 *     the [adjective] subject verb the [adjective] object [time].
 *     le|la sujet [adjectif] verbe le|la objet [adjectif] [temps].
 *
 * Subject, verb and object belong to one of four topics, which is the class of the sentence. French
 * adjectives stand after the noun and agree with its gender, so a translator has something to learn
 * besides words. Nouns begin with a consonant: no article is elided.
 */
#include <stdio.h>

#include "base/rng.h"
#include "data/generated.h"

typedef struct noun {
    const char *english, *french;
    bool feminine;
} noun;

typedef struct verb {
    const char *english, *french;
} verb;

enum { TOPICS = 4, WORDS = 4 };

static const struct topic {
    const char *name;
    noun subjects[WORDS], objects[WORDS];
    verb verbs[WORDS];
} topics[TOPICS] = {
    {"animals",
     {{"cat", "chat", false},
      {"dog", "chien", false},
      {"horse", "cheval", false},
      {"cow", "vache", true}},
     {{"mouse", "souris", true},
      {"sheep", "mouton", false},
      {"goat", "chèvre", true},
      {"rabbit", "lapin", false}},
     {{"sees", "voit"}, {"follows", "suit"}, {"finds", "trouve"}, {"guards", "garde"}}},
    {"kitchen",
     {{"baker", "boulanger", false},
      {"cook", "cuisinière", true},
      {"girl", "fille", true},
      {"boy", "garçon", false}},
     {{"bread", "pain", false},
      {"soup", "soupe", true},
      {"apple", "pomme", true},
      {"cheese", "fromage", false}},
     {{"buys", "prend"}, {"tastes", "goûte"}, {"sells", "vend"}, {"brings", "porte"}}},
    {"sea",
     {{"sailor", "marin", false},
      {"fisherman", "pêcheur", false},
      {"boat", "bateau", false},
      {"passenger", "passagère", true}},
     {{"harbour", "port", false},
      {"beach", "plage", true},
      {"bay", "baie", true},
      {"lighthouse", "phare", false}},
     {{"leaves", "quitte"}, {"reaches", "rejoint"}, {"passes", "dépasse"}, {"misses", "manque"}}},
    {"music",
     {{"singer", "chanteuse", true},
      {"drummer", "batteur", false},
      {"pupil", "disciple", false},
      {"neighbour", "voisine", true}},
     {{"song", "chanson", true},
      {"waltz", "valse", true},
      {"march", "marche", true},
      {"concerto", "concerto", false}},
     {{"plays", "joue"}, {"knows", "connaît"}, {"learns", "travaille"}, {"repeats", "répète"}}},
};

/* After the noun in French, before it in English; the first one is none. */
static const struct adjective {
    const char *english, *masculine, *feminine;
} adjectives[] = {
    {"", "", ""},
    {"black ", " noir", " noire"},
    {"white ", " blanc", " blanche"},
    {"green ", " vert", " verte"},
    {"red ", " rouge", " rouge"},
    {"grey ", " gris", " grise"},
    {"perfect ", " parfait", " parfaite"},
};

static const verb times[] = {
    {"", ""},
    {" today", " aujourd'hui"},
    {" in the morning", " le matin"},
    {" in the evening", " le soir"},
    {" on Sunday", " dimanche"},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *article(const noun *n) { return n->feminine ? "la" : "le"; }

static const char *agreed(const struct adjective *a, const noun *n)
{
    return n->feminine ? a->feminine : a->masculine;
}

void fv_draw_sentence(const fv_made_config *cfg, uint64_t number, fv_drawn *out)
{
    const uint64_t key = fv_rng_key(cfg->seed, 0x73656e74, 0);
    uint32_t r[8];
    fv_rng_draw(key, number, 0, r);
    fv_rng_draw(key, number, 1, r + 4);
    const struct topic *topic = &topics[r[0] % TOPICS];
    const noun *subject = &topic->subjects[r[1] % WORDS], *object = &topic->objects[r[2] % WORDS];
    const verb *does = &topic->verbs[r[3] % WORDS], *when = &times[r[4] % COUNT(times)];
    const struct adjective *first = &adjectives[r[5] % COUNT(adjectives)],
                           *second = &adjectives[r[6] % COUNT(adjectives)];
    const int source =
        snprintf(out->source, sizeof out->source, "the %s%s %s the %s%s%s.", first->english,
                 subject->english, does->english, second->english, object->english, when->english);
    snprintf(out->target, sizeof out->target, "%s %s%s %s %s %s%s%s.", article(subject),
             subject->french, agreed(first, subject), does->french, article(object), object->french,
             agreed(second, object), when->french);
    out->label = topic->name;
    out->part = fv_made_part_of(out->source, (size_t)source);
}
