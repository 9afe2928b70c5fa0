/* fuzz_attention.c - random sets of attention's options and shapes: both paths against the plain loops of
 * reference_attention.c, and the gradients of one against the other's.
 */
#include <llmlab.h>
#include <math.h>
#include <string.h>

#include "../reference_attention.h"
#include "fuzz.h"

enum { MOST = 9, LONGEST = 40 };

static lab_tensor *normal(lab_graph *g, lab_dtype dtype, int rank, const int64_t *shape, bytes *b)
{
    return lab_randn(g, dtype, rank, shape, next_byte(b));
}

/* q, k or v [batch, heads, t, d]; now and then a transposed view of other memory. */
static lab_tensor *operand(lab_graph *g, lab_dtype dtype, int64_t batch, int64_t heads, int64_t t, int64_t d, bytes *b)
{
    if (choose(b, 2))
        return normal(g, dtype, 4, (int64_t[]){batch, heads, t, d}, b);
    return lab_transpose(g, normal(g, dtype, 4, (int64_t[]){batch, t, heads, d}, b), 1, 2);
}

typedef struct shapes {
    int64_t batch, heads, kv_heads, tq, tk, d, dv;
} shapes;

static void choose_rules(lab_graph *g, lab_attention_opts *o, const shapes *s, bytes *b)
{
    o->causal = (lab_causal)choose(b, 4);
    bool may_state = o->causal == LAB_CAUSAL_NONE || o->causal == LAB_CAUSAL_OFFSET;
    if (may_state && choose(b, 2))
        o->offset = choose(b, 9) - 4;
    else if (may_state && choose(b, 2)) {
        int64_t offsets[MOST];
        for (int64_t i = 0; i < s->batch; i++)
            offsets[i] = choose(b, 9) - 4;
        o->offsets = lab_constant(g, LAB_I64, 1, &s->batch, offsets);
    }
    if (choose(b, 3) == 0)
        o->window = (lab_window){.limited = true, .left = choose(b, 6) - 1, .right = choose(b, 6) - 1};
    if (choose(b, 3) == 0) {
        int64_t lengths[MOST];
        for (int64_t i = 0; i < s->batch; i++)
            lengths[i] = choose(b, (int)s->tk + 1);
        o->key_lengths = lab_constant(g, LAB_I64, 1, &s->batch, lengths);
    }
    if (choose(b, 3) == 0)
        o->mask = lab_less(g, lab_rand(g, LAB_F32, 2, (int64_t[]){s->tq, s->tk}, next_byte(b)),
                           lab_full(g, LAB_F32, 0, NULL, 0.7));
}

static void choose_terms(lab_graph *g, lab_dtype dtype, lab_attention_opts *o, const shapes *s, bytes *b)
{
    if (choose(b, 3) == 0)
        o->scale = (choose(b, 64) - 32) / 16.0;
    else if (choose(b, 3) == 0)
        o->scale_tensor = lab_full(g, dtype, 0, NULL, 0.7);
    if (choose(b, 3) == 0)
        o->bias = normal(g, dtype, 3, (int64_t[]){choose(b, 2) ? s->heads : 1, s->tq, choose(b, 2) ? s->tk : 1}, b);
    if (choose(b, 3) == 0)
        o->alibi_slopes = normal(g, dtype, 1, &s->heads, b);
    if (choose(b, 3) == 0)
        o->sink = normal(g, dtype, 1, &s->heads, b);
    if (choose(b, 3) == 0)
        o->softcap = 1 + choose(b, 20);
    if (choose(b, 3) == 0) {
        o->dropout = choose(b, 10) / 10.0;
        o->seed = next_byte(b);
        o->stream = next_byte(b);
    }
}

