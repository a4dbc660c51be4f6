"""Variants side by side: read from a file, compared schedule by schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadgen.analysis.variants import VariantResult, VariantsSummary, interference
from loadgen.cli.experiment import read_variants, with_defaults
from loadgen.control.launch import masked
from loadgen.errors import UsageError
from loadgen.model import Basis
from loadgen.report.screen import Screen
from loadgen.report.variants import variants_text
from tests.sweeps import part, point_run, quantiles, swept
from tests.unit.test_sweep_plan import asked


def result(name: str, only: list[str], **groups: list[tuple[int, float]]) -> Any:
    """A variant swept at 4/s: by group, (good of 50, TTFT p95) of each schedule."""
    schedules = len(next(iter(groups.values())))
    runs = [
        point_run(
            4.0,
            0,
            at,
            groups={
                group: part(
                    rows[at][0], 50, latency={"ttft_s": quantiles(0.1, rows[at][1])}
                )
                for group, rows in groups.items()
            },
        )
        for at in range(schedules)
    ]
    return VariantResult(
        name=name,
        folder=name,
        launch=None,
        standin="--speed 4",
        only=only,
        ready_s=None,
        sweep=swept(runs),
        trouble=None,
    )


ALONE = result("alone", ["short"], short=[(50, 0.1), (50, 0.2)])
MIXED = result("mixed", [], short=[(40, 0.4), (30, 0.8)], long=[(50, 0.5), (50, 0.5)])


def test_a_group_alone_is_held_against_each_mix_of_it() -> None:
    (found,) = interference([ALONE, MIXED])
    assert (found.group, found.alone, found.mixed) == ("short", "alone", "mixed")
    assert found.goodput_lost.value == pytest.approx(0.3)
    assert found.ttft_p95_times.value == pytest.approx(4.0)
    assert found.ttft_p95_times.ci95 == pytest.approx((4.0, 4.0))
    assert found.goodput_alone == 1.0


def test_a_wait_not_reached_has_no_ratio() -> None:
    unknown: Any = None
    mixed = result(
        "mixed", [], short=[(4, unknown), (3, 0.8)], long=[(5, 0.5), (5, 0.5)]
    )
    (found,) = interference([ALONE, mixed])
    assert found.ttft_p95_times.value is None
    assert found.ttft_p95_mixed_s is None


def test_without_a_group_alone_or_a_mix_nothing_is_compared() -> None:
    assert interference([MIXED]) == []
    assert interference([ALONE]) == []


def test_side_by_side_fits_the_narrowest_screen() -> None:
    broken = VariantResult(
        name="broken",
        folder=None,
        launch=["vllm", "serve"],
        standin=None,
        only=[],
        ready_s=None,
        sweep=None,
        trouble="the launched server ended with 1: \x1b[31mno GPU",
    )
    summary = VariantsSummary(
        basis=Basis.STAND_IN,
        name="caps",
        started_utc="",
        loadgen_version="",
        file="f.toml",
        description="what caps do",
        variants=[ALONE, MIXED, broken],
        interference=interference([ALONE, MIXED]),
    )
    text = variants_text(summary, Screen(width=60))
    assert max(map(len, text.splitlines())) <= 60
    assert "\x1b" not in text
    assert "no GPU" in text
    assert "[stand-in]" in text
    assert "30 pp" in text


@pytest.mark.parametrize("name", ["short-against-long", "vllm-caps"])
def test_the_experiments_that_come_along_can_be_read(name: str) -> None:
    assert len(read_variants(Path(name)).variants) >= 3


def test_an_experiments_defaults_give_way_to_flags() -> None:
    experiment = read_variants(Path("short-against-long"))
    own = with_defaults(asked(), experiment.sweep)
    assert own.what.rates == "1/s,1.5/s,2/s,2.5/s,3/s"
    assert own.plan.duration == "60s"
    assert with_defaults(asked(rates="9/s"), experiment.sweep).what.rates == "9/s"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("variants = []", "length >= 1"),
        ('[[variants]]\nname = "a"\n[[variants]]\nname = "a"', "two variants"),
        ('[[variants]]\nname = "a"\nlaunch = "x"\nstandin = "y"', "exclude"),
        ('[[variants]]\nname = "a"\nurl = "http://h"', "need launch"),
        ('[[variants]]\nname = "a/b"', "name"),
        ('[[variants]]\nname = "a"\ncap = 3', "cap"),
        ("[[variants", "--variants"),
    ],
)
def test_a_file_that_is_no_experiment_is_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "v.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words) as refused:
        read_variants(path)
    assert str(path) in str(refused.value)


def test_a_missing_file_and_an_unknown_name_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_variants(tmp_path / "v.toml")
    with pytest.raises(UsageError, match="short-against-long"):
        read_variants(Path("long-against-short"))


def test_keys_of_a_launch_command_are_never_shown() -> None:
    command = [
        *("vllm", "serve", "m", "--api-key", "hush", "--max-num-queued-tokens", "9"),
        *("--hf-token=hush", "--api-key", "--port", "1"),
    ]
    shown = masked(command)
    assert "hush" not in " ".join(shown)
    assert shown[6] == "9"
    assert shown[-2:] == ["--port", "1"]
