/* What one thread needs for a batch row; see ntm.inc. */
#include "kernels/ntm.h"

#include "base/checked_math.h"
#include "kernels/ntm_scratch.h"

size_t fv_ntm_scratch_query(const void *args, int threads)
{
    const fv_ntm_args *a = args;
    size_t bytes;
    if (!fv_checked_mul_size((size_t)fv_ntm_thread_numbers(a), a->element, &bytes) ||
        !fv_checked_mul_size(bytes, (size_t)threads, &bytes))
        return SIZE_MAX;
    return bytes;
}
