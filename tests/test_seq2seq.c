/*
 * Recurrent encoder-decoders. Training sees all steps of a batch at once, a search one step of some
 * rows: both must give the same result, for every combination of parts.
 */
#include "fovea/seq2seq.h"

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "models/seq2seq.h"
#include "support/seq2seq.h"
#include "support/tensors.h"
#include "support/test.h"

enum { PAIRS = 3, SOURCE = 11, TARGET = 7, LONGEST_X = 6, LONGEST_Y = 4 };

static fv_ctx *ctx;

static const int64_t xa[] = {2, 5, 9}, xb[] = {3, 1, 4, 8, 10, 6}, xc[] = {7};
static const int64_t ya[] = {3, 2, 6, 5}, yb[] = {4, 4}, yc[] = {0};
static const int64_t *const xs[PAIRS] = {xa, xb, xc}, *const ys[PAIRS] = {ya, yb, yc};
static const int64_t x_lengths[PAIRS] = {3, 6, 1}, y_lengths[PAIRS] = {4, 2, 0};

/* Pictures with as many cells as the longest source has tokens. */
enum { HIGH = 4, WIDE = 6, CELLS = LONGEST_X };
static float pictures[PAIRS][HIGH * WIDE];
static const void *const picture_rows[PAIRS] = {pictures[0], pictures[1], pictures[2]};

static void draw_pictures(void)
{
    for (int p = 0; p < PAIRS; p++)
        for (int i = 0; i < HIGH * WIDE; i++)
            pictures[p][i] =
                (float)(0.5 + 0.5 * sin((2.3 - p) * (i / WIDE) + (0.4 + 0.9 * p) * (i % WIDE)));
}

/* Frames of which a pyramid of one layer makes as many states as a source has tokens; two rows have
 * a last frame without a neighbour. */
enum { FRAME = 3, LONGEST_FRAMES = 2 * LONGEST_X };
static float frames[PAIRS][LONGEST_FRAMES * FRAME];
static const void *const frame_rows[PAIRS] = {frames[0], frames[1], frames[2]};
static const int64_t frame_lengths[PAIRS] = {5, 12, 1};

static void draw_frames(void)
{
    for (int p = 0; p < PAIRS; p++)
        for (int i = 0; i < LONGEST_FRAMES * FRAME; i++)
            frames[p][i] = (float)sin(1 + 2 * p + (0.8 + 0.3 * p) * i);
}

static fv_batch pairs(int first, int count)
{
    fv_batch batch = fv_batch_of_pairs(
        &(fv_sequences){.count = count, .tokens = xs + first, .length = x_lengths + first},
        &(fv_sequences){.count = count, .tokens = ys + first, .length = y_lengths + first});
    fv_batch_add(&batch, (fv_field){.name = "pixels",
                                    .dtype = FV_F32,
                                    .rank = 3,
                                    .shape = {1, HIGH, WIDE},
                                    .row = picture_rows + first});
    fv_batch_add(&batch, (fv_field){.name = "frames",
                                    .dtype = FV_F32,
                                    .rank = 1,
                                    .shape = {FRAME},
                                    .row = frame_rows + first,
                                    .length = frame_lengths + first});
    return batch;
}

/* Positions of source p. */
static int64_t positions(const seq2seq_setting *s, int p)
{
    return s->encoder && strcmp(s->encoder, "grid") == 0 ? CELLS : x_lengths[p];
}

static bool is_hard(const seq2seq_setting *s) { return s->normaliser == FV_ATTENTION_HARD_SAMPLE; }

