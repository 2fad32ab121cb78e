/* JPEG by libjpeg-turbo's TurboJPEG interface, loaded when it is needed. */
#include "image/picture.h"

#ifdef FV_HAVE_JPEG

#include <string.h>
#include <turbojpeg.h>

#define JPEG_FUNCTIONS(X)                                                                          \
    X(tjInitDecompress)                                                                            \
    X(tjDecompressHeader3)                                                                         \
    X(tjDecompress2)                                                                               \
    X(tjDestroy)                                                                                   \
    X(tjGetErrorCode)                                                                              \
    X(tjGetErrorStr2)

typedef struct jpeg_api {
#define POINTER(name) __typeof__(&name) name;
    JPEG_FUNCTIONS(POINTER)
#undef POINTER
} jpeg_api;

static fv_status load_library(const fv_picture_source *in, jpeg_api *api)
{
    void *library = fv_library_open(FV_LIBRARY_JPEG);
    bool complete = true;
#define FIND(name) complete = fv_library_find(library, #name, &api->name) && complete;
    JPEG_FUNCTIONS(FIND)
#undef FIND
    return complete ? FV_OK : fv_library_missing(in->ctx, FV_LIBRARY_JPEG, in->name);
}

/* Whether a call that returned `result` is to be accepted. Of what the decoder only warns about,
 * stray bytes between two segments harm nothing; a file that ends early or has broken data does. */
static fv_status check(const fv_picture_source *in, const jpeg_api *api, tjhandle handle,
                       int result)
{
    if (result == 0) return FV_OK;
    const char *text = api->tjGetErrorStr2(handle);
    const bool warning = api->tjGetErrorCode(handle) == TJERR_WARNING;
    if (warning && strstr(text, "extraneous bytes")) return FV_OK;
    const bool memory = strstr(text, "emory") != NULL;
    return fv_fail(in->ctx, memory ? FV_ERR_MEMORY : FV_ERR_FORMAT,
                   "%s: not a valid JPEG file: %.160s", in->name, text);
}

static fv_status read_pixels(const fv_picture_source *in, const jpeg_api *api, tjhandle handle,
                             fv_pixels *out)
{
    int width = 0, height = 0, sampling = 0, space = 0;
    const unsigned long bytes = (unsigned long)in->bytes;
    FV_TRY(check(
        in, api, handle,
        api->tjDecompressHeader3(handle, in->data, bytes, &width, &height, &sampling, &space)));
    FV_RETURN_IF(space == TJCS_CMYK || space == TJCS_YCCK, in->ctx, FV_ERR_UNSUPPORTED,
                 "%s: JPEG files of CMYK colours are not supported, only grey and RGB", in->name);
    FV_RETURN_IF(width < 0 || height < 0, in->ctx, FV_ERR_FORMAT, "%s: %d x %d pixels", in->name,
                 width, height);
    const int64_t channels = in->channels ? in->channels : space == TJCS_GRAY ? 1 : 3;
    FV_TRY(fv_pixels_create(in, (uint64_t)height, (uint64_t)width, channels, out));
    const int flags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;
    const fv_status s =
        check(in, api, handle,
              api->tjDecompress2(handle, in->data, bytes, out->data, width, 0, height,
                                 channels == 3 ? TJPF_RGB : TJPF_GRAY, flags));
    if (s != FV_OK) fv_pixels_free(in->ctx, out);
    return s;
}

fv_status fv_jpeg_decode(const fv_picture_source *in, fv_pixels *out)
{
    jpeg_api api;
    FV_TRY(load_library(in, &api));
    tjhandle handle = api.tjInitDecompress();
    FV_RETURN_IF(!handle, in->ctx, FV_ERR_MEMORY, "%s: out of memory", in->name);
    const fv_status s = read_pixels(in, &api, handle, out);
    api.tjDestroy(handle);
    return s;
}

#else

fv_status fv_jpeg_decode(const fv_picture_source *in, fv_pixels *out)
{
    (void)out;
    return fv_fail(in->ctx, FV_ERR_UNSUPPORTED,
                   "%s: this build cannot read JPEG files (no libjpeg-turbo)", in->name);
}

#endif
