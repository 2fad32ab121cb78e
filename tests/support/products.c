#include "support/products.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

product_wall product_wall_make(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    product_wall w = {.map_bytes = (bytes + page - 1) / page * page + page};
    w.map = mmap(NULL, w.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (w.map == MAP_FAILED || mprotect((char *)w.map + w.map_bytes - page, page, PROT_NONE) != 0)
        exit(1);
    w.data = (char *)w.map + w.map_bytes - page - bytes;
    return w;
}

void product_wall_free(product_wall *wall) { munmap(wall->map, wall->map_bytes); }

/* Whole units of the 8-bit significand, found with frexp. */
float product_bf16(float x)
{
    int exponent;
    if (x == 0 || !isfinite(x)) return x;
    const double part = frexp((double)x, &exponent);
    return (float)ldexp(nearbyint(ldexp(part, 8)), exponent - 8);
}
