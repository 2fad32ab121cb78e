/*
 * The fields of a context, and the two ways to record a failure:
 *   fv_fail()   for calls that return fv_status: keeps the message, later ops still run;
 *   fv_poison() for tensor ops: sets the sticky error (the first one wins).
 * Layers above base keep their state here behind forward-declared structs.
 */
#ifndef FV_BASE_CTX_H
#define FV_BASE_CTX_H

#include <stdarg.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/registry.h"

enum { FV_MESSAGE_BYTES = 384 };

struct fv_device;
struct fv_tensor;
struct fv_scope;
struct fv_tape;
struct fv_tape_hooks;

/* Test hook: which gradient to make wrong on purpose (tests/support). Only code built with
 * FV_TEST_HOOKS reads it. The field is always there, so that the test library can share the objects
 * that have no hooks. */
typedef enum fv_sabotage_mode {
    FV_SABOTAGE_NONE,
    FV_SABOTAGE_NEGATE,
    FV_SABOTAGE_ZERO,
    FV_SABOTAGE_SCALE, /* by 1.001 */
    FV_SABOTAGE_TERM   /* drop one additive term inside a kernel or backward */
} fv_sabotage_mode;

typedef struct fv_sabotage {
    fv_sabotage_mode mode;
    int op;    /* fv_op_id */
    int input; /* which input's gradient */
    int term;  /* which term, with FV_SABOTAGE_TERM */
} fv_sabotage;

struct fv_ctx {
    fv_mem mem;
    fv_io io;
    fv_limits limits;
    fv_cpu cpu;
    fv_simd simd;
    fv_log_level log_level;
    fv_pool *pool;
    fv_log_fn log;
    void *log_user;
    const volatile int *cancel;
    bool owns_pool;
    bool warned_of_missing_token; /* an id without a token was decoded, and the log has it */
    bool unverified;              /* FV_SAFETENSORS_CHECK checks nothing */

    fv_status error; /* sticky */
    char message[FV_MESSAGE_BYTES];

    uint64_t seed, step, row_offset, site;
    struct fv_tensor *draw_numbers; /* ops/draw.h */
    struct fv_kept *kept;           /* autograd/tape.h; NULL outside of checkpoints that keep */
    int compute;                    /* fv_dtype that linear layers compute in */
    fv_device_kind device_kind;
    struct fv_device *device;
    struct fv_tensor *invalid; /* what failed ops return */
    struct fv_scope *scope;    /* innermost */
    struct fv_tape *tape;
    fv_registry models, tasks;              /* kinds that the program has registered */
    const struct fv_tape_hooks *tape_hooks; /* what tensors call when they or their scopes end */
    int failed_scopes; /* failed fv_scope_begin calls whose fv_scope_end is still to come */
    int no_grad;       /* depth of fv_no_grad_begin */
    fv_sabotage sabotage;
};

static inline bool fv_cancelled(const fv_ctx *ctx) { return ctx->cancel && *ctx->cancel; }

/* Records the message, unless a sticky error is set, and returns `status`. */
fv_status fv_fail(fv_ctx *ctx, fv_status status, const char *fmt, ...) FV_PRINTF(3, 4);

/* Sets the sticky error unless one is set; returns ctx->error. */
fv_status fv_poison(fv_ctx *ctx, fv_status status, const char *fmt, ...) FV_PRINTF(3, 4);

/* Makes the failure just recorded by fv_fail() the sticky error, with its message. */
fv_status fv_make_last_failure_sticky(fv_ctx *ctx, fv_status status);

void fv_report(fv_ctx *ctx, fv_log_level level, const char *fmt, ...) FV_PRINTF(3, 4);

#define FV_RETURN_IF(cond, ctx, status, ...)                                                       \
    do {                                                                                           \
        if (cond) return fv_fail((ctx), (status), __VA_ARGS__);                                    \
    } while (0)

#define FV_TRY(expr)                                                                               \
    do {                                                                                           \
        fv_status fv_forwarded_ = (expr);                                                          \
        if (fv_forwarded_ != FV_OK) return fv_forwarded_;                                          \
    } while (0)

#endif
