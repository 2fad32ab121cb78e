/* Transformers: attention that can be seen, sizes that were published, and everything that is
 * refused. */
#include "fovea/ops.h"
#include "support/transformers.h"

/* ---- looking ---------------------------------------------------------------------------- */

typedef struct view {
    char names[256];
    int sites;
    fv_status answer;
} view;

static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    view *v = user;
    const size_t used = strlen(v->names);
    snprintf(v->names + used, sizeof v->names - used, "%s ", site->name);
    v->sites++;
    fv_tensor *w = site->captured.weights;
    if (!w) return v->answer;
    fv_tensor *rows = fv_sum(ctx, w, 1, (int[]){-1}, false);
    CHECK(tensor_distance(ctx, rows, fv_full(ctx, FV_F32, 3, fv_tensor_shape(rows), 1.0)) < 1e-5);
    CHECK(tensor_distance(ctx, site->captured.top_weights, fv_topk(ctx, w, 2, NULL)) < 1e-6);
    fv_tensor *received = fv_sum(ctx, w, 1, (int[]){2}, false);
    CHECK(tensor_distance(ctx, site->captured.summary.received, received) < 1e-4);
    return v->answer;
}

static void look(small *s, const char *sites, const char *expected)
{
    view v = {.answer = FV_OK};
    const fv_capture capture = {.sites = sites,
                                .options = {.weights = true, .top = 2, .summary = true},
                                .on_weights = take,
                                .user = &v};
    const fv_sequences one = one_of(s->t, 2);
    const fv_token_rows rows = fv_token_rows_varlen(s->ctx, &one);
    const fv_pass pass = {.capture = &capture};
    fv_tensor *memory = fv_transformer_encode(s->ctx, s->t, &rows, &pass);
    fv_tensor *seen = fv_transformer_decode(s->ctx, s->t, &rows, memory, &rows, &pass);
    CHECK_STR(v.names, expected);
    CHECK(tensor_same(s->ctx, seen, small_states(s, &rows)));
}

static void sites_are_chosen_by_name(void)
{
    const fv_transformer_config cfg = small_config(FV_FAMILY_MARIAN);
    small s = small_make(&cfg);
    look(&s, NULL,
         "encoder.0.self encoder.1.self decoder.0.self decoder.0.cross decoder.1.self "
         "decoder.1.cross ");
    look(&s, "decoder.*", "decoder.0.self decoder.0.cross decoder.1.self decoder.1.cross ");
    look(&s, "*.cross,encoder.1.self", "encoder.1.self decoder.0.cross decoder.1.cross ");
    look(&s, "encoder.1", "");
    look(&s, "*1*", "encoder.1.self decoder.1.self decoder.1.cross ");
    small_free(&s);
}

static void a_look_may_fail_the_pass(void)
{
    const fv_transformer_config cfg = small_config(FV_FAMILY_GPT2);
    small s = small_make(&cfg);
    view v = {.answer = FV_ERR_CANCELLED};
    const fv_capture capture = {.on_weights = take, .user = &v};
    const fv_pass pass = {.capture = &capture};
    const fv_sequences one = one_of(s.t, 0);
    const fv_token_rows rows = fv_token_rows_varlen(s.ctx, &one);
    CHECK_REFUSED(s.ctx, fv_transformer_decode(s.ctx, s.t, &rows, NULL, NULL, &pass),
                  FV_ERR_CANCELLED, "");
    CHECK_EQ(v.sites, 1);
    small_free(&s);
}

/* Maps of a pass, kept beyond it: whole, or of one sequence of a packed row. */
typedef struct kept_maps {
    int64_t first, length; /* length 0: the whole map; both sides are as long */
    fv_tensor *maps[16];
    int count;
} kept_maps;

static fv_status keep(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    kept_maps *kept = user;
    const fv_attention_captured *seen = &site->captured;
    const fv_attention_region part = {.heads = seen->heads,
                                      .row = kept->first,
                                      .rows = kept->length,
                                      .col = kept->first,
                                      .cols = kept->length};
    fv_tensor *map =
        kept->length ? fv_attention_weights(ctx, &seen->saved, &part) : site->captured.weights;
    kept->maps[kept->count++] = fv_scope_keep(ctx, map);
    return fv_ctx_error(ctx);
}

