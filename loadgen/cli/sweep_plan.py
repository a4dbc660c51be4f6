"""From flags to a sweep's plan, and from a plan's journal back to flags."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from loadgen import __version__
from loadgen.cli.conduct import without_secrets
from loadgen.cli.options import (
    EvidenceFlags,
    OfferFlags,
    OutputFlags,
    PlanFlags,
    TargetFlags,
)
from loadgen.cli.sweep import DEFAULTS, SweepFlags
from loadgen.cli.sweep_source import Schedules
from loadgen.control.budget import Fit, Wanted, expected_precision, fit
from loadgen.control.journal import SweepPlan
from loadgen.control.rates import (
    SEARCH_POINTS,
    Course,
    Grid,
    Search,
    geometric,
    parse_rates,
)
from loadgen.errors import RunDirError, UsageError, naming
from loadgen.units import parse_duration_ns, parse_rate_rps

__all__ = ["Asked", "Asking", "course_of", "kept_flags", "make_sweep_plan", "resumed"]

_AUTO = "auto"
_GROUPS = {
    "what": SweepFlags,
    "plan": PlanFlags,
    "to": TargetFlags,
    "offer": OfferFlags,
    "evidence": EvidenceFlags,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All flags of a sweep."""

    what: SweepFlags
    plan: PlanFlags
    to: TargetFlags
    how: OfferFlags
    evidence: EvidenceFlags
    output: OutputFlags


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A plan, and how long it is thought to take."""

    plan: SweepPlan
    takes_ns: int


def make_sweep_plan(
    asked: Asked, schedules: Schedules, started: datetime, variant: str | None = None
) -> Asking:
    """Decide rates, schedules and lengths.

    Raises:
        UsageError: naming the flag that cannot be used.
    """
    what = asked.what
    with naming("--budget"):
        budget_ns = None if what.budget is None else parse_duration_ns(what.budget)
    with naming("--duration"):
        given = asked.plan.duration
        run_ns = None if given is None else parse_duration_ns(given)
    with naming("--settle"):
        settle_ns = parse_duration_ns(what.settle, allow_zero=True)
    rates_rps, found = _sized(what, run_ns, budget_ns)
    expected = expected_precision(rates_rps, found.schedules, found.run_ns)
    plan = SweepPlan(
        loadgen_version=__version__,
        name=asked.output.name or f"sweep-{Path(asked.plan.workload).stem}",
        variant=variant,
        started_utc=started.isoformat(timespec="seconds"),
        command=without_secrets(sys.argv[1:]),
        host={
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
        },
        rates=what.rates,
        rates_rps=list(rates_rps),
        schedules=found.schedules,
        seeds=[schedules.seed + at for at in range(found.schedules)],
        run_ns=found.run_ns,
        target=_share(what.target),
        budget_ns=budget_ns,
        overload=what.overload,
        settle_ns=settle_ns,
        expected=expected,
        flags=kept_flags(asked),
    )
    return Asking(plan=plan, takes_ns=found.takes_ns)


def _sized(
    what: SweepFlags, run_ns: int | None, budget_ns: int | None
) -> tuple[tuple[float, ...], Fit]:
    searching = what.rates.partition(":")[0].strip() == _AUTO
    rates: tuple[float | None, ...] = ()
    if searching:
        _start_rps(what.rates)
    else:
        rates = parse_rates(what.rates)
    open_ended = bool(rates) and rates[-1] is None
    count = SEARCH_POINTS if searching else None if open_ended else len(rates)
    found = fit(
        Wanted(
            rates=count,
            schedules=what.schedules,
            run_ns=run_ns,
            budget_ns=budget_ns,
            searching=searching,
            extra_runs=(what.schedules or 3) if what.overload else 0,
        )
    )
    if open_ended:
        low, high, _ = rates
        assert low is not None
        assert high is not None
        return geometric(low, high, found.rates), found
    return tuple(rate for rate in rates if rate is not None), found


def course_of(plan: SweepPlan) -> Course:
    """The way through the rates that a plan means."""
    if plan.rates_rps:
        return Grid(plan.rates, plan.rates_rps, plan.schedules)
    return Search(plan.rates, plan.target, plan.schedules, _start_rps(plan.rates))


def _start_rps(rates: str) -> float:
    start = rates.partition(":")[2]
    with naming("--rates auto"):
        return parse_rate_rps(start) if start else 1.0


def _share(text: str) -> float:
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"--target {text!r} is no share", "write 95% or 0.95")
    return share


def kept_flags(asked: Asked) -> dict[str, dict[str, Any]]:
    """The flags as the journal keeps them: of headers no more than the names."""
    groups: tuple[Any, ...] = (
        *(asked.what, asked.plan, asked.to),
        *(asked.how, asked.evidence),
    )
    kept = {
        name: {
            key: str(value) if isinstance(value, Path) else value
            for key, value in asdict(flags).items()
        }
        for name, flags in zip(_GROUPS, groups, strict=True)
    }
    header = asked.to.header
    kept["to"]["header"] = header and [line.partition(":")[0] for line in header]
    urls = asked.to.metrics_url
    kept["to"]["metrics_url"] = urls and [url.partition("?")[0] for url in urls]
    return kept


def resumed(given: Asked, kept: Mapping[str, Mapping[str, Any]]) -> Asked:
    """The flags that a sweep began with; what may be given anew is taken from now.

    Args:
        given: the flags beside ``--resume``.
        kept: what ``kept_flags`` kept of the first ones.

    Raises:
        UsageError: a flag that would change the sweep, or a header that it had is
            not given again.
        RunDirError: the journal's flags are none of this version.
    """
    flags = {name: _read(kind, kept.get(name, {})) for name, kind in _GROUPS.items()}
    told: TargetFlags = flags["to"]
    wanted = set(told.header or ())
    names = {line.partition(":")[0] for line in given.to.header or ()}
    if wanted != names:
        listed = ", ".join(sorted(wanted)) or "no header"
        raise UsageError(
            f"the sweep was offered with {listed}", "give the same by --header again"
        )
    began = Asked(
        what=replace(flags["what"], resume=given.what.resume),
        plan=flags["plan"],
        to=replace(
            told,
            header=given.to.header,
            api_key_env=given.to.api_key_env or told.api_key_env,
            api_key_file=given.to.api_key_file or told.api_key_file,
            url=given.to.url or told.url,
            metrics_url=given.to.metrics_url or told.metrics_url,
        ),
        how=flags["offer"],
        evidence=flags["evidence"],
        output=given.output,
    )
    _refuse_changes(given, began)
    return began


def _refuse_changes(given: Asked, began: Asked) -> None:
    for group in ("what", "plan", "to", "how", "evidence"):
        new, old = getattr(given, group), getattr(began, group)
        for field in fields(new):
            value, first = getattr(new, field.name), getattr(old, field.name)
            default = DEFAULTS.get(
                field.name, None if field.default is MISSING else field.default
            )
            if value not in (default, first):
                flag = field.name.replace("_", "-")
                raise UsageError(
                    f"--resume goes on as the sweep began, with --{flag} {first}",
                    f"leave out --{flag}, or begin a new sweep",
                )


def _read(kind: type, values: Mapping[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}

    def path(wanted: type, value: Any) -> Any:
        if wanted is Path and isinstance(value, str):
            return Path(value)
        raise NotImplementedError

    try:
        return msgspec.convert(
            {key: value for key, value in values.items() if key in known},
            kind,
            dec_hook=path,
        )
    except (msgspec.ValidationError, TypeError) as error:
        raise RunDirError(
            f"the sweep's flags cannot be read: {error}",
            "go on with the version that began it",
        ) from None
