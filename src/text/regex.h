/*
 * Regular expressions as tokenizer files use them (Oniguruma's, as Hugging Face's library has it).
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
 * Known are: characters and escapes (\n \r \t \f \v \e \a \xHH \x{H..} \uHHHH), classes with
 * ranges, negation, nesting and &&, . \d \w \s \h and their opposites, \p{..} with a category or
 * its first letter, \b \B \A \z \Z ^ $, groups of every kind, (?i) and (?i:..), alternatives, ? * +
 * {n,m} with their lazy and possessive forms, (?=..) (?!..), (?<=..) (?<!..) of a fixed length,
 * (?>..). Not known: backreferences, scripts as in \p{Han}, conditions, repeats of what can be
 * empty.
 *
 * Matching goes back step by step, as Oniguruma does, and so finds what it finds. A pattern that
 * takes too many steps for the length of the text is FV_ERR_LIMIT.
 */
#ifndef FV_TEXT_REGEX_H
#define FV_TEXT_REGEX_H

#include "base/ctx.h"
#include "io/arena.h"

/* ---- the program ----------------------------------------------------------------- */

typedef enum fv_regex_op {
    FV_RE_CHAR,  /* value */
    FV_RE_FOLD,  /* value, whatever its case */
    FV_RE_CLASS, /* value: its number */
    FV_RE_SPLIT, /* first value, then other */
    FV_RE_JUMP,  /* to value */
    FV_RE_MATCH,
    FV_RE_LINE_BEGIN,
    FV_RE_LINE_END,
    FV_RE_BEGIN,
    FV_RE_END,
    FV_RE_LAST_LINE_END, /* the end, or before a line feed there */
    FV_RE_WORD_EDGE,
    FV_RE_NO_WORD_EDGE,
    /* What follows up to FV_RE_MATCH is a pattern of its own; goes on at value. */
    FV_RE_AHEAD,
    FV_RE_NOT_AHEAD,
    FV_RE_BEHIND, /* begins `other` characters before */
    FV_RE_NOT_BEHIND,
    FV_RE_ATOMIC
} fv_regex_op;

typedef struct fv_regex_step {
    fv_regex_op op;
    uint32_t value, other;
} fv_regex_step;

typedef enum fv_regex_item_kind {
    FV_RE_ITEM_RANGE,
    FV_RE_ITEM_CATEGORIES, /* low: a bit for each fv_category */
    FV_RE_ITEM_SPACE,
    FV_RE_ITEM_WORD, /* low: 1 in brackets */
    FV_RE_ITEM_CLASS /* low: the number of another class */
} fv_regex_item_kind;

/* A part of a class. */
typedef struct fv_regex_item {
    fv_regex_item_kind kind;
    bool negated;
    uint32_t low, high;
} fv_regex_item;

typedef struct fv_regex_class {
    fv_regex_item *items;
    size_t count, room;
    bool negated, fold;
    int32_t intersection; /* the class that must hold too, or -1 */
    uint64_t ascii[2];    /* the answer for U+0 to U+7F */
} fv_regex_class;

typedef struct fv_regex {
    fv_regex_step *steps;
    size_t step_count;
    fv_regex_class *classes;
    size_t class_count;
} fv_regex;

/* Lives in the arena. Fails: FORMAT, UNSUPPORTED, LIMIT, MEMORY. */
fv_status fv_regex_compile(fv_ctx *ctx, fv_arena *arena, const char *pattern, size_t bytes,
                           const fv_regex **out);

bool fv_regex_class_has(const fv_regex *re, const fv_regex_class *c, uint32_t code);
/* A code point without its case. */
uint32_t fv_regex_fold(uint32_t code);

/* ---- matching -------------------------------------------------------------------- */

typedef struct fv_regex_place {
    uint32_t step, at;
} fv_regex_place;

typedef struct fv_regex_run {
    fv_ctx *ctx;
    const char *text; /* valid UTF-8 */
    size_t bytes;
    uint64_t steps_left;
    size_t last_end;       /* of the last match; SIZE_MAX: none yet */
    fv_regex_place *stack; /* where to go on if this way fails */
    size_t count, room;
} fv_regex_run;

void fv_regex_begin(fv_regex_run *run, const char *text, size_t bytes);
void fv_regex_end(fv_regex_run *run);
/* The first match that begins at `from`, the end of the last one, or later. It may be empty, but
 * not where the last one ended. Fails: LIMIT, MEMORY. */
fv_status fv_regex_find(fv_regex_run *run, const fv_regex *re, size_t from, bool *found,
                        size_t *begin, size_t *end);

#endif
