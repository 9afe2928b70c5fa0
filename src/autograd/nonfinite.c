/* nonfinite.c - which op made the first number that is not finite: the tape knows what went in and what came out. */
#include <float.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine.h"

/* What a tensor's elements are like. */
typedef struct range {
    double least, largest; /* of the finite ones */
    int64_t nans, infinite, minus_infinite;
} range;

static double element(const lab_tensor *t, int64_t index)
{
    const int64_t place = lab__element_place(t, index);
    return t->dtype == LAB_F32 ? (double)((const float *)(const void *)t->data)[place]
                               : ((const double *)(const void *)t->data)[place];
}

static range range_of(const lab_tensor *t)
{
    range r = {.least = DBL_MAX, .largest = -DBL_MAX};
    for (int64_t i = 0; i < t->numel; i++) {
        const double x = element(t, i);
        if (x != x)
            r.nans++;
        else if (x > DBL_MAX)
            r.infinite++;
        else if (x < -DBL_MAX)
            r.minus_infinite++;
        else {
            r.least = x < r.least ? x : r.least;
            r.largest = x > r.largest ? x : r.largest;
        }
    }
    return r;
}

/* -inf alone is how masks forbid, and what they forbid adds nothing. */
static bool is_bad(const lab_tensor *t)
{
    if (!t || !lab__is_float(t->dtype))
        return false;
    const range r = range_of(t);
    return r.nans > 0 || r.infinite > 0;
}

/* ---- Words ----------------------------------------------------------------------------------------------------------- */

typedef struct words {
    char *buffer;
    size_t size, length;
} words;

__attribute__((format(printf, 2, 3))) static void say(words *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const bool room = w->buffer && w->length < w->size;
    const int length =
        vsnprintf(room ? w->buffer + w->length : NULL, room ? w->size - w->length : 0, format, arguments);
    va_end(arguments);
    w->length += length > 0 ? (size_t)length : 0;
}

static void say_tensor(words *w, const lab_tensor *t)
{
    say(w, "%s", lab__tensor_text(t));
    if (!lab__is_float(t->dtype) || t->numel == 0)
        return;
    const range r = range_of(t);
    if (r.least <= r.largest)
        say(w, " from %g to %g", r.least, r.largest);
    if (r.nans)
        say(w, ", %lld NaN", (long long)r.nans);
    const int64_t infinite = r.infinite + r.minus_infinite;
    if (infinite)
        say(w, ", %lld infinite", (long long)infinite);
}

static void say_node(words *w, const node *n, const lab_tensor *result)
{
    say(w, "%s gave ", n->op->name);
    say_tensor(w, result);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) {
            say(w, "%s operand %d ", i == 0 ? ", out of" : ",", i + 1);
            say_tensor(w, n->in[i]);
        }
}

size_t lab_graph_find_nonfinite(const lab_graph *g, char *buffer, size_t size)
{
    words w = {.buffer = buffer, .size = size};
    if (buffer && size > 0)
        buffer[0] = 0;
    for (int64_t i = 0; g && i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_out; k++)
            if (is_bad(n->out[k])) {
                say_node(&w, n, n->out[k]);
                return w.length;
            }
    }
    return 0;
}
