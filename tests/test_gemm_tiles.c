/*
 * Every tile of the matrix product with every number of columns. An element of C depends on its row
 * of A and its column of B only, so one large product by plain code gives the bits of all smaller
 * ones, whichever tiles they take: multiply-adds written here, and for weights and operands in
 * fewer bits the scalar level, which test_gemm_low.c and test_gemm_bf16.c hold against a
 * definition.
 */
#include "fovea/kernels.h"

#include "support/products.h"
#include "support/test.h"

/* Rows: one to a few tiles, then enough for B to be packed, with a last tile of each height.
 * Columns: every tail of every number of vectors in a tile or in a packed panel, and one more. */
enum { M = 30, N = 129, K = 5, PAD = 16, SCRATCH = 1 << 22 };

/* How B is given: its rows contiguous, its columns, packed in each form; and both operands rounded
 * to bf16. */
typedef enum form { ROWS, COLUMNS, PACKED, PACKED_BF16, PACKED_I8, ROUNDED, FORMS } form;

static float a[M * K], b[K * N], b_columns[N * K], begin[M * N];
static float want[FORMS][2][M * N]; /* without and with what C held before */
static _Alignas(64) char packed[3][K * 192 * sizeof(float) + 1024];
static void *scratch;

static fv_gemm description(int64_t m, int64_t n, form f, bool accumulate, int64_t c_row)
{
    const bool is_packed = f >= PACKED && f <= PACKED_I8;
    return (fv_gemm){.m = m,
                     .n = n,
                     .k = K,
                     .a_row = K,
                     .a_col = 1,
                     .b_row = f == COLUMNS ? 1 : N,
                     .b_col = f == COLUMNS ? K : 1,
                     .b_packed = is_packed,
                     .b_form = is_packed ? (fv_weight_form)(f - PACKED) : FV_WEIGHT_F32,
                     .bf16 = f == ROUNDED,
                     .c_row = c_row,
                     .batch = 1,
                     .accumulate = accumulate};
}

static void multiply(const fv_gemm *g, form f, fv_simd level, float *c)
{
    const void *const all[FORMS] = {b, b_columns, packed[0], packed[1], packed[2], b};
    const fv_gemm_exec exec = {.level = level};
    const size_t need = fv_gemm_scratch(g, 1);
    CHECK(need <= SCRATCH);
    CHECK_EQ(fv_gemm_run(g, a, all[f], &exec, scratch, need, c), FV_OK);
}

static bool can_accumulate(form f) { return f != PACKED_BF16 && f != PACKED_I8; }

static void pack_columns(int64_t n)
{
    for (int w = 0; w < 3; w++) {
        CHECK(fv_gemm_packed_bytes(K, n, (fv_weight_form)w) <= sizeof packed[w]);
        CHECK_EQ(fv_gemm_pack_as(K, n, b, N, 1, (fv_weight_form)w, packed[w]), FV_OK);
    }
}

static void make_operands(void)
{
    for (int i = 0; i < M * K; i++)
        a[i] = product_random();
    for (int i = 0; i < K * N; i++)
        b_columns[i % N * K + i / N] = b[i] = product_random();
    for (int i = 0; i < M * N; i++)
        begin[i] = product_random();
    pack_columns(N);
    for (int f = 0; f < FORMS; f++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            float *c = want[f][accumulate];
            memcpy(c, begin, sizeof begin);
            for (int i = 0; f <= PACKED && i < M * N; i++) {
                if (!accumulate) c[i] = 0;
                for (int k = 0; k < K; k++)
                    c[i] = fmaf(a[i / N * K + k], b[k * N + i % N], c[i]);
            }
            const fv_gemm g = description(M, N, (form)f, accumulate, N);
            if (f > PACKED && (!accumulate || can_accumulate((form)f)))
                multiply(&g, (form)f, FV_SIMD_SCALAR, c);
        }
}

static void check(int64_t m, int64_t n, form f, bool accumulate, fv_simd level)
{
    static float c[M * (N + PAD)];
    const fv_gemm g = description(m, n, f, accumulate, N + PAD);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < N + PAD; j++)
            c[i * (N + PAD) + j] = j < n ? begin[i * N + j] : 7;
    multiply(&g, f, level, c);
    for (int64_t i = 0; i < m; i++) {
        bool same =
            memcmp(c + i * (N + PAD), want[f][accumulate] + i * N, (size_t)n * sizeof *c) == 0;
        for (int64_t j = n; j < N + PAD; j++)
            same = same && c[i * (N + PAD) + j] == 7;
        if (!same)
            test_failed(__FILE__, __LINE__, "%lld x %lld, form %d, accumulate %d, %s: row %lld",
                        (long long)m, (long long)n, (int)f, accumulate, fv_simd_name(level),
                        (long long)i);
    }
}

static void every_tile_and_tail(void)
{
    scratch = product_memory(SCRATCH);
    make_operands();
    for (int64_t n = 1; n <= N; n++) {
        pack_columns(n);
        for (int64_t m = 1; m <= M; m++) {
            if (m > 13 && m < 25) continue; /* the same heights again */
            for (int f = 0; f < FORMS; f++)
                for (fv_simd level = FV_SIMD_SCALAR; level <= fv_simd_detect(); level++) {
                    check(m, n, (form)f, false, level);
                    if (can_accumulate((form)f)) check(m, n, (form)f, true, level);
                }
        }
    }
    free(scratch);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(every_tile_and_tail);
    return TEST_END();
}
