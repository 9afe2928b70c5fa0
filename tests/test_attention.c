/* test_attention.c - attention's shapes and order of operations, its gradients, and what leaves no trace.
 *
 * Each test is a clause of the contract; the reference is a loop in long double. Edges are in test_attention_edges.c,
 * what can be asked for besides the output in test_attention_outputs.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention_case.h"

static attention_case plain_case(void)
{
    return (attention_case){
        .dtype = LAB_F64, .batch_rank = 1, .batch = {2}, .heads = 4, .kv_heads = 2, .tq = 5, .tk = 7, .d = 3, .dv = 4};
}

/* ---- Gradients ------------------------------------------------------------------------------------------------------- */

static void gradients_of_plain_attention(void **state)
{
    (void)state;
    uint64_t draws = draw_start("plain");
    for (int64_t dv = 1; dv <= 4; dv += 3) {
        attention_case c = {.dtype = LAB_F64, .heads = 2, .kv_heads = 2, .tq = 4, .tk = 4, .d = 4, .dv = dv};
        case_make(&c, &draws);
        case_has_right_gradients("plain", &c, false, NULL);
        case_has_right_gradients("plain, second order", &c, false, &(lab_gradcheck_opts){.second_order = true});
        case_free(&c);
    }
}

static void gradients_of_causal_attention_in_every_alignment(void **state)
{
    (void)state;
    uint64_t draws = draw_start("causal");
    for (int alignment = 0; alignment <= 3; alignment++)
        for (int64_t tq = 3; tq <= 5; tq++) { /* fewer queries than keys, as many, more */
            attention_case c = {.dtype = LAB_F64, .heads = 2, .kv_heads = 1, .tq = tq, .tk = 4, .d = 3, .dv = 2};
            c.opts.causal = (lab_causal)alignment;
            c.opts.offset = alignment == LAB_CAUSAL_OFFSET ? -1 : 0;
            case_make(&c, &draws);
            case_matches_reference("causal", &c, 1e-13);
            case_has_right_gradients("causal", &c, true, NULL);
            case_free(&c);
        }
}

static void gradients_with_mask_and_bias(void **state)
{
    (void)state;
    uint64_t draws = draw_start("mask");
    for (unsigned broadcast = 0; broadcast < 16; broadcast += 5) {
        attention_case c = plain_case();
        case_make(&c, &draws);
        c.opts.mask = case_mask(&c, &draws, broadcast, 0.6);
        c.opts.bias = case_bias(&c, &draws, 15 ^ broadcast, 1);
        case_has_right_gradients("mask and bias", &c, true, NULL);
        case_has_right_gradients("mask and bias, second order", &c, false,
                                 &(lab_gradcheck_opts){.second_order = true, .max_entries = 10});
        case_free(&c);
    }
}

static void gradients_of_everything_at_once(void **state)
{
    (void)state;
    uint64_t draws = draw_start("everything");
    for (int i = 0; i < 40; i++) {
        attention_case c;
        case_draw(&c, &draws, true);
        case_has_right_gradients("everything", &c, i % 2, &(lab_gradcheck_opts){.max_entries = 30});
        case_free(&c);
    }
}

/* ---- Values ---------------------------------------------------------------------------------------------------------- */

static void values_with_every_mixture_of_options(void **state)
{
    (void)state;
    uint64_t draws = draw_start("mixture");
    for (int i = 0; i < 300; i++) {
        attention_case c, single;
        case_draw(&c, &draws, false);
        case_matches_reference("mixture", &c, 1e-13);
        if (i % 3 == 0) {
            case_other_precision(&single, &c);
            case_matches_reference("mixture in f32", &single, 2e-5);
            case_free(&single);
        }
        case_free(&c);
    }
}

/* Shapes. Any number of leading batch dimensions, none included. */
static void batch_dimensions_may_be_any_number(void **state)
{
    (void)state;
    uint64_t draws = draw_start("batch");
    for (int rank = 0; rank <= 4; rank++) {
        attention_case c = plain_case();
        c.batch_rank = rank;
        for (int i = 0; i < rank; i++)
            c.batch[i] = 1 + i % 2;
        case_make(&c, &draws);
        c.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
        c.opts.key_lengths = case_per_batch(&c, &draws, 0, c.tk);
        case_matches_reference("batch", &c, 1e-13);
        case_free(&c);
    }
}

