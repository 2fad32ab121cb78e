/* What published Transformers cost: counts of parameters against the published ones, operations
 * against a count by hand. */
#include "fovea/transformer.h"

#include <math.h>

#include "support/test.h"

static void counts_match_the_published_ones(void)
{
    /* Parameters as the models' own code has them; the paper's two and XLNet's by their shape. */
    static const struct {
        const char *name;
        int64_t parameters;
    } known[] = {{"bert-base", 109482240},     {"bert-large", 335141888},
                 {"gpt2", 124439808},          {"gpt2-medium", 354823168},
                 {"gpt2-large", 774030080},    {"gpt2-xl", 1557611200},
                 {"roberta-large", 355359744}, {"roberta-base", 124645632},
                 {"distilbert", 66362880},     {"bart-large", 406291456}};
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    fv_architecture a = {.struct_size = sizeof a};
    fv_model_cost cost;
    int rows = 0;
    for (; fv_architecture_get(rows, &a); rows++) {
        double published = strtod(a.published + (a.published[0] == '~'), NULL);
        published *= strchr(a.published, 'B') ? 1e9 : 1e6;
        CHECK_OK(ctx, fv_transformer_cost(ctx, &a.config, 1024, &cost));
        /* Authors round, and the first GPT-2 counts were wrong by 6 %. */
        CHECK_NEAR((double)cost.parameters / published, 1, 0.07);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(known[i].name, a.name) == 0) CHECK_EQ(cost.parameters, known[i].parameters);
    }
    CHECK_EQ(rows, 17);
    CHECK(!fv_architecture_find("gpt-2", &a));
    CHECK(fv_architecture_find("gpt2", &a));
    CHECK_EQ(fv_transformer_cost(ctx, &a.config, 0, &cost), FV_ERR_ARGUMENT);
    fv_ctx_destroy(&ctx);
}

static void operations_are_counted_by_hand(void)
{
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    fv_architecture a = {.struct_size = sizeof a};
    fv_model_cost c;
    CHECK(fv_architecture_find("gpt2", &a));
    CHECK_OK(ctx, fv_transformer_cost(ctx, &a.config, 1023, &c));
    /* 12 blocks of 4 + 8 width^2 weights, and the output matrix; half of the keys, twice. */
    CHECK_NEAR(c.flops_weights, 2.0 * (12 * 12 * 768.0 * 768.0 + 50257 * 768.0), 1);
    CHECK_NEAR(c.flops_attention, 12 * 2 * 512.0 * 2 * 768, 1);
    CHECK_EQ(c.tables, (50257 + 1024) * 768);
    CHECK_NEAR(c.train_bytes, 16.0 * 124439808, 1);
    CHECK_NEAR(c.run_bytes, 4.0 * 124439808 + 4.0 * 12 * 2 * 768 * 1023, 1);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(counts_match_the_published_ones);
    RUN(operations_are_counted_by_hand);
    return TEST_END();
}
