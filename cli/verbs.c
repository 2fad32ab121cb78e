/* The table of verbs, and how one is found. */
#include <string.h>

#include "options.h"

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
