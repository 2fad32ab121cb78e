/*
 * What a program registers, held to the library's rules: two phases, batches made by running the
 * model, state beside weights, several losses, sets and pixels, refusals. The main question of each
 * is whether a run that was cancelled, at any call, ends with the bits of one that was not.
 */
#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/ops.h"
#include "support/files.h"
#include "support/own_kinds.h"
#include "support/program.h"
#include "support/runs.h"
#include "support/test.h"

/* ---- comparing runs -------------------------------------------------------------------------- */

static void *bytes_of(fv_safetensors *file, const fv_file_entry *entry)
{
    void *out = malloc((size_t)entry->bytes + 1);
    if (!out || fv_safetensors_read(file, entry, 0, out, (size_t)entry->bytes) != FV_OK)
        test_failed(__FILE__, __LINE__, "%s cannot be read", entry->name);
    return out;
}

/* Every tensor and every note of two states but the seconds; false: something differs. */
static bool same_notes_and_tensors(fv_safetensors *a, fv_safetensors *b, char *what, size_t room)
{
    if (fv_safetensors_count(a) != fv_safetensors_count(b) ||
        fv_safetensors_metadata_count(a) != fv_safetensors_metadata_count(b))
        return false;
    for (size_t i = 0; i < fv_safetensors_metadata_count(a); i++) {
        const fv_file_metadata *note = fv_safetensors_metadata_at(a, i);
        const char *other = fv_safetensors_metadata_find(b, note->key);
        snprintf(what, room, "%s: %s, %s", note->key, note->value, other ? other : "-");
        /* The checksum covers the seconds. */
        if (strcmp(note->key, "fovea.seconds") == 0 || strcmp(note->key, "fovea.crc32c") == 0)
            continue;
        if (!other || strcmp(other, note->value) != 0) return false;
    }
    for (size_t i = 0; i < fv_safetensors_count(a); i++) {
        const fv_file_entry *x = fv_safetensors_entry(a, i), *y = fv_safetensors_find(b, x->name);
        snprintf(what, room, "%s", x->name);
        if (!y || x->bytes != y->bytes) return false;
        void *p = bytes_of(a, x), *q = bytes_of(b, y);
        const bool same = p && q && memcmp(p, q, (size_t)x->bytes) == 0;
        free(p);
        free(q);
        if (!same) return false;
    }
    return true;
}

static void check_same(const own_pair *pair, const char *a, const char *b, int64_t cancelled)
{
    char paths[2][1024], what[400] = "counts";
    fv_ctx *ctx = run_context(1, 1);
    fv_safetensors *files[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/state-%08d.safetensors", i ? b : a,
                 atoi(pair->steps));
        CHECK_OK(ctx, fv_safetensors_open(ctx, paths[i], FV_SAFETENSORS_VERIFY, &files[i]));
    }
    if (files[0] && files[1] && !same_notes_and_tensors(files[0], files[1], what, sizeof what))
        test_failed(__FILE__, __LINE__, "cancelled in call %lld, states differ: %s",
                    (long long)cancelled, what);
    CHECK(file_same_in(a, b, "model.safetensors"));
    fv_safetensors_close(&files[0]);
    fv_safetensors_close(&files[1]);
    fv_ctx_destroy(&ctx);
}

