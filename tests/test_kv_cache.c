/* test_kv_cache.c - decoding: a row from a cache has the bits of that row in one pass; lengths, room, and refusals. */
#include <stdlib.h>
#include <string.h>

#include "nn_check.h"

enum { BATCH = 2, HEADS = 6, KV_HEADS = 2, LENGTH = 450, SIZE = 9, VALUE = 11 };

static lab_graph *inference_graph(bool batch_invariant)
{
    lab_graph *g = lab_graph_create(&(lab_graph_opts){.inference = true, .batch_invariant = batch_invariant});
    assert_non_null(g);
    return g;
}

static void expect_bits(const char *what, const lab_tensor *got, const lab_tensor *want)
{
    const size_t bytes = (size_t)lab_tensor_numel(want) * lab_dtype_size(lab_tensor_dtype(want));
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    assert_true(a && b && got && lab_tensor_numel(got) == lab_tensor_numel(want));
    assert_int_equal(lab_tensor_read(got, a, bytes), LAB_OK);
    assert_int_equal(lab_tensor_read(want, b, bytes), LAB_OK);
    if (memcmp(a, b, bytes) != 0)
        fail_msg("seed %llu: %s: the bits differ", (unsigned long long)check_seed(), what);
    free(a);
    free(b);
}

typedef struct leaves {
    lab_tensor *q, *k, *v;
} leaves;

static leaves draw_leaves(lab_dtype dtype)
{
    uint64_t draws = draw_start("cache");
    return (leaves){leaf_drawn(&draws, dtype, 4, (int64_t[]){BATCH, HEADS, LENGTH, SIZE}, 1),
                    leaf_drawn(&draws, dtype, 4, (int64_t[]){BATCH, KV_HEADS, LENGTH, SIZE}, 1),
                    leaf_drawn(&draws, dtype, 4, (int64_t[]){BATCH, KV_HEADS, LENGTH, VALUE}, 1)};
}

static void free_leaves(leaves *l)
{
    lab_tensor_destroy(&l->q);
    lab_tensor_destroy(&l->k);
    lab_tensor_destroy(&l->v);
}

static lab_tensor *rows(lab_graph *g, lab_tensor *x, int64_t first, int64_t stop)
{
    return lab_slice(g, x, 2, first, stop, 1);
}

static void append(lab_graph *g, lab_kv_cache *cache, const leaves *l, int64_t first, int64_t stop)
{
    assert_int_equal(lab_kv_cache_append(g, cache, rows(g, l->k, first, stop), rows(g, l->v, first, stop), NULL),
                     LAB_OK);
}

/* A prompt in one piece, then one row at a time and a few at once; windows and sinks as well. */
static void rows_from_a_cache_have_the_bits_of_one_pass(void **state)
{
    (void)state;
    uint64_t draws = draw_start("options");
    for (int dtype = LAB_F32; dtype <= LAB_F64; dtype++)
        for (int option = 0; option < 3; option++) {
            leaves l = draw_leaves((lab_dtype)dtype);
            lab_tensor *sink = leaf_drawn(&draws, (lab_dtype)dtype, 1, (int64_t[]){HEADS}, 2);
            lab_attention_opts opts = {.sink = option == 1 ? sink : NULL};
            if (option == 2)
                opts.window = (lab_window){.limited = true, .left = 37, .right = 0};
            lab_attention_opts whole = opts;
            whole.causal = LAB_CAUSAL_TOP_LEFT;
            lab_graph *g = inference_graph(false);
            lab_tensor *out = lab_attention(g, l.q, l.k, l.v, &whole);
            lab_kv_cache *cache;
            assert_int_equal(lab_kv_cache_create(&cache, (lab_dtype)dtype, BATCH, KV_HEADS, LENGTH, SIZE, VALUE),
                             LAB_OK);
            const int64_t steps[] = {0, 380, 381, 382, 383, 384, 385, 390, 391, 392, LENGTH - 1, LENGTH};
            for (int i = 0; i + 1 < (int)(sizeof steps / sizeof *steps); i++) {
                append(g, cache, &l, steps[i], steps[i + 1]);
                assert_int_equal(lab_kv_cache_length(cache, 1), steps[i + 1]);
                lab_tensor *y = lab_attention_cached(g, rows(g, l.q, steps[i], steps[i + 1]), cache, &opts);
                expect_healthy(g);
                expect_bits("row", y, rows(g, out, steps[i], steps[i + 1]));
            }
            lab_kv_cache_destroy(&cache);
            assert_null(cache);
            lab_graph_destroy(&g);
            lab_tensor_destroy(&sink);
            free_leaves(&l);
        }
}

