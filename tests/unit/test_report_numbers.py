"""A number on the screen says what it is and nothing else."""

from __future__ import annotations

import pytest

from loadgen.report.numbers import count, durations, interval, rate, seconds, share


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (0, 40, "0%"),
        (40, 40, "100%"),
        (15, 40, "38%"),
        (8, 40, "20%"),
        (1, 40, "2.5%"),
        (1, 100, "1%"),
        (5, 18_000, "0.028%"),  # five failures never read as none
        (1, 1_000_000, "0.0001%"),
        (995, 1000, "99.5%"),
        (9_999, 10_000, "99.99%"),  # one loss never reads as none
        (0, 0, "-"),
    ],
)
def test_share(part: int, whole: int, shown: str) -> None:
    assert share(part, whole) == shown


@pytest.mark.parametrize(
    ("value_s", "shown"),
    [
        (None, "-"),
        (0.0, "0 s"),
        (0.312_4, "312 ms"),
        (1.8149, "1.81 s"),
        (36.73, "36.7 s"),
        (616.0, "616 s"),
        (12_345.6, "12,346 s"),
        (0.000_172, "172 us"),
        (0.9996, "1 s"),
        (2.0, "2 s"),
        (0.000_000_4, "0.4 us"),
    ],
)
def test_seconds(value_s: float | None, shown: str) -> None:
    assert seconds(value_s) == shown


def test_durations_share_one_unit() -> None:
    assert durations([0.312, 1.81, None, 0.0004]) == (
        "s",
        ["0.3120", "1.8100", "-", "0.0004"],
    )
    assert durations([0.0251, 0.031]) == ("ms", ["25.1", "31.0"])
    assert durations([]) == ("s", [])


def test_interval_rate_and_count() -> None:
    assert interval([0.0706, 0.2907]) == "7.1% to 29%"
    assert interval([0.0, 1.0]) == "0% to 100%"
    assert interval(None) == "-"
    assert rate(20.0) == "20/s"
    assert rate(None) == "-"
    assert count(1_234_567) == "1,234,567"
    assert count(None) == "-"
