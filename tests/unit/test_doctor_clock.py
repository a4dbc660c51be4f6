"""How long connections are kept, and how far off a clock is."""

from __future__ import annotations

import msgspec
import pytest

from loadgen.doctor.check import Check, Status
from loadgen.doctor.server.clock import clock_check, difference
from loadgen.doctor.server.kept import REUSE_IDLE_S, keep_alive_check
from loadgen.doctor.server.reply import MODELS, Idle, Reply
from loadgen.issue.config import IssueConfig
from loadgen.units import NS_PER_S
from tests.unit.doctor_replies import reply

NOON_S = 1_796_126_400  # Tue, 01 Dec 2026 12:00:00 GMT
NOON = "Tue, 01 Dec 2026 12:00:00 GMT"


def kept(idle: Idle | None, **headers: str) -> Check:
    return keep_alive_check({MODELS: reply(MODELS, b"", 200, **headers)}, idle)


def test_what_an_idle_connection_tells() -> None:
    assert kept(Idle(answered=True, closed_after_s=5.0)).status is Status.OK
    assert (
        kept(Idle(answered=True, watched_s=6.0)).found
        == "an idle connection was still open after 6 s"
    )
    short = kept(Idle(answered=True, closed_after_s=2.0))
    assert (short.status, short.do) == (Status.WARN, "run with --fresh-connections")
    at_once = kept(Idle(answered=True, closed_after_s=0.01))
    assert "a connection of its own" in at_once.meaning
    for unseen in (None, Idle(answered=False)):
        assert kept(unseen).status is Status.UNKNOWN


def test_a_promise_that_the_client_obeys_is_no_trouble() -> None:
    check = kept(
        Idle(answered=True, closed_after_s=2.0), keep_alive="timeout=2, max=100, x=y"
    )
    assert check.status is Status.OK
    assert check.found.startswith("Keep-Alive: timeout=2, max=100; closed")


def test_the_reuse_limit_told_is_the_issuers() -> None:
    [default] = [
        field.default
        for field in msgspec.structs.fields(IssueConfig)
        if field.name == "reuse_idle_ns"
    ]
    assert default == REUSE_IDLE_S * NS_PER_S


def dated(asked_s: float, answered_s: float, date: str | None = NOON) -> Reply:
    headers = () if date is None else (("date", date),)
    return Reply(
        path="/x",
        status=200,
        headers=headers,
        asked_ns=round((NOON_S + asked_s) * NS_PER_S),
        answered_ns=round((NOON_S + answered_s) * NS_PER_S),
    )


@pytest.mark.parametrize(
    ("asked_s", "status", "words"),
    [
        (0.5, Status.OK, "none seen: between -0.6 s and +1.5 s"),
        (2.5, Status.OK, "behind"),
        (60.0, Status.WARN, "behind: between -60.1 s and -58.0 s"),
        (-60.0, Status.WARN, "ahead: between +59.9 s and +62.0 s"),
    ],
)
def test_a_clock_difference_is_a_bracket(
    asked_s: float, status: Status, words: str
) -> None:
    check = clock_check(difference([dated(asked_s, asked_s + 0.1)]))
    assert check.status is status
    assert words in check.found


def test_more_answers_narrow_it() -> None:
    found = difference([dated(0.2, 0.3), dated(1.7, 1.8)])
    assert found is not None
    assert found.low_ns == -round(0.3 * NS_PER_S)
    assert found.high_ns == round(0.3 * NS_PER_S)
    assert found.looks == 2


def test_dates_that_contradict_each_other() -> None:
    check = clock_check(difference([dated(0, 0.1), dated(60, 60.1)]))
    assert "contradict" in check.found


@pytest.mark.parametrize("date", [None, "", "yesterday", "Tue, 99 Dec 2026", "9" * 99])
def test_no_usable_date_is_unknown(date: str | None) -> None:
    assert difference([dated(0, 0.1, date)]) is None
    assert clock_check(None).status is Status.UNKNOWN
