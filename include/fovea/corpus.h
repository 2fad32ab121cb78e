/*
 * fovea/corpus.h: text files line by line, plain or packed.
 *
 *     fv_lines *lines = NULL;
 *     s = fv_lines_open(ctx, "train.en.gz", FV_LINES_REFUSE, &lines);
 *     for (fv_line line; (s = fv_lines_next(lines, &line)) == FV_OK && line.text;)
 *         use(line.text, line.bytes);
 *     fv_lines_close(&lines);
 *
 * Files that begin like gzip or xz are unpacked as they are read, where this build has zlib and
 * liblzma (fv_feature_get); elsewhere they are FV_ERR_UNSUPPORTED. The name does not matter. Memory
 * follows the longest line, not the file.
 *
 * A line ends at "\n" or "\r\n", which do not belong to it; the last one may end with the file.
 * Lines are UTF-8 without NUL bytes. Anything else is not text: it is refused with file, line and
 * byte, or marked and left to the caller.
 */
#ifndef FOVEA_CORPUS_H
#define FOVEA_CORPUS_H

#include "fovea/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_lines fv_lines;

/* What happens to a line that is not text. */
typedef enum fv_lines_policy {
    FV_LINES_REFUSE, /* FV_ERR_FORMAT */
    FV_LINES_MARK    /* it is given with `valid` false */
} fv_lines_policy;

typedef struct fv_line {
    const char *text; /* lives until the next call; a NUL behind it. NULL: the file has ended */
    size_t bytes;
    uint64_t number; /* from 1 */
    bool valid;      /* UTF-8 without NUL bytes */
} fv_line;

/* Fails: IO, LIMIT (fv_limits.total_bytes), UNSUPPORTED, MEMORY, ARGUMENT. */
FV_API FV_MUST_USE fv_status fv_lines_open(fv_ctx *ctx, const char *path, fv_lines_policy policy,
                                           fv_lines **out);
/* Lines of a text in memory, which must stay; `name` stands in messages. Packed text is unpacked
 * as well. */
FV_API FV_MUST_USE fv_status fv_lines_open_memory(fv_ctx *ctx, const char *name, const void *data,
                                                  size_t bytes, fv_lines_policy policy,
                                                  fv_lines **out);
/*
 * Lines of whatever `read` gives, a pipe for example. It is called for up to `room` > 0 bytes when
 * a line is not whole yet, may wait for them, and says how many it has put at `out`; 0 is the end.
 * What it fails with is what fv_lines_next fails with, and the first bytes are read here, so open
 * may too. Packed text is unpacked as well.
 */
typedef fv_status (*fv_lines_reader)(void *user, void *out, size_t room, size_t *got);
FV_API FV_MUST_USE fv_status fv_lines_open_stream(fv_ctx *ctx, const char *name,
                                                  fv_lines_reader read, void *user,
                                                  fv_lines_policy policy, fv_lines **out);
/* Whether the next line can be had without reading on. */
FV_API bool fv_lines_ready(const fv_lines *lines);
/* NULL is fine; *lines becomes NULL. */
FV_API void fv_lines_close(fv_lines **lines);

/* Fails: FORMAT (not text, damaged packed data), IO, LIMIT (fv_limits.line_bytes; the unpacked
 * whole against total_bytes), MEMORY. After a failure only close is left to call. */
FV_API FV_MUST_USE fv_status fv_lines_next(fv_lines *lines, fv_line *out);

/*
 * The text under `key` in a JSON object, such as a line of a .jsonl file; `name` stands in
 * messages. *found is false if the object has no such key. Fails: FORMAT (no JSON, no object, no
 * string), LIMIT, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_json_text(fv_ctx *ctx, const char *name, const char *json,
                                          size_t bytes, const char *key, fv_text *out, bool *found);

/* The file's name as it was given. */
FV_API const char *fv_lines_name(const fv_lines *lines);

#ifdef __cplusplus
}
#endif
#endif
