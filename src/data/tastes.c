/* Movies, viewers and what they like. */
#include "data/tastes.h"

#include <stdio.h>

#include "data/draws.h"

enum { SITE_MOVIE = 0x6d6f76, SITE_VIEWER = 0x766965, FIRST_WORDS = 20, SECOND_WORDS = 20 };

static const double NOISE = 0.2; /* its half width */

const char *fv_property_name(int property)
{
    static const char *const names[FV_TASTE_PROPERTIES] = {"comedy",  "romance", "action",
                                                           "mystery", "space",   "music"};
    return (unsigned)property < FV_TASTE_PROPERTIES ? names[property] : "";
}

void fv_movie_name(int number, char out[FV_MOVIE_NAME])
{
    static const char *const first[FIRST_WORDS] = {
        "Silver",  "Quiet",   "Broken", "Golden", "Hidden", "Last",   "Paper",
        "Distant", "Crimson", "Early",  "Frozen", "Gentle", "Hollow", "Endless",
        "Lucky",   "Marble",  "Narrow", "Open",   "Second", "Wooden"};
    static const char *const second[SECOND_WORDS] = {
        "Harbour", "Garden", "Signal",  "Letter", "River",  "Crown",  "Window",
        "Orchard", "Bridge", "Lantern", "Desert", "Island", "Mirror", "Engine",
        "Tower",   "Forest", "Station", "Voyage", "Winter", "Key"};
    snprintf(out, FV_MOVIE_NAME, "The %s %s", first[number % FIRST_WORDS],
             second[(number / FIRST_WORDS + number) % SECOND_WORDS]);
}

void fv_movie_make(uint64_t seed, int number, fv_movie *out)
{
    fv_draws d = fv_draws_begin(fv_rng_key(seed, SITE_MOVIE, 0), (uint64_t)number);
    out->main = (int)fv_draws_below(&d, FV_TASTE_PROPERTIES);
    for (int p = 0; p < FV_TASTE_PROPERTIES; p++)
        out->property[p] =
            p == out->main ? fv_draws_between(&d, 0.6, 1) : fv_draws_between(&d, 0, 0.3);
}

double fv_viewer_pleasure(const fv_viewer *v, const fv_movie *movie)
{
    double sum = 0;
    for (int p = 0; p < FV_TASTE_PROPERTIES; p++)
        sum += v->taste[p] * movie->property[p];
    return sum;
}

fv_made_part fv_rating_part(int i)
{
    if (i < FV_TASTE_HISTORY) return FV_MADE_TRAIN;
    return i < FV_TASTE_HISTORY + FV_TASTE_HELD_OUT ? FV_MADE_VALID : FV_MADE_TEST;
}

void fv_viewer_make(uint64_t seed, int movies, fv_made_part part, uint64_t number, fv_viewer *out)
{
    int order[FV_TASTE_MOVIES];
    fv_draws d = fv_draws_begin(fv_rng_key(seed, SITE_VIEWER, (uint64_t)part), number);
    for (int p = 0; p < FV_TASTE_PROPERTIES; p++)
        out->taste[p] = fv_draws_between(&d, -1, 1);
    for (int i = 0; i < movies; i++)
        order[i] = i;
    for (int i = 0; i < FV_TASTE_RATED; i++) {
        const int k = i + (int)fv_draws_below(&d, movies - i);
        fv_movie movie;
        out->movie[i] = order[k];
        order[k] = order[i];
        fv_movie_make(seed, out->movie[i], &movie);
        out->pleasure[i] = fv_viewer_pleasure(out, &movie) + fv_draws_between(&d, -NOISE, NOISE);
        out->liked[i] = out->pleasure[i] > 0;
    }
}
