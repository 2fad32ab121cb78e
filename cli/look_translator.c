/* fovea look for a translator: one map, from output words to source words. */
#include <stdlib.h>
#include <string.h>

#include "fovea/file.h"
#include "heatmap.h"
#include "input.h"
#include "look_model.h"
#include "output.h"

static fv_string string_of(const char *text) { return (fv_string){text, strlen(text)}; }

/* The weights as an array, for other programs. */
static fv_status save_array(fv_ctx *ctx, const fv_translation *t, const char *path)
{
    const int64_t shape[] = {t->target_count + (t->ended ? 1 : 0), t->source_count};
    fv_scope_begin(ctx);
    fv_tensor *weights = fv_from_host(ctx, FV_F32, 2, shape, t->weights);
    const char *name = "decoder.0.cross";
    const fv_status status = fv_npz_save(ctx, &name, &weights, 1, path);
    fv_scope_end(ctx);
    if (status == FV_OK) cli_note("wrote %s (1 array)", path);
    return status;
}

/* The tokens of one side, which spell `text`; `end` adds the row of the end token. */
static bool words_of(const char *const *tokens, int64_t count, bool end, const char *text,
                     look_words *out)
{
    if (!look_words_room(out, count + end, text)) return false;
    bool made = true;
    for (int64_t i = 0; made && i < out->count; i++) {
        out->labels[i] = strdup(i < count ? tokens[i] : "(end)");
        out->special[i] = i == count;
        made = out->labels[i] != NULL;
    }
    if (made) look_words_align(out, out->text);
    return made;
}

/* The tokens of the source. The tokenizer knows their places in the text even if it changes
 * letters; if it does not give the model's tokens, their spelling is all there is. */
static fv_status source_words(const cli_call *call, fv_ctx *ctx, const fv_translation *t,
                              const char *text, look_words *out)
{
    fv_tokenizer *tok = NULL;
    fv_status status = fv_tokenizer_load(ctx, call->words[0], &tok);
    if (status == FV_OK) status = look_words_encode(ctx, tok, text, 0, -1, out);
    fv_tokenizer_destroy(&tok);
    if (status != FV_OK || out->count == t->source_count) return status;
    look_words_free(out);
    return words_of(t->source_tokens, t->source_count, false, text, out) ? FV_OK : FV_ERR_MEMORY;
}

/* The map between words, [rows][cols]; free() it. */
static float *map_of(const fv_translation *t, const look_axis *rows, const look_axis *cols)
{
    float *map = malloc((size_t)(rows->count * cols->count + 1) * sizeof *map);
    for (int64_t r = 0; map && r < rows->count; r++)
        look_axis_row(rows, r, cols, t->weights + rows->tokens[r].first * t->source_count,
                      t->source_count, false, map + r * cols->count);
    return map;
}

static fv_status draw(const cli_call *call, fv_ctx *ctx, const fv_translation *t,
                      const char *source, const fv_look_options *how, const char *path)
{
    look_words from = {0}, to = {0};
    look_axis rows = {0}, cols = {0};
    const bool pieces = cli_flag(call, "pieces"), no_special = cli_flag(call, "no-special");
    fv_status status = source_words(call, ctx, t, source, &from);
    const bool made = status == FV_OK &&
                      words_of(t->target_tokens, t->target_count, t->ended, t->text, &to) &&
                      look_axis_make(&to, to.count, pieces, no_special, &rows) &&
                      look_axis_make(&from, from.count, pieces, false, &cols);
    float *map = made ? map_of(t, &rows, &cols) : NULL;
    if (status == FV_OK && !map) status = FV_ERR_MEMORY;
    const fv_look_map picture = {.rows = rows.count,
                                 .cols = cols.count,
                                 .values = map,
                                 .row_labels = (const char *const *)rows.labels,
                                 .col_labels = (const char *const *)cols.labels,
                                 .title = look_title(call, t->text),
                                 .row_title = "output",
                                 .col_title = "source"};
    if (status == FV_OK) status = look_draw_map(ctx, &picture, how, path);
    if (status == FV_OK && path)
        cli_note("wrote %s (%lld output x %lld source %s)", path, (long long)rows.count,
                 (long long)cols.count, pieces ? "tokens" : "words");
    free(map);
    look_axis_free(&rows);
    look_axis_free(&cols);
    look_words_free(&from);
    look_words_free(&to);
    return status;
}

static fv_status show(const cli_call *call, fv_ctx *ctx, const fv_translation *t,
                      const char *source, const fv_look_options *how, const char *path)
{
    if (cli_flag(call, "pharaoh")) {
        cli_print_pharaoh(t);
        return FV_OK;
    }
    if (cli_ends_with(path, ".npz")) return save_array(ctx, t, path);
    return draw(call, ctx, t, source, how, path);
}

int cli_look_translator(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                        const char *path)
{
    fv_translations *out = NULL;
    fv_status status = FV_OK;
    int code = CLI_DONE;
    const char *inside = look_inside_option(call);
    if (inside) {
        cli_error("look: --%s is for Transformers; a recurrent translator has one attention map, "
                  "from output words to source words",
                  inside);
        return CLI_USAGE;
    }
    fv_look_options how;
    if (!look_picture_options(call, &how)) return CLI_USAGE;
    const fv_string source = string_of(text);
    if (cli_given(call, "target")) {
        status = fv_translate_given(model, source, string_of(cli_text(call, "target")), &out);
    } else {
        fv_translate_config cfg;
        fv_translate_config_init(&cfg, sizeof cfg);
        cfg.search.beam = (int)cli_int(call, "beam");
        cfg.search.want_weights = true;
        status = fv_translate(model, 1, &source, &cfg, &out);
    }
    if (status == FV_OK) {
        const fv_translation *best = fv_translations_get(out, 0, 0);
        if (best && best->weights) {
            status = show(call, ctx, best, text, &how, path);
        } else {
            cli_error("look: no attention weights: %s",
                      source.bytes ? "this model has no attention" : "the source is empty");
            code = source.bytes ? CLI_MISSING : CLI_USAGE;
        }
    }
    if (status != FV_OK) code = cli_library_error("look", ctx, status);
    fv_translations_free(&out);
    return code;
}
