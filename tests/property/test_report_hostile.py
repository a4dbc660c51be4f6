"""Whatever a server, a file or a user put into a summary, the screen stays whole."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.model import Layer, Outcome, Resource
from loadgen.report.escape import cells
from loadgen.report.layout import paragraph, set_table
from loadgen.report.live import Live, live_line, live_view
from loadgen.report.model import build
from loadgen.report.screen import Screen, to_text
from loadgen.report.table import Column, Row, Table
from loadgen.report.terminal import report_text

nasty = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "\x1b[2J\x1b]0;owned\x07",
            "[bold red]x[/] :boom: \\[",
            "a\nVerdict: VALID\r\n",
            "\u202egnp\u2066",
            "e" + "\u0301" * 50,
            "漢" * 90,
            "\ud800\x00\x9b",
            "x" * 5000,
            "",
        ]
    ),
)
sizes = st.integers(min_value=0, max_value=10**9)
seconds = st.none() | st.floats(min_value=0, max_value=1e6)
screens = st.builds(
    Screen, width=st.integers(60, 120), utf8=st.booleans(), moving=st.booleans()
)


def named(
    known: type[StrEnum], values: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    names = st.sampled_from(list(known)).map(str) | nasty
    return st.dictionaries(names, values, max_size=5)


spreads = st.fixed_dictionaries(
    {"n": sizes, "n_missing": sizes, "p50": seconds, "p95": seconds, "p99": seconds}
)
latencies = st.dictionaries(
    st.sampled_from(["ttft_s", "itl_s", "tpot_s", "e2e_s", "time_to_reject_s"]), spreads
)
goodputs = st.fixed_dictionaries(
    {
        "slo": st.dictionaries(
            st.sampled_from(["ttft_s", "tpot_s", "e2e_s"]), st.floats(1e-6, 1e3)
        ),
        "good": sizes,
        "offered": sizes,
        "ci95": st.none() | st.tuples(st.floats(0, 1), st.floats(0, 1)),
        "rate_rps": seconds,
        "scope": nasty,
    }
)
groups = st.fixed_dictionaries(
    {
        "offered": sizes,
        "outcomes": named(Outcome, sizes),
        "latency": latencies,
        "goodput": goodputs,
    }
)
rejections = st.fixed_dictionaries(
    {
        "layer": st.sampled_from(list(Layer)).map(str) | nasty,
        "limiting_resource": st.sampled_from(list(Resource)).map(str) | nasty,
        "unit": nasty,
        "count": sizes,
        "by_outcome": named(Outcome, sizes),
        "by_group": st.dictionaries(nasty, sizes, max_size=3),
        "statuses": st.dictionaries(nasty, sizes, max_size=3),
        "accepted": nasty,
        "evidence": st.lists(nasty, max_size=4),
        "confidence": nasty,
        "prompt_tokens": st.fixed_dictionaries(
            {
                "by_source": st.dictionaries(
                    nasty,
                    st.just({"min": 3, "per_request": {"n": 2, "max": 9.0}}),
                    max_size=2,
                )
            }
        ),
    }
)
reasons = st.lists(
    st.fixed_dictionaries({"code": nasty, "text": nasty, "remedy": nasty}), max_size=3
)
summaries = st.fixed_dictionaries(
    {
        "basis": nasty,
        "run": st.fixed_dictionaries({"name": nasty}),
        "verdict": st.fixed_dictionaries(
            {"status": nasty | st.none(), "reasons": reasons, "warnings": reasons}
        ),
        "offered": st.fixed_dictionaries(
            {"requests": sizes, "duration_s": st.floats(0, 1e6), "rate_rps": seconds}
        ),
        "outcomes": named(Outcome, sizes),
        "rejections": st.lists(rejections, max_size=3),
        "latency": latencies,
        "groups": st.dictionaries(nasty, groups, max_size=4),
        "goodput": goodputs,
        "fairness": st.none()
        | st.fixed_dictionaries(
            {"tenants": st.dictionaries(nasty, st.just({"offered": 3}), max_size=3)}
        ),
        "client": st.fixed_dictionaries(
            {"receive_clock": nasty, "stopped": nasty, "send_lag_s": spreads}
        ),
        "findings": st.lists(
            st.fixed_dictionaries({"text": nasty, "code": nasty, "first_seq": sizes}),
            max_size=3,
        ),
        "reconciliation": st.none()
        | st.dictionaries(
            st.sampled_from(["engine", "difference", "finding", "status", "findings"]),
            nasty | sizes | st.dictionaries(nasty, nasty | sizes, max_size=3),
        ),
    }
)
manifests = st.fixed_dictionaries(
    {
        "name": nasty,
        "command": st.lists(nasty, max_size=4),
        "target": st.fixed_dictionaries({"url": nasty | sizes}),
        "config": st.fixed_dictionaries({"metrics_url": st.none()}),
    }
)


@settings(max_examples=60, deadline=None)
@given(summaries, manifests, nasty, screens)
def test_a_report_is_lines_that_fit_and_nothing_else(
    summary: dict[str, Any], manifest: dict[str, Any], folder: str, screen: Screen
) -> None:
    report = build(summary, manifest, folder)
    shown = report_text(report, screen)
    commands = {screen.text(step.command) for step in report.steps}
    assert shown.endswith("\n")
    assert screen.utf8 or shown.isascii()
    for line in shown.removesuffix("\n").split("\n"):
        assert line.isprintable()
        assert cells(line) <= screen.width or line.strip() in commands


@settings(max_examples=25, deadline=None)
@given(summaries, screens)
def test_colour_is_the_only_command_sent(
    summary: dict[str, Any], screen: Screen
) -> None:
    bold = Screen(width=screen.width, utf8=screen.utf8, colour=True)
    shown = report_text(build(summary), bold)
    without = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert without.replace("\n", "").isprintable()


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        Live,
        name=nasty,
        target=nasty,
        basis=nasty,
        offered=sizes,
        duration_ns=sizes,
        elapsed_ns=st.integers(-(10**10), 10**15),
        counters=st.dictionaries(
            st.sampled_from(["due", "sent", "in_flight", "outcome_ok", "ttft_count"]),
            sizes,
        ),
        lost_by_layer=named(Layer, sizes),
    ),
    screens,
)
def test_the_live_view_stays_in_its_place(live: Live, screen: Screen) -> None:
    view = to_text(live_view(live, screen), screen)
    assert view.count("\n") == 6
    for line in [*view.removesuffix("\n").split("\n"), live_line(live, screen)]:
        assert line.isprintable()
        assert screen.utf8 or line.isascii()
    assert all(cells(line) <= screen.width for line in view.split("\n"))


@given(nasty, screens, st.integers(0, 8))
def test_a_paragraph_keeps_its_words_and_its_width(
    text: str, screen: Screen, indent: int
) -> None:
    clean = " ".join(word for word in text.split() if word.isascii())
    lines = paragraph(clean, screen, indent=" " * indent)
    assert all(cells(line) <= screen.width for line in lines)
    assert "".join("".join(lines).split()) == "".join(clean.split())


@given(
    st.lists(
        st.tuples(st.text(alphabet="abc ", max_size=50), st.text("012", max_size=30)),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 9),
    screens,
)
def test_a_table_of_any_width_fits_and_shows_every_cell(
    rows: list[tuple[str, str]], columns: int, screen: Screen
) -> None:
    table = Table(
        "Title",
        tuple(Column(f"c{at}") for at in range(columns)),
        tuple(Row(label.strip(), (cell,) * columns) for label, cell in rows),
    )
    lines = [line.text for line in set_table(table, "", screen)]
    assert all(cells(line) <= screen.width for line in lines)
    joined = "\n".join(lines)
    assert all(f"c{at}" in joined for at in range(columns))
    assert all(joined.count(cell) >= columns for _, cell in rows if cell)
