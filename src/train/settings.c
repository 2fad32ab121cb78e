/* The training loop's settings under the names that recipes use. */
#include "fovea/train.h"
#include "train/step.h"

#define STEPS 1e12

static const fv_key keys[] = {
    {"train.steps", FV_KEY_INT, "10000", 1, STEPS, NULL, "number of updates"},
    {"train.epochs", FV_KEY_REAL, "0", 0, 1e9, NULL,
     "passes over the training data, in place of train.steps; 0: train.steps"},
    {"train.optimizer", FV_KEY_CHOICE, "adamw", 0, 0, "sgd|adam|adamw|rmsprop|adadelta",
     "optimizer"},
    {"train.lr", FV_KEY_REAL, "0.001", 0, 100, NULL, "highest learning rate"},
    {"train.schedule", FV_KEY_CHOICE, "constant", 0, 0, "constant|step|linear|cosine|inverse-sqrt",
     "learning rate schedule"},
    {"train.warmup", FV_KEY_INT, "0", 0, STEPS, NULL, "warm-up steps: the rate rises from 0"},
    {"train.lr_floor", FV_KEY_REAL, "0", 0, 100, NULL, "final rate of linear and cosine"},
    {"train.lr_every", FV_KEY_INT, "1000", 1, STEPS, NULL,
     "step: updates between drops of the rate"},
    {"train.lr_gamma", FV_KEY_REAL, "0.5", 0, 1, NULL, "step: factor of a drop"},
    {"train.momentum", FV_KEY_REAL, "0", 0, 1, NULL, "momentum of sgd and rmsprop"},
    {"train.beta1", FV_KEY_REAL, "0.9", 0, 1, NULL, "adam, adamw: decay of the mean of gradients"},
    {"train.beta2", FV_KEY_REAL, "0.999", 0, 1, NULL,
     "adam, adamw: decay of the mean of squared gradients"},
    {"train.eps", FV_KEY_REAL, "1e-8", 0, 1, NULL, "added to denominators"},
    {"train.weight_decay", FV_KEY_REAL, "0", 0, 1, NULL, "weight decay; adamw: decoupled"},
    {"train.decay_all", FV_KEY_BOOL, "false", 0, 0, NULL,
     "also decay biases and gains, not only matrices"},
    {"train.compute_dtype", FV_KEY_CHOICE, "f32", 0, 0, "f32|bf16|bf16-always",
     "Transformers: data type of activations; bf16: where this CPU's products are faster in it, "
     "else "
     "f32; bf16-always: for half the memory too"},
    {"train.recompute", FV_KEY_BOOL, "false", 0, 0, NULL,
     "Transformers: gradient checkpointing: recompute blocks in backward, to save memory"},
    {"train.recompute_keep", FV_KEY_CHOICE, "nothing", 0, 0, "nothing|attention",
     "with recompute: what stays in memory; attention: its results, which are not recomputed"},
    {"train.clip", FV_KEY_REAL, "0", 0, 1e9, NULL, "clip gradients to this norm; 0: off"},
    {"train.max_skipped", FV_KEY_INT, "10", 0, 1e6, NULL,
     "consecutive steps with a non-finite loss or gradients before the run fails"},
    {"train.eval_every", FV_KEY_INT, "500", 0, STEPS, NULL,
     "steps between evaluations; 0: at the end only"},
    {"train.save_every", FV_KEY_INT, "1000", 0, STEPS, NULL,
     "steps between states; 0: at the end only"},
    {"train.log_every", FV_KEY_INT, "10", 0, STEPS, NULL, "steps between log entries"},
    {"train.keep", FV_KEY_INT, "3", 1, 63, NULL, "number of states kept"},
    {"train.patience", FV_KEY_INT, "0", 0, 1e9, NULL,
     "evaluations without improvement before stopping; 0: never"},
};

fv_key_table fv_train_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

static uint64_t count_of(const fv_recipe *recipe, const char *name)
{
    return (uint64_t)fv_recipe_int(recipe, name);
}

static void optim_from(const fv_recipe *recipe, fv_optim_config *cfg)
{
    /* Choices are in the order of the enum. */
    fv_optim_config_init(cfg, sizeof *cfg,
                         (fv_optim_kind)fv_recipe_choice(recipe, "train.optimizer"));
    cfg->momentum = fv_recipe_real(recipe, "train.momentum");
    cfg->beta1 = fv_recipe_real(recipe, "train.beta1");
    cfg->beta2 = fv_recipe_real(recipe, "train.beta2");
    cfg->weight_decay = fv_recipe_real(recipe, "train.weight_decay");
    cfg->decay_matrices = !fv_recipe_bool(recipe, "train.decay_all");
    cfg->clip_norm = fv_recipe_real(recipe, "train.clip");
    cfg->max_skipped = (int)fv_recipe_int(recipe, "train.max_skipped");
    if (fv_recipe_is_set(recipe, "train.eps")) cfg->eps = fv_recipe_real(recipe, "train.eps");
}

void fv_train_config_from(const fv_recipe *recipe, fv_train_config *cfg)
{
    cfg->steps = count_of(recipe, "train.steps");
    optim_from(recipe, &cfg->optim);
    cfg->schedule = (fv_schedule){
        .kind = (fv_schedule_kind)fv_recipe_choice(recipe, "train.schedule"),
        .lr = fv_recipe_real(recipe, "train.lr"),
        .warmup = count_of(recipe, "train.warmup"),
        .total = cfg->steps,
        .floor = fv_recipe_real(recipe, "train.lr_floor"),
        .every = count_of(recipe, "train.lr_every"),
        .gamma = fv_recipe_real(recipe, "train.lr_gamma"),
    };
    cfg->compute = fv_recipe_choice(recipe, "train.compute_dtype") > 0 ? FV_BF16 : FV_F32;
    cfg->recompute = fv_recipe_bool(recipe, "train.recompute");
    cfg->eval_every = count_of(recipe, "train.eval_every");
    cfg->save_every = count_of(recipe, "train.save_every");
    cfg->log_every = count_of(recipe, "train.log_every");
    cfg->keep = (int)fv_recipe_int(recipe, "train.keep");
    cfg->patience = (int)fv_recipe_int(recipe, "train.patience");
}