static fv_seq2seq *make(const seq2seq_setting *s, double dropout, fv_params **params)
{
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = SOURCE;
    cfg.target_tokens = TARGET;
    cfg.bos = 0;
    cfg.eos = 1;
    cfg.embedding = 5;
    cfg.cell = s->cell;
    cfg.layers = s->layers;
    cfg.bidirectional = !s->one_way;
    cfg.encoder_hidden = s->one_way ? 8 : 4;
    cfg.hidden = 8;
    cfg.reverse_source = s->reverse;
    if (s->encoder) cfg.encoder = (fv_encoder_kind)fv_encoder_part_find(s->encoder);
    cfg.decoder = s->decoder;
    cfg.score = s->score;
    cfg.normaliser = s->normaliser;
    cfg.half_width = 2;
    cfg.attention_width = 6;
    cfg.most_source = 9;
    cfg.input_feeding = !s->no_feeding;
    cfg.readout = s->readout;
    cfg.readout_width = s->tied ? 5 : 7;
    cfg.tied = s->tied;
    cfg.dropout = dropout;
    cfg.input_channels = 1;
    cfg.pyramid_layers = 1;
    cfg.positions = s->positions;
    cfg.positions_how = s->how;
    cfg.most_positions = 12;
    cfg.conv_layers = 2;
    cfg.conv_dilated = cfg.conv_causal = s->odd;
    cfg.conv_gated = !s->odd;
    cfg.self_heads = 2;
    if (s->odd) {
        cfg.self_head_width = 6; /* of a width of 8 */
        cfg.self_value_width = 3;
    }
    cfg.input_height = HIGH;
    cfg.input_width = s->encoder && strcmp(s->encoder, "pyramid") == 0 ? FRAME : WIDE;
    cfg.grid_stages = 2;
    cfg.grid_halvings = 1;
    cfg.grid_channels = 4;
    cfg.grid_rows = s->rows;
    cfg.grid_neighbours = s->neighbours;
    cfg.grid_coordinates = !s->no_places;
    fv_seq2seq *model = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, params));
    CHECK_OK(ctx, fv_seq2seq_create(*params, &cfg, &model));
    return model;
}

static void unmake(fv_seq2seq **model, fv_params **params)
{
    fv_seq2seq_destroy(model);
    fv_params_destroy(params);
}

static double loss_of(const fv_seq2seq *model, int first, int count, const fv_pass *training)
{
    const fv_batch batch = pairs(first, count);
    double value = NAN;
    fv_scope_begin(ctx);
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_seq2seq_loss(ctx, model, &batch, training), &value));
    fv_scope_end(ctx);
    return value;
}

/* Feeds given targets through the stepper, row by row, and sums what it thinks of them. */
static double stepped_loss(fv_seq2seq *model, float *weights)
{
    const fv_batch batch = pairs(0, PAIRS);
    fv_stepper s;
    CHECK_OK(ctx, fv_seq2seq_stepper(model, &batch, &s));
    CHECK_OK(ctx, s.begin(s.user, PAIRS));
    double sum = 0;
    int64_t row[PAIRS] = {0, 1, 2}, rows = PAIRS;
    for (int64_t t = 0; rows > 0; t++) {
        int64_t fed[PAIRS], from[PAIRS], kept = 0;
        float p[PAIRS * TARGET];
        for (int64_t r = 0; r < rows; r++)
            fed[r] = t == 0 ? s.bos : ys[row[r]][t - 1];
        fv_scope_begin(ctx);
        fv_no_grad_begin(ctx);
        fv_step_output got = {.logits = NULL};
        CHECK_OK(ctx, s.step(s.user, ctx, fv_from_host(ctx, FV_I64, 1, &rows, fed), true, &got));
        fv_tensor *seen = got.weights;
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_log_softmax(ctx, got.logits, -1), p,
                                     (size_t)(rows * TARGET) * sizeof *p));
        float w[PAIRS * LONGEST_X];
        if (seen)
            CHECK_OK(ctx, fv_tensor_read(ctx, seen, w, (size_t)(rows * LONGEST_X) * sizeof *w));
        for (int64_t r = 0; seen && r < rows; r++)
            memcpy(weights + (row[r] * (LONGEST_Y + 1) + t) * LONGEST_X, w + r * LONGEST_X,
                   LONGEST_X * sizeof *w);
        fv_no_grad_end(ctx);
        fv_scope_end(ctx);
        for (int64_t r = 0; r < rows; r++) {
            const bool last = t == y_lengths[row[r]];
            sum -= (double)p[r * TARGET + (last ? s.eos : ys[row[r]][t])];
            if (last) continue;
            from[kept] = r;
            row[kept++] = row[r];
        }
        if (kept > 0 && kept < rows) CHECK_OK(ctx, s.select(s.user, kept, from));
        rows = kept;
    }
    return sum;
}

