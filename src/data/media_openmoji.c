/*
 * OpenMoji: pictures of emoji with their names ("grinning face with big eyes") as texts; the
 * variant "groups" has their groups ("animals-nature") as classes, too. The folder has, as they are
 * or compressed with xz:
 *
 *     color72-images-idx4-ubyte   bytes [pictures, 72, 72, 4]: red, green, blue, opacity
 *     openmoji.tsv                a header line; columns `index` (of the picture), `hexcode`,
 *                                 `annotation` (the name), `skintone` and, for groups, `group`
 *
 * Pictures lie on white and are halved (size 36) unless the size says 72. Variants of a skin tone
 * are left out. The part of an emoji depends on its name alone: let h be the first eight bytes of
 * SHA-256(name) as a big-endian number. Then h mod 20 is 0 for `valid`, 1 or 2 for `test`, and more
 * for `train`; so two pictures with one name are in one part.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/media.h"
#include "fovea/data.h"
#include "fovea/tensor.h"
#include "io/file.h"

enum { STORED = 72, SIDE = 36, BYTES = 4, CHANNELS = 3, SHARES = 20, VALID_SHARES = 1 };
enum { TEST_SHARES = 3, MOST = 100000, GROUPS = 64, GROUP_NAME = 48 };
enum { NAMES_VARIANT, GROUPS_VARIANT };

typedef struct emoji {
    int64_t picture, group; /* group: -1 unless the variant has them */
    char name[FV_MEDIA_TEXT];
} emoji;

typedef struct emoji_set {
    fv_ctx *ctx;
    uint8_t *pixels;
    size_t pixel_bytes;
    int64_t pictures;
    emoji *list;
    int64_t count;
    size_t list_room;
    int variant;
    char group[GROUPS][GROUP_NAME]; /* in the order of the file */
    const char *group_names[GROUPS];
    int64_t groups;
    int64_t *which[FV_MEDIA_PARTS], counts[FV_MEDIA_PARTS];
    fv_augment augment;
    int64_t shape[3];
    float *values;
    size_t value_bytes;
} emoji_set;

/* ---- files ---------------------------------------------------------------------------------- */

/* The plain file, or the packed one where only that exists. */
static fv_status find_file(fv_ctx *ctx, const char *folder, const char *name,
                           char out[FV_PATH_BYTES])
{
    char packed[64];
    snprintf(packed, sizeof packed, "%s.xz", name);
    FV_TRY(fv_path_join(ctx, out, folder, packed));
    return fv_file_exists(ctx, out) ? FV_OK : fv_path_join(ctx, out, folder, name);
}

static fv_status copy_pixels(emoji_set *s, const char *path, fv_tensor *t)
{
    fv_ctx *ctx = s->ctx;
    FV_RETURN_IF(fv_tensor_rank(t) != 4 || fv_tensor_dtype(t) != FV_U8 ||
                     fv_tensor_size(t, 1) != STORED || fv_tensor_size(t, 2) != STORED ||
                     fv_tensor_size(t, 3) != BYTES,
                 ctx, FV_ERR_FORMAT, "%.200s: expected bytes of pictures, %d x %d x %d", path,
                 STORED, STORED, BYTES);
    s->pictures = fv_tensor_size(t, 0);
    s->pixel_bytes = (size_t)fv_tensor_count(t);
    s->pixels = fv_mem_alloc(&ctx->mem, s->pixel_bytes);
    FV_RETURN_IF(!s->pixels, ctx, FV_ERR_MEMORY, "%.200s: no memory for %zu bytes", path,
                 s->pixel_bytes);
    return fv_tensor_read(ctx, t, s->pixels, s->pixel_bytes);
}

static fv_status read_pixels(emoji_set *s, const char *folder)
{
    char path[FV_PATH_BYTES];
    FV_TRY(find_file(s->ctx, folder, "color72-images-idx4-ubyte", path));
    fv_scope_begin(s->ctx);
    fv_tensor *t = fv_idx_load(s->ctx, path);
    const fv_status status = s->ctx->error == FV_OK ? copy_pixels(s, path, t) : s->ctx->error;
    fv_scope_end(s->ctx);
    return status;
}

typedef struct columns {
    int picture, name, tone, group;
} columns;

static int column_of(const fv_table_info *info, const char *name)
{
    for (int i = 0; i < info->column_count; i++)
        if (strcmp(info->column_names[i], name) == 0) return i;
    return -1;
}

