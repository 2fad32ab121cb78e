/* Operands for tests of matrix products. */
#ifndef FV_TESTS_PRODUCTS_H
#define FV_TESTS_PRODUCTS_H

#include <stddef.h>
#include <stdint.h>

/* In [-1, 1), the same ones in every run of a test program. */
float product_random(void);

/* Aligned to 64 bytes and full of NaN; ends the program if there is none. free() takes it back. */
void *product_memory(size_t bytes);
float *product_randoms(int64_t count);

/* Nearest bf16, ties to even, by other means than the library's. */
float product_bf16(float x);

#endif