static void steps_and_sequences_agree(void)
{
    for (int i = 0; i < seq2seq_setting_count; i++) {
        fv_params *params = NULL;
        fv_seq2seq *model = make(&seq2seq_settings[i], 0, &params);
        static float stepped[PAIRS * (LONGEST_Y + 1) * LONGEST_X], aligned[sizeof stepped / 4];
        memset(stepped, 0, sizeof stepped);
        const double whole = loss_of(model, 0, PAIRS, NULL), step = stepped_loss(model, stepped);
        if (!(fabs(whole - step) < 2e-5 * whole))
            test_failed(__FILE__, __LINE__, "%s: %.7g at once, %.7g in steps",
                        seq2seq_settings[i].name, whole, step);
        double parts = 0;
        for (int p = 0; p < PAIRS; p++)
            parts += loss_of(model, p, 1, NULL);
        CHECK_NEAR(parts, whole, 2e-5 * whole);
        if (seq2seq_settings[i].decoder != FV_DECODER_FIXED) {
            const fv_batch batch = pairs(0, PAIRS);
            fv_scope_begin(ctx);
            fv_tensor *a = fv_seq2seq_align(ctx, model, &batch);
            CHECK_OK(ctx, fv_tensor_read(ctx, a, aligned, sizeof aligned));
            fv_scope_end(ctx);
            for (size_t k = 0; k < sizeof aligned / sizeof *aligned; k++)
                CHECK_NEAR(aligned[k], stepped[k], 1e-6);
        }
        unmake(&model, &params);
    }
}

/* Rows of soft attention sum to one over the source's own tokens; what is past an end is 0. */
static void alignments_are_distributions(void)
{
    for (int i = 0; i < seq2seq_setting_count; i++) {
        const seq2seq_setting *s = &seq2seq_settings[i];
        if (s->decoder == FV_DECODER_FIXED) continue;
        fv_params *params = NULL;
        fv_seq2seq *model = make(s, 0, &params);
        float a[PAIRS][LONGEST_Y + 1][LONGEST_X];
        const fv_batch batch = pairs(0, PAIRS);
        fv_scope_begin(ctx);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_seq2seq_align(ctx, model, &batch), a, sizeof a));
        fv_scope_end(ctx);
        for (int p = 0; p < PAIRS; p++)
            for (int t = 0; t <= LONGEST_Y; t++) {
                double sum = 0, past = 0;
                for (int j = 0; j < LONGEST_X; j++)
                    *(j < positions(s, p) ? &sum : &past) += (double)a[p][t][j];
                CHECK(past == 0);
                if (t > y_lengths[p]) CHECK(sum == 0);
                const bool seen =
                    s->normaliser != FV_ATTENTION_LOCAL_M || t - 2 < (int)positions(s, p);
                if (t <= y_lengths[p] && s->normaliser != FV_ATTENTION_LOCAL_P)
                    CHECK_NEAR(sum, seen ? 1 : 0, 1e-5);
                for (int j = 0; is_hard(s) && j < LONGEST_X; j++)
                    CHECK(a[p][t][j] == 0 || a[p][t][j] == 1);
            }
        unmake(&model, &params);
    }
}

static void a_fixed_context_has_no_alignment(void)
{
    fv_params *params = NULL;
    fv_seq2seq *model = make(&seq2seq_settings[3], 0, &params);
    const fv_batch batch = pairs(0, PAIRS);
    CHECK(!fv_tensor_valid(fv_seq2seq_align(ctx, model, &batch)));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_UNSUPPORTED);
    unmake(&model, &params);
}

/* How much of a gradient the scores of hard attention get, with these weights of its two terms;
 * *value is the loss. */
static double hard_gradient(const seq2seq_setting *s, double reward, double entropy, double *value)
{
    fv_params *params = NULL;
    fv_ctx_set_step(ctx, 4, 0); /* the same first weights each time */
    fv_seq2seq *model = make(s, 0, &params);
    model->cfg.hard_reward = reward;
    model->cfg.hard_entropy = entropy;
    const fv_batch batch = pairs(0, PAIRS);
    const fv_pass training = {.training = true, .sampling = 0};
    const bool additive = s->score == FV_ATTENTION_ADDITIVE;
    fv_tensor *w = fv_params_find(params, additive ? "attention.query.weight" : "attention.weight");
    double size = NAN;
    fv_scope_begin(ctx);
    fv_ctx_set_step(ctx, 5, 0);
    fv_tensor *loss = fv_seq2seq_loss(ctx, model, &batch, &training);
    CHECK_OK(ctx, fv_tensor_item(ctx, loss, value));
    CHECK_OK(ctx, fv_backward(ctx, loss));
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_norm(ctx, fv_grad(ctx, w), 0, NULL, false), &size));
    fv_scope_end(ctx);
    unmake(&model, &params);
    return size;
}

