/*
 * Pairs of short English sentences about one scene, and whether the second follows from the first:
 *
 *     the black dog waits in the garden.     the animal waits.       entailment
 *     the black dog waits in the garden.     the dog is white.       contradiction
 *     the dog waits.                         the dog is at home.     neutral
 *
 * A scene has a subject with a colour, a verb and a place; the first sentence may leave out any of
 * the three. The second one states one of them, and names the subject or its kind. What the first
 * sentence says is entailed, anything else in its place contradicts it, and what it leaves out is
 * neutral. The second sentence alone tells nothing: each occurs equally often with each class.
 */
#include <stdio.h>

#include "base/rng.h"
#include "data/generated.h"

enum { VALUES = 6, SUBJECTS = 12 };

static const struct subject {
    const char *name, *kind;
} subjects[SUBJECTS] = {
    {"dog", "animal"},  {"cat", "animal"},  {"horse", "animal"}, {"goat", "animal"},
    {"man", "person"},  {"girl", "person"}, {"boy", "person"},   {"baker", "person"},
    {"car", "machine"}, {"bus", "machine"}, {"ship", "machine"}, {"crane", "machine"},
};

enum { COLOUR, DEED, PLACE, FACTS };
static const char *const facts[FACTS][VALUES] = {
    {"black", "white", "green", "red", "grey", "blue"},
    {"waits", "turns", "moves", "stops", "falls", "returns"},
    {"in the garden", "at home", "on the beach", "in the street", "near the river",
     "in the market"},
};

enum { ENTAILED, CONTRADICTED, OPEN, CLASSES };
static const char *const classes[CLASSES] = {"entailment", "contradiction", "neutral"};

/* "the black dog waits in the garden."; without a deed it "is", without deed and place "is here".
 * A fact that is NULL is left out. */
static int write_first(char *out, size_t bytes, const char *subject, const char *const known[FACTS])
{
    const char *place = known[PLACE] ? known[PLACE] : known[DEED] ? "" : "here";
    return snprintf(out, bytes, "the %s%s%s %s%s%s.", known[COLOUR] ? known[COLOUR] : "",
                    known[COLOUR] ? " " : "", subject, known[DEED] ? known[DEED] : "is",
                    *place ? " " : "", place);
}

void fv_draw_entailment(const fv_made_config *cfg, uint64_t number, fv_drawn *out)
{
    const uint64_t key = fv_rng_key(cfg->seed, 0x656e7461, 0);
    uint32_t r[12];
    for (uint64_t i = 0; i < 3; i++)
        fv_rng_draw(key, number, i, r + 4 * i);
    const struct subject *subject = &subjects[r[0] % SUBJECTS];
    const uint32_t class = r[1] % CLASSES, about = r[2] % FACTS;
    const char *known[FACTS];
    for (uint32_t i = 0; i < FACTS; i++) {
        const bool is_known = i == about ? class != OPEN : r[3 + i] % 2;
        known[i] = is_known ? facts[i][r[6 + i] % VALUES] : NULL;
    }
    const uint32_t value = r[6 + about] % VALUES,
                   stated =
                       class == CONTRADICTED ? (value + 1 + r[9] % (VALUES - 1)) % VALUES : value;
    const int length = write_first(out->source, sizeof out->source, subject->name, known);
    snprintf(out->target, sizeof out->target, "the %s %s%s.",
             r[10] % 2 ? subject->name : subject->kind, about == DEED ? "" : "is ",
             facts[about][stated]);
    out->label = classes[class];
    out->part = fv_made_part_of(out->source, (size_t)length);
}
