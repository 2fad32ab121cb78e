/* The table of tasks: the library's own, then those that the program has registered. */
#include <string.h>

#include "base/ctx.h"
#include "train/tasks/tasks.h"

static const fv_task_kind *const tasks[] = {
#define FV_TASK(name) &fv_task_##name,
#include "train/tasks/tasks.def"
};
enum { TASKS = sizeof tasks / sizeof *tasks };

const fv_task_kind *fv_task_kind_at(const fv_ctx *ctx, size_t i)
{
    if (i < TASKS) return tasks[i];
    return i - TASKS < ctx->tasks.count ? ctx->tasks.items[i - TASKS] : NULL;
}

const fv_task_kind *fv_task_kind_find(const fv_ctx *ctx, const char *name)
{
    const fv_task_kind *kind;
    for (size_t i = 0; (kind = fv_task_kind_at(ctx, i)) != NULL; i++)
        if (strcmp(kind->name, name) == 0) return kind;
    return NULL;
}

fv_status fv_task_opened(fv_status status, void (*close)(void *self), void *task, void **self)
{
    if (status == FV_OK)
        *self = task;
    else
        close(task);
    return status;
}

fv_status fv_register_task(fv_ctx *ctx, const fv_task_kind *kind)
{
    fv_task_kind full;
    FV_TRY(fv_registry_fill(ctx, kind, &full, sizeof full));
    FV_RETURN_IF(!fv_registry_is_name(full.name) || !full.open || !full.close ||
                     !(full.batch || (full.update && full.begin)),
                 ctx, FV_ERR_ARGUMENT,
                 "a task needs a name of one word, open, close and batch, or begin and update");
    FV_RETURN_IF(full.phases < 0 || full.phases > FV_MAX_PHASES, ctx, FV_ERR_ARGUMENT,
                 "task %.60s: %d phases; at most %d are supported", full.name, full.phases,
                 FV_MAX_PHASES);
    FV_RETURN_IF(!full.get_position != !full.set_position || !full.get_state != !full.set_state,
                 ctx, FV_ERR_ARGUMENT,
                 "task %.60s: get_position and set_position, get_state and set_state go together",
                 full.name);
    FV_RETURN_IF(fv_task_kind_find(ctx, full.name), ctx, FV_ERR_ARGUMENT,
                 "there is a task %.60s already", full.name);
    return fv_registry_add(ctx, &ctx->tasks, &full, sizeof full);
}
