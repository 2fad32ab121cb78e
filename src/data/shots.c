/* Sets of characters for few-shot learning: opening and closing. */
#include "fovea/shots.h"

#include <string.h>

#include "base/checked_math.h"
#include "data/shots.h"

static size_t ink_bytes(const fv_shots *s)
{
    return (size_t)(s->characters * s->drawings) * FV_SHOTS_PIXELS;
}

static size_t run_bytes(const fv_shots *s)
{
    return (size_t)s->runs * (2 * FV_SHOTS_RUN_WAYS) * FV_SHOTS_PIXELS;
}

fv_status fv_shots_room(fv_shots *s)
{
    fv_mem *mem = &s->ctx->mem;
    s->character = fv_mem_zalloc(mem, (size_t)s->characters * sizeof *s->character);
    s->ink = fv_mem_zalloc(mem, ink_bytes(s));
    s->run_ink = fv_mem_zalloc(mem, run_bytes(s));
    s->run_answer = fv_mem_zalloc(mem, (size_t)s->runs * FV_SHOTS_RUN_WAYS);
    FV_RETURN_IF(!s->character || !s->ink || !s->run_ink || !s->run_answer, s->ctx, FV_ERR_MEMORY,
                 "no memory for %lld characters", (long long)s->characters);
    return FV_OK;
}

static fv_status fill(fv_shots *s, const fv_shots_config *cfg)
{
    const char *source = cfg->source ? cfg->source : "drawn";
    if (strcmp(source, "drawn") == 0) return fv_shots_draw_all(s, cfg->seed);
    FV_RETURN_IF(strcmp(source, "omniglot") != 0, s->ctx, FV_ERR_ARGUMENT,
                 "there are no characters '%.60s', expected drawn or omniglot", source);
    FV_RETURN_IF(!cfg->folder || !*cfg->folder, s->ctx, FV_ERR_ARGUMENT,
                 "the characters of Omniglot need the folder with its files");
    FV_RETURN_IF(cfg->subset < 0 || cfg->subset > 2, s->ctx, FV_ERR_ARGUMENT,
                 "subset %lld of Omniglot's background, expected 0, 1 or 2",
                 (long long)cfg->subset);
    return fv_shots_read_omniglot(s, cfg->folder, cfg->subset);
}

fv_status fv_shots_open(fv_ctx *ctx, const fv_shots_config *cfg, fv_shots **out)
{
    fv_shots *s = fv_mem_zalloc(&ctx->mem, sizeof *s);
    FV_RETURN_IF(!s, ctx, FV_ERR_MEMORY, "no memory for a set of characters");
    s->ctx = ctx;
    const fv_status status = fill(s, cfg);
    if (status == FV_OK)
        *out = s;
    else
        fv_shots_close(&s);
    return status;
}

void fv_shots_close(fv_shots **shots)
{
    fv_shots *s = *shots;
    if (!s) return;
    fv_mem *mem = &s->ctx->mem;
    if (s->character) fv_mem_free(mem, s->character, (size_t)s->characters * sizeof *s->character);
    if (s->ink) fv_mem_free(mem, s->ink, ink_bytes(s));
    if (s->run_ink) fv_mem_free(mem, s->run_ink, run_bytes(s));
    if (s->run_answer) fv_mem_free(mem, s->run_answer, (size_t)s->runs * FV_SHOTS_RUN_WAYS);
    fv_mem_free(mem, s, sizeof *s);
    *shots = NULL;
}

fv_shots_facts fv_shots_facts_of(const fv_shots *s)
{
    fv_shots_facts facts = {.drawings = s->drawings, .runs = s->runs};
    for (int64_t i = 0; i < s->characters; i++)
        facts.characters[s->character[i].part]++;
    return facts;
}
