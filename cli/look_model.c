/* fovea look for a Transformer: tokenizes, runs one pass that captures attention, shows the result.
 */
#include "look_model.h"

#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "input.h"
#include "model.h"
#include "output.h"

const look_words *look_rows(const look_work *w)
{
    return w->target.count && strcmp(cli_text(w->call, "at"), "encoder") != 0 ? &w->target
                                                                              : &w->source;
}

const look_words *look_cols(const look_work *w) { return w->cross ? &w->source : look_rows(w); }

/* ---- the pass ------------------------------------------------------------------------------ */

static fv_token_rows rows_of(const look_work *w, const look_words *words)
{
    const int64_t *list = words->ids;
    const int64_t *types = words->types;
    const fv_sequences one = {
        .count = 1, .tokens = &list, .length = &words->count, .types = types ? &types : NULL};
    return fv_token_rows_varlen(w->ctx, &one);
}

static fv_status watch(look_work *w, const char *sites)
{
    fv_ctx *ctx = w->ctx;
    const fv_transformer_config *c = fv_transformer_settings(w->t);
    const fv_capture capture = {
        .sites = sites,
        .options = {.top = w->mode == LOOK_TOP && w->arrays ? cli_int(w->call, "top") : 0,
                    .summary = w->mode == LOOK_ENTROPY,
                    .saved = true},
        .on_weights = look_take,
        .user = w};
    const fv_pass pass = {.capture = &capture};
    fv_status status = FV_OK;
    const bool given = cli_given(w->call, "ids");
    fv_token_rows source = {0}, target = {0};
    if (given) {
        source = (fv_token_rows){.ids = cli_load_i64_option(ctx, w->call, "ids", &status),
                                 .mask = cli_load_i64_option(ctx, w->call, "mask", &status),
                                 .types = cli_load_i64_option(ctx, w->call, "type-ids", &status)};
        target.ids = cli_load_i64_option(ctx, w->call, "decoder-ids", &status);
    } else {
        source = rows_of(w, &w->source);
        if (w->target.count) target = rows_of(w, &w->target);
    }
    if (status != FV_OK) return status;
    if (c->encoder_layers == 0) {
        fv_transformer_decode(ctx, w->t, &source, NULL, NULL, &pass);
    } else {
        fv_tensor *memory = fv_transformer_encode(ctx, w->t, &source, &pass);
        if (c->decoder_layers) fv_transformer_decode(ctx, w->t, &target, memory, &source, &pass);
    }
    return fv_ctx_error(ctx);
}

/* ---- choices -------------------------------------------------------------------------------- */

static look_mode mode_of(const cli_call *call)
{
    const char *path = cli_text(call, "output");
    const bool picture = path && !cli_ends_with(path, ".txt") && !cli_ends_with(path, ".npz");
    if (cli_flag(call, "entropy")) return LOOK_ENTROPY;
    if (cli_flag(call, "rollout")) return LOOK_ROLLOUT;
    if (cli_given(call, "from")) return picture ? LOOK_LINKS : LOOK_WORD;
    if (cli_given(call, "top")) return LOOK_TOP;
    if (cli_ends_with(path, ".npz")) return LOOK_ARRAYS;
    if (cli_flag(call, "links")) return LOOK_LINKS;
    return cli_given(call, "head") || !picture ? LOOK_MAP : LOOK_HEADS;
}

/* Options of pictures that what is shown does not have; NULL if there is none. */
static const char *useless_option(const look_work *w)
{
    const char *path = cli_text(w->call, "output");
    const bool text = !path || cli_ends_with(path, ".txt");
    const bool lines = w->mode == LOOK_LINKS || cli_flag(w->call, "links");
    const bool table = w->mode == LOOK_TOP || w->mode == LOOK_WORD || w->arrays ||
                       (w->mode == LOOK_ENTROPY && text);
    static const char *const looks[] = {"palette", "range", "numbers", "cell", "title"};
    for (int i = 0; i < 5; i++) {
        if (!cli_given(w->call, looks[i])) continue;
        if (table) return "--palette, --range, --numbers, --cell and --title are for pictures";
        if (lines && i < 4) return "--palette, --range, --numbers and --cell are for maps";
    }
    if (cli_given(w->call, "cell") && text) return "--cell needs -o FILE of a picture";
    if (cli_flag(w->call, "numbers") && w->mode == LOOK_HEADS)
        return "--numbers is for one map: choose it with --layer and --head";
    return NULL;
}

