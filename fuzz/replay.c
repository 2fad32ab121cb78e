/* fovea_replay TARGET PATH...: files or whole folders through a fuzz target, for compilers without
 * libFuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static fuzz_target *targets;
static int replayed;

void fuzz_register(fuzz_target *target)
{
    target->next = targets;
    targets = target;
}

static const fuzz_target *find_target(const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "fuzz_%s.c", name);
    for (const fuzz_target *t = targets; t; t = t->next) {
        const char *slash = strrchr(t->path, '/');
        if (strcmp(slash ? slash + 1 : t->path, file) == 0) return t;
    }
    return NULL;
}

static int replay_file(const fuzz_target *target, const char *path)
{
    size_t bytes = 0;
    char *whole = file_read(path, &bytes);
    if (!whole) {
        perror(path);
        return 1;
    }
    /* Exactly as large as the input, so that a sanitizer sees any step outside. */
    uint8_t *data = malloc(bytes ? bytes : 1);
    if (!data) return 1;
    memcpy(data, whole, bytes);
    free(whole);
    target->run(data, bytes);
    free(data);
    replayed++;
    return 0;
}

static int replay(const fuzz_target *target, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode)) return replay_file(target, path);
    DIR *dir = opendir(path);
    if (!dir) return 1;
    int failed = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char file[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        failed |= replay_file(target, file);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    const fuzz_target *target = argc > 1 ? find_target(argv[1]) : NULL;
    if (!target) {
        fprintf(stderr,
                "usage: fovea_replay TARGET PATH..., e.g. fovea_replay json fuzz/corpus/json\n");
        return 2;
    }
    int failed = 0;
    for (int i = 2; i < argc; i++)
        failed |= replay(target, argv[i]);
    printf("%d inputs replayed\n", replayed);
    return failed || replayed == 0;
}
