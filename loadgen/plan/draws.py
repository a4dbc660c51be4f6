"""Random numbers that are the same on every machine, Python and numpy.

A stream is a key (SHA-256 of seed and name) and a counter; draw ``i`` is the
SplitMix64 output of counter ``i``, so draws can be made in any order and in any
chunk. Everything else is built from operations that IEEE 754 defines to the last
bit: + - * / sqrt, exact scaling, rounding. ``np.log`` and ``np.exp`` are not among
them (their last bit changes with the CPU), so they are written out here.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Ints", "Stream", "Words", "exponential", "gamma"]

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_WEYL = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_LN2 = 0.6931471805599453
#: The same in two parts: a whole number of up to 20 bits times the first is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_SQRT_HALF = 0.7071067811865476
#: Draws set aside for one gamma variate; 340 rejections in a row do not happen.
_SLOTS = 1024
_BOOST_SLOT = _SLOTS - 1


class Stream:
    """An endless sequence of 64-bit words, addressed by counter.

    Args:
        seed: the user's seed, any integer.
        name: what the draws are for; streams of other names are independent, so
            that more prompts never shift an arrival.
    """

    def __init__(self, seed: int, name: str) -> None:
        digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "little")

    def at(self, counters: Words) -> Words:
        """The words of these counters; distinct counters give distinct words."""
        word = counters * np.uint64(_WEYL) + np.uint64((self._key + _WEYL) & _MASK)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return word ^ (word >> np.uint64(31))

    def words(self, start: int, count: int) -> Words:
        """The words of ``count`` counters from ``start`` on."""
        return self.at(np.arange(start, start + count, dtype=np.uint64))

    def unit(self, start: int, count: int) -> Floats:
        """Uniform numbers in [0, 1), multiples of 2^-53."""
        return _unit(self.words(start, count))

    def below(self, bound: int | Ints, start: int, count: int) -> Ints:
        """Integers in [0, bound), bound at most 2^31; bias at most 2^-32 a value."""
        high = (self.words(start, count) >> np.uint64(32)).astype(np.int64)
        return high * bound >> 32


def exponential(stream: Stream, start: int, count: int) -> Floats:
    """Exponential variates ``start`` to ``start + count``, mean 1."""
    return -_log(1.0 - stream.unit(start, count))


def gamma(stream: Stream, shape: float, start: int, count: int) -> Floats:
    """Gamma variates ``start`` to ``start + count``, mean 1, CV 1/sqrt(shape).

    Marsaglia and Tsang (2000) on normals by the polar method; a shape below 1 is
    drawn at shape + 1 and scaled by U^(1/shape), as they propose.
    """
    base = np.arange(start, start + count, dtype=np.uint64) * np.uint64(_SLOTS)
    boosted = shape if shape >= 1 else shape + 1
    variate = _marsaglia_tsang(stream, boosted, base)
    if shape < 1:
        unit = _unit(stream.at(base + np.uint64(_BOOST_SLOT)))
        variate *= _exp(_log(1.0 - unit) / shape)
    return variate / shape


def _marsaglia_tsang(stream: Stream, shape: float, base: Words) -> Floats:
    d = shape - 1 / 3
    c = 1 / np.sqrt(9 * d)
    result = np.zeros(len(base))
    pending = np.arange(len(base))
    for slot in range(0, _BOOST_SLOT, 3):
        counters = base[pending] + np.uint64(slot)
        u = 2 * _unit(stream.at(counters)) - 1
        v = 2 * _unit(stream.at(counters + np.uint64(1))) - 1
        accept = 1.0 - _unit(stream.at(counters + np.uint64(2)))
        square = u * u + v * v
        inside = (square > 0) & (square < 1)
        safe = np.where(inside, square, 0.5)
        normal = u * np.sqrt(-2 * _log(safe) / safe)
        root = 1 + c * normal
        inside &= root > 0
        cube = np.where(inside, root * root * root, 1.0)
        bound = 0.5 * normal * normal + d - d * cube + d * _log(cube)
        taken = inside & (_log(accept) < bound)
        result[pending[taken]] = d * cube[taken]
        pending = pending[~taken]
        if not len(pending):
            break
    return result


def _unit(words: Words) -> Floats:
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _log(x: Floats) -> Floats:
    """Natural logarithm of normal numbers above 0, to about 2 units in the last place.

    With x = m 2^e and m in [sqrt(1/2), sqrt(2)): log x = e log 2 + 2 atanh(s),
    s = (m - 1)/(m + 1), by the series of atanh.
    """
    mantissa, exponent = np.frexp(x)
    low = mantissa < _SQRT_HALF
    mantissa = np.where(low, 2 * mantissa, mantissa)
    s = (mantissa - 1) / (mantissa + 1)
    square = s * s
    series = np.zeros_like(s)
    for power in range(23, 0, -2):
        series = series * square + 1.0 / power
    logarithm: Floats = (exponent - low) * _LN2 + 2 * s * series
    return logarithm


def _exp(x: Floats) -> Floats:
    """Exponential of numbers up to 0, likewise; below -700 it is 0."""
    whole = np.rint(x / _LN2)
    rest = x - whole * _LN2_HIGH - whole * _LN2_LOW
    series = np.ones_like(x)
    for term in range(14, 0, -1):
        series = 1.0 + series * rest / term
    powers = np.maximum(whole, -1022).astype(np.int32)
    return np.where(x < -700, 0.0, np.ldexp(series, powers))
