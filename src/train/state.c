#include "train/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/decimal.h"
#include "io/json.h"
#include "io/json_write.h"
#include "io/named.h"

#define LIST "states.json"

fv_status fv_state_file(fv_ctx *ctx, char out[FV_PATH_BYTES], const char *folder, uint64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "state-%08" PRIu64 ".safetensors", step);
    return fv_path_join(ctx, out, folder, name);
}

/* ---- the list --------------------------------------------------------------------- */

static fv_status parse_list(const fv_doc *doc, fv_state_list *out)
{
    const fv_value *states = NULL;
    FV_TRY(fv_doc_get(doc, &doc->root, "states", FV_VALUE_ARRAY, &states));
    if (states->count > FV_MAX_STATES)
        return fv_doc_fail(doc, states, FV_ERR_FORMAT, "more than %d states", (int)FV_MAX_STATES);
    for (uint32_t i = 0; i < states->count; i++) {
        int64_t step = 0;
        FV_TRY(fv_doc_int(doc, &states->as.items[i], 0, INT64_MAX, &step));
        if (i > 0 && (uint64_t)step <= out->step[i - 1])
            return fv_doc_fail(doc, &states->as.items[i], FV_ERR_FORMAT, "steps must ascend");
        out->step[i] = (uint64_t)step;
    }
    out->count = states->count;
    return FV_OK;
}

fv_status fv_state_list_read(fv_ctx *ctx, const char *folder, fv_state_list *out)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(ctx, path, folder, LIST));
    *out = (fv_state_list){.count = 0};
    if (!fv_file_exists(ctx, path)) return FV_OK;
    fv_doc *doc = NULL;
    FV_TRY(fv_json_load(ctx, path, &doc));
    fv_status status = parse_list(doc, out);
    fv_doc_free(&doc);
    return status;
}

static fv_status write_list(fv_ctx *ctx, const char *folder, const fv_state_list *list)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(ctx, path, folder, LIST));
    fv_json_writer w;
    fv_json_begin(&w, ctx);
    fv_json_open(&w, '{');
    fv_json_key(&w, "states");
    fv_json_open(&w, '[');
    for (size_t i = 0; i < list->count; i++)
        fv_json_int(&w, (int64_t)list->step[i]);
    fv_json_close(&w, ']');
    fv_json_close(&w, '}');
    fv_json_raw(&w, "\n", 1);
    const fv_status status = fv_json_save(&w, path);
    fv_json_free(&w);
    return status;
}

/* ---- what is not a tensor ---------------------------------------------------------- */

enum {
    FIXED = 6,
    COUNTERS = FIXED + FV_POSITION,
    REALS = 3,
    NOTES = COUNTERS + REALS,
    NOTE_BYTES = 32
};

/* Of runs with several phases: fovea.phase, a step count for each further optimizer, and what the
 * phases that are done have come to. */
enum { PARTIALS = 4, NOTE_ROOM = NOTES + FV_MAX_PHASES + PARTIALS };

typedef struct note_texts {
    fv_file_metadata note[NOTE_ROOM];
    char key[NOTE_ROOM][NOTE_BYTES], value[NOTE_ROOM][NOTE_BYTES];
} note_texts;

static const char *const counter_names[FIXED] = {"step",    "optim_steps", "tokens",
                                                 "skipped", "since_best",  "evaluated"};
static const char *const real_names[REALS] = {"best", "loss", "seconds"};
static const char *const partial_names[PARTIALS] = {"phase_tokens", "phase_loss", "phase_grad_norm",
                                                    "phase_skipped"};

static void counters_of(const fv_progress *p, uint64_t optim_steps, int64_t out[COUNTERS])
{
    const int64_t fixed[FIXED] = {(int64_t)p->step,    (int64_t)optim_steps, (int64_t)p->tokens,
                                  (int64_t)p->skipped, p->since_best,        (int64_t)p->evaluated};
    memcpy(out, fixed, sizeof fixed);
    memcpy(out + FIXED, p->position, sizeof p->position);
}

