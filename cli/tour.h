/*
 * fovea tour: the five sources that this project implements, section by section. A section has a
 * text and, where it takes a second or two, a computation that runs now:
 *
 *     static fv_status show(tour *t)
 *     {
 *         tour_line(t, "%-10s %6.2f", "score", 1.5);       // a line of a table
 *         return tour_map(t, &map, NULL);                   // shades, or a picture on a page
 *     }
 *
 * and one line in tour_sections.c. The same calls write to the terminal and to pages of HTML.
 */
#ifndef FOVEA_CLI_TOUR_H
#define FOVEA_CLI_TOUR_H

#include <stdio.h>

#include "fovea/look.h"
#include "fovea/tensor.h"
#include "options.h"

typedef struct tour {
    fv_ctx *ctx;
    FILE *to;
    bool html;
    bool in_lines;       /* a <pre> is open */
    const char *models;  /* folder of trained models, or NULL */
    const char *picture; /* where the section's first picture goes, or NULL */
} tour;

typedef struct tour_section {
    const char *name;
    const char *source; /* "S0" to "S4" */
    const char *title;
    const char *text;           /* paragraphs separated by an empty line */
    const char *command;        /* what shows more; NULL: nothing */
    fv_status (*show)(tour *t); /* or NULL */
} tour_section;

/* In the order of the sources, ended by one without a name. */
extern const tour_section tour_sections[];

/* The five sources, in order; NULL after the last. */
typedef struct tour_source {
    const char *name, *title, *about;
} tour_source;
extern const tour_source tour_sources[];

/* Paragraphs, broken at 80 columns. */
void tour_text(tour *t, const char *text);
/* A line as it is, in letters of one width. */
void tour_line(tour *t, const char *fmt, ...) FV_PRINTF(2, 3);
/* Ends the lines: what follows is text. */
void tour_end_lines(tour *t);
fv_status tour_map(tour *t, const fv_look_map *map, const fv_look_options *options);
/* Maps of equal size: one after the other, or side by side in one picture with one range of
 * colours, whose rows are `rows`. */
fv_status tour_maps(tour *t, const char *title, const char *rows, int count,
                    const fv_look_map *maps);
/* Only on pages and with --picture. */
fv_status tour_page_map(tour *t, const fv_look_map *map, const fv_look_options *options);
/* Likewise: lines say the same in numbers. */
fv_status tour_plot(tour *t, const fv_look_plot *plot);
/* One section with its heading. */
fv_status tour_show(tour *t, const tour_section *section);
/* One page for each source, and index.html. Returns an exit code. */
int tour_pages(tour *t, const char *folder, bool force);

/* ---- helpers of the computations ----------------------------------------------------- */

/* n normal numbers of a seed: the same on every machine, whatever was computed before. */
void tour_normals(uint64_t seed, float *out, int64_t n);
/* [rows, cols], and the same as one batch of one head. */
fv_tensor *tour_matrix(tour *t, int64_t rows, int64_t cols, const float *values);
fv_tensor *tour_head(tour *t, int64_t rows, int64_t cols, const float *values);
fv_status tour_read(tour *t, const fv_tensor *x, float *out);

/* ---- computations ------------------------------------------------------------------- */

fv_status tour_alignment(tour *t);
fv_status tour_heads(tour *t);
fv_status tour_movies(tour *t);
fv_status tour_basic(tour *t);
fv_status tour_dictionary(tour *t);
fv_status tour_temperature(tour *t);
fv_status tour_mary(tour *t);
fv_status tour_embedding(tour *t);
fv_status tour_two_inputs(tour *t);
fv_status tour_six_steps(tour *t);
fv_status tour_eight_heads(tour *t);
fv_status tour_resolution(tour *t);
fv_status tour_cost(tour *t);
fv_status tour_permute(tour *t);
fv_status tour_positions(tour *t);
fv_status tour_masks(tour *t);
fv_status tour_mixing(tour *t);
fv_status tour_gradients(tour *t);
fv_status tour_norm(tour *t);
fv_status tour_layers(tour *t);
fv_status tour_calibration(tour *t);
fv_status tour_scaling(tour *t);
fv_status tour_scores(tour *t);
fv_status tour_windows(tour *t);
fv_status tour_memory(tour *t);
fv_status tour_shifts(tour *t);
fv_status tour_gamma(tour *t);
fv_status tour_bread(tour *t);
fv_status tour_area(tour *t);
fv_status tour_apple(tour *t);
fv_status tour_bare_encoder(tour *t);
fv_status tour_bare_decoder(tour *t);
fv_status tour_bare_pair(tour *t);
fv_status tour_reach(tour *t);

#endif
