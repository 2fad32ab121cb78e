/* Walks of a model on generated maps, for people (fovea/walk.h). */
#include "fovea/walk.h"

#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "io/arena.h"
#include "models/errand_batch.h"
#include "models/kind_walker.h"
#include "models/model.h"

enum { CELLS = FV_WORLD_SIDE * FV_WORLD_SIDE, CELL_TEXT = 24 };

typedef struct own_walk {
    fv_walk shown; /* first */
    fv_model *model;
    fv_arena arena;
    fv_errand_batch batch; /* one errand */
    const char *cell[CELLS], *word[FV_ERRAND_WORDS];
    char cell_text[CELLS][CELL_TEXT];
    fv_look_step step[FV_ERRAND_ACTIONS];
    float weights[FV_ERRAND_ACTIONS * FV_ERRAND_WORDS];
} own_walk;

bool fv_model_is_walker(const fv_model *model)
{
    return strcmp(fv_model_kind_of(model)->name, fv_kind_walker.name) == 0;
}

void fv_walk_free(fv_walk **w)
{
    own_walk *own = w ? (own_walk *)(void *)*w : NULL;
    if (!own) return;
    fv_ctx *ctx = own->model->ctx;
    fv_errand_batch_free(&own->batch);
    fv_arena_free(&own->arena);
    fv_mem_free(&ctx->mem, own, sizeof *own);
    *w = NULL;
}

/* ---- words ---------------------------------------------------------------------------------- */

static fv_status set_word(own_walk *w, const char *word, size_t bytes)
{
    fv_ctx *ctx = w->model->ctx;
    fv_errand_row *row = &w->batch.row[0];
    FV_RETURN_IF(row->words == FV_ERRAND_WORDS, ctx, FV_ERR_LIMIT,
                 "expected an instruction of at most %d words", (int)FV_ERRAND_WORDS);
    char *copy = fv_arena_text(&w->arena, word, bytes);
    FV_RETURN_IF(!copy, ctx, FV_ERR_MEMORY, "no memory for a walk");
    for (char *c = copy; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + ('a' - 'A'));
    const int64_t token = fv_tokenizer_token_to_id(w->model->spec.source, copy, bytes);
    FV_RETURN_IF(token < 0, ctx, FV_ERR_ARGUMENT, "the model has not learned the word '%.40s'",
                 copy);
    w->word[row->words] = copy;
    row->word[row->words++] = token;
    return FV_OK;
}

static fv_status set_instruction(own_walk *w, const char *text)
{
    static const char blanks[] = " \t\r\n,.!";
    w->batch.row[0].words = 0;
    for (const char *at = text + strspn(text, blanks); *at;) {
        const size_t bytes = strcspn(at, blanks);
        FV_TRY(set_word(w, at, bytes));
        at += bytes;
        at += strspn(at, blanks);
    }
    FV_RETURN_IF(w->batch.row[0].words == 0, w->model->ctx, FV_ERR_ARGUMENT,
                 "expected an instruction, such as \"turn left and go to the wall\"");
    return FV_OK;
}

/* The instruction of the map as text. */
static fv_status own_words(own_walk *w, const fv_errand *e)
{
    w->batch.row[0].words = 0;
    for (int i = 0; i < e->word_count; i++) {
        const char *word = fv_errand_word(e->word[i]);
        FV_TRY(set_word(w, word, strlen(word)));
    }
    return FV_OK;
}

static fv_status join_words(own_walk *w)
{
    const int64_t count = w->batch.row[0].words;
    size_t bytes = 1;
    for (int64_t i = 0; i < count; i++)
        bytes += strlen(w->word[i]) + 1;
    char *text = fv_arena_alloc(&w->arena, bytes), *at = text;
    FV_RETURN_IF(!text, w->model->ctx, FV_ERR_MEMORY, "no memory for a walk");
    for (int64_t i = 0; i < count; i++)
        at += snprintf(at, bytes - (size_t)(at - text), i ? " %s" : "%s", w->word[i]);
    w->shown.instruction = text;
    return FV_OK;
}

/* ---- the walk ------------------------------------------------------------------------------- */

