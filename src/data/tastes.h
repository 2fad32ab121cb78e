/*
 * Generated tastes: movies with hidden properties, viewers with hidden tastes, and ratings.
 *
 *     fv_viewer v;
 *     fv_viewer_make(1, 200, FV_MADE_TRAIN, 7, &v);   // seed 1, 200 movies, viewer 7 of training
 *     for (int i = 0; i < FV_TASTE_RATED; i++)
 *         if (fv_rating_part(i) == FV_MADE_TEST) use(v.movie[i], v.liked[i]);
 *
 *     pleasure = sum_p taste_p property_p + noise,     liked = pleasure > 0
 *
 * A taste is between -1 (hates it) and 1, for each property. A movie has much of one property, its
 * main one, and little of the others. Movies are functions of (seed, number), viewers of (seed,
 * part, number). Every viewer has rated FV_TASTE_RATED different movies: the first FV_TASTE_HISTORY
 * may be trained on, the others are held out for validation and the test, for viewers of every
 * part.
 */
#ifndef FV_DATA_TASTES_H
#define FV_DATA_TASTES_H

#include <stdbool.h>
#include <stdint.h>

#include "fovea/data.h"

enum {
    FV_TASTE_PROPERTIES = 6,
    FV_TASTE_MOVIES = 400, /* at most */
    FV_TASTE_HISTORY = 24,
    FV_TASTE_HELD_OUT = 8, /* for validation, and as many for the test */
    FV_TASTE_RATED = FV_TASTE_HISTORY + 2 * FV_TASTE_HELD_OUT,
    FV_MOVIE_NAME = 40
};

typedef struct fv_movie {
    double property[FV_TASTE_PROPERTIES]; /* 0 to 1 */
    int main;                             /* the largest */
} fv_movie;

typedef struct fv_viewer {
    double taste[FV_TASTE_PROPERTIES];
    int movie[FV_TASTE_RATED]; /* different ones */
    double pleasure[FV_TASTE_RATED];
    bool liked[FV_TASTE_RATED];
} fv_viewer;

void fv_movie_make(uint64_t seed, int number, fv_movie *out);
/* Different for every number below FV_TASTE_MOVIES. */
void fv_movie_name(int number, char out[FV_MOVIE_NAME]);
const char *fv_property_name(int property);

/* movies: FV_TASTE_RATED to FV_TASTE_MOVIES. */
void fv_viewer_make(uint64_t seed, int movies, fv_made_part part, uint64_t number, fv_viewer *out);
/* What the viewer would get from a movie without noise. */
double fv_viewer_pleasure(const fv_viewer *v, const fv_movie *movie);
/* Which part rating i of a viewer is for. */
fv_made_part fv_rating_part(int i);

#endif
