"""``loadgen``: where it begins, before anything large is loaded."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run one verb.

    Args:
        arguments: without the program's name; None takes the command line's.

    Returns:
        The process' exit code; a failure has been said on stderr in one line.
    """
    try:
        from loadgen.cli.app import run
    except KeyboardInterrupt:  # loading takes long enough to be interrupted
        return 130
    if arguments is not None:
        return run(arguments)
    code = run(sys.argv[1:])
    if code == 130:  # it is ending: to be told again must not look like a fault
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(main())
