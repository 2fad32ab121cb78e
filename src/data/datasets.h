/* How data sets are generated and what their folders contain; the public part is fovea/data.h.
 */
#ifndef FV_DATA_DATASETS_H
#define FV_DATA_DATASETS_H

#include "base/ctx.h"
#include "fovea/data.h"
#include "fovea/tokenizer.h"

#define FV_MADE_MANIFEST "dataset.json"

enum { FV_MADE_NAME = 64, FV_MADE_LENGTH = 1000 };

/* The hash h of the split rule in fovea/data.h. */
uint64_t fv_made_hash(const char *source, size_t bytes);
/* The first eight bytes of the SHA-256 of the text. */
uint64_t fv_text_digest(const char *text, size_t bytes);

/* "train.en". */
void fv_made_file_name(char out[FV_MADE_NAME], fv_made_part part, const char *ending);

/* ---- generation --------------------------------------------------------------------- */

enum { FV_MADE_SOURCE, FV_MADE_TARGET, FV_MADE_SIDES };

/* The files of a set while it is generated, in memory. */
typedef struct fv_made_sink {
    fv_ctx *ctx;
    const fv_made_config *cfg;
    fv_text files[FV_MADE_PARTS][FV_MADE_SIDES];
    fv_made_report report;
} fv_made_sink;

fv_status fv_made_put(fv_made_sink *sink, fv_made_part part, fv_string source, fv_string target);

/* Each fills the sink from its config. */
typedef fv_status (*fv_made_maker)(fv_made_sink *sink);
fv_status fv_make_dates(fv_made_sink *sink);
fv_status fv_make_copy(fv_made_sink *sink);
fv_status fv_make_reverse(fv_made_sink *sink);
fv_status fv_make_sort(fv_made_sink *sink);
fv_status fv_make_sentences(fv_made_sink *sink);
fv_status fv_make_trees(fv_made_sink *sink);
fv_status fv_make_tatoeba_french(fv_made_sink *sink);
fv_status fv_make_tatoeba_chinese(fv_made_sink *sink);
fv_status fv_make_scan_simple(fv_made_sink *sink);
fv_status fv_make_scan_length(fv_made_sink *sink);
fv_status fv_make_scan_jump(fv_made_sink *sink);

/* The part of a source by the rule of fovea/data.h. */
fv_made_part fv_made_part_of(const char *source, size_t bytes);

/* Which part a calendar date belongs to. */
fv_dates_part fv_date_part(int year, int month, int day);

/* Writes a given date in one of the formats. false: no such date or format, or a format with a
 * two-digit year that cannot mean it. */
bool fv_date_write(int format, int year, int month, int day, fv_date_pair *out);

#endif
