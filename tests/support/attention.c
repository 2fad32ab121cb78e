#include "support/attention.h"

#include "base/cpu.h"
#include "kernels/register.h"

static fv_simd level;             /* of the kernels that are tested */
static fv_dtype storage = FV_F32; /* of q, k, v, o */

/* ---- making problems -------------------------------------------------------------- */

static uint64_t state = 1;

void problem_numbers(uint64_t from) { state = from; }

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) * 0x1p-24;
}

static double normal(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return sum;
}

static int64_t extent(const fv_attn *a, const fv_attn_layout *l, int64_t heads, int64_t rows,
                      int64_t width)
{
    if (a->batch == 0 || rows == 0) return 0;
    return (a->batch - 1) * l->batch + (heads - 1) * l->head + (rows - 1) * l->row + width;
}

vec vec_normals_of(fv_dtype dtype, int64_t n, double size)
{
    vec x = vec_new(dtype, n);
    for (int64_t i = 0; i < n; i++)
        vec_set(x, i, size * normal());
    return x;
}

vec vec_normals(int64_t n, double size) { return vec_normals_of(FV_F32, n, size); }
vec vec_like(vec x) { return vec_new(x.dtype, x.n); }

fv_attn attn_sizes(int64_t n_q, int64_t n_k, int64_t d, int64_t d_v)
{
    fv_attn a;
    fv_attn_init(&a, sizeof a);
    a.dtype = storage;
    a.n_q = n_q;
    a.n_k = n_k;
    a.d = d;
    a.d_v = d_v;
    a.rule.scale = 1 / sqrt((double)d);
    fv_attn_dense(&a);
    return a;
}

fv_attn attn_heads(int64_t batch, int64_t heads, int64_t kv_heads, int64_t n_q, int64_t n_k,
                   int64_t d)
{
    fv_attn a = attn_sizes(n_q, n_k, d, d);
    a.batch = batch;
    a.heads = heads;
    a.kv_heads = kv_heads;
    fv_attn_dense(&a);
    return a;
}

/* Random inputs for a description; outputs filled with NaN. */
problem problem_of(fv_attn a)
{
    const int64_t rows = a.batch * a.heads * a.n_q;
    const int64_t w = a.score == FV_ATTN_SCORE_ADDITIVE ? a.heads * a.d : 0;
    const int64_t q = extent(&a, &a.q, a.heads, a.n_q, a.d);
    const int64_t k = extent(&a, &a.k, a.kv_heads, a.n_k, a.d);
    const int64_t v = extent(&a, &a.v, a.kv_heads, a.n_k, a.d_v);
    const int64_t o = extent(&a, &a.o, a.heads, a.n_q, a.d_v);
    problem p = {.a = a,
                 .q = vec_normals_of(a.dtype, q, 1),
                 .k = vec_normals_of(a.dtype, k, 1),
                 .v = vec_normals_of(a.dtype, v, 1),
                 .o = vec_new(a.dtype, o),
                 .lse = vec_new(FV_F32, rows),
                 .grad_o = vec_normals_of(a.dtype, o, 1),
                 .grad_lse = vec_normals(rows, 1),
                 .grad_q = vec_new(a.dtype, q),
                 .grad_k = vec_new(a.dtype, k),
                 .grad_v = vec_new(a.dtype, v)};
    if (w > 0) {
        p.w = vec_normals(w, 1);
        for (int64_t i = 0; i < w; i++) /* scores of some size: the bounds are relative to it */
            vec_set(p.w, i, vec_get(p.w, i) + (vec_get(p.w, i) < 0 ? -1 : 1));
        p.grad_w = vec_normals(w, 0);
    }
    if (a.score == FV_ATTN_SCORE_NONE) p.q.data = p.k.data = p.grad_q.data = p.grad_k.data = NULL;
    return p;
}

void problem_bias(problem *p, int64_t batch, int64_t head, int64_t row, int64_t col)
{
    p->a.bias = (fv_attn_grid){batch, head, row, col};
    const int64_t n = (p->a.batch - 1) * batch + (p->a.heads - 1) * head + (p->a.n_q - 1) * row +
                      (p->a.n_k - 1) * col + 1;
    p->bias = vec_normals(n, 1);
}