/* Cancels a run in each of its calls, one at a time, and resumes it. */
static void resumes_from_every_call(const own_pair *pair)
{
    char whole[1024], broken[1024];
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    own_calls = (own_count){.cancel_at = 0};
    CHECK_EQ(own_train(pair, 1, whole), FV_OK);
    const int64_t calls = own_calls.calls;
    CHECK(calls > 20);
    CHECK_EQ(own_calls.wrong_group, 0);
    CHECK_EQ(own_calls.recorded, 0);
    for (int64_t at = 1; at <= calls && test_failures() < 3; at++) {
        const int threads = 1 + (int)(at % 2);
        snprintf(broken, sizeof broken, "%s", folder_sub("broken"));
        own_calls = (own_count){.cancel_at = at};
        const fv_status status = own_train(pair, threads, broken);
        /* A flag that rises in the last save finds nothing left to cancel. */
        CHECK(status == FV_ERR_CANCELLED || at > calls - 2);
        own_calls = (own_count){.cancel_at = 0};
        CHECK_EQ(own_train(pair, 3 - threads, broken), FV_OK);
        check_same(pair, whole, broken, at);
        tree_remove(broken);
    }
    /* Stopped again and again, with just enough calls in between to get on. */
    snprintf(broken, sizeof broken, "%s", folder_sub("broken"));
    fv_status status = FV_ERR_CANCELLED;
    int starts = 0;
    for (; status == FV_ERR_CANCELLED && starts < 100; starts++) {
        own_calls = (own_count){.cancel_at = 14};
        status = own_train(pair, 2, broken);
    }
    CHECK_EQ(status, FV_OK);
    CHECK(starts > 3);
    check_same(pair, whole, broken, -1);
    tree_remove(broken);
    tree_remove(whole);
}

static void two_phases_resume_bit_for_bit(void) { resumes_from_every_call(&own_gan); }
static void a_replay_buffer_resumes_bit_for_bit(void) { resumes_from_every_call(&own_bandit); }

/* ---- what runs do ------------------------------------------------------------------------------
 */

/* Buffers have moved, once a step. */
static void buffers_move_with_the_steps(void)
{
    char folder[1024], path[1100];
    snprintf(folder, sizeof folder, "%s", folder_sub("gan"));
    snprintf(path, sizeof path, "%s/state-00000004.safetensors", folder);
    own_calls = (own_count){.cancel_at = 0};
    CHECK_EQ(own_train(&own_gan, 1, folder), FV_OK);
    fv_ctx *ctx = own_context(&own_gan, 1);
    fv_safetensors *file = NULL;
    double count = 0, length = 0, mean = 0;
    CHECK_OK(ctx, fv_safetensors_open(ctx, path, FV_SAFETENSORS_VERIFY, &file));
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_safetensors_load(ctx, file, "model.count"), &count));
    fv_tensor *u = fv_safetensors_load(ctx, file, "model.discriminator.u");
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_norm(ctx, u, 0, NULL, false), &length));
    fv_tensor *m = fv_safetensors_load(ctx, file, "model.generator.mean");
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_norm(ctx, m, 0, NULL, false), &mean));
    CHECK_EQ(count, 4);
    CHECK_NEAR(length, 1, 1e-6);
    CHECK(mean > 0);
    /* Each optimizer has moments of its own group alone, and its own steps. */
    CHECK(fv_safetensors_find(file, "optim.discriminator.w.m") != NULL ||
          fv_safetensors_find(file, "optim.discriminator.w.exp_avg") != NULL);
    for (size_t i = 0; i < fv_safetensors_count(file); i++) {
        const char *name = fv_safetensors_entry(file, i)->name;
        CHECK(strncmp(name, "optim.generator", 15) != 0);
        CHECK(strncmp(name, "optim1.discriminator", 20) != 0);
        CHECK(!strstr(name, ".u.") && !strstr(name, "mean."));
    }
    CHECK_STR(fv_safetensors_metadata_find(file, "fovea.optim_steps.1"), "4");
    fv_safetensors_close(&file);
    /* The mean of states' weights leaves buffers alone. */
    fv_model *model = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
    CHECK_OK(ctx, fv_params_average(fv_model_params(model), folder, 2));
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
    tree_remove(folder);
}

