/* Changes scores before a token is chosen: repetition penalty, bans, minimum length, forced tokens.
 */
#include <math.h>
#include <string.h>

#include "infer/search.h"

bool fv_search_is_eos(const fv_search_run *s, int64_t token)
{
    if (token == s->stepper->eos) return true;
    for (int i = 0; i < s->cfg->extra_eos_count; i++)
        if (s->cfg->extra_eos[i] == token) return true;
    return false;
}

bool fv_search_has_processors(const fv_search_run *s)
{
    const fv_search_config *c = s->cfg;
    return c->repetition_penalty != 1 || c->min_tokens > 0 || c->min_length > 0 ||
           c->no_repeat_ngram > 0 || c->forced_first >= 0 || c->forced_last >= 0 ||
           c->banned_count > 0 || c->renormalize;
}

static void force(int64_t token, int64_t choices, float *scores)
{
    for (int64_t i = 0; i < choices; i++)
        scores[i] = i == token ? 0 : -INFINITY;
}

static float penalised(float score, double penalty)
{
    return (float)(score > 0 ? (double)score / penalty : (double)score * penalty);
}

static int64_t prompt_length(const fv_search_run *s, fv_search_row row)
{
    return s->cfg->prompts ? s->cfg->prompt_lengths[row.source] : 0;
}

/* A position between two tokens of prompt and output, which are read backwards: the output's tokens
 * are a chain of nodes, those of the prompt come before them. */
typedef struct place {
    const fv_node *node;
    const int64_t *prompt;
    int64_t left; /* tokens of the prompt */
} place;

static place end_of(const fv_search_run *s, fv_search_row row)
{
    return (place){.node = row.last,
                   .prompt = s->cfg->prompts ? s->cfg->prompts[row.source] : NULL,
                   .left = prompt_length(s, row)};
}

/* Moves one token back; false at the first one. */
static bool previous_token(place *p, int64_t *token)
{
    if (p->node) {
        *token = p->node->token;
        p->node = p->node->parent;
        return true;
    }
    if (p->left == 0) return false;
    *token = p->prompt[--p->left];
    return true;
}

static bool occurs_before(place p, int64_t token)
{
    for (int64_t earlier; previous_token(&p, &earlier);)
        if (earlier == token) return true;
    return false;
}

/* Penalises each generated token once, however often it occurs: at its first occurrence. */
static void penalise_repetitions(const fv_search_run *s, fv_search_row row, float *scores)
{
    place p = end_of(s, row);
    for (int64_t token; previous_token(&p, &token);)
        if (token >= 0 && token < s->stepper->max_choices && !occurs_before(p, token))
            scores[token] = penalised(scores[token], s->cfg->repetition_penalty);
}

/* Whether these tokens end at a position. */
static bool ends_with(place p, const int64_t *tokens, int64_t count)
{
    for (int64_t token; count > 0; count--)
        if (!previous_token(&p, &token) || token != tokens[count - 1]) return false;
    return true;
}

static void ban_words(const fv_search_run *s, fv_search_row row, float *scores)
{
    const fv_search_config *c = s->cfg;
    const int64_t *word = c->banned;
    for (int i = 0; i < c->banned_count; i++) {
        const int64_t last = c->banned_lengths ? c->banned_lengths[i] - 1 : 0;
        if (ends_with(end_of(s, row), word, last)) scores[word[last]] = -INFINITY;
        word += last + 1;
    }
}

/* Whether the same `count` tokens end at both positions. */
static bool end_equally(place a, place b, int64_t count)
{
    for (int64_t x, y; count > 0; count--)
        if (!previous_token(&a, &x) || !previous_token(&b, &y) || x != y) return false;
    return true;
}

/* Bans every token that followed an earlier occurrence of the last n - 1 tokens. */
static void ban_repeated_ngrams(const fv_search_run *s, fv_search_row row, float *scores)
{
    const place end = end_of(s, row);
    place earlier = end;
    for (int64_t token; previous_token(&earlier, &token);)
        if (token >= 0 && token < s->stepper->max_choices &&
            end_equally(earlier, end, s->cfg->no_repeat_ngram - 1))
            scores[token] = -INFINITY;
}

static void process(const fv_search_run *s, fv_search_row row, float *scores)
{
    const fv_search_config *c = s->cfg;
    const int64_t depth = row.last ? row.last->depth : 0, choices = s->stepper->max_choices;
    const bool is_last = depth + 1 == s->max_tokens[row.source];
    const int64_t first = depth == 0 ? c->forced_first : -1, last = is_last ? c->forced_last : -1;
    const bool force_first = first >= 0 && (!row.limited || scores[first] > -INFINITY);
    const bool force_last = last >= 0 && (!row.limited || scores[last] > -INFINITY);
    if (c->repetition_penalty != 1) penalise_repetitions(s, row, scores);
    ban_words(s, row, scores);
    if (c->no_repeat_ngram > 0) ban_repeated_ngrams(s, row, scores);
    if (depth < c->min_tokens || depth + prompt_length(s, row) < c->min_length) {
        if (s->stepper->eos >= 0) scores[s->stepper->eos] = -INFINITY;
        for (int i = 0; i < c->extra_eos_count; i++)
            scores[c->extra_eos[i]] = -INFINITY;
    }
    if (force_first) force(first, choices, scores);
    if (force_last) force(last, choices, scores);
}

void fv_search_process(const fv_search_run *s, fv_search_row row, float *scores)
{
    const int64_t choices = s->stepper->max_choices;
    const size_t bytes = (size_t)choices * sizeof *scores;
    if (!s->unprocessed) return;
    if (row.limited) memcpy(s->unprocessed, scores, bytes);
    process(s, row, scores);
    if (!row.limited) return;
    for (int64_t i = 0; i < choices; i++)
        if (scores[i] > -INFINITY) return;
    memcpy(scores, s->unprocessed, bytes);
}

void fv_search_renormalize(const fv_search_run *s, float *scores)
{
    const int64_t choices = s->stepper->max_choices;
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < choices; i++)
        if ((double)scores[i] > most) most = (double)scores[i];
    if (!isfinite(most)) return;
    for (int64_t i = 0; i < choices; i++)
        sum += exp((double)scores[i] - most);
    for (int64_t i = 0; i < choices; i++)
        scores[i] = (float)((double)scores[i] - most - log(sum));
}
