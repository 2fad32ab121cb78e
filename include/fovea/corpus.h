/*
 * fovea/corpus.h: text files line by line, plain or compressed.
 *
 *     fv_lines *lines = NULL;
 *     s = fv_lines_open(ctx, "train.en.gz", FV_LINES_POLICY_REJECT, &lines);
 *     for (fv_line line; (s = fv_lines_next(lines, &line)) == FV_OK && line.text;)
 *         use(line.text, line.bytes);
 *     fv_lines_close(&lines);
 *
 * gzip and xz files are recognised by their first bytes, not by name, and decompressed while they
 * are read. This needs zlib or liblzma (fv_feature_get); builds without them fail with
 * FV_ERR_UNSUPPORTED. Memory use depends on the longest line, not on the size of the file.
 *
 * A line ends at "\n" or "\r\n", which are not part of it; the last line may end with the file.
 * Lines are UTF-8 without NUL bytes. The policy decides whether any other line is an error, with
 * file, line and byte, or is returned marked as invalid.
 */
#ifndef FOVEA_CORPUS_H
#define FOVEA_CORPUS_H

#include "fovea/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_lines fv_lines;

/* What to do with a line that is not valid text. */
typedef enum fv_lines_policy {
    FV_LINES_POLICY_REJECT, /* FV_ERR_FORMAT */
    FV_LINES_POLICY_MARK    /* return it with `valid` false */
} fv_lines_policy;

typedef struct fv_line {
    const char *text; /* NUL-terminated, valid until the next call; NULL at the end of the file */
    size_t bytes;
    uint64_t number; /* from 1 */
    bool valid;      /* UTF-8 without NUL bytes */
} fv_line;

/* Fails: IO, LIMIT (fv_limits.total_bytes), UNSUPPORTED, MEMORY, ARGUMENT. */
FV_API FV_MUST_USE fv_status fv_lines_open(fv_ctx *ctx, const char *path, fv_lines_policy policy,
                                           fv_lines **out);
/* Lines of a text in memory, plain or compressed. The text must outlive `lines`; messages use
 * `name`.
 */
FV_API FV_MUST_USE fv_status fv_lines_open_memory(fv_ctx *ctx, const char *name, const void *data,
                                                  size_t bytes, fv_lines_policy policy,
                                                  fv_lines **out);
/*
 * Lines of a stream, such as a pipe, plain or compressed. `read` is called whenever the buffered
 * bytes hold no complete line. It may block; it writes up to `capacity` > 0 bytes to `out` and
 * their number to *got, 0 at the end. fv_lines_next returns its errors, and so does this call,
 * which reads the first bytes.
 */
typedef fv_status (*fv_lines_reader)(void *user, void *out, size_t capacity, size_t *got);
FV_API FV_MUST_USE fv_status fv_lines_open_stream(fv_ctx *ctx, const char *name,
                                                  fv_lines_reader read, void *user,
                                                  fv_lines_policy policy, fv_lines **out);
/* True if the next line is already buffered, so that fv_lines_next will not read. */
FV_API bool fv_lines_is_ready(const fv_lines *lines);
/* Accepts NULL; sets *lines to NULL. */
FV_API void fv_lines_close(fv_lines **lines);

/* Fails: FORMAT (invalid text or compressed data), IO, LIMIT (fv_limits.line_bytes; total_bytes for
 * the decompressed file), MEMORY. After a failure, only close may be called. */
FV_API FV_MUST_USE fv_status fv_lines_next(fv_lines *lines, fv_line *out);

/*
 * Reads the string member `key` of a JSON object, such as a line of a .jsonl file; messages use
 * `name`. *found is false if the object has no such key. Fails: FORMAT (invalid JSON, not an
 * object, not a string), LIMIT, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_json_get_string(fv_ctx *ctx, const char *name, const char *json,
                                                size_t bytes, const char *key, fv_text *out,
                                                bool *found);

/* The name passed to open. */
FV_API const char *fv_lines_name(const fv_lines *lines);

#ifdef __cplusplus
}
#endif
#endif