static void counter_key(char out[NOTE_BYTES], int i)
{
    if (i < FIXED)
        snprintf(out, NOTE_BYTES, "fovea.%s", counter_names[i]);
    else
        snprintf(out, NOTE_BYTES, "fovea.position.%d", i - FIXED);
}

/* As many digits as read back bit for bit. */
static void write_real(double value, char out[NOTE_BYTES])
{
    if (isfinite(value))
        fv_double_to_decimal(value, out);
    else
        snprintf(out, NOTE_BYTES, "none");
}

static void fill_notes(const fv_progress *p, uint64_t optim_steps, note_texts *out)
{
    int64_t counter[COUNTERS];
    counters_of(p, optim_steps, counter);
    const double real[REALS] = {p->best, p->loss, p->seconds};
    for (int i = 0; i < NOTES; i++) {
        if (i < COUNTERS) {
            counter_key(out->key[i], i);
            snprintf(out->value[i], NOTE_BYTES, "%" PRId64, counter[i]);
        } else {
            snprintf(out->key[i], NOTE_BYTES, "fovea.%s", real_names[i - COUNTERS]);
            write_real(real[i - COUNTERS], out->value[i]);
        }
        out->note[i] = (fv_file_metadata){out->key[i], out->value[i]};
    }
}

static bool read_real(const char *text, double *out)
{
    *out = NAN;
    return strcmp(text, "none") == 0 || fv_decimal_to_double(text, strlen(text), out);
}

static fv_status read_notes(fv_ctx *ctx, const fv_safetensors *file, fv_progress *out,
                            uint64_t *optim_steps)
{
    int64_t counter[COUNTERS];
    double real[REALS];
    for (int i = 0; i < NOTES; i++) {
        char key[NOTE_BYTES];
        if (i < COUNTERS)
            counter_key(key, i);
        else
            snprintf(key, sizeof key, "fovea.%s", real_names[i - COUNTERS]);
        const char *text = fv_safetensors_metadata_find(file, key);
        const bool ok = text && (i < COUNTERS ? fv_decimal_to_i64(text, strlen(text), &counter[i])
                                              : read_real(text, &real[i - COUNTERS]));
        FV_RETURN_IF(!ok, ctx, FV_ERR_FORMAT, "%.100s: no usable note '%s'",
                     fv_safetensors_shard_path(file, 0), key);
    }
    *out = (fv_progress){
        .step = (uint64_t)counter[0],
        .tokens = (uint64_t)counter[2],
        .skipped = (uint64_t)counter[3],
        .since_best = counter[4],
        .evaluated = (uint64_t)counter[5],
        .best = real[0],
        .loss = real[1],
        .seconds = real[2],
    };
    *optim_steps = (uint64_t)counter[1];
    memcpy(out->position, counter + FIXED, sizeof out->position);
    return FV_OK;
}

/* ---- states ----------------------------------------------------------------------- */

#define EXTRA "task."

/* Tensors of phase 0's optimizer are "optim.<name>", of phase 1's "optim1.<name>". */
static void optim_prefix(char out[NOTE_BYTES], int phase)
{
    if (phase == 0)
        snprintf(out, NOTE_BYTES, "optim.");
    else
        snprintf(out, NOTE_BYTES, "optim%d.", phase);
}

static fv_status list_tensors(const fv_state_parts *parts, fv_named *out)
{
    const fv_params *params = parts->params, *extra = parts->extra;
    size_t count = (size_t)params->count + (size_t)extra->count;
    for (int phase = 0; phase < parts->phases; phase++)
        count += (size_t)fv_optim_state_count(parts->optim[phase]);
    FV_TRY(fv_named_begin(params->ctx, count, out));
    fv_named_add_params(out, "model.", params);
    for (int phase = 0; phase < parts->phases; phase++) {
        const fv_optim *optim = parts->optim[phase];
        char prefix[NOTE_BYTES];
        optim_prefix(prefix, phase);
        for (int i = 0; i < fv_optim_state_count(optim); i++) {
            char name[300];
            fv_tensor *t = fv_optim_state(optim, i, name);
            fv_named_add(out, prefix, name, t);
        }
    }
    fv_named_add_params(out, EXTRA, extra);
    return FV_OK;
}

