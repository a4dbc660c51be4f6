"""From a run folder to its summary, right after the run or any time later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from loadgen.analysis.client import ClientFacts
from loadgen.analysis.columns import RunData
from loadgen.analysis.goodput import Slo
from loadgen.analysis.summary import Evidence, Summary, Terms, judge_data
from loadgen.analysis.timeline import Timeline
from loadgen.control.kept import kept_in
from loadgen.control.logs import Attribute, Logs
from loadgen.errors import LoadgenError, RunDirError
from loadgen.issue.mapped import Mapped
from loadgen.issue.progress import read_once
from loadgen.issue.stats import IssueStats
from loadgen.model import Ending, Manifest, Outcome, RequestRecord
from loadgen.plan.schedule import Schedule, load
from loadgen.store import RunDir, lost_record
from loadgen.store.files import sha256_of
from loadgen.store.lines import LineStream
from loadgen.store.rundir import Records
from loadgen.telemetry.samples import Sample
from loadgen.telemetry.vocabulary import load_vocabulary

__all__ = ["Judge", "Judged", "client_facts", "open_schedule"]


NOT_SAVED = "not saved"
NEVER_OFFERED = "never offered"
"""``detail`` of a request that its process had not taken up when it stopped or died,
and of which it could write no record."""


def open_schedule(path: Path, *, verify: bool = True) -> Schedule:
    """A schedule, mapped and not copied.

    Raises:
        UsageError: it is missing, cut or edited.
    """
    mapped = Mapped(path)
    schedule = load(mapped.data, verify=verify)
    mapped.rewind()
    return schedule


def client_facts(stats: Sequence[IssueStats], steal_share: float | None) -> ClientFacts:
    """The issuers' accounts as one: the worst of each, sums of counts.

    Args:
        stats: one a process.
        steal_share: of the processors' time, what the hypervisor took; None: not
            told.
    """
    lags = [one.loop_lag for one in stats]
    steps = [
        step["step_ns"]
        for one in stats
        if one.clock is not None
        for step in one.clock.steps
    ]
    connections: dict[str, int] = {}
    for one in stats:
        for name in one.connections.__struct_fields__:
            count = getattr(one.connections, name)
            connections[name] = connections.get(name, 0) + count
    return ClientFacts(
        processes=len(stats),
        loop_lag_p50_ns=_worst([lag.p50_ns for lag in lags]),
        loop_lag_p99_ns=_worst([lag.p99_ns for lag in lags]),
        loop_lag_max_ns=_worst([lag.max_ns for lag in lags]),
        clock_step_ns=max(steps, key=abs, default=0),
        gc_collections=sum(one.gc_collections for one in stats),
        gc_pause_max_ns=max((one.gc_pause_max_ns for one in stats), default=None),
        steal_share=steal_share,
        stopped=_why_stopped(stats),
        connections=connections,
    )


def _why_stopped(stats: Sequence[IssueStats]) -> str | None:
    """Each reason once, a person's wish before the others; None: all went on."""
    why = dict.fromkeys(one.stop for one in stats if one.stop is not None)
    return "; ".join(sorted(why, key=lambda text: not _by_person(text))) or None


def _by_person(stopped: str) -> bool:
    return stopped.startswith("interrupted")


