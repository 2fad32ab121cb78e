#include "support/oom_text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fovea/data.h"
#include "fovea/text_metric.h"
#include "fovea/tokenizer.h"
#include "support/files.h"
#include "support/test.h"

static bool normalize(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const char text[] = "A\xCC\x88\xCC\xA3 \xEF\xAC\x81 \xEA\xB0\x81 \xCE\xA3";
    fv_text out = {0};
    bool ok = true;
    for (int form = FV_NORMAL_FORM_NFC; form <= FV_NORMAL_FORM_NFKD; form++)
        ok = fv_text_normalize(ctx, text, sizeof text - 1, (fv_normal_form)form, &out) == FV_OK &&
             ok;
    ok = fv_text_lower(ctx, text, sizeof text - 1, &out) == FV_OK && ok;
    fv_text_free(ctx, &out);
    return ok;
}

static bool score(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    bool ok = true;
    for (int metric = FV_TEXT_METRIC_BLEU; metric <= FV_TEXT_METRIC_CHRF; metric++) {
        fv_text_metric_config cfg;
        fv_text_metric_config_init(&cfg, sizeof cfg, (fv_text_metric_kind)metric);
        cfg.lowercase = true;
        cfg.word_order = 2;
        cfg.bootstrap_samples = 10;
        fv_text_metric *scorer = NULL;
        fv_text_metric_result result = {.struct_size = sizeof result};
        const fv_string a = {"the cat (sat) on, the mat.", 26}, b = {"A cat sits on the mat.", 22};
        if (fv_text_metric_create(ctx, &cfg, &scorer) != FV_OK) {
            ok = false;
            continue;
        }
        ok = fv_text_metric_add(scorer, a, &b, 1) == FV_OK && ok;
        ok = fv_text_metric_add(scorer, b, &a, 1) == FV_OK && ok;
        ok = fv_text_metric_segment_count(scorer) > 0 &&
             fv_text_metric_compute(scorer, &result) == FV_OK && ok;
        fv_text_metric_destroy(&scorer);
    }
    return ok;
}

static bool read_lines(fv_ctx *ctx, const void *path)
{
    fv_lines *lines = NULL;
    fv_line line = {.text = ""};
    fv_status s = fv_lines_open(ctx, test_path(path), FV_LINES_POLICY_REJECT, &lines);
    if (s == FV_ERR_UNSUPPORTED) return true; /* compressed, in a build without the decompressor */
    while (s == FV_OK && line.text)
        s = fv_lines_next(lines, &line);
    fv_lines_close(&lines);
    return s == FV_OK;
}

/* An endless line of letters, limited by `left`. */
static fv_status give_letters(void *user, void *out, size_t room, size_t *got)
{
    size_t *left = user;
    *got = *left < room ? *left : room;
    memset(out, 'x', *got);
    *left -= *got;
    return FV_OK;
}

static bool stream_lines(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_lines *lines = NULL;
    fv_line line = {.text = ""};
    size_t left = 100000; /* one line, longer than the initial buffer */
    fv_status s =
        fv_lines_open_stream(ctx, "letters", give_letters, &left, FV_LINES_POLICY_REJECT, &lines);
    while (s == FV_OK && line.text)
        s = fv_lines_next(lines, &line);
    fv_lines_close(&lines);
    return s == FV_OK;
}

static bool gzip_lines(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return read_lines(ctx, "data/text/lines.txt.gz");
}

static bool xz_lines(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    return read_lines(ctx, "data/text/lines.txt.xz");
}

/* Learned, saved, loaded again, used. */
static bool use_tokenizer(fv_ctx *ctx, fv_tokenizer_kind kind, const char *path)
{
    static const char text[] = "the \xC3\xA9l\xC3\xA8ve, the cat's hat and the end of it all: "
                               "antidisestablishmentarianism-antidisestablishmentarianism";
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *made = NULL, *loaded = NULL;
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    const fv_string a = {text, sizeof text - 1}, b = {"the <s> end", 11};
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, kind);
    cfg.vocabulary = 270;
    cfg.normalize = cfg.lowercase = true;
    cfg.form = FV_NORMAL_FORM_NFD;
    cfg.begin = "<s>";
    bool ok = fv_tokenizer_trainer_create(ctx, &cfg, &trainer) == FV_OK &&
              fv_tokenizer_trainer_add(trainer, text, sizeof text - 1) == FV_OK &&
              fv_tokenizer_trainer_finish(trainer, &made) == FV_OK &&
              fv_tokenizer_save(ctx, made, path) == FV_OK &&
              fv_tokenizer_load(ctx, path, &loaded) == FV_OK &&
              fv_tokenizer_encoder_create(ctx, loaded, &enc) == FV_OK &&
              fv_tokenizer_encode_pair(enc, a, b, FV_TOKENIZER_ADD_SPECIALS, &e) == FV_OK &&
              fv_tokenizer_decode(ctx, loaded, e.ids, e.count, 0, &out) == FV_OK;
    fv_text_free(ctx, &out);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&loaded);
    fv_tokenizer_destroy(&made);
    fv_tokenizer_trainer_destroy(&trainer);
    return ok;
}

