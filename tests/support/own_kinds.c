#include "support/own_kinds.h"

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/runs.h"
#include "support/test.h"

own_count own_calls;

void own_called(void)
{
    if (++own_calls.calls == own_calls.cancel_at) run_cancelled = 1;
}

void own_check_recording(fv_ctx *ctx, fv_tensor *parameter)
{
    if (run_cancelled || fv_ctx_error(ctx) != FV_OK) return;
    fv_tensor *sum = fv_sum(ctx, parameter, 0, NULL, false);
    /* If nothing was recorded fv_backward fails, without a sticky error. */
    if (fv_backward(ctx, sum) == FV_OK) own_calls.recorded++;
}

fv_ctx *own_context(const own_pair *pair, int threads)
{
    fv_ctx *ctx = run_context(threads, 5);
    CHECK_OK(ctx, fv_register_model(ctx, pair->kind));
    CHECK_OK(ctx, fv_register_task(ctx, pair->task));
    return ctx;
}

fv_recipe *own_recipe(fv_ctx *ctx, const own_pair *pair)
{
    return run_recipe(ctx, (run_setting[]){{"train.task", pair->task->name},
                                           {"train.steps", pair->steps},
                                           {"train.lr", "0.05"},
                                           {"train.eval_every", "2"},
                                           {"train.save_every", "2"},
                                           {"train.log_every", "1"},
                                           {0}});
}

fv_status own_train(const own_pair *pair, int threads, const char *folder)
{
    fv_ctx *ctx = own_context(pair, threads);
    fv_recipe *recipe = own_recipe(ctx, pair);
    fv_run *run = NULL;
    fv_status status = fv_run_create(ctx, recipe, folder, NULL, NULL, &run);
    if (status == FV_OK) status = fv_run_train(run);
    if (status != FV_OK && status != FV_ERR_CANCELLED)
        test_failed(__FILE__, __LINE__, "%s: %s", pair->task->name, fv_ctx_message(ctx));
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return status;
}
