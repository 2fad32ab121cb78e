/*
 * A small vqa model and a batch for it: rows 0 and 1 have one picture; questions have 3, 1 and 4
 * words.
 *
 *     fv_ctx *ctx = run_context(1, 5);
 *     fv_model *model = vqa_model(ctx, vqa_words);
 *     const fv_batch batch = vqa_batch(vqa_shared);
 */
#ifndef FV_TESTS_VQA_H
#define FV_TESTS_VQA_H

#include "models/vqa.h"
#include "support/runs.h"

enum { SIDE = 8, GRID = 4, CELLS = GRID * GRID, WIDTH = 6, WORD = 5, HIDDEN = 7, ANSWERS = 4 };
enum { ROWS = 3, MOST_WORDS = 4, HEADS = 2 };

extern const run_setting vqa_words[], vqa_one_hop[], vqa_maps[], vqa_pool[], vqa_self[];

/* source is NULL if memory runs out. */
fv_data_spec vqa_spec(fv_ctx *ctx);
fv_model *vqa_model(fv_ctx *ctx, const run_setting *settings);

extern float vqa_pictures[2][3 * SIDE * SIDE];
extern const int64_t vqa_tokens[ROWS][MOST_WORDS], vqa_lengths[ROWS];
/* Addresses of the pictures: one for rows 0 and 1, or a copy for each row. */
extern const void *const vqa_shared[ROWS], *const vqa_copied[ROWS];
fv_batch vqa_batch(const void *const *rows);

#endif
