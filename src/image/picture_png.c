/* PNG by libpng's simplified interface, loaded when it is needed. */
#include "image/picture.h"

#ifdef FV_HAVE_PNG

#include <png.h>
#include <string.h>

#define PNG_FUNCTIONS(X)                                                                           \
    X(png_image_begin_read_from_memory)                                                            \
    X(png_image_finish_read)                                                                       \
    X(png_image_free)

typedef struct png_api {
#define POINTER(name) __typeof__(&name) name;
    PNG_FUNCTIONS(POINTER)
#undef POINTER
} png_api;

static fv_status load_library(const fv_picture_source *in, png_api *api)
{
    void *library = fv_library_open(FV_LIBRARY_PNG);
    bool complete = true;
#define FIND(name) complete = fv_library_find(library, #name, &api->name) && complete;
    PNG_FUNCTIONS(FIND)
#undef FIND
    return complete ? FV_OK : fv_library_missing(in->ctx, FV_LIBRARY_PNG, in->name);
}

static fv_status failed(const fv_picture_source *in, const png_image *image)
{
    const bool memory = strstr(image->message, "emory") != NULL;
    return fv_fail(in->ctx, memory ? FV_ERR_MEMORY : FV_ERR_FORMAT, "%s: not a valid PNG file: %s",
                   in->name, image->message);
}

/* Where a picture is transparent, white shows. */
static fv_status read_pixels(const fv_picture_source *in, const png_api *api, png_image *image,
                             fv_pixels *out)
{
    const bool colour = (image->format & PNG_FORMAT_FLAG_COLOR) != 0;
    const int64_t channels = in->channels ? in->channels : colour ? 3 : 1;
    FV_TRY(fv_pixels_create(in, image->height, image->width, channels, out));
    image->format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    const png_color white = {255, 255, 255};
    const png_int_32 stride = (png_int_32)(out->width * channels);
    if (api->png_image_finish_read(image, &white, out->data, stride, NULL)) return FV_OK;
    fv_pixels_free(in->ctx, out);
    return failed(in, image);
}

fv_status fv_png_decode(const fv_picture_source *in, fv_pixels *out)
{
    png_api api;
    FV_TRY(load_library(in, &api));
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    fv_status s;
    if (api.png_image_begin_read_from_memory(&image, in->data, in->bytes))
        s = read_pixels(in, &api, &image, out);
    else
        s = failed(in, &image);
    api.png_image_free(&image);
    return s;
}

#else

fv_status fv_png_decode(const fv_picture_source *in, fv_pixels *out)
{
    (void)out;
    return fv_fail(in->ctx, FV_ERR_UNSUPPORTED, "%s: this build cannot read PNG files (no libpng)",
                   in->name);
}

#endif
