/*
 * easy-VQA: generated pictures of one shape, with questions and their answers (Zhou 2019). The
 * folder has, as they are or compressed with xz,
 *     train-images-idx4-ubyte, test-images-idx4-ubyte     bytes [pictures, 64, 64, 3]
 *     train-questions.tsv, test-questions.tsv             a header line; columns `image` (number of
 *                                                         the picture, ascending), `question`,
 *                                                         `answer`
 *     answers.txt                                         the answers, one a line
 * The last tenth of the training pictures is for validation, with all questions about them: parts
 * are kept apart by picture. Pixels stay in memory as bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/media.h"
#include "fovea/data.h"
#include "fovea/tensor.h"
#include "io/file.h"

enum { CHANNELS = 3, VALID_SHARE = 10, MAX_SIDE = 1024, MAX_ANSWERS = 1000, MAX_ROWS = 1 << 24 };
enum { ANSWER_BYTES = 64 };

typedef struct asked {
    int64_t picture, question, answer; /* question: where it begins in `texts` */
} asked;

/* Pictures and questions of one pair of files. */
typedef struct half {
    uint8_t *pixels;
    size_t pixel_bytes, row_room;
    int64_t pictures, height, width;
    asked *row;
    int64_t rows;
} half;

typedef struct easy_vqa {
    fv_ctx *ctx;
    half train, test;
    char *texts; /* questions, each with a NUL */
    size_t text_used, text_room;
    char (*names)[ANSWER_BYTES];
    const char **labels;
    int64_t answers;
    size_t name_room, label_bytes;
    int64_t valid_first; /* row of the training file */
    fv_augment augment;
    int64_t shape[3];
    float *values;
    size_t value_bytes;
    const uint8_t *in_values; /* bytes of the picture in `values`, unchanged; NULL: none */
} easy_vqa;

/* ---- files ---------------------------------------------------------------------------------- */

/* The plain file, or the packed one where only that exists. */
static fv_status find_file(fv_ctx *ctx, const char *folder, const char *name,
                           char out[FV_PATH_BYTES])
{
    char packed[64];
    snprintf(packed, sizeof packed, "%s.xz", name);
    FV_TRY(fv_path_join(ctx, out, folder, packed));
    return fv_file_exists(ctx, out) ? FV_OK : fv_path_join(ctx, out, folder, name);
}

static fv_status copy_pixels(fv_ctx *ctx, half *h, const char *path, fv_tensor *t)
{
    FV_RETURN_IF(fv_tensor_rank(t) != 4 || fv_tensor_dtype(t) != FV_U8 ||
                     fv_tensor_size(t, 1) < 1 || fv_tensor_size(t, 1) > MAX_SIDE ||
                     fv_tensor_size(t, 2) < 1 || fv_tensor_size(t, 2) > MAX_SIDE ||
                     fv_tensor_size(t, 3) != CHANNELS || fv_tensor_size(t, 0) < 1,
                 ctx, FV_ERR_FORMAT, "%.200s: expected bytes of colour pictures, [n, h, w, %d]",
                 path, CHANNELS);
    h->pictures = fv_tensor_size(t, 0);
    h->height = fv_tensor_size(t, 1);
    h->width = fv_tensor_size(t, 2);
    h->pixel_bytes = (size_t)fv_tensor_count(t);
    h->pixels = fv_mem_alloc(&ctx->mem, h->pixel_bytes);
    FV_RETURN_IF(!h->pixels, ctx, FV_ERR_MEMORY, "%.200s: no memory for %zu bytes", path,
                 h->pixel_bytes);
    return fv_tensor_read(ctx, t, h->pixels, h->pixel_bytes);
}

static fv_status read_pixels(fv_ctx *ctx, half *h, const char *folder, const char *name)
{
    char path[FV_PATH_BYTES];
    FV_TRY(find_file(ctx, folder, name, path));
    fv_scope_begin(ctx);
    fv_tensor *t = fv_idx_load(ctx, path);
    const fv_status status = ctx->error == FV_OK ? copy_pixels(ctx, h, path, t) : ctx->error;
    fv_scope_end(ctx);
    return status;
}

static fv_status add_answer(easy_vqa *s, const char *path, const fv_line *line)
{
    fv_ctx *ctx = s->ctx;
    if (line->bytes == 0) return FV_OK;
    FV_RETURN_IF(line->bytes >= ANSWER_BYTES || s->answers >= MAX_ANSWERS, ctx, FV_ERR_FORMAT,
                 "%.200s:%llu: expected at most %d answers of fewer than %d bytes", path,
                 (unsigned long long)line->number, MAX_ANSWERS, ANSWER_BYTES);
    char(*names)[ANSWER_BYTES] =
        fv_mem_grow(&ctx->mem, s->names, &s->name_room, (size_t)s->answers + 1, sizeof *names);
    FV_RETURN_IF(!names, ctx, FV_ERR_MEMORY, "no memory for answers");
    s->names = names;
    memset(names[s->answers], 0, ANSWER_BYTES);
    memcpy(names[s->answers++], line->text, line->bytes);
    return FV_OK;
}

