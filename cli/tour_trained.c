/* The tour: what models that were trained before do. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "fovea/translate.h"
#include "output.h"
#include "tour.h"

enum { LABELS = 256 };

/* The attention of a translation: output tokens down, source tokens across. */
static fv_status show_map(tour *t, const fv_translation *one, const char *title)
{
    const char *rows[LABELS];
    const int64_t count = one->target_count + (one->ended ? 1 : 0);
    if (count > LABELS || !one->weights) return FV_OK;
    for (int64_t i = 0; i < count; i++)
        rows[i] = i < one->target_count ? one->target_tokens[i] : "(end)";
    return tour_map(t,
                    &(fv_look_map){.rows = count,
                                   .cols = one->source_count,
                                   .values = one->weights,
                                   .row_labels = rows,
                                   .col_labels = one->source_tokens,
                                   .title = title},
                    NULL);
}

/* Translates `source` and shows where the model looked, for its own output and for a given one
 * (NULL: none). */
static fv_status translate(tour *t, fv_model *model, const char *source, const char *given)
{
    const fv_string text = {source, strlen(source)};
    fv_translate_config how;
    fv_translate_config_init(&how, sizeof how);
    how.search.beam = 5;
    how.search.length_alpha = 1; /* as 'fovea run' does */
    how.search.want_weights = true;
    fv_translations *out = NULL;
    fv_status status = fv_translate(model, 1, &text, &how, &out);
    if (status == FV_OK) {
        tour_line(t, "%s", source);
        tour_line(t, "-> %s", fv_translations_get(out, 0, 0)->text);
        status = show_map(t, fv_translations_get(out, 0, 0), "its own translation");
    }
    fv_translations_free(&out);
    if (status != FV_OK || !given) return status;
    status = fv_translate_given(model, text, (fv_string){given, strlen(given)}, &out);
    if (status == FV_OK)
        status = show_map(t, fv_translations_get(out, 0, 0), "of the translation in the source");
    fv_translations_free(&out);
    return status;
}

/* With the model of that name in --models; without one, says so. */
static fv_status with_model(tour *t, const char *name, const char *source, const char *given)
{
    char folder[CLI_PATH_BYTES], config[CLI_PATH_BYTES];
    fv_model *model = NULL;
    if (!t->models || !cli_path(folder, "%s/%s", t->models, name) ||
        !cli_path(config, "%s/config.json", folder) || access(config, F_OK) != 0) {
        tour_text(t, "This needs a trained model. The command below trains one; --models names the "
                     "folder that holds it.");
        return FV_OK;
    }
    fv_status status = fv_model_open(t->ctx, folder, &model);
    if (status == FV_OK) status = translate(t, model, source, given);
    fv_model_close(&model);
    return status;
}

fv_status tour_bread(tour *t)
{
    return with_model(t, "tatoeba-en-fr", "We are eating bread.", "Nous mangeons du pain.");
}

fv_status tour_area(tour *t)
{
    return with_model(t, "tatoeba-en-fr",
                      "The agreement on the European Economic Area was signed in August 1992.",
                      "L'accord sur la zone économique européenne a été signé en août 1992.");
}

fv_status tour_apple(tour *t)
{
    return with_model(t, "tatoeba-en-zh", "She is eating a green apple.", NULL);
}
