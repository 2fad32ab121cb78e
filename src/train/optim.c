#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "kernels/optim.h"
#include "tensor/bf16_copy.h"
#include "tensor/params.h"

/* The state tensors of each kind, and the kernel that updates them. */
typedef struct optim_kind {
    const char *state[2]; /* names of its state tensors; NULL: none */
    fv_kernel_id kernel;
} optim_kind;

static const optim_kind kinds[FV_OPTIM_COUNT] = {
    [FV_OPTIM_SGD] = {{"momentum", NULL}, FV_KERNEL_SGD},
    [FV_OPTIM_ADAM] = {{"exp_avg", "exp_avg_sq"}, FV_KERNEL_ADAM},
    [FV_OPTIM_ADAMW] = {{"exp_avg", "exp_avg_sq"}, FV_KERNEL_ADAM},
    [FV_OPTIM_RMSPROP] = {{"square_avg", "momentum"}, FV_KERNEL_RMSPROP},
    [FV_OPTIM_ADADELTA] = {{"square_avg", "acc_delta"}, FV_KERNEL_ADADELTA},
};

enum { STATES = 2 };

typedef struct slot {
    fv_tensor *state[STATES];
} slot;

struct fv_optim {
    fv_ctx *ctx;
    fv_params *params;
    fv_optim_config cfg;
    int count; /* parameters when it was created */
    slot *slots;
    uint64_t steps, skipped_total;
    int skipped_in_a_row;
};

