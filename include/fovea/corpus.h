/*
 * fovea/corpus.h: text files line by line, plain or packed; and parallel files as tokens.
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

/*
 * A corpus is one file, or several whose lines belong together, as tokens:
 *
 *     const char *paths[] = {"train.de.gz", "train.en.gz"};
 *     const fv_tokenizer *tokenizers[] = {german, english};
 *     fv_corpus_config cfg;
 *     fv_corpus_config_init(&cfg, sizeof cfg);
 *     cfg.max_tokens = 100;
 *     fv_corpus *corpus = NULL;
 *     s = fv_corpus_load(ctx, paths, tokenizers, 2, &cfg, &corpus);
 *     s = fv_batches_create(ctx, fv_corpus_count(corpus), fv_corpus_lengths(corpus), ...);
 *     for each batch b
 *         fv_corpus_sequences(corpus, 0, b.example, b.count, source, source_length);
 *
 * Which examples there are, and their order, depends on the files alone.
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

/* ---- parallel files -------------------------------------------------------------- */

enum { FV_CORPUS_SIDES = 4 };

typedef struct fv_corpus fv_corpus;

typedef struct fv_corpus_config {
    size_t struct_size;
    fv_lines_policy invalid; /* MARK: examples with a line that is not text are left out [REFUSE] */
    bool keep_empty;         /* keep examples with a side of no tokens [false] */
    int64_t max_tokens;      /* of any side; longer examples are left out; 0: no bound [0] */
    int64_t max_examples;    /* stop after so many; 0: all [0] */
    unsigned flags[FV_CORPUS_SIDES]; /* of fv_encode, for each side [0] */
} fv_corpus_config;

FV_API void fv_corpus_config_init(fv_corpus_config *cfg, size_t struct_size);

/*
 * Reads `sides` files with one tokenizer each. The tokenizers are not needed afterwards.
 * Fails: FORMAT (files of unequal length, named with the line where the shorter ends; a line that
 * is not text; no example left), STATE (a word without a token), ARGUMENT, CANCELLED, and as
 * fv_lines_open does.
 */
FV_API FV_MUST_USE fv_status fv_corpus_load(fv_ctx *ctx, const char *const *paths,
                                            const fv_tokenizer *const *tokenizers, size_t sides,
                                            const fv_corpus_config *cfg, fv_corpus **out);
/* NULL is fine; *corpus becomes NULL. Before the context. */
FV_API void fv_corpus_destroy(fv_corpus **corpus);

FV_API int64_t fv_corpus_count(const fv_corpus *corpus);
/* Tokens of each example, all sides together, at least 1: what fv_batches_create takes. */
FV_API const int64_t *fv_corpus_lengths(const fv_corpus *corpus);
/* The line an example comes from, from 1. */
FV_API uint64_t fv_corpus_line(const fv_corpus *corpus, int64_t example);

/* Where the tokens of one side of some examples lie, and how many they are. The tokens stay until
 * the corpus is destroyed. Fails: INDEX (no such side or example). */
FV_API FV_MUST_USE fv_status fv_corpus_sequences(const fv_corpus *corpus, size_t side,
                                                 const int64_t *examples, int64_t count,
                                                 const int64_t **tokens, int64_t *lengths);

typedef struct fv_corpus_stats {
    size_t struct_size;                /* set by the caller */
    uint64_t lines;                    /* of each file, as far as they were read */
    uint64_t invalid, empty, too_long; /* examples left out */
    uint64_t tokens[FV_CORPUS_SIDES];  /* of the examples kept */
} fv_corpus_stats;

FV_API void fv_corpus_stats_get(const fv_corpus *corpus, fv_corpus_stats *out);

#ifdef __cplusplus
}
#endif
#endif
