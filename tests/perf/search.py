"""The highest rate a client keeps, on a machine that is not quiet."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.perf.trial import Client, Load, Trial
from tests.perf.truth import TruthServer

__all__ = ["Best", "highest"]

LATE = 0.01
COALESCED = 0.01
_TRIES = 3  # a neighbour only ever makes a trial worse
_CLIMB = 1.4
_NARROW = 1.1


class Best(NamedTuple):
    """The highest rate kept, with its trial; the lowest refused, if one was."""

    rate_rps: float
    trial: Trial
    refused_rps: float | None


def keeps(client: Client, trial: Trial) -> bool:
    """Nearly all was sent on time, read to the end and, if told, stamped exactly."""
    on_time = trial.late_share <= LATE and trial.whole >= trial.asked * (1 - LATE)
    share = trial.coalesced_share if client.coalesces else None
    return on_time and (share is None or share <= COALESCED)


def highest(
    client: Client, server: TruthServer, start: Load, say: Callable[[str], None]
) -> Best | None:
    """Climb, or descend, from a rate, then halve what is between kept and refused.

    Args:
        client: who offers.
        server: to whom.
        start: the first load.
        say: told of each trial.

    Returns:
        None where not even a request a second is kept.
    """
    best: Best | None = None
    refused_rps: float | None = None
    rate_rps = start.rate_rps
    while rate_rps >= 1:
        load = start._replace(rate_rps=rate_rps)
        trial = _kept(client, server, load, say)
        if trial is not None:
            best = Best(rate_rps, trial, refused_rps)
        else:
            refused_rps = rate_rps
        if best is None:
            rate_rps /= _CLIMB * _CLIMB
        elif refused_rps is None:
            rate_rps *= _CLIMB
        elif refused_rps / best.rate_rps > _NARROW:
            rate_rps = (best.rate_rps * refused_rps) ** 0.5
        else:
            break
    return None if best is None else best._replace(refused_rps=refused_rps)


def _kept(
    client: Client, server: TruthServer, load: Load, say: Callable[[str], None]
) -> Trial | None:
    """A trial that kept the load; None if none of several did."""
    for _ in range(_TRIES):
        trial = client.offer(server, load)
        coalesced = trial.coalesced_share or 0.0
        say(
            f"{client.name}: {load.rate_rps:.0f}/s of {load.tokens}: "
            f"{trial.late_share:.1%} late, {coalesced:.1%} coalesced"
        )
        if keeps(client, trial):
            return trial
        if trial.late_share > 20 * LATE:
            break  # no neighbour's doing
    return None
