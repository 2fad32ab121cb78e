/*
 * The parts of model kind `vqa`: a picture and a question to one of the known answers.
 *
 *     kind_vqa.c       keys, creation, the question, the classifier, passes
 *     vqa_grid.c       convolutions to the cells v_1 .. v_c of a grid
 *     vqa_forms.c      the forms: how the question reads the cells
 *     vqa_attention.c  the weights of cells, and what is read with them
 *
 * With w_t the words, s_t = E w_t their vectors and q the last state of an LSTM over them:
 *
 *     words  e_i = max_t v_i . W s_t                    (Xu and Saenko 2016)
 *            o_0 = sum_i softmax(e)_i v_i
 *            e'_i = v_i . W_1 relu(U_1 [q ; o_0])       with vqa.hops = 2
 *            o_1 = sum_i softmax(e')_i v_i
 *     maps   e^g_i = w_g . relu(A v_i + B q)            two maps, g = 0, 1
 *            o_g = sum_i softmax(e^g)_i v_i             (Kazemi and Elqursh 2017)
 *
 *     pool   o = [v_1 ; .. ; v_c]                       no attention
 *
 *     self   x_0 = Q q, x_i = C v_i + B q; Transformer blocks over x_0 .. x_c; o = norm(x_0)
 *
 * Logits are C_2 relu(C_1 [q ; o ..]).
 */
#ifndef FV_MODELS_VQA_H
#define FV_MODELS_VQA_H

#include "fovea/image.h"
#include "fovea/recurrent.h"
#include "models/batch_norms.h"
#include "models/model.h"
#include "models/picture_input.h"

enum { FV_VQA_STAGES = 8, FV_VQA_HOPS = 2, FV_VQA_MAPS = 2, FV_VQA_LAYERS = 16 };

typedef struct fv_vqa fv_vqa;

typedef struct fv_vqa_question {
    fv_tensor *vector;  /* q [n, width] */
    fv_tensor *words;   /* s [n, words, embedding] */
    fv_tensor *padding; /* u8 [n, words]: 1 past the end */
} fv_vqa_question;

/* A form: a constant table. */
typedef struct fv_vqa_form {
    const char *name;
    int64_t (*features)(const fv_vqa *m); /* width of what run returns */
    fv_status (*create)(fv_vqa *m, fv_params *params);
    /* What the question reads from cells [n, cells, width]: [n, features]. */
    fv_tensor *(*run)(fv_ctx *ctx, const fv_vqa *m, fv_tensor *cells, const fv_vqa_question *q,
                      const fv_pass *pass);
    int (*sites)(const fv_vqa *m, fv_site *out, int capacity);
} fv_vqa_form;

struct fv_vqa {
    fv_ctx *ctx;
    fv_picture_input in;
    const fv_vqa_form *form;
    int64_t channels, width, embedding, hidden, heads;
    int stages, halvings, hops, layers;
    double dropout;
    /* the grid */
    int64_t rows, cols;
    fv_batch_norms norms;
    struct {
        fv_conv2d_layer conv;
        int norm;
    } stage[FV_VQA_STAGES];
    fv_dense cells;
    /* the question */
    fv_tensor *table;
    fv_rnn rnn;
    /* forms */
    fv_dense word_key;                              /* words: W */
    fv_dense next[FV_VQA_HOPS], query[FV_VQA_HOPS]; /* words: U_k and W_k of hop k > 0 */
    fv_dense map_cells, map_question, map_scores;   /* maps: A, B, and w_g as rows */
    fv_dense first, place, about;                   /* self: Q, C, B */
    fv_block blocks[FV_VQA_LAYERS];
    fv_norm_layer norm;
    /* the classifier */
    fv_dense hidden_layer, classes;
};

/* The form of a number of the key vqa.form. */
const fv_vqa_form *fv_vqa_form_at(int form);

/* Convolutions and cells. Fails: ARGUMENT, MEMORY. */
fv_status fv_vqa_grid_create(fv_vqa *m, fv_params *params);
/* Cells [n, rows cols, width] of the batch's pictures. Rows that share a picture, by its address,
 * and follow each other share its convolutions too. */
fv_tensor *fv_vqa_grid_run(fv_ctx *ctx, fv_vqa *m, const fv_batch *batch, bool training);

/* ---- attention ------------------------------------------------------------------------------ */

/* softmax over i of max over t of cells_i . words_t: [n, cells] for cells [n, cells, d] and words
 * [n, words, d]. Words at which padding, u8 [n, words], is 1 do not count. *by_word, unless NULL:
 * softmax over i for each word alone, [n, words, cells]; 0 for padding. */
fv_tensor *fv_vqa_weights_by_words(fv_ctx *ctx, fv_tensor *cells, fv_tensor *words,
                                   fv_tensor *padding, fv_tensor **by_word);
/* softmax over i of cells_i . query: [n, cells] for query [n, d]. */
fv_tensor *fv_vqa_weights_by_vector(fv_ctx *ctx, fv_tensor *cells, fv_tensor *query);
/* sum over i of weights_i cells_i: [n, d]. */
fv_tensor *fv_vqa_read_cells(fv_ctx *ctx, fv_tensor *weights, fv_tensor *cells);

#endif
