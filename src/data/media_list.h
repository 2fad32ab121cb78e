/*
 * A media set whose files a TSV lists with a class or a text each: the list, its parts and its
 * classes. Which part a line belongs to depends on its file name alone (fv_media_part_of_name).
 *
 *     FV_TRY(fv_media_list_open(ctx, cfg, "picture", classes, &p->list));   // in open
 *     FV_TRY(fv_media_list_get(&p->list, part, number, out, &file));        // class, text, file
 *     fv_media_list_close(&p->list);
 */
#ifndef FV_DATA_MEDIA_LIST_H
#define FV_DATA_MEDIA_LIST_H

#include "data/media.h"

typedef struct fv_media_list {
    fv_ctx *ctx;
    fv_pictures *files; /* with labels of any kind */
    int64_t *line[FV_MEDIA_PARTS], count[FV_MEDIA_PARTS], lines;
    bool classes;        /* the second column is a class, not a text */
    const char **labels; /* of classes */
    int64_t label_count;
} fv_media_list;

/* Opens cfg->list, in cfg->folder where that is given. `what` names an entry in messages. Fails:
 * ARGUMENT (no list), FORMAT (no line, or a part without one), IO, MEMORY. The list can be closed
 * even on failure. */
fv_status fv_media_list_open(fv_ctx *ctx, const fv_media_config *cfg, const char *what,
                             bool classes, fv_media_list *out);
void fv_media_list_close(fv_media_list *list);

/* Sets the text, and of a list of classes the label, of an example; *file is its path, which lives
 * as long as the list. Fails: LIMIT (the text is too long). */
fv_status fv_media_list_get(const fv_media_list *list, fv_media_part part, int64_t number,
                            fv_media_example *out, const char **file);

#endif
