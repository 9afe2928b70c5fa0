/* rope_tmpl.c - a row's pairs turned by their angles. Pairs that lie side by side are brought apart first: in
 * registers, and what does not fill one through memory.
 */

/* (a, b) -> (a c - b s, a s + b c). */
ALWAYS_INLINE void FN(rotate)(vec *a, vec *b, vec c, vec s)
{
    vec turned = FN(vec_fma)(-*b, s, *a * c);
    *b = FN(vec_fma)(*a, s, *b * c);
    *a = turned;
}

ALWAYS_INLINE void FN(turn_pairs)(int64_t n, real *to_a, real *to_b, const real *from_a, const real *from_b,
                                  const real *cosines, const real *sines, bool back)
{
    for (int64_t i = 0; i < n; i += LANES) {
        vec a = FN(load_some)(from_a + i, n - i), b = FN(load_some)(from_b + i, n - i);
        vec c = FN(load_some)(cosines + i, n - i), s = FN(load_some)(sines + i, n - i);
        if (back)
            s = -s;
        FN(rotate)(&a, &b, c, s);
        FN(store_some)(to_a + i, n - i, a);
        FN(store_some)(to_b + i, n - i, b);
    }
}

/* As many of a row's pairs as fill vectors; how many. */
ALWAYS_INLINE int64_t FN(turn_side_by_side)(int64_t pairs, real *y, const real *x, const real *cosines,
                                            const real *sines, bool back)
{
    int64_t i = 0;
    for (; i + LANES <= pairs; i += LANES) {
        vec first = FN(load)(x + 2 * i), second = FN(load)(x + 2 * i + LANES), s = FN(load)(sines + i);
        vec a = FN(even_places)(first, second), b = FN(odd_places)(first, second);
        FN(rotate)(&a, &b, FN(load)(cosines + i), back ? -s : s);
        FN(store)(y + 2 * i, FN(interleave_low)(a, b));
        FN(store)(y + 2 * i + LANES, FN(interleave_high)(a, b));
    }
    return i;
}

static void FN(rope)(int64_t pairs, void *y_row, const void *x_row, const void *cosine_row, const void *sine_row,
                     bool side_by_side, bool back)
{
    real *y = y_row, a[BLOCK], b[BLOCK];
    const real *x = x_row, *cosines = cosine_row, *sines = sine_row;
    if (!side_by_side) {
        FN(turn_pairs)(pairs, y, y + pairs, x, x + pairs, cosines, sines, back);
        return;
    }
    for (int64_t i = FN(turn_side_by_side)(pairs, y, x, cosines, sines, back); i < pairs; i += BLOCK) {
        int64_t n = pairs - i < BLOCK ? pairs - i : BLOCK;
        FN(gather)(n, a, x + 2 * i, 2);
        FN(gather)(n, b, x + 2 * i + 1, 2);
        FN(turn_pairs)(n, a, b, a, b, cosines + i, sines + i, back);
        FN(scatter)(n, y + 2 * i, 2, a);
        FN(scatter)(n, y + 2 * i + 1, 2, b);
    }
}
