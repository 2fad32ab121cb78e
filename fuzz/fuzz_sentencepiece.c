/* SentencePiece models: the same demands as for a tokenizer.json. */
#include "fuzz.h"

FUZZ_TARGET(data, bytes)
{
    /* What does not begin with a piece would be taken for JSON. */
    if (bytes > 0 && data[0] == '\n') fuzz_tokens(data, bytes);
    return 0;
}
