/* A model that reads text, for tests of the program: the BERT fixture and a tokenizer in one
 * folder.
 */
#ifndef FV_TESTS_READING_H
#define FV_TESTS_READING_H

/* Makes the folder on the first call; its path lives as long as those of program_path. */
const char *reading_model(void);

#endif
