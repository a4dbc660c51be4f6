"""Scrapes made by hand, for tests of what is told from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadgen.analysis.columns import RunData
from loadgen.analysis.timeline import Account, Timeline
from loadgen.analysis.timeline_server import InFlight, ServerSeen, server_seen
from loadgen.model import RequestRecord
from loadgen.telemetry.exposition import read_page
from loadgen.telemetry.prometheus import Phase
from loadgen.telemetry.samples import Sample, ServerSample, Watched
from loadgen.telemetry.vocabulary import base_name, load_vocabulary
from loadgen.units import NS_PER_S

URL = "http://127.0.0.1:8000/metrics"
VOCABULARY = load_vocabulary()


def scrape(
    text: str,
    at_s: float = 0,
    phase: Phase = "run",
    *,
    asked: Sequence[str] = (),
    content_type: str = "text/plain",
) -> ServerSample:
    """A page that was read at ``at_s`` seconds since t0."""
    wanted = VOCABULARY.known | {base_name(name) for name in asked}
    page = read_page(text.encode(), content_type, frozenset(wanted))
    return ServerSample(
        at_ns=round(at_s * NS_PER_S),
        took_ns=1_000_000,
        phase=phase,
        points=page.points,
        names=sorted(page.names),
        flaws=page.flaws,
    )


def failed(at_s: float, status: str, phase: Phase = "run") -> ServerSample:
    return ServerSample(
        at_ns=round(at_s * NS_PER_S), took_ns=1_000_000, phase=phase, status=status
    )


def both(before: str, after: str, asked: Sequence[str] = ()) -> list[ServerSample]:
    """The two ends of a run of ten seconds."""
    return [
        scrape(before, -1, "before", asked=asked),
        scrape(after, 10, "after", asked=asked),
    ]


def seen(
    samples: Sequence[ServerSample],
    *,
    version: str | None = None,
    asked: Sequence[str] = (),
    sent_s: Sequence[float] = (),
    end_s: Sequence[float] = (),
) -> ServerSeen:
    """What is told of one server; ``sent_s`` and ``end_s`` are our requests'."""
    told, _ = server_seen(
        samples,
        VOCABULARY,
        url=URL,
        version=version,
        asked=asked,
        in_flight=InFlight(
            np.array(sent_s, np.float64) * NS_PER_S,
            np.array(end_s, np.float64) * NS_PER_S,
        ),
    )
    return told


def beside(
    samples: Sequence[Sample],
    records: Sequence[RequestRecord],
    *,
    gpu: str = "off",
    metrics: Sequence[str] = (URL,),
) -> Account:
    """The whole account of a run."""
    watched = Watched(metrics=list(metrics), metrics_note="", gpu=gpu)
    timeline = Timeline(samples=samples, watched=watched, vocabulary=VOCABULARY)
    return timeline.beside(RunData.collect(records, len(records)))