/* Only the estimator's terms reach the scores; they change no value, and the same step draws the
 * same places. */
static void hard_attention_learns_by_trying(void)
{
    for (int i = 0; i < seq2seq_setting_count; i++) {
        if (!is_hard(&seq2seq_settings[i])) continue;
        double plain, rewarded, spread;
        CHECK(hard_gradient(&seq2seq_settings[i], 0, 0, &plain) == 0);
        CHECK(hard_gradient(&seq2seq_settings[i], 1, 0, &rewarded) > 1e-6);
        CHECK(hard_gradient(&seq2seq_settings[i], 0, 1, &spread) > 1e-6);
        CHECK(isfinite(plain) && plain == rewarded && plain == spread);
    }
}

/* ---- what hard attention measures by ------------------------------------------------- */

/* Adds one draw's gradient of the scores to the sums of it and of its squares; returns ln p(y|s) of
 * a token. */
static double draw_gradient(fv_seq2seq *model, fv_tensor *w, uint64_t step, double *sum,
                            double *squares)
{
    const fv_batch batch = pairs(0, PAIRS);
    const fv_pass training = {.training = true, .sampling = 0};
    double loss = 0;
    fv_scope_begin(ctx);
    fv_ctx_set_step(ctx, step, 0);
    fv_tensor *t = fv_seq2seq_loss(ctx, model, &batch, &training);
    CHECK_OK(ctx, fv_tensor_item(ctx, t, &loss));
    CHECK_OK(ctx, fv_backward(ctx, t));
    float *g = tensor_floats(ctx, fv_grad(ctx, w));
    for (int64_t i = 0; i < fv_tensor_count(w); i++) {
        sum[i] += (double)g[i];
        squares[i] += (double)g[i] * (double)g[i];
    }
    free(g);
    fv_zero_grad(ctx, w);
    fv_scope_end(ctx);
    return -loss / (double)fv_batch_target_tokens(&batch);
}

/* The variance of the estimated gradient of the scores, all elements together, when choices are
 * measured by `usual`. */
static double spread_of_draws(fv_seq2seq *model, fv_tensor *w, double usual)
{
    enum { DRAWS = 400, MOST_ELEMENTS = 512 };
    double sum[MOST_ELEMENTS] = {0}, squares[MOST_ELEMENTS] = {0}, spread = 0;
    CHECK(fv_tensor_count(w) <= MOST_ELEMENTS);
    for (int d = 0; d < DRAWS; d++) {
        int64_t counters[FV_MODEL_COUNTERS] = {1};
        memcpy(&counters[1], &usual, sizeof usual);
        CHECK_OK(ctx, fv_seq2seq_set_counters(model, counters));
        draw_gradient(model, w, 100 + (uint64_t)d, sum, squares);
    }
    for (int64_t i = 0; i < fv_tensor_count(w); i++)
        spread += squares[i] / DRAWS - pow(sum[i] / DRAWS, 2);
    return spread;
}

static double usual_of(fv_seq2seq *model, int64_t *steps)
{
    int64_t counters[FV_MODEL_COUNTERS];
    double value;
    fv_seq2seq_get_counters(model, counters);
    memcpy(&value, &counters[1], sizeof value);
    *steps = counters[0];
    return value;
}

static const seq2seq_setting *hard_setting(void)
{
    int i = 0;
    while (!is_hard(&seq2seq_settings[i]))
        i++;
    return &seq2seq_settings[i];
}

