/*
 * Generated stories with questions (bAbI's kind: Weston et al. 2015).
 *
 *     fv_story s;
 *     fv_story_make(2, FV_MADE_TEST, 17, &s);            // story 17 of the test part, two facts
 *     for (int i = 0; i < s.sentence_count; i++) print(&s.sentence[i]);
 *     // "mary went to the kitchen ." ... s.question[0]: "where is the apple ?"
 *
 * People move between places, take objects and put them down. A story does not tell where people
 * and objects are at first, so a person's first act is a move, and an object is first taken by
 * any person anywhere. How many sentences support an answer:
 *
 *     1   where is mary ?                              her last move
 *     2   where is the apple ?                         who took it last (or where it was left), and
 *                                                      that person's last move (before leaving it)
 *     3   where was the apple before the kitchen ?     who carried it, to the kitchen, and there
 *
 * A question may have a follow-up that leaves out what the question before it has: "and john ?",
 * "and the milk ?", "and before that ?", where "that" is the answer before.
 *
 * A story is a function of its part and number. Which part a story belongs to is a function of its
 * text (fovea/data.h), so that no story is in two parts.
 */
#ifndef FV_DATA_STORIES_H
#define FV_DATA_STORIES_H

#include <stdbool.h>
#include <stdint.h>

#include "fovea/data.h"

enum {
    FV_STORY_FACTS = 3,
    FV_STORY_SENTENCES = 60, /* 20 with one and two facts */
    FV_STORY_WORDS = 8,
    FV_STORY_QUESTIONS = 8,
    FV_STORY_TEXT = 64 /* bytes of a sentence */
};

typedef struct fv_story_sentence {
    uint8_t word[FV_STORY_WORDS];
    uint8_t count;
} fv_story_sentence;

typedef struct fv_story_question {
    fv_story_sentence words;
    int answer; /* a place */
    bool follow_up;
    int support[FV_STORY_FACTS]; /* sentences, in the order in which a reader finds them */
} fv_story_question;

typedef struct fv_story {
    int facts, sentence_count, question_count;
    fv_story_sentence sentence[FV_STORY_SENTENCES];
    fv_story_question question[FV_STORY_QUESTIONS];
    /* Sentences that state how things are at the end: each person's last move, and the last that
     * happened to each object. */
    bool summary[FV_STORY_SENTENCES];
} fv_story;

/* facts 1 to 3; number below 2^40. */
void fv_story_make(int facts, fv_made_part part, uint64_t number, fv_story *out);
/* The longest story, in sentences. */
int fv_story_most(int facts);

/* Word number i of all stories, and answer number i; NULL past the last. */
const char *fv_story_word(int i);
const char *fv_story_answer(int i);
int fv_story_answers(void);

/* "mary went to the kitchen ." */
void fv_story_text(const fv_story_sentence *s, char out[FV_STORY_TEXT]);

#endif
