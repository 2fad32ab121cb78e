/*
 * Points on the plane with a map beside them, and walks on a grid: everything drawn lies inside the
 * picture, and what cannot be drawn is refused.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/look.h"
#include "support/test.h"

enum { POINTS = 20 };

static fv_ctx *ctx;
static double xs[POINTS], ys[POINTS];
static float weights[POINTS * POINTS];
static const char *names[POINTS];

static fv_look_plane plane_of(const fv_look_map *map, const int64_t *lines, int64_t count)
{
    static const char letters[POINTS][3] = {"0",  "1",  "2",  "3",  "4",  "5",  "6",
                                            "7",  "8",  "9",  "10", "11", "12", "13",
                                            "14", "15", "16", "17", "18", "19"};
    for (int i = 0; i < POINTS; i++) {
        xs[i] = 3 * cos(2.4 * i) * i;
        ys[i] = sin(2.4 * i) * i - 5;
        weights[i * POINTS + (7 * i) % POINTS] = 1;
        names[i] = letters[i];
    }
    return (fv_look_plane){.count = POINTS,
                           .x = xs,
                           .y = ys,
                           .lines = lines,
                           .line_count = count,
                           .arrows = true,
                           .title = "a tour",
                           .map = map};
}

static double number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    CHECK(at != NULL);
    return at ? strtod(at + strlen(name), NULL) : -1;
}

/* Every rectangle and dot of an SVG lies inside it. Returns how many there are. */
static int expect_inside(const char *svg)
{
    const double width = number_after(svg, " width=\""), height = number_after(svg, " height=\"");
    int count = 0;
    for (const char *at = svg; (at = strstr(at, "<rect x=\"")); at++, count++) {
        const double x = number_after(at, " x=\""), y = number_after(at, " y=\"");
        CHECK(x >= 0 && x + number_after(at, " width=\"") <= width);
        CHECK(y >= 0 && y + number_after(at, " height=\"") <= height);
    }
    for (const char *at = svg; (at = strstr(at, "<circle")); at++, count++) {
        const double r = number_after(at, " r=\"");
        const double x = number_after(at, " cx=\""), y = number_after(at, " cy=\"");
        CHECK(x >= r && x + r <= width && y >= r && y + r <= height);
    }
    return count;
}

static void the_plane_and_its_map_are_inside(void)
{
    const int64_t lines[] = {0, 7, 7, 19, 19, 0};
    const fv_look_map map = {.rows = POINTS,
                             .cols = POINTS,
                             .values = weights,
                             .row_labels = names,
                             .col_labels = names};
    for (int with_map = 0; with_map < 2; with_map++) {
        fv_look_plane plane = plane_of(with_map ? &map : NULL, lines, 3);
        fv_picture *picture = NULL;
        CHECK_OK(ctx, fv_look_plane_draw(ctx, &plane, FV_LOOK_FORMAT_SVG, NULL, &picture));
        if (!picture) return;
        const char *svg = fv_picture_data(picture, NULL);
        const int least = POINTS + (with_map ? POINTS * POINTS / 2 : 0);
        CHECK(expect_inside(svg) >= least);
        CHECK(strstr(svg, ">a tour<") != NULL);
        fv_picture_free(&picture);
    }
}

static void planes_that_cannot_be_drawn_are_refused(void)
{
    const int64_t lines[] = {0, POINTS};
    fv_picture *picture = NULL;
    fv_look_plane plane = plane_of(NULL, lines, 1);
    CHECK_EQ(fv_look_plane_draw(ctx, &plane, FV_LOOK_FORMAT_SVG, NULL, &picture), FV_ERR_ARGUMENT);
    plane.line_count = 0;
    xs[3] = NAN;
    CHECK_EQ(fv_look_plane_draw(ctx, &plane, FV_LOOK_FORMAT_SVG, NULL, &picture), FV_ERR_ARGUMENT);
    plane = plane_of(NULL, NULL, 0);
    plane.count = 5000;
    CHECK(fv_look_plane_draw(ctx, &plane, FV_LOOK_FORMAT_SVG, NULL, &picture) != FV_OK);
    CHECK(picture == NULL);
}

static void a_walk_is_inside(void)
{
    const char *const cells[] = {NULL, "red chair", "#", NULL, "blue lamp", NULL};
    const fv_look_step steps[] = {{1, 0, 0, "forward"}, {0, 0, 1, "forward"}, {0, 1, 1, "stop"}};
    const char *const words[] = {"go", "to", "the", "red", "chair"};
    const float seen[15] = {0.6F, 0.4F, 0, 0, 0, 0, 0.1F, 0.1F, 0.4F, 0.4F, 0, 0, 0, 0.5F, 0.5F};
    const fv_look_walk walk = {.rows = 2,
                               .cols = 3,
                               .cell = cells,
                               .step_count = 3,
                               .word_count = 5,
                               .step = steps,
                               .word = words,
                               .weights = seen,
                               .title = "go to the red chair"};
    fv_picture *picture = NULL;
    CHECK_OK(ctx, fv_look_walk_draw(ctx, &walk, FV_LOOK_FORMAT_SVG, NULL, &picture));
    if (!picture) return;
    CHECK(expect_inside(fv_picture_data(picture, NULL)) > 0);
    CHECK(strstr(fv_picture_data(picture, NULL), ">chair<") != NULL);
    fv_picture_free(&picture);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(the_plane_and_its_map_are_inside);
    RUN(planes_that_cannot_be_drawn_are_refused);
    RUN(a_walk_is_inside);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
