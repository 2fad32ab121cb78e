/* fovea tour --html: one page for each source, and a list of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "input.h"
#include "output.h"
#include "tour.h"

/* The first line tells the folder's owner (folder_owner.c). */
static const char head[] =
    "<!-- Written by fovea tour -->\n<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n"
    "body { font: 16px/1.5 Helvetica, Arial, sans-serif; max-width: 48rem; margin: 2rem auto;\n"
    "       padding: 0 1rem; color: #1f2430; background: #fff }\n"
    "h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.5rem }\n"
    "pre { background: #f4f5f7; padding: .75rem; overflow-x: auto; font-size: .85rem }\n"
    "pre.command { background: #1f2430; color: #f4f5f7 }\n"
    "figure { margin: 1rem 0; overflow-x: auto } svg { max-width: 100%; height: auto }\n"
    "a { color: #0b5cad } nav a { margin-right: 1rem }\n"
    "</style>\n";

/* Replaces the file `name` of the folder. Returns an exit code. */
static int write_page(const char *folder, const char *name, const char *text, size_t bytes)
{
    char path[CLI_PATH_BYTES], part[CLI_PATH_BYTES];
    if (!cli_path(path, "%s/%s", folder, name) || !cli_path(part, "%s/.%s.tmp", folder, name))
        return CLI_FAILED;
    FILE *to = fopen(part, "wb");
    const bool written = to && fwrite(text, 1, bytes, to) == bytes && fflush(to) == 0;
    const bool closed = to && fclose(to) == 0;
    if (written && closed && rename(part, path) == 0) return CLI_DONE;
    cli_error("tour: %s: cannot write: %s", path, strerror(errno));
    unlink(part);
    return CLI_FAILED;
}

static void put_links(FILE *to)
{
    fputs("<nav><a href=\"index.html\">The five sources</a>", to);
    for (const tour_source *s = tour_sources; s->name; s++)
        fprintf(to, " <a href=\"%s.html\">%s</a>", s->name, s->name);
    fputs("</nav>\n", to);
}

static void put_list(FILE *to)
{
    fprintf(to, "%s<title>Attention, from five sources</title>\n</head>\n<body>\n", head);
    fputs("<h1>Attention, from five sources</h1>\n", to);
    for (const tour_source *s = tour_sources; s->name; s++) {
        fprintf(to, "<h2><a href=\"%s.html\">%s: %s</a></h2>\n<p>%s</p>\n<ul>\n", s->name, s->name,
                s->title, s->about);
        for (const tour_section *p = tour_sections; p->name; p++)
            if (strcmp(p->source, s->name) == 0)
                fprintf(to, "<li><a href=\"%s.html#%s\">%s</a></li>\n", s->name, p->name, p->title);
        fputs("</ul>\n", to);
    }
    fputs("</body>\n</html>\n", to);
}

static fv_status put_source(tour *t, const tour_source *source)
{
    fv_status status = FV_OK;
    fprintf(t->to, "%s<title>%s</title>\n</head>\n<body>\n", head, source->title);
    put_links(t->to);
    fprintf(t->to, "<h1>%s: %s</h1>\n<p>%s</p>\n", source->name, source->title, source->about);
    for (const tour_section *s = tour_sections; s->name && status == FV_OK; s++)
        if (strcmp(s->source, source->name) == 0) status = tour_show(t, s);
    fputs("</body>\n</html>\n", t->to);
    return status;
}

/* One page: `source` NULL is the list. */
static int page(tour *t, const char *folder, const tour_source *source)
{
    char name[32], *text = NULL;
    size_t bytes = 0;
    fv_status status = FV_OK;
    t->to = open_memstream(&text, &bytes);
    if (!t->to) {
        cli_error("tour: out of memory");
        return CLI_FAILED;
    }
    if (source)
        status = put_source(t, source);
    else
        put_list(t->to);
    bool complete = !ferror(t->to);
    complete = fclose(t->to) == 0 && complete;
    cli_format(name, sizeof name, "%s.html", source ? source->name : "index");
    int code = CLI_DONE;
    if (status != FV_OK)
        code = cli_library_error("tour", t->ctx, status);
    else if (!complete) {
        cli_error("tour: out of memory");
        code = CLI_FAILED;
    } else {
        code = write_page(folder, name, text, bytes);
    }
    free(text);
    return code;
}

int tour_pages(tour *t, const char *folder, bool force)
{
    if (!cli_may_write("tour", folder, CLI_FOLDER_TOUR, force)) return CLI_USAGE;
    if (!cli_make_folder(folder)) return CLI_FAILED;
    t->html = true;
    int code = page(t, folder, NULL);
    for (const tour_source *s = tour_sources; s->name && !code; s++)
        code = page(t, folder, s);
    if (!code) cli_note("wrote %s/index.html", folder);
    return code;
}
