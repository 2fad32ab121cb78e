#include <string.h>

#include "fovea/unicode.h"
#include "text/regex.h"
#include "text/tokenizer_pipeline.h"

/* ---- classes --------------------------------------------------------------------- */

uint32_t fv_regex_fold(uint32_t code)
{
    uint32_t lower[2];
    switch (code) {
    case 0x17F: /* long s, final sigma, micro sign */
        return 's';
    case 0x3C2:
        return 0x3C3;
    case 0xB5:
        return 0x3BC;
    default:
        return fv_unicode_lower(code, lower) == 1 ? lower[0] : code;
    }
}

/* In Oniguruma, six characters of Latin-1 (fractions and superscript digits) match \w on their own,
 * but not in a class. */
static bool is_word(uint32_t code, bool in_class)
{
    if (!in_class &&
        (code == 0xB2 || code == 0xB3 || code == 0xB9 || (code >= 0xBC && code <= 0xBE)))
        return true;
    return code != 0x200C && code != 0x200D && fv_is_word_char(code);
}

static bool item_has(const fv_regex *re, const fv_regex_item *item, uint32_t code)
{
    bool has = false;
    switch (item->kind) {
    case FV_RE_ITEM_RANGE:
        has = code >= item->low && code <= item->high;
        break;
    case FV_RE_ITEM_CATEGORIES:
        has = item->low >> fv_unicode_category(code) & 1;
        break;
    case FV_RE_ITEM_SPACE:
        has = fv_unicode_is_space(code);
        break;
    case FV_RE_ITEM_WORD:
        has = is_word(code, item->low);
        break;
    case FV_RE_ITEM_CLASS:
        has = fv_regex_class_has(re, &re->classes[item->low], code);
        break;
    }
    return has != item->negated;
}

static bool any_has(const fv_regex *re, const fv_regex_class *c, uint32_t code)
{
    for (size_t i = 0; i < c->count; i++)
        if (item_has(re, &c->items[i], code)) return true;
    return false;
}

bool fv_regex_class_has(const fv_regex *re, const fv_regex_class *c, uint32_t code)
{
    bool has = any_has(re, c, code);
    if (!has && c->fold) {
        const uint32_t plain = fv_regex_fold(code);
        has = any_has(re, c, plain) ||
              (plain >= 'a' && plain <= 'z' && any_has(re, c, plain - 'a' + 'A'));
    }
    if (has && c->intersection >= 0)
        has = fv_regex_class_has(re, &re->classes[c->intersection], code);
    return has != c->negated;
}

static bool class_has(const fv_regex *re, uint32_t number, uint32_t code)
{
    const fv_regex_class *c = &re->classes[number];
    if (code < 128) return c->ascii[code >> 6] >> (code & 63) & 1;
    return fv_regex_class_has(re, c, code);
}

/* ---- positions ------------------------------------------------------------------- */

/* The character at a position and its end; false at the end of the text. */
static bool char_at(const fv_regex_run *run, size_t at, uint32_t *code, size_t *end)
{
    if (at >= run->bytes) return false;
    const size_t length = fv_lead_length(run->text[at]);
    *code = fv_code_of(run->text + at, length);
    *end = at + length;
    return true;
}

static size_t char_before(const fv_regex_run *run, size_t at)
{
    do {
        at--;
    } while (at > 0 && (run->text[at] & 0xC0) == 0x80);
    return at;
}

static bool is_word_edge(const fv_regex_run *run, size_t at)
{
    uint32_t code = 0;
    size_t end;
    bool before = at > 0 && char_at(run, char_before(run, at), &code, &end);
    before = before && is_word(code, false);
    const bool after = char_at(run, at, &code, &end) && is_word(code, false);
    return before != after;
}

/* Whether a zero-width assertion holds at a position. */
static bool holds(const fv_regex_run *run, fv_regex_op op, size_t at)
{
    switch (op) {
    case FV_RE_LINE_BEGIN:
        return at == 0 || (run->text[at - 1] == '\n' && at < run->bytes);
    case FV_RE_LINE_END:
        return at == run->bytes || run->text[at] == '\n';
    case FV_RE_BEGIN:
        return at == 0;
    case FV_RE_END:
        return at == run->bytes;
    case FV_RE_LAST_LINE_END:
        return at == run->bytes || (at + 1 == run->bytes && run->text[at] == '\n');
    case FV_RE_WORD_EDGE:
        return is_word_edge(run, at);
    default:
        return !is_word_edge(run, at);
    }
}

