/* Classes of a picture or a recording, and how 'fovea run' prints them. */
#include "input.h"
#include "media.h"
#include "output.h"

static fv_status read_classes(fv_model *model, const fv_batch *batch, int64_t count, float *p,
                              int64_t *order)
{
    fv_ctx *ctx = fv_model_ctx(model);
    fv_tensor *index = NULL;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *all = fv_softmax(ctx, fv_model_classify(model, batch, NULL), -1);
    fv_tensor *best = fv_topk(ctx, all, count, &index);
    fv_status status = fv_tensor_read(ctx, best, p, (size_t)count * sizeof *p);
    if (status == FV_OK) status = fv_tensor_read(ctx, index, order, (size_t)count * sizeof *order);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

int64_t cli_classify(fv_model *model, const fv_batch *batch, cli_class *out, int64_t room,
                     fv_status *status)
{
    enum { MOST = 1000 };
    float p[MOST];
    int64_t order[MOST];
    const fv_data_spec *spec = fv_model_spec(model);
    int64_t count = spec->label_count < room ? spec->label_count : room;
    if (count > MOST) count = MOST;
    *status = read_classes(model, batch, count, p, order);
    if (*status != FV_OK) return 0;
    for (int64_t i = 0; i < count; i++)
        out[i] = (cli_class){.number = order[i], .label = spec->labels[order[i]], .p = p[i]};
    return count;
}

static void print_json(const char *file, const cli_class *list, int64_t count)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", file);
    cli_json_int(&j, "class", list[0].number);
    cli_json_text(&j, "label", list[0].label);
    cli_json_open(&j, "classes", '[');
    for (int64_t i = 0; i < count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "label", list[i].label);
        cli_json_real(&j, "p", list[i].p);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

fv_status cli_print_classes(const cli_call *call, fv_model *model, const char *file,
                            const fv_batch *batch)
{
    enum { SHOWN = 3, MOST = 100 };
    cli_class list[MOST];
    fv_status status = FV_OK;
    int64_t shown = cli_given(call, "top-k") ? cli_int(call, "top-k") : SHOWN;
    if (shown < 1 || shown > MOST) shown = MOST;
    const int64_t count = cli_classify(model, batch, list, shown, &status);
    for (int64_t i = 0; i < count && !cli_flag(call, "json"); i++) {
        cli_safe_text(stdout, list[i].label);
        printf("\t%.4f\t", list[i].p);
        cli_safe_text(stdout, file);
        printf("\n");
    }
    if (count > 0 && cli_flag(call, "json")) print_json(file, list, count);
    return status;
}
