/* The table of verbs, and how one is found. */
#include <string.h>

#include "options.h"
#include "output.h"

#define CLI_VERB(name) extern const cli_verb verb_##name;
#include "verbs.def"

const cli_verb *const cli_verbs[] = {
#define CLI_VERB(name) &verb_##name,
#include "verbs.def"
    NULL,
};

const cli_verb *cli_find_verb(const char *name)
{
    for (int i = 0; cli_verbs[i]; i++)
        if (strcmp(cli_verbs[i]->name, name) == 0) return cli_verbs[i];
    return NULL;
}

int cli_unknown_verb(const char *word)
{
    fv_nearest nearest;
    fv_nearest_init(&nearest, word);
    for (int i = 0; cli_verbs[i]; i++)
        fv_nearest_add(&nearest, cli_verbs[i]->name, strlen(cli_verbs[i]->name));
    const char *found = fv_nearest_best(&nearest);
    if (found)
        cli_error("unknown command '%s'; did you mean '%s'?", word, found);
    else
        cli_error("unknown command '%s'", word);
    cli_note("see 'fovea help'");
    return CLI_USAGE;
}
