/*
 * Omniglot (Lake, Salakhutdinov, Tenenbaum 2015): 105 x 105 drawings as IDX files, where 0 is ink,
 * and tables that name each drawing's character, or its place in the one-shot task.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/shots.h"
#include "fovea/data.h"
#include "fovea/image.h"
#include "io/file.h"

enum { DRAWERS = 20, RUNS = 20, MOST_CHARACTERS = 2000, MOST_ALPHABETS = 64, NAME = 64 };
enum { RUN_DRAWINGS = 2 * FV_SHOTS_RUN_WAYS };

/* One pair of files. */
typedef struct table {
    fv_ctx *ctx;
    char images[FV_PATH_BYTES], rows[FV_PATH_BYTES];
    uint8_t *pixels;
    size_t bytes;
    int64_t count, height, width;
} table;

/* The plain file, or else the compressed one, whose opening may then fail. */
static fv_status find_file(fv_ctx *ctx, const char *folder, const char *name,
                           char out[FV_PATH_BYTES])
{
    char packed[64];
    FV_TRY(fv_path_join(ctx, out, folder, name));
    if (fv_file_exists(ctx, out)) return FV_OK;
    snprintf(packed, sizeof packed, "%s.xz", name);
    return fv_path_join(ctx, out, folder, packed);
}

static fv_status read_pixels(table *t)
{
    enum { MOST_SIDE = 1024 };
    fv_ctx *ctx = t->ctx;
    fv_scope_begin(ctx);
    fv_tensor *x = fv_idx_load(ctx, t->images);
    fv_status s = fv_ctx_error(ctx);
    if (s == FV_OK) {
        const bool fits = fv_tensor_rank(x) == 3 && fv_tensor_dtype(x) == FV_U8;
        t->count = fits ? fv_tensor_size(x, 0) : 0;
        t->height = fits ? fv_tensor_size(x, 1) : 0;
        t->width = fits ? fv_tensor_size(x, 2) : 0;
        if (t->count < 1 || t->height < FV_SHOTS_SIDE || t->width < FV_SHOTS_SIDE ||
            t->height > MOST_SIDE || t->width > MOST_SIDE)
            s = fv_fail(ctx, FV_ERR_FORMAT,
                        "%.200s: expected bytes with 3 axes, drawings of %d to %d pixels",
                        t->images, (int)FV_SHOTS_SIDE, (int)MOST_SIDE);
    }
    if (s == FV_OK) {
        t->bytes = (size_t)fv_tensor_count(x);
        t->pixels = fv_mem_alloc(&ctx->mem, t->bytes);
        s = t->pixels ? fv_tensor_read(ctx, x, t->pixels, t->bytes)
                      : fv_fail(ctx, FV_ERR_MEMORY, "%.200s: no memory for %zu bytes", t->images,
                                t->bytes);
    }
    fv_scope_end(ctx);
    return s;
}

static void free_table(table *t)
{
    if (t->pixels) fv_mem_free(&t->ctx->mem, t->pixels, t->bytes);
}

/* Each cell of the small drawing is the mean ink of the pixels that it covers. */
static void shrink(const table *t, int64_t row, uint8_t *out)
{
    const uint8_t *from = t->pixels + row * t->height * t->width;
    for (int64_t i = 0; i < FV_SHOTS_SIDE; i++)
        for (int64_t j = 0; j < FV_SHOTS_SIDE; j++) {
            const int64_t y0 = i * t->height / FV_SHOTS_SIDE,
                          y1 = ((i + 1) * t->height + FV_SHOTS_SIDE - 1) / FV_SHOTS_SIDE,
                          x0 = j * t->width / FV_SHOTS_SIDE,
                          x1 = ((j + 1) * t->width + FV_SHOTS_SIDE - 1) / FV_SHOTS_SIDE;
            int64_t sum = 0;
            for (int64_t y = y0; y < y1; y++)
                for (int64_t x = x0; x < x1; x++)
                    sum += 255 - from[y * t->width + x];
            out[i * FV_SHOTS_SIDE + j] = (uint8_t)(sum / ((y1 - y0) * (x1 - x0)));
        }
}

/* ---- rows of a table ------------------------------------------------------------------------ */

enum { MOST_COLUMNS = 5, FIELD = 64 };

/* The requested fields of one row, in the order of their names. */
typedef fv_status (*use_row)(void *user, int64_t row, char (*field)[FIELD]);

