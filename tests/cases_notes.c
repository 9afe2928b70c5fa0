/* cases_notes.c - what notes demand in words, beyond their part's numbers; and the library's conventions. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Conventions ------------------------------------------------------------------------------------------------- */

int offers_convention(const char *convention)
{
    static const struct {
        const char *name;
        int offered;
    } known[] = {
        {"bottom_right", 1},                            /* LAB_CAUSAL_BOTTOM_RIGHT */
        {"top_left", 1},                                /* LAB_CAUSAL_TOP_LEFT */
        {"empty mean is 0", 1},                         /* layers.h: LAB_REDUCE_MEAN */
        {"empty mean is NaN", 0}, {"first maximum", 1}, /* ops.h: lab_max */
        {"shared equally", 0},
    };
    for (size_t i = 0; convention && i < sizeof known / sizeof *known; i++)
        if (strcmp(convention, known[i].name) == 0)
            return known[i].offered;
    return -1;
}

/* ---- Notes ------------------------------------------------------------------------------------------------------- */

/* O12a: "dx = (3*dout - mean(3*dout))/sqrt(1e-5)", all of it and not its first four. */
static bool all_of_dx(run *r)
{
    const array *dout = input_array(r, "dout");
    lab_tensor *dx = result_named(r, "dx");
    double *got = dx ? elements(dx) : NULL, mean = 0;
    tolerance allowed = tolerance_of(r, json_object_get(json_object_get(r->part->json, "expect"), "dx_first4"));
    bool fine = got;
    for (int64_t i = 0; i < dout->count; i++)
        mean += 3 * dout->numbers[i] / (double)dout->count;
    for (int64_t i = 0; i < dout->count && fine; i++)
        fine = compare_value(r, "dx", i, got[i], (3 * dout->numbers[i] - mean) / sqrt(1e-5), allowed);
    free(got);
    return fine;
}

/* O12d: "the output is the bias whatever the weight is". */
static bool any_weight(run *r)
{
    static const double weights[] = {0, -7, 1e30, 1e-30};
    for (int i = 0; i < 4; i++) {
        lab_tensor *weight = lab_full(r->g, r->dtype, 1, (int64_t[]){1}, weights[i]);
        lab_tensor *x = input(r, "x"), *bias = input(r, "bias");
        lab_tensor *y = r->path == LAB_PATH_COMPOSED ? lab_layer_norm_composed(r->g, x, weight, bias, 1e-5)
                                                     : lab_layer_norm(r->g, x, weight, bias, 1e-5);
        double *got = y ? elements(y) : NULL;
        bool fine = got && got[0] == 3 && got[1] == 3;
        if (!fine)
            fail(r, "with a weight of %g the output is not the bias", weights[i]);
        free(got);
        if (!fine)
            return false;
    }
    return true;
}

/* O28f: "the row sum of dx must be dout". */
static bool rows_sum_to_dout(run *r)
{
    const array *dout = input_array(r, "dout");
    lab_tensor *dx = result_named(r, "dx");
    double *got = dx ? elements(dx) : NULL;
    bool fine = got;
    for (int64_t row = 0; row < dout->count && fine; row++) {
        double sum = 0;
        int64_t width = lab_tensor_size(dx, -1);
        for (int64_t i = 0; i < width; i++)
            sum += got[row * width + i];
        fine = sum == dout->numbers[row] || fail(r, "row %lld of dx sums to %g", (long long)row, sum);
    }
    free(got);
    return fine;
}

bool check_note(run *r)
{
    static const struct {
        const char *id, *words; /* of the note, so that another file's part of that name is left alone */
        bool (*check)(run *r);
    } notes[] = {
        {"O12a", "dx = (3*dout - mean(3*dout))/sqrt(1e-5)", all_of_dx},
        {"O12d", "the output is the bias whatever the weight is", any_weight},
        {"O28f", "the row sum of dx must be dout", rows_sum_to_dout},
    };
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (strcmp(r->part->id, notes[i].id) == 0 && strstr(r->part->note, notes[i].words) && !notes[i].check(r))
            return false;
    return true;
}
