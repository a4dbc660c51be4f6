"""By how much a server's clock differs, from Date headers in whole seconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from loadgen.doctor.check import Check, Status
from loadgen.doctor.server.reply import Reply
from loadgen.units import NS_PER_S

__all__ = ["Difference", "clock_check", "difference"]

STALE_NS = NS_PER_S
"""Servers write the header once a second and send it until the next time."""

MUCH_NS = 2 * NS_PER_S


class Difference(NamedTuple):
    """The server's clock minus ours lies between these, ns; low > high: nowhere.

    ``looks`` is how many answers had a date.
    """

    low_ns: int
    high_ns: int
    looks: int


def difference(replies: Iterable[Reply]) -> Difference | None:
    """Bracket the difference by every answer with a date; None: there was none.

    An answer dated D was made when the server's clock stood between D and D + 1 s,
    or another second later where the header is kept for a while, and when ours
    stood between the question and the answer.
    """
    lows, highs = [], []
    for reply in replies:
        dated_ns = _date_ns(reply.header("date"))
        if dated_ns is None or not reply.answered_ns:
            continue
        lows.append(dated_ns - reply.answered_ns)
        highs.append(dated_ns + NS_PER_S + STALE_NS - reply.asked_ns)
    if not lows:
        return None
    return Difference(max(lows), min(highs), len(lows))


def _date_ns(text: str | None) -> int | None:
    try:
        return None if text is None else _whole_ns(text)
    except (ValueError, TypeError, OverflowError):
        return None


def _whole_ns(text: str) -> int:
    return round(parsedate_to_datetime(text).timestamp()) * NS_PER_S


def clock_check(found: Difference | None) -> Check:
    """What the difference means for joining our records with the server's logs."""
    if found is None:
        return _check(
            Status.UNKNOWN,
            "answers carry no Date header",
            "times in the server's logs may be off against ours by any amount",
        )
    if found.low_ns > found.high_ns:
        return _check(
            Status.WARN,
            "the answers' dates contradict each other",
            "several servers with different clocks answer here, or one clock moved",
            "set their clocks by NTP before joining logs by time",
        )
    span = f"between {_seconds(found.low_ns)} and {_seconds(found.high_ns)} of ours"
    if found.low_ns <= 0 <= found.high_ns:
        return _check(
            Status.OK,
            f"none seen: {span}",
            f"a Date header has whole seconds; {found.looks} answers narrow it no more",
        )
    off_ns = found.low_ns if found.low_ns > 0 else -found.high_ns
    return _check(
        Status.WARN if off_ns > MUCH_NS else Status.OK,
        f"the server's clock is {'ahead' if found.low_ns > 0 else 'behind'}: {span}",
        "latencies are not touched, as one clock measures them; times in the server's "
        "logs are off by that much",
        "set both clocks by NTP" if off_ns > MUCH_NS else None,
    )


def _seconds(difference_ns: int) -> str:
    return f"{difference_ns / NS_PER_S:+.1f} s"


def _check(status: Status, found: str, meaning: str, do: str | None = None) -> Check:
    return Check(
        id="server.clock",
        name="clock difference",
        status=status,
        found=found,
        meaning=meaning,
        do=do,
    )