static void pass_keeping(small *s, const fv_token_rows *target, const fv_token_rows *source,
                         kept_maps *kept)
{
    const fv_capture capture = {
        .options = {.weights = kept->length == 0, .saved = kept->length > 0},
        .on_weights = keep,
        .user = kept};
    const fv_pass pass = {.capture = &capture};
    fv_tensor *memory = fv_transformer_encode(s->ctx, s->t, source, &pass);
    fv_transformer_decode(s->ctx, s->t, target, memory, source, &pass);
}

/* Sequences of unequal lengths packed in one row have, each, the maps they have alone. */
static void packed_sequences_can_be_looked_at(void)
{
    const fv_transformer_config cfg = small_config(FV_FAMILY_MARIAN);
    small s = small_make(&cfg);
    const fv_sequences sources = all_of(s.t);
    const fv_sequences targets = {.count = COUNT, .tokens = others, .length = lengths};
    const fv_token_rows source = fv_token_rows_varlen(s.ctx, &sources),
                        target = fv_token_rows_varlen(s.ctx, &targets);
    int64_t at = 0;
    for (int i = 0; i < COUNT; at += lengths[i++]) {
        const fv_sequences one_source = one_of(s.t, i);
        const fv_sequences one_target = {.count = 1, .tokens = others + i, .length = lengths + i};
        const fv_token_rows alone_source = fv_token_rows_varlen(s.ctx, &one_source),
                            alone_target = fv_token_rows_varlen(s.ctx, &one_target);
        kept_maps alone = {.length = 0};
        kept_maps among = {.first = at, .length = lengths[i]};
        pass_keeping(&s, &alone_target, &alone_source, &alone);
        pass_keeping(&s, &target, &source, &among);
        CHECK_EQ(alone.count, 6);
        CHECK_EQ(among.count, 6);
        for (int m = 0; m < 6; m++)
            CHECK(tensor_same(s.ctx, among.maps[m], alone.maps[m]));
    }
    small_free(&s);
}

/* Sums a map in bands of rows, or leaves the whole map computed. */
typedef struct banded {
    bool whole;
    double sum;
} banded;

static fv_status sum_bands(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    enum { BAND = 64 };
    banded *b = user;
    const fv_attention_captured *seen = &site->captured;
    for (int64_t row = 0; !b->whole && row < seen->n_q; row += BAND) {
        const int64_t rows = row + BAND < seen->n_q ? BAND : seen->n_q - row;
        const fv_attention_region part = {
            .heads = seen->heads, .row = row, .rows = rows, .cols = seen->n_k};
        double sum = 0;
        fv_scope_begin(ctx);
        fv_tensor *all = fv_sum(ctx, fv_attention_weights(ctx, &seen->saved, &part), 4,
                                (int[]){0, 1, 2, 3}, false);
        float *value = tensor_floats(ctx, all);
        if (value) sum = (double)value[0];
        free(value);
        fv_scope_end(ctx);
        b->sum += sum;
    }
    return fv_ctx_error(ctx);
}

static uint64_t peak_of_a_look(bool whole)
{
    enum { TOKENS = 1500 };
    static int64_t ids[TOKENS];
    fv_transformer_config cfg = small_config(FV_FAMILY_GPT2);
    cfg.max_positions = TOKENS;
    small s = small_make(&cfg);
    const int64_t *list = ids, length = TOKENS;
    const fv_sequences one = {.count = 1, .tokens = &list, .length = &length};
    const fv_token_rows rows = fv_token_rows_varlen(s.ctx, &one);
    banded b = {.whole = whole};
    const fv_capture capture = {.sites = "decoder.0.self",
                                .options = {.weights = whole, .saved = true},
                                .on_weights = sum_bands,
                                .user = &b};
    const fv_pass pass = {.capture = &capture};
    fv_transformer_decode(s.ctx, s.t, &rows, NULL, NULL, &pass);
    if (!whole) CHECK_NEAR(b.sum, (double)(TOKENS * cfg.heads), 0.5); /* every row sums to 1 */
    fv_memory_stats memory;
    fv_ctx_memory(s.ctx, &memory);
    small_free(&s);
    return memory.peak_bytes;
}

/* Four heads of 1,500 x 1,500 weights are 36 MB; a band of them is not a tenth of that. */
static void long_maps_need_little_memory(void)
{
    const uint64_t banded_peak = peak_of_a_look(false), whole_peak = peak_of_a_look(true);
    CHECK(banded_peak + ((uint64_t)24 << 20) < whole_peak);
}

/* ---- sizes ------------------------------------------------------------------------------- */

