/*
 * Regular expressions of tokenizer files, with the syntax of Oniguruma, which Hugging Face's
 * library uses.
 *
 *     const fv_regex *re = NULL;
 *     s = fv_regex_compile(ctx, &arena, "\\p{L}+| ?\\d{1,3}", n, &re);
 *     fv_regex_run run = {.ctx = ctx};
 *     fv_regex_begin(&run, text, bytes);
 *     bool found = true;
 *     for (size_t from = 0, begin, end; found; from = end)
 *         s = fv_regex_find(&run, re, from, &found, &begin, &end);
 *     fv_regex_end(&run);
 *
 * Supported: characters and escapes (\n \r \t \f \v \e \a \xHH \x{H..} \uHHHH), classes with
 * ranges, negation, nesting and &&, . \d \w \s \h and their complements, \p{..} with a category or
 * its first letter, \b \B \A \z \Z ^ $, groups of every kind, (?i) and (?i:..), alternatives, ? * +
 * {n,m} with their lazy and possessive forms, (?=..) (?!..), (?<=..) (?<!..) of a fixed length,
 * (?>..). Not supported: backreferences, scripts as in \p{Han}, conditionals, repeats of something
 * that can be empty.
 *
 * Matching is backtracking, as in Oniguruma, and finds the same matches. On a text that makes it
 * try much, it remembers which choices have failed at which positions, for all later starts as
 * well: then each is tried once, and the time is linear in the text. Atomic groups and long
 * lookaheads may still be tried often; what takes more steps than the budget allows fails with
 * FV_ERR_LIMIT.
 */
#ifndef FV_TEXT_REGEX_H
#define FV_TEXT_REGEX_H

#include "base/ctx.h"
#include "io/arena.h"
#include "text/budget.h"

/* ---- program --------------------------------------------------------------------- */

typedef enum fv_regex_op {
    FV_RE_CHAR,  /* value */
    FV_RE_FOLD,  /* value, ignoring case */
    FV_RE_CLASS, /* value: index of the class */
    FV_RE_SPLIT, /* first value, then other; number: its index among the splits */
    FV_RE_JUMP,  /* to value */
    FV_RE_MATCH,
    FV_RE_LINE_BEGIN,
    FV_RE_LINE_END,
    FV_RE_BEGIN,
    FV_RE_END,
    FV_RE_LAST_LINE_END, /* the end, or before a final newline */
    FV_RE_WORD_EDGE,
    FV_RE_NO_WORD_EDGE,
    /* A nested pattern follows, up to FV_RE_MATCH; the outer one continues at value. */
    FV_RE_AHEAD,
    FV_RE_NOT_AHEAD,
    FV_RE_BEHIND, /* begins `other` characters before */
    FV_RE_NOT_BEHIND,
    FV_RE_ATOMIC
} fv_regex_op;

typedef struct fv_regex_step {
    fv_regex_op op;
    uint32_t value, other, number;
} fv_regex_step;

typedef enum fv_regex_item_kind {
    FV_RE_ITEM_RANGE,
    FV_RE_ITEM_CATEGORIES, /* low: one bit per fv_category */
    FV_RE_ITEM_SPACE,
    FV_RE_ITEM_WORD, /* low: 1 inside [] */
    FV_RE_ITEM_CLASS /* low: index of another class */
} fv_regex_item_kind;

/* One item of a character class. */
typedef struct fv_regex_item {
    fv_regex_item_kind kind;
    bool negated;
    uint32_t low, high;
} fv_regex_item;

typedef struct fv_regex_class {
    fv_regex_item *items;
    size_t count, room;
    bool negated, fold;
    int32_t intersection; /* index of the class after &&, or -1 */
    uint64_t ascii[2];    /* precomputed for U+0 to U+7F */
    uint32_t cost;        /* of a lookup beyond these, in steps */
} fv_regex_class;

typedef struct fv_regex {
    fv_regex_step *steps;
    size_t step_count, split_count;
    fv_regex_class *classes;
    size_t class_count;
} fv_regex;

/* Allocates in the arena. Fails: FORMAT, UNSUPPORTED, LIMIT, MEMORY. */
fv_status fv_regex_compile(fv_ctx *ctx, fv_arena *arena, const char *pattern, size_t bytes,
                           const fv_regex **out);

bool fv_regex_class_has(const fv_regex *re, const fv_regex_class *c, uint32_t code);
/* Case folding. */
uint32_t fv_regex_fold(uint32_t code);

/* ---- matching -------------------------------------------------------------------- */

/* A split that was taken on the way to the current position. */
typedef struct fv_regex_place {
    uint32_t step; /* with the bit FV_RE_PLACE_OTHER: now on its second branch */
    uint32_t at;
} fv_regex_place;

enum { FV_RE_PLACE_OTHER = 1 << 30 };

typedef struct fv_regex_run {
    fv_ctx *ctx;
    const char *text; /* valid UTF-8 */
    size_t bytes;
    fv_text_budget *budget; /* of the caller; NULL: of its own, for each text */
    fv_text_budget own;
    int64_t granted, left; /* steps taken from the budget but not yet charged; left of them */
    size_t last_end;       /* end of the last match; SIZE_MAX: none yet */
    fv_regex_place *stack; /* backtracking points */
    size_t count, room;
    /* Which splits have failed at which positions, one bit each; used once `remembers` is set. */
    uint64_t *failed;
    size_t failed_room;
    bool remembers, tried_to_remember;
} fv_regex_run;

void fv_regex_begin(fv_regex_run *run, const char *text, size_t bytes);
void fv_regex_end(fv_regex_run *run);
/* The first match that begins at or after `from`, the end of the last one. It may be empty, but not
 * at the end of the last match. Fails: LIMIT, MEMORY. */
fv_status fv_regex_find(fv_regex_run *run, const fv_regex *re, size_t from, bool *found,
                        size_t *begin, size_t *end);

#endif
