"""Pages of metrics, whole, torn, hostile and long."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.telemetry.exposition import (
    MAX_FLAWS,
    MAX_LINES,
    NotMetricsError,
    read_page,
)

WANTED = frozenset({"a", "b:c", "h"})


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Not here</body></html>",
        b"  \n<!doctype html>",
        b"\x1f\x8b\x08\x00binary",
        b"a 1\nb \x00 2\n",
        b'{"error": "no"}\n',
        b"\xff\xfe\xfd" * 1000 + b"\n",
    ],
)
def test_what_is_no_page_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(NotMetricsError):
        read_page(body, "text/plain", WANTED)


@pytest.mark.parametrize("body", [b"", b"\n\n", b"# nothing yet\n"])
def test_an_empty_page_is_a_page(body: bytes) -> None:
    assert read_page(body, "", WANTED).points == []


def test_half_a_line_is_not_a_number() -> None:
    """A cut ``12`` of ``1234`` would be read as 12: the torn line is left out."""
    page = read_page(b"a 1\nb:c 12", "", WANTED)
    assert [(point.name, point.value) for point in page.points] == [("a", 1)]
    assert "torn" in page.flaws[0]


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf"])
def test_what_is_not_finite_is_no_value(text: str) -> None:
    (point,) = read_page(f"a {text}\n".encode(), "", WANTED).points
    assert point.value is None


def test_a_broken_line_spoils_itself_alone() -> None:
    body = b'a{x="1"} 1\na{x="2} 2\na{x="3"} three\na{x="4"} 4\nz{"broken 9\n'
    page = read_page(body, "", WANTED)
    assert [point.value for point in page.points] == [1, 4]
    assert len(page.flaws) == 2


def test_flaws_are_told_a_few_times_only() -> None:
    page = read_page(b"a x\n" * 1000, "", WANTED)
    assert len(page.flaws) == MAX_FLAWS + 1


def test_unwanted_lines_never_reach_the_parser() -> None:
    body = b"z{ 1\n" * 100_000 + b"a 7\n"
    page = read_page(body, "", WANTED)
    assert [point.value for point in page.points] == [7]
    assert page.flaws == []


def test_a_page_of_endless_wanted_lines_is_cut() -> None:
    body = b"".join(b'a{x="%d"} 1\n' % i for i in range(MAX_LINES + 10))
    page = read_page(body, "", WANTED)
    assert len(page.points) == MAX_LINES
    assert "left out" in page.flaws[0]


def test_an_endless_line_is_left_out() -> None:
    body = b'a{x="' + b"y" * 1_000_000 + b'"} 1\na 2\n'
    page = read_page(body, "", WANTED)
    assert [point.value for point in page.points] == [2]


def test_created_stamps_are_no_counts() -> None:
    body = b"# TYPE a counter\na_total 5\na_created 1.7e+09\n"
    assert [point.value for point in read_page(body, "", WANTED).points] == [5]


def test_names_of_all_series_are_known_wanted_or_not() -> None:
    page = read_page(b"a_total 1\nz 2\nh_bucket 3\n", "", WANTED)
    assert page.names == {"a", "z", "h_bucket"}


text = st.text(alphabet='ab:c{}"\\,= #1e+.\n\tTYPEhist_bucketNaN', max_size=200)


@given(st.binary(max_size=300) | text.map(str.encode), st.booleans())
@settings(deadline=None)
def test_any_bytes_are_a_page_or_none(body: bytes, open_metrics: bool) -> None:
    kind = "application/openmetrics-text" if open_metrics else "text/plain"
    try:
        page = read_page(body, kind, WANTED)
    except NotMetricsError:
        return
    for point in page.points:
        assert point.value is None or math.isfinite(point.value)
