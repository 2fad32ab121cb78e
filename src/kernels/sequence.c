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
                      .rows = fv_seqwalk_rows(me->w, step),
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

/* Multiplies and finishes rows of a patch, shared out evenly, since a thin last strip would wait
 * for the weight. */
static void multiply_and_finish(walker *me, fv_patch p)
{
    const int64_t first = p.row, rows = p.rows, strips = divide_up(rows, FV_SEQWALK_ROWS);
    for (int64_t i = 0; i < strips; i++) {
        p.row = first + rows * i / strips;
        p.rows = first + rows * (i + 1) / strips - p.row;
        multiply(me, &p);
        me->w->level->finish(me->w, &p, me->sums);
    }
}

/* The rows of a patch that come from the step before, then those that begin with this one: ahead
 * these have a product only if there is a first state, back only if its gradient is wanted. */
static void run_rows(walker *me, fv_patch p, bool ahead)
{
    const int64_t rows = p.rows, from = fv_seqwalk_from(me->w, p.step);
    p.rows = from;
    multiply_and_finish(me, p);
    p.row = from;
    p.rows = rows - from;
    p.starts = true;
    if (p.rows > 0 && me->w->first)
        multiply_and_finish(me, p);
    else if (p.rows > 0 && ahead)
        me->w->level->finish(me->w, &p, NULL);
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
            run_rows(&me, p, true);
        }
        fv_team_post(team, member, step + 1);
    }
}

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
            fv_patch ending = p;
            ending.row = fv_seqwalk_on(w, step);
            ending.rows = p.rows - ending.row;
            level->begin(w, &ending);
            level->cell(w, &p);
        }
        if (step == 0 && !w->first) break;
        fv_team_post(team, member, done + 1);
        me.waiting_for = done + 1;
        for (int64_t i = 0; i < patches; i++) {
            const fv_patch p = patch_of(&me, step, i);
            if (done == 0) pack_panels(&me, &p);
            run_rows(&me, p, false);
        }
    }
}

/* ---- packed sequences --------------------------------------------------------------- */

static bool lengths_are_sound(const int64_t *lengths, int64_t batch, int64_t total)
{
    int64_t left = total;
    for (int64_t i = 0; i < batch; i++) {
        if (lengths[i] < 1 || lengths[i] > left || (i > 0 && lengths[i] > lengths[i - 1]))
            return false;
        left -= lengths[i];
    }
    return left == 0;
}

static size_t walk_bytes(const fv_sequence_args *a, size_t gates, size_t states);

/* Where the rows of every place begin: those of place t are the sequences longer than t. */
static const int64_t *lay_out(const fv_seqwalk *w, int64_t steps)
{
    const size_t before =
        walk_bytes(w->args, (size_t)w->level->gates, w->level->gates == 4 ? 2 : 1);
    int64_t *begin = (int64_t *)((char *)w->exec->scratch + before), running = w->args->batch;
    begin[0] = 0;
    for (int64_t t = 0; t < steps; t++) {
        while (w->lengths[running - 1] <= t)
            running--;
        begin[t + 1] = begin[t] + running;
    }
    return begin;
}

static void run_walk(const fv_seqwalk *w, fv_team_fn walk)
{
    if (!w->lengths) {
        fv_exec_team(w->exec, team_size(w), walk, w);
        return;
    }
    fv_sequence_args args = *w->args;
    if (args.batch < 1 || !lengths_are_sound(w->lengths, args.batch, args.total)) {
        fv_fault_raise(w->exec->fault, -1, args.total);
        return;
    }
    args.steps = w->lengths[0];
    fv_seqwalk packed = *w;
    packed.begin = lay_out(w, args.steps);
    packed.args = &args;
    fv_exec_team(w->exec, team_size(w), walk, &packed);
}

void fv_seqwalk_ahead(const fv_seqwalk *w) { run_walk(w, ahead); }
void fv_seqwalk_back(const fv_seqwalk *w) { run_walk(w, back); }

/* ---- scratch ------------------------------------------------------------------------ */

/* Whole lines. */
static size_t walk_bytes(const fv_sequence_args *a, size_t gates, size_t states)
{
    size_t units, packed, rows, all;
    if (!fv_align_size((size_t)a->hidden, FV_LANES, &units) ||
        !fv_mul_size(units, gates, &packed) || !fv_mul_size(packed, (size_t)a->hidden, &packed) ||
        !fv_mul_size(units, (size_t)a->batch, &rows) || !fv_mul_size(rows, states, &rows) ||
        !fv_add_size(packed, rows, &all) || !fv_mul_size(all, a->element, &all))
        return SIZE_MAX;
    return all;
}

/* Packed sequences have as many steps as rows at most. */
static size_t scratch(const fv_sequence_args *a, size_t gates, size_t states)
{
    size_t all = walk_bytes(a, gates, states), begin;
    if (a->steps > 0 || all == SIZE_MAX) return all;
    if (!fv_add_size((size_t)a->total, 1, &begin) || !fv_mul_size(begin, sizeof(int64_t), &begin) ||
        !fv_add_size(all, begin, &all))
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
