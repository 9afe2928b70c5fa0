/* table.c - the list of the engine's ops as data. A test holds it to the list of names users write. */
#include "op_impl.h"

#define ENTRY(name) &lab__op_##name,
const lab_op *const lab__op_table[] = {LAB_OP_LIST(ENTRY) NULL};
#undef ENTRY
