/*
 * Generated tastes and the recommender: ratings follow from tastes and properties, both forms
 * follow their formulas in plain doubles, metrics are those of a plain count, both forms learn more
 * than means, runs resume to the bit, wrong settings are named.
 */
#include <math.h>
#include <stdlib.h>

#include "fovea/ops.h"
#include "fovea/recommend.h"
#include "models/kind_recommender.h"
#include "models/taste_batch.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"

static fv_ctx *ctx;

/* ---- data ----------------------------------------------------------------------------------- */

static void movies_have_one_main_property_and_a_name(void)
{
    static char name[FV_TASTE_MOVIES][FV_MOVIE_NAME];
    int kinds[FV_TASTE_PROPERTIES] = {0};
    for (int i = 0; i < FV_TASTE_MOVIES; i++) {
        fv_movie m, again, other;
        fv_movie_make(3, i, &m);
        fv_movie_make(3, i, &again);
        fv_movie_make(4, i, &other);
        CHECK(memcmp(&m.property, &again.property, sizeof m.property) == 0);
        CHECK(memcmp(&m.property, &other.property, sizeof m.property) != 0);
        for (int p = 0; p < FV_TASTE_PROPERTIES; p++)
            CHECK(p == m.main ? m.property[p] >= 0.6 && m.property[p] < 1
                              : m.property[p] >= 0 && m.property[p] < 0.3);
        kinds[m.main]++;
        fv_movie_name(i, name[i]);
        for (int k = 0; k < i; k++)
            CHECK(strcmp(name[i], name[k]) != 0);
    }
    for (int p = 0; p < FV_TASTE_PROPERTIES; p++)
        CHECK(kinds[p] > 40 && strlen(fv_property_name(p)) > 0);
}

static void ratings_follow_from_tastes(void)
{
    int liked = 0, against = 0, part[FV_MADE_PARTS] = {0};
    double noise = 0, square = 0;
    for (int n = 0; n < 600; n++) {
        fv_viewer v, again, other;
        bool seen[60] = {false};
        const fv_made_part who = (fv_made_part)(n % 3);
        fv_viewer_make(3, 60, who, (uint64_t)n, &v);
        fv_viewer_make(3, 60, who, (uint64_t)n, &again);
        fv_viewer_make(3, 60, (fv_made_part)((n + 1) % 3), (uint64_t)n, &other);
        CHECK(memcmp(v.pleasure, again.pleasure, sizeof v.pleasure) == 0);
        CHECK(memcmp(v.taste, other.taste, sizeof v.taste) != 0);
        for (int i = 0; i < FV_TASTE_RATED; i++) {
            fv_movie m;
            double sum = 0;
            CHECK(v.movie[i] >= 0 && v.movie[i] < 60 && !seen[v.movie[i]]);
            seen[v.movie[i]] = true;
            fv_movie_make(3, v.movie[i], &m);
            for (int p = 0; p < FV_TASTE_PROPERTIES; p++)
                sum += v.taste[p] * m.property[p];
            CHECK(fabs(v.pleasure[i] - sum) <= 0.2);
            CHECK_EQ(v.liked[i], v.pleasure[i] > 0);
            noise += v.pleasure[i] - sum;
            square += (v.pleasure[i] - sum) * (v.pleasure[i] - sum);
            liked += v.liked[i];
            against += v.liked[i] != (sum > 0);
            if (n == 0) part[fv_rating_part(i)]++;
        }
    }
    const double all = 600.0 * FV_TASTE_RATED;
    CHECK_NEAR(noise / all, 0, 0.005);
    CHECK_NEAR(square / all, 0.2 * 0.2 / 3, 0.0005); /* of a uniform one */
    CHECK_NEAR(liked / all, 0.5, 0.05);
    CHECK(against > 0.02 * all && against < 0.12 * all);
    CHECK(part[0] == FV_TASTE_HISTORY && part[1] == FV_TASTE_HELD_OUT && part[2] == part[1]);
}

/* ---- formulas ------------------------------------------------------------------------------- */

enum { D = 5 };

