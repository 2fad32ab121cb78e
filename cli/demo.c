/*
 * fovea demo: a network with one softmax-attention layer learns to sort letters. Output position
 * i asks "which letter is the i-th smallest?" and attends to the inputs; a trained layer's weights
 * are the permutation that sorts the word.
 *
 *     keys     K = embedding(letters)                             [n, d]
 *     queries  Q = relu(bag-of-letters W1^T + rank_i) W2^T        [n, d]
 *     weights  A = softmax(Q K^T / sqrt(d))                       [n, n]
 */
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "heatmap.h"
#include "options.h"
#include "output.h"

enum { LETTERS = 26, WORD = 8, WIDTH = 32, HIDDEN = 192, BATCH = 64, UNSEEN = 1000 };

typedef struct sorter {
    fv_tensor *letter, *bag, *rank, *query;
} sorter;

typedef struct words {
    int count;
    int64_t *letter; /* [count][WORD], 0..25, all different within a word */
    int64_t *target; /* [count][WORD]: input position of the i-th smallest */
} words;

/* ---- words ---------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void sort_positions(const int64_t *letter, int64_t *target)
{
    for (int j = 0; j < WORD; j++) {
        int rank = 0;
        for (int k = 0; k < WORD; k++)
            rank += letter[k] < letter[j];
        target[rank] = j;
    }
}

static void draw_words(words *w, int count, uint64_t *state)
{
    w->count = count;
    for (int b = 0; b < count; b++) {
        int64_t alphabet[LETTERS];
        for (int i = 0; i < LETTERS; i++)
            alphabet[i] = i;
        for (int i = 0; i < WORD; i++) {
            int j = i + (int)(next_random(state) % (uint64_t)(LETTERS - i));
            int64_t t = alphabet[i];
            alphabet[i] = alphabet[j];
            alphabet[j] = t;
        }
        memcpy(&w->letter[b * WORD], alphabet, WORD * sizeof *alphabet);
        sort_positions(&w->letter[b * WORD], &w->target[b * WORD]);
    }
}

/* ---- the network ---------------------------------------------------------------- */

static fv_tensor *parameter(fv_ctx *ctx, fv_params *params, const char *name, int64_t rows,
                            int64_t cols)
{
    double deviation = 1.0 / sqrt((double)cols);
    return fv_params_add(params, name,
                         fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){rows, cols}, 0.0, deviation));
}

static sorter make_sorter(fv_ctx *ctx, fv_params *params)
{
    return (sorter){
        .letter = parameter(ctx, params, "letter", LETTERS, WIDTH),
        .bag = parameter(ctx, params, "bag", HIDDEN, LETTERS),
        .rank = parameter(ctx, params, "rank", WORD, HIDDEN),
        .query = parameter(ctx, params, "query", WIDTH, HIDDEN),
    };
}

/* Scores of every output position for every input position: [batch, WORD, WORD]. */
static fv_tensor *scores(fv_ctx *ctx, const sorter *net, fv_tensor *letters)
{
    fv_tensor *keys = fv_embedding(ctx, net->letter, letters, -1);
    fv_tensor *bag = fv_sum(ctx, fv_one_hot(ctx, letters, LETTERS, FV_F32), 1, (int[]){1}, true);
    fv_tensor *hidden = fv_relu(ctx, fv_add(ctx, fv_linear(ctx, bag, net->bag, NULL), net->rank));
    fv_tensor *queries = fv_linear(ctx, hidden, net->query, NULL);
    fv_tensor *s = fv_matmul(ctx, queries, fv_transpose(ctx, keys, -1, -2));
    return fv_scale(ctx, s, 1.0 / sqrt((double)WIDTH));
}

static fv_tensor *host_letters(fv_ctx *ctx, const words *w)
{
    return fv_from_host(ctx, FV_I64, 2, (int64_t[]){w->count, WORD}, w->letter);
}

static fv_status train_step(fv_ctx *ctx, const sorter *net, fv_optim *optim, const words *w,
                            double lr, double *loss_out)
{
    fv_scope_begin(ctx);
    fv_tensor *flat =
        fv_reshape(ctx, scores(ctx, net, host_letters(ctx, w)), 2, (int64_t[]){-1, WORD});
    fv_tensor *target = fv_from_host(ctx, FV_I64, 1, (int64_t[]){w->count * WORD}, w->target);
    fv_tensor *loss = fv_cross_entropy(ctx, flat, target, -1, 0.0, FV_REDUCTION_MEAN);
    fv_status status = fv_tensor_item(ctx, loss, loss_out);
    if (status == FV_OK) status = fv_backward(ctx, loss);
    if (status == FV_OK) status = fv_optim_step(optim, lr, NULL);
    fv_scope_end(ctx);
    return status;
}

