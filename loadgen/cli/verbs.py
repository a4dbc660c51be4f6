"""The list of verbs; each lives in a file of its own."""

from __future__ import annotations

import typer

from loadgen.cli.burst import burst
from loadgen.cli.calibrate import calibrate
from loadgen.cli.doctor import WITHOUT as NOT_FOR_DOCTOR
from loadgen.cli.doctor import doctor
from loadgen.cli.explain import explain
from loadgen.cli.params import takes_groups
from loadgen.cli.plan import plan
from loadgen.cli.replay import replay
from loadgen.cli.report import report
from loadgen.cli.serve import serve
from loadgen.cli.sweep import DEFAULTS, WITHOUT, sweep

__all__ = ["add_verbs"]


def add_verbs(app: typer.Typer) -> None:
    """Put every verb on the command line, in the order people meet them."""
    app.command()(takes_groups(burst))
    app.command()(takes_groups(plan))
    app.command()(takes_groups(replay))
    app.command()(takes_groups(sweep, without=WITHOUT, defaults=DEFAULTS))
    app.command()(takes_groups(report))
    app.command()(calibrate)
    app.command()(takes_groups(doctor, without=NOT_FOR_DOCTOR))
    app.command()(explain)
    app.command(
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "help_option_names": [],
        }
    )(serve)
