/* Files of points, and 'fovea run' with models that point at them. */
#include "points.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "output.h"
#include "run.h"

/* ---- reading -------------------------------------------------------------------------------- */

/* The numbers of one line; false: the error is printed. */
static bool read_line(const cli_call *call, const char *file, int64_t line, const char *text,
                      cli_points *p)
{
    const char *at = text, *verb = call->verb->name;
    for (int64_t k = 0; k < p->width; k++) {
        char *end = NULL;
        at += strspn(at, " \t,");
        const double value = strtod(at, &end);
        if (end == at || (*end && !strchr(" \t,\r", *end))) {
            cli_error("%s: %s:%lld: expected %lld number%s, separated by tabs, blanks or commas",
                      verb, file, (long long)line, (long long)p->width, p->width > 1 ? "s" : "");
            return false;
        }
        const bool sort = p->problem == FV_PROBLEM_SORT;
        const double most = sort ? FV_SORT_VALUES - 1 : 1e6;
        if (!(value >= (sort ? 0 : -most) && value <= most) || (sort && value != floor(value))) {
            cli_error("%s: %s:%lld: %.9g, expected %s", verb, file, (long long)line, value,
                      sort ? "an integer from 0 to 99" : "a number from -1e6 to 1e6");
            return false;
        }
        p->given[p->n * p->width + k] = (float)value;
        at = end;
    }
    if (at[strspn(at, " \t,\r")]) {
        cli_error("%s: %s:%lld: more than %lld number%s", verb, file, (long long)line,
                  (long long)p->width, p->width > 1 ? "s" : "");
        return false;
    }
    p->n++;
    return true;
}

static int read_lines(const cli_call *call, const char *file, cli_input *in, cli_points *p)
{
    fv_line line;
    int code = CLI_DONE;
    for (int64_t number = 1; (code = cli_input_next(in, &line)) == CLI_DONE && line.text != NULL;
         number++) {
        const char *text = line.text + strspn(line.text, " \t\r");
        const bool letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z');
        const bool header = number == 1 && letter && strncasecmp(text, "nan", 3) != 0 &&
                            strncasecmp(text, "inf", 3) != 0;
        if (!*text || *text == '#' || header) continue;
        if (p->n == FV_POINTS_MAX) {
            cli_error("%s: %s:%lld: more than %d points", call->verb->name, file, (long long)number,
                      (int)FV_POINTS_MAX);
            return CLI_BAD_FILE;
        }
        if (!read_line(call, file, number, text, p)) return CLI_BAD_FILE;
    }
    return code;
}

/* Into the unit square where they are not in it. */
static void scale(cli_points *p)
{
    float low[2] = {INFINITY, INFINITY}, side = 0;
    bool inside = true;
    for (int64_t i = 0; i < p->n * p->width; i++) {
        inside = inside && p->given[i] >= 0 && p->given[i] <= 1;
        low[i % p->width] = fminf(low[i % p->width], p->given[i]);
    }
    for (int64_t i = 0; i < p->n * p->width; i++)
        side = fmaxf(side, p->given[i] - low[i % p->width]);
    for (int64_t i = 0; i < p->n * p->width; i++) {
        if (p->problem == FV_PROBLEM_SORT)
            p->values[i] = p->given[i] / FV_SORT_VALUES;
        else
            p->values[i] =
                inside || side == 0 ? p->given[i] : (p->given[i] - low[i % p->width]) / side;
    }
}

int cli_points_read(const cli_call *call, fv_ctx *ctx, const fv_model *model, const char *path,
                    cli_points *p)
{
    cli_input in;
    p->problem = fv_model_problem(model);
    p->width = fv_problem_width(p->problem);
    p->n = 0;
    int code = cli_input_open(ctx, call->verb->name, path, FV_LINES_POLICY_REJECT, &in);
    if (!code) code = read_lines(call, path, &in, p);
    cli_input_close(&in);
    const int64_t least =
        p->problem == FV_PROBLEM_HULL || p->problem == FV_PROBLEM_DELAUNAY ? 3 : 1;
    if (!code && p->n < least) {
        cli_error("%s: %s: %lld point%s, expected %lld or more, one per line", call->verb->name,
                  path, (long long)p->n, p->n == 1 ? "" : "s", (long long)least);
        code = CLI_BAD_FILE;
    }
    if (code) return code;
    scale(p);
    p->row = p->values;
    fv_batch_init(&p->batch, 1);
    fv_batch_add(&p->batch, (fv_field){.name = "points",
                                       .dtype = FV_F32,
                                       .rank = 1,
                                       .shape = {p->width},
                                       .row = &p->row,
                                       .length = &p->n});
    return CLI_DONE;
}

/* ---- answers -------------------------------------------------------------------------------- */

fv_status cli_points_answer(const cli_call *call, fv_model *model, const cli_points *p,
                            bool weights, fv_outputs **out)
{
    fv_search_config how;
    fv_search_config_init(&how, sizeof how);
    if (cli_given(call, "beam")) how.beam = (int)cli_int(call, "beam");
    if (strcmp(call->verb->name, "run") == 0) how.nbest = (int)cli_int(call, "nbest");
    how.want_weights = weights;
    return fv_point(model, &p->batch, &how, out);
}