/* Attention weights of every word, on the host. */
static fv_status attend(fv_ctx *ctx, const sorter *net, const words *w, float *weights)
{
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *a = fv_softmax(ctx, scores(ctx, net, host_letters(ctx, w)), -1);
    fv_status status =
        fv_tensor_read(ctx, a, weights, (size_t)w->count * WORD * WORD * sizeof *weights);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

static int strongest(const float *row)
{
    int best = 0;
    for (int j = 1; j < WORD; j++)
        if (row[j] > row[best]) best = j;
    return best;
}

static fv_status sorted_share(fv_ctx *ctx, const sorter *net, const words *w, double *share)
{
    static float weights[UNSEEN * WORD * WORD];
    fv_status status = attend(ctx, net, w, weights);
    int right = 0;
    for (int b = 0; status == FV_OK && b < w->count; b++) {
        bool whole = true;
        for (int i = 0; i < WORD; i++)
            whole = whole && strongest(&weights[(b * WORD + i) * WORD]) == w->target[b * WORD + i];
        right += whole;
    }
    *share = (double)right / (double)w->count;
    return status;
}

/* ---- showing -------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void progress(int64_t step, int64_t steps, double loss, double seconds)
{
    bool live = isatty(STDERR_FILENO);
    bool last = step + 1 == steps;
    if (!live && (step + 1) % (steps / 10 > 0 ? steps / 10 : 1) != 0 && !last) return;
    if (live && (step + 1) % 25 != 0 && !last) return;
    double left = seconds / (double)(step + 1) * (double)(steps - step - 1);
    fprintf(stderr, "%sstep %lld of %lld   loss %.4f   %.1f s, about %.0f s left%s",
            live ? "\r\033[K" : "", (long long)step + 1, (long long)steps, loss, seconds, left,
            live && !last ? "" : "\n");
}

static fv_status show_word(fv_ctx *ctx, const sorter *net, const char *text)
{
    static const char *const ranks[WORD] = {"1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th"};
    int64_t letters[WORD];
    words w = {.count = 1, .letter = letters};
    char name[WORD][2], output[WORD][8], sorted[WORD + 1] = "";
    const char *col_labels[WORD], *row_labels[WORD];
    for (int i = 0; i < WORD; i++) {
        letters[i] = text[i] - 'a';
        name[i][0] = text[i];
        name[i][1] = '\0';
        col_labels[i] = name[i];
    }
    float weights[WORD * WORD];
    fv_status status = attend(ctx, net, &w, weights);
    if (status != FV_OK) return status;
    for (int i = 0; i < WORD; i++) {
        char letter = text[strongest(&weights[i * WORD])];
        cli_format(output[i], sizeof output[i], "%s %c", ranks[i], letter);
        row_labels[i] = output[i];
        sorted[i] = letter;
    }
    printf("\n  %s  ->  %s\n\n", text, sorted);
    fv_look_options shades;
    fv_look_options_init(&shades, sizeof shades);
    shades.colours = FV_COLOURS_HEAT;
    shades.high = 1;
    const fv_look_map map = {.rows = WORD,
                             .cols = WORD,
                             .values = weights,
                             .row_labels = row_labels,
                             .col_labels = col_labels,
                             .row_title = "outputs, and the letter each looks at most",
                             .col_title = "input"};
    return cli_heatmap_print(ctx, stdout, &map, &shades);
}

/* ---- the verb ------------------------------------------------------------------- */

static bool usable_word(const char *text)
{
    bool seen[LETTERS] = {false};
    if (strlen(text) != WORD) return false;
    for (int i = 0; i < WORD; i++) {
        if (text[i] < 'a' || text[i] > 'z' || seen[text[i] - 'a']) return false;
        seen[text[i] - 'a'] = true;
    }
    return true;
}

static int report_failure(fv_ctx *ctx, fv_status status)
{
    if (status == FV_ERR_CANCELLED || cli_cancelled) {
        fprintf(stderr, "\n");
        cli_error("interrupted");
        return CLI_INTERRUPTED;
    }
    cli_error("%s", fv_ctx_message(ctx));
    return cli_exit_code(status);
}

static fv_status train(fv_ctx *ctx, const sorter *net, fv_params *params, int64_t steps,
                       uint64_t seed)
{
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_ADAM);
    cfg.clip_norm = 1.0;
    fv_optim *optim = NULL;
    fv_status status = fv_optim_create(params, &cfg, &optim);
    fv_schedule rate = {.kind = FV_SCHEDULE_COSINE,
                        .lr = 4e-3,
                        .warmup = 50,
                        .total = (uint64_t)steps,
                        .floor = 1e-5};
    uint64_t state = seed;
    static int64_t letters[BATCH * WORD], targets[BATCH * WORD];
    words batch = {.letter = letters, .target = targets};
    double start = now(), loss = 0;
    for (int64_t step = 0; step < steps && status == FV_OK; step++) {
        draw_words(&batch, BATCH, &state);
        fv_ctx_set_step(ctx, (uint64_t)step, 0);
        status = train_step(ctx, net, optim, &batch, fv_schedule_at(&rate, (uint64_t)step), &loss);
        if (status == FV_OK) progress(step, steps, loss, now() - start);
    }
    fv_optim_destroy(&optim);
    return status;
}

