#include "model.h"

#include <string.h>

#include "fovea/file.h"
#include "heatmap.h"
#include "memory.h"
#include "output.h"

int cli_device(const cli_call *call, fv_device_kind *out)
{
    const char *name = cli_text(call, "device");
    int kind = FV_DEVICE_CPU;
    while (fv_device_name((fv_device_kind)kind) &&
           strcmp(fv_device_name((fv_device_kind)kind), name) != 0)
        kind++;
    const char *absence = fv_device_absence((fv_device_kind)kind);
    *out = (fv_device_kind)kind;
    if (!absence) return CLI_DONE;
    cli_error("%s: --device %s: %s", call->verb->name, name, absence);
    return CLI_MISSING;
}

fv_ctx *cli_context(const cli_call *call, uint64_t seed, int *code)
{
    fv_ctx_config cfg;
    cli_config_init(&cfg);
    cfg.threads = (int)cli_int(call, "threads");
    cfg.seed = seed;
    *code = cli_device(call, &cfg.device);
    if (*code != CLI_DONE) return NULL;
    fv_ctx *ctx = NULL;
    const fv_status status = fv_ctx_create(&cfg, &ctx);
    if (status == FV_OK) return ctx;
    char reason[256];
    cli_memory_explain(reason, sizeof reason, fv_status_name(status));
    cli_error("%s: cannot create a context: %s", call->verb->name,
              status == FV_ERR_MEMORY ? reason : fv_status_name(status));
    *code = cli_exit_code(status);
    return NULL;
}

fv_status cli_open_model(fv_ctx *ctx, const cli_call *call, const char *folder, fv_model **out)
{
    fv_ctx_set_verify(ctx, !cli_flag(call, "no-verify"));
    return cli_flag(call, "mmap") ? fv_model_map(ctx, folder, out)
                                  : fv_model_open(ctx, folder, out);
}

/* ---- alignments ------------------------------------------------------------------ */

enum { MAX_LABELS = 4096 };

fv_status cli_show_alignment(fv_ctx *ctx, const fv_translation *t, const char *title,
                             const char *path)
{
    static const char *rows[MAX_LABELS];
    const int64_t steps = t->target_count + (t->ended ? 1 : 0);
    const bool labelled = steps <= MAX_LABELS;
    for (int64_t i = 0; labelled && i < steps; i++)
        rows[i] = i < t->target_count ? t->target_tokens[i] : "(end)";
    const fv_look_map map = {.rows = steps,
                             .cols = t->source_count,
                             .values = t->weights,
                             .row_labels = labelled ? rows : NULL,
                             .col_labels = t->source_tokens,
                             .title = title,
                             .row_title = "output",
                             .col_title = "source"};
    if (!path) return cli_heatmap_print(ctx, stdout, &map, NULL);
    fv_look_format form;
    fv_picture *picture = NULL;
    fv_status status = fv_look_format_from_path(ctx, path, &form);
    if (status == FV_OK) status = fv_look_map_draw(ctx, &map, form, NULL, &picture);
    if (status == FV_OK) status = fv_picture_save(picture, path);
    fv_picture_free(&picture);
    return status;
}

void cli_print_pharaoh(const fv_translation *t)
{
    for (int64_t r = 0; r < t->target_count; r++) {
        const float *row = t->weights + r * t->source_count;
        int64_t best = 0;
        for (int64_t c = 1; c < t->source_count; c++)
            if (row[c] > row[best]) best = c;
        printf("%s%lld-%lld", r ? " " : "", (long long)best, (long long)r);
    }
    printf("\n");
}