static void each_batch_has_a_length_of_its_own(void **state)
{
    (void)state;
    leaves l = draw_leaves(LAB_F64);
    lab_graph *g = inference_graph(false);
    lab_kv_cache *cache;
    assert_int_equal(lab_kv_cache_create(&cache, LAB_F64, BATCH, KV_HEADS, 40, SIZE, VALUE), LAB_OK);
    assert_int_equal(lab_kv_cache_capacity(cache), 40);
    const int64_t counts[] = {3, 17};
    assert_int_equal(lab_kv_cache_append(g, cache, rows(g, l.k, 0, 20), rows(g, l.v, 0, 20), counts), LAB_OK);
    lab_tensor *y = lab_attention_cached(g, rows(g, l.q, 5, 6), cache, NULL);
    for (int64_t b = 0; b < BATCH; b++) {
        assert_int_equal(lab_kv_cache_length(cache, b), counts[b]);
        lab_tensor *alone = lab_attention(g, lab_slice(g, rows(g, l.q, 5, 6), 0, b, b + 1, 1),
                                          lab_slice(g, rows(g, l.k, 0, counts[b]), 0, b, b + 1, 1),
                                          lab_slice(g, rows(g, l.v, 0, counts[b]), 0, b, b + 1, 1), NULL);
        expect_bits("batch", lab_slice(g, y, 0, b, b + 1, 1), alone);
    }
    /* What is cut off comes again with the same result. */
    assert_int_equal(lab_kv_cache_truncate(cache, 1, 16), LAB_OK);
    assert_int_equal(lab_kv_cache_append(g, cache, rows(g, l.k, 16, 17), rows(g, l.v, 16, 17), (int64_t[]){0, 1}),
                     LAB_OK);
    expect_bits("truncated", lab_attention_cached(g, rows(g, l.q, 5, 6), cache, NULL), y);
    lab_kv_cache_reset(cache);
    assert_int_equal(lab_kv_cache_length(cache, 0), 0);
    expect_all("empty", lab_attention_cached(g, rows(g, l.q, 5, 6), cache, NULL), 0);
    expect_healthy(g);
    lab_kv_cache_destroy(&cache);
    lab_graph_destroy(&g);
    free_leaves(&l);
}

