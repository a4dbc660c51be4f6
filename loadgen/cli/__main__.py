"""``loadgen``: where it begins, before anything large is loaded."""

from __future__ import annotations

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
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
