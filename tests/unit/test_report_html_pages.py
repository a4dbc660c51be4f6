"""What a page says, in which order, and how large it may become."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import pytest

from loadgen.analysis.curve import SweepSummary
from loadgen.report.html.blocks import Figure, Page, TableBlock
from loadgen.report.html.render import page_html
from loadgen.report.html.run_page import Pictured, run_page
from loadgen.report.html.several_page import several_page
from loadgen.report.html.style import CSS
from loadgen.report.html.sweep_page import sweep_page
from loadgen.report.html.variants_page import variants_page
from loadgen.report.model import build
from loadgen.report.plots.chart import Curve, Tone
from loadgen.report.several import build_several
from loadgen.report.tracks import Track
from tests.report_runs import exported, mixed, reduced
from tests.runs import answered
from tests.sweeps import grid, part, point_run, spoilt, swept
from tests.variants import side_by_side

SWEEP = swept(grid({2.0: [100, 99, 100], 4.0: [90, 85, 95], 8.0: [30, 20, 25]}))


def page(records: Sequence[object] | None = None, **pictured: object) -> Page:
    run = exported(records)  # type: ignore[arg-type]
    drawn = Pictured(reduced=reduced(run), **pictured)  # type: ignore[arg-type]
    return run_page(run.summary, run.manifest, drawn, "results/by-hand")


def words(html: str) -> str:
    body = html.partition("<main>")[2]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def test_verdict_and_headline_come_before_any_picture() -> None:
    html = page_html(page())
    verdict, headline = html.index("Verdict: VALID"), html.index("40 requests offered")
    assert verdict < headline < html.index("<svg")


def test_the_page_says_what_the_terminal_says() -> None:
    """Every cell and note of every table, the warnings and the findings."""
    run = exported()
    report = build(run.summary, run.manifest, "results/by-hand")
    shown = words(page_html(page())).replace("&#x27;", "'").replace("&quot;", '"')
    shown = shown.replace("&lt;", "<").replace("&gt;", ">")
    said = [report.headline, report.verdict, *report.findings, *report.reconciliation]
    for table in report.tables:
        said += [table.title, *table.notes]
        for row in table.rows:
            said += [row.label, *row.cells, *row.below]
    for text in said:
        assert re.sub(r"\s+", " ", text).strip() in shown


def test_a_stand_in_is_named_in_every_heading() -> None:
    run = exported()
    summary = msgspec.structs.replace(run.summary, basis="stand-in")
    html = page_html(run_page(summary, run.manifest, Pictured(reduced=reduced(run))))
    headings = re.findall(r"<h[12]>(.*?)</h[12]>", html)
    assert len(headings) >= 6
    assert all("[stand-in]" in heading for heading in headings)
    assert "A stand-in engine answered" in html


def test_the_page_needs_nothing_from_elsewhere() -> None:
    html = page_html(page())
    assert "default-src 'none'" in html.replace("&#x27;", "'")
    for fetched in ("<script", "<img", "<iframe", "@import", "url(", "src="):
        assert fetched not in html
    assert re.findall(r'href="([^"]*)"', html) == ["data:,"]


def test_what_was_not_measured_is_said_and_not_drawn() -> None:
    bare = page(not_measured=["GPU memory (no library)"])
    assert "not measured: GPU memory (no library)" in words(page_html(bare))
    assert "GPU memory in use" not in page_html(bare)
    track = Track("memory", "GPU 0", ((0.0, 1.0), (1.0, 2.0)))
    assert "GPU memory in use" in page_html(page(tracks=[track]))


def test_the_target_is_drawn_where_it_was_asked_for() -> None:
    assert "target 200 ms" in words(page_html(page()))


def test_a_stranger_can_repeat_the_run() -> None:
    shown = words(page_html(page()))
    for fact in ("0.33.0", "tiny", "sha256:00", "seed 7", "loadgen replay", "constant"):
        assert fact in shown


def test_the_page_of_a_run_without_records_has_no_pictures() -> None:
    run = exported()
    html = page_html(run_page(run.summary, None, Pictured(reduced=None)))
    assert "<svg" not in html
    assert "What became of the requests" in html


def test_a_long_run_s_page_is_as_small_as_a_short_one_s() -> None:
    short = page_html(page(mixed(400)))
    long = page_html(page(mixed(20_000)))
    assert len(long) < 1.5 * len(short)
    assert long.count("<path") < 150


def test_every_figure_has_its_numbers_beside_it() -> None:
    """For whoever cannot see the pictures: a table folded away, or one below."""
    for section in page().sections:
        pictures = [one for one in section.blocks if isinstance(one, Figure)]
        told = any(picture.table for picture in pictures)
        assert (
            not pictures
            or told
            or any(isinstance(one, TableBlock) for one in section.blocks)
        )


@pytest.mark.parametrize("tone", Tone)
def test_every_colour_has_a_rule_for_light_and_dark(tone: Tone) -> None:
    light, _, dark = CSS.partition("prefers-color-scheme:dark")
    assert f"--{tone}:#" in light
    assert f"--{tone}:#" in dark
    assert f".f-{tone}{{" in CSS
    assert f".l-{tone}{{" in CSS


def test_a_sweep_leads_with_the_knee_and_draws_it() -> None:
    html = page_html(sweep_page(SWEEP, "results/sweep"))
    shown = words(html)
    assert html.index("Up to ") < html.index("<svg")
    assert "target 95%" in shown
    assert f"knee {SWEEP.knee.rate_rps:.3g}/s" in shown
    assert "loadgen report results/sweep/2rps-1" in shown


def test_a_load_without_a_usable_run_leaves_a_gap_in_the_curve() -> None:
    sweep = swept([*grid({2.0: [100, 99], 8.0: [30, 20]}), spoilt(4.0, 0)])
    figure = _figures(sweep_page(sweep))[0]
    curves = {
        mark.label: mark.points
        for mark in figure.panels[0].chart.marks
        if isinstance(mark, Curve)
    }
    assert dict(curves["good"])[4.0] is None


def _figures(page: Page) -> list[Figure]:
    blocks = [block for section in page.sections for block in section.blocks]
    return [block for block in blocks if isinstance(block, Figure)]


def test_groups_are_drawn_side_by_side() -> None:
    groups = {"short": part(50, 50), "long": part(10, 50)}
    sweep = swept([point_run(rate, 60, groups=groups) for rate in (2.0, 4.0)])
    assert "the share that was good" in words(page_html(sweep_page(sweep)))
    assert any("By group" in section.title for section in sweep_page(sweep).sections)


def test_a_sweep_of_a_hundred_rates_stays_small() -> None:
    goods = {float(rate): [100 - rate // 2] * 3 for rate in range(1, 101)}
    html = page_html(sweep_page(swept(grid(goods))))
    assert len(html) < 500_000


@pytest.mark.parametrize(
    ("goods", "said"),
    [
        ({2.0: [100, 100], 4.0: [100, 99]}, "the highest rate offered"),
        ({2.0: [10, 20], 4.0: [5, 6]}, "the lowest rate offered"),
        ({2.0: [100, 50]}, "knee"),
    ],
)
def test_a_sweep_without_a_knee_says_what_bound_it_has(
    goods: dict[float, list[int]], said: str
) -> None:
    assert said in words(page_html(sweep_page(swept(grid(goods)))))


def test_a_sweep_that_used_no_run_has_a_page_too() -> None:
    html = page_html(sweep_page(swept([spoilt(2.0), spoilt(4.0)])))
    assert "INVALID" in html
    assert "<svg" not in html


def test_variants_stand_beside_each_other() -> None:
    other = swept(grid({2.0: [100, 99, 100], 4.0: [50, 55, 45]}))
    both = side_by_side({"no cap": SWEEP, "cap 12": other, "broken": None})
    shown = words(page_html(variants_page(both)))
    assert "INCOMPLETE, 2 of 3" in shown
    assert "broken: it did not start" in shown
    assert shown.count("no cap") > 3


def test_several_runs_are_a_line_each() -> None:
    run = exported([answered(0, events_ms=[5])])
    several = build_several([("a/one", run.summary), ("a/two", run.summary)], [])
    shown = words(page_html(several_page(several, "0.1.0")))
    assert "VALID, all of them" in shown
    assert "all were offered the same sealed schedule" in shown


def test_several_runs_tell_what_could_not_be_read_and_what_differs() -> None:
    run = exported([answered(0, events_ms=[5])])
    goodput = msgspec.structs.replace(run.summary.goodput, slo={})
    other = msgspec.structs.replace(run.summary, basis="stand-in", goodput=goodput)
    several = build_several(
        [("one", run.summary), ("two", other)], [("three", "is damaged")]
    )
    assert several.tag == ""
    assert not several.all_valid
    assert several.troubles == ("three: is damaged",)
    notes = " ".join(several.table.notes)
    assert "not all stand on the same basis" in notes
    assert "different targets" in notes


def test_the_sweeps_title_is_that_of_the_summary() -> None:
    summary: SweepSummary = SWEEP
    assert sweep_page(summary).title == "sweep-mixed, offered to http://127.0.0.1:8000"
