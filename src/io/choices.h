/* Indices into a fixed list of words "a|b|c". */
#ifndef FV_IO_CHOICES_H
#define FV_IO_CHOICES_H

#include "io/document.h"

/* Word number `index` and its length; the last word if the list is shorter. */
const char *fv_choice_at(const char *choices, int64_t index, size_t *length);

/* The index of a string value in the list; fails with FV_ERR_FORMAT, naming the list, if it is not
 * there. */
fv_status fv_doc_choice(const fv_doc *doc, const fv_value *value, const char *choices,
                        int64_t *out);

#endif
