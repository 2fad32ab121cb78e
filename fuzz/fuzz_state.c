/*
 * The files that a training run resumes from: the list of states, and a state. A state is only read
 * with the right checksums, so the target computes those of its input first. Whatever fails to load
 * must leave the progress as it was, and a load must not take memory or time beyond the input's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/file.h"
#include "fovea/ops.h"
#include "fuzz.h"
#include "io/crc.h"
#include "io/safetensors_file.h"
#include "train/state.h"

enum { STEP = 12, BEFORE = 77, DIGITS = FV_SAFETENSORS_CRC_DIGITS, PREFIX = 8 };

static void put_sum(char *at, uint32_t sum)
{
    char digits[DIGITS + 1];
    snprintf(digits, sizeof digits, "%08x", sum);
    memcpy(at, digits, DIGITS);
}

/* Where the digits are that the reader will look for; NULL: nowhere, or not that many. */
static char *find_digits(char *data, size_t header, size_t digits)
{
    static const char key[] = "\"" FV_SAFETENSORS_CRC_KEY "\":\"";
    char *at = memmem(data, header, key, sizeof key - 1);
    if (!at) return NULL;
    at += sizeof key - 1;
    return (size_t)(data + header - at) >= digits ? at : NULL;
}

/* Writes the checksums that belong to the file, if it has room for them. */
static void write_sums(fv_ctx *ctx, char *data, size_t bytes)
{
    fv_safetensors *set = NULL;
    if (fv_safetensors_open(ctx, "input", FV_SAFETENSORS_COPY, &set) != FV_OK) return;
    const size_t count = fv_safetensors_count(set), digits = (count + 1) * DIGITS;
    uint64_t header = 0;
    if (fv_safetensors_form(set) == FV_WEIGHTS_SAFETENSORS) memcpy(&header, data, sizeof header);
    char *at = header <= bytes - PREFIX ? find_digits(data + PREFIX, (size_t)header, digits) : NULL;
    if (at) {
        static fv_crc crc;
        fv_crc_init(&crc, FV_CRC32C);
        memset(at, '0', digits);
        const uint32_t sum = fv_crc_add(&crc, 0, data + PREFIX, (size_t)header);
        for (size_t i = 0; i < count; i++) {
            const fv_file_entry *e = fv_safetensors_entry(set, i);
            put_sum(at + (i + 1) * DIGITS, fv_crc_add(&crc, 0, data + e->offset, (size_t)e->bytes));
        }
        put_sum(at, sum);
    }
    fv_safetensors_close(&set);
}

/* Two parameters and the optimizers of two phases, as the seeds have. */
static fv_status load_state(fv_ctx *ctx, fv_optim_kind kind, size_t bytes)
{
    fv_params *params = NULL, *extra = NULL;
    fv_optim *optim[2] = {NULL, NULL};
    fv_optim_config how;
    fv_progress progress = {.step = BEFORE};
    if (fv_params_create(ctx, &params) != FV_OK || fv_params_create(ctx, &extra) != FV_OK) abort();
    fv_params_add(params, "w", fv_full(ctx, FV_F32, 2, (int64_t[]){2, 3}, 0.5));
    fv_params_add(params, "b", fv_full(ctx, FV_F32, 1, (int64_t[]){3}, -0.5));
    fv_optim_config_init(&how, sizeof how, kind);
    how.momentum = 0.9;
    for (int phase = 0; phase < 2; phase++) {
        how.group = phase ? "b" : "w";
        if (fv_optim_create(params, &how, &optim[phase]) != FV_OK) abort();
    }
    const fv_state_parts parts = {
        .params = params, .optim = {optim[0], optim[1]}, .phases = 2, .extra = extra};
    const double began = fuzz_clock();
    const fv_status s = fv_state_load("run", STEP, &parts, &progress);
    size_t made = 0;
    for (int i = 0; i < fv_params_count(extra); i++)
        made += (size_t)fv_tensor_count(fv_params_tensor(extra, i));
    fuzz_bound("state", s, made, bytes, began);
    if (s != FV_OK && progress.step != BEFORE) abort();
    if (s == FV_ERR_IO || fv_ctx_error(ctx) != FV_OK) abort();
    fv_optim_destroy(&optim[0]);
    fv_optim_destroy(&optim[1]);
    fv_params_destroy(&params);
    fv_params_destroy(&extra);
    return s;
}

static void read_list(fv_ctx *ctx)
{
    fv_state_list list = {0};
    const double began = fuzz_clock();
    const fv_status s = fv_state_list_read(ctx, "run", &list);
    fuzz_bound("list", s, list.count, FV_MAX_STATES, began);
    for (size_t i = 1; i < list.count && s == FV_OK; i++)
        if (list.step[i] <= list.step[i - 1]) abort();
}

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    if (bytes <= PREFIX || data[0] == '{') {
        read_list(ctx);
    } else {
        char *copy = malloc(bytes);
        if (!copy) abort();
        memcpy(copy, data, bytes);
        ctx = fuzz_context((const uint8_t *)copy, bytes);
        write_sums(ctx, copy, bytes);
        if (load_state(ctx, FV_OPTIM_ADAMW, bytes) != FV_OK)
            (void)load_state(ctx, FV_OPTIM_SGD, bytes);
        free(copy);
    }
    fuzz_check(ctx);
    return 0;
}