static void a_policy_learns_the_best_arm(void)
{
    fv_ctx *ctx = own_context(&own_bandit, 1);
    fv_recipe *recipe = own_recipe(ctx, &own_bandit);
    fv_run *run = NULL;
    fv_metric metrics[FV_MAX_METRICS];
    int count = 0;
    own_calls = (own_count){.cancel_at = 0};
    run_set(ctx, recipe,
            (run_setting[]){
                {"train.steps", "150"}, {"train.lr", "0.1"}, {"train.eval_every", "50"}, {0}});
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("bandit"), NULL, NULL, &run));
    CHECK_OK(ctx, fv_run_evaluate(run, metrics, &count));
    CHECK_NEAR(metrics[0].value, 0.25, 1e-6);
    CHECK_OK(ctx, fv_run_train(run));
    CHECK_OK(ctx, fv_run_evaluate(run, metrics, &count));
    CHECK_EQ(count, 1);
    CHECK_STR(metrics[0].name, "best_arm");
    CHECK(metrics[0].value > 0.8);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* With output layers of zeros the losses are log 4 and the targets' squares, times their weights.
 */
static void losses_add_up_with_their_weights(void)
{
    fv_ctx *ctx = own_context(&own_sets, 1);
    fv_recipe *recipe = own_recipe(ctx, &own_sets);
    fv_run *run = NULL;
    fv_batch batch;
    void *task = NULL;
    fv_data_spec spec = {.ability = FV_CAN_CLASSIFY};
    double loss = 0;
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("sets"), NULL, NULL, &run));
    fv_model *model = fv_run_model(run);
    CHECK_EQ(own_sets.task->open(&(fv_task_config){.ctx = ctx}, &spec, &task), FV_OK);
    CHECK_EQ(own_sets.task->batch(task, model, 0, 0, 0, &batch), FV_OK);
    fv_tensor *sum = own_sets.kind->loss(ctx, fv_model_self(model), &batch, NULL);
    CHECK_OK(ctx, fv_tensor_item(ctx, sum, &loss));
    CHECK_NEAR(loss, 2.0 * 3 * log(4) + 0.5 * (1 + 4 + 9), 1e-5);

    /* Sets are padded with zeros to the longest, and pixels need no padding. */
    float got[3][3][2];
    int64_t lengths[3];
    fv_tensor *n = NULL, *points = fv_batch_tensor(ctx, &batch, "points", &n);
    CHECK_EQ(fv_tensor_rank(points), 3);
    CHECK_OK(ctx, fv_tensor_read(ctx, points, got, sizeof got));
    CHECK_OK(ctx, fv_tensor_read(ctx, n, lengths, sizeof lengths));
    CHECK(lengths[0] == 1 && lengths[1] == 3 && lengths[2] == 2);
    CHECK(got[0][0][1] == 2 && got[0][1][0] == 0 && got[0][2][1] == 0);
    CHECK(got[1][2][1] == 8 && got[2][1][1] == -2 && got[2][2][0] == 0);
    fv_tensor *pixels = fv_batch_tensor(ctx, &batch, "pixels", NULL);
    CHECK_EQ(fv_tensor_rank(pixels), 4);
    CHECK_EQ(fv_tensor_size(pixels, 1), 1);
    CHECK_EQ(fv_tensor_size(fv_batch_tensor(ctx, &batch, "label", NULL), 0), 3);
    CHECK_EQ(fv_batch_find(&batch, "points")->weight, 1);
    CHECK(!fv_batch_add(&batch, (fv_field){.name = "label"}));
    fv_batch_tensor(ctx, &batch, "colour", NULL);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "colour"));

    /* Both losses get smaller, and the classes are learnt. */
    float logits[3][4];
    double after = 0;
    CHECK_OK(ctx, fv_run_train(run));
    CHECK_OK(ctx, fv_tensor_item(ctx, own_sets.kind->loss(ctx, fv_model_self(model), &batch, NULL),
                                 &after));
    CHECK(after < loss / 4);
    fv_tensor *y = own_sets.kind->classify(ctx, fv_model_self(model), &batch, NULL);
    CHECK_OK(ctx, fv_tensor_read(ctx, y, logits, sizeof logits));
    CHECK(logits[0][3] > logits[0][0] && logits[1][0] > logits[1][3]);

    /* The folder opens again as the same model, settings, sizes and labels included. */
    fv_model *again = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("sets"), &again));
    if (again) {
        float other[3][4];
        y = own_sets.kind->classify(ctx, fv_model_self(again), &batch, NULL);
        CHECK_OK(ctx, fv_tensor_read(ctx, y, other, sizeof other));
        CHECK(memcmp(logits, other, sizeof other) == 0);
        CHECK_EQ(fv_model_spec(again)->label_count, 4);
        CHECK_STR(fv_model_spec(again)->labels[3], "west \"and\" more");
        CHECK_EQ(fv_data_spec_get(fv_model_spec(again), "axes", 0), 2);
        CHECK(fv_model_can(again, FV_CAN_CLASSIFY) && !fv_model_can(again, FV_CAN_ACT));
        bool equal = false;
        fv_params *a = fv_model_params(model), *b = fv_model_params(again);
        CHECK_OK(ctx, fv_params_equal(a, b, &equal));
        CHECK(equal);
        const float changed = -0.0f; /* equal to 0 as a number, but not in its bits */
        fv_tensor *size = fv_params_find(b, "size");
        fv_tensor *first = fv_slice(ctx, size, 1, 0, 1, 1);
        CHECK_OK(ctx, fv_tensor_write(ctx, first, &changed, sizeof changed));
        CHECK_OK(ctx, fv_params_equal(a, b, &equal));
        CHECK(!equal);
    }
    fv_model_close(&again);
    own_sets.task->close(task);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* ---- states that do not fit --------------------------------------------------------------------
 */

