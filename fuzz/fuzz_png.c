/* PNG: decodes a picture as stored, as grey and as colours. */
#include "fuzz.h"

FUZZ_TARGET(data, bytes)
{
    fuzz_picture(data, bytes, "input.png");
    return 0;
}
