/* tokenizer.json: whatever is accepted must encode any text with ids and offsets in range, and
 * decode what it encoded. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fuzz_tokens(data, bytes);
    return 0;
}
