/*
 * fovea/optim.h: parameters, optimizers and learning-rate schedules.
 *
 *     fv_params *params = NULL;
 *     fv_status s = fv_params_create(ctx, &params);
 *     fv_tensor *w = fv_params_add(params, "w", fv_rand_normal(ctx, FV_F32, 2, shape, 0, 0.1));
 *
 *     fv_optim_config cfg;
 *     fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_ADAMW);
 *     cfg.clip_norm = 1.0;
 *     fv_optim *optim = NULL;
 *     s = fv_optim_create(params, &cfg, &optim);
 *     fv_schedule warm = {.kind = FV_SCHEDULE_INVERSE_SQRT, .lr = 1e-3, .warmup = 400};
 *     for (uint64_t step = 0; step < 1000 && s == FV_OK; step++) {
 *         fv_scope_begin(ctx);
 *         fv_ctx_set_step(ctx, step, 0);
 *         s = fv_backward(ctx, loss_of(ctx, w));
 *         if (s == FV_OK) s = fv_optim_step(optim, fv_schedule_at(&warm, step), NULL);
 *         fv_scope_end(ctx);
 *     }
 *     fv_optim_destroy(&optim);
 *     fv_params_destroy(&params);
 *
 * A step that fails changes no parameter: memory for the state is taken when the optimizer is
 * made, and an error of an earlier launch stops the updates on the device itself. (Unchecked steps
 * wait for nothing, so on a device that runs late such an error may show after them; they have then
 * changed nothing.)
 */
#ifndef FOVEA_OPTIM_H
#define FOVEA_OPTIM_H

#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters ------------------------------------------------------------------- */

/* A named set of leaves that live until it is destroyed. Names are unique. */
typedef struct fv_params fv_params;

FV_API FV_MUST_USE fv_status fv_params_create(fv_ctx *ctx, fv_params **out);
/*
 * A set to count with: its parameters have names and shapes, but one element of memory each, so
 * that a model of any size can be made in it and looked at.
 *
 *     fv_params *plan = NULL;
 *     fv_dense output;
 *     s = fv_params_create_plan(ctx, &plan);
 *     s = fv_dense_create(plan, "output", 16384, 128256, false, 0, &output);
 *     printf("%" PRId64 " parameters\n", fv_params_elements(plan));
 */
FV_API FV_MUST_USE fv_status fv_params_create_plan(fv_ctx *ctx, fv_params **out);
/* Destroy the set before its context. NULL is fine; *params becomes NULL. */
FV_API void fv_params_destroy(fv_params **params);

/*
 * Takes `initial` (real, contiguous, not the result of a recorded op) out of its scope into the
 * set as a leaf and returns it. Poisons on a name that is taken, empty or longer than 255 bytes,
 * and on a tensor that is in the set already: it would be stepped twice.
 */
FV_API fv_tensor *fv_params_add(fv_params *params, const char *name, fv_tensor *initial);

/* The same for what is not trained but belongs to the model or the run: running statistics,
 * counters, a replay buffer. Any dtype; gets no gradient, is saved and loaded with the set, and
 * optimizers leave it alone. */
FV_API fv_tensor *fv_params_add_buffer(fv_params *params, const char *name, fv_tensor *initial);
FV_API bool fv_params_is_buffer(const fv_params *params, int i);

/*
 * What a set holds, and a buffer among it:
 *
 *     fv_tensor *mean = fv_params_find(params, "norm.mean");
 *     if (!mean)
 *         mean = fv_params_add_buffer(params, "norm.mean", fv_zeros(ctx, FV_F32, 1, &width));
 *     for (int i = 0; i < fv_params_count(params); i++)
 *         printf("%-30s %8" PRId64 "%s\n", fv_params_name(params, i),
 *                fv_tensor_count(fv_params_tensor(params, i)),
 *                fv_params_is_buffer(params, i) ? "  buffer" : "");
 */
FV_API fv_ctx *fv_params_ctx(const fv_params *params);
FV_API int fv_params_count(const fv_params *params);
FV_API const char *fv_params_name(const fv_params *params, int i);
FV_API fv_tensor *fv_params_tensor(const fv_params *params, int i);
FV_API fv_tensor *fv_params_find(const fv_params *params, const char *name); /* NULL if absent */
FV_API int64_t fv_params_elements(const fv_params *params); /* buffers not counted */
FV_API void fv_params_zero_grad(fv_params *params);
/* Whether two sets, buffers included, have the same names, dtypes, shapes and bits. Waits for the
 * device. Fails: MEMORY, and what the device fails with. */
FV_API FV_MUST_USE fv_status fv_params_equal(const fv_params *a, const fv_params *b, bool *out);

/*
 * The Euclidean norm over all gradients (those that exist) of parameters whose names begin with
 * `group` (NULL: all), in double. Waits for the device.
 *
 *     double norm = 0;
 *     s = fv_params_grad_norm(params, "decoder.", &norm);
 *     if (norm > 100) fv_params_zero_grad(params);          // not a step to take
 */
FV_API FV_MUST_USE fv_status fv_params_grad_norm(const fv_params *params, const char *group,
                                                 double *out);

/* ---- optimizers ------------------------------------------------------------------- */

