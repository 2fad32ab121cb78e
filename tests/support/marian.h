/* The Marian fixture as a complete folder. */
#ifndef FV_TESTS_MARIAN_H
#define FV_TESTS_MARIAN_H

#include <stdbool.h>

/*
 * MarianMTModel does not save its position tables, since sinusoids can be recomputed. But this
 * fixture's model did not use plain sinusoids: like its other matrices, the tables were multiplied
 * by six before the outputs were recorded (a fit of the table to the recorded maps gives 6.000 x
 * the sinusoid in every element). So the tables are added in a second folder, as older Marian
 * folders have them.
 */
bool marian_with_positions(char folder[256]);

#endif