static void compare(const char *what, const lab_tensor *got, const double *expected, double tolerance)
{
    int64_t n = lab_tensor_numel(got);
    size_t bytes_each = lab_dtype_size(lab_tensor_dtype(got));
    void *values = malloc((size_t)n * bytes_each + 1);
    if (!values || lab_tensor_read(got, values, (size_t)n * bytes_each) != LAB_OK)
        FOUND("%s cannot be read", what);
    double largest = 1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(expected[i]))
            largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < n; i++) {
        double value = bytes_each == 8 ? ((double *)values)[i] : ((float *)values)[i];
        if (value != expected[i] && !(fabs(value - expected[i]) <= tolerance * largest))
            FOUND("%s[%lld] is %.17g, expected %.17g", what, (long long)i, value, expected[i]);
    }
    free(values);
}

/* Gradients of the composed path (given) and of the fused one. */
static void compare_gradients(lab_graph *g, lab_tensor *const *composed, lab_tensor *const *fused, double tolerance)
{
    for (int i = 0; i < 3 && lab_graph_status(g) == LAB_OK; i++) {
        int64_t n = lab_tensor_numel(composed[i]);
        double *expected = malloc((size_t)n * sizeof *expected + 1);
        lab_tensor *wide = lab_cast(g, composed[i], LAB_F64);
        if (!expected || lab_tensor_read(wide, expected, (size_t)n * sizeof *expected) != LAB_OK)
            FOUND("gradient %d cannot be read", i);
        for (int64_t e = 0; e < n; e++)
            if (!isfinite(expected[e]))
                FOUND("entry %lld of gradient %d is not finite", (long long)e, i);
        compare("a gradient", fused[i], expected, tolerance);
        free(expected);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes b = {data, size};
    lab_dtype dtype = choose(&b, 2) ? LAB_F64 : LAB_F32;
    shapes s = {.batch = 1 + choose(&b, 3),
                .kv_heads = 1 + choose(&b, 2),
                .tq = choose(&b, LONGEST),
                .tk = choose(&b, LONGEST),
                .d = 1 + choose(&b, MOST),
                .dv = choose(&b, MOST)};
    s.heads = s.kv_heads * (1 + choose(&b, 3));
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *q = operand(g, dtype, s.batch, s.heads, s.tq, s.d, &b);
    lab_tensor *k = operand(g, dtype, s.batch, s.kv_heads, s.tk, s.d, &b);
    lab_tensor *v = operand(g, dtype, s.batch, s.kv_heads, s.tk, s.dv, &b);
    lab_attention_opts o = {0};
    choose_rules(g, &o, &s, &b);
    choose_terms(g, dtype, &o, &s, &b);
    lab_tensor *lse, *fused_lse, *probs, *xs[] = {q, k, v}, *grads[3], *fused_grads[3];
    lab_attention_opts asked = o, fused = o;
    asked.lse = &lse;
    asked.probs = &probs;
    fused.lse = &fused_lse;
    fused.path = LAB_PATH_FUSED;
    lab_tensor *y = lab_attention(g, q, k, v, &asked), *fused_y = lab_attention(g, q, k, v, &fused);
    if (lab_graph_status(g) != LAB_OK)
        FOUND("%s", lab_graph_message(g));
    reference r;
    if (!reference_attention(&r, q, k, v, &o, 0))
        abort();
    double tolerance = dtype == LAB_F64 ? 1e-12 : 2e-4;
    compare("out", y, r.out, tolerance);
    compare("lse", lse, r.lse, tolerance);
    compare("probs", probs, r.probs, tolerance);
    compare("fused out", fused_y, r.out, tolerance);
    compare("fused lse", fused_lse, r.lse, tolerance);
    reference_free(&r);
    lab_tensor *dy = normal(g, dtype, 4, (int64_t[]){s.batch, s.heads, s.tq, s.dv}, &b);
    lab_grad(g, y, dy, 3, xs, grads, NULL);
    lab_grad(g, fused_y, dy, 3, xs, fused_grads, NULL);
    compare_gradients(g, grads, fused_grads, 10 * tolerance);
    if (lab_graph_status(g) != LAB_OK)
        FOUND("%s", lab_graph_message(g));
    lab_graph_destroy(&g);
    return 0;
}
