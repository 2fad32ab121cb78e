/*
 * Tables of texts: comma-separated values whose first line names the columns. A field in quotes may
 * contain commas, line ends and quotes; such a quote is written twice. A file named .tsv (.tsv.gz,
 * .tsv.xz) has tabs in place of commas, and its quotes are ordinary characters.
 */
#ifndef FV_DATA_CSV_H
#define FV_DATA_CSV_H

#include "base/ctx.h"
#include "fovea/tokenizer.h"

enum { FV_CSV_COLUMNS = 8 };

/* The requested fields of one record, valid until it returns. A failure ends the reading. */
typedef fv_status (*fv_csv_use)(void *user, const fv_string *fields);

/*
 * Calls `use` for every record with the fields of `count` named columns, in the order of `columns`.
 * Fails: IO, FORMAT (a column is missing, a record has another number of fields than the first
 * line, a quote is never closed; with file and line), MEMORY, and what `use` returns.
 */
fv_status fv_csv_each(fv_ctx *ctx, const char *path, int count, const char *const *columns,
                      fv_csv_use use, void *user);

#endif
