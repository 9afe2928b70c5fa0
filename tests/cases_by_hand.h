/* cases_by_hand.h - the parts that say in words what must hold, and the tests that show it (test_cases_by_hand.c). */
#ifndef TESTS_CASES_BY_HAND_H
#define TESTS_CASES_BY_HAND_H

/* X(part, test) */
#define CASES_BY_HAND(X)                                                                                               \
    X(O01d, o01d_lowest_finite_bias_gives_no_nan_and_a_mix_of_values)                                                  \
    X(O10g, o10g_softmax_of_one_element_is_one_and_of_minus_infinity_zero)                                             \
    X(O23f, o23f_rope_layouts_are_a_permutation_and_scores_depend_on_distance)                                         \
    X(O26a, o26a_many_threads_multiply_at_once)                                                                        \
    X(O26b, o26b_many_threads_attend_forward_and_backward)                                                             \
    X(O26c, o26c_callers_parallel_regions_and_forty_threads)                                                           \
    X(O27a, o27a_a_tensor_added_to_itself_twice)                                                                       \
    X(O27b, o27b_a_diamond)                                                                                            \
    X(O27c, o27c_a_cube)                                                                                               \
    X(O27d, o27d_one_tensor_on_both_sides_of_a_product)                                                                \
    X(O27f, o27f_leaf_gradients_add_up_and_inner_ones_do_not_carry_over)                                               \
    X(O27g, o27g_detach_stops_one_path_and_unused_leaves_stay)

#endif
