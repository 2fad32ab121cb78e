/* Saves a tokenizer in a model's folder: tokenizer.json, and the tokenizer_config.json that Hugging
 * Face's AutoTokenizer needs. Without it, AutoTokenizer would use the default tokenizer of the
 * model type. */
#include <string.h>

#include "io/file.h"
#include "io/json_write.h"
#include "text/tokenizer_pipeline.h"

/* The usual special tokens for each role, by preference. */
static const struct {
    const char *role, *names[2];
} roles[] = {
    {"bos_token", {"<s>", "<|endoftext|>"}}, {"eos_token", {"</s>", "<|endoftext|>"}},
    {"unk_token", {"<unk>", "[UNK]"}},       {"pad_token", {"<pad>", "[PAD]"}},
    {"cls_token", {"[CLS]", NULL}},          {"sep_token", {"[SEP]", NULL}},
    {"mask_token", {"[MASK]", "<mask>"}},
};

static void write_special(fv_json_writer *w, const fv_tokenizer *tok, size_t which)
{
    for (int i = 0; i < 2 && roles[which].names[i]; i++) {
        const char *name = roles[which].names[i];
        if (!fv_tokenizer_is_special(tok, fv_tokenizer_token_to_id(tok, name, strlen(name))))
            continue;
        fv_json_key(w, roles[which].role);
        fv_json_string(w, name);
        return;
    }
}

static fv_status save_config(fv_ctx *ctx, const fv_tokenizer *tok, const char *path)
{
    fv_json_writer w;
    fv_json_begin(&w, ctx);
    fv_json_open(&w, '{');
    fv_json_key(&w, "tokenizer_class");
    fv_json_string(&w, "PreTrainedTokenizerFast");
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        write_special(&w, tok, i);
    fv_json_key(&w, "clean_up_tokenization_spaces");
    fv_json_bool(&w, false);
    fv_json_close(&w, '}');
    fv_json_raw(&w, "\n", 1);
    const fv_status status = fv_json_save(&w, path);
    fv_json_free(&w);
    return status;
}

fv_status fv_tokenizer_save_folder(fv_ctx *ctx, const fv_tokenizer *tok, const char *folder)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(ctx, path, folder, "tokenizer_config.json"));
    FV_TRY(save_config(ctx, tok, path));
    FV_TRY(fv_path_join(ctx, path, folder, "tokenizer.json"));
    return fv_tokenizer_save(ctx, tok, path);
}
