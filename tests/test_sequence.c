/*
 * LSTM and GRU over whole sequences (kernels/sequence.h): the reference in double against the
 * definition, written as plain loops; every level and every number of threads against the
 * reference in float, bit for bit; with sizes around the sixteen lanes, thin and thick batches,
 * both directions, and every optional operand there or not; packed sequences against each alone.
 */
#include "kernels/sequence.h"

#include <string.h>

#include "support/kernels.h"

enum { MAX_THREADS = 8 };

typedef struct problem {
    fv_sequence_args args;
    bool states;     /* first states are given, and their gradients wanted */
    bool parts;      /* all gradients arrive, and everything is kept */
    bool transposed; /* the weight is stored transposed */
    unsigned dropped;
    const int64_t *lengths; /* of packed sequences, or NULL */
} problem;

typedef struct launch {
    fv_kernel_id id;
    int outs; /* the first pointers are results */
    vec ptr[FV_KERNEL_MAX_PTR];
} launch;

static fv_pool *pools[MAX_THREADS + 1];

static vec nothing(void) { return (vec){.dtype = FV_F32}; }
static vec maybe(bool given, vec v) { return given ? v : nothing(); }

static vec lengths_of(const problem *p)
{
    if (!p->lengths) return nothing();
    vec v = vec_new(FV_I64, p->args.batch);
    memcpy(v.data, p->lengths, (size_t)p->args.batch * sizeof *p->lengths);
    return v;
}

/* The four kernels on random operands. */
static launch make_launch(fv_kernel_id id, fv_dtype dtype, const problem *p)
{
    const fv_sequence_args *a = &p->args;
    const int64_t state = a->batch * a->hidden, all = a->total * a->hidden;
    const vec lengths = lengths_of(p);
    const int64_t n = id == FV_KERNEL_LSTM || id == FV_KERNEL_LSTM_GRAD ? 4 : 3;
#define OUT(n)      vec_new(dtype, (n))
#define IN(n)       vec_random(dtype, (n), -1, 1)
#define ACTS(n)     vec_random(dtype, (n), 0.1, 0.9)
#define STATE(f)    maybe(p->states, f(state))
#define OPTIONAL(v) maybe(p->parts, v)
    const vec weight = vec_random(dtype, n * a->hidden * a->hidden, -0.5, 0.5);
    switch (id) {
    case FV_KERNEL_LSTM:
        return (launch){id,
                        5,
                        {OUT(all), OPTIONAL(OUT(all)), OPTIONAL(OUT(4 * all)), OUT(state),
                         OUT(state), IN(4 * all), weight, STATE(IN), STATE(IN), lengths}};
    case FV_KERNEL_LSTM_GRAD:
        return (launch){id,
                        4,
                        {OUT(4 * all), STATE(OUT), STATE(OUT), OPTIONAL(OUT(all)), IN(all),
                         OPTIONAL(IN(state)), OPTIONAL(IN(state)), ACTS(4 * all), IN(all), weight,
                         STATE(IN), IN(all), STATE(IN), lengths}};
    case FV_KERNEL_GRU:
        return (launch){id,
                        3,
                        {OUT(all), OPTIONAL(OUT(4 * all)), OUT(state), IN(3 * all), weight,
                         OPTIONAL(IN(3 * a->hidden)), STATE(IN), lengths}};
    default:
        return (launch){id,
                        4,
                        {OUT(3 * all), OUT(3 * all), STATE(OUT), OPTIONAL(OUT(all)), IN(all),
                         OPTIONAL(IN(state)), ACTS(4 * all), IN(all), weight, STATE(IN), lengths}};
    }
}

/* The kernel's arguments: only the place of the weight depends on it. */
static fv_sequence_args args_of(const problem *p, fv_kernel_id id)
{
    fv_sequence_args a = p->args;
    const bool lstm = id == FV_KERNEL_LSTM || id == FV_KERNEL_LSTM_GRAD;
    a.w_row = p->transposed ? 1 : a.hidden;
    a.w_col = p->transposed ? (lstm ? 4 : 3) * a.hidden : 1;
    return a;
}

