/* The raw-pointer attention of fovea/attention_kernels.h: checks its arguments, then calls the
 * kernel of the SIMD level. */
#include "kernels/attention.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/config.h"
#include "kernels/level.h"

void fv_attention_rule_init(fv_attention_rule *rule)
{
    *rule = (fv_attention_rule){.left = -1, .right = -1};
}

void fv_attn_init(fv_attn *a, size_t struct_size)
{
    fv_attn defaults = {
        .struct_size = struct_size,
        .dtype = FV_F32,
        .batch = 1,
        .heads = 1,
        .kv_heads = 1,
        .n_q = 1,
        .n_k = 1,
        .d = 1,
        .d_v = 1,
    };
    fv_attention_rule_init(&defaults.rule);
    fv_config_set_defaults(a, struct_size, &defaults, sizeof defaults);
}

static fv_attn_layout dense(int64_t heads, int64_t rows, int64_t width)
{
    return (fv_attn_layout){.batch = heads * rows * width, .head = rows * width, .row = width};
}

void fv_attn_dense(fv_attn *a)
{
    a->q = dense(a->heads, a->n_q, a->d);
    a->k = dense(a->kv_heads, a->n_k, a->d);
    a->v = dense(a->kv_heads, a->n_k, a->d_v);
    a->o = dense(a->heads, a->n_q, a->d_v);
}

/* ---- checks ----------------------------------------------------------------------- */

static bool sizes_are_valid(const fv_attn *a)
{
    if (a->batch < 0 || a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads != 0)
        return false;
    if (a->n_q < 0 || a->n_k < 0) return false;
    if (a->score != FV_ATTN_SCORE_NONE && (a->d < 1 || a->d > FV_ATTN_MAX_WIDTH)) return false;
    if (a->d_v < 1 || a->d_v > FV_ATTN_MAX_WIDTH) return false;
    const int64_t limit = (int64_t)1 << 40; /* positions and their differences stay exact */
    if (a->n_q > limit || a->n_k > limit || a->rule.q_offset < -limit || a->rule.q_offset > limit)
        return false;
    int64_t rows, work;
    return fv_checked_mul_i64(a->batch, a->heads, &rows) &&
           fv_checked_mul_i64(rows, a->n_q, &rows) &&
           fv_checked_mul_i64(a->n_q + a->n_k, FV_ATTN_MAX_WIDTH * (int64_t)sizeof(double),
                              &work) &&
           fv_checked_mul_i64(work, a->batch > a->heads ? a->batch : a->heads, &work);
}

/* Reserved fields must be zero: a caller that sets one expects what this version cannot do. */
static bool rule_is_valid(const fv_attention_rule *r)
{
    if (r->causal < FV_CAUSAL_NONE || r->causal > FV_CAUSAL_BOTTOM_RIGHT) return false;
    if (r->left < -1 || r->right < -1 || r->prefix < 0) return false;
    if (r->block_k < 0 || r->block_k % 16 != 0 || r->block_q < 0) return false;
    if ((r->block_k > 0) != (r->block_q > 0)) return false;
    for (size_t i = 0; i < sizeof r->reserved / sizeof *r->reserved; i++)
        if (r->reserved[i] != 0) return false;
    return r->dropout >= 0 && r->dropout < 1 && r->soft_cap >= 0 && isfinite(r->scale);
}

fv_status fv_attn_check(const fv_attn *a)
{
    if (!sizes_are_valid(a)) return FV_ERR_ARGUMENT;
    if (a->score < FV_ATTN_SCORE_DOT || a->score > FV_ATTN_SCORE_NONE) return FV_ERR_ARGUMENT;
    if (!rule_is_valid(&a->rule)) return FV_ERR_ARGUMENT;
    if (a->varlen && a->rule.block_k > 0) return FV_ERR_UNSUPPORTED;
    if (a->adds_to_keys && fv_attn_is_half(a->dtype)) return FV_ERR_UNSUPPORTED;
    if (a->dtype != FV_F32 && a->dtype != FV_F64 && !fv_attn_is_half(a->dtype))
        return FV_ERR_UNSUPPORTED;
    return FV_OK;
}

fv_status fv_attn_read(const fv_attn *given, fv_attn *full)
{
    fv_attn_init(full, sizeof *full);
    if (!given || !fv_config_copy(full, sizeof *full, given)) return FV_ERR_ARGUMENT;
    return fv_attn_check(full);
}

static fv_kernel_id kernel_of(fv_attn_pass pass)
{
    return pass == FV_ATTN_FORWARD ? FV_KERNEL_ATTENTION : FV_KERNEL_ATTENTION_GRAD;
}