/* Writes a state again, whole and with good checksums, but without one of its tensors or with it in
 * another shape. */
static void spoil_state(const char *path, const char *name, bool drop)
{
    enum { ROOM = 32 };
    fv_ctx *ctx = run_context(1, 1);
    fv_safetensors *file = NULL;
    const char *names[ROOM];
    fv_tensor *tensors[ROOM];
    fv_file_metadata notes[ROOM];
    size_t count = 0, note_count = 0;
    CHECK_OK(ctx, fv_safetensors_open(ctx, path, FV_SAFETENSORS_COPY, &file));
    for (size_t i = 0; file && i < fv_safetensors_count(file); i++) {
        names[count] = fv_safetensors_entry(file, i)->name;
        tensors[count] = fv_safetensors_load(ctx, file, names[count]);
        if (strcmp(names[count], name) == 0) {
            if (drop) continue;
            tensors[count] = fv_zeros(ctx, FV_F32, 1, (int64_t[]){3});
        }
        count++;
    }
    for (size_t i = 0; file && i < fv_safetensors_metadata_count(file); i++)
        if (strcmp(fv_safetensors_metadata_at(file, i)->key, "fovea.crc32c") != 0)
            notes[note_count++] = *fv_safetensors_metadata_at(file, i);
    CHECK_OK(ctx, fv_safetensors_save(ctx, names, tensors, count, notes, note_count, path));
    fv_safetensors_close(&file);
    fv_ctx_destroy(&ctx);
}

/* Trains again in a folder whose newest state was spoilt: the one before it takes its place. */
static void states_that_do_not_fit_are_refused(void)
{
    static const char *const spoilt[] = {"task.reward", "task.baseline", "model.policy"};
    for (int i = 0; i < 6; i++) {
        char folder[1024], path[1100];
        run_watch watch = {.stop = 0};
        snprintf(folder, sizeof folder, "%s", folder_sub("spoilt"));
        own_calls = (own_count){.cancel_at = 0};
        CHECK_EQ(own_train(&own_bandit, 1, folder), FV_OK);
        snprintf(path, sizeof path, "%s/state-00000006.safetensors", folder);
        spoil_state(path, spoilt[i / 2], i % 2);
        fv_ctx *ctx = own_context(&own_bandit, 1);
        fv_recipe *recipe = own_recipe(ctx, &own_bandit);
        fv_run *run = NULL;
        CHECK_OK(ctx, fv_run_create(ctx, recipe, folder, run_observe, &watch, &run));
        CHECK_OK(ctx, fv_run_train(run));
        CHECK_EQ(watch.seen[FV_TRAIN_BAD_STATE], 1);
        CHECK_EQ(watch.seen[FV_TRAIN_RESUMED], 1);
        CHECK_EQ(watch.seen[FV_TRAIN_STEP], 2);
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
        fv_ctx_destroy(&ctx);
        tree_remove(folder);
    }
}