/* Options that exclude each other, or do not apply to this model. */
static const char *contradiction(const look_work *w)
{
    const fv_transformer_config *c = fv_transformer_settings(w->t);
    const bool answers = c->encoder_layers && c->decoder_layers;
    const char *path = cli_text(w->call, "output");
    if (cli_flag(w->call, "pharaoh"))
        return "--pharaoh is for translators trained with 'fovea train'";
    if (!answers && (cli_given(w->call, "target") || cli_given(w->call, "beam")))
        return "--target and --beam are for encoder-decoders";
    if (cli_given(w->call, "to") && !cli_given(w->call, "from")) return "--to needs --from";
    if (cli_given(w->call, "from") && cli_given(w->call, "ids"))
        return "--from needs a text: --ids have no words";
    if (w->mode == LOOK_LINKS && (!path || cli_ends_with(path, ".txt")))
        return "--links needs -o FILE that ends with .svg, .png, .pdf or .html";
    if (w->mode == LOOK_TOP && path && !w->arrays && !cli_ends_with(path, ".txt"))
        return "--top is a table: expected -o FILE that ends with .txt or .npz";
    if (w->mode == LOOK_WORD && w->arrays)
        return "--from has no arrays: expected -o FILE that ends with .txt, .svg, .png, .pdf or "
               ".html";
    if (w->no_special && (w->arrays || w->mode == LOOK_ENTROPY))
        return "--no-special is for maps and tables: .npz and --entropy have every token";
    if (w->no_special && !w->text) return "--no-special needs a text: --ids have no special tokens";
    if (w->mode == LOOK_ROLLOUT && w->cross)
        return "--rollout is for self-attention: it needs --at encoder or --at decoder";
    return useless_option(w);
}

/* "A:B", rows or columns A to B - 1. */
static bool read_range(const look_work *w, const char *option, look_range *out)
{
    const char *text = cli_text(w->call, option);
    long long first = 0, end = 0;
    char more = 0;
    *out = (look_range){0, -1};
    if (!text) return true;
    if (sscanf(text, "%lld:%lld%c", &first, &end, &more) != 2 || first < 0 || end <= first) {
        cli_error("look: --%s %s: expected A:B, the tokens A to B - 1, counted from 0", option,
                  text);
        return false;
    }
    *out = (look_range){first, end - first};
    return true;
}

/* The name pattern of the requested sites. False: the error is already printed. */
static bool choose(look_work *w, char sites[64])
{
    const fv_transformer_config *c = fv_transformer_settings(w->t);
    const char *at = cli_text(w->call, "at");
    const bool both = c->encoder_layers && c->decoder_layers, automatic = strcmp(at, "auto") == 0;
    const bool encoder = strcmp(at, "encoder") == 0 || (automatic && !c->decoder_layers);
    w->cross = strcmp(at, "cross") == 0 || (automatic && both);
    const int64_t layers = encoder ? c->encoder_layers : c->decoder_layers;
    const int64_t heads = encoder ? c->heads : c->decoder_heads;
    w->heads = heads;
    w->layer = cli_given(w->call, "layer") ? cli_int(w->call, "layer") : -1;
    w->head = cli_given(w->call, "head") ? cli_int(w->call, "head") : -1;
    if (layers == 0 || (w->cross && !both)) {
        cli_error("look: --at %s: this model has no such attention", at);
        return false;
    }
    if (w->layer >= layers || w->head >= heads) {
        cli_error("look: expected a layer from 0 to %lld and a head from 0 to %lld",
                  (long long)layers - 1, (long long)heads - 1);
        return false;
    }
    const char *wrong = contradiction(w);
    if (wrong) {
        cli_error("look: %s", wrong);
        return false;
    }
    if (!read_range(w, "rows", &w->rows) || !read_range(w, "cols", &w->cols)) return false;
    const bool one = w->mode == LOOK_MAP || w->mode == LOOK_TOP ||
                     (w->mode == LOOK_LINKS && !cli_given(w->call, "from"));
    if (one && w->layer < 0) w->layer = layers - 1;
    w->layers = w->layer < 0 ? layers : 1;
    char layer[24] = "*";
    if (w->layer >= 0) cli_format(layer, sizeof layer, "%lld", (long long)w->layer);
    if (w->mode == LOOK_ARRAYS && automatic)
        cli_format(sites, 64, "*.%s.*", layer);
    else
        cli_format(sites, 64, "%s.%s.%s", encoder ? "encoder" : "decoder", layer,
                   w->cross ? "cross" : "self");
    return true;
}

