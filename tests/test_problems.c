/*
 * Bandits and decision processes: how they are drawn, and reference policies against exact dynamic
 * programming.
 */
#include "data/problems.h"
#include "support/runs.h"
#include "support/test.h"

static const fv_trial_config arms = {
    .kind = FV_TRIAL_BANDIT, .actions = 2, .states = 1, .horizon = 1, .episodes = 6, .seed = 3};
static const fv_trial_config process = {
    .kind = FV_TRIAL_MDP, .actions = 2, .states = 3, .horizon = 4, .episodes = 5, .seed = 3};

/* ---- problems ------------------------------------------------------------------------------- */

static void problems_follow_from_their_number(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_problem p, q;
    CHECK_OK(ctx, fv_problem_create(ctx, &process, &p));
    CHECK_OK(ctx, fv_problem_create(ctx, &process, &q));
    fv_problem_draw(&p, FV_GAME_TEST, 7);
    fv_problem_draw(&q, FV_GAME_TEST, 7);
    CHECK(memcmp(p.mean, q.mean, 6 * sizeof *p.mean) == 0);
    CHECK(memcmp(p.chance, q.chance, 18 * sizeof *p.chance) == 0);
    const fv_outcome a = fv_problem_act(&p, 2, 5, 1, 0), b = fv_problem_act(&q, 2, 5, 1, 0);
    CHECK(a.reward == b.reward && a.next == b.next && a.expected == p.mean[2]);
    CHECK(fv_problem_act(&p, 3, 5, 1, 0).reward != a.reward);
    CHECK(fv_problem_act(&p, 2, 6, 1, 0).reward != a.reward);
    CHECK_EQ(fv_problem_act(&p, 0, 3, 2, 1).next, 0); /* the next episode's first state */
    fv_problem_draw(&q, FV_GAME_TEST, 8);
    CHECK(p.mean[0] != q.mean[0]);
    fv_problem_draw(&q, FV_GAME_VALID, 7);
    CHECK(p.mean[0] != q.mean[0]);
    fv_problem_free(&p);
    fv_problem_free(&q);
    fv_ctx_destroy(&ctx);
}

/* Means and variances of what is drawn, within four standard errors. */
static void draws_have_their_distributions(void)
{
    enum { MANY = 4000 };
    fv_ctx *ctx = run_context(1, 1);
    fv_problem p, b;
    double mean = 0, square = 0, pay = 0, paid = 0, reward = 0, noise = 0, chance = 0;
    int64_t moved[3] = {0};
    CHECK_OK(ctx, fv_problem_create(ctx, &process, &p));
    CHECK_OK(ctx, fv_problem_create(ctx, &arms, &b));
    for (int64_t i = 0; i < MANY; i++) {
        fv_problem_draw(&p, FV_GAME_TRAIN, i);
        fv_problem_draw(&b, FV_GAME_TRAIN, i);
        double sum = 0;
        for (int k = 0; k < 3; k++)
            sum += p.chance[3 * 4 + k];
        CHECK_NEAR(sum, 1, 1e-12);
        mean += p.mean[1] / MANY;
        square += (p.mean[1] - 1) * (p.mean[1] - 1) / MANY;
        chance += p.chance[1] / MANY;
        pay += b.mean[1] / MANY;
        CHECK(b.mean[1] >= 0 && b.mean[1] < 1);
        paid += fv_problem_act(&b, 0, 0, 0, 1).reward / MANY;
    }
    CHECK_NEAR(mean, 1, 4 / sqrt(MANY));
    CHECK_NEAR(square, 1, 4 * sqrt(2.0 / MANY));
    CHECK_NEAR(chance, 1.0 / 3, 4 * 0.24 / sqrt(MANY));
    CHECK_NEAR(pay, 0.5, 4 * 0.29 / sqrt(MANY));
    CHECK_NEAR(paid, pay, 4 * 0.5 / sqrt(MANY));
    for (int64_t i = 0; i < MANY; i++) {
        const fv_outcome o = fv_problem_act(&p, i, 0, 1, 1);
        reward += (o.reward - o.expected) / MANY;
        noise += (o.reward - o.expected) * (o.reward - o.expected) / MANY;
        moved[o.next]++;
    }
    CHECK_NEAR(reward, 0, 4 / sqrt(MANY));
    CHECK_NEAR(noise, 1, 4 * sqrt(2.0 / MANY));
    for (int k = 0; k < 3; k++) {
        const double share = p.chance[9 + k];
        CHECK_NEAR((double)moved[k] / MANY, share, 4 * sqrt(share * (1 - share) / MANY) + 1e-9);
    }
    fv_problem_free(&p);
    fv_problem_free(&b);
    fv_ctx_destroy(&ctx);
}

