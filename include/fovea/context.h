/*
 * fovea/context.h: the context owns everything that is not a tensor: device,
 * threads, random numbers, log sink, allocator, I/O table, limits and the error.
 *
 *     fv_ctx_config cfg;
 *     fv_ctx_config_init(&cfg, sizeof cfg);
 *     cfg.threads = 2;
 *     cfg.seed = 42;
 *     fv_ctx *ctx = NULL;
 *     if (fv_ctx_create(&cfg, &ctx) != FV_OK) return 1;
 *
 *     fv_tensor *a = fv_zeros(ctx, FV_F32, 2, (int64_t[]){3, 4});
 *     fv_tensor *b = fv_exp(ctx, a);
 *     float out[12];
 *     if (fv_tensor_read(ctx, b, out, sizeof out) != FV_OK)
 *         fprintf(stderr, "%s\n", fv_ctx_message(ctx));
 *     fv_ctx_destroy(&ctx);
 *
 * Threads: one context is used by one thread at a time. Several contexts may
 * share one fv_pool. The library keeps no mutable global state.
 * fork(): a child must not use a context made by its parent.
 */
#ifndef FOVEA_CONTEXT_H
#define FOVEA_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== status ======================================================================== */

/*
 * status: how a call says that it failed.
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
    FV_ERR_MEMORY,      /* an allocation failed, or the context's memory limit is reached */
    FV_ERR_LIMIT,       /* input larger than fv_limits allows */
    FV_ERR_IO,          /* a call of the operating system failed */
    FV_ERR_FORMAT,      /* a file or text that breaks its format */
    FV_ERR_UNSUPPORTED, /* known, but this build or device does not have it */
    FV_ERR_NONFINITE,   /* a loss or gradient that is not finite */
    FV_ERR_CANCELLED,   /* the caller's cancel flag was raised */
    FV_ERR_INTERNAL,    /* a broken invariant of ours: please report it */
    FV_STATUS_COUNT
} fv_status;

/* Short lower-case name, e.g. "shape"; "unknown" for a value outside the enum. Never NULL. */
FV_API const char *fv_status_name(fv_status status);

typedef struct fv_ctx fv_ctx;
typedef struct fv_pool fv_pool;

/* ---- allocator ------------------------------------------------------------------ */

/*
 * Memory for everything the library makes. alloc returns `size` bytes aligned to
 * `align` (a power of two, at least 64) or NULL; free gets the same size back.
 * Both may be called from the thread that uses the context only.
 */
typedef struct fv_allocator {
    void *user;
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *ptr, size_t size);
} fv_allocator;

/* ---- files ---------------------------------------------------------------------- */

typedef enum fv_io_mode {
    FV_IO_READ,      /* an existing regular file, O_CLOEXEC; anything else is -EINVAL */
    FV_IO_CREATE,    /* a new file for writing, O_EXCL */
    FV_IO_APPEND,    /* a file for writing behind what it holds; made if it is not there */
    FV_IO_DIRECTORY, /* a directory, to be synced */
    FV_IO_THROUGH    /* a device, FIFO or open descriptor for writing; offsets are ignored */
} fv_io_mode;

/*
 * Every file access of the library goes through this table, so that a host can
 * serve files from elsewhere and tests can fail any call. Each call returns a
 * value >= 0, or -errno. read and write may be short; the library loops.
 */
typedef struct fv_io {
    void *user;
    int64_t (*open)(void *user, const char *path, fv_io_mode mode); /* a handle >= 0 */
    int64_t (*size)(void *user, int64_t file);
    int64_t (*read)(void *user, int64_t file, void *buf, size_t n, uint64_t offset);
    int64_t (*write)(void *user, int64_t file, const void *buf, size_t n, uint64_t offset);
    int64_t (*reserve)(void *user, int64_t file, uint64_t bytes); /* preallocate; may do nothing */
    int64_t (*sync)(void *user, int64_t file);
    int64_t (*close)(void *user, int64_t file);
    int64_t (*rename)(void *user, const char *from, const char *to);
    int64_t (*remove)(void *user, const char *path);
    int64_t (*map)(void *user, int64_t file, size_t n, void **addr); /* read only, private */
    int64_t (*unmap)(void *user, void *addr, size_t n);
    /*
     * Writes to `out` the path to write for `path`, with symbolic links followed. Returns 0 for a
     * regular file or where there is none yet, 1 for what is opened with FV_IO_THROUGH. NULL: the
     * path itself, always a regular file.
     */
    int64_t (*resolve)(void *user, const char *path, char *out, size_t room);
} fv_io;