/* The average moves as it is written down, is the same however a step is cut, and can be set. */
static void the_usual_moves_with_the_steps(void)
{
    fv_params *params = NULL;
    fv_seq2seq *model = make(hard_setting(), 0, &params);
    fv_tensor *w = fv_params_find(params, "attention.query.weight");
    double sum[512] = {0}, squares[512] = {0}, expected = 0, value = 0;
    int64_t steps = 0;
    for (uint64_t step = 0; step < 4; step++) {
        const double mean = draw_gradient(model, w, step, sum, squares);
        expected = step ? 0.9 * expected + 0.1 * mean : mean;
        value = usual_of(model, &steps);
        CHECK_NEAR(value, expected, 1e-5);
        CHECK_EQ(steps, (int64_t)step + 1);
    }
    CHECK(value == usual_of(model, &steps) && steps == 4); /* asking changes nothing */
    /* Two parts of one step are measured alike and taken in together. */
    CHECK(fv_seq2seq_baseline(model, 9, -3, 1) == value);
    CHECK(fv_seq2seq_baseline(model, 9, -1, 3) == value);
    CHECK_NEAR(usual_of(model, &steps), 0.9 * value + 0.1 * -1.5, 1e-12);
    CHECK_EQ(steps, 5);
    /* What is not finite is skipped, as the optimizer skips its step. */
    value = usual_of(model, &steps);
    CHECK(fv_seq2seq_baseline(model, 10, NAN, 3) == value);
    CHECK(usual_of(model, &steps) == value && steps == 5);
    model->cfg.hard_decay = 0; /* a batch's own mean */
    CHECK(fv_seq2seq_baseline(model, 11, -7, 2) == -7);
    int64_t counters[FV_MODEL_COUNTERS] = {-1};
    CHECK_EQ(fv_seq2seq_set_counters(model, counters), FV_ERR_FORMAT);
    unmake(&model, &params);
}

/* Measured by what the moving average has learnt, gradients scatter less than without it, and an
 * absurd average is worse than none. */
static void the_usual_lowers_the_variance(void)
{
    fv_params *params = NULL;
    fv_ctx_set_step(ctx, 4, 0);
    fv_seq2seq *model = make(hard_setting(), 0, &params);
    fv_tensor *w = fv_params_find(params, "attention.query.weight");
    double sum[512] = {0}, squares[512] = {0};
    int64_t steps = 0;
    for (uint64_t step = 0; step < 20; step++)
        draw_gradient(model, w, step, sum, squares);
    const double usual = usual_of(model, &steps);
    const double with = spread_of_draws(model, w, usual), without = spread_of_draws(model, w, 0);
    CHECK(with < 0.5 * without);
    CHECK(spread_of_draws(model, w, 4 * usual) > without);
    unmake(&model, &params);
}

/* The slope along the gradient, by differences: catches a part that was left out of the walk. */
static void gradients_point_downhill(void)
{
    for (int i = 0; i < seq2seq_setting_count; i++) {
        if (is_hard(&seq2seq_settings[i])) continue; /* a choice has no slope */
        fv_params *params = NULL;
        fv_seq2seq *model = make(&seq2seq_settings[i], 0, &params);
        const fv_batch batch = pairs(0, PAIRS);
        fv_scope_begin(ctx);
        CHECK_OK(ctx, fv_backward(ctx, fv_seq2seq_loss(ctx, model, &batch, NULL)));
        fv_scope_end(ctx);
        for (int p = 0; p < fv_params_count(params); p++) {
            static float w[512], g[512], moved[512];
            fv_tensor *t = fv_params_tensor(params, p), *grad = fv_grad(ctx, t);
            const size_t n = (size_t)fv_tensor_count(t), bytes = n * sizeof *w;
            CHECK(n <= 512 && grad != NULL);
            if (n > 512 || !grad) continue;
            CHECK_OK(ctx, fv_tensor_read(ctx, t, w, bytes));
            CHECK_OK(ctx, fv_tensor_read(ctx, grad, g, bytes));
            double norm = 0;
            for (size_t k = 0; k < n; k++)
                norm += (double)g[k] * (double)g[k];
            norm = sqrt(norm);
            if (norm < 1e-4) continue; /* below what float differences can show */
            double side[2];
            const double step = norm > 3 ? 0.001 : 0.005; /* a steep loss also bends more */
            for (int d = 0; d < 2; d++) {
                for (size_t k = 0; k < n; k++)
                    moved[k] = (float)((double)w[k] + (d ? step : -step) * (double)g[k] / norm);
                CHECK_OK(ctx, fv_tensor_write(ctx, t, moved, bytes));
                side[d] = loss_of(model, 0, PAIRS, NULL);
            }
            CHECK_OK(ctx, fv_tensor_write(ctx, t, w, bytes));
            const double slope = (side[1] - side[0]) / (2 * step);
            if (!(fabs(slope - norm) < 0.02 * norm + 3e-3))
                test_failed(__FILE__, __LINE__, "%s: %s: slope %.5g, gradient %.5g",
                            seq2seq_settings[i].name, fv_params_name(params, p), slope, norm);
        }
        unmake(&model, &params);
    }
}

