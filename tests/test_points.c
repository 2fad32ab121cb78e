/*
 * Problems over points: orientation and circle tests against arithmetic without rounding, hulls
 * against gift wrapping, triangulations against all triples, tours against all permutations, the
 * 1-tree bound below every tour, instances that depend on (seed, part, number) alone, and outputs
 * that stay valid whatever is chosen.
 */
#include "base/ctx.h"
#include "data/plane.h"
#include "data/points.h"
#include "support/failing.h"
#include "support/test.h"

static fv_ctx *ctx;

static fv_instance *draw(fv_problem problem, int64_t n, uint64_t number)
{
    const fv_points_source from = {.problem = problem, .min = n, .max = n, .seed = 5};
    fv_instance *set = NULL;
    CHECK_OK(ctx, fv_instance_draw(ctx, &from, FV_POINTS_TEST, number, &set));
    return set;
}

/* ---- exact tests ---------------------------------------------------------------------------- */

/* Coordinates k 2^-20: determinants fit into 128 bits. */
static int orientation_in_integers(const int64_t p[3][2])
{
    const __int128 det = (__int128)(p[0][0] - p[2][0]) * (p[1][1] - p[2][1]) -
                         (__int128)(p[0][1] - p[2][1]) * (p[1][0] - p[2][0]);
    return (det > 0) - (det < 0);
}

static int circle_in_integers(const int64_t p[4][2])
{
    __int128 x[3], y[3], lift[3], det = 0;
    for (int i = 0; i < 3; i++) {
        x[i] = p[i][0] - p[3][0];
        y[i] = p[i][1] - p[3][1];
        lift[i] = x[i] * x[i] + y[i] * y[i];
    }
    for (int i = 0; i < 3; i++)
        det += lift[i] * (x[(i + 1) % 3] * y[(i + 2) % 3] - x[(i + 2) % 3] * y[(i + 1) % 3]);
    return (det > 0) - (det < 0);
}

