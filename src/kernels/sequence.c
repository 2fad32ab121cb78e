/*
 * The walks of sequence.h: who does what when, for every level. The steps themselves are in
 * ref/sequence.c and simd/sequence.c.
 */
#include "kernels/sequence.h"

#include "base/check.h"

/* Multiply-adds of a step that are worth another member, which costs a hand-over a step. */
static const double WORK_PER_MEMBER = 12e3;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t groups_of(const fv_seqwalk *w) { return fv_seqwalk_units(w) / FV_LANES; }

/* The units of a member. */
typedef struct share {
    int64_t begin, end;
} share;

static share share_of(const fv_seqwalk *w, const fv_team *team, int member)
{
    const int64_t groups = groups_of(w), members = fv_team_size(team);
    return (share){groups * member / members * FV_LANES,
                   smaller(groups * (member + 1) / members * FV_LANES, w->args->hidden)};
}

static int64_t team_size(const fv_seqwalk *w)
{
    const double work = (double)w->args->batch * (double)w->args->hidden * (double)w->args->hidden *
                        w->level->gates;
    const int64_t most = smaller(groups_of(w), FV_TEAM_MOST);
    return work < WORK_PER_MEMBER * (double)most ? (int64_t)(work / WORK_PER_MEMBER) : most;
}

/* A member on its way. */
typedef struct walker {
    const fv_seqwalk *w;
    fv_team *team;
    int member;
    share own;
    int64_t length;      /* of the chains */
    int64_t panel;       /* units that are multiplied together */
    int64_t waiting_for; /* steps that the others must have done; 0: nothing to wait for */
    _Alignas(64) double sums[FV_SEQWALK_UNITS / FV_SEQWALK_AHEAD * FV_SEQWALK_SUMS];
} walker;

static int64_t patches_of(const walker *me)
{
    return divide_up(me->own.end - me->own.begin, FV_SEQWALK_UNITS);
}

/* Block i of the member's units, all rows. */
static fv_patch patch_of(const walker *me, int64_t step, int64_t i)
{
    const int64_t unit = me->own.begin + i * FV_SEQWALK_UNITS;
    return (fv_patch){.step = step,
                      .rows = me->w->args->batch,
                      .unit = unit,
                      .units = smaller(FV_SEQWALK_UNITS, me->own.end - unit)};
}

/* All of a panel's chains. The first time in a step, each part waits for the member that writes it:
 * what the others write comes late, but often not later than the multiplication gets there. */
static void multiply_panel(walker *me, const fv_patch *p, void *sums)
{
    const fv_seqwalk *w = me->w;
    if (me->waiting_for == 0) {
        w->level->multiply(w, p, 0, me->length, sums);
        return;
    }
    int64_t k = 0;
    for (int other = 0; k < me->length; other++) {
        fv_team_wait(me->team, other, me->waiting_for);
        const share theirs = share_of(w, me->team, other);
        if (other != me->member) w->level->fetch(w, p, theirs.begin, theirs.end);
        const int64_t end = theirs.end < w->args->hidden ? theirs.end : me->length;
        w->level->multiply(w, p, k, end, sums);
        k = end;
    }
    me->waiting_for = 0;
}

/* Every other step panels go from the last to the first: the one used last is still in the nearest
 * cache. */
static void multiply(walker *me, const fv_patch *patch)
{
    const int64_t panels = divide_up(patch->units, me->panel);
    for (int64_t i = 0; i < panels; i++) {
        const int64_t at = patch->step % 2 ? panels - 1 - i : i;
        fv_patch p = *patch;
        p.unit += at * me->panel;
        p.units = smaller(me->panel, patch->unit + patch->units - p.unit);
        const size_t before = (size_t)(at * FV_SEQWALK_SUMS) * me->w->args->element;
        multiply_panel(me, &p, (char *)me->sums + before);
    }
}

