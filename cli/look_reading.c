/*
 * fovea look for a recurrent model that attends over what it has read (an LSTMN): one map a layer,
 * from each word to the words before it.
 */
#include <stdlib.h>
#include <string.h>

#include "fovea/file.h"
#include "input.h"
#include "look_model.h"
#include "output.h"

typedef struct reading {
    const look_words *words;
    float *map; /* [count][count] */
} reading;

static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    reading *r = user;
    const size_t bytes = (size_t)(r->words->count * r->words->count) * sizeof *r->map;
    return fv_tensor_read(ctx, site->captured.weights, r->map, bytes);
}

static fv_status read_text(fv_ctx *ctx, fv_model *model, const char *site, reading *r)
{
    const int64_t *ids = r->words->ids, length = r->words->count;
    const fv_sequences text = {.count = 1, .tokens = &ids, .length = &length};
    const fv_batch batch = fv_batch_of_tokens(&text);
    const fv_capture capture = {
        .sites = site, .options = {.weights = true}, .on_weights = take, .user = r};
    r->map = malloc((size_t)(length * length) * sizeof *r->map);
    if (!r->map) return FV_ERR_MEMORY;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const fv_status status =
        fv_model_capture_attention(model, &batch, &(fv_pass){.capture = &capture});
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

static fv_status save_array(fv_ctx *ctx, const reading *r, const char *site, const char *path)
{
    const int64_t shape[] = {r->words->count, r->words->count};
    fv_scope_begin(ctx);
    fv_tensor *weights = fv_from_host(ctx, FV_F32, 2, shape, r->map);
    const fv_status status = fv_npz_save(ctx, &site, &weights, 1, path);
    fv_scope_end(ctx);
    if (status == FV_OK) cli_note("wrote %s (1 array)", path);
    return status;
}

/* {"text": ..., "site": ..., "words": [...], "weights": [[...], ...]} */
static void print_json(const reading *r, const char *site, const look_axis *axis, const float *map)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "text", r->words->text);
    cli_json_text(&j, "site", site);
    cli_json_open(&j, "words", '[');
    for (int64_t i = 0; i < axis->count; i++)
        cli_json_text(&j, NULL, axis->labels[i]);
    cli_json_close(&j, ']');
    cli_json_open(&j, "weights", '[');
    for (int64_t i = 0; i < axis->count; i++) {
        cli_json_open(&j, NULL, '[');
        for (int64_t k = 0; k < axis->count; k++)
            cli_json_exact(&j, NULL, (double)map[i * axis->count + k]);
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static fv_status show(const cli_call *call, fv_ctx *ctx, const reading *r, const char *site,
                      const fv_look_options *how, const char *path)
{
    look_axis axis = {0};
    fv_status status = FV_ERR_MEMORY;
    float *map = NULL;
    const bool pieces = cli_flag(call, "pieces");
    if (look_axis_make(r->words, r->words->count, pieces, cli_flag(call, "no-special"), &axis))
        map = malloc((size_t)(axis.count * axis.count + 1) * sizeof *map);
    for (int64_t i = 0; map && i < axis.count; i++)
        look_axis_row(&axis, i, &axis, r->map + axis.tokens[i].first * r->words->count,
                      r->words->count, false, map + i * axis.count);
    if (map) status = FV_OK;
    if (map && cli_flag(call, "json")) print_json(r, site, &axis, map);
    const fv_look_map picture = {.rows = axis.count,
                                 .cols = axis.count,
                                 .values = map,
                                 .row_labels = (const char *const *)axis.labels,
                                 .col_labels = (const char *const *)axis.labels,
                                 .title = look_title(call, r->words->text),
                                 .row_title = "word being read",
                                 .col_title = "words before it"};
    const bool array = cli_ends_with(path, ".npz");
    if (map && array)
        status = save_array(ctx, r, site, path);
    else if (map && (path || !cli_flag(call, "json")))
        status = look_draw_map(ctx, &picture, how, path);
    if (status == FV_OK && path && !array)
        cli_note("wrote %s (%lld %s)", path, (long long)axis.count, pieces ? "tokens" : "words");
    free(map);
    look_axis_free(&axis);
    return status;
}

/* The name of the site of --layer, or of the last one. */
static bool choose_site(const cli_call *call, fv_model *model, fv_site *out)
{
    enum { MOST = 64 };
    fv_site sites[MOST];
    const fv_model_kind *kind = fv_model_kind_of(model);
    const int count =
        kind->attention_sites ? kind->attention_sites(fv_model_self(model), sites, MOST) : 0;
    if (count < 1) {
        cli_error("look: this model has no attention");
        return false;
    }
    const int64_t layer = cli_given(call, "layer") ? cli_int(call, "layer") : count - 1;
    if (layer >= count) {
        cli_error("look: --layer %lld: the model has %d, counted from 0", (long long)layer, count);
        return false;
    }
    *out = sites[layer];
    return true;
}

int cli_look_reading(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                     const char *path)
{
    fv_look_options how;
    fv_site site;
    const char *inside = look_inside_option(call);
    if (inside && strcmp(inside, "layer") != 0) {
        cli_error("look: --%s is for Transformers; this model has one attention map in a layer",
                  inside);
        return CLI_USAGE;
    }
    if (!look_picture_options(call, &how)) return CLI_USAGE;
    if (!choose_site(call, model, &site)) return cli_given(call, "layer") ? CLI_USAGE : CLI_MISSING;
    look_words words = {0};
    reading r = {.words = &words};
    fv_status status = look_words_encode(ctx, fv_model_spec(model)->source, text, 0, -1, &words);
    int code = CLI_DONE;
    if (status == FV_OK && words.count == 0) {
        cli_error("look: the text is empty");
        code = CLI_USAGE;
    } else if (status == FV_OK) {
        status = read_text(ctx, model, site.name, &r);
        if (status == FV_OK) status = show(call, ctx, &r, site.name, &how, path);
    }
    if (status != FV_OK) code = cli_library_error("look", ctx, status);
    free(r.map);
    look_words_free(&words);
    return code;
}