static fv_recipe *small_recipe(fv_ctx *in, bool attends, const run_setting *more)
{
    fv_recipe *recipe =
        run_recipe(in, (run_setting[]){{"train.task", "ratings"},
                                       {"recommender.form", attends ? "history" : "factors"},
                                       {"recommender.width", "5"},
                                       {"ratings.movies", "60"},
                                       {"ratings.seed", "3"},
                                       {"data.train_count", "100"},
                                       {"data.valid_count", "20"},
                                       {"train.batch_examples", "16"},
                                       {"train.optimizer", "adam"},
                                       {"train.lr", "0.01"},
                                       {0}});
    run_set(in, recipe, more);
    return recipe;
}

static float *weight(fv_model *model, const char *name)
{
    fv_tensor *t = fv_params_find(fv_model_params(model), name);
    CHECK(t != NULL);
    return t ? tensor_floats(ctx, t) : NULL;
}

/* Row `from` of a matrix times x, and a bias. */
static double apply(const float *w, const float *b, const double *x, int row)
{
    double y = (double)b[row];
    for (int k = 0; k < D; k++)
        y += (double)w[row * D + k] * x[k];
    return y;
}

typedef struct tables {
    float *movie, *movie_bias, *viewer, *viewer_bias, *value, *value_bias, *read, *read_bias;
} tables;

static double plain_score(const tables *t, const fv_taste_row *r, int64_t c, bool attends)
{
    double x[D], z[D] = {0}, share[FV_TASTE_HISTORY], total = 0;
    double score = (double)t->movie_bias[r->candidate[c]];
    for (int d = 0; d < D; d++)
        x[d] = (double)t->movie[r->candidate[c] * D + d];
    if (!attends) {
        for (int d = 0; d < D; d++)
            score += x[d] * (double)t->viewer[r->viewer * D + d];
        return score + (double)t->viewer_bias[r->viewer];
    }
    for (int64_t k = 0; k < r->history_count; k++) {
        double e = 0;
        for (int d = 0; d < D; d++)
            e += x[d] * (double)t->movie[r->history[k] * D + d] / sqrt(D);
        share[k] = r->history[k] == r->candidate[c] ? 0 : exp(e);
        total += share[k];
    }
    for (int64_t k = 0; k < r->history_count; k++) {
        double m[D];
        CHECK_NEAR((double)r->weights[c][k], share[k] / total, 1e-5);
        for (int d = 0; d < D; d++)
            m[d] = (double)t->movie[r->history[k] * D + d];
        for (int d = 0; d < D; d++)
            z[d] += share[k] / total * (double)r->rating[k] * apply(t->value, t->value_bias, m, d);
    }
    for (int d = 0; d < D; d++)
        score += z[d] * apply(t->read, t->read_bias, x, d);
    return score;
}