typedef enum fv_optim_kind {
    FV_OPTIM_SGD,   /* v = momentum v + g;  w -= lr v */
    FV_OPTIM_ADAM,  /* L2: g += wd w;  m, v averages, bias-corrected;  w -= lr m^/(sqrt(v^)+eps) */
    FV_OPTIM_ADAMW, /* decoupled: w -= lr wd w before */
    FV_OPTIM_RMSPROP,  /* v = alpha v + (1-alpha) g^2;  w -= lr g/(sqrt(v)+eps) */
    FV_OPTIM_ADADELTA, /* d = sqrt(u+eps)/sqrt(v+eps) g;  w -= lr d */
    FV_OPTIM_COUNT
} fv_optim_kind;

typedef struct fv_optim_config {
    size_t struct_size;
    fv_optim_kind kind;
    double momentum;      /* SGD, RMSProp [0] */
    bool nesterov;        /* SGD [false] */
    double beta1, beta2;  /* Adam, AdamW [0.9, 0.999] */
    double alpha;         /* RMSProp's average [0.99], Adadelta's rho [0.9] */
    double eps;           /* [1e-8; Adadelta 1e-6] */
    double weight_decay;  /* [0; AdamW 0.01] */
    bool decay_matrices;  /* weight decay leaves parameters of rank below 2 alone [false] */
    double clip_norm;     /* gradients longer than this are scaled down to it; 0: never [0] */
    bool unchecked;       /* do not look for non-finite gradients; no clipping then [false] */
    int max_skipped;      /* steps skipped in a row before fv_optim_step fails [10]; 0: never */
    const char *group;    /* only parameters whose names begin with this; NULL: all [NULL] */
    uint64_t reserved[4]; /* zero; new settings take their place here (docs/architecture.md) */
} fv_optim_config;

/* The defaults above (those of PyTorch) for one kind. */
FV_API void fv_optim_config_init(fv_optim_config *cfg, size_t struct_size, fv_optim_kind kind);

typedef struct fv_optim fv_optim;

/* The set must not grow afterwards and must outlive the optimizer. */
FV_API FV_MUST_USE fv_status fv_optim_create(fv_params *params, const fv_optim_config *cfg,
                                             fv_optim **out);
FV_API void fv_optim_destroy(fv_optim **optim); /* NULL is fine */

typedef struct fv_step_report {
    double grad_norm; /* before clipping; NaN when unchecked */
    bool clipped;
    bool skipped; /* a gradient was not finite: nothing was changed */
    uint64_t skipped_total;
} fv_step_report;

/*
 * One update of every parameter of the group that has a gradient, then all gradients are dropped.
 * Steps are counted for all parameters together: Adam corrects the averages of one that had no
 * gradient for a while as if it had had (PyTorch counts for each alone). A step whose gradients are
 * not all finite is skipped and counted; max_skipped in a row is FV_ERR_NONFINITE. report may be
 * NULL. Waits for the device once, unless unchecked; the trainer of fovea/train.h learns what
 * became of a step while the next one is computed.
 */
FV_API FV_MUST_USE fv_status fv_optim_step(fv_optim *optim, double lr, fv_step_report *report);

/*
 * State for checkpoints: tensors named "<parameter>.<what>" and the number of steps done. The
 * trainer of fovea/train.h saves it; by hand:
 *
 *     enum { MOST = 100 };
 *     char name[MOST][300];
 *     const char *names[MOST];
 *     fv_tensor *state[MOST];
 *     const int count = fv_optim_state_count(optim);        // here at most MOST
 *     for (int i = 0; i < count; i++) {
 *         state[i] = fv_optim_state(optim, i, name[i]);
 *         names[i] = name[i];
 *     }
 *     char steps[24];
 *     snprintf(steps, sizeof steps, "%" PRIu64, fv_optim_steps(optim));
 *     s = fv_safetensors_save(ctx, names, state, (size_t)count,
 *                             &(fv_file_metadata){"steps", steps}, 1, "optim.safetensors");
 *
 * And back, after fv_tensor_write of each tensor:
 *
 *     const char *done = fv_safetensors_metadata_find(file, "steps");
 *     if (done) fv_optim_set_steps(optim, strtoull(done, NULL, 10));
 */
FV_API int fv_optim_state_count(const fv_optim *optim);
FV_API fv_tensor *fv_optim_state(const fv_optim *optim, int i, char name[300]);
FV_API uint64_t fv_optim_steps(const fv_optim *optim);
FV_API void fv_optim_set_steps(fv_optim *optim, uint64_t steps);

/* ---- schedules -------------------------------------------------------------------- */

typedef enum fv_schedule_kind {
    FV_SCHEDULE_CONSTANT,
    FV_SCHEDULE_STEP,         /* lr gamma^(t / every) */
    FV_SCHEDULE_LINEAR,       /* lr down to floor at `total` */
    FV_SCHEDULE_COSINE,       /* likewise along half a cosine */
    FV_SCHEDULE_INVERSE_SQRT, /* lr sqrt(warmup / t) after the warm-up */
    FV_SCHEDULE_COUNT
} fv_schedule_kind;

/* The first `warmup` steps rise linearly: step t (from 0) has lr (t+1)/warmup; t then counts on
 * from the end of the warm-up, except for the inverse square root, which is continuous in t. */
typedef struct fv_schedule {
    fv_schedule_kind kind;
    double lr;
    uint64_t warmup;
    uint64_t total; /* linear, cosine: steps in all, warm-up included */
    double floor;   /* linear, cosine: the last rate */
    uint64_t every; /* step */
    double gamma;   /* step */
} fv_schedule;

FV_API double fv_schedule_at(const fv_schedule *schedule, uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
