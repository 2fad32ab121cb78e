/* Structs of older, smaller versions: accepted, with defaults for the rest, or filled as far as
 * they go. Every public struct with a struct_size is in the table. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/batch.h"
#include "fovea/layers.h"
#include "fovea/recurrent.h"
#include "fovea/seq2seq.h"
#include "fovea/text_metric.h"
#include "fovea/train.h"
#include "fovea/transformer.h"
#include "support/struct_sizes.h"
#include "support/test.h"
#include "support/values.h"

static fv_params *params;

/* ---- the structs: how each is filled, and a call that reads it ----------------------------- */

static void init_rnn(void *cfg, size_t bytes) { fv_rnn_config_init(cfg, bytes); }
static fv_status call_rnn(const void *cfg)
{
    fv_rnn net;
    const fv_status status = fv_rnn_create(params, "rnn", cfg, &net);
    if (status == FV_OK) {
        CHECK_EQ(net.cfg.struct_size, sizeof net.cfg);
        CHECK_EQ(net.cfg.layers, 1);
        CHECK(net.cfg.dropout == 0 && !net.cfg.bidirectional);
    }
    return status;
}

static void init_heads(void *cfg, size_t bytes) { fv_mha_config_init(cfg, bytes, 8, 2); }
static fv_status call_heads(const void *cfg)
{
    fv_mha heads;
    const fv_status status = fv_mha_create(params, "heads", cfg, &heads);
    if (status == FV_OK) {
        CHECK_EQ(heads.cfg.heads, 2);
        CHECK(heads.cfg.attention.temperature == 1);
        CHECK_EQ(heads.cfg.attention.rule.left, -1);
    }
    return status;
}

static void init_feed_forward(void *cfg, size_t bytes)
{
    fv_feed_forward_config_init(cfg, bytes, 8);
}
static fv_status call_feed_forward(const void *cfg)
{
    fv_feed_forward ff;
    return fv_feed_forward_create(params, "ff", cfg, &ff);
}

static void init_block(void *cfg, size_t bytes) { fv_block_config_init(cfg, bytes, 8, 2); }
static fv_status call_block(const void *cfg)
{
    fv_block block;
    const fv_status status = fv_block_create(params, "block", cfg, &block);
    if (status == FV_OK) CHECK(block.cfg.eps == 1e-5 && block.cfg.dropout == 0);
    return status;
}

static void init_rotary(void *cfg, size_t bytes) { fv_rotary_config_init(cfg, bytes, 4); }
static fv_status call_rotary(const void *cfg)
{
    fv_tensor *t = fv_rotary_table(sizes_ctx, FV_F32, cfg, 0, 3);
    (void)t;
    return fv_ctx_error(sizes_ctx) == FV_OK ? FV_OK : fv_ctx_take_error(sizes_ctx);
}

static void init_sequence_net(void *cfg, size_t bytes)
{
    fv_sequence_net_config_init(cfg, bytes, FV_LAYOUT_MANY_TO_ONE);
}
static fv_status call_sequence_net(const void *cfg)
{
    fv_sequence_net net;
    return fv_sequence_net_create(params, "shape", cfg, &net);
}

static void init_optim(void *cfg, size_t bytes) { fv_optim_config_init(cfg, bytes, FV_OPTIM_SGD); }
static fv_status call_optim(const void *cfg)
{
    fv_optim *optim = NULL;
    const fv_status status = fv_optim_create(params, cfg, &optim);
    fv_optim_destroy(&optim);
    return status;
}

static fv_status begin(void *user, uint64_t step, int phase, fv_step_plan *plan)
{
    (void)user, (void)step, (void)phase;
    plan->tokens = 1;
    return FV_OK;
}
static fv_tensor *loss(void *user, fv_ctx *in, int phase, int64_t part)
{
    (void)user, (void)phase, (void)part;
    return fv_zeros(in, FV_F32, 0, NULL);
}
static void init_train(void *cfg, size_t bytes) { fv_train_config_init(cfg, bytes); }
static fv_status call_train(const void *cfg)
{
    const fv_task task = {.begin = begin, .loss = loss};
    fv_trainer *trainer = NULL;
    const fv_status status = fv_trainer_create(params, &task, cfg, &trainer);
    fv_trainer_destroy(&trainer);
    return status;
}

