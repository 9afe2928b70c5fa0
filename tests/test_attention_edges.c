/* test_attention_edges.c - attention where something is missing, infinite, not a number, or refused.
 *
 * Each test is a clause of the contract, from "The edges" unless it says otherwise.
 */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention_case.h"
#include "kernels/denormals.h"

/* ---- Rows without keys ------------------------------------------------------------------------------------------------ */

typedef enum emptied {
    BY_MASK,
    BY_LENGTH,
    BY_BIAS,
    BY_PRODUCT,
    BY_SUM,
    BY_SLOPE,
    BY_SCALE,
    BY_SCALE_TENSOR,
    BY_ALIGNMENT,
    BY_BOTTOM_RIGHT,
    BY_WINDOW,
    BY_NO_KEYS,
    EMPTIED
} emptied;

enum { EMPTY_ROW = 0 }; /* the one emptied in every case, in all heads */

/* The row's product with every key is far below 0, by d times the size squared or more; that of other rows is 0. */
static void look_away(attention_case *c, double size)
{
    double *q = lab_tensor_data(c->q), *k = lab_tensor_data(c->k);
    for (int64_t i = 0; i < lab_tensor_numel(c->k); i++)
        k[i] = (1 + fabs(k[i])) * size;
    for (int64_t i = 0; i < lab_tensor_numel(c->q); i++)
        q[i] = i / c->d % c->tq == EMPTY_ROW ? -size : 0;
}

static void empty_a_row(attention_case *c, uint64_t *draws, emptied how)
{
    c->tk = how == BY_NO_KEYS ? 0 : how == BY_BOTTOM_RIGHT ? c->tq - 1 : c->tk;
    c->d = how == BY_SUM ? 8 : c->d;
    case_make(c, draws);
    double *bias;
    unsigned char *mask;
    switch (how) {
    case BY_MASK:
        c->opts.mask = case_mask(c, draws, 1, 2);
        mask = lab_tensor_data(c->opts.mask);
        for (int64_t j = 0; j < c->tk; j++)
            mask[EMPTY_ROW * c->tk + j] = 0;
        break;
    case BY_LENGTH: /* of one key: the causal rule leaves nothing to rows before it */
        c->opts.key_lengths = leaf_of_integers(0, NULL, (int64_t[]){1});
        c->opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
        break;
    case BY_BIAS:
        c->opts.bias = case_bias(c, draws, 1, 1);
        bias = lab_tensor_data(c->opts.bias);
        for (int64_t j = 0; j < c->tk; j++)
            bias[EMPTY_ROW * c->tk + j] = -INFINITY;
        break;
    case BY_PRODUCT:
        look_away(c, 1e200);
        break;
    case BY_SLOPE: /* no key at distance 0, where nothing would be subtracted */
        c->opts.offset = 5;
        c->opts.alibi_slopes =
            leaf_of_doubles(LAB_F64, 1, &c->heads, (double[]){INFINITY, INFINITY, INFINITY, INFINITY});
        break;
    case BY_SUM: /* no term of which overflows alone */
        look_away(c, 6.3e153);
        c->opts.scale = 1;
        break;
    case BY_SCALE:
        look_away(c, 1e10);
        c->opts.scale = 1e300;
        break;
    case BY_SCALE_TENSOR:
        look_away(c, 1e10);
        c->opts.scale_tensor = leaf_of_doubles(LAB_F64, 0, NULL, (double[]){1e300});
        break;
    case BY_ALIGNMENT:
        c->opts.causal = LAB_CAUSAL_OFFSET;
        c->opts.offset = -1;
        break;
    case BY_BOTTOM_RIGHT: /* of fewer keys than queries */
        c->opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
        break;
    case BY_WINDOW:
        c->opts.window = (lab_window){true, -1, 0};
        c->opts.offset = -1;
        break;
    default:
        break;
    }
}

typedef struct gradients {
    lab_tensor *out, *lse, *probs, *grads[7];
    int n;
} gradients;

/* d of sum(seed * out) + sum(lse_seed * lse), where `row_seed` stands in the seed of empty rows. */
static gradients run_with_seed(lab_graph *g, attention_case *c, const bool *empty, double row_seed)
{
    gradients r = {0};
    c->opts.lse = &r.lse;
    c->opts.probs = &r.probs;
    r.out = case_run(g, c);
    c->opts.lse = c->opts.probs = NULL;
    expect_healthy(g);
    lab_tensor *seed;
    assert_int_equal(lab_tensor_clone(&seed, r.out), LAB_OK);
    double *values = lab_tensor_data(seed);
    for (int64_t i = 0; i < lab_tensor_numel(seed); i++)
        values[i] = empty[i / c->dv] ? row_seed : sin((double)i);
    lab_tensor *xs[] = {c->q, c->k, c->v, c->opts.bias, c->opts.sink, c->opts.alibi_slopes, c->opts.scale_tensor};
    for (int i = 0; i < 7; i++)
        if (xs[i])
            xs[r.n++] = xs[i];
    lab_grad(g, r.out, seed, r.n, xs, r.grads, NULL);
    expect_healthy(g);
    lab_tensor_destroy(&seed);
    return r;
}

