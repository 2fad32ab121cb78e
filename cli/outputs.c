/* Checks before a verb starts: its output must not be one of its inputs, nor replace a file of
 * another kind, and paths are not empty. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "options.h"
#include "output.h"

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Files that are read from a model's folder. Others may be there too, such as pictures that an
 * earlier command has drawn. */
static bool is_model_file(const char *name)
{
    static const char *const endings[] = {".safetensors", ".json", ".model",
                                          ".spm",         ".toml", ".bin"};
    for (int i = 0; i < CLI_COUNT(endings); i++)
        if (cli_ends_with(name, endings[i])) return true;
    return strcmp(name, "vocab.txt") == 0 || strcmp(name, "merges.txt") == 0;
}

static bool folder_holds(const char *folder, const struct stat *output, char found[CLI_PATH_BYTES])
{
    DIR *list = opendir(folder);
    const struct dirent *entry;
    struct stat st;
    bool holds = false;
    while (list && !holds && (entry = readdir(list)))
        holds = is_model_file(entry->d_name) && fstatat(dirfd(list), entry->d_name, &st, 0) == 0 &&
                is_same_file(&st, output) && cli_path(found, "%s/%s", folder, entry->d_name);
    if (list) closedir(list);
    return holds;
}

bool cli_is_input(const char *input, const struct stat *output, char found[CLI_PATH_BYTES])
{
    struct stat st;
    if (stat(input, &st) != 0) return false;
    if (S_ISDIR(st.st_mode)) return folder_holds(input, output, found);
    return is_same_file(&st, output) && cli_path(found, "%s", input);
}

/* The input that is the same file as the output; a copy of its path in `found`. */
static bool find_input(const cli_call *call, const struct stat *output, char found[CLI_PATH_BYTES])
{
    struct stat st;
    for (int i = 0; i < call->word_count; i++)
        if (cli_is_input(call->words[i], output, found)) return true;
    for (int i = 0; i < call->verb->option_count; i++) {
        const cli_option *option = &call->verb->options[i];
        if (option->type == CLI_PATH && !option->writes && call->value[i] &&
            cli_is_input(call->value[i], output, found))
            return true;
    }
    if (fstat(STDIN_FILENO, &st) != 0 || !is_same_file(&st, output)) return false;
    return cli_path(found, "standard input");
}

/* ---- files that exist ------------------------------------------------------------------------ */

/* What the first bytes of a file contain, by the ending of its name. */
static const struct {
    const char *ending, *mark, *other, *what;
    bool first; /* at the very beginning */
} kinds[] = {
    {".svg", "<svg", "<svg", "an SVG picture", false},
    {".html", "<!doctype html", "<html", "an HTML page", false},
    {".png", "\x89PNG", "\x89PNG", "a PNG picture", true},
    {".pdf", "%PDF", "%PDF", "a PDF file", true},
    {".npz", "PK", "PK", "an .npz file", true},
    {".npy", "\x93NUMPY", "\x93NUMPY", "an .npy file", true},
    {".txt", " rows: ", " from ", "a map", false},
    {".json", "\"added_tokens\"", "\"added_tokens\"", "a tokenizer", false},
};

/* What kind of file an option writes: the ending of the path, except where there is one kind. */
static const char *ending_of(const cli_call *call, const char *option, const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    if (strcmp(option, "logits") == 0) return ".npy";
    if (strcmp(call->verb->name, "tokenize") == 0) return ".json";
    return dot ? dot : "";
}

/* False for options that name a folder. */
static bool writes_file(const cli_call *call, const char *name)
{
    for (int i = 0; i < call->verb->option_count; i++)
        if (strcmp(call->verb->options[i].name, name) == 0)
            return strcmp(call->verb->options[i].metavar, "FILE") == 0;
    return false;
}

/* True if a file that exists is empty, or of the kind that would be written: then it is an earlier
 * output, or may as well be. */
static bool may_replace(const char *path, const char *ending, const char **what)
{
    char text[4097];
    FILE *file = fopen(path, "re");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[n] = '\0';
    for (int i = 0; n > 0 && i < CLI_COUNT(kinds); i++) {
        if (strcasecmp(ending, kinds[i].ending) != 0) continue;
        *what = kinds[i].what;
        const char *a = strcasestr(text, kinds[i].mark), *b = strcasestr(text, kinds[i].other);
        return kinds[i].first ? a == text || b == text : a || b;
    }
    return true; /* the verb refuses what it cannot write */
}

int cli_check_output(const cli_call *call, const char *name, const char *path)
{
    char found[CLI_PATH_BYTES];
    struct stat st;
    /* A device such as /dev/null may be both. */
    if (stat(path, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode))) return CLI_DONE;
    if (!find_input(call, &st, found)) {
        const char *what = "";
        if (!writes_file(call, name) || !S_ISREG(st.st_mode) ||
            may_replace(path, ending_of(call, name, path), &what))
            return CLI_DONE;
        cli_error("%s: --%s %s: the file exists and is not %s; remove it, or name another output",
                  call->verb->name, name, path, what);
        return CLI_USAGE;
    }
    cli_error("%s: --%s %s: is the same file as the input %s, which would be lost; name another "
              "output",
              call->verb->name, name, path, found);
    return CLI_USAGE;
}

int cli_check_paths(const cli_call *call)
{
    const cli_verb *verb = call->verb;
    /* Of run and look, only the first word is a path; a text may be empty. */
    const bool texts = verb->words.metavar && strstr(verb->words.metavar, "TEXT");
    for (int i = 0; verb->words.type == CLI_PATH && i < (texts ? 1 : call->word_count); i++) {
        if (*call->words[i]) continue;
        if (i == 0)
            cli_error("%s: %s is empty; expected a path", verb->name, verb->words.metavar);
        else
            cli_error("%s: the word after '%s' is empty; expected a path", verb->name,
                      call->words[i - 1]);
        cli_note("see 'fovea %s --help'", verb->name);
        return CLI_USAGE;
    }
    for (int i = 0; i < verb->option_count; i++) {
        const cli_option *option = &verb->options[i];
        if (option->type != CLI_PATH || !call->given[i]) continue;
        if (!*call->value[i]) {
            cli_error("%s: --%s is empty; expected a path", verb->name, option->name);
            cli_note("see 'fovea %s --help'", verb->name);
            return CLI_USAGE;
        }
        const int code = option->writes ? cli_check_output(call, option->name, call->value[i]) : 0;
        if (code) return code;
    }
    return CLI_DONE;
}
