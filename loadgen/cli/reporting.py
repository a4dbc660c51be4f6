"""Report on runs, sweeps and variants from what is in their folders."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import msgspec

from loadgen import __version__
from loadgen.analysis.curve import SweepSummary
from loadgen.analysis.goodput import Slo, parse_slo
from loadgen.analysis.summary import Summary
from loadgen.analysis.variants import VariantResult, VariantsSummary
from loadgen.cli.evidence import judge_by
from loadgen.cli.options import EvidenceFlags, OutputFlags
from loadgen.cli.pages import parse_exports, write_exports, write_page
from loadgen.cli.show import Show, screen_of
from loadgen.cli.subjects import Kind, Subject, find_subjects
from loadgen.cli.sweep_show import SweepShow, encode_sweep
from loadgen.cli.variants import VARIANTS_NAME
from loadgen.control.journal import read_state
from loadgen.control.judging import Judged
from loadgen.control.kept import kept_in
from loadgen.control.sweep_judging import summarise
from loadgen.errors import ExitCode, LoadgenError, RunDirError, UsageError, naming
from loadgen.model import Basis
from loadgen.store import RunDir
from loadgen.store.files import io_errors
from loadgen.store.schema import check_schema

__all__ = ["Wanted", "report_on"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The flags of ``report``."""

    evidence: EvidenceFlags
    slo: str | None
    html: Path | None
    export: list[str] | None
    gate: str | None
    json_: bool

    @property
    def gate_ratio(self) -> float | None:
        """``95%`` or ``0.95`` as a ratio; None without a gate.

        Raises:
            UsageError: no share above 0 and up to 1.
        """
        if self.gate is None:
            return None
        text = self.gate.strip()
        try:
            ratio = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            ratio = 0.0
        if not 0 < ratio <= 1:
            raise UsageError(f"--gate {self.gate!r} is no share", "write 95%")
        return ratio


def report_on(paths: Sequence[Path], wanted: Wanted) -> int:
    """Find out what the folders are, and show it.

    Returns:
        The exit code: of a gate where one was asked for; otherwise 2 where a folder
        could not be read.
    """
    subjects = find_subjects(paths, _aside)
    kind = subjects[0].kind
    if kind is not Kind.RUN:
        if wanted.gate is not None or wanted.slo is not None:
            raise UsageError(
                f"--gate and --slo judge runs, not {kind}", "name the runs' folders"
            )
        return _sweeps(subjects, wanted, sys.stdout)
    if len(subjects) == 1:
        return _one_run(subjects[0].path, wanted, sys.stdout)
    return _several_runs([one.path for one in subjects], wanted, sys.stdout)


def _aside(line: str) -> None:
    sys.stderr.write(f"note: {line}\n")


def _judged(path: Path, wanted: Wanted) -> tuple[RunDir, Judged]:
    run = RunDir.open(path)
    slo = wanted.slo if wanted.slo is not None else kept_in(run.read_manifest()).slo
    with naming("--slo" if wanted.slo is not None else f"the run {path}"):
        limits = Slo() if slo is None else parse_slo(slo)
    seen: list[Judged] = []
    judge = judge_by(wanted.evidence, limits, from_now=False)
    replace(judge, see=seen.append).again(run)
    return run, seen[-1]


def _one_run(path: Path, wanted: Wanted, out: TextIO) -> int:
    from loadgen.report.exports.kinds import RUN_EXPORTS
    from loadgen.report.exports.run import Exported

    exports = parse_exports(wanted.export, RUN_EXPORTS)
    gate = wanted.gate_ratio
    run, judged = _judged(path, wanted)
    output = OutputFlags(json_=wanted.json_, html=wanted.html)
    Show(output, out, sys.stderr).result(judged, run)
    exported = Exported(
        summary=judged.summary,
        manifest=run.read_manifest(),
        data=judged.data,
        terms=judged.terms,
        records=judged.records,
        gate=gate,
    )
    write_exports(exports, RUN_EXPORTS, exported)
    return _gated(judged.summary, gate)


def _gated(summary: Summary, gate: float | None) -> int:
    """Without a gate nothing was asked; with one an invalid run has shown nothing."""
    if gate is None:
        return ExitCode.OK
    if summary.verdict.status != "valid":
        return ExitCode.INVALID
    ratio = summary.goodput.ratio
    return ExitCode.OK if ratio is not None and ratio >= gate else ExitCode.GATE_FAILED


