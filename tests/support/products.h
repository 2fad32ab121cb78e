/* Operands for tests of matrix products. */
#ifndef FV_TESTS_PRODUCTS_H
#define FV_TESTS_PRODUCTS_H

#include <stddef.h>
#include <stdint.h>

/* In [-1, 1), the same ones in every run of a test program. */
float product_random(void);

/* Memory aligned to 64 bytes and filled with NaN, for free(); exits if out of memory. */
void *product_memory(size_t bytes);
float *product_randoms(int64_t count);

/* `data`: that many bytes, a multiple of 64, which end at an unreadable page. */
typedef struct product_wall {
    void *data, *map;
    size_t map_bytes;
} product_wall;
product_wall product_wall_make(size_t bytes);
void product_wall_free(product_wall *wall);

/* Nearest bf16, ties to even, computed independently of the library. */
float product_bf16(float x);

#endif
