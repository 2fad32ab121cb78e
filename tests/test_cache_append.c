/* Storing keys and values: the kernel against plain loops for every type and layout, one launch for
 * each layer, room that doubles, and a cache of bf16. */
#include "kernels/cache.h"
#include "models/transformer_cache.h"
#include "support/kernels.h"
#include "support/launches.h"
#include "support/transformers.h"

enum { BATCH = 3, N = 4, HEADS = 2, DK = 5, DV = 17, ROWS_KEPT = 6, ROOM = 7, TOKENS = BATCH * N };

/* Rows and positions of twelve tokens, all different; two are padding. */
static const double places[2 * TOKENS] = {0, 0, 5, -1, 2, 2, 2, 4, -1, 1, 3, 5,
                                          6, 0, 3, 0,  1, 2, 0, 6, 0,  5, 5, 0};

/* k [batch, heads, n, d] as a view of [batch, n, heads, d] if `by_token`. */
static void set_strides(fv_cache_append_args *a, bool by_token)
{
    for (int i = 0; i < 2; i++) {
        const int64_t d = a->width[i];
        a->stride[i][0] = N * HEADS * d;
        a->stride[i][1] = by_token ? d : N * d;
        a->stride[i][2] = by_token ? HEADS * d : d;
    }
}

static void check_stored(const fv_cache_append_args *a, int which, vec cache, vec in, vec before)
{
    const int64_t d = a->width[which], *stride = a->stride[which];
    vec expected = vec_copy(before), rounded = vec_new(a->to, 1);
    for (int i = 0; i < TOKENS; i++) {
        if (places[i] < 0) continue;
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t c = 0; c < d; c++) {
                const int64_t from = i / N * stride[0] + h * stride[1] + i % N * stride[2] + c;
                const int64_t slot = (int64_t)places[i] * ROOM + (int64_t)places[TOKENS + i];
                vec_set(rounded, 0, vec_get(in, from));
                vec_set(expected, (slot * HEADS + h) * d + c, vec_get(rounded, 0));
            }
    }
    CHECK(vec_same_bits(cache, expected));
}

static void every_type_and_layout(void)
{
    static const fv_dtype from[] = {FV_F32, FV_F64, FV_BF16, FV_F32, FV_F64};
    static const fv_dtype to[] = {FV_F32, FV_F64, FV_BF16, FV_BF16, FV_F32};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        for (int by_token = 0; by_token < 2; by_token++) {
            fv_cache_append_args a = {.batch = BATCH,
                                      .n = N,
                                      .heads = HEADS,
                                      .rows = ROWS_KEPT,
                                      .room = ROOM,
                                      .width = {DK, DV},
                                      .to = to[i],
                                      .from = from[i]};
            set_strides(&a, by_token);
            vec k = vec_random(from[i], TOKENS * HEADS * DK, -2, 2);
            vec v = vec_random(from[i], TOKENS * HEADS * DV, -2, 2);
            vec keys = vec_random(to[i], ROWS_KEPT * ROOM * HEADS * DK, -9, 9);
            vec values = vec_random(to[i], ROWS_KEPT * ROOM * HEADS * DV, -9, 9);
            vec old_keys = vec_copy(keys), old_values = vec_copy(values);
            vec place = vec_of(FV_I64, 2 * TOKENS, places);
            const bool fault =
                kernel_run(FV_KERNEL_CACHE_APPEND, from[i],
                           PTRS(keys.data, values.data, k.data, v.data, place.data), &a);
            CHECK(!fault); /* padding is none */
            check_stored(&a, 0, keys, k, old_keys);
            check_stored(&a, 1, values, v, old_values);
            vec_free_all();
        }
}

/* ---- in a cache -------------------------------------------------------------------------- */

enum { STEPS = 40 };

typedef struct decoded {
    float logits[STEPS][COUNT * VOCABULARY];
    size_t bytes;
} decoded;

static fv_transformer_config decoder_config(fv_family family)
{
    fv_transformer_config cfg = small_config(family);
    cfg.max_positions = 100;
    return cfg;
}

