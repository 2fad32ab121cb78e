/* Rules of readers and writers that no damaged file shows: handles, devices, messages, sizes. */
#include <errno.h>

#include "base/ctx.h"
#include "fovea/file.h"
#include "io/utf8.h"
#include "support/files.h"
#include "support/opcase.h"
#include "support/test.h"

/* ---- a file in memory, whose handle is 0 ------------------------------------------ */

/* An array of `elements` bytes, all 7; returns the size of the file. */
static size_t put_npy(char file[256], int elements)
{
    memset(file, 7, 256);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    const int n = snprintf(file + 10, 200,
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,)}", elements);
    file[8] = (char)n;
    file[9] = 0;
    file[10 + n] = 7;
    return (size_t)(10 + n + elements);
}

static int64_t (*open_other)(void *user, const char *path, fv_io_mode mode);

static int64_t open_as_zero(void *user, const char *path, fv_io_mode mode)
{
    return open_other(user, path, mode) < 0 ? -EIO : 0;
}

static void zero_is_a_handle(void)
{
    char bytes[256];
    memory_file served = {bytes, put_npy(bytes, 3)};
    fv_ctx *ctx = NULL;
    fv_npy *file = NULL;
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    memory_io(&cfg.io, &served);
    open_other = cfg.io.open;
    cfg.io.open = open_as_zero;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    CHECK_OK(ctx, fv_npy_open(ctx, "served", &file));
    CHECK(file && fv_npy_entry(file, 0)->shape[0] == 3);
    fv_npy_close(&file);
    fv_ctx_destroy(&ctx);
}

/* ---- a device whose memory the host cannot reach ---------------------------------- */

static void far_tensors_are_filled_through_a_copy(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    for (int elements = 0; elements < 3; elements++) {
        fv_npy *file = NULL;
        char bytes[256], read[2] = {0};
        file_write(folder_path("far.npy"), bytes, put_npy(bytes, elements));
        CHECK_OK(ctx, fv_npy_open(ctx, folder_path("far.npy"), &file));
        fv_tensor *t = file ? fv_npy_load(ctx, file, "") : ctx->invalid;
        CHECK(fv_tensor_valid(t) && fv_tensor_data(t) == NULL && fv_tensor_count(t) == elements);
        CHECK_OK(ctx, fv_tensor_read(ctx, t, read, (size_t)elements));
        for (int i = 0; i < elements; i++)
            CHECK_EQ(read[i], 7);
        fv_npy_close(&file);
    }
    fv_ctx_destroy(&ctx);
}

/* ---- element types of NumPy that are not ------------------------------------------- */

static void check_descr(fv_ctx *ctx, const char *descr, fv_status status, const char *message)
{
    char file[256] = "\x93NUMPY\x01\x00";
    const int n = snprintf(file + 10, sizeof file - 10,
                           "{'descr': '%s', 'fortran_order': False, 'shape': (1,)}", descr);
    file[8] = (char)n;
    fv_npy *npy = NULL;
    file_write(folder_path("d.npy"), file, (size_t)(10 + n + 8));
    CHECK_EQ(fv_npy_open(ctx, folder_path("d.npy"), &npy), status);
    CHECK(status == FV_OK || strstr(fv_ctx_message(ctx), message) != NULL);
    fv_npy_close(&npy);
}

static void element_types_are_checked(void)
{
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    check_descr(ctx, "<f8", FV_OK, "");
    check_descr(ctx, "<M8[s]", FV_OK, "");
    check_descr(ctx, "|S-8", FV_ERR_UNSUPPORTED, "dtype \"|S-8\" is not supported");
    check_descr(ctx, "<M-8[s]", FV_ERR_UNSUPPORTED, "is not supported");
    check_descr(ctx, "<f8\xff", FV_ERR_FORMAT, "invalid dtype \"<f8?\"");
    fv_ctx_destroy(&ctx);
}

/* ---- messages ---------------------------------------------------------------------- */

static void names_are_quoted_without_control_characters(void)
{
    char out[FV_QUOTED_BYTES], many[100];
    CHECK_STR(fv_quote("a b~\xC3\xA9", 6, out), "a b~\xC3\xA9");
    CHECK_STR(fv_quote("a\nb\x7F"
                       "c\x1F\xFF\x00",
                       8, out),
              "a?b?c???");
    memset(many, 'x', sizeof many);
    fv_quote(many, sizeof many, out);
    CHECK(strlen(out) == 67 && strcmp(out + 64, "...") == 0);
}

/* ---- memory ------------------------------------------------------------------------ */

/* What a save takes it returns, as blocks of the size that they had. */
static void saving_returns_its_memory(void)
{
    enum { COUNT = 40 };
    fv_ctx *ctx = NULL;
    fv_tensor *tensors[COUNT];
    const char *names[COUNT];
    char room[COUNT][8];
    fv_memory_stats before, after;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    for (int i = 0; i < COUNT; i++) {
        snprintf(room[i], sizeof room[i], "t%d", i);
        names[i] = room[i];
        tensors[i] = fv_zeros(ctx, FV_F32, 1, (int64_t[]){3});
    }
    fv_ctx_memory(ctx, &before);
    CHECK_OK(ctx, fv_safetensors_save(ctx, names, tensors, COUNT, NULL, 0,
                                      folder_path("m.safetensors")));
    fv_ctx_memory(ctx, &after);
    CHECK_EQ(after.used_bytes, before.used_bytes);
    CHECK_OK(ctx, fv_npz_save(ctx, names, tensors, COUNT, folder_path("m.npz")));
    fv_ctx_memory(ctx, &after);
    CHECK_EQ(after.used_bytes, before.used_bytes);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(zero_is_a_handle);
    RUN(far_tensors_are_filled_through_a_copy);
    RUN(element_types_are_checked);
    RUN(names_are_quoted_without_control_characters);
    RUN(saving_returns_its_memory);
    folder_remove();
    return TEST_END();
}
