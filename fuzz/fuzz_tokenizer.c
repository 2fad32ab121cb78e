/* tokenizer.json: whatever is accepted must encode any text with ids and offsets in range, and
 * decode what it encoded. */
#include "fuzz.h"

FUZZ_TARGET(data, bytes)
{
    fuzz_tokens(data, bytes);
    return 0;
}
