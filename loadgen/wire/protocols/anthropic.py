"""Anthropic messages, as Anthropic, vLLM, SGLang and Ollama serve them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from loadgen.errors import UsageError
from loadgen.wire.framing import Event
from loadgen.wire.protocols import lenient
from loadgen.wire.protocols.delta import (
    MALFORMED,
    NOTHING,
    Delta,
    Framing,
    Output,
    Usage,
    sign,
)
from loadgen.wire.protocols.encoding import (
    body_prefix,
    closed,
    length_member,
    messages,
    quoted,
)
from loadgen.wire.protocols.errors import error_in, error_of_event
from loadgen.wire.protocols.values import count, word

if TYPE_CHECKING:
    from loadgen.plan.prompts import Prompt
    from loadgen.wire.protocols.encoding import Encoder

__all__ = ["AnthropicMessages"]


class _Usage(msgspec.Struct, gc=False):
    input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    cache_read_input_tokens: Any = None
    output_tokens: Any = None


class _Block(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None
    thinking: Any = None
    partial_json: Any = None
    stop_reason: Any = None


class _Message(msgspec.Struct, gc=False):
    id: Any = None
    model: Any = None
    usage: _Usage | None = None


class _Event(msgspec.Struct, gc=False):
    type: Any = None
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Block | None = None
    usage: _Usage | None = None
    error: Any = None
    # of a whole answer
    id: Any = None
    model: Any = None
    content: list[_Block] | None = None
    stop_reason: Any = None


_read = lenient.reader(_Event)


def _decode(event: Event) -> Delta:
    data = event.data
    if event.kind == b"error":
        return Delta(error=error_of_event(data))
    found = _read(data)
    if found is None:
        return sign(data)
    if found.error or found.type == "error":
        return Delta(error=error_of_event(data))
    block = found.delta or found.content_block
    if found.type in ("content_block_delta", "content_block_start"):
        output, text = _output(block)
        if output == "empty" and found.type == "content_block_start":
            return NOTHING  # it only opens the block
        return Delta(output, text)
    if found.type == "message_start" and found.message is not None:
        message = found.message
        return Delta(
            usage=_usage(message.usage), model=message.model, response_id=message.id
        )
    if found.type == "message_delta":
        reason = None if block is None else word(block.stop_reason)
        return Delta(finish_reason=reason, usage=_usage(found.usage))
    if found.type == "message_stop":
        return Delta(done=True)
    # New kinds of event may be added; each names itself.
    return NOTHING if isinstance(found.type, str) else MALFORMED


def _decode_whole(body: bytes) -> Delta:
    found = _read(body)
    if found is None:
        return MALFORMED
    error = error_in(lenient.loads(body)) if found.content is None else None
    if error is not None:
        return Delta(error=error)
    if found.content is None:
        return MALFORMED
    outputs = [_output(block) for block in found.content]
    carried: tuple[Output, ...] = ("answer", "reasoning", "empty")
    return Delta(
        output=next((o for o in carried if o in dict(outputs)), "none"),
        text="".join(text for _, text in outputs),
        finish_reason=word(found.stop_reason),
        usage=_usage(found.usage),
        model=found.model,
        response_id=found.id,
    )


def _output(block: _Block | None) -> tuple[Output, str]:
    """What a content block or a piece of one carries, and its answer text."""
    if block is None:
        return "none", ""
    if isinstance(block.text, str):
        return ("answer" if block.text else "empty"), block.text
    if isinstance(block.thinking, str):
        return ("reasoning" if block.thinking else "empty"), ""
    if isinstance(block.partial_json, str):
        return ("answer" if block.partial_json else "empty"), ""
    return ("answer" if block.type == "tool_use" else "none"), ""


def _usage(usage: _Usage | None) -> Usage | None:
    """Counts; the prompt's is what was read anew, from a cache or into one."""
    if usage is None:
        return None
    parts = (
        count(usage.input_tokens),
        count(usage.cache_creation_input_tokens),
        count(usage.cache_read_input_tokens),
    )
    prompt = None if parts[0] is None else sum(part or 0 for part in parts)
    return Usage(prompt, count(usage.output_tokens))


class AnthropicMessages:
    """``/v1/messages``."""

    name = "anthropic"
    path = "/v1/messages"
    framing: Framing = "sse"
    cumulative = False
    done_ends = True
    headers: tuple[tuple[str, str], ...] = (("anthropic-version", "2023-06-01"),)
    decode = staticmethod(_decode)
    decode_whole = staticmethod(_decode_whole)

    def auth(self, key: str) -> tuple[str, str]:
        return ("x-api-key", key)

    def encoder(
        self, model: str, *, stream: bool, extra_body: Mapping[str, Any]
    ) -> Encoder:
        prefix = body_prefix(
            {"model": model, "stream": stream},
            extra_body,
            reserved=("model", "stream", "max_tokens", "messages"),
        )

        def encode(prompt: Prompt) -> bytes:
            if prompt.max_tokens is None:
                raise UsageError(
                    "the anthropic API needs an answer length for every request",
                    "give --max-tokens",
                )
            members = length_member("max_tokens", prompt.max_tokens)
            if prompt.tenant is not None and "metadata" not in extra_body:
                user = quoted(prompt.tenant)
                members.append(b'"metadata":{"user_id":' + user + b"}")
            members.append(b'"messages":' + messages(prompt))
            return closed(prefix, members)

        return encode