/* The number of a group, a new one where it is the first of that name. */
static fv_status find_group(emoji_set *s, const char *path, uint64_t line, fv_string name,
                            int64_t *out)
{
    for (int64_t i = 0; i < s->groups; i++)
        if (strlen(s->group[i]) == name.bytes && memcmp(s->group[i], name.text, name.bytes) == 0) {
            *out = i;
            return FV_OK;
        }
    FV_RETURN_IF(name.bytes < 1 || name.bytes >= GROUP_NAME || s->groups == GROUPS, s->ctx,
                 FV_ERR_FORMAT, "%.200s:%llu: expected one of at most %d groups of emoji", path,
                 (unsigned long long)line, GROUPS);
    memcpy(s->group[s->groups], name.text, name.bytes);
    s->group_names[s->groups] = s->group[s->groups];
    *out = s->groups++;
    return FV_OK;
}

static fv_status add_row(emoji_set *s, const char *path, const columns *c, const fv_table_row *row)
{
    fv_ctx *ctx = s->ctx;
    const fv_string index = row->fields[c->picture], name = row->fields[c->name];
    char number[24] = "";
    if (row->fields[c->tone].bytes > 0) return FV_OK;
    if (index.bytes < sizeof number) memcpy(number, index.text, index.bytes);
    char *end = NULL;
    const long long picture = strtoll(number, &end, 10);
    FV_RETURN_IF(end == number || *end || picture < 0 || picture >= s->pictures || name.bytes < 1 ||
                     name.bytes >= FV_MEDIA_TEXT || s->count >= MOST,
                 ctx, FV_ERR_FORMAT, "%.200s:%llu: expected the number of a picture and its name",
                 path, (unsigned long long)row->line);
    emoji *list =
        fv_mem_grow(&ctx->mem, s->list, &s->list_room, (size_t)s->count + 1, sizeof *list);
    FV_RETURN_IF(!list, ctx, FV_ERR_MEMORY, "no memory for %lld names", (long long)s->count);
    s->list = list;
    list[s->count] = (emoji){.picture = picture, .group = -1};
    if (s->variant == GROUPS_VARIANT)
        FV_TRY(find_group(s, path, row->line, row->fields[c->group], &list[s->count].group));
    memcpy(list[s->count++].name, name.text, name.bytes);
    return FV_OK;
}

static fv_status read_rows(emoji_set *s, const char *path, fv_table *table)
{
    const fv_table_info *info = fv_table_get_info(table);
    const columns c = {column_of(info, "index"), column_of(info, "annotation"),
                       column_of(info, "skintone"), column_of(info, "group")};
    FV_RETURN_IF(c.picture < 0 || c.name < 0 || c.tone < 0, s->ctx, FV_ERR_FORMAT,
                 "%.200s: expected the columns index, annotation and skintone", path);
    FV_RETURN_IF(s->variant == GROUPS_VARIANT && c.group < 0, s->ctx, FV_ERR_FORMAT,
                 "%.200s: expected the column group", path);
    for (;;) {
        fv_table_row row;
        FV_TRY(fv_table_next(table, &row));
        if (!row.fields) return FV_OK;
        FV_RETURN_IF(row.problem, s->ctx, FV_ERR_FORMAT, "%.200s:%llu: %s", path,
                     (unsigned long long)row.line, row.problem);
        FV_TRY(add_row(s, path, &c, &row));
    }
}

static fv_status read_names(emoji_set *s, const char *folder)
{
    char path[FV_PATH_BYTES];
    fv_table *table = NULL;
    FV_TRY(find_file(s->ctx, folder, "openmoji.tsv", path));
    FV_TRY(fv_table_open(s->ctx, path, FV_TABLE_HEADER_YES, &table));
    const fv_status status = read_rows(s, path, table);
    fv_table_close(&table);
    return status;
}

/* ---- parts ---------------------------------------------------------------------------------- */

static fv_media_part part_of(const char *name)
{
    const uint64_t share = fv_media_hash(name) % SHARES;
    return share < VALID_SHARES  ? FV_MEDIA_VALID
           : share < TEST_SHARES ? FV_MEDIA_TEST
                                 : FV_MEDIA_TRAIN;
}

static fv_status split(emoji_set *s)
{
    fv_mem *mem = &s->ctx->mem;
    FV_RETURN_IF(s->count == 0, s->ctx, FV_ERR_FORMAT, "openmoji.tsv has no names");
    for (int part = 0; part < FV_MEDIA_PARTS; part++) {
        s->which[part] = fv_mem_alloc(mem, (size_t)s->count * sizeof **s->which);
        FV_RETURN_IF(!s->which[part], s->ctx, FV_ERR_MEMORY, "no memory for %lld names",
                     (long long)s->count);
    }
    for (int64_t i = 0; i < s->count; i++) {
        const fv_media_part part = part_of(s->list[i].name);
        s->which[part][s->counts[part]++] = i;
    }
    return FV_OK;
}

