"""Which signals a policy might read does a source register? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from loadgen.doctor.check import Check, Status
from loadgen.doctor.source.scan import Metric
from loadgen.telemetry.series import version_of
from loadgen.telemetry.vocabulary import (
    Rename,
    Selector,
    Series,
    Vocabulary,
    base_name,
)

__all__ = ["signal_checks"]

ENGINE = "vllm"
TERMS = ("running", "waiting", "kv_usage", "preemptions", "admission_rejections")
_SUFFIXES = ("_bucket", "_sum", "_count")


class _Signal(NamedTuple):
    """A name somebody may read.

    ``old`` tells what became of it where it is an old name, ``series`` what is known
    of it where it is a present one.
    """

    name: str
    series: Series | None = None
    old: Rename | None = None
    asked: bool = False


def signal_checks(
    metrics: Iterable[Metric],
    vocabulary: Vocabulary,
    version: str | None,
    asked: Sequence[str] = (),
) -> Iterator[Check]:
    """One check a signal: those of a scheduling policy, then those asked for.

    Args:
        metrics: what the source registers.
        vocabulary: vLLM's series and their old names.
        version: of the source; None where it is not known.
        asked: names that somebody says are read; missing ones fail.
    """
    here: dict[str, list[Metric]] = {}
    for metric in metrics:
        here.setdefault(base_name(metric.name), []).append(metric)
    for signal in _signals(vocabulary, asked):
        yield _judge(signal, here, vocabulary, version)


def _signals(vocabulary: Vocabulary, asked: Sequence[str]) -> Iterator[_Signal]:
    engine = vocabulary.engines[ENGINE]
    told = {base_name(Selector.parse(name).name) for name in asked}
    for term in TERMS:
        series = engine.series[term]
        if series.selector.name not in told:
            yield _Signal(series.name, series=series)
        for old, rename in engine.old_names(series):
            if base_name(old) not in told:
                yield _Signal(old, old=rename)
    for name in dict.fromkeys(asked):
        yield _Signal(name, old=vocabulary.rename_of(_plain(name)), asked=True)


def _plain(name: str) -> str:
    """The name under which it is registered: without labels and parts."""
    bare = Selector.parse(name).name
    for suffix in _SUFFIXES:
        bare = bare.removesuffix(suffix)
    return base_name(bare)


def _judge(
    signal: _Signal,
    here: Mapping[str, Sequence[Metric]],
    vocabulary: Vocabulary,
    version: str | None,
) -> Check:
    found = here.get(_plain(signal.name), ())
    if any(metric.registered for metric in found):
        return _present(signal, found)
    if found:
        return _check(
            signal,
            Status.UNKNOWN,
            "named, but not seen to be registered",
            f"at {_places(found)}; something may register it from there",
        )
    return _missing(signal, here, vocabulary, version)


def _present(signal: _Signal, found: Sequence[Metric]) -> Check:
    registered = [metric for metric in found if metric.registered]
    kinds = sorted({m.kind for m in registered if m.kind != "unknown"})
    kind = f" ({', '.join(kinds)})" if kinds else ""
    if all(metric.conditional for metric in registered):
        return _check(
            signal,
            Status.WARN,
            f"present{kind}, only with some setting",
            f"registered under a condition at {_places(registered)}",
            "look at a running server: loadgen doctor --url",
        )
    meaning = signal.old.words(signal.name) if signal.old else ""
    return _check(signal, Status.OK, f"present{kind}", meaning)


def _missing(
    signal: _Signal,
    here: Mapping[str, Sequence[Metric]],
    vocabulary: Vocabulary,
    version: str | None,
) -> Check:
    blind = "what reads it sees nothing, and many take nothing for 0"
    status = Status.FAIL if signal.asked else Status.WARN
    if signal.old is not None:
        do = f"read {signal.old.to} instead" if signal.old.to else "do without it"
        return _check(
            signal, status, "MISSING", f"{signal.old.words(signal.name)}; {blind}", do
        )
    former = _former(signal, here, vocabulary)
    if former is not None:
        return _check(
            signal,
            status,
            f"MISSING, still {former} here",
            "a newer name; what is written for newer versions sees nothing",
            f"read {former}, or both",
        )
    since = signal.series.since if signal.series else None
    if since is not None and version and version_of(version) < version_of(since):
        return _check(signal, status, "MISSING", f"it came with {since}")
    return _check(signal, Status.FAIL, "MISSING", blind, "read another signal")


def _former(
    signal: _Signal, here: Mapping[str, Sequence[Metric]], vocabulary: Vocabulary
) -> str | None:
    """The old name under which this source still has it."""
    renamed = vocabulary.engines[ENGINE].renamed
    return next(
        (
            old
            for old, rename in renamed.items()
            if base_name(rename.to) == _plain(signal.name) and base_name(old) in here
        ),
        None,
    )


def _places(metrics: Sequence[Metric]) -> str:
    places = dict.fromkeys(f"{m.path}:{m.line}" for m in metrics)
    return ", ".join(list(places)[:3])


def _check(
    signal: _Signal, status: Status, found: str, meaning: str, do: str | None = None
) -> Check:
    shown = signal.name.partition("{")[0].strip()
    return Check(
        id=f"vllm.signal.{shown.removeprefix('vllm:')}",
        name=shown,
        status=status,
        found=found,
        meaning=meaning,
        do=do,
    )
