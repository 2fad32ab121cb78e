/*
 * fovea demo: a network learns to read written dates. An encoder reads the characters both ways, a
 * decoder writes the ISO form, and before each character it attends to the source (RNNsearch,
 * Bahdanau et al. 2015). The attention weights are the picture at the end.
 */
#include <errno.h>
#include <string.h>

#include "folder.h"
#include "fovea/data.h"
#include "input.h"
#include "model.h"
#include "output.h"

enum { UNSEEN = 2000 };

/* The demo's recipe; --steps, --seed and settings change it. */
static const char *const recipe_values[][2] = {
    {"data.made", "dates"},           {"data.train_pairs", "40000"},
    {"data.valid_pairs", "200"},      {"tokens.kind", "char"},
    {"tokens.min_count", "1"},        {"model.embedding", "32"},
    {"model.encoder_hidden", "64"},   {"model.hidden", "128"},
    {"model.attention_width", "128"}, {"model.readout_width", "128"},
    {"train.optimizer", "adam"},      {"train.lr", "0.004"},
    {"train.schedule", "cosine"},     {"train.warmup", "50"},
    {"train.lr_floor", "0.0001"},     {"train.clip", "1"},
    {"train.batch_tokens", "2000"},   {"train.eval_every", "0"},
    {"train.save_every", "0"},        {"train.keep", "1"},
    {"eval.metric", "exact"},
};

static fv_status make_recipe(fv_ctx *ctx, const cli_call *call, fv_recipe **out)
{
    fv_status status = fv_run_recipe(ctx, out);
    for (size_t i = 0; status == FV_OK && i < sizeof recipe_values / sizeof *recipe_values; i++)
        status = fv_recipe_set(*out, recipe_values[i][0], recipe_values[i][1]);
    if (status == FV_OK) status = fv_recipe_set(*out, "train.steps", cli_text(call, "steps"));
    if (status == FV_OK) status = fv_recipe_set(*out, "train.seed", cli_text(call, "seed"));
    for (int i = 0; status == FV_OK && i < call->setting_count; i++)
        status = fv_recipe_set(*out, call->settings[i].name, call->settings[i].value);
    return status;
}

/* ---- evaluation ------------------------------------------------------------------ */

typedef struct marks {
    long exact, looked, looked_right;
} marks;

/* The field that character i of the ISO form is copied from; NULL for hyphens and for a century
 * that the source does not write. */
static const fv_date_field *field_of(const fv_date_pair *p, int i)
{
    if (p->iso[i] == '-') return NULL;
    if (i < 4) return i < 2 && p->year_digits == 2 ? NULL : &p->year_at;
    return i < 7 ? &p->month_at : &p->day_at;
}

static void mark(const fv_date_pair *p, const fv_translation *t, marks *m)
{
    m->exact += strcmp(t->text, p->iso) == 0;
    for (int i = 0; i < 10 && i < t->target_count; i++) {
        const fv_date_field *field = field_of(p, i);
        if (!field) continue;
        const float *row = t->weights + i * t->source_count;
        int64_t best = 0;
        for (int64_t c = 1; c < t->source_count; c++)
            if (row[c] > row[best]) best = c;
        m->looked++;
        m->looked_right += best >= field->begin && best < field->end;
    }
}

static fv_status examine(fv_model *t, uint64_t seed, marks *m)
{
    static fv_date_pair pairs[UNSEEN];
    static fv_string sources[UNSEEN];
    for (int i = 0; i < UNSEEN; i++) {
        fv_date_pair_make(seed, (uint64_t)i, FV_DATES_TEST, &pairs[i]);
        sources[i] = (fv_string){pairs[i].written, strlen(pairs[i].written)};
    }
    fv_translate_config how;
    fv_translate_config_init(&how, sizeof how);
    how.search.want_weights = true;
    how.batch = 250;
    fv_translations *all = NULL;
    const fv_status status = fv_translate(t, UNSEEN, sources, &how, &all);
    for (int i = 0; status == FV_OK && i < UNSEEN; i++)
        mark(&pairs[i], fv_translations_get(all, i, 0), m);
    fv_translations_free(&all);
    return status;
}

/* ---- showing --------------------------------------------------------------------- */

static fv_status show_some(fv_model *t, uint64_t seed)
{
    enum { SOME = 6 };
    printf("\nDates it never saw:\n");
    for (int i = 0; i < SOME; i++) {
        fv_date_pair p;
        fv_date_pair_make(seed, UNSEEN + 7 * (uint64_t)i, FV_DATES_TEST, &p);
        const fv_string source = {p.written, strlen(p.written)};
        fv_translations *out = NULL;
        const fv_status status = fv_translate(t, 1, &source, NULL, &out);
        if (status != FV_OK) return status;
        const char *text = fv_translations_get(out, 0, 0)->text;
        printf("  %s  ", text);
        cli_styled(stdout, strcmp(text, p.iso) == 0 ? CLI_GREEN : CLI_RED,
                   strcmp(text, p.iso) == 0 ? "right" : "wrong", 5);
        printf("  %s\n", p.written);
        fv_translations_free(&out);
    }
    return FV_OK;
}

