"""Where things are drawn, and what an axis says."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.report.plots.chart import (
    Axis,
    Band,
    Bars,
    Chart,
    Curve,
    Dots,
    Mark,
    Rule,
    Span,
    Tone,
    Whiskers,
    group_tone,
)
from loadgen.report.plots.draw import draw, margins_of
from loadgen.report.plots.scales import Scale, step_above, ticks, top_above, written


def drawn(*marks: Mark, y: Axis | None = None, width: float = 400) -> str:
    chart = Chart(Axis(0, 10, "s"), y or Axis(0, 1, "share"), marks, 100)
    return draw(chart, width, named="a chart").source


@pytest.mark.parametrize(
    ("axis", "most", "shown"),
    [
        (Axis(0, 5.57, "s"), 6, ["0", "1 s", "2 s", "3 s", "4 s", "5 s"]),
        (Axis(0, 5.57, "s"), 2, ["0", "5 s"]),
        (Axis(0, 1, "share"), 6, ["0%", "20%", "40%", "60%", "80%", "100%"]),
        (Axis(0, 8, "count"), 5, ["0", "2", "4", "6", "8"]),
        (Axis(0, 1, "count"), 9, ["0", "1"]),
        (Axis(0, 100, "rate"), 3, ["0", "50/s", "100/s"]),
        (Axis(0, 80, "gib"), 5, ["0", "20 GiB", "40 GiB", "60 GiB", "80 GiB"]),
        (Axis(0.03, 5, "s", log=True), 4, ["100 ms", "1 s"]),
        (Axis(0.01, 1, "s", log=True), 9, ["10 ms", "20 ms", "50 ms", "100 ms"]),
        (Axis(1e-6, 1e6, "rate", log=True), 3, ["0.0001/s", "1/s", "10,000/s"]),
    ],
)
def test_an_axis_names_round_values(axis: Axis, most: int, shown: list[str]) -> None:
    found = [written(value, axis) for value in ticks(axis, most)]
    assert found[: len(shown)] == shown
    assert len(found) <= most


@given(
    st.floats(1e-6, 1e6),
    st.floats(1.01, 1e5),
    st.integers(2, 12),
    st.booleans(),
    st.sampled_from(["s", "share", "rate", "count"]),
)
def test_ticks_lie_on_their_axis(
    low: float, times: float, most: int, log: bool, kind: str
) -> None:
    axis = Axis(low if log else 0.0, low * times, kind, log=log)  # type: ignore[arg-type]
    found = ticks(axis, most)
    assert 1 <= len(found) <= most
    assert found == sorted(set(found))
    assert all(axis.low * 0.999 <= t <= axis.high * 1.001 for t in found)


@given(st.floats(1e-9, 1e9))
def test_a_round_value_above_is_not_far_above(value: float) -> None:
    assert value * 0.999 <= step_above(value) <= value * 2.6
    assert value * 0.999 <= top_above(value) <= value * 1.51


def test_beyond_the_axis_is_at_its_end() -> None:
    scale = Scale(Axis(1, 100, "s", log=True), 0, 200)
    assert [scale.at(v) for v in (0.1, 1, 10, 100, 1e9)] == [0, 0, 100, 200, 200]


def test_a_value_that_is_not_known_leaves_a_gap() -> None:
    source = drawn(Curve([(0, 0.5), (1, None), (2, 0.5), (3, 0.6)], tone=Tone.GOOD))
    (path,) = re.findall(r'd="([^"]*)" class="line l-good"', source)
    assert path.count("M") == 2
    assert path.count("L") == 1


def test_a_thousand_dots_are_one_element() -> None:
    few = drawn(Dots([(1, 0.5)]))
    many = drawn(Dots([(i / 100, 0.5) for i in range(1000)]))
    assert few.count("<path") == many.count("<path")


def test_bars_stand_on_one_another_and_none_is_drawn_for_zero() -> None:
    source = drawn(
        Bars(0, 1, [1, 0, 2], tone=Tone.GOOD),
        Bars(0, 1, [1, 1, 0], [1, 0, 2], tone=Tone.LATE),
        y=Axis(0, 4, "count"),
    )
    (good,) = re.findall(r'd="([^"]*)" class="f-good"', source)
    (late,) = re.findall(r'd="([^"]*)" class="f-late"', source)
    assert good.count("Z") == late.count("Z") == 2
    tops = [float(y) for y in re.findall(r"V([\d.]+)H", good)]
    feet = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)V", late)]
    assert feet[0] == tops[0], "the second begins where the first ends"


def test_labels_at_the_ends_of_lines_do_not_touch() -> None:
    curves = [Curve([(0, 0), (10, 0.99)], f"line {i}") for i in range(5)]
    source = drawn(*curves)
    places = [
        float(y)
        for y in re.findall(r'y="([\d.]+)" text-anchor="start" class="end', source)
    ]
    assert len(places) == 5
    assert all(b - a >= 13.9 for a, b in pairwise(places))
    assert max(places) <= 130


def test_every_mark_is_drawn_and_its_label_is_text() -> None:
    source = drawn(
        Band([(1, 0.2, 0.4), (2, 0.3, 0.5)], Tone.FIRST),
        Band([], Tone.SECOND),
        Whiskers([(1, 0.2, 0.4)], Tone.GOOD),
        Span(2, 3, Tone.LATE),
        Rule(0.5, "<target>"),
        Rule(5, "ends", upright=True),
    )
    for kind in ("band f-first", "whisker l-good", "band f-late", "rule"):
        assert f'class="{kind}"' in source
    assert "&lt;target&gt;" in source
    assert "<target>" not in source
    assert 'role="img"' in source
    assert "<title>a chart</title>" in source


def test_charts_below_one_another_share_their_margins() -> None:
    narrow = Chart(Axis(0, 1, "s"), Axis(0, 5, "count"), [])
    wide = Chart(Axis(0, 1, "s"), Axis(0, 1e6, "count"), [Curve([(0, 1)], "label")])
    both = margins_of([narrow, wide])
    assert both == margins_of([wide])
    assert both.left > margins_of([narrow]).left
    assert both.right > margins_of([narrow]).right


def test_colours_of_groups_come_round_again() -> None:
    assert group_tone(0) == group_tone(4) != group_tone(1)
