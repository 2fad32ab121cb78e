/* Stories: answers to their questions, and where a reader looked. */
#include <stdlib.h>
#include <string.h>

#include "example.h"
#include "fovea/file.h"
#include "fovea/read.h"
#include "input.h"
#include "look_model.h"
#include "output.h"

static fv_status read_one(const cli_call *call, fv_model *model, const char *text, fv_reading **out)
{
    return text ? fv_read_story(model, text, out)
                : fv_read_example(model, (uint64_t)cli_int(call, "example"), out);
}

/* Which hop sentence i supports in question q, from 1; 0: none. */
static int supports(const fv_reading_question *q, int64_t i)
{
    for (int k = 0; k < FV_READING_FACTS; k++)
        if (q->support[k] == i) return k + 1;
    return 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void print_question(cli_json *j, const fv_reading *r, const fv_reading_question *q)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "question", q->text);
    cli_json_text(j, "answer", q->answer);
    cli_json_real(j, "probability", q->probability);
    if (q->expected) {
        cli_json_text(j, "expected", q->expected);
        cli_json_bool(j, "follow_up", q->follow_up);
        cli_json_open(j, "support", '[');
        for (int k = 0; k < FV_READING_FACTS; k++)
            if (q->support[k] >= 0) cli_json_int(j, NULL, q->support[k]);
        cli_json_close(j, ']');
    }
    cli_json_open(j, "hops", '[');
    for (int64_t hop = 0; hop < r->hops; hop++) {
        cli_json_open(j, NULL, '[');
        for (int64_t i = 0; i < r->sentence_count; i++)
            cli_json_real(j, NULL, (double)q->weights[hop * r->sentence_count + i]);
        cli_json_close(j, ']');
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}

static void print_json(const fv_reading *r)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_open(&j, "sentences", '[');
    for (int64_t i = 0; i < r->sentence_count; i++)
        cli_json_text(&j, NULL, r->sentence[i]);
    cli_json_close(&j, ']');
    if (r->summary) {
        cli_json_open(&j, "summary", '[');
        for (int64_t i = 0; i < r->sentence_count; i++)
            cli_json_real(&j, NULL, (double)r->summary[i]);
        cli_json_close(&j, ']');
    }
    cli_json_open(&j, "questions", '[');
    for (int64_t i = 0; i < r->question_count; i++)
        print_question(&j, r, &r->question[i]);
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

/* ---- run ------------------------------------------------------------------------------------ */

static void print_answers(const fv_reading *r, bool with_story)
{
    for (int64_t i = 0; with_story && i < r->sentence_count; i++) {
        printf("%3lld  ", (long long)i + 1);
        cli_safe_text(stdout, r->sentence[i]);
        printf("%s\n", r->summary && r->summary[i] > 0.5F ? "  (summary)" : "");
    }
    for (int64_t i = 0; i < r->question_count; i++) {
        const fv_reading_question *q = &r->question[i];
        cli_safe_text(stdout, q->text);
        printf("\t%s\t%.3f", q->answer, q->probability);
        if (q->expected && strcmp(q->expected, q->answer) != 0)
            printf("\texpected %s", q->expected);
        printf("\n");
    }
}

int cli_run_story(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text)
{
    fv_reading *r = NULL;
    const fv_status status = read_one(call, model, text, &r);
    if (status == FV_OK && cli_flag(call, "json")) print_json(r);
    if (status == FV_OK && !cli_flag(call, "json")) print_answers(r, !text);
    fv_reading_free(&r);
    return status == FV_OK ? CLI_DONE : cli_text_error("run", ctx, status);
}

/* ---- look ----------------------------------------------------------------------------------- */

enum { LABEL = 96 };

/* The labels and values of a map: sentences down; questions and their hops across. In a picture an
 * empty column with the question comes before its hops. */
typedef struct hop_map {
    int64_t rows, cols;
    float *values;
    char (*label)[LABEL];
    const char **row, **col;
} hop_map;

static void free_map(hop_map *m)
{
    free(m->values);
    free(m->label);
    free((void *)m->row);
}

/* A supporting sentence is marked with the questions that it supports: "*q1, q3". */
static void label_sentence(const fv_reading *r, int64_t i, char out[LABEL])
{
    bool marked = false;
    cli_format(out, LABEL, "%lld  %.60s", (long long)i + 1, r->sentence[i]);
    for (int64_t k = 0; k < r->question_count; k++) {
        const size_t used = strlen(out);
        if (!supports(&r->question[k], i)) continue;
        cli_format(out + used, LABEL - used, "%sq%lld", marked ? ", " : "  *", (long long)k + 1);
        marked = true;
    }
}

