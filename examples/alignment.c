/*
 * Alignments emerge: a small encoder-decoder translates English noun phrases into French, where
 * adjectives follow their nouns. It is told which sentence belongs to which, never which word to
 * which; its attention finds out.
 *
 *     encoder   h = [GRU forward ; GRU backward] over the source
 *     decoder   s_t = GRU over the words so far
 *     a_t       = softmax_j(v . tanh(W s_t + U h_j))        additive attention
 *     p(y_t)    = softmax(W_o tanh(W_c [s_t ; c_t]))        c_t = sum_j a_tj h_j
 *
 *     alignment [picture.svg]
 */
#include <string.h>

#include "example.h"

enum { WIDTH = 32, BATCH = 32, STEPS = 300, LENGTH = 9, WORDS = 24 };

/* Words stand in pairs; 0 is the end, 1 the beginning. */
static const char *const english[WORDS] = {".",     "-",    "the",     "a",     "black", "white",
                                           "small", "slow", "fast",    "sad",   "cat",   "dog",
                                           "horse", "bird", "fish",    "sees",  "hears", "follows",
                                           "likes", "and",  "quietly", "often", "today", "here"};
static const char *const french[WORDS] = {
    ".",      "-",      "le",   "un",    "noir",      "blanc",   "menu",        "lent",
    "rapide", "triste", "chat", "chien", "cheval",    "oiseau",  "poisson",     "voit",
    "entend", "suit",   "aime", "et",    "doucement", "souvent", "aujourd'hui", "ici"};

typedef struct sentence {
    int64_t source[LENGTH], target[LENGTH];
} sentence;

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* the black cat: le chat noir. Returns how many words were written. */
static int noun_phrase(int64_t *source, int64_t *target, unsigned *state)
{
    const int64_t article = 2 + draw(state, 2), adjective = 4 + draw(state, 6),
                  noun = 10 + draw(state, 5);
    const int n = draw(state, 4) ? 3 : 2;
    source[0] = target[0] = article;
    source[1] = n == 3 ? adjective : noun;
    target[1] = noun;
    if (n == 3) source[2] = noun, target[2] = adjective;
    return n;
}

static void make_sentence(sentence *s, unsigned *state)
{
    memset(s, 0, sizeof *s);
    int n = noun_phrase(s->source, s->target, state);
    s->source[n] = s->target[n] = 15 + draw(state, 4);
    n++;
    n += noun_phrase(s->source + n, s->target + n, state);
    if (n < LENGTH - 1 && draw(state, 2)) {
        s->source[n] = s->target[n] = 20 + draw(state, 4);
        n++;
    }
}

typedef struct model {
    fv_tensor *source, *target, *forth, *forth_h, *back, *back_h, *decode, *decode_h, *query, *key,
        *score, *mix, *out;
} model;

static fv_tensor *parameter(fv_ctx *ctx, fv_params *params, const char *name, int64_t rows,
                            int64_t cols)
{
    return fv_params_add(
        params, name,
        fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){rows, cols}, 0, 1 / sqrt((double)cols)));
}

static model make_model(fv_ctx *ctx, fv_params *p)
{
    enum { GATES = 3 * WIDTH };
    return (model){
        .source = parameter(ctx, p, "source", WORDS, WIDTH),
        .target = parameter(ctx, p, "target", WORDS, WIDTH),
        .forth = parameter(ctx, p, "forth", GATES, WIDTH),
        .forth_h = parameter(ctx, p, "forth_h", GATES, WIDTH),
        .back = parameter(ctx, p, "back", GATES, WIDTH),
        .back_h = parameter(ctx, p, "back_h", GATES, WIDTH),
        .decode = parameter(ctx, p, "decode", GATES, WIDTH),
        .decode_h = parameter(ctx, p, "decode_h", GATES, WIDTH),
        .query = parameter(ctx, p, "query", WIDTH, WIDTH),
        .key = parameter(ctx, p, "key", WIDTH, 2 * WIDTH),
        .score = parameter(ctx, p, "score", 1, WIDTH),
        .mix = parameter(ctx, p, "mix", WIDTH, 3 * WIDTH),
        .out = parameter(ctx, p, "out", WORDS, WIDTH),
    };
}

/* [T, B, width] -> [B, 1, T, width], one head. */
static fv_tensor *rows_of(fv_ctx *ctx, fv_tensor *h)
{
    return fv_unsqueeze(ctx, fv_transpose(ctx, h, 0, 1), 1);
}