void fv_optim_config_init(fv_optim_config *cfg, size_t struct_size, fv_optim_kind kind)
{
    const fv_optim_config defaults = {
        .struct_size = struct_size,
        .kind = kind,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .alpha = kind == FV_OPTIM_ADADELTA ? 0.9 : 0.99,
        .eps = kind == FV_OPTIM_ADADELTA ? 1e-6 : 1e-8,
        .weight_decay = kind == FV_OPTIM_ADAMW ? 0.01 : 0.0,
        .max_skipped = 10,
    };
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

static fv_status check_config(fv_ctx *ctx, const fv_optim_config *cfg)
{
    FV_RETURN_IF((unsigned)cfg->kind >= FV_OPTIM_COUNT, ctx, FV_ERR_ARGUMENT,
                 "optim: no such kind: %d", (int)cfg->kind);
    bool rates_ok = cfg->beta1 >= 0 && cfg->beta1 < 1 && cfg->beta2 >= 0 && cfg->beta2 < 1 &&
                    cfg->alpha >= 0 && cfg->alpha < 1;
    FV_RETURN_IF(!rates_ok, ctx, FV_ERR_ARGUMENT,
                 "optim: expected momentum, beta1 and beta2 from 0 to 1");
    FV_RETURN_IF(
        !(cfg->eps >= 0 && cfg->weight_decay >= 0 && cfg->momentum >= 0 && cfg->clip_norm >= 0),
        ctx, FV_ERR_ARGUMENT, "optim: a setting is negative or not a number");
    FV_RETURN_IF(cfg->unchecked && cfg->clip_norm > 0, ctx, FV_ERR_ARGUMENT,
                 "optim: clipping needs the gradients checked");
    return FV_OK;
}

/* SGD and RMSProp keep a momentum buffer only when there is momentum. */
static bool keeps(const fv_optim_config *cfg, int k)
{
    const char *name = kinds[cfg->kind].state[k];
    return name && !(strcmp(name, "momentum") == 0 && cfg->momentum == 0);
}

static bool updates(const fv_optim *optim, int i)
{
    return fv_params_in_group(optim->params, i, optim->cfg.group);
}

static fv_status make_state(fv_optim *optim)
{
    fv_ctx *ctx = optim->ctx;
    for (int i = 0; i < optim->count; i++) {
        if (!updates(optim, i)) continue;
        const fv_tensor *w = optim->params->items[i].tensor;
        for (int k = 0; k < STATES; k++) {
            if (!keeps(&optim->cfg, k)) continue;
            fv_tensor *t = fv_zeros(ctx, w->dtype, w->rank, w->shape);
            if (ctx->error != FV_OK) return ctx->error;
            fv_tensor_ref(t);
            fv_tensor_leave_scope(t);
            optim->slots[i].state[k] = t;
        }
    }
    return FV_OK;
}

fv_status fv_optim_create(fv_params *params, const fv_optim_config *cfg, fv_optim **out)
{
    fv_ctx *ctx = params->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    fv_optim_config full;
    fv_optim_config_init(&full, sizeof full, FV_OPTIM_SGD);
    FV_RETURN_IF(!cfg || !fv_config_copy(&full, sizeof full, cfg), ctx, FV_ERR_ARGUMENT,
                 "optim: the config is not initialised");
    FV_TRY(check_config(ctx, &full));
    fv_optim *optim = fv_mem_zalloc(&ctx->mem, sizeof *optim);
    FV_RETURN_IF(!optim, ctx, FV_ERR_MEMORY, "no memory for an optimizer");
    optim->ctx = ctx;
    optim->params = params;
    optim->cfg = full;
    optim->count = params->count;
    optim->slots = fv_mem_zalloc(&ctx->mem, (size_t)optim->count * sizeof *optim->slots);
    fv_status status = optim->slots ? make_state(optim)
                                    : fv_fail(ctx, FV_ERR_MEMORY, "no memory for an optimizer");
    if (status != FV_OK) {
        fv_optim_destroy(&optim);
        return status;
    }
    *out = optim;
    return FV_OK;
}

void fv_optim_destroy(fv_optim **optim_ptr)
{
    fv_optim *optim = *optim_ptr;
    if (!optim) return;
    fv_mem *mem = &optim->ctx->mem;
    for (int i = 0; optim->slots && i < optim->count; i++)
        for (int k = 0; k < STATES; k++)
            fv_tensor_unref(optim->slots[i].state[k]);
    fv_mem_free(mem, optim->slots, (size_t)optim->count * sizeof *optim->slots);
    fv_mem_free(mem, optim, sizeof *optim);
    *optim_ptr = NULL;
}

static fv_optim_args step_args(const fv_optim *optim, double lr, double scale)
{
    const fv_optim_config *cfg = &optim->cfg;
    bool adam = cfg->kind == FV_OPTIM_ADAM || cfg->kind == FV_OPTIM_ADAMW;
    double t = (double)(optim->steps + 1);
    return (fv_optim_args){
        .lr = lr,
        .scale = scale,
        .weight_decay = cfg->weight_decay,
        .momentum = cfg->momentum,
        .beta1 = cfg->beta1,
        .beta2 = adam ? cfg->beta2 : cfg->alpha,
        .eps = cfg->eps,
        .correction1 = 1.0 - pow(cfg->beta1, t),
        .correction2 = 1.0 - pow(cfg->beta2, t),
        .decoupled = cfg->kind == FV_OPTIM_ADAMW,
        .nesterov = cfg->nesterov,
        .first = optim->steps == 0,
    };
}

static void update_all(fv_optim *optim, fv_optim_args args)
{
    for (int i = 0; i < optim->count; i++) {
        fv_tensor *w = optim->params->items[i].tensor;
        if (!w->grad || w->count == 0 || !updates(optim, i)) continue;
        void *ptr[4] = {w->data, w->grad->data, NULL, NULL};
        for (int k = 0; k < STATES; k++)
            if (optim->slots[i].state[k]) ptr[2 + k] = optim->slots[i].state[k]->data;
        args.n = w->count;
        args.weight_decay = optim->cfg.decay_matrices && w->rank < 2 ? 0 : optim->cfg.weight_decay;
        fv_launch(optim->ctx, kinds[optim->cfg.kind].kernel, w->dtype, ptr, &args, sizeof args);
        w->buffer->version++;
        fv_bf16_copy_refresh(optim->ctx, w);
    }
}

static fv_status skip(fv_optim *optim, fv_step_report *report)
{
    optim->skipped_total++;
    optim->skipped_in_a_row++;
    report->skipped = true;
    fv_params_zero_grad(optim->params);
    fv_report(optim->ctx, FV_LOG_WARN, "step skipped: gradients are not finite (%d in a row)",
              optim->skipped_in_a_row);
    FV_RETURN_IF(optim->cfg.max_skipped > 0 && optim->skipped_in_a_row >= optim->cfg.max_skipped,
                 optim->ctx, FV_ERR_NONFINITE, "optim: %d steps in a row had non-finite gradients",
                 optim->skipped_in_a_row);
    return FV_OK;
}

static fv_status check_step(fv_optim *optim, double lr)
{
    fv_ctx *ctx = optim->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(!(lr >= 0) || isinf(lr), ctx, FV_ERR_ARGUMENT, "optim: the learning rate is %g",
                 lr);
    FV_RETURN_IF(optim->params->count != optim->count, ctx, FV_ERR_STATE,
                 "optim: parameters were added after the optimizer was created");
    return FV_OK;
}

fv_status fv_optim_step(fv_optim *optim, double lr, fv_step_report *report)
{
    fv_step_report unused;
    if (!report) report = &unused;
    *report = (fv_step_report){.grad_norm = NAN, .skipped_total = optim->skipped_total};
    FV_TRY(check_step(optim, lr));
    double scale = 1.0;
    if (!optim->cfg.unchecked) {
        FV_TRY(fv_params_grad_norm(optim->params, optim->cfg.group, &report->grad_norm));
        if (!isfinite(report->grad_norm)) {
            fv_status status = skip(optim, report);
            report->skipped_total = optim->skipped_total;
            return status;
        }
        if (optim->cfg.clip_norm > 0 && report->grad_norm > optim->cfg.clip_norm) {
            scale = optim->cfg.clip_norm / report->grad_norm;
            report->clipped = true;
        }
    }
    optim->skipped_in_a_row = 0;
    update_all(optim, step_args(optim, lr, scale));
    if (optim->ctx->error != FV_OK) return optim->ctx->error;
    optim->steps++;
    fv_params_zero_grad(optim->params);
    return FV_OK;
}

int fv_optim_state_count(const fv_optim *optim)
{
    int n = 0;
    for (int i = 0; i < optim->count; i++)
        for (int k = 0; k < STATES; k++)
            n += optim->slots[i].state[k] != NULL;
    return n;
}

fv_tensor *fv_optim_state(const fv_optim *optim, int i, char name[300])
{
    for (int k = 0; k < STATES && i >= 0; k++)
        for (int p = 0; p < optim->count; p++) {
            fv_tensor *t = optim->slots[p].state[k];
            if (!t || i-- > 0) continue;
            snprintf(name, 300, "%s.%s", optim->params->items[p].name,
                     kinds[optim->cfg.kind].state[k]);
            return t;
        }
    name[0] = '\0';
    return optim->ctx->invalid;
}

uint64_t fv_optim_steps(const fv_optim *optim) { return optim->steps; }
void fv_optim_set_steps(fv_optim *optim, uint64_t steps) { optim->steps = steps; }