fv_status fv_attn_kernel_scratch(fv_kernel_id kernel, const void *args, int threads, size_t *bytes)
{
    if (threads < 1 || !bytes) return FV_ERR_ARGUMENT;
    size_t largest = 0;
    const fv_simd best = fv_tiles_usable() ? FV_SIMD_AMX : fv_level_usable();
    for (int level = FV_SIMD_SCALAR; level <= (int)best; level++) {
        fv_kernel_table table;
        fv_kernel_table_register(&table, (fv_simd)level);
        size_t need = table.scratch[kernel] ? table.scratch[kernel](args, threads) : 0;
        if (need > largest) largest = need;
    }
    *bytes = largest;
    return FV_OK;
}

fv_status fv_attn_scratch(const fv_attn *a, fv_attn_pass pass, int threads, size_t *bytes)
{
    fv_attn full;
    const fv_status status = fv_attn_read(a, &full);
    if (status != FV_OK) return status;
    return fv_attn_kernel_scratch(kernel_of(pass), &full, threads, bytes);
}

/* ---- passes ----------------------------------------------------------------------- */

static void run_on_pool(void *user, int64_t items, int64_t grain, fv_range_fn fn, const void *arg)
{
    fv_pool_run(user, items, grain, fn, arg);
}

/* The caller's threads, a pool's, or only the calling thread. */
static bool workers_of(const fv_attn_exec *exec, fv_exec *inner)
{
    *inner = (fv_exec){.parallel = run_on_pool, .threads = 1};
    if (!exec) return true;
    if (!exec->parallel) {
        inner->user = exec->pool;
        inner->threads = fv_pool_threads(exec->pool);
        return true;
    }
    inner->parallel = exec->parallel;
    inner->user = exec->user;
    inner->threads = exec->threads;
    return !exec->pool && exec->threads >= 1;
}

/* The scratch holds numbers and atomic counters of every type. */
static bool is_valid_scratch(const void *scratch, size_t bytes, size_t need)
{
    return scratch && (uintptr_t)scratch % _Alignof(max_align_t) == 0 && bytes >= need;
}

fv_status fv_attn_run(fv_kernel_id kernel, fv_dtype dtype, const void *args,
                      const fv_attn_exec *exec, void *const *ptr, void *scratch,
                      size_t scratch_bytes)
{
    const fv_simd level = exec ? exec->level : FV_SIMD_AUTO;
    if (level < FV_SIMD_AUTO || level > FV_SIMD_AMX) return FV_ERR_ARGUMENT;
    const bool tiles = dtype == FV_BF16
                           ? (level == FV_SIMD_AMX || level == FV_SIMD_AUTO) && fv_tiles_usable()
                           : level == FV_SIMD_AMX && fv_tiles_present();
    const fv_simd best = tiles ? FV_SIMD_AMX : fv_level_usable();
    if (level > best) return FV_ERR_UNSUPPORTED;
    fv_exec inner;
    if (!workers_of(exec, &inner)) return FV_ERR_ARGUMENT;
    fv_kernel_table table;
    fv_kernel_table_register(&table, level == FV_SIMD_AUTO ? best : level);
    if (!table.fn[kernel][dtype]) return FV_ERR_UNSUPPORTED;
    /* The reference kernels serve double at every level. */
    size_t (*query)(const void *, int) =
        (dtype == FV_F64 ? table.ref_scratch : table.scratch)[kernel];
    const size_t need = query ? query(args, inner.threads) : 0;
    if (need > 0 && !is_valid_scratch(scratch, scratch_bytes, need)) return FV_ERR_ARGUMENT;
    inner.scratch = scratch;
    table.fn[kernel][dtype](&inner, ptr, args);
    return FV_OK;
}

static void *input_pointer(const void *p) { return (void *)(uintptr_t)p; }

void fv_attn_fill_inputs(void **ptr, const fv_attn_data *data)
{
    ptr[FV_ATTN_O] = data->o;
    ptr[FV_ATTN_LSE] = data->lse;
    ptr[FV_ATTN_Q] = input_pointer(data->q);
    ptr[FV_ATTN_K] = input_pointer(data->k);
    ptr[FV_ATTN_V] = input_pointer(data->v);
    ptr[FV_ATTN_BIAS] = input_pointer(data->bias);
    ptr[FV_ATTN_VISIBLE] = input_pointer(data->visible);
    ptr[FV_ATTN_KEY_LENGTHS] = input_pointer(data->key_lengths);
    ptr[FV_ATTN_SLOPES] = input_pointer(data->slopes);
    ptr[FV_ATTN_W] = input_pointer(data->w);
    ptr[FV_ATTN_Q_BEGIN] = input_pointer(data->q_begin);
    ptr[FV_ATTN_K_BEGIN] = input_pointer(data->k_begin);
    ptr[FV_ATTN_BLOCKS] = input_pointer(data->blocks);
}

