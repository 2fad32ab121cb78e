#include "tensor/params.h"

#include <math.h>
#include <string.h>

#include "fovea/autograd.h"
#include "kernels/optim.h"

fv_status fv_params_create(fv_ctx *ctx, fv_params **out)
{
    if (ctx->error != FV_OK) return ctx->error;
    fv_params *params = fv_mem_zalloc(&ctx->mem, sizeof *params);
    FV_RETURN_IF(!params, ctx, FV_ERR_MEMORY, "no memory for a parameter set");
    params->ctx = ctx;
    *out = params;
    return FV_OK;
}

fv_status fv_params_create_plan(fv_ctx *ctx, fv_params **out)
{
    FV_TRY(fv_params_create(ctx, out));
    (*out)->plan = true;
    return FV_OK;
}

bool fv_params_is_plan(const fv_params *params) { return params->plan; }

/* ---- names ------------------------------------------------------------------------- */

static uint32_t hash_of(const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

/* The slot of a name: the one that has it, or the empty one to put it in. */
static int *slot_of(const fv_params *params, const char *name)
{
    const uint32_t mask = 2 * (uint32_t)params->room - 1;
    uint32_t at = hash_of(name) & mask;
    while (params->slots[at] && strcmp(params->items[params->slots[at] - 1].name, name) != 0)
        at = (at + 1) & mask;
    return &params->slots[at];
}

static fv_param *find(const fv_params *params, const char *name)
{
    const int at = params->room ? *slot_of(params, name) : 0;
    return at ? &params->items[at - 1] : NULL;
}

static void free_room(fv_params *params)
{
    fv_mem *mem = &params->ctx->mem;
    const size_t room = (size_t)params->room;
    if (params->items) fv_mem_free(mem, params->items, room * sizeof *params->items);
    if (params->slots) fv_mem_free(mem, params->slots, 2 * room * sizeof *params->slots);
}

void fv_params_destroy(fv_params **params_ptr)
{
    fv_params *params = *params_ptr;
    if (!params) return;
    fv_ctx *ctx = params->ctx;
    for (int i = 0; i < params->count; i++)
        fv_tensor_unref(params->items[i].tensor);
    free_room(params);
    fv_mem_free(&ctx->mem, params, sizeof *params);
    *params_ptr = NULL;
}

/* Room is a power of two, so that a mask maps hashes to slots. */
static bool make_room(fv_params *params)
{
    if (params->count < params->room) return true;
    fv_mem *mem = &params->ctx->mem;
    fv_params larger = *params;
    larger.room = params->room ? params->room * 2 : 16;
    larger.items = fv_mem_alloc(mem, (size_t)larger.room * sizeof *larger.items);
    larger.slots = fv_mem_zalloc(mem, 2 * (size_t)larger.room * sizeof *larger.slots);
    if (!larger.items || !larger.slots) {
        free_room(&larger);
        return false;
    }
    for (int i = 0; i < params->count; i++) {
        larger.items[i] = params->items[i];
        *slot_of(&larger, larger.items[i].name) = i + 1;
    }
    free_room(params);
    *params = larger;
    return true;
}

/* ---- adding ------------------------------------------------------------------------- */

/* The parameter that has this tensor, or NULL. New tensors, the usual case, are not leaves yet. */
static const fv_param *holder_of(const fv_params *params, const fv_tensor *t)
{
    if (!t || !(t->flags & FV_TENSOR_LEAF)) return NULL;
    for (int i = 0; i < params->count; i++)
        if (params->items[i].tensor == t) return &params->items[i];
    return NULL;
}

static fv_status check_new(fv_params *params, const char *name, const fv_tensor *initial)
{
    fv_ctx *ctx = params->ctx;
    if (!name || !*name || strlen(name) >= FV_PARAM_NAME)
        return fv_poison(ctx, FV_ERR_ARGUMENT, "params: expected a name of 1 to %d bytes",
                         FV_PARAM_NAME - 1);
    if (fv_params_find(params, name))
        return fv_poison(ctx, FV_ERR_ARGUMENT, "params: the name '%.100s' is already in use", name);
    const fv_param *holder = holder_of(params, initial);
    if (holder)
        return fv_poison(ctx, FV_ERR_ARGUMENT,
                         "params: the tensor of '%.100s' is already in the set as '%.100s'", name,
                         holder->name);
    if (!initial || (!params->plan && !fv_tensor_contiguous(initial)))
        return fv_poison(ctx, FV_ERR_ARGUMENT, "params: expected a contiguous tensor for '%.100s'",
                         name);
    return FV_OK;
}

static fv_tensor *add(fv_params *params, const char *name, fv_tensor *initial, bool buffer)
{
    fv_ctx *ctx = params->ctx;
    if (ctx->error != FV_OK) return ctx->invalid;
    if (check_new(params, name, initial) != FV_OK) return ctx->invalid;
    if (!make_room(params)) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for parameter '%.100s'", name);
        return ctx->invalid;
    }
    fv_tensor *kept = buffer ? initial : fv_leaf(ctx, initial);
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor_ref(kept);
    fv_tensor_leave_scope(kept);
    fv_param *item = &params->items[params->count++];
    *slot_of(params, name) = params->count;
    memcpy(item->name, name, strlen(name) + 1);
    item->tensor = kept;
    item->transposed = false;
    item->buffer = buffer;
    return kept;
}

