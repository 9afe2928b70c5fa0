#!/usr/bin/env python3
"""Computes the polynomials of the vector kernels; prints src/kernels/coefficients.h.

    python3 tools/fit_coefficients.py | clang-format > src/kernels/coefficients.h       (needs mpmath; ten seconds)

Each polynomial is the one with the least largest weighted error (Remez), computed with 60 digits; its coefficients
are rounded afterwards. The error that is printed beside each is that of the rounded coefficients, evaluated exactly.
"""
import struct

import mpmath as mp

mp.mp.dps = 60


def round_to(value, wide):
    """The nearest number of the kernel's type."""
    value = mp.mpf(value)
    if wide:
        return mp.mpf(float(value))
    return mp.mpf(struct.unpack('f', struct.pack('f', float(value)))[0])


def chebyshev_nodes(count, low, high):
    return [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def solve_levelled(f, weight, degree, points):
    """The polynomial whose weighted error is level, alternating in sign, at degree + 2 points."""
    rows = mp.matrix(degree + 2, degree + 2)
    right = mp.matrix(degree + 2, 1)
    for i, x in enumerate(points):
        for j in range(degree + 1):
            rows[i, j] = x ** j
        rows[i, degree + 1] = (-1) ** i / weight(x)
        right[i] = f(x)
    return list(mp.lu_solve(rows, right))[:degree + 1]


def extremes(error, low, high, count):
    """The largest |error| between each two of its zeros, on a grid."""
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * i / (count * 40))) / 2 for i in range(count * 40 + 1)]
    values = [error(x) for x in grid]
    found, best = [], 0
    for i in range(1, len(grid)):
        if values[i] * values[best] < 0:
            found.append(grid[best])
            best = i
        elif abs(values[i]) > abs(values[best]):
            best = i
    return found + [grid[best]]


def remez(f, weight, degree, low, high):
    points = sorted(chebyshev_nodes(degree + 2, low, high))
    for _ in range(6):
        c = solve_levelled(f, weight, degree, points)
        found = extremes(lambda x: (mp.polyval(c[::-1], x) - f(x)) * weight(x), low, high, degree + 2)
        if len(found) != degree + 2:
            break
        points = found
    return c


def worst(f, weight, c, low, high):
    return max(abs((mp.polyval(c[::-1], x) - f(x)) * weight(x)) for x in chebyshev_nodes(500, low, high))


def literal(value, wide):
    digits, exponent = float(value).hex().split('p')
    return f'{digits.rstrip("0") if "." in digits else digits}p{exponent}{"" if wide else "f"}'.replace('.p', '.0p')


def show(name, about, f, weight, degree, low, high, wide, first=()):
    """`first`: coefficients that are given, before those of f."""
    low, high = mp.mpf(low), mp.mpf(high)
    cs = [round_to(x, wide) for x in remez(f, weight, degree, low, high)]
    print(f'/* {about}: within 2^{mp.nstr(mp.log(worst(f, weight, cs, low, high), 2), 4)}. */')
    print(f'static const {"double" if wide else "float"} {name}_{"f64" if wide else "f32"}[] = {{')
    for c in [*first, *cs]:
        print(f'    {literal(c, wide)},')
    print('};\n')


def expm1_rest(r):
    """What e^r has beyond 1 + r + r^2 / 2, over r^3."""
    if abs(r) < mp.mpf('1e-12'):
        return mp.mpf(1) / 6 + r / 24
    return (mp.expm1(r) - r - r * r / 2) / r ** 3


def erf_rest(s):
    z = mp.sqrt(s)
    return (mp.erf(z) / z if z else 2 / mp.sqrt(mp.pi)) - 1


def tail(t):
    """Phi(-t) exp(t^2/2), t >= 0."""
    return mp.erfc(t / mp.sqrt(2)) / 2 * mp.exp(t * t / 2)


def show_tail(degree, t_max, wide):
    """What is approximated all but stays the same, so that neither u's rounding nor that of the sums matters much."""
    def t_of_u(u):
        return (8 + 4 * u) / (1 - u)

    def of_u(u):
        return tail(t_of_u(u)) * (t_of_u(u) + mp.mpf(13) / 16)

    low, high = ((t - 8) / (t + 4) for t in (mp.mpf(7) / 10, mp.mpf(t_max)))
    show('tail_polynomial',
         f'(t + 13/16) Phi(-t) exp(t^2/2) in u = (t - 8) / (t + 4), 0.7 <= t <= {t_max}, relative',
         of_u, lambda u: 1 / of_u(u), degree, low, high, wide)


def show_pair(name, about, value, wide):
    high = round_to(value, wide)
    low = round_to(mp.mpf(value) - high, wide)
    kind = ('double', 'f64') if wide else ('float', 'f32')
    print(f'/* {about} */')
    print(f'static const {kind[0]} {name}_high_{kind[1]} = {literal(high, wide)};')
    print(f'static const {kind[0]} {name}_low_{kind[1]} = {literal(low, wide)};')


def main():
    print('''/* coefficients.h - the polynomials of the vector kernels, lowest power first. Written by
 * tools/fit_coefficients.py, which says how.
 */
#ifndef LAB_KERNELS_COEFFICIENTS_H
#define LAB_KERNELS_COEFFICIENTS_H
''')
    for wide in (False, True):
        show('exp_polynomial', '(e^r - 1 - r) / r^2, |r| <= 0.35, error times r^2', expm1_rest,
             lambda r: abs(r) ** 3 + mp.mpf('1e-6'), 8 if wide else 3, -0.35, 0.35, wide, [0.5])
        show('erf_polynomial', 'erf(z) / z - 1 in z^2, z <= 0.75', erf_rest, lambda s: mp.mpf(1),
             11 if wide else 5, 0, 0.5625, wide)
        show_tail(20 if wide else 8, 40 if wide else 16, wide)
    slope = 2 * mp.sqrt(2 / mp.pi)
    for wide in (False, True):
        show_pair('gelu_linear', '2 sqrt(2/pi)', slope, wide)
        show_pair('gelu_cubic', '2 sqrt(2/pi) 0.044715', slope * mp.mpf('0.044715'), wide)
    print('\n#endif')


if __name__ == '__main__':
    main()
