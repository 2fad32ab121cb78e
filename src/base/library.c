#include "base/library.h"

#include <string.h>

#include "base/config.h"

#if defined FV_HAVE_PNG || defined FV_HAVE_JPEG || defined FV_HAVE_FLAC || defined FV_HAVE_FONTS
#define LOADS 1
#include <dlfcn.h>
#include <link.h>
#else
#define LOADS 0
#endif

#ifdef FV_HAVE_PNG
#define USES_PNG 1
#else
#define USES_PNG 0
#endif
#ifdef FV_HAVE_JPEG
#define USES_JPEG 1
#else
#define USES_JPEG 0
#endif
#ifdef FV_HAVE_FLAC
#define USES_FLAC 1
#else
#define USES_FLAC 0
#endif
#ifdef FV_HAVE_FONTS
#define USES_FONTS 1
#else
#define USES_FONTS 0
#endif

typedef struct library_entry {
    const char *name, *purpose, *package;
    bool used;
    const char *files[3]; /* the first one that can be opened; NULL ends */
} library_entry;

/* Of libFLAC what is used of its structs is equal in these versions (1.3 to 1.5). */
static const library_entry entries[FV_LIBRARY_COUNT] = {
    [FV_LIBRARY_PNG] = {"libpng", "PNG files", "libpng16-16", USES_PNG, {"libpng16.so.16"}},
    [FV_LIBRARY_JPEG] =
        {"libjpeg-turbo", "JPEG files", "libturbojpeg0", USES_JPEG, {"libturbojpeg.so.0"}},
    [FV_LIBRARY_FLAC] = {"libFLAC",
                         "FLAC files",
                         "libflac12",
                         USES_FLAC,
                         {"libFLAC.so.12", "libFLAC.so.14", "libFLAC.so.8"}},
    [FV_LIBRARY_FREETYPE] =
        {"FreeType", "font files", "libfreetype6", USES_FONTS, {"libfreetype.so.6"}},
    [FV_LIBRARY_HARFBUZZ] =
        {"HarfBuzz", "font files", "libharfbuzz0b", USES_FONTS, {"libharfbuzz.so.0"}},
};

void *fv_library_open(fv_library_id id)
{
    void *library = NULL;
#if LOADS
    const library_entry *e = &entries[id];
    const int most = (int)(sizeof e->files / sizeof *e->files);
    for (int i = 0; e->used && !library && i < most && e->files[i]; i++)
        library = dlopen(e->files[i], RTLD_NOW | RTLD_LOCAL);
#else
    (void)id;
#endif
    return library;
}

bool fv_library_find(void *library, const char *name, void *function)
{
    void *found = NULL;
#if LOADS
    if (library) found = dlsym(library, name);
#else
    (void)library, (void)name;
#endif
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

fv_status fv_library_missing(fv_ctx *ctx, fv_library_id id, const char *name)
{
    const library_entry *e = &entries[id];
    return fv_fail(ctx, FV_ERR_UNSUPPORTED, "%s: %s need the library %s (%s)", name, e->purpose,
                   e->name, e->files[0]);
}

/* Where the library was loaded from, "" if that is unknown or too long. */
static void find_path(void *library, char *out, size_t bytes)
{
    out[0] = '\0';
#if LOADS
    struct link_map *map = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !map) return;
    if (strlen(map->l_name) < bytes) memcpy(out, map->l_name, strlen(map->l_name) + 1);
#else
    (void)library, (void)bytes;
#endif
}

bool fv_library_get(int index, fv_library *out)
{
    if (index < 0 || index >= FV_LIBRARY_COUNT) return false;
    const library_entry *e = &entries[index];
    fv_library full = {.name = e->name,
                       .purpose = e->purpose,
                       .file = e->files[0],
                       .package = e->package,
                       .used = e->used};
    void *library = fv_library_open((fv_library_id)index);
    full.found = library != NULL;
    if (library) find_path(library, full.path, sizeof full.path);
    fv_config_give(out, &full, sizeof full);
    return true;
}