/* ---- refusals ----------------------------------------------------------------------------------
 */

static void refused_model(fv_ctx *ctx, const fv_model_kind *kind, const char *why)
{
    CHECK_EQ(fv_register_model(ctx, kind), FV_ERR_ARGUMENT);
    if (!strstr(fv_ctx_message(ctx), why))
        test_failed(__FILE__, __LINE__, "\"%s\", not \"%s\"", fv_ctx_message(ctx), why);
}

static void refused_task(fv_ctx *ctx, const fv_task_kind *kind, const char *why)
{
    CHECK_EQ(fv_register_task(ctx, kind), FV_ERR_ARGUMENT);
    if (!strstr(fv_ctx_message(ctx), why))
        test_failed(__FILE__, __LINE__, "\"%s\", not \"%s\"", fv_ctx_message(ctx), why);
}

static void bad_kinds_are_refused(void)
{
    fv_ctx *ctx = own_context(&own_sets, 1);
    const fv_model_kind good = *own_bandit.kind;
    fv_model_kind k;
    const size_t most = sizeof k;
    refused_model(ctx, own_sets.kind, "already");
    k = good, k.name = NULL, refused_model(ctx, &k, "a name");
    k = good, k.name = "", refused_model(ctx, &k, "a name");
    k = good, k.name = "two words", refused_model(ctx, &k, "a name");
    k = good, k.name = "a|b", refused_model(ctx, &k, "a name");
    k = good, k.name = "auto", refused_model(ctx, &k, "already");
    k = good, k.name = "transformer", refused_model(ctx, &k, "already");
    k = good, k.types = "mine|gpt2", refused_model(ctx, &k, "belongs to transformer");
    k = good, k.types = "toy-sets", refused_model(ctx, &k, "belongs to toy-sets");
    k = good, k.types = "mine||yours", refused_model(ctx, &k, "an empty");
    k = good, k.create = NULL, refused_model(ctx, &k, "create");
    k = good, k.destroy = NULL, refused_model(ctx, &k, "destroy");
    k = good, k.struct_size = 0, refused_model(ctx, &k, "struct_size is 0");
    k = good, k.struct_size = most + 8, refused_model(ctx, &k, "struct_size");
    /* A struct that ends before `create` has none. */
    k = good, k.struct_size = offsetof(fv_model_kind, create), refused_model(ctx, &k, "create");
    CHECK_EQ(fv_model_kind_find(ctx, good.name) == NULL, true);
    CHECK_OK(ctx, fv_register_model(ctx, &good));
    fv_ctx_destroy(&ctx);
}

static void bad_tasks_are_refused(void)
{
    fv_ctx *ctx = own_context(&own_sets, 1);
    const fv_task_kind good = *own_gan.task;
    fv_task_kind k;
    const size_t most = sizeof k;
    refused_task(ctx, own_sets.task, "already");
    k = good, k.name = NULL, refused_task(ctx, &k, "a name");
    k = good, k.name = "masked", refused_task(ctx, &k, "already");
    k = good, k.open = NULL, refused_task(ctx, &k, "open");
    k = good, k.close = NULL, refused_task(ctx, &k, "close");
    k = good, k.batch = NULL, refused_task(ctx, &k, "batch");
    k = good, k.phases = FV_MAX_PHASES + 1, refused_task(ctx, &k, "phases");
    k = good, k.set_state = NULL, refused_task(ctx, &k, "go together");
    k = good, k.get_position = NULL, refused_task(ctx, &k, "go together");
    k = good, k.struct_size = most + 8, refused_task(ctx, &k, "struct_size");
    k = good, k.struct_size = 4, refused_task(ctx, &k, "struct_size");
    CHECK_OK(ctx, fv_register_task(ctx, &good));
    fv_ctx_destroy(&ctx);
}