static void counts_are_the_published_ones(void)
{
    const struct {
        fv_family family;
        int64_t layers, width, heads, hidden, vocabulary, parameters;
    } models[] = {
        {FV_FAMILY_GPT2, 12, 768, 12, 3072, 50257, 124439808},
        {FV_FAMILY_GPT2, 24, 1024, 16, 4096, 50257, 354823168},
        {FV_FAMILY_GPT2, 36, 1280, 20, 5120, 50257, 774030080},
        {FV_FAMILY_GPT2, 48, 1600, 25, 6400, 50257, 1557611200},
        {FV_FAMILY_BERT, 12, 768, 12, 3072, 30522, 109482240},
        {FV_FAMILY_BERT, 24, 1024, 16, 4096, 30522, 335141888},
        {FV_FAMILY_T5, 6, 512, 8, 2048, 32128, 60506624},
        {FV_FAMILY_LLAMA, 32, 4096, 32, 11008, 32000, 6738415616},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        fv_ctx *ctx = values_begin();
        fv_params *plan = NULL;
        fv_transformer *t = NULL;
        fv_transformer_config c;
        fv_transformer_config_init(&c, sizeof c, models[i].family);
        if (c.encoder_layers) c.encoder_layers = models[i].layers;
        if (c.decoder_layers) c.decoder_layers = models[i].layers;
        c.width = models[i].width;
        c.heads = models[i].heads;
        c.hidden = models[i].hidden;
        c.vocabulary = models[i].vocabulary;
        if (c.family == FV_FAMILY_BERT) { /* the bare model, as it is counted */
            c.mlm_head = c.logits_bias = false;
            c.pooler = true;
        }
        CHECK_OK(ctx, fv_params_create_plan(ctx, &plan));
        CHECK_OK(ctx, fv_transformer_create(plan, &c, &t));
        CHECK_EQ(fv_params_elements(plan), models[i].parameters);
        fv_memory_stats memory;
        fv_ctx_memory(ctx, &memory);
        CHECK(memory.peak_bytes < (uint64_t)4 << 20);
        fv_transformer_destroy(&t);
        fv_params_destroy(&plan);
        values_end(&ctx);
    }
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void refuse(fv_transformer_config cfg, const char *text)
{
    fv_ctx *ctx = values_begin();
    fv_params *params = NULL;
    fv_transformer *t = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_EQ(fv_transformer_create(params, &cfg, &t), FV_ERR_ARGUMENT);
    CHECK(t == NULL);
    if (!strstr(fv_ctx_message(ctx), text))
        test_failed(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", fv_ctx_message(ctx), text);
    fv_params_destroy(&params);
    values_end(&ctx);
}

#define REFUSE(family, change, text)                                                               \
    do {                                                                                           \
        fv_transformer_config c = small_config(family);                                            \
        change;                                                                                    \
        refuse(c, text);                                                                           \
    } while (0)

static void settings_are_checked(void)
{
    REFUSE(FV_FAMILY_GPT2, c.vocabulary = 0, "vocabulary is 0");
    REFUSE(FV_FAMILY_GPT2, c.width = -8, "width is -8");
    REFUSE(FV_FAMILY_GPT2, c.decoder_layers = 1 << 20, "decoder_layers");
    REFUSE(FV_FAMILY_GPT2, c.decoder_layers = 0, "needs encoder or decoder layers");
    REFUSE(FV_FAMILY_GPT2, c.heads = 5, "5 heads do not divide width 16");
    REFUSE(FV_FAMILY_GPT2, c.encoder_layers = 1, "gpt2 models do not have an encoder");
    REFUSE(FV_FAMILY_GPT2, c.types = 2, "kinds of token");
    REFUSE(FV_FAMILY_GPT2, c.gated = true, "gates");
    REFUSE(FV_FAMILY_LLAMA, c.gated = false, "without gates");
    REFUSE(FV_FAMILY_LLAMA, c.positions = FV_POSITION_LEARNED, "learned positions");
    REFUSE(FV_FAMILY_MARIAN, c.final_norm = true, "a last norm");
    REFUSE(FV_FAMILY_MARIAN, c.mlm_head = true, "a head for words");
    REFUSE(FV_FAMILY_FOVEA, c.mlm_head = true, "heads of encoders");
    REFUSE(FV_FAMILY_BERT, (c.labels = 3, c.pooler = c.next_sentence = false), "need the pooler");
    REFUSE(FV_FAMILY_T5, c.relative_buckets = 3, "buckets");
    REFUSE(FV_FAMILY_BERT, c.window = 3, "need a decoder");
    REFUSE(FV_FAMILY_LLAMA, c.full_layers[0] = 1, "needs a window");
    REFUSE(FV_FAMILY_LLAMA, c.qk_norm = true, "norms of queries and keys");
    REFUSE(FV_FAMILY_GPT2, c.positions = FV_POSITION_RELATIVE_KEY, "vectors of distances");
    REFUSE(FV_FAMILY_LLAMA, c.rotary.scaling = FV_ROTARY_SCALING_LONGROPE, "short_factors");
    REFUSE(FV_FAMILY_LLAMA, c.rotary.scaling = FV_ROTARY_SCALING_DYNAMIC, "scaling 2, factor 0");
    REFUSE(FV_FAMILY_LLAMA, c.rotary.base = -1, "base -1");
    REFUSE(FV_FAMILY_T5, c.dropout = 1, "dropout is 1");
    REFUSE(FV_FAMILY_T5, c.logits_scale = NAN, "logits_scale");
    REFUSE(FV_FAMILY_T5, c.eos = VOCABULARY, "BOS, EOS and pad");
    REFUSE(FV_FAMILY_LLAMA, c.kv_heads = 3, "heads");
    REFUSE(FV_FAMILY_GPT2, c.family = FV_FAMILY_COUNT, "family");
}

static void passes_are_checked(void)
{
    const fv_transformer_config cfg = small_config(FV_FAMILY_MARIAN),
                                gpt = small_config(FV_FAMILY_GPT2);
    small s = small_make(&cfg);
    fv_ctx *ctx = s.ctx;
    const fv_sequences one = one_of(s.t, 0), all = all_of(s.t);
    const fv_token_rows rows = fv_token_rows_varlen(ctx, &one),
                        packed = fv_token_rows_varlen(ctx, &all);
    fv_tensor *memory = fv_transformer_encode(ctx, s.t, &rows, NULL);
    CHECK_REFUSED(ctx, fv_transformer_decode(ctx, s.t, &rows, NULL, NULL, NULL), FV_ERR_ARGUMENT,
                  "encoder's states");
    CHECK_REFUSED(ctx, fv_transformer_decode(ctx, s.t, &packed, memory, &rows, NULL), FV_ERR_SHAPE,
                  "both be varlen");
    fv_token_rows bad = {.ids = memory};
    CHECK_REFUSED(ctx, fv_transformer_encode(ctx, s.t, &bad, NULL), FV_ERR_SHAPE, "i64");
    bad = (fv_token_rows){.ids = rows.ids, .mask = packed.ids};
    CHECK_REFUSED(ctx, fv_transformer_encode(ctx, s.t, &bad, NULL), FV_ERR_SHAPE, "a mask");
    const int64_t none = 0;
    const fv_sequences empty = {.count = 1, .tokens = tokens, .length = &none};
    fv_token_rows_varlen(ctx, &empty);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "has 0 tokens");
    small_free(&s);

    s = small_make(&gpt);
    int64_t wide[41] = {0};
    const int64_t *list = wide, length = 41;
    const fv_sequences many = {.count = 1, .tokens = &list, .length = &length};
    const fv_token_rows over = fv_token_rows_varlen(s.ctx, &many);
    CHECK_REFUSED(s.ctx, fv_transformer_decode(s.ctx, s.t, &over, NULL, NULL, NULL), FV_ERR_LIMIT,
                  "41 tokens, but the model has 40 positions");
    CHECK_REFUSED(s.ctx, fv_transformer_encode(s.ctx, s.t, &over, NULL), FV_ERR_LIMIT, "41");
    wide[3] = VOCABULARY;
    const int64_t few = 5;
    const fv_sequences foreign = {.count = 1, .tokens = &list, .length = &few};
    const fv_token_rows strange = fv_token_rows_varlen(s.ctx, &foreign);
    CHECK_REFUSED(s.ctx, fv_transformer_encode(s.ctx, s.t, &strange, NULL), FV_ERR_ARGUMENT,
                  "no encoder");
    CHECK_REFUSED(s.ctx, fv_transformer_decode(s.ctx, s.t, &strange, NULL, NULL, NULL),
                  FV_ERR_INDEX, "23");
    small_free(&s);
}

TEST_MAIN(argc, argv)
{
    fill_sequences();
    TEST_BEGIN(argc, argv);
    RUN(sites_are_chosen_by_name);
    RUN(a_look_may_fail_the_pass);
    RUN(packed_sequences_can_be_looked_at);
    RUN(long_maps_need_little_memory);
    RUN(counts_are_the_published_ones);
    RUN(settings_are_checked);
    RUN(passes_are_checked);
    return TEST_END();
}
