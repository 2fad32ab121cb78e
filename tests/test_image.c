/*
 * Image operations and layers: PyTorch's numbers and gradients (fixtures/torch/image.safetensors),
 * what layers keep from call to call, and what is refused. Gradients are proved in test_grad.c,
 * equal bits in test_bits.c.
 */
#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/image.h"
#include "support/layerbench.h"
#include "support/tensors.h"

enum { MAX_LEAVES = 4 };

typedef struct fixture {
    bench b;
    fv_safetensors *file;
    const char *name;
    int n;
    fv_tensor *leaf[MAX_LEAVES];
    const char *part[MAX_LEAVES];
} fixture;

static fixture fixture_open(const char *name)
{
    fixture f = {.b = bench_new(), .name = name};
    CHECK_OK(f.b.ctx, fv_safetensors_open(f.b.ctx, test_path("fixtures/torch/image.safetensors"),
                                          FV_SAFETENSORS_COPY, &f.file));
    return f;
}

static fv_tensor *load(const fixture *f, const char *part, const char *suffix)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s%s", f->name, part, suffix);
    return fv_safetensors_load(f->b.ctx, f->file, name);
}

static fv_tensor *leaf(fixture *f, const char *part)
{
    f->part[f->n] = part;
    return f->leaf[f->n++] = fv_leaf(f->b.ctx, load(f, part, ""));
}

static void compare(const fixture *f, const char *part, const char *suffix, fv_tensor *ours)
{
    const double off = tensor_distance(f->b.ctx, ours, load(f, part, suffix));
    if (!(off <= 1e-5))
        test_failed(__FILE__, __LINE__, "%s.%s%s: off by %g", f->name, part, suffix, off);
}

/* Compares y with the file, sends the file's upstream gradient, compares the gradients of all
 * leaves. */
static void finish(fixture *f, fv_tensor *y)
{
    fv_ctx *ctx = f->b.ctx;
    compare(f, "out0", "", y);
    CHECK_OK(ctx, fv_backward_from(ctx, y, load(f, "out0", ".grad")));
    for (int i = 0; i < f->n; i++)
        compare(f, f->part[i], ".grad", fv_grad(ctx, f->leaf[i]));
    fv_safetensors_close(&f->file);
    bench_free(&f->b);
}

/* ---- operations ---------------------------------------------------------------------- */

static void torch_convolutions(void)
{
    fixture f = fixture_open("conv2d");
    const fv_conv2d_options how = {
        .stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 1}, .groups = 2};
    fv_tensor *x = leaf(&f, "in0"), *w = leaf(&f, "param.weight"), *b = leaf(&f, "param.bias");
    finish(&f, fv_conv2d(f.b.ctx, x, w, b, &how));
    f = fixture_open("conv_transpose2d");
    const fv_conv2d_options upward = {.stride = {3, 2},
                                      .padding = {2, 1},
                                      .dilation = {2, 1},
                                      .groups = 2,
                                      .output_padding = {2, 1}};
    x = leaf(&f, "in0"), w = leaf(&f, "param.weight"), b = leaf(&f, "param.bias");
    finish(&f, fv_conv_transpose2d(f.b.ctx, x, w, b, &upward));
}

static void torch_pooling(void)
{
    fixture f = fixture_open("max_pool2d");
    const fv_pool2d_options most = {.window = {3, 2}, .stride = {2, 0}, .padding = {1, 0}};
    finish(&f, fv_max_pool2d(f.b.ctx, leaf(&f, "in0"), &most));
    fv_pool2d_options mean = {.window = {3, 4}, .stride = {2, 3}, .padding = {1, 2}};
    f = fixture_open("avg_pool2d");
    finish(&f, fv_avg_pool2d(f.b.ctx, leaf(&f, "in0"), &mean));
    mean.exclude_padding = true;
    f = fixture_open("avg_pool2d_inside");
    finish(&f, fv_avg_pool2d(f.b.ctx, leaf(&f, "in0"), &mean));
    f = fixture_open("adaptive_max_pool2d");
    finish(&f, fv_adaptive_max_pool2d(f.b.ctx, leaf(&f, "in0"), 4, 3));
    f = fixture_open("adaptive_avg_pool2d");
    finish(&f, fv_adaptive_avg_pool2d(f.b.ctx, leaf(&f, "in0"), 4, 3));
}

