"""Draws are the same bytes everywhere, and distributed as they say."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import stats

from loadgen.plan.draws import Floats, Stream, exponential, gamma


def digest(values: Floats) -> str:
    return hashlib.sha256(values.astype("<f8").tobytes()).hexdigest()[:16]


def test_words_are_splitmix64_of_the_counter() -> None:
    """The reference sequence of seed 0, as its author publishes it."""
    stream = Stream(0, "any")
    stream._key = 0
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert stream.words(0, 3).tolist() == expected


def test_golden_draws() -> None:
    stream = Stream(7, "golden")
    assert stream.words(0, 2).tolist() == WORDS
    assert {
        "unit": digest(stream.unit(0, 10_000)),
        "exponential": digest(exponential(stream, 0, 10_000)),
        "gamma 0.1": digest(gamma(stream, 0.1, 0, 10_000)),
        "gamma 0.5": digest(gamma(stream, 0.5, 0, 10_000)),
        "gamma 4": digest(gamma(stream, 4.0, 0, 10_000)),
    } == GOLDEN


def test_draws_do_not_depend_on_the_chunks() -> None:
    stream = Stream(7, "chunks")
    whole = gamma(stream, 0.7, 0, 100)
    parts = [gamma(stream, 0.7, start, 10) for start in range(0, 100, 10)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_streams_differ_by_seed_and_by_name() -> None:
    streams = [Stream(seed, name) for seed in (0, 1, -1) for name in ("a", "b")]
    assert len({int(stream.words(0, 1)[0]) for stream in streams}) == len(streams)


@pytest.mark.parametrize("shape", [0.05, 0.5, 0.99, 1.0, 2.0, 50.0])
def test_gamma_is_gamma(shape: float) -> None:
    drawn = gamma(Stream(3, "gamma"), shape, 0, 20_000)
    fit = stats.kstest(drawn, stats.gamma(shape, scale=1 / shape).cdf)
    assert fit.pvalue > 1e-3


def test_exponential_is_exponential_and_below_is_even() -> None:
    stream = Stream(3, "exponential")
    fit = stats.kstest(exponential(stream, 0, 20_000), stats.expon.cdf)
    assert fit.pvalue > 1e-3
    counts = np.bincount(stream.below(10, 0, 20_000), minlength=10)
    assert stats.chisquare(counts).pvalue > 1e-3


WORDS = [11763253995636633870, 677290227533846354]
GOLDEN = {
    "unit": "9f1ea90cc938a2eb",
    "exponential": "8a12ae4d7bf0002a",
    "gamma 0.1": "be7aa5b30a8b02ce",
    "gamma 0.5": "69c8d737e594af90",
    "gamma 4": "3411fb8b49a49fc5",
}
