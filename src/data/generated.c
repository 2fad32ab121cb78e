/* The sets that training can generate instead of reading files. */
#include "data/generated.h"

#include <string.h>

#include "fovea/data.h"

/* Symbols of copy, reverse and sort; depth of trees. */
enum { LENGTH = 10, DEPTH = 2 };

/* Held-out pairs are of training dates: the test dates stay unseen until the end. */
static void date_example(const fv_generated_set *set, uint64_t seed, uint64_t number, bool held_out,
                         fv_drawn *out)
{
    fv_date_pair p;
    (void)set;
    fv_date_pair_make(2 * seed + held_out, number, FV_DATES_TRAIN, &p);
    memcpy(out->source, p.written, sizeof p.written);
    memcpy(out->target, p.iso, sizeof p.iso);
    out->label = NULL;
    out->part = FV_MADE_TRAIN;
}

/* Draws until the source belongs to the part. One source in 25 is held out, so a round that is
 * never reached is no loss. */
static void split_example(const fv_generated_set *set, uint64_t seed, uint64_t number,
                          bool held_out, fv_drawn *out)
{
    enum { ROUND_BITS = 16 };
    const fv_made_config cfg = {.length = set->length, .shortest = 1, .seed = seed};
    for (uint64_t round = 0; round < (uint64_t)1 << ROUND_BITS; round++) {
        set->draw(&cfg, number << ROUND_BITS | round, out);
        if ((out->part != FV_MADE_TRAIN) == held_out) return;
    }
}

/* A new set is a draw function and one line here. */
static const fv_generated_set sets[] = {
    {"dates", false, false, LENGTH, date_example, fv_draw_date},
    {"copy", false, false, LENGTH, split_example, fv_draw_copy},
    {"reverse", false, false, LENGTH, split_example, fv_draw_reverse},
    {"sort", false, false, LENGTH, split_example, fv_draw_sort},
    {"sentences", true, false, LENGTH, split_example, fv_draw_sentence},
    {"trees", false, false, DEPTH, split_example, fv_draw_tree},
    {"entailment", true, true, LENGTH, split_example, fv_draw_entailment},
};

const fv_generated_set *fv_generated_set_at(size_t i)
{
    return i < sizeof sets / sizeof *sets ? &sets[i] : NULL;
}

const fv_generated_set *fv_generated_set_find(const char *name)
{
    const fv_generated_set *set;
    for (size_t i = 0; (set = fv_generated_set_at(i)); i++)
        if (strcmp(set->name, name) == 0) return set;
    return NULL;
}
