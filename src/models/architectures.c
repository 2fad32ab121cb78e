/* Published Transformers by name, with their parameter counts and costs. */
#include "fovea/transformer.h"

#include <string.h>

#include "base/config.h"
#include "models/transformer.h"

/* ---- names ------------------------------------------------------------------------------- */

typedef struct row {
    const char *name, *published, *note;
    fv_family family;
    int64_t vocabulary, layers, width, heads, positions;
} row;

static const row rows[] = {
    {"transformer-base", "65M", NULL, FV_FAMILY_FOVEA, 37000, 6, 512, 8, 0},
    {"transformer-large", "213M", NULL, FV_FAMILY_FOVEA, 37000, 6, 1024, 16, 0},
    {"bert-base", "110M", NULL, FV_FAMILY_BERT, 30522, 12, 768, 12, 512},
    {"bert-large", "340M", NULL, FV_FAMILY_BERT, 30522, 24, 1024, 16, 512},
    {"xlnet-large", "~340M",
     "counted as an encoder with learned positions; XLNet's own relative ones "
     "have a matrix more in each layer",
     FV_FAMILY_BERT, 32000, 24, 1024, 16, 512},
    {"distilbert", "66M", NULL, FV_FAMILY_DISTILBERT, 30522, 6, 768, 12, 512},
    {"roberta-base", "125M", NULL, FV_FAMILY_ROBERTA, 50265, 12, 768, 12, 512},
    {"roberta-large", "355M", NULL, FV_FAMILY_ROBERTA, 50265, 24, 1024, 16, 512},
    {"bart-large", "406M", NULL, FV_FAMILY_BART, 50265, 12, 1024, 16, 1024},
    {"gpt2", "117M", "its authors corrected 117M to 124M", FV_FAMILY_GPT2, 50257, 12, 768, 12,
     1024},
    {"gpt2-medium", "345M", "its authors corrected 345M to 355M", FV_FAMILY_GPT2, 50257, 24, 1024,
     16, 1024},
    {"gpt2-large", "762M", "its authors corrected 762M to 774M", FV_FAMILY_GPT2, 50257, 36, 1280,
     20, 1024},
    {"gpt2-xl", "1.5B", NULL, FV_FAMILY_GPT2, 50257, 48, 1600, 25, 1024},
    {"megatron-1.2b", "1.2B", NULL, FV_FAMILY_GPT2, 51200, 40, 1536, 16, 1024},
    {"megatron-2.5b", "2.5B", NULL, FV_FAMILY_GPT2, 51200, 54, 1920, 20, 1024},
    {"megatron-4.2b", "4.2B", NULL, FV_FAMILY_GPT2, 51200, 64, 2304, 24, 1024},
    {"megatron-8.3b", "8.3B", NULL, FV_FAMILY_GPT2, 51200, 72, 3072, 32, 1024},
};
enum { ROWS = (int)(sizeof rows / sizeof *rows) };

bool fv_architecture_get(int i, fv_architecture *out)
{
    if (i < 0 || i >= ROWS) return false;
    const row *r = &rows[i];
    fv_architecture full = {.name = r->name, .published = r->published, .note = r->note};
    fv_transformer_config *c = &full.config;
    fv_transformer_config_init(c, sizeof *c, r->family);
    c->vocabulary = r->vocabulary;
    c->width = r->width;
    c->heads = r->heads;
    c->hidden = 4 * r->width;
    if (c->encoder_layers) c->encoder_layers = r->layers;
    if (c->decoder_layers) c->decoder_layers = r->layers;
    if (r->positions) c->max_positions = r->positions;
    c->mlm_head = c->logits_bias = false; /* counted without the head for words */
    c->pooler = c->decoder_layers == 0 && fv_family_names_of(r->family)->pooler;
    /* As much of the settings as the caller's struct has. */
    const size_t before = offsetof(fv_architecture, config);
    if (out->struct_size > before && out->struct_size < sizeof full)
        c->struct_size = out->struct_size - before;
    fv_config_give(out, &full, sizeof full);
    return true;
}

bool fv_architecture_find(const char *name, fv_architecture *out)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) return fv_architecture_get(i, out);
    return false;
}

/* ---- costs ------------------------------------------------------------------------------- */

static bool is_table(const fv_side *side, const fv_tensor *t)
{
    return t == side->embedding || t == side->positions || t == side->types ||
           t == side->relative_table;
}

/* Attention of one token over `keys` keys: scores, then the sum of the values. */
static double attend(const fv_mha_config *c, double keys)
{
    return 2 * keys * (double)c->heads * (double)(c->d_k + c->d_v);
}

/* Keys that a token sees, on average over a sequence. */
static double seen(const fv_mha_config *self, bool encoder, double length)
{
    const double window = (double)self->attention.rule.left + 1;
    if (encoder) return length;
    if (window < 1 || window >= length) return (length + 1) / 2;
    return window - window * (window - 1) / (2 * length);
}

static void count_side(const fv_side *side, double length, fv_model_cost *out)
{
    for (int64_t i = 0; i < side->layers; i++) {
        const fv_block_config *b = &side->blocks[i].cfg;
        const fv_mha_config *self = &side->blocks[i].self.cfg;
        out->flops_attention += attend(self, seen(self, side->encoder, length));
        if (b->cross.heads > 0) out->flops_attention += attend(&side->blocks[i].cross.cfg, length);
        if (side->encoder) continue;
        const double kept = length * (double)self->kv_heads * (double)(self->d_k + self->d_v);
        out->run_bytes += 4 * kept * (b->cross.heads > 0 ? 2 : 1);
    }
}

static void count(const fv_transformer *m, int64_t length, fv_model_cost *out)
{
    double products = 0;
    for (int i = 0; i < fv_params_count(m->params); i++) {
        const fv_tensor *t = fv_params_tensor(m->params, i);
        const int64_t elements = fv_tensor_count(t);
        out->parameters += elements;
        if (is_table(&m->encoder, t) || is_table(&m->decoder, t))
            out->tables += elements;
        else if (fv_tensor_rank(t) == 2)
            products += (double)elements;
    }
    if (m->logits && (is_table(&m->encoder, m->logits) || is_table(&m->decoder, m->logits)))
        products += (double)m->cfg.vocabulary * (double)m->cfg.width;
    out->flops_weights = 2 * products;
    out->train_bytes = 16 * (double)out->parameters;
    out->run_bytes = 4 * (double)out->parameters;
    count_side(&m->encoder, (double)length, out);
    count_side(&m->decoder, (double)length, out);
}

fv_status fv_transformer_cost(fv_ctx *ctx, const fv_transformer_config *cfg, int64_t length,
                              fv_model_cost *out)
{
    FV_RETURN_IF(length < 1, ctx, FV_ERR_ARGUMENT, "cost: a length of %lld", (long long)length);
    fv_params *params = NULL;
    fv_transformer *model = NULL;
    FV_TRY(fv_params_create_plan(ctx, &params));
    const fv_status status = fv_transformer_create(params, cfg, &model);
    if (status == FV_OK) {
        *out = (fv_model_cost){0};
        count(model, length, out);
    }
    fv_transformer_destroy(&model);
    fv_params_destroy(&params);
    return status;
}
