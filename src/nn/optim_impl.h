/* optim_impl.h - what optimisers share: their check of a visit, and one pass over a parameter by all threads. */
#ifndef LAB_NN_OPTIM_IMPL_H
#define LAB_NN_OPTIM_IMPL_H

#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "llmlab/optim.h"
#include "nn_impl.h"

/* Elements of a piece of work; cut by the size of the parameter only. */
enum { OPTIM_PIECE = 32768 };

/* LAB_ERR_ARGUMENT if the parameter or the context is NULL. */
lab_status lab__check_visit(const char *name, lab_tensor *const *parameter, const void *ctx);

/* Whether reserved words of any number are zero. */
bool lab__words_zero(int n, const uint64_t *words);

/* p by its gradient and its state (row-major, of p's shape; NULL where the rule has none). Moves p's version. */
void lab__optim_pass(lab_tensor *p, const lab_tensor *gradient, lab_tensor *m, lab_tensor *v, kernel_rule rule,
                     const kernel_step *by);

#endif
