"""Keep a launched server, and end it with all its children when the parent is gone.

``python -m loadgen.control.guardian GRACE_S -- COMMAND…`` starts the command in a
process group of its own and waits for the end of standard input, which comes even
when the parent is killed. Then the group is asked to end, and after the grace
killed; children that left the group come back to the guardian (it is their reaper)
and are killed too. It exits with the command's code.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

__all__ = ["main"]

_PR_SET_CHILD_SUBREAPER = 36
STEP_S = 0.2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; see the module."""
    grace, dashes, *command = sys.argv[1:] if argv is None else argv
    assert dashes == "--"
    _become_reaper()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return 127
    try:
        _wait(child)
    finally:
        _end(child, float(grace))
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _become_reaper() -> None:
    """Have orphans below us handed to us; where that is not possible, go without."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait(child: subprocess.Popen[bytes]) -> None:
    """Until standard input ends or the command does."""
    stopped = [False]
    signal.signal(signal.SIGTERM, lambda *_: stopped.__setitem__(0, True))
    while child.poll() is None and not stopped[0]:
        ready, _, _ = select.select([0], [], [], STEP_S)
        if ready and not os.read(0, 4096):
            return


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    _signal_group(child.pid, signal.SIGTERM)
    deadline_s = time.monotonic() + grace_s
    while child.poll() is None and time.monotonic() < deadline_s:
        time.sleep(STEP_S / 4)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()
    while orphans := _children():
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _children() -> list[int]:
    """Our living children; none where the system does not tell."""
    path = f"/proc/self/task/{os.getpid()}/children"
    with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]
    return []


if __name__ == "__main__":
    sys.exit(main())
