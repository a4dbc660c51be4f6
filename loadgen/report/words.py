"""The words of the record in plain English, one place for all views."""

from __future__ import annotations

from loadgen.model import Basis, Layer, Outcome, TokenSource
from loadgen.report.escape import safe

__all__ = [
    "BASIS_WORDS",
    "LAYER_WORDS",
    "OUTCOME_WORDS",
    "REFUSED",
    "basis_tag",
    "layer_words",
    "outcome_words",
    "plural",
    "source_words",
]

REFUSED = frozenset({Outcome.HTTP_REJECT, Outcome.IN_STREAM_REJECT})
"""Outcomes in which the server said no; every other loss is a failure."""

OUTCOME_WORDS = {
    Outcome.OK: "answered in full",
    Outcome.HTTP_REJECT: "refused by HTTP status",
    Outcome.IN_STREAM_REJECT: "refused inside a 200",
    Outcome.IN_STREAM_ERROR: "error after acceptance",
    Outcome.TRUNCATED: "ended without its end",
    Outcome.STALLED: "fell silent",
    Outcome.TIMEOUT: "over the time limit",
    Outcome.RESET: "connection reset",
    Outcome.CONNECT_ERROR: "no connection",
    Outcome.PROTOCOL_ERROR: "answer not understood",
    Outcome.CLIENT_ERROR: "failed on our own side",
    Outcome.CANCELLED: "cut off by us",
    Outcome.UNSENT: "never sent",
    Outcome.INTERNAL: "fault inside loadgen",
}

LAYER_WORDS = {
    Layer.CLIENT: "our own side",
    Layer.NETWORK: "network",
    Layer.GATEWAY: "gateway",
    Layer.ROUTER: "router",
    Layer.ENGINE_ADMISSION: "engine admission",
    Layer.ENGINE_FAILURE: "engine failure",
    Layer.PROVIDER: "provider",
    Layer.UNKNOWN: "unknown",
}

SOURCE_WORDS = {
    TokenSource.USAGE: "the server's usage",
    TokenSource.CONTINUOUS_USAGE: "the server's usage",
    TokenSource.TOKENIZE: "the server's tokenizer",
    TokenSource.LOCAL_TOKENIZER: "a local tokenizer",
    TokenSource.ESTIMATE: "an estimate",
    TokenSource.UNKNOWN: "nobody known",
}

BASIS_WORDS: dict[str, tuple[str, ...]] = {
    Basis.STAND_IN: ("A stand-in engine answered, no real server.",),
    Basis.SIMULATED: ("Simulated, no server was asked.",),
}
"""What is said before any number that no real server gave."""


def outcome_words(outcome: str) -> str:
    """An outcome in words; one of a newer version as it is named."""
    return OUTCOME_WORDS[Outcome(outcome)] if outcome in set(Outcome) else outcome


def layer_words(layer: str) -> str:
    """A layer in words; one of a newer version as it is named."""
    return LAYER_WORDS[Layer(layer)] if layer in set(Layer) else layer


def source_words(source: str) -> str:
    """Who counted tokens; a source of a newer version as it is named."""
    known = source in set(TokenSource)
    return SOURCE_WORDS[TokenSource(source)] if known else source


def basis_tag(basis: str) -> str:
    """What marks each line that matters: `` [stand-in]``; nothing when measured."""
    return "" if basis == Basis.MEASURED else f" [{safe(basis, 24)}]"


def plural(number: int, noun: str) -> str:
    """``1 request``, ``1,234 requests``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