static fv_status show_alignment(fv_model *t, const char *text, const char *folder)
{
    fv_ctx *ctx = fv_model_ctx(t);
    fv_translate_config how;
    fv_translate_config_init(&how, sizeof how);
    how.search.want_weights = true;
    const fv_string source = {text, strlen(text)};
    fv_translations *out = NULL;
    char path[CLI_PATH_BYTES];
    fv_status status = fv_translate(t, 1, &source, &how, &out);
    if (status == FV_OK) {
        const fv_translation *one = fv_translations_get(out, 0, 0);
        printf("\nAttention weights of \"%s\" -> %s:\n\n", text, one->text);
        if (one->weights) status = cli_show_alignment(ctx, one, NULL, NULL);
        static const char *const endings[] = {"svg", "png"};
        for (int i = 0; status == FV_OK && one->weights && i < 2; i++) {
            const bool named = cli_path(path, "%s/alignment.%s", folder, endings[i]);
            status = named ? cli_show_alignment(ctx, one, text, path) : FV_ERR_IO;
        }
    }
    fv_translations_free(&out);
    return status;
}

/* Prints commands with the path of this program: a new build is not on the PATH. */
static void say_what_next(const char *folder)
{
    const char *program = program_invocation_name;
    printf("\nFiles:\n"
           "  %s/alignment.svg, alignment.png   the picture above\n"
           "  %s/log.csv, log.jsonl             the training, step by step\n"
           "  %s                                the model\n\n"
           "Try next:\n"
           "  %s run %s \"le 14 juillet 1989\" \"March the 3rd, 2031\"\n"
           "  %s look %s \"3.10.90\" -o look.html\n"
           "  %s help train\n",
           folder, folder, folder, program, folder, program, folder, program);
}

static fv_status learn_and_show(fv_ctx *ctx, const cli_call *call, fv_recipe *recipe)
{
    const char *folder = cli_text(call, "output");
    const uint64_t seed = (uint64_t)cli_int(call, "seed");
    cli_progress progress;
    cli_progress_begin(&progress, ctx, false);
    fv_run *run = NULL;
    marks m = {0, 0, 0};
    cli_note("learning to read dates in four languages; the model goes to %s", folder);
    fv_status status = fv_run_create(ctx, recipe, folder, cli_progress_show, &progress, &run);
    if (status == FV_OK) status = fv_run_train(run);
    cli_progress_end(&progress);
    fv_model *t = run ? fv_run_model(run) : NULL;
    if (status == FV_OK) status = examine(t, seed + 1, &m);
    if (status == FV_OK) {
        printf("%ld of %d unseen dates are exactly right (%.2f %%).\n", m.exact, UNSEEN,
               100.0 * (double)m.exact / UNSEEN);
        printf("%.1f %% of the characters copied from the source were written looking at the "
               "right field.\n",
               100.0 * (double)m.looked_right / (double)(m.looked ? m.looked : 1));
        status = show_some(t, seed + 1);
    }
    if (status == FV_OK) status = show_alignment(t, cli_text(call, "date"), folder);
    if (status == FV_OK) say_what_next(folder);
    fv_run_destroy(&run);
    return status;
}

static int run(const cli_call *call)
{
    int code = CLI_FAILED;
    fv_ctx *ctx = cli_context(call, (uint64_t)cli_int(call, "seed"), &code);
    if (!ctx) return code;
    cli_lock lock;
    code = cli_lock_folder("demo", cli_text(call, "output"), cli_flag(call, "force"), &lock);
    if (code) {
        fv_ctx_destroy(&ctx);
        return code;
    }
    fv_recipe *recipe = NULL;
    fv_status status = make_recipe(ctx, call, &recipe);
    if (status == FV_OK) status = learn_and_show(ctx, call, recipe);
    code = status == FV_OK ? CLI_DONE : cli_library_error("demo", ctx, status);
    cli_unlock_folder(&lock, status == FV_OK);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return code;
}

static const cli_option options[] = {
    {.name = "date",
     .type = CLI_STRING,
     .default_value = "Thursday, 3 May 1979",
     .metavar = "TEXT",
     .help = "the date whose attention is drawn"},
    {.name = "output",
     .letter = 'o',
     .type = CLI_PATH,
     .writes = true,
     .default_value = "fovea-demo",
     .metavar = "FOLDER",
     .help = "folder for model and pictures; a second run does not train again"},
    {.name = "steps",
     .type = CLI_INT,
     .default_value = "500",
     .min = 1,
     .max = 1e6,
     .metavar = "N",
     .help = "training steps"},
    CLI_FORCE,
    CLI_THREADS,
    CLI_DEVICE,
    {.name = "seed",
     .type = CLI_INT,
     .default_value = "1",
     .min = 0,
     .max = 1e9,
     .metavar = "N",
     .help = "random seed of weights and dates"},
};

const cli_verb verb_demo = {
    .name = "demo",
    .about = "train a small translator of dates and draw its attention",
    .notes = "Needs no data. In less than a minute a network with attention learns to turn dates "
             "written in English, German, French and Spanish into their ISO form, is tested on "
             "unseen dates, and its attention is drawn.",
    .options = options,
    .option_count = CLI_COUNT(options),
    .takes_settings = true,
    .run = run,
};
