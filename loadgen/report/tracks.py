"""What was seen of the engine and the GPUs over time, ready to be drawn.

A source that was not looked at, or does not tell, has no track; it is named among
what was not measured and never drawn as zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadgen.analysis.timeline import Timeline
from loadgen.report.escape import safe
from loadgen.telemetry.samples import GpuAbout, GpuSample, Sample, ServerSample
from loadgen.telemetry.series import Scrapes
from loadgen.units import NS_PER_S

__all__ = ["Track", "Tracks", "tracks_of"]

MOST_POINTS = 300
MOST_DEVICES = 8
_GIB = 2**30
_LEVELS = {
    "running": ("running", "running requests"),
    "waiting": ("waiting", "waiting requests"),
    "kv_usage": ("KV cache", "the KV cache"),
}

Points = tuple[tuple[float, float | None], ...]


@dataclass(frozen=True, slots=True)
class Track:
    """A level over time.

    Attributes:
        term: ``running``, ``waiting``, ``kv_usage`` (1 is full) or ``memory`` (GiB).
        label: what stands at the line's end.
        points: (seconds since t0, level); None where a look failed.
    """

    term: str
    label: str
    points: Points

    @property
    def peak(self) -> float:
        return max((level for _, level in self.points if level is not None), default=0)


@dataclass(frozen=True, slots=True)
class Tracks:
    """All tracks of a run, and in words what has none."""

    tracks: tuple[Track, ...]
    not_measured: tuple[str, ...]


def tracks_of(timeline: Timeline | None) -> Tracks:
    """Read the tracks out of a run's samples; None: no samples were kept."""
    if timeline is None:
        return Tracks((), ("engine and GPU: nothing was watched",))
    samples = sorted(timeline.samples, key=lambda sample: sample.at_ns)
    server = tuple(_server_tracks(timeline, samples))
    gpu = tuple(_gpu_tracks(samples))
    absent = [
        words
        for term, (_, words) in _LEVELS.items()
        if all(track.term != term for track in server)
    ]
    missing = []
    if absent:
        why = "" if server else timeline.watched.metrics_note
        missing.append(f"{', '.join(absent)}{_because(why)}")
    if not gpu:
        missing.append(f"GPU memory{_because(_gpu_status(timeline, samples))}")
    return Tracks((*server, *gpu), tuple(missing))


def _because(why: str) -> str:
    return f" ({safe(why, 120)})" if why else ""


def _server_tracks(timeline: Timeline, samples: Sequence[Sample]) -> Iterator[Track]:
    scrapes = _engine_scrapes(timeline, samples)
    if scrapes is None:
        return
    failed = [(s.at_ns, None) for s in scrapes.samples if s.status != "ok"]
    for term, (label, _) in _LEVELS.items():
        series = scrapes.engine.series.get(term)
        selector = None if series is None else scrapes.present(series)
        if selector is None:
            continue
        levels = scrapes.level(selector, timeline.vocabulary.terms[term].kind)
        if levels:
            yield Track(term, label, _points([*levels, *failed]))


def _engine_scrapes(timeline: Timeline, samples: Sequence[Sample]) -> Scrapes | None:
    """The engine's own metrics, wherever they were found first."""
    for number in range(len(timeline.watched.metrics)):
        own = [s for s in samples if isinstance(s, ServerSample) and s.url == number]
        names = {name for sample in own for name in sample.names}
        for engine in timeline.vocabulary.recognise(names):
            if engine.layer == "engine":
                return Scrapes(own, engine, timeline.vocabulary, timeline.version)
    return None


def _gpu_tracks(samples: Sequence[Sample]) -> Iterator[Track]:
    own = [sample for sample in samples if isinstance(sample, GpuSample)]
    for device in sorted({sample.device for sample in own})[:MOST_DEVICES]:
        levels = [
            (s.at_ns, None if s.used_bytes is None else s.used_bytes / _GIB)
            for s in own
            if s.device == device
        ]
        if any(level is not None for _, level in levels):
            yield Track("memory", f"GPU {device}", _points(levels))


def _gpu_status(timeline: Timeline, samples: Sequence[Sample]) -> str:
    told = (one.status for one in samples if isinstance(one, GpuAbout))
    status = next(told, timeline.watched.gpu)
    return "not told" if status in ("ok", "on") else status


def _points(levels: Sequence[tuple[int, float | None]]) -> Points:
    """In order of time; of very many, the highest of each stretch."""
    ordered = sorted(((at / NS_PER_S, level) for at, level in levels), key=_when)
    step = -(-len(ordered) // MOST_POINTS)
    parts = (ordered[at : at + step] for at in range(0, len(ordered), step))
    return tuple(max(part, key=_height) for part in parts)


def _when(point: tuple[float, float | None]) -> float:
    return point[0]


def _height(point: tuple[float, float | None]) -> float:
    return -1.0 if point[1] is None else point[1]