void problem_pattern(problem *p, double share)
{
    const fv_attn *a = &p->a;
    p->a.visible = (fv_attn_grid){a->n_q * a->n_k, 0, a->n_k, 1};
    p->visible = vec_new(FV_U8, a->batch * a->n_q * a->n_k);
    for (int64_t i = 0; i < p->visible.n; i++)
        vec_set(p->visible, i, uniform() < share);
}

void problem_blocks(problem *p, int64_t block_q, int64_t block_k, double share)
{
    const fv_attn *a = &p->a;
    const int64_t rows = (a->n_q + block_q - 1) / block_q, cols = (a->n_k + block_k - 1) / block_k;
    p->a.rule.block_q = block_q;
    p->a.rule.block_k = block_k;
    p->a.blocks = (fv_attn_grid){0, rows * cols, cols, 1};
    p->blocks = vec_new(FV_U8, a->heads * rows * cols);
    for (int64_t i = 0; i < p->blocks.n; i++)
        vec_set(p->blocks, i, uniform() < share);
}

void problem_lengths(problem *p)
{
    p->key_lengths = vec_new(FV_I64, p->a.batch);
    for (int64_t b = 0; b < p->a.batch; b++)
        vec_set(p->key_lengths, b, (double)(p->a.n_k * (b + 1) / (p->a.batch + 1)));
}

void problem_slopes(problem *p)
{
    p->slopes = vec_new(FV_F32, p->a.heads);
    for (int64_t h = 0; h < p->a.heads; h++)
        vec_set(p->slopes, h, 0.25 / (double)(h + 1));
}

static vec widened(vec x)
{
    if (!x.data || x.dtype == FV_I64 || x.dtype == FV_U8) return x;
    vec y = vec_new(FV_F64, x.n);
    for (int64_t i = 0; i < x.n; i++)
        vec_set(y, i, vec_get(x, i));
    return y;
}

problem problem_in_double(const problem *p)
{
    problem r = *p;
    vec *all[] = {&r.q,      &r.k,      &r.v,         &r.o,        &r.lse,
                  &r.bias,   &r.slopes, &r.grad_o,    &r.grad_lse, &r.grad_q,
                  &r.grad_k, &r.grad_v, &r.grad_bias, &r.w,        &r.grad_w};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = widened(*all[i]);
    r.a.dtype = FV_F64;
    r.dropped = 0;
    return r;
}

static vec fresh(vec x, double fill)
{
    if (!x.data) return x;
    vec y = vec_new(x.dtype, x.n);
    const size_t size = fv_dtype_size(x.dtype), bytes = (size_t)x.n * size;
    if (bytes == 0) return y;
    vec_set(y, 0, fill); /* then copies of what is set, twice as much each time */
    for (size_t done = size; done < bytes; done *= 2)
        memcpy((char *)y.data + done, y.data, done < bytes - done ? done : bytes - done);
    return y;
}

problem problem_again(const problem *p)
{
    problem r = *p;
    vec *written[] = {&r.o, &r.lse, &r.grad_q, &r.grad_k, &r.grad_v},
        *added_to[] = {&r.grad_bias, &r.grad_w};
    for (int i = 0; i < 5; i++)
        *written[i] = fresh(*written[i], NAN);
    for (int i = 0; i < 2; i++)
        *added_to[i] = fresh(*added_to[i], 0);
    return r;
}

void problem_spoil(const problem *p, vec x, const fv_attn_layout *l, int64_t j, int64_t width)
{
    static const double poison[] = {NAN, INFINITY, -INFINITY};
    for (int64_t b = 0; b < p->a.batch; b++)
        for (int64_t h = 0; h < p->a.kv_heads; h++)
            for (int64_t c = 0; c < width; c++)
                vec_set(x, b * l->batch + h * l->head + j * l->row + c, poison[c % 3]);
}

bool same_results(const problem *x, const problem *y)
{
    return vec_same_bits(x->o, y->o) && vec_same_bits(x->lse, y->lse);
}