static bool tokenizers(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    char path[256];
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/fovea-oom-%d-tokenizer.json", dir ? dir : "/tmp",
             (int)getpid());
    bool ok = use_tokenizer(ctx, FV_TOKENIZER_WORDS, path);
    ok = use_tokenizer(ctx, FV_TOKENIZER_BPE_BYTES, path) && ok;
    ok = use_tokenizer(ctx, FV_TOKENIZER_BPE_METASPACE, path) && ok;
    ok = use_tokenizer(ctx, FV_TOKENIZER_WORDPIECE, path) && ok;
    unlink(path);
    return ok;
}

static bool word_pieces(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const char json[] =
        "{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
        "\"BertPreTokenizer\"},\"added_tokens\":[{\"id\":7,\"content\":\"\xC3\x89\",\"normalized\":"
        "true}],\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\","
        "\"unk_token\":\"U\",\"vocab\":{\"U\":0,\"the\":1,\"##s\":2}}}";
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    bool ok = fv_tokenizer_parse(ctx, "t", json, sizeof json - 1, &tok) == FV_OK &&
              fv_tokenizer_encoder_create(ctx, tok, &enc) == FV_OK &&
              fv_tokenizer_encode(enc, "the thes \xC3\x89 x", 13, 0, &e) == FV_OK &&
              fv_tokenizer_decode(ctx, tok, e.ids, e.count, 0, &out) == FV_OK;
    fv_text_free(ctx, &out);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    return ok;
}

/* Unigram after patterns: one with its own scanner, one for the regex engine, one that replaces. */
static bool patterns(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[x-z]+\"},\"content\":"
        "\"a\"},"
        "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":"
        "\"(?i:the)|[^\\\\s&&[^b]]+?(?=a)|\\\\p{L}{1,3}+\"}},\"decoder\":{\"type\":\"Replace\","
        "\"pattern\":{"
        "\"Regex\":\"a+\"},\"content\":\"b\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
        "\"vocab\":[[\"U\","
        "0],[\"a\",-1],[\"the\",-2]]}}";
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    bool ok = fv_tokenizer_parse(ctx, "t", json, sizeof json - 1, &tok) == FV_OK &&
              fv_tokenizer_encoder_create(ctx, tok, &enc) == FV_OK &&
              fv_tokenizer_encode(enc, "the xyz aab", 11, 0, &e) == FV_OK &&
              fv_tokenizer_decode(ctx, tok, e.ids, e.count, 0, &out) == FV_OK;
    fv_text_free(ctx, &out);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    return ok;
}

static bool sentence_pieces(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const char *const files[] = {"data/text/sentencepiece/unigram.model",
                                        "data/text/sentencepiece/bpe.model",
                                        "data/text/marian/joint"};
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        fv_tokenizer *tok = NULL;
        fv_tokenizer_encoder *enc = NULL;
        fv_encoding e = {.struct_size = sizeof e};
        fv_text out = {0};
        ok = fv_tokenizer_load(ctx, test_path(files[i]), &tok) == FV_OK &&
             fv_tokenizer_encoder_create(ctx, tok, &enc) == FV_OK &&
             fv_tokenizer_encode(enc, "The  mill and ?", 15, 0, &e) == FV_OK &&
             fv_tokenizer_decode(ctx, tok, e.ids, e.count, 0, &out) == FV_OK && ok;
        fv_text_free(ctx, &out);
        fv_tokenizer_encoder_destroy(&enc);
        fv_tokenizer_destroy(&tok);
    }
    return ok;
}

/* Fails for lack of memory or completes; files already written stay intact. */
static bool made_sets(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    char folder[256], path[320];
    const char *dir = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/fovea-oom-%d-set", dir ? dir : "/tmp", (int)getpid());
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/tatoeba-eng-fra", folder);
    mkdir(path, 0700);
    strcat(path, "/fra.txt.xz");
    static const char pairs[] = "Go.\tVa !\nGo.\tMarche.\nHi.\tSalut !\n";
    file_write(path, pairs, sizeof pairs - 1);
    fv_made_config cfg;
    fv_made_config_init(&cfg, sizeof cfg);
    cfg.pairs = 3;
    cfg.held_out = 1;
    cfg.data = folder;
    const bool ok =
        fv_made_set_write(ctx, fv_made_set_find("sort"), &cfg, folder, NULL) == FV_OK &&
        fv_made_set_check(ctx, folder, NULL, NULL) == FV_OK &&
        fv_made_set_write(ctx, fv_made_set_find("tatoeba-en-fr"), &cfg, folder, NULL) == FV_OK &&
        fv_made_set_check(ctx, folder, NULL, NULL) == FV_OK;
    tree_remove(folder);
    return ok;
}

const oom_file_scenario oom_text_scenarios[] = {
    {"normal forms", normalize},
    {"scores", score},
    {"lines of a stream", stream_lines},
    {"gzip lines", gzip_lines},
    {"xz lines", xz_lines},
    {"tokenizers", tokenizers},
    {"word pieces", word_pieces},
    {"sentence pieces", sentence_pieces},
    {"patterns", patterns},
    {"made sets", made_sets},
};
const int oom_text_scenario_count = (int)(sizeof oom_text_scenarios / sizeof *oom_text_scenarios);
