/* Replays files or whole folders through a fuzz target, for compilers without libFuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static int replayed;

static int replay_file(const char *path)
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
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    replayed++;
    return 0;
}

static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode)) return replay_file(path);
    DIR *dir = opendir(path);
    if (!dir) return 1;
    int failed = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char file[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        failed |= replay_file(file);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay(argv[i]);
    printf("%d inputs replayed\n", replayed);
    return failed || replayed == 0;
}