fv_tensor *fv_params_add(fv_params *params, const char *name, fv_tensor *initial)
{
    return add(params, name, initial, false);
}

fv_tensor *fv_params_add_buffer(fv_params *params, const char *name, fv_tensor *initial)
{
    return add(params, name, initial, true);
}

bool fv_params_is_buffer(const fv_params *params, int i)
{
    return i >= 0 && i < params->count && params->items[i].buffer;
}

bool fv_params_in_group(const fv_params *params, int i, const char *group)
{
    const fv_param *item = &params->items[i];
    return !item->buffer && (!group || strncmp(item->name, group, strlen(group)) == 0);
}

fv_ctx *fv_params_ctx(const fv_params *params) { return params->ctx; }

int fv_params_count(const fv_params *params) { return params->count; }

const char *fv_params_name(const fv_params *params, int i)
{
    return i >= 0 && i < params->count ? params->items[i].name : "";
}

fv_tensor *fv_params_tensor(const fv_params *params, int i)
{
    return i >= 0 && i < params->count ? params->items[i].tensor : params->ctx->invalid;
}

fv_tensor *fv_params_find(const fv_params *params, const char *name)
{
    const fv_param *item = find(params, name);
    return item ? item->tensor : NULL;
}

fv_status fv_params_store_transposed(fv_params *params, const char *name)
{
    fv_param *item = find(params, name);
    FV_RETURN_IF(!item, params->ctx, FV_ERR_INDEX, "params: no parameter is named '%.100s'", name);
    FV_RETURN_IF(item->tensor->rank != 2, params->ctx, FV_ERR_SHAPE,
                 "params: expected a matrix, '%.100s' has rank %d", name, item->tensor->rank);
    item->transposed = true;
    return FV_OK;
}

bool fv_params_stored_transposed(const fv_params *params, int i)
{
    return i >= 0 && i < params->count && params->items[i].transposed;
}

int64_t fv_params_elements(const fv_params *params)
{
    int64_t n = 0;
    for (int i = 0; i < params->count; i++)
        if (!params->items[i].buffer) n += params->items[i].tensor->count;
    return n;
}

void fv_params_zero_grad(fv_params *params)
{
    for (int i = 0; i < params->count; i++)
        if (!params->items[i].buffer) fv_zero_grad(params->ctx, params->items[i].tensor);
}

void fv_params_add_sumsq(const fv_params *params, const char *group, void *total)
{
    for (int i = 0; i < params->count; i++) {
        fv_tensor *g = params->items[i].tensor->grad;
        if (!g || g->count == 0 || !fv_params_in_group(params, i, group)) continue;
        const fv_optim_args args = {.n = g->count};
        fv_launch(params->ctx, FV_KERNEL_SUMSQ, g->dtype, (void *[]){total, g->data}, &args,
                  sizeof args);
    }
}

fv_status fv_params_grad_norm(const fv_params *params, const char *group, double *out)
{
    fv_ctx *ctx = params->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    fv_scope_begin(ctx);
    fv_tensor *total = fv_zeros(ctx, FV_F64, 0, NULL);
    if (ctx->error == FV_OK) fv_params_add_sumsq(params, group, total->data);
    double sum = 0;
    fv_status status = ctx->error;
    if (status == FV_OK) status = fv_tensor_item(ctx, total, &sum);
    fv_scope_end(ctx);
    if (status == FV_OK) *out = sqrt(sum);
    return status;
}

/* ---- comparing ---------------------------------------------------------------------- */

/* Both tensors have one dtype and shape. */
static fv_status same_bits(fv_ctx *ctx, const fv_tensor *a, const fv_tensor *b, bool *out)
{
    const size_t bytes = (size_t)a->count * fv_dtype_size(a->dtype);
    char *room = fv_mem_alloc(&ctx->mem, 2 * bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory to compare parameters");
    fv_status status = fv_tensor_read(ctx, a, room, bytes);
    if (status == FV_OK) status = fv_tensor_read(ctx, b, room + bytes, bytes);
    *out = status == FV_OK && memcmp(room, room + bytes, bytes) == 0;
    fv_mem_free(&ctx->mem, room, 2 * bytes);
    return status;
}

fv_status fv_params_equal(const fv_params *a, const fv_params *b, bool *out)
{
    bool equal = a->count == b->count;
    for (int i = 0; equal && i < a->count; i++) {
        const fv_tensor *x = a->items[i].tensor, *y = fv_params_find(b, a->items[i].name);
        equal = y && x->dtype == y->dtype && x->rank == y->rank &&
                memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape) == 0;
        if (equal) FV_TRY(same_bits(a->ctx, x, y, &equal));
    }
    *out = equal;
    return FV_OK;
}
