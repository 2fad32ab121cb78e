/* fovea look with a model that points at points: the plane with the tour, hull or triangulation,
 * and the probabilities with which each step pointed at each input. */
#include <stdlib.h>
#include <string.h>

#include "heatmap.h"
#include "input.h"
#include "look_model.h"
#include "output.h"
#include "points.h"

/* What is drawn. */
typedef struct pointed {
    const cli_points *p;
    const fv_output *o;
    int64_t steps; /* rows of the map */
    int64_t columns;
    float *map; /* [steps][columns]: inputs, then the end where outputs have one */
    double x[FV_POINTS_MAX], y[FV_POINTS_MAX];
    int64_t *lines, line_count;
    char (*labels)[24]; /* of steps, then of inputs and the end */
    const char **rows, **cols;
    char title[CLI_WORTH_BYTES + 16];
} pointed;

static void pointed_free(pointed *s)
{
    free(s->map);
    free(s->lines);
    free(s->labels);
    free((void *)s->rows);
}

static bool pointed_make(fv_ctx *ctx, cli_points *p, const fv_output *o, pointed *s)
{
    char worth[CLI_WORTH_BYTES];
    s->p = p;
    s->o = o;
    s->steps = o->weights ? o->count + o->ended : 0;
    s->columns = p->n + (p->problem == FV_PROBLEM_HULL || p->problem == FV_PROBLEM_DELAUNAY);
    const size_t labels = (size_t)(s->steps + p->n + 1);
    s->map = calloc((size_t)(s->steps * s->columns) + 1, sizeof *s->map);
    s->lines = calloc((size_t)(2 * o->count) + 2, sizeof *s->lines);
    s->labels = calloc(labels, sizeof *s->labels);
    s->rows = calloc(labels, sizeof *s->rows);
    if (!s->map || !s->lines || !s->labels || !s->rows) return false;
    s->cols = s->rows + s->steps;
    for (int64_t t = 0; t < s->steps; t++) {
        const float *from = o->weights + t * o->positions;
        memcpy(s->map + t * s->columns, from + 1, (size_t)p->n * sizeof *from);
        if (s->columns > p->n) s->map[t * s->columns + p->n] = from[0];
        if (t < o->count)
            cli_format(s->labels[t], sizeof s->labels[t], "%lld", (long long)o->tokens[t]);
        else
            cli_format(s->labels[t], sizeof s->labels[t], "end");
        s->rows[t] = s->labels[t];
    }
    for (int64_t j = 0; j <= p->n; j++) {
        char *label = s->labels[s->steps + j];
        if (j < p->n)
            cli_format(label, sizeof *s->labels, "%lld", (long long)j);
        else
            cli_format(label, sizeof *s->labels, "end");
        s->cols[j] = label;
    }
    cli_points_worth(ctx, p, o, worth);
    cli_format(s->title, sizeof s->title, "%s: %s", fv_problem_name(p->problem), worth);
    return true;
}

/* A closed line through the output, or the sides of its triangles. */
static void make_lines(pointed *s)
{
    const fv_output *o = s->o;
    const bool triangles = s->p->problem == FV_PROBLEM_DELAUNAY;
    for (int64_t i = 0; i < s->p->n; i++) {
        s->x[i] = (double)s->p->given[2 * i];
        s->y[i] = (double)s->p->given[2 * i + 1];
    }
    for (int64_t i = 0; i < o->count; i++) {
        const int64_t next = triangles ? (i % 3 == 2 ? i - 2 : i + 1) : (i + 1) % o->count;
        s->lines[2 * i] = o->tokens[i];
        s->lines[2 * i + 1] = o->tokens[next < o->count ? next : i];
    }
    s->line_count = o->count;
}

