"""Why requests were lost: the distinct causes of a run and their evidence."""

from __future__ import annotations

from dataclasses import dataclass, field

from loadgen.model import Accepted, Attribution, Confidence, Layer, Resource

__all__ = ["MAX_EVIDENCE", "UNATTRIBUTED", "Cause", "Causes"]

MAX_EVIDENCE = 8
"""Distinct evidence kept a cause; servers put ids into their messages."""

UNATTRIBUTED = Attribution(
    layer=Layer.UNKNOWN,
    limiting_resource=Resource.UNKNOWN,
    accepted=Accepted.UNKNOWN,
    evidence=("nothing was attributed",),
    confidence=Confidence.LOW,
)

_RANK = {Confidence.LOW: 0, Confidence.MEDIUM: 1, Confidence.HIGH: 2}


@dataclass(slots=True)
class Cause:
    """One layer, resource and acceptance, with all that was said for it.

    ``confidence`` is the lowest among its requests.
    """

    layer: Layer
    resource: Resource
    accepted: Accepted
    confidence: Confidence = Confidence.HIGH
    evidence: dict[str, None] = field(default_factory=dict)
    more_evidence: bool = False

    def hear(self, attribution: Attribution) -> None:
        if _RANK[attribution.confidence] < _RANK[self.confidence]:
            self.confidence = attribution.confidence
        for words in attribution.evidence:
            if len(self.evidence) < MAX_EVIDENCE:
                self.evidence[words] = None
            elif words not in self.evidence:
                self.more_evidence = True


class Causes:
    """The causes met so far, numbered in the order of their first appearance."""

    def __init__(self) -> None:
        self._number: dict[tuple[Layer, Resource, Accepted], int] = {}
        self._found: list[Cause] = []

    @property
    def found(self) -> tuple[Cause, ...]:
        return tuple(self._found)

    def add(self, attribution: Attribution | None) -> int:
        """The number of the attribution's cause; None is a cause of its own."""
        said = attribution or UNATTRIBUTED
        key = (said.layer, said.limiting_resource, said.accepted)
        number = self._number.setdefault(key, len(self._found))
        if number == len(self._found):
            self._found.append(Cause(*key))
        self._found[number].hear(said)
        return number
