/*
 * Runs the program ($FV_PROGRAM) and keeps its output.
 *
 *     program_run("inspect --json %s", path);
 *     CHECK_EQ(program.code, 0);
 *     CHECK(strstr(program.out, "\"bytes\": 24"));
 *
 * Arguments are separated by spaces; there is no quoting, but '' is an empty argument. One run at a
 * time.
 */
#ifndef FV_TEST_PROGRAM_H
#define FV_TEST_PROGRAM_H

#include <sys/types.h>

#include "support/test.h"

typedef struct program_reply {
    int code;          /* exit code; -1 if a signal ended it */
    int signal;        /* that signal, else 0 */
    char out[1 << 18]; /* stdout and stderr, truncated to fit */
    char err[1 << 16];
} program_reply;

extern program_reply program;

/* Where the program's stdout goes. */
typedef enum program_output {
    PROGRAM_CAPTURED,
    PROGRAM_CLOSED,      /* no descriptor at all */
    PROGRAM_FULL,        /* a device that is always full */
    PROGRAM_READER_GONE, /* a pipe whose reading end is closed */
    PROGRAM_TERMINAL,    /* a pseudo-terminal; its text is captured */
    PROGRAM_NARROW,      /* the same, 50 columns wide and for the errors too */
    PROGRAM_TYPED        /* a pseudo-terminal that is stdin, too: program_run_typing */
} program_output;

/* For tests that only run the program: if FV_PROGRAM is not set, prints so and exits with the code
 * of a skipped test. Other tests fail when they run it. */
void program_needed(void);

void program_run(const char *fmt, ...) FV_PRINTF(1, 2);
void program_run_to(program_output output, const char *fmt, ...) FV_PRINTF(2, 3);
/* On a pseudo-terminal on which `keys` are typed. */
void program_run_typing(const char *keys, const char *fmt, ...) FV_PRINTF(2, 3);

/* Starts the program, sends `signal` once the program has a handler for it and its messages contain
 * `after` (NULL: at once), and waits for its end. */
void program_run_signalled(int signal, const char *after, const char *fmt, ...) FV_PRINTF(3, 4);

/* The same in steps: starts the program; sends it signals; waits for its end. */
void program_start(const char *fmt, ...) FV_PRINTF(1, 2);
void program_start_to(program_output output, const char *fmt, ...) FV_PRINTF(2, 3);
void program_signal(int signal);
void program_wait(void);
void program_sleep(double milliseconds);
/* Whether the running program has printed something to its captured stdout so far. */
bool program_has_output(void);

/* Checks that the last run exited with `code` and that its output and its errors contain these
 * texts; NULL: anything. */
#define expect(code, in_out, in_err) program_expect(__FILE__, __LINE__, code, in_out, in_err)
void program_expect(const char *file, int line, int code, const char *in_out, const char *in_err);

/* Writes a text to program_path(name). */
void program_text(const char *name, const char *text);

/* A folder for this test program's files, made on the first call, and a path in it (the text
 * lives until the eighth call after this one). program_end() removes it. */
const char *program_folder(void);
const char *program_path(const char *name);
void program_end(void);

#endif
