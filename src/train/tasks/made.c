#include "train/tasks/made.h"

#include <string.h>

fv_status fv_made_begin(fv_batches *order, fv_step_parts *parts, int64_t *rows,
                        void (*add)(void *self, int64_t number), void *self, fv_step_plan *plan)
{
    *rows = 0;
    for (int64_t part = 0; part < parts->count; part++) {
        fv_picked picked;
        FV_TRY(fv_batches_next(order, &picked));
        for (int64_t i = 0; i < picked.count; i++)
            add(self, picked.example[i]);
        parts->first[part + 1] = *rows;
        plan->epoch = (double)picked.epoch + (double)(picked.index + 1) / (double)picked.batches;
    }
    plan->parts = parts->count;
    plan->first_row = parts->first;
    return FV_OK;
}

fv_made_part fv_made_held_out(const fv_recipe *recipe)
{
    return strcmp(fv_recipe_text(recipe, "eval.part"), "test") == 0 ? FV_MADE_TEST : FV_MADE_VALID;
}
