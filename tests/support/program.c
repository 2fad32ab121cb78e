#include "support/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/files.h"

extern char **environ;

program_reply program;

const char *program_folder(void)
{
    static char folder[128];
    if (!folder[0]) {
        const char *under = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%.90s/fovea-test-XXXXXX", under ? under : "/tmp");
        if (!mkdtemp(folder)) perror(folder);
    }
    return folder;
}

const char *program_path(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", program_folder(), name);
    return path;
}

void program_text(const char *name, const char *text)
{
    file_write(program_path(name), text, strlen(text));
}

void program_expect(const char *file, int line, int code, const char *in_out, const char *in_err)
{
    if (program.signal)
        test_failed(file, line, "ended by signal %d", program.signal);
    else if (program.code != code)
        test_failed(file, line, "exit code %d, not %d: %s", program.code, code, program.err);
    if (in_out && !strstr(program.out, in_out))
        test_failed(file, line, "no '%s' in the output: %s", in_out, program.out);
    if (in_err && !strstr(program.err, in_err))
        test_failed(file, line, "no '%s' in the messages: %s", in_err, program.err);
}

void program_end(void) { tree_remove(program_folder()); }

static void read_back(const char *path, char *out, size_t bytes)
{
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(out, 1, bytes - 1, file) : 0;
    out[got] = '\0';
    if (file) fclose(file);
}

void program_needed(void)
{
    enum { SKIPPED = 77 };
    if (getenv("FV_PROGRAM")) return;
    printf("skipped: FV_PROGRAM is not set to the program's path\n");
    exit(SKIPPED);
}

enum { MAX_WORDS = 64 };

static void split(char *text, char **argv)
{
    int count = 1;
    char *rest = NULL;
    argv[0] = getenv("FV_PROGRAM");
    for (char *word = strtok_r(text, " ", &rest); word && count < MAX_WORDS - 1;
         word = strtok_r(NULL, " ", &rest))
        argv[count++] = strcmp(word, "''") == 0 ? word + 2 : word;
    argv[count] = NULL;
}

/* The parent's end of a terminal whose other end is opened as the child's stdout. */
static int open_terminal(posix_spawn_file_actions_t *actions, int columns)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal)) return -1;
    const struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    if (columns > 0 && ioctl(terminal, TIOCSWINSZ, &size) != 0) return -1;
    posix_spawn_file_actions_addopen(actions, 1, ptsname(terminal), O_RDWR | O_NOCTTY, 0);
    return terminal;
}

static void read_terminal(int terminal)
{
    size_t at = 0;
    ssize_t got;
    /* The read fails with EIO when the child has closed its end. */
    while (at < sizeof program.out - 1 &&
           (got = read(terminal, program.out + at, sizeof program.out - 1 - at)) > 0)
        at += (size_t)got;
    program.out[at] = '\0';
    close(terminal);
}

/* The run that was started and not yet waited for. */
static struct {
    pid_t child;
    int terminal; /* -1: none */
    bool captured;
} running;

static const char *output_path(const char *name)
{
    static char paths[2][160];
    char *path = paths[strcmp(name, "stderr") == 0];
    snprintf(path, sizeof paths[0], "%s/%s", program_folder(), name);
    return path;
}

