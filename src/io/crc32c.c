#include "io/crc32c.h"

#include <string.h>

/* ---- zeros that follow ----------------------------------------------------------------------- */

/* A sum is a polynomial over GF(2) modulo that of the CRC, its highest bit the constant term. The
 * product of two. */
static uint32_t multiply(uint32_t polynomial, uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = (uint32_t)1 << 31; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = b & 1 ? b >> 1 ^ polynomial : b >> 1;
    }
    return product;
}

/* n zero bits that follow multiply a sum by x^n. */
static void shift_init(fv_crc_shift *shift, uint32_t polynomial, int log2_bytes)
{
    uint32_t power = (uint32_t)1 << 30; /* x */
    for (int k = 0; k < log2_bytes + 3; k++)
        power = multiply(polynomial, power, power);
    for (int k = 0; k < 4; k++) {
        shift->table[k][0] = 0;
        for (uint32_t byte = 1; byte < 256; byte++) {
            const uint32_t rest = byte & (byte - 1), lowest = byte ^ rest;
            shift->table[k][byte] = rest ? shift->table[k][rest] ^ shift->table[k][lowest]
                                         : multiply(polynomial, power, lowest << (8 * k));
        }
    }
}

static uint32_t shifted(const fv_crc_shift *shift, uint32_t sum)
{
    return shift->table[0][sum & 0xFF] ^ shift->table[1][sum >> 8 & 0xFF] ^
           shift->table[2][sum >> 16 & 0xFF] ^ shift->table[3][sum >> 24];
}

uint32_t fv_crc32c_join(const fv_crc32c *crc, uint32_t sum, uint32_t chunk)
{
    return shifted(&crc->chunk, sum) ^ chunk;
}

/* ---- the instruction ------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <nmmintrin.h>

bool fv_crc32c_has_hardware(void) { return true; }

static uint64_t word_at(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* The instruction takes three cycles and can start every cycle: three streams keep it busy. */
__attribute__((target("sse4.2"))) static uint32_t add_hardware(const fv_crc32c *crc, uint32_t sum,
                                                               const unsigned char *p, size_t n)
{
    uint64_t a = ~sum;
    for (; n >= 3 * (size_t)FV_CRC_STRIDE; n -= 3 * (size_t)FV_CRC_STRIDE) {
        uint64_t b = 0, c = 0;
        for (const unsigned char *end = p + FV_CRC_STRIDE; p < end; p += 8) {
            a = _mm_crc32_u64(a, word_at(p));
            b = _mm_crc32_u64(b, word_at(p + FV_CRC_STRIDE));
            c = _mm_crc32_u64(c, word_at(p + 2 * FV_CRC_STRIDE));
        }
        a = shifted(&crc->stride, (uint32_t)a) ^ b;
        a = shifted(&crc->stride, (uint32_t)a) ^ c;
        p += 2 * FV_CRC_STRIDE;
    }
    for (; n >= 8; n -= 8, p += 8)
        a = _mm_crc32_u64(a, word_at(p));
    uint32_t last = (uint32_t)a;
    for (; n > 0; n--, p++)
        last = _mm_crc32_u8(last, *p);
    return ~last;
}
#else
bool fv_crc32c_has_hardware(void) { return false; }

static uint32_t add_hardware(const fv_crc32c *crc, uint32_t sum, const unsigned char *p, size_t n)
{
    return fv_crc_add(&crc->plain, sum, p, n);
}
#endif

static void init(fv_crc32c *crc, uint32_t polynomial)
{
    fv_crc_init(&crc->plain, polynomial);
    shift_init(&crc->stride, polynomial, 12);
    shift_init(&crc->chunk, polynomial, 20);
    crc->hardware = false;
}

void fv_crc32c_init(fv_crc32c *crc, bool hardware)
{
    init(crc, FV_CRC32C);
    crc->hardware = hardware && fv_crc32c_has_hardware();
}

void fv_crc32c_init_zip(fv_crc32c *crc) { init(crc, FV_CRC32); }

uint32_t fv_crc32c_add(const fv_crc32c *crc, uint32_t sum, const void *data, size_t n)
{
    return crc->hardware ? add_hardware(crc, sum, data, n) : fv_crc_add(&crc->plain, sum, data, n);
}
