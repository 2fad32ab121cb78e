#include "fovea/context.h"

const char *fv_status_name(fv_status status)
{
    static const char *const names[FV_STATUS_COUNT] = {
        [FV_OK] = "ok",
        [FV_ERR_ARGUMENT] = "argument",
        [FV_ERR_SHAPE] = "shape",
        [FV_ERR_DTYPE] = "dtype",
        [FV_ERR_INDEX] = "index",
        [FV_ERR_STATE] = "state",
        [FV_ERR_MEMORY] = "memory",
        [FV_ERR_LIMIT] = "limit",
        [FV_ERR_IO] = "io",
        [FV_ERR_FORMAT] = "format",
        [FV_ERR_UNSUPPORTED] = "unsupported",
        [FV_ERR_NONFINITE] = "non-finite",
        [FV_ERR_CANCELLED] = "cancelled",
        [FV_ERR_INTERNAL] = "internal",
    };
    if ((unsigned)status >= FV_STATUS_COUNT) return "unknown";
    return names[status];
}