static void describe_map(own_walk *w)
{
    const fv_world *world = &w->batch.row[0].errand.world;
    for (int i = 0; i < CELLS; i++) {
        const int cell = world->cell[i / FV_WORLD_SIDE][i % FV_WORLD_SIDE];
        if (cell == 0) continue;
        if (cell == FV_WORLD_WALL)
            snprintf(w->cell_text[i], CELL_TEXT, "#");
        else
            snprintf(w->cell_text[i], CELL_TEXT, "%s %s", fv_world_colour(cell - 1),
                     fv_world_thing(cell - 1));
        w->cell[i] = w->cell_text[i];
    }
}

static void describe_steps(own_walk *w)
{
    const fv_errand_row *row = &w->batch.row[0];
    for (int64_t i = 0; i < row->steps; i++)
        w->step[i] = (fv_look_step){.row = row->agent[i].row,
                                    .col = row->agent[i].col,
                                    .heading = row->agent[i].heading,
                                    .action = fv_action_name((int)row->action[i])};
}

/* [1, 1, steps, words]. */
static fv_status take_weights(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    own_walk *w = user;
    const fv_errand_row *row = &w->batch.row[0];
    w->shown.drawing.weights = w->weights;
    return fv_tensor_read(ctx, site->captured.weights, w->weights,
                          (size_t)(row->steps * row->words) * sizeof *w->weights);
}

static fv_status capture(own_walk *w)
{
    fv_ctx *ctx = w->model->ctx;
    const fv_batch batch = fv_errand_batch_of(&w->batch, 0, 1);
    const fv_capture what = {.sites = FV_WALKER_SITE,
                             .options = {.weights = true},
                             .on_weights = take_weights,
                             .user = w};
    const fv_pass pass = {.capture = &what};
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const fv_status status = fv_model_capture_attention(w->model, &batch, &pass);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

static fv_status walk(own_walk *w, uint64_t map, const char *instruction)
{
    fv_ctx *ctx = w->model->ctx;
    fv_errand e;
    int64_t words[FV_ERRAND_VOCABULARY];
    FV_RETURN_IF(map >= (uint64_t)1 << 40, ctx, FV_ERR_ARGUMENT,
                 "expected the number of a map below 2^40");
    FV_TRY(fv_errand_tokens(ctx, w->model->spec.source, words));
    fv_errand_make(FV_MADE_TEST, map, &e);
    fv_errand_batch_add(&w->batch, words, &e);
    FV_TRY(instruction ? set_instruction(w, instruction) : own_words(w, &e));
    FV_TRY(join_words(w));
    FV_TRY(fv_errand_batch_walk(&w->batch, w->model));
    const fv_errand_row *row = &w->batch.row[0];
    describe_map(w);
    describe_steps(w);
    w->shown.stopped = row->stopped;
    w->shown.has_goal = !instruction;
    w->shown.reached = !instruction && fv_errand_reached(row);
    w->shown.drawing = (fv_look_walk){.rows = FV_WORLD_SIDE,
                                      .cols = FV_WORLD_SIDE,
                                      .cell = w->cell,
                                      .step_count = row->steps,
                                      .word_count = row->words,
                                      .step = w->step,
                                      .word = w->word,
                                      .title = w->shown.instruction};
    return fv_walker_attends(w->model->self) ? capture(w) : FV_OK;
}

fv_status fv_walk_example(fv_model *model, uint64_t map, const char *instruction, fv_walk **out)
{
    fv_ctx *ctx = model->ctx;
    FV_RETURN_IF(!fv_model_is_walker(model), ctx, FV_ERR_UNSUPPORTED,
                 "a %s model does not follow instructions on maps", fv_model_kind_of(model)->name);
    FV_RETURN_IF(fv_data_spec_get(&model->spec, "seen", 0) != FV_WORLD_SEEN ||
                     fv_data_spec_get(&model->spec, "actions", 0) != FV_ACTION_COUNT,
                 ctx, FV_ERR_FORMAT, "the model was not trained on the maps of this version");
    own_walk *w = fv_mem_zalloc(&ctx->mem, sizeof *w);
    FV_RETURN_IF(!w, ctx, FV_ERR_MEMORY, "no memory for a walk");
    w->model = model;
    fv_arena_init(&w->arena, &ctx->mem);
    fv_status status = fv_errand_batch_create(ctx, 1, &w->batch);
    if (status == FV_OK) status = walk(w, map, instruction);
    fv_walk *shown = &w->shown;
    if (status == FV_OK)
        *out = shown;
    else
        fv_walk_free(&shown);
    return status;
}
