"""What the events of one answer said, added up."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from loadgen.model import ServerError
from loadgen.wire import tokens as kind
from loadgen.wire.outcome import BAD_FINISHES
from loadgen.wire.protocols.delta import Delta, Output, Usage

if TYPE_CHECKING:
    from loadgen.wire.protocols import Protocol

__all__ = ["MAX_EXCERPT_BYTES", "TEXT_BATCH_BYTES", "Answer", "Text"]

MAX_EXCERPT_BYTES = 2048
# Far more than any server makes of one answer; further ones are not told apart.
MAX_CHOICES = 1024
TEXT_BATCH_BYTES = 1024
MAX_TEXT_BYTES = 16 << 20


class Text:
    """Answer text as a digest, and its first 16 MiB as text where it is to be kept.

    Attributes:
        held: UTF-8 not in the digest yet: append to it, and ``settle`` once it is
            ``TEXT_BATCH_BYTES`` long.
    """

    __slots__ = ("_digest", "_kept", "held")

    def __init__(self, keep: bool) -> None:
        self.held = bytearray()
        self._kept = bytearray() if keep else None
        self._digest: hashlib._Hash | None = None

    def add(self, piece: str) -> None:
        self.held += piece.encode("utf-8", "replace")
        if len(self.held) >= TEXT_BATCH_BYTES:
            self.settle()

    def settle(self) -> None:
        """Take what is held into the digest."""
        if self._digest is None:
            self._digest = hashlib.sha256()
        self._digest.update(self.held)
        if self._kept is not None:
            self._kept += self.held[: MAX_TEXT_BYTES - len(self._kept)]
        self.held.clear()

    def sha256(self) -> str:
        """Hex, of the UTF-8 text."""
        if self._digest is None:
            return hashlib.sha256(self.held).hexdigest()
        self.settle()
        return self._digest.hexdigest()

    def whole(self) -> str | None:
        """The text; None where it is not kept."""
        if self._kept is None:
            return None
        return (self._kept + self.held)[:MAX_TEXT_BYTES].decode("utf-8", "replace")


class Answer:
    """The sum of an answer's events.

    Attributes:
        kinds: what each event that may be a token carried (see ``tokens``).
        heard: an event of the protocol came.
        done: the end mark came.
        text: the first choice's answer text.
        error: the first one reported, and ``error_bytes`` as it was sent.
        finish_reason: the last one, or the first that means failure.
        prompt_tokens: by usage; None: not said. The other counts likewise.
        usage_is_final: usage came with or after a finish reason.
        model: not bounded, not checked; ``response_id`` likewise.
    """

    __slots__ = (
        "_cumulative",
        "_done_ends",
        "_finished",
        "_first",
        "_grown",
        "_others",
        "done",
        "error",
        "error_bytes",
        "finish_reason",
        "heard",
        "kinds",
        "model",
        "output_tokens",
        "prompt_tokens",
        "reasoning_tokens",
        "response_id",
        "text",
        "usage_is_final",
    )

    def __init__(self, protocol: Protocol, keep_text: bool) -> None:
        self._cumulative = protocol.cumulative
        self._done_ends = protocol.done_ends
        self._grown: str | None = ""
        self._first: tuple[int, ...] = ()
        self._others: set[int] | None = None  # sets are large, and seldom needed
        self._finished: set[int] | None = None
        self.kinds = bytearray()
        self.heard = False
        self.done = False
        self.text = Text(keep_text)
        self.error: ServerError | None = None
        self.error_bytes: bytes | None = None
        self.finish_reason: str | None = None
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self.usage_is_final = False
        self.model: str | None = None
        self.response_id: str | None = None

    @property
    def finished(self) -> bool:
        """It came to its end: each choice seen has one, or the protocol's sign came."""
        if self._done_ends and self.done:
            return True
        if self.finish_reason is None:
            return False
        return self.choices <= (self._finished or set())

    @property
    def choices(self) -> frozenset[int]:
        """Indices of the choices seen."""
        return frozenset(self._first).union(self._others or ())

    def fold(self, delta: Delta, raw: bytes) -> None:
        """Add one event that is not malformed.

        Args:
            delta: what it says.
            raw: as it was sent.
        """
        self.heard = True
        if self._cumulative:
            delta = self._without_repeat(delta)
        if delta.output == "answer":
            self.kinds.append(kind.ANSWER)
            if delta.text:
                self.text.add(delta.text)
        elif delta.output != "none":
            self._count_wordless(delta)
        if delta.choices != self._first:
            self._note_choices(delta.choices)
        if self.response_id is None:
            self.response_id = delta.response_id
        if self.model is None:
            self.model = delta.model
        if (
            delta.finish_reason is not None
            or delta.usage is not None
            or delta.error is not None
            or delta.done
        ):
            self._note(delta, raw)

    def _note_choices(self, choices: tuple[int, ...]) -> None:
        if not self._first:
            self._first = choices
            return
        if self._others is None:
            self._others = set()
        if len(self._others) < MAX_CHOICES:
            self._others.update(choices)

    def _count_wordless(self, delta: Delta) -> None:
        """Reasoning, or an empty string that may or may not be a token."""
        if delta.output == "reasoning":
            self.kinds.append(kind.REASONING)
        elif delta.finish_reason is not None:
            self.kinds.append(kind.CLOSING)
        elif delta.usage is None or delta.usage.completion is None:
            self.kinds.append(kind.EMPTY)
        elif delta.usage.completion > (self.output_tokens or 0):
            self.kinds.append(kind.RUNNING)

    def _note(self, delta: Delta, raw: bytes) -> None:
        """What few events say: an end, usage, an error."""
        if delta.finish_reason is not None:
            self._finished = (self._finished or set()).union(delta.finished)
            if self.finish_reason not in BAD_FINISHES:
                self.finish_reason = delta.finish_reason
        if delta.usage is not None:
            self._note_usage(delta.usage)
        if delta.error is not None and self.error is None:
            self.error = delta.error
            self.error_bytes = raw[:MAX_EXCERPT_BYTES]
        self.done = self.done or delta.done

    def _note_usage(self, usage: Usage) -> None:
        """Counts are cumulative: the last of each stands."""
        if usage.prompt is not None:
            self.prompt_tokens = usage.prompt
        if usage.completion is not None:
            self.output_tokens = usage.completion
        if usage.reasoning is not None:
            self.reasoning_tokens = usage.reasoning
        self.usage_is_final = self.finish_reason is not None

    def _without_repeat(self, delta: Delta) -> Delta:
        """An event that repeats the text so far, reduced to what it adds."""
        text, so_far = delta.text, self._grown
        if so_far is None or not text.startswith(so_far):
            piece, self._grown = text, None  # a server set to send pieces
        else:
            piece, self._grown = text[len(so_far) :], text
        output: Output = delta.output
        if output == "answer" and not piece:
            output = "empty"
        return msgspec.structs.replace(delta, output=output, text=piece)
