/* scale_study_laws.c - what each law does with scores, in one table; and other names that options know. */
#include "scale_study.h"

#include <math.h>

const study_rule study_rules[STUDY_LAWS] = {
    [STUDY_NONE] = {"none", "scores as they are", 0, -1, 0, false},
    [STUDY_SQRT] = {"sqrt", "scores / sqrt(d)", -0.5, -1, 0, false},
    [STUDY_LINEAR] = {"linear", "scores / d", -1, -1, 0, false},
    [STUDY_CONTROL] = {"control", "scores as they are, but Wq and Wk drawn smaller, with variance d^(-3/2)", 0, -1.5, 0,
                       false},
    [STUDY_SOFTCAP] = {"softcap", "50 tanh(score / 50), nothing else", 0, -1, 50, false},
    [STUDY_QKNORM] =
        {"qknorm", "queries and keys over their root mean square, with learned gains that start at 1; then / sqrt(d)",
         -0.5, -1, 0, true},
    [STUDY_START] = {"start", "only the start is scaled: scores * sqrt(d), Wq and Wk drawn with variance d^-2", 0.5, -2,
                     0, false},
    [STUDY_UPDATE] = {"update", "only the update is scaled: scores / d, Wq and Wk drawn with variance 1", -1, 0, 0,
                      false},
};

const char *const study_law_words[STUDY_LAWS + 1] = {"none",   "sqrt",  "linear", "control", "softcap",
                                                     "qknorm", "start", "update", NULL};

const char *const study_optimizer_words[] = {"sgd", "momentum", "rmsprop", "adam", "adamw", "lion", "sign", NULL};
const char *const study_dtype_words[] = {"f32", "f64", NULL};

double study_scale(study_law law, int64_t d)
{
    return pow((double)d, study_rules[law].scale_power);
}

double study_weight_std(study_law law, int64_t d)
{
    return pow((double)d, study_rules[law].init_power / 2);
}
