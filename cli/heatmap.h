/*
 * A matrix of weights in [0, 1] as coloured cells in the terminal, or as plain shades where
 * colours are off. Rows and columns carry labels.
 */
#ifndef FOVEA_CLI_HEATMAP_H
#define FOVEA_CLI_HEATMAP_H

#include <stdio.h>

typedef struct cli_heatmap {
    int rows, cols;
    const float *weights; /* row-major */
    const char *const *row_labels, *const *col_labels;
    const char *row_title, *col_title;
} cli_heatmap;

void cli_heatmap_print(FILE *to, const cli_heatmap *map);

#endif