/* Logits [B, LENGTH, WORDS] with the right words before each; the weights through `out`. */
static fv_tensor *translate(fv_ctx *ctx, const model *m, const sentence *s, int64_t count,
                            fv_attention_result *out)
{
    static int64_t source[LENGTH * BATCH], before[LENGTH * BATCH];
    for (int64_t b = 0; b < count; b++)
        for (int64_t t = 0; t < LENGTH; t++) {
            source[t * count + b] = s[b].source[t];
            before[t * count + b] = t == 0 ? 1 : s[b].target[t - 1];
        }
    const int64_t shape[] = {LENGTH, count};
    fv_tensor *x = fv_embedding(ctx, m->source, fv_from_host(ctx, FV_I64, 2, shape, source), -1);
    fv_tensor *y = fv_embedding(ctx, m->target, fv_from_host(ctx, FV_I64, 2, shape, before), -1);
    fv_tensor *both[] = {
        fv_gru(ctx, fv_linear(ctx, x, m->forth, NULL), m->forth_h, NULL, NULL, false, NULL),
        fv_gru(ctx, fv_linear(ctx, x, m->back, NULL), m->back_h, NULL, NULL, true, NULL)};
    fv_tensor *h = rows_of(ctx, fv_concat(ctx, 2, both, -1));
    fv_tensor *decoded = rows_of(
        ctx, fv_gru(ctx, fv_linear(ctx, y, m->decode, NULL), m->decode_h, NULL, NULL, false, NULL));
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = FV_ATTENTION_ADDITIVE;
    how.want_weights = true;
    fv_attention_input in = {.q = decoded,
                             .k = h,
                             .v = h,
                             .w = fv_reshape(ctx, m->score, 1, (int64_t[]){WIDTH}),
                             .w_q = m->query,
                             .w_k = m->key};
    fv_tensor *parts[] = {decoded, fv_attention_run(ctx, &in, &how, out)};
    fv_tensor *mixed = fv_tanh(ctx, fv_linear(ctx, fv_concat(ctx, 2, parts, -1), m->mix, NULL));
    return fv_linear(ctx, fv_squeeze(ctx, mixed, 1), m->out, NULL);
}

static int words_in(const int64_t *word)
{
    int n = 0;
    while (n < LENGTH && word[n] != 0)
        n++;
    return n < LENGTH ? n + 1 : n; /* with the full stop */
}

/* Share of content words whose strongest weight lies on the word they translate. */
static double aligned_share(const sentence *s, const float *weights, int count)
{
    int right = 0, all = 0;
    for (int b = 0; b < count; b++)
        for (int t = 0; t < words_in(s[b].target) - 1; t++) {
            const float *row = weights + (b * LENGTH + t) * LENGTH;
            int best = 0;
            for (int j = 1; j < LENGTH; j++)
                if (row[j] > row[best]) best = j;
            right += s[b].source[best] == s[b].target[t];
            all++;
        }
    return (double)right / all;
}

static void show(fv_ctx *ctx, const sentence *s, const float *weights, const char *path)
{
    const char *rows[LENGTH], *cols[LENGTH];
    const int n_rows = words_in(s->target), n_cols = words_in(s->source);
    for (int t = 0; t < LENGTH; t++) {
        rows[t] = french[s->target[t]];
        cols[t] = english[s->source[t]];
    }
    show_map(ctx,
             &(fv_look_map){.rows = n_rows,
                            .cols = n_cols,
                            .stride = LENGTH,
                            .values = weights,
                            .row_labels = rows,
                            .col_labels = cols,
                            .title = "adjective and noun change places"},
             NULL, path);
}

int main(int argc, char **argv)
{
    fv_ctx *ctx = example_start(FV_SIMD_AUTO);
    fv_params *params = NULL;
    must(ctx, fv_params_create(ctx, &params));
    const model m = make_model(ctx, params);
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_ADAM);
    cfg.clip_norm = 1;
    fv_optim *optim = NULL;
    must(ctx, fv_optim_create(params, &cfg, &optim));
    static sentence batch[BATCH];
    static int64_t target[BATCH * LENGTH], predicted[BATCH * LENGTH];
    unsigned state = 3;
    fv_attention_result out;
    for (int step = 0; step < STEPS; step++) {
        for (int b = 0; b < BATCH; b++) {
            make_sentence(&batch[b], &state);
            memcpy(target + b * LENGTH, batch[b].target, sizeof batch[b].target);
        }
        fv_scope_begin(ctx);
        fv_tensor *logits = translate(ctx, &m, batch, BATCH, &out);
        fv_tensor *right = fv_from_host(ctx, FV_I64, 2, (int64_t[]){BATCH, LENGTH}, target);
        fv_tensor *loss = fv_cross_entropy(ctx, logits, right, -1, 0, FV_REDUCTION_MEAN);
        double value = 0;
        must(ctx, fv_tensor_item(ctx, loss, &value));
        must(ctx, fv_backward(ctx, loss));
        must(ctx, fv_optim_step(optim, 0.01, NULL));
        fv_scope_end(ctx);
        if ((step + 1) % 50 == 0) printf("step %3d   loss %.4f\n", step + 1, value);
    }
    for (int b = 0; b < BATCH; b++)
        make_sentence(&batch[b], &state);
    /* The one that is shown has both adjectives. */
    static const sentence shown = {.source = {2, 4, 10, 15, 3, 9, 11, 22, 0},
                                   .target = {2, 10, 4, 15, 3, 11, 9, 22, 0}};
    batch[0] = shown;
    fv_no_grad_begin(ctx);
    fv_tensor *logits = translate(ctx, &m, batch, BATCH, &out);
    static float weights[BATCH * LENGTH * LENGTH];
    read_floats(ctx, out.weights, weights);
    must(ctx, fv_tensor_read(ctx, fv_argmax(ctx, logits, -1, false), predicted, sizeof predicted));
    int right = 0, all = 0;
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t < words_in(batch[b].target); t++, all++)
            right += predicted[b * LENGTH + t] == batch[b].target[t];
    const double aligned = aligned_share(batch, weights, BATCH);
    printf("\nright words in new sentences: %.1f %%\n", 100.0 * right / all);
    printf("strongest weight on the word that is translated: %.1f %%\n\n", 100 * aligned);
    show(ctx, &batch[0], weights, argc > 1 ? argv[1] : NULL);
    claim(right >= 0.98 * all, "it translates");
    claim(aligned >= 0.9, "it learns the alignment without supervision");
    fv_optim_destroy(&optim);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
    return 0;
}
