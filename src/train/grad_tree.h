/*
 * The sum of the gradients of a step's parts, in an order that depends on the part numbers alone:
 *
 *     ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
 *
 * a binary tree, so that processes that compute runs of 1, 2, 4 ... parts each and then add their
 * sums get the bits of one process that computes all of them.
 *
 *     fv_grad_tree tree = {.params = params};
 *     for (int64_t part = 0; part < parts; part++) {
 *         ... backward: the leaves hold the gradient of this part ...
 *         s = fv_grad_tree_add(&tree, part);      // takes it from the leaves
 *     }
 *     fv_grad_tree_finish(&tree);                 // the leaves hold the sum
 *     fv_grad_tree_free(&tree);
 */
#ifndef FV_TRAIN_GRAD_TREE_H
#define FV_TRAIN_GRAD_TREE_H

#include "tensor/params.h"

enum { FV_GRAD_TREE_LEVELS = 40 };

typedef struct fv_grad_tree {
    fv_params *params;
    /* Sums of 2^i neighbouring parts, one tensor for each parameter (NULL: no gradient reached it);
     * NULL: there is none at the moment. At most log2(parts) + 1 are in use. */
    fv_tensor **sum[FV_GRAD_TREE_LEVELS];
} fv_grad_tree;

/* Parts come in order from 0 on. The leaves have no gradients afterwards. Fails: MEMORY, and the
 * context's error. */
fv_status fv_grad_tree_add(fv_grad_tree *tree, int64_t part);
/* Gives the sum to the leaves, which must have no gradients. Fails: the context's error. */
fv_status fv_grad_tree_finish(fv_grad_tree *tree);
/* Frees what was not given away; a zeroed tree is fine. */
void fv_grad_tree_free(fv_grad_tree *tree);

#endif
