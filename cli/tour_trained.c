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

/* What a model that was trained before gave: shown without --models. */
typedef struct shown {
    const char *model;
    const char *source, *given; /* given: the translation in the source, or NULL */
    const char *output;         /* the model's own */
    const char *title;          /* of the map */
    const char *about;          /* the model, in a sentence or two */
    int rows, cols;
    const char *const *row_words, *const *col_words;
    const unsigned char *percent;
} shown;

static fv_status show_before(tour *t, const shown *s)
{
    float weights[LABELS];
    for (int i = 0; i < s->rows * s->cols; i++)
        weights[i] = (float)s->percent[i] / 100;
    tour_text(t, s->about);
    tour_line(t, "%s", s->source);
    tour_line(t, "-> %s", s->output);
    return tour_map(t,
                    &(fv_look_map){.rows = s->rows,
                                   .cols = s->cols,
                                   .values = weights,
                                   .row_labels = s->row_words,
                                   .col_labels = s->col_words,
                                   .title = s->title},
                    NULL);
}

/* With the model in --models; without one, what such a model gave. */
static fv_status with_model(tour *t, const shown *s)
{
    char folder[CLI_PATH_BYTES], config[CLI_PATH_BYTES];
    fv_model *model = NULL;
    if (!t->models || !cli_path(folder, "%s/%s", t->models, s->model) ||
        !cli_path(config, "%s/config.json", folder) || access(config, F_OK) != 0)
        return show_before(t, s);
    fv_status status = fv_model_open(t->ctx, folder, &model);
    if (status == FV_OK) status = translate(t, model, s->source, s->given);
    fv_model_close(&model);
    return status;
}

#define FRENCH                                                                                     \
    "Trained before: a small recurrent model with attention, on 160,332 short sentence pairs of "  \
    "Tatoeba, two and a half epochs; BLEU 33.2 on their test sentences. "

fv_status tour_bread(tour *t)
{
    static const char *const source[] = {"We", "are", "eating", "bread", "."};
    static const char *const output[] = {"Nous", "manger", "du", "pain", ".", "(end)"};
    static const unsigned char percent[] = {
        89, 10, 1,  0,  0,  /* Nous */
        2,  12, 84, 2,  0,  /* manger */
        2,  4,  68, 21, 5,  /* du */
        0,  0,  9,  85, 5,  /* pain */
        1,  4,  7,  15, 74, /* . */
        0,  2,  22, 26, 50, /* (end) */
    };
    return with_model(t, &(shown){.model = "tatoeba-en-fr",
                                  .source = "We are eating bread.",
                                  .given = "Nous mangeons du pain.",
                                  .output = "Nous manger du pain.",
                                  .title = "its own translation",
                                  .about = FRENCH "The verb has the wrong form: \"mangeons\" would "
                                                  "be right.",
                                  .rows = 6,
                                  .cols = 5,
                                  .row_words = output,
                                  .col_words = source,
                                  .percent = percent});
}

fv_status tour_area(tour *t)
{
    static const char *const source[] = {"The",      "agreement", "on",  "the",    "European",
                                         "Economic", "Area",      "was", "signed", "in",
                                         "August",   "1992",      "."};
    static const char *const output[] = {"L'accord",   "sur",  "la",  "zone",  "économique",
                                         "européenne", "a",    "été", "signé", "en",
                                         "août",       "1992", ".",   "(end)"};
    static const unsigned char percent[] = {
        18, 79, 2,  1,  0,  1,  0,  0,  0,  0,  0,  0,  0,  /* L'accord */
        1,  10, 82, 4,  1,  2,  1,  0,  0,  0,  0,  0,  0,  /* sur */
        0,  7,  18, 27, 28, 16, 3,  1,  0,  0,  0,  0,  0,  /* la */
        0,  2,  2,  4,  51, 33, 6,  1,  0,  0,  0,  0,  0,  /* zone */
        0,  0,  1,  1,  30, 47, 15, 3,  1,  0,  1,  0,  0,  /* économique */
        0,  0,  0,  1,  8,  30, 28, 16, 11, 3,  2,  1,  0,  /* européenne */
        0,  0,  0,  0,  1,  11, 22, 26, 27, 7,  4,  3,  0,  /* a */
        0,  0,  0,  0,  1,  3,  6,  26, 42, 6,  11, 4,  0,  /* été */
        0,  0,  0,  0,  0,  1,  1,  1,  72, 12, 8,  5,  0,  /* signé */
        0,  0,  0,  0,  0,  0,  0,  1,  19, 44, 22, 14, 1,  /* en */
        0,  0,  0,  0,  0,  0,  0,  0,  4,  5,  40, 50, 1,  /* août */
        0,  0,  0,  0,  0,  0,  0,  0,  1,  4,  27, 63, 4,  /* 1992 */
        1,  0,  0,  0,  0,  0,  0,  0,  1,  2,  10, 70, 16, /* . */
        1,  0,  0,  0,  0,  0,  0,  0,  1,  2,  8,  58, 31, /* (end) */
    };
    return with_model(
        t,
        &(shown){.model = "tatoeba-en-fr",
                 .source = "The agreement on the European Economic Area was signed in August "
                           "1992.",
                 .given = "L'accord sur la zone économique européenne a été signé en août 1992.",
                 .output = "L'accord sur l'exabalkal a été envéé dans l'air de l'université.",
                 .title = "of the translation in the source",
                 .about = FRENCH
                 "Its own translation is not French. Tatoeba has everyday sentences: of 167,130, "
                 "15 have the word \"European\", 12 \"economic\", none \"zone économique\", and "
                 "3 % are as long as this one. The paper's model learned from the debates of "
                 "parliaments and from news, where such words are common.",
                 .rows = 14,
                 .cols = 13,
                 .row_words = output,
                 .col_words = source,
                 .percent = percent});
}

fv_status tour_apple(tour *t)
{
    static const char *const source[] = {"She", "is", "eating", "a", "green", "apple", "."};
    static const char *const output[] = {"她", "正", "吃", "吃", "一", "個",   "綠",
                                         "色", "的", "蘋", "果", "。", "(end)"};
    static const unsigned char percent[] = {
        62, 4,  2,  1,  0,  0,  31, /* she */
        1,  43, 54, 2,  0,  0,  0,  /* just now */
        1,  1,  88, 8,  3,  0,  0,  /* eat */
        0,  0,  84, 4,  11, 1,  0,  /* eat */
        1,  0,  1,  46, 48, 4,  1,  /* one */
        0,  0,  0,  4,  69, 27, 0,  /* (counted) */
        0,  0,  0,  0,  97, 3,  0,  /* green */
        0,  0,  0,  0,  90, 9,  0,  /* colour */
        4,  1,  8,  4,  24, 45, 14, /* 's */
        2,  0,  1,  1,  10, 76, 10, /* ap- */
        1,  0,  1,  0,  9,  84, 6,  /* ple */
        5,  9,  4,  1,  2,  14, 64, /* . */
        13, 9,  8,  1,  1,  3,  66, /* (end) */
    };
    return with_model(t,
                      &(shown){.model = "tatoeba-en-zh",
                               .source = "She is eating a green apple.",
                               .output = "她正吃吃一個綠色的蘋果。",
                               .title = "its own translation",
                               .about = "Trained before: a small recurrent model with attention, "
                                        "on 25,289 sentence pairs. \"Eat\" comes twice; every "
                                        "other character is right.",
                               .rows = 13,
                               .cols = 7,
                               .row_words = output,
                               .col_words = source,
                               .percent = percent});
}
