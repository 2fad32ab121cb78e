/* The Marian fixture as a folder that is complete. */
#ifndef FV_TESTS_MARIAN_H
#define FV_TESTS_MARIAN_H

#include <stdbool.h>

/*
 * MarianMTModel leaves its tables of positions out of the folder, since sinusoids can be made
 * again. But this fixture's model did not have sinusoids: like its other matrices, the tables were
 * made larger, six times, before the numbers were recorded (the recorded maps tell: a fit of the
 * table to them gives 6.000 x the sinusoid in every element). So the tables are put back, in a
 * folder beside, as older Marian folders have them.
 */
bool marian_with_positions(char folder[256]);

#endif
