"""Telemetry on the requests' axis: samples in, ``summary.telemetry`` out.

Pure. What a source did not tell is null or ``missing`` here, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from loadgen.analysis.columns import RunData
from loadgen.analysis.findings import Finding
from loadgen.analysis.overload import silent_queue
from loadgen.analysis.reconcile import (
    ClientCounts,
    EngineDeltas,
    add_deltas,
    reconcile,
)
from loadgen.analysis.timeline_client import ClientSeen, client_seen
from loadgen.analysis.timeline_gpu import GpuSeen, gpu_seen
from loadgen.analysis.timeline_server import (
    InFlight,
    ServerSeen,
    engine_deltas,
    server_seen,
)
from loadgen.model import Layer, Outcome, Resource
from loadgen.telemetry.samples import ClientSample, Sample, ServerSample, Watched
from loadgen.telemetry.series import GaugeSeen, Scrapes
from loadgen.telemetry.vocabulary import Vocabulary
from loadgen.units import NS_PER_MS

__all__ = ["Account", "Timeline", "client_counts"]

SOON_NS = 500 * NS_PER_MS
REFUSED = (Outcome.HTTP_REJECT, Outcome.IN_STREAM_REJECT)


class Moments(msgspec.Struct, frozen=True, kw_only=True):
    """When things happened, ns since t0; None: they did not, or nobody looked.

    ``at_refusal`` are the levels of the last look before the first refusal, or of
    the first within half a second after it.
    """

    first_refusal_ns: int | None
    waiting_peak_ns: int | None
    running_peak_ns: int | None
    kv_usage_peak_ns: int | None
    memory_peak_ns: int | None
    at_refusal: dict[str, float]


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """``summary.telemetry``; ``others`` are further addresses of metrics."""

    gpu: GpuSeen
    server: ServerSeen
    client: ClientSeen
    others: list[ServerSeen]
    moments: Moments


@dataclass(frozen=True, slots=True)
class Account:
    """What telemetry adds to a judgement."""

    telemetry: dict[str, Any] | None = None
    reconciliation: dict[str, Any] | None = None
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A run's samples, to be laid beside its requests.

    Args:
        samples: in any order.
        watched: what was looked at.
        vocabulary: terms and engines.
        version: the engine's version, as the server told it.
        flaws: samples that could not be read back, in words.
    """

    samples: Iterable[Sample]
    watched: Watched
    vocabulary: Vocabulary
    version: str | None = None
    flaws: Sequence[str] = ()

    def beside(self, data: RunData) -> Account:
        """Judge the samples together with the requests."""
        samples = sorted(self.samples, key=lambda sample: sample.at_ns)
        in_flight = InFlight(
            np.sort(data.sent_ns[np.isfinite(data.sent_ns)]),
            np.sort(data.end_ns[np.isfinite(data.sent_ns) & np.isfinite(data.end_ns)]),
        )
        folded = list(self._servers(samples, in_flight))
        servers = [seen for seen, _ in folded]
        main = next((seen for seen in servers if seen.layer == "engine"), None)
        if main is None:
            off = ServerSeen(status=self.watched.metrics_note or "off")
            main = servers[0] if servers else off
        scrapes = next((s for seen, s in folded if seen is main), None)
        account = add_deltas(
            deltas
            for seen, one in folded
            # what stands before the engine counts the same requests again
            if one is not None and seen.layer == main.layer
            if (deltas := engine_deltas(seen, one)) is not None
        )
        ours = client_counts(data)
        gpu = gpu_seen(samples, self.watched.gpu, data)
        noticed = [one for seen in servers for one in seen.findings]
        main = msgspec.structs.replace(
            main,
            foreign_requests=_foreign(account, ours),
            findings=[*main.findings, *_against(account, ours)],
        )
        telemetry = Telemetry(
            gpu=gpu,
            server=main,
            client=client_seen(
                [one for one in samples if isinstance(one, ClientSample)]
            ),
            others=[seen for seen in servers if seen.url != main.url],
            moments=_moments(data, main, scrapes, gpu),
        )
        return Account(
            telemetry=msgspec.to_builtins(telemetry),
            reconciliation=(
                None
                if account is None
                else msgspec.to_builtins(reconcile(ours, account))
            ),
            findings=[
                *(Finding(code="flaw", count=1, text=words) for words in self.flaws),
                *noticed,
                *gpu.findings,
                *_silent_queue(data, scrapes),
            ],
        )

    def _servers(
        self, samples: Sequence[Sample], in_flight: InFlight
    ) -> Iterator[tuple[ServerSeen, Scrapes | None]]:
        for number, url in enumerate(self.watched.metrics):
            yield server_seen(
                [
                    one
                    for one in samples
                    if isinstance(one, ServerSample) and one.url == number
                ],
                self.vocabulary,
                url=url,
                version=self.version,
                asked=self.watched.series,
                in_flight=in_flight,
            )


