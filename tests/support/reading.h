/* A model that reads text, for tests of the program: the BERT fixture with a tokenizer beside it.
 */
#ifndef FV_TESTS_READING_H
#define FV_TESTS_READING_H

/* Makes the folder, once a test program; lives as program_path's texts do. */
const char *reading_model(void);

#endif