/* On a batch-invariant graph the same holds for the whole layer, positions included. */
static void a_layer_with_a_cache_goes_on_where_it_was(void **state)
{
    (void)state;
    uint64_t draws = draw_start("layer");
    lab_mha layer;
    const lab_mha_config config = {.width = 24, .heads = 4, .kv_heads = 2, .bias = true, .rope = &(lab_rope_opts){0}};
    assert_int_equal(lab_mha_init(&layer, &config, LAB_F32, 5), LAB_OK);
    lab_tensor *x = leaf_drawn(&draws, LAB_F32, 3, (int64_t[]){BATCH, 30, 24}, 1);
    lab_kv_cache *cache;
    assert_int_equal(lab_kv_cache_create(&cache, LAB_F32, BATCH, 2, 30, 6, 6), LAB_OK);
    lab_graph *g = inference_graph(true);
    lab_tensor *whole = lab_mha_apply(g, &layer, x, NULL, NULL, &(lab_attention_opts){.causal = LAB_CAUSAL_TOP_LEFT});
    for (int64_t first = 0, stop = 7; first < 30; first = stop, stop = stop + 1 < 20 ? stop + 1 : 30) {
        lab_tensor *y = lab_mha_apply(g, &layer, lab_slice(g, x, 1, first, stop, 1), NULL, cache, NULL);
        expect_healthy(g);
        expect_bits("layer", y, lab_slice(g, whole, 1, first, stop, 1));
    }
    /* Full: nothing is written. */
    assert_null(lab_mha_apply(g, &layer, lab_slice(g, x, 1, 0, 1, 1), NULL, cache, NULL));
    expect_refusal(g, LAB_ERR_RANGE, "full");
    assert_int_equal(lab_kv_cache_length(cache, 0), 30);
    lab_graph_reset(g);
    /* Attention refuses its options: the rows come out again. */
    lab_kv_cache_reset(cache);
    assert_null(lab_mha_apply(g, &layer, x, NULL, cache, &(lab_attention_opts){.softcap = -1}));
    expect_refusal(g, LAB_ERR_RANGE, "softcap");
    assert_int_equal(lab_kv_cache_length(cache, 1), 0);
    lab_graph_reset(g);
    assert_null(lab_mha_apply(g, &layer, x, x, cache, NULL));
    expect_refusal(g, LAB_ERR_UNSUPPORTED, "memory");
    lab_graph_destroy(&g);
    g = lab_graph_create(NULL);
    assert_null(lab_mha_apply(g, &layer, x, NULL, cache, NULL));
    expect_refusal(g, LAB_ERR_STATE, "inference");
    lab_graph_destroy(&g);
    lab_kv_cache_destroy(&cache);
    lab_tensor_destroy(&x);
    lab_mha_free(&layer);
}

static void expect_append(lab_graph *g, lab_kv_cache *cache, lab_tensor *k, lab_tensor *v, const int64_t *counts,
                          lab_status status, const char *word)
{
    const int64_t length = lab_kv_cache_length(cache, 0);
    assert_int_equal(lab_kv_cache_append(g, cache, k, v, counts), status);
    expect_refusal(g, status, word);
    assert_int_equal(lab_kv_cache_length(cache, 0), length);
    assert_int_equal(lab_kv_cache_append(g, cache, k, v, counts), status); /* a failed graph stays failed */
    lab_graph_reset(g);
}

