"""Compute logarithms and exponentials, bit for bit on every processor.

NumPy and the C library choose their code by the processor, so their last bits differ. This module
uses only additions, multiplications, divisions and scaling by powers of two. IEEE 754 rounds these
correctly everywhere, and no compiler may change their order. A number is an unevaluated sum of two
doubles: the second is the rounding error of the first. Results have an error below 0.501 units in
the last place, so nearly all are correctly rounded.

References
----------
Dekker (1971), doi:10.1007/BF01397083, for sums and products of two doubles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel

#: Codes of the functions for the kernels.
LOG, LOG2, LOG1P, EXP, EXP2 = range(5)

with localcontext(prec=60):
    _LN2 = Fraction(Decimal(2).ln())
_LN2_HIGH = float(_LN2)
_LN2_LOW = float(_LN2 - Fraction(_LN2_HIGH))
#: The first 32 binary places, whose product with an exponent is exact, and the remainder.
_LN2_SHORT = math.floor(_LN2 * (1 << 32)) / (1 << 32)
_LN2_REST = float(_LN2 - Fraction(_LN2_SHORT))
_LOG2E_HIGH = float(1 / _LN2)
_LOG2E_LOW = float(1 / _LN2 - Fraction(_LOG2E_HIGH))
_THIRD = 1 / 3
_THIRD_LOW = float(Fraction(1, 3) - Fraction(_THIRD))
_SIXTH = 1 / 6
_SIXTH_LOW = float(Fraction(1, 6) - Fraction(_SIXTH))
_SQRT_HALF = math.sqrt(0.5)
#: The largest double whose exponential is a double.
_MAX_EXPONENT = 709.782712893384
#: Size of the cache of results for repeated values: a power of two.
_CACHE_SIZE = 64
#: Dekker's constant 2**27 + 1: splits a double into two halves of its bits.
_SPLITTER = 134217729.0


def log(x: float) -> float:
    """Return the natural logarithm; -inf of 0, NaN below."""
    return float(elementary(LOG, float(x)))


def log2(x: float) -> float:
    """Return the logarithm to base 2; -inf of 0, NaN below."""
    return float(elementary(LOG2, float(x)))


def log1p(x: float) -> float:
    """Return the natural logarithm of ``1 + x``, also for tiny `x`."""
    return float(elementary(LOG1P, float(x)))


def exp(x: float) -> float:
    """Return e to the power of `x`; inf past the largest double."""
    return float(elementary(EXP, float(x)))


def exp2(x: float) -> float:
    """Return 2 to the power of `x`; inf past the largest double."""
    return float(elementary(EXP2, float(x)))


def log_each(values: np.ndarray) -> np.ndarray:
    """Return the natural logarithm of each number of an array."""
    return _each(LOG, values)


def log2_each(values: np.ndarray) -> np.ndarray:
    """Return the logarithm to base 2 of each number of an array."""
    return _each(LOG2, values)


def log1p_each(values: np.ndarray) -> np.ndarray:
    """Return the natural logarithm of 1 plus each number of an array."""
    return _each(LOG1P, values)


def exp_each(values: np.ndarray) -> np.ndarray:
    """Return e to the power of each number of an array."""
    return _each(EXP, values)


def exp2_each(values: np.ndarray) -> np.ndarray:
    """Return 2 to the power of each number of an array, exact for integers."""
    return _each(EXP2, values)


def ratio(above: np.ndarray, below: np.ndarray | float, otherwise: float = math.nan) -> np.ndarray:
    """Divide, with `otherwise` where the denominator is 0."""
    out = np.full(np.shape(above), otherwise)
    np.divide(above, below, out=out, where=np.not_equal(below, 0))
    return out


def powers(base: float, count: int) -> np.ndarray:
    """Return ``base ** 0 ... base ** (count - 1)``.

    Parameters
    ----------
    base : float
        In [0, 1].
    count : int
    """
    out = np.empty(count)
    _powers(float(base), out)
    return out


@kernel
def atan(x):  # type: ignore[no-untyped-def]
    """Return the angle whose tangent is `x`, to two units in the last place."""
    inverted = abs(x) > 1.0
    tangent = 1.0 / x if inverted else x
    half = tangent / (1.0 + math.sqrt(1.0 + tangent * tangent))  # the tangent of half the angle
    square = half * half
    series = 0.0
    for k in range(41, 1, -2):
        series = square * (1.0 / k - series)
    angle = 2.0 * (half - half * series)
    return math.copysign(math.pi / 2, x) - angle if inverted else angle


def erfc(x: float) -> float:
    """Return the complementary error function with a relative error of 2e-15.

    Near 0 it sums the series of the error function, elsewhere it uses a continued fraction.

    References
    ----------
    Abramowitz & Stegun (1964), 7.1.6 and 7.1.14.
    """
    if math.isnan(x):
        return x
    if x < 0:
        return 2.0 - erfc(-x)
    if x > 28:
        return 0.0
    # exp(-x^2), the square of the first 24 bits being exact.
    short = float(np.float32(x))
    density = exp(-short * short) * exp((short - x) * (short + x)) / math.sqrt(math.pi)
    if x < 0.5:
        total, term, k = 0.0, 2.0 * x, 1
        while term > 1e-17 * total:
            total += term
            k += 2
            term *= 2.0 * x * x / k
        return 1.0 - density * total
    below = x
    for k in range(10 + int(190 / (x * x)), 0, -1):
        below = x + 0.5 * k / below
    return density / below


#: Numerators and denominators of the normal quantile in the middle, in the tails and in the far
#: tails; the highest power comes first.
# fmt: off
MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)
TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0),
)
FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
     5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)
# fmt: on


def inverse_normal(p: float) -> float:
    """Return the quantile of the standard normal distribution; p in ]0, 1[.

    References
    ----------
    Wichura (1988), Algorithm AS 241, doi:10.2307/2347330.
    """
    q = p - 0.5
    if abs(q) <= 0.425:
        above, below = (polynomial(row, 0.180625 - q * q) for row in MIDDLE)
        return above * q / below
    r = math.sqrt(-log(p if q <= 0 else 1.0 - p))
    coefficients, r = (TAIL, r - 1.6) if r <= 5 else (FAR_TAIL, r - 5)
    above, below = (polynomial(row, r) for row in coefficients)
    return math.copysign(above / below, q)


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Return the value of a polynomial, or of each number of an array."""
    total = 0.0
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


def _each(function: int, values: np.ndarray) -> np.ndarray:
    flat = frozen(np.ascontiguousarray(values, np.float64).reshape(-1))
    out = np.empty(len(flat))
    cache_bits, cache_values = np.full((2, _CACHE_SIZE), np.nan)
    _values(function, flat, flat.view(np.int64), cache_bits.view(np.int64), cache_values, out)
    return out.reshape(np.shape(values))


@kernel
def two_sum(a, b):  # type: ignore[no-untyped-def]
    """Return the sum of two doubles and its rounding error."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@kernel
def two_product(a, b):  # type: ignore[no-untyped-def]
    """Return the product of two doubles below 2**996 and its rounding error."""
    product = a * b
    scaled = _SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = _SPLITTER * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def _logarithm(f, rest, power):  # type: ignore[no-untyped-def]
    """Return ln((1 + f + rest) 2**power) as two doubles.

    f lies in ]-0.3, 0.42[, rest is far below 1.
    """
    # ln(1 + f) = 2 s (1 + z / 3 + z^2 / 5 + ...) with s = f / (2 + f) and z = s^2 < 0.0295.
    below, below_rest = two_sum(2.0, f)
    s = f / below
    product, product_rest = two_product(s, below)
    s_rest = (((f - product) - product_rest) + rest - s * (below_rest + rest)) / below
    z, z_rest = two_product(s, s)
    z_rest += 2.0 * s * s_rest
    square = z * z
    fourth = square * square
    series = (1.0 / 5.0 + z * (1.0 / 7.0)) + square * (1.0 / 9.0 + z * (1.0 / 11.0))
    more = (1.0 / 13.0 + z * (1.0 / 15.0)) + square * (1.0 / 17.0 + z * (1.0 / 19.0))
    last = (1.0 / 21.0 + z * (1.0 / 23.0)) + square * (1.0 / 25.0 + z * (1.0 / 27.0))
    series += fourth * (more + fourth * last)
    first, first_rest = two_product(z, _THIRD)
    first_rest += z_rest * _THIRD + z * _THIRD_LOW
    more, more_rest = two_sum(first, square * series)
    more_rest += first_rest
    tail, tail_rest = two_product(s, more)
    tail_rest += s * more_rest + s_rest * more
    total, error = two_sum(power * _LN2_SHORT, 2.0 * s)
    total, error_more = two_sum(total, 2.0 * tail)
    return two_sum(total, (error + error_more) + 2.0 * (s_rest + tail_rest) + power * _LN2_REST)


@kernel
def _exponential(x, rest, scale):  # type: ignore[no-untyped-def]
    """Return exp(x + rest) 2**scale.

    x lies between -746 and 710, scale between -1076 and 1024.
    """
    power = np.rint(x * _LOG2E_HIGH)
    r, r_rest = two_sum(x - power * _LN2_SHORT, rest - power * _LN2_REST)
    # exp(r) - 1 by three squarings of 1 + exp(r / 8) - 1.
    r *= 0.125
    r_rest *= 0.125
    second = r * r
    series = (1.0 / 4.0 + r * (1.0 / 20.0)) + second * (1.0 / 120.0 + r * (1.0 / 840.0))
    last = (1.0 / 6720.0 + r * (1.0 / 60480.0)) + second * (1.0 / 604800.0 + r * (1.0 / 6652800.0))
    series += second * second * last
    square, square_rest = two_product(r, r)
    square_rest += 2.0 * r * r_rest
    # 1/2 + r/6 + r^2/24 + ..., times r^2.
    sixth, sixth_rest = two_product(r, _SIXTH)
    sixth_rest += r_rest * _SIXTH + r * _SIXTH_LOW
    more, more_rest = two_sum(0.5, sixth)
    more_rest += sixth_rest + r * sixth * series
    product, product_rest = two_product(square, more)
    product_rest += square * more_rest + square_rest * more
    e, e_rest = two_sum(r, product)
    # After this sum e_rest is so small that its square can be dropped.
    e, e_rest = two_sum(e, e_rest + r_rest + product_rest)
    for _ in range(3):
        square, square_rest = two_product(e, e)
        square_rest += 2.0 * e * e_rest
        e, error = two_sum(2.0 * e, square)
        e_rest = 2.0 * e_rest + square_rest + error
    total, error = two_sum(1.0, e)
    total += error + e_rest
    # Scale in two steps, because 2**1024 and 2**-1075 are no doubles.
    up = int(power) + scale
    if -1000 < up < 1000:
        return math.ldexp(total, up)
    return math.ldexp(math.ldexp(total, up // 2), up - up // 2)


@kernel
def elementary(function, x):  # type: ignore[no-untyped-def]
    """Return the value of a function, by its code; NaN of NaN."""
    if x != x:
        return x
    if function == EXP:
        if x > _MAX_EXPONENT:
            return np.inf
        if x < -746.0:
            return 0.0
        return _exponential(x, 0.0, 0)
    if function == EXP2:
        if x >= 1024.0:
            return np.inf
        if x < -1076.0:
            return 0.0
        power = np.rint(x)
        if x == power:
            return math.ldexp(1.0, int(power))
        product, rest = two_product(x - power, _LN2_HIGH)
        return _exponential(product, rest + (x - power) * _LN2_LOW, int(power))
    rest = 0.0
    near = function == LOG1P and abs(x) < 0.25
    if near and abs(x) < 2.0**-54:
        return x
    if function == LOG1P and not near and x < np.inf:
        x, rest = two_sum(1.0, x)
    if not near and (x <= 0.0 or x == np.inf):
        return x if x > 0.0 else -np.inf if x == 0.0 else np.nan
    power = 0
    if not near:
        x, power = math.frexp(x)
        if x < _SQRT_HALF:
            x *= 2.0
            power -= 1
        x -= 1.0
        rest = math.ldexp(rest, -power)
    high, low = _logarithm(x, rest, power)
    if function == LOG2:
        product, product_rest = two_product(high, _LOG2E_HIGH)
        return product + (product_rest + high * _LOG2E_LOW + low * _LOG2E_HIGH)
    return high + low


@kernel
def _values(function, values, bits, cache_bits, cache_values, out):  # type: ignore[no-untyped-def]
    """Compute a function of each value; a cache serves repeated grades.

    The bits of a value choose its slot of the cache.
    """
    for i in range(values.shape[0]):
        folded = (bits[i] ^ (bits[i] >> 32)) & 0x7FFFFFFF
        slot = (folded * 0x2E3779B1) >> 26 & (_CACHE_SIZE - 1)
        if cache_bits[slot] != bits[i]:
            cache_bits[slot] = bits[i]
            cache_values[slot] = elementary(function, values[i])
        out[i] = cache_values[slot]


@kernel
def _powers(base, out):  # type: ignore[no-untyped-def]
    high = 1.0
    low = 0.0
    for i in range(out.shape[0]):
        out[i] = high
        product, rest = two_product(high, base)
        high, low = two_sum(product, rest + low * base)
