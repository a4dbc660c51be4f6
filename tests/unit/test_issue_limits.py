"""What a schedule needs of the machine, decided from numbers."""

from __future__ import annotations

import pytest

from loadgen.issue.limits import (
    SPARE_DESCRIPTORS,
    Machine,
    first_port_failure_ns,
    most_due_within,
    read_machine,
    shortages,
)
from loadgen.units import NS_PER_S
from tests.cases import cases

PLENTY = Machine(descriptors=1 << 20, ports=1 << 20, ports_reused=False)


def test_the_most_due_within_a_span_excludes_its_far_end() -> None:
    due_ns = [0, 0, 5, 10, 11, 12]
    assert most_due_within(due_ns, 10) == 4
    assert most_due_within(due_ns, 11) == 4
    assert most_due_within(due_ns, 100) == 6
    assert most_due_within([], 10) == 0


def test_enough_of_everything_says_nothing() -> None:
    assert not shortages([0] * 200, PLENTY, total_ns=NS_PER_S, fresh_connections=True)


def test_too_few_descriptors_for_a_burst_is_certain_and_names_the_number() -> None:
    machine = PLENTY._replace(descriptors=64)
    (found,) = shortages([0] * 200, machine, total_ns=NS_PER_S, fresh_connections=False)
    assert found.what == "file descriptors"
    assert found.certain
    assert found.need == 200 + SPARE_DESCRIPTORS
    assert str(found.need) in found.remedy


def test_slow_answers_alone_make_a_warning() -> None:
    machine = PLENTY._replace(descriptors=300)
    due_ns = [i * NS_PER_S // 100 for i in range(1_000)]
    (found,) = shortages(
        due_ns, machine, total_ns=5 * NS_PER_S, fresh_connections=False
    )
    assert not found.certain
    assert found.need == 500 + SPARE_DESCRIPTORS


def test_processes_share_the_descriptors_but_not_the_ports() -> None:
    machine = Machine(descriptors=150, ports=150, ports_reused=False)
    found = shortages(
        [0] * 200, machine, total_ns=1, fresh_connections=False, processes=4
    )
    assert [(short.what, short.need) for short in found] == [("local ports", 200)]


def test_fresh_connections_run_out_of_ports_at_a_known_time() -> None:
    """28,232 ports that rest for 60 s carry 470.5 new connections a second."""
    case = cases("client")["cli-04-ports-exhausted"]
    low, high = case["input"]["port_range"]
    machine = PLENTY._replace(ports=high - low + 1)
    rate = case["input"]["rate_per_s"]
    due_ns = [i * NS_PER_S // rate for i in range(rate * 60)]
    failure_ns = first_port_failure_ns(due_ns, machine.ports)
    (found,) = shortages(due_ns, machine, total_ns=NS_PER_S, fresh_connections=True)
    assert machine.ports == case["expect"]["usable_ports"]
    assert failure_ns is not None
    assert failure_ns / NS_PER_S == pytest.approx(
        case["expect"]["first_failure_after_s"], abs=0.1
    )
    assert f"{case['expect']['max_sustained_new_conn_per_s']}" in found.why
    assert not found.certain
    slower = [i * NS_PER_S // 470 for i in range(470 * 120)]
    assert first_port_failure_ns(slower, machine.ports) is None


def test_ports_that_the_kernel_reuses_do_not_run_out() -> None:
    machine = PLENTY._replace(ports=100, ports_reused=True)
    due_ns = [i * NS_PER_S // 50 for i in range(500)]
    assert not shortages(due_ns, machine, total_ns=NS_PER_S, fresh_connections=True)


def test_this_machine_can_be_read() -> None:
    machine = read_machine(loopback=True)
    assert machine.descriptors > 0
    assert machine.ports > 0
