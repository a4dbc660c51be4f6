"""What the knee's estimate and its interval are worth, by many simulated sweeps.

    python -m tests.perf.knee_trials [slots | batching]

``slots`` is the slot server of ``sim.slots`` (minutes), ``batching`` the iteration
model of ``sim.engine`` (longer). A line a size: how far off the estimate is in the
mean (bias) and as a rule (RMSE), how often the 95 % interval holds the truth, and how
wide it is where both its ends are known.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import isotonic_regression

from loadgen.analysis.knee import Sample, find_knee
from loadgen.sim.engine import EngineSpec, StepCost
from loadgen.sim.loop import Call, simulate
from loadgen.units import NS_PER_MS, NS_PER_S, NS_PER_US
from tests.many_queues import Floats, draw_asks, goodputs

TARGET = 0.95
RATES = 9
Goodput = Callable[[int, int, Floats, int], Floats]
"""Runs, requests, rates and seed to ratios: one row a run, one column a rate."""


def slots(runs: int, requests: int, rates_rps: Floats, seed: int) -> Floats:
    return goodputs(draw_asks(runs, requests, seed), rates_rps)


SPEC = EngineSpec(
    max_num_seqs=32,
    max_num_batched_tokens=2048,
    max_model_len=8192,
    kv_blocks=4096,
    cost=StepCost(
        base_ns=8 * NS_PER_MS,
        prefill_token_ns=60 * NS_PER_US,
        decode_seq_ns=0.3 * NS_PER_MS,
        kv_token_ns=30.0,
    ),
)
"""An engine in the middle; one ask in ten brings a document."""


def batching(runs: int, requests: int, rates_rps: Floats, seed: int) -> Floats:
    found = np.empty((runs, rates_rps.size))
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        at_s = np.cumsum(rng.exponential(size=requests))
        long = rng.random(requests) < 0.1
        prompts = np.where(
            long, rng.integers(2000, 6000, requests), rng.integers(50, 400, requests)
        )
        answers = np.minimum(600, rng.lognormal(4.3, 0.8, requests)).astype(int) + 1
        for column, rate in enumerate(rates_rps):
            calls = [
                Call(at_ns=round(at / rate * NS_PER_S), prompt_tokens=p, max_tokens=a)
                for at, p, a in zip(
                    at_s.tolist(), prompts.tolist(), answers.tolist(), strict=True
                )
            ]
            found[run, column] = np.mean(
                [
                    (fate.first_token_ns or 0) - call.at_ns <= 2 * NS_PER_S
                    for fate, call in zip(simulate(SPEC, calls), calls, strict=True)
                ]
            )
    return found


def trial(
    goodput: Goodput, saturation_rps: float, requests: int, schedules: int, trials: int
) -> str:
    """Many sweeps of one size."""
    fine = np.linspace(0.7, 1.0, 13) * saturation_rps
    means = goodput(5 * trials, requests, fine, 1).mean(axis=0)
    falling = isotonic_regression(means, increasing=False).x
    truth = float(np.interp(-TARGET, -falling, fine))
    rates = np.linspace(0.6, 1.2, RATES) * saturation_rps
    runs = goodput(trials * schedules, requests, rates, 2)
    errors, held, widths = [], 0, []
    for ratios in runs.reshape(trials, schedules, RATES):
        knee = find_knee(
            [
                Sample(float(rate), schedule, float(ratio))
                for schedule, row in enumerate(ratios)
                for rate, ratio in zip(rates, row, strict=True)
            ],
            TARGET,
        )
        low, high = knee.ci95 or (None, None)
        held += (low is None or low <= truth) and (high is None or truth <= high)
        if knee.rate_rps is not None:
            errors.append(knee.rate_rps / truth - 1)
        if low is not None and high is not None:
            widths.append((high - low) / 2 / truth)
    error = np.array(errors)
    width = f"{np.mean(widths):.1%}" if widths else "open"
    return (
        f"{requests:>5} requests x {schedules} schedules: truth {truth:.2f}/s, "
        f"bias {error.mean():+.1%}, RMSE {np.sqrt((error**2).mean()):.1%}, "
        f"interval holds it {held / trials:.0%}, half-width {width}, "
        f"open {1 - len(widths) / trials:.0%}, of {trials} trials"
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    sizes = [(n, s) for n in (150, 400, 1000, 2300) for s in (3, 5, 8)]
    if arguments and arguments[0] == "batching":
        for requests, schedules in [(300, 3), (300, 5), (1000, 3)]:
            line = trial(batching, 13.0, requests, schedules, 40)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        return 0
    for requests, schedules in sizes:
        sys.stdout.write(f"{trial(slots, 6.21, requests, schedules, 300)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