/* Steps of rows of different lengths. `watch`: also counts launches. */
static void decode(fv_family family, fv_dtype dtype, bool watch, decoded *out)
{
    const fv_transformer_config cfg = decoder_config(family);
    small s = small_make(&cfg);
    fv_cache *cache = NULL;
    fill_sequences();
    const fv_sequences prompts = all_of(s.t);
    CHECK_OK(s.ctx, fv_cache_create(s.t, &cache));
    CHECK_EQ(cache->dtype, FV_F32); /* the default of the CPU */
    CHECK_OK(s.ctx, fv_cache_set_dtype(cache, dtype));
    if (watch) launches_watch(s.ctx);
    CHECK_OK(s.ctx, fv_cache_begin(cache, &prompts, NULL, 0));
    if (watch) CHECK_EQ(launches_of(FV_KERNEL_CACHE_APPEND), cfg.decoder_layers);
    for (int i = 0; i < STEPS; i++) {
        int64_t next[COUNT];
        for (int r = 0; r < COUNT; r++)
            next[r] = (i + 3 * r) % VOCABULARY;
        if (watch) launches_watch(s.ctx);
        fv_scope_begin(s.ctx);
        fv_tensor *token = fv_from_host(s.ctx, FV_I64, 1, (int64_t[]){COUNT}, next);
        fv_tensor *logits = fv_cache_step(s.ctx, cache, token);
        CHECK_OK(s.ctx, fv_tensor_read(s.ctx, logits, out->logits[i], sizeof out->logits[i]));
        fv_scope_end(s.ctx);
        if (watch) CHECK_EQ(launches_of(FV_KERNEL_CACHE_APPEND), cfg.decoder_layers);
    }
    out->bytes = fv_cache_bytes(cache);
    fv_cache_destroy(&cache);
    small_free(&s);
}

static void one_launch_for_each_layer(void)
{
    static decoded d;
    decode(FV_FAMILY_GPT2, FV_F32, true, &d);
    decode(FV_FAMILY_LLAMA, FV_BF16, true, &d);
}

static void bf16_halves_the_cache(void)
{
    static const fv_family families[] = {FV_FAMILY_GPT2, FV_FAMILY_LLAMA};
    for (int f = 0; f < 2; f++) {
        static decoded exact, rounded;
        double most = 0, apart = 0;
        decode(families[f], FV_F32, false, &exact);
        decode(families[f], FV_BF16, false, &rounded);
        CHECK_EQ(exact.bytes, 2 * rounded.bytes);
        for (int i = 0; i < STEPS; i++)
            for (int j = 0; j < COUNT * VOCABULARY; j++) {
                const double x = (double)exact.logits[i][j], y = (double)rounded.logits[i][j];
                most = fmax(most, fabs(x));
                apart = fmax(apart, fabs(x - y));
            }
        CHECK(apart > 0 && apart < 0.02 * most); /* bf16 has 8 bits: 2^-8 of each factor */
    }
}

/* What is stored is the f32 key rounded once. */
static void stored_keys_are_rounded(void)
{
    const fv_transformer_config cfg = decoder_config(FV_FAMILY_LLAMA);
    small s = small_make(&cfg);
    fv_cache *cache[2] = {NULL, NULL};
    fill_sequences();
    const fv_sequences prompts = one_of(s.t, 0);
    fv_tensor *keys[2];
    for (int i = 0; i < 2; i++) {
        CHECK_OK(s.ctx, fv_cache_create(s.t, &cache[i]));
        CHECK_OK(s.ctx, fv_cache_set_dtype(cache[i], i ? FV_BF16 : FV_F32));
        CHECK_OK(s.ctx, fv_cache_begin(cache[i], &prompts, NULL, 4));
        fv_tensor *part =
            fv_cache_part(s.ctx, cache[i]->layers[0].k, 0, 1, 0, fv_cache_length(cache[i], 0));
        keys[i] = fv_cast(s.ctx, part, FV_BF16);
    }
    uint16_t x[2][1024];
    CHECK(keys[0]->count > 10 && keys[0]->count <= 1024);
    for (int i = 0; i < 2; i++)
        CHECK_OK(s.ctx, fv_tensor_read(s.ctx, keys[i], x[i], (size_t)keys[i]->count * 2));
    CHECK(memcmp(x[0], x[1], (size_t)keys[0]->count * 2) == 0);
    for (int i = 0; i < 2; i++)
        fv_cache_destroy(&cache[i]);
    small_free(&s);
}

