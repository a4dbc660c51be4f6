"""Where requests were lost, and whose they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadgen.model import Resource
from loadgen.report.escape import safe
from loadgen.report.facts import Facts, Lengths, Rejection
from loadgen.report.headline import offered
from loadgen.report.numbers import count, percent, share
from loadgen.report.table import NAME_CELLS, Column, Row, Table
from loadgen.report.words import layer_words, outcome_words, plural, source_words

__all__ = ["layers_table", "tenants_table"]

LAYERS_SHOWN = 12
TENANTS_SHOWN = 10
GROUPS_NAMED = 5
NO_STATUS = "none"
_VAGUE = frozenset({Resource.OTHER, Resource.UNKNOWN})


def layers_table(facts: Facts) -> Table | None:
    """Which layer said no or lost it, and what ran out; None when all were ok."""
    if not facts.rejections:
        return None
    total, several = offered(facts), len(facts.groups) > 1
    hidden = len(facts.rejections) - LAYERS_SHOWN
    notes = ["accepted?: whether the engine had taken the request before it was lost"]
    if hidden > 0:
        notes.append(f"{plural(hidden, 'cause')} more in summary.json")
    return Table(
        "Where they were lost, and what ran out",
        (
            Column("count"),
            Column("share"),
            Column("accepted?", numeric=False),
            Column("certainty", numeric=False),
        ),
        tuple(
            Row(
                _cause(row),
                (
                    count(row.count),
                    share(row.count, total),
                    safe(row.accepted, 12),
                    safe(row.confidence, 12),
                ),
                below=tuple(_below(row, several)),
            )
            for row in facts.rejections[:LAYERS_SHOWN]
        ),
        tuple(notes),
    )


def _cause(row: Rejection) -> str:
    """``engine admission: queued_requests``; without a resource, what happened."""
    layer = safe(layer_words(row.layer), 24)
    if row.limiting_resource not in _VAGUE:
        return f"{layer}: {safe(row.limiting_resource, 24)}"
    if len(row.by_outcome) != 1:
        return layer
    return f"{layer}: {safe(outcome_words(*row.by_outcome), 24)}"


def _below(row: Rejection, several_groups: bool) -> Iterator[str]:
    if row.limiting_resource not in _VAGUE:
        what = f"limit counted in {safe(row.unit, 30)}; "
    elif len(row.by_outcome) > 1:
        ends = row.by_outcome.items()
        what = ", ".join(f"{safe(outcome_words(o), 24)} {count(n)}" for o, n in ends)
        what += "; "
    else:
        what = ""
    yield what + _statuses(row.statuses)
    most = sorted(row.by_group.items(), key=lambda item: -item[1])
    named = ", ".join(
        f"{safe(name, NAME_CELLS)} {count(n)}" for name, n in most[:GROUPS_NAMED]
    )
    if several_groups and named:
        yield f"of these {named}{_prompts(row.prompt_tokens)}"
    said = _evidence(row.evidence)
    if said:
        yield f"evidence: {said}"


def _statuses(statuses: dict[str, int]) -> str:
    """``HTTP status 503 x 15, 200 x 17``, the answers without one last."""
    codes = sorted(code for code in statuses if code != NO_STATUS)
    seen = [f"{safe(code, 12)} x {count(statuses[code])}" for code in codes]
    words = f"HTTP status {', '.join(seen)}" if seen else ""
    without = statuses.get(NO_STATUS)
    if without:
        return f"{words}, none x {count(without)}" if words else "no HTTP answer"
    return words or "HTTP status not known"


def _prompts(lengths: Lengths) -> str:
    if not lengths.by_source:
        return ""
    source, tokens = max(
        lengths.by_source.items(), key=lambda item: item[1].per_request.n
    )
    longest = tokens.per_request.max
    if tokens.min is None or longest is None:
        return ""
    said = safe(source_words(source), 30)
    span = f"{tokens.min:,}" + (f" to {longest:,.0f}" if longest > tokens.min else "")
    return f"; prompts of {span} tokens by {said}"


def _evidence(evidence: Sequence[str]) -> str:
    """The server's own words before how they were recognised; one of each."""
    quoted = [words for words in evidence if '"' in words]
    other = [words for words in evidence if '"' not in words]
    return "; ".join(safe(words, 150) for words in [*quoted[:1], *other[:1]])


def tenants_table(facts: Facts) -> Table | None:
    """Each tenant's part of the load against its part of the refusals."""
    fairness = facts.fairness
    if fairness is None or not fairness.tenants:
        return None
    most = sorted(fairness.tenants.items(), key=lambda item: -item[1].offered)
    hidden = len(most) - TENANTS_SHOWN
    notes = []
    if fairness.jain_index is not None:
        notes.append(
            f"Jain's index {fairness.jain_index:.2f}: 1 when all fare alike, "
            f"{1 / len(most):.2g} when one gets everything"
        )
    if hidden > 0:
        notes.append(f"{plural(hidden, 'tenant')} more in summary.json")
    return Table(
        "By tenant",
        tuple(map(Column, ("offered", "of all", "refused", "of all", "good", "share"))),
        tuple(
            Row(
                safe(name, NAME_CELLS),
                (
                    count(part.offered),
                    percent(part.offered_share),
                    count(part.refused),
                    percent(part.refused_share),
                    count(part.good),
                    share(part.good, part.offered),
                ),
            )
            for name, part in most[:TENANTS_SHOWN]
        ),
        tuple(notes),
    )
