"""Laws of arrivals, whatever the process, the numbers and the seed."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loadgen.errors import UsageError
from loadgen.plan.arrivals import ARRIVALS, Arrivals, offsets
from loadgen.plan.traces import rescale
from loadgen.units import NS_PER_S

SEEDS = st.integers(-(2**64), 2**64)
RATES = st.floats(0.5, 5000)


@st.composite
def specs(draw: st.DrawFn, *, fixed_count: bool | None = None) -> Arrivals:
    process = draw(st.sampled_from(sorted(ARRIVALS)))
    fields: dict[str, object] = {}
    if process == "on-off":
        lengths = st.integers(1, 20) | st.integers(1, 3 * NS_PER_S)
        fields["on_ns"], fields["off_ns"] = draw(lengths), draw(lengths)
    if process == "ramp":
        fields["end_rate_rps"] = draw(RATES)
    if process not in ("constant", "poisson"):
        fields["burstiness"] = draw(st.floats(0.01, 100))
    fixed = draw(st.booleans()) if fixed_count is None else fixed_count
    return Arrivals(
        process=process,
        rate_rps=draw(RATES),
        duration_ns=draw(st.integers(1, 2 * NS_PER_S)),
        fixed_count=fixed,
        **fields,  # type: ignore[arg-type]
    )


@given(specs(), SEEDS)
@settings(deadline=None)
def test_sorted_bounded_and_the_same_again(spec: Arrivals, seed: int) -> None:
    try:
        due = offsets(spec, seed)
    except UsageError as error:
        assume("no request falls into the schedule" not in error.what)
        raise
    assert due.dtype == np.int64
    assert (np.diff(due) >= 0).all()
    assert due[0] >= 0
    assert due[-1] < spec.duration_ns
    if spec.on_ns is not None and spec.off_ns is not None:
        assert (due % (spec.on_ns + spec.off_ns) < spec.on_ns).all()
    assert np.array_equal(due, offsets(spec, seed))


@given(specs(fixed_count=True), SEEDS)
@settings(deadline=None)
def test_a_fixed_count_is_kept(spec: Arrivals, seed: int) -> None:
    count = len(offsets(spec, seed))
    assert count == max(1, round(spec.expected))


@given(
    st.sampled_from([("constant", 1.0), ("poisson", 1.0), ("gamma", 0.3)]),
    st.floats(50, 5000),
    SEEDS,
    st.floats(1.1, 3),
)
@settings(deadline=None)
def test_a_longer_run_starts_as_the_shorter(
    process: tuple[str, float], rate_rps: float, seed: int, factor: float
) -> None:
    """Where the rate does not depend on the duration, more time only adds."""
    name, burstiness = process
    short = Arrivals(
        process=name, rate_rps=rate_rps, duration_ns=NS_PER_S, burstiness=burstiness
    )
    longer = msgspec.structs.replace(short, duration_ns=int(NS_PER_S * factor))
    due = offsets(short, seed)
    assert np.array_equal(offsets(longer, seed)[: len(due)], due)


@given(
    st.lists(st.integers(0, 10**12), min_size=1).map(sorted),
    st.floats(0.01, 100),
    st.sampled_from(["time-scale", "speedup", "slowdown"]),
)
@settings(deadline=None)
def test_scaling_keeps_order_and_can_be_undone(
    at_ns: list[int], factor: float, direction: str
) -> None:
    due = np.array(at_ns, dtype=np.int64)
    scaled = rescale(due, factor, direction)
    assert (np.diff(scaled) >= 0).all()
    back = rescale(scaled, 1 / factor, direction)
    assert np.abs(back - due).max() <= max(factor, 1 / factor) + 1
