/* Recipes: types, bounds, files, overrides, messages. */
#include "fovea/recipe.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

static const fv_key KEYS[] = {
    {.name = "name", .type = FV_KEY_TEXT, .default_value = "run", .help = "what to call it"},
    {.name = "data.train", .type = FV_KEY_PATH, .help = "a file"},
    {.name = "model.cell",
     .type = FV_KEY_CHOICE,
     .default_value = "gru",
     .choices = "rnn|gru|lstm"},
    {.name = "model.size", .type = FV_KEY_INT, .default_value = "64", .min = 1, .max = 4096},
    {.name = "train.lr", .type = FV_KEY_REAL, .default_value = "0.001", .min = 0, .max = 10},
    {.name = "train.shuffle", .type = FV_KEY_BOOL, .default_value = "true"},
    {.name = "model.late",
     .type = FV_KEY_INT,
     .default_value = "5"},                                     /* a section that comes twice */
    {.name = "late", .type = FV_KEY_INT, .default_value = "6"}, /* and none after some */
};

static fv_recipe *make(void)
{
    fv_recipe *recipe = NULL;
    const fv_key_table tables[] = {{KEYS, 2}, {KEYS + 2, sizeof KEYS / sizeof *KEYS - 2}};
    CHECK_OK(ctx, fv_recipe_create(ctx, tables, 2, &recipe));
    return recipe;
}

static void starts_at_the_fallbacks(void)
{
    fv_recipe *r = make();
    CHECK_STR(fv_recipe_text(r, "name"), "run");
    CHECK_STR(fv_recipe_text(r, "data.train"), "");
    CHECK_EQ(fv_recipe_choice(r, "model.cell"), 1);
    CHECK_EQ(fv_recipe_int(r, "model.size"), 64);
    CHECK_NEAR(fv_recipe_real(r, "train.lr"), 0.001, 0);
    CHECK(fv_recipe_bool(r, "train.shuffle"));
    CHECK(!fv_recipe_is_set(r, "train.lr"));
    CHECK_EQ(fv_recipe_int(r, "no.such"), 0);
    CHECK_NEAR(fv_recipe_real(r, "no.such"), 0, 0);
    CHECK_EQ(fv_recipe_choice(r, "no.such"), -1);
    CHECK_EQ(fv_recipe_choice(r, "name"), -1);
    fv_recipe_destroy(&r);
}

/* The first key of all, and a text without a byte to spare after it. */
static void the_first_key_is_a_key(void)
{
    static const fv_key keys[] = {
        {.name = "kind", .type = FV_KEY_CHOICE, .default_value = "b", .choices = "a|b|c"}};
    fv_recipe *r = NULL;
    char *exact = malloc(2);
    CHECK_OK(ctx, fv_recipe_create(ctx, &(fv_key_table){keys, 1}, 1, &r));
    CHECK_EQ(fv_recipe_choice(r, "kind"), 1);
    memcpy(exact, "c", 2);
    CHECK_OK(ctx, fv_recipe_set(r, "kind", exact));
    free(exact);
    CHECK_EQ(fv_recipe_choice(r, "kind"), 2);
    CHECK_STR(fv_recipe_text(r, "kind"), "c");
    fv_recipe_destroy(&r);
}

/* A key too long to be one is named without its section, of which it leaves nothing to see. */
static void long_keys_are_named(void)
{
    for (int n = 120; n < 124; n++) {
        char text[200];
        snprintf(text, sizeof text, "[model]\n%0*d = 1\n", n, 7);
        file_write(folder_path("long.toml"), text, strlen(text));
        fv_recipe *r = make();
        CHECK_EQ(fv_recipe_load(r, folder_path("long.toml")), FV_ERR_FORMAT);
        const char *named = strstr(fv_ctx_message(ctx), "unknown key '");
        CHECK(named && strncmp(named + 13, n < 122 ? "model.0" : "0000000", 7) == 0);
        fv_recipe_destroy(&r);
    }
}

static void a_table_must_pass_its_own_rules(void)
{
    static const fv_key bad[] = {{.name = "a", .type = FV_KEY_INT, .default_value = "x"}};
    static const fv_key twice[] = {{.name = "a", .type = FV_KEY_TEXT},
                                   {.name = "a", .type = FV_KEY_TEXT}};
    fv_recipe *r = NULL;
    CHECK_EQ(fv_recipe_create(ctx, &(fv_key_table){bad, 1}, 1, &r), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_recipe_create(ctx, &(fv_key_table){twice, 2}, 1, &r), FV_ERR_ARGUMENT);
    CHECK(r == NULL);
}