/* ---- reference policies --------------------------------------------------------------------- */

/* The expected reward of the best learner on two arms with uniform priors, `left` pulls to go. */
static double best_learner(const int n[2], const int s[2], int left)
{
    double best = 0;
    for (int a = 0; a < 2 && left > 0; a++) {
        const double p = (s[a] + 1.0) / (n[a] + 2.0);
        const int tried[2] = {n[0] + (a == 0), n[1] + (a == 1)},
                  won[2] = {s[0] + (a == 0), s[1] + (a == 1)};
        const double value = p * (1 + best_learner(tried, won, left - 1)) +
                             (1 - p) * best_learner(tried, s, left - 1);
        if (value > best) best = value;
    }
    return best;
}

/* The mean over test problems; *error: its standard error. */
static double mean_of(fv_ctx *ctx, const fv_trial_config *cfg, const char *name, int count,
                      double *error)
{
    fv_reference *r = NULL;
    double sum = 0, squares = 0;
    CHECK_OK(ctx, fv_reference_create(ctx, cfg, name, &r));
    for (int i = 0; i < count && r; i++) {
        double reward = 0;
        CHECK_OK(ctx, fv_reference_play(r, FV_GAME_TEST, i, &reward));
        sum += reward;
        squares += reward * reward;
    }
    fv_reference_destroy(&r);
    const double mean = sum / count;
    *error = sqrt((squares / count - mean * mean) / count);
    return mean;
}

/* With two arms, the index policy comes within half a percent of exact dynamic programming. */
static void the_index_is_nearly_the_best(void)
{
    enum { MANY = 20000, PULLS = 10 };
    static const int none[2] = {0};
    fv_ctx *ctx = run_context(1, 1);
    fv_trial_config cfg = arms;
    cfg.episodes = PULLS;
    const double best = best_learner(none, none, PULLS);
    double error = 0, at[7];
    for (int i = 0; i < 7; i++) {
        at[i] = mean_of(ctx, &cfg, fv_reference_name(FV_TRIAL_BANDIT, i), MANY, &error);
        printf("%-10s %.4f +- %.4f, the best learner %.4f\n", fv_reference_name(FV_TRIAL_BANDIT, i),
               at[i], error, best);
        if (i == 0) CHECK_NEAR(at[0], best, 4 * error + 0.005 * best);
    }
    /* gittins, knowledge, ucb, thompson, greedy, random, optimal */
    CHECK(at[0] > at[4] && at[4] > at[3] && at[4] > at[2] && at[3] > at[5] && at[2] > at[5]);
    CHECK(at[1] > at[4] && at[1] < best + 4 * error);
    CHECK_NEAR(at[5], PULLS * 0.5, 5 * error);
    CHECK_NEAR(at[6], PULLS * 2.0 / 3, 5 * error);
    CHECK(!fv_reference_name(FV_TRIAL_BANDIT, 7) && !fv_reference_name(FV_TRIAL_BANDIT, -1));
    fv_ctx_destroy(&ctx);
}

/*
 * 10 pulls left. Means 1/2, 3/5, 1/4: a win of the first makes it 2/3, so that the best is
 * (2/3 + 3/5) / 2 = 19/30; the second stays the best, 3/5 2/3 + 2/5 1/2 = 3/5; the third cannot
 * become the best. Means 3/5, 2/3: after a loss of the second the first is the best,
 * 2/3 3/4 + 1/3 3/5 = 7/10.
 */