/* What an older header did not have yet is NULL, whatever comes after the caller's struct. */
static void older_structs_are_filled_up(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_model_kind kind = *own_gan.kind;
    fv_task_kind task = *own_gan.task;
    kind.struct_size = offsetof(fv_model_kind, step_done);
    task.struct_size = offsetof(fv_task_kind, get_state);
    CHECK_OK(ctx, fv_register_model(ctx, &kind));
    CHECK_OK(ctx, fv_register_task(ctx, &task));
    const fv_model_kind *k = fv_model_kind_find(ctx, kind.name);
    const fv_task_kind *t = fv_task_kind_find(ctx, task.name);
    CHECK(k && k->draw == kind.draw && !k->step_done && !k->trains_bf16);
    CHECK(t && t->set_position == task.set_position && !t->get_state && !t->set_state);
    fv_recipe *recipe = own_recipe(ctx, &own_gan);
    fv_run *run = NULL;
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("older"), NULL, NULL, &run));
    if (run) CHECK_OK(ctx, fv_run_train(run));
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* A run of the pair with a changed task or setting fails to begin, with a message. */
static void refused_run(const own_pair *pair, const run_setting *settings, fv_status how,
                        const char *why)
{
    fv_ctx *ctx = own_context(pair, 1);
    fv_recipe *recipe = own_recipe(ctx, pair);
    fv_run *run = NULL;
    run_set(ctx, recipe, settings);
    fv_status status = fv_run_create(ctx, recipe, folder_sub("refused"), NULL, NULL, &run);
    if (status == FV_OK) status = fv_run_train(run);
    tree_remove(folder_path("refused"));
    CHECK_EQ(status, how);
    if (!strstr(fv_ctx_message(ctx), why))
        test_failed(__FILE__, __LINE__, "\"%s\", not \"%s\"", fv_ctx_message(ctx), why);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static const char *no_group(void *self, int phase)
{
    (void)self;
    return phase ? "generator." : "critic.";
}

static fv_status no_tokens(void *self, fv_model *model, uint64_t step, int phase,
                           fv_step_plan *plan)
{
    (void)self, (void)model, (void)step, (void)phase;
    plan->tokens = 0;
    return FV_OK;
}

static void runs_that_cannot_be_say_why(void)
{
    const run_setting nothing[] = {{0}};
    fv_task_kind task = *own_gan.task;
    own_calls = (own_count){.cancel_at = 0};
    task.group = no_group;
    refused_run(&(own_pair){own_gan.kind, &task, "2"}, nothing, FV_ERR_ARGUMENT, "'critic.'");
    task = *own_gan.task;
    task.begin = no_tokens;
    refused_run(&(own_pair){own_gan.kind, &task, "2"}, nothing, FV_ERR_ARGUMENT, "0 tokens");
    refused_run(&own_gan, (run_setting[]){{"model.kind", "transformer"}, {0}}, FV_ERR_ARGUMENT, "");
    refused_run(&own_gan, (run_setting[]){{"train.compute_dtype", "bf16"}, {0}}, FV_ERR_ARGUMENT,
                "toy-gan");
    refused_run(&own_sets, (run_setting[]){{"toy_sets.bias", "true"}, {0}}, FV_ERR_ARGUMENT,
                "a set has none");
    task = *own_sets.task;
    task.model = "toy-policy"; /* acts, and cannot classify */
    fv_ctx *ctx = own_context(&(own_pair){own_bandit.kind, &task, "2"}, 1);
    fv_recipe *recipe = own_recipe(ctx, &own_sets);
    fv_run *run = NULL;
    CHECK_EQ(fv_run_create(ctx, recipe, folder_sub("refused"), NULL, NULL, &run), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "classify") && strstr(fv_ctx_message(ctx), "toy-policy"));
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* ---- folders ------------------------------------------------------------------------------------
 */

static void save_policy(const char *folder)
{
    fv_ctx *ctx = own_context(&own_bandit, 1);
    fv_data_spec spec = {.ability = FV_CAN_ACT};
    fv_model *model = NULL;
    CHECK(fv_data_spec_set(&spec, "actions", 4));
    CHECK_OK(ctx, fv_model_create(ctx, "toy-policy", NULL, &spec, &model));
    if (model) CHECK_OK(ctx, fv_model_save(model, folder));
    fv_model_close(&model);
    /* Its first type is what the folder has; it opens where the kind is registered. */
    CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
    CHECK(model && strcmp(fv_model_type(model), "toy_policy") == 0);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* The library and the program say so where a kind is not registered. */
static void unknown_kinds_are_named(void)
{
    char folder[1024];
    fv_model *model = NULL;
    snprintf(folder, sizeof folder, "%s", folder_sub("policy"));
    save_policy(folder);
    fv_ctx *ctx = run_context(1, 1);
    CHECK_EQ(fv_model_open(ctx, folder, &model), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "'toy_policy'"));
    CHECK(strstr(fv_ctx_message(ctx), "registered"));
    fv_ctx_destroy(&ctx);
    if (!getenv("FV_PROGRAM")) return;
    program_run("run %s hello", folder);
    expect(3, NULL, "'toy_policy' is not supported");
    CHECK(strstr(program.err, "registered"));
}

static void change_config(const char *folder, const char *text)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/config.json", folder);
    file_write(path, text, strlen(text));
}