def _several_runs(paths: Sequence[Path], wanted: Wanted, out: TextIO) -> int:
    from loadgen.report.html.several_page import several_page
    from loadgen.report.several import build_several, several_text

    parse_exports(wanted.export, {})
    gate = wanted.gate_ratio
    summaries: list[tuple[str, Summary]] = []
    troubles: list[tuple[str, str]] = []
    for path in paths:
        try:
            summaries.append((str(path), _judged(path, wanted)[1].summary))
        except LoadgenError as error:
            troubles.append((str(path), str(error)))
    several = build_several(summaries, troubles)
    if wanted.json_:
        out.write(_several_json(summaries, troubles))
    else:
        out.write(several_text(several, screen_of(out)))
    out.flush()
    if wanted.html is not None:
        write_page(several_page(several, __version__), wanted.html)
    if troubles:
        return ExitCode.USAGE
    return max((_gated(summary, gate) for _, summary in summaries), default=0)


def _several_json(
    summaries: Sequence[tuple[str, Summary]], troubles: Sequence[tuple[str, str]]
) -> str:
    runs: list[dict[str, object]] = [
        {"folder": folder, "summary": summary, "trouble": None}
        for folder, summary in summaries
    ]
    runs += [
        {"folder": folder, "summary": None, "trouble": why} for folder, why in troubles
    ]
    raw = msgspec.json.encode({"schema": "loadgen.runs/1", "runs": runs})
    return msgspec.json.format(raw, indent=2).decode() + "\n"


def _sweeps(subjects: Sequence[Subject], wanted: Wanted, out: TextIO) -> int:
    if subjects[0].kind is Kind.VARIANTS:
        if len(subjects) > 1:
            raise UsageError(
                "several sweeps of variants at once", "name one of these folders"
            )
        return _show_variants(_read_variants(subjects[0].path), wanted, out)
    if len(subjects) > 1:
        return _show_variants(_side_by_side(subjects), wanted, out)
    from loadgen.report.exports.sweep import SWEEP_EXPORTS

    exports = parse_exports(wanted.export, SWEEP_EXPORTS)
    path = subjects[0].path
    summary = summarise(read_state(path))
    output = OutputFlags(json_=wanted.json_, html=wanted.html)
    show = SweepShow(output, out, sys.stderr)
    show.result(summary, path)
    write_exports(exports, SWEEP_EXPORTS, summary)
    return ExitCode.OK


def _show_variants(summary: VariantsSummary, wanted: Wanted, out: TextIO) -> int:
    kinds = {"json": lambda found, file: file.write(encode_sweep(found))}
    exports = parse_exports(wanted.export, kinds)
    output = OutputFlags(json_=wanted.json_, html=wanted.html)
    SweepShow(output, out, sys.stderr).variants(summary)
    write_exports(exports, kinds, summary)
    return ExitCode.OK


def _read_variants(folder: Path) -> VariantsSummary:
    """What was written of them last.

    Raises:
        RunDirError: nothing yet, damaged, or of another version.
    """
    path = folder / VARIANTS_NAME
    if not path.exists():
        raise RunDirError(
            f"{folder}: none of its variants has ended yet",
            "name the sweep of one of them",
        )
    with io_errors("read", path):
        raw = path.read_bytes()
    try:
        check_schema(path, raw, "loadgen.variants/1")
        return msgspec.json.decode(raw, type=VariantsSummary)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunDirError(f"{path} is damaged: {error}") from error


def _side_by_side(subjects: Sequence[Subject]) -> VariantsSummary:
    """Sweeps that were named together, as variants of one another."""
    results = [_as_variant(subject.path) for subject in subjects]
    sweeps = [one.sweep for one in results if one.sweep is not None]
    results = _told_apart(results)
    return VariantsSummary(
        basis=sweeps[0].basis if sweeps else Basis.MEASURED,
        name=f"{len(subjects)} sweeps",
        started_utc=min((one.sweep.started_utc for one in sweeps), default=""),
        loadgen_version=__version__,
        file="",
        description="",
        variants=results,
        interference=[],
    )


def _told_apart(results: list[VariantResult]) -> list[VariantResult]:
    """By their folders, where two have one name."""
    names = [one.name for one in results]
    return [
        msgspec.structs.replace(one, name=Path(one.folder or one.name).name)
        if names.count(one.name) > 1
        else one
        for one in results
    ]


def _as_variant(path: Path) -> VariantResult:
    sweep: SweepSummary | None = None
    trouble = None
    try:
        sweep = summarise(read_state(path))
    except LoadgenError as error:
        trouble = str(error)
    name = path.name if sweep is None else sweep.sweep.variant or sweep.sweep.name
    return VariantResult(
        name=name,
        folder=str(path),
        launch=None,
        standin=None,
        only=[],
        ready_s=None,
        sweep=sweep,
        trouble=trouble,
    )