static void init_batches(void *cfg, size_t bytes) { fv_batches_config_init(cfg, bytes); }
static fv_status call_batches(const void *cfg)
{
    fv_batches *batches = NULL;
    const fv_status status = fv_batches_create(sizes_ctx, 2, (int64_t[]){3, 4}, cfg, &batches);
    fv_batches_destroy(&batches);
    return status;
}

static void init_metric(void *cfg, size_t bytes)
{
    fv_text_metric_config_init(cfg, bytes, FV_TEXT_METRIC_BLEU);
}
static fv_status call_metric(const void *cfg)
{
    fv_text_metric *metric = NULL;
    const fv_status status = fv_text_metric_create(sizes_ctx, cfg, &metric);
    fv_text_metric_destroy(&metric);
    return status;
}

static void init_seq2seq(void *cfg, size_t bytes) { fv_seq2seq_config_init(cfg, bytes); }
static void set_seq2seq(void *cfg)
{
    ((fv_seq2seq_config *)cfg)->source_tokens = ((fv_seq2seq_config *)cfg)->target_tokens = 9;
}
static fv_status call_seq2seq(const void *cfg)
{
    fv_seq2seq *model = NULL;
    const fv_status status = fv_seq2seq_create(params, cfg, &model);
    if (status == FV_OK) CHECK_EQ(fv_seq2seq_settings(model)->attention_width, 128);
    fv_seq2seq_destroy(&model);
    return status;
}

static void init_transformer(void *cfg, size_t bytes)
{
    fv_transformer_config_init(cfg, bytes, FV_FAMILY_FOVEA);
}
static void set_transformer(void *cfg) { ((fv_transformer_config *)cfg)->vocabulary = 9; }
static fv_status call_transformer(const void *cfg)
{
    fv_transformer *model = NULL;
    const fv_status status = fv_transformer_create(params, cfg, &model);
    if (status == FV_OK) CHECK_EQ(fv_transformer_settings(model)->width, 512);
    fv_transformer_destroy(&model);
    return status;
}

static const sized models[] = {
    {"fv_rnn_config", sizeof(fv_rnn_config), 8, init_rnn, NULL, call_rnn},
    {"fv_mha_config", sizeof(fv_mha_config), UPTO(fv_mha_config, d_v), init_heads, NULL,
     call_heads},
    {"fv_feed_forward_config", sizeof(fv_feed_forward_config), UPTO(fv_feed_forward_config, hidden),
     init_feed_forward, NULL, call_feed_forward},
    {"fv_block_config", sizeof(fv_block_config), UPTO(fv_block_config, ff), init_block, NULL,
     call_block},
    {"fv_rotary_config", sizeof(fv_rotary_config), UPTO(fv_rotary_config, width), init_rotary, NULL,
     call_rotary},
    {"fv_sequence_net_config", sizeof(fv_sequence_net_config), UPTO(fv_sequence_net_config, layout),
     init_sequence_net, NULL, call_sequence_net},
    {"fv_optim_config", sizeof(fv_optim_config), 8, init_optim, NULL, call_optim},
    {"fv_train_config", sizeof(fv_train_config), 8, init_train, NULL, call_train},
    {"fv_batches_config", sizeof(fv_batches_config), 8, init_batches, NULL, call_batches},
    {"fv_text_metric_config", sizeof(fv_text_metric_config), 8, init_metric, NULL, call_metric},
    {"fv_seq2seq_config", sizeof(fv_seq2seq_config), UPTO(fv_seq2seq_config, target_tokens),
     init_seq2seq, set_seq2seq, call_seq2seq},
    {"fv_transformer_config", sizeof(fv_transformer_config),
     UPTO(fv_transformer_config, vocabulary), init_transformer, set_transformer, call_transformer},
};
static const size_t model_count = sizeof models / sizeof *models;

/* ---- checks -------------------------------------------------------------------------------- */

/* Parameters are made by the call: a set of its own each time. */
static fv_status called(const sized *s, const void *cfg)
{
    fv_scope_begin(sizes_ctx);
    CHECK_OK(sizes_ctx, fv_params_create_plan(sizes_ctx, &params));
    const fv_status status = s->call(cfg);
    fv_params_destroy(&params);
    fv_scope_end(sizes_ctx);
    return status;
}