static uint64_t next_word(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static fv_xy as_point(const int64_t p[2], double unit)
{
    return (fv_xy){(double)p[0] * unit, (double)p[1] * unit};
}

/* Points near one line and near one circle, where doubles alone would often be wrong. */
static void signs_are_exact(void)
{
    uint64_t state = 1;
    int zeros = 0, circles = 0;
    for (int round = 0; round < 20000; round++) {
        const int64_t dx = (int64_t)(next_word(&state) % 4000),
                      dy = (int64_t)(next_word(&state) % 4000),
                      far = (int64_t)(next_word(&state) % 100000);
        int64_t p[4][2] = {
            {dx, dy}, {dx + 3 * far, dy + 2 * far}, {dx + 9 * far, dy + 6 * far}, {0, 0}};
        p[2][0] += (int64_t)(next_word(&state) % 3) - 1;
        const double unit = ldexp(1, -20);
        const int expected = orientation_in_integers((const int64_t(*)[2])p);
        zeros += expected == 0;
        CHECK_EQ(fv_orientation(as_point(p[0], unit), as_point(p[1], unit), as_point(p[2], unit)),
                 expected);
        /* (+-a, +-b) and (+-b, +-a) are on one circle around c */
        const int64_t a = (int64_t)(next_word(&state) % 300000),
                      b = (int64_t)(next_word(&state) % 300000);
        const int64_t off = (int64_t)(next_word(&state) % 3) - 1;
        int64_t q[4][2] = {
            {dx + a, dy + b}, {dx - b, dy + a}, {dx - a, dy - b}, {dx + b + off, dy - a}};
        const int inside = circle_in_integers((const int64_t(*)[2])q);
        circles += inside == 0;
        CHECK_EQ(fv_in_circle(as_point(q[0], unit), as_point(q[1], unit), as_point(q[2], unit),
                              as_point(q[3], unit)),
                 inside);
    }
    CHECK(zeros > 1000 && circles > 1000);
    /* differences that doubles round: 1 + 2^-52 and tiny numbers */
    const double tiny = ldexp(1, -60), e = ldexp(1, -52);
    CHECK_EQ(fv_orientation((fv_xy){0, 0}, (fv_xy){1 + e, 1 + e}, (fv_xy){2, 2}), 0);
    CHECK_EQ(fv_orientation((fv_xy){tiny, 0}, (fv_xy){1 + e, 1 + e}, (fv_xy){2, 2}), -1);
    CHECK_EQ(fv_orientation((fv_xy){-tiny, 0}, (fv_xy){1 + e, 1 + e}, (fv_xy){2, 2}), 1);
    CHECK_EQ(fv_in_circle((fv_xy){1, 0}, (fv_xy){0, 1}, (fv_xy){-1, 0}, (fv_xy){0, -1}), 0);
    CHECK_EQ(fv_in_circle((fv_xy){1, 0}, (fv_xy){0, 1}, (fv_xy){-1, 0}, (fv_xy){tiny, -1}), 0 - 1);
    CHECK_EQ(fv_in_circle((fv_xy){1, 0}, (fv_xy){0, 1}, (fv_xy){-1, 0}, (fv_xy){0, -1 + e}), 1);
}

/* ---- hulls ---------------------------------------------------------------------------------- */

/* Gift wrapping: from the smallest point, the next corner has all others on its left. */
static int64_t wrap(int64_t n, const float *points, int64_t *corners)
{
    int64_t first = 0, count = 0;
    for (int64_t i = 1; i < n; i++)
        if (fv_xy_compare(fv_xy_at(points, i), fv_xy_at(points, first)) < 0) first = i;
    int64_t at = first;
    do {
        corners[count++] = at;
        int64_t next = at == 0 ? 1 : 0;
        for (int64_t i = 0; i < n; i++) {
            if (i == at) continue;
            const int side =
                fv_orientation(fv_xy_at(points, at), fv_xy_at(points, next), fv_xy_at(points, i));
            if (side < 0 ||
                (side == 0 && fv_xy_distance(points, at, i) > fv_xy_distance(points, at, next)))
                next = i;
        }
        at = next;
    } while (at != first && count < n);
    return count;
}

static void hulls_are_those_of_gift_wrapping(void)
{
    int64_t corners[64];
    for (uint64_t number = 0; number < 300; number++) {
        fv_instance *set = draw(FV_PROBLEM_HULL, 3 + (int64_t)number % 50, number);
        if (!set) return;
        /* a coarse grid has equal coordinates and points on one line */
        if (number % 2)
            for (int64_t i = 0; i < 2 * set->n; i++)
                set->values[i] = floorf(set->values[i] * 64) + (float)(i / 2 % 7) / 8;
        int64_t count = 0;
        if (fv_problem_solve(ctx, FV_PROBLEM_HULL, set->n, set->values, 0, set->answer, &count,
                             NULL) == FV_OK) {
            CHECK_EQ(count, wrap(set->n, set->values, corners));
            CHECK(memcmp(corners, set->answer, (size_t)count * sizeof *corners) == 0);
            CHECK(fv_polygon_area(set->values, count, set->answer) > 0);
        }
        fv_instance_free(&set);
    }
}

/* ---- triangulations ------------------------------------------------------------------------- */

/* Whether no point is inside the circle of a triangle; *on: another one is on it. */
static bool is_empty(int64_t n, const float *points, int64_t a, int64_t b, int64_t c, bool *on)
{
    const bool left =
        fv_orientation(fv_xy_at(points, a), fv_xy_at(points, b), fv_xy_at(points, c)) > 0;
    for (int64_t i = 0; i < n; i++) {
        if (i == a || i == b || i == c) continue;
        const int side = fv_in_circle(fv_xy_at(points, a), fv_xy_at(points, left ? b : c),
                                      fv_xy_at(points, left ? c : b), fv_xy_at(points, i));
        if (side > 0) return false;
        if (side == 0) *on = true;
    }
    return true;
}

static void triangulations_are_those_of_all_triples(void)
{
    for (uint64_t number = 0; number < 200; number++) {
        fv_instance *set = draw(FV_PROBLEM_DELAUNAY, 3 + (int64_t)number % 14, number);
        if (!set) return;
        const float *p = set->values;
        int64_t expected = 0, rank[32];
        bool on = false;
        for (int64_t a = 0; a < set->n; a++)
            for (int64_t b = a + 1; b < set->n; b++)
                for (int64_t c = b + 1; c < set->n; c++) {
                    if (!is_empty(set->n, p, a, b, c, &on)) continue;
                    fv_points_score score;
                    const int64_t one[] = {a, b, c};
                    expected++;
                    CHECK_OK(ctx, fv_points_compare(ctx, FV_PROBLEM_DELAUNAY, set->n, p, one, 3,
                                                    set->answer, set->count, &score));
                    CHECK(score.covered == 1);
                }
        CHECK(!on);
        CHECK_EQ(3 * expected, set->count);
        /* ascending triples */
        fv_points_rank(FV_PROBLEM_DELAUNAY, set->n, p, rank);
        int64_t before = -1;
        for (int64_t i = 0; i < set->count; i += 3) {
            const int64_t *t = set->answer + i;
            CHECK(rank[t[0]] < rank[t[1]] && rank[t[1]] < rank[t[2]]);
            const int64_t key = (rank[t[0]] * 32 + rank[t[1]]) * 32 + rank[t[2]];
            CHECK(key > before);
            before = key;
        }
        fv_instance_free(&set);
    }
}

/* Grids have many points on one line and on one circle: every triangle must have an empty circle
 * and the areas must add up. */
static void degenerate_triangulations_cover_the_hull(void)
{
    float p[2 * 30];
    int64_t answer[3 * 60], hull[32], corners = 0, count = 0;
    for (int shape = 0; shape < 4; shape++) {
        const int64_t n = shape == 3 ? 12 : 30;
        for (int64_t i = 0; i < n; i++) {
            p[2 * i] = shape == 0 ? (float)(i % 6) : shape == 1 ? (float)(i % 2) : (float)(i % 5);
            p[2 * i + 1] = shape == 0   ? (float)(i / 6)
                           : shape == 1 ? (float)(i / 2)
                                        : (float)(i / 5);
            if (shape == 2) p[2 * i] += (float)(i / 5) / 2;
            if (shape == 3) { /* points of one line and one beside it */
                p[2 * i] = (float)i;
                p[2 * i + 1] = i == 7 ? 5 : (float)i;
            }
        }
        CHECK_OK(ctx, fv_problem_solve(ctx, FV_PROBLEM_HULL, n, p, 0, hull, &corners, NULL));
        CHECK_OK(ctx, fv_problem_solve(ctx, FV_PROBLEM_DELAUNAY, n, p, 0, answer, &count, NULL));
        double area = 0;
        bool on = false;
        for (int64_t i = 0; i < count; i += 3) {
            area += fabs(fv_polygon_area(p, 3, answer + i));
            CHECK(is_empty(n, p, answer[i], answer[i + 1], answer[i + 2], &on));
        }
        CHECK_NEAR(area, fv_polygon_area(p, corners, hull), 1e-9);
    }
}

/* ---- tours ---------------------------------------------------------------------------------- */

static void permute(int64_t n, const float *points, int64_t *tour, int64_t fixed, double *best)
{
    if (fixed == n) {
        *best = fmin(*best, fv_tour_length(n, points, tour));
        return;
    }
    for (int64_t i = fixed; i < n; i++) {
        const int64_t a = tour[fixed], b = tour[i];
        tour[fixed] = b, tour[i] = a;
        permute(n, points, tour, fixed + 1, best);
        tour[fixed] = a, tour[i] = b;
    }
}

static bool is_permutation(int64_t n, const int64_t *tour)
{
    bool seen[FV_POINTS_MAX] = {false};
    for (int64_t i = 0; i < n; i++) {
        if (tour[i] < 0 || tour[i] >= n || seen[tour[i]]) return false;
        seen[tour[i]] = true;
    }
    return true;
}

static void tours_are_the_shortest_of_all(void)
{
    for (uint64_t number = 0; number < 40; number++) {
        fv_instance *set = draw(FV_PROBLEM_TSP, 1 + (int64_t)number % 8, number);
        if (!set) return;
        int64_t tour[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        double best = INFINITY, bound = 0;
        permute(set->n, set->values, tour, 1, &best);
        CHECK(set->exact && is_permutation(set->n, set->answer));
        const double length = fv_tour_length(set->n, set->values, set->answer);
        CHECK_NEAR(length, best, 1e-12);
        CHECK_OK(ctx, fv_tour_bound(ctx, set->n, set->values, 100, &bound));
        CHECK(bound <= length + 1e-9);
        /* from the smallest point, counter-clockwise */
        for (int64_t i = 0; i < set->n; i++)
            CHECK(fv_xy_compare(fv_xy_at(set->values, set->answer[0]), fv_xy_at(set->values, i)) <=
                  0);
        CHECK(set->n < 3 || fv_polygon_area(set->values, set->n, set->answer) > 0);
        fv_instance_free(&set);
    }
}

/* Local search comes close to the optimum, and the bound close to both. */
static void local_tours_are_between_bound_and_a_few_percent(void)
{
    double local = 0, exact = 0, bound = 0;
    int64_t tour[60];
    for (uint64_t number = 0; number < 20; number++) {
        fv_instance *set = draw(FV_PROBLEM_TSP, 12, number);
        double one = 0;
        if (!set) return;
        CHECK_OK(ctx, fv_tour_local(ctx, set->n, set->values, 8, 1, tour));
        CHECK(is_permutation(set->n, tour));
        const double best = fv_tour_length(set->n, set->values, set->answer),
                     length = fv_tour_length(set->n, set->values, tour);
        CHECK(length >= best - 1e-9);
        CHECK_OK(ctx, fv_tour_bound(ctx, set->n, set->values, 200, &one));
        CHECK(one <= best + 1e-9);
        local += length, exact += best, bound += one;
        fv_instance_free(&set);
    }
    CHECK(local <= 1.005 * exact);
    CHECK(bound >= 0.98 * exact);
    fv_instance *large = draw(FV_PROBLEM_TSP, 60, 0);
    double least = 0;
    if (!large) return;
    CHECK(!large->exact && is_permutation(60, large->answer));
    CHECK_OK(ctx, fv_tour_bound(ctx, 60, large->values, 300, &least));
    const double length = fv_tour_length(60, large->values, large->answer);
    CHECK(least <= length && length <= 1.06 * least);
    fv_instance_free(&large);
}

/* ---- instances ------------------------------------------------------------------------------ */

static void instances_depend_on_seed_part_and_number(void)
{
    fv_instance *a = NULL, *b = NULL;
    fv_points_source from = {.problem = FV_PROBLEM_TSP, .min = 5, .max = 9, .seed = 3};
    int sizes[16] = {0};
    for (int change = 0; change < 4; change++) {
        fv_points_source other = from;
        if (change == 1) other.seed++;
        CHECK_OK(ctx, fv_instance_draw(ctx, &from, FV_POINTS_TRAIN, 8, &a));
        CHECK_OK(ctx, fv_instance_draw(ctx, &other, change == 2 ? FV_POINTS_TEST : FV_POINTS_TRAIN,
                                       change == 3 ? 9 : 8, &b));
        if (!a || !b) return;
        const int64_t n = a->n < b->n ? a->n : b->n;
        CHECK_EQ(memcmp(a->values, b->values, 2 * (size_t)n * sizeof(float)) == 0, change == 0);
        fv_instance_free(&a);
        fv_instance_free(&b);
    }
    for (uint64_t number = 0; number < 200; number++) {
        CHECK_OK(ctx, fv_instance_draw(ctx, &from, FV_POINTS_TRAIN, number, &a));
        if (!a) return;
        sizes[a->n]++;
        fv_instance_free(&a);
    }
    for (int n = 0; n < 16; n++)
        CHECK_EQ(sizes[n] > 10, n >= 5 && n <= 9);
    for (uint64_t number = 0; number < 50; number++) {
        fv_instance *set = draw(FV_PROBLEM_SORT, 1 + (int64_t)number * 2, number);
        if (!set) return;
        for (int64_t i = 0; i < set->n; i++) {
            const float value = set->values[i] * FV_SORT_VALUES;
            CHECK(value >= 0 && value < FV_SORT_VALUES && fabsf(value - rintf(value)) < 1e-4f);
            CHECK(i == 0 || set->values[set->answer[i - 1]] < set->values[set->answer[i]]);
        }
        fv_instance_free(&set);
    }
}

static void bad_inputs_are_refused(void)
{
    int64_t answer[16], count = 0;
    const struct {
        fv_problem problem;
        int64_t n;
        float values[8];
        const char *message;
    } bad[] = {
        {FV_PROBLEM_HULL, 2, {0, 0, 1, 1}, "2 inputs, expected 3 to 1024"},
        {FV_PROBLEM_TSP, 0, {0}, "0 inputs"},
        {FV_PROBLEM_SORT, FV_POINTS_MAX + 1, {0}, "1025 inputs"},
        {FV_PROBLEM_TSP, 2, {0, 0, NAN, 1}, "input 1"},
        {FV_PROBLEM_TSP, 2, {0, 0, 1, INFINITY}, "input 1"},
        {FV_PROBLEM_HULL, 3, {0, 0, 1, 1, 2, 2e6f}, "input 2"},
        {FV_PROBLEM_HULL, 3, {0, 0, 1, 1, 0, 0}, "inputs 0 and 2 are the same point"},
        {FV_PROBLEM_DELAUNAY, 3, {0, 0, 1, 1, 2, 2}, "all inputs are on one line"},
        {FV_PROBLEM_HULL, 4, {0, 0, 1, 1, 2, 2, 3, 3}, "all inputs are on one line"},
        {FV_PROBLEM_COUNT, 3, {0}, "no such problem"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(
            fv_problem_solve(ctx, bad[i].problem, bad[i].n, bad[i].values, 0, answer, &count, NULL),
            FV_ERR_ARGUMENT);
        if (!strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx), bad[i].message);
    }
    CHECK_EQ(count, 0);
    fv_instance *set = NULL;
    const fv_points_source sources[] = {
        {.problem = FV_PROBLEM_SORT, .min = 1, .max = 101},
        {.problem = FV_PROBLEM_HULL, .min = 2, .max = 5},
        {.problem = FV_PROBLEM_TSP, .min = 6, .max = 5},
        {.problem = FV_PROBLEM_COUNT, .min = 5, .max = 5},
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        CHECK_EQ(fv_instance_draw(ctx, &sources[i], FV_POINTS_TRAIN, 0, &set), FV_ERR_ARGUMENT);
    CHECK(!set);
    CHECK_EQ(fv_tour_bound(ctx, 5, (float[10]){0}, 0, &(double){0}), FV_ERR_ARGUMENT);
}

/* ---- valid outputs -------------------------------------------------------------------------- */

/* Random valid choices always lead to an end, and to an output of the right form. */
static void valid_choices_end_in_valid_outputs(void)
{
    uint64_t state = 7;
    for (int round = 0; round < 2000; round++) {
        const fv_problem problem = (fv_problem)(round % FV_PROBLEM_COUNT);
        const int64_t n = 3 + round % 6, most = fv_answer_max(problem, n);
        float values[16];
        int64_t rank[8], choice[64], count = 0;
        uint8_t valid[9];
        bool ended = false;
        for (int i = 0; i < 16; i++)
            values[i] = (float)(next_word(&state) % 1000);
        fv_points_rank(problem, n, values, rank);
        while (!ended && count < most) {
            int64_t open[9], opens = 0;
            fv_points_valid(problem, n, rank, count, choice, valid);
            for (int64_t j = 0; j <= n; j++)
                if (valid[j]) open[opens++] = j;
            CHECK(opens > 0);
            if (opens == 0) return;
            /* seldom the end, so that the longest outputs occur */
            const int64_t next = open[next_word(&state) % (uint64_t)opens];
            if (next == 0 && opens > 1 && next_word(&state) % 4) continue;
            ended = next == 0;
            if (!ended) choice[count++] = next - 1;
        }
        fv_points_valid(problem, n, rank, count, choice, valid);
        if (problem == FV_PROBLEM_SORT || problem == FV_PROBLEM_TSP) {
            CHECK(!ended && count == n && is_permutation(n, choice));
            for (int64_t j = 0; j <= n; j++)
                CHECK(!valid[j]);
        } else {
            CHECK(valid[0]);
            CHECK(count >= 3 && (problem == FV_PROBLEM_HULL || count % 3 == 0));
        }
        for (int64_t i = 0; problem == FV_PROBLEM_DELAUNAY && i < count; i += 3)
            for (int64_t k = 0; k < i; k += 3)
                CHECK(memcmp(choice + i, choice + k, 3 * sizeof *choice) != 0);
        for (int64_t i = 0; problem == FV_PROBLEM_HULL && i < count; i++)
            for (int64_t k = 0; k < i; k++)
                CHECK(choice[i] != choice[k]);
    }
}

/* Every answer is one of the valid outputs. */
static void answers_are_valid(void)
{
    for (uint64_t number = 0; number < 200; number++) {
        const fv_problem problem = (fv_problem)(number % FV_PROBLEM_COUNT);
        fv_instance *set = draw(problem, 3 + (int64_t)number % 9, number);
        int64_t rank[16];
        uint8_t valid[17];
        if (!set) return;
        fv_points_rank(problem, set->n, set->values, rank);
        for (int64_t t = 0; t < set->count; t++) {
            fv_points_valid(problem, set->n, rank, t, set->answer, valid);
            CHECK(valid[1 + set->answer[t]]);
        }
        CHECK(set->count <= fv_answer_max(problem, set->n));
        fv_instance_free(&set);
    }
}

static void scores_tell_right_from_wrong(void)
{
    const float square[] = {0, 0, 1, 0, 1, 1, 0, 1, 0.5f, 0.4f};
    fv_points_score s;
    const int64_t hull[] = {0, 1, 2, 3}, rotated[] = {2, 3, 0, 1}, crossed[] = {0, 2, 1, 3},
                  less[] = {0, 1, 2};
    CHECK_OK(ctx, fv_points_compare(ctx, FV_PROBLEM_HULL, 5, square, hull, 4, rotated, 4, &s));
    CHECK(s.exact && s.covered == 1);
    CHECK_OK(ctx, fv_points_compare(ctx, FV_PROBLEM_HULL, 5, square, hull, 4, crossed, 4, &s));
    CHECK(!s.exact && s.covered == 0);
    CHECK_OK(ctx, fv_points_compare(ctx, FV_PROBLEM_HULL, 5, square, hull, 4, less, 3, &s));
    CHECK(!s.exact && s.covered == 0.5);
    CHECK_OK(ctx, fv_points_compare(ctx, FV_PROBLEM_TSP, 4, square, hull, 4, rotated, 4, &s));
    CHECK(s.exact && s.covered == 1);
    CHECK_OK(ctx, fv_points_compare(ctx, FV_PROBLEM_TSP, 4, square, hull, 4, crossed, 4, &s));
    CHECK(!s.exact);
    CHECK_NEAR(s.covered, (2 + 2 * sqrt(2)) / 4, 1e-7);
    CHECK_OK(ctx, fv_points_compare(ctx, FV_PROBLEM_SORT, 4, square, hull, 4, crossed, 4, &s));
    CHECK(!s.exact && s.covered == 0.5);
    const int64_t two[] = {0, 1, 4, 1, 2, 4}, other[] = {4, 1, 0, 1, 2, 3};
    CHECK_OK(ctx, fv_points_compare(ctx, FV_PROBLEM_DELAUNAY, 5, square, two, 6, other, 6, &s));
    CHECK(!s.exact && s.covered == 0.5);
    const int64_t bad[] = {0, 5};
    CHECK_EQ(fv_points_compare(ctx, FV_PROBLEM_SORT, 5, square, hull, 4, bad, 2, &s),
             FV_ERR_ARGUMENT);
}

static fv_status draw_all(fv_ctx *in, const void *unused)
{
    fv_status status = FV_OK;
    (void)unused;
    for (int problem = 0; problem < FV_PROBLEM_COUNT && status == FV_OK; problem++) {
        const fv_points_source from = {.problem = (fv_problem)problem,
                                       .min = 8,
                                       .max = 8,
                                       .seed = 1,
                                       .exact = 7 + problem % 2};
        fv_instance *set = NULL;
        double bound = 0;
        status = fv_instance_draw(in, &from, FV_POINTS_TRAIN, 0, &set);
        CHECK((status == FV_OK) == (set != NULL));
        if (set && problem == FV_PROBLEM_TSP) {
            status = fv_tour_bound(in, 8, set->values, 5, &bound);
            CHECK((status == FV_OK) == (bound > 0));
        }
        fv_instance_free(&set);
    }
    return status;
}

static void memory_may_run_out(void) { CHECK(failing_everywhere(draw_all, NULL, 0) > 5); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(signs_are_exact);
    RUN(hulls_are_those_of_gift_wrapping);
    RUN(triangulations_are_those_of_all_triples);
    RUN(degenerate_triangulations_cover_the_hull);
    RUN(tours_are_the_shortest_of_all);
    RUN(local_tours_are_between_bound_and_a_few_percent);
    RUN(instances_depend_on_seed_part_and_number);
    RUN(bad_inputs_are_refused);
    RUN(valid_choices_end_in_valid_outputs);
    RUN(answers_are_valid);
    RUN(scores_tell_right_from_wrong);
    RUN(memory_may_run_out);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
