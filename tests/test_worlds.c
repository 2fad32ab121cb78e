/*
 * Grid worlds and the walker: a reader of instructions of the test's own finds the same actions,
 * parts share no map, what the agent sees is what the map shows, the aligner follows the formula in
 * plain doubles, rows do not depend on the batch, runs resume to the bit and learn.
 */
#include "data/worlds.h"

#include <math.h>

#include "data/datasets.h"
#include "fovea/ops.h"
#include "fovea/walk.h"
#include "models/errand_batch.h"
#include "models/kind_walker.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"

static fv_ctx *ctx;

/* ---- following instructions ----------------------------------------------------------------- */

typedef struct follower {
    const fv_errand *e;
    int at; /* word */
    int row, col, heading, count;
    uint8_t action[FV_ERRAND_ACTIONS];
} follower;

static const char *word(const follower *f, int ahead)
{
    const int i = f->at + ahead;
    return i < f->e->word_count ? fv_errand_word(f->e->word[i]) : "";
}

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* The cell `steps` ahead after `turns` quarter turns right; 255 for a wall or outside. */
static int cell(const follower *f, int turns, int steps)
{
    static const int dr[] = {-1, 0, 1, 0}, dc[] = {0, 1, 0, -1};
    const int way = (f->heading + turns) % 4, r = f->row + dr[way] * steps,
              c = f->col + dc[way] * steps;
    if (r < 0 || c < 0 || r > 7 || c > 7) return 255;
    return f->e->world.cell[r][c];
}

static void forward(follower *f, int steps)
{
    static const int dr[] = {-1, 0, 1, 0}, dc[] = {0, 1, 0, -1};
    for (int i = 0; i < steps; i++) {
        CHECK(cell(f, 0, 1) != 255);
        f->row += dr[f->heading];
        f->col += dc[f->heading];
        f->action[f->count++] = FV_ACTION_FORWARD;
    }
}

static void make_turn(follower *f, int quarters)
{
    f->heading = (f->heading + quarters) % 4;
    if (quarters == 3) f->action[f->count++] = FV_ACTION_LEFT;
    for (int i = 0; quarters < 3 && i < quarters; i++)
        f->action[f->count++] = FV_ACTION_RIGHT;
}

/* How far "the red chair" is in a direction, before the first wall; 0: it is not there. */
static int distance(const follower *f, int turns, const char *colour, const char *thing)
{
    for (int d = 1;; d++) {
        const int c = cell(f, turns, d);
        if (c == 255) return 0;
        if (c > 0 && is(fv_world_colour(c - 1), colour) && is(fv_world_thing(c - 1), thing))
            return d;
    }
}

static void follow_turn(follower *f)
{
    const bool face = is(word(f, 0), "face");
    if (!face && !is(word(f, 1), "to")) {
        make_turn(f, is(word(f, 1), "left") ? 3 : is(word(f, 1), "right") ? 1 : 2);
        f->at += 2;
        return;
    }
    const int skip = face ? 2 : 3; /* "face the", "turn to the" */
    int found = 0;
    for (int turns = 1; turns < 4; turns++)
        if (distance(f, turns, word(f, skip), word(f, skip + 1)) > 0) found = turns;
    CHECK(found > 0);
    make_turn(f, found);
    f->at += skip + 2;
}

static void follow_walk(follower *f)
{
    if (is(word(f, 0), "take")) {
        forward(f, is(word(f, 1), "one") ? 1 : is(word(f, 1), "two") ? 2 : 3);
        f->at += 3;
    } else if (is(word(f, 3), "wall")) {
        while (cell(f, 0, 1) != 255)
            forward(f, 1);
        f->at += 4;
    } else {
        const int d = distance(f, 0, word(f, 3), word(f, 4));
        CHECK(d > 0);
        forward(f, d + is(word(f, 1), "past"));
        f->at += 5;
    }
}

