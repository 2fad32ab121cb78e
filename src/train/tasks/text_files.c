/* The texts of a part: documents of plain files, records of CSV files, generated texts. */
#include <string.h>

#include "base/checked_math.h"
#include "base/memory.h"
#include "data/csv.h"
#include "fovea/data.h"
#include "train/tasks/text.h"

/* Joins lines to documents, or to one text. */
typedef struct gatherer {
    fv_text_task *run;
    char *text;
    size_t bytes, room;
    fv_text_use use;
    void *user;
} gatherer;

static fv_status append(gatherer *g, const char *text, size_t bytes)
{
    size_t need;
    fv_mem *mem = &g->run->ctx->mem;
    FV_RETURN_IF(!fv_checked_add_size(g->bytes, bytes + 1, &need), g->run->ctx, FV_ERR_LIMIT,
                 "a document is too long");
    char *grown = fv_mem_grow(mem, g->text, &g->room, need, 1);
    FV_RETURN_IF(!grown, g->run->ctx, FV_ERR_MEMORY, "no memory for %zu bytes of text", need);
    g->text = grown;
    memcpy(g->text + g->bytes, text, bytes);
    g->bytes += bytes;
    g->text[g->bytes++] = '\n';
    return FV_OK;
}

static fv_status hand_over(gatherer *g)
{
    const size_t bytes = g->bytes;
    g->bytes = 0;
    const fv_text_item item = {.text = {g->text, bytes}};
    return bytes > 0 ? g->use(g->user, &item) : FV_OK;
}

static fv_status gather_lines(gatherer *g, fv_lines *lines)
{
    const int cut = fv_recipe_choice(g->run->recipe, "data.documents");
    for (;;) {
        fv_line line;
        FV_TRY(fv_lines_next(lines, &line));
        if (!line.text) return hand_over(g);
        if (!line.valid) continue;
        const bool blank = strspn(line.text, " \t") == line.bytes;
        if (cut == FV_TEXT_LINES && !blank) {
            const fv_text_item item = {.text = {line.text, line.bytes}};
            FV_TRY(g->use(g->user, &item));
            continue;
        }
        if (cut == FV_TEXT_PARAGRAPHS && blank) {
            FV_TRY(hand_over(g));
            continue;
        }
        if (cut != FV_TEXT_LINES) FV_TRY(append(g, line.text, line.bytes));
    }
}

/* Calls `use` for every document of a file. */
static fv_status each_document(fv_text_task *run, const char *path, fv_text_use use, void *user)
{
    fv_lines *lines = NULL;
    const bool skip = fv_recipe_bool(run->recipe, "data.skip_invalid");
    FV_TRY(fv_lines_open(run->ctx, path, skip ? FV_LINES_POLICY_MARK : FV_LINES_POLICY_REJECT,
                         &lines));
    gatherer g = {.run = run, .use = use, .user = user};
    const fv_status status = gather_lines(&g, lines);
    if (g.text) fv_mem_free(&run->ctx->mem, g.text, g.room);
    fv_lines_close(&lines);
    return status;
}

typedef struct record_user {
    int label, second; /* numbers of their fields; 0: none */
    fv_text_use use;
    void *user;
} record_user;

static fv_status use_record(void *user, const fv_string *fields)
{
    const record_user *r = user;
    const fv_text_item item = {.text = fields[0],
                               .second = r->second ? fields[r->second] : (fv_string){0},
                               .label = r->label ? fields[r->label] : (fv_string){0}};
    return r->use(r->user, &item);
}

/* Calls `use` for every record of a table. */
static fv_status each_record(fv_text_task *run, const char *path, fv_text_use use, void *user)
{
    record_user r = {.label = run->goal == FV_TEXT_CLASSIFY,
                     .second = run->pairs ? 2 : 0,
                     .use = use,
                     .user = user};
    const char *const columns[] = {fv_recipe_text(run->recipe, "data.text_column"),
                                   fv_recipe_text(run->recipe, "data.label_column"),
                                   fv_recipe_text(run->recipe, "data.second_column")};
    return fv_csv_each(run->ctx, path, 1 + r.label + run->pairs, columns, use_record, &r);
}