static double plain_loss(const tables *t, const fv_taste_row *r, bool attends)
{
    double loss = 0;
    for (int64_t c = 0; c < r->count; c++) {
        const double s = plain_score(t, r, c, attends);
        CHECK_NEAR((double)r->score[c], s, 1e-4);
        loss += log(1 + exp(r->liked[c] > 0 ? -s : s));
        for (int d = 0; d < D; d++) {
            const double m = (double)t->movie[r->candidate[c] * D + d];
            const double u = attends ? 0 : (double)t->viewer[r->viewer * D + d];
            loss += 0.25 * (m * m + u * u);
        }
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

static void forms_follow_their_formulas(void)
{
    for (int attends = 0; attends < 2; attends++) {
        fv_recipe *recipe = small_recipe(
            ctx, attends,
            (run_setting[]){{"recommender.penalty", "0.25"}, {"train.steps", "20"}, {0}});
        fv_run *run = NULL;
        fv_taste_batch b;
        double sum = 0;
        CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub(attends ? "plain-h" : "plain-f"), NULL,
                                    NULL, &run));
        CHECK_OK(ctx, fv_run_train(run)); /* so that no bias is 0 */
        fv_model *model = fv_run_model(run);
        tables t = {.movie = weight(model, "movies.weight"),
                    .movie_bias = weight(model, "movies.bias")};
        if (attends) {
            t.value = weight(model, "value.weight");
            t.value_bias = weight(model, "value.bias");
            t.read = weight(model, "readout.weight");
            t.read_bias = weight(model, "readout.bias");
        } else {
            t.viewer = weight(model, "viewers.weight");
            t.viewer_bias = weight(model, "viewers.bias");
        }
        CHECK_OK(ctx, fv_taste_batch_create(ctx, 4, &b));
        for (int i = 0; i < 4; i++) { /* rows of different lengths */
            fv_viewer v;
            fv_viewer_make(3, 60, FV_MADE_TRAIN, (uint64_t)i, &v);
            fv_taste_batch_add(&b, i, &v, FV_MADE_TRAIN);
            b.row[i].history_count -= 3 * i;
            b.row[i].count -= 5 * i;
        }
        CHECK_OK(ctx, fv_taste_batch_rate(&b, model));
        for (int i = 0; i < 4; i++) {
            const double plain = plain_loss(&t, &b.row[i], attends);
            const fv_batch one = fv_taste_batch_of(&b, i, 1);
            CHECK_NEAR(loss_of(model, &one), plain, 1e-4 * plain);
            sum += plain;
        }
        const fv_batch all = fv_taste_batch_of(&b, 0, 4);
        CHECK_NEAR(loss_of(model, &all), sum, 1e-4 * sum);
        fv_taste_batch_free(&b);
        float *const list[] = {t.movie, t.movie_bias, t.viewer, t.viewer_bias,
                               t.value, t.value_bias, t.read,   t.read_bias};
        for (size_t i = 0; i < sizeof list / sizeof *list; i++)
            free(list[i]);
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
    }
}

/* ---- metrics -------------------------------------------------------------------------------- */

static double metric(const fv_metric *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) return list[i].value;
    return NAN;
}

enum { VIEWERS = 100, RATINGS = VIEWERS * FV_TASTE_HELD_OUT };

/* The share of right guesses and of pairs in order. */
static void count_plain(const double *score, const bool *liked, double *right, double *ordered)
{
    double pairs = 0;
    *right = *ordered = 0;
    for (int i = 0; i < RATINGS; i++) {
        *right += (score[i] > 0) == liked[i];
        for (int k = 0; k < RATINGS; k++) {
            if (!liked[i] || liked[k]) continue;
            pairs++;
            *ordered += score[i] > score[k] ? 1 : score[i] == score[k] ? 0.5 : 0;
        }
    }
    *right /= RATINGS;
    *ordered /= pairs;
}

static double mean_of(int viewer, int movie)
{
    double liked = 0, all = 0;
    for (int n = 0; n < VIEWERS; n++) {
        fv_viewer v;
        if (viewer >= 0 && n != viewer) continue;
        fv_viewer_make(3, 60, FV_MADE_TRAIN, (uint64_t)n, &v);
        for (int i = 0; i < FV_TASTE_HISTORY; i++) {
            if (movie >= 0 && v.movie[i] != movie) continue;
            liked += v.liked[i];
            all++;
        }
    }
    return liked / all;
}

