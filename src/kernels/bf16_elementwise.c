/* Elementwise kernels over bf16 operands (kernels/bf16.h), STAGE elements at a time. */
#include "kernels/bf16.h"
#include "kernels/half.h"
#include "kernels/walk.h"

enum { STAGE = 512, POINTERS = 4 };

/* A row function gets the arguments of its launch; these are followed by the kernel to run. */
typedef struct staged_args {
    fv_elementwise_args args;
    fv_kernel_fn run;
} staged_args;

static bool is_bf16(const fv_elementwise_args *m, int p) { return m->bf16 >> p & 1u; }

static void widen(const fv_kernel_table *t, int64_t n, const uint16_t *in, int64_t step, float *out)
{
    if (step == 1) {
        t->widen(n, in, out);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = fv_bf16_to_f32(in[i * step]);
}

static void narrow(const fv_kernel_table *t, int64_t n, const float *in, uint16_t *out,
                   int64_t step)
{
    if (step == 1) {
        t->narrow(n, in, out);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i * step] = fv_f32_to_bf16(in[i]);
}

static void staged_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    const staged_args *m = (const staged_args *)(const void *)w->args;
    const fv_kernel_table *table = w->exec->table;
    const fv_exec serial = fv_exec_serial(w->exec);
    _Alignas(64) float buffer[POINTERS][STAGE];
    fv_elementwise_args inner = m->args;
    inner.rank = 1;
    for (int p = 0; p < w->pointers; p++)
        inner.stride[p][0] = is_bf16(&m->args, p) ? 1 : w->step[p];
    for (int64_t i = 0; i < n; i += STAGE) {
        inner.shape[0] = n - i < STAGE ? n - i : STAGE;
        void *ptr[POINTERS] = {NULL};
        for (int p = 0; p < w->pointers; p++) {
            const int64_t from = at[p] + i * w->step[p];
            if (!w->ptr[p]) continue;
            ptr[p] = is_bf16(&m->args, p) ? buffer[p] : (float *)w->ptr[p] + from;
            if (p > 0 && is_bf16(&m->args, p))
                widen(table, inner.shape[0], (const uint16_t *)w->ptr[p] + from, w->step[p],
                      buffer[p]);
        }
        m->run(&serial, ptr, &inner);
        if (is_bf16(&m->args, 0))
            narrow(table, inner.shape[0], buffer[0], (uint16_t *)w->ptr[0] + at[0] + i * w->step[0],
                   w->step[0]);
    }
}

static void run_staged(const fv_exec *exec, fv_kernel_id id, void *const *ptr, const void *args)
{
    const staged_args staged = {*(const fv_elementwise_args *)args, exec->table->fn[id][FV_F32]};
    fv_walk_run(exec, &staged.args, ptr, fv_kernel_infos[id].pointers, 2, staged_row);
}

#define STAGED(kernel, id)                                                                         \
    static void kernel(const fv_exec *exec, void *const *ptr, const void *args)                    \
    {                                                                                              \
        run_staged(exec, id, ptr, args);                                                           \
    }
STAGED(unary, FV_KERNEL_UNARY)
STAGED(unary_grad, FV_KERNEL_UNARY_GRAD)
STAGED(binary, FV_KERNEL_BINARY)
STAGED(binary_grad, FV_KERNEL_BINARY_GRAD)

static void widen_flat(int64_t n, const uint16_t *in, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = fv_bf16_to_f32(in[i]);
}

static void narrow_flat(int64_t n, const float *in, uint16_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = fv_f32_to_bf16(in[i]);
}

void fv_bf16_elementwise_register(fv_kernel_table *t)
{
    t->widen = widen_flat;
    t->narrow = narrow_flat;
    t->fn[FV_KERNEL_UNARY][FV_BF16] = unary;
    t->fn[FV_KERNEL_UNARY_GRAD][FV_BF16] = unary_grad;
    t->fn[FV_KERNEL_BINARY][FV_BF16] = binary;
    t->fn[FV_KERNEL_BINARY_GRAD][FV_BF16] = binary_grad;
}
