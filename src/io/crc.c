#include "io/crc.h"

void fv_crc_init(fv_crc *crc, uint32_t polynomial)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t r = byte;
        for (int bit = 0; bit < 8; bit++)
            r = r & 1 ? r >> 1 ^ polynomial : r >> 1;
        crc->table[0][byte] = r;
    }
    /* table[k][b] is the effect of byte b on the sum k bytes later. */
    for (int k = 1; k < 8; k++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t r = crc->table[k - 1][byte];
            crc->table[k][byte] = r >> 8 ^ crc->table[0][r & 0xFF];
        }
}

uint32_t fv_crc_add(const fv_crc *crc, uint32_t sum, const void *data, size_t n)
{
    const unsigned char *p = data;
    sum = ~sum;
    for (; n >= 8; n -= 8, p += 8) {
        sum ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        sum = crc->table[7][sum & 0xFF] ^ crc->table[6][sum >> 8 & 0xFF] ^
              crc->table[5][sum >> 16 & 0xFF] ^ crc->table[4][sum >> 24] ^ crc->table[3][p[4]] ^
              crc->table[2][p[5]] ^ crc->table[1][p[6]] ^ crc->table[0][p[7]];
    }
    for (; n > 0; n--, p++)
        sum = sum >> 8 ^ crc->table[0][(sum ^ *p) & 0xFF];
    return ~sum;
}