/* Output 0, probabilities 0, lse -inf (with a sink: the sink), no trace of a gradient that is NaN. */
static void rows_without_keys_give_zero_and_take_no_gradient(void **state)
{
    (void)state;
    uint64_t draws = draw_start("empty");
    for (int how = 0; how < EMPTIED; how++)
        for (int more = 0; more < 4; more++) {
            attention_case c = {.dtype = LAB_F64, .heads = 4, .kv_heads = 2, .tq = 3, .tk = 3, .d = 2, .dv = 2};
            empty_a_row(&c, &draws, (emptied)how);
            if (more & 1)
                c.opts.sink = case_per_head(&c, &draws, 1);
            if (more & 2 && !c.opts.alibi_slopes && !c.opts.scale_tensor && !c.opts.scale) {
                c.opts.alibi_slopes = case_per_head(&c, &draws, 1);
                c.opts.scale_tensor = leaf_of_doubles(LAB_F64, 0, NULL, (double[]){0.5});
            }
            reference r;
            assert_true(reference_attention(&r, c.q, c.k, c.v, &c.opts, 0));
            lab_graph *a = lab_graph_create(NULL), *b = lab_graph_create(NULL);
            gradients calm = run_with_seed(a, &c, r.empty, 0), wild = run_with_seed(b, &c, r.empty, NAN);
            for (int64_t row = 0; row < r.heads * r.tq; row++) {
                bool first = row % r.tq == EMPTY_ROW;
                assert_true(!first || r.empty[row]);
                for (int64_t i = 0; r.empty[row] && i < c.dv; i++)
                    assert_true(element_of(wild.out, row * c.dv + i) == 0);
                for (int64_t j = 0; r.empty[row] && j < c.tk; j++)
                    assert_true(element_of(wild.probs, row * c.tk + j) == 0);
                double sink = c.opts.sink ? element_of(c.opts.sink, row / r.tq) : -INFINITY;
                if (r.empty[row])
                    assert_true(element_of(wild.lse, row) == sink);
            }
            for (int i = 0; i < calm.n; i++)
                expect_same("gradient beside a NaN", wild.grads[i], calm.grads[i]);
            expect_all("dq of the empty row", lab_slice(b, wild.grads[0], -2, EMPTY_ROW, EMPTY_ROW + 1, 1), 0);
            reference_free(&r);
            lab_graph_destroy(&a);
            lab_graph_destroy(&b);
            case_free(&c);
        }
}

static void expect_no_nan(const char *what, const lab_tensor *t)
{
    for (int64_t i = 0; i < lab_tensor_numel(t); i++)
        if (isnan(element_of(t, i)))
            fail_msg("seed %llu: %s: element %lld is NaN", (unsigned long long)check_seed(), what, (long long)i);
}

/* Whatever leaves a row without keys by its position, offset and window at their very edges included. */
static void no_position_lets_a_nan_through(void **state)
{
    (void)state;
    uint64_t draws = draw_start("positions");
    for (int i = 0; i < 2 * 3 * 3 * 2 * 9; i++) {
        attention_case c = {.dtype = LAB_F64,
                            .batch_rank = 1,
                            .batch = {1},
                            .heads = 1,
                            .kv_heads = 1,
                            .tq = 3,
                            .tk = 2,
                            .d = 1,
                            .dv = 1};
        int64_t offset = i % 9 - 4;
        bool causal = i / 9 % 2, by_tensor = i / 18 % 2;
        case_make(&c, &draws);
        c.opts.causal = causal ? LAB_CAUSAL_OFFSET : LAB_CAUSAL_NONE;
        c.opts.window = (lab_window){true, i / 36 % 3 - 1, i / 108 - 1};
        if (by_tensor)
            c.opts.offsets = leaf_of_integers(1, c.batch, &offset);
        else
            c.opts.offset = offset;
        reference r;
        assert_true(reference_attention(&r, c.q, c.k, c.v, &c.opts, 0));
        lab_graph *g = lab_graph_create(NULL);
        gradients wild = run_with_seed(g, &c, r.empty, NAN);
        for (int j = 0; j < 3; j++)
            expect_no_nan("gradient", wild.grads[j]);
        reference_free(&r);
        lab_graph_destroy(&g);
        case_free(&c);
    }
}