/* Nothing in a folder is trusted, of whatever kind. */
static void damaged_configs_are_refused(void)
{
    static const char *const bad[] = {
        "{\"model_type\": \"toy-sets\"}",
        "{\"model_type\": \"toy-sets\", \"ability\": \"fly\", \"settings\": {}, \"data\": {}, "
        "\"labels\": []}",
        "{\"model_type\": \"toy-sets\", \"ability\": \"classify\", \"settings\": "
        "{\"toy_sets.width\": 0}, \"data\": {}, \"labels\": []}",
        "{\"model_type\": \"toy-sets\", \"ability\": \"classify\", \"settings\": "
        "{\"toy_sets.depth\": 1}, \"data\": {}, \"labels\": []}",
        "{\"model_type\": \"toy-sets\", \"ability\": \"classify\", \"settings\": "
        "{\"toy_sets.bias\": true}, \"data\": {}, \"labels\": [\"a\"]}",
        "{\"model_type\": \"toy-sets\", \"ability\": \"classify\", \"settings\": {}, \"data\": "
        "{\"axes\": \"two\"}, \"labels\": []}",
        "{\"model_type\": \"toy-sets\", \"ability\": \"classify\", \"settings\": "
        "{\"toy_sets.width\": 6}, \"data\": {}, \"labels\": [\"a\", \"b\", \"c\", \"d\"]}",
    };
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", folder_sub("config"));
    own_calls = (own_count){.cancel_at = 0};
    CHECK_EQ(own_train(&own_sets, 1, folder), FV_OK);
    fv_ctx *ctx = own_context(&own_sets, 1);
    fv_model *model = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
    fv_model_close(&model);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        change_config(folder, bad[i]);
        const fv_status status = fv_model_open(ctx, folder, &model);
        if (status != FV_ERR_FORMAT)
            test_failed(__FILE__, __LINE__, "config %zu: %s", i, fv_status_name(status));
        CHECK(!model && fv_ctx_error(ctx) == FV_OK);
        fv_model_close(&model);
    }
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    RUN(two_phases_resume_bit_for_bit);
    RUN(a_replay_buffer_resumes_bit_for_bit);
    RUN(buffers_move_with_the_steps);
    RUN(a_policy_learns_the_best_arm);
    RUN(losses_add_up_with_their_weights);
    RUN(states_that_do_not_fit_are_refused);
    RUN(bad_kinds_are_refused);
    RUN(bad_tasks_are_refused);
    RUN(older_structs_are_filled_up);
    RUN(runs_that_cannot_be_say_why);
    RUN(unknown_kinds_are_named);
    RUN(damaged_configs_are_refused);
    folder_remove();
    return TEST_END();
}
