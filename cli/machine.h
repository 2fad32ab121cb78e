/* Memory of the machine and of the control group of this process. */
#ifndef FOVEA_CLI_MACHINE_H
#define FOVEA_CLI_MACHINE_H

#include <stdint.h>

typedef struct machine_memory {
    uint64_t total;     /* of the machine; 0: unknown */
    uint64_t available; /* likewise */
    uint64_t cap;       /* the lower of the control group's and the process's limits; 0: none */
} machine_memory;

void machine_memory_get(machine_memory *out);

#endif