/* In f32 too, where products overflow sooner. */
static void products_of_minus_infinity_empty_a_row_in_f32(void **state)
{
    (void)state;
    float far[] = {-1e30f, -1e30f}, keys[] = {1e30f, 1e30f, 2e30f, 2e30f}, values[] = {1, 2};
    lab_tensor *q, *k, *v, *seed, *grads[3];
    assert_int_equal(lab_tensor_from(&q, LAB_F32, 3, (int64_t[]){1, 1, 2}, far), LAB_OK);
    assert_int_equal(lab_tensor_from(&k, LAB_F32, 3, (int64_t[]){1, 2, 2}, keys), LAB_OK);
    assert_int_equal(lab_tensor_from(&v, LAB_F32, 3, (int64_t[]){1, 2, 1}, values), LAB_OK);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_attention(g, q, k, v, NULL);
    seed = lab_full(g, LAB_F32, 3, (int64_t[]){1, 1, 1}, NAN);
    lab_grad(g, y, seed, 3, (lab_tensor *[]){q, k, v}, grads, NULL);
    expect_healthy(g);
    expect_all("out", y, 0);
    for (int i = 0; i < 3; i++)
        expect_all("gradient", grads[i], 0);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&k);
    lab_tensor_destroy(&v);
}

/* With a sink, the gradient of an empty row's lse goes to the sink and to nothing else; dO is not read. */
static void lse_of_an_empty_row_is_its_sinks(void **state)
{
    (void)state;
    uint64_t draws = draw_start("sink lse");
    attention_case c = {.dtype = LAB_F64, .heads = 2, .kv_heads = 2, .tq = 2, .tk = 2, .d = 2, .dv = 2};
    case_make(&c, &draws);
    c.opts.mask = leaf_of_bools(0, NULL, (bool[]){false});
    c.opts.sink = case_per_head(&c, &draws, 1);
    c.opts.alibi_slopes = case_per_head(&c, &draws, 1);
    c.opts.scale_tensor = leaf_of_doubles(LAB_F64, 0, NULL, (double[]){0.5});
    lab_tensor *lse, *grads[6], *xs[] = {c.q, c.k, c.v, c.opts.alibi_slopes, c.opts.scale_tensor, c.opts.sink};
    c.opts.lse = &lse;
    lab_graph *g = lab_graph_create(NULL);
    case_run(g, &c);
    lab_grad(g, lab_sum_all(g, lse), NULL, 6, xs, grads, NULL);
    expect_healthy(g);
    for (int i = 0; i < 5; i++)
        expect_all("gradient", grads[i], 0);
    expect_all("dsink", grads[5], 2); /* one from each of the head's rows */
    lab_graph_destroy(&g);
    case_free(&c);
}

/* empty_row reproduces what others return, forward only. */
static void empty_rows_can_be_nan_or_the_mean(void **state)
{
    (void)state;
    uint64_t draws = draw_start("empty_row");
    for (int how = 0; how < EMPTIED; how++)
        for (int kind = LAB_EMPTY_NAN; kind <= LAB_EMPTY_UNIFORM; kind++) {
            attention_case c = {.dtype = LAB_F64, .heads = 4, .kv_heads = 2, .tq = 3, .tk = 3, .d = 2, .dv = 2};
            empty_a_row(&c, &draws, (emptied)how);
            c.opts.empty_row = (lab_empty_row)kind;
            c.opts.dropout = kind == LAB_EMPTY_UNIFORM ? 0.5 : 0;
            lab_graph *g = lab_graph_create(NULL);
            if (c.tk == 0 && kind == LAB_EMPTY_UNIFORM) {
                assert_null(case_run(g, &c));
                expect_refusal(g, LAB_ERR_RANGE, "empty_row");
            } else {
                case_matches_reference("empty_row", &c, 1e-13);
                lab_tensor *y = case_run(g, &c), *dq;
                expect_healthy(g);
                lab_grad(g, lab_sum_all(g, y), NULL, 1, &c.q, &dq, NULL);
                assert_null(dq);
                expect_refusal(g, LAB_ERR_UNSUPPORTED, "empty_row");
            }
            lab_graph_destroy(&g);
            case_free(&c);
        }
}

/* ---- NaN and infinity ------------------------------------------------------------------------------------------------- */

/* Behind the structural mask, in k, in q of a row without keys and in the bias, NaN and infinity leave no trace in the
 * composed path's outputs. */
