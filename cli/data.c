/* fovea data list|make|check: data sets by name. */
#include "fovea/data.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "input.h"
#include "options.h"
#include "output.h"

typedef struct session {
    const cli_call *call;
    fv_ctx *ctx;
    const char *data; /* $FOVEA_DATA, or NULL */
    bool reported;    /* the error of a file is printed */
} session;

static bool wants_json(const session *s) { return cli_flag(s->call, "json"); }

static int library_error(const session *s, fv_status status)
{
    return cli_library_error("data", s->ctx, status);
}

/* ---- list ------------------------------------------------------------------------ */

static void list_public_json(const session *s, const fv_dataset *set)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "name", set->name);
    cli_json_text(&j, "kind", "public");
    cli_json_text(&j, "about", set->about);
    cli_json_text(&j, "licence", set->licence);
    cli_json_text(&j, "source", set->source);
    cli_json_int(&j, "present", s->data ? (int64_t)fv_dataset_present(s->ctx, set, s->data) : 0);
    cli_json_open(&j, "files", '[');
    for (size_t i = 0; i < set->file_count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "path", set->files[i].path);
        cli_json_text(&j, "sha256", set->files[i].sha256);
        if (set->files[i].lines >= 0) cli_json_int(&j, "lines", set->files[i].lines);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static void list_made_json(const fv_made_set *set)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "name", set->name);
    cli_json_text(&j, "kind", "made");
    cli_json_text(&j, "about", set->about);
    cli_json_text(&j, "from", set->from);
    cli_json_text(&j, "source", set->source);
    cli_json_text(&j, "target", set->target);
    cli_json_close(&j, '}');
}

static void list_public(const session *s, const fv_dataset *set)
{
    const size_t present = s->data ? fv_dataset_present(s->ctx, set, s->data) : 0;
    const bool all = present == set->file_count;
    cli_styled(stdout, CLI_BOLD, set->name, 18);
    if (all || present == 0)
        cli_styled(stdout, all ? CLI_GREEN : CLI_DIM, all ? "here" : "not here", 10);
    else
        printf("%zu of %-4zu", present, set->file_count);
    printf("%s\n%28s%s\n%28s%s\n", set->about, "", set->licence, "", set->source);
    for (size_t i = 0; cli_flag(s->call, "files") && i < set->file_count; i++)
        printf("%28s%s  %s\n", "", set->files[i].sha256, set->files[i].path);
}

static int list(const session *s)
{
    const fv_made_set *made;
    const fv_dataset *set;
    if (s->call->word_count > 1) {
        cli_error("data: unexpected word '%s'", s->call->words[1]);
        return CLI_USAGE;
    }
    if (!wants_json(s)) printf("Written by 'fovea data make':\n");
    for (size_t i = 0; (made = fv_made_set_at(i)); i++) {
        if (wants_json(s)) {
            list_made_json(made);
            continue;
        }
        cli_styled(stdout, CLI_BOLD, made->name, 18);
        printf("%s%s%s\n", made->about, made->from ? "; made from " : "",
               made->from ? made->from : "");
    }
    if (!wants_json(s)) printf("\nPublic sets under %s:\n", s->data ? s->data : "FOVEA_DATA");
    for (size_t i = 0; (set = fv_dataset_at(i)); i++)
        if (wants_json(s))
            list_public_json(s, set);
        else
            list_public(s, set);
    if (!s->data) cli_note("FOVEA_DATA is not set: it names the folder that holds the public sets");
    return CLI_DONE;
}

/* ---- make ------------------------------------------------------------------------ */

static int no_such_set(const char *name)
{
    const fv_made_set *set;
    fv_nearest nearest;
    fv_nearest_init(&nearest, name);
    for (size_t i = 0; (set = fv_made_set_at(i)); i++)
        fv_nearest_add(&nearest, set->name, strlen(set->name));
    const char *found = fv_nearest_best(&nearest);
    if (found)
        cli_error("data: make: there is no set '%s'; did you mean '%s'?", name, found);
    else
        cli_error("data: make: there is no set '%s'", name);
    cli_note("see 'fovea data list'");
    return CLI_USAGE;
}