/* The positions of the words of --from and --to. */
static bool find_words(look_work *w)
{
    const struct {
        const char *option;
        const look_words *words;
        look_range *places;
        int *count;
    } both[] = {{"from", look_rows(w), w->from, &w->from_count},
                {"to", look_cols(w), w->to, &w->to_count}};
    for (int i = 0; i < 2; i++) {
        const char *word = cli_text(w->call, both[i].option);
        if (!word) continue;
        *both[i].count = look_words_find(both[i].words, word, both[i].places, LOOK_PLACES);
        if (*both[i].count == 0) {
            cli_error("look: --%s %s: the text does not contain this word", both[i].option, word);
            return false;
        }
    }
    return true;
}

static void work_free(look_work *w)
{
    for (int i = 0; i < w->count; i++) {
        free(w->sites[i].values);
        free(w->sites[i].index);
    }
    free(w->sites);
    free(w->rolled);
    look_axis_free(&w->row_axis);
    look_axis_free(&w->col_axis);
    look_words_free(&w->source);
    look_words_free(&w->target);
}

static void report_lost(const look_work *w)
{
    const look_lost *l = &w->lost;
    if (!w->no_special || l->maps == 0) return;
    if (l->maps == 1)
        cli_note("look: special tokens had %.1f %% of the weight", 100 * l->sum);
    else
        cli_note("look: special tokens had %.1f %% of the weight, from %.1f %% to %.1f %% in a map",
                 100 * l->sum / (double)l->maps, 100 * l->min, 100 * l->max);
}

static void report_written(const look_work *w)
{
    char layers[48], heads[48];
    const int64_t all = w->heads;
    if (!w->path) return;
    if (w->arrays) {
        cli_note("wrote %s (%d %s)", w->path, w->mode == LOOK_ARRAYS ? w->count : 1,
                 w->mode == LOOK_ARRAYS && w->count != 1 ? "arrays" : "array");
        return;
    }
    if (w->layer >= 0)
        cli_format(layers, sizeof layers, "layer %lld", (long long)w->layer);
    else
        cli_format(layers, sizeof layers, "%lld layer%s", (long long)w->layers,
                   w->layers == 1 ? "" : "s");
    if (w->head >= 0)
        cli_format(heads, sizeof heads, "head %lld", (long long)w->head);
    else
        cli_format(heads, sizeof heads, "%s%lld head%s", w->mode == LOOK_MAP ? "mean of " : "",
                   (long long)all, all == 1 ? "" : "s");
    cli_note("wrote %s (%s, %s)", w->path, layers, heads);
}

int cli_look_model(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                   const char *path)
{
    look_work w = {.call = call,
                   .ctx = ctx,
                   .text = text,
                   .path = path,
                   .t = fv_model_transformer(model),
                   .mode = mode_of(call),
                   .arrays = cli_ends_with(path, ".npz"),
                   .pieces = cli_flag(call, "pieces"),
                   .no_special = cli_flag(call, "no-special"),
                   .full = cli_flag(call, "full")};
    char sites[64];
    if (!look_picture_options(call, &w.how) || !choose(&w, sites)) return CLI_USAGE;
    int code = CLI_DONE;
    fv_no_grad_begin(ctx);
    fv_status status = text ? look_read_texts(&w, model) : FV_OK;
    if (status == FV_OK && text && w.source.count == 0) {
        cli_error("look: the text is empty");
        code = CLI_USAGE;
    }
    if (status == FV_OK && code == CLI_DONE && !find_words(&w)) code = CLI_USAGE;
    if (status == FV_OK && code == CLI_DONE) status = watch(&w, sites);
    if (status == FV_OK && code == CLI_DONE) status = look_show(&w);
    if (status == FV_OK && code == CLI_DONE) {
        report_lost(&w);
        report_written(&w);
    }
    fv_no_grad_end(ctx);
    if (status != FV_OK && !w.reported)
        code = cli_library_error("look", ctx, status);
    else if (status != FV_OK) /* an option that does not fit the text, or a file */
        code = status == FV_ERR_IO ? cli_exit_code(status) : CLI_USAGE;
    work_free(&w);
    return code;
}