static void what_is_forbidden_may_be_anything(void **state)
{
    (void)state;
    uint64_t draws = draw_start("behind");
    double rubbish[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        attention_case c = {.dtype = LAB_F64, .heads = 2, .kv_heads = 1, .tq = 3, .tk = 4, .d = 2, .dv = 2};
        case_make(&c, &draws);
        c.opts.mask = leaf_of_bools(2, (int64_t[]){3, 4}, (bool[]){0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1});
        c.opts.bias = case_bias(&c, &draws, 1, 1);
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *before = case_run(g, &c);
        ((double *)lab_tensor_data(c.q))[0] = rubbish[i];                 /* row 0 looks nowhere */
        ((double *)lab_tensor_data(c.k))[2 * 2 + 1] = rubbish[i];         /* nobody looks at key 2 */
        ((double *)lab_tensor_data(c.opts.bias))[2 * 4 + 1] = rubbish[i]; /* row 2 does not look at key 1 */
        expect_same("out", case_run(g, &c), before);
        expect_healthy(g);
        lab_graph_destroy(&g);
        case_free(&c);
    }
}

/* A NaN, or +inf, on a key that is allowed shows: in that row and in no other. A bias of -inf hides no NaN. */
static void nan_shows_in_its_row_only(void **state)
{
    (void)state;
    uint64_t draws = draw_start("shows");
    for (int what = 0; what < 4; what++) {
        attention_case c = {.dtype = LAB_F64, .heads = 1, .kv_heads = 1, .tq = 3, .tk = 4, .d = 2, .dv = 2};
        case_make(&c, &draws);
        c.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT; /* key 3 is row 2's alone */
        c.opts.bias = case_bias(&c, &draws, 1, 1);
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *before = case_run(g, &c);
        double *q = lab_tensor_data(c.q), *k = lab_tensor_data(c.k), *bias = lab_tensor_data(c.opts.bias);
        if (what == 0)
            q[2 * 2] = NAN;
        else if (what == 1)
            bias[2 * 4 + 3] = INFINITY;
        else
            k[3 * 2] = NAN;
        if (what == 3)
            bias[2 * 4 + 3] = -INFINITY;
        lab_tensor *lse;
        c.opts.lse = &lse;
        lab_tensor *after = case_run(g, &c);
        assert_true(what == 1 ? element_of(lse, 2) == INFINITY : isnan(element_of(lse, 2)));
        assert_true(isfinite(element_of(lse, 0)) && isfinite(element_of(lse, 1)));
        expect_same("other rows", lab_slice(g, after, -2, 0, 2, 1), lab_slice(g, before, -2, 0, 2, 1));
        expect_all("the row", lab_slice(g, after, -2, 2, 3, 1), NAN);
        expect_healthy(g);
        lab_graph_destroy(&g);
        case_free(&c);
    }
}

/* Scores far apart or large overflow nothing and lose nothing, in lse's gradient too: four equal ones weigh 1/4. */
static void large_equal_scores_weigh_a_quarter_each(void **state)
{
    (void)state;
    double offsets[] = {1e7, -1e30, 1e30, -FLT_MAX, 0};
    for (int i = 0; i < 10; i++) {
        lab_dtype dtype = i < 5 ? LAB_F32 : LAB_F64;
        double offset = offsets[i % 5] * (dtype == LAB_F64 && i % 5 == 0 ? 1e5 : 1), values[] = {1, -2, 4, 9};
        lab_tensor *q = leaf_of_doubles(dtype, 3, (int64_t[]){1, 1, 1}, (double[]){0});
        lab_tensor *k = leaf_of_doubles(dtype, 3, (int64_t[]){1, 4, 1}, (double[]){1, 1, 1, 1});
        lab_tensor *v = leaf_of_doubles(dtype, 3, (int64_t[]){1, 4, 1}, values);
        lab_tensor *bias = leaf_of_doubles(dtype, 0, NULL, &offset), *lse, *grads[2];
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *y = lab_attention(g, q, k, v, &(lab_attention_opts){.bias = bias, .lse = &lse});
        lab_grad(g, lab_sum_all(g, y), NULL, 1, &v, grads, NULL);
        lab_grad(g, lab_sum_all(g, lse), NULL, 1, &q, grads + 1, NULL);
        expect_healthy(g);
        expect_all("out", y, 3);
        expect_all("dv", grads[0], 0.25);
        expect_close("dq of lse", grads[1], (double[]){1}, 1, 1e-6); /* four keys of 1, a quarter each */
        lab_graph_destroy(&g);
        lab_tensor_destroy(&q);
        lab_tensor_destroy(&k);
        lab_tensor_destroy(&v);
        lab_tensor_destroy(&bias);
    }
}

