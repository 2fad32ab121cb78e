/* Programs that read standard input from a pipe that stays open: each line is answered before the
 * next one is written. */
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/program.h"

extern char **environ;

typedef struct talk {
    pid_t child;
    int to, from; /* our ends of its standard input and output */
} talk;

static void begin(talk *t, const char *verb, const char *model)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    char *argv[] = {getenv("FV_PROGRAM"), (char *)(uintptr_t)verb, (char *)(uintptr_t)model, NULL};
    *t = (talk){.child = -1};
    CHECK(pipe(in) == 0 && pipe(out) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    for (int i = 0; i < 2; i++) {
        posix_spawn_file_actions_addclose(&actions, in[i]);
        posix_spawn_file_actions_addclose(&actions, out[i]);
    }
    CHECK_EQ(posix_spawn(&t->child, argv[0], &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    t->to = in[1];
    t->from = out[0];
}

static void say(const talk *t, const char *text)
{
    CHECK_EQ(write(t->to, text, strlen(text)), (ssize_t)strlen(text));
}

/* The next line, without its end; waits a minute for it. */
static const char *read_answer(const talk *t)
{
    static char line[256];
    size_t n = 0;
    struct pollfd from = {.fd = t->from, .events = POLLIN};
    while (n + 1 < sizeof line && poll(&from, 1, 60000) > 0 && read(t->from, line + n, 1) == 1 &&
           line[n] != '\n')
        n++;
    line[n] = '\0';
    return line;
}

static int end(talk *t, int with_signal)
{
    int status = -1;
    if (with_signal)
        kill(t->child, with_signal);
    else
        close(t->to);
    while (waitpid(t->child, &status, 0) < 0)
        continue;
    if (with_signal) close(t->to);
    close(t->from);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void make_model(void)
{
    program_text("r.toml", "[data]\nmade = \"dates\"\ntrain_pairs = 60\nvalid_pairs = 5\n[tokens]\n"
                           "kind = \"char\"\nmin_count = 1\n[model]\nhidden = 8\nencoder_hidden = "
                           "5\nembedding = 6\n[train]\nsteps = 6\nbatch_tokens = 200\n");
    program_run("train %s -o %s -t 1 -q", program_path("r.toml"), program_path("m"));
    CHECK_EQ(program.code, 0);
}

static void a_line_is_answered_at_once(void)
{
    talk t;
    char first[256];
    program_run("run %s 3.5.79 7.7.77", program_path("m"));
    char *second = strchr(program.out, '\n');
    CHECK(second != NULL && second > program.out);
    if (!second) return;
    *second++ = '\0';
    begin(&t, "run", program_path("m"));
    say(&t, "3.5.79\n");
    snprintf(first, sizeof first, "%s", read_answer(&t));
    CHECK_STR(first, program.out);
    say(&t, "7.7");
    say(&t, ".77\n");
    CHECK(strncmp(read_answer(&t), second, strcspn(second, "\n")) == 0);
    CHECK_EQ(end(&t, 0), 0);
}

static void tokens_come_at_once(void)
{
    talk t;
    begin(&t, "tokenize", program_path("m"));
    say(&t, "3.5\n");
    CHECK_STR(read_answer(&t), "3 . 5");
    CHECK_EQ(end(&t, 0), 0);
}

static void ctrl_c_ends_the_wait(void)
{
    talk t;
    begin(&t, "run", program_path("m"));
    say(&t, "3.5.79\n");
    CHECK(read_answer(&t)[0] != '\0');
    CHECK_EQ(end(&t, SIGINT), 130);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    make_model();
    RUN(a_line_is_answered_at_once);
    RUN(tokens_come_at_once);
    RUN(ctrl_c_ends_the_wait);
    program_end();
    return TEST_END();
}
