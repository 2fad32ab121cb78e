/* What the settings do to scores before a token is chosen from them. */
#include <math.h>

#include "infer/outputs.h"

bool fv_search_ends(const fv_search *s, int64_t token)
{
    if (token == s->stepper->end) return true;
    for (int i = 0; i < s->cfg->more_end_count; i++)
        if (s->cfg->more_ends[i] == token) return true;
    return false;
}

bool fv_search_changes(const fv_search *s)
{
    const fv_decode_config *c = s->cfg;
    return c->repetition_penalty != 1 || c->least_tokens > 0 || c->least_length > 0 ||
           c->no_repeat > 0 || c->forced_first >= 0 || c->forced_last >= 0 || c->banned_count > 0 ||
           c->renormalize;
}

static void force(int64_t token, int64_t vocabulary, float *scores)
{
    for (int64_t i = 0; i < vocabulary; i++)
        scores[i] = i == token ? 0 : -INFINITY;
}

static float punished(float score, double penalty)
{
    return (float)(score > 0 ? (double)score / penalty : (double)score * penalty);
}

static int64_t before_count(const fv_search *s, fv_search_row row)
{
    return s->cfg->before ? s->cfg->before_count[row.source] : 0;
}

/* A place in what was said, between two tokens: the output's are a chain, `before` lies below. */
typedef struct place {
    const fv_node *node;
    const int64_t *before;
    int64_t left; /* tokens of `before` */
} place;

static place end_of(const fv_search *s, fv_search_row row)
{
    return (place){.node = row.last,
                   .before = s->cfg->before ? s->cfg->before[row.source] : NULL,
                   .left = before_count(s, row)};
}

/* One token back; false at the beginning. */
static bool go_back(place *p, int64_t *token)
{
    if (p->node) {
        *token = p->node->token;
        p->node = p->node->parent;
        return true;
    }
    if (p->left == 0) return false;
    *token = p->before[--p->left];
    return true;
}

static bool was_said(place p, int64_t token)
{
    for (int64_t earlier; go_back(&p, &earlier);)
        if (earlier == token) return true;
    return false;
}

/* Each token once, however often it was said: it is punished where it came first. */
static void punish_repetitions(const fv_search *s, fv_search_row row, float *scores)
{
    place p = end_of(s, row);
    for (int64_t token; go_back(&p, &token);)
        if (token >= 0 && token < s->stepper->vocabulary && !was_said(p, token))
            scores[token] = punished(scores[token], s->cfg->repetition_penalty);
}

/* Whether these tokens end at a place. */
static bool just_said(place p, const int64_t *tokens, int64_t count)
{
    for (int64_t token; count > 0; count--)
        if (!go_back(&p, &token) || token != tokens[count - 1]) return false;
    return true;
}

static void ban_words(const fv_search *s, fv_search_row row, float *scores)
{
    const fv_decode_config *c = s->cfg;
    const int64_t *word = c->banned;
    for (int i = 0; i < c->banned_count; i++) {
        const int64_t last = c->banned_lengths ? c->banned_lengths[i] - 1 : 0;
        if (just_said(end_of(s, row), word, last)) scores[word[last]] = -INFINITY;
        word += last + 1;
    }
}

/* Whether the same `count` tokens end at both places. */
static bool end_alike(place a, place b, int64_t count)
{
    for (int64_t x, y; count > 0; count--)
        if (!go_back(&a, &x) || !go_back(&b, &y) || x != y) return false;
    return true;
}

/* What followed wherever the last tokens had been said earlier. */
static void ban_repeated_runs(const fv_search *s, fv_search_row row, float *scores)
{
    const place end = end_of(s, row);
    place earlier = end;
    for (int64_t token; go_back(&earlier, &token);)
        if (token >= 0 && token < s->stepper->vocabulary &&
            end_alike(earlier, end, s->cfg->no_repeat - 1))
            scores[token] = -INFINITY;
}

void fv_search_change(const fv_search *s, fv_search_row row, float *scores)
{
    const fv_decode_config *c = s->cfg;
    const int64_t depth = row.last ? row.last->depth : 0, vocabulary = s->stepper->vocabulary;
    if (c->repetition_penalty != 1) punish_repetitions(s, row, scores);
    ban_words(s, row, scores);
    if (c->no_repeat > 0) ban_repeated_runs(s, row, scores);
    if (depth < c->least_tokens || depth + before_count(s, row) < c->least_length) {
        if (s->stepper->end >= 0) scores[s->stepper->end] = -INFINITY;
        for (int i = 0; i < c->more_end_count; i++)
            scores[c->more_ends[i]] = -INFINITY;
    }
    if (depth == 0 && c->forced_first >= 0) force(c->forced_first, vocabulary, scores);
    if (depth + 1 == s->most_tokens[row.source] && c->forced_last >= 0)
        force(c->forced_last, vocabulary, scores);
}

void fv_search_renormalize(const fv_search *s, float *scores)
{
    const int64_t vocabulary = s->stepper->vocabulary;
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < vocabulary; i++)
        if ((double)scores[i] > most) most = (double)scores[i];
    if (!isfinite(most)) return;
    for (int64_t i = 0; i < vocabulary; i++)
        sum += exp((double)scores[i] - most);
    for (int64_t i = 0; i < vocabulary; i++)
        scores[i] = (float)((double)scores[i] - most - log(sum));
}