/*
 * The operating system's files. A program that changes one call keeps the others:
 *
 *     static int64_t keep_file(void *user, const char *path) {
 *         (void)user;
 *         fprintf(stderr, "%s stays\n", path);
 *         return 0;
 *     }
 *     fv_ctx_config cfg;
 *     fv_ctx_config_init(&cfg, sizeof cfg);
 *     fv_io_system(&cfg.io);
 *     cfg.io.remove = keep_file;
 */
FV_API void fv_io_system(fv_io *io);

/* ---- limits --------------------------------------------------------------------- */

/* What a loader may be asked to hold. Zero in a field means the default in brackets. */
typedef struct fv_limits {
    size_t struct_size;
    uint64_t header_bytes; /* a file's header [16 MiB] */
    uint64_t tensors;      /* tensors in a file [65,536] */
    uint64_t name_bytes;   /* a tensor's name [256] */
    uint64_t string_bytes; /* any other string [1 MiB] */
    uint64_t json_depth;   /* nesting of JSON and TOML values [64] */
    uint64_t text_bytes;   /* a whole JSON or TOML text [64 MiB] */
    uint64_t total_bytes;  /* a whole file's data, decompressed [1 TiB] */
    uint64_t line_bytes;   /* a line of a text file [16 MiB] */
    uint64_t vocabulary;   /* tokens of a tokenizer [1,048,576] */
    /* A tokenizer file is not trusted: what it may make of a text, and in how many steps. Each has
     * 65,536 bytes and steps more than this, for short texts. */
    uint64_t text_growth;        /* bytes or tokens made of a byte of text [16] */
    uint64_t text_steps;         /* steps taken for a byte of text [256] */
    uint64_t decoded_bytes;      /* bytes of text that a token decodes to, on average [1,024] */
    uint64_t decompressed_ratio; /* of the bytes of a compressed file, beyond 1 MiB [1,040] */
    uint64_t picture_pixels;     /* pixels of a picture [64,000,000] */
    /* Seconds of a recording [600]. A second counts 384,000 samples of all channels at most, so
     * that many channels at a high rate reach the limit earlier. */
    uint64_t audio_seconds;
    uint64_t reserved[1]; /* zero; new limits take their place here (docs/architecture.md) */
} fv_limits;

/*
 * Fills `limits` with the defaults above. A program that opens files of strangers sets lower ones:
 *
 *     fv_limits strict;
 *     fv_limits_init(&strict, sizeof strict);
 *     strict.total_bytes = (uint64_t)1 << 30;
 *     fv_ctx_config cfg;
 *     fv_ctx_config_init(&cfg, sizeof cfg);
 *     cfg.limits = strict;
 */
FV_API void fv_limits_init(fv_limits *limits, size_t struct_size);

/* ---- log ------------------------------------------------------------------------ */

typedef enum fv_log_level { FV_LOG_ERROR, FV_LOG_WARN, FV_LOG_INFO, FV_LOG_DEBUG } fv_log_level;

/* `text` has no newline and lives for the call only. */
typedef void (*fv_log_fn)(void *user, fv_log_level level, const char *text);

/* ---- configuration -------------------------------------------------------------- */

typedef enum fv_device_kind {
    FV_DEVICE_CPU,
    FV_DEVICE_GUARDED, /* the CPU behind a GPU-like wall: unreadable pointers, late launches */
    FV_DEVICE_CUDA,    /* an NVIDIA GPU; no build has it yet */
} fv_device_kind;

/*
 * Names of devices, and which of them a context can be made for:
 *
 *     const char *why = fv_device_absence(FV_DEVICE_CUDA);
 *     if (why) printf("%s: %s\n", fv_device_name(FV_DEVICE_CUDA), why);
 *
 * fv_device_name returns "cpu", "guarded", "cuda", or NULL for any other number.
 * fv_device_absence returns NULL if the device is here, else the reason why it is not.
 */
FV_API const char *fv_device_name(fv_device_kind kind);
FV_API const char *fv_device_absence(fv_device_kind kind);

/* Kernel levels, each needing the ones before it; every architecture numbers its own from SCALAR
 * on. AUTO picks the best the CPU and OS allow. */
typedef enum fv_simd {
    FV_SIMD_AUTO = 0,
    FV_SIMD_SCALAR,
    FV_SIMD_AVX2,   /* x86-64: AVX2 + FMA + F16C */
    FV_SIMD_AVX512, /* x86-64: F, DQ, BW, VL */
    FV_SIMD_AMX, /* x86-64: AVX-512, and tiles (AMX-BF16) for products and attention of bf16, which
                    have other bits there; the CPU has this level once the process has permission
                    (request_amx) */
    FV_SIMD_NEON = FV_SIMD_AVX2, /* aarch64, where every CPU has it */
} fv_simd;

