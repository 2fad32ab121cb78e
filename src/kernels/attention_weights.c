/* Weights over raw pointers, fovea/attention_kernels.h: checks its arguments, then calls the kernel
 * of the SIMD level. */
#include "kernels/attention_weights.h"

#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/config.h"

/* Varlen documents are one sequence here. */
static int64_t sequences(const fv_attn *a) { return a->varlen ? 1 : a->batch; }

void fv_attn_region_init(fv_attn_region *region, size_t struct_size, const fv_attn *given)
{
    /* The map of a description that is not valid is empty; the calls that use it return the error.
     */
    fv_attn read, *a = &read;
    if (fv_attn_read(given, a) != FV_OK) read = (fv_attn){0};
    fv_attn_region all = {.struct_size = struct_size,
                          .batches = sequences(a),
                          .heads = a->heads,
                          .rows = a->n_q,
                          .cols = a->n_k};
    fv_attn_region_dense(&all);
    fv_config_set_defaults(region, struct_size, &all, sizeof all);
}

void fv_attn_region_dense(fv_attn_region *region)
{
    region->out = (fv_attn_grid){.batch = region->heads * region->rows * region->cols,
                                 .head = region->rows * region->cols,
                                 .row = region->cols,
                                 .col = 1};
}

/* ---- checks ----------------------------------------------------------------------- */

static bool is_within(int64_t first, int64_t count, int64_t all)
{
    return first >= 0 && count >= 0 && first <= all && count <= all - first;
}

/* Both structs may be older and smaller than this version's. */
static fv_status read_region(const fv_attn *given, const fv_attn_region *given_region, fv_attn *a,
                             fv_attn_region *region)
{
    const fv_status status = fv_attn_read(given, a);
    if (status != FV_OK) return status;
    fv_attn_region_init(region, sizeof *region, a);
    const bool valid = given_region && fv_config_copy(region, sizeof *region, given_region) &&
                       is_within(region->batch, region->batches, sequences(a)) &&
                       is_within(region->head, region->heads, a->heads) &&
                       is_within(region->row, region->rows, a->n_q) &&
                       is_within(region->col, region->cols, a->n_k);
    return valid ? FV_OK : FV_ERR_ARGUMENT;
}

static fv_status read_summary(const fv_attn *given, const fv_attn_summary *given_summary,
                              fv_attn *a, fv_attn_summary *s)
{
    const fv_status status = fv_attn_read(given, a);
    if (status != FV_OK) return status;
    int64_t entries;
    *s = (fv_attn_summary){.struct_size = sizeof *s};
    const bool valid = given_summary && fv_config_copy(s, sizeof *s, given_summary) &&
                       s->top >= 0 &&
                       fv_checked_mul_i64(a->batch * a->heads * a->n_q, s->top, &entries) &&
                       (s->top == 0 || (s->top_index && s->top_weight));
    return valid ? FV_OK : FV_ERR_ARGUMENT;
}

static bool has_inputs(const fv_attn *a, const fv_attn_data *data)
{
    if (!data) return false;
    const bool queries = a->batch * a->n_q > 0, keys = a->batch * a->n_k > 0;
    if (queries && !data->lse) return false;
    if (a->rule.block_k > 0 ? queries && keys && !data->blocks : data->blocks != NULL) return false;
    if (a->score == FV_ATTN_SCORE_ADDITIVE ? !data->w : data->w != NULL) return false;
    return a->score == FV_ATTN_SCORE_NONE || ((!queries || data->q) && (!keys || data->k));
}

static void fill_inputs(void **ptr, const fv_attn_data *data)
{
    fv_attn_fill_inputs(ptr, data);
    ptr[FV_ATTN_O] = ptr[FV_ATTN_V] = NULL;
}

/* ---- calls ------------------------------------------------------------------------ */

fv_status fv_attn_weights_scratch(const fv_attn *a, const fv_attn_region *region, int threads,
                                  size_t *bytes)
{
    fv_attn_weights_args args;
    const fv_status status = read_region(a, region, &args.a, &args.region);
    if (status != FV_OK) return status;
    args.a = fv_attn_complete(&args.a);
    return fv_attn_kernel_scratch(FV_KERNEL_ATTENTION_MAP, &args, threads, bytes);
}

