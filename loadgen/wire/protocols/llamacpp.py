"""llama.cpp's own ``/completion``: pieces of text, the last one with ``stop``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from loadgen.wire.framing import Event
from loadgen.wire.protocols import lenient
from loadgen.wire.protocols.delta import (
    MALFORMED,
    Delta,
    Framing,
    Output,
    Usage,
    sign,
)
from loadgen.wire.protocols.encoding import (
    bearer,
    body_prefix,
    closed,
    length_member,
    plain_text,
)
from loadgen.wire.protocols.errors import error_in, error_of_event
from loadgen.wire.protocols.values import count, word

if TYPE_CHECKING:
    from loadgen.plan.prompts import Prompt
    from loadgen.wire.protocols.encoding import Encoder

__all__ = ["LlamaCppCompletion"]


class _Chunk(msgspec.Struct, gc=False):
    content: Any = None
    stop: Any = None
    stop_type: Any = None
    stopped_eos: Any = None
    stopped_limit: Any = None
    stopped_word: Any = None
    tokens_evaluated: Any = None
    tokens_predicted: Any = None
    model: Any = None
    error: Any = None


_read = lenient.reader(_Chunk)


def _decode(event: Event) -> Delta:
    if event.kind == b"error":
        return Delta(error=error_of_event(event.data))
    return _decode_whole(event.data)


def _decode_whole(data: bytes) -> Delta:
    chunk = _read(data)
    if chunk is None:
        return sign(data)
    if chunk.error or not isinstance(chunk.content, str):
        error = error_in(lenient.loads(data))
        return MALFORMED if error is None else Delta(error=error)
    stop = chunk.stop is True
    output: Output = "answer" if chunk.content else "none" if stop else "empty"
    usage = Usage(count(chunk.tokens_evaluated), count(chunk.tokens_predicted))
    return Delta(
        output=output,
        text=chunk.content,
        finish_reason=_why(chunk) if stop else None,
        usage=usage if usage != Usage() else None,
        done=stop,
        model=chunk.model,
    )


def _why(chunk: _Chunk) -> str:
    """The stop's cause, in the words of newer servers for older ones too."""
    told = word(chunk.stop_type)
    if told is not None and told != "none":
        return told
    older = (
        (chunk.stopped_eos, "eos"),
        (chunk.stopped_limit, "limit"),
        (chunk.stopped_word, "word"),
    )
    return next((name for holds, name in older if holds is True), "stop")


class LlamaCppCompletion:
    """``/completion``."""

    name = "llamacpp"
    path = "/completion"
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
        prefix = body_prefix(
            {"stream": stream},
            extra_body,
            reserved=("stream", "n_predict", "prompt"),
        )

        def encode(prompt: Prompt) -> bytes:
            text = b'"prompt":' + plain_text(prompt, self.name)
            limit = length_member("n_predict", prompt.max_tokens)
            return closed(prefix, [*limit, text])

        return encode