static void wrong_calls_are_named_and_nothing_is_written(void **state)
{
    (void)state;
    leaves l = draw_leaves(LAB_F32);
    uint64_t draws = draw_start("wrong");
    lab_tensor *other = leaf_drawn(&draws, LAB_F64, 4, (int64_t[]){BATCH, KV_HEADS, 1, SIZE}, 1);
    lab_graph *g = inference_graph(false), *recording = lab_graph_create(NULL);
    lab_kv_cache *cache = (lab_kv_cache *)&l;
    assert_int_equal(lab_kv_cache_create(NULL, LAB_F32, 1, 1, 1, 1, 1), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_kv_cache_create(&cache, LAB_I64, 1, 1, 1, 1, 1), LAB_ERR_DTYPE);
    assert_null(cache);
    assert_int_equal(lab_kv_cache_create(&cache, LAB_F32, 1, 1, -1, 1, 1), LAB_ERR_RANGE);
    assert_non_null(strstr(lab_last_message(), "capacity is -1"));
    assert_int_equal(lab_kv_cache_create(&cache, LAB_F32, INT64_MAX, 1, INT64_MAX, 1, 1), LAB_ERR_RANGE);
    assert_null(cache);
    assert_int_equal(lab_kv_cache_create(&cache, LAB_F32, BATCH, KV_HEADS, 4, SIZE, VALUE), LAB_OK);
    lab_tensor *k = rows(g, l.k, 0, 3), *v = rows(g, l.v, 0, 3);
    assert_int_equal(lab_kv_cache_append(g, cache, k, v, NULL), LAB_OK);
    lab_graph_reset(g);
    expect_append(g, cache, rows(g, l.k, 0, 2), rows(g, l.v, 0, 2), NULL, LAB_ERR_RANGE, "3 of 4 rows, and 2");
    expect_append(g, cache, rows(g, l.k, 0, 1), rows(g, l.v, 0, 1), (int64_t[]){0, 2}, LAB_ERR_RANGE, "counts[1] is 2");
    expect_append(g, cache, rows(g, l.k, 0, 1), rows(g, l.v, 0, 1), (int64_t[]){-1, 0}, LAB_ERR_RANGE, "counts[0]");
    expect_append(g, cache, rows(g, l.k, 0, 1), rows(g, l.v, 0, 2), NULL, LAB_ERR_SHAPE, "has 1 rows");
    expect_append(g, cache, rows(g, l.v, 0, 1), rows(g, l.v, 0, 1), NULL, LAB_ERR_SHAPE, "k [2, 2, 1, 11]");
    expect_append(g, cache, other, rows(g, l.v, 0, 1), NULL, LAB_ERR_DTYPE, "f64");
    expect_append(g, cache, NULL, rows(g, l.v, 0, 1), NULL, LAB_ERR_ARGUMENT, "k is NULL");
    expect_append(g, NULL, rows(g, l.k, 0, 1), rows(g, l.v, 0, 1), NULL, LAB_ERR_ARGUMENT, "the cache is NULL");
    expect_append(recording, cache, rows(recording, l.k, 0, 1), rows(recording, l.v, 0, 1), NULL, LAB_ERR_STATE,
                  "inference");
    assert_int_equal(lab_kv_cache_append(NULL, cache, k, v, NULL), LAB_ERR_MEMORY);
    assert_int_equal(lab_kv_cache_truncate(cache, 2, 0), LAB_ERR_RANGE);
    assert_int_equal(lab_kv_cache_truncate(cache, 0, 4), LAB_ERR_RANGE);
    assert_int_equal(lab_kv_cache_truncate(NULL, 0, 0), LAB_ERR_ARGUMENT);
    assert_int_equal(lab_kv_cache_length(cache, 2), 0);
    assert_int_equal(lab_kv_cache_length(NULL, 0) + lab_kv_cache_capacity(NULL), 0);
    lab_kv_cache_reset(NULL);
    lab_kv_cache_destroy(NULL);
    assert_null(lab_attention_cached(recording, rows(recording, l.q, 0, 1), cache, NULL));
    expect_refusal(recording, LAB_ERR_STATE, "inference");
    assert_null(lab_attention_cached(g, lab_slice(g, rows(g, l.q, 0, 1), 0, 0, 1, 1), cache, NULL));
    expect_refusal(g, LAB_ERR_SHAPE, "batch (2)");
    lab_graph_reset(g);
    assert_null(lab_attention_cached(g, rows(g, l.q, 0, 1), NULL, NULL));
    expect_refusal(g, LAB_ERR_ARGUMENT, "cache");
    lab_graph_reset(g);
    lab_tensor *lengths = leaf_of_integers(1, (int64_t[]){BATCH}, (int64_t[]){1, 1}), *lse = lengths;
    assert_null(
        lab_attention_cached(g, rows(g, l.q, 0, 1), cache, &(lab_attention_opts){.key_lengths = lengths, .lse = &lse}));
    expect_refusal(g, LAB_ERR_ARGUMENT, "key_lengths");
    assert_null(lse);
    lab_tensor_destroy(&lengths);
    lab_tensor_destroy(&other);
    lab_kv_cache_destroy(&cache);
    lab_graph_destroy(&g);
    lab_graph_destroy(&recording);
    free_leaves(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_from_a_cache_have_the_bits_of_one_pass),
        cmocka_unit_test(each_batch_has_a_length_of_its_own),
        cmocka_unit_test(a_layer_with_a_cache_goes_on_where_it_was),
        cmocka_unit_test(wrong_calls_are_named_and_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
