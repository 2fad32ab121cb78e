#include "io/pickle_names.h"

#include <stdbool.h>
#include <string.h>

static const fv_pickle_global GLOBALS[] = {
    {"collections", "OrderedDict", FV_PICKLE_ORDERED_DICT, NULL},
    {"torch._utils", "_rebuild_tensor_v2", FV_PICKLE_TENSOR, NULL},
    {"torch._utils", "_rebuild_parameter", FV_PICKLE_PARAMETER, NULL},
    {"torch", "FloatStorage", FV_PICKLE_STORAGE, "F32"},
    {"torch", "DoubleStorage", FV_PICKLE_STORAGE, "F64"},
    {"torch", "HalfStorage", FV_PICKLE_STORAGE, "F16"},
    {"torch", "BFloat16Storage", FV_PICKLE_STORAGE, "BF16"},
    {"torch", "LongStorage", FV_PICKLE_STORAGE, "I64"},
    {"torch", "IntStorage", FV_PICKLE_STORAGE, "I32"},
    {"torch", "ShortStorage", FV_PICKLE_STORAGE, "I16"},
    {"torch", "CharStorage", FV_PICKLE_STORAGE, "I8"},
    {"torch", "ByteStorage", FV_PICKLE_STORAGE, "U8"},
    {"torch", "BoolStorage", FV_PICKLE_STORAGE, "BOOL"},
    {"torch", "ComplexFloatStorage", FV_PICKLE_STORAGE, "C64"},
};

static bool is(const char *text, size_t bytes, const char *name)
{
    return bytes == strlen(name) && memcmp(text, name, bytes) == 0;
}

const fv_pickle_global *fv_pickle_global_find(const char *module, size_t module_bytes,
                                              const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < sizeof GLOBALS / sizeof *GLOBALS; i++)
        if (is(module, module_bytes, GLOBALS[i].module) && is(name, name_bytes, GLOBALS[i].name))
            return &GLOBALS[i];
    return NULL;
}

/* Every opcode of the protocols 0 to 5. */
static const char *const OPCODES[256] = {
    ['('] = "MARK",          [')'] = "EMPTY_TUPLE",
    ['.'] = "STOP",          ['0'] = "POP",
    ['1'] = "POP_MARK",      ['2'] = "DUP",
    ['B'] = "BINBYTES",      ['C'] = "SHORT_BINBYTES",
    ['F'] = "FLOAT",         ['G'] = "BINFLOAT",
    ['I'] = "INT",           ['J'] = "BININT",
    ['K'] = "BININT1",       ['L'] = "LONG",
    ['M'] = "BININT2",       ['N'] = "NONE",
    ['P'] = "PERSID",        ['Q'] = "BINPERSID",
    ['R'] = "REDUCE",        ['S'] = "STRING",
    ['T'] = "BINSTRING",     ['U'] = "SHORT_BINSTRING",
    ['V'] = "UNICODE",       ['X'] = "BINUNICODE",
    [']'] = "EMPTY_LIST",    ['a'] = "APPEND",
    ['b'] = "BUILD",         ['c'] = "GLOBAL",
    ['d'] = "DICT",          ['e'] = "APPENDS",
    ['g'] = "GET",           ['h'] = "BINGET",
    ['i'] = "INST",          ['j'] = "LONG_BINGET",
    ['l'] = "LIST",          ['o'] = "OBJ",
    ['p'] = "PUT",           ['q'] = "BINPUT",
    ['r'] = "LONG_BINPUT",   ['s'] = "SETITEM",
    ['t'] = "TUPLE",         ['u'] = "SETITEMS",
    ['}'] = "EMPTY_DICT",    [0x80] = "PROTO",
    [0x81] = "NEWOBJ",       [0x82] = "EXT1",
    [0x83] = "EXT2",         [0x84] = "EXT4",
    [0x85] = "TUPLE1",       [0x86] = "TUPLE2",
    [0x87] = "TUPLE3",       [0x88] = "NEWTRUE",
    [0x89] = "NEWFALSE",     [0x8A] = "LONG1",
    [0x8B] = "LONG4",        [0x8C] = "SHORT_BINUNICODE",
    [0x8D] = "BINUNICODE8",  [0x8E] = "BINBYTES8",
    [0x8F] = "EMPTY_SET",    [0x90] = "ADDITEMS",
    [0x91] = "FROZENSET",    [0x92] = "NEWOBJ_EX",
    [0x93] = "STACK_GLOBAL", [0x94] = "MEMOIZE",
    [0x95] = "FRAME",        [0x96] = "BYTEARRAY8",
    [0x97] = "NEXT_BUFFER",  [0x98] = "READONLY_BUFFER",
};

const char *fv_pickle_opcode_name(unsigned char op) { return OPCODES[op]; }