static void instructions_have_one_meaning(void)
{
    int clauses = 0, turns = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        fv_errand e;
        fv_errand_make(FV_MADE_TRAIN, i, &e);
        follower f = {.e = &e, .row = e.start.row, .col = e.start.col, .heading = e.start.heading};
        CHECK(e.world.cell[f.row][f.col] != FV_WORLD_WALL);
        while (f.at < e.word_count) {
            if (f.at > 0) {
                CHECK(is(word(&f, 0), "then") || is(word(&f, 0), "and"));
                f.at++;
            }
            const bool did_turn = is(word(&f, 0), "turn") || is(word(&f, 0), "face");
            if (did_turn)
                follow_turn(&f);
            else
                follow_walk(&f);
            clauses++;
            turns += did_turn;
        }
        f.action[f.count++] = FV_ACTION_STOP;
        CHECK_EQ(f.count, e.action_count);
        CHECK(memcmp(f.action, e.action, (size_t)f.count) == 0);
        CHECK(f.row == e.goal.row && f.col == e.goal.col && f.heading == e.goal.heading);
        fv_agent a = e.start;
        for (int k = 0; k < e.action_count; k++)
            a = fv_world_step(&e.world, a, e.action[k]);
        CHECK(a.row == f.row && a.col == f.col && a.heading == f.heading);
    }
    CHECK(clauses > 6000 && turns > 2000 && turns < clauses - 2000);
}

static void parts_share_no_map(void)
{
    for (int part = 0; part < FV_MADE_PARTS; part++)
        for (uint64_t i = 0; i < 20; i++) {
            fv_errand e, again;
            char text[129] = "";
            fv_errand_make((fv_made_part)part, i, &e);
            fv_errand_make((fv_made_part)part, i, &again);
            CHECK(memcmp(&e, &again, sizeof e) == 0);
            for (int k = 0; k < 64; k++) {
                const int c = e.world.cell[k / 8][k % 8];
                text[2 * k] = (char)('a' + c / 16);
                text[2 * k + 1] = (char)('a' + c % 16);
            }
            CHECK_EQ(fv_made_part_of(text, 128), part);
        }
}

static void the_agent_sees_along_four_directions(void)
{
    fv_world w = {{{0}}};
    float seen[FV_WORLD_SEEN];
    w.cell[2][4] = 5; /* ahead of an agent at 4,4 that looks up */
    w.cell[0][4] = 7; /* behind that */
    w.cell[4][6] = 9; /* right, behind a wall */
    w.cell[4][5] = FV_WORLD_WALL;
    w.cell[4][4] = 3; /* under its feet */
    fv_world_see(&w, (fv_agent){4, 4, 0}, FV_ACTION_LEFT, seen);
    float expected[FV_WORLD_SEEN] = {0};
    expected[5] = expected[7] = 1; /* ahead */
    expected[25] = 1;              /* a wall right at once */
    expected[4 * 25 + 3 - 1] = 1;  /* here */
    expected[4 * 25 + FV_WORLD_OBJECTS + FV_ACTION_LEFT] = 1;
    CHECK(memcmp(seen, expected, sizeof seen) == 0);
    fv_world_see(&w, (fv_agent){4, 4, 1}, -1, seen); /* heading right: what was ahead is left */
    CHECK(seen[0] == 1 && seen[3 * 25 + 5] == 1 && seen[3 * 25 + 7] == 1);
    const fv_agent stuck = fv_world_step(&w, (fv_agent){4, 4, 1}, FV_ACTION_FORWARD);
    CHECK(stuck.row == 4 && stuck.col == 4);
}

/* ---- the walker ----------------------------------------------------------------------------- */

static fv_recipe *small_recipe(fv_ctx *in, const run_setting *more)
{
    fv_recipe *recipe = run_recipe(in, (run_setting[]){{"train.task", "walk"},
                                                       {"data.train_count", "200"},
                                                       {"data.valid_count", "20"},
                                                       {"train.batch_examples", "16"},
                                                       {"train.optimizer", "adam"},
                                                       {"train.lr", "0.005"},
                                                       {"train.clip", "1"},
                                                       {"walker.embedding", "6"},
                                                       {"walker.encoder_hidden", "5"},
                                                       {"walker.hidden", "8"},
                                                       {0}});
    run_set(in, recipe, more);
    return recipe;
}

static const float *weight(fv_model *model, const char *name)
{
    static float *kept[256];
    static int used;
    fv_tensor *t = fv_params_find(fv_model_params(model), name);
    CHECK(t != NULL);
    free(kept[used % 256]);
    kept[used % 256] = t ? tensor_floats(ctx, t) : NULL;
    return kept[used++ % 256];
}

enum { E = 6, H = 5, S = 8, LEVEL = E + 2 * H };

static double sigma(double x) { return 1 / (1 + exp(-x)); }

static void apply(const float *w, const float *b, const double *x, int in, int out, double *y)
{
    for (int i = 0; i < out; i++) {
        y[i] = b ? (double)b[i] : 0;
        for (int k = 0; k < in; k++)
            y[i] += (double)w[i * in + k] * x[k];
    }
}