static bool start(program_output output, const char *fmt, va_list ap)
{
    char text[8192], *argv[MAX_WORDS];
    vsnprintf(text, sizeof text, fmt, ap);
    split(text, argv);
    program.code = -1;
    program.signal = 0;
    program.out[0] = program.err[0] = '\0';
    if (!argv[0]) {
        test_failed(__FILE__, __LINE__, "FV_PROGRAM is not set");
        return false;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int terminal = -1, ends[2] = {-1, -1};
    if (output == PROGRAM_CAPTURED) {
        posix_spawn_file_actions_addopen(&actions, 1, output_path("stdout"),
                                         O_WRONLY | O_CREAT | O_TRUNC, 0600);
    } else if (output == PROGRAM_CLOSED) {
        posix_spawn_file_actions_addclose(&actions, 1);
    } else if (output == PROGRAM_FULL) {
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/full", O_WRONLY, 0);
    } else if (output == PROGRAM_TERMINAL || output == PROGRAM_NARROW || output == PROGRAM_TYPED) {
        terminal = open_terminal(&actions, output == PROGRAM_NARROW ? 50 : 0);
        CHECK(terminal >= 0);
        if (output == PROGRAM_TYPED) posix_spawn_file_actions_adddup2(&actions, 1, 0);
    } else if (pipe2(ends, O_CLOEXEC) == 0) {
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        close(ends[0]);
    }
    posix_spawn_file_actions_addopen(&actions, 2, output_path("stderr"),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (output == PROGRAM_NARROW) posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int failed = posix_spawn(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (ends[1] >= 0) close(ends[1]);
    if (failed) {
        test_failed(__FILE__, __LINE__, "cannot run %s: %s", argv[0], strerror(failed));
        return false;
    }
    running.child = child;
    running.terminal = terminal;
    running.captured = output == PROGRAM_CAPTURED;
    return true;
}

void program_wait(void)
{
    int status = 0;
    if (running.child <= 0) return;
    if (running.terminal >= 0) read_terminal(running.terminal);
    while (waitpid(running.child, &status, 0) < 0 && errno == EINTR)
        continue;
    running.child = 0;
    program.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    program.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (running.captured) read_back(output_path("stdout"), program.out, sizeof program.out);
    read_back(output_path("stderr"), program.err, sizeof program.err);
}

void program_start(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!start(PROGRAM_CAPTURED, fmt, ap)) running.child = 0;
    va_end(ap);
}

void program_start_to(program_output output, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!start(output, fmt, ap)) running.child = 0;
    va_end(ap);
}

void program_signal(int signal_number)
{
    /* Twice in a row, as timeout(1) does: the program must count that as one request to stop. */
    for (int i = 0; i < 2 && running.child > 0; i++)
        kill(running.child, signal_number);
}

void program_sleep(double milliseconds)
{
    const long long n = (long long)(milliseconds * 1e6);
    struct timespec wait = {(time_t)(n / 1000000000), (long)(n % 1000000000)};
    nanosleep(&wait, NULL);
}

bool program_has_output(void)
{
    read_back(output_path("stdout"), program.out, sizeof program.out);
    return program.out[0] != '\0';
}

void program_run(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (start(PROGRAM_CAPTURED, fmt, ap)) program_wait();
    va_end(ap);
}

void program_run_to(program_output output, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (start(output, fmt, ap)) program_wait();
    va_end(ap);
}

void program_run_typing(const char *keys, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const bool started = start(PROGRAM_TYPED, fmt, ap);
    va_end(ap);
    if (!started) return;
    CHECK(write(running.terminal, keys, strlen(keys)) == (ssize_t)strlen(keys));
    program_wait();
}

/* Whether the running program has a handler for the signal: until then it would just be killed. */
static bool catches(int signal_number)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)running.child);
    read_back(path, text, sizeof text);
    const char *caught = strstr(text, "SigCgt:");
    return caught && strtoull(caught + 7, NULL, 16) >> (signal_number - 1) & 1;
}

static void wait_until_ready(int signal_number, const char *after)
{
    enum { SECONDS = 60 };
    for (int i = 0; i < 1000 * SECONDS; i++) {
        read_back(output_path("stderr"), program.err, sizeof program.err);
        if (catches(signal_number) && (!after || strstr(program.err, after))) return;
        program_sleep(1);
    }
    test_failed(__FILE__, __LINE__, "no '%s' in %d s: %s", after ? after : "", SECONDS,
                program.err);
}

void program_run_signalled(int signal_number, const char *after, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (start(PROGRAM_CAPTURED, fmt, ap)) {
        wait_until_ready(signal_number, after);
        program_signal(signal_number);
        program_wait();
    }
    va_end(ap);
}
