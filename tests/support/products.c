#include "support/products.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t random_state = 1;

float product_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) / 8388608.0f - 1.0f;
}

void *product_memory(size_t bytes)
{
    void *p = aligned_alloc(64, bytes / 64 * 64 + 64);
    if (!p) exit(1);
    memset(p, 0xff, bytes);
    return p;
}

float *product_randoms(int64_t count)
{
    float *x = product_memory((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = product_random();
    return x;
}

/* Whole units of the 8-bit significand, found with frexp. */
float product_bf16(float x)
{
    int exponent;
    if (x == 0 || !isfinite(x)) return x;
    const double part = frexp((double)x, &exponent);
    return (float)ldexp(nearbyint(ldexp(part, 8)), exponent - 8);
}