static void metrics_are_those_of_a_plain_count(void)
{
    static double score[RATINGS], means[RATINGS];
    static bool liked[RATINGS];
    double movie_mean[60], right = 0, ordered = 0, best = 0, same = 0, history = 0, again = 0;
    fv_metric list[FV_MAX_METRICS];
    fv_taste_batch b;
    fv_run *run = NULL;
    fv_movie movie[60];
    int count = 0;
    fv_recipe *recipe =
        small_recipe(ctx, true, (run_setting[]){{"train.steps", "60"}, {"eval.part", "test"}, {0}});
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("metrics"), NULL, NULL, &run));
    CHECK_OK(ctx, fv_run_train(run));
    CHECK_OK(ctx, fv_run_evaluate(run, list, &count));
    CHECK_OK(ctx, fv_taste_batch_create(ctx, VIEWERS, &b));
    const double all = mean_of(-1, -1);
    for (int i = 0; i < 60; i++) {
        fv_movie_make(3, i, &movie[i]);
        movie_mean[i] = mean_of(-1, i);
    }
    for (int n = 0; n < VIEWERS; n++) {
        fv_viewer v;
        fv_viewer_make(3, 60, FV_MADE_TRAIN, (uint64_t)n, &v);
        fv_taste_batch_add(&b, n, &v, FV_MADE_TEST);
        for (int i = 0; i < FV_TASTE_HELD_OUT; i++) {
            const int at = FV_TASTE_HISTORY + FV_TASTE_HELD_OUT + i;
            liked[n * FV_TASTE_HELD_OUT + i] = v.liked[at];
            means[n * FV_TASTE_HELD_OUT + i] = mean_of(n, -1) + movie_mean[v.movie[at]] - all - 0.5;
            best += (fv_viewer_pleasure(&v, &movie[v.movie[at]]) > 0) == v.liked[at];
        }
    }
    CHECK_OK(ctx, fv_taste_batch_rate(&b, fv_run_model(run)));
    for (int n = 0; n < VIEWERS; n++)
        for (int i = 0; i < FV_TASTE_HELD_OUT; i++) {
            const fv_taste_row *r = &b.row[n];
            score[n * FV_TASTE_HELD_OUT + i] = (double)r->score[i];
            for (int k = 0; k < FV_TASTE_HISTORY; k++) {
                const bool kin = movie[r->history[k]].main == movie[r->candidate[i]].main;
                same += kin ? (double)r->weights[i][k] / RATINGS : 0;
                history += kin ? 1.0 / FV_TASTE_HISTORY / RATINGS : 0;
            }
        }
    count_plain(score, liked, &right, &ordered);
    CHECK_NEAR(metric(list, count, "accuracy"), right, 1e-9);
    CHECK_NEAR(metric(list, count, "auc"), ordered, 1e-9);
    count_plain(means, liked, &right, &ordered);
    CHECK_NEAR(metric(list, count, "means"), right, 1e-9);
    CHECK_NEAR(metric(list, count, "means_auc"), ordered, 1e-9);
    CHECK_NEAR(metric(list, count, "best"), best / RATINGS, 1e-9);
    CHECK_NEAR(metric(list, count, "same_kind"), same, 1e-6);
    CHECK_NEAR(metric(list, count, "in_history"), history, 1e-9);
    /* new viewers: all default 200 of the test part */
    b.count = 0;
    for (int n = 0; n < 200; n++) {
        fv_viewer v;
        fv_viewer_make(3, 60, FV_MADE_TEST, (uint64_t)n, &v);
        b.count = 0;
        fv_taste_batch_add(&b, n, &v, FV_MADE_TEST);
        CHECK_OK(ctx, fv_taste_batch_rate(&b, fv_run_model(run)));
        for (int i = 0; i < FV_TASTE_HELD_OUT; i++)
            again += (b.row[0].score[i] > 0) == (b.row[0].liked[i] > 0);
    }
    CHECK_NEAR(metric(list, count, "new_viewers"), again / (200 * FV_TASTE_HELD_OUT), 0.002);
    fv_taste_batch_free(&b);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static void both_forms_learn_more_than_means(void)
{
    for (int attends = 0; attends < 2; attends++) {
        fv_metric list[FV_MAX_METRICS];
        int count = 0;
        fv_run *run = NULL;
        fv_recipe *recipe =
            small_recipe(ctx, attends,
                         (run_setting[]){{"data.train_count", "600"},
                                         {"train.steps", "400"},
                                         {"train.batch_examples", "64"},
                                         {"recommender.width", "8"},
                                         {"recommender.penalty", attends ? "0.003" : "0.02"},
                                         {0}});
        CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub(attends ? "history" : "factors"), NULL,
                                    NULL, &run));
        CHECK_OK(ctx, fv_run_train(run));
        CHECK_OK(ctx, fv_run_evaluate(run, list, &count));
        const double accuracy = metric(list, count, "accuracy"),
                     means = metric(list, count, "means"), best = metric(list, count, "best");
        if (!(accuracy > means + 0.08 && accuracy < best && metric(list, count, "auc") > 0.9))
            test_failed(__FILE__, __LINE__, "form %d: accuracy %.3f, means %.3f, best %.3f",
                        attends, accuracy, means, best);
        CHECK_EQ(count, attends ? 8 : 5);
        if (attends) {
            const double looks = metric(list, count, "same_kind"),
                         share = metric(list, count, "in_history"),
                         fresh = metric(list, count, "new_viewers");
            if (!(looks > share + 0.04 && fresh > means + 0.08))
                test_failed(__FILE__, __LINE__, "looks %.3f of %.3f, new viewers %.3f", looks,
                            share, fresh);
        }
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
    }
}