typedef struct fv_ctx_config {
    size_t struct_size;
    fv_device_kind device;
    int threads;   /* 0: the CPUs this process may run on, at most 64 */
    fv_pool *pool; /* shared pool, not owned; overrides `threads` */
    fv_simd simd;  /* force a level; more than the CPU has is FV_ERR_UNSUPPORTED */
    uint64_t seed;
    uint64_t memory_limit;  /* byte cap over all memory of the context; 0: none */
    bool memory_uncached;   /* give every block back at once (fault tests, leak hunts) */
    fv_allocator allocator; /* alloc == NULL: aligned malloc */
    fv_io io;               /* open == NULL: fv_io_system */
    fv_limits limits;
    fv_log_fn log; /* NULL: silent */
    void *log_user;
    fv_log_level log_level;
    const volatile int *cancel; /* polled between ops; non-zero: they fail with FV_ERR_CANCELLED */
    /* Requests the permission of Linux to use AMX (FV_SIMD_AMX) [false]. The permission holds for
     * the whole process until it ends: signal frames grow by 8 KiB, and products and attention of
     * bf16 without a context use AMX too. If the request fails or the CPU has no AMX, the level is
     * avx512; that is no error. */
    bool request_amx;
} fv_ctx_config;

FV_API void fv_ctx_config_init(fv_ctx_config *cfg, size_t struct_size);

/*
 * Makes a context. cfg may be NULL for the defaults. *out is untouched on failure.
 * Fails: ARGUMENT (bad config), MEMORY, UNSUPPORTED (level or device not here; the log gets the
 * reason of fv_device_absence).
 */
FV_API FV_MUST_USE fv_status fv_ctx_create(const fv_ctx_config *cfg, fv_ctx **out);

/* Frees the context, all its scopes and tensors, and sets *ctx to NULL. NULL is fine. */
FV_API void fv_ctx_destroy(fv_ctx **ctx);

/* ---- errors --------------------------------------------------------------------- */

/* The sticky error of the tensor ops: FV_OK while all went well. */
FV_API fv_status fv_ctx_error(const fv_ctx *ctx);

/* Text of the sticky error, else of the last failed call; "" if there was none. At most 255 bytes.
 */
FV_API const char *fv_ctx_message(const fv_ctx *ctx);

/*
 * Returns the sticky error and clears it: ops work again. The message stays readable.
 *
 *     fv_tensor *product = fv_matmul(ctx, q, v);        // fails where the shapes do not fit
 *     if (!fv_tensor_valid(product) && fv_ctx_take_error(ctx) == FV_ERR_SHAPE)
 *         product = fv_matmul(ctx, q, fv_transpose(ctx, v, -1, -2));
 */
FV_API fv_status fv_ctx_take_error(fv_ctx *ctx);

/* For functions that a program hands to the library (model kinds, tasks): sets the message, unless
 * a sticky error has set one, and returns `status`. */
FV_API fv_status fv_ctx_fail(fv_ctx *ctx, fv_status status, const char *fmt, ...) FV_PRINTF(3, 4);

/* ---- facts ---------------------------------------------------------------------- */

/*
 * What a context runs on, and what memory it holds:
 *
 *     printf("%d threads, %s kernels\n", fv_ctx_threads(ctx), fv_simd_name(fv_ctx_simd(ctx)));
 *     if (fv_ctx_simd(ctx) < fv_simd_detect()) puts("this CPU could do better");
 *     if (fv_ctx_device(ctx) != FV_DEVICE_CPU) puts("fv_tensor_data returns NULL");
 *     fv_ctx_memory_trim(ctx);
 *     fv_memory_stats memory;
 *     fv_ctx_memory(ctx, &memory);
 *     printf("%" PRIu64 " bytes held, %" PRIu64 " in use at most\n", memory.held_bytes,
 *            memory.peak_bytes);
 */
FV_API int fv_ctx_threads(const fv_ctx *ctx);
FV_API fv_simd fv_ctx_simd(const fv_ctx *ctx);
FV_API fv_device_kind fv_ctx_device(const fv_ctx *ctx);
FV_API const char *fv_simd_name(fv_simd level); /* "scalar", "avx2", "avx512" */

/* The best level of this CPU under this operating system. */
FV_API fv_simd fv_simd_detect(void);

typedef struct fv_memory_stats {
    uint64_t held_bytes; /* taken from the allocator and not given back */
    uint64_t used_bytes; /* of these, in use now */
    uint64_t peak_bytes; /* largest used_bytes since the last reset */
} fv_memory_stats;

