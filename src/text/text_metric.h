/*
 * The inside of a scorer: each segment becomes one row of whole numbers (the metric's sufficient
 * statistics); rows are added, and a score is computed from a sum.
 */
#ifndef FV_TEXT_SCORER_H
#define FV_TEXT_SCORER_H

#include "fovea/score.h"
#include "text/ngrams.h"
#include "text/runes.h"

/* Symbols of one text. */
typedef struct fv_symbols {
    uint32_t *items;
    size_t count, room;
} fv_symbols;

/* BLEU: two lengths, matches and totals of each order. chrF: hypothesis, reference and match count
 * of each order. */
enum { FV_SCORE_WIDTH = 3 * 2 * FV_SCORE_ORDERS };

struct fv_scorer {
    fv_ctx *ctx;
    fv_score_config cfg;
    int64_t *rows;
    size_t segments, row_room; /* rows, and values that fit */
    size_t width;
    size_t references; /* of each segment */
    bool references_vary;
    fv_ngrams chars, words;
    fv_runes runes;
    fv_text lowered, tokens, spare;
    fv_symbols symbols;
};

/* ---- words ----------------------------------------------------------------------- */

/* White space as Python's split() has it. */
bool fv_score_is_space(uint32_t code);

/* Calls fv_ngrams_word for each word between white space; fills scorer->symbols. */
fv_status fv_score_words(fv_scorer *scorer, const char *text, size_t bytes);
/* The same for BLEU's tokenizers. `text` has no white space at its end. */
fv_status fv_score_tokenize(fv_scorer *scorer, const char *text, size_t bytes);

fv_status fv_symbols_put(fv_scorer *scorer, uint32_t symbol);

/* ---- the metrics ----------------------------------------------------------------- */

typedef struct fv_score_kind {
    size_t (*width)(const fv_score_config *cfg);
    /* Fills one row. */
    fv_status (*count)(fv_scorer *scorer, fv_string hypothesis, const fv_string *references,
                       size_t count, int64_t *row);
    /* The score of a row or of a sum of rows; fills what belongs to the metric in `out`, if given.
     */
    double (*compute)(const fv_score_config *cfg, const int64_t *row, fv_score_result *out);
    /* The metric's part of the signature, and its name. */
    void (*describe)(const fv_score_config *cfg, char *signature, size_t signature_bytes,
                     char *name, size_t name_bytes);
} fv_score_kind;

extern const fv_score_kind fv_score_bleu, fv_score_chrf;

#endif