static void cell_plain(const double *gates, int n, double *h, double *c)
{
    for (int i = 0; i < n; i++) {
        c[i] = sigma(gates[n + i]) * c[i] + sigma(gates[i]) * tanh(gates[2 * n + i]);
        h[i] = sigma(gates[3 * n + i]) * tanh(c[i]);
    }
}

/* (x_i, h_i) of all words. */
static void listen_plain(fv_model *model, const fv_errand_row *r, double level[][LEVEL])
{
    const float *words = weight(model, "words.weight");
    for (int dir = 0; dir < 2; dir++) {
        char names[4][64];
        static const char *const parts[4] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
        const float *w[4];
        for (int i = 0; i < 4; i++) {
            snprintf(names[i], 64, "encoder.%s_l0%s", parts[i], dir ? "_reverse" : "");
            w[i] = weight(model, names[i]);
        }
        double h[H] = {0}, c[H] = {0};
        for (int k = 0; k < r->words; k++) {
            const int i = dir ? (int)r->words - 1 - k : k;
            double x[E], a[4 * H], b[4 * H];
            for (int d = 0; d < E; d++)
                level[i][d] = x[d] = (double)words[r->word[i] * E + d];
            apply(w[0], w[2], x, E, 4 * H, a);
            apply(w[1], w[3], h, H, 4 * H, b);
            for (int d = 0; d < 4 * H; d++)
                a[d] += b[d];
            cell_plain(a, H, h, c);
            memcpy(level[i] + E + dir * H, h, sizeof h);
        }
    }
}

typedef struct captured {
    float weights[FV_ERRAND_ACTIONS * FV_ERRAND_WORDS];
    int sites;
} captured;

static fv_status take(void *user, fv_ctx *in, const fv_site_weights *site)
{
    captured *c = user;
    const fv_tensor *w = site->captured.weights;
    c->sites++;
    return fv_tensor_read(in, w, c->weights, (size_t)fv_tensor_count(w) * sizeof(float));
}

/* Every step of a walk in doubles: weights, and the loss of the right actions. */
static double walk_plain(fv_model *model, const fv_errand_row *r, bool attends, const captured *c)
{
    static double level[FV_ERRAND_WORDS][LEVEL];
    double mean[LEVEL] = {0}, s[S], cell[S] = {0}, loss = 0;
    listen_plain(model, r, level);
    for (int i = 0; i < r->words; i++)
        for (int d = 0; d < LEVEL; d++)
            mean[d] += level[i][d] / (double)r->words;
    apply(weight(model, "decoder.init.weight"), weight(model, "decoder.init.bias"), mean + E, 2 * H,
          S, s);
    for (int d = 0; d < S; d++)
        s[d] = tanh(s[d]);
    for (int t = 0; t < r->steps; t++) {
        double seen[FV_WORLD_SEEN], z[LEVEL] = {0}, in[S + LEVEL], gates[4 * S], more[4 * S],
                                    all[2 * S + LEVEL], read[S], y[4], total = 0;
        for (int d = 0; d < FV_WORLD_SEEN; d++)
            seen[d] = (double)r->seen[t][d];
        if (attends) {
            double e[FV_ERRAND_WORDS], q[S], qy[S];
            const float *v = weight(model, "aligner.score");
            apply(weight(model, "aligner.state.weight"), NULL, s, S, S, q);
            apply(weight(model, "aligner.seen.weight"), NULL, seen, FV_WORLD_SEEN, S, qy);
            for (int i = 0; i < r->words; i++) {
                double k[S];
                apply(weight(model, "aligner.key.weight"), weight(model, "aligner.key.bias"),
                      level[i], LEVEL, S, k);
                e[i] = 0;
                for (int d = 0; d < S; d++)
                    e[i] += (double)v[d] * tanh(q[d] + qy[d] + k[d]);
                total += e[i] = exp(e[i]);
            }
            for (int i = 0; i < r->words; i++) {
                CHECK_NEAR((double)c->weights[t * r->words + i], e[i] / total, 1e-5);
                for (int d = 0; d < LEVEL; d++)
                    z[d] += e[i] / total * level[i][d];
            }
        } else {
            memcpy(z, mean, sizeof z);
        }
        apply(weight(model, "see.weight"), weight(model, "see.bias"), seen, FV_WORLD_SEEN, S, in);
        memcpy(in + S, z, sizeof z);
        apply(weight(model, "decoder.input.weight"), weight(model, "decoder.input.bias"), in,
              S + LEVEL, 4 * S, gates);
        apply(weight(model, "decoder.recurrent.weight"), NULL, s, S, 4 * S, more);
        for (int d = 0; d < 4 * S; d++)
            gates[d] += more[d];
        cell_plain(gates, S, s, cell);
        memcpy(all, s, sizeof s);
        memcpy(all + S, z, sizeof z);
        memcpy(all + S + LEVEL, in, S * sizeof *in);
        apply(weight(model, "readout.weight"), weight(model, "readout.bias"), all, 2 * S + LEVEL, S,
              read);
        for (int d = 0; d < S; d++)
            read[d] = tanh(read[d]);
        apply(weight(model, "actions.weight"), weight(model, "actions.bias"), read, S, 4, y);
        loss += log(exp(y[0]) + exp(y[1]) + exp(y[2]) + exp(y[3])) - y[r->action[t]];
    }
    return loss;
}