bool same_gradients(const problem *x, const problem *y)
{
    const vec a[] = {x->grad_q, x->grad_k, x->grad_v, x->grad_bias, x->grad_w};
    const vec b[] = {y->grad_q, y->grad_k, y->grad_v, y->grad_bias, y->grad_w};
    for (int i = 0; i < 5; i++)
        if (a[i].data && !vec_same_bits(a[i], b[i])) return false;
    return true;
}

/* ---- running them ----------------------------------------------------------------- */

bool run_faults(const problem *p)
{
    setup.dropped = 0;
    return kernel_run(FV_KERNEL_ATTENTION, p->a.dtype,
                      PTRS(p->o.data, p->lse.data, p->q.data, p->k.data, p->v.data, p->bias.data,
                           p->visible.data, p->key_lengths.data, p->slopes.data, p->w.data,
                           p->q_begin.data, p->k_begin.data, p->blocks.data),
                      &p->a);
}

void run_forward(const problem *p) { (void)run_faults(p); }

void run_backward(const problem *p)
{
    setup.dropped = p->dropped;
    kernel_run(FV_KERNEL_ATTENTION_GRAD, p->a.dtype,
               PTRS(p->grad_q.data, p->grad_k.data, p->grad_v.data, p->grad_bias.data,
                    p->grad_w.data, p->grad_o.data, p->grad_lse.data, p->o.data, p->lse.data,
                    p->q.data, p->k.data, p->v.data, p->bias.data, p->visible.data,
                    p->key_lengths.data, p->slopes.data, p->w.data, p->q_begin.data,
                    p->k_begin.data, p->blocks.data),
               &p->a);
    setup.dropped = 0;
}

static void at_scalar_level(void (*run)(const problem *), const problem *p)
{
    const kernel_setup before = setup;
    kernel_level(FV_SIMD_SCALAR);
    run(p);
    setup = before;
}

static problem reference_of(const problem *p)
{
    problem r = problem_in_double(p);
    at_scalar_level(run_forward, &r);
    return r;
}

/* sum_j p_j |v_j| of every element of o. */
static vec blended_sizes(const problem *reference)
{
    problem r = *reference;
    r.v = vec_copy(r.v);
    r.o = vec_like(r.o);
    for (int64_t i = 0; i < r.v.n; i++)
        vec_set(r.v, i, fabs(vec_get(r.v, i)));
    at_scalar_level(run_forward, &r);
    return r.o;
}

/* The number `step` representable numbers above the one with these bits. */
static double neighbour(fv_dtype dtype, uint16_t bits, int step)
{
    const int size = bits & 0x7fff, place = (bits & 0x8000 ? -size : size) + step;
    /* As long as the widest type that vec_get could read: the compiler does not know the dtype. */
    uint16_t neighbour_bits[4] = {(uint16_t)(place < 0 ? 0x8000 | -place : place)};
    return vec_get((vec){.dtype = dtype, .n = 1, .data = neighbour_bits}, 0);
}

double vec_gap(vec stored, int64_t i, double x)
{
    const double y = vec_get(stored, i);
    if (isnan(x) || isnan(y)) return NAN;
    if (x == y) return 0;
    if (stored.dtype != FV_BF16 && stored.dtype != FV_F16) return fabs(x - y);
    const uint16_t bits = ((const uint16_t *)stored.data)[i];
    const double low = (y + neighbour(stored.dtype, bits, -1)) / 2;
    const double high = (y + neighbour(stored.dtype, bits, 1)) / 2;
    return fmax(0, fmax(low - x, x - high));
}

/* The largest distance between `stored` and b, less each element's own tolerance. */
static double gap_beyond(vec stored, vec b, vec sizes, double share)
{
    double worst = 0;
    for (int64_t i = 0; i < stored.n; i++)
        worst = test_worse(worst, vec_gap(stored, i, vec_get(b, i)) - share * vec_get(sizes, i));
    return worst;
}

double vec_largest(vec x)
{
    double largest = 0;
    for (int64_t i = 0; i < x.n; i++)
        largest = test_worse(largest, fabs(vec_get(x, i)));
    return largest;
}