/* Scores 1e30 apart: the larger takes all, and nothing is NaN, forward or back. */
static void scores_far_apart_choose(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        lab_dtype dtype = i ? LAB_F64 : LAB_F32;
        lab_tensor *q = leaf_of_doubles(dtype, 3, (int64_t[]){1, 2, 1}, (double[]){1, -1});
        lab_tensor *k = leaf_of_doubles(dtype, 3, (int64_t[]){1, 3, 1}, (double[]){-1e30, 1e30, 0});
        lab_tensor *v = leaf_of_doubles(dtype, 3, (int64_t[]){1, 3, 1}, (double[]){1, 2, 3});
        lab_tensor *grads[3];
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *y = lab_attention(g, q, k, v, NULL);
        lab_grad(g, lab_sum_all(g, y), NULL, 3, (lab_tensor *[]){q, k, v}, grads, NULL);
        expect_healthy(g);
        expect_close("out", y, (double[]){2, 1}, 2, 0);
        expect_all("dq", grads[0], 0);
        expect_all("dk", grads[1], 0);
        expect_close("dv", grads[2], (double[]){1, 1, 0}, 3, 0);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&q);
        lab_tensor_destroy(&k);
        lab_tensor_destroy(&v);
    }
}

/* The weight of a key whose score is `below` under the other's, whose value is 0, in heads enough for all threads: as
 * the output of `tq` queries, and as the gradient of its value. Sums over all queries and heads. */
static void weigh_far_key(lab_path path, lab_dtype dtype, int64_t tq, double below, double *out, double *dv)
{
    enum { HEADS = 16 };
    double queries[HEADS * 40], keys[HEADS * 2], values[HEADS * 2];
    for (int64_t i = 0; i < HEADS * tq; i++)
        queries[i] = 1;
    for (int64_t i = 0; i < HEADS; i++) {
        keys[2 * i] = values[2 * i] = 0;
        keys[2 * i + 1] = -below;
        values[2 * i + 1] = 1;
    }
    lab_tensor *q = leaf_of_doubles(dtype, 4, (int64_t[]){1, HEADS, tq, 1}, queries);
    lab_tensor *k = leaf_of_doubles(dtype, 4, (int64_t[]){1, HEADS, 2, 1}, keys);
    lab_tensor *v = leaf_of_doubles(dtype, 4, (int64_t[]){1, HEADS, 2, 1}, values), *grad;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_attention(g, q, k, v, &(lab_attention_opts){.path = path});
    lab_grad(g, lab_sum_all(g, y), NULL, 1, &v, &grad, NULL);
    expect_healthy(g);
    *out = *dv = 0;
    for (int64_t i = 0; i < HEADS * tq; i++)
        *out += element_of(y, i);
    for (int64_t i = 0; i < HEADS; i++) {
        assert_true(element_of(grad, 2 * i) == (double)tq);
        *dv += element_of(grad, 2 * i + 1);
    }
    lab_graph_destroy(&g);
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&k);
    lab_tensor_destroy(&v);
}

/* No thread keeps a mode in which 1e-40 is none. */
static void expect_small_numbers(void)
{
    enum { MANY = 1 << 20 };
    const float small = 1e-30f;
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *x = lab_full(g, LAB_F32, 1, (const int64_t[]){MANY}, small);
    lab_tensor *y = lab_mul_scalar(g, x, 1e-10);
    expect_healthy(g);
    const float *found = lab_tensor_data(y);
    for (int64_t i = 0; i < MANY; i++)
        if (!(found[i] > 0))
            fail_msg("element %lld is %g", (long long)i, (double)found[i]);
    lab_graph_destroy(&g);
    volatile float own = small;
    own *= 1e-10f;
    assert_true(own > 0);
}

/* On the fused path, where a processor would take 200 times as long for it: beside the row's largest weight, 1, it is
 * nothing. */
static void weights_below_the_normal_numbers_are_zero_and_nothing_else_is(void **state)
{
    (void)state;
    double out, dv;
    for (int threads = 1; threads <= 4; threads += 3)
        for (int i = 0; i < 4; i++) {
            const lab_dtype dtype = i & 1 ? LAB_F64 : LAB_F32;
            const double below = dtype == LAB_F32 ? 95 : 720;
            const int64_t tq = i & 2 ? 40 : 1;
            assert_int_equal(lab_set_threads(threads), LAB_OK);
            weigh_far_key(LAB_PATH_COMPOSED, dtype, tq, below, &out, &dv);
            assert_true(out > 0 && dv > 0 && out < (dtype == LAB_F32 ? FLT_MIN : DBL_MIN));
            weigh_far_key(LAB_PATH_FUSED, dtype, tq, below, &out, &dv);
#ifdef __SSE2__
            assert_true(out == 0 && dv == 0);
#endif
            weigh_far_key(LAB_PATH_FUSED, dtype, tq, dtype == LAB_F32 ? 86 : 707, &out, &dv);
            assert_true(out > 0 && dv > 0);
            expect_small_numbers();
        }
    assert_int_equal(lab_set_threads(0), LAB_OK);
}

/* The sink takes nearly all and has no value: what is left, e^-95 of a value of 1e20, is the output. So are small
 * queries times large keys the scores. */
