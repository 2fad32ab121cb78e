/* Pictures for the tests in which memory runs out. */
#ifndef FV_TESTS_OOM_LOOK_H
#define FV_TESTS_OOM_LOOK_H

#include "support/oom_files.h"

extern const oom_file_scenario oom_look_scenarios[];
extern const int oom_look_scenario_count;

#endif