/* Runs the launch into fresh results; if `over` is not negative, result `to` goes over a copy of
 * that operand. */
static launch run_over(const launch *l, int to, int over, fv_dtype dtype, const problem *p,
                       fv_simd level, int threads)
{
    launch done = *l;
    void *ptr[FV_KERNEL_MAX_PTR] = {0};
    for (int i = 0; i < l->outs; i++)
        if (l->ptr[i].data) done.ptr[i] = vec_new(dtype, l->ptr[i].n);
    if (over >= 0) done.ptr[to] = done.ptr[over] = vec_copy(l->ptr[over]);
    for (int i = 0; i < FV_KERNEL_MAX_PTR; i++)
        ptr[i] = done.ptr[i].data;
    kernel_level(level);
    setup.pool = pools[threads];
    setup.dropped = p->dropped;
    const fv_sequence_args a = args_of(p, l->id);
    kernel_run(l->id, dtype, ptr, &a);
    return done;
}

static launch run(const launch *l, fv_dtype dtype, const problem *p, fv_simd level, int threads)
{
    return run_over(l, 0, -1, dtype, p, level, threads);
}

/* ---- equal bits -------------------------------------------------------------------- */

static const fv_kernel_id kernels[] = {FV_KERNEL_LSTM, FV_KERNEL_LSTM_GRAD, FV_KERNEL_GRU,
                                       FV_KERNEL_GRU_GRAD};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static void compare(const launch *want, const launch *got, const problem *p, fv_simd level,
                    int threads)
{
    for (int i = 0; i < want->outs; i++)
        if (want->ptr[i].data && !vec_same_bits(want->ptr[i], got->ptr[i]))
            test_failed(__FILE__, __LINE__,
                        "%s, %lld steps of %lld x %lld, %s, %d threads: result %d differs",
                        fv_kernel_infos[want->id].name, (long long)p->args.steps,
                        (long long)p->args.batch, (long long)p->args.hidden, fv_simd_name(level),
                        threads, i);
}

/* One thread and `threads`, or (0) every number of threads. */
static void check_bits(const problem *p, int threads)
{
    for (int k = 0; k < KERNELS; k++) {
        const launch l = make_launch(kernels[k], FV_F32, p);
        const launch want = run(&l, FV_F32, p, FV_SIMD_SCALAR, 1);
        for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++)
            for (int n = 1; n <= MAX_THREADS; n++) {
                if (threads && n != 1 && n != threads) continue;
                const launch got = run(&l, FV_F32, p, (fv_simd)level, n);
                compare(&want, &got, p, (fv_simd)level, n);
            }
        vec_free_all();
    }
}

static problem problem_of(int64_t steps, int64_t batch, int64_t hidden, bool given)
{
    return (problem){.args = {.steps = steps,
                              .batch = batch,
                              .hidden = hidden,
                              .total = steps * batch,
                              .element = sizeof(float)},
                     .states = given,
                     .parts = given};
}

static void levels_and_threads_agree(void)
{
    static const int64_t widths[] = {1, 3, 15, 16, 17, 33, 64, 67, 130};
    static const int64_t batches[] = {1, 5, 6, 13};
    int round = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (size_t j = 0; j < sizeof batches / sizeof *batches; j++, round++) {
            problem p = problem_of(1 + round % 4, batches[j], widths[i], round % 3 != 0);
            p.args.reverse = round % 2;
            p.transposed = round % 5 == 1;
            check_bits(&p, 2 + round % (MAX_THREADS - 1));
        }
}

/* Many hand-overs of little work, which is where a race would show. */
static void long_walks_agree(void)
{
    for (int64_t batch = 1; batch <= 2; batch++) {
        const problem p = problem_of(60, batch, 112, batch == 1);
        check_bits(&p, 0);
    }
}

static void dropped_terms_agree(void)
{
    for (unsigned term = 0; term < 11; term++) {
        problem p = problem_of(3, 2, 35, true);
        p.dropped = 1u << term;
        check_bits(&p, 3);
    }
}