static void values_are_checked(void)
{
    static const struct {
        const char *name, *text, *message;
    } wrong[] = {
        {"model.size", "0", "model.size: '0' is invalid, expected an integer from 1 to 4096"},
        {"model.size", "1.5", "model.size: '1.5' is invalid, expected an integer from 1 to 4096"},
        {"model.size", "", "model.size: '' is invalid, expected an integer from 1 to 4096"},
        {"train.lr", "fast", "train.lr: 'fast' is invalid, expected a number from 0 to 10"},
        {"train.lr", "11", "train.lr: '11' is invalid, expected a number from 0 to 10"},
        {"train.lr", "nan", "train.lr: 'nan' is invalid, expected a number from 0 to 10"},
        {"train.shuffle", "yes", "train.shuffle: 'yes' is invalid, expected true or false"},
        {"model.cell", "lstn",
         "model.cell: 'lstn' is invalid, expected one of rnn|gru|lstm; did you mean 'lstm'?"},
        {"name", "a\nb", "name: invalid UTF-8 or a control character"},
        {"name", "\xff", "name: invalid UTF-8 or a control character"},
        {"train.rl", "1", "unknown key 'train.rl'; did you mean 'train.lr'?"},
        {"zzzzzzzz", "1", "unknown key 'zzzzzzzz'"},
        {"lrr", "1", "unknown key 'lrr'; did you mean 'train.lr'?"},
        {"x.shuffle", "1", "unknown key 'x.shuffle'; did you mean 'train.shuffle'?"},
    };
    fv_recipe *r = make();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQ(fv_recipe_set(r, wrong[i].name, wrong[i].text), FV_ERR_ARGUMENT);
        CHECK_STR(fv_ctx_message(ctx), wrong[i].message);
    }
    CHECK_OK(ctx, fv_recipe_set(r, "train.lr", "2.5e-3"));
    CHECK_NEAR(fv_recipe_real(r, "train.lr"), 2.5e-3, 0);
    CHECK(fv_recipe_is_set(r, "train.lr"));
    CHECK_OK(ctx, fv_recipe_set(r, "model.cell", "lstm"));
    CHECK_EQ(fv_recipe_choice(r, "model.cell"), 2);
    CHECK_EQ(fv_recipe_choice(r, "model.size"), -1);
    fv_recipe_destroy(&r);
}

static void load_text(fv_recipe *r, const char *text, fv_status status, const char *message)
{
    const char *path = folder_path("r.toml");
    file_write(path, text, strlen(text));
    CHECK_EQ(fv_recipe_load(r, path), status);
    if (status != FV_OK) CHECK(strstr(fv_ctx_message(ctx), message) != NULL);
    if (status != FV_OK && !strstr(fv_ctx_message(ctx), message)) puts(fv_ctx_message(ctx));
}

static void a_file_is_taken_whole_or_not_at_all(void)
{
    fv_recipe *r = make();
    load_text(r, "name = \"x\"\n[train]\nlr = 3\n[model]\nsize = 8\ncell = 'rnn'\n", FV_OK, "");
    CHECK_STR(fv_recipe_text(r, "name"), "x");
    CHECK_NEAR(fv_recipe_real(r, "train.lr"), 3, 0);
    CHECK_EQ(fv_recipe_int(r, "model.size"), 8);
    load_text(r, "[model]\nsize = 9\nsiez = 3\n", FV_ERR_FORMAT,
              "r.toml:3:8: unknown key 'model.siez'; did you mean 'model.size'?");
    load_text(r, "[model]\nsize = 9\n[train]\nlr = \"1\"\n", FV_ERR_FORMAT,
              "r.toml:4:6: train.lr: expected a number, found a string");
    load_text(r, "[train]\nlr = 1\nshuffle = 1\n", FV_ERR_FORMAT, "expected true or false");
    load_text(r, "[model]\nsize = 1.5\n", FV_ERR_FORMAT, "expected an integer");
    load_text(r, "[model]\nsize = 5000\n", FV_ERR_FORMAT, "from 1 to 4096");
    load_text(r, "[model.deeper]\nx = 1\n", FV_ERR_FORMAT, "unknown key 'model.deeper'");
    load_text(r, "[model\n", FV_ERR_FORMAT, "r.toml:1:");
    CHECK_EQ(fv_recipe_int(r, "model.size"), 8);
    CHECK_NEAR(fv_recipe_real(r, "train.lr"), 3, 0);
    CHECK_EQ(fv_recipe_load(r, folder_path("absent.toml")), FV_ERR_IO);
    fv_recipe_destroy(&r);
}