static void torch_resizing(void)
{
    fixture f = fixture_open("resize_nearest");
    finish(&f, fv_resize_nearest(f.b.ctx, leaf(&f, "in0"), 9, 3));
    f = fixture_open("resize_bilinear");
    finish(&f, fv_resize_bilinear(f.b.ctx, leaf(&f, "in0"), 9, 3, false));
    f = fixture_open("resize_corners");
    finish(&f, fv_resize_bilinear(f.b.ctx, leaf(&f, "in0"), 9, 3, true));
}

/* ---- norms --------------------------------------------------------------------------- */

static void torch_group_norm(void)
{
    fixture f = fixture_open("group_norm");
    fv_tensor *x = leaf(&f, "in0"), *w = leaf(&f, "param.weight"), *b = leaf(&f, "param.bias");
    finish(&f, fv_group_norm(f.b.ctx, x, 3, w, b, 1e-5));
}

static void torch_batch_norm(void)
{
    fixture f = fixture_open("batch_norm");
    fv_ctx *ctx = f.b.ctx;
    fv_batch_norm_layer layer;
    CHECK_OK(ctx, fv_batch_norm_create(f.b.params, "norm", 3, 1e-5, 0.3, &layer));
    layer.weight = leaf(&f, "param.weight");
    layer.bias = leaf(&f, "param.bias");
    fv_tensor *y = fv_batch_norm_run(ctx, &layer, leaf(&f, "in0"), true);
    compare(&f, "running_mean", "", bench_parameter(&f.b, "norm.running_mean"));
    compare(&f, "running_var", "", bench_parameter(&f.b, "norm.running_var"));
    finish(&f, y);
}

static void torch_batch_norm_with_running_statistics(void)
{
    fixture f = fixture_open("batch_norm_eval");
    fv_ctx *ctx = f.b.ctx;
    fv_batch_norm_layer layer = {.eps = 1e-5, .momentum = 0.3};
    layer.weight = leaf(&f, "param.weight");
    layer.bias = leaf(&f, "param.bias");
    const char *name = f.name;
    f.name = "batch_norm";
    layer.running_mean = load(&f, "running_mean", "");
    layer.running_variance = load(&f, "running_var", "");
    f.name = name;
    finish(&f, fv_batch_norm_run(ctx, &layer, leaf(&f, "in0"), false));
}

/* Statistics are buffers of the set; a layer made in a set that has them uses them. */
static void batch_norm_keeps_its_statistics(void)
{
    bench b = bench_new();
    fv_batch_norm_layer layer, again;
    CHECK_OK(b.ctx, fv_batch_norm_create(b.params, "n", 2, 1e-5, 0.1, &layer));
    CHECK_EQ(fv_params_count(b.params), 4);
    CHECK(fv_params_is_buffer(b.params, 2) && fv_params_is_buffer(b.params, 3));
    CHECK_OK(b.ctx, fv_batch_norm_create(b.params, "n", 2, 1e-5, 0.1, &again));
    CHECK(layer.running_mean == again.running_mean);
    fv_tensor *x = fv_full(b.ctx, FV_F32, 4, (int64_t[]){1, 2, 2, 1}, 10);
    fv_batch_norm_run(b.ctx, &layer, x, false);
    fv_batch_norm_run(b.ctx, &layer, x, true);
    float mean[2] = {0}, variance[2] = {0};
    CHECK_OK(b.ctx, fv_tensor_read(b.ctx, layer.running_mean, mean, sizeof mean));
    CHECK_OK(b.ctx, fv_tensor_read(b.ctx, layer.running_variance, variance, sizeof variance));
    CHECK_NEAR(mean[0], 1, 1e-6); /* one training call: 0.9 0 + 0.1 10 */
    CHECK_NEAR(variance[1], 0.9, 1e-6);
    /* A single element has no variance: refused, and nothing changes. */
    fv_batch_norm_run(b.ctx, &layer, fv_zeros(b.ctx, FV_F32, 4, (int64_t[]){1, 2, 1, 1}), true);
    CHECK_EQ(fv_ctx_take_error(b.ctx), FV_ERR_SHAPE);
    CHECK_OK(b.ctx, fv_tensor_read(b.ctx, layer.running_mean, mean, sizeof mean));
    CHECK_NEAR(mean[0], 1, 1e-6);
    fv_batch_norm_run(b.ctx, &layer, fv_zeros(b.ctx, FV_F32, 4, (int64_t[]){1, 3, 1, 2}), true);
    CHECK_EQ(fv_ctx_take_error(b.ctx), FV_ERR_SHAPE);
    bench_free(&b);
}