static fv_status read_answers(easy_vqa *s, const char *folder)
{
    char path[FV_PATH_BYTES];
    fv_lines *lines = NULL;
    fv_line line;
    FV_TRY(find_file(s->ctx, folder, "answers.txt", path));
    FV_TRY(fv_lines_open(s->ctx, path, FV_LINES_POLICY_REJECT, &lines));
    fv_status status;
    while ((status = fv_lines_next(lines, &line)) == FV_OK && line.text)
        if ((status = add_answer(s, path, &line)) != FV_OK) break;
    fv_lines_close(&lines);
    FV_TRY(status);
    FV_RETURN_IF(s->answers < 2, s->ctx, FV_ERR_FORMAT, "%.200s: expected two answers or more",
                 path);
    s->label_bytes = (size_t)s->answers * sizeof *s->labels;
    s->labels = fv_mem_alloc(&s->ctx->mem, s->label_bytes);
    FV_RETURN_IF(!s->labels, s->ctx, FV_ERR_MEMORY, "no memory for answers");
    for (int64_t i = 0; i < s->answers; i++)
        s->labels[i] = s->names[i];
    return FV_OK;
}

static int64_t find_answer(const easy_vqa *s, fv_string text)
{
    for (int64_t i = 0; i < s->answers; i++)
        if (strlen(s->names[i]) == text.bytes && memcmp(s->names[i], text.text, text.bytes) == 0)
            return i;
    return -1;
}

typedef struct columns {
    int image, question, answer;
} columns;

static int column_of(const fv_table_info *info, const char *name)
{
    for (int i = 0; i < info->column_count; i++)
        if (strcmp(info->column_names[i], name) == 0) return i;
    return -1;
}

static fv_status add_row(easy_vqa *s, half *h, const char *path, const columns *c,
                         const fv_table_row *row)
{
    fv_ctx *ctx = s->ctx;
    const fv_string image = row->fields[c->image], question = row->fields[c->question];
    const int64_t answer = find_answer(s, row->fields[c->answer]),
                  before = h->rows ? h->row[h->rows - 1].picture : 0;
    char number[24] = "", *end = NULL;
    if (image.bytes < sizeof number) memcpy(number, image.text, image.bytes);
    const long long picture = strtoll(number, &end, 10);
    FV_RETURN_IF(end == number || *end || picture < before || picture >= h->pictures, ctx,
                 FV_ERR_FORMAT,
                 "%.200s:%llu: expected the number of a picture below %lld, in ascending order",
                 path, (unsigned long long)row->line, (long long)h->pictures);
    FV_RETURN_IF(
        question.bytes < 1 || question.bytes >= FV_MEDIA_TEXT || answer < 0 || h->rows >= MAX_ROWS,
        ctx, FV_ERR_FORMAT, "%.200s:%llu: expected a question and an answer of answers.txt", path,
        (unsigned long long)row->line);
    asked *list = fv_mem_grow(&ctx->mem, h->row, &h->row_room, (size_t)h->rows + 1, sizeof *list);
    if (list) h->row = list;
    char *texts =
        fv_mem_grow(&ctx->mem, s->texts, &s->text_room, s->text_used + question.bytes + 1, 1);
    if (texts) s->texts = texts;
    FV_RETURN_IF(!list || !texts, ctx, FV_ERR_MEMORY, "no memory for %lld questions",
                 (long long)h->rows);
    list[h->rows++] =
        (asked){.picture = picture, .question = (int64_t)s->text_used, .answer = answer};
    memcpy(texts + s->text_used, question.text, question.bytes);
    s->text_used += question.bytes;
    texts[s->text_used++] = '\0';
    return FV_OK;
}

static fv_status read_rows(easy_vqa *s, half *h, const char *path, fv_table *table)
{
    const fv_table_info *info = fv_table_get_info(table);
    const columns c = {column_of(info, "image"), column_of(info, "question"),
                       column_of(info, "answer")};
    FV_RETURN_IF(c.image < 0 || c.question < 0 || c.answer < 0, s->ctx, FV_ERR_FORMAT,
                 "%.200s: expected the columns image, question and answer", path);
    for (;;) {
        fv_table_row row;
        FV_TRY(fv_table_next(table, &row));
        if (!row.fields) return FV_OK;
        FV_RETURN_IF(row.problem, s->ctx, FV_ERR_FORMAT, "%.200s:%llu: %s", path,
                     (unsigned long long)row.line, row.problem);
        FV_TRY(add_row(s, h, path, &c, &row));
    }
}

static fv_status read_half(easy_vqa *s, half *h, const char *folder, const char *pictures,
                           const char *questions)
{
    char path[FV_PATH_BYTES];
    fv_table *table = NULL;
    FV_TRY(read_pixels(s->ctx, h, folder, pictures));
    FV_TRY(find_file(s->ctx, folder, questions, path));
    FV_TRY(fv_table_open(s->ctx, path, FV_TABLE_HEADER_YES, &table));
    const fv_status status = read_rows(s, h, path, table);
    fv_table_close(&table);
    return status;
}

/* ---- opening and reading examples --------------------------------------------------------------
 */