/* Shapes. Query head h reads key head h / (Hq / Hk): not h modulo Hk. */
static void head_h_reads_key_head_h_over_group(void **state)
{
    (void)state;
    double zeros[4] = {0}, values[] = {10, 20, 30, 40}, want[] = {15, 15, 35, 35};
    lab_tensor *q = leaf_of_doubles(LAB_F64, 3, (int64_t[]){4, 1, 1}, zeros);
    lab_tensor *k = leaf_of_doubles(LAB_F64, 3, (int64_t[]){2, 2, 1}, zeros);
    lab_tensor *v = leaf_of_doubles(LAB_F64, 3, (int64_t[]){2, 2, 1}, values);
    lab_graph *g = lab_graph_create(NULL);
    expect_close("grouped", lab_attention(g, q, k, v, NULL), want, 4, 1e-15);
    expect_healthy(g);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&k);
    lab_tensor_destroy(&v);
}

/* Shapes. Any strides: operands that are views, and an incoming gradient that is one. */
static void strides_do_not_matter(void **state)
{
    (void)state;
    uint64_t draws = draw_start("strides");
    attention_case c = plain_case(), s = c;
    case_make(&c, &draws);
    s.q = leaf_strided(c.q);
    s.k = leaf_strided(c.k);
    s.v = leaf_strided(c.v);
    c.opts.causal = s.opts.causal = LAB_CAUSAL_BOTTOM_RIGHT;
    c.opts.bias = case_bias(&c, &draws, 1, 1);
    s.opts.bias = leaf_strided(c.opts.bias);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *a = case_run(g, &c), *b = case_run(g, &s), *da[4], *db[4];
    lab_tensor *seed = lab_broadcast_to(g, lab_randn(g, LAB_F64, 1, &c.dv, 5), 4, (int64_t[]){2, 4, 5, 4});
    lab_grad(g, a, lab_contiguous(g, seed), 4, (lab_tensor *[]){c.q, c.k, c.v, c.opts.bias}, da, NULL);
    lab_grad(g, b, seed, 4, (lab_tensor *[]){s.q, s.k, s.v, s.opts.bias}, db, NULL);
    expect_healthy(g);
    double want[2 * 4 * 7 * 7];
    const char *names[] = {"dq", "dk", "dv", "dbias"};
    for (int i = -1; i < 4; i++) {
        const lab_tensor *x = i < 0 ? a : da[i];
        for (int64_t j = 0; j < lab_tensor_numel(x); j++)
            want[j] = element_of(x, j);
        expect_close(i < 0 ? "out" : names[i], i < 0 ? b : db[i], want, lab_tensor_numel(x), 1e-13);
    }
    lab_graph_destroy(&g);
    case_free(&c);
    case_free(&s);
}

/* Shapes. An empty batch, no queries, no values: an empty result. No keys: rows without allowed keys. */
static void sizes_may_be_zero(void **state)
{
    (void)state;
    uint64_t draws = draw_start("zero");
    for (int what = 0; what < 6; what++)
        for (int options = 0; options < 3; options++) {
            attention_case c = plain_case();
            int64_t *sizes[] = {&c.batch[0], &c.tq, &c.dv, &c.tk, &c.heads, &c.heads};
            *sizes[what] = 0;
            c.kv_heads = what == 5 ? 0 : c.kv_heads;
            case_make(&c, &draws);
            if (options > 0) {
                c.opts.causal = LAB_CAUSAL_TOP_LEFT;
                c.opts.key_lengths = case_per_batch(&c, &draws, 0, c.tk);
                c.opts.sink = options == 2 ? case_per_head(&c, &draws, 1) : NULL;
            }
            case_matches_reference("zero", &c, 1e-13);
            lab_graph *g = lab_graph_create(NULL);
            lab_tensor *y = case_run(g, &c), *grads[3];
            lab_grad(g, lab_sum_all(g, y), NULL, 3, (lab_tensor *[]){c.q, c.k, c.v}, grads, NULL);
            expect_healthy(g);
            expect_all("dq", grads[0], 0);
            expect_all("dk", grads[1], 0);
            expect_all("dv", grads[2], 0);
            lab_graph_destroy(&g);
            case_free(&c);
        }
}