static void check_spectral(const char *name, int axis)
{
    fixture f = fixture_open(name);
    fv_ctx *ctx = f.b.ctx;
    fv_tensor *w = leaf(&f, "param.weight"), *b = leaf(&f, "param.bias"), *x = leaf(&f, "in0");
    fv_spectral_norm norm = {.axis = axis, .iterations = 1, .eps = 1e-12};
    norm.u = load(&f, "u", "");
    norm.v = load(&f, "v", "");
    fv_tensor *scaled = fv_spectral_norm_run(ctx, &norm, w, true);
    compare(&f, "u_after", "", norm.u);
    compare(&f, "v_after", "", norm.v);
    /* Another call changes u and v, but not what the first one's backward uses. */
    fv_tensor *other = fv_scale(ctx, fv_detach(ctx, w), 1);
    CHECK_OK(ctx, fv_tensor_write(ctx, fv_slice(ctx, other, 0, 0, 1, 1),
                                  (float[20]){9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
                                  sizeof(float) * (size_t)fv_tensor_count(w) /
                                      (size_t)fv_tensor_size(w, 0)));
    fv_spectral_norm_run(ctx, &norm, other, true);
    finish(&f, (axis ? fv_conv_transpose2d : fv_conv2d)(ctx, x, scaled, b, NULL));
}

static void torch_spectral_norm(void)
{
    check_spectral("spectral_norm", 0);
    check_spectral("spectral_norm_transposed", 1);
}

/* diag(3, 1, 2) divided by 3, from the buffers that create makes. */
static void spectral_norm_finds_the_largest_singular_value(void)
{
    bench b = bench_new();
    const float matrix[9] = {1, 0, 0, 0, 3, 0, 0, 0, 2};
    fv_tensor *w = fv_from_host(b.ctx, FV_F32, 2, (int64_t[]){3, 3}, matrix);
    fv_spectral_norm norm;
    CHECK_OK(b.ctx, fv_spectral_norm_create(b.params, "s", w, 0, 0, 1e-12, &norm));
    CHECK_EQ(fv_params_count(b.params), 2);
    float y[9] = {0};
    CHECK_OK(b.ctx,
             fv_tensor_read(b.ctx, fv_spectral_norm_run(b.ctx, &norm, w, false), y, sizeof y));
    CHECK_NEAR(y[4], 1, 1e-3);
    CHECK_NEAR(y[8], 2.0 / 3.0, 1e-3);
    CHECK_EQ(fv_spectral_norm_create(b.params, "t", w, 2, 1, 1e-12, &norm), FV_ERR_ARGUMENT);
    fv_ctx_take_error(b.ctx);
    fv_spectral_norm_run(b.ctx, &norm, fv_zeros(b.ctx, FV_F32, 2, (int64_t[]){3, 2}), false);
    CHECK_EQ(fv_ctx_take_error(b.ctx), FV_ERR_SHAPE);
    bench_free(&b);
}

/* ---- layers and errors --------------------------------------------------------------- */

/* Weights and biases within 1 / sqrt(fan in), and not all near 0. */
static void convolution_layers_start_like_torch(void)
{
    bench b = bench_new();
    fv_conv2d_layer layer;
    const fv_conv2d_options two = {.groups = 2};
    CHECK_OK(b.ctx, fv_conv2d_create(b.params, "c", 8, 4, (int64_t[]){3, 3}, true, &two, &layer));
    CHECK_EQ(fv_tensor_count(layer.weight), 4 * 4 * 9);
    float w[144];
    CHECK_OK(b.ctx, fv_tensor_read(b.ctx, layer.weight, w, sizeof w));
    double most = 0;
    for (int i = 0; i < 144; i++)
        most = fmax(most, fabs((double)w[i]));
    CHECK(most <= 1.0 / 6 && most > 0.9 / 6);
    fv_tensor *x = fv_zeros(b.ctx, FV_F32, 4, (int64_t[]){2, 8, 5, 6});
    CHECK_EQ(fv_tensor_size(fv_conv2d_run(b.ctx, &layer, x), 3), 4);
    CHECK_OK(b.ctx, fv_conv_transpose2d_create(b.params, "t", 8, 6, (int64_t[]){2, 2}, false, &two,
                                               &layer));
    CHECK_EQ(fv_tensor_size(layer.weight, 0), 8);
    CHECK_EQ(fv_tensor_size(layer.weight, 1), 3);
    CHECK_EQ(fv_tensor_size(fv_conv2d_run(b.ctx, &layer, x), 1), 6);
    CHECK_EQ(fv_conv2d_create(b.params, "x", 3, 4, (int64_t[]){3, 3}, true, &two, &layer),
             FV_ERR_ARGUMENT);
    fv_ctx_take_error(b.ctx);
    CHECK_EQ(fv_conv2d_create(b.params, "x", 2, 4, (int64_t[]){0, 3}, true, &two, &layer),
             FV_ERR_ARGUMENT);
    fv_ctx_take_error(b.ctx);
    bench_free(&b);
}

/* Without channels to sum over, the bias is what remains. */
static void no_channels_leave_the_bias(void)
{
    bench b = bench_new();
    fv_tensor *x = fv_zeros(b.ctx, FV_F32, 4, (int64_t[]){1, 0, 2, 1});
    fv_tensor *w = fv_zeros(b.ctx, FV_F32, 4, (int64_t[]){0, 2, 1, 1});
    fv_tensor *bias = tensor_of(b.ctx, (float[]){3, -4}, 1, 2);
    CHECK_VALUES(b.ctx, fv_conv_transpose2d(b.ctx, x, w, bias, NULL), 0, 3, 3, -4, -4);
    bench_free(&b);
}

static void bad_convolutions_are_refused(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_tensor *x = fv_zeros(ctx, FV_F32, 4, (int64_t[]){1, 4, 3, 3});
    fv_tensor *w = fv_zeros(ctx, FV_F32, 4, (int64_t[]){2, 4, 4, 2});
    fv_tensor *five = fv_zeros(ctx, FV_F32, 1, (int64_t[]){5});
    fv_tensor *deep = fv_zeros(ctx, FV_F32, 4, (int64_t[]){2, 3, 1, 1});
    fv_tensor *flat = fv_zeros(ctx, FV_F32, 4, (int64_t[]){2, 4, 0, 1});
    fv_conv2d(ctx, x, w, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "window over 4 elements is larger");
    fv_conv2d(ctx, x, w, five, &(fv_conv2d_options){.padding = {1, 1}});
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "one bias");
    fv_conv2d(ctx, x, deep, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "channels / groups");
    fv_conv2d(ctx, x, flat, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "window of size 0");
    fv_conv2d(ctx, x, w, NULL, &(fv_conv2d_options){.stride = {-1, 1}});
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "stride -1");
    fv_conv2d(ctx, x, w, NULL, &(fv_conv2d_options){.padding = {1, INT64_MAX}});
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "padding");
    fv_conv2d(ctx, x, w, NULL, &(fv_conv2d_options){.groups = 3});
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "3 groups");
    fv_conv_transpose2d(ctx, x, w, NULL, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "axis 0");
    fv_tensor *square = fv_zeros(ctx, FV_F32, 4, (int64_t[]){4, 2, 1, 1});
    fv_conv_transpose2d(ctx, x, square, NULL, &(fv_conv2d_options){.output_padding = {1, 0}});
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "output padding 1");
    fv_conv_transpose2d(ctx, x, square, NULL, &(fv_conv2d_options){.padding = {2, 0}});
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "size -1");
    bench_free(&b);
}