static void empty_sizes_are_nothing(void)
{
    const problem none[] = {problem_of(0, 2, 3, true), problem_of(2, 0, 3, true),
                            problem_of(2, 3, 0, true)};
    for (int i = 0; i < 3; i++)
        check_bits(&none[i], 2);
}

/* ---- the definition ---------------------------------------------------------------- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Element (row, unit) of step k in an array of `wide` vectors a row. */
static double step_value(const problem *p, vec v, int64_t k, int64_t row, int64_t wide, int64_t at)
{
    const fv_sequence_args *a = &p->args;
    const int64_t place = a->reverse ? a->steps - 1 - k : k;
    return vec_get(v, (place * a->batch + row) * wide * a->hidden + at);
}

static double state_value(const problem *p, vec v, int64_t row, int64_t unit)
{
    return v.data ? vec_get(v, row * p->args.hidden + unit) : 0;
}

static double before_value(const problem *p, vec all, vec first, int64_t k, int64_t row,
                           int64_t unit)
{
    return k > 0 ? step_value(p, all, k - 1, row, 1, unit) : state_value(p, first, row, unit);
}

/* Gate `gate` of a unit: the product with the state before step k. */
static double product(const problem *p, vec weight, vec h, vec h0, int64_t k, int64_t row,
                      int64_t gate)
{
    const int64_t n = p->args.hidden;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += before_value(p, h, h0, k, row, i) * vec_get(weight, gate * n + i);
    return sum;
}

static void check_near(double got, double want, const char *what, int64_t k, int64_t unit)
{
    if (!(fabs(got - want) <= 1e-12 * (1 + fabs(want))))
        test_failed(__FILE__, __LINE__, "%s of unit %lld at step %lld is %.17g, not %.17g", what,
                    (long long)unit, (long long)k, got, want);
}

static void check_lstm_unit(const problem *p, const vec *ptr, int64_t k, int64_t row, int64_t unit)
{
    const int64_t n = p->args.hidden;
    double gate[4];
    for (int g = 0; g < 4; g++)
        gate[g] = step_value(p, ptr[5], k, row, 4, g * n + unit) +
                  product(p, ptr[6], ptr[0], ptr[7], k, row, g * n + unit);
    const double c = sigmoid(gate[1]) * before_value(p, ptr[1], ptr[8], k, row, unit) +
                     sigmoid(gate[0]) * tanh(gate[2]);
    const double h = sigmoid(gate[3]) * tanh(c);
    check_near(step_value(p, ptr[1], k, row, 1, unit), c, "c", k, unit);
    check_near(step_value(p, ptr[0], k, row, 1, unit), h, "h", k, unit);
    check_near(step_value(p, ptr[2], k, row, 4, 2 * n + unit), tanh(gate[2]), "g", k, unit);
    if (k < p->args.steps - 1) return;
    check_near(state_value(p, ptr[3], row, unit), h, "the last h", k, unit);
    check_near(state_value(p, ptr[4], row, unit), c, "the last c", k, unit);
}

static void check_gru_unit(const problem *p, const vec *ptr, int64_t k, int64_t row, int64_t unit)
{
    const int64_t n = p->args.hidden;
    double x[3], hg[3];
    for (int g = 0; g < 3; g++) {
        x[g] = step_value(p, ptr[3], k, row, 3, g * n + unit);
        hg[g] = product(p, ptr[4], ptr[0], ptr[6], k, row, g * n + unit) +
                vec_get(ptr[5], g * n + unit);
    }
    const double r = sigmoid(x[0] + hg[0]), z = sigmoid(x[1] + hg[1]);
    const double c = tanh(x[2] + r * hg[2]);
    const double h = (1 - z) * c + z * before_value(p, ptr[0], ptr[6], k, row, unit);
    check_near(step_value(p, ptr[0], k, row, 1, unit), h, "h", k, unit);
    if (k == p->args.steps - 1)
        check_near(state_value(p, ptr[2], row, unit), h, "the last h", k, unit);
}

