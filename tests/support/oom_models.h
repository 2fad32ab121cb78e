/* Models for the tests in which memory runs out. */
#ifndef FV_TESTS_OOM_MODELS_H
#define FV_TESTS_OOM_MODELS_H

#include "support/oom_files.h"

extern const oom_file_scenario oom_model_scenarios[];
extern const int oom_model_scenario_count;

#endif
