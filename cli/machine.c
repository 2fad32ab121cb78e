#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "output.h"

static void lower(uint64_t *cap, uint64_t limit)
{
    if (limit > 0 && (*cap == 0 || limit < *cap)) *cap = limit;
}

/* A file with one number; "max" and missing files give 0. */
static uint64_t number_in(const char *path)
{
    unsigned long long value = 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%llu", &value) != 1) value = 0;
    fclose(file);
    return value;
}

/*
 * Lines of /proc/self/cgroup are "0::/path" (version 2) or "4:memory:/path" (version 1). Inside
 * a container the path may be outside the mount, so the root of the mount counts too. A limit above
 * the machine's memory means none.
 */
static uint64_t group_cap(uint64_t total)
{
    static const char *const roots[2][2] = {
        {"/sys/fs/cgroup", "memory.max"},
        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
    };
    uint64_t cap = 0;
    char line[512], path[1024];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        bool second = strncmp(line, "0::", 3) == 0;
        const char *group = second ? line + 3 : strstr(line, ":memory:");
        if (!group) continue;
        if (!second) group += strlen(":memory:");
        cli_format(path, sizeof path, "%s%s/%s", roots[!second][0], group, roots[!second][1]);
        lower(&cap, number_in(path));
    }
    if (file) fclose(file);
    for (int i = 0; i < 2; i++) {
        cli_format(path, sizeof path, "%s/%s", roots[i][0], roots[i][1]);
        lower(&cap, number_in(path));
    }
    return total && cap >= total ? 0 : cap;
}

/* MemAvailable of /proc/meminfo; 0: unknown. */
static uint64_t available_memory(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && kib == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) != 1) kib = 0;
    if (file) fclose(file);
    return (uint64_t)kib << 10;
}

void machine_memory_get(machine_memory *out)
{
    long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
    long free_pages = sysconf(_SC_AVPHYS_PAGES);
    out->total = page > 0 && pages > 0 ? (uint64_t)page * (uint64_t)pages : 0;
    out->available = page > 0 && free_pages > 0 ? (uint64_t)page * (uint64_t)free_pages : 0;
    /* Free pages do not include caches, which the kernel gives back on demand. */
    const uint64_t available = available_memory();
    if (available > out->available) out->available = available;
    out->cap = group_cap(out->total);
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        lower(&out->cap, limit.rlim_cur);
}