/* Order 1. The scale multiplies the product once; 0 is 1/sqrt(d); it may be negative; a tensor is differentiable. */
static void scale_is_applied_once(void **state)
{
    (void)state;
    uint64_t draws = draw_start("scale");
    for (int i = 0; i < 4; i++) {
        attention_case c = plain_case();
        case_make(&c, &draws);
        if (i == 3)
            c.opts.scale_tensor = leaf_of_doubles(LAB_F64, 0, NULL, (double[]){-0.7});
        else
            c.opts.scale = (double[]){0, 1.7, -0.4}[i];
        case_matches_reference("scale", &c, 1e-13);
        case_has_right_gradients("scale", &c, false, &(lab_gradcheck_opts){.max_entries = 20});
        case_free(&c);
    }
}

/* Order 1. Once, and never a root of it on either side: of whole numbers the score is exact, whatever the scale. */
static void scale_is_never_split(void **state)
{
    (void)state;
    double scales[] = {2, 3, -5, 6, 7, -11};
    for (int i = 0; i < 12; i++) {
        lab_dtype dtype = i % 2 ? LAB_F32 : LAB_F64;
        lab_tensor *q = leaf_of_doubles(dtype, 3, (int64_t[]){1, 1, 2}, (double[]){3, -1});
        lab_tensor *k = leaf_of_doubles(dtype, 3, (int64_t[]){1, 1, 2}, (double[]){5, 4}), *lse;
        lab_graph *g = lab_graph_create(NULL);
        lab_attention(g, q, k, k, &(lab_attention_opts){.scale = scales[i / 2], .lse = &lse});
        expect_healthy(g);
        expect_all("the score", lse, scales[i / 2] * 11);
        lab_graph_destroy(&g);
        lab_tensor_destroy(&q);
        lab_tensor_destroy(&k);
    }
}

/* Order 2 and 3. The cap comes before the bias: a bias of -inf stays -inf, one of 1 is added to the capped score. */
static void soft_cap_comes_before_bias(void **state)
{
    (void)state;
    uint64_t draws = draw_start("softcap");
    attention_case c = plain_case();
    c.magnitude = 5;
    case_make(&c, &draws);
    c.opts.softcap = 1.5;
    c.opts.bias = case_bias(&c, &draws, 0, 3);
    ((double *)lab_tensor_data(c.opts.bias))[3] = -INFINITY;
    case_matches_reference("softcap", &c, 1e-13);
    case_free(&c);
}

/* Order 3. ALiBi lowers by slope * |pos_i - j|: by the distance of positions, offset included, on both sides. */
static void alibi_counts_from_positions(void **state)
{
    (void)state;
    double zero[1] = {0}, values[] = {1, 0, 0, 0}, slope[] = {0.5};
    lab_tensor *q = leaf_of_doubles(LAB_F64, 3, (int64_t[]){1, 1, 1}, zero);
    lab_tensor *k = leaf_of_doubles(LAB_F64, 3, (int64_t[]){1, 4, 1}, (double[4]){0});
    lab_tensor *v = leaf_of_doubles(LAB_F64, 3, (int64_t[]){1, 4, 1}, values);
    lab_tensor *slopes = leaf_of_doubles(LAB_F64, 1, (int64_t[]){1}, slope);
    lab_graph *g = lab_graph_create(NULL);
    lab_tensor *y = lab_attention(g, q, k, v, &(lab_attention_opts){.alibi_slopes = slopes, .offset = 2});
    expect_healthy(g); /* distances 2 1 0 1 */
    double want = exp(-1) / (exp(-1) + 2 * exp(-0.5) + 1);
    expect_close("alibi", y, &want, 1, 1e-15);
    lab_graph_destroy(&g);
    lab_tensor_destroy(&q);
    lab_tensor_destroy(&k);
    lab_tensor_destroy(&v);
    lab_tensor_destroy(&slopes);
}

/* Order 4. Causal rule, window, key lengths and mask combine with AND; true means: may attend. */
static void rules_combine_with_and(void **state)
{
    (void)state;
    uint64_t draws = draw_start("rules");
    for (unsigned broadcast = 0; broadcast < 16; broadcast++) {
        attention_case c = plain_case();
        case_make(&c, &draws);
        c.opts.causal = LAB_CAUSAL_OFFSET;
        c.opts.offset = 2;
        c.opts.window = (lab_window){true, 3, 0};
        c.opts.key_lengths = case_per_batch(&c, &draws, 2, c.tk);
        c.opts.mask = case_mask(&c, &draws, broadcast, 0.8);
        case_matches_reference("rules", &c, 1e-13);
        case_free(&c);
    }
}