static fv_status find_columns(const table *t, const fv_table_info *info, int count,
                              const char *const *names, int *at)
{
    for (int i = 0; i < count; i++) {
        at[i] = -1;
        for (int c = 0; c < info->column_count; c++)
            if (strcmp(info->column_names[c], names[i]) == 0) at[i] = c;
        FV_RETURN_IF(at[i] < 0, t->ctx, FV_ERR_FORMAT, "%.200s: there is no column \"%s\"", t->rows,
                     names[i]);
    }
    return FV_OK;
}

static fv_status use_rows(const table *t, fv_table *rows, int count, const char *const *names,
                          use_row use, void *user)
{
    int at[MOST_COLUMNS];
    fv_table_row r;
    fv_status s = find_columns(t, fv_table_get_info(rows), count, names, at);
    int64_t row = 0;
    while (s == FV_OK && (s = fv_table_next(rows, &r)) == FV_OK && r.fields) {
        char field[MOST_COLUMNS][FIELD];
        FV_RETURN_IF(r.problem, t->ctx, FV_ERR_FORMAT, "%.200s:%llu: %s", t->rows,
                     (unsigned long long)r.line, r.problem);
        FV_RETURN_IF(row == t->count, t->ctx, FV_ERR_FORMAT,
                     "%.200s: more rows than the %lld of %s", t->rows, (long long)t->count,
                     "the drawings");
        for (int i = 0; i < count; i++)
            snprintf(field[i], FIELD, "%.*s", (int)r.fields[at[i]].bytes, r.fields[at[i]].text);
        s = use(user, row++, field);
    }
    FV_RETURN_IF(s == FV_OK && row < t->count, t->ctx, FV_ERR_FORMAT,
                 "%.200s: %lld rows for %lld drawings", t->rows, (long long)row,
                 (long long)t->count);
    return s;
}

static fv_status each_row(const table *t, int count, const char *const *names, use_row use,
                          void *user)
{
    fv_table *rows = NULL;
    FV_TRY(fv_table_open(t->ctx, t->rows, FV_TABLE_HEADER_YES, &rows));
    const fv_status s = use_rows(t, rows, count, names, use, user);
    fv_table_close(&rows);
    return s;
}

/* A number at the end of a field, such as 12 of "run12" or "class12.png"; -1: there is none. */
static int64_t number_of(const char *field, const char *before)
{
    const size_t n = strlen(before);
    char *end = NULL;
    if (strncmp(field, before, n) != 0 || field[n] < '0' || field[n] > '9') return -1;
    const long long value = strtoll(field + n, &end, 10);
    return (*end && *end != '.') || value > 1000000 ? -1 : value;
}

/* ---- the background ------------------------------------------------------------------------- */

typedef struct background {
    table files;
    fv_shots *shots;
    int64_t subset, alphabets;
    char name[MOST_ALPHABETS][NAME];
    int64_t seen; /* drawings of the last character */
} background;

static fv_shots_part part_of(int64_t subset, const char *sets, int64_t number)
{
    if (subset > 0 && !strchr(sets, subset == 1 ? '1' : '2')) return FV_SHOTS_TEST;
    if (number % 10 == 9) return FV_SHOTS_VALID;
    return subset == 0 && number % 10 == 4 ? FV_SHOTS_TEST : FV_SHOTS_TRAIN;
}

/* A use_row of: class, alphabet, drawer, small_set. Characters come one after the other, and so do
 * their alphabets. */
static fv_status take_drawing(void *user, int64_t row, char (*field)[FIELD])
{
    background *b = user;
    fv_shots *s = b->shots;
    const int64_t character = row / DRAWERS, drawer = row % DRAWERS;
    FV_RETURN_IF(number_of(field[0], "") != character || number_of(field[2], "") != drawer + 1,
                 s->ctx, FV_ERR_FORMAT,
                 "%.200s: drawing %lld is of class %s by drawer %s, expected %lld and %lld",
                 b->files.rows, (long long)row, field[0], field[2], (long long)character,
                 (long long)drawer + 1);
    const bool next = b->alphabets == 0 || strcmp(b->name[b->alphabets - 1], field[1]) != 0;
    FV_RETURN_IF(next && (b->alphabets == MOST_ALPHABETS || drawer > 0), s->ctx, FV_ERR_FORMAT,
                 "%.200s: drawing %lld begins alphabet %s within a character, or there are more "
                 "than %d",
                 b->files.rows, (long long)row, field[1], (int)MOST_ALPHABETS);
    if (next) snprintf(b->name[b->alphabets++], NAME, "%s", field[1]);
    if (drawer == 0) {
        const int32_t number = next ? 0 : s->character[character - 1].number + 1;
        s->character[character] =
            (fv_shots_character){.alphabet = (int32_t)b->alphabets - 1,
                                 .number = number,
                                 .part = part_of(b->subset, field[3], number)};
    }
    shrink(&b->files, row, s->ink + row * FV_SHOTS_PIXELS);
    return FV_OK;
}

