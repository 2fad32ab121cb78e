/* fovea inspect --arch NAME: what a published Transformer costs, without its weights. */
#include "inspect.h"

#include <string.h>

#include "fovea/recipe.h"
#include "fovea/transformer.h"
#include "input.h"
#include "output.h"

static void print_json(const fv_architecture *a, const fv_model_cost *c, int64_t length)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "arch", a->name);
    cli_json_int(&j, "encoder_layers", a->config.encoder_layers);
    cli_json_int(&j, "decoder_layers", a->config.decoder_layers);
    cli_json_int(&j, "width", a->config.width);
    cli_json_int(&j, "heads", a->config.heads);
    cli_json_int(&j, "vocabulary", a->config.vocabulary);
    cli_json_int(&j, "parameters", c->parameters);
    cli_json_int(&j, "tables", c->tables);
    cli_json_text(&j, "published", a->published);
    cli_json_int(&j, "length", length);
    cli_json_real(&j, "flops_token", c->flops_weights + c->flops_attention);
    cli_json_real(&j, "flops_attention", c->flops_attention);
    cli_json_real(&j, "run_bytes", c->run_bytes);
    cli_json_real(&j, "train_bytes", c->train_bytes);
    if (a->note) cli_json_text(&j, "note", a->note);
    cli_json_close(&j, '}');
}

static void print_row(const fv_architecture *a, const fv_model_cost *c)
{
    char layers[24];
    const long long up = (long long)a->config.encoder_layers,
                    down = (long long)a->config.decoder_layers;
    if (up && down)
        cli_format(layers, sizeof layers, "%lld+%lld", up, down);
    else
        cli_format(layers, sizeof layers, "%lld", up + down);
    printf("%-18s %6s %6lld %6lld %14lld  %-9s %9.2f %9.2f %9.2f\n", a->name, layers,
           (long long)a->config.width, (long long)a->config.heads, (long long)c->parameters,
           a->published, (c->flops_weights + c->flops_attention) * 1e-9, c->run_bytes / (1 << 30),
           c->train_bytes / (1 << 30));
}

static int unknown(const char *name)
{
    fv_architecture a = {.struct_size = sizeof a};
    fv_nearest nearest;
    fv_nearest_init(&nearest, name);
    for (int i = 0; fv_architecture_get(i, &a); i++)
        fv_nearest_add(&nearest, a.name, strlen(a.name));
    const char *near = fv_nearest_best(&nearest);
    cli_error("inspect: --arch: there is no architecture '%s' ('all' lists every one)%s%s%s", name,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return CLI_USAGE;
}

/* Requested architecture number i: one, or all of them. */
static bool chosen(int i, const char *name, fv_architecture *out)
{
    if (strcmp(name, "all") == 0) return fv_architecture_get(i, out);
    return i == 0 && fv_architecture_find(name, out);
}

int inspect_architectures(fv_ctx *ctx, const char *name, int64_t length, bool json)
{
    fv_architecture a = {.struct_size = sizeof a};
    if (!chosen(0, name, &a)) return unknown(name);
    if (!json)
        printf("%-18s %6s %6s %6s %14s  %-9s %9s %9s %9s\n", "", "layers", "width", "heads",
               "parameters", "published", "GFLOP", "run GiB", "train GiB");
    for (int i = 0; chosen(i, name, &a); i++) {
        fv_model_cost cost;
        const fv_status status = fv_transformer_cost(ctx, &a.config, length, &cost);
        if (status != FV_OK) return cli_library_error("inspect", ctx, status);
        if (json)
            print_json(&a, &cost, length);
        else
            print_row(&a, &cost);
    }
    if (json) return CLI_DONE;
    printf(
        "\nGFLOP: one token forward, %lld tokens of context; training costs three times as much.\n"
        "run: f32 weights and the cache; train: weights, gradients, Adam's moments, without\n"
        "activations.\n",
        (long long)length);
    for (int i = 0; chosen(i, name, &a); i++)
        if (a.note) printf("%s: %s.\n", a.name, a.note);
    return CLI_DONE;
}