fv_status fv_attn_weights(const fv_attn *given, const fv_attn_data *data,
                          const fv_attn_region *given_region, const fv_attn_exec *exec,
                          void *scratch, size_t scratch_bytes, void *weights)
{
    fv_attn_weights_args args;
    const fv_attn *a = &args.a;
    const fv_attn_region *region = &args.region;
    fv_status status = read_region(given, given_region, &args.a, &args.region);
    if (status != FV_OK) return status;
    const bool empty =
        region->batches == 0 || region->heads == 0 || region->rows == 0 || region->cols == 0;
    if (!has_inputs(a, data) || (!empty && !weights)) return FV_ERR_ARGUMENT;
    status = fv_attn_check_documents(a, data);
    if (status != FV_OK) return status;
    args.a = fv_attn_complete(a);
    void *ptr[FV_ATTN_MAP_INPUTS + FV_ATTN_POINTERS] = {[FV_ATTN_MAP_OUT] = weights};
    fill_inputs(ptr + FV_ATTN_MAP_INPUTS, data);
    return fv_attn_run(FV_KERNEL_ATTENTION_MAP, a->dtype, &args, exec, ptr, scratch, scratch_bytes);
}

fv_status fv_attn_summary_scratch(const fv_attn *given, const fv_attn_summary *summary, int threads,
                                  size_t *bytes)
{
    fv_attn a;
    fv_attn_summary s;
    const fv_status status = read_summary(given, summary, &a, &s);
    if (status != FV_OK) return status;
    const fv_attn_summary_args args = {.a = fv_attn_complete(&a), .top = s.top};
    return fv_attn_kernel_scratch(FV_KERNEL_ATTENTION_SUMMARY, &args, threads, bytes);
}

fv_status fv_attn_summarise(const fv_attn *given, const fv_attn_data *data,
                            const fv_attn_summary *summary, const fv_attn_exec *exec, void *scratch,
                            size_t scratch_bytes)
{
    fv_attn read, *a = &read;
    fv_attn_summary own, *s = &own;
    fv_status status = read_summary(given, summary, a, s);
    if (status != FV_OK) return status;
    if (!has_inputs(a, data)) return FV_ERR_ARGUMENT;
    status = fv_attn_check_documents(a, data);
    if (status != FV_OK) return status;
    const fv_attn_summary_args args = {.a = fv_attn_complete(a), .top = s->top};
    void *ptr[FV_ATTN_SUMMARY_INPUTS + FV_ATTN_POINTERS] = {
        [FV_ATTN_TOP_INDEX] = s->top_index, [FV_ATTN_TOP_WEIGHT] = s->top_weight,
        [FV_ATTN_ENTROPY] = s->entropy,     [FV_ATTN_DISTANCE] = s->distance,
        [FV_ATTN_RECEIVED] = s->received,
    };
    fill_inputs(ptr + FV_ATTN_SUMMARY_INPUTS, data);
    return fv_attn_run(FV_KERNEL_ATTENTION_SUMMARY, a->dtype, &args, exec, ptr, scratch,
                       scratch_bytes);
}

static double element(const fv_attn *a, const void *array, int64_t i)
{
    return a->dtype == FV_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

fv_status fv_attn_head_means(const fv_attn *given, const void *lse, const void *rows, void *means)
{
    fv_attn read, *a = &read;
    const fv_status status = fv_attn_read(given, a);
    if (status != FV_OK) return status;
    const int64_t heads = sequences(a) * a->heads;
    if (heads > 0 && (!means || (a->n_q > 0 && (!lse || !rows)))) return FV_ERR_ARGUMENT;
    for (int64_t head = 0; head < heads; head++) {
        double sum = 0;
        int64_t seeing = 0;
        for (int64_t i = 0; i < a->n_q; i++) {
            if (element(a, lse, head * fv_attn_lse_head(a) + i) == -INFINITY) continue;
            sum += element(a, rows, head * a->n_q + i);
            seeing++;
        }
        const double mean = seeing > 0 ? sum / (double)seeing : 0;
        if (a->dtype == FV_F64)
            ((double *)means)[head] = mean;
        else
            ((float *)means)[head] = (float)mean;
    }
    return FV_OK;
}
