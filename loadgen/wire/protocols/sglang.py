"""SGLang's own ``/generate``: each event repeats the text and counts so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from loadgen.model import ServerError
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
from loadgen.wire.protocols.values import clip, count, word

if TYPE_CHECKING:
    from loadgen.plan.prompts import Prompt
    from loadgen.wire.protocols.encoding import Encoder

__all__ = ["SglangGenerate"]


class _Meta(msgspec.Struct, gc=False):
    id: Any = None
    finish_reason: Any = None
    prompt_tokens: Any = None
    completion_tokens: Any = None
    reasoning_tokens: Any = None


class _Chunk(msgspec.Struct, gc=False):
    text: Any = None
    index: int = 0
    output_ids: Any = None
    meta_info: _Meta | None = None
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
    meta = chunk.meta_info
    if chunk.error or meta is None:
        error = error_in(lenient.loads(data))
        return MALFORMED if error is None else Delta(error=error)
    reason = meta.finish_reason
    kind = word(reason.get("type") if isinstance(reason, dict) else reason)
    text = chunk.text if isinstance(chunk.text, str) else ""
    carries = bool(text or chunk.output_ids)
    return Delta(
        output="answer" if carries else "empty",
        text="" if chunk.index else text,
        finish_reason=kind,
        usage=Usage(
            count(meta.prompt_tokens),
            count(meta.completion_tokens),
            count(meta.reasoning_tokens),
        ),
        error=_abort(reason) if kind == "abort" else None,
        response_id=meta.id,
        choices=(chunk.index,),
        finished=(chunk.index,) if kind else (),
    )


def _abort(reason: Any) -> ServerError | None:
    """The error that an abort carries, where it says why."""
    if not isinstance(reason, dict) or not reason.get("message"):
        return None
    return ServerError(
        message=clip(reason["message"], 2048),
        type=clip(reason.get("err_type")) or "abort",
        code=count(reason.get("status_code")),
    )


class SglangGenerate:
    """``/generate``."""

    name = "sglang"
    path = "/generate"
    framing: Framing = "sse"
    cumulative = True
    done_ends = False
    headers: tuple[tuple[str, str], ...] = ()
    auth = staticmethod(bearer)
    decode = staticmethod(_decode)
    decode_whole = staticmethod(_decode_whole)

    def encoder(
        self, model: str, *, stream: bool, extra_body: Mapping[str, Any]
    ) -> Encoder:
        del model  # one server, one model: the dialect has no field for it
        sampling, rest = nested(
            extra_body, "sampling_params", reserved=("max_new_tokens",)
        )
        prefix = body_prefix({"stream": stream}, rest, reserved=("stream", "text"))

        def encode(prompt: Prompt) -> bytes:
            limit = length_member("max_new_tokens", prompt.max_tokens)
            text = b'"text":' + plain_text(prompt, self.name)
            params = b'"sampling_params":' + closed(sampling, limit)
            return closed(prefix, [params, text])

        return encode
