/* The tokenizers of a translation task. */
#include <string.h>

#include "fovea/data.h"
#include "io/file.h"
#include "models/model.h"
#include "train/tasks/translation.h"
#include "train/tokenizer.h"

/* ---- learning ----------------------------------------------------------------------- */

static fv_status learn_file(fv_ctx *ctx, fv_tokenizer_trainer *trainer, const char *path, bool skip)
{
    fv_lines *lines = NULL;
    FV_TRY(fv_lines_open(ctx, path, skip ? FV_LINES_POLICY_MARK : FV_LINES_POLICY_REJECT, &lines));
    fv_status status = FV_OK;
    fv_line line = {.text = ""};
    while (status == FV_OK && line.text) {
        status = fv_cancelled(ctx) ? fv_fail(ctx, FV_ERR_CANCELLED, "interrupted while reading")
                                   : fv_lines_next(lines, &line);
        if (status == FV_OK && line.text && line.valid)
            status = fv_tokenizer_trainer_add(trainer, line.text, line.bytes);
    }
    fv_lines_close(&lines);
    FV_RETURN_IF(status == FV_OK && line.number == 0, ctx, FV_ERR_FORMAT,
                 "%.150s: the file is empty", path);
    return status;
}

static fv_status learn_made(const fv_translation_task *run, fv_tokenizer_trainer *trainer,
                            bool source)
{
    for (int64_t i = 0; i < fv_translation_made_count(run, FV_PART_TRAIN); i++) {
        fv_drawn pair;
        fv_translation_made_pair(run, FV_PART_TRAIN, i, &pair);
        const char *text = source ? pair.source : pair.target;
        FV_TRY(fv_tokenizer_trainer_add(trainer, text, strlen(text)));
    }
    return FV_OK;
}

static fv_status learn_side(const fv_translation_task *run, fv_tokenizer_trainer *trainer,
                            bool source)
{
    if (run->made) return learn_made(run, trainer, source);
    return learn_file(run->ctx, trainer, fv_translation_file(run, FV_PART_TRAIN, source),
                      fv_recipe_bool(run->recipe, "data.skip_invalid"));
}

/* One tokenizer from the source side, the target side, or both. */
static fv_status learn(const fv_translation_task *run, bool source, bool target, fv_tokenizer **out)
{
    fv_tokenizer_trainer *trainer = NULL;
    const int of_target = fv_recipe_choice(run->recipe, "tokens.target_kind");
    const int kind =
        source || of_target == 0 ? fv_recipe_choice(run->recipe, "tokens.kind") : of_target - 1;
    FV_TRY(fv_tokenizer_trainer_from(run->ctx, run->recipe, kind, NULL, &trainer));
    fv_status status = FV_OK;
    if (source) status = learn_side(run, trainer, true);
    if (status == FV_OK && target) status = learn_side(run, trainer, false);
    if (status == FV_OK) status = fv_tokenizer_trainer_finish(trainer, out);
    fv_tokenizer_trainer_destroy(&trainer);
    return status;
}

static fv_status learn_both(const fv_translation_task *run, fv_tokenizer **source,
                            fv_tokenizer **target)
{
    const bool joint = fv_recipe_bool(run->recipe, "tokens.joint");
    FV_RETURN_IF(joint && fv_recipe_choice(run->recipe, "tokens.target_kind") > 0, run->ctx,
                 FV_ERR_ARGUMENT,
                 "tokens.target_kind: expected \"same\" with tokens.joint = true, which has one "
                 "tokenizer for both sides");
    if (joint) {
        FV_TRY(learn(run, true, true, source));
        *target = *source;
        return FV_OK;
    }
    FV_TRY(learn(run, true, false, source));
    fv_status status = learn(run, false, true, target);
    if (status != FV_OK) fv_tokenizer_destroy(source);
    return status;
}

fv_status fv_translation_tokenizers(const fv_translation_task *run, fv_tokenizer **source,
                                    fv_tokenizer **target)
{
    static const char *const names[] = {"tokenizer.json", "target_tokenizer.json"};
    for (int i = 0; i < 2; i++) {
        char path[FV_PATH_BYTES];
        FV_TRY(fv_path_join(run->ctx, path, run->folder, names[i]));
        if (fv_file_exists(run->ctx, path))
            return fv_load_tokenizer_pair(run->ctx, run->folder, source, target);
    }
    const char *first = fv_recipe_text(run->recipe, "train.init_from");
    return *first ? fv_load_tokenizer_pair(run->ctx, first, source, target)
                  : learn_both(run, source, target);
}
