"""One run judged: the contract of ``summary.json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from loadgen.analysis.client import Client, ClientFacts, client_of
from loadgen.analysis.columns import Mask, RunData
from loadgen.analysis.fairness import Fairness, fairness
from loadgen.analysis.findings import Finding, findings, tokens_per_event
from loadgen.analysis.goodput import Goodput, Slo, good_rows, goodput, meets
from loadgen.analysis.latency import (
    Gaps,
    Latency,
    Times,
    gaps_of,
    latency,
    times_of,
)
from loadgen.analysis.lengths import (
    Lengths,
    Throughput,
    output_lengths,
    prompt_lengths,
    throughput,
)
from loadgen.analysis.rejections import Rejection, rejections
from loadgen.analysis.silence import Silences, silences
from loadgen.analysis.timeline import Account, Timeline
from loadgen.analysis.validity import Doubts, Verdict, verdict
from loadgen.model import Basis, Manifest, Outcome, RequestRecord
from loadgen.units import NS_PER_S

__all__ = [
    "DEFINITIONS",
    "Evidence",
    "Summary",
    "Terms",
    "encode",
    "judge",
    "judge_data",
]

DEFINITIONS = {
    "quantiles": "linear interpolation between the two nearest ranks",
    "ttft_s": "first token - scheduled",
    "ttft_from_sent_s": "first token - sent",
    "ttft_answer_s": "first token that is not reasoning - scheduled",
    "itl_s": "gaps between token events of one request, both stamps exact",
    "tpot_s": "(last token - first token) / (output tokens - 1), from 2 tokens up",
    "e2e_s": "end - scheduled, of ok requests",
    "time_to_reject_s": "end - scheduled, of http_reject and in_stream_reject",
    "goodput": "ok and within every limit (<=), over all offered requests",
    "ci95": "Wilson; holds for this schedule, not for another draw of arrivals",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the run is judged by.

    Args:
        slo: the limits of goodput.
        model: the model the requests named; None when they named none.
        stream: whether streamed answers were asked for.
        asked: rate and duration as the user typed them, beside the realised ones.
    """

    slo: Slo = field(default_factory=Slo)
    model: str | None = None
    stream: bool = True
    asked: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of the run beside its records.

    Args:
        client: the issuing processes' account; None when they left none.
        interrupted: whether the user stopped the run.
        warmup: records of requests before t0: told, never counted.
        flaws: lines that could not be read; looked at after the records were.
        edits: files that are not as they were sealed.
        files: digests of the run's files, for a later look whether they changed.
        reconciliation: the engine's own counters held against ours.
        telemetry: what GPU and server metrics had to say.
        timeline: the samples both are made from, where they are not given.
    """

    client: ClientFacts | None = None
    interrupted: bool = False
    warmup: Iterable[RequestRecord] = ()
    flaws: Sequence[str] = ()
    edits: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    reconciliation: Mapping[str, Any] | None = None
    telemetry: Mapping[str, Any] | None = None
    timeline: Timeline | None = None


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule as realised; ``asked`` holds what was typed."""

    requests: int
    duration_s: float
    rate_rps: float | None
    schedule_digest: str
    asked: dict[str, float | None]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One group of the workload, judged alone."""

    offered: int
    outcomes: dict[str, int]
    latency: Latency
    goodput: Goodput
    prompt_tokens: Lengths
    output_tokens: Lengths


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Which run this is."""

    name: str
    started_utc: str
    loadgen_version: str


