"""Clock steps: found, bounded, and voiding exactly what was under way."""

from __future__ import annotations

from loadgen.issue.guard import StampGuard
from loadgen.wire.stamps import STEP_NS, KernelClock, bracket


class Clocks:
    """Two clocks; every reading takes ``cost_ns``."""

    def __init__(self, offset_ns: int = 1_000_000, cost_ns: int = 40) -> None:
        self.now_ns, self.offset_ns, self.cost_ns = 5_000, offset_ns, cost_ns

    def monotonic_ns(self) -> int:
        self.now_ns += self.cost_ns
        return self.now_ns

    def realtime_ns(self) -> int:
        return self.monotonic_ns() + self.offset_ns


class Epoch:
    epoch_ns = 0
    suspect = False


def guarded(clocks: Clocks) -> tuple[StampGuard, Epoch, list[int]]:
    epoch, voided = Epoch(), list[int]()
    clock = KernelClock(clocks.monotonic_ns, clocks.realtime_ns)
    return StampGuard(clock, epoch, 7, lambda: voided.append(1)), epoch, voided


def test_the_narrowest_bracket_wins() -> None:
    times = iter([0, 100, 200, 202, 300, 390])
    found = bracket(lambda: next(times), lambda: 1_000_201, tries=3)
    assert found == (1_000_000, 2, 202)


def test_the_epoch_is_the_wall_clock_of_t0() -> None:
    clocks = Clocks()
    _, epoch, _ = guarded(clocks)
    assert epoch.epoch_ns == clocks.offset_ns + 7


def test_steady_clocks_void_nothing() -> None:
    clocks = Clocks()
    guard, _, voided = guarded(clocks)
    for _ in range(100):
        guard.check()
        guard.look()
    assert not voided
    assert guard.stats().steps == []


def test_a_step_is_found_by_the_cheap_look_and_voids() -> None:
    clocks = Clocks()
    guard, epoch, voided = guarded(clocks)
    clocks.offset_ns += STEP_NS + 500
    guard.check()
    assert voided == [1]
    assert epoch.epoch_ns == clocks.offset_ns + 7
    (step,) = guard.stats().steps
    assert step["step_ns"] == STEP_NS + 500
    assert step["clean_ns"] < step["found_ns"]
    guard.check()
    assert voided == [1]


def test_a_step_back_is_a_step_too() -> None:
    clocks = Clocks()
    guard, _, voided = guarded(clocks)
    clocks.offset_ns -= 2 * STEP_NS
    guard.look()
    assert voided == [1]


def test_slow_drift_is_followed_and_voids_nothing() -> None:
    clocks = Clocks()
    guard, epoch, voided = guarded(clocks)
    for _ in range(10):
        clocks.offset_ns += STEP_NS // 2
        guard.look()
    assert not voided
    assert epoch.epoch_ns == clocks.offset_ns + 7
    assert guard.stats().drift_ns == 10 * (STEP_NS // 2)


def test_an_impossible_stamp_has_the_clocks_looked_at() -> None:
    clocks = Clocks()
    guard, epoch, _ = guarded(clocks)
    looks = guard.stats().looks
    epoch.suspect = True
    guard.check()
    assert not epoch.suspect
    assert guard.stats().looks == looks + 1


def test_a_pause_between_two_readings_is_no_step() -> None:
    clocks = Clocks()
    guard, _, voided = guarded(clocks)
    clocks.cost_ns = 300_000
    guard.check()
    guard.look()
    assert not voided