double vec_distance(vec a, vec b)
{
    double worst = 0;
    for (int64_t i = 0; i < a.n; i++) {
        const double x = vec_get(a, i), y = vec_get(b, i);
        if (x != y) worst = test_worse(worst, fabs(x - y));
    }
    return worst;
}

/* The largest score without bias and slopes, and the largest sum of the absolute values of its
 * terms, over all pairs. */
static void largest_sums(const problem *p, double *sums, double *sizes)
{
    const fv_attn *a = &p->a;
    const vec wide_q = widened(p->q), wide_k = widened(p->k);
    const double *q = wide_q.data, *k = wide_k.data;
    const float *w = p->w.data;
    *sums = *sizes = 0;
    if (a->score == FV_ATTN_SCORE_NONE) return;
    for (int64_t row = 0; row < a->batch * a->heads * a->n_q; row++) {
        const int64_t i = row % a->n_q, h = row / a->n_q % a->heads, b = row / a->n_q / a->heads;
        const double *x = q + b * a->q.batch + h * a->q.head + i * a->q.row;
        const double *y = k + b * a->k.batch + h / (a->heads / a->kv_heads) * a->k.head;
        for (int64_t j = 0; j < a->n_k; j++, y += a->k.row) {
            double sum = 0, size = 0;
            for (int64_t c = 0; c < a->d; c++) {
                const double wc = w ? (double)w[h * a->d + c] : 0;
                const double term = w ? wc * tanh(x[c] + y[c]) : x[c] * y[c];
                sum += term;
                size += fabs(w ? wc : term);
            }
            *sums = fmax(*sums, fabs(a->rule.scale * sum));
            *sizes = fmax(*sizes, fabs(a->rule.scale * size));
        }
    }
}

static double largest_added(const problem *p)
{
    double sum = 0;
    for (int64_t i = 0; p->bias.data && i < p->bias.n; i++)
        if (vec_get(p->bias, i) != -INFINITY) /* which hides the pair */
            sum = test_worse(sum, fabs(vec_get(p->bias, i)));
    if (p->slopes.data) sum += vec_largest(p->slopes) * (double)(p->a.n_q + p->a.n_k);
    return sum;
}

double largest_score(const problem *p)
{
    double sums, sizes;
    largest_sums(p, &sums, &sizes);
    return sums + largest_added(p);
}

double largest_terms(const problem *p)
{
    double sums, sizes;
    largest_sums(p, &sums, &sizes);
    return sizes + largest_added(p);
}

bool attn_by_pairs(fv_dtype dtype)
{
    const fv_kernel_fn *fn = setup.table.fn[FV_KERNEL_ATTENTION];
    return dtype == FV_BF16 && fn[FV_BF16] != fn[FV_F16];
}

void attn_without_pairs(void)
{
    static const fv_kernel_id kernels[] = {FV_KERNEL_ATTENTION, FV_KERNEL_ATTENTION_GRAD};
    for (int i = 0; i < 2; i++)
        setup.table.fn[kernels[i]][FV_BF16] = setup.table.fn[kernels[i]][FV_F16];
}

void check_results(const char *what, const problem *p)
{
    const problem r = reference_of(p);
    const double keep = 1 / (1 - p->a.rule.dropout);
    const bool pairs = attn_by_pairs(p->a.dtype);
    double sums, sizes;
    largest_sums(p, &sums, &sizes);
    const double u = 0x1p-24, added = largest_added(p);
    const double bound = 8 * u * (1 + sums + added) * vec_largest(p->v) * keep;
    /* A score's rounding error cancels among the weights but shows in the log-sum-exp. */
    const double lse_bound = 8 * u * (1 + sizes + added) + (pairs ? 3e-6 : 0);
    const double far = gap_beyond(p->o, r.o, pairs ? blended_sizes(&r) : r.o, pairs ? 0x1p-8 : 0);
    const double far_lse = vec_distance(p->lse, r.lse);
    if (!(far <= bound) || !(far_lse <= lse_bound))
        test_failed(
            __FILE__, __LINE__,
            "%s, %s, %lld x %lld, widths %lld and %lld: o off by %.3g (bound %.3g), lse by %.3g",
            what, fv_dtype_name(p->a.dtype), (long long)p->a.n_q, (long long)p->a.n_k,
            (long long)p->a.d, (long long)p->a.d_v, far, bound, far_lse);
}

