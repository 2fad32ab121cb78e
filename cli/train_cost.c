/*
 * Expected memory and time of a training run, from its sizes. Both are estimates: memory is that of
 * weights, gradients and two moments, and of what a batch keeps for backward; time counts six
 * operations per parameter and token, at a share of the machine's speed in matrix products.
 */
#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "memory.h"
#include "output.h"
#include "train_new.h"

/* ---- sizes --------------------------------------------------------------------------------- */

/* Numbers of a model that costs depend on. */
typedef struct sizes {
    double embedding, body; /* parameters */
    double per_token;       /* floats that a token keeps for backward, without its logits */
    double vocabulary;
    double passes; /* share of the body that a token goes through */
    double share;  /* of the machine's speed that such layers reach */
} sizes;

static double number(const fv_recipe *recipe, const char *name, double fallback)
{
    const double value = (double)fv_recipe_int(recipe, name);
    return value > 0 ? value : fallback;
}

static sizes recurrent(const fv_recipe *recipe, const cli_plan *plan)
{
    const double e = number(recipe, "model.embedding", 256),
                 c = number(recipe, "model.encoder_hidden", 256),
                 h = number(recipe, "model.hidden", 256),
                 a = number(recipe, "model.attention_width", 256),
                 r = number(recipe, "model.readout_width", 256),
                 v = plan ? plan->target_tokens : number(recipe, "tokens.vocabulary", 8000),
                 u = plan ? plan->source_tokens : v;
    const bool tied = fv_recipe_bool(recipe, "model.tied");
    return (sizes){.embedding = (u + v) * e,
                   .passes = 0.5, /* a token goes through the encoder or the decoder */
                   .body = 6 * c * (e + c) + 3 * h * (e + 2 * c + h) + a * (2 * c + h) +
                           r * (h + 2 * c + e) + (tied ? 0 : v * r),
                   .per_token = 12 * c + 16 * h + 24 * a + 8 * e + 4 * r,
                   .vocabulary = v,
                   .share = 0.25};
}

static sizes transformer(const fv_recipe *recipe, const cli_plan *plan)
{
    const double w = number(recipe, "transformer.width", 768),
                 f = number(recipe, "transformer.hidden", 4 * w),
                 v = plan ? plan->target_tokens : number(recipe, "tokens.vocabulary", 8000);
    const bool both = strcmp(fv_recipe_text(recipe, "train.task"), "translation") == 0 ||
                      strcmp(fv_recipe_text(recipe, "train.task"), "spans") == 0;
    const double reads = number(recipe, "transformer.encoder_layers", both ? 6 : 12),
                 writes = number(recipe, "transformer.decoder_layers", both ? 6 : 12);
    const bool encoder = strcmp(fv_recipe_text(recipe, "transformer.family"), "bert") == 0;
    const double layers = both ? reads + writes : encoder ? reads : writes;
    const bool recompute = fv_recipe_bool(recipe, "train.recompute");
    return (sizes){.embedding = v * w,
                   .passes = both ? 0.5 : 1,
                   .body = layers * (4 * w * w + 2 * w * f) + (both ? writes * 4 * w * w : 0),
                   .per_token = recompute ? layers * w + 25 * w + 8 * f : layers * (25 * w + 8 * f),
                   .vocabulary = v,
                   .share = 0.4};
}

/* Two tables, and nothing kept for backward. */
static sizes word_vectors(const fv_recipe *recipe, const cli_plan *plan)
{
    const double v = plan ? plan->source_tokens : number(recipe, "tokens.vocabulary", 8000);
    return (sizes){.embedding = 2 * v * number(recipe, "word2vec.width", 100),
                   .passes = 1,
                   .vocabulary = v,
                   .share = 0.1};
}

static bool is_word2vec(const fv_recipe *recipe)
{
    return strcmp(fv_recipe_text(recipe, "train.task"), "word2vec") == 0;
}

bool cli_is_transformer(const fv_recipe *recipe)
{
    const char *kind = fv_recipe_text(recipe, "model.kind"),
               *task = fv_recipe_text(recipe, "train.task");
    if (is_word2vec(recipe)) return false;
    return strcmp(kind, "auto") == 0 ? strcmp(task, "translation") != 0
                                     : strcmp(kind, "transformer") == 0;
}

