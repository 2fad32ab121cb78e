/* Words of a fixed list "a|b|c", by their places. */
#ifndef FV_IO_CHOICES_H
#define FV_IO_CHOICES_H

#include "io/document.h"

/* Word number `index` and its length; the last one if there are not so many. */
const char *fv_choice_at(const char *choices, int64_t index, size_t *length);

/* The place of a string value; FV_ERR_FORMAT names the list if it is none of it. */
fv_status fv_doc_choice(const fv_doc *doc, const fv_value *value, const char *choices,
                        int64_t *out);

#endif
