/*
 * A model small enough that every output can be listed: the next token's logits depend on the
 * source, the last token and the place.
 *
 *     toy t = {.first = 0};
 *     fv_search_config cfg = toy_config(4, 1);          // beam, nbest
 *     toy_run(ctx, &t, sources, &cfg, &out);            // at most MOST tokens each
 */
#ifndef FV_TESTS_TOY_H
#define FV_TESTS_TOY_H

#include "fovea/search.h"

enum { VOCABULARY = 5, START = 0, END = 1, MOST = 4, POSITIONS = 3, ROWS = 512 };

typedef struct toy {
    int64_t rows;
    int64_t source[ROWS], place[ROWS];
    int64_t first; /* number of the first source */
    int selects, steps;
    bool flat; /* all logits are equal */
} toy;

double toy_logit(int64_t source, int64_t place, int64_t last, int64_t token);
/* The attention of a step to a source position. */
double toy_weight(int64_t source, int64_t last, int64_t position);
double toy_log_p(int64_t source, int64_t place, int64_t last, int64_t token);

fv_stepper toy_stepper(toy *t);
fv_search_config toy_config(int beam, int nbest);
void toy_run(fv_ctx *ctx, toy *t, int64_t sources, const fv_search_config *cfg, fv_outputs **out);

#endif
