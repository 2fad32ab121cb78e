/* A model of Hugging Face transformers from its folder: what it is, what it says next, and a copy.
 *
 *     examples/model_folder FOLDER [COPY]
 *
 * Without arguments it makes a little GPT-2 and shows that. */
#include "example.h"
#include "fovea/transformer.h"

static void describe(const fv_transformer *t)
{
    const fv_transformer_config *c = fv_transformer_settings(t);
    printf("%s: %lld + %lld layers, width %lld, %lld heads, %lld tokens, %lld parameters\n",
           fv_family_name(c->family), (long long)c->encoder_layers, (long long)c->decoder_layers,
           (long long)c->width, (long long)c->heads, (long long)c->vocabulary,
           (long long)fv_params_elements(fv_transformer_params(t)));
}

/* Where the first layer looks. */
static fv_status show(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    float weights[16];
    (void)user;
    fv_tensor *head = fv_slice(ctx, site->captured.weights, 1, 0, 1, 1);
    must(ctx, fv_tensor_read(ctx, head, weights, sizeof weights));
    claim(weights[1] == 0 && weights[2] == 0 && weights[7] == 0, "no token sees a later one");
    printf("%s, head 0:\n", site->name);
    for (int i = 0; i < 4; i++)
        printf("    %.3f %.3f %.3f %.3f\n", (double)weights[4 * i], (double)weights[4 * i + 1],
               (double)weights[4 * i + 2], (double)weights[4 * i + 3]);
    return FV_OK;
}

static void show_decoder(fv_ctx *ctx, const fv_transformer *t)
{
    static const int64_t tokens[4] = {3, 1, 4, 1};
    const int64_t *const list[1] = {tokens}, length = 4;
    const fv_sequences text = {.count = 1, .tokens = list, .length = &length};
    const fv_capture look = {
        .sites = "decoder.0.self", .options = {.weights = true}, .on_weights = show};
    const fv_token_rows rows = fv_token_rows_varlen(ctx, &text);
    fv_tensor *states =
        fv_transformer_decode(ctx, t, &rows, NULL, NULL, &(fv_pass){.capture = &look});
    fv_tensor *logits = fv_transformer_logits(ctx, t, fv_slice(ctx, states, 1, 3, 4, 1));
    double next = 0;
    must(ctx, fv_tensor_item(ctx, fv_argmax(ctx, logits, -1, false), &next));
    printf("after 3 1 4 1 comes token %.0f\n", next);
}

static void show_small(fv_ctx *ctx)
{
    fv_params *params = NULL;
    fv_transformer *t = NULL;
    fv_transformer_config cfg;
    fv_transformer_config_init(&cfg, sizeof cfg, FV_FAMILY_GPT2);
    cfg.vocabulary = 10;
    cfg.width = 16;
    cfg.heads = 2;
    cfg.hidden = 32;
    cfg.decoder_layers = 2;
    cfg.max_positions = 8;
    must(ctx, fv_params_create(ctx, &params));
    must(ctx, fv_transformer_create(params, &cfg, &t));
    describe(t);
    show_decoder(ctx, t);
    fv_transformer_destroy(&t);
    fv_params_destroy(&params);
}

static void show_folder(fv_ctx *ctx, const char *folder, const char *copy)
{
    fv_model *model = NULL;
    must(ctx, fv_model_open(ctx, folder, &model));
    const fv_transformer *t = fv_model_transformer(model);
    if (t) describe(t);
    if (t && fv_transformer_settings(t)->encoder_layers == 0) show_decoder(ctx, t);
    if (copy) must(ctx, fv_model_save(model, copy));
    fv_model_close(&model);
}

int main(int argc, char **argv)
{
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    fv_no_grad_begin(ctx);
    if (argc > 1)
        show_folder(ctx, argv[1], argc > 2 ? argv[2] : NULL);
    else
        show_small(ctx);
    fv_no_grad_end(ctx);
    fv_ctx_destroy(&ctx);
    return 0;
}
