"""Pages and letters as people see them, byte for byte.

After a change that is meant, run with ``LOADGEN_UPDATE_GOLDEN=1``, look at the pages
in a browser and read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loadgen.report.html.render import page_html
from loadgen.report.html.run_page import Pictured, run_page
from loadgen.report.html.sweep_page import sweep_page
from loadgen.report.html.variants_page import variants_page
from loadgen.report.model import build
from loadgen.report.screen import Screen
from loadgen.report.terminal import report_text
from loadgen.report.tracks import Track
from tests.report_runs import exported, reduced
from tests.sweeps import grid, part, point_run, swept
from tests.variants import side_by_side

HERE = Path(__file__).parent / "pages"


def the_run() -> str:
    run = exported()
    pictured = Pictured(
        reduced=reduced(run),
        tracks=[
            Track("running", "running", ((0.0, 0.0), (0.5, 4.0), (1.0, 4.0))),
            Track("waiting", "waiting", ((0.0, 0.0), (0.5, None), (1.0, 3.0))),
            Track("kv_usage", "KV cache", ((0.0, 0.0), (0.5, 0.4), (1.0, 0.9))),
            Track("memory", "GPU 0", ((0.0, 60.0), (1.0, 72.5))),
        ],
        not_measured=(),
    )
    return page_html(run_page(run.summary, run.manifest, pictured, "results/by-hand"))


def the_sweep() -> str:
    groups = {"short": part(50, 50), "long": part(30, 50, shed={"gateway": 20})}
    runs = [
        *grid({2.0: [100, 99, 100], 4.0: [96, 92, 99], 8.0: [40, 35, 50]}),
        *(point_run(16.0, 20, at, groups=groups) for at in range(3)),
    ]
    return page_html(sweep_page(swept(runs), "results/sweep"))


def the_variants() -> str:
    capped = swept(grid({2.0: [100, 99], 4.0: [97, 96], 8.0: [80, 75]}))
    free = swept(grid({2.0: [100, 99], 4.0: [70, 60], 8.0: [10, 5]}))
    return page_html(variants_page(side_by_side({"cap 12": capped, "no cap": free})))


def the_letters() -> str:
    run = exported()
    return report_text(build(run.summary, run.manifest, None, reduced(run)), Screen())


SHOWN = {
    "run.html": the_run,
    "sweep.html": the_sweep,
    "variants.html": the_variants,
    "run.txt": the_letters,
}


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_as_it_was(name: str) -> None:
    shown = SHOWN[name]()
    golden = HERE / name
    if os.environ.get("LOADGEN_UPDATE_GOLDEN"):
        HERE.mkdir(exist_ok=True)
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")
