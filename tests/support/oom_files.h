/* File work for the tests in which memory runs out: each entry reads or writes one format. */
#ifndef FV_TESTS_OOM_FILES_H
#define FV_TESTS_OOM_FILES_H

#include "fovea/context.h"

typedef struct oom_file_scenario {
    const char *name;
    bool (*run)(fv_ctx *ctx, const void *unused); /* whether every call succeeded */
} oom_file_scenario;

extern const oom_file_scenario oom_file_scenarios[];
extern const int oom_file_scenario_count;

#endif
