"""Does a sweep of the stand-in find the knee that its engine is known to have?

The truth is simulated: the stand-in's engine in virtual time, offered many more
schedules of the same workload and length. Then sweeps of a real stand-in, one a seed,
are held against it::

    python -m tests.perf.knee_standin [SEEDS [FIRST]]

It takes about seven minutes a seed; run it on a machine that does nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np

from loadgen.cli.options import PlanFlags
from loadgen.cli.sweep_source import Schedules
from loadgen.sim.loop import Call, simulate
from loadgen.standin.options import StandinOptions
from loadgen.units import NS_PER_S

RATES = (4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.5)
SPEED = 4
RUN_S = 15
SLO_S = 1.0
TARGET = 0.95
TRUE_SCHEDULES = 60
TEMPLATE_TOKENS = 10
"""What the stand-in adds to a prompt, about."""


def goodput(rate_rps: float, seed: int) -> float:
    """The goodput ratio of one schedule, simulated."""
    options = StandinOptions()
    schedules = Schedules(flags=PlanFlags(), endpoint=None, model="stand-in")
    plan = schedules.plan_at(rate_rps, seed, RUN_S * NS_PER_S)
    prompts = plan.source.prompts(len(plan.at_ns), plan.seed)
    calls = [
        Call(
            at_ns=int(at_ns) * SPEED,
            prompt_tokens=prompt.prompt_tokens + TEMPLATE_TOKENS,
            max_tokens=prompt.max_tokens or 64,
            front_ns=round(
                options.front_ns + options.front_token_ns * prompt.prompt_tokens
            ),
        )
        for at_ns, prompt in zip(plan.at_ns.tolist(), prompts, strict=True)
    ]
    limit_ns = SLO_S * SPEED * NS_PER_S
    good = sum(
        fate.finished
        and fate.first_token_ns is not None
        and fate.first_token_ns - call.at_ns <= limit_ns
        for fate, call in zip(simulate(options.engine, calls), calls, strict=True)
    )
    return good / len(calls)


def true_knee() -> float:
    """Where the mean of many simulated schedules crosses the target."""
    rates = np.arange(6.0, 9.6, 0.5)
    means = [
        np.mean([goodput(float(rate), 10_000 + seed) for seed in range(TRUE_SCHEDULES)])
        for rate in rates
    ]
    return float(np.interp(-TARGET, -np.minimum.accumulate(means), rates))


def sweep(seed: int) -> dict[str, object]:
    """One sweep of a stand-in; its knee."""
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "loadgen.cli", "sweep", "--json", "--quiet"),
                *("--rates", ",".join(f"{rate}/s" for rate in RATES)),
                *("--duration", f"{RUN_S}s", "--slo", f"ttft={SLO_S}s"),
                *("--standin", f"--speed {SPEED}", "--seed", str(seed), "--out", out),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    if not done.stdout:
        sys.stderr.write(done.stderr)
        raise SystemExit(done.returncode)
    knee: dict[str, object] = json.loads(done.stdout)["knee"]
    return knee


def main(arguments: Sequence[str]) -> int:
    """Print a line a seed, and how many intervals held the truth."""
    seeds = int(arguments[0]) if arguments else 10
    first = int(arguments[1]) if len(arguments) > 1 else 0
    truth = true_knee()
    sys.stdout.write(f"simulated knee {truth:.2f}/s\n")
    held = 0
    for seed in range(first, first + seeds):
        knee = sweep(1000 * seed + 100)
        ends = knee["ci95"]
        low, high = ends if isinstance(ends, list) else (None, None)
        inside = (low is None or low <= truth) and (high is None or truth <= high)
        held += inside
        sys.stdout.write(f"seed {seed}: {knee['text']} {knee['flags']} {inside}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{held} of {seeds} intervals hold it\n")
    return 0 if held >= 0.9 * seeds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
