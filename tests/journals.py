"""Sweeps' journals made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loadgen.control.journal import Journal, Met, SweepPlan
from loadgen.model import Basis
from loadgen.units import NS_PER_S

AT = "2026-12-01T00:00:00+00:00"
FLAGS: dict[str, dict[str, Any]] = {
    "what": {},
    "plan": {},
    "to": {},
    "offer": {"slo": "ttft=2s"},
    "evidence": {},
}
MET = Met(
    at_utc=AT,
    basis=Basis.STAND_IN,
    url="http://127.0.0.1:1",
    model="stand-in",
    server_version="0.33.0",
    workload="agent-burst",
)


def plan(**fields: Any) -> SweepPlan:
    given: dict[str, Any] = {
        "loadgen_version": "0.1.0",
        "name": "sweep-agent-burst",
        "variant": None,
        "started_utc": AT,
        "command": ["loadgen", "sweep"],
        "host": {},
        "rates": "2/s,4/s",
        "rates_rps": [2.0, 4.0],
        "schedules": 2,
        "seeds": [7, 8],
        "run_ns": 10 * NS_PER_S,
        "target": 0.95,
        "budget_ns": None,
        "overload": False,
        "settle_ns": 0,
        "expected": None,
        "flags": FLAGS,
    }
    return SweepPlan(**(given | fields))


def journal(folder: Path, **fields: Any) -> Journal:
    """A sweep that has met its server."""
    found = Journal.create(folder, plan(**fields))
    found.add(MET)
    return found
