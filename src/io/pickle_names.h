/* Names in pickles: of opcodes, for messages, and of the Python objects that are allowed. */
#ifndef FV_IO_PICKLE_NAMES_H
#define FV_IO_PICKLE_NAMES_H

#include <stddef.h>

typedef enum fv_pickle_call {
    FV_PICKLE_STORAGE, /* a type, which is not called */
    FV_PICKLE_ORDERED_DICT,
    FV_PICKLE_TENSOR,
    FV_PICKLE_PARAMETER
} fv_pickle_call;

typedef struct fv_pickle_global {
    const char *module, *name;
    fv_pickle_call call;
    const char *dtype; /* of a storage's elements, as safetensors names it */
} fv_pickle_global;

/* NULL: not allowed. */
const fv_pickle_global *fv_pickle_global_find(const char *module, size_t module_bytes,
                                              const char *name, size_t name_bytes);

/* NULL: there is no such opcode. */
const char *fv_pickle_opcode_name(unsigned char op);

#endif
