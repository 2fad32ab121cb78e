/* A tokenizer in a model's folder: tokenizer.json, and beside it what Hugging Face's AutoTokenizer
 * goes by. Without it that takes the family's usual tokenizer, whatever lies in the folder. */
#include <string.h>

#include "io/file.h"
#include "io/json_write.h"
#include "text/tokenizer_pipeline.h"

/* The usual names of marks, in the order they are looked for. */
static const struct {
    const char *role, *names[2];
} marks[] = {
    {"bos_token", {"<s>", "<|endoftext|>"}}, {"eos_token", {"</s>", "<|endoftext|>"}},
    {"unk_token", {"<unk>", "[UNK]"}},       {"pad_token", {"<pad>", "[PAD]"}},
    {"cls_token", {"[CLS]", NULL}},          {"sep_token", {"[SEP]", NULL}},
    {"mask_token", {"[MASK]", "<mask>"}},
};

static void write_mark(fv_json_writer *w, const fv_tokenizer *tok, size_t which)
{
    for (int i = 0; i < 2 && marks[which].names[i]; i++) {
        const char *name = marks[which].names[i];
        if (!fv_tokenizer_is_special(tok, fv_tokenizer_token_to_id(tok, name, strlen(name))))
            continue;
        fv_json_key(w, marks[which].role);
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
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        write_mark(&w, tok, i);
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
    FV_FORWARD(fv_path_join(ctx, path, folder, "tokenizer_config.json"));
    FV_FORWARD(save_config(ctx, tok, path));
    FV_FORWARD(fv_path_join(ctx, path, folder, "tokenizer.json"));
    return fv_tokenizer_save(ctx, tok, path);
}