static void free_half(fv_mem *mem, half *h)
{
    if (h->pixels) fv_mem_free(mem, h->pixels, h->pixel_bytes);
    if (h->row) fv_mem_free(mem, h->row, h->row_room * sizeof *h->row);
}

static void close_set(void *self)
{
    easy_vqa *s = self;
    fv_mem *mem = &s->ctx->mem;
    free_half(mem, &s->train);
    free_half(mem, &s->test);
    if (s->texts) fv_mem_free(mem, s->texts, s->text_room);
    if (s->names) fv_mem_free(mem, s->names, s->name_room * sizeof *s->names);
    if (s->labels) fv_mem_free(mem, s->labels, s->label_bytes);
    if (s->values) fv_mem_free(mem, s->values, s->value_bytes);
    fv_mem_free(mem, s, sizeof *s);
}

static fv_status read_set(easy_vqa *s, const fv_media_config *cfg)
{
    fv_ctx *ctx = s->ctx;
    const char *folder = cfg->folder;
    FV_TRY(read_answers(s, folder));
    FV_TRY(read_half(s, &s->train, folder, "train-images-idx4-ubyte", "train-questions.tsv"));
    FV_TRY(read_half(s, &s->test, folder, "test-images-idx4-ubyte", "test-questions.tsv"));
    FV_RETURN_IF(s->train.height != s->test.height || s->train.width != s->test.width, ctx,
                 FV_ERR_FORMAT,
                 "%.200s: training pictures have %lld x %lld pixels, test pictures %lld x %lld",
                 folder, (long long)s->train.height, (long long)s->train.width,
                 (long long)s->test.height, (long long)s->test.width);
    FV_RETURN_IF(cfg->size != 0 && (cfg->size != s->train.height || cfg->size != s->train.width),
                 ctx, FV_ERR_ARGUMENT, "media set easy_vqa: size %lld, but its pictures have %lld",
                 (long long)cfg->size, (long long)s->train.height);
    s->shape[0] = CHANNELS;
    s->shape[1] = s->train.height;
    s->shape[2] = s->train.width;
    s->value_bytes = (size_t)(CHANNELS * s->shape[1] * s->shape[2]) * sizeof *s->values;
    s->values = fv_mem_alloc(&ctx->mem, s->value_bytes);
    FV_RETURN_IF(!s->values, ctx, FV_ERR_MEMORY, "no memory for a picture");
    return FV_OK;
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    FV_RETURN_IF(!cfg->folder || !*cfg->folder, ctx, FV_ERR_ARGUMENT,
                 "media set easy_vqa needs a folder with its files");
    easy_vqa *s = fv_mem_zalloc(&ctx->mem, sizeof *s);
    FV_RETURN_IF(!s, ctx, FV_ERR_MEMORY, "no memory for media set easy_vqa");
    *self = s;
    s->ctx = ctx;
    s->augment = cfg->augment;
    FV_TRY(read_set(s, cfg));
    const half *h = &s->train;
    const int64_t first = h->pictures - (h->pictures + VALID_SHARE - 1) / VALID_SHARE;
    while (s->valid_first < h->rows && h->row[s->valid_first].picture < first)
        s->valid_first++;
    *facts = (fv_media_facts){.field = "pixels",
                              .rank = 3,
                              .shape = {CHANNELS, s->shape[1], s->shape[2]},
                              .longest = 1,
                              .labels = s->labels,
                              .label_count = s->answers,
                              .has_questions = true};
    const int64_t available[FV_MEDIA_PARTS] = {s->valid_first, h->rows - s->valid_first,
                                               s->test.rows};
    return fv_media_set_counts(ctx, cfg, available, facts);
}

/* Bytes [height][width][channel] as floats [channel][height][width]. */
static void copy_values(easy_vqa *s, const uint8_t *from)
{
    const int64_t plane = s->shape[1] * s->shape[2];
    for (int64_t c = 0; c < CHANNELS; c++)
        for (int64_t i = 0; i < plane; i++)
            s->values[c * plane + i] = (float)from[i * CHANNELS + c] * (float)(1.0 / 255.0);
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    easy_vqa *s = self;
    const half *h = part == FV_MEDIA_TEST ? &s->test : &s->train;
    const asked *a = &h->row[part == FV_MEDIA_VALID ? s->valid_first + number : number];
    const uint8_t *from = h->pixels + a->picture * CHANNELS * s->shape[1] * s->shape[2];
    if (s->in_values != from) copy_values(s, from);
    s->in_values = draw ? NULL : from;
    FV_TRY(fv_media_augment(s->ctx, &s->augment, draw, s->shape, s->values));
    out->values = s->values;
    out->picture = a->picture;
    out->label = a->answer;
    snprintf(out->question, sizeof out->question, "%s", s->texts + a->question);
    snprintf(out->text, sizeof out->text, "%s", s->labels[a->answer]);
    return FV_OK;
}

const fv_media_kind fv_media_easy_vqa = {
    .name = "easy_vqa",
    .summary = "pictures of one shape with questions, from the files of easy-VQA",
    .open = open_set,
    .get = get,
    .close = close_set,
};
