#include "train/optim.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "tensor/bf16_copy.h"

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
    fv_tensor *blocks, *block; /* of fv_optim_step */
    bool launched;             /* a step that is not settled */
    uint64_t steps, skipped_total;
    int skipped_in_a_row;
};

/* ---- the step block ----------------------------------------------------------------- */

enum { BLOCK_DOUBLES = sizeof(fv_step_block) / sizeof(double) };

static fv_tensor *keep_block(fv_ctx *ctx, fv_tensor *block)
{
    if (ctx->error != FV_OK) return NULL;
    fv_tensor_ref(block);
    fv_tensor_leave_scope(block);
    return block;
}

fv_tensor *fv_step_blocks_create(fv_ctx *ctx, int count, fv_tensor **block)
{
    const int64_t shape[2] = {count, BLOCK_DOUBLES}, stride = 1;
    fv_tensor *all = keep_block(ctx, fv_zeros(ctx, FV_F64, 2, shape));
    for (int i = 0; i < count && all && ctx->error == FV_OK; i++)
        block[i] = keep_block(
            ctx, fv_tensor_view(ctx, all, 1, &shape[1], &stride, (int64_t)i * BLOCK_DOUBLES));
    return all;
}

void fv_step_block_clear(fv_ctx *ctx, fv_tensor *block) { fv_fill(ctx, block, 0.0); }

void fv_step_block_add_loss(fv_ctx *ctx, fv_tensor *block, fv_tensor *loss)
{
    char text[FV_SHAPE_TEXT];
    if (ctx->error != FV_OK) return;
    if (loss->flags & (FV_TENSOR_INVALID | FV_TENSOR_RELEASED) || loss->ctx != ctx) {
        fv_poison(ctx, FV_ERR_STATE, "train: the loss is not a valid tensor of this context");
        return;
    }
    if (loss->count != 1) {
        fv_poison(ctx, FV_ERR_SHAPE, "train: expected a loss with one element, got shape %s",
                  fv_shape_text(text, loss->rank, loss->shape));
        return;
    }
    fv_scope_begin(ctx);
    fv_tensor *value = fv_tensor_new(ctx, FV_F64, loss->rank, loss->shape);
    if (ctx->error == FV_OK) fv_copy_into(ctx, value, loss);
    fv_tensor *sum = fv_tensor_view(ctx, block, loss->rank, value->shape, value->stride,
                                    offsetof(fv_step_block, loss) / sizeof(double));
    if (ctx->error == FV_OK) fv_add_into(ctx, sum, value);
    fv_scope_end(ctx);
}

/* ---- creation ----------------------------------------------------------------------- */

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
    optim->blocks = fv_step_blocks_create(ctx, 1, &optim->block);
    if (ctx->error != FV_OK) return ctx->error;
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
    fv_tensor_unref(optim->block);
    fv_tensor_unref(optim->blocks);
    fv_mem_free(mem, optim->slots, (size_t)optim->count * sizeof *optim->slots);
    fv_mem_free(mem, optim, sizeof *optim);
    *optim_ptr = NULL;
}

/* ---- steps -------------------------------------------------------------------------- */

static fv_optim_args step_args(const fv_optim *optim, double lr)
{
    const fv_optim_config *cfg = &optim->cfg;
    bool adam = cfg->kind == FV_OPTIM_ADAM || cfg->kind == FV_OPTIM_ADAMW;
    double t = (double)(optim->steps + 1);
    return (fv_optim_args){
        .lr = lr,
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

static void update_all(fv_optim *optim, fv_optim_args args, const fv_tensor *block)
{
    for (int i = 0; i < optim->count; i++) {
        fv_tensor *w = optim->params->items[i].tensor;
        if (!w->grad || w->count == 0 || !updates(optim, i)) continue;
        void *copy = fv_bf16_copy_of_current(w);
        void *ptr[4 + STATES] = {w->data, w->grad->data, block->data, copy};
        for (int k = 0; k < STATES; k++)
            if (optim->slots[i].state[k]) ptr[4 + k] = optim->slots[i].state[k]->data;
        args.n = w->count;
        args.weight_decay = optim->cfg.decay_matrices && w->rank < 2 ? 0 : optim->cfg.weight_decay;
        fv_launch(optim->ctx, kinds[optim->cfg.kind].kernel, w->dtype, ptr, &args, sizeof args);
        w->buffer->version++;
        if (copy) fv_bf16_copy_set_current(w);
    }
}

static fv_status count_skipped(fv_optim *optim)
{
    optim->skipped_total++;
    optim->skipped_in_a_row++;
    fv_report(optim->ctx, FV_LOG_WARN,
              "step skipped: loss or gradients are not finite (%d in a row)",
              optim->skipped_in_a_row);
    FV_RETURN_IF(optim->cfg.max_skipped > 0 && optim->skipped_in_a_row >= optim->cfg.max_skipped,
                 optim->ctx, FV_ERR_NONFINITE,
                 "optim: %d steps in a row had a non-finite loss or gradients",
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
    FV_RETURN_IF(optim->launched, ctx, FV_ERR_STATE, "optim: the last step is not settled");
    return FV_OK;
}

fv_status fv_optim_launch(fv_optim *optim, double lr, fv_tensor *block)
{
    fv_ctx *ctx = optim->ctx;
    const fv_step_gate_args gate = {.clip_norm = optim->cfg.clip_norm,
                                    .unchecked = optim->cfg.unchecked};
    FV_TRY(check_step(optim, lr));
    if (!gate.unchecked)
        fv_params_add_sumsq(optim->params, optim->cfg.group,
                            block->data + offsetof(fv_step_block, sumsq));
    fv_launch(ctx, FV_KERNEL_STEP_GATE, FV_F64, (void *[]){block->data}, &gate, sizeof gate);
    update_all(optim, step_args(optim, lr), block);
    optim->launched = ctx->error == FV_OK;
    return ctx->error;
}

fv_status fv_optim_settle(fv_optim *optim, const fv_step_block *record, fv_step_report *report)
{
    fv_status status = FV_OK;
    optim->launched = false;
    if (!record) return FV_OK;
    const bool skipped = record->open == 0;
    if (skipped) {
        status = count_skipped(optim);
    } else {
        optim->skipped_in_a_row = 0;
        optim->steps++;
    }
    *report = (fv_step_report){.grad_norm = optim->cfg.unchecked ? NAN : record->norm,
                               .clipped = !skipped && record->scale != 1,
                               .skipped = skipped,
                               .skipped_total = optim->skipped_total};
    return status;
}

/* The block of a step that was launched. Unchecked, nothing is waited for: only a fault could have
 * closed the gate, and that becomes the context's error at the next wait. */
static fv_status read_block(fv_optim *optim, fv_step_block *record)
{
    *record = (fv_step_block){.scale = 1, .open = 1};
    if (optim->cfg.unchecked) return FV_OK;
    return fv_tensor_read(optim->ctx, optim->block, record, sizeof *record);
}

fv_status fv_optim_step(fv_optim *optim, double lr, fv_step_report *report)
{
    fv_step_report unused;
    fv_step_block record;
    if (!report) report = &unused;
    *report = (fv_step_report){.grad_norm = NAN, .skipped_total = optim->skipped_total};
    fv_step_block_clear(optim->ctx, optim->block);
    FV_TRY(fv_optim_launch(optim, lr, optim->block));
    fv_status status = read_block(optim, &record);
    if (status != FV_OK) {
        (void)fv_optim_settle(optim, NULL, NULL);
        return status;
    }
    status = fv_optim_settle(optim, &record, report);
    fv_params_zero_grad(optim->params);
    return status;
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