FV_API void fv_ctx_memory(const fv_ctx *ctx, fv_memory_stats *out);
FV_API void fv_ctx_memory_reset_peak(fv_ctx *ctx);
/* Gives cached free blocks back to the allocator. */
FV_API void fv_ctx_memory_trim(fv_ctx *ctx);

/* ---- random numbers ------------------------------------------------------------- */

/*
 * Random ops draw from (seed, step, site, row, column), never from a running
 * stream. `step` is the training step; the site counts random ops since the last
 * call of this function; `row_offset` is the global number of this process's
 * first batch row, so that a split batch draws what the whole batch would.
 */
FV_API void fv_ctx_set_step(fv_ctx *ctx, uint64_t step, uint64_t row_offset);
/* The seed of all draws from now on, in place of the configuration's: a program that learns its
 * seed from a file needs the context to read it. */
FV_API void fv_ctx_set_seed(fv_ctx *ctx, uint64_t seed);

/* ---- thread pool ---------------------------------------------------------------- */

/* A pool that several contexts may share (their calls queue up). threads 0: all CPUs. */
FV_API FV_MUST_USE fv_status fv_pool_create(int threads, fv_pool **out);
/* No context may use the pool any more. NULL is fine; *pool becomes NULL. */
FV_API void fv_pool_destroy(fv_pool **pool);

/* ==== info ========================================================================== */

/*
 * info: information about this build and the CPU it runs on.
 *
 *     fv_cpu_info cpu = {.struct_size = sizeof cpu};
 *     fv_cpu_info_get(&cpu);
 *     printf("libfovea %s on %s, kernels: %s\n", fv_version(), cpu.name, fv_simd_name(cpu.best));
 *
 *     fv_feature f = {.struct_size = sizeof f};
 *     for (int i = 0; fv_feature_get(i, &f); i++)
 *         printf("%s: %s\n", f.name, f.present ? f.description : "not built in");
 *
 *     fv_library lib = {.struct_size = sizeof lib};
 *     for (int i = 0; fv_library_get(i, &lib); i++)
 *         printf("%s, for %s: %s\n", lib.name, lib.purpose, lib.found ? lib.path : "not found");
 *
 * None of these calls needs a context, and all may be called from any thread. Each struct begins
 * with its size, set by the caller, so that fields unknown to an older caller are not written.
 */

/* Version of the linked library, "major.minor.patch". Never NULL. */
FV_API const char *fv_version(void);

typedef struct fv_build_info {
    size_t struct_size;
    const char *version;
    const char *type;      /* "release" or "debug" */
    const char *compiler;  /* e.g. "gcc 12.2.0" */
    const char *target;    /* e.g. "x86_64 linux" */
    const char *sanitizer; /* "address", "thread", or "" */
} fv_build_info;

/* The strings are constants. */
FV_API void fv_build_info_get(fv_build_info *out);

/* CPU features, and the register state that the operating system saves on a context switch. */
typedef struct fv_cpu_info {
    size_t struct_size;
    char name[64];
    fv_simd best; /* the level that FV_SIMD_AUTO selects */
    int cpus;     /* CPUs this process may run on */
    bool avx2, fma, f16c;
    bool avx512f, avx512dq, avx512bw, avx512vl, avx512_bf16, avx512_vnni;
    bool os_ymm, os_zmm;                    /* the OS saves these registers */
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* per core, per core, shared; 0: unknown */
    bool amx_tile, amx_bf16, amx_int8;
    bool os_tiles;        /* the OS can save these registers */
    bool tiles_permitted; /* to this process: see fv_ctx_config.request_amx */
} fv_cpu_info;

FV_API void fv_cpu_info_get(fv_cpu_info *out);

/* An optional part of the library. */
typedef struct fv_feature {
    size_t struct_size;
    const char *name;
    const char *description; /* what it is for, one line */
    bool present;
} fv_feature;

/* Fills `out` with feature number `index`, from 0. Returns false past the last one. */
FV_API bool fv_feature_get(int index, fv_feature *out);

/* A library that is loaded by the first call that needs it. */
typedef struct fv_library {
    size_t struct_size;
    const char *name;    /* e.g. "libpng" */
    const char *purpose; /* e.g. "PNG files" */
    const char *file;    /* what is loaded, e.g. "libpng16.so.16" */
    const char *package; /* Debian's, e.g. "libpng16-16" */
    bool used;           /* false: this build cannot use it */
    bool found;          /* it can be loaded: the call loads it */
    char path[256];      /* where it was found; "" if unknown */
} fv_library;

/* Fills `out` with library number `index`, from 0. Returns false past the last one. */
FV_API bool fv_library_get(int index, fv_library *out);

#ifdef __cplusplus
}
#endif
#endif