/* ---- opening and reading examples --------------------------------------------------------------
 */

static void close_set(void *self)
{
    emoji_set *s = self;
    fv_mem *mem = &s->ctx->mem;
    for (int part = 0; part < FV_MEDIA_PARTS; part++)
        if (s->which[part]) fv_mem_free(mem, s->which[part], (size_t)s->count * sizeof **s->which);
    if (s->list) fv_mem_free(mem, s->list, s->list_room * sizeof *s->list);
    if (s->pixels) fv_mem_free(mem, s->pixels, s->pixel_bytes);
    if (s->values) fv_mem_free(mem, s->values, s->value_bytes);
    fv_mem_free(mem, s, sizeof *s);
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    const int64_t side = cfg->size ? cfg->size : SIDE;
    FV_RETURN_IF(!cfg->folder || !*cfg->folder, ctx, FV_ERR_ARGUMENT,
                 "media set openmoji needs a folder with its files");
    FV_RETURN_IF(side != SIDE && side != STORED, ctx, FV_ERR_ARGUMENT,
                 "media set openmoji: size %lld, expected %d or %d", (long long)side, SIDE, STORED);
    emoji_set *s = fv_mem_zalloc(&ctx->mem, sizeof *s);
    FV_RETURN_IF(!s, ctx, FV_ERR_MEMORY, "no memory for media set openmoji");
    *self = s;
    *s = (emoji_set){.ctx = ctx,
                     .augment = cfg->augment,
                     .shape = {CHANNELS, side, side},
                     .variant = fv_media_variant(cfg, fv_media_kind_find(cfg->name)->variants)};
    s->augment.fill = 1; /* the white around a picture */
    s->value_bytes = (size_t)(CHANNELS * side * side) * sizeof *s->values;
    s->values = fv_mem_alloc(&ctx->mem, s->value_bytes);
    FV_RETURN_IF(!s->values, ctx, FV_ERR_MEMORY, "no memory for a picture");
    FV_TRY(read_pixels(s, cfg->folder));
    FV_TRY(read_names(s, cfg->folder));
    FV_TRY(split(s));
    *facts = (fv_media_facts){.field = "pixels",
                              .rank = 3,
                              .shape = {CHANNELS, side, side},
                              .longest = 1,
                              .labels = s->group_names,
                              .label_count = s->groups,
                              .has_text = true};
    return fv_media_set_counts(ctx, cfg, s->counts, facts);
}

/* Colour c of a pixel on white, 0 .. 1. */
static float on_white(const uint8_t *pixel, int c)
{
    const float opacity = (float)pixel[CHANNELS] / 255;
    return 1 - opacity + opacity * (float)pixel[c] / 255;
}

static void paint(const emoji_set *s, const emoji *e)
{
    const int64_t side = s->shape[1], each = STORED / side, plane = side * side;
    const uint8_t *from = s->pixels + e->picture * STORED * STORED * BYTES;
    for (int64_t i = 0; i < CHANNELS * plane; i++) {
        const int c = (int)(i / plane);
        const int64_t y = i % plane / side * each, x = i % side * each;
        float sum = 0;
        for (int64_t k = 0; k < each * each; k++)
            sum += on_white(from + ((y + k / each) * STORED + x + k % each) * BYTES, c);
        s->values[i] = sum / (float)(each * each);
    }
}

static fv_status get_text(void *self, fv_media_part part, int64_t number, fv_media_example *out)
{
    const emoji_set *s = self;
    memcpy(out->text, s->list[s->which[part][number]].name, sizeof out->text);
    return FV_OK;
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    emoji_set *s = self;
    const emoji *e = &s->list[s->which[part][number]];
    paint(s, e);
    FV_TRY(fv_media_augment(s->ctx, &s->augment, draw, s->shape, s->values));
    out->values = s->values;
    out->label = e->group;
    return get_text(self, part, number, out);
}

const fv_media_kind fv_media_openmoji = {
    .name = "openmoji",
    .summary = "pictures of emoji with their names or groups, from the files of OpenMoji",
    .variants = "names|groups",
    .open = open_set,
    .get = get,
    .text = get_text,
    .close = close_set,
};
