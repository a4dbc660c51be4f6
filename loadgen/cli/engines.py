"""Where issuing processes run, by name."""

from __future__ import annotations

from collections.abc import Callable

from loadgen.cli.options import OfferFlags
from loadgen.errors import UsageError
from loadgen.issue.engine import LOCAL, Engine

__all__ = ["engine_of"]


def _ray(how: OfferFlags) -> Engine:
    from loadgen.issue.ray import RayEngine

    return RayEngine(how.ray_address)


ENGINES: dict[str, Callable[[OfferFlags], Engine]] = {
    "local": lambda how: LOCAL,
    "ray": _ray,
}


def engine_of(how: OfferFlags) -> Engine:
    """The engine asked for.

    Raises:
        UsageError: there is none of that name, or it is not installed.
    """
    if how.engine not in ENGINES:
        raise UsageError(
            f"no --engine {how.engine!r}", f"there are {', '.join(ENGINES)}"
        )
    return ENGINES[how.engine](how)
