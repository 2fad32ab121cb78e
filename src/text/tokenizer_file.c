/* Tokenizer files: tokenizer.json, SentencePiece models, and the older formats of GPT-2 and BERT.
 */
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"
#include "io/utf8.h"
#include "text/marian.h"
#include "text/tokenizer_write.h"

fv_status fv_tokenizer_save(fv_ctx *ctx, const fv_tokenizer *tok, const char *path)
{
    fv_atomic_file save;
    FV_TRY(fv_atomic_file_create(ctx, path, tok->text_bytes, &save));
    return fv_atomic_file_close(&save, fv_atomic_file_write(&save, tok->text, tok->text_bytes, 0));
}

static bool opens(fv_ctx *ctx, const char *path, fv_io_mode mode)
{
    int64_t handle = ctx->io.open(ctx->io.user, path, mode);
    if (handle < 0) return false;
    ctx->io.close(ctx->io.user, handle);
    return true;
}

/* Loads a tokenizer.json or a SentencePiece model, regardless of its name. */
static fv_status load_file(fv_ctx *ctx, const char *path, fv_tokenizer **out)
{
    char *text = NULL;
    size_t bytes = 0;
    FV_TRY(fv_file_read_text(ctx, path, &text, &bytes));
    fv_status s = fv_tokenizer_parse(ctx, path, text, bytes, out);
    fv_mem_free(&ctx->mem, text, bytes);
    return s;
}

/* The next line of a text; false at the end. Lines end in "\n" or "\r\n". */
static bool next_line(const char **at, const char *end, fv_string *line)
{
    if (*at == end) return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    size_t n = (size_t)((stop ? stop : end) - *at);
    *line = (fv_string){*at, n > 0 && (*at)[n - 1] == '\r' ? n - 1 : n};
    *at = stop ? stop + 1 : end;
    return true;
}

/* ---- vocab.json and merges.txt --------------------------------------------------- */

typedef struct merge_list {
    fv_id_pair *items;
    size_t count, room;
} merge_list;

