"""Whether this machine has the descriptors and ports a schedule may need.

``shortages`` decides, from numbers; ``read_machine`` gets them.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loadgen.units import NS_PER_S

__all__ = [
    "Machine",
    "Shortage",
    "first_port_failure_ns",
    "most_due_within",
    "raise_descriptor_limit",
    "read_machine",
    "shortages",
]

TIME_WAIT_NS = 60 * NS_PER_S
"""How long Linux keeps the port of a connection we closed first."""

QUICK_NS = NS_PER_S // 10
"""Requests that come due within this time are all open at once at any real server."""

SPARE_DESCRIPTORS = 32
"""What the process itself has open: epoll, timer, pipes, files, libraries."""


class Machine(NamedTuple):
    """What there is.

    Attributes:
        descriptors: the most this user may raise the limit to.
        ports: local ports to connect from, for one target address.
        ports_reused: whether the kernel gives a port in TIME_WAIT away again.
    """

    descriptors: int
    ports: int
    ports_reused: bool


class Shortage(NamedTuple):
    """One thing of which there may not be enough.

    Attributes:
        what: ``file descriptors`` or ``local ports``.
        have: how many there are.
        need: how many the schedule needs.
        certain: True when even quick answers need them: do not start. False when
            it takes answers as slow as the total limit allows: warn.
        why: where the number comes from, in one line.
        remedy: what to do.
    """

    what: str
    have: int
    need: int
    certain: bool
    why: str
    remedy: str


def most_due_within(due_ns: Sequence[int], span_ns: int) -> int:
    """The most requests that come due within any stretch of that length."""
    most = first = 0
    for last, due in enumerate(due_ns):
        while due - due_ns[first] >= span_ns:
            first += 1
        most = max(most, last - first + 1)
    return most


def first_port_failure_ns(
    due_ns: Sequence[int], ports: int, wait_ns: int = TIME_WAIT_NS
) -> int | None:
    """When a fresh connection for each request first finds no port.

    Returns:
        The due time of that request, ns since t0; None: never.
    """
    for first in range(len(due_ns) - ports):
        if due_ns[first + ports] - due_ns[first] < wait_ns:
            return due_ns[first + ports]
    return None


def shortages(
    due_ns: Sequence[int],
    machine: Machine,
    *,
    total_ns: int,
    fresh_connections: bool,
    processes: int = 1,
) -> list[Shortage]:
    """What a schedule lacks on this machine, before t0.

    Args:
        due_ns: the whole schedule's due times, ascending.
        machine: what there is.
        total_ns: the longest one request may stay open.
        fresh_connections: whether each request opens its own connection.
        processes: how many issuing processes share the schedule.
    """
    at_once = most_due_within(due_ns, QUICK_NS)
    at_worst = most_due_within(due_ns, total_ns)
    found = [
        _descriptors(at_once, at_worst, machine.descriptors, processes),
        _ports_at_once(at_once, at_worst, machine.ports),
    ]
    if fresh_connections and not machine.ports_reused and found[-1] is None:
        found.append(_ports_at_rest(due_ns, machine.ports))
    return [shortage for shortage in found if shortage is not None]


def _descriptors(
    at_once: int, at_worst: int, have: int, processes: int
) -> Shortage | None:
    certain = -(-at_once // processes) + SPARE_DESCRIPTORS > have
    most = at_once if certain else at_worst
    need = -(-most // processes) + SPARE_DESCRIPTORS
    if need <= have:
        return None
    return Shortage(
        "file descriptors",
        have,
        need,
        certain,
        _why(most, certain),
        f"raise it: ulimit -n {need}, or use more --processes",
    )


def _ports_at_once(at_once: int, at_worst: int, have: int) -> Shortage | None:
    certain = at_once > have
    need = at_once if certain else at_worst
    if need <= have:
        return None
    remedy = "widen net.ipv4.ip_local_port_range, or spread over more targets"
    return Shortage("local ports", have, need, certain, _why(need, certain), remedy)


def _ports_at_rest(due_ns: Sequence[int], have: int) -> Shortage | None:
    failure_ns = first_port_failure_ns(due_ns, have)
    if failure_ns is None:
        return None
    lasting_rps = have * NS_PER_S / TIME_WAIT_NS
    return Shortage(
        "local ports",
        have,
        most_due_within(due_ns, TIME_WAIT_NS),
        False,
        f"a closed connection's port rests 60 s: at most {lasting_rps:.1f} new ones "
        f"a second last, the first failure is near {failure_ns / NS_PER_S:.1f} s",
        "reuse connections, or lower the rate",
    )


def _why(count: int, certain: bool) -> str:
    if certain:
        return f"{count} requests come due within {QUICK_NS / NS_PER_S:g} s"
    return f"{count} can be open at once if answers are slow"


def raise_descriptor_limit() -> int:
    """Raise this process's own limit as far as it may; gives the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return soft
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def read_machine(*, loopback: bool) -> Machine:
    """What this machine has; where a file does not say, Linux's defaults."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        low, high = map(int, Path(_PORT_RANGE).read_text("ascii").split())
    except (OSError, ValueError):
        low, high = 32_768, 60_999
    try:
        reuse = int(Path(_PORT_REUSE).read_text("ascii"))
    except (OSError, ValueError):
        reuse = 0
    if hard == resource.RLIM_INFINITY:
        hard = os.sysconf("SC_OPEN_MAX")
    return Machine(
        descriptors=hard,
        ports=high - low + 1,
        ports_reused=reuse == 1 or (reuse == 2 and loopback),
    )


_PORT_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_PORT_REUSE = "/proc/sys/net/ipv4/tcp_tw_reuse"
