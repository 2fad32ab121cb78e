/*
 * What the examples at the top of the public headers take for granted: the reader's own names.
 * tools/check-header-examples compiles each example inside a function after this file, with
 * EXAMPLE_<header> defined where two headers mean different things by one name.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fovea/fovea.h>

extern fv_ctx *ctx;
extern fv_status s;
extern fv_params *params;
extern fv_tensor *q, *v, *w_q, *w_k, *v_a, *x, *y, *target, *table, *learnt, *words, *memory;
extern int64_t n, d, n_q, n_k, width, sentences, sources, count, segments, shape[2], *lengths,
    *max_tokens, *index;
extern void *o, *lse, *mine;
extern uint64_t seed;
extern float *map, *weight, *entropy, *weights;
extern const char *const *names;
extern const int64_t *const *xs, *const *ys, *x_lengths, *y_lengths;
#ifndef EXAMPLE_batch
extern fv_batch batch;
#endif
extern const float *first, *second;
extern const fv_model_kind my_kind;
extern fv_sequences prompts;
extern fv_stepper stepper;
extern fv_search_config how;
extern fv_outputs *outputs;
extern fv_recipe *recipe;
extern fv_safetensors *file;
extern fv_model *translator;
extern fv_text other;
extern fv_attention_saved saved;
extern fv_attention_result out;
extern fv_tensor *log_py;
typedef struct my_layer {
    fv_tensor *w;
} my_layer;
extern my_layer layer;
extern fv_lines *lines;
extern fv_tokenizer *tok;
extern fv_batches *batches;
extern const fv_pass *pass;
extern fv_mha heads;
extern fv_optim *optim;
extern fv_transformer *bert, *marian;
extern fv_cache *cache;
extern const int64_t *const *expected;
extern const uint32_t *codes;
extern void *scratch;
extern size_t need;
extern const float *far_keys, *far_values, *gradient;
extern fv_string hypothesis[2], references[2][2];

#ifdef EXAMPLE_kernels
extern int64_t m, k, b_row, b_col;
extern const float *a, *b;
extern float *c;
#else
extern fv_attn a;
extern fv_attn_data data;
extern fv_tensor *k;
#endif
#ifdef EXAMPLE_cache
extern fv_transformer *model;
extern fv_tensor *tokens;
#else
extern fv_model *model;
extern const int64_t *const *tokens;
#endif
#ifdef EXAMPLE_autograd
void use(const fv_tensor *gradient);
#else
void use(const char *text, size_t bytes);
#endif

int fail(const char *message);
void append(uint32_t code);
void show(const int64_t *tokens_of_output, int64_t tokens_count, double score);
bool print(void *user, int64_t text, const char *piece, size_t bytes);
void print_file(void *user, const fv_dataset_finding *finding);
void observe(void *user, const fv_train_event *event);
fv_tensor *loss_of(fv_ctx *in, fv_tensor *parameter);
fv_status begin(void *user, uint64_t step, int phase, fv_step_plan *plan);
#ifdef EXAMPLE_status
extern fv_tensor *loss;
#else
fv_tensor *loss(void *user, fv_ctx *in, int phase, int64_t part);
#endif
fv_status evaluate(void *user, fv_metric *metrics, int *metrics_count);
void get_position(void *user, int64_t position[FV_POSITION]);
fv_status set_position(void *user, const int64_t position[FV_POSITION]);
