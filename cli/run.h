/* The parts of 'fovea run': reading texts, and one function per ability. */
#ifndef FOVEA_CLI_RUN_H
#define FOVEA_CLI_RUN_H

#include "fovea/encode.h"
#include "fovea/generate.h"
#include "model.h"

/* Processes some texts; returns an exit code. */
typedef int cli_texts_fn(void *user, int64_t count, const fv_string *texts);

/*
 * Passes all texts of the call to `each`, up to `together` at a time: --prompt, the words after the
 * model, or else the lines of --file. Returns the first exit code that is not CLI_DONE.
 */
int cli_for_each_batch(const cli_call *call, fv_ctx *ctx, int64_t together, cli_texts_fn *each,
                       void *user);

/* The same for a model that reads pairs, "text<tab>second text": two words without a tab are one.
 */
int cli_for_each_pair(const cli_call *call, fv_ctx *ctx, int64_t together, cli_texts_fn *each,
                      void *user);
/* The two texts of "text<tab>second text". Fails: FORMAT (no tab). */
fv_status cli_split_pair(fv_ctx *ctx, fv_string text, fv_text_pair *out);

/* Each runs a model with one ability, or several, and returns the exit code. cli_run_generate and
 * cli_run_encoder keep the model and set *model to NULL. */
int cli_run_translate(const cli_call *call, fv_ctx *ctx, fv_model **model);
int cli_run_generate(const cli_call *call, fv_ctx *ctx, fv_model **model);
int cli_run_encoder(const cli_call *call, fv_ctx *ctx, fv_model **model);
int cli_run_play(const cli_call *call, fv_ctx *ctx, fv_model **model);
int cli_run_trial(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *number);
int cli_run_draw(const cli_call *call, fv_ctx *ctx, fv_model **model);
int cli_run_words(const cli_call *call, fv_ctx *ctx, fv_model **model);
int cli_run_recommend(const cli_call *call, fv_ctx *ctx, fv_model **model);

/* True if the text is a number, 0 or more, of `what` ("an episode"); else the error is printed. */
bool cli_read_number(const cli_call *call, const char *what, const char *text, int64_t *out);

/* The words of a text with their classes, given those of its tokens. */
fv_status cli_print_words(const cli_call *call, fv_ctx *ctx, const char *text, int64_t count,
                          const fv_classification *rows);
/* The answers to "question<tab>context". */
fv_status cli_print_answer(const cli_call *call, fv_ctx *ctx, fv_answerer *answerer,
                           fv_string text);

/* The ability of --task; auto: what the model was trained for. */
fv_ability cli_run_ability(const cli_call *call, const fv_model *model);

/* Applies the search options of the command line. Any sampling option turns sampling on, except a
 * temperature of 0. */
void cli_read_search_options(const cli_call *call, fv_search_config *d);

/* The form of --dtype. */
fv_weight_form cli_weight_form(const cli_call *call);

#endif
