#include "ops/op.h"

#define FV_OP(id, name) extern const fv_op_desc fv_op_##name;
#include "ops/ops.def"
#undef FV_OP

const fv_op_desc *const fv_op_table[FV_OP_COUNT] = {
#define FV_OP(id, name) [FV_OP_##id] = &fv_op_##name,
#include "ops/ops.def"
#undef FV_OP
};
