"""Whatever a server, a file or a user put into a run, its page stays a page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analysis.curve import SweepSummary
from loadgen.report.html.blocks import Page
from loadgen.report.html.render import page_html
from loadgen.report.html.run_page import Pictured, run_page
from loadgen.report.html.sweep_page import sweep_page
from loadgen.report.html.variants_page import variants_page
from loadgen.report.tracks import Track
from tests.hostile_summaries import manifests, nasty, summaries
from tests.report_runs import exported, mixed, reduced
from tests.sweeps import WHICH, grid, swept
from tests.variants import side_by_side

ELEMENTS = set(
    """html head meta link title style body main section div span i p h1 h2 h3 ul li dl
    dt dd figure table caption thead tbody tr th td details summary pre code footer
    svg g path text""".split()  # noqa: SIM905 - sixty quotes would hide the words
)
ATTRIBUTES = set(
    """lang charset http-equiv content name rel href class scope colspan tabindex role
    aria-label viewbox width height d x y text-anchor""".split()  # noqa: SIM905
)
OPEN_ENDED = frozenset({"meta", "link"})


class Reader(HTMLParser):
    """Reads a page as a browser would, and keeps what it is made of."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str | None] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name == "href"]
        self.texts += [value or "" for _, value in attrs]
        if tag not in OPEN_ENDED:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def read(page: Page) -> Reader:
    source = page_html(page)
    assert source.startswith("<!doctype html>\n")
    reader = Reader()
    reader.feed(source)
    reader.close()
    assert reader.open == []
    assert reader.elements <= ELEMENTS
    assert reader.attributes <= ATTRIBUTES
    assert reader.links == ["data:,"], "nothing is fetched, nothing leads away"
    for text in reader.texts:
        assert text.replace("\n", "").isprintable()
    return reader


@settings(max_examples=25, deadline=None)
@given(summaries, manifests, nasty, nasty)
def test_a_page_is_made_of_its_own_elements_only(
    summary: dict[str, Any],
    manifest: dict[str, Any],
    folder: str,
    group: str,
) -> None:
    records = [
        msgspec.structs.replace(one, group=group if one.seq % 2 else "other")
        for one in mixed(30)
    ]
    pictured = Pictured(
        reduced=reduced(exported(records)),
        tracks=[Track("running", "running", ((0.0, 1.0), (1.0, None)))],
        not_measured=(),
    )
    read(run_page(summary, manifest, pictured, folder))


@settings(max_examples=12, deadline=None)
@given(nasty, nasty, nasty, st.lists(nasty, max_size=3))
def test_a_sweep_is_no_less_safe(
    name: str, url: str, folder: str, words: list[str]
) -> None:
    sweep = _spoken(swept(grid({2.0: [100, 99], 4.0: [50, 40]})), name, url, words)
    read(sweep_page(sweep, folder))
    read(variants_page(side_by_side({name or "a": sweep, "b": sweep})))


def _spoken(sweep: SweepSummary, name: str, url: str, words: list[str]) -> SweepSummary:
    which = msgspec.structs.replace(
        WHICH, name=name, url=url, model=url, server_version=name, command=words
    )
    return msgspec.structs.replace(sweep, sweep=which, findings=words)
