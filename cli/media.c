#include "media.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "output.h"
#include "run.h"
#include "sound.h"

/* A new use is one line here. */
static const cli_media_use uses[] = {
    {CLI_FILE_PICTURE, FV_CAN_CLASSIFY, cli_run_photo_classes, cli_look_photo_classes},
    {CLI_FILE_PICTURE, FV_CAN_DESCRIBE, cli_run_photo_caption, cli_look_photo_caption},
    {CLI_FILE_PICTURE, FV_CAN_ANSWER, cli_run_photo_answer, cli_look_photo_answer},
    {CLI_FILE_SOUND, FV_CAN_CLASSIFY, cli_run_sound, cli_look_sound},
    {CLI_FILE_SOUND, FV_CAN_DESCRIBE, cli_run_sound, cli_look_sound},
};

/* ---- kinds of files ------------------------------------------------------------------------- */

cli_file_kind cli_file_kind_of(const char *path)
{
    unsigned char head[12] = {0};
    FILE *file = fopen(path, "rb");
    if (!file) return CLI_FILE_OTHER;
    const size_t n = fread(head, 1, sizeof head, file);
    fclose(file);
    if (n >= 8 && memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0) return CLI_FILE_PICTURE;
    if (n >= 3 && memcmp(head, "\xff\xd8\xff", 3) == 0) return CLI_FILE_PICTURE;
    if (n >= 12 && memcmp(head, "RIFF", 4) == 0 && memcmp(head + 8, "WAVE", 4) == 0)
        return CLI_FILE_SOUND;
    return n >= 4 && memcmp(head, "fLaC", 4) == 0 ? CLI_FILE_SOUND : CLI_FILE_OTHER;
}

const char *cli_file_kind_name(cli_file_kind kind)
{
    static const char *const names[] = {"a text", "a picture (PNG or JPEG)",
                                        "a recording (WAV or FLAC)", "points"};
    return names[kind];
}

cli_file_kind cli_model_reads(const fv_model *model)
{
    const fv_data_spec *spec = fv_model_spec(model);
    if (spec->ability == FV_CAN_ACT) return CLI_FILE_OTHER; /* its pictures come from a game */
    if (fv_data_spec_get(spec, "height", 0) > 0) return CLI_FILE_PICTURE;
    if (fv_data_spec_get(spec, "point", 0) > 0) return CLI_FILE_POINTS;
    return fv_data_spec_get(spec, "frame", 0) > 0 ? CLI_FILE_SOUND : CLI_FILE_OTHER;
}

/* ---- uses ----------------------------------------------------------------------------------- */

/* NULL: the error is already printed. */
static const cli_media_use *find_use(const cli_call *call, const fv_model *model,
                                     fv_ability ability)
{
    const cli_file_kind reads = cli_model_reads(model);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (uses[i].reads == reads && uses[i].ability == ability) return &uses[i];
    cli_error("%s: a %s model that can %s %s is not supported here", call->verb->name,
              fv_model_type(model), fv_ability_name(ability), cli_file_kind_name(reads));
    return NULL;
}

bool cli_check_ask(const cli_call *call, const fv_model *model)
{
    const bool reads = cli_model_reads(model) == CLI_FILE_PICTURE &&
                       fv_model_spec(model)->ability == FV_CAN_ANSWER;
    if (reads == cli_given(call, "ask")) return true;
    if (reads)
        cli_error("%s: the model answers questions about pictures: expected --ask \"QUESTION\"",
                  call->verb->name);
    else
        cli_error("%s: --ask is for models that answer questions about pictures, not for a %s "
                  "model that can %s",
                  call->verb->name, fv_model_type(model),
                  fv_ability_name(fv_model_spec(model)->ability));
    return false;
}

/* A file of another kind gets a message that says what it is, a text one that says what a model
 * reads; a file that cannot be read is left to the library. */
static int check_kind(const cli_call *call, const fv_model *model, const char *file)
{
    const cli_file_kind is = cli_file_kind_of(file), wanted = cli_model_reads(model);
    if (is == CLI_FILE_OTHER && access(file, F_OK) != 0 && errno == ENOENT) {
        cli_error("%s: %s: no such file; the model reads %s", call->verb->name, file,
                  cli_file_kind_name(wanted));
        return CLI_BAD_FILE;
    }
    if (is == CLI_FILE_OTHER || is == wanted) return CLI_DONE;
    cli_error("%s: %s is %s, but the model reads %s", call->verb->name, file,
              cli_file_kind_name(is), cli_file_kind_name(wanted));
    return CLI_BAD_FILE;
}

typedef struct work {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
    const cli_media_use *use;
    bool any;
} work;

/* A cli_texts_fn: the texts are names of files. */
static int run_files(void *user, int64_t count, const fv_string *files)
{
    work *w = user;
    int code = CLI_DONE;
    for (int64_t i = 0; i < count && !code; i++) {
        if (files[i].bytes == 0) continue;
        w->any = true;
        code = check_kind(w->call, w->model, files[i].text);
        if (!code) code = w->use->run(w->call, w->ctx, w->model, files[i].text);
    }
    return code;
}

int cli_run_media(const cli_call *call, fv_ctx *ctx, fv_model *model)
{
    work w = {.call = call,
              .ctx = ctx,
              .model = model,
              .use = find_use(call, model, cli_run_ability(call, model))};
    if (!w.use) return CLI_MISSING;
    const int code = cli_for_each_batch(call, ctx, 1, run_files, &w);
    return code || w.any ? code : cli_no_file(call, model);
}

int cli_no_file(const cli_call *call, const fv_model *model)
{
    cli_error("%s: no file: expected %s after the model, or file names in --file", call->verb->name,
              cli_file_kind_name(cli_model_reads(model)));
    return CLI_USAGE;
}

bool cli_look_media_options(const cli_call *call, const char *path)
{
    static const char *const texts[] = {
        "pieces", "no-special", "target",  "pharaoh", "at",   "links", "rollout", "entropy", "top",
        "from",   "to",         "numbers", "palette", "cell", "rows",  "cols",    "full"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (cli_given(call, texts[i])) {
            cli_error("look: --%s is for models that read texts", texts[i]);
            return false;
        }
    if (!cli_ends_with(path, ".npz")) return true;
    cli_error("look: -o FILE.npz is for models that read texts; weights of pictures: --json");
    return false;
}

int cli_look_media(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                   const char *path)
{
    const cli_media_use *use = find_use(call, model, fv_model_spec(model)->ability);
    if (!use) return CLI_MISSING;
    const int code = check_kind(call, model, file);
    return code ? code : use->look(call, ctx, model, file, path);
}