static fv_status put_merge(fv_ctx *ctx, const char *path, size_t number, const fv_vocab *vocab,
                           fv_string line, merge_list *merges)
{
    const char *blank = memchr(line.text, ' ', line.bytes);
    size_t first = blank ? (size_t)(blank - line.text) : 0;
    fv_id_pair pair = {-1, -1};
    if (blank) {
        pair.first = fv_vocab_find(vocab, line.text, first);
        pair.second = fv_vocab_find(vocab, blank + 1, line.bytes - first - 1);
    }
    FV_RETURN_IF(pair.first < 0 || pair.second < 0, ctx, FV_ERR_FORMAT,
                 "%s:%zu: expected two tokens of the vocabulary, separated by a blank", path,
                 number);
    fv_id_pair *items =
        fv_mem_grow(&ctx->mem, merges->items, &merges->room, merges->count + 1, sizeof *items);
    FV_RETURN_IF(!items, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    merges->items = items;
    items[merges->count++] = pair;
    return FV_OK;
}

static fv_status read_merges_txt(fv_ctx *ctx, const char *path, const fv_vocab *vocab,
                                 merge_list *merges)
{
    char *text = NULL;
    size_t bytes = 0, number = 0;
    FV_TRY(fv_file_read_text(ctx, path, &text, &bytes));
    const char *at = text;
    fv_string line;
    fv_status s = FV_OK;
    while (s == FV_OK && next_line(&at, text + bytes, &line)) {
        number++;
        bool comment = number == 1 && line.bytes >= 8 && memcmp(line.text, "#version", 8) == 0;
        if (line.bytes && !comment) s = put_merge(ctx, path, number, vocab, line, merges);
    }
    fv_mem_free(&ctx->mem, text, bytes);
    return s;
}

static fv_status load_gpt2(fv_ctx *ctx, const char *vocab_path, const char *merges_path,
                           fv_tokenizer **out)
{
    fv_vocab vocab;
    merge_list merges = {0};
    fv_vocab_init(&vocab, ctx);
    fv_status s = fv_vocab_load(&vocab, vocab_path);
    if (s == FV_OK) s = read_merges_txt(ctx, merges_path, &vocab, &merges);
    if (s == FV_OK) {
        fv_tokenizer_spec spec = {.model = FV_TOKEN_MODEL_BPE,
                                  .vocab = &vocab,
                                  .merges = merges.items,
                                  .merge_count = merges.count,
                                  .split = FV_SPEC_BYTES};
        s = fv_tokenizer_build(ctx, vocab_path, &spec, out);
    }
    fv_mem_free(&ctx->mem, merges.items, merges.room * sizeof *merges.items);
    fv_vocab_free(&vocab);
    return s;
}

/* ---- vocab.txt ------------------------------------------------------------------- */

static fv_status read_vocab_txt(fv_ctx *ctx, const char *path, fv_vocab *vocab)
{
    char *text = NULL;
    size_t bytes = 0;
    FV_TRY(fv_file_read_text(ctx, path, &text, &bytes));
    const char *at = text;
    fv_string line;
    fv_status s = FV_OK;
    if (!fv_utf8_valid(text, bytes)) s = fv_fail(ctx, FV_ERR_FORMAT, "%s: invalid UTF-8", path);
    while (s == FV_OK && next_line(&at, text + bytes, &line))
        s = fv_vocab_put(vocab, line.text, line.bytes, (int64_t)vocab->size);
    fv_mem_free(&ctx->mem, text, bytes);
    return s;
}

/* Reads "do_lower_case" of the tokenizer_config.json, if there is one. */
static fv_status read_lower_case(fv_ctx *ctx, const char *settings, bool *out)
{
    fv_doc *doc = NULL;
    if (!opens(ctx, settings, FV_IO_READ)) return FV_OK;
    FV_TRY(fv_json_load(ctx, settings, &doc));
    fv_status s = fv_doc_kind(doc, &doc->root, FV_VALUE_OBJECT);
    if (s == FV_OK) s = fv_read_bool(doc, &doc->root, "do_lower_case", out);
    fv_doc_free(&doc);
    return s;
}

static fv_status load_bert(fv_ctx *ctx, const char *path, const char *settings, fv_tokenizer **out)
{
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    enum { SPECIALS = sizeof specials / sizeof specials[0] };
    fv_vocab vocab;
    fv_vocab_init(&vocab, ctx);
    bool lowercase = true;
    fv_status s = read_lower_case(ctx, settings, &lowercase);
    if (s == FV_OK) s = read_vocab_txt(ctx, path, &vocab);
    for (int i = 0; i < SPECIALS && s == FV_OK; i++)
        if (fv_vocab_find(&vocab, specials[i], strlen(specials[i])) < 0)
            s = fv_fail(ctx, FV_ERR_FORMAT, "%s: token %s is missing", path, specials[i]);
    if (s == FV_OK) {
        fv_tokenizer_spec spec = {.model = FV_TOKEN_MODEL_WORD_PIECE,
                                  .vocab = &vocab,
                                  .unk = "[UNK]",
                                  .specials = specials,
                                  .special_count = SPECIALS,
                                  .lowercase = lowercase,
                                  .bert = true,
                                  .split = FV_SPEC_BERT,
                                  .begin = "[CLS]",
                                  .end = "[SEP]"};
        s = fv_tokenizer_build(ctx, path, &spec, out);
    }
    fv_vocab_free(&vocab);
    return s;
}

/* ---- folders -------------------------------------------------------------------- */

/* Writes the path of the first file of a list that exists in the folder; false: none. */
static bool find_file(fv_ctx *ctx, const char *folder, const char *const *names, char *path)
{
    for (; *names; names++)
        if (fv_path_join(ctx, path, folder, *names) == FV_OK && opens(ctx, path, FV_IO_READ))
            return true;
    return false;
}

static fv_status load_older(fv_ctx *ctx, const char *folder, fv_tokenizer **out)
{
    char first[FV_PATH_BYTES], second[FV_PATH_BYTES];
    FV_TRY(fv_path_join(ctx, first, folder, "source.spm"));
    FV_TRY(fv_path_join(ctx, second, folder, "vocab.json"));
    if (opens(ctx, first, FV_IO_READ)) return fv_marian_load(ctx, first, second, out);
    FV_TRY(fv_path_join(ctx, first, folder, "merges.txt"));
    if (opens(ctx, second, FV_IO_READ)) return load_gpt2(ctx, second, first, out);
    FV_TRY(fv_path_join(ctx, first, folder, "vocab.txt"));
    FV_TRY(fv_path_join(ctx, second, folder, "tokenizer_config.json"));
    if (opens(ctx, first, FV_IO_READ)) return load_bert(ctx, first, second, out);
    return fv_fail(ctx, FV_ERR_IO,
                   "%s: no tokenizer found, expected tokenizer.json, tokenizer.model, "
                   "spiece.model, source.spm, "
                   "vocab.json or vocab.txt",
                   folder);
}

fv_status fv_tokenizer_load(fv_ctx *ctx, const char *path, fv_tokenizer **out)
{
    static const char *const files[] = {"tokenizer.json", "source_tokenizer.json",
                                        "tokenizer.model", "spiece.model", NULL};
    char file[FV_PATH_BYTES];
    if (!opens(ctx, path, FV_IO_DIRECTORY)) return load_file(ctx, path, out);
    return find_file(ctx, path, files, file) ? load_file(ctx, file, out)
                                             : load_older(ctx, path, out);
}

fv_status fv_tokenizer_load_target(fv_ctx *ctx, const char *path, fv_tokenizer **out)
{
    static const char *const own[] = {"target_tokenizer.json", NULL},
                             *const model[] = {"target.spm", NULL},
                             *const vocab[] = {"target_vocab.json", "vocab.json", NULL};
    char file[FV_PATH_BYTES], words[FV_PATH_BYTES];
    if (!opens(ctx, path, FV_IO_DIRECTORY)) return load_file(ctx, path, out);
    if (find_file(ctx, path, own, file)) return load_file(ctx, file, out);
    if (find_file(ctx, path, model, file) && find_file(ctx, path, vocab, words))
        return fv_marian_load(ctx, file, words, out);
    return fv_tokenizer_load(ctx, path, out);
}
