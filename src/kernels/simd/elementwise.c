/*
 * Elementwise kernels. The loops handle contiguous memory only: operands with other strides (a
 * broadcast scalar, a transposed view) pass through small buffers on the stack, STAGE elements at a
 * time, which costs little beside the strided access itself.
 */
#include "kernels/elementwise.h"

#include "kernels/simd/register.h"
#include "kernels/simd/vmath.h"
#include "kernels/walk.h"

enum { STAGE = 512, INPUTS = 3 };

typedef struct span span;

/* out[0..n) = f(in[0], in[1], in[2]), all contiguous; unused inputs are NULL. */
typedef void (*span_fn)(const span *s, int64_t n, void *out, const void *const *in);

struct span {
    const fv_exec *exec;
    const fv_elementwise_args *args;
    void *const *ptr;
    int pointers;
    size_t size[4]; /* bytes per element, in pointer order */
    span_fn fn;
    bool stream; /* use streaming stores */
};

/* ---- contiguous operands: one long run -------------------------------------------- */

enum { BLOCK = 4096 };

static void flat_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const span *s = arg;
    const int64_t total = s->args->rank > 0 ? s->args->shape[0] : 1;
    const int64_t start = begin * BLOCK, stop = end * BLOCK < total ? end * BLOCK : total;
    const void *in[INPUTS] = {0};
    for (int p = 1; p < s->pointers; p++)
        if (s->ptr[p]) in[p - 1] = (const char *)s->ptr[p] + (size_t)start * s->size[p];
    s->fn(s, stop - start, (char *)s->ptr[0] + (size_t)start * s->size[0], in);
    v_stream_end(s->stream);
}

/* ---- any strides ------------------------------------------------------------------ */

static void copy_strided(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t n,
                         size_t size)
{
    if (size == 1) {
        uint8_t *to = out;
        const uint8_t *from = in;
        for (int64_t i = 0; i < n; i++)
            to[i * out_step] = from[i * in_step];
    } else {
        float *to = out;
        const float *from = in;
        for (int64_t i = 0; i < n; i++)
            to[i * out_step] = from[i * in_step];
    }
}

static void strided_row(const span *s, const int64_t *step, int64_t n, const int64_t *at)
{
    float buffer[4][STAGE];
    for (int64_t i = 0; i < n; i += STAGE) {
        const int64_t count = n - i < STAGE ? n - i : STAGE;
        const void *in[INPUTS] = {0};
        for (int p = 1; p < s->pointers; p++) {
            if (!s->ptr[p]) continue;
            const char *from =
                (const char *)s->ptr[p] + (at[p] + i * step[p]) * (int64_t)s->size[p];
            in[p - 1] = step[p] == 1 ? (const void *)from : buffer[p];
            if (step[p] != 1) copy_strided(buffer[p], 1, from, step[p], count, s->size[p]);
        }
        char *to = (char *)s->ptr[0] + (at[0] + i * step[0]) * (int64_t)s->size[0];
        s->fn(s, count, step[0] == 1 ? (void *)to : buffer[0], in);
        if (step[0] != 1) copy_strided(to, step[0], buffer[0], 1, count, s->size[0]);
    }
}

/* A row function gets the arguments of its launch; these are followed by the span. */
typedef struct strided_args {
    fv_elementwise_args args;
    const span *span;
} strided_args;

static void walk_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    const strided_args *m = (const strided_args *)(const void *)w->args;
    strided_row(m->span, w->step, n, at);
}

static void run_span(span *s, int64_t cost)
{
    const fv_elementwise_args *m = s->args;
    bool flat = m->rank <= 1;
    if (m->rank == 1)
        for (int p = 0; p < s->pointers; p++)
            flat = flat && (!s->ptr[p] || m->stride[p][0] == 1);
    if (!flat) {
        const strided_args walked = {*m, s};
        fv_walk_run(s->exec, &walked.args, s->ptr, s->pointers, cost, walk_row);
        return;
    }
    const int64_t total = m->rank > 0 ? m->shape[0] : 1;
    s->stream = (uint64_t)total * s->size[0] >= FV_STREAM_BYTES;
    for (int p = 1; p < s->pointers; p++)
        s->stream = s->stream && s->ptr[p] != s->ptr[0];
    const int64_t blocks = (total + BLOCK - 1) / BLOCK;
    if (s->stream)
        fv_exec_stream(s->exec, blocks, BLOCK, flat_range, s);
    else
        fv_exec_rows(s->exec, blocks, (total < BLOCK ? total : BLOCK) * cost, flat_range, s);
}

