"""A page of /metrics taken apart: what is known on it, and what could not be read.

Only lines of wanted series reach the parser: a page may be long, and a line that
nobody wants may be broken without harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import (
    text_string_to_metric_families as parse_prometheus,
)

from loadgen.telemetry.vocabulary import base_name, family_name

__all__ = ["ACCEPT", "NotMetricsError", "Page", "Point", "read_page"]

ACCEPT = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5"
MAX_LINE_BYTES = 16 << 10
MAX_LINES = 20_000
MAX_NAMES = 5_000
MAX_FLAWS = 5

_NO_METRIC = (ValueError, LookupError, TypeError, AttributeError)


class NotMetricsError(Exception):
    """An answer that is no page of metrics, in two or three words."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """One row of a series; ``value`` is None where it is not a finite number."""

    name: str
    labels: dict[str, str]
    value: float | None

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What makes it the same row in another scrape."""
        return base_name(self.name), tuple(sorted(self.labels.items()))


@dataclass(slots=True)
class Page:
    """What a page holds.

    Attributes:
        points: rows of the wanted series.
        names: base names of every series on the page, wanted or not.
        flaws: wanted lines that could not be read, a few of them in words.
    """

    points: list[Point] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    flaws: list[str] = field(default_factory=list)

    def flaw(self, words: str) -> None:
        if len(self.flaws) < MAX_FLAWS:
            self.flaws.append(words)
        elif len(self.flaws) == MAX_FLAWS:
            self.flaws.append("more of the kind, not listed")


def read_page(body: bytes, content_type: str, wanted: frozenset[str]) -> Page:
    """Read a page in the Prometheus or the OpenMetrics text format.

    Args:
        body: the page, whole.
        content_type: its header; decides the format.
        wanted: base names to keep; see ``vocabulary.base_name``.

    Raises:
        NotMetricsError: it is HTML, binary or otherwise no page of metrics.
    """
    if body.lstrip()[:1] == b"<":
        raise NotMetricsError("an HTML page")
    if b"\0" in body:
        raise NotMetricsError("binary")
    page = Page()
    open_metrics = "openmetrics" in content_type.lower()
    kept = list(_wanted_lines(body, wanted, page))
    if not page.names and body.strip() and not body.lstrip().startswith(b"#"):
        raise NotMetricsError("not metrics")
    page.points += _points(kept, open_metrics, page)
    return page


def _wanted_lines(body: bytes, wanted: frozenset[str], page: Page) -> Iterator[str]:
    lines = body.split(b"\n")
    torn = lines.pop()
    if torn.strip() and not torn.startswith(b"#"):
        page.flaw(f"the last line is torn and was left out: {_quoted(torn)}")
    kept = 0
    for line in lines:
        comment = line.startswith(b"#")
        name = _name_in(line, comment)
        if not name:
            continue
        if not comment and len(page.names) < MAX_NAMES:
            page.names.add(base_name(name))
        if family_name(name) not in wanted and base_name(name) not in wanted:
            continue
        if comment and not line.startswith(b"# TYPE"):
            continue
        kept += 1
        if kept > MAX_LINES:
            page.flaw(f"more than {MAX_LINES:,} wanted lines; the rest was left out")
            return
        if len(line) > MAX_LINE_BYTES:
            page.flaw(f"a line of {len(line):,} bytes was left out")
            continue
        yield line.decode("utf-8", "replace").strip()


def _name_in(line: bytes, comment: bool) -> str:
    """The name a line is about; empty when it is about none."""
    head = line[:512]
    if comment:
        words = head.split(None, 3)
        name = words[2] if len(words) > 3 and words[1] == b"TYPE" else b""
    else:
        words = head.partition(b"{")[0].split(None, 1)
        name = words[0] if words else b""
    text = name.decode("utf-8", "replace")
    return text if text.replace(":", "_").isidentifier() and text.isascii() else ""


def _points(lines: list[str], open_metrics: bool, page: Page) -> Iterator[Point]:
    parse: Callable[[str], Iterable[Metric]]
    parse = parse_openmetrics if open_metrics else parse_prometheus
    end = "\n# EOF\n" if open_metrics else "\n"
    try:
        families = list(parse("\n".join(lines) + end))
    except _NO_METRIC:
        families = list(_one_by_one(lines, parse, end, page))
    for family in families:
        for sample in family.samples:
            value = float(sample.value)
            finite = value if math.isfinite(value) else None
            yield Point(sample.name, dict(sample.labels), finite)


def _one_by_one(
    lines: list[str], parse: Callable[[str], Iterable[Metric]], end: str, page: Page
) -> Iterator[Metric]:
    """As much as can be read, where one line spoils the page."""
    for line in lines:
        if line.startswith("#"):
            continue
        try:
            yield from list(parse(line + end))
        except _NO_METRIC:
            page.flaw(f"a line cannot be read: {_quoted(line.encode())}")


def _quoted(line: bytes) -> str:
    return repr(line[:120].decode("utf-8", "replace"))