static void report_made(const session *s, const fv_made_set *set, const char *folder,
                        const fv_made_report *report)
{
    if (!wants_json(s)) {
        printf("%s: %lld pairs to train, %lld to validate, %lld to test", folder,
               (long long)report->pairs[FV_MADE_TRAIN], (long long)report->pairs[FV_MADE_VALID],
               (long long)report->pairs[FV_MADE_TEST]);
        if (report->repeated) printf("; %lld duplicates left out", (long long)report->repeated);
        printf("\n");
        return;
    }
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "name", set->name);
    cli_json_text(&j, "folder", folder);
    for (int part = 0; part < FV_MADE_PARTS; part++)
        cli_json_int(&j, fv_made_part_name((fv_made_part)part), report->pairs[part]);
    cli_json_int(&j, "repeated", report->repeated);
    cli_json_close(&j, '}');
}

static int make(const session *s)
{
    if (s->call->word_count != 2) {
        if (s->call->word_count > 2)
            cli_error("data: make: expected the name of one set, got '%s' and '%s'",
                      s->call->words[1], s->call->words[2]);
        else
            cli_error("data: make: the name of a set is missing");
        cli_note("see 'fovea data list'");
        return CLI_USAGE;
    }
    const fv_made_set *set = fv_made_set_find(s->call->words[1]);
    if (!set) return no_such_set(s->call->words[1]);
    char folder[CLI_PATH_BYTES];
    const bool named = cli_given(s->call, "output")
                           ? cli_path(folder, "%s", cli_text(s->call, "output"))
                           : cli_path(folder, "sets/%s", set->name);
    if (!named) return CLI_USAGE;
    if (set->from && !s->data) {
        cli_error("data: %s is made from %s: set FOVEA_DATA to the folder that holds it", set->name,
                  set->from);
        return CLI_MISSING;
    }
    if (!cli_may_write("data", folder, CLI_FOLDER_SET, cli_flag(s->call, "force")))
        return CLI_USAGE;
    if (!cli_make_folder(folder)) return CLI_FAILED;
    fv_made_config cfg;
    fv_made_config_init(&cfg, sizeof cfg);
    cfg.data = s->data;
    cfg.pairs = cli_int(s->call, "count");
    cfg.held_out = cli_int(s->call, "held-out");
    cfg.length = cli_int(s->call, "length");
    cfg.shortest = cli_int(s->call, "shortest");
    cfg.seed = (uint64_t)cli_int(s->call, "seed");
    fv_made_report report;
    const fv_status status = fv_made_set_write(s->ctx, set, &cfg, folder, &report);
    if (status != FV_OK) return library_error(s, status);
    report_made(s, set, folder, &report);
    return CLI_DONE;
}

/* ---- check ----------------------------------------------------------------------- */

static void show_finding(void *user, const fv_dataset_finding *f)
{
    session *s = user;
    s->reported = s->reported || f->status != FV_OK;
    if (wants_json(s)) {
        cli_json j = {.to = stdout};
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "path", f->path);
        cli_json_bool(&j, "ok", f->status == FV_OK);
        if (f->sha256[0]) cli_json_text(&j, "sha256", f->sha256);
        if (f->lines >= 0) cli_json_int(&j, "lines", f->lines);
        if (f->status != FV_OK) cli_json_text(&j, "error", f->message);
        cli_json_close(&j, '}');
    } else if (f->status != FV_OK) {
        cli_error("data: %s", f->message);
    } else {
        cli_styled(stdout, CLI_GREEN, "ok", 4);
        printf("%.12s  ", f->sha256);
        if (f->lines >= 0)
            printf("%8lld lines  ", (long long)f->lines);
        else
            printf("%14s  ", "");
        cli_safe_text(stdout, f->path);
        putchar('\n');
    }
}

static int check_one(session *s, const char *name)
{
    const fv_dataset *set = fv_dataset_find(name);
    struct stat about;
    if (set && !s->data) {
        cli_error("data: %s: set FOVEA_DATA to the folder that holds it", name);
        return CLI_MISSING;
    }
    fv_status status;
    s->reported = false;
    if (set)
        status = fv_dataset_check(s->ctx, set, s->data, show_finding, s);
    else if (stat(name, &about) == 0 && S_ISDIR(about.st_mode))
        status = fv_made_set_check(s->ctx, name, show_finding, s);
    else
        status = fv_text_file_check(s->ctx, name, show_finding, s);
    if (status == FV_OK) return CLI_DONE;
    return s->reported ? cli_exit_code(status) : library_error(s, status);
}