/* ---- the loops -------------------------------------------------------------------- */

#define EACH(expr)                                                                                 \
    V_LOOP(n, v_head(to, n, s->stream), v_put(to + i, count, (expr), s->stream));                  \
    break
#define GROUPS(fn, group)                                                                          \
    v_apply(to, x, n, s->stream, fn##_many, group, fn);                                            \
    break
#define AT(p) v_load_ahead((p) + i, count, s->stream)

static void unary_span(const span *s, int64_t n, void *out, const void *const *in)
{
    float *to = out;
    const float *x = in[0];
    const vf one = v_set(1.0f);
    const vf alpha = v_set((float)s->args->alpha), beta = v_set((float)s->args->beta);
#define X AT(x)
    switch ((fv_unary)s->args->op) {
#define VECTOR(id, value, grad)                                                                    \
    case FV_UNARY_##id:                                                                            \
        value;
#define NO_VECTOR(id) case FV_UNARY_##id:
#include "kernels/simd/unary.def"
    case FV_UNARY_COUNT:
        break;
    }
#undef X
}

/* g sign(x), 0 at 0, NaN for NaN. */
V_INLINE vf abs_grad(vf g, vf x)
{
    const vf zero = v_zero(), rest = v_select(v_eq(x, zero), zero, x);
    return v_select(v_gt(x, zero), g, v_select(v_lt(x, zero), v_neg(g), rest));
}

static void unary_grad_span(const span *s, int64_t n, void *out, const void *const *in)
{
    float *to = out;
    const float *g = in[0], *x = in[1], *y = in[2];
    const vf one = v_set(1.0f), half = v_set(0.5f), zero = v_zero();
    const vf alpha = v_set((float)s->args->alpha), beta = v_set((float)s->args->beta);
#define G              AT(g)
#define X              AT(x)
#define Y              AT(y)
#define TERM(k, value) FV_TERM(s->exec, k, value, zero)
    switch ((fv_unary)s->args->op) {
#define VECTOR(id, value, grad)                                                                    \
    case FV_UNARY_##id:                                                                            \
        grad;
#define NO_VECTOR(id) case FV_UNARY_##id:
#include "kernels/simd/unary.def"
    case FV_UNARY_COUNT:
        break;
    }
#undef G
#undef X
#undef Y
#undef TERM
}

static void binary_span(const span *s, int64_t n, void *out, const void *const *in)
{
    float *to = out;
    const float *a = in[0], *b = in[1];
#define A AT(a)
#define B AT(b)
    switch ((fv_binary)s->args->op) {
    case FV_BINARY_ADD:
        EACH(v_add(A, B));
    case FV_BINARY_SUB:
        EACH(v_sub(A, B));
    case FV_BINARY_MUL:
        EACH(v_mul(A, B));
    case FV_BINARY_DIV:
        EACH(v_div(A, B));
    case FV_BINARY_MAXIMUM:
        EACH(v_select(v_first_is_max(A, B), A, B));
    case FV_BINARY_MINIMUM:
        EACH(v_select(v_first_is_min(A, B), A, B));
    case FV_BINARY_POW:
    case FV_BINARY_COUNT:
        break;
    }
}

/* g if `first` says that the requested operand was chosen, else 0. */
V_INLINE vf choice_grad(vm first, bool to_b, vf g)
{
    return to_b ? v_select(first, v_zero(), g) : v_select(first, g, v_zero());
}

static void binary_grad_span(const span *s, int64_t n, void *out, const void *const *in)
{
    float *to = out;
    const float *g = in[0], *a = in[1], *b = in[2];
    const bool to_b = s->args->which == 1;
    const float *other = to_b ? a : b;
#define G AT(g)
    switch ((fv_binary)s->args->op) {
    case FV_BINARY_ADD:
        EACH(G);
    case FV_BINARY_SUB:
        EACH(to_b ? v_neg(G) : G);
    case FV_BINARY_MUL:
        EACH(v_mul(G, AT(other)));
    case FV_BINARY_DIV:
        EACH(to_b ? v_mul(v_neg(v_div(G, B)), v_div(A, B)) : v_div(G, B));
    case FV_BINARY_MAXIMUM:
        EACH(choice_grad(v_first_is_max(A, B), to_b, G));
    case FV_BINARY_MINIMUM:
        EACH(choice_grad(v_first_is_min(A, B), to_b, G));
    case FV_BINARY_POW:
    case FV_BINARY_COUNT:
        break;
    }
#undef G
}

static void compare_span(const span *s, int64_t n, void *out, const void *const *in)
{
    uint8_t *to = out;
    const float *a = in[0], *b = in[1];
#define MARK(mask)                                                                                 \
    V_LOOP(n, 0, vm_store_bytes(to + i, count, (mask)));                                           \
    break
    switch ((fv_compare)s->args->op) {
#define FV_COMPARE(id, name, operator)                                                             \
    case FV_COMPARE_##id:                                                                          \
        MARK(v_##name(A, B));
#include "kernels/elementwise.def"
    case FV_COMPARE_COUNT:
        break;
    }
#undef MARK
}

static void select_span(const span *s, int64_t n, void *out, const void *const *in)
{
    float *to = out;
    const uint8_t *cond = in[0];
    const float *a = in[1], *b = in[2];
    const vf alpha = v_set((float)s->args->alpha), beta = v_set((float)s->args->beta);
    V_LOOP(n, v_head(to, n, s->stream),
           v_put(to + i, count,
                 v_select(vm_load_bytes(cond + i, count), a ? A : alpha, b ? B : beta), s->stream));
}

#undef A
#undef B

/* ---- kernels ---------------------------------------------------------------------- */

/* The reference version of a kernel, where vectors would not be faster. */
static void reference(fv_kernel_id id, const fv_exec *exec, void *const *ptr, const void *args)
{
    fv_kernel_table table;
    fv_ref_elementwise_register_f32(&table);
    table.fn[id][FV_F32](exec, ptr, args);
}

#define FLOATS                                                                                     \
    {                                                                                              \
        sizeof(float), sizeof(float), sizeof(float), sizeof(float)                                 \
    }

static const bool has_vector_form[FV_UNARY_COUNT] = {
#define VECTOR(id, value, grad) [FV_UNARY_##id] = true,
#define NO_VECTOR(id)           [FV_UNARY_##id] = false,
#include "kernels/simd/unary.def"
};

static void unary(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_elementwise_args *m = args;
    if (!has_vector_form[m->op]) {
        reference(FV_KERNEL_UNARY, exec, ptr, args);
        return;
    }
    span s = {exec, m, ptr, 2, FLOATS, unary_span, false};
    run_span(&s, 1);
}

static void unary_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_elementwise_args *m = args;
    if (!has_vector_form[m->op]) {
        reference(FV_KERNEL_UNARY_GRAD, exec, ptr, args);
        return;
    }
    span s = {exec, m, ptr, 4, FLOATS, unary_grad_span, false};
    run_span(&s, 1);
}

static void binary(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_elementwise_args *m = args;
    if (m->op == FV_BINARY_POW) {
        reference(FV_KERNEL_BINARY, exec, ptr, args);
        return;
    }
    span s = {exec, m, ptr, 3, FLOATS, binary_span, false};
    run_span(&s, 1);
}

static void binary_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_elementwise_args *m = args;
    if (m->op == FV_BINARY_POW) {
        reference(FV_KERNEL_BINARY_GRAD, exec, ptr, args);
        return;
    }
    span s = {exec, m, ptr, 4, FLOATS, binary_grad_span, false};
    run_span(&s, 1);
}

static void compare(const fv_exec *exec, void *const *ptr, const void *args)
{
    span s = {exec, args, ptr, 3, {1, sizeof(float), sizeof(float), 0}, compare_span, false};
    run_span(&s, 1);
}

static void select_kernel(const fv_exec *exec, void *const *ptr, const void *args)
{
    span s = {exec,        args, ptr, 4, {sizeof(float), 1, sizeof(float), sizeof(float)},
              select_span, false};
    run_span(&s, 1);
}

void fv_simd_elementwise_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_UNARY][FV_F32] = unary;
    t->fn[FV_KERNEL_UNARY_GRAD][FV_F32] = unary_grad;
    t->fn[FV_KERNEL_BINARY][FV_F32] = binary;
    t->fn[FV_KERNEL_BINARY_GRAD][FV_F32] = binary_grad;
    t->fn[FV_KERNEL_COMPARE][FV_F32] = compare;
    t->fn[FV_KERNEL_SELECT][FV_F32] = select_kernel;
}
