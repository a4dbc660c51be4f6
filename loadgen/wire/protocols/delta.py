"""What one event of an answer says, the same for every dialect."""

from __future__ import annotations

from typing import Literal

import msgspec

from loadgen.model import ServerError

__all__ = [
    "DONE",
    "MALFORMED",
    "NOTHING",
    "Delta",
    "Framing",
    "Output",
    "Usage",
    "sign",
]

Framing = Literal["sse", "ndjson"]
Output = Literal["none", "empty", "reasoning", "answer"]


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Token counts by the server, cumulative; None where it gave none."""

    prompt: int | None = None
    completion: int | None = None
    reasoning: int | None = None


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One decoded event.

    Attributes:
        output: what it carries: ``answer`` (content, tool call, text),
            ``reasoning``, ``empty`` (an empty string, which may be a token whose
            bytes are incomplete or a mere placeholder) or ``none``.
        text: answer text of the first choice.
        finish_reason: as the server worded it; None while it goes on.
        usage: cumulative counts, None where the event has none.
        error: the error it reports.
        done: the protocol's end mark; nothing after it counts.
        model: the model's name in the answer, as sent (not bounded, not checked).
        response_id: the answer's id, as sent.
        malformed: it is not an event of the protocol.
        choices: indices of the choices it speaks of.
        finished: indices of the choices it ends.
    """

    output: Output = "none"
    text: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None
    error: ServerError | None = None
    done: bool = False
    model: str | None = None
    response_id: str | None = None
    malformed: bool = False
    choices: tuple[int, ...] = ()
    finished: tuple[int, ...] = ()


NOTHING = Delta()
DONE = Delta(done=True)
MALFORMED = Delta(malformed=True)


def sign(data: bytes) -> Delta:
    """What event data that is no JSON object means: an end, a ping, or nothing."""
    bare = data.strip()
    if bare == b"[DONE]":
        return DONE
    return MALFORMED if bare else NOTHING
