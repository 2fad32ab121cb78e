/*
 * Sets for translation: arithmetic as bracketed trees, against a parser of the test's own, and the
 * splits of SCAN.
 */
#include <sys/stat.h>

#include "data/generated.h"
#include "fovea/data.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

/* ---- trees ---------------------------------------------------------------------------------- */

/* Parses "3 + 4 * 2" by precedence climbing and writes it with all brackets. */
typedef struct parser {
    const char *at;
    int depth; /* of what was parsed last */
} parser;

static char peek(parser *p)
{
    while (*p->at == ' ')
        p->at++;
    return *p->at;
}

static int strength(char op) { return op == '+' || op == '-' ? 1 : op == '*' || op == '/' ? 2 : 0; }

static void parse(parser *p, int least, char *out);

static void parse_unit(parser *p, char *out)
{
    const char c = peek(p);
    p->at++;
    p->depth = 0;
    if (c != '(') {
        CHECK(c >= '0' && c <= '9');
        out[0] = c;
        out[1] = '\0';
        return;
    }
    parse(p, 1, out);
    CHECK_EQ(peek(p), ')');
    p->at++;
}

static void parse(parser *p, int least, char *out)
{
    parse_unit(p, out);
    int depth = p->depth;
    for (char op; strength(op = peek(p)) >= least;) {
        char left[2000], right[2000];
        snprintf(left, sizeof left, "%s", out);
        p->at++;
        parse(p, strength(op) + 1, right);
        snprintf(out, 2000, "( %.900s %c %.900s )", left, op, right);
        depth = 1 + (depth > p->depth ? depth : p->depth);
    }
    p->depth = depth;
}

static void targets_are_the_trees_of_their_sources(void)
{
    int depths[8] = {0}, needed = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        const fv_made_config cfg = {.length = 5, .shortest = 2, .seed = 7};
        fv_drawn d;
        char tree[2000];
        fv_draw_tree(&cfg, i, &d);
        parser p = {.at = d.source};
        parse(&p, 1, tree);
        CHECK_EQ(peek(&p), '\0');
        CHECK_STR(d.target, tree);
        CHECK(p.depth >= 2 && p.depth <= 5);
        if (p.depth <= 5) depths[p.depth]++;
        CHECK_EQ(d.part, fv_made_part_of(d.source, strlen(d.source)));
        needed += strchr(d.source, '(') != NULL;
    }
    for (int depth = 2; depth <= 5; depth++)
        CHECK(depths[depth] > 500);
    CHECK(needed > 1000);
}

/* Without any one pair of its brackets a source means another tree. */
static void sources_have_no_bracket_too_many(void)
{
    for (uint64_t i = 0; i < 300; i++) {
        const fv_made_config cfg = {.length = 4, .shortest = 1, .seed = 3};
        fv_drawn d;
        fv_draw_tree(&cfg, i, &d);
        for (char *open = strchr(d.source, '('); open; open = strchr(open + 1, '(')) {
            char *close = open + 1, tree[2000];
            for (int level = 1; level > 0; close++)
                level += *close == '(' ? 1 : *close == ')' ? -1 : 0;
            *open = close[-1] = ' ';
            parser p = {.at = d.source};
            parse(&p, 1, tree);
            CHECK(strcmp(tree, d.target) != 0);
            *open = '(';
            close[-1] = ')';
        }
    }
}

/* The deepest that a set may have fits, and one more is refused. */
static void depths_are_bounded(void)
{
    fv_made_config cfg;
    fv_made_config_init(&cfg, sizeof cfg);
    cfg.pairs = 20;
    cfg.held_out = 2;
    cfg.length = cfg.shortest = 39;
    const fv_made_set *set = fv_made_set_find("trees");
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_sub("deep"));
    CHECK_OK(ctx, fv_made_set_write(ctx, set, &cfg, folder, NULL));
    CHECK_OK(ctx, fv_made_set_check(ctx, folder, NULL, NULL));
    cfg.length = 40;
    CHECK_EQ(fv_made_set_write(ctx, set, &cfg, folder, NULL), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "1 to 39") != NULL);
    cfg.length = 4;
    cfg.shortest = 5;
    CHECK_EQ(fv_made_set_write(ctx, set, &cfg, folder, NULL), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "1 to 4, got 5") != NULL);
}

