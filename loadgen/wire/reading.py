"""Read one answer into facts, as its bytes arrive. No I/O, no clock.

The transport says when what came; this says what it was. Nothing a server sends
makes it raise, or hold more than its caps.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadgen.model import Ending, Outcome, TokenSource
from loadgen.wire.answer import MAX_EXCERPT_BYTES, TEXT_BATCH_BYTES, Answer
from loadgen.wire.facts import Facts, without_secrets
from loadgen.wire.framing import Event, FramingError, NdjsonFramer, SseFramer
from loadgen.wire.headers import header_findings, kept_headers, retry_after
from loadgen.wire.outcome import decide
from loadgen.wire.protocols import lenient
from loadgen.wire.protocols.delta import Delta
from loadgen.wire.protocols.errors import error_in, error_of_failed
from loadgen.wire.protocols.values import clip
from loadgen.wire.room import Room
from loadgen.wire.tokens import ANSWER, CLEAN, REASONING, Tokens, parted, settle
from loadgen.wire.twin import Twin, twin_of

if TYPE_CHECKING:
    from loadgen.wire.protocols import Protocol

__all__ = ["Facts", "Reading"]

MAX_BODY_BYTES = 1 << 30
MAX_TOKEN_EVENTS = 1 << 20
MAX_WHOLE_BYTES = 16 << 20
MAX_ERROR_BYTES = 64 << 10
MAX_NAME_CHARS = 256
# A template that no longer fits is looked for anew after so many tokens.
_TWIN_EVERY = 16
# What may stand before the byte that tells what a body is; a BOM's bytes too.
_BLANK = b" \t\r\n\xef\xbb\xbf"

# What the body turned out to be.
_UNTOLD, _EVENTS, _WHOLE, _FAILED, _PAGE = range(5)

_IN_STREAM = (Outcome.IN_STREAM_REJECT, Outcome.IN_STREAM_ERROR)


class Reading:
    """One answer being read.

    Call ``head`` once the head is whole, ``body`` for each piece of payload,
    ``end_of_read`` after each read, ``close`` once at the end.

    Args:
        protocol: the dialect asked.
        stream: whether a stream was asked for.
        keep_text: keep the answer's text, not only its digest.
        secrets: strings that reach no record though a server echo them.
        room: for what is incomplete, shared with other answers; None: its own.

    Attributes:
        bytes_received: payload bytes so far.
        broken: beyond a cap: stop reading, close with ``Ending.PROTOCOL``.
    """

    __slots__ = (
        "_answer",
        "_bad_events",
        "_counted",
        "_decode",
        "_ends_in_token",
        "_findings",
        "_first_byte_ns",
        "_first_event_ns",
        "_framer",
        "_headers",
        "_headers_ns",
        "_held",
        "_kept",
        "_last_clean",
        "_last_ns",
        "_marks",
        "_mode",
        "_next",
        "_odd",
        "_protocol",
        "_room",
        "_secrets",
        "_stamps",
        "_status",
        "_stream",
        "_trailing",
        "_twin",
        "_twin_due",
        "_whole",
        "broken",
        "bytes_received",
    )

    def __init__(
        self,
        protocol: Protocol,
        *,
        stream: bool,
        keep_text: bool,
        secrets: Sequence[str] = (),
        room: Room | None = None,
    ) -> None:
        self._protocol = protocol
        self._room = Room() if room is None else room
        self._counted = 0  # of the room
        self._decode = protocol.decode
        self._stream = stream
        self._secrets = secrets
        self.broken = False
        self.bytes_received = 0
        self._answer = Answer(protocol, keep_text)
        self._stamps = array("q")
        self._marks = self._answer.kinds  # a kind, with CLEAN once it is stamped
        self._held = self._answer.text.held
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._headers_ns: int | None = None
        self._first_byte_ns: int | None = None
        self._first_event_ns: int | None = None
        self._last_ns: int | None = None
        self._last_clean = False
        self._mode = _UNTOLD
        self._framer: SseFramer | NdjsonFramer = SseFramer()
        self._whole: bytearray | None = None  # a body that is no stream
        self._kept = b""  # the body's beginning, until a token comes
        self._odd: bytes | None = None  # the first event that is none
        self._bad_events = 0
        self._trailing = False
        self._ends_in_token = False  # the last event of this read was a token's
        self._findings: list[str] = []
        self._twin: Twin | None = None
        self._next: Twin | None = None  # the same, unless half an event is pending
        self._twin_due = 1  # not the first: the framer begins otherwise

    @property
    def done(self) -> bool:
        """The protocol's end mark came: nothing more of the answer is to come."""
        return self._answer.done

    def head(self, status: int, headers: list[tuple[bytes, bytes]], at_ns: int) -> None:
        """The response's head is whole; an interim one (1xx) is passed over."""
        if 100 <= status < 200:
            return
        self._status = status
        self._headers = kept_headers(headers)
        self._headers_ns = at_ns
        self._mode = _UNTOLD if 200 <= status < 300 else _FAILED

    def body(self, data: bytes) -> None:
        """Take payload, without the transfer coding."""
        self.bytes_received += len(data)
        if self.broken:
            return
        if not self._stamps and len(self._kept) < MAX_EXCERPT_BYTES:
            self._kept += data[: MAX_EXCERPT_BYTES - len(self._kept)]
        if self._mode == _UNTOLD:
            data = self._tell(data)
        if self._mode == _EVENTS:
            try:
                events = self._framer.feed(data)
            except FramingError:
                self._break("event_too_large")
                return
            for event in events:
                delta = self._take(event)
            if len(events) == 1 and len(self._stamps) >= self._twin_due:
                self._look_for_twin(data, delta)
            self._next = None if self._framer.pending else self._twin
        else:
            self._hold(data)
        if self._framer.pending or self._whole is not None or self._counted:
            self._settle()
        self._check()

    def end_of_read(self, at_ns: int, queue_empty: bool) -> None:
        """A read is over: stamp the token events it completed.

        Args:
            at_ns: when its last byte arrived, ns since t0.
            queue_empty: nothing was left in the socket after it.
        """
        if self._first_byte_ns is None:
            if not self.bytes_received:
                return
            self._first_byte_ns = at_ns
        answer = self._answer
        if self._first_event_ns is None and answer.heard:
            self._first_event_ns = at_ns
        self._last_ns = at_ns
        self._last_clean = queue_empty
        fresh = len(self._marks) - len(self._stamps)
        if fresh:
            # The stamp is the read's last byte's: another's than the token's if an
            # event, or a part of one, came after it.
            clean = queue_empty and not self._framer.pending
            self._stamp(at_ns, clean and (fresh > 1 or self._ends_in_token))

    def whole_read(self, data: bytes, at_ns: int, queue_empty: bool) -> None:
        """``body`` and ``end_of_read`` of a read that held just this payload."""
        twin = self._next
        if twin is None or (piece := twin.piece(data)) is None:
            self.body(data)
            self.end_of_read(at_ns, queue_empty)
            return
        self.bytes_received += len(data)
        self._held += piece
        if len(self._held) >= TEXT_BATCH_BYTES:
            self._answer.text.settle()
            self._check()
        self._marks.append(ANSWER | CLEAN if queue_empty else ANSWER)
        self._stamps.append(at_ns)
        self._last_ns = at_ns
        self._last_clean = queue_empty
        if self.bytes_received > MAX_BODY_BYTES:
            self._check()

    def close(self, ending: Ending, at_ns: int) -> Facts:
        """The exchange is over.

        Args:
            ending: what ended it.
            at_ns: when, ns since t0.
        """
        if self.broken:
            ending = Ending.PROTOCOL
        alien = self._finish_body(ending)
        answer = self._answer
        kinds, clean = parted(self._marks)
        tokens = settle(kinds, self._stamps, clean, output_tokens=answer.output_tokens)
        outcome = decide(
            ending=ending,
            status=self._status,
            error=answer.error,
            tokens=len(tokens.at_ns),
            finish_reason=answer.finish_reason,
            finished=answer.finished,
            alien=alien,
        )
        self._find(outcome, ending, tokens)
        self._counted, _ = self._room.settle(self._counted, 0)
        facts = self._facts(outcome, ending, at_ns, tokens)
        return without_secrets(facts, self._secrets) if self._secrets else facts

    def _tell(self, data: bytes) -> bytes:
        """Tell by its first byte what the body is; Content-Type is not trusted."""
        data = data.lstrip(_BLANK)
        opening = data[:1]
        if opening == b"<":
            self._mode = _PAGE
        elif opening == b"{" and self._stream and self._protocol.framing == "ndjson":
            self._mode = _EVENTS
            self._framer = NdjsonFramer()
        elif opening in (b"{", b"["):
            self._mode = _WHOLE
        elif opening:
            self._mode = _EVENTS
        return data

    def _hold(self, data: bytes) -> None:
        """Keep a body that is no stream until it is whole."""
        if self._mode not in (_WHOLE, _FAILED):
            return
        if self._whole is None:
            self._whole = bytearray()
        if self._mode == _WHOLE:
            self._whole += data
            if len(self._whole) > MAX_WHOLE_BYTES:
                self._break("body_too_large")
        elif len(self._whole) < MAX_ERROR_BYTES:
            self._whole += data[: MAX_ERROR_BYTES - len(self._whole)]

    def _take(self, event: Event) -> Delta | None:
        """Add up one event; what it says, unless that counts for nothing."""
        answer = self._answer
        self._ends_in_token = False
        if answer.done:
            self._trailing = self._trailing or event.data != b"[DONE]"
            return None
        delta = self._decode(event)
        if not delta.malformed:
            tokens = len(self._marks)
            answer.fold(delta, event.data)
            self._ends_in_token = len(self._marks) > tokens
            if delta.done:
                self._twin = None
            return delta
        self._bad_events += 1
        if self._odd is None:
            self._odd = event.data[:MAX_EXCERPT_BYTES]
        return None

    def _look_for_twin(self, data: bytes, delta: Delta | None) -> None:
        """Learn from the payload of one event how the next will look."""
        if delta is None or delta.output != "answer" or self._protocol.cumulative:
            return
        framer = type(self._framer)()
        self._twin = twin_of(data, delta, self._decode, framer)
        self._twin_due = len(self._stamps) + _TWIN_EVERY

    def _stamp(self, at_ns: int, clean: bool) -> None:
        """Stamp each token event that has none yet."""
        for place in range(len(self._stamps), len(self._marks)):
            self._kept = b""
            self._stamps.append(at_ns)
            if clean:
                self._marks[place] |= CLEAN

    def _settle(self) -> None:
        """Count what is held of an event or a body that is not whole."""
        held = self._framer.held + len(self._whole or b"")
        self._counted, fits = self._room.settle(self._counted, held)
        if not fits:
            self._break("out_of_room")

    def _check(self) -> None:
        """Whether it grows beyond what an answer can be."""
        if self.broken:
            return
        if self.bytes_received > MAX_BODY_BYTES:
            self._break("body_too_large")
        elif len(self._marks) > MAX_TOKEN_EVENTS:
            self._break("too_many_tokens")

    def _break(self, finding: str) -> None:
        self.broken = True
        self._next = self._twin = None
        self._findings.append(finding)
        self._whole = None
        self._framer.drop()
        self._counted, _ = self._room.settle(self._counted, 0)

    def _finish_body(self, ending: Ending) -> bool:
        """Read what is still held; whether the body is not the protocol's."""
        answer = self._answer
        alien = self._mode == _PAGE
        clean = False
        if self._mode == _EVENTS:
            self._flush()
            odd = self._bad_events or self._framer.ignored
            alien = bool(odd and not answer.heard and ending is Ending.COMPLETE)
        elif self._mode == _WHOLE and not self.broken:
            alien = not self._read_whole() and ending is Ending.COMPLETE
            clean = self._last_clean
        elif self._mode == _FAILED:
            answer.error = error_of_failed(bytes(self._whole or b""), self._decode)
        if self._last_ns is not None:
            self._stamp(self._last_ns, clean)
        return alien

    def _read_whole(self) -> bool:
        """Read a body that is one piece of JSON; whether it is the protocol's."""
        body = bytes(self._whole or b"")
        delta = self._protocol.decode_whole(body)
        if delta.malformed:
            error = error_in(lenient.loads(body))
            if error is None:
                return False
            delta = Delta(error=error)
        self._answer.fold(delta, body)
        self._first_event_ns = self._last_ns
        return True

    def _flush(self) -> None:
        """The last event may lack its blank line; half an event counts for nothing."""
        if self.broken or not self._framer.pending:
            return
        try:
            events = self._framer.flush()
        except FramingError:
            return
        for event in events:
            if self._decode(event).malformed:
                self._findings.append("event_cut")
            else:
                self._take(event)

    def _find(self, outcome: Outcome, ending: Ending, tokens: Tokens) -> None:
        """Note what is odd about the answer, beside its outcome."""
        answer, found = self._answer, self._findings
        content_type = self._headers.get("content-type", "")
        streamed, whole = self._mode == _EVENTS, self._mode == _WHOLE
        sse = streamed and not isinstance(self._framer, NdjsonFramer)
        done_early = answer.done and not answer.finished and answer.error is None
        reasoned = REASONING in self._marks or REASONING | CLEAN in self._marks
        checks = [
            (sse and "json" in content_type, "content_type_mismatch"),
            (whole and "event-stream" in content_type, "content_type_mismatch"),
            (done_early, "done_without_finish"),
            (self._trailing, "events_after_done"),
            (self._bad_events > 0, "bad_events"),
            (len(answer.choices) > 1, "several_choices"),
            (bool(answer.reasoning_tokens) and not reasoned, "hidden_reasoning"),
        ]
        if outcome is Outcome.OK:
            checks += [
                (streamed and not answer.done, "no_done"),
                (self._stream and whole, "not_streamed"),
                (not self._stream and streamed, "streamed_unasked"),
                (not tokens.at_ns, "no_token_events"),
                (ending is not Ending.COMPLETE, f"{ending}_after_finish"),
            ]
        if streamed:
            found += tokens.findings
        found += [name for holds, name in checks if holds]
        found += header_findings(self._headers)

    def _facts(
        self, outcome: Outcome, ending: Ending, end_ns: int, tokens: Tokens
    ) -> Facts:
        answer, at_ns = self._answer, tokens.at_ns
        wait_s, wait_raw = retry_after(self._headers)
        output_tokens = answer.output_tokens
        if output_tokens is None and outcome in _IN_STREAM and not at_ns:
            output_tokens = 0  # it failed before any; the asked length is no count
        source = (
            TokenSource.USAGE if answer.usage_is_final else TokenSource.CONTINUOUS_USAGE
        )
        unknown = TokenSource.UNKNOWN
        one_text = len(answer.choices) < 2 and bool(at_ns)
        return Facts(
            status=self._status,
            outcome=outcome,
            ending=ending,
            end_ns=end_ns,
            headers_ns=self._headers_ns,
            first_byte_ns=self._first_byte_ns,
            first_event_ns=self._first_event_ns,
            first_token_ns=at_ns[0] if at_ns else None,
            first_answer_ns=tokens.first_answer_ns,
            last_token_ns=at_ns[-1] if at_ns else None,
            token_ns=at_ns,
            token_exact=tokens.exact,
            finish_reason=answer.finish_reason,
            done=answer.done,
            error=answer.error,
            retry_after_s=wait_s,
            retry_after_raw=wait_raw,
            prompt_tokens=answer.prompt_tokens,
            prompt_tokens_source=unknown if answer.prompt_tokens is None else source,
            output_tokens=output_tokens,
            output_tokens_source=unknown if answer.output_tokens is None else source,
            model=clip(answer.model, MAX_NAME_CHARS),
            response_id=clip(answer.response_id, MAX_NAME_CHARS),
            headers=self._headers,
            body_excerpt=self._excerpt(outcome),
            bytes_received=self.bytes_received,
            comments=self._framer.comments,
            bad_events=self._bad_events,
            text_sha256=answer.text.sha256() if one_text else None,
            text=answer.text.whole() if one_text else None,
            findings=self._findings,
        )

    def _excerpt(self, outcome: Outcome) -> str | None:
        """What an answer that is not ok said, shortened."""
        if outcome is Outcome.OK:
            return None
        answer = self._answer
        raw = answer.error_bytes or self._odd
        if raw is None and not answer.kinds:
            raw = self._kept
        return raw.decode("utf-8", "replace") if raw else None