/* "q2 and before that ?  kitchen", and what was right. */
static void label_question(const fv_reading_question *q, int64_t number, char out[LABEL])
{
    const bool wrong = q->expected && strcmp(q->expected, q->answer) != 0;
    cli_format(out, LABEL, "q%lld %.50s  %.12s%s%.12s", (long long)number + 1, q->text, q->answer,
               wrong ? ", expected " : "", wrong ? q->expected : "");
}

static bool make_map(const fv_reading *r, bool picture, hop_map *m)
{
    const int64_t asks = picture ? 1 : 0, each = asks + r->hops;
    *m = (hop_map){.rows = r->sentence_count, .cols = r->question_count * each};
    const size_t labels = (size_t)(m->rows + m->cols);
    m->values = calloc((size_t)(m->rows * m->cols), sizeof *m->values);
    m->label = calloc(labels, sizeof *m->label);
    m->row = calloc(labels, sizeof *m->row);
    if (!m->values || !m->label || !m->row) return false;
    m->col = m->row + m->rows;
    for (int64_t i = 0; i < m->rows; i++) {
        label_sentence(r, i, m->label[i]);
        m->row[i] = m->label[i];
    }
    for (int64_t k = 0; k < m->cols; k++) {
        const int64_t number = k / each, hop = k % each - asks;
        const fv_reading_question *q = &r->question[number];
        char *label = m->label[m->rows + k];
        m->col[k] = label;
        if (hop < 0) {
            label_question(q, number, label);
            continue;
        }
        cli_format(label, LABEL, "q%lld hop %lld", (long long)number + 1, (long long)hop + 1);
        for (int64_t i = 0; i < m->rows; i++)
            m->values[i * m->cols + k] = q->weights[hop * m->rows + i];
    }
    return true;
}

static fv_status save_arrays(fv_ctx *ctx, const fv_reading *r, const char *path)
{
    const char *name = "hops";
    const int64_t shape[] = {r->question_count, r->hops, r->sentence_count};
    fv_scope_begin(ctx);
    fv_tensor *weights = fv_from_host(ctx, FV_F32, 3, shape, r->question[0].weights);
    const fv_status status = fv_npz_save(ctx, &name, &weights, 1, path);
    fv_scope_end(ctx);
    if (status == FV_OK) cli_note("wrote %s (1 array)", path);
    return status;
}

static fv_status draw(const cli_call *call, fv_ctx *ctx, const fv_reading *r,
                      const fv_look_options *how, const char *path)
{
    hop_map m;
    char title[256] = "";
    fv_status status = make_map(r, path != NULL, &m) ? FV_OK : FV_ERR_MEMORY;
    if (!path) print_answers(r, false);
    for (int64_t i = 0; i < r->question_count; i++) {
        const size_t used = strlen(title);
        cli_format(title + used, sizeof title - used, "%sq%lld %.20s", i ? ", " : "",
                   (long long)i + 1, r->question[i].answer);
    }
    const fv_look_map map = {.rows = m.rows,
                             .cols = m.cols,
                             .values = m.values,
                             .row_labels = m.row,
                             .col_labels = m.col,
                             .title = look_title(call, title),
                             .row_title = "story",
                             .col_title = "hops"};
    if (status == FV_OK) status = look_draw_map(ctx, &map, how, path);
    if (status == FV_OK && path)
        cli_note("wrote %s (%lld sentences, %lld questions of %lld hops)", path,
                 (long long)r->sentence_count, (long long)r->question_count, (long long)r->hops);
    free_map(&m);
    return status;
}

int cli_look_story(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                   const char *path)
{
    fv_reading *r = NULL;
    fv_look_options how;
    if (!look_picture_options(call, &how)) return CLI_USAGE;
    fv_status status = read_one(call, model, text, &r);
    if (status == FV_OK && cli_flag(call, "json")) print_json(r);
    if (status == FV_OK && (path || !cli_flag(call, "json")))
        status = cli_ends_with(path, ".npz") ? save_arrays(ctx, r, path)
                                             : draw(call, ctx, r, &how, path);
    fv_reading_free(&r);
    return status == FV_OK ? CLI_DONE : cli_text_error("look", ctx, status);
}