static fv_status load_small(fv_recipe *r, const char *text)
{
    file_write(folder_path("s.toml"), text, strlen(text));
    return fv_recipe_load_small(r, folder_path("s.toml"));
}

/* The small form wins over the other sections, wherever it stands, and is ignored by load. */
static void a_small_form_replaces_values(void)
{
    static const char text[] = "[small.model]\nsize = 3\n[model]\nsize = 8\ncell = \"rnn\"\n"
                               "[small]\ntrain.lr = 2\n[small.data]\ntrain = \"a.txt\"\n";
    fv_recipe *r = make();
    load_text(r, text, FV_OK, "");
    CHECK_EQ(fv_recipe_int(r, "model.size"), 8);
    CHECK(!fv_recipe_is_set(r, "train.lr"));
    CHECK_OK(ctx, load_small(r, text));
    CHECK_EQ(fv_recipe_int(r, "model.size"), 3);
    CHECK_NEAR(fv_recipe_real(r, "train.lr"), 2, 0);
    CHECK_STR(fv_recipe_text(r, "model.cell"), "rnn");
    CHECK_STR(fv_recipe_text(r, "data.train"), folder_path("a.txt"));
    fv_recipe_destroy(&r);
}

/* Mistakes in it are found with and without it; on failure nothing changes. */
static void a_small_form_is_always_checked(void)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"[model]\nsize = 4\n[small.model]\nsiez = 3\n",
         ".toml:4:8: unknown key 'model.siez'; did you mean 'model.size'?"},
        {"[small]\nlr = 3\n", ".toml:2:6: unknown key 'small.lr'; did you mean 'train.lr'?"},
        {"[small.model]\nsize = 5000\n", ".toml:2:8: model.size: '5000' is invalid"},
        {"[small.small.model]\nsize = 5\n", "unknown key 'small.model'"},
        {"small = 3\n", "unknown key 'small'"},
    };
    fv_recipe *r = make();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        load_text(r, wrong[i].text, FV_ERR_FORMAT, wrong[i].message);
        CHECK_EQ(load_small(r, wrong[i].text), FV_ERR_FORMAT);
        CHECK(strstr(fv_ctx_message(ctx), wrong[i].message) != NULL);
    }
    CHECK_EQ(load_small(r, "[model]\nsize = 4\n"), FV_ERR_UNSUPPORTED);
    CHECK(strstr(fv_ctx_message(ctx), "s.toml: there is no small form") != NULL);
    CHECK(!fv_recipe_is_set(r, "model.size"));
    fv_recipe_destroy(&r);
}

static void paths_are_relative_to_the_file(void)
{
    fv_recipe *r = make();
    load_text(r, "[data]\ntrain = \"a.txt\"\n", FV_OK, "");
    CHECK_STR(fv_recipe_text(r, "data.train"), folder_path("a.txt"));
    load_text(r, "[data]\ntrain = \"/a.txt\"\n", FV_OK, "");
    CHECK_STR(fv_recipe_text(r, "data.train"), "/a.txt");
    CHECK_OK(ctx, fv_recipe_set(r, "data.train", "b.txt"));
    CHECK_STR(fv_recipe_text(r, "data.train"), "b.txt");
    fv_recipe_destroy(&r);
}

static void what_is_saved_reads_back(void)
{
    fv_recipe *r = make(), *again = make();
    CHECK_OK(ctx, fv_recipe_set(r, "name", "a \"b\" \\ \xC3\xA9"));
    CHECK_OK(ctx, fv_recipe_set(r, "train.lr", "0.1"));
    CHECK_OK(ctx, fv_recipe_set(r, "train.shuffle", "false"));
    CHECK_OK(ctx, fv_recipe_save(r, folder_path("out.toml")));
    CHECK_OK(ctx, fv_recipe_load(again, folder_path("out.toml")));
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (KEYS[i].type != FV_KEY_PATH)
            CHECK_STR(fv_recipe_text(again, KEYS[i].name), fv_recipe_text(r, KEYS[i].name));
    fv_recipe_destroy(&r);
    fv_recipe_destroy(&again);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(starts_at_the_fallbacks);
    RUN(the_first_key_is_a_key);
    RUN(long_keys_are_named);
    RUN(a_table_must_pass_its_own_rules);
    RUN(values_are_checked);
    RUN(a_file_is_taken_whole_or_not_at_all);
    RUN(a_small_form_replaces_values);
    RUN(a_small_form_is_always_checked);
    RUN(paths_are_relative_to_the_file);
    RUN(what_is_saved_reads_back);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