static void costs_count_what_a_pull_teaches(void)
{
    double cost[3];
    fv_bandit_costs(3, (int64_t[]){0, 3, 2}, (int64_t[]){0, 2, 0}, 10, cost);
    CHECK_NEAR(cost[0], 0.1 - 10 / 30.0, 1e-12);
    CHECK_NEAR(cost[1], 0, 1e-12);
    CHECK_NEAR(cost[2], 0.35, 1e-12);
    fv_bandit_costs(2, (int64_t[]){3, 1}, (int64_t[]){2, 1}, 10, cost);
    CHECK_NEAR(cost[0], 1 / 15.0, 1e-12);
    CHECK_NEAR(cost[1], -10 / 30.0, 1e-12);
    fv_bandit_costs(2, (int64_t[]){3, 1}, (int64_t[]){2, 1}, 0, cost);
    CHECK_NEAR(cost[1], 0, 1e-12);
    /* two arms that look best, 1/2: a win makes one 2/3, a loss leaves the other */
    fv_bandit_costs(3, (int64_t[]){1, 0, 0}, (int64_t[]){0, 0, 0}, 6, cost);
    CHECK_NEAR(cost[1], -6 / 12.0, 1e-12);
    CHECK_NEAR(cost[2], -6 / 12.0, 1e-12);
}

enum { COURSE = 4, COURSE_ARMS = 3 };

/* What a policy that depends on all counts is expected to pay from here on, and to win. */
static void follow(int64_t pulls[COURSE_ARMS], int64_t wins[COURSE_ARMS], int64_t left,
                   double *costs, double *reward)
{
    double cost[COURSE_ARMS], p[COURSE_ARMS], all = 0;
    *costs = *reward = 0;
    if (left == 0) return;
    fv_bandit_costs(COURSE_ARMS, pulls, wins, left - 1, cost);
    for (int a = 0; a < COURSE_ARMS; a++)
        all += p[a] = 1.1 + sin((double)(7 * a + 3 * pulls[a] + 5 * wins[(a + 1) % COURSE_ARMS]));
    for (int a = 0; a < COURSE_ARMS; a++) {
        const double mean = ((double)wins[a] + 1) / ((double)pulls[a] + 2);
        double after[2], later[2];
        pulls[a]++;
        follow(pulls, wins, left - 1, &after[0], &later[0]);
        wins[a]++;
        follow(pulls, wins, left - 1, &after[1], &later[1]);
        wins[a]--;
        pulls[a]--;
        *costs += p[a] / all * (cost[a] + mean * after[1] + (1 - mean) * after[0]);
        *reward += p[a] / all * (mean + mean * later[1] + (1 - mean) * later[0]);
    }
}

/* Learning from the costs is learning from the rewards, whatever the policy. */
static void costs_add_up_to_the_reward(void)
{
    int64_t pulls[COURSE_ARMS] = {0}, wins[COURSE_ARMS] = {0};
    double costs, reward;
    follow(pulls, wins, COURSE, &costs, &reward);
    CHECK(reward > 1.5 && reward < 2.5);
    CHECK_NEAR(costs, COURSE / 2.0 - reward, 1e-12);
}

/* Problem `number`, played by the lowest cost. */
static double play_by_costs(fv_ctx *ctx, const fv_trial_config *cfg, int64_t number)
{
    int64_t pulls[2] = {0}, wins[2] = {0};
    double cost[2], sum = 0;
    fv_problem p;
    CHECK_OK(ctx, fv_problem_create(ctx, cfg, &p));
    fv_problem_draw(&p, FV_GAME_TEST, number);
    for (int64_t t = 0; t < cfg->episodes; t++) {
        fv_bandit_costs(2, pulls, wins, cfg->episodes - 1 - t, cost);
        const int a = cost[1] < cost[0];
        const fv_outcome o = fv_problem_act(&p, 0, t, 0, a);
        pulls[a]++;
        wins[a] += o.reward > 0;
        sum += o.expected;
    }
    fv_problem_free(&p);
    return sum;
}

static void the_knowledge_policy_takes_the_lowest_cost(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_reference *r = NULL;
    fv_trial_config cfg = arms;
    cfg.episodes = 20;
    CHECK_OK(ctx, fv_reference_create(ctx, &cfg, "knowledge", &r));
    for (int64_t i = 0; i < 100 && r; i++) {
        double reward = 0;
        CHECK_OK(ctx, fv_reference_play(r, FV_GAME_TEST, i, &reward));
        CHECK_NEAR(reward, play_by_costs(ctx, &cfg, i), 1e-12);
    }
    fv_reference_destroy(&r);
    fv_ctx_destroy(&ctx);
}