/* Calls `use` for every generated text, or once for all of them as one stream of lines. */
static fv_status each_made(fv_text_task *run, int part, fv_text_use use, void *user)
{
    const uint64_t seed = (uint64_t)fv_recipe_int(run->recipe, "train.seed");
    const int64_t count =
        fv_recipe_int(run->recipe, part == FV_TEXT_TRAIN ? "data.train_pairs" : "data.valid_pairs");
    const bool stream = run->goal != FV_TEXT_CLASSIFY &&
                        fv_recipe_choice(run->recipe, "data.documents") == FV_TEXT_STREAM;
    gatherer g = {.run = run, .use = use, .user = user};
    fv_status status = FV_OK;
    for (int64_t i = 0; i < count && status == FV_OK; i++) {
        fv_drawn drawn;
        run->made->example(run->made, seed, (uint64_t)i, part == FV_TEXT_VALID, &drawn);
        fv_text_item item = {.text = {drawn.source, strlen(drawn.source)},
                             .label = {drawn.label, drawn.label ? strlen(drawn.label) : 0}};
        if (run->pairs) item.second = (fv_string){drawn.target, strlen(drawn.target)};
        status = stream ? append(&g, item.text.text, item.text.bytes) : use(user, &item);
    }
    if (status == FV_OK) status = hand_over(&g);
    if (g.text) fv_mem_free(&run->ctx->mem, g.text, g.room);
    return status;
}

/* The key of file i of a part: the test text takes the place of the validation text where the
 * evaluation asks for it. NULL: there are no more. */
static const char *file_key(const fv_text_task *run, int part, int i)
{
    static const char *const train[] = {"data.train_text", "data.train_text2", "data.train_text3"};
    if (part == FV_TEXT_TRAIN) return i < 3 ? train[i] : NULL;
    const bool test = strcmp(fv_recipe_text(run->recipe, "eval.part"), "test") == 0 &&
                      *fv_recipe_text(run->recipe, "data.test_text");
    return i > 0 ? NULL : test ? "data.test_text" : "data.valid_text";
}

static fv_status each_text(fv_text_task *run, int part, fv_text_use use, void *user)
{
    static const char *const tables[FV_TEXT_PARTS] = {"data.train_csv", "data.valid_csv"};
    const char *key;
    if (run->made) return each_made(run, part, use, user);
    for (int i = 0; run->goal != FV_TEXT_CLASSIFY && (key = file_key(run, part, i)); i++) {
        const char *path = fv_recipe_text(run->recipe, key);
        if (*path) FV_TRY(each_document(run, path, use, user));
    }
    const char *table = fv_recipe_text(run->recipe, tables[part]);
    if (run->goal == FV_TEXT_LANGUAGE || !*table) return FV_OK;
    return each_record(run, table, use, user);
}

/* Hands over texts without punctuation. */
typedef struct letters {
    fv_ctx *ctx;
    char *text;
    size_t room;
    fv_text_use use;
    void *user;
} letters;

static bool is_letter(const char *text, size_t bytes, size_t i)
{
    const unsigned char c = i < bytes ? (unsigned char)text[i] : ' ';
    return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static fv_status use_letters(void *user, const fv_text_item *item)
{
    letters *l = user;
    const fv_string text = item->text;
    char *grown = fv_mem_grow(&l->ctx->mem, l->text, &l->room, text.bytes + 1, 1);
    FV_RETURN_IF(!grown, l->ctx, FV_ERR_MEMORY, "no memory for %zu bytes of text", text.bytes);
    l->text = grown;
    for (size_t i = 0; i < text.bytes; i++) {
        const bool within = text.text[i] == '\'' && i > 0 &&
                            is_letter(text.text, text.bytes, i - 1) &&
                            is_letter(text.text, text.bytes, i + 1);
        l->text[i] = is_letter(text.text, text.bytes, i) || within ? text.text[i] : ' ';
    }
    l->text[text.bytes] = '\0';
    return l->use(l->user, &(fv_text_item){.text = {l->text, text.bytes}, .label = item->label});
}

fv_status fv_text_each(fv_text_task *run, int part, fv_text_use use, void *user)
{
    letters l = {.ctx = run->ctx, .use = use, .user = user};
    if (!run->letters_only) return each_text(run, part, use, user);
    const fv_status status = each_text(run, part, use_letters, &l);
    if (l.text) fv_mem_free(&run->ctx->mem, l.text, l.room);
    return status;
}

bool fv_text_has(const fv_text_task *run, int part)
{
    static const char *const tables[FV_TEXT_PARTS] = {"data.train_csv", "data.valid_csv"};
    if (run->made) return true;
    return (run->goal != FV_TEXT_CLASSIFY &&
            *fv_recipe_text(run->recipe, file_key(run, part, 0))) ||
           (run->goal != FV_TEXT_LANGUAGE && *fv_recipe_text(run->recipe, tables[part]));
}

const char *fv_text_train_file(const fv_text_task *run)
{
    if (run->made) return "data.made";
    const char *text = fv_recipe_text(run->recipe, "data.train_text");
    const bool table = run->goal == FV_TEXT_CLASSIFY || !*text;
    return table ? fv_recipe_text(run->recipe, "data.train_csv") : text;
}
