/* Internals of io/pickle.h: the machine's values and stack, shared by its opcodes (pickle.c) and by
 * what it makes of torch's objects (pickle_tensors.c). */
#ifndef FV_IO_PICKLE_MACHINE_H
#define FV_IO_PICKLE_MACHINE_H

#include "io/pickle.h"
#include "io/pickle_names.h"

/* ---- values ---------------------------------------------------------------------------------- */

typedef enum value_kind {
    NONE,
    BOOLEAN,
    INTEGER,
    TEXT,
    TUPLE,
    LIST,
    DICT,
    GLOBAL,
    STORAGE,
    TENSOR
} value_kind;

typedef struct value {
    value_kind kind;
    uint32_t count; /* of items; bytes of a text */
    union {
        int64_t integer;
        const char *text;
        uint32_t first; /* of a tuple's items */
        struct {
            uint32_t head, tail; /* links of a list or dictionary; 0: none */
        } chain;
        const fv_pickle_global *global;
        uint32_t index; /* of a storage or tensor */
    } as;
} value;

/* An item of a list (without key) or dictionary. */
typedef struct chain_link {
    uint32_t key, value, next;
} chain_link;

typedef struct storage {
    fv_pickle_text key;
    const fv_safetensors_dtype *dtype;
    int64_t count;
} storage;

/* ---- the machine ----------------------------------------------------------------------------- */

/* An array that grows. */
typedef struct pool {
    void *data;
    size_t element, count, room;
} pool;

struct fv_pickle {
    fv_ctx *ctx;
    const char *path, *text;
    size_t bytes, at;
    size_t op_at; /* of the current opcode, for messages */
    pool values;  /* value; links, items and stack refer to them by index */
    pool links;   /* chain_link; the first is unused */
    pool items;   /* uint32_t, of tuples */
    pool stack;   /* uint32_t */
    pool marks;   /* uint32_t: heights of the stack */
    pool memo;    /* uint32_t */
    pool storages;
    pool tensors; /* fv_pickle_tensor, without names */
};

/* Records `what` at the current opcode; returns FV_ERR_FORMAT. */
fv_status fv_pickle_fail(const fv_pickle *p, const char *what);
/* A new last element, zeroed; NULL: out of memory, the error is set. */
void *fv_pickle_add(fv_pickle *p, pool *to);
fv_status fv_pickle_push(fv_pickle *p, const value *v);
fv_status fv_pickle_pop(fv_pickle *p, uint32_t *out);
/* The value n places below the top one. */
fv_status fv_pickle_peek(const fv_pickle *p, size_t n, value **out);

static inline uint32_t index_at(const pool *from, size_t i)
{
    return ((const uint32_t *)from->data)[i];
}

static inline value *value_at(const fv_pickle *p, uint32_t i)
{
    return (value *)p->values.data + i;
}

static inline chain_link *link_at(const fv_pickle *p, uint32_t i)
{
    return (chain_link *)p->links.data + i;
}

static inline const value *item_of(const fv_pickle *p, const value *tuple, uint32_t i)
{
    return value_at(p, index_at(&p->items, tuple->as.first + i));
}

/* ---- calls of torch -------------------------------------------------------------------------- */

/* BINPERSID: the persistent id on top becomes a storage. */
fv_status fv_pickle_make_storage(fv_pickle *p);
/* Push what torch._utils' functions would return for these arguments. */
fv_status fv_pickle_rebuild_tensor(fv_pickle *p, const value *args);
fv_status fv_pickle_rebuild_parameter(fv_pickle *p, const value *args);

#endif