static double loss_of(fv_model *model, const fv_batch *batch)
{
    double value = NAN;
    fv_scope_begin(ctx);
    fv_tensor *loss = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), batch, NULL);
    CHECK_OK(ctx, fv_tensor_item(ctx, loss, &value));
    fv_scope_end(ctx);
    return value;
}

static void steps_follow_the_formula(void)
{
    for (int attends = 0; attends < 2; attends++) {
        fv_recipe *recipe = small_recipe(
            ctx, (run_setting[]){{"walker.attention", attends ? "true" : "false"}, {0}});
        fv_run *run = NULL;
        fv_errand_batch b;
        int64_t words[FV_ERRAND_VOCABULARY];
        double sum = 0;
        CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub(attends ? "attends" : "plain"), NULL,
                                    NULL, &run));
        fv_model *model = fv_run_model(run);
        CHECK_OK(ctx, fv_errand_batch_create(ctx, 4, &b));
        CHECK_OK(ctx, fv_errand_tokens(ctx, fv_model_spec(model)->source, words));
        for (uint64_t i = 0; i < 4; i++) {
            fv_errand e;
            fv_errand_make(FV_MADE_TEST, i, &e);
            fv_errand_batch_add(&b, words, &e);
        }
        for (int i = 0; i < 4; i++) {
            static captured c;
            c.sites = 0;
            const fv_batch one = fv_errand_batch_of(&b, i, 1);
            const fv_capture what = {.options = {.weights = true}, .on_weights = take, .user = &c};
            const fv_pass pass = {.capture = &what};
            if (attends) CHECK_OK(ctx, fv_model_capture_attention(model, &one, &pass));
            CHECK_EQ(c.sites, attends);
            const double plain = walk_plain(model, &b.row[i], attends, &c);
            CHECK_NEAR(loss_of(model, &one), plain, 1e-4 * plain);
            sum += plain;
        }
        const fv_batch all = fv_errand_batch_of(&b, 0, 4); /* walks of different lengths */
        CHECK_NEAR(loss_of(model, &all), sum, 1e-4 * sum);
        fv_errand_batch_free(&b);
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
    }
}

/* ---- runs ----------------------------------------------------------------------------------- */

static void a_walker_learns_in_seconds(void)
{
    fv_ctx *in = run_context(1, 1);
    fv_recipe *recipe = small_recipe(in, (run_setting[]){{"data.train_count", "3000"},
                                                         {"data.valid_count", "60"},
                                                         {"train.batch_examples", "32"},
                                                         {"train.steps", "200"},
                                                         {"train.eval_every", "200"},
                                                         {"walker.embedding", "16"},
                                                         {"walker.encoder_hidden", "24"},
                                                         {"walker.hidden", "48"},
                                                         {0}});
    run_watch w = {0};
    CHECK_OK(in, run_text(in, recipe, folder_sub("learned"), &w));
    CHECK_EQ(w.count, 2);
    CHECK_STR(w.last[0].name, "success");
    if (!(w.last[0].value > 0.3 && w.last[1].value >= w.last[0].value))
        test_failed(__FILE__, __LINE__, "success %.3f, place %.3f", w.last[0].value,
                    w.last[1].value);
}