static void resumed_runs_have_the_same_bits(void)
{
    for (int attends = 0; attends < 2; attends++) {
        char a[512], b[512];
        snprintf(a, sizeof a, "%s", folder_sub(attends ? "whole-h" : "whole-f"));
        snprintf(b, sizeof b, "%s", folder_sub(attends ? "parts-h" : "parts-f"));
        for (int part = 0; part < 3; part++) {
            fv_ctx *in = run_context(1, 1);
            fv_recipe *recipe = small_recipe(in, attends,
                                             (run_setting[]){{"train.steps", "20"},
                                                             {"train.eval_every", "5"},
                                                             {"train.accumulate", "2"},
                                                             {0}});
            run_watch w = {.stop = part == 1 ? 8 : 0};
            CHECK_EQ(run_text(in, recipe, part == 0 ? a : b, &w),
                     part == 1 ? FV_ERR_CANCELLED : FV_OK);
        }
        CHECK(file_same_in(a, b, "model.safetensors"));
    }
}

static void refused(const run_setting *settings, const char *named)
{
    static int number;
    char name[32];
    fv_run *run = NULL;
    fv_recipe *recipe = small_recipe(ctx, true, settings);
    snprintf(name, sizeof name, "refused-%d", number++);
    CHECK_EQ(fv_run_create(ctx, recipe, folder_sub(name), NULL, NULL, &run), FV_ERR_ARGUMENT);
    if (!strstr(fv_ctx_message(ctx), named))
        test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx), named);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
}

static void wrong_settings_are_named(void)
{
    static const run_setting bad[] = {{"ratings.movies", "39"},
                                      {"ratings.movies", "401"},
                                      {"recommender.form", "mean"},
                                      {"recommender.width", "0"},
                                      {"recommender.penalty", "-1"}};
    fv_recipe *recipe = small_recipe(ctx, true, (run_setting[]){{0}});
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(fv_recipe_set(recipe, bad[i].key, bad[i].value), FV_ERR_ARGUMENT);
        CHECK(strstr(fv_ctx_message(ctx), bad[i].key) != NULL);
    }
    fv_recipe_destroy(&recipe);
    refused((run_setting[]){{"data.train_count", "1000001"}, {0}}, "data.train_count");
    refused((run_setting[]){{"train.batch_examples", "16777217"}, {0}},
            "expected at most 16777216");
    refused((run_setting[]){{"train.batch_examples", "4194305"}, {"train.accumulate", "4"}, {0}},
            "expected at most 4194304");
    refused((run_setting[]){{"model.kind", "walker"}, {0}}, "walker");
    refused((run_setting[]){{"train.task", "walk"}, {"model.kind", "recommender"}, {0}},
            "recommender");
}

/* ---- recommendations ------------------------------------------------------------------------ */

/* Probability and weights of each proposal are those of that movie. */
static void check_scores(fv_model *model, const fv_viewer *v, const fv_recommendation *r)
{
    fv_taste_batch b;
    CHECK_OK(ctx, fv_taste_batch_create(ctx, 1, &b));
    fv_taste_batch_add(&b, 7, v, FV_MADE_TRAIN);
    fv_taste_unrated(&b.row[0], 60);
    CHECK_OK(ctx, fv_taste_batch_rate(&b, model));
    for (int64_t i = 0; i < r->count; i++)
        for (int64_t c = 0; c < b.row[0].count; c++) {
            char name[FV_MOVIE_NAME];
            fv_movie_name((int)b.row[0].candidate[c], name);
            if (strcmp(name, r->best[i].name) != 0) continue;
            CHECK_NEAR(r->best[i].value, 1 / (1 + exp(-(double)b.row[0].score[c])), 1e-9);
            for (int k = 0; r->best[i].weights && k < FV_TASTE_HISTORY; k++)
                CHECK(r->best[i].weights[k] == b.row[0].weights[c][k]);
        }
    fv_taste_batch_free(&b);
}

