/*
 * Who will like which film? Films and people are vectors over the same qualities; the dot product
 * of the two says how well they fit: qualities that both have in the same direction count for it,
 * opposite ones against it, and large ones count more. Attention scores are such products.
 *
 *     movie_taste [picture.svg]
 */
#include "example.h"

enum { PEOPLE = 4, FILMS = 5, QUALITIES = 3 };

int main(int argc, char **argv)
{
    static const char *const people[PEOPLE] = {"Ada", "Ben", "Chen", "Dora"};
    static const char *const films[FILMS] = {"The Long Kiss", "Steel Rain", "Two Clowns",
                                             "Duel at Dawn", "Paris in Love"};
    /* romance, action, comedy: how much of it there is, how much it is liked */
    static const float film[FILMS * QUALITIES] = {0.9f, 0.1f, 0.2f, -0.3f, 1.0f, -0.2f, 0.1f, -0.2f,
                                                  1.0f, 0.2f, 0.9f, -0.6f, 1.0f, -0.5f, 0.6f};
    static const float taste[PEOPLE * QUALITIES] = {1.0f, -0.4f, 0.3f, -0.5f, 1.0f, 0.1f,
                                                    0.2f, 0.1f,  1.0f, 0.0f,  0.7f, -0.8f};
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    fv_tensor *t = matrix(ctx, PEOPLE, QUALITIES, taste), *f = matrix(ctx, FILMS, QUALITIES, film);
    fv_tensor *fit = fv_matmul(ctx, t, fv_transpose(ctx, f, 0, 1)); /* [people, films] */
    fv_tensor *best = fv_argmax(ctx, fit, 1, false);
    float values[PEOPLE * FILMS];
    int64_t choice[PEOPLE];
    read_floats(ctx, fit, values);
    must(ctx, fv_tensor_read(ctx, best, choice, sizeof choice));

    for (int i = 0; i < PEOPLE; i++)
        printf("%-5s should see \"%s\" (%+.2f)\n", people[i], films[choice[i]],
               (double)values[i * FILMS + choice[i]]);
    puts("");
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.colours = FV_COLOUR_MAP_DIVERGING;
    options.numbers = true;
    show_map(ctx,
             &(fv_look_map){.rows = PEOPLE,
                            .cols = FILMS,
                            .values = values,
                            .row_labels = people,
                            .col_labels = films,
                            .title = "taste · film"},
             &options, argc > 1 ? argv[1] : NULL);
    claim(choice[0] == 4 && choice[1] == 1 && choice[2] == 2 && choice[3] == 3,
          "everybody finds the film that was written for them");
    fv_ctx_destroy(&ctx);
    return 0;
}
