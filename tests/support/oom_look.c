#include "support/oom_look.h"

#include <stdio.h>
#include <unistd.h>

#include "fovea/look.h"

static const char *const words[] = {"one", "two", "three"};
static const float values[18] = {1, 0, 0.5f, 0.25f};

/* Every form. */
static bool map(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const fv_look_map m = {.rows = 3,
                           .cols = 3,
                           .values = values,
                           .row_labels = words,
                           .col_labels = words,
                           .title = "map"};
    bool ok = true;
    for (int form = 0; form < FV_LOOK_FORMAT_COUNT; form++) {
        fv_picture *p = NULL;
        ok = fv_look_map_draw(ctx, &m, (fv_look_format)form, NULL, &p) == FV_OK && ok;
        fv_picture_free(&p);
    }
    return ok;
}

static bool embedded_map(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const float many[70 * 70];
    const fv_look_map m = {.rows = 70, .cols = 70, .values = many};
    fv_picture *p = NULL;
    const bool ok = fv_look_map_draw(ctx, &m, FV_LOOK_FORMAT_SVG, NULL, &p) == FV_OK;
    fv_picture_free(&p);
    return ok;
}

static bool heads(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const fv_look_heads h = {.layers = 1, .heads = 2, .rows = 3, .cols = 3, .values = values};
    bool ok = true;
    for (int form = FV_LOOK_FORMAT_SVG; form <= FV_LOOK_FORMAT_HTML; form++) {
        fv_picture *p = NULL;
        ok = fv_look_heads_draw(ctx, &h, (fv_look_format)form, NULL, &p) == FV_OK && ok;
        fv_picture_free(&p);
    }
    return ok;
}

static bool links(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const fv_look_links l = {.heads = 2,
                             .rows = 3,
                             .cols = 3,
                             .values = values,
                             .row_labels = words,
                             .col_labels = words,
                             .only_row = -1};
    bool ok = true;
    for (int form = FV_LOOK_FORMAT_SVG; form <= FV_LOOK_FORMAT_HTML; form++) {
        fv_picture *p = NULL;
        ok = fv_look_links_draw(ctx, &l, (fv_look_format)form, &p) == FV_OK && ok;
        fv_picture_free(&p);
    }
    return ok;
}

static bool overlay(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const fv_look_panel panels[] = {
        {.caption = "one", .rows = 2, .cols = 3, .weights = values, .mark = {0, 0, 1, 1}},
        {.caption = "two"}};
    const fv_look_overlay o = {.channels = 1,
                               .height = 3,
                               .width = 4,
                               .pixels = values,
                               .panels = panels,
                               .panel_count = 2,
                               .title = "picture"};
    bool ok = true;
    for (int form = 0; form < FV_LOOK_FORMAT_COUNT; form++) {
        fv_picture *p = NULL;
        ok = fv_look_overlay_draw(ctx, &o, (fv_look_format)form, NULL, &p) == FV_OK && ok;
        fv_picture_free(&p);
    }
    return ok;
}

static bool plot_and_save(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const double x[] = {1, 2, 3};
    const fv_look_series series = {.name = "line", .x = x, .y = x, .count = 3};
    const fv_look_plot plot = {.series = &series, .series_count = 1, .width = 200, .height = 200};
    char path[64];
    snprintf(path, sizeof path, "/tmp/fovea-oom-look-%d.svg", (int)getpid());
    fv_picture *p = NULL;
    bool ok = fv_look_plot_draw(ctx, &plot, FV_LOOK_FORMAT_SVG, &p) == FV_OK;
    ok = ok && fv_picture_save(p, path) == FV_OK;
    fv_picture_free(&p);
    unlink(path);
    return ok;
}

const oom_file_scenario oom_look_scenarios[] = {
    {"look: map", map},     {"look: embedded map", embedded_map}, {"look: heads", heads},
    {"look: links", links}, {"look: plot", plot_and_save},        {"look: overlay", overlay},
};
const int oom_look_scenario_count = (int)(sizeof oom_look_scenarios / sizeof *oom_look_scenarios);
