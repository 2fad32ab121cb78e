/* The table of media sets, and what their kinds share. */
#include "data/media.h"

#include <stdio.h>
#include <string.h>

#include "fovea/audio.h"
#include "fovea/image.h"
#include "fovea/tensor.h"
#include "io/sha256.h"

#define FV_MEDIA(name) extern const fv_media_kind fv_media_##name;
#include "data/media.def"

static const fv_media_kind *const kinds[] = {
#define FV_MEDIA(name) &fv_media_##name,
#include "data/media.def"
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct fv_media {
    fv_ctx *ctx;
    const fv_media_kind *kind;
    void *self;
    fv_media_facts facts;
};

const fv_media_kind *fv_media_kind_at(size_t i) { return i < KINDS ? kinds[i] : NULL; }

const fv_media_kind *fv_media_kind_find(const char *name)
{
    for (size_t i = 0; name && i < KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

const char *fv_media_part_name(fv_media_part part)
{
    static const char *const names[FV_MEDIA_PARTS] = {"train", "valid", "test"};
    return (unsigned)part < FV_MEDIA_PARTS ? names[part] : "";
}

int fv_media_variant(const fv_media_config *cfg, const char *variants)
{
    if (!cfg->variant || !*cfg->variant) return 0;
    const size_t wanted = strlen(cfg->variant);
    int i = 0;
    for (const char *p = variants; p; i++) {
        const size_t length = strcspn(p, "|");
        if (length == wanted && memcmp(p, cfg->variant, length) == 0) return i;
        p = p[length] ? p + length + 1 : NULL;
    }
    return -1;
}

/* ---- sets ----------------------------------------------------------------------------------- */

static fv_status refuse_name(fv_ctx *ctx, const char *name)
{
    char list[256] = "";
    for (size_t i = 0, used = 0; i < KINDS && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 kinds[i]->name);
    return fv_fail(ctx, FV_ERR_ARGUMENT, "there is no media set '%.60s', expected one of: %s",
                   name ? name : "", list);
}

fv_status fv_media_open(fv_ctx *ctx, const fv_media_config *cfg, fv_media **out)
{
    const fv_media_kind *kind = fv_media_kind_find(cfg->name);
    if (!kind) return refuse_name(ctx, cfg->name);
    FV_RETURN_IF(fv_media_variant(cfg, kind->variants) < 0, ctx, FV_ERR_ARGUMENT,
                 "media set %s has no variant '%.60s', expected %s", kind->name, cfg->variant,
                 kind->variants ? kind->variants : "none");
    fv_media *set = fv_mem_zalloc(&ctx->mem, sizeof *set);
    FV_RETURN_IF(!set, ctx, FV_ERR_MEMORY, "no memory for media set %s", kind->name);
    set->ctx = ctx;
    set->kind = kind;
    const fv_status status = kind->open(ctx, cfg, &set->facts, &set->self);
    if (status == FV_OK)
        *out = set;
    else
        fv_media_close(&set);
    return status;
}

void fv_media_close(fv_media **set)
{
    fv_media *s = *set;
    if (!s) return;
    if (s->self) s->kind->close(s->self);
    fv_mem_free(&s->ctx->mem, s, sizeof *s);
    *set = NULL;
}

const fv_media_facts *fv_media_facts_of(const fv_media *set) { return &set->facts; }

/* Checks an example's number and clears *out for the kind. */
static fv_status begin_example(const fv_media *set, fv_media_part part, int64_t number,
                               fv_media_example *out)
{
    FV_RETURN_IF((unsigned)part >= FV_MEDIA_PARTS || number < 0 || number >= set->facts.count[part],
                 set->ctx, FV_ERR_ARGUMENT, "media set %s: there is no example %lld of %lld",
                 set->kind->name, (long long)number,
                 (unsigned)part < FV_MEDIA_PARTS ? (long long)set->facts.count[part] : 0);
    *out = (fv_media_example){.length = 1, .label = -1, .picture = number};
    return FV_OK;
}

fv_status fv_media_get(fv_media *set, fv_media_part part, int64_t number, const fv_media_draw *draw,
                       fv_media_example *out)
{
    FV_TRY(begin_example(set, part, number, out));
    return set->kind->get(set->self, part, number, draw, out);
}

fv_status fv_media_text(fv_media *set, fv_media_part part, int64_t number, fv_media_example *out)
{
    FV_TRY(begin_example(set, part, number, out));
    return set->kind->text ? set->kind->text(set->self, part, number, out) : FV_OK;
}

/* ---- for kinds ------------------------------------------------------------------------------ */

fv_status fv_media_set_counts(fv_ctx *ctx, const fv_media_config *cfg,
                              const int64_t available[FV_MEDIA_PARTS], fv_media_facts *facts)
{
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++) {
        const int64_t asked = cfg->count[part];
        FV_RETURN_IF(asked < 0 || asked > available[part] || available[part] < 1, ctx,
                     FV_ERR_ARGUMENT, "media set %s: %lld examples for %s, of %lld that there are",
                     cfg->name, (long long)asked, fv_media_part_name(part),
                     (long long)available[part]);
        facts->count[part] = asked ? asked : available[part];
    }
    return FV_OK;
}

fv_status fv_media_choose_counts(fv_ctx *ctx, const fv_media_config *cfg,
                                 const int64_t usual[FV_MEDIA_PARTS], fv_media_facts *facts)
{
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++) {
        const int64_t asked = cfg->count[part];
        FV_RETURN_IF(asked < 0, ctx, FV_ERR_ARGUMENT, "media set %s: %lld examples", cfg->name,
                     (long long)asked);
        facts->count[part] = asked ? asked : usual[part];
    }
    return FV_OK;
}

uint64_t fv_media_hash(const char *name)
{
    fv_sha256 sum;
    unsigned char digest[FV_SHA256_BYTES];
    uint64_t h = 0;
    fv_sha256_init(&sum);
    fv_sha256_add(&sum, name, strlen(name));
    fv_sha256_end(&sum, digest);
    for (int i = 0; i < 8; i++)
        h = h << 8 | digest[i];
    return h;
}

fv_media_part fv_media_part_of_name(const char *name)
{
    enum { SHARES = 20, VALID_SHARES = 2, TEST_SHARES = 4 };
    const uint64_t h = fv_media_hash(name) % SHARES;
    return h < VALID_SHARES ? FV_MEDIA_VALID : h < TEST_SHARES ? FV_MEDIA_TEST : FV_MEDIA_TRAIN;
}

fv_status fv_media_augment(fv_ctx *ctx, const fv_augment *how, const fv_media_draw *draw,
                           const int64_t shape[3], float *values)
{
    if (!draw) return FV_OK;
    const uint64_t seed = ctx->seed, step = ctx->step;
    ctx->seed = draw->seed;
    ctx->step = draw->step;
    fv_scope_begin(ctx);
    fv_tensor *x = fv_from_host(ctx, FV_F32, 3, shape, values);
    x = fv_picture_augment(ctx, x, how, draw->row);
    x = fv_picture_resize(ctx, x, shape[1], shape[2]);
    const size_t bytes = (size_t)(shape[0] * shape[1] * shape[2]) * sizeof *values;
    const fv_status status = fv_tensor_read(ctx, x, values, bytes);
    fv_scope_end(ctx);
    ctx->seed = seed;
    ctx->step = step;
    return status;
}

fv_status fv_media_hide_bands(fv_ctx *ctx, const fv_media_draw *draw, int64_t frames, int64_t width,
                              float *values)
{
    if (!draw) return FV_OK;
    const uint64_t seed = ctx->seed, step = ctx->step, offset = ctx->row_offset;
    fv_spec_augment_config cfg;
    fv_spec_augment_config_init(&cfg, sizeof cfg);
    cfg.time_width = 10;
    cfg.time_part = 0.2;
    cfg.frequency_width = 6;
    ctx->seed = draw->seed;
    ctx->step = draw->step;
    ctx->row_offset = draw->row;
    const fv_status status = fv_spec_augment(ctx, &cfg, 0, frames, width, values);
    ctx->seed = seed;
    ctx->step = step;
    ctx->row_offset = offset;
    return status;
}
