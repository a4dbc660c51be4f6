"""The schedules of a sweep: the same draws at every rate, in other words each time.

All runs of one schedule share their arrivals (stretched to the rate), groups and
lengths, so that two rates differ by the rate and not by luck. The first words of
each prompt differ from run to run: a server that has seen the run before must not
find this one's prompts in its prefix cache.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadgen.analysis.recovery import Phases
from loadgen.cli.options import PlanFlags
from loadgen.cli.planning import Plan, make_plan
from loadgen.cli.sources import FromPlan
from loadgen.errors import UsageError
from loadgen.plan.given import PromptFile
from loadgen.plan.prompts import Prompt
from loadgen.plan.schedule import Asked
from loadgen.plan.words import KEYS
from loadgen.plan.workload import PromptSource
from loadgen.units import NS_PER_S

__all__ = ["Picked", "Reworded", "Schedules"]

_OPENING = re.compile(r"\bAbout((?: [a-z]+){8}):")
_PLACE = {word: place for place, word in enumerate(KEYS)}
_REFUSED = {"ramp": "its rate is not one number", "trace": "its times are given"}


class Reworded:
    """Prompts of the same length that open in other words.

    Each of the eight opening words is moved on in the word list by a step of its
    own, so that prompts that differed still do.

    Args:
        source: where the prompts come from.
        salt: what the steps are drawn from.
    """

    def __init__(self, source: PromptSource, salt: str) -> None:
        self._source = source
        self._steps = hashlib.sha256(salt.encode()).digest()[:8]
        self.name = source.name
        self.group_names = source.group_names

    def prompts(self, count: int, seed: int) -> Iterator[Prompt]:
        for prompt in self._source.prompts(count, seed):
            yield prompt._replace(text=_OPENING.sub(self._moved, prompt.text, count=1))

    def _moved(self, opening: re.Match[str]) -> str:
        words = opening[1].split()
        if any(word not in _PLACE for word in words):
            return opening[0]
        moved = (
            KEYS[(_PLACE[word] + step) % len(KEYS)]
            for word, step in zip(words, self._steps, strict=True)
        )
        return f"About {' '.join(moved)}:"


class Picked:
    """Some of a schedule's prompts: those of a few groups, the others left out.

    Args:
        source: where the prompts come from.
        kept: for each request of the whole schedule, whether it stays.
        groups: the groups that stay.
    """

    def __init__(
        self, source: PromptSource, kept: Sequence[bool], groups: Sequence[str]
    ) -> None:
        self._source = source
        self._kept = kept
        self.name = source.name
        self.group_names = list(groups)

    def prompts(self, count: int, seed: int) -> Iterator[Prompt]:
        every = self._source.prompts(len(self._kept), seed)
        return (prompt for prompt, kept in zip(every, self._kept, strict=True) if kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules:
    """What a sweep offers, by rate and schedule.

    Args:
        flags: what is sent; rate, duration and seed are set here.
        endpoint: path to post to; None: the protocol's.
        model: as in the flags; None where the server may choose.
        only: groups whose requests are offered, the others are left out of the
            same schedule; empty: all.

    Raises:
        UsageError: on making one, arrivals that have no rate of their own.
    """

    flags: PlanFlags
    endpoint: str | None
    model: str | None
    only: Sequence[str] = ()

    def at_rate(self, rate_rps: float, seed: int, run_ns: int) -> FromPlan:
        """One schedule at one rate."""
        return FromPlan(self.plan_at(rate_rps, seed, run_ns), self.model)

    def plan_at(self, rate_rps: float, seed: int, run_ns: int) -> Plan:
        """The same, before it is encoded."""
        return self._offered(self._plan(rate_rps, seed, run_ns), f"{seed}/{rate_rps!r}")

    def surge(
        self, base_rps: float, peak_rps: float, seed: int, phase_ns: int
    ) -> tuple[FromPlan, Phases]:
        """Base load, peak, base load: three phases of the same length."""
        rates = (base_rps, peak_rps, base_rps)
        expected = sum(rates) * phase_ns / NS_PER_S
        plan = self._plan(1.0, seed, round(expected * NS_PER_S))
        edges_ns = np.arange(4) * float(phase_ns)
        counted = np.cumsum([0.0, *rates]) * phase_ns
        at_ns = np.interp(plan.at_ns, counted, edges_ns).astype(np.int64)
        total_ns = 3 * phase_ns
        mean_rps = expected * NS_PER_S / total_ns
        plan = replace(
            plan,
            at_ns=np.minimum(at_ns, total_ns - 1),
            arrivals={
                "process": "steps",
                "of": plan.arrivals["process"],
                "rates_rps": list(rates),
                "duration_ns": total_ns,
            },
            asked=Asked(rate_rps=mean_rps, duration_s=total_ns / NS_PER_S),
        )
        phases = Phases(
            base_ends_ns=phase_ns, peak_ends_ns=2 * phase_ns, ends_ns=total_ns
        )
        plan = self._offered(plan, f"{seed}/{peak_rps!r}/surge")
        return FromPlan(plan, self.model), phases

    @property
    def seed(self) -> int:
        """The first schedule's; the others count on from it."""
        return self._plan(1.0, self.flags.seed, NS_PER_S * 10).seed

    def _plan(self, rate_rps: float, seed: int | None, run_ns: int) -> Plan:
        flags = replace(
            self.flags, rate=f"{rate_rps!r}/s", duration=f"{run_ns}ns", seed=seed
        )
        plan = make_plan(flags, self.endpoint)
        process = plan.arrivals["process"]
        if process in _REFUSED:
            raise UsageError(f"{process} cannot be swept: {_REFUSED[process]}")
        return plan

    def _offered(self, plan: Plan, salt: str) -> Plan:
        if isinstance(plan.source, PromptFile):
            note = "the same prompts in every run: a prefix cache may know them"
            plan = replace(plan, notes=(*plan.notes, note))
        else:
            plan = replace(plan, source=Reworded(plan.source, salt))
        return self._picked(plan) if self.only else plan

    def _picked(self, plan: Plan) -> Plan:
        unknown = [name for name in self.only if name not in plan.source.group_names]
        if unknown:
            raise UsageError(
                f"there is no group {', '.join(unknown)}",
                f"there are {', '.join(plan.source.group_names)}",
            )
        every = plan.source.prompts(len(plan.at_ns), plan.seed)
        kept = [prompt.group in self.only for prompt in every]
        if not any(kept):
            raise UsageError(
                f"no request of {', '.join(self.only)} falls into the schedule",
                "raise the rate or the duration",
            )
        share = sum(kept) / len(kept)
        return replace(
            plan,
            source=Picked(plan.source, kept, self.only),
            at_ns=plan.at_ns[np.array(kept)],
            asked=Asked(
                rate_rps=plan.asked.rate_rps * share, duration_s=plan.asked.duration_s
            ),
            notes=(*plan.notes, f"of this schedule only {', '.join(self.only)}"),
        )