static void print_json(const pointed *s, const char *file)
{
    const cli_points *p = s->p;
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", file);
    cli_json_text(&j, "problem", fv_problem_name(p->problem));
    cli_json_open(&j, "points", '[');
    for (int64_t i = 0; i < p->n; i++) {
        cli_json_open(&j, NULL, '[');
        for (int64_t k = 0; k < p->width; k++)
            cli_json_exact(&j, NULL, (double)p->given[i * p->width + k]);
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, ']');
    cli_json_open(&j, "output", '[');
    for (int64_t i = 0; i < s->o->count; i++)
        cli_json_int(&j, NULL, s->o->tokens[i]);
    cli_json_close(&j, ']');
    cli_json_text(&j, "worth", s->title);
    cli_json_open(&j, "probabilities", '[');
    for (int64_t t = 0; t < s->steps; t++) {
        cli_json_open(&j, NULL, '[');
        for (int64_t k = 0; k < s->columns; k++)
            cli_json_real(&j, NULL, (double)s->map[t * s->columns + k]);
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static fv_status draw(const cli_call *call, fv_ctx *ctx, pointed *s, const fv_look_options *how,
                      const char *path)
{
    const fv_look_map map = {.rows = s->steps,
                             .cols = s->columns,
                             .values = s->map,
                             .row_labels = s->rows,
                             .col_labels = s->cols,
                             .title = path ? NULL : "probability of each input at each step"};
    fv_look_plane plane = {.title = look_title(call, s->title), .map = &map};
    if (s->p->width == 2) {
        make_lines(s);
        plane.count = s->p->n;
        plane.x = s->x;
        plane.y = s->y;
        plane.lines = s->lines;
        plane.line_count = s->line_count;
        plane.arrows = s->p->problem == FV_PROBLEM_TSP;
    }
    fv_look_format form = FV_LOOK_FORMAT_TEXT;
    fv_picture *picture = NULL;
    if (path) {
        fv_status status = fv_look_format_from_path(ctx, path, &form);
        if (status == FV_OK) status = fv_look_plane_draw(ctx, &plane, form, how, &picture);
        status = look_save_picture(status, picture, path);
        if (status == FV_OK) cli_note("wrote %s (%s)", path, s->title);
        return status;
    }
    if (plane.count == 0) {
        printf("%s\n", plane.title);
    } else {
        const fv_status status = fv_look_plane_draw(ctx, &plane, form, how, &picture);
        if (status != FV_OK) return status;
        fputs(fv_picture_data(picture, NULL), stdout);
        fv_picture_free(&picture);
    }
    return cli_heatmap_print(ctx, stdout, &map, how);
}

static int look_output(const cli_call *call, fv_ctx *ctx, cli_points *p, const fv_output *o,
                       const char *file, const char *path)
{
    fv_look_options how;
    if (!look_picture_options(call, &how)) return CLI_USAGE;
    pointed *s = calloc(1, sizeof *s);
    if (!s || !pointed_make(ctx, p, o, s)) {
        cli_error("look: out of memory");
        if (s) pointed_free(s);
        free(s);
        return CLI_FAILED;
    }
    fv_status status = FV_OK;
    if (cli_flag(call, "json")) print_json(s, file);
    if (path || !cli_flag(call, "json")) status = draw(call, ctx, s, &how, path);
    pointed_free(s);
    free(s);
    return status == FV_OK ? CLI_DONE : cli_library_error("look", ctx, status);
}

int cli_look_points(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                    const char *path)
{
    const char *unfit = look_inside_option(call);
    if (!unfit) unfit = look_text_option(call);
    if (unfit || cli_ends_with(path, ".npz")) {
        cli_error("look: %s%s does not apply to points", unfit ? "--" : "-o FILE",
                  unfit ? unfit : ".npz");
        return CLI_USAGE;
    }
    cli_points *p = calloc(1, sizeof *p);
    fv_outputs *outputs = NULL;
    if (!p) {
        cli_error("look: out of memory");
        return CLI_FAILED;
    }
    int code = cli_points_read(call, ctx, model, file, p);
    if (!code) {
        const fv_status status = cli_points_answer(call, model, p, true, &outputs);
        code = status == FV_OK
                   ? look_output(call, ctx, p, fv_outputs_get(outputs, 0, 0), file, path)
                   : cli_library_error("look", ctx, status);
    }
    fv_outputs_free(&outputs);
    free(p);
    return code;
}