static int check(session *s)
{
    int worst = CLI_DONE;
    const fv_dataset *set;
    for (int i = 1; i < s->call->word_count; i++) {
        const int code = check_one(s, s->call->words[i]);
        if (code > worst) worst = code;
    }
    if (s->call->word_count > 1) return worst;
    if (!s->data) {
        cli_error(
            "data: check: expected a set, folder or file, or FOVEA_DATA to check all public sets");
        return CLI_USAGE;
    }
    for (size_t i = 0; (set = fv_dataset_at(i)); i++) {
        if (fv_dataset_present(s->ctx, set, s->data) == 0) continue;
        const int code = check_one(s, set->name);
        if (code > worst) worst = code;
    }
    return worst;
}

static int run(const cli_call *call)
{
    session s = {.call = call, .data = getenv("FOVEA_DATA")};
    if (s.data && !s.data[0]) s.data = NULL;
    int code = cli_plain_context("data", &s.ctx);
    if (code) return code;
    static const char actions[] = "list|make|check";
    const char *action = call->words[0];
    if (!cli_choice_has(actions, action))
        code = cli_bad_choice(call->verb, "what to do", action, actions);
    else if (strcmp(action, "make") == 0)
        code = make(&s);
    else
        code = strcmp(action, "list") == 0 ? list(&s) : check(&s);
    fv_ctx_destroy(&s.ctx);
    return code;
}

static const cli_option options[] = {
    {.name = "output",
     .letter = 'o',
     .type = CLI_PATH,
     .writes = true,
     .metavar = "FOLDER",
     .help = "folder that make writes; default: sets/ and the set's name"},
    CLI_FORCE,
    {.name = "count",
     .type = CLI_INT,
     .default_value = "10000",
     .min = 1,
     .max = 1e7,
     .metavar = "N",
     .help = "training pairs of a generated set"},
    {.name = "held-out",
     .type = CLI_INT,
     .default_value = "1000",
     .min = 0,
     .max = 1e6,
     .metavar = "N",
     .help = "pairs in valid and pairs in test of a generated set"},
    {.name = "length",
     .type = CLI_INT,
     .default_value = "10",
     .min = 1,
     .max = 1000,
     .metavar = "N",
     .help = "maximum number of symbols of copy, reverse and sort, or depth of trees"},
    {.name = "shortest",
     .type = CLI_INT,
     .default_value = "1",
     .min = 1,
     .max = 1000,
     .metavar = "N",
     .help = "minimum number of symbols, or depth"},
    {.name = "seed",
     .type = CLI_INT,
     .default_value = "1",
     .min = 0,
     .max = 1e9,
     .metavar = "N",
     .help = "random seed of a generated set"},
    {.name = "files", .type = CLI_FLAG, .help = "list each file with its checksum"},
    {.name = "json", .type = CLI_FLAG, .help = "print one JSON object per line"},
};

const cli_verb verb_data = {
    .name = "data",
    .about = "list, generate and check data sets",
    .notes =
        "list shows the sets that make can write and the public ones, with licence and source;\n"
        "those found under $FOVEA_DATA are marked. make writes train, valid and test, two files\n"
        "each, and dataset.json with their checksums. check reads public sets, folders written by\n"
        "make, or text files: checksums, line counts, lines that are not UTF-8; without a name, "
        "all\n"
        "sets under $FOVEA_DATA.\n\n"
        "No source is in two splits. The split of a source depends on its text only: take its "
        "bytes\n"
        "without ASCII punctuation and blanks, letters lower-cased, and h = the first eight bytes\n"
        "of their SHA-256, big-endian. h mod 100 is 0 or 1 for valid, 2 or 3 for test. Lines are\n"
        "sorted by h. In valid and test each source occurs once, with its first target. Dates\n"
        "are split by calendar date.",
    .words = {.metavar = "list|make|check [NAME]",
              .type = CLI_PATH,
              .min = 1,
              .max = CLI_MAX_WORDS,
              .help = "what to do, then the set to make, or the sets, folders and files to check"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