static void small_factors_are_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const int64_t tq = i ? 40 : 1;
        double queries[40], out;
        for (int k = 0; k < 40; k++)
            queries[k] = 1e-15;
        lab_tensor *q = leaf_of_doubles(LAB_F32, 3, (int64_t[]){1, tq, 1}, queries);
        lab_tensor *k = leaf_of_doubles(LAB_F32, 3, (int64_t[]){1, 2, 1}, (double[]){3e38, -3e38});
        lab_tensor *v = leaf_of_doubles(LAB_F32, 3, (int64_t[]){1, 2, 1}, (double[]){1, 0});
        lab_tensor *far = leaf_of_doubles(LAB_F32, 3, (int64_t[]){1, 2, 1}, (double[]){1e20, 1e20});
        lab_tensor *sink = leaf_of_doubles(LAB_F32, 1, (int64_t[]){1}, (double[]){95});
        lab_graph *g = lab_graph_create(NULL);
        lab_tensor *y = lab_attention(g, q, k, v, &(lab_attention_opts){.path = LAB_PATH_FUSED, .scale = 3e-24});
        lab_tensor *z = lab_attention(g, q, lab_mul_scalar(g, k, 0), far,
                                      &(lab_attention_opts){.path = LAB_PATH_FUSED, .sink = sink});
        expect_healthy(g);
        out = 1 / (1 + exp(-1.8)); /* of scores 0.9 and -0.9 */
        for (int64_t j = 0; j < tq; j++) {
            assert_true(fabs(element_of(y, j) - out) < 1e-6);
            assert_true(fabs(element_of(z, j) / (2e20 * exp(-95)) - 1) < 1e-3); /* a factor of 12 bits */
        }
        lab_graph_destroy(&g);
        lab_tensor_destroy(&q);
        lab_tensor_destroy(&k);
        lab_tensor_destroy(&v);
        lab_tensor_destroy(&far);
        lab_tensor_destroy(&sink);
    }
}

/* Which are the thread's own, and so the caller's. */
static void modes_and_exceptions_stay_the_callers(void **state)
{
    (void)state;
    volatile float zero = 0, small = 1e-30f;
    for (int own = 0; own < 2; own++) {
        const uint32_t outer = own ? lab__flush_begin() : 0;
        feclearexcept(FE_ALL_EXCEPT);
        const uint32_t mode = lab__flush_begin();
        zero = 1 / zero;
        lab__flush_end(mode);
        assert_true(fetestexcept(FE_DIVBYZERO) != 0);
        volatile float product = small * 1e-10f;
#ifdef __SSE2__
        assert_true((product == 0) == (own != 0));
#endif
        if (own)
            lab__flush_end(outer);
        product = small * 1e-10f;
        assert_true(product > 0);
        zero = 0;
    }
    feclearexcept(FE_ALL_EXCEPT);
}

/* ---- Refusals --------------------------------------------------------------------------------------------------------- */

typedef struct bad {
    const char *word;
    lab_status status;
    lab_attention_opts opts;
} bad;

