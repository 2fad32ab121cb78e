/*
 * CRC-32C of large files: the CPU's crc32 instruction where there is one, and sums of parts that
 * threads have computed apart. The tables of io/crc.h are the reference for both.
 *
 *     fv_crc32c_init(&crc, hardware);
 *     uint32_t sum = fv_crc32c_add(&crc, 0, data, n);
 */
#ifndef FV_IO_CRC32C_H
#define FV_IO_CRC32C_H

#include <stdbool.h>

#include "io/crc.h"

enum {
    FV_CRC_STRIDE = 4096,   /* bytes of each of three streams that the instruction runs over */
    FV_CRC_CHUNK = 1 << 20, /* bytes that one thread sums */
};

/* What a sum becomes when a fixed number of zero bytes follow, as one table for each byte of it. */
typedef struct fv_crc_shift {
    uint32_t table[4][256];
} fv_crc_shift;

typedef struct fv_crc32c {
    fv_crc plain;
    fv_crc_shift stride, chunk;
    bool hardware;
} fv_crc32c;

/* Whether this build has code for the instruction; the caller knows whether the CPU has it. */
bool fv_crc32c_has_hardware(void);

void fv_crc32c_init(fv_crc32c *crc, bool hardware);
/* ZIP's CRC-32 instead, which the instruction does not compute; the calls below are the same. */
void fv_crc32c_init_zip(fv_crc32c *crc);
uint32_t fv_crc32c_add(const fv_crc32c *crc, uint32_t sum, const void *data, size_t n);
/* The sum of some bytes and of FV_CRC_CHUNK more, from both sums. */
uint32_t fv_crc32c_join(const fv_crc32c *crc, uint32_t sum, uint32_t chunk);

#endif
