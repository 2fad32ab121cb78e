/*
 * How a team of threads runs the recurrences of sequence.h, for every level. The steps themselves
 * are in ref/sequence.c and simd/sequence.c.
 */
#include "kernels/sequence.h"

#include "base/checked_math.h"

/* Multiply-adds per step that justify another team member, which costs one synchronisation per
 * step. */
static const double WORK_PER_MEMBER = 12e3;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t groups_of(const fv_recurrence *run)
{
    return fv_recurrence_padded_units(run) / FV_LANES;
}

/* The hidden units of a team member. */
typedef struct unit_range {
    int64_t begin, end;
} unit_range;

static unit_range units_of(const fv_recurrence *run, const fv_team *team, int member)
{
    const int64_t groups = groups_of(run), members = fv_team_size(team);
    return (unit_range){groups * member / members * FV_LANES,
                        smaller(groups * (member + 1) / members * FV_LANES, run->args->hidden)};
}

static int64_t team_size(const fv_recurrence *run)
{
    const double work = (double)run->args->batch * (double)run->args->hidden *
                        (double)run->args->hidden * run->level->gates;
    const int64_t largest = smaller(groups_of(run), FV_TEAM_MOST);
    return work < WORK_PER_MEMBER * (double)largest ? (int64_t)(work / WORK_PER_MEMBER) : largest;
}

/* The state of a team member. */
typedef struct member_state {
    const fv_recurrence *run;
    fv_team *team;
    int member;
    unit_range own;
    int64_t length;       /* of the sums, in elements */
    int64_t panel;        /* units multiplied together */
    int64_t awaited_step; /* step the other members must have finished; 0: nothing to wait for */
    _Alignas(64) double sums[FV_RECURRENCE_UNITS / FV_RECURRENCE_FORWARD_UNITS *
                             FV_RECURRENCE_PANEL_SUMS];
} member_state;

static int64_t blocks_of(const member_state *me)
{
    return divide_up(me->own.end - me->own.begin, FV_RECURRENCE_UNITS);
}

/* Block i of the member's units, all rows. */
static fv_step_block block_of(const member_state *me, int64_t step, int64_t i)
{
    const int64_t unit = me->own.begin + i * FV_RECURRENCE_UNITS;
    return (fv_step_block){.step = step,
                           .rows = fv_recurrence_rows(me->run, step),
                           .unit = unit,
                           .units = smaller(FV_RECURRENCE_UNITS, me->own.end - unit)};
}

/* Multiplies a panel over all of k. The first time in a step, each part waits for the member that
 * writes it: by the time the multiplication gets there, the part is often ready. */
static void multiply_panel(member_state *me, const fv_step_block *p, void *sums)
{
    const fv_recurrence *run = me->run;
    if (me->awaited_step == 0) {
        run->level->multiply(run, p, 0, me->length, sums);
        return;
    }
    int64_t k = 0;
    for (int other = 0; k < me->length; other++) {
        fv_team_wait(me->team, other, me->awaited_step);
        const unit_range theirs = units_of(run, me->team, other);
        if (other != me->member) run->level->prefetch(run, p, theirs.begin, theirs.end);
        const int64_t end = theirs.end < run->args->hidden ? theirs.end : me->length;
        run->level->multiply(run, p, k, end, sums);
        k = end;
    }
    me->awaited_step = 0;
}

/* Every other step visits the panels in reverse: the one used last is still in the nearest
 * cache. */
static void multiply(member_state *me, const fv_step_block *block)
{
    const int64_t panels = divide_up(block->units, me->panel);
    for (int64_t i = 0; i < panels; i++) {
        const int64_t at = block->step % 2 ? panels - 1 - i : i;
        fv_step_block p = *block;
        p.unit += at * me->panel;
        p.units = smaller(me->panel, block->unit + block->units - p.unit);
        const size_t offset = (size_t)(at * FV_RECURRENCE_PANEL_SUMS) * me->run->args->element;
        multiply_panel(me, &p, (char *)me->sums + offset);
    }
}

static void pack_panels(const member_state *me, const fv_step_block *p)
{
    if (!me->run->level->pack) return;
    const int64_t end = p->unit + p->units;
    for (int64_t unit = p->unit; unit < end; unit += me->panel)
        me->run->level->pack(me->run, unit, smaller(me->panel, end - unit));
}

/* Multiplies and finishes the rows of a block, divided evenly: a last tile with few rows would wait
 * for the weight. */
static void multiply_and_finish(member_state *me, fv_step_block p)
{
    const int64_t first = p.row, rows = p.rows, tiles = divide_up(rows, FV_RECURRENCE_ROWS);
    for (int64_t i = 0; i < tiles; i++) {
        p.row = first + rows * i / tiles;
        p.rows = first + rows * (i + 1) / tiles - p.row;
        multiply(me, &p);
        me->run->level->finish(me->run, &p, me->sums);
    }
}

/* First the rows continued from the previous step, then those whose sequence starts here. In the
 * forward pass the latter need a product only if there is an initial state; in the backward pass
 * only if its gradient is requested. */
static void run_rows(member_state *me, fv_step_block p, bool forward)
{
    const int64_t rows = p.rows, from = fv_recurrence_continued_rows(me->run, p.step);
    p.rows = from;
    multiply_and_finish(me, p);
    p.row = from;
    p.rows = rows - from;
    p.is_start = true;
    if (p.rows > 0 && me->run->has_initial)
        multiply_and_finish(me, p);
    else if (p.rows > 0 && forward)
        me->run->level->finish(me->run, &p, NULL);
}