static void proposals_are_unseen_and_in_order(void)
{
    for (int attends = 0; attends < 2; attends++) {
        fv_model *model = NULL;
        fv_recommendation *r = NULL;
        CHECK_OK(ctx, fv_model_open(ctx, folder_path(attends ? "history" : "factors"), &model));
        if (!model) return;
        CHECK(fv_model_can(model, FV_CAN_RATE));
        run_check_sites(model, attends);
        CHECK_OK(ctx, fv_recommend(model, 7, 10, &r));
        fv_viewer v;
        fv_viewer_make(3, 60, FV_MADE_TRAIN, 7, &v);
        if (r) {
            CHECK(!r->is_new && r->count == 10 && r->history_count == FV_TASTE_HISTORY);
            check_scores(model, &v, r);
            for (int i = 0; i < r->history_count; i++) {
                char name[FV_MOVIE_NAME];
                fv_movie_name(v.movie[i], name);
                CHECK_STR(r->history[i].name, name);
                CHECK_EQ(r->history[i].liked, v.liked[i]);
                for (int k = 0; k < r->count; k++)
                    CHECK(strcmp(r->best[k].name, name) != 0);
            }
            for (int i = 0; i < r->count; i++) {
                double sum = 0;
                CHECK(i == 0 || r->best[i].value <= r->best[i - 1].value);
                CHECK(r->best[i].value >= 0 && r->best[i].value <= 1);
                for (int k = 0; attends && k < r->history_count; k++)
                    sum += (double)r->best[i].weights[k];
                CHECK_NEAR(sum, attends, 1e-5);
            }
            CHECK_EQ(r->ideal_count, attends ? 0 : 3);
            for (int i = 0; i < r->ideal_count; i++)
                CHECK(r->ideal[i].value <= 1.00001 &&
                      (i == 0 || r->ideal[i].value <= r->ideal[i - 1].value));
        }
        fv_recommendation_free(&r);
        CHECK_OK(ctx, fv_recommend(model, 599, 1000, &r)); /* as many as there are */
        if (r) CHECK(r->count == 60 - FV_TASTE_HISTORY && !r->is_new);
        fv_recommendation_free(&r);
        const fv_status status = fv_recommend(model, 602, 3, &r);
        CHECK_EQ(status, attends ? FV_OK : FV_ERR_ARGUMENT);
        fv_viewer_make(3, 60, FV_MADE_TEST, 2, &v);
        if (r) CHECK(r->is_new);
        for (int i = 0; r && i < r->history_count; i++) {
            char name[FV_MOVIE_NAME];
            fv_movie_name(v.movie[i], name);
            CHECK_STR(r->history[i].name, name);
        }
        fv_recommendation_free(&r);
        CHECK_EQ(fv_recommend(model, -1, 3, &r), FV_ERR_ARGUMENT);
        CHECK_EQ(fv_recommend(model, 1, 0, &r), FV_ERR_ARGUMENT);
        CHECK(r == NULL);
        fv_model_close(&model);
    }
}

static fv_status open_and_recommend(fv_ctx *in, const void *folder)
{
    fv_model *model = NULL;
    fv_recommendation *r = NULL;
    fv_status s = fv_model_open(in, folder_path(folder), &model);
    if (s == FV_OK) s = fv_recommend(model, 1, 5, &r);
    CHECK_EQ(s == FV_OK, r != NULL);
    fv_recommendation_free(&r);
    fv_model_close(&model);
    return s;
}

static void failing_memory_is_reported(void)
{
    CHECK(failing_everywhere(open_and_recommend, "history", 40) > 50);
    CHECK(failing_everywhere(open_and_recommend, "factors", 40) > 50);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(movies_have_one_main_property_and_a_name);
    RUN(ratings_follow_from_tastes);
    RUN(forms_follow_their_formulas);
    RUN(metrics_are_those_of_a_plain_count);
    RUN(both_forms_learn_more_than_means);
    RUN(resumed_runs_have_the_same_bits);
    RUN(wrong_settings_are_named);
    RUN(proposals_are_unseen_and_in_order);
    RUN(failing_memory_is_reported);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
