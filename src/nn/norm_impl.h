/* norm_impl.h - what the two forms of a norm share. */
#ifndef LAB_NN_NORM_IMPL_H
#define LAB_NN_NORM_IMPL_H

#include "nn_impl.h"

/* x float with an axis to normalise, gain and shift NULL or [its size] of x's dtype, eps at least 0; else says why. */
lab_status lab__norm_check(const lab_tensor *x, const lab_tensor *gain, const lab_tensor *shift, double eps);

#endif
