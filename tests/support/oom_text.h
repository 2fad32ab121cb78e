/* Text work for the tests in which memory runs out. */
#ifndef FV_TESTS_OOM_TEXT_H
#define FV_TESTS_OOM_TEXT_H

#include "support/oom_files.h"

extern const oom_file_scenario oom_text_scenarios[];
extern const int oom_text_scenario_count;

#endif