/* ---- steps and memory ------------------------------------------------------------ */

/* Starts to remember failures: 64 bits for a byte of text at most, otherwise nothing. */
static fv_status start_to_remember(fv_regex_run *run, const fv_regex *re)
{
    enum { MAX_SPLITS = 512 };
    run->tried_to_remember = true;
    if (re->split_count > MAX_SPLITS) return FV_OK;
    const size_t words = (re->split_count * (run->bytes + 1) + 63) / 64;
    uint64_t *failed =
        fv_mem_grow(&run->ctx->mem, run->failed, &run->failed_room, words, sizeof *failed);
    FV_RETURN_IF(!failed, run->ctx, FV_ERR_MEMORY, "pattern: out of memory");
    run->failed = failed;
    memset(failed, 0, words * sizeof *failed);
    run->remembers = true;
    return FV_OK;
}

static size_t bit_of(const fv_regex_run *run, const fv_regex *re, uint32_t step, size_t at)
{
    return re->steps[step].number * (run->bytes + 1) + at;
}

static bool has_failed(const fv_regex_run *run, const fv_regex *re, uint32_t step, size_t at)
{
    const size_t bit = bit_of(run, re, step, at);
    return run->failed[bit / 64] >> (bit % 64) & 1;
}

static void remember_failure(fv_regex_run *run, const fv_regex *re, uint32_t step, size_t at)
{
    const size_t bit = bit_of(run, re, step, at);
    run->failed[bit / 64] |= (uint64_t)1 << (bit % 64);
}

/* Charges the steps taken so far. */
static fv_status settle(fv_regex_run *run)
{
    fv_text_budget_spend(run->budget, (size_t)(run->granted - run->left));
    run->granted = run->left;
    return fv_text_budget_check(run->budget);
}

/* Called when the granted steps are used up. */
static fv_status grant_steps(fv_regex_run *run, const fv_regex *re)
{
    enum { MORE = 4096 };
    FV_TRY(settle(run));
    if (!run->tried_to_remember) FV_TRY(start_to_remember(run, re));
    run->granted += MORE;
    run->left += MORE;
    return FV_OK;
}

static fv_status push(fv_regex_run *run, uint32_t step, size_t at)
{
    enum { FREE = 1 << 12, PER_BYTE = 32 };
    if (run->count == run->room) {
        FV_RETURN_IF(run->count > FREE + run->bytes * PER_BYTE, run->ctx, FV_ERR_LIMIT,
                     "%.200s: %s: the pattern has too many alternatives open at once",
                     run->budget->file, run->budget->stage);
        fv_regex_place *stack =
            fv_mem_grow(&run->ctx->mem, run->stack, &run->room, run->count + 1, sizeof *stack);
        FV_RETURN_IF(!stack, run->ctx, FV_ERR_MEMORY, "pattern: out of memory");
        run->stack = stack;
    }
    run->stack[run->count++] = (fv_regex_place){step, (uint32_t)at};
    return FV_OK;
}

/* Goes back to the last split above `base` whose second branch is still open; false: there is none.
 * A split whose branches have both failed at a position fails there on any later path, too: what
 * follows depends on nothing else. */
static bool back_track(fv_regex_run *run, const fv_regex *re, size_t base, uint32_t *step,
                       size_t *at)
{
    for (; run->count > base; run->count--) {
        fv_regex_place *p = &run->stack[run->count - 1];
        if (!(p->step & FV_RE_PLACE_OTHER)) {
            *step = re->steps[p->step].other;
            *at = p->at;
            p->step |= FV_RE_PLACE_OTHER;
            return true;
        }
        if (run->remembers)
            remember_failure(run, re, p->step & ~(uint32_t)FV_RE_PLACE_OTHER, p->at);
    }
    return false;
}

/* ---- matching -------------------------------------------------------------------- */

static fv_status run_from(fv_regex_run *run, const fv_regex *re, uint32_t step, size_t at,
                          bool *matched, size_t *end);

/* Matches a nested pattern: whether it holds, and where the outer one continues. Nesting is
 * bounded. */
