#include "support/oom_text.h"

#include <string.h>

#include "fovea/corpus.h"
#include "fovea/score.h"
#include "support/test.h"

static bool normalize(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static const char text[] = "A\xCC\x88\xCC\xA3 \xEF\xAC\x81 \xEA\xB0\x81 \xCE\xA3";
    fv_text out = {0};
    bool ok = true;
    for (int form = FV_NFC; form <= FV_NFKD; form++)
        ok = fv_text_normalize(ctx, (fv_normal_form)form, text, sizeof text - 1, &out) == FV_OK &&
             ok;
    ok = fv_text_lower(ctx, text, sizeof text - 1, &out) == FV_OK && ok;
    fv_text_free(ctx, &out);
    return ok;
}

static bool score(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    bool ok = true;
    for (int metric = FV_SCORE_BLEU; metric <= FV_SCORE_CHRF; metric++) {
        fv_score_config cfg;
        fv_score_config_init(&cfg, sizeof cfg, (fv_score_metric)metric);
        cfg.lowercase = true;
        cfg.word_order = 2;
        cfg.samples = 10;
        fv_scorer *scorer = NULL;
        fv_score_result result = {.struct_size = sizeof result};
        const fv_string a = {"the cat (sat) on, the mat.", 26}, b = {"A cat sits on the mat.", 22};
        if (fv_scorer_create(ctx, &cfg, &scorer) != FV_OK) {
            ok = false;
            continue;
        }
        ok = fv_scorer_add(scorer, a, &b, 1) == FV_OK && ok;
        ok = fv_scorer_add(scorer, b, &a, 1) == FV_OK && ok;
        ok = fv_scorer_segments(scorer) > 0 && fv_scorer_finish(scorer, &result) == FV_OK && ok;
        fv_scorer_destroy(&scorer);
    }
    return ok;
}

static bool read_lines(fv_ctx *ctx, const void *path)
{
    fv_lines *lines = NULL;
    fv_line line = {.text = ""};
    fv_status s = fv_lines_open(ctx, test_path(path), FV_LINES_REFUSE, &lines);
    if (s == FV_ERR_UNSUPPORTED) return true; /* packed, in a build that cannot unpack */
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

const oom_file_scenario oom_text_scenarios[] = {
    {"normal forms", normalize},
    {"scores", score},
    {"gzip lines", gzip_lines},
    {"xz lines", xz_lines},
};
const int oom_text_scenario_count = (int)(sizeof oom_text_scenarios / sizeof *oom_text_scenarios);
