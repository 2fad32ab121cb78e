/* The table of tasks: the library's own, then those that the program has registered. */
#include <string.h>

#include "base/ctx.h"
#include "train/tasks/tasks.h"

/* A new task is one file and one line here. */
static const fv_task_kind *const tasks[] = {
    &fv_task_translation,
    &fv_task_language,
    &fv_task_masked,
    &fv_task_classify,
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

fv_status fv_register_task(fv_ctx *ctx, const fv_task_kind *kind)
{
    FV_RETURN_IF(!kind->name || !*kind->name || strchr(kind->name, '|') || !kind->open ||
                     !kind->close || !kind->begin || !kind->batch,
                 ctx, FV_ERR_ARGUMENT, "a task needs a name, open, close, begin and batch");
    FV_RETURN_IF(fv_task_kind_find(ctx, kind->name), ctx, FV_ERR_ARGUMENT,
                 "there is a task %.60s already", kind->name);
    return fv_registry_add(ctx, &ctx->tasks, kind, kind->struct_size, sizeof *kind);
}