static void resumed_runs_have_the_same_bits(void)
{
    char a[512], b[512];
    snprintf(a, sizeof a, "%s", folder_sub("whole"));
    snprintf(b, sizeof b, "%s", folder_sub("parts"));
    for (int part = 0; part < 3; part++) {
        fv_ctx *in = run_context(1, 1);
        fv_recipe *recipe = small_recipe(in, (run_setting[]){{"train.steps", "10"},
                                                             {"data.train_count", "60"},
                                                             {"train.eval_every", "5"},
                                                             {"train.accumulate", "2"},
                                                             {"walker.dropout", "0.2"},
                                                             {0}});
        run_watch w = {.stop = part == 1 ? 6 : 0};
        CHECK_EQ(run_text(in, recipe, part == 0 ? a : b, &w), part == 1 ? FV_ERR_CANCELLED : FV_OK);
    }
    CHECK(file_same_in(a, b, "model.safetensors"));
}

/* ---- walks for people ----------------------------------------------------------------------- */

static void walks_are_described(void)
{
    fv_model *model = NULL;
    fv_walk *w = NULL;
    fv_errand e;
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("learned"), &model));
    if (!model) return;
    run_check_sites(model, 1);
    fv_errand_make(FV_MADE_TEST, 2, &e);
    CHECK_OK(ctx, fv_walk_example(model, 2, NULL, &w));
    if (w) {
        const fv_look_walk *d = &w->drawing;
        CHECK(w->has_goal && d->rows == 8 && d->cols == 8 && d->word_count == e.word_count);
        CHECK(d->step[0].row == e.start.row && d->step[0].col == e.start.col);
        for (int64_t i = 0; d->weights && i < d->step_count; i++) {
            double sum = 0;
            for (int64_t k = 0; k < d->word_count; k++)
                sum += (double)d->weights[i * d->word_count + k];
            CHECK_NEAR(sum, 1, 1e-5);
        }
        for (int i = 0; i < 64; i++)
            CHECK_EQ(d->cell[i] != NULL, e.world.cell[i / 8][i % 8] != 0);
        for (int form = 0; form < FV_LOOK_FORMAT_COUNT; form++) {
            fv_picture *picture = NULL;
            size_t bytes = 0;
            CHECK_OK(ctx, fv_look_walk_draw(ctx, d, (fv_look_format)form, NULL, &picture));
            if (picture) CHECK(fv_picture_data(picture, &bytes) && bytes > 100);
            fv_picture_free(&picture);
        }
        fv_look_walk bad = *d;
        fv_picture *picture = NULL;
        bad.rows = 0;
        CHECK_EQ(fv_look_walk_draw(ctx, &bad, FV_LOOK_FORMAT_SVG, NULL, &picture), FV_ERR_ARGUMENT);
        bad.rows = 65;
        CHECK_EQ(fv_look_walk_draw(ctx, &bad, FV_LOOK_FORMAT_SVG, NULL, &picture), FV_ERR_LIMIT);
    }
    fv_walk_free(&w);
    CHECK_OK(ctx, fv_walk_example(model, 2, "Turn LEFT, then go to the wall.", &w));
    if (w) CHECK(!w->has_goal && strcmp(w->instruction, "turn left then go to the wall") == 0);
    fv_walk_free(&w);
    CHECK_EQ(fv_walk_example(model, 2, " . ", &w), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_walk_example(model, 2, "fly to the moon", &w), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "has not learned the word 'fly'") != NULL);
    static char many[49 * 4 + 1];
    for (int i = 0; i < 49; i++)
        strcat(many, "the ");
    CHECK_EQ(fv_walk_example(model, 2, many, &w), FV_ERR_LIMIT);
    CHECK_EQ(fv_walk_example(model, (uint64_t)1 << 40, NULL, &w), FV_ERR_ARGUMENT);
    CHECK(w == NULL);
    fv_model_close(&model);
}

static fv_status open_and_walk(fv_ctx *in, const void *folder)
{
    fv_model *model = NULL;
    fv_walk *w = NULL;
    fv_status s = fv_model_open(in, folder, &model);
    if (s == FV_OK) s = fv_walk_example(model, 1, "turn left", &w);
    CHECK_EQ(s == FV_OK, w != NULL);
    fv_walk_free(&w);
    fv_model_close(&model);
    return s;
}

static void failing_memory_is_reported(void)
{
    CHECK(failing_everywhere(open_and_walk, folder_path("learned"), 20) > 50);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(instructions_have_one_meaning);
    RUN(parts_share_no_map);
    RUN(the_agent_sees_along_four_directions);
    RUN(steps_follow_the_formula);
    RUN(a_walker_learns_in_seconds);
    RUN(resumed_runs_have_the_same_bits);
    RUN(walks_are_described);
    RUN(failing_memory_is_reported);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
