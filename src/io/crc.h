/*
 * Cyclic redundancy checks, eight bytes per step. Tables are built on use (a few microseconds), so
 * that there is neither a generated file nor a global.
 *
 *     fv_crc_init(&crc, FV_CRC32C);
 *     uint32_t sum = fv_crc_add(&crc, 0, data, n);   // 0, or the sum so far
 */
#ifndef FV_IO_CRC_H
#define FV_IO_CRC_H

#include <stddef.h>
#include <stdint.h>

#define FV_CRC32  0xEDB88320u /* zip; reflected polynomial */
#define FV_CRC32C 0x82F63B78u /* Castagnoli */

typedef struct fv_crc {
    uint32_t table[8][256];
} fv_crc;

void fv_crc_init(fv_crc *crc, uint32_t polynomial);
uint32_t fv_crc_add(const fv_crc *crc, uint32_t sum, const void *data, size_t n);

#endif
