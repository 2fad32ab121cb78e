/*
 * Recommenders: 'fovea run' prints what a viewer may like, 'fovea look' which of the viewer's
 * ratings each proposal looked at.
 */
#include <stdlib.h>

#include "fovea/file.h"
#include "fovea/recommend.h"
#include "input.h"
#include "look_model.h"
#include "output.h"
#include "run.h"

enum { LABEL = 80, PROPOSALS = 10 };

/* ---- text and JSON -------------------------------------------------------------------------- */

static void print_movies(const char *title, const fv_recommended *list, int64_t count,
                         const char *value)
{
    printf("%s\n", title);
    for (int64_t i = 0; i < count; i++) {
        printf("%s\t", list[i].liked ? "+" : "-");
        cli_safe_text(stdout, list[i].name);
        printf("\t%s", list[i].property);
        if (value) printf("\t%s %.3f", value, list[i].value);
        printf("\n");
    }
}

static void print_text(const fv_recommendation *r, int64_t viewer)
{
    printf("viewer %lld%s\n", (long long)viewer, r->is_new ? " (new)" : "");
    print_movies("rated (+ liked, - not)", r->history, r->history_count, NULL);
    print_movies("recommended (+ would be liked, - not)", r->best, r->count, "p");
    if (r->ideal_count > 0)
        print_movies("nearest to the ideal movie", r->ideal, r->ideal_count, "cosine");
}

static void json_movies(cli_json *j, const char *name, const fv_recommended *list, int64_t count,
                        const char *value, int64_t weights)
{
    cli_json_open(j, name, '[');
    for (int64_t i = 0; i < count; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", list[i].name);
        cli_json_text(j, "property", list[i].property);
        cli_json_bool(j, "liked", list[i].liked);
        if (value) cli_json_real(j, value, list[i].value);
        if (list[i].weights) {
            cli_json_open(j, "weights", '[');
            for (int64_t k = 0; k < weights; k++)
                cli_json_real(j, NULL, (double)list[i].weights[k]);
            cli_json_close(j, ']');
        }
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void print_json(const fv_recommendation *r, int64_t viewer)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_int(&j, "viewer", viewer);
    cli_json_bool(&j, "new", r->is_new);
    json_movies(&j, "history", r->history, r->history_count, NULL, 0);
    json_movies(&j, "recommended", r->best, r->count, "probability", r->history_count);
    if (r->ideal_count > 0) json_movies(&j, "ideal", r->ideal, r->ideal_count, "cosine", 0);
    cli_json_close(&j, '}');
}

/* ---- run ------------------------------------------------------------------------------------ */

typedef struct job {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
} job;

/* A cli_texts_fn: the texts are numbers. */
static int run_all(void *user, int64_t count, const fv_string *texts)
{
    const job *j = user;
    for (int64_t i = 0; i < count; i++) {
        fv_recommendation *r = NULL;
        int64_t viewer = 0;
        if (!cli_read_number(j->call, "a viewer", texts[i].text, &viewer)) return CLI_USAGE;
        const fv_status status = fv_recommend(j->model, viewer, PROPOSALS, &r);
        if (status != FV_OK) return cli_library_error("run", j->ctx, status);
        if (cli_flag(j->call, "json"))
            print_json(r, viewer);
        else
            print_text(r, viewer);
        fv_recommendation_free(&r);
    }
    return CLI_DONE;
}

int cli_run_recommend(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    job j = {.call = call, .ctx = ctx, .model = *model};
    return cli_for_each_batch(call, ctx, 1, run_all, &j);
}

/* ---- look ----------------------------------------------------------------------------------- */

/* Proposals down, the history across. */
typedef struct picture {
    float *values;
    char (*label)[LABEL];
    const char **row, **col;
} picture;

static bool make_picture(const fv_recommendation *r, picture *p)
{
    const int64_t rows = r->count, cols = r->history_count;
    const size_t labels = (size_t)(rows + cols);
    p->values = calloc((size_t)(rows * cols), sizeof *p->values);
    p->label = calloc(labels, sizeof *p->label);
    p->row = calloc(labels, sizeof *p->row);
    if (!p->values || !p->label || !p->row) return false;
    p->col = p->row + rows;
    for (int64_t i = 0; i < rows + cols; i++) {
        const fv_recommended *m = i < rows ? &r->best[i] : &r->history[i - rows];
        const char *mark = i < rows ? "" : m->liked ? " +" : " -";
        cli_format(p->label[i], LABEL, "%.50s (%s)%s", m->name, m->property, mark);
        p->row[i] = p->label[i];
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < cols; k++)
            p->values[i * cols + k] = r->best[i].weights[k];
    return true;
}

static fv_status draw(const cli_call *call, fv_ctx *ctx, const fv_recommendation *r,
                      const picture *p, int64_t viewer, const char *path)
{
    fv_look_options how;
    char title[64];
    if (!look_picture_options(call, &how)) return FV_ERR_ARGUMENT;
    cli_format(title, sizeof title, "viewer %lld", (long long)viewer);
    const fv_look_map map = {.rows = r->count,
                             .cols = r->history_count,
                             .values = p->values,
                             .row_labels = p->row,
                             .col_labels = p->col,
                             .title = look_title(call, title),
                             .row_title = "recommended",
                             .col_title = "rated"};
    const fv_status status = look_draw_map(ctx, &map, &how, path);
    if (status == FV_OK && path)
        cli_note("wrote %s (%lld movies over %lld ratings)", path, (long long)r->count,
                 (long long)r->history_count);
    return status;
}

static fv_status save_array(fv_ctx *ctx, const fv_recommendation *r, const picture *p,
                            const char *path)
{
    const char *name = "history";
    fv_scope_begin(ctx);
    fv_tensor *weights =
        fv_from_host(ctx, FV_F32, 2, (int64_t[]){r->count, r->history_count}, p->values);
    const fv_status status = fv_npz_save(ctx, &name, &weights, 1, path);
    fv_scope_end(ctx);
    if (status == FV_OK) cli_note("wrote %s (1 array)", path);
    return status;
}

static fv_status show(const cli_call *call, fv_ctx *ctx, const fv_recommendation *r, int64_t viewer,
                      const char *path)
{
    picture p = {0};
    fv_status status = FV_OK;
    if (!make_picture(r, &p))
        status = fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    else if (cli_ends_with(path, ".npz"))
        status = save_array(ctx, r, &p, path);
    else
        status = draw(call, ctx, r, &p, viewer, path);
    free(p.values);
    free(p.label);
    free((void *)p.row);
    return status;
}

int cli_look_recommend(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                       const char *path)
{
    fv_recommendation *r = NULL;
    int64_t viewer = 0;
    int code = CLI_DONE;
    const char *inside = look_inside_option(call);
    if (inside) {
        cli_error("look: --%s does not apply to a %s model", inside, fv_model_type(model));
        return CLI_USAGE;
    }
    if (!cli_read_number(call, "a viewer", text, &viewer)) return CLI_USAGE;
    fv_status status = fv_recommend(model, viewer, PROPOSALS, &r);
    if (status == FV_OK && !r->best[0].weights) {
        cli_error("look: this model has no attention: it was trained with recommender.form = "
                  "\"factors\"");
        code = CLI_USAGE;
    } else if (status == FV_OK) {
        if (cli_flag(call, "json")) print_json(r, viewer);
        if (path || !cli_flag(call, "json")) status = show(call, ctx, r, viewer, path);
    }
    fv_recommendation_free(&r);
    return status == FV_OK ? code : cli_library_error("look", ctx, status);
}
