"""The table fits its screen and is harmless; the JSON is what programs rely on."""

from __future__ import annotations

import json

import pytest

from loadgen.doctor.check import Check, Status, any_failed, encode
from loadgen.doctor.text import Part, table_text
from loadgen.report.escape import cells
from loadgen.report.screen import Screen

HOSTILE = "\x1b[2Jred\u202e" + "日本語" * 200 + "\n\nnew line" + "x" * 300


def check(status: Status = Status.OK, **fields: str | None) -> Check:
    given = {"id": "server.thing", "name": "thing", "found": "found", **fields}
    return Check(status=status, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("utf8", [True, False])
def test_every_line_fits_whatever_a_server_says(width: int, *, utf8: bool) -> None:
    hostile = check(
        Status.FAIL, name=HOSTILE, found=HOSTILE, meaning=HOSTILE, do=HOSTILE
    )
    text = table_text([Part(HOSTILE, [hostile])], Screen(width=width, utf8=utf8))
    assert all(cells(line) <= width for line in text.splitlines())
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert utf8 or text.isascii()


def test_the_table_in_full() -> None:
    rows = [
        check(name="a thing", found="good"),
        check(Status.FAIL, name="b", found="bad", meaning="it breaks", do="mend it"),
        check(Status.UNKNOWN, name="c", found="hidden"),
        check(Status.WARN, name="d", found="odd", meaning="mind it"),
    ]
    text = table_text([Part("The machine", rows)], Screen(width=60))
    assert text == (
        "The machine\n"
        "        check    found / meaning / what to do\n"
        "  ok    a thing  good\n"
        "  FAIL  b        bad\n"
        "          it breaks\n"
        "          to do: mend it\n"
        "  ?     c        hidden\n"
        "  warn  d        odd\n"
        "          mind it\n"
        "\n"
        "4 checks: 1 failed, 1 to know before a run, 1 could not be\n"
        "found out, 1 in order.\n"
    )


def test_only_a_failed_check_fails() -> None:
    others = [check(status) for status in Status if status is not Status.FAIL]
    assert not any_failed(others)
    assert any_failed([*others, check(Status.FAIL)])


def test_the_json_has_its_five_keys() -> None:
    document = json.loads(encode([check(Status.WARN, meaning="m", do=None)]))
    assert document == {
        "schema": "loadgen.doctor/1",
        "checks": [
            {
                "id": "server.thing",
                "status": "warn",
                "found": "found",
                "meaning": "m",
                "do": None,
            }
        ],
    }
