/* The settings of recurrent encoder-decoders by name: recipe keys, and config.json. */
#include "models/seq2seq.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

/* Structs have gaps; what is written of them has none. */
static bool same_settings(const fv_seq2seq_config *a, const fv_seq2seq_config *b)
{
    char *text[2];
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        const char *path = folder_path("same.json");
        CHECK_OK(ctx, fv_seq2seq_config_save(ctx, i ? b : a, path));
        text[i] = file_read(path, &bytes[i]);
    }
    const bool same = text[0] && text[1] && bytes[0] == bytes[1] && bytes[0] > 100 &&
                      memcmp(text[0], text[1], bytes[0]) == 0;
    free(text[0]);
    free(text[1]);
    return same;
}

static void settings_survive_a_file(void)
{
    const fv_key_table table = fv_seq2seq_keys();
    fv_recipe *recipe = NULL;
    CHECK_OK(ctx, fv_recipe_create(ctx, &table, 1, &recipe));
    fv_seq2seq_config plain, from, back = {.struct_size = sizeof back};
    fv_seq2seq_config_init(&plain, sizeof plain);
    fv_seq2seq_config_init(&from, sizeof from);
    fv_seq2seq_config_from(recipe, &from);
    CHECK(same_settings(&plain, &from)); /* one set of defaults */
    CHECK_OK(ctx, fv_recipe_set(recipe, "model.cell", "lstm"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "model.decoder", "luong"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "model.score", "general"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "model.normaliser", "local-p"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "model.half_width", "3.5"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "model.layers", "2"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "model.bidirectional", "false"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "model.readout", "maxout"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "model.dropout", "0.25"));
    fv_seq2seq_config_from(recipe, &from);
    CHECK(from.cell == FV_CELL_LSTM && from.decoder == FV_DECODER_LUONG && from.layers == 2);
    CHECK(from.score == FV_ATTENTION_GENERAL && from.normaliser == FV_ATTENTION_LOCAL_P);
    CHECK(!from.bidirectional && from.readout == FV_READOUT_MAXOUT);
    CHECK_NEAR(from.half_width, 3.5, 0);
    from.source_tokens = 123;
    from.target_tokens = 45;
    from.bos = 3;
    from.eos = 7;
    const char *path = folder_path("config.json");
    CHECK_OK(ctx, fv_seq2seq_config_save(ctx, &from, path));
    CHECK_OK(ctx, fv_seq2seq_config_load(ctx, path, &back));
    CHECK(same_settings(&from, &back));
    CHECK(!same_settings(&plain, &back));
    from.normaliser = FV_ATTENTION_HARD_SAMPLE;
    from.hard_reward = 0.5;
    from.hard_entropy = 0.125;
    from.hard_decay = 0.75;
    CHECK_OK(ctx, fv_seq2seq_config_save(ctx, &from, path));
    CHECK_OK(ctx, fv_seq2seq_config_load(ctx, path, &back));
    CHECK(back.normaliser == FV_ATTENTION_HARD_SAMPLE);
    CHECK(back.hard_reward == 0.5 && back.hard_entropy == 0.125 && back.hard_decay == 0.75);
    CHECK(back.coverage == 0 && back.grid_stages == 4 && back.input_channels == 0);
    from.normaliser = FV_ATTENTION_SOFTMAX;
    from.encoder = FV_ENCODER_GRID;
    from.coverage = 0.25;
    from.input_channels = 3;
    from.input_height = 48;
    from.input_width = 64;
    from.grid_stages = 5;
    from.grid_halvings = 3;
    from.grid_channels = 12;
    from.grid_coordinates = false;
    from.grid_rows = from.grid_neighbours = true;
    CHECK_OK(ctx, fv_seq2seq_config_save(ctx, &from, path));
    CHECK_OK(ctx, fv_seq2seq_config_load(ctx, path, &back));
    CHECK(same_settings(&from, &back) && back.encoder == FV_ENCODER_GRID && back.coverage == 0.25);
    CHECK(back.input_channels == 3 && back.input_height == 48 && back.input_width == 64);
    CHECK(back.grid_stages == 5 && back.grid_halvings == 3 && back.grid_channels == 12);
    CHECK(!back.grid_coordinates && back.grid_rows && back.grid_neighbours);
    from.encoder = FV_ENCODER_PYRAMID;
    from.pyramid_layers = 5;
    CHECK_OK(ctx, fv_seq2seq_config_save(ctx, &from, path));
    CHECK_OK(ctx, fv_seq2seq_config_load(ctx, path, &back));
    CHECK(back.encoder == FV_ENCODER_PYRAMID && back.pyramid_layers == 5 && back.grid_stages == 4);
    fv_recipe_destroy(&recipe);
}

static void bad_settings_files_are_named(void)
{
    static const struct {
        const char *text, *message;
    } bad[] = {{"[]", "expected an object"},
               {"{\"model_type\": \"gpt2\"}", "model_type is 'gpt2', not 'fovea-seq2seq'"},
               {"{\"model_type\": \"fovea-seq2seq\", \"hiden\": 3}", "'hiden' is not a setting"},
               {"{\"model_type\": \"fovea-seq2seq\"}", "source_tokens"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = folder_path("bad.json");
        fv_seq2seq_config cfg = {.struct_size = sizeof cfg};
        file_write(path, bad[i].text, strlen(bad[i].text));
        CHECK_EQ(fv_seq2seq_config_load(ctx, path, &cfg), FV_ERR_FORMAT);
        if (!strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(settings_survive_a_file);
    RUN(bad_settings_files_are_named);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