def _worst(values: Sequence[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


class Judged(NamedTuple):
    """A judgement, and what it was made from: for pictures and exports of it.

    ``records`` can be read once more; ``timeline`` is None where nothing was watched.
    """

    summary: Summary
    data: RunData
    records: Records
    terms: Terms
    timeline: Timeline | None


def _unseen(_: Judged) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What a run is judged by, and what is known of it beside its folder.

    Args:
        attribute: which layer lost a request, by its answer.
        slo: the limits of goodput.
        logs: of the server and a gateway, heeded beside the answers.
        anew: attribute again what a finished run has attributed already.
        see: is shown each judgement with what it was made from.
    """

    attribute: Attribute
    slo: Slo
    logs: Logs = field(default_factory=Logs)
    anew: bool = False
    see: Callable[[Judged], None] = _unseen

    def finish(self, run: RunDir, manifest: Manifest, facts: ClientFacts) -> Summary:
        """Write what the client says, merge the shards, judge, write the summary.

        Where the folder cannot be written any more (a full disk) the judgement is
        made from what is there, says so, and is left to the caller to show.

        Args:
            run: the folder.
            manifest: written anew, for what only the end of a run tells.
            facts: what the issuing processes said of themselves.

        Raises:
            RunDirError: the folder itself is gone.
        """
        try:
            run.write_manifest(manifest)
            run.write_json(run.client_path, facts)
            merged = run.merge_records(
                self._attribute(run, manifest),
                manifest.offered_requests,
                _StandIns(run, manifest),
            )
            files = {run.requests_path.name: merged.digest}
            for path in (run.warmup_path, run.telemetry_path):
                if path.exists():
                    files[path.name] = sha256_of(path)
            summary = self._judge(run, manifest, facts, merged.flaws, (), files)
            run.write_summary(summary)
        except RunDirError as error:
            if not run.path.is_dir():
                raise
            flaws = (f"{NOT_SAVED}: {error}",)
            return self._judge(run, manifest, facts, flaws, (), {})
        return summary

    def again(self, run: RunDir) -> Summary:
        """Judge a finished or killed run anew; nothing is written."""
        facts = None
        if run.client_path.exists():
            facts = run.read_json(run.client_path, ClientFacts)
        return self._judge(run, run.read_manifest(), facts, (), run.edits(), {})

    def _attribute(self, run: RunDir, manifest: Manifest) -> Attribute:
        return self.logs.refining(
            self.attribute, lambda: run.records(offered=manifest.offered_requests)
        )

    def _judge(
        self,
        run: RunDir,
        manifest: Manifest,
        facts: ClientFacts | None,
        flaws: Sequence[str],
        edits: Sequence[str],
        files: dict[str, str],
    ) -> Summary:
        needed = self.anew or run.is_unmerged
        records = run.records(
            offered=manifest.offered_requests,
            attribute=self._attribute(run, manifest) if needed else None,
            planned=_StandIns(run, manifest),
        )
        kept = kept_in(manifest)
        stopped = (facts and facts.stopped) or ""
        terms = Terms(
            slo=self.slo,
            model=kept.model,
            stream=kept.stream,
            asked=kept.asked,
        )
        data = RunData.collect(records, manifest.offered_requests)
        timeline = _timeline(run, manifest)
        summary = judge_data(
            manifest,
            data,
            terms,
            Evidence(
                client=facts,
                interrupted=_by_person(stopped),
                warmup=run.warmup_records() if run.warmup_path.exists() else (),
                flaws=flaws or records.flaws,
                edits=edits,
                files=files,
                timeline=timeline,
            ),
        )
        self.see(Judged(summary, data, records, terms, timeline))
        return summary


def _timeline(run: RunDir, manifest: Manifest) -> Timeline | None:
    """The run's samples; None where nothing was watched."""
    watched = kept_in(manifest).watched
    if watched is None:
        return None
    any_sample: Any = Sample  # a union is no type to mypy
    lines: LineStream[Sample] = LineStream(run.telemetry_path, any_sample)
    samples = list(lines)
    version = manifest.target.get("version")
    return Timeline(
        samples=samples,
        watched=watched,
        vocabulary=load_vocabulary(),
        version=version if isinstance(version, str) else None,
        flaws=lines.flaws,
    )


class _StandIns:
    """Records for requests that left none, as far as schedule and counters tell.

    A process takes its share up in order: what lies beyond its count when it died
    was never offered, of the rest nobody knows. Both files are opened on first need.
    """

    def __init__(self, run: RunDir, manifest: Manifest) -> None:
        self._run = run
        kept = kept_in(manifest)
        self._prefix, self._processes = kept.request_id_prefix, kept.processes

    def __call__(self, seq: int) -> RequestRecord | None:
        if self._schedule is None:
            return None
        entry = self._schedule.entry(seq)
        record = lost_record(
            seq,
            request_id="" if self._prefix is None else f"{self._prefix}{seq}",
            scheduled_ns=entry.at_ns,
            group=entry.group,
            tenant=entry.tenant,
            max_tokens=entry.max_tokens,
            planned_prompt_tokens=entry.prompt_tokens,
        )
        place, process = divmod(seq, self._processes)
        taken_up = self._taken_up[process]
        if taken_up is None or place < taken_up:
            return record
        return msgspec.structs.replace(
            record, outcome=Outcome.UNSENT, ending=Ending.UNSENT, detail=NEVER_OFFERED
        )

    @cached_property
    def _schedule(self) -> Schedule | None:
        try:
            return open_schedule(self._run.schedule_path, verify=False)
        except (LoadgenError, OSError, ValueError):
            return None

    @cached_property
    def _taken_up(self) -> list[int | None]:
        """Requests each process took up; None where no counters are left."""
        paths = map(self._run.progress_path, range(self._processes))
        return [_due(path) for path in paths]


def _due(path: Path) -> int | None:
    try:
        return read_once(path)["due"]
    except (OSError, ValueError):  # taken away, or cut
        return None