static fv_status run_inner(fv_regex_run *run, const fv_regex *re, uint32_t step, size_t *at,
                           bool *holds_here)
{
    const fv_regex_step *s = &re->steps[step];
    size_t begin = *at, end = *at;
    *holds_here = false;
    const bool behind = s->op == FV_RE_BEHIND || s->op == FV_RE_NOT_BEHIND;
    uint32_t back = behind ? s->other : 0;
    for (; back > 0 && begin > 0; back--)
        begin = char_before(run, begin);
    run->left -= behind ? s->other : 0;
    if (back == 0) FV_TRY(run_from(run, re, step + 1, begin, holds_here, &end));
    if (s->op == FV_RE_NOT_AHEAD || s->op == FV_RE_NOT_BEHIND) *holds_here = !*holds_here;
    if (s->op == FV_RE_ATOMIC && *holds_here) *at = end;
    return FV_OK;
}

/* Executes one step; *alive is false if this path fails. */
static fv_status take_step(fv_regex_run *run, const fv_regex *re, uint32_t *step, size_t *at,
                           bool *alive)
{
    const fv_regex_step *s = &re->steps[*step];
    uint32_t code;
    switch (s->op) {
    case FV_RE_CHAR:
        *alive = char_at(run, *at, &code, at) && code == s->value;
        break;
    case FV_RE_FOLD:
        *alive = char_at(run, *at, &code, at) && fv_regex_fold(code) == s->value;
        break;
    case FV_RE_CLASS:
        *alive = char_at(run, *at, &code, at) && class_has(re, s->value, code);
        run->left -= re->classes[s->value].cost;
        break;
    case FV_RE_SPLIT:
        *alive = !(run->remembers && has_failed(run, re, *step, *at));
        if (*alive) FV_TRY(push(run, *step, *at));
        *step = s->value;
        return FV_OK;
    case FV_RE_JUMP:
        *step = s->value;
        return FV_OK;
    case FV_RE_AHEAD:
    case FV_RE_NOT_AHEAD:
    case FV_RE_BEHIND:
    case FV_RE_NOT_BEHIND:
    case FV_RE_ATOMIC:
        FV_TRY(run_inner(run, re, *step, at, alive));
        *step = s->value;
        return FV_OK;
    default:
        *alive = holds(run, s->op, *at);
        break;
    }
    ++*step;
    return FV_OK;
}

/* Runs from a step to FV_RE_MATCH. Uses the stack above its current top and restores it. */
static fv_status run_from(fv_regex_run *run, const fv_regex *re, uint32_t step, size_t at,
                          bool *matched, size_t *end)
{
    const size_t base = run->count;
    *matched = false;
    for (;;) {
        bool alive = true;
        if (--run->left < 0) FV_TRY(grant_steps(run, re));
        if (re->steps[step].op == FV_RE_MATCH) {
            *matched = true;
            *end = at;
            run->count = base;
            return FV_OK;
        }
        FV_TRY(take_step(run, re, &step, &at, &alive));
        if (!alive && !back_track(run, re, base, &step, &at)) return FV_OK;
    }
}

void fv_regex_begin(fv_regex_run *run, const char *text, size_t bytes)
{
    /* Most patterns take fewer steps than this, and need not remember anything. */
    enum { FREE_STEPS = 1 << 12, STEPS_A_BYTE = 16 };
    if (!run->budget || run->budget == &run->own) {
        run->budget = &run->own;
        fv_text_budget_begin(&run->own, run->ctx, "pattern", bytes);
    }
    run->text = text;
    run->bytes = bytes;
    run->granted = run->left = FREE_STEPS + (int64_t)bytes * STEPS_A_BYTE;
    run->remembers = run->tried_to_remember = false;
    run->count = 0;
    run->last_end = SIZE_MAX;
}

void fv_regex_end(fv_regex_run *run)
{
    fv_mem_free(&run->ctx->mem, run->stack, run->room * sizeof *run->stack);
    fv_mem_free(&run->ctx->mem, run->failed, run->failed_room * sizeof *run->failed);
    *run = (fv_regex_run){.ctx = run->ctx};
}

fv_status fv_regex_find(fv_regex_run *run, const fv_regex *re, size_t from, bool *found,
                        size_t *begin, size_t *end)
{
    *found = false;
    for (size_t at = from; at <= run->bytes; at += fv_lead_length(run->text[at])) {
        run->count = 0;
        FV_TRY(run_from(run, re, 0, at, found, end));
        *found = *found && !(*end == at && at == run->last_end);
        *begin = at;
        if (*found || at == run->bytes) break;
    }
    if (*found) run->last_end = *end;
    return settle(run);
}