void check_forward(const char *what, problem *p)
{
    run_forward(p);
    check_results(what, p);
}

bool attn_rounds_gradients(fv_dtype dtype)
{
    const fv_kernel_fn *fn = setup.table.fn[FV_KERNEL_ATTENTION_GRAD];
    return setup.table.level == FV_SIMD_AMX && dtype == FV_BF16 && fn[FV_BF16] != fn[FV_F16];
}

static vec zeros(int64_t n)
{
    vec x = vec_new(FV_F64, n);
    memset(x.data, 0, (size_t)n * sizeof(double));
    return x;
}

/* The gradient of every score, as that of a bias of its own: [batch][heads][n_q][n_k]. */
static vec score_gradients(const problem *reference)
{
    problem r = *reference;
    const int64_t rows = r.a.batch * r.a.heads * r.a.n_q, n_k = r.a.n_k;
    r.bias = zeros(rows * n_k);
    for (int64_t i = 0; reference->bias.data && i < rows * n_k; i++) {
        const fv_attn_grid *g = &reference->a.bias;
        const int64_t row = i / n_k, b = row / r.a.n_q / r.a.heads, h = row / r.a.n_q % r.a.heads;
        vec_set(r.bias, i,
                vec_get(reference->bias,
                        b * g->batch + h * g->head + row % r.a.n_q * g->row + i % n_k * g->col));
    }
    r.a.bias = (fv_attn_grid){r.a.heads * r.a.n_q * n_k, r.a.n_q * n_k, n_k, 1};
    r.grad_bias = zeros(rows * n_k);
    r.grad_q.data = r.grad_k.data = r.grad_v.data = NULL;
    at_scalar_level(run_backward, &r);
    return r.grad_bias;
}

/* For every element of dq and dk, the sum of the sizes of its terms. */
static void score_term_sizes(const problem *r, vec dq, vec dk)
{
    const fv_attn *a = &r->a;
    const fv_attn_layout *lq = fv_attn_layout_dq(a), *lk = fv_attn_layout_dk(a);
    const vec ds = score_gradients(r);
    for (int64_t at = 0; at < ds.n; at++) {
        const double z = fabs(a->rule.scale * vec_get(ds, at));
        const int64_t j = at % a->n_k, row = at / a->n_k, i = row % a->n_q;
        const int64_t h = row / a->n_q % a->heads, b = row / a->n_q / a->heads;
        const int64_t kh = h / (a->heads / a->kv_heads);
        for (int64_t c = 0; z > 0 && c < a->d; c++) {
            const double q = vec_get(r->q, b * a->q.batch + h * a->q.head + i * a->q.row + c);
            const double k = vec_get(r->k, b * a->k.batch + kh * a->k.head + j * a->k.row + c);
            const int64_t to_q = b * lq->batch + h * lq->head + i * lq->row + c;
            const int64_t to_k = b * lk->batch + kh * lk->head + j * lk->row + c;
            if (dq.data) vec_set(dq, to_q, vec_get(dq, to_q) + z * fabs(k));
            if (dk.data) vec_set(dk, to_k, vec_get(dk, to_k) + z * fabs(q));
        }
    }
}

/* The same of dv. */
static vec value_term_sizes(const problem *reference)
{
    problem r = *reference;
    r.grad_o = vec_copy(r.grad_o);
    for (int64_t i = 0; i < r.grad_o.n; i++)
        vec_set(r.grad_o, i, fabs(vec_get(r.grad_o, i)));
    r.grad_v = zeros(r.grad_v.n);
    r.grad_q.data = r.grad_k.data = r.grad_bias.data = NULL;
    at_scalar_level(run_backward, &r);
    return r.grad_v;
}