class Warmup(msgspec.Struct, frozen=True, kw_only=True):
    """Requests sent before t0; in no other number of the summary."""

    requests: int
    outcomes: dict[str, int]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All that is judged of one run. Absent values are null, never 0 or NaN."""

    schema: str = "loadgen.summary/1"
    basis: Basis
    run: Run
    verdict: Verdict
    offered: Offered
    outcomes: dict[str, int]
    rejections: list[Rejection]
    latency: Latency
    groups: dict[str, Group]
    goodput: Goodput
    throughput: Throughput
    prompt_tokens: Lengths
    output_tokens: Lengths
    tokens_per_event: float | None
    fairness: Fairness | None
    client: Client
    findings: list[Finding]
    warmup: Warmup
    reconciliation: dict[str, Any] | None
    telemetry: dict[str, Any] | None
    files: dict[str, str]
    definitions: dict[str, str]


def encode(summary: Summary) -> bytes:
    """Strict JSON (RFC 8259), indented; a float that is no number becomes null."""
    return msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"


def judge(
    manifest: Manifest,
    records: Iterable[RequestRecord],
    terms: Terms,
    evidence: Evidence,
) -> Summary:
    """Judge a run from its records, read once.

    ``outcomes`` sum to the offered count: a request without any record counts as
    ``internal``. So do the causes of ``rejections`` and the ok requests together.

    Raises:
        RunDirError: a record holds a number that no run produces.
    """
    data = RunData.collect(records, manifest.offered_requests)
    return judge_data(manifest, data, terms, evidence)


def judge_data(
    manifest: Manifest, data: RunData, terms: Terms, evidence: Evidence
) -> Summary:
    """The same of records that are read already, for whoever needs them twice."""
    times, gaps = times_of(data), gaps_of(data)
    kept = meets(terms.slo, data, times, stream=terms.stream)
    judgement = _Judgement(manifest, terms, data, times, gaps, kept)
    client = client_of(data, times, evidence.client)
    account = Account() if evidence.timeline is None else evidence.timeline.beside(data)
    silent = silences(data, gaps)
    outcomes = _outcomes(data)
    causes = rejections(data)
    _conserve(data.offered, outcomes, causes)
    return Summary(
        basis=manifest.basis,
        run=_run(manifest),
        verdict=verdict(judgement.doubts(evidence, client, silent)),
        offered=_offered(manifest, terms),
        outcomes=outcomes,
        rejections=causes,
        latency=latency(data, times, gaps, None),
        groups=judgement.groups(),
        goodput=judgement.goodput(None, data.offered),
        throughput=throughput(data, manifest.duration_ns),
        prompt_tokens=prompt_lengths(data),
        output_tokens=output_lengths(data),
        tokens_per_event=tokens_per_event(data),
        fairness=fairness(data, good_rows(kept, data.ok)),
        client=client,
        findings=[
            *(Finding(code="flaw", count=1, text=words) for words in evidence.flaws),
            *account.findings,
            *findings(data, times, gaps, silent, asked_model=terms.model),
        ],
        warmup=_warmup(evidence.warmup),
        reconciliation=_plain(evidence.reconciliation) or account.reconciliation,
        telemetry=_plain(evidence.telemetry) or account.telemetry,
        files=dict(evidence.files),
        definitions=DEFINITIONS,
    )


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What each group is judged by, as the whole run is."""

    manifest: Manifest
    terms: Terms
    data: RunData
    times: Times
    gaps: Gaps
    kept: dict[str, Mask]

    def goodput(self, rows: Mask | None, offered: int) -> Goodput:
        return goodput(
            self.terms.slo,
            self.kept,
            self.data.ok,
            offered=offered,
            duration_ns=self.manifest.duration_ns,
            rows=rows,
        )

    def doubts(
        self, evidence: Evidence, client: Client, silent: Silences | None
    ) -> Doubts:
        return Doubts(
            data=self.data,
            client=client,
            slo=self.terms.slo,
            basis=self.manifest.basis,
            told=evidence.client is not None,
            interrupted=evidence.interrupted,
            edits=evidence.edits,
            silences=silent,
            stream=self.terms.stream,
            without_tpot=self._without_tpot(),
        )

    def _without_tpot(self) -> int:
        """Ok answers that miss the TPOT limit only because they have no TPOT."""
        kept = self.kept.get("tpot_s")
        if kept is None:
            return 0
        return int((self.data.ok & ~kept & np.isnan(self.times.tpot)).sum())

    def groups(self) -> dict[str, Group]:
        data = self.data
        found = {}
        for name, offered in data.group.counts().items():
            rows = data.group.where(name)
            found[name] = Group(
                offered=offered,
                outcomes=_with_ok(data.outcome.counts(rows)),
                latency=latency(data, self.times, self.gaps, rows),
                goodput=self.goodput(rows, offered),
                prompt_tokens=prompt_lengths(data, rows),
                output_tokens=output_lengths(data, rows),
            )
        return found


def _run(manifest: Manifest) -> Run:
    return Run(
        name=manifest.name,
        started_utc=manifest.started_utc,
        loadgen_version=manifest.loadgen_version,
    )


def _offered(manifest: Manifest, terms: Terms) -> Offered:
    count, duration_ns = manifest.offered_requests, manifest.duration_ns
    return Offered(
        requests=count,
        duration_s=duration_ns / NS_PER_S,
        rate_rps=round(count * NS_PER_S / duration_ns, 6) if duration_ns else None,
        schedule_digest=manifest.schedule_digest,
        asked=dict(terms.asked),
    )


def _with_ok(counts: dict[str, int]) -> dict[str, int]:
    """That none was ok is worth saying; the other outcomes only where they occur."""
    return {Outcome.OK.value: 0} | counts


def _outcomes(data: RunData) -> dict[str, int]:
    counts = _with_ok(data.outcome.counts())
    if data.unrecorded:
        internal = Outcome.INTERNAL.value
        counts[internal] = counts.get(internal, 0) + data.unrecorded
    return counts


def _conserve(offered: int, outcomes: dict[str, int], causes: list[Rejection]) -> None:
    """Every offered request is in exactly one place, or the judgement is wrong."""
    counted = sum(outcomes.values())
    explained = outcomes[Outcome.OK.value] + sum(cause.count for cause in causes)
    if not offered == counted == explained:
        raise AssertionError(
            f"{offered} offered, {counted} by outcome, {explained} by cause"
        )


def _warmup(records: Iterable[RequestRecord]) -> Warmup:
    outcomes: dict[str, int] = {}
    for record in records:
        outcomes[record.outcome] = outcomes.get(record.outcome, 0) + 1
    return Warmup(requests=sum(outcomes.values()), outcomes=outcomes)


def _plain(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else dict(values)
