/*
 * Options that several verbs have, for their tables: one name, one letter, one range and one text
 * everywhere.
 */
#ifndef FOVEA_CLI_SHARED_OPTIONS_H
#define FOVEA_CLI_SHARED_OPTIONS_H

#include "options.h"

#define CLI_THREADS                                                                                \
    {                                                                                              \
        .name = "threads", .letter = 't', .type = CLI_INT, .default_value = "0", .min = 0,         \
        .max = 64, .metavar = "N", .help = "threads; 0: one per CPU"                               \
    }

/* Read by cli_device. */
#define CLI_DEVICE                                                                                 \
    {                                                                                              \
        .name = "device", .type = CLI_CHOICE, .choices = "cpu|guarded|cuda",                       \
        .default_value = "cpu", .metavar = "DEVICE",                                               \
        .help = "what computes; guarded: the CPU with the restrictions of a GPU, for tests"        \
    }

/* Where texts come from, unless they follow the model on the command line. */
#define CLI_TEXTS                                                                                  \
    {.name = "file",                                                                               \
     .letter = 'f',                                                                                \
     .type = CLI_PATH,                                                                             \
     .default_value = "-",                                                                         \
     .metavar = "FILE",                                                                            \
     .help = "texts, one per line, if none are given; - is standard input"},                       \
    {                                                                                              \
        .name = "prompt", .letter = 'p', .type = CLI_STRING, .metavar = "TEXT",                    \
        .help = "the only text"                                                                    \
    }

/* The words of verbs that have CLI_TEXTS. */
#define CLI_MODEL_AND_TEXTS                                                                        \
    {                                                                                              \
        .metavar = "MODEL [TEXT ...]", .type = CLI_PATH, .min = 1, .max = CLI_MAX_WORDS,           \
        .help = "the model's folder, and texts"                                                    \
    }

/* Tokens in place of texts. */
#define CLI_IDS                                                                                    \
    {.name = "ids",                                                                                \
     .type = CLI_PATH,                                                                             \
     .metavar = "FILE",                                                                            \
     .help = "tokens as .npy, [batch, length], instead of texts: one pass of a Transformer"},      \
        {.name = "decoder-ids",                                                                    \
         .type = CLI_PATH,                                                                         \
         .metavar = "FILE",                                                                        \
         .help = "with --ids: tokens of the decoder"},                                             \
        {.name = "mask",                                                                           \
         .type = CLI_PATH,                                                                         \
         .metavar = "FILE",                                                                        \
         .help = "with --ids: 0 hides a token"},                                                   \
    {                                                                                              \
        .name = "type-ids", .type = CLI_PATH, .metavar = "FILE",                                   \
        .help = "with --ids: token types (sentence A, B)"                                          \
    }

/* How weights are loaded. */
#define CLI_WEIGHTS                                                                                \
    {.name = "mmap",                                                                               \
     .type = CLI_FLAG,                                                                             \
     .help = "map the weights instead of reading them: less memory, but if another program "       \
             "truncates the file, this one is killed (SIGBUS)"},                                   \
    {                                                                                              \
        .name = "no-verify", .type = CLI_FLAG,                                                     \
        .help = "do not verify the weights' checksums and values"                                  \
    }

#define CLI_BEAM(size)                                                                             \
    {                                                                                              \
        .name = "beam", .type = CLI_INT, .default_value = size, .min = 1, .max = 1000,             \
        .metavar = "N", .help = "beam size; 1 is greedy search"                                    \
    }

#define CLI_PHARAOH                                                                                \
    {                                                                                              \
        .name = "pharaoh", .type = CLI_FLAG, .help = "print alignments, source-target from 0"      \
    }

#define CLI_REPLACE_UNK                                                                            \
    {                                                                                              \
        .name = "replace-unk", .type = CLI_FLAG,                                                   \
        .help = "replace an unknown word by the source word with the highest attention weight"     \
    }

#endif