static int run_demo(fv_ctx *ctx, const cli_call *call)
{
    uint64_t seed = (uint64_t)cli_int(call, "seed");
    fv_params *params = NULL;
    fv_status status = fv_params_create(ctx, &params);
    if (status != FV_OK) return report_failure(ctx, status);
    sorter net = make_sorter(ctx, params);
    fprintf(stderr, "Teaching one attention layer (%lld parameters) to sort %d letters ...\n",
            (long long)fv_params_elements(params), WORD);
    double start = now(), share = 0;
    status = train(ctx, &net, params, cli_int(call, "steps"), seed);
    double seconds = now() - start;
    static int64_t letters[UNSEEN * WORD], targets[UNSEEN * WORD];
    words unseen = {.letter = letters, .target = targets};
    uint64_t other = ~seed;
    draw_words(&unseen, UNSEEN, &other);
    if (status == FV_OK) status = sorted_share(ctx, &net, &unseen, &share);
    if (status == FV_OK) {
        printf("Trained in %.1f s. Sorts %.1f %% of %d words it never saw, without a mistake.\n",
               seconds, 100.0 * share, UNSEEN);
        status = show_word(ctx, &net, cli_text(call, "word"));
    }
    if (status == FV_OK)
        printf("\nTry another:  fovea demo --word quickbar     The code:  cli/demo.c\n");
    fv_params_destroy(&params);
    return status == FV_OK ? CLI_DONE : report_failure(ctx, status);
}

static int run(const cli_call *call)
{
    if (!usable_word(cli_text(call, "word"))) {
        cli_error("--word takes %d different letters from a to z, not '%s'", WORD,
                  cli_text(call, "word"));
        return CLI_USAGE;
    }
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = (int)cli_int(call, "threads");
    cfg.seed = (uint64_t)cli_int(call, "seed");
    cfg.cancel = &cli_cancelled;
    fv_ctx *ctx = NULL;
    fv_status status = fv_ctx_create(&cfg, &ctx);
    if (status != FV_OK) {
        cli_error("cannot start: %s", fv_status_name(status));
        return cli_exit_code(status);
    }
    int code = run_demo(ctx, call);
    fv_ctx_destroy(&ctx);
    return code;
}

static const cli_option options[] = {
    {.name = "word",
     .type = CLI_STRING,
     .fallback = "zebrafym",
     .metavar = "LETTERS",
     .help = "eight different letters to sort at the end"},
    {.name = "steps",
     .type = CLI_INT,
     .fallback = "4000",
     .least = 1,
     .most = 1e6,
     .metavar = "N",
     .help = "training steps"},
    {.name = "threads",
     .letter = 't',
     .type = CLI_INT,
     .fallback = "0",
     .least = 0,
     .most = 64,
     .metavar = "N",
     .help = "threads; 0 takes every CPU"},
    {.name = "seed",
     .type = CLI_INT,
     .fallback = "1",
     .least = 0,
     .most = 1e9,
     .metavar = "N",
     .help = "seed of weights and words"},
};

const cli_verb verb_demo = {
    .name = "demo",
    .about = "train a small sorter and show where it looks",
    .notes = "Needs no data. One softmax-attention layer learns in seconds to sort eight letters; "
             "its attention weights are printed as a heat map.",
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
