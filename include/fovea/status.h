/*
 * fovea/status.h: how a call says that it failed.
 *
 * Two kinds of call exist (docs/architecture.md, "Errors"):
 *   - tensor ops return a tensor, never NULL. On failure the context keeps the
 *     first error and every later op is a no-op until fv_ctx_take_error();
 *   - every other call returns fv_status; its results are untouched on failure
 *     and fv_ctx_message() holds the reason.
 *
 *     fv_status s = fv_backward(ctx, loss);
 *     if (s != FV_OK)
 *         fprintf(stderr, "%s: %s\n", fv_status_name(s), fv_ctx_message(ctx));
 */
#ifndef FOVEA_STATUS_H
#define FOVEA_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define FV_API
#else
#define FV_API __attribute__((visibility("default")))
#endif

#if defined(__GNUC__)
#define FV_MUST_USE          __attribute__((warn_unused_result))
#define FV_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define FV_MUST_USE
#define FV_PRINTF(fmt, args)
#endif

typedef enum fv_status {
    FV_OK = 0,
    FV_ERR_ARGUMENT,    /* a value outside what the call documents */
    FV_ERR_SHAPE,       /* shapes that do not fit each other */
    FV_ERR_DTYPE,       /* an element type the op does not take */
    FV_ERR_INDEX,       /* an index outside its axis or table */
    FV_ERR_STATE,       /* a call at the wrong time: released tensor, no gradient, ... */
    FV_ERR_MEMORY,      /* the allocator said no, or the context's byte cap is reached */
    FV_ERR_LIMIT,       /* input larger than fv_limits allows */
    FV_ERR_IO,          /* the operating system said no */
    FV_ERR_FORMAT,      /* a file or text that breaks its format */
    FV_ERR_UNSUPPORTED, /* known, but this build or device does not have it */
    FV_ERR_NONFINITE,   /* a loss or gradient that is not finite */
    FV_ERR_CANCELLED,   /* the caller's cancel flag was raised */
    FV_ERR_INTERNAL,    /* a broken invariant of ours: please report it */
    FV_STATUS_COUNT
} fv_status;

/* Short lower-case name, e.g. "shape"; "unknown" for a value outside the enum. Never NULL. */
FV_API const char *fv_status_name(fv_status status);

#ifdef __cplusplus
}
#endif
#endif