static void bad_windows_and_sizes_are_refused(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_tensor *x = fv_zeros(ctx, FV_F32, 4, (int64_t[]){1, 2, 3, 3});
    fv_tensor *none = fv_zeros(ctx, FV_F32, 4, (int64_t[]){1, 2, 0, 3});
    fv_max_pool2d(ctx, x, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "NULL");
    fv_max_pool2d(ctx, x, &(fv_pool2d_options){.window = {4, 1}});
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "window of 4");
    fv_avg_pool2d(ctx, x, &(fv_pool2d_options){.window = {2, 2}, .padding = {0, 2}});
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "padding 2");
    fv_avg_pool2d(ctx, x, &(fv_pool2d_options){.window = {2, 0}});
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "window 0");
    fv_adaptive_avg_pool2d(ctx, x, 0, 1);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "size 0");
    fv_adaptive_max_pool2d(ctx, none, 1, 1);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "no elements");
    fv_resize_nearest(ctx, x, 1, -1);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "1 x -1");
    fv_resize_bilinear(ctx, none, 1, 1, false);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "no elements");
    fv_group_norm(ctx, x, 3, NULL, NULL, 1e-5);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "groups");
    bench_free(&b);
}

/* NaN wins, and the gradient goes to the first of equal maxima. */
static void maxima_of_ties_and_nan(void)
{
    bench b = bench_new();
    const float values[8] = {1, 1, 1, 1, 2, NAN, 3, NAN};
    fv_tensor *x = fv_leaf(b.ctx, fv_from_host(b.ctx, FV_F32, 4, (int64_t[]){1, 2, 2, 2}, values));
    fv_tensor *y = fv_adaptive_max_pool2d(b.ctx, x, 1, 1);
    float most[2], g[8];
    CHECK_OK(b.ctx, fv_tensor_read(b.ctx, y, most, sizeof most));
    CHECK(most[0] == 1 && isnan(most[1]));
    CHECK_OK(b.ctx,
             fv_backward_from(b.ctx, y, fv_full(b.ctx, FV_F32, 4, (int64_t[]){1, 2, 1, 1}, 1)));
    CHECK_OK(b.ctx, fv_tensor_read(b.ctx, fv_grad(b.ctx, x), g, sizeof g));
    CHECK(g[0] == 1 && g[1] == 0 && g[3] == 0 && g[5] == 1 && g[7] == 0);
    bench_free(&b);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(torch_convolutions);
    RUN(torch_pooling);
    RUN(torch_resizing);
    RUN(torch_group_norm);
    RUN(torch_batch_norm);
    RUN(torch_batch_norm_with_running_statistics);
    RUN(batch_norm_keeps_its_statistics);
    RUN(torch_spectral_norm);
    RUN(spectral_norm_finds_the_largest_singular_value);
    RUN(convolution_layers_start_like_torch);
    RUN(no_channels_leave_the_bias);
    RUN(bad_convolutions_are_refused);
    RUN(bad_windows_and_sizes_are_refused);
    RUN(maxima_of_ties_and_nan);
    return TEST_END();
}