/* dh before step k but for GRU's direct part: D W, with the D that the kernel found, and the
 * upstream gradient. */
static double carried(const problem *p, const vec *ptr, int64_t n_gates, int dx, int dh, int weight,
                      int64_t k, int64_t row, int64_t unit)
{
    const int64_t n = p->args.hidden;
    double sum = k > 0 ? step_value(p, ptr[dh], k - 1, row, 1, unit) : 0;
    for (int64_t i = 0; i < n_gates * n; i++)
        sum += step_value(p, ptr[dx], k, row, n_gates, i) * vec_get(ptr[weight], i * n + unit);
    return sum;
}

/* Back through one row and unit. */
static void check_lstm_back(const problem *p, const vec *ptr, int64_t row, int64_t unit)
{
    const int64_t n = p->args.hidden, last = p->args.steps - 1;
    double dh = state_value(p, ptr[5], row, unit) + step_value(p, ptr[4], last, row, 1, unit);
    double dc = state_value(p, ptr[6], row, unit);
    for (int64_t k = last; k >= 0; k--) {
        double act[4];
        for (int g = 0; g < 4; g++)
            act[g] = step_value(p, ptr[7], k, row, 4, g * n + unit);
        const double tc = tanh(step_value(p, ptr[8], k, row, 1, unit));
        const double dct = dc + dh * act[3] * (1 - tc * tc);
        const double before = before_value(p, ptr[8], ptr[10], k, row, unit);
        const double want[4] = {
            dct * act[2] * act[0] * (1 - act[0]), dct * before * act[1] * (1 - act[1]),
            dct * act[0] * (1 - act[2] * act[2]), dh * tc * act[3] * (1 - act[3])};
        for (int g = 0; g < 4; g++)
            check_near(step_value(p, ptr[0], k, row, 4, g * n + unit), want[g], "D", k, unit);
        check_near(step_value(p, ptr[3], k, row, 1, unit),
                   before_value(p, ptr[11], ptr[12], k, row, unit), "h before", k, unit);
        dc = dct * act[1];
        dh = carried(p, ptr, 4, 0, 4, 9, k, row, unit);
    }
    check_near(state_value(p, ptr[1], row, unit), dh, "dh0", 0, unit);
    check_near(state_value(p, ptr[2], row, unit), dc, "dc0", 0, unit);
}

static void check_gru_back(const problem *p, const vec *ptr, int64_t row, int64_t unit)
{
    const int64_t n = p->args.hidden, last = p->args.steps - 1;
    double dh = state_value(p, ptr[5], row, unit) + step_value(p, ptr[4], last, row, 1, unit);
    for (int64_t k = last; k >= 0; k--) {
        double act[4];
        for (int g = 0; g < 4; g++)
            act[g] = step_value(p, ptr[6], k, row, 4, g * n + unit);
        const double before = before_value(p, ptr[7], ptr[9], k, row, unit);
        check_near(step_value(p, ptr[3], k, row, 1, unit), before, "h before", k, unit);
        const double dn = dh * (1 - act[1]) * (1 - act[2] * act[2]);
        const double dr = dn * act[3] * act[0] * (1 - act[0]);
        const double dz = dh * (before - act[2]) * act[1] * (1 - act[1]);
        const double want[2][3] = {{dr, dz, dn}, {dr, dz, dn * act[0]}};
        for (int side = 0; side < 2; side++)
            for (int g = 0; g < 3; g++)
                check_near(step_value(p, ptr[side], k, row, 3, g * n + unit), want[side][g],
                           side ? "dh_gates" : "dx_gates", k, unit);
        dh = dh * act[1] + carried(p, ptr, 3, 1, 4, 8, k, row, unit);
    }
    check_near(state_value(p, ptr[2], row, unit), dh, "dh0", 0, unit);
}