/* How far a tour is above the shortest, or at most above the 1-tree bound. */
static void tour_worth(fv_ctx *ctx, cli_points *p, double length, char out[CLI_WORTH_BYTES])
{
    enum { ROUNDS = 200 };
    int64_t count = 0;
    double bound = 0;
    cli_format(out, CLI_WORTH_BYTES, "length %.6g", length);
    const bool exact = p->n <= FV_TSP_EXACT_MAX;
    if (exact) {
        if (fv_problem_solve(ctx, p->problem, p->n, p->given, FV_TSP_EXACT_MAX, p->answer, &count,
                             NULL) == FV_OK)
            bound = fv_tour_length(count, p->given, p->answer);
    } else if (fv_tour_bound(ctx, p->n, p->given, ROUNDS, &bound) != FV_OK) {
        bound = 0;
    }
    if (bound > 0)
        cli_format(out, CLI_WORTH_BYTES, "length %.6g, %s%.2f %% above the shortest", length,
                   exact ? "" : "at most ", fmax(0, 100 * (length / bound - 1)));
}

void cli_points_worth(fv_ctx *ctx, cli_points *p, const fv_output *o, char out[CLI_WORTH_BYTES])
{
    int64_t count = 0;
    fv_points_score score;
    if (p->problem == FV_PROBLEM_TSP) {
        tour_worth(ctx, p, fv_tour_length(o->count, p->given, o->tokens), out);
        return;
    }
    if (fv_problem_solve(ctx, p->problem, p->n, p->given, 0, p->answer, &count, NULL) != FV_OK ||
        fv_points_compare(ctx, p->problem, p->n, p->given, p->answer, count, o->tokens, o->count,
                          &score) != FV_OK) {
        /* Points on a line have neither hull nor triangulation, and a point counts once. */
        const char *why = fv_ctx_message(ctx), *end = strstr(why, ": ");
        cli_format(out, CLI_WORTH_BYTES, "nothing to compare with: %s", end ? end + 2 : why);
        return;
    }
    if (p->problem == FV_PROBLEM_HULL)
        cli_format(out, CLI_WORTH_BYTES, "%s, %.2f %% of the area",
                   score.exact ? "the hull" : "not the hull", 100 * score.covered);
    else if (p->problem == FV_PROBLEM_DELAUNAY)
        cli_format(out, CLI_WORTH_BYTES, "%lld triangle%s, %.1f %% of the triangulation",
                   (long long)(o->count / 3), o->count == 3 ? "" : "s", 100 * score.covered);
    else
        cli_format(out, CLI_WORTH_BYTES, "%s", score.exact ? "sorted" : "not sorted");
}

/* ---- run ------------------------------------------------------------------------------------ */

static void print_output(const cli_call *call, fv_ctx *ctx, const char *file, cli_points *p,
                         const fv_output *o)
{
    char worth[CLI_WORTH_BYTES];
    cli_points_worth(ctx, p, o, worth);
    if (!cli_flag(call, "json")) {
        for (int64_t i = 0; i < o->count; i++) {
            const bool triple = p->problem == FV_PROBLEM_DELAUNAY && i % 3 == 0;
            printf("%s%lld", i == 0 ? "" : triple ? ", " : " ", (long long)o->tokens[i]);
        }
        printf("\t%s\n", worth);
        return;
    }
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", file);
    cli_json_text(&j, "problem", fv_problem_name(p->problem));
    cli_json_open(&j, "output", '[');
    for (int64_t i = 0; i < o->count; i++)
        cli_json_int(&j, NULL, o->tokens[i]);
    cli_json_close(&j, ']');
    if (p->problem == FV_PROBLEM_TSP)
        cli_json_exact(&j, "length", fv_tour_length(o->count, p->given, o->tokens));
    if (p->problem == FV_PROBLEM_HULL)
        cli_json_exact(&j, "area", fv_polygon_area(p->given, o->count, o->tokens));
    cli_json_text(&j, "worth", worth);
    cli_json_real(&j, "log_prob", o->log_prob);
    cli_json_close(&j, '}');
}

static int run_file(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file)
{
    cli_points *p = calloc(1, sizeof *p);
    fv_outputs *outputs = NULL;
    if (!p) {
        cli_error("run: out of memory");
        return CLI_FAILED;
    }
    int code = cli_points_read(call, ctx, model, file, p);
    if (!code) {
        const fv_status status = cli_points_answer(call, model, p, false, &outputs);
        if (status != FV_OK) code = cli_library_error("run", ctx, status);
    }
    const int64_t nbest = cli_int(call, "nbest");
    for (int n = 0; !code && n < nbest; n++) {
        const fv_output *o = fv_outputs_get(outputs, 0, n);
        if (o) print_output(call, ctx, file, p, o);
    }
    fv_outputs_free(&outputs);
    free(p);
    return code;
}

int cli_run_points(const cli_call *call, fv_ctx *ctx, fv_model *model)
{
    int code = CLI_DONE;
    if (call->word_count == 1) return run_file(call, ctx, model, cli_text(call, "file"));
    for (int i = 1; i < call->word_count && !code; i++)
        code = run_file(call, ctx, model, call->words[i]);
    return code;
}
