"""The fault layers as rules over instants and counts."""

from __future__ import annotations

from loadgen.sim.engine import Refusal
from loadgen.standin.layers import Fault, Front, RateLimit, fault_before
from loadgen.standin.options import Faults
from loadgen.units import NS_PER_MS, NS_PER_S


def test_the_limit_lets_a_second_through_at_once_and_then_its_rate() -> None:
    limit = RateLimit(rate_rps=4)
    assert [limit.wait_s(0) for _ in range(4)] == [0, 0, 0, 0]
    assert limit.wait_s(0) == 0.25
    assert limit.wait_s(250 * NS_PER_MS) == 0
    assert limit.wait_s(250 * NS_PER_MS) == 0.25


def test_idle_time_is_not_saved_up_beyond_a_second() -> None:
    limit = RateLimit(rate_rps=2)
    assert limit.wait_s(0) == 0
    passed = [limit.wait_s(3600 * NS_PER_S) == 0 for _ in range(4)]
    assert passed == [True, True, False, False]


def test_a_limit_below_one_a_second_still_lets_one_through() -> None:
    limit = RateLimit(rate_rps=0.1)
    assert limit.wait_s(0) == 0
    assert limit.wait_s(0) == 10


def test_the_gateway_says_when_to_come_back_in_whole_seconds() -> None:
    front = Front(Faults(rate_limit_rps=0.4), started_ns=0)
    assert front.rate_limited(0) is None
    error = front.rate_limited(0)
    assert error is not None
    assert (error.status, error.headers["Retry-After"]) == (429, "3")
    assert error.content["error"]["type"] == "rate_limit_error"


def test_loading_ends_at_its_time() -> None:
    front = Front(Faults(loading_ns=NS_PER_S), started_ns=5)
    error = front.loading(NS_PER_S + 4)
    assert error is not None
    assert error.status == 503
    assert error.body() == (
        b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
    )
    assert front.loading(NS_PER_S + 5) is None


def test_every_third_is_refused() -> None:
    front = Front(Faults(refuse_every=3), started_ns=0)
    refused = [front.busy() is Refusal.QUEUED_REQS for _ in range(7)]
    assert refused == [False, False, True, False, False, True, False]


def test_without_faults_nothing_is_in_the_way() -> None:
    front = Front(Faults(), started_ns=0)
    assert front.loading(0) is None
    assert front.rate_limited(0) is None
    assert front.busy() is None
    assert fault_before(Faults(), 0) is None


def test_an_answer_breaks_after_the_tokens_named() -> None:
    faults = Faults(cut_after=2, stall_after=0)
    assert [fault_before(faults, sent) for sent in range(4)] == [
        Fault.STALL,
        None,
        Fault.CUT,
        None,
    ]
    assert fault_before(Faults(error_after=1), 1) is Fault.ERROR
    assert fault_before(Faults(reset_after=1), 1) is Fault.RESET