static sizes sizes_of(const fv_recipe *recipe, const cli_plan *plan)
{
    sizes s = is_word2vec(recipe)          ? word_vectors(recipe, plan)
              : cli_is_transformer(recipe) ? transformer(recipe, plan)
                                           : recurrent(recipe, plan);
    if (plan && plan->parameters > s.embedding) s.body = plan->parameters - s.embedding;
    return s;
}

/* Tokens of a batch, and how many of them have logits. */
static double batch_tokens(const fv_recipe *recipe, double *predicted)
{
    const char *task = fv_recipe_text(recipe, "train.task");
    const double examples = (double)fv_recipe_int(recipe, "train.batch_examples"),
                 length = number(recipe, "data.length", number(recipe, "transformer.length", 0));
    double tokens = (double)fv_recipe_int(recipe, "train.batch_tokens");
    if (examples > 0 && length > 0 && examples * length < tokens) tokens = examples * length;
    *predicted = strcmp(task, "translation") == 0 ? tokens / 2
                 : strcmp(task, "language") == 0  ? tokens
                 : strcmp(task, "masked") == 0    ? tokens / 6
                                                  : 0;
    return tokens;
}

/* Batches of different lengths leave blocks of other sizes in the free lists; data, tokenizers and
 * evaluation take the rest. Measured with held_bytes of small runs. */
#define FREE_LISTS     1.2
#define OVERHEAD_BYTES (40.0 * 1024 * 1024)

cli_cost cli_train_cost(const fv_recipe *recipe, const cli_plan *plan, double flops)
{
    const sizes s = sizes_of(recipe, plan);
    double predicted = 0;
    const double tokens = batch_tokens(recipe, &predicted);
    const double steps =
        (double)fv_recipe_int(recipe, "train.steps") * number(recipe, "train.accumulate", 1);
    cli_cost cost = {.parameters = s.embedding + s.body};
    cost.bytes =
        OVERHEAD_BYTES + FREE_LISTS * (16 * cost.parameters +
                                       4 * (tokens * s.per_token + 3 * predicted * s.vocabulary));
    const double work = 6 * (tokens * s.passes * s.body + predicted * s.embedding / 2);
    if (flops > 0) cost.seconds = steps * work / (s.share * flops);
    return cost;
}

/* ---- the machine --------------------------------------------------------------------------- */

double cli_measure_flops(int threads)
{
    enum { SIZE = 384 };
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    double best = 0;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = threads;
    if (fv_ctx_create(&cfg, &ctx) != FV_OK) return 0;
    const int64_t shape[] = {SIZE, SIZE};
    for (double until = cli_now() + 0.1; cli_now() < until;) {
        fv_scope_begin(ctx);
        fv_tensor *a = fv_full(ctx, FV_F32, 2, shape, 1);
        const double from = cli_now();
        fv_matmul(ctx, a, a);
        const double seconds = cli_now() - from;
        const fv_status status = fv_ctx_error(ctx);
        fv_scope_end(ctx);
        if (status != FV_OK) break;
        if (seconds > 0 && 2.0 * SIZE * SIZE * SIZE / seconds > best)
            best = 2.0 * SIZE * SIZE * SIZE / seconds;
    }
    fv_ctx_destroy(&ctx);
    return best;
}

/* The estimate is of the largest vocabulary that the recipe allows, and errs by a fifth or so. What
 * is a little over the cap is tried: the library fails at the cap with the same figure. */
#define MARGIN 0.7

int cli_check_memory(const fv_recipe *recipe)
{
    const cli_cost cost = cli_train_cost(recipe, NULL, 0);
    const double cap = (double)cli_memory_cap();
    char needed[24], reason[160], explained[320];
    if (cap <= 0 || MARGIN * cost.bytes <= cap) return CLI_DONE;
    cli_bytes_text(needed, (uint64_t)cost.bytes);
    cli_format(reason, sizeof reason,
               "train: this run needs about %s of memory; a smaller train.batch_tokens or a "
               "smaller model needs less",
               needed);
    cli_memory_explain(explained, sizeof explained, reason);
    cli_error("%s", explained);
    return CLI_MISSING;
}
