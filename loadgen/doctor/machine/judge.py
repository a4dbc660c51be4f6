"""Whether a machine can offer load on time: decisions over its facts alone."""

from __future__ import annotations

from collections.abc import Callable

from loadgen.doctor.check import Check, Status
from loadgen.doctor.machine.facts import MachineFacts
from loadgen.issue.limits import SPARE_DESCRIPTORS, TIME_WAIT_NS
from loadgen.units import NS_PER_S, format_duration

__all__ = ["machine_checks"]

MIB = 1 << 20
FEW_DESCRIPTORS = 4096
TOO_FEW_DESCRIPTORS = 256
FEW_PORTS = 10_000
SLOW_CLOCK_NS = 500
BUSY = 0.5
SMALL_BYTES = 1024 * MIB
TOO_SMALL_BYTES = 256 * MIB
# Read by a system call or over a slow bus, a microsecond or more each time.
SLOW_SOURCES = frozenset({"hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"})
UNSTEADY = frozenset({"powersave", "ondemand", "conservative"})


def machine_checks(facts: MachineFacts) -> list[Check]:
    """Every check of the load machine, in the order they are shown."""
    rules: tuple[Callable[[MachineFacts], Check], ...] = (
        _descriptors,
        _ports,
        _time_wait,
        _cores,
        _load,
        _clock_source,
        _stamps,
        _memory,
        _governor,
    )
    return [rule(facts) for rule in rules]


def _check(
    thing: str,
    status: Status,
    found: str,
    meaning: str,
    do: str | None = None,
) -> Check:
    return Check(
        id=f"machine.{thing}",
        name=thing.replace("-", " "),
        status=status,
        found=found,
        meaning=meaning,
        do=do,
    )


def _descriptors(facts: MachineFacts) -> Check:
    most = facts.descriptors
    status = Status.OK
    if most < FEW_DESCRIPTORS:
        status = Status.FAIL if most < TOO_FEW_DESCRIPTORS else Status.WARN
    now = facts.descriptors_now
    raised = f" (now {now:,}; loadgen raises it)" if now < most else ""
    return _check(
        "file-descriptors",
        status,
        f"{most:,} at most{raised}",
        f"up to {max(0, most - SPARE_DESCRIPTORS):,} requests open at once in each "
        "issuing process",
        None if status is Status.OK else "raise the hard limit: ulimit -Hn 65536",
    )


def _ports(facts: MachineFacts) -> Check:
    few = facts.ports < FEW_PORTS
    return _check(
        "local-ports",
        Status.WARN if few else Status.OK,
        f"{facts.ports:,} towards one address",
        f"up to {facts.ports:,} connections to one server at once",
        "widen net.ipv4.ip_local_port_range" if few else None,
    )


def _time_wait(facts: MachineFacts) -> Check:
    rest_s = TIME_WAIT_NS // NS_PER_S
    lasting = f"{facts.ports * NS_PER_S / TIME_WAIT_NS:,.0f} a second last"
    rests = f"closed, a port rests {rest_s} s: with --fresh-connections {lasting}"
    if facts.time_wait_reuse is None:
        return _check("port-reuse", Status.UNKNOWN, "the kernel does not say", rests)
    if facts.time_wait_reuse == 1:
        return _check(
            "port-reuse", Status.OK, "tcp_tw_reuse is 1", "resting ports are used again"
        )
    where = "on loopback only" if facts.time_wait_reuse == 2 else "never"
    return _check(
        "port-reuse",
        Status.OK,
        f"tcp_tw_reuse is {facts.time_wait_reuse}: resting ports are reused {where}",
        f"{rests}; kept-alive connections are not touched by it",
    )


def _cores(facts: MachineFacts) -> Check:
    usable = facts.cores
    if facts.quota_cores is not None:
        usable = min(usable, int(facts.quota_cores))
    limited = facts.quota_cores is not None and facts.quota_cores < facts.cores
    found = f"{facts.cores} usable" + (
        f", a container limit of {facts.quota_cores:g}" if limited else ""
    )
    if usable < 2:
        return _check(
            "cores",
            Status.WARN,
            found,
            "the issuing process shares its processor with everything else, so sends "
            "can be late; each run says how late (send lag)",
            "load from a machine with two or more, the server on another",
        )
    return _check(
        "cores",
        Status.OK,
        found,
        f"one issuing process a processor: --processes up to {usable}",
    )


def _load(facts: MachineFacts) -> Check:
    if facts.load is None:
        return _check("other-work", Status.UNKNOWN, "no load average", "")
    busy = facts.load > BUSY * facts.cores
    return _check(
        "other-work",
        Status.WARN if busy else Status.OK,
        f"load average {facts.load:.2f} over {facts.cores} processors",
        "other work here delays sends and spoils the measurement"
        if busy
        else "little else runs here",
        "end what need not run; judge by the run's send lag" if busy else None,
    )


def _clock_source(facts: MachineFacts) -> Check:
    slow = facts.clock_source in SLOW_SOURCES or facts.clock_read_ns > SLOW_CLOCK_NS
    cost = f"{format_duration(facts.clock_read_ns)} a reading"
    tied = f"tied to the wall clock within {format_duration(facts.clock_width_ns)}"
    status = Status.WARN if slow else Status.OK
    if facts.clock_source is None and not slow:
        status = Status.UNKNOWN
    return _check(
        "clock-source",
        status,
        f"{facts.clock_source or 'not visible'}: {cost}, {tied}",
        "each read of an answer costs one: a slow clock makes a slow client"
        if slow
        else "stamps are cheap and fine enough",
        "use tsc or the hypervisor's clock (clocksource= at boot)" if slow else None,
    )


def _stamps(facts: MachineFacts) -> Check:
    if facts.kernel_stamps:
        return _check(
            "kernel-stamps",
            Status.OK,
            "a loopback trial got them",
            "arrivals are stamped by the kernel: our own delay is not in TTFT or ITL",
        )
    return _check(
        "kernel-stamps",
        Status.WARN,
        "a loopback trial got none",
        "arrivals are stamped when user space looks: our own delay is in TTFT and ITL; "
        "runs say so",
        "run on Linux outside a sandbox that drops SO_TIMESTAMPNS",
    )


def _memory(facts: MachineFacts) -> Check:
    if facts.memory_bytes is None:
        return _check("memory", Status.UNKNOWN, "not visible", "")
    status = Status.OK
    if facts.memory_bytes < SMALL_BYTES:
        small = facts.memory_bytes < TOO_SMALL_BYTES
        status = Status.FAIL if small else Status.WARN
    return _check(
        "memory",
        status,
        f"{facts.memory_bytes / MIB:,.0f} MiB free",
        "schedule, open answers and the judging of a run must fit",
        None if status is Status.OK else "free some, or plan shorter runs",
    )


def _governor(facts: MachineFacts) -> Check:
    if facts.governors is None:
        return _check(
            "cpu-governor",
            Status.UNKNOWN,
            "not visible (virtual machines mostly hide it)",
            "",
        )
    unsteady = [name for name in facts.governors if name in UNSTEADY]
    return _check(
        "cpu-governor",
        Status.WARN if unsteady else Status.OK,
        ", ".join(facts.governors),
        "a processor that saves power wakes slowly: sends and stamps come late"
        if unsteady
        else "",
        "cpupower frequency-set -g performance" if unsteady else None,
    )
