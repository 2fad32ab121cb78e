/*
 * Text: read as lines, normalized, scored, and taken through byte-level BPE learned from itself,
 * which must give every valid text back.
 */
#include <stdlib.h>
#include <string.h>

#include "fovea/data.h"
#include "fovea/text_metric.h"
#include "fovea/tokenizer.h"
#include "fuzz.h"
#include "io/utf8.h"

static void read_lines(fv_ctx *ctx, const char *text, size_t bytes)
{
    fv_lines *lines = NULL;
    fv_line line = {.text = ""};
    size_t made = 0;
    const double began = fuzz_clock();
    fv_status s = fv_lines_open_memory(ctx, "input", text, bytes, FV_LINES_POLICY_MARK, &lines);
    while (s == FV_OK && line.text) {
        s = fv_lines_next(lines, &line);
        if (s == FV_OK && line.text) made += line.bytes + 1;
        if (s == FV_OK && line.text && line.valid && !fv_utf8_valid(line.text, line.bytes)) abort();
    }
    fv_lines_close(&lines);
    /* Compressed data may be 1,040 times as long, and a mebibyte in any case. An xz file may ask
     * for a dictionary of 256 MiB, which is more than there is here. */
    fuzz_bound("lines", s == FV_ERR_MEMORY ? FV_OK : s, made, (1 << 20) + 1041 * bytes + (1 << 16),
               began);
}

/* A normal form of a normal form is itself. */
static void normalize(fv_ctx *ctx, const char *text, size_t bytes)
{
    fv_text once = {0}, twice = {0};
    for (int form = FV_NORMAL_FORM_NFC; form <= FV_NORMAL_FORM_NFKD; form++) {
        if (fv_text_normalize(ctx, text, bytes, (fv_normal_form)form, &once) != FV_OK) abort();
        if (fv_text_normalize(ctx, once.data, once.bytes, (fv_normal_form)form, &twice) != FV_OK)
            abort();
        /* The longest form of a code point has 33 bytes, for 3. */
        if (once.bytes > 11 * bytes) abort();
        if (once.bytes != twice.bytes || memcmp(once.data, twice.data, once.bytes) != 0) abort();
    }
    if (fv_text_lower(ctx, text, bytes, &once) != FV_OK) abort();
    fv_text_free(ctx, &once);
    fv_text_free(ctx, &twice);
}

static void score(fv_ctx *ctx, fv_string text)
{
    for (int metric = FV_TEXT_METRIC_BLEU; metric <= FV_TEXT_METRIC_CHRF; metric++) {
        fv_text_metric_config cfg;
        fv_text_metric *scorer = NULL;
        fv_text_metric_result result = {.struct_size = sizeof result};
        fv_text_metric_config_init(&cfg, sizeof cfg, (fv_text_metric_kind)metric);
        cfg.word_order = 2;
        cfg.effective_order = true;
        if (fv_text_metric_create(ctx, &cfg, &scorer) != FV_OK) abort();
        if (fv_text_metric_add(scorer, text, &text, 1) != FV_OK) abort();
        if (fv_text_metric_compute(scorer, &result) != FV_OK) abort();
        /* A text against itself is perfect, or has nothing to count. */
        if (result.score > 1e-9 && !(result.score > 100 - 1e-9)) abort();
        fv_text_metric_destroy(&scorer);
    }
}

static void tokenize(fv_ctx *ctx, const char *text, size_t bytes)
{
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_BPE_BYTES);
    cfg.vocabulary = 280;
    cfg.specials[0] = NULL; /* they would be found in the text */
    if (fv_tokenizer_trainer_create(ctx, &cfg, &trainer) != FV_OK ||
        fv_tokenizer_trainer_add(trainer, text, bytes) != FV_OK ||
        fv_tokenizer_trainer_finish(trainer, &tok) != FV_OK ||
        fv_tokenizer_encoder_create(ctx, tok, &enc) != FV_OK ||
        fv_tokenizer_encode(enc, text, bytes, 0, &e) != FV_OK ||
        fv_tokenizer_decode(ctx, tok, e.ids, e.count, 0, &out) != FV_OK)
        abort();
    if (out.bytes != bytes || memcmp(out.data, text, bytes) != 0) abort();
    fv_text_free(ctx, &out);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    fv_tokenizer_trainer_destroy(&trainer);
}

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    const char *text = (const char *)data;
    read_lines(ctx, text, bytes);
    if (bytes > 0 && fv_utf8_valid(text, bytes)) {
        normalize(ctx, text, bytes);
        score(ctx, (fv_string){text, bytes});
        tokenize(ctx, text, bytes);
    }
    fuzz_check(ctx);
    return 0;
}
