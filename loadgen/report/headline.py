"""The run in one or two sentences: what was offered and what became of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from loadgen.model import Layer, Outcome, Resource
from loadgen.report.escape import safe
from loadgen.report.facts import Facts, Rejection
from loadgen.report.numbers import rate, seconds
from loadgen.report.words import BASIS_WORDS, REFUSED, outcome_words, plural

__all__ = [
    "NOT_FULLY_ISSUED",
    "headline",
    "offered",
    "refused",
    "silent_queue",
    "slo_words",
]

RESOURCES_NAMED = 2
NOT_FULLY_ISSUED = "not_fully_issued"
"""Code of the reason that voids a run which was stopped early."""

_REFUSED_BY = {
    Layer.CLIENT: "our own side",
    Layer.NETWORK: "the network",
    Layer.GATEWAY: "the gateway",
    Layer.ROUTER: "the router",
    Layer.ENGINE_ADMISSION: "the engine's admission",
    Layer.ENGINE_FAILURE: "a failing engine",
    Layer.PROVIDER: "the provider",
    Layer.UNKNOWN: "an unknown layer",
}
_LOST_AT = {
    Layer.NETWORK: "lost in the network",
    Layer.GATEWAY: "lost at the gateway",
    Layer.ROUTER: "lost at the router",
    Layer.ENGINE_ADMISSION: "lost at the engine's admission",
    Layer.ENGINE_FAILURE: "lost to an engine failure",
    Layer.PROVIDER: "lost at the provider",
    Layer.UNKNOWN: "lost, where is unknown",
}
_SLO = {
    "ttft_s": "TTFT <= {}",
    "tpot_s": "TPOT <= {}",
    "e2e_s": "E2E <= {}",
}


def headline(facts: Facts) -> str:
    """What a person should remember of the run."""
    sentence = f"{plural(offered(facts), 'request')} offered"
    if facts.offered.duration_s > 0:
        pace = rate(facts.offered.rate_rps)
        sentence += f" in {seconds(facts.offered.duration_s)} ({pace})"
    sentence += ": " + ", ".join([*_answered(facts), *_lost(facts)]) + "."
    if facts.verdict.status == "invalid":
        stopped = any(r.code == NOT_FULLY_ISSUED for r in facts.verdict.reasons)
        state = "Stopped before its end" if stopped else "Invalid run"
        sentence = f"{state}, so do not use the numbers as they are. {sentence}"
    return " ".join([*BASIS_WORDS.get(facts.basis, ()), sentence, *_wait(facts)])


def offered(facts: Facts) -> int:
    """Requests offered; of a summary without that number, those that ended."""
    return facts.offered.requests or sum(facts.outcomes.values())


def refused(facts: Facts) -> int:
    """Answers that said no, at whichever layer."""
    return sum(facts.outcomes.get(outcome, 0) for outcome in REFUSED)


def silent_queue(facts: Facts) -> bool:
    """Whether all were taken and waited far too long: a server without a cap."""
    limit_s, p95_s = facts.goodput.slo.get("ttft_s"), facts.latency.ttft_s.p95
    return (
        limit_s is not None
        and p95_s is not None
        and p95_s > 2 * limit_s
        and not refused(facts)
    )


def slo_words(slo: dict[str, float]) -> str:
    """``TTFT <= 2 s, E2E <= 30 s``."""
    named = {key: words for key, words in _SLO.items() if key in slo}
    return ", ".join(words.format(seconds(slo[key])) for key, words in named.items())


def _unexplained(facts: Facts) -> bool:
    """Whether the causes do not add up to the losses: an older or edited summary."""
    lost = sum(facts.outcomes.values()) - facts.outcomes.get(Outcome.OK, 0)
    return sum(row.count for row in facts.rejections) != lost


def _answered(facts: Facts) -> Iterator[str]:
    ok = facts.outcomes.get(Outcome.OK, 0)
    if not facts.goodput.slo:
        yield f"{ok:,} answered"
        return
    good = facts.goodput.good
    yield f"{good:,} answered within target" if ok else "none answered"
    if ok > good:
        yield f"{ok - good:,} answered too late"


def _lost(facts: Facts) -> list[str]:
    """``32 refused by the engine's admission (queued_requests)``, most first."""
    phrases: Counter[str] = Counter()
    if _unexplained(facts):
        for outcome, count in facts.outcomes.items():
            if outcome != Outcome.OK:
                phrases[safe(outcome_words(outcome), 40)] += count
        return _counted(phrases)
    resources: dict[str, Counter[str]] = defaultdict(Counter)
    for row in facts.rejections:
        for phrase, count in _phrases(row):
            phrases[phrase] += count
            resources[phrase][row.limiting_resource] += count
    return [
        f"{text}{_because(resources[phrase])}"
        for phrase, text in zip(
            dict(phrases.most_common()), _counted(phrases), strict=True
        )
    ]


def _counted(phrases: Counter[str]) -> list[str]:
    return [f"{count:,} {phrase}" for phrase, count in phrases.most_common()]


def _phrases(row: Rejection) -> Iterator[tuple[str, int]]:
    """How a cause is said, split by whether it was a refusal."""
    no = sum(row.by_outcome.get(outcome, 0) for outcome in REFUSED)
    if no:
        by = _REFUSED_BY[Layer(row.layer)] if row.layer in set(Layer) else row.layer
        yield f"refused by {safe(by, 40)}", no
    if row.layer == Layer.CLIENT:
        for outcome, count in row.by_outcome.items():
            if outcome not in REFUSED:
                yield safe(outcome_words(outcome), 40), count
    elif row.count > no:
        at = _LOST_AT[Layer(row.layer)] if row.layer in _LOST_AT else "lost"
        yield at, row.count - no


def _because(resources: Counter[str]) -> str:
    vague = {Resource.OTHER, Resource.UNKNOWN, Resource.TIMEOUT}
    named = [safe(name, 24) for name, _ in resources.most_common() if name not in vague]
    return f" ({', '.join(named[:RESOURCES_NAMED])})" if named else ""


def _wait(facts: Facts) -> Iterator[str]:
    if silent_queue(facts):
        p95_s, limit_s = facts.latency.ttft_s.p95, facts.goodput.slo["ttft_s"]
        yield (
            f"Nobody was refused, but the wait grew: 5% waited {seconds(p95_s)} or "
            f"more for the first token, the target is {seconds(limit_s)}."
        )
