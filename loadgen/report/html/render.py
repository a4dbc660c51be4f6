"""A page written as one file that needs nothing else: no script, font or network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import assert_never

from loadgen.report.html.blocks import (
    Block,
    Commands,
    Facts,
    Figure,
    Page,
    Panel,
    Prose,
    Remarks,
    Section,
    TableBlock,
)
from loadgen.report.html.style import CSS
from loadgen.report.markup import EMPTY, Html, joined, style_sheet, tag
from loadgen.report.plots.draw import draw, margins_of
from loadgen.report.table import Column, Row, Table

__all__ = ["page_html"]

WIDE, HALF, NARROW = 880.0, 428.0, 356.0
"""Widths in pixels of the page, of half of it, and of a telephone's."""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def page_html(page: Page) -> str:
    """The whole document, ending in a newline."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{page.title}{page.basis_tag}"),
        style_sheet(CSS),
    )
    main = tag(
        "main",
        tag("p", page.kind, class_="kind"),
        tag("h1", page.title, _basis(page.basis_tag)),
        tag("p", f"Verdict: {page.verdict}", class_=f"verdict {page.state}"),
        tag("p", page.headline, class_="headline"),
        _numbers(page),
        *(_section(section, page.basis_tag) for section in page.sections),
        tag("footer", page.foot),
    )
    document = tag("html", head, tag("body", main), lang="en")
    return f"<!doctype html>\n{document.source}\n"


def _basis(basis_tag: str) -> Html:
    return tag("span", basis_tag, class_="tag") if basis_tag else EMPTY


def _numbers(page: Page) -> Html:
    return tag(
        "dl",
        *(
            tag(
                "div",
                tag("dt", number.label),
                tag("dd", number.value, class_="value"),
                tag("dd", number.note, class_="note"),
            )
            for number in page.numbers
        ),
        class_="numbers",
    )


def _section(section: Section, basis_tag: str) -> Html:
    parts: list[Html] = []
    for half, blocks in groupby(section.blocks, key=_is_half):
        written = [_block(block) for block in blocks]
        parts += [tag("div", *written, class_="halves")] if half else written
    return tag("section", tag("h2", section.title, _basis(basis_tag)), *parts)


def _is_half(block: Block) -> bool:
    return isinstance(block, Figure) and block.half


def _block(block: Block) -> Html:
    match block:
        case Figure():
            return _figure(block)
        case TableBlock():
            table = _table(block.table)
            return _folded(block.table.title, table) if block.folded else table
        case Prose():
            return joined(*(tag("p", line) for line in block.lines))
        case Remarks():
            return _remarks(block)
        case Facts():
            return _facts(block)
        case Commands():
            return joined(*_commands(block))
    assert_never(block)


def _figure(figure: Figure) -> Html:
    margins = margins_of(panel.chart for panel in figure.panels)

    def drawn(panel: Panel) -> Html:
        named = panel.heading
        if figure.half:
            picture = draw(panel.chart, HALF, named=named, margins=margins)
            return _panel(panel, picture)
        wide = draw(panel.chart, WIDE, named=named, margins=margins)
        narrow = draw(panel.chart, NARROW, named=named, margins=margins)
        return _panel(
            panel,
            tag("div", wide, class_="wide"),
            tag("div", narrow, class_="narrow"),
        )

    table = figure.table
    return tag(
        "figure",
        *map(drawn, figure.panels),
        _notes(figure.notes),
        _folded(table.title, _table(table)) if table else EMPTY,
    )


def _panel(panel: Panel, *pictures: Html) -> Html:
    keys = [
        tag("span", tag("i", class_=f"f-{key.tone}"), key.text, class_="key")
        for key in panel.keys
    ]
    return tag(
        "div",
        tag("p", panel.heading, class_="heading"),
        tag("p", *keys, class_="keys") if keys else EMPTY,
        *pictures,
        class_="panel",
    )


def _folded(title: str, inside: Html) -> Html:
    return tag("details", tag("summary", f"In numbers: {title}"), inside)


def _notes(notes: Iterable[str]) -> Html:
    items = [tag("li", note) for note in notes]
    return tag("ul", *items, class_="notes") if items else EMPTY


def _table(table: Table) -> Html:
    """Numbers stand right; headings name rows and columns for who hears the table."""
    heads = [
        tag(
            "th",
            column.heading,
            scope="col" if column.heading else None,
            class_=_column_class(column),
        )
        for column in table.columns
    ]
    named = any(column.heading for column in table.columns)
    inside = tag(
        "table",
        tag("caption", table.title),
        tag("thead", tag("tr", tag("td", ""), *heads)) if named else EMPTY,
        tag("tbody", *(part for row in table.rows for part in _row(row, table))),
    )
    return joined(
        tag(
            "div",
            inside,
            class_="scroll",
            tabindex="0",
            role="region",
            aria_label=table.title,
        ),
        _notes(table.notes),
    )


def _column_class(column: Column) -> str | None:
    classes = ["n"] * column.numeric + ["spare"] * bool(column.spare and column.heading)
    return " ".join(classes) or None


def _row(row: Row, table: Table) -> Iterator[Html]:
    cells = [
        tag("td", text, class_=_column_class(column))
        for text, column in zip(row.cells, table.columns, strict=True)
    ]
    deep = "deep" if row.depth else None
    yield tag("tr", tag("th", row.label, scope="row", class_=deep), *cells)
    for sentence in row.below:
        cell = tag("td", tag("div", sentence), colspan=str(1 + len(table.columns)))
        yield tag("tr", cell, class_="below")


def _remarks(block: Remarks) -> Html:
    return tag(
        "ul",
        *(
            tag(
                "li",
                remark.text,
                tag("span", f"To do: {remark.remedy}", class_="remedy")
                if remark.remedy
                else EMPTY,
            )
            for remark in block.remarks
        ),
        class_="remarks",
    )


def _facts(block: Facts) -> Html:
    pairs = [joined(tag("dt", name), tag("dd", value)) for name, value in block.pairs]
    return joined(tag("h3", block.heading), tag("dl", *pairs, class_="facts"))


def _commands(block: Commands) -> Iterator[Html]:
    for why, command in block.steps:
        yield tag("p", f"{why}:", class_="why")
        yield tag("pre", tag("code", command))
