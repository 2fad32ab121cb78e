/* The Frechet distance between sets of vectors: closed forms, its rules, and what is refused. */
#include "base/ctx.h"
#include "support/failing.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/frechet.h"

/* n vectors whose mean is `mean` and whose covariance (divided by n - 1) is B B^T, exactly: the
 * 2 n corners +- sqrt((2 n - 1) / 2) B e_i around the mean. */
enum { MOST = 8 };

static void add_corners(fv_moments *m, int n, const double *mean, const double b[MOST][MOST])
{
    const double far = sqrt((2.0 * n - 1) / 2);
    for (int k = 0; k < 2 * n; k++) {
        float row[MOST];
        for (int i = 0; i < n; i++)
            row[i] = (float)(mean[i] + (k % 2 ? -far : far) * b[i][k / 2]);
        fv_moments_add(m, row, 1);
    }
}

static double distance(fv_ctx *ctx, const fv_moments *a, const fv_moments *b)
{
    double d = -1;
    CHECK_OK(ctx, fv_frechet_distance(a, b, &d));
    return d;
}

/* d^2 = sum (m1 - m2)^2 + (s1 - s2)^2 where both covariances are diagonal. */
static void diagonal_covariances_have_a_closed_form(void)
{
    static const double m1[] = {1, -2, 0.5}, m2[] = {0, 1, 0.5};
    static const double s1[] = {1, 2, 0.25}, s2[] = {3, 0.5, 0};
    double b1[MOST][MOST] = {{0}}, b2[MOST][MOST] = {{0}}, expected = 0;
    fv_ctx *ctx = run_context(1, 1);
    fv_moments x, y;
    CHECK_OK(ctx, fv_moments_create(ctx, 3, &x));
    CHECK_OK(ctx, fv_moments_create(ctx, 3, &y));
    for (int i = 0; i < 3; i++) {
        b1[i][i] = s1[i];
        b2[i][i] = s2[i];
        expected += (m1[i] - m2[i]) * (m1[i] - m2[i]) + (s1[i] - s2[i]) * (s1[i] - s2[i]);
    }
    add_corners(&x, 3, m1, b1);
    add_corners(&y, 3, m2, b2);
    CHECK_NEAR(distance(ctx, &x, &y), expected, 1e-5);
    CHECK_NEAR(distance(ctx, &y, &x), expected, 1e-5);
    fv_moments_free(&x);
    fv_moments_free(&y);
    fv_ctx_destroy(&ctx);
}

/* Covariances that do not commute: for 2 x 2, tr sqrt(M) = sqrt(tr M + 2 sqrt(det M)). */
static void other_covariances_too(void)
{
    static const double mean[] = {0.25, -1};
    static const double b1[MOST][MOST] = {{2, 0.5}, {0, 1}}, b2[MOST][MOST] = {{1, 0}, {1.5, 0.5}};
    double c1[2][2], c2[2][2], trace = 0, product = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            c1[i][j] = b1[i][0] * b1[j][0] + b1[i][1] * b1[j][1];
            c2[i][j] = b2[i][0] * b2[j][0] + b2[i][1] * b2[j][1];
        }
    for (int i = 0; i < 2; i++) {
        trace += c1[i][i] + c2[i][i];
        product += c1[i][0] * c2[0][i] + c1[i][1] * c2[1][i];
    }
    const double det1 = c1[0][0] * c1[1][1] - c1[0][1] * c1[1][0],
                 det2 = c2[0][0] * c2[1][1] - c2[0][1] * c2[1][0];
    fv_ctx *ctx = run_context(1, 1);
    fv_moments x, y;
    CHECK_OK(ctx, fv_moments_create(ctx, 2, &x));
    CHECK_OK(ctx, fv_moments_create(ctx, 2, &y));
    add_corners(&x, 2, mean, b1);
    add_corners(&y, 2, mean, b2);
    CHECK_NEAR(distance(ctx, &x, &y), trace - 2 * sqrt(product + 2 * sqrt(det1 * det2)), 1e-5);
    fv_moments_free(&x);
    fv_moments_free(&y);
    fv_ctx_destroy(&ctx);
}

/* A set has no distance to itself, wide and of less rank than its width too; a shift of it has the
 * length of the shift; a larger one a larger distance. */
static void a_set_has_no_distance_to_itself(void)
{
    enum { WIDTH = 60, ROWS = 40 };
    static float rows[ROWS][WIDTH], moved[ROWS][WIDTH];
    fv_ctx *ctx = run_context(1, 1);
    fv_moments x, y;
    CHECK_OK(ctx, fv_moments_create(ctx, WIDTH, &x));
    CHECK_OK(ctx, fv_moments_create(ctx, WIDTH, &y));
    for (int i = 0; i < ROWS * WIDTH; i++) {
        rows[i / WIDTH][i % WIDTH] = (float)(i * 7919 % 1009) / 500 - 1;
        moved[i / WIDTH][i % WIDTH] = rows[i / WIDTH][i % WIDTH] + (i % WIDTH == 3 ? 2 : 0);
    }
    fv_moments_add(&x, rows[0], ROWS / 2);
    fv_moments_add(&x, rows[ROWS / 2], ROWS / 2);
    fv_moments_add(&y, moved[0], ROWS);
    CHECK_EQ(x.count, ROWS);
    CHECK_NEAR(distance(ctx, &x, &x), 0, 1e-5);
    CHECK_NEAR(distance(ctx, &x, &y), 4, 1e-4);
    fv_moments_free(&x);
    fv_moments_free(&y);
    fv_ctx_destroy(&ctx);
}

static void bad_sets_are_refused(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_moments x, y, none = {0};
    double d = 7;
    const float rows[] = {1, 2, 3, 4}, bad[] = {1, NAN, 2, 3};
    CHECK_EQ(fv_moments_create(ctx, 0, &x), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_moments_create(ctx, FV_MOMENTS_WIDTH + 1, &x), FV_ERR_ARGUMENT);
    CHECK_OK(ctx, fv_moments_create(ctx, 2, &x));
    CHECK_OK(ctx, fv_moments_create(ctx, 1, &y));
    fv_moments_add(&x, rows, 2);
    fv_moments_add(&y, rows, 4);
    CHECK_EQ(fv_frechet_distance(&x, &y, &d), FV_ERR_ARGUMENT);
    fv_moments_free(&y);
    CHECK_OK(ctx, fv_moments_create(ctx, 2, &y));
    fv_moments_add(&y, rows, 1);
    CHECK_EQ(fv_frechet_distance(&x, &y, &d), FV_ERR_ARGUMENT);
    fv_moments_add(&y, bad, 2);
    CHECK_EQ(fv_frechet_distance(&x, &y, &d), FV_ERR_NONFINITE);
    CHECK_NEAR(d, 7, 0);
    fv_moments_free(&x);
    fv_moments_free(&y);
    fv_moments_free(&none);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(diagonal_covariances_have_a_closed_form);
    RUN(other_covariances_too);
    RUN(a_set_has_no_distance_to_itself);
    RUN(bad_sets_are_refused);
    return TEST_END();
}
