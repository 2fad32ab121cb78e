#include "fovea/recipe.h"

#include <stdbool.h>
#include <string.h>

enum { WORD_BYTES = 63, FAR = 1000 };

/* Edits (insert, delete, replace, swap of neighbours) from a to b. */
static int edit_distance(const char *a, int an, const char *b, int bn)
{
    int rows[3][WORD_BYTES + 1];
    for (int j = 0; j <= bn; j++)
        rows[0][j] = j;
    for (int i = 1; i <= an; i++) {
        int *now = rows[i % 3];
        const int *before = rows[(i + 2) % 3], *two_before = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= bn; j++) {
            int best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best) best = before[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_before[j - 2] + 1 < best)
                best = two_before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[an % 3][bn];
}

void fv_nearest_init(fv_nearest *nearest, const char *word)
{
    nearest->word = word;
    nearest->best[0] = '\0';
    nearest->distance = FAR;
}

void fv_nearest_add(fv_nearest *nearest, const char *candidate, size_t length)
{
    const size_t n = strlen(nearest->word);
    if (n == 0 || n > WORD_BYTES || length > WORD_BYTES) return;
    int distance = edit_distance(nearest->word, (int)n, candidate, (int)length);
    /* A beginning counts as near, either way: "comp" means "completion", "tokenize" means "tok". */
    const size_t shared = length < n ? length : n;
    const bool begins = shared >= 3 && length != n && memcmp(candidate, nearest->word, shared) == 0;
    const int allowed = 1 + (int)n / 3;
    if (distance > allowed && !begins) return;
    if (begins && distance > 1) distance = 1;
    if (distance >= nearest->distance) return;
    nearest->distance = distance;
    memcpy(nearest->best, candidate, length);
    nearest->best[length] = '\0';
}

const char *fv_nearest_best(const fv_nearest *nearest)
{
    return nearest->distance < FAR ? nearest->best : NULL;
}