/* Everything that the options can get wrong: the right code, the option's name, no result, no extra outputs. */
static void wrong_options_are_named(void **state)
{
    (void)state;
    uint64_t draws = draw_start("bad");
    attention_case c = {
        .dtype = LAB_F64, .batch_rank = 1, .batch = {2}, .heads = 2, .kv_heads = 2, .tq = 3, .tk = 4, .d = 2, .dv = 2};
    case_make(&c, &draws);
    lab_tensor *two = leaf_of_doubles(LAB_F64, 1, (int64_t[]){2}, (double[]){1, 1});
    lab_tensor *three = leaf_of_doubles(LAB_F64, 1, (int64_t[]){3}, (double[]){1, 1, 1});
    lab_tensor *single = leaf_of_doubles(LAB_F32, 1, (int64_t[]){2}, (double[]){1, 1});
    lab_tensor *one_f32 = leaf_of_doubles(LAB_F32, 1, (int64_t[]){1}, (double[]){1});
    lab_tensor *numbers = leaf_of_integers(1, (int64_t[]){2}, (int64_t[]){1, 2});
    lab_tensor *long_numbers = leaf_of_integers(1, (int64_t[]){2}, (int64_t[]){1, 5});
    lab_tensor *negative = leaf_of_integers(1, (int64_t[]){2}, (int64_t[]){-1, 2});
    lab_tensor *huge = leaf_of_integers(1, (int64_t[]){2}, (int64_t[]){0, INT64_MAX});
    lab_tensor *three_numbers = leaf_of_integers(1, (int64_t[]){3}, (int64_t[]){1, 2, 3});
    lab_tensor *mask3 = leaf_of_bools(1, (int64_t[]){3}, (bool[]){1, 1, 1});
    const bad cases[] = {
        {"reserved", LAB_ERR_ARGUMENT, {.reserved = {[7] = 1}}},
        {"scale", LAB_ERR_RANGE, {.scale = NAN}},
        {"scale", LAB_ERR_RANGE, {.scale = -INFINITY}},
        {"scale_tensor", LAB_ERR_ARGUMENT, {.scale = 1, .scale_tensor = two}},
        {"scale_tensor", LAB_ERR_SHAPE, {.scale_tensor = two}},
        {"scale_tensor", LAB_ERR_DTYPE, {.scale_tensor = one_f32}},
        {"causal", LAB_ERR_ARGUMENT, {.causal = (lab_causal)4}},
        {"offset", LAB_ERR_ARGUMENT, {.causal = LAB_CAUSAL_TOP_LEFT, .offset = 1}},
        {"offset", LAB_ERR_ARGUMENT, {.causal = LAB_CAUSAL_BOTTOM_RIGHT, .offset = 1}},
        {"offsets", LAB_ERR_ARGUMENT, {.causal = LAB_CAUSAL_BOTTOM_RIGHT, .offsets = numbers}},
        {"offsets", LAB_ERR_ARGUMENT, {.causal = LAB_CAUSAL_TOP_LEFT, .offsets = numbers}},
        {"offsets", LAB_ERR_ARGUMENT, {.causal = LAB_CAUSAL_OFFSET, .offset = 1, .offsets = numbers}},
        {"offset", LAB_ERR_RANGE, {.causal = LAB_CAUSAL_OFFSET, .offset = INT64_MAX}},
        {"offset", LAB_ERR_RANGE, {.causal = LAB_CAUSAL_OFFSET, .offset = INT64_MIN}},
        {"offsets[1]", LAB_ERR_RANGE, {.causal = LAB_CAUSAL_OFFSET, .offsets = huge}},
        {"offsets", LAB_ERR_DTYPE, {.offsets = two}},
        {"offsets", LAB_ERR_SHAPE, {.offsets = three_numbers}},
        {"window", LAB_ERR_RANGE, {.window = {true, -2, 0}}},
        {"window", LAB_ERR_RANGE, {.window = {true, 0, -2}}},
        {"window", LAB_ERR_ARGUMENT, {.window = {false, 3, 0}}},
        {"mask", LAB_ERR_DTYPE, {.mask = two}},
        {"mask", LAB_ERR_SHAPE, {.mask = mask3}},
        {"bias", LAB_ERR_DTYPE, {.bias = single}},
        {"bias", LAB_ERR_SHAPE, {.bias = three}},
        {"key_lengths", LAB_ERR_DTYPE, {.key_lengths = two}},
        {"key_lengths", LAB_ERR_SHAPE, {.key_lengths = three_numbers}},
        {"key_lengths[1]", LAB_ERR_RANGE, {.key_lengths = long_numbers}},
        {"key_lengths[0]", LAB_ERR_RANGE, {.key_lengths = negative}},
        {"alibi_slopes", LAB_ERR_SHAPE, {.alibi_slopes = three}},
        {"alibi_slopes", LAB_ERR_DTYPE, {.alibi_slopes = single}},
        {"sink", LAB_ERR_SHAPE, {.sink = three}},
        {"sink", LAB_ERR_DTYPE, {.sink = single}},
        {"softcap", LAB_ERR_RANGE, {.softcap = -1}},
        {"softcap", LAB_ERR_RANGE, {.softcap = NAN}},
        {"dropout", LAB_ERR_RANGE, {.dropout = 1}},
        {"dropout", LAB_ERR_RANGE, {.dropout = -0.1}},
        {"dropout", LAB_ERR_RANGE, {.dropout = NAN}},
        {"path", LAB_ERR_ARGUMENT, {.path = (lab_path)3}},
        {"empty_row", LAB_ERR_ARGUMENT, {.empty_row = (lab_empty_row)3}},
    };
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_tensor *lse = two, *probs = two;
        lab_attention_opts opts = cases[i].opts;
        opts.lse = &lse;
        opts.probs = &probs;
        lab_graph_reset(g);
        const char *why;
        assert_int_equal(lab_attention_path(g, c.q, c.k, c.v, &opts, &why), LAB_PATH_AUTO);
        assert_int_equal(lab_graph_status(g), LAB_OK); /* asking does no harm */
        assert_null(lab_attention(g, c.q, c.k, c.v, &opts));
        expect_refusal(g, cases[i].status, cases[i].word);
        assert_null(lse);
        assert_null(probs);
    }
    lab_graph_destroy(&g);
    lab_tensor *mine[] = {two, three, single, one_f32, numbers, long_numbers, negative, huge, three_numbers, mask3};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        lab_tensor_destroy(&mine[i]);
    case_free(&c);
}

