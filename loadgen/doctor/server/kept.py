"""How long a server keeps a connection for reuse, and what it means. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from loadgen.doctor.check import Check, Status
from loadgen.doctor.server.reply import Idle, Reply

__all__ = ["REUSE_IDLE_S", "keep_alive_check"]

REUSE_IDLE_S = 4.0
"""For how long loadgen's issuer takes an idle connection for alive."""

AT_ONCE_S = 0.5
_LIMIT = re.compile(r"\b(timeout|max)\s*=\s*(\d{1,9})", re.IGNORECASE)


def keep_alive_check(replies: Mapping[str, Reply], idle: Idle | None) -> Check:
    """What was promised in a Keep-Alive header and what an idle connection saw."""
    promised = _promised(replies)
    words = [f"Keep-Alive: {text}"] if (text := ", ".join(promised)) else []
    closed_s = idle.closed_after_s if idle is not None else None
    if idle is None or not idle.answered:
        words.append("an idle connection could not be watched")
        return _check(Status.UNKNOWN, "; ".join(words), "", None)
    if closed_s is None:
        words.append(f"an idle connection was still open after {idle.watched_s:g} s")
        return _check(Status.OK, "; ".join(words), _REUSED, None)
    if closed_s < AT_ONCE_S:
        words.append("closes the connection after its answer")
        return _check(
            Status.WARN,
            "; ".join(words),
            "every request needs a connection of its own: connecting is in every TTFT, "
            "and local ports may run out",
            "see local ports and port reuse; a gateway may close where the engine "
            "would not",
        )
    words.append(f"closed an idle connection after {closed_s:.1f} s")
    if closed_s > REUSE_IDLE_S or any("timeout" in one for one in promised):
        return _check(Status.OK, "; ".join(words), _REUSED, None)
    return _check(
        Status.WARN,
        "; ".join(words),
        f"loadgen reuses what was idle for less than {REUSE_IDLE_S:g} s: a request may "
        "meet a closing connection, a reset that is nobody's overload",
        "run with --fresh-connections",
    )


_REUSED = f"loadgen reuses connections that were idle for less than {REUSE_IDLE_S:g} s"


def _promised(replies: Mapping[str, Reply]) -> list[str]:
    for reply in replies.values():
        header = reply.header("keep-alive")
        if header:
            return [f"{name.lower()}={n}" for name, n in _LIMIT.findall(header)]
    return []


def _check(status: Status, found: str, meaning: str, do: str | None) -> Check:
    return Check(
        id="server.keep-alive",
        name="keep-alive",
        status=status,
        found=found,
        meaning=meaning,
        do=do,
    )