static fv_status list_and_rotate(fv_ctx *ctx, const char *folder, uint64_t step, int keep)
{
    fv_state_list list;
    FV_TRY(fv_state_list_read(ctx, folder, &list));
    /* States at or after this step belong to a run that was restarted before it. */
    uint64_t dropped[FV_MAX_STATES];
    size_t drops = 0, kept = 0;
    for (size_t i = 0; i < list.count; i++) {
        if (list.step[i] < step)
            list.step[kept++] = list.step[i];
        else if (list.step[i] > step)
            dropped[drops++] = list.step[i];
    }
    const size_t most = keep < 1 ? 1 : keep > FV_MAX_STATES - 1 ? FV_MAX_STATES - 1 : (size_t)keep;
    size_t extra = kept + 1 > most ? kept + 1 - most : 0;
    for (size_t i = 0; i < extra; i++)
        dropped[drops++] = list.step[i];
    memmove(list.step, list.step + extra, (kept - extra) * sizeof *list.step);
    list.count = kept - extra;
    list.step[list.count++] = step;
    FV_TRY(write_list(ctx, folder, &list));
    for (size_t i = 0; i < drops; i++) {
        char path[FV_PATH_BYTES];
        FV_TRY(fv_state_file(ctx, path, folder, dropped[i]));
        /* A file that cannot be removed only costs space. */
        ctx->io.remove(ctx->io.user, path);
    }
    return FV_OK;
}

/* A state of one phase has none of these notes. Returns how many notes there are then. */
static int fill_phase_notes(const fv_state_parts *parts, const fv_progress *progress,
                            note_texts *out)
{
    const fv_partial *part = &progress->part;
    const double real[PARTIALS] = {part->tokens, part->loss, part->grad_norm, part->skipped};
    int i = NOTES;
    if (parts->phases < 2) return i;
    snprintf(out->key[i], NOTE_BYTES, "fovea.phase");
    snprintf(out->value[i++], NOTE_BYTES, "%" PRId64, progress->phase);
    for (int phase = 1; phase < parts->phases; phase++, i++) {
        snprintf(out->key[i], NOTE_BYTES, "fovea.optim_steps.%d", phase);
        snprintf(out->value[i], NOTE_BYTES, "%" PRIu64, fv_optim_steps(parts->optim[phase]));
    }
    for (int k = 0; k < PARTIALS; k++, i++) {
        snprintf(out->key[i], NOTE_BYTES, "fovea.%s", partial_names[k]);
        write_real(real[k], out->value[i]);
    }
    for (int k = NOTES; k < i; k++)
        out->note[k] = (fv_file_metadata){out->key[k], out->value[k]};
    return i;
}

fv_status fv_state_save(const char *folder, const fv_state_parts *parts,
                        const fv_progress *progress, int keep)
{
    fv_ctx *ctx = parts->params->ctx;
    char path[FV_PATH_BYTES];
    FV_TRY(fv_state_file(ctx, path, folder, progress->step));
    note_texts notes;
    fill_notes(progress, fv_optim_steps(parts->optim[0]), &notes);
    const int count = fill_phase_notes(parts, progress, &notes);
    fv_named list;
    FV_TRY(list_tensors(parts, &list));
    fv_status status = fv_named_save(&list, path, notes.note, (size_t)count);
    fv_named_end(&list);
    if (status == FV_OK) status = list_and_rotate(ctx, folder, progress->step, keep);
    return status;
}

/* Tensors of the file's own shapes for what the task keeps, to be read with the others. */
static fv_status make_extra(const fv_safetensors *file, fv_params *extra)
{
    fv_ctx *ctx = extra->ctx;
    for (size_t i = 0; i < fv_safetensors_count(file); i++) {
        const fv_file_entry *entry = fv_safetensors_entry(file, i);
        if (strncmp(entry->name, EXTRA, sizeof EXTRA - 1) != 0) continue;
        FV_RETURN_IF(!entry->loadable, ctx, FV_ERR_FORMAT, "%.80s: tensor '%.100s' has type %s",
                     fv_safetensors_shard_path(file, 0), entry->name, entry->dtype_name);
        fv_params_add_buffer(extra, entry->name + sizeof EXTRA - 1,
                             fv_zeros(ctx, entry->dtype, entry->rank, entry->shape));
    }
    if (ctx->error == FV_OK) return FV_OK;
    return fv_ctx_take_error(ctx);
}