/* A number must be finite in the dtype that it will be rounded to, and a cap must not vanish there. */
static void numbers_must_fit_the_dtype(void **state)
{
    (void)state;
    const bad cases[] = {
        {"scale", LAB_ERR_RANGE, {.scale = 1e300}},
        {"scale", LAB_ERR_RANGE, {.scale = -1e39}},
        {"softcap", LAB_ERR_RANGE, {.softcap = 1e300}},
        {"softcap", LAB_ERR_RANGE, {.softcap = 1e-60}},
    };
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++) {
            lab_graph_reset(g);
            lab_tensor *x = lab_full(g, (lab_dtype)dtype, 3, (int64_t[]){1, 2, 2}, 0);
            lab_tensor *y = lab_attention(g, x, x, x, &cases[i].opts);
            if (dtype == LAB_F64) {
                expect_healthy(g);
                continue;
            }
            assert_null(y);
            expect_refusal(g, cases[i].status, cases[i].word);
        }
    lab_graph_destroy(&g);
}

/* Shapes. What does not fit is refused with both shapes; dtypes and missing operands likewise. */
static void wrong_operands_are_named(void **state)
{
    (void)state;
    const struct {
        int rank;
        int64_t q[4], k[4], v[4];
        const char *word;
    } cases[] = {
        {2, {3, 2}, {4, 2}, {4, 2}, "at least 3"},
        {3, {3, 3, 2}, {2, 4, 2}, {2, 4, 2}, "multiple"},
        {3, {3, 3, 2}, {0, 4, 2}, {0, 4, 2}, "multiple"},
        {3, {2, 3, 2}, {2, 4, 3}, {2, 4, 2}, "head sizes"},
        {3, {2, 3, 0}, {2, 4, 0}, {2, 4, 2}, "at least 1"},
        {3, {2, 3, 2}, {2, 4, 2}, {2, 5, 2}, "[2, 5, 2]"},
        {3, {2, 3, 2}, {2, 4, 2}, {1, 4, 2}, "heads"},
        {4, {2, 2, 3, 2}, {1, 2, 4, 2}, {2, 2, 4, 2}, "batch"},
        {4, {2, 2, 3, 2}, {2, 2, 4, 2}, {1, 2, 4, 2}, "batch"},
    };
    uint64_t draws = draw_start("operands");
    lab_graph *g = lab_graph_create(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_tensor *q = leaf_drawn(&draws, LAB_F64, cases[i].rank, cases[i].q, 1);
        lab_tensor *k = leaf_drawn(&draws, LAB_F64, cases[i].rank, cases[i].k, 1);
        lab_tensor *v = leaf_drawn(&draws, LAB_F64, cases[i].rank, cases[i].v, 1);
        lab_graph_reset(g);
        assert_null(lab_attention(g, q, k, v, NULL));
        expect_refusal(g, LAB_ERR_SHAPE, cases[i].word);
        lab_tensor_destroy(&q);
        lab_tensor_destroy(&k);
        lab_tensor_destroy(&v);
    }
    lab_tensor *a = leaf_drawn(&draws, LAB_F64, 3, (int64_t[]){1, 2, 2}, 1);
    lab_tensor *b = leaf_drawn(&draws, LAB_F32, 3, (int64_t[]){1, 2, 2}, 1);
    lab_graph_reset(g);
    assert_null(lab_attention(g, a, b, a, NULL));
    expect_refusal(g, LAB_ERR_DTYPE, "f32");
    lab_graph_reset(g);
    assert_null(lab_attention(g, a, NULL, a, NULL));
    expect_refusal(g, LAB_ERR_ARGUMENT, "operand 2");
    lab_graph *other = lab_graph_create(NULL);
    lab_graph_reset(g);
    assert_null(lab_attention(g, a, lab_neg(other, a), a, NULL));
    expect_refusal(g, LAB_ERR_STATE, "another graph");
    assert_null(lab_attention(NULL, a, a, a, NULL));
    lab_graph_destroy(&other);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&a);
    lab_tensor_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_without_keys_give_zero_and_take_no_gradient),
        cmocka_unit_test(no_position_lets_a_nan_through),
        cmocka_unit_test(products_of_minus_infinity_empty_a_row_in_f32),
        cmocka_unit_test(lse_of_an_empty_row_is_its_sinks),
        cmocka_unit_test(empty_rows_can_be_nan_or_the_mean),
        cmocka_unit_test(what_is_forbidden_may_be_anything),
        cmocka_unit_test(nan_shows_in_its_row_only),
        cmocka_unit_test(large_equal_scores_weigh_a_quarter_each),
        cmocka_unit_test(scores_far_apart_choose),
        cmocka_unit_test(weights_below_the_normal_numbers_are_zero_and_nothing_else_is),
        cmocka_unit_test(small_factors_are_kept),
        cmocka_unit_test(modes_and_exceptions_stay_the_callers),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(numbers_must_fit_the_dtype),
        cmocka_unit_test(wrong_operands_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
