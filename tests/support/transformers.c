#include "support/transformers.h"

/* ---- small models ---------------------------------------------------------------------- */

fv_transformer_config small_config(fv_family family)
{
    fv_transformer_config c;
    fv_transformer_config_init(&c, sizeof c, family);
    c.vocabulary = VOCABULARY;
    c.width = 16;
    c.heads = 4;
    c.head_dim = 0;
    c.hidden = 24;
    if (c.encoder_layers) c.encoder_layers = 2;
    if (c.decoder_layers) c.decoder_layers = 2;
    c.max_positions = 40;
    if (c.gated) c.kv_heads = 2;
    if (c.window) c.window = 5;
    if (family == FV_FAMILY_T5)
        c.relative_buckets = 8, c.relative_max_distance = 16, c.logits_scale = 0.25;
    if (family == FV_FAMILY_BERT) c.pooler = c.next_sentence = true;
    if (family == FV_FAMILY_DISTILBERT || family == FV_FAMILY_ROBERTA) {
        c.labels = 3;
        c.label_dense = c.spans = true;
        if (c.label_act == FV_ACT_RELU) c.label_act = FV_ACT_SILU; /* no kinks */
    }
    c.init_std = 0.3;
    c.bos = 1;
    c.eos = 2;
    return c;
}

small small_make(const fv_transformer_config *cfg)
{
    small s = {.ctx = values_begin()};
    CHECK_OK(s.ctx, fv_params_create(s.ctx, &s.params));
    CHECK_OK(s.ctx, fv_transformer_create(s.params, cfg, &s.t));
    return s;
}

void small_free(small *s)
{
    fv_transformer_destroy(&s->t);
    fv_params_destroy(&s->params);
    values_end(&s->ctx);
}

/* ---- sequences ------------------------------------------------------------------------- */

const int64_t lengths[COUNT] = {7, 1, LONGEST, 12};
static int64_t token_room[COUNT][LONGEST], type_room[COUNT][LONGEST], other_room[COUNT][LONGEST];
const int64_t *tokens[COUNT], *types[COUNT], *others[COUNT];

void fill_sequences(void)
{
    for (int i = 0; i < COUNT; i++) {
        for (int t = 0; t < LONGEST; t++) {
            token_room[i][t] = (7 * i + 5 * t + t * t) % VOCABULARY;
            other_room[i][t] = (3 * i + 11 * t + 1) % VOCABULARY;
            type_room[i][t] = t > 3;
        }
        tokens[i] = token_room[i];
        types[i] = type_room[i];
        others[i] = other_room[i];
    }
}

fv_sequences all_of(const fv_transformer *t)
{
    return (fv_sequences){.count = COUNT,
                          .tokens = tokens,
                          .length = lengths,
                          .types = fv_transformer_settings(t)->types > 1 ? types : NULL};
}

fv_sequences one_of(const fv_transformer *t, int i)
{
    fv_sequences s = all_of(t);
    s.count = 1;
    s.tokens += i;
    s.length += i;
    if (s.types) s.types += i;
    return s;
}

fv_tensor *small_states(small *s, const fv_token_rows *rows)
{
    const fv_transformer_config *c = fv_transformer_settings(s->t);
    if (!c->decoder_layers) return fv_transformer_encode(s->ctx, s->t, rows, NULL);
    if (!c->encoder_layers) return fv_transformer_decode(s->ctx, s->t, rows, NULL, NULL, NULL);
    fv_tensor *memory = fv_transformer_encode(s->ctx, s->t, rows, NULL);
    return fv_transformer_decode(s->ctx, s->t, rows, memory, rows, NULL);
}
