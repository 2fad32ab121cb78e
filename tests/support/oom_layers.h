/* Layers and estimators for the tests in which memory runs out. */
#ifndef FV_TESTS_OOM_LAYERS_H
#define FV_TESTS_OOM_LAYERS_H

#include "support/oom_files.h"

extern const oom_file_scenario oom_layer_scenarios[];
extern const int oom_layer_scenario_count;

#endif