static void the_reference_is_the_definition(void)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        problem p = problem_of(4, 3, 19, true);
        p.args.reverse = reverse;
        p.args.element = sizeof(double);
        launch done[KERNELS];
        for (int i = 0; i < KERNELS; i++) {
            const launch l = make_launch(kernels[i], FV_F64, &p);
            done[i] = run(&l, FV_F64, &p, FV_SIMD_SCALAR, 2);
        }
        for (int64_t row = 0; row < p.args.batch; row++)
            for (int64_t unit = 0; unit < p.args.hidden; unit++) {
                for (int64_t k = 0; k < p.args.steps; k++) {
                    check_lstm_unit(&p, done[0].ptr, k, row, unit);
                    check_gru_unit(&p, done[2].ptr, k, row, unit);
                }
                check_lstm_back(&p, done[1].ptr, row, unit);
                check_gru_back(&p, done[3].ptr, row, unit);
            }
        vec_free_all();
    }
}

/* Without c and acts the results stay the same. */
static void what_is_not_kept_changes_nothing(void)
{
    const problem p = problem_of(5, 2, 21, true);
    for (int k = 0; k < KERNELS; k += 2) {
        launch l = make_launch(kernels[k], FV_F32, &p);
        const bool lstm = kernels[k] == FV_KERNEL_LSTM;
        const launch want = run(&l, FV_F32, &p, fv_simd_detect(), 1);
        l.ptr[1] = nothing();
        if (lstm) l.ptr[2] = nothing();
        const launch got = run(&l, FV_F32, &p, fv_simd_detect(), 1);
        CHECK(vec_same_bits(want.ptr[0], got.ptr[0]));
        CHECK(vec_same_bits(want.ptr[lstm ? 3 : 2], got.ptr[lstm ? 3 : 2]));
        if (lstm) CHECK(vec_same_bits(want.ptr[4], got.ptr[4]));
        vec_free_all();
    }
}

/* ---- packed sequences ---------------------------------------------------------------- */

/* What each pointer of a kernel is: an array of so many vectors a row, STATE_OF a sequence, or
 * SHARED by all. */
enum { STATE_OF = 0, SHARED = -1 };
static const int shape_of[KERNELS][FV_KERNEL_MAX_PTR] = {
    {1, 1, 4, STATE_OF, STATE_OF, 4, SHARED, STATE_OF, STATE_OF, SHARED},
    {4, STATE_OF, STATE_OF, 1, 1, STATE_OF, STATE_OF, 4, 1, SHARED, STATE_OF, 1, STATE_OF, SHARED},
    {1, 4, STATE_OF, 3, SHARED, SHARED, STATE_OF, SHARED},
    {3, 3, STATE_OF, 1, 1, STATE_OF, 4, 1, SHARED, STATE_OF, SHARED}};

static problem packed_problem(const int64_t *lengths, int64_t batch, int64_t hidden, bool given)
{
    problem p = problem_of(0, batch, hidden, given);
    for (int64_t i = 0; i < batch; i++)
        p.args.total += lengths[i];
    p.lengths = lengths;
    return p;
}

/* Sequence i's part of a pointer. */
static vec part_of(const problem *p, vec v, int wide, int64_t i)
{
    if (!v.data || wide == SHARED) return v;
    const int64_t n = p->args.hidden * (wide ? wide : 1), steps = wide ? p->lengths[i] : 1;
    vec out = vec_new(v.dtype, steps * n);
    for (int64_t t = 0, first = 0; t < steps; t++) {
        for (int64_t j = 0; j < n; j++)
            vec_set(out, t * n + j, vec_get(v, (first + i) * n + j));
        for (int64_t k = 0; k < p->args.batch; k++)
            first += p->lengths[k] > t;
    }
    return out;
}

static void check_each_alone(const problem *p, int k, fv_simd level, int threads)
{
    const launch l = make_launch(kernels[k], FV_F32, p);
    const launch all = run(&l, FV_F32, p, level, threads);
    for (int64_t i = 0; i < p->args.batch; i++) {
        problem one = problem_of(p->lengths[i], 1, p->args.hidden, p->states);
        one.args.reverse = p->args.reverse;
        launch own = {l.id, l.outs, {{0}}}, part = own;
        for (int j = 0; j < FV_KERNEL_MAX_PTR; j++) {
            own.ptr[j] = part_of(p, l.ptr[j], shape_of[k][j], i);
            if (l.ptr[j].dtype == FV_I64) own.ptr[j] = nothing();
            part.ptr[j] = part_of(p, all.ptr[j], shape_of[k][j], i);
        }
        const launch alone = run(&own, FV_F32, &one, level, 1);
        compare(&alone, &part, &one, level, threads);
    }
    vec_free_all();
}

