/*
 * Tiles in plain C, for tests (tile.h). After an operation that the CPU would refuse, because of
 * tiles without a shape or shapes that do not match, every store writes NaN.
 */
#ifndef FV_KERNELS_SIMD_TILE_EMULATED_H
#define FV_KERNELS_SIMD_TILE_EMULATED_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct tile_state {
    tile_config config;
    unsigned char tile[TILE_COUNT][TILE_ROWS][TILE_ROW_BYTES];
    bool refused;
} tile_state;

static inline void tile_begin(tile_state *s) { memset(s, 0, sizeof *s); }

static inline void tile_clear(tile_state *s)
{
    memset(&s->config, 0, sizeof s->config);
    memset(s->tile, 0, sizeof s->tile);
}
static inline void tile_end(tile_state *s) { tile_clear(s); }

static inline void tile_configure(tile_state *s, const tile_config *config)
{
    tile_clear(s);
    if (config->palette == TILE_PALETTE) s->config = *config;
}

static inline bool tile_has_shape(const tile_state *s, int t)
{
    const int rows = s->config.rows[t], bytes = s->config.row_bytes[t];
    return rows >= 1 && rows <= TILE_ROWS && bytes >= 1 && bytes <= TILE_ROW_BYTES;
}

static inline void tile_zero(tile_state *s, int t)
{
    memset(s->tile[t], 0, sizeof s->tile[t]);
    if (!tile_has_shape(s, t)) s->refused = true;
}

/* Bytes past a row and rows past the last become zero. */
static inline void tile_load(tile_state *s, int t, const void *from, int64_t step)
{
    tile_zero(s, t);
    for (int row = 0; tile_has_shape(s, t) && row < s->config.rows[t]; row++)
        memcpy(s->tile[t][row], (const char *)from + row * step, s->config.row_bytes[t]);
}

static inline void tile_store(tile_state *s, int t, void *to, int64_t step)
{
    if (!tile_has_shape(s, t)) s->refused = true;
    if (s->refused) memset(s->tile[t], 0xff, sizeof s->tile[t]);
    for (int row = 0; tile_has_shape(s, t) && row < s->config.rows[t]; row++)
        memcpy((char *)to + row * step, s->tile[t][row], s->config.row_bytes[t]);
}

static inline float tile_flush(float x) { return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x; }

static inline float tile_widen(const unsigned char *row, int element)
{
    uint16_t half;
    memcpy(&half, row + 2 * element, sizeof half);
    const uint32_t word = (uint32_t)half << 16;
    float x;
    memcpy(&x, &word, sizeof x);
    return tile_flush(x);
}

/* x y + sum, of operands that are zero or at least 2^-126. A CPU decides what is below 2^-126 by
 * the result rounded to 24 bits with any exponent; fmaf rounds to fewer bits there, and may reach
 * 2^-126 from a little further. Near 2^-126 the sum in double is exact enough to tell. */
static inline float tile_fma(float x, float y, float sum)
{
    const float r = fmaf(x, y, sum);
    if (fabsf(r) <= FLT_MIN && fabs((double)x * (double)y + (double)sum) < 0x1p-126 - 0x1p-151)
        return copysignf(0.0f, r);
    return r;
}

static inline bool tile_shapes_match(const tile_state *s, int c, int a, int b)
{
    const tile_config *f = &s->config;
    return tile_has_shape(s, a) && tile_has_shape(s, b) && tile_has_shape(s, c) && a != b &&
           a != c && b != c && f->rows[c] == f->rows[a] && f->row_bytes[c] == f->row_bytes[b] &&
           f->row_bytes[a] == 4 * f->rows[b] && f->row_bytes[c] % 4 == 0;
}

static inline void tile_dot_bf16(tile_state *s, int c, int a, int b)
{
    if (!tile_shapes_match(s, c, a, b)) {
        s->refused = true;
        return;
    }
    const int pairs = s->config.rows[b], cols = s->config.row_bytes[c] / 4;
    for (int m = 0; m < s->config.rows[c]; m++) {
        float even[TILE_ROW_BYTES / 4] = {0}, odd[TILE_ROW_BYTES / 4] = {0};
        for (int k = 0; k < pairs; k++) {
            const float x = tile_widen(s->tile[a][m], 2 * k);
            const float y = tile_widen(s->tile[a][m], 2 * k + 1);
            for (int n = 0; n < cols; n++) {
                even[n] = tile_fma(x, tile_widen(s->tile[b][k], 2 * n), even[n]);
                odd[n] = tile_fma(y, tile_widen(s->tile[b][k], 2 * n + 1), odd[n]);
            }
        }
        for (int n = 0; n < cols; n++) {
            float sum;
            memcpy(&sum, s->tile[c][m] + 4 * n, sizeof sum);
            sum = tile_flush(tile_flush(sum) + tile_flush(even[n] + odd[n]));
            memcpy(s->tile[c][m] + 4 * n, &sum, sizeof sum);
        }
    }
}

#endif