/* Positions. A window allows pos_i - left <= j <= pos_i + right, -1 being open, whatever the offset. */
static void window_counts_from_positions(void **state)
{
    (void)state;
    uint64_t draws = draw_start("window");
    int64_t sides[] = {-1, 0, 2, INT64_MAX};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int64_t offset = -7; offset <= 9; offset += 4) {
                attention_case c = plain_case();
                case_make(&c, &draws);
                c.opts.window = (lab_window){true, sides[i], sides[j]};
                c.opts.offset = offset;
                case_matches_reference("window", &c, 1e-13);
                case_free(&c);
            }
}

/* Positions. Offsets are one per batch; bottom-right is the batch's own key length minus Tq. */
static void offsets_belong_to_their_batch(void **state)
{
    (void)state;
    uint64_t draws = draw_start("offsets");
    for (int aligned = 0; aligned < 2; aligned++) {
        attention_case c = plain_case();
        case_make(&c, &draws);
        c.opts.causal = aligned ? LAB_CAUSAL_BOTTOM_RIGHT : LAB_CAUSAL_OFFSET;
        if (aligned)
            c.opts.key_lengths = leaf_of_integers(1, c.batch, (int64_t[]){3, 6});
        else
            c.opts.offsets = leaf_of_integers(1, c.batch, (int64_t[]){-2, 4});
        case_matches_reference("offsets", &c, 1e-13);
        case_has_right_gradients("offsets", &c, true, &(lab_gradcheck_opts){.max_entries = 20});
        case_free(&c);
    }
}

/* Order 5. A sink takes part in the maximum and in the denominator, and has no value. */
static void sink_takes_its_share(void **state)
{
    (void)state;
    uint64_t draws = draw_start("sink");
    double sinks[] = {-3, 1000, -INFINITY, 0.5};
    attention_case c = plain_case();
    case_make(&c, &draws);
    c.opts.sink = leaf_of_doubles(LAB_F64, 1, &c.heads, sinks);
    case_matches_reference("sink", &c, 1e-13);
    ((double *)lab_tensor_data(c.opts.sink))[1] = 2;
    ((double *)lab_tensor_data(c.opts.sink))[2] = -1;
    case_has_right_gradients("sink", &c, true, NULL);
    case_free(&c);
}

/* Order 5. In the maximum too: a sink far above every score takes all and leaves nothing but zeros, in the gradients as
 * well; one far below is as good as none. */
static void sink_far_above_every_score_takes_all(void **state)
{
    (void)state;
    uint64_t draws = draw_start("far sink");
    for (int i = 0; i < 2; i++) {
        attention_case c = plain_case();
        c.dtype = i ? LAB_F32 : LAB_F64;
        c.batch_rank = 0;
        case_make(&c, &draws);
        lab_tensor *lse, *grads[4], *out[2];
        lab_graph *g = lab_graph_create(NULL);
        out[0] = case_run(g, &c);
        c.opts.sink = leaf_of_doubles(c.dtype, 1, &c.heads, (double[]){1e4, -1e4, 1e4, -1e4});
        c.opts.lse = &lse;
        out[1] = case_run(g, &c);
        lab_grad(g, lab_sum_all(g, out[1]), NULL, 4, (lab_tensor *[]){c.q, c.k, c.v, c.opts.sink}, grads, NULL);
        expect_healthy(g);
        for (int64_t head = 0; head < 4; head += 2) {
            expect_all("out", lab_slice(g, out[1], 0, head, head + 1, 1), 0);
            expect_all("lse", lab_slice(g, lse, 0, head, head + 1, 1), 1e4);
            expect_all("dq", lab_slice(g, grads[0], 0, head, head + 1, 1), 0);
            expect_same("without a sink", lab_slice(g, out[1], 0, head + 1, head + 2, 1),
                        lab_slice(g, out[0], 0, head + 1, head + 2, 1));
        }
        expect_all("dsink", grads[3], 0);
        lab_graph_destroy(&g);
        case_free(&c);
    }
}

/* ---- What leaves no trace --------------------------------------------------------------------------------------------- */

enum { LEAK_T = 12 };