/* ---- the one-shot task ---------------------------------------------------------------------- */

typedef struct task {
    table files;
    fv_shots *shots;
} task;

/* A use_row of: run, role, item, true_training_file. */
static fv_status take_item(void *user, int64_t row, char (*field)[FIELD])
{
    const task *t = user;
    fv_shots *s = t->shots;
    const bool test = strcmp(field[1], "test") == 0;
    const int64_t run = row / RUN_DRAWINGS, item = row % FV_SHOTS_RUN_WAYS,
                  answer = test ? number_of(field[3], "class") : 1;
    const bool fits = number_of(field[0], "run") == run + 1 &&
                      test == (row % RUN_DRAWINGS >= FV_SHOTS_RUN_WAYS) &&
                      number_of(field[2], "") == item + 1;
    FV_RETURN_IF(!fits || answer < 1 || answer > FV_SHOTS_RUN_WAYS, s->ctx, FV_ERR_FORMAT,
                 "%.200s: row %lld is %s, %s, item %s, %s: expected 20 runs of 20 training and 20 "
                 "test items",
                 t->files.rows, (long long)row + 1, field[0], field[1], field[2], field[3]);
    if (test) s->run_answer[run * FV_SHOTS_RUN_WAYS + item] = (uint8_t)(answer - 1);
    shrink(&t->files, row, s->run_ink + row * FV_SHOTS_PIXELS);
    return FV_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

static fv_status open_tables(background *b, task *t, const char *folder)
{
    fv_ctx *ctx = b->shots->ctx;
    b->files.ctx = t->files.ctx = ctx;
    FV_TRY(find_file(ctx, folder, "background8-images-idx3-ubyte", b->files.images));
    FV_TRY(find_file(ctx, folder, "background8.tsv", b->files.rows));
    FV_TRY(find_file(ctx, folder, "oneshot-images-idx3-ubyte", t->files.images));
    FV_TRY(find_file(ctx, folder, "oneshot.tsv", t->files.rows));
    FV_TRY(read_pixels(&b->files));
    FV_RETURN_IF(b->files.count % DRAWERS != 0 || b->files.count > MOST_CHARACTERS * DRAWERS, ctx,
                 FV_ERR_FORMAT, "%.200s: %lld drawings, expected %d of each character",
                 b->files.images, (long long)b->files.count, (int)DRAWERS);
    FV_TRY(read_pixels(&t->files));
    FV_RETURN_IF(t->files.count != RUNS * RUN_DRAWINGS, ctx, FV_ERR_FORMAT,
                 "%.200s: %lld drawings, expected %d", t->files.images, (long long)t->files.count,
                 (int)(RUNS * RUN_DRAWINGS));
    return FV_OK;
}

static fv_status read_tables(background *b, task *t)
{
    static const char *const drawn[] = {"class", "alphabet", "drawer", "small_set"};
    static const char *const items[] = {"run", "role", "item", "true_training_file"};
    fv_shots *s = b->shots;
    s->characters = b->files.count / DRAWERS;
    s->drawings = DRAWERS;
    s->runs = RUNS;
    FV_TRY(fv_shots_room(s));
    FV_TRY(each_row(&b->files, 4, drawn, take_drawing, b));
    s->alphabets = b->alphabets;
    return each_row(&t->files, 4, items, take_item, t);
}

fv_status fv_shots_read_omniglot(fv_shots *s, const char *folder, int64_t subset)
{
    fv_mem *mem = &s->ctx->mem;
    background *b = fv_mem_zalloc(mem, sizeof *b);
    task *t = fv_mem_zalloc(mem, sizeof *t);
    fv_status status = FV_ERR_MEMORY;
    if (b && t) {
        b->shots = t->shots = s;
        b->subset = subset;
        b->files.ctx = t->files.ctx = s->ctx;
        status = open_tables(b, t, folder);
        if (status == FV_OK) status = read_tables(b, t);
        free_table(&b->files);
        free_table(&t->files);
    } else {
        status = fv_fail(s->ctx, FV_ERR_MEMORY, "no memory to read Omniglot");
    }
    if (b) fv_mem_free(mem, b, sizeof *b);
    if (t) fv_mem_free(mem, t, sizeof *t);
    return status;
}
