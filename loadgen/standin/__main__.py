"""``python -m loadgen.standin``: run one stand-in engine in this process."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence

from loadgen.errors import LoadgenError
from loadgen.standin.options import parse
from loadgen.standin.server import serve

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Read the flags and serve; returns the exit code.

    Args:
        argv: the flags; None takes the command line's.
    """
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
    )
    try:
        asyncio.run(serve(parse(sys.argv[1:] if argv is None else argv)))
    except LoadgenError as error:
        sys.stderr.write(f"loadgen.standin: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
