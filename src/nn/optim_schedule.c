/* optim_schedule.c - rates by step. */
#include "optim_impl.h"

static bool makes_sense(const lab_schedule *s)
{
    bool decays = s->kind == LAB_SCHEDULE_LINEAR || s->kind == LAB_SCHEDULE_COSINE;
    return (decays || s->kind == LAB_SCHEDULE_CONSTANT) && s->rate >= 0 && s->final_rate >= 0 && isfinite(s->rate) &&
           isfinite(s->final_rate) && s->warmup >= 0 && (!decays || s->steps >= s->warmup) &&
           lab__all_zero(s->reserved);
}

double lab_schedule_rate(const lab_schedule *s, int64_t step)
{
    if (!s || step < 0 || !makes_sense(s))
        return NAN;
    if (step < s->warmup)
        return s->rate * ((double)step + 1) / ((double)s->warmup + 1);
    if (s->kind == LAB_SCHEDULE_CONSTANT)
        return s->rate;
    if (step >= s->steps)
        return s->final_rate;
    double gone = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
    double share = s->kind == LAB_SCHEDULE_LINEAR ? 1 - gone : (1 + cos(M_PI * gone)) / 2;
    return s->final_rate + share * (s->rate - s->final_rate);
}
