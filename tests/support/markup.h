/*
 * Whether a text is well-formed XML, as far as our pictures use it: nested tags, quoted attributes,
 * known entities, valid UTF-8, no character that XML forbids.
 */
#ifndef FV_TESTS_MARKUP_H
#define FV_TESTS_MARKUP_H

#include <stddef.h>

/* What is wrong, or NULL. */
const char *markup_wrong(const char *text);

/* How often `part` occurs. */
int count_of(const char *text, const char *part);

#endif
