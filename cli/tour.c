/* fovea tour: walks through the sources section by section. */
#include "tour.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "folder.h"
#include "fovea/recipe.h"
#include "input.h"
#include "model.h"
#include "output.h"

static void list_sections(void)
{
    for (const tour_source *source = tour_sources; source->name; source++) {
        printf("%s  %s\n", source->name, source->title);
        for (const tour_section *s = tour_sections; s->name; s++)
            if (strcmp(s->source, source->name) == 0) {
                printf("  ");
                cli_styled(stdout, CLI_BOLD, s->name, 16);
                printf("%s\n", s->title);
            }
    }
}

/* Whether a word names the section or its source. */
static bool is_named(const tour_section *s, const char *word)
{
    return strcasecmp(s->name, word) == 0 || strcasecmp(s->source, word) == 0;
}

static int unknown(const char *word)
{
    fv_nearest nearest;
    fv_nearest_init(&nearest, word);
    for (const tour_section *s = tour_sections; s->name; s++)
        fv_nearest_add(&nearest, s->name, strlen(s->name));
    const char *found = fv_nearest_best(&nearest);
    cli_error("tour: there is no section '%s'%s%s%s; 'fovea tour --list' lists them", word,
              found ? "; did you mean '" : "", found ? found : "", found ? "'?" : "");
    return CLI_USAGE;
}

static int check_names(const cli_call *call)
{
    for (int i = 0; i < call->word_count; i++) {
        bool found = false;
        for (const tour_section *s = tour_sections; s->name && !found; s++)
            found = is_named(s, call->words[i]);
        if (!found) return unknown(call->words[i]);
    }
    return CLI_DONE;
}

static bool is_wanted(const cli_call *call, const tour_section *s)
{
    bool wanted = call->word_count == 0;
    for (int i = 0; i < call->word_count && !wanted; i++)
        wanted = is_named(s, call->words[i]);
    return wanted;
}

/* Waits for Enter before the next section where a person reads along. False: no further one. */
static bool wants_next(const tour_section *next)
{
    char answer[64];
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return true;
    printf("-- Enter: %s; q: end -- ", next->title);
    fflush(stdout);
    const bool read = fgets(answer, sizeof answer, stdin) != NULL;
    putchar('\n');
    return read && answer[0] != 'q';
}

static int walk(const cli_call *call, tour *t)
{
    bool first = true;
    for (const tour_section *s = tour_sections; s->name; s++) {
        if (!is_wanted(call, s)) continue;
        if (!first && !wants_next(s)) return CLI_DONE;
        first = false;
        const fv_status status = tour_show(t, s);
        if (status != FV_OK) return cli_library_error("tour", t->ctx, status);
        fflush(t->to);
    }
    if (t->picture) {
        cli_error("tour: --picture: no section that was shown has a picture");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int run(const cli_call *call)
{
    if (cli_flag(call, "list")) {
        list_sections();
        return CLI_DONE;
    }
    const char *folder = cli_text(call, "html");
    if (folder && (call->word_count > 0 || cli_given(call, "picture"))) {
        cli_error("tour: --html writes all sections; leave out %s",
                  call->word_count ? "their names" : "--picture");
        return CLI_USAGE;
    }
    int code = check_names(call);
    fv_ctx *ctx = code ? NULL : cli_context(call, 7, &code);
    if (!ctx) return code;
    tour t = {.ctx = ctx,
              .to = stdout,
              .models = cli_text(call, "models"),
              .picture = cli_text(call, "picture")};
    code = folder ? tour_pages(&t, folder, cli_flag(call, "force")) : walk(call, &t);
    fv_ctx_destroy(&ctx);
    return code;
}

static const cli_option options[] = {
    {.name = "list", .type = CLI_FLAG, .help = "list the sections"},
    {.name = "html",
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FOLDER",
     .help = "write pages instead, one for each source"},
    {.name = "picture",
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FILE",
     .help = "write the first picture, too (.svg, .png, .pdf, .html, .txt)"},
    {.name = "models",
     .type = CLI_PATH,
     .metavar = "FOLDER",
     .help = "folder of trained models: tatoeba-en-fr and tatoeba-en-zh are used if there"},
    CLI_FORCE,
    CLI_THREADS,
    CLI_DEVICE,
};

const cli_verb verb_tour = {
    .name = "tour",
    .about = "walk through attention as five sources explain it",
    .notes = "Shows, section by section, the figures, numbers and examples of the five documents "
             "that this project implements, computed by this program. What takes a second or two "
             "runs now. Sections about trained models use those of --models; without it they show "
             "what such a model gave. A name is that of a section, or of a source: S0 to S4. On a "
             "terminal the tour waits for Enter after each section.",
    .words = {.metavar = "[NAME ...]",
              .type = CLI_STRING,
              .max = CLI_MAX_WORDS,
              .help = "sections, or sources; all without one"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
