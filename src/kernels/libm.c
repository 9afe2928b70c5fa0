/* libm.c - what calls the C library for each element; the same at every level. */
#include <math.h>
#include <stdint.h>

#include "level.h"

#define real    float
#define FN(x)   x##_f32
#define LIBM(x) x##f
#include "libm_tmpl.c"
#undef real
#undef FN
#undef LIBM

#define real    double
#define FN(x)   x##_f64
#define LIBM(x) x
#include "libm_tmpl.c"
