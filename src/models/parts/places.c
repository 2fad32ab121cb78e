#include "models/parts/places.h"

#include <stdio.h>

static bool has_rows(fv_seq2seq_positions kind)
{
    return kind == FV_SEQ2SEQ_POSITIONS_SINUSOID || kind == FV_SEQ2SEQ_POSITIONS_LEARNED;
}

fv_status fv_places_create(fv_params *params, const char *prefix, const fv_seq2seq_config *c,
                           fv_places *out)
{
    fv_places made = {.kind = c->positions, .how = c->positions_how, .width = c->embedding};
    char name[64];
    FV_RETURN_IF(
        c->positions < FV_SEQ2SEQ_POSITIONS_NONE || c->positions > FV_SEQ2SEQ_POSITIONS_RELATIVE ||
            (c->positions_how != FV_POSITIONS_ADD && c->positions_how != FV_POSITIONS_CONCAT),
        fv_params_ctx(params), FV_ERR_ARGUMENT, "seq2seq: no such positions");
    if (c->positions == FV_SEQ2SEQ_POSITIONS_LEARNED) {
        snprintf(name, sizeof name, "%s.positions", prefix);
        FV_TRY(
            fv_embedding_create(params, name, c->most_positions, c->embedding, 0.1, &made.table));
    }
    *out = made;
    return FV_OK;
}

fv_tensor *fv_places_rows(fv_ctx *ctx, const fv_places *p, int64_t first, int64_t n)
{
    if (!has_rows(p->kind)) return NULL;
    return p->table ? fv_positions_learned(ctx, p->table, first, n)
                    : fv_sinusoid(ctx, FV_F32, first, n, p->width, 10000, FV_SINUSOID_INTERLEAVED);
}

int64_t fv_places_width(const fv_seq2seq_config *c)
{
    return c->embedding *
           (has_rows(c->positions) && c->positions_how == FV_POSITIONS_CONCAT ? 2 : 1);
}