static void shortest_bounds_letters_too(void)
{
    for (uint64_t i = 0; i < 200; i++) {
        const fv_made_config cfg = {.length = 5, .shortest = 4, .seed = 2};
        fv_drawn d;
        fv_draw_copy(&cfg, i, &d);
        CHECK(strlen(d.source) == 7 || strlen(d.source) == 9);
    }
}

/* ---- SCAN ----------------------------------------------------------------------------------- */

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "data/scan/%s", name);
    file_write(folder_path(path), text, strlen(text));
}

static fv_status make_scan(const char *name, fv_made_report *report)
{
    fv_made_config cfg;
    fv_made_config_init(&cfg, sizeof cfg);
    char data[512], folder[512];
    snprintf(data, sizeof data, "%s", folder_path("data"));
    snprintf(folder, sizeof folder, "%s", folder_path("scan-set"));
    cfg.data = data;
    return fv_made_set_write(ctx, fv_made_set_find(name), &cfg, folder, report);
}

static void expect_file(const char *name, const char *text)
{
    char path[256];
    size_t bytes = 0;
    snprintf(path, sizeof path, "scan-set/%s", name);
    char *data = file_read(folder_path(path), &bytes);
    CHECK(data && bytes == strlen(text) && memcmp(data, text, bytes) == 0);
    free(data);
}

static void scan_is_split_into_commands_and_actions(void)
{
    fv_made_report report;
    put("tasks_train_addprim_jump.txt.xz",
        "IN: jump OUT: I_JUMP\nIN: jump OUT: I_JUMP\nIN: walk left OUT: I_TURN_LEFT I_WALK\n");
    put("tasks_test_addprim_jump.txt.xz", "IN: jump left OUT: I_TURN_LEFT I_JUMP\n");
    CHECK_OK(ctx, make_scan("scan-jump", &report));
    CHECK_EQ(report.pairs[FV_MADE_TRAIN] + report.pairs[FV_MADE_VALID], 3);
    CHECK_EQ(report.pairs[FV_MADE_TEST], 1);
    expect_file("test.command", "jump left\n");
    expect_file("test.actions", "I_TURN_LEFT I_JUMP\n");
    CHECK(report.pairs[FV_MADE_TRAIN] >= 2); /* repeated lines and single words stay */
}

static void damaged_scan_is_named(void)
{
    static const char *const bad[] = {"IN: jump I_JUMP\n", "jump OUT: I_JUMP\n", "IN:  OUT: \n",
                                      "IN: jump OUT: \n"};
    put("tasks_test_simple.txt.xz", "IN: jump OUT: I_JUMP\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put("tasks_train_simple.txt.xz", bad[i]);
        CHECK_EQ(make_scan("scan-simple", NULL), FV_ERR_FORMAT);
        CHECK(strstr(fv_ctx_message(ctx), ":1: expected 'IN: command OUT: actions'") != NULL);
    }
}

/* The public files, where they are. */
static void public_scan_is_complete(void)
{
    const char *data = getenv("FOVEA_DATA");
    const fv_dataset *scan = fv_dataset_find("scan");
    if (!data || fv_dataset_present(ctx, scan, data) < scan->file_count) return;
    static const struct {
        const char *name;
        int64_t train, test;
    } sets[] = {
        {"scan-simple", 16728, 4182}, {"scan-length", 16990, 3920}, {"scan-jump", 14670, 7706}};
    for (size_t i = 0; i < 3; i++) {
        fv_made_config cfg;
        fv_made_report report;
        fv_made_config_init(&cfg, sizeof cfg);
        cfg.data = data;
        char folder[512];
        snprintf(folder, sizeof folder, "%s", folder_sub(sets[i].name));
        CHECK_OK(ctx,
                 fv_made_set_write(ctx, fv_made_set_find(sets[i].name), &cfg, folder, &report));
        CHECK_EQ(report.pairs[FV_MADE_TRAIN] + report.pairs[FV_MADE_VALID], sets[i].train);
        CHECK_EQ(report.pairs[FV_MADE_TEST], sets[i].test);
        CHECK(report.pairs[FV_MADE_VALID] > 200);
        CHECK_OK(ctx, fv_made_set_check(ctx, folder, NULL, NULL));
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_sub("data");
    folder_sub("data/scan");
    folder_sub("scan-set");
    RUN(targets_are_the_trees_of_their_sources);
    RUN(sources_have_no_bracket_too_many);
    RUN(depths_are_bounded);
    RUN(shortest_bounds_letters_too);
    RUN(scan_is_split_into_commands_and_actions);
    RUN(damaged_scan_is_named);
    RUN(public_scan_is_complete);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
