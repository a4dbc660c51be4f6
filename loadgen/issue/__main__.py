"""``python -m loadgen.issue``: one issuing process, driven by its parent.

In: the config as one line; ``{"t0_ns": …}``; then ``drain`` or ``cut``, or the end
of input, which means that the parent is gone. Out: one line when ready, or one
that says why not, and one with the stats at the end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from loadgen.errors import LoadgenError, UsageError
from loadgen.issue.config import decode_config
from loadgen.issue.control import LineReader, lines_by_signal, wait_for_go
from loadgen.issue.issuer import Issuer
from loadgen.issue.limits import raise_descriptor_limit

PRIORITY = -10


class Go(msgspec.Struct):
    """When to begin: CLOCK_MONOTONIC of t0."""

    t0_ns: int


def main() -> int:
    """Run one issuing process; the exit code is 0 once stats are out."""
    commands = LineReader(0)
    signals = LineReader(lines_by_signal(signal.SIGINT, signal.SIGTERM))
    try:
        line = commands.wait_line()
        if line is None:
            raise UsageError("this process is started by loadgen and told what to do")
        issuer = Issuer(decode_config(line))
        issuer.settle()
        _ask_for_priority()
    except (LoadgenError, OSError) as error:
        _say({"ready": False, "error": str(error)})
        return 2
    _say(
        {
            "ready": True,
            "requests": len(issuer.schedule),
            "schedule_digest": issuer.schedule.digest,
            "opened_ahead": issuer.opened_ahead,
            "descriptors": raise_descriptor_limit(),
        }
    )
    go = wait_for_go(commands, signals)
    if go is None:
        stats = issuer.run(
            time.monotonic_ns(), commands, signals, stopped="stopped before t0"
        )
    else:
        stats = issuer.run(msgspec.json.decode(go, type=Go).t0_ns, commands, signals)
    _say(stats)
    return 0


def _ask_for_priority() -> None:
    """Where the system lets us: a busy neighbour must not make requests late."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        # This process leads a session, so Linux weighs it by its autogroup alone.
        Path("/proc/self/autogroup").write_text(str(PRIORITY))


def _say(what: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody is left to hear it
        os.write(1, msgspec.json.encode(what) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