fv_status fv_attn_check_documents(const fv_attn *a, const fv_attn_data *data)
{
    if (!a->varlen) return data->q_begin || data->k_begin ? FV_ERR_ARGUMENT : FV_OK;
    if (!data->q_begin || !data->k_begin) return FV_ERR_ARGUMENT;
    if (data->bias || data->visible) return FV_ERR_UNSUPPORTED;
    if (!fv_attn_offsets_are_valid(data->q_begin, a->batch, a->n_q) ||
        !fv_attn_offsets_are_valid(data->k_begin, a->batch, a->n_k))
        return FV_ERR_ARGUMENT;
    return FV_OK;
}

static bool has_inputs(const fv_attn *a, const fv_attn_data *data)
{
    if (!data) return false;
    const bool queries = a->batch * a->n_q > 0, keys = a->batch * a->n_k > 0;
    const bool pairs = a->score != FV_ATTN_SCORE_NONE;
    if (a->score == FV_ATTN_SCORE_ADDITIVE ? !data->w : data->w != NULL) return false;
    if (a->rule.block_k > 0 ? queries && keys && !data->blocks : data->blocks != NULL) return false;
    if (queries && ((pairs && !data->q) || !data->o)) return false;
    return !keys || ((!pairs || data->k) && data->v);
}

fv_status fv_attn_forward(const fv_attn *given, const fv_attn_data *data, const fv_attn_exec *exec,
                          void *scratch, size_t scratch_bytes)
{
    fv_attn read, *a = &read;
    fv_status status = fv_attn_read(given, a);
    if (status != FV_OK) return status;
    if (!has_inputs(a, data)) return FV_ERR_ARGUMENT;
    status = fv_attn_check_documents(a, data);
    if (status != FV_OK) return status;
    void *ptr[FV_ATTN_POINTERS];
    fv_attn_fill_inputs(ptr, data);
    const fv_attn full = fv_attn_complete(a);
    return fv_attn_run(FV_KERNEL_ATTENTION, a->dtype, &full, exec, ptr, scratch, scratch_bytes);
}

fv_status fv_attn_backward(const fv_attn *given, const fv_attn_data *data, const fv_attn_exec *exec,
                           void *scratch, size_t scratch_bytes)
{
    fv_attn read, *a = &read;
    fv_status status = fv_attn_read(given, a);
    if (status != FV_OK) return status;
    if (!has_inputs(a, data) || (a->batch * a->n_q > 0 && !data->lse)) return FV_ERR_ARGUMENT;
    if ((data->grad_bias && !data->bias) || (data->grad_w && !data->w)) return FV_ERR_ARGUMENT;
    if (a->score == FV_ATTN_SCORE_NONE && (data->grad_q || data->grad_k)) return FV_ERR_ARGUMENT;
    status = fv_attn_check_documents(a, data);
    if (status != FV_OK) return status;
    void *ptr[FV_ATTN_GRAD_POINTERS] = {
        [FV_ATTN_GRAD_Q] = data->grad_q,
        [FV_ATTN_GRAD_K] = data->grad_k,
        [FV_ATTN_GRAD_V] = data->grad_v,
        [FV_ATTN_GRAD_BIAS] = data->grad_bias,
        [FV_ATTN_GRAD_W] = data->grad_w,
        [FV_ATTN_GRAD_O] = input_pointer(data->grad_o),
        [FV_ATTN_GRAD_LSE] = input_pointer(data->grad_lse),
    };
    fv_attn_fill_inputs(ptr + FV_ATTN_GRAD_INPUTS, data);
    const fv_attn full = fv_attn_complete(a);
    return fv_attn_run(FV_KERNEL_ATTENTION_GRAD, a->dtype, &full, exec, ptr, scratch,
                       scratch_bytes);
}

void fv_attn_merge(int64_t rows, int64_t width, float *o, int64_t o_row, float *lse,
                   const float *other_o, int64_t other_row, const float *other_lse)
{
    for (int64_t i = 0; i < rows; i++) {
        const float max = lse[i] > other_lse[i] ? lse[i] : other_lse[i];
        if (max == -INFINITY) continue; /* neither set has a key for this query */
        const double wa = exp((double)lse[i] - max), wb = exp((double)other_lse[i] - max);
        const double a = wa / (wa + wb), b = wb / (wa + wb);
        for (int64_t c = 0; c < width; c++) {
            /* A side without weight is skipped: it may hold NaN. */
            double sum = 0;
            if (a > 0) sum += a * (double)o[i * o_row + c];
            if (b > 0) sum += b * (double)other_o[i * other_row + c];
            o[i * o_row + c] = (float)sum;
        }
        lse[i] = (float)((double)max + log(wa + wb));
    }
}