static void forward(const void *arg, fv_team *team, int member)
{
    const fv_recurrence *run = arg;
    member_state me = {.run = run,
                       .team = team,
                       .member = member,
                       .own = units_of(run, team, member),
                       .length = run->args->hidden,
                       .panel = FV_RECURRENCE_FORWARD_UNITS};
    const int64_t blocks = blocks_of(&me), first_product = run->has_initial ? 0 : 1;
    for (int64_t step = 0; step < run->args->steps; step++) {
        me.awaited_step = step;
        for (int64_t i = 0; i < blocks; i++) {
            const fv_step_block p = block_of(&me, step, step % 2 ? blocks - 1 - i : i);
            if (step == first_product) pack_panels(&me, &p);
            run_rows(&me, p, true);
        }
        fv_team_post(team, member, step + 1);
    }
}

static void backward(const void *arg, fv_team *team, int member)
{
    const fv_recurrence *run = arg;
    const fv_recurrence_level *level = run->level;
    member_state me = {.run = run,
                       .team = team,
                       .member = member,
                       .own = units_of(run, team, member),
                       .length = run->args->hidden * level->gates,
                       .panel = FV_RECURRENCE_UNITS};
    const int64_t blocks = blocks_of(&me), steps = run->args->steps;
    for (int64_t done = 0; done < steps; done++) {
        const int64_t step = steps - 1 - done;
        for (int64_t i = 0; i < blocks; i++) {
            const fv_step_block p = block_of(&me, step, i);
            fv_step_block ending = p;
            ending.row = fv_recurrence_surviving_rows(run, step);
            ending.rows = p.rows - ending.row;
            level->begin(run, &ending);
            level->cell(run, &p);
        }
        if (step == 0 && !run->has_initial) break;
        fv_team_post(team, member, done + 1);
        me.awaited_step = done + 1;
        for (int64_t i = 0; i < blocks; i++) {
            const fv_step_block p = block_of(&me, step, i);
            if (done == 0) pack_panels(&me, &p);
            run_rows(&me, p, false);
        }
    }
}

/* ---- sequences of different lengths ----------------------------------------------------- */

static bool lengths_are_valid(const int64_t *lengths, int64_t batch, int64_t total)
{
    int64_t left = total;
    for (int64_t i = 0; i < batch; i++) {
        if (lengths[i] < 1 || lengths[i] > left || (i > 0 && lengths[i] > lengths[i - 1]))
            return false;
        left -= lengths[i];
    }
    return left == 0;
}

static size_t state_bytes(const fv_sequence_args *a, size_t gates, size_t states);

/* First row of every time step: the rows of step t are the sequences longer than t. */
static const int64_t *time_offsets(const fv_recurrence *run, int64_t steps)
{
    const size_t offset =
        state_bytes(run->args, (size_t)run->level->gates, run->level->gates == 4 ? 2 : 1);
    int64_t *begin = (int64_t *)((char *)run->exec->scratch + offset), running = run->args->batch;
    begin[0] = 0;
    for (int64_t t = 0; t < steps; t++) {
        while (run->lengths[running - 1] <= t)
            running--;
        begin[t + 1] = begin[t] + running;
    }
    return begin;
}

static void run_team(const fv_recurrence *run, fv_team_fn fn)
{
    if (!run->lengths) {
        fv_exec_team(run->exec, team_size(run), fn, run);
        return;
    }
    fv_sequence_args args = *run->args;
    if (args.batch < 1 || !lengths_are_valid(run->lengths, args.batch, args.total)) {
        fv_fault_raise(run->exec->fault, -1, args.total);
        return;
    }
    args.steps = run->lengths[0];
    fv_recurrence varlen = *run;
    varlen.begin = time_offsets(run, args.steps);
    varlen.args = &args;
    fv_exec_team(run->exec, team_size(run), fn, &varlen);
}

void fv_recurrence_forward(const fv_recurrence *run) { run_team(run, forward); }
void fv_recurrence_backward(const fv_recurrence *run) { run_team(run, backward); }

/* ---- scratch ------------------------------------------------------------------------ */

/* A multiple of the cache line. */
static size_t state_bytes(const fv_sequence_args *a, size_t gates, size_t states)
{
    size_t units, varlen, rows, all;
    if (!fv_checked_round_up((size_t)a->hidden, FV_LANES, &units) ||
        !fv_checked_mul_size(units, gates, &varlen) ||
        !fv_checked_mul_size(varlen, (size_t)a->hidden, &varlen) ||
        !fv_checked_mul_size(units, (size_t)a->batch, &rows) ||
        !fv_checked_mul_size(rows, states, &rows) || !fv_checked_add_size(varlen, rows, &all) ||
        !fv_checked_mul_size(all, a->element, &all))
        return SIZE_MAX;
    return all;
}

/* Sequences of different lengths have at most as many steps as rows. */
static size_t scratch(const fv_sequence_args *a, size_t gates, size_t states)
{
    size_t all = state_bytes(a, gates, states), begin;
    if (a->steps > 0 || all == SIZE_MAX) return all;
    if (!fv_checked_add_size((size_t)a->total, 1, &begin) ||
        !fv_checked_mul_size(begin, sizeof(int64_t), &begin) ||
        !fv_checked_add_size(all, begin, &all))
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