static const int64_t ragged[] = {9, 9, 7, 4, 4, 4, 3, 1, 1, 1, 1, 1, 1, 1};
enum { RAGGED = sizeof ragged / sizeof *ragged };

static void packed_sequences_equal_each_alone(void)
{
    for (int round = 0; round < 16; round++) {
        problem p = packed_problem(ragged, round % 3 ? RAGGED : 4, round % 5 ? 37 : 130, round & 1);
        p.args.reverse = (round & 2) != 0;
        for (int k = 0; k < KERNELS; k++)
            for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++)
                check_each_alone(&p, k, (fv_simd)level, 1 + round % 4);
        check_bits(&p, 2 + round % 4);
    }
}

/* An LSTM's activations over its gates, and backward the gates' gradient over the activations. */
static void results_may_take_an_operands_place(void)
{
    static const struct over {
        int kernel, to, from;
    } over[2] = {{0, 2, 5}, {1, 0, 7}};
    for (int round = 0; round < 12; round++) {
        problem p = round % 3 == 0 ? packed_problem(ragged, RAGGED, 37, true)
                                   : problem_of(5, round % 3 * 7, round % 2 ? 15 : 67, true);
        p.args.reverse = (round & 4) != 0;
        for (int k = 0; k < 2; k++) {
            const struct over *o = &over[k];
            const launch l = make_launch(kernels[o->kernel], FV_F32, &p);
            const launch want = run(&l, FV_F32, &p, FV_SIMD_SCALAR, 1);
            for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++)
                for (int threads = 1; threads <= 4; threads += 3) {
                    const launch got =
                        run_over(&l, o->to, o->from, FV_F32, &p, (fv_simd)level, threads);
                    compare(&want, &got, &p, (fv_simd)level, threads);
                }
            vec_free_all();
        }
    }
}

static void bad_lengths_raise_a_fault(void)
{
    static const int64_t bad[][3] = {{2, 3, 1}, {3, 3, 0}, {4, 1, 2}, {3, 2, -1}, {6, 6, 6}};
    static const int64_t good[3] = {3, 2, 1};
    const problem p = packed_problem(good, 3, 5, true);
    for (int k = 0; k < KERNELS; k++) {
        const launch l = make_launch(kernels[k], FV_F32, &p);
        for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
            void *ptr[FV_KERNEL_MAX_PTR];
            for (int j = 0; j < FV_KERNEL_MAX_PTR; j++) {
                ptr[j] = l.ptr[j].data;
                if (ptr[j] && l.ptr[j].dtype == FV_I64 && i > 0) memcpy(ptr[j], bad[i - 1], 24);
            }
            const fv_sequence_args a = args_of(&p, l.id);
            CHECK_EQ(kernel_run(l.id, FV_F32, ptr, &a), i > 0);
        }
        vec_free_all();
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    for (int threads = 1; threads <= MAX_THREADS; threads++)
        if (fv_pool_create(threads, &pools[threads]) != FV_OK) return 1;
    RUN(the_reference_is_the_definition);
    RUN(what_is_not_kept_changes_nothing);
    RUN(levels_and_threads_agree);
    RUN(long_walks_agree);
    RUN(dropped_terms_agree);
    RUN(empty_sizes_are_nothing);
    RUN(packed_sequences_equal_each_alone);
    RUN(results_may_take_an_operands_place);
    RUN(bad_lengths_raise_a_fault);
    for (int threads = 1; threads <= MAX_THREADS; threads++)
        fv_pool_destroy(&pools[threads]);
    return TEST_END();
}