static uint64_t most_steps(const seq2seq_setting *s)
{
    return is_hard(s) || s->decoder == FV_DECODER_ATTENTION ? 500 : 250;
}

/* Without norms and residuals large steps do not settle. */
static double rate_of(const seq2seq_setting *s)
{
    return s->decoder == FV_DECODER_ATTENTION ? 0.005 : 0.02;
}

/* Everything trains: some hundred steps learn three pairs by heart, and the search finds them; hard
 * attention, which tries places, and attention without residuals need more of them. */
static void learns_by_heart(void)
{
    for (int i = 0; i < seq2seq_setting_count; i++) {
        fv_params *params = NULL;
        fv_seq2seq *model = make(&seq2seq_settings[i], 0, &params);
        fv_optim_config how;
        fv_optim_config_init(&how, sizeof how, FV_OPTIM_ADAM);
        fv_optim *optim = NULL;
        CHECK_OK(ctx, fv_optim_create(params, &how, &optim));
        const fv_batch batch = pairs(0, PAIRS);
        const fv_pass training = {.training = true, .sampling = i % 2 ? 0.2 : 0};
        for (uint64_t step = 0; step < most_steps(&seq2seq_settings[i]); step++) {
            fv_scope_begin(ctx);
            fv_ctx_set_step(ctx, step, 0);
            CHECK_OK(ctx, fv_backward(ctx, fv_seq2seq_loss(ctx, model, &batch, &training)));
            CHECK_OK(ctx, fv_optim_step(optim, rate_of(&seq2seq_settings[i]), NULL));
            fv_scope_end(ctx);
        }
        for (int beam = 1; beam <= 4; beam += 3) {
            fv_stepper stepper;
            fv_outputs *out = NULL;
            fv_search_config cfg;
            fv_search_config_init(&cfg, sizeof cfg);
            cfg.beam = beam;
            const int64_t most[PAIRS] = {8, 8, 8};
            CHECK_OK(ctx, fv_seq2seq_stepper(model, &batch, &stepper));
            CHECK_OK(ctx, fv_search(ctx, &stepper, PAIRS, most, &cfg, &out));
            for (int p = 0; out && p < PAIRS; p++) {
                const fv_output *o = fv_outputs_get(out, p, 0);
                const bool same =
                    o && o->count == y_lengths[p] &&
                    memcmp(o->tokens, ys[p], (size_t)o->count * sizeof *o->tokens) == 0;
                if (!same)
                    test_failed(__FILE__, __LINE__, "%s: pair %d", seq2seq_settings[i].name, p);
            }
            fv_outputs_free(&out);
        }
        fv_optim_destroy(&optim);
        unmake(&model, &params);
    }
}

static void parts_that_do_not_fit_are_named(void)
{
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = cfg.target_tokens = 9;
    fv_params *params = NULL;
    fv_seq2seq *model = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    fv_seq2seq_config bad = cfg;
    bad.score = FV_ATTENTION_DOT;
    bad.hidden = 100;
    CHECK_EQ(fv_seq2seq_create(params, &bad, &model), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "needs equal widths"));
    bad = cfg;
    bad.eos = 9;
    CHECK_EQ(fv_seq2seq_create(params, &bad, &model), FV_ERR_ARGUMENT);
    bad = cfg;
    bad.embedding = 0;
    CHECK_EQ(fv_seq2seq_create(params, &bad, &model), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "embedding is 0"));
    bad = cfg;
    bad.tied = true;
    bad.readout_width = 64;
    CHECK_EQ(fv_seq2seq_create(params, &bad, &model), FV_ERR_ARGUMENT);
    CHECK(model == NULL && fv_params_count(params) == 0);
    fv_params_destroy(&params);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    draw_pictures();
    draw_frames();
    RUN(steps_and_sequences_agree);
    RUN(alignments_are_distributions);
    RUN(a_fixed_context_has_no_alignment);
    RUN(gradients_point_downhill);
    RUN(hard_attention_learns_by_trying);
    RUN(the_usual_moves_with_the_steps);
    RUN(the_usual_lowers_the_variance);
    RUN(learns_by_heart);
    RUN(parts_that_do_not_fit_are_named);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