static void run_causal(lab_graph *g, attention_case *c, int64_t seen, lab_tensor **out, lab_tensor **grads)
{
    *out = case_run(g, c);
    lab_tensor *earlier = lab_slice(g, *out, -2, 0, seen, 1);
    lab_tensor *loss = lab_sum_all(g, lab_mul(g, earlier, earlier));
    lab_grad(g, loss, NULL, 3, (lab_tensor *[]){c->q, c->k, c->v}, grads, NULL);
    expect_healthy(g);
}

static void change_token(lab_tensor *t, int64_t token)
{
    int64_t width = lab_tensor_size(t, -1), length = lab_tensor_size(t, -2);
    for (int64_t i = 0; i < lab_tensor_numel(t); i++)
        if (i / width % length == token) {
            if (lab_tensor_dtype(t) == LAB_F32)
                ((float *)lab_tensor_data(t))[i] = -3 * ((float *)lab_tensor_data(t))[i] + 2;
            else
                ((double *)lab_tensor_data(t))[i] = -3 * ((double *)lab_tensor_data(t))[i] + 2;
        }
    lab_tensor_touch(t);
}

/* Edges. Changing a later token moves earlier outputs, and the gradients of earlier losses, by exactly 0.0. */
static void later_tokens_leave_no_trace(void **state)
{
    (void)state;
    uint64_t draws = draw_start("leak");
    for (int i = 0; i < 8; i++) {
        attention_case c = plain_case();
        c.dtype = i % 2 ? LAB_F32 : LAB_F64;
        c.tq = c.tk = LEAK_T;
        c.kv_heads = i % 4 < 2 ? 4 : 2;
        c.opts.causal = i < 4 ? LAB_CAUSAL_TOP_LEFT : LAB_CAUSAL_BOTTOM_RIGHT;
        case_make(&c, &draws);
        int64_t token = draw_size(&draws, 1, LEAK_T - 1);
        lab_graph *before = lab_graph_create(NULL), *after = lab_graph_create(NULL);
        lab_tensor *out[2], *grads[2][3];
        run_causal(before, &c, token, &out[0], grads[0]);
        lab_tensor *kept;
        assert_int_equal(lab_tensor_clone(&kept, lab_slice(before, out[0], -2, 0, token, 1)), LAB_OK);
        lab_tensor *kept_grads[3];
        for (int j = 0; j < 3; j++)
            assert_int_equal(lab_tensor_clone(&kept_grads[j], grads[0][j]), LAB_OK);
        change_token(c.q, token);
        change_token(c.k, token);
        change_token(c.v, token);
        run_causal(after, &c, token, &out[1], grads[1]);
        expect_same("earlier outputs", lab_slice(after, out[1], -2, 0, token, 1), kept);
        const char *names[] = {"dq", "dk", "dv"};
        for (int j = 0; j < 3; j++) {
            expect_same(names[j], grads[1][j], kept_grads[j]);
            expect_all(names[j], lab_slice(after, grads[1][j], -2, token, LEAK_T, 1), 0);
            lab_tensor_destroy(&kept_grads[j]);
        }
        lab_tensor_destroy(&kept);
        lab_graph_destroy(&before);
        lab_graph_destroy(&after);
        case_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_plain_attention),
        cmocka_unit_test(gradients_of_causal_attention_in_every_alignment),
        cmocka_unit_test(gradients_with_mask_and_bias),
        cmocka_unit_test(gradients_of_everything_at_once),
        cmocka_unit_test(values_with_every_mixture_of_options),
        cmocka_unit_test(batch_dimensions_may_be_any_number),
        cmocka_unit_test(head_h_reads_key_head_h_over_group),
        cmocka_unit_test(strides_do_not_matter),
        cmocka_unit_test(sizes_may_be_zero),
        cmocka_unit_test(scale_is_applied_once),
        cmocka_unit_test(scale_is_never_split),
        cmocka_unit_test(soft_cap_comes_before_bias),
        cmocka_unit_test(alibi_counts_from_positions),
        cmocka_unit_test(rules_combine_with_and),
        cmocka_unit_test(window_counts_from_positions),
        cmocka_unit_test(offsets_belong_to_their_batch),
        cmocka_unit_test(sink_takes_its_share),
        cmocka_unit_test(sink_far_above_every_score_takes_all),
        cmocka_unit_test(later_tokens_leave_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