static void pack_panels(const walker *me, const fv_patch *p)
{
    if (!me->w->level->pack) return;
    const int64_t end = p->unit + p->units;
    for (int64_t unit = p->unit; unit < end; unit += me->panel)
        me->w->level->pack(me->w, unit, smaller(me->panel, end - unit));
}

/* Multiplies and finishes a patch; its rows are shared out evenly, since a thin last strip would
 * wait for the weight. */
static void multiply_and_finish(walker *me, fv_patch p)
{
    const int64_t batch = me->w->args->batch;
    const int64_t strips = divide_up(batch, FV_SEQWALK_ROWS);
    for (int64_t i = 0; i < strips; i++) {
        p.row = batch * i / strips;
        p.rows = batch * (i + 1) / strips - p.row;
        multiply(me, &p);
        me->w->level->finish(me->w, &p, me->sums);
    }
}

static void ahead(const void *arg, fv_team *team, int member)
{
    const fv_seqwalk *w = arg;
    walker me = {.w = w,
                 .team = team,
                 .member = member,
                 .own = share_of(w, team, member),
                 .length = w->args->hidden,
                 .panel = FV_SEQWALK_AHEAD};
    const int64_t patches = patches_of(&me), first_product = w->first ? 0 : 1;
    for (int64_t step = 0; step < w->args->steps; step++) {
        me.waiting_for = step;
        for (int64_t i = 0; i < patches; i++) {
            const fv_patch p = patch_of(&me, step, step % 2 ? patches - 1 - i : i);
            if (step == first_product) pack_panels(&me, &p);
            if (step >= first_product)
                multiply_and_finish(&me, p);
            else
                w->level->finish(w, &p, NULL);
        }
        fv_team_post(team, member, step + 1);
    }
}

void fv_seqwalk_ahead(const fv_seqwalk *w) { fv_exec_team(w->exec, team_size(w), ahead, w); }

static void back(const void *arg, fv_team *team, int member)
{
    const fv_seqwalk *w = arg;
    const fv_seqwalk_level *level = w->level;
    walker me = {.w = w,
                 .team = team,
                 .member = member,
                 .own = share_of(w, team, member),
                 .length = w->args->hidden * level->gates,
                 .panel = FV_SEQWALK_UNITS};
    const int64_t patches = patches_of(&me), steps = w->args->steps;
    for (int64_t done = 0; done < steps; done++) {
        const int64_t step = steps - 1 - done;
        for (int64_t i = 0; i < patches; i++) {
            const fv_patch p = patch_of(&me, step, i);
            if (done == 0) level->begin(w, &p);
            level->cell(w, &p);
        }
        if (step == 0 && !w->first) break;
        fv_team_post(team, member, done + 1);
        me.waiting_for = done + 1;
        for (int64_t i = 0; i < patches; i++) {
            const fv_patch p = patch_of(&me, step, i);
            if (done == 0) pack_panels(&me, &p);
            multiply_and_finish(&me, p);
        }
    }
}

void fv_seqwalk_back(const fv_seqwalk *w) { fv_exec_team(w->exec, team_size(w), back, w); }

/* ---- scratch ------------------------------------------------------------------------ */

static size_t scratch(const fv_sequence_args *a, size_t gates, size_t states)
{
    size_t units, packed, rows, all;
    if (!fv_align_size((size_t)a->hidden, FV_LANES, &units) ||
        !fv_mul_size(units, gates, &packed) || !fv_mul_size(packed, (size_t)a->hidden, &packed) ||
        !fv_mul_size(units, (size_t)a->batch, &rows) || !fv_mul_size(rows, states, &rows) ||
        !fv_add_size(packed, rows, &all) || !fv_mul_size(all, a->element, &all))
        return SIZE_MAX;
    return all;
}

size_t fv_lstm_scratch_query(const void *args, int threads)
{
    (void)threads;
    return scratch(args, 4, 2);
}

size_t fv_gru_scratch_query(const void *args, int threads)
{
    (void)threads;
    return scratch(args, 3, 1);
}
