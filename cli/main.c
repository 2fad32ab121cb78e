/*
 * The program: finds the verb, parses its arguments, runs it, and checks that its output was
 * written. Each verb has a file of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "help.h"
#include "memory.h"
#include "options.h"
#include "output.h"

volatile int cli_cancelled, cli_save_request;

/* The first signal cancels, a second one exits at once. A second one within half a second counts as
 * the first: timeout(1) signals the process and then its whole group. */
static void on_signal(int signal_number)
{
    static volatile sig_atomic_t first; /* in tenths of a second, to fit the type */
    struct timespec now;
    (void)signal_number;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const sig_atomic_t tenths =
        (sig_atomic_t)(now.tv_sec % 100000000 * 10 + now.tv_nsec / 100000000);
    if (cli_cancelled && (tenths < first || tenths - first >= 5)) _exit(CLI_INTERRUPTED);
    if (!cli_cancelled) first = tenths;
    cli_cancelled = 1;
}

/* The kernel repeats SIGXCPU every second until the hard limit kills: it never exits at once. */
static void on_time_limit(int signal_number)
{
    (void)signal_number;
    cli_cancelled = 1;
}

static void on_save_request(int signal_number)
{
    (void)signal_number;
    cli_save_request = 1;
}

static void catch_signals(void)
{
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* nohup ignores SIGHUP, and so does its child. */
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    action.sa_handler = on_time_limit;
    sigaction(SIGXCPU, &action, NULL);
    action.sa_handler = on_save_request;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = 0;
    /* A closed pipe or a full disk must show as a failed write, not end the program. */
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

/* AMX serves processes that have asked for it; the library takes the request with a context. */
static void request_amx(void)
{
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.request_amx = true;
    if (fv_ctx_create(&cfg, &ctx) == FV_OK) fv_ctx_destroy(&ctx);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        help_overview(stderr);
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) word = "version";
    const cli_verb *verb = cli_find_verb(word);
    if (!verb) return cli_unknown_verb(word);

    cli_call call;
    int code = cli_parse(verb, argc - 2, argv + 2, &call);
    if (code) return code;
    if (call.help) {
        help_verb(stdout, verb);
        return CLI_DONE;
    }
    code = cli_check_paths(&call);
    if (!code) code = cli_memory_begin(&call);
    if (code) return code;
    request_amx();
    return verb->run(&call);
}

static bool reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/* Output that could not be written is a failure; a closed pipe needs no message. */
static int flush_output(int code)
{
    bool failed = ferror(stdout) != 0, quiet = reader_left();
    errno = 0;
    if (fflush(stdout) != 0) failed = true;
    int reason = errno;
    if (fclose(stdout) != 0) failed = true;
    if (!reason) reason = errno;
    if (!failed) return code;
    if (!quiet)
        cli_error("cannot write to standard output%s%s", reason ? ": " : "",
                  reason ? strerror(reason) : "");
    return code ? code : CLI_FAILED;
}

/*
 * A file opened later must not become descriptor 0, 1 or 2, or messages would be written into it.
 * The wrong access mode keeps what a missing descriptor means: reading and writing fail, and output
 * that is lost is reported.
 */
static void fill_descriptors(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int i = 0; i < CLI_COUNT(modes); i++)
        if (fcntl(i, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[i]) != i)
            _exit(CLI_FAILED);
}

int main(int argc, char **argv)
{
    fill_descriptors();
    catch_signals();
    int code = dispatch(argc, argv);
    if (cli_cancelled && code != CLI_DONE && !ferror(stdout)) code = CLI_INTERRUPTED;
    return flush_output(code);
}
