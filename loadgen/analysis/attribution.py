"""Which layer lost a request, what ran out, and how we know.

An answer is judged by the signatures, then by the general rules; a request
without one by what ended it. What nothing proves is `Layer.UNKNOWN`: a wrong
layer sends an operator to the wrong flag.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from loadgen.analysis.answer import MAX_QUOTE_CHARS, Answer, Facts, facts_of, quote
from loadgen.analysis.clues import PROOF_HEADERS, Guess, has_any
from loadgen.analysis.endings import attribute_ending
from loadgen.analysis.general_rules import accepted_by, guess
from loadgen.analysis.signatures import Signature, Signatures
from loadgen.model import (
    Accepted,
    Attribution,
    Confidence,
    Ending,
    Layer,
    Outcome,
    RequestRecord,
    Resource,
)

__all__ = ["Attributor", "attribute", "is_refusal"]

MAX_MEMO = 4096

# How an exchange ended says more than a body that is no refusal.
_CUT = frozenset(
    {
        Outcome.TRUNCATED,
        Outcome.RESET,
        Outcome.STALLED,
        Outcome.TIMEOUT,
        Outcome.CANCELLED,
        Outcome.CLIENT_ERROR,
        Outcome.CONNECT_ERROR,
        Outcome.UNSENT,
        Outcome.INTERNAL,
    }
)
_BROKEN = frozenset({Ending.EOF, Ending.RESET})
# Keys of an answer that went well: what stands in it is the model's words.
_OUTPUT_KEYS = frozenset(
    {"choices", "content", "completion", "response", "generated_text"}
)


class Attributor:
    """Attributes the records of a run; equal answers are judged once.

    Args:
        signatures: what is known; see `loadgen.analysis.signatures`.
    """

    def __init__(self, signatures: Signatures) -> None:
        self._signatures = signatures
        self._memo: dict[Answer, Attribution] = {}

    def __call__(self, record: RequestRecord) -> Attribution | None:
        """The attribution of one record; None for one that is ok."""
        if record.outcome is Outcome.OK:
            return None
        if not _has_answer(record):
            return attribute_ending(record)
        headers = self._signatures.headers_of(record.headers)
        answer = Answer.of(record, headers)
        judged = self._memo.get(answer)
        if judged is None:
            facts = facts_of(answer)
            cut = record.outcome in _CUT or record.ending in _BROKEN
            if cut and _says_nothing(facts):
                return self._cut(record, facts)
            judged = _judge(facts, self._signatures)
            if len(self._memo) >= MAX_MEMO:
                self._memo.clear()
            self._memo[answer] = judged
        return judged

    def _cut(self, record: RequestRecord, facts: Facts) -> Attribution:
        """A part of an answer: what of it is the server's own may be known."""
        signature = None
        if facts.text and facts.keys.isdisjoint(_OUTPUT_KEYS):
            signature = self._signatures.match(facts)
        if signature is None:
            return attribute_ending(record)
        return _by_signature(facts, signature)


def attribute(record: RequestRecord, signatures: Signatures) -> Attribution | None:
    """The attribution of one record; None for one that is ok."""
    return Attributor(signatures)(record)


def _has_answer(record: RequestRecord) -> bool:
    if record.status is None:
        return record.error is not None
    return (
        record.error is not None
        or not 200 <= record.status < 300
        or record.finish_reason == "abort"
        or record.body_excerpt is not None
        or record.outcome not in _CUT
    )


def _says_nothing(facts: Facts) -> bool:
    """Whether the answer is a part of a normal one, or none at all."""
    if not facts.in_stream or facts.finish == "abort" or "error" in facts.keys:
        return False
    if facts.type or facts.message or '"abort"' in facts.text:
        return False
    if facts.shape == "json":
        return facts.kind is None or not facts.keys.isdisjoint(_OUTPUT_KEYS)
    return facts.shape in ("empty", "stream")


class _Verdict(NamedTuple):
    layer: Layer
    resource: Resource
    accepted: Accepted
    confidence: Confidence


def _judge(facts: Facts, signatures: Signatures) -> Attribution:
    signature = signatures.match(facts)
    if signature is not None:
        return _by_signature(facts, signature)
    guessed = guess(facts)
    if guessed is not None:
        return _by_guess(facts, guessed)
    verdict = _Verdict(
        Layer.UNKNOWN, Resource.UNKNOWN, _unknown_accepted(facts), Confidence.LOW
    )
    return _attribution(verdict, ["no signature or general rule fits"], facts)


def _by_signature(facts: Facts, signature: Signature) -> Attribution:
    verdict = _Verdict(
        signature.layer,
        signature.resource,
        Accepted.YES if facts.tokens else signature.accepted,
        signature.confidence,
    )
    how = [f"signature {signature.id} ({signature.system})"]
    if signature.note:
        how.append(signature.note)
    return _attribution(verdict, how, facts)


def _by_guess(facts: Facts, guessed: Guess) -> Attribution:
    verdict = _Verdict(
        guessed.layer,
        guessed.resource,
        accepted_by(guessed.layer, guessed.resource, facts),
        Confidence.LOW,
    )
    return _attribution(verdict, [f"general rule: {guessed.why}"], facts)


def _unknown_accepted(facts: Facts) -> Accepted:
    return Accepted.YES if facts.tokens else Accepted.UNKNOWN


def _attribution(verdict: _Verdict, how: Iterable[str], facts: Facts) -> Attribution:
    return Attribution(
        layer=verdict.layer,
        limiting_resource=verdict.resource,
        accepted=verdict.accepted,
        evidence=tuple(quote(line) for line in (*how, *_seen(facts))),
        confidence=verdict.confidence,
    )


def _seen(facts: Facts) -> Iterable[str]:
    """What the answer itself showed."""
    if facts.in_stream:
        when = "after output" if facts.tokens else "before any output"
        yield f"inside a {facts.status} answer, {when}"
    elif facts.status is not None:
        yield f"status {facts.status}"
    proof = has_any(facts, PROOF_HEADERS)
    if proof is not None:
        yield f"header {proof}: an upstream answered"
    if facts.message:
        yield f'says "{quote(facts.message, MAX_QUOTE_CHARS - 20)}"'
    elif facts.shape == "empty":
        yield "empty body"
    elif facts.text:
        yield f'body "{quote(facts.text, 80)}"'


_REFUSING = (Layer.GATEWAY, Layer.ROUTER, Layer.ENGINE_ADMISSION, Layer.PROVIDER)


def is_refusal(attribution: Attribution | None) -> bool:
    """Whether a request was turned away on purpose, before an engine took it.

    False for what failed on the way, timed out, or was lost after acceptance:
    those may have cost the server its work.
    """
    return (
        attribution is not None
        and attribution.layer in _REFUSING
        and attribution.accepted is Accepted.NO
    )