static fv_status no_note(const fv_state_parts *parts, const fv_safetensors *file, const char *key)
{
    return fv_fail(parts->params->ctx, FV_ERR_FORMAT, "%.100s: no usable note '%s'",
                   fv_safetensors_shard_path(file, 0), key);
}

static fv_status read_partial(const fv_state_parts *parts, const fv_safetensors *file,
                              fv_partial *out)
{
    double real[PARTIALS] = {0};
    for (int k = 0; k < PARTIALS; k++) {
        char key[NOTE_BYTES];
        snprintf(key, sizeof key, "fovea.%s", partial_names[k]);
        const char *text = fv_safetensors_metadata_find(file, key);
        if (!text || !read_real(text, &real[k])) return no_note(parts, file, key);
    }
    *out = (fv_partial){
        .tokens = real[0], .loss = real[1], .grad_norm = real[2], .skipped = real[3] == 1};
    return real[0] >= 0 && real[0] < 1e18 ? FV_OK : no_note(parts, file, "fovea.phase_tokens");
}

/* numbers[0]: phases done; numbers[i]: steps of optimizer i. */
static fv_status read_phase_notes(const fv_state_parts *parts, const fv_safetensors *file,
                                  int64_t numbers[FV_MAX_PHASES], fv_partial *part)
{
    if (parts->phases > 1) FV_TRY(read_partial(parts, file, part));
    for (int phase = 0; parts->phases > 1 && phase < parts->phases; phase++) {
        char key[NOTE_BYTES] = "fovea.phase";
        if (phase > 0) snprintf(key, sizeof key, "fovea.optim_steps.%d", phase);
        const char *text = fv_safetensors_metadata_find(file, key);
        const bool ok = text && fv_decimal_to_i64(text, strlen(text), &numbers[phase]) &&
                        numbers[phase] >= 0 && (phase > 0 || numbers[0] < parts->phases);
        if (!ok) return no_note(parts, file, key);
    }
    return FV_OK;
}

static fv_status load_open(const fv_state_parts *parts, fv_safetensors *file, fv_progress *progress)
{
    fv_ctx *ctx = parts->params->ctx;
    fv_named list;
    FV_TRY(make_extra(file, parts->extra));
    FV_TRY(list_tensors(parts, &list));
    fv_status status = fv_named_check(&list, file, true);
    fv_progress read;
    uint64_t optim_steps = 0;
    int64_t numbers[FV_MAX_PHASES] = {0};
    fv_partial part = {.tokens = 0};
    if (status == FV_OK) status = read_notes(ctx, file, &read, &optim_steps);
    if (status == FV_OK) status = read_phase_notes(parts, file, numbers, &part);
    if (status == FV_OK) status = fv_named_read(&list, file);
    fv_named_end(&list);
    if (status != FV_OK) return status;
    fv_optim_set_steps(parts->optim[0], optim_steps);
    for (int phase = 1; phase < parts->phases; phase++)
        fv_optim_set_steps(parts->optim[phase], (uint64_t)numbers[phase]);
    read.phase = numbers[0];
    read.part = part;
    *progress = read;
    return FV_OK;
}

fv_status fv_state_load(const char *folder, uint64_t step, const fv_state_parts *parts,
                        fv_progress *progress)
{
    fv_ctx *ctx = parts->params->ctx;
    char path[FV_PATH_BYTES];
    FV_TRY(fv_state_file(ctx, path, folder, step));
    fv_safetensors *file = NULL;
    FV_TRY(fv_safetensors_open(ctx, path, FV_SAFETENSORS_COPY | FV_SAFETENSORS_VERIFY, &file));
    fv_scope_begin(ctx);
    fv_status status = load_open(parts, file, progress);
    fv_scope_end(ctx);
    fv_safetensors_close(&file);
    return status;
}