/* The best expected reward from a state, by looking at every course. */
static double best_course(const fv_problem *p, int64_t state, int64_t left)
{
    const fv_trial_config *c = &p->cfg;
    double best = left > 0 ? -INFINITY : 0;
    for (int64_t a = 0; a < c->actions && left > 0; a++) {
        double value = p->mean[state * c->actions + a];
        for (int64_t k = 0; k < c->states; k++)
            value +=
                p->chance[(state * c->actions + a) * c->states + k] * best_course(p, k, left - 1);
        if (value > best) best = value;
    }
    return best;
}

/* Regrets of every step, from the best course after each action. */
static void check_regrets(const fv_problem *p)
{
    const fv_trial_config *c = &p->cfg;
    for (int64_t i = 0; i < c->horizon * c->states * c->actions; i++) {
        const int64_t a = i % c->actions, s = i / c->actions % c->states,
                      left = c->horizon - i / c->actions / c->states;
        double value = p->mean[s * c->actions + a];
        for (int64_t k = 0; k < c->states; k++)
            value += p->chance[(s * c->actions + a) * c->states + k] * best_course(p, k, left - 1);
        const double regret = best_course(p, s, left) - value;
        CHECK_NEAR(p->regret[i], regret, 1e-9);
        CHECK_NEAR(fv_problem_act(p, 0, 2 * c->horizon - left, s, a).regret, regret, 1e-9);
    }
}

static void plans_are_the_best(void)
{
    enum { MANY = 1500 };
    fv_ctx *ctx = run_context(1, 1);
    fv_problem p;
    double sum = 0, error = 0;
    CHECK_OK(ctx, fv_problem_create(ctx, &process, &p));
    for (int i = 0; i < MANY; i++) {
        fv_problem_draw(&p, FV_GAME_TEST, i);
        sum += best_course(&p, 0, process.horizon) * (double)process.episodes / MANY;
        if (i < 20) check_regrets(&p);
    }
    const double optimal = mean_of(ctx, &process, "optimal", MANY, &error),
                 sampled = mean_of(ctx, &process, "psrl", MANY, &error),
                 random = mean_of(ctx, &process, "random", MANY, &error);
    /* what is left is the noise of the transitions */
    CHECK_NEAR(optimal, sum, 0.02 * sum);
    CHECK(sampled > random + 6 * error && sampled < optimal - 6 * error);
    CHECK_NEAR(random, 20, 5 * error);
    fv_problem_free(&p);
    fv_ctx_destroy(&ctx);
}

/* With two states and many episodes, posterior sampling finds the best action over time. */
static void posterior_sampling_converges(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_trial_config cfg = process;
    double error = 0;
    cfg.states = 2;
    cfg.episodes = 200;
    const double optimal = mean_of(ctx, &cfg, "optimal", 100, &error),
                 sampled = mean_of(ctx, &cfg, "psrl", 100, &error);
    CHECK(sampled > 0.95 * optimal && sampled < 1.01 * optimal);
    fv_ctx_destroy(&ctx);
}

static void wrong_configs_are_refused(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_reference *r = NULL;
    for (int i = 0; i < 7; i++) {
        fv_trial_config cfg = i < 3 ? arms : process;
        if (i == 0) cfg.actions = 1;
        if (i == 1) cfg.states = 2;
        if (i == 2) cfg.horizon = 2;
        if (i == 3) cfg.states = FV_TRIAL_MAX_STATES + 1;
        if (i == 4) cfg.episodes = FV_TRIAL_MAX_STEPS;
        if (i == 5) cfg.horizon = 0;
        if (i == 6) cfg.kind = (fv_trial_kind)2;
        CHECK_EQ(fv_reference_create(ctx, &cfg, "random", &r), FV_ERR_ARGUMENT);
    }
    CHECK_EQ(fv_reference_create(ctx, &arms, "psrl", &r), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "there is no policy 'psrl' for bandits") != NULL);
    fv_trial_config cfg = arms;
    cfg.episodes = 257;
    CHECK_EQ(fv_reference_create(ctx, &cfg, "gittins", &r), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "gittins: 257 pulls, expected at most 256") != NULL);
    CHECK(r == NULL);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(problems_follow_from_their_number);
    RUN(draws_have_their_distributions);
    RUN(the_index_is_nearly_the_best);
    RUN(costs_count_what_a_pull_teaches);
    RUN(costs_add_up_to_the_reward);
    RUN(the_knowledge_policy_takes_the_lowest_cost);
    RUN(plans_are_the_best);
    RUN(posterior_sampling_converges);
    RUN(wrong_configs_are_refused);
    return TEST_END();
}
