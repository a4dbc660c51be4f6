"""Text Generation Inference: one token an event, the last with the whole text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from loadgen.errors import UsageError
from loadgen.wire.framing import Event
from loadgen.wire.protocols import lenient
from loadgen.wire.protocols.delta import MALFORMED, Delta, Framing, Usage, sign
from loadgen.wire.protocols.encoding import (
    bearer,
    body_prefix,
    closed,
    length_member,
    nested,
    plain_text,
)
from loadgen.wire.protocols.errors import error_in, error_of_event
from loadgen.wire.protocols.values import count, word

if TYPE_CHECKING:
    from loadgen.plan.prompts import Prompt
    from loadgen.wire.protocols.encoding import Encoder

__all__ = ["TgiGenerateStream"]


class _Token(msgspec.Struct, gc=False):
    text: Any = None
    special: Any = None


class _Details(msgspec.Struct, gc=False):
    finish_reason: Any = None
    generated_tokens: Any = None
    input_length: Any = None


class _Event(msgspec.Struct, gc=False):
    token: _Token | None = None
    generated_text: Any = None
    details: _Details | None = None
    error: Any = None


_read = lenient.reader(_Event)


def _decode(event: Event) -> Delta:
    data = event.data
    if event.kind == b"error":
        return Delta(error=error_of_event(data))
    found = _read(data)
    if found is None:
        return sign(data)
    token = found.token
    if found.error or (token is None and found.generated_text is None):
        error = error_in(lenient.loads(data))
        return MALFORMED if error is None else Delta(error=error)
    delta = _end(found)
    if token is None:
        return delta
    # A special token, as the end's, is generated but no text.
    text = token.text if isinstance(token.text, str) and not token.special else ""
    return msgspec.structs.replace(
        delta, output="answer" if text or token.special else "empty", text=text
    )


def _decode_whole(body: bytes) -> Delta:
    value = lenient.loads(body)
    found = lenient.salvage(
        _Event, value[0] if isinstance(value, list) and value else value
    )
    if found is None or not isinstance(found.generated_text, str):
        error = error_in(value)
        return MALFORMED if error is None else Delta(error=error)
    text = found.generated_text
    return msgspec.structs.replace(
        _end(found), output="answer" if text else "none", text=text
    )


def _end(event: _Event) -> Delta:
    """What the last event says beside its token."""
    details = event.details
    if event.generated_text is None:
        return Delta()
    if details is None:
        return Delta(done=True)
    return Delta(
        finish_reason=word(details.finish_reason),
        usage=Usage(count(details.input_length), count(details.generated_tokens)),
        done=True,
    )


class TgiGenerateStream:
    """``/generate_stream``, which always streams."""

    name = "tgi"
    path = "/generate_stream"
    framing: Framing = "sse"
    cumulative = False
    done_ends = True
    headers: tuple[tuple[str, str], ...] = ()
    auth = staticmethod(bearer)
    decode = staticmethod(_decode)
    decode_whole = staticmethod(_decode_whole)

    def encoder(
        self, model: str, *, stream: bool, extra_body: Mapping[str, Any]
    ) -> Encoder:
        del model  # one server, one model: the dialect has no field for it
        if not stream:
            raise UsageError(
                "the tgi API always streams", "use --api openai-chat for whole answers"
            )
        parameters, rest = nested(
            extra_body, "parameters", reserved=("max_new_tokens",)
        )
        prefix = body_prefix({}, rest, reserved=("inputs",))

        def encode(prompt: Prompt) -> bytes:
            limit = length_member("max_new_tokens", prompt.max_tokens)
            text = b'"inputs":' + plain_text(prompt, self.name)
            params = b'"parameters":' + closed(parameters, limit)
            return closed(prefix, [params, text])

        return encode