def client_counts(data: RunData) -> ClientCounts:
    """Sent requests by how and where they ended."""
    sent = np.isfinite(data.sent_ns)
    causes = len(data.causes)
    pairs = data.outcome.codes[sent].astype(np.int64) * (causes + 1) + data.cause[sent]
    keys, counts = np.unique(pairs + 1, return_counts=True)

    def grouped() -> Iterator[tuple[Outcome, Layer, Resource, int]]:
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            outcome, cause = divmod(key, causes + 1)
            layer, resource = Layer.UNKNOWN, Resource.UNKNOWN
            if cause:
                why = data.causes[cause - 1]
                layer, resource = why.layer, why.resource
            yield Outcome(data.outcome.names[outcome]), layer, resource, count

    return ClientCounts.summed(grouped())


def _foreign(account: EngineDeltas | None, ours: ClientCounts) -> int | None:
    """Requests finished beyond those of ours that could be; None: not known."""
    if account is None or account.success is None or account.resets:
        return None
    return max(0, account.success - (ours.sent - ours.admission))


def _against(account: EngineDeltas | None, ours: ClientCounts) -> Iterator[Finding]:
    """Where the engine's count of finished requests cannot be of ours alone.

    The account says so in its own words too, so these stay with the server.
    """
    foreign = _foreign(account, ours)
    if foreign:
        yield Finding(
            code="not_exclusive_or_gateway_retries",
            count=1,
            text=f"it finished {foreign} requests that were not ours, or one of ours "
            "more than once: its other numbers hold for all of them",
        )
    elif foreign is not None and account is not None and account.success is not None:
        lacking = ours.ok - account.success
        if lacking > 0:
            yield Finding(
                code="server_count_below_client",
                count=1,
                text=f"we have {lacking} whole answers more than it counts finished",
            )


def _moments(
    data: RunData, server: ServerSeen, scrapes: Scrapes | None, gpu: GpuSeen
) -> Moments:
    refused = data.end_ns[data.outcome.where(*REFUSED)]
    refused = refused[np.isfinite(refused)]
    first = int(refused.min()) if refused.size else None
    peaks = {
        term: seen.at_ns if isinstance(seen, GaugeSeen) and seen.peak else None
        for term in ("waiting", "running", "kv_usage")
        for seen in [server.series.get(term)]
    }
    return Moments(
        first_refusal_ns=first,
        waiting_peak_ns=peaks["waiting"],
        running_peak_ns=peaks["running"],
        kv_usage_peak_ns=peaks["kv_usage"],
        memory_peak_ns=_memory_peak_ns(gpu),
        at_refusal={} if first is None or scrapes is None else _at(scrapes, first),
    )


def _memory_peak_ns(gpu: GpuSeen) -> int | None:
    """Of the working GPU that holds most."""
    held = [one.memory for one in gpu.devices if one.working and one.memory]
    return max(held, key=lambda memory: memory.peak).at_ns if held else None


def _at(scrapes: Scrapes, instant_ns: int) -> dict[str, float]:
    """The levels of the last look before an instant, or soon after it.

    A look before t0 tells of an idle server, so it does not stand for the run.
    """
    found = {}
    for term in ("running", "waiting", "kv_usage"):
        levels = [look for look in _levels(scrapes, term) if look[0] >= 0]
        earlier = [value for at_ns, value in levels if at_ns <= instant_ns]
        soon = [value for at_ns, value in levels if at_ns <= instant_ns + SOON_NS]
        if earlier:
            found[term] = earlier[-1]
        elif soon:
            found[term] = soon[0]
    return found


def _levels(scrapes: Scrapes, term: str) -> list[tuple[int, float]]:
    series = scrapes.engine.series.get(term)
    selector = None if series is None else scrapes.present(series)
    if selector is None:
        return []
    return scrapes.level(selector, scrapes.vocabulary.terms[term].kind)


def _silent_queue(data: RunData, scrapes: Scrapes | None) -> Iterator[Finding]:
    """A queue that grew while nothing was refused."""
    waiting = None
    if scrapes is not None and "waiting" in scrapes.engine.series:
        last_ns = np.nanmax(data.end_ns, initial=0.0)
        levels = _levels(scrapes, "waiting")
        waiting = [value for at_ns, value in levels if 0 <= at_ns <= last_ns]
    found = silent_queue(
        refused=int(data.outcome.where(*REFUSED).sum()),
        ttft_ns=data.first_token_ns - data.scheduled_ns,
        waiting=waiting,
    )
    if found is not None:
        yield Finding(
            code="silent_queue",
            count=1,
            text="requests queued and none was refused: " + "; ".join(found.evidence),
        )