/* The sizes of the terms of dq, dk and dv, if their factors P and dS are rounded. */
static void term_sizes(const problem *r, vec sizes[3])
{
    if (r->grad_q.data) sizes[0] = zeros(r->grad_q.n);
    if (r->grad_k.data) sizes[1] = zeros(r->grad_k.n);
    score_term_sizes(r, sizes[0], sizes[1]);
    if (r->grad_v.data && r->grad_o.data) sizes[2] = value_term_sizes(r);
}

/* The largest error of a gradient beyond that of rounded factors, relative to the largest gradient
 * of its kind. */
static double gradient_distance(const problem *p)
{
    /* Backward reads the stored o, possibly rounded to 16 bits, so the reference does too. */
    problem r = p->a.dtype == FV_F32 ? reference_of(p) : problem_in_double(p);
    vec added_to[] = {r.grad_bias, r.grad_w};
    for (int g = 0; g < 2; g++)
        for (int64_t i = 0; added_to[g].data && i < added_to[g].n; i++)
            vec_set(added_to[g], i, 0);
    at_scalar_level(run_backward, &r);
    const vec ours[] = {p->grad_q, p->grad_k, p->grad_v, p->grad_bias, p->grad_w};
    const vec theirs[] = {r.grad_q, r.grad_k, r.grad_v, r.grad_bias, r.grad_w};
    vec sizes[5] = {{.data = NULL}};
    if (attn_rounds_gradients(p->a.dtype) && p->a.score == FV_ATTN_SCORE_DOT) term_sizes(&r, sizes);
    double worst = 0;
    for (int g = 0; g < 5; g++) {
        if (!ours[g].data || ours[g].n == 0) continue;
        const bool rounded = sizes[g].data != NULL;
        const double far =
            gap_beyond(ours[g], theirs[g], rounded ? sizes[g] : theirs[g], rounded ? 0x1p-8 : 0);
        worst = test_worse(worst, far == 0 ? 0 : far / vec_largest(theirs[g]));
    }
    return worst;
}

bool gradients_agree(problem *p, double *worst)
{
    run_forward(p);
    run_backward(p);
    *worst = gradient_distance(p);
    return *worst <= 1e-5;
}

void check_gradients(const char *what, const problem *p)
{
    const double worst = gradient_distance(p);
    if (!(worst <= 1e-5))
        test_failed(__FILE__, __LINE__,
                    "%s, %s, %lld x %lld, width %lld: a gradient is off by %.3g", what,
                    fv_dtype_name(p->a.dtype), (long long)p->a.n_q, (long long)p->a.n_k,
                    (long long)p->a.d, worst);
}

void check_backward(const char *what, problem *p)
{
    run_forward(p);
    run_backward(p);
    check_gradients(what, p);
}

void attn_every_level(void (*fn)(void))
{
    for (int l = FV_SIMD_SCALAR; l <= (int)fv_simd_detect(); l++) {
        level = (fv_simd)l;
        kernel_level(level);
        problem_numbers(1); /* every level and storage gets the same ones */
        fn();
    }
    vec_free_all();
}

bool attn_choose_tiles(void)
{
#if defined(__x86_64__)
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    if (fv_cpu_best(&cpu) < FV_SIMD_AVX512 || !cpu.avx512_bf16) return false;
    kernel_level(FV_SIMD_AVX512);
    fv_simd_attention_emulated_register_avx512(&setup.table);
    return true;
#else
    return false;
#endif
}

void attn_on_tiles(void (*fn)(void))
{
    const fv_dtype before = storage;
    storage = FV_BF16;
    problem_numbers(1);
    if (attn_choose_tiles()) fn();
    vec_free_all();
    storage = before;
}

void attn_every_storage(void (*fn)(void))
{
    static const fv_dtype types[] = {FV_F32, FV_BF16, FV_F16};
    for (int t = 0; t < 3; t++) {
        storage = types[t];
        attn_every_level(fn);
    }
    storage = FV_F32;
    attn_on_tiles(fn);
}

vec vec_part(vec x, int64_t from, int64_t n)
{
    vec y = vec_new(x.dtype, n);
    const size_t size = fv_dtype_size(x.dtype);
    memcpy(y.data, (char *)x.data + (size_t)from * size, (size_t)n * size);
    return y;
}