static void room_doubles_up_to_the_context(void)
{
    const fv_transformer_config cfg = decoder_config(FV_FAMILY_GPT2);
    small s = small_make(&cfg);
    fv_cache *cache = NULL;
    const int64_t start[1] = {1}, *list = start, one = 1;
    const fv_sequences prompt = {.count = 1, .tokens = &list, .length = &one};
    static const int64_t expected[][2] = {{1, 1}, {2, 32}, {33, 64}, {65, 100}, {100, 100}};
    CHECK_OK(s.ctx, fv_cache_create(s.t, &cache));
    CHECK_OK(s.ctx, fv_cache_begin(cache, &prompt, NULL, 0));
    for (int64_t n = 1, at = 0; n <= 100; n++) {
        fv_scope_begin(s.ctx);
        CHECK(fv_tensor_valid(
            fv_cache_step(s.ctx, cache, fv_from_host(s.ctx, FV_I64, 1, &one, start))));
        fv_scope_end(s.ctx);
        if (n == expected[at + 1][0]) at++;
        CHECK_EQ(cache->room, expected[at][1]);
    }
    fv_cache_step(s.ctx, cache, fv_from_host(s.ctx, FV_I64, 1, &one, start));
    CHECK_EQ(fv_ctx_take_error(s.ctx), FV_ERR_LIMIT);
    fv_cache_destroy(&cache);
    small_free(&s);
}

static void wrong_types_and_places_are_refused(void)
{
    const fv_transformer_config cfg = decoder_config(FV_FAMILY_GPT2);
    small s = small_make(&cfg);
    fv_cache *cache = NULL;
    CHECK_OK(s.ctx, fv_cache_create(s.t, &cache));
    CHECK_EQ(fv_cache_set_dtype(cache, FV_F16), FV_ERR_DTYPE);
    CHECK(strstr(fv_ctx_message(s.ctx), "f16 is not supported; expected f32 or bf16"));
    fv_tensor *to[2], *k = fv_zeros(s.ctx, FV_F32, 4, (int64_t[]){1, 2, 3, 4});
    for (int i = 0; i < 2; i++)
        to[i] = fv_zeros(s.ctx, FV_F32, 4, (int64_t[]){2, 5, 2, 4});
    static const int64_t rows[2][3] = {{0, 1, 2}, {0, 1, 1}}, first[2][3] = {{0, 0, 0}, {0, 1, 5}};
    for (int i = 0; i < 2; i++) { /* a row, then a position, that the cache does not have */
        fv_cache_append(s.ctx, to, k, k, fv_cache_places(s.ctx, 3, rows[i], first[i], NULL, 0));
        CHECK_EQ(fv_ctx_take_error(s.ctx), FV_ERR_INDEX);
    }
    fv_cache_append(s.ctx, to, k, k, fv_cache_places(s.ctx, 2, NULL, NULL, NULL, 0));
    CHECK_EQ(fv_ctx_take_error(s.ctx), FV_ERR_INTERNAL);
    fv_cache_destroy(&cache);
    small_free(&s);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    kernel_level(fv_simd_detect());
    RUN(every_type_and_layout);
    RUN(one_launch_for_each_layer);
    RUN(bf16_halves_the_cache);
    RUN(stored_keys_are_rounded);
    RUN(room_doubles_up_to_the_context);
    RUN(wrong_types_and_places_are_refused);
    return TEST_END();
}
