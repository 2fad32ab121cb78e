#include "support/encoders.h"

#include <sys/stat.h>

#include "fovea/tokenizer.h"
#include "fovea/train.h"
#include "fovea/transformer.h"
#include "support/files.h"
#include "support/test.h"

static const char *in_folder(const char *folder, const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static size_t write_letters(fv_ctx *ctx, const char *folder, bool mask)
{
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *tok = NULL;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_CHARS);
    for (int i = 0; i < FV_TOKENIZER_MAX_SPECIALS; i++)
        cfg.specials[i] = i < (mask ? 5 : 4) ? specials[i] : NULL;
    cfg.begin = "[CLS]";
    cfg.end = "[SEP]";
    CHECK_OK(ctx, fv_tokenizer_trainer_create(ctx, &cfg, &trainer));
    CHECK_OK(ctx, fv_tokenizer_trainer_add(trainer, "abcdefghijklmnopqrstuvwxyz ", 27));
    CHECK_OK(ctx, fv_tokenizer_trainer_finish(trainer, &tok));
    CHECK_OK(ctx, fv_tokenizer_save(ctx, tok, in_folder(folder, "tokenizer.json")));
    const size_t size = fv_tokenizer_vocab_size(tok);
    fv_tokenizer_trainer_destroy(&trainer);
    fv_tokenizer_destroy(&tok);
    return size;
}

void encoder_head_write(const char *folder, encoder_head head, int64_t labels,
                        const char *const *names)
{
    fv_ctx *ctx = NULL;
    fv_params *params = NULL;
    fv_transformer *t = NULL;
    fv_transformer_config cfg;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    fv_transformer_config_init(&cfg, sizeof cfg, FV_FAMILY_BERT);
    cfg.vocabulary = (int64_t)write_letters(ctx, folder, head == ENCODER_FILLS);
    cfg.width = ENCODER_WIDTH;
    cfg.heads = 2;
    cfg.hidden = 24;
    cfg.encoder_layers = 1;
    cfg.max_positions = ENCODER_POSITIONS;
    cfg.init_std = 0.5;
    cfg.mlm_head = cfg.logits_bias = head == ENCODER_FILLS;
    cfg.next_sentence = false;
    cfg.pooler = head == ENCODER_CLASSIFIES;
    cfg.label_tokens = head == ENCODER_CLASSIFIES_TOKENS;
    cfg.spans = head == ENCODER_ANSWERS;
    cfg.labels = labels;
    cfg.label_names = names;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_transformer_create(params, &cfg, &t));
    CHECK_OK(ctx, fv_transformer_save_settings(t, folder));
    CHECK_OK(ctx, fv_params_save(params, in_folder(folder, "model.safetensors")));
    fv_transformer_destroy(&t);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

void encoder_folder_write(const char *folder, int64_t labels, const char *const *names)
{
    encoder_head_write(folder, labels > 0 ? ENCODER_CLASSIFIES : ENCODER_BARE, labels, names);
}

static void write_text(const char *folder, const char *name, const char *text)
{
    file_write(in_folder(folder, name), text, strlen(text));
}

void sentence_files_write(const char *folder, const char *pooling, const char *lengths)
{
    mkdir(in_folder(folder, "1_Pooling"), 0700);
    write_text(folder, "modules.json",
               "[{\"idx\": 0, \"name\": \"0\", \"path\": \"\", "
               "\"type\": \"sentence_transformers.models.Transformer\"},\n"
               " {\"idx\": 1, \"name\": \"1\", \"path\": \"1_Pooling\", "
               "\"type\": \"sentence_transformers.models.Pooling\"},\n"
               " {\"idx\": 2, \"name\": \"2\", \"path\": \"2_Normalize\", "
               "\"type\": \"sentence_transformers.models.Normalize\"}]\n");
    write_text(folder, "1_Pooling/config.json", pooling);
    write_text(folder, "sentence_bert_config.json", lengths);
}