static const struct {
    const sized *structs;
    const size_t *count;
    bool refuses; /* sizes that no version has had */
} tables[] = {
    {models, &model_count, true},
    {other_configs, &other_config_count, true},
    {unrefused, &unrefused_count, false},
};
enum { TABLES = sizeof tables / sizeof *tables };

static int call_with_every_size(const sized *s)
{
    enum { CANARY = 64 };
    int calls = 0;
    unsigned char *room = malloc(s->bytes + CANARY);
    for (size_t bytes = s->min_bytes; room && bytes <= s->bytes; bytes += 8, calls++) {
        memset(room, 0xa5, s->bytes + CANARY);
        s->init(room, bytes);
        if (s->set) s->set(room);
        const fv_status status = called(s, room);
        for (size_t k = bytes; k < s->bytes + CANARY; k++)
            CHECK(room[k] == 0xa5);
        if (status != FV_OK)
            test_failed(__FILE__, __LINE__, "%s of %zu bytes: %s: %s", s->name, bytes,
                        fv_status_name(status), fv_ctx_message(sizes_ctx));
    }
    free(room);
    return calls;
}

static void smaller_structs_are_accepted(void)
{
    sizes_ctx = values_begin();
    int calls = 0;
    for (int t = 0; t < TABLES; t++)
        for (size_t i = 0; i < *tables[t].count; i++)
            calls += call_with_every_size(&tables[t].structs[i]);
    printf("struct sizes: %d calls\n", calls);
    values_end(&sizes_ctx);
}

static void refuse_wrong_sizes(const sized *s)
{
    const size_t wrong[] = {0, 1, sizeof(size_t) - 1, s->bytes + 8, SIZE_MAX};
    size_t *cfg = calloc(1, s->bytes + 64);
    if (!cfg) return;
    s->init(cfg, s->bytes);
    if (s->set) s->set(cfg);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        cfg[0] = wrong[k];
        const fv_status status = called(s, cfg);
        if (status != FV_ERR_ARGUMENT)
            test_failed(__FILE__, __LINE__, "%s with struct_size %zu: %s", s->name, wrong[k],
                        fv_status_name(status));
    }
    free(cfg);
}

static void other_sizes_are_refused(void)
{
    sizes_ctx = values_begin();
    for (int t = 0; t < TABLES; t++)
        for (size_t i = 0; tables[t].refuses && i < *tables[t].count; i++)
            refuse_wrong_sizes(&tables[t].structs[i]);
    values_end(&sizes_ctx);
}

/* ---- the table is complete ------------------------------------------------------------------ */

static bool is_listed(const char *name, size_t bytes)
{
    for (int t = 0; t < TABLES; t++)
        for (size_t i = 0; i < *tables[t].count; i++) {
            const char *listed = tables[t].structs[i].name;
            if (strlen(listed) == bytes && memcmp(listed, name, bytes) == 0) return true;
        }
    return false;
}

/* Structs of a header whose first member is struct_size. */
static int check_header(const char *header, const char *text)
{
    static const char begin[] = "typedef struct ", member[] = "size_t struct_size;";
    int found = 0;
    for (const char *at = text; (at = strstr(at, begin)); at++) {
        const char *name = at + sizeof begin - 1, *body = name + strcspn(name, " ;");
        const size_t bytes = (size_t)(body - name);
        if (strncmp(body, " {", 2) != 0) continue;
        body += 2 + strspn(body + 2, " \n");
        if (strncmp(body, member, sizeof member - 1) != 0) continue;
        found++;
        if (!is_listed(name, bytes))
            test_failed(__FILE__, __LINE__, "%s: %.*s has a struct_size and is not in the table",
                        header, (int)bytes, name);
    }
    return found;
}

static void every_struct_is_here(void)
{
    static char path[4096], text[1 << 17];
    int found = 0;
    DIR *folder = opendir(test_path("../include/fovea"));
    CHECK(folder != NULL);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "../include/fovea/%s", e->d_name);
        FILE *file = fopen(test_path(path), "rb");
        CHECK(file != NULL);
        const size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
        CHECK(bytes > 0 && bytes < sizeof text - 1);
        text[bytes] = '\0';
        if (file) fclose(file);
        found += check_header(e->d_name, text);
    }
    if (folder) closedir(folder);
    CHECK_EQ((size_t)found, model_count + other_config_count + unrefused_count);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(smaller_structs_are_accepted);
    RUN(other_sizes_are_refused);
    RUN(every_struct_is_here);
    return TEST_END();
}
