"""OpenAI chat and text completions, as vLLM, SGLang, llama.cpp and others serve them.

One decoder for both: a choice carries ``delta``, ``message`` or ``text``, and
gateways are known to answer one in the shape of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from loadgen.wire.framing import Event
from loadgen.wire.protocols import lenient
from loadgen.wire.protocols.delta import (
    DONE,
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
    messages,
    plain_text,
    quoted,
)
from loadgen.wire.protocols.errors import error_in, error_of_event
from loadgen.wire.protocols.values import count, text_of, word

if TYPE_CHECKING:
    from loadgen.plan.prompts import Prompt
    from loadgen.wire.protocols.encoding import Encoder

__all__ = ["OpenAiChat", "OpenAiCompletions", "decode", "decode_whole"]


class _Details(msgspec.Struct, gc=False):
    reasoning_tokens: Any = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: Any = None
    completion_tokens: Any = None
    completion_tokens_details: _Details | None = None


class _Content(msgspec.Struct, gc=False):
    content: Any = None
    role: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Content | None = None
    message: _Content | None = None
    text: Any = None
    finish_reason: Any = None


class _Chunk(msgspec.Struct, gc=False):
    id: Any = None
    model: Any = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_read_chunk = lenient.reader(_Chunk)
_FIRST = (0,)


def decode(event: Event) -> Delta:
    """What one stream event says."""
    data = event.data
    if data == b"[DONE]":
        return DONE
    if event.kind == b"error":
        return Delta(error=error_of_event(data))
    chunk = _read_chunk(data)
    if chunk is None:
        return sign(data)
    choices = chunk.choices
    if choices is None or len(choices) != 1 or chunk.error:
        return _fold(chunk, data)
    # The hot path: the first choice alone, with a string, and no error.
    choice = choices[0]
    content = choice.delta or choice.message
    text = choice.text if content is None else content.content
    if choice.index or type(text) is not str:
        return _fold(chunk, data)
    if not (text or content is None or _says_no_more(content)):
        return _fold(chunk, data)
    reason = _reason(choice.finish_reason) if choice.finish_reason else None
    return Delta(
        "answer" if text else "empty",
        text,
        reason,
        None if chunk.usage is None else _usage(chunk.usage),
        model=chunk.model,
        response_id=chunk.id,
        choices=_FIRST,
        finished=_FIRST if reason else (),
    )


def decode_whole(body: bytes) -> Delta:
    """What a whole, not streamed answer says."""
    return decode(Event(b"", body))


def _fold(chunk: _Chunk, data: bytes) -> Delta:
    """Every case: errors, several choices, usage, ends."""
    choices = chunk.choices or []
    error = None
    if chunk.error or not (choices or chunk.usage):
        error = error_in(lenient.loads(data))
    if error is None and chunk.choices is None and chunk.usage is None:
        return MALFORMED
    output: Output = "none"
    text = ""
    reason = None
    spoken: list[int] = []
    finished: list[int] = []
    for choice in choices:
        carried, piece = _output(choice)
        if _RANK[carried] > _RANK[output]:
            output = carried
        if not choice.index:
            text += piece
        if choice.finish_reason and (given := _reason(choice.finish_reason)):
            reason = given
            finished.append(choice.index)
        spoken.append(choice.index)
    usage = chunk.usage
    return Delta(
        output=output,
        text=text,
        finish_reason=reason,
        usage=None if usage is None else _usage(usage),
        error=error,
        model=chunk.model,
        response_id=chunk.id,
        choices=tuple(spoken),
        finished=tuple(finished),
    )


_RANK: dict[Output, int] = {"none": 0, "empty": 1, "reasoning": 2, "answer": 3}


def _output(choice: _Choice) -> tuple[Output, str]:
    """What one choice carries, and its answer text."""
    content = choice.delta or choice.message
    if content is None:
        content = _Content(content=choice.text)
    text = text_of(content.content)
    if text:
        return "answer", text
    if content.tool_calls or content.function_call or content.refusal:
        return "answer", ""
    if content.reasoning_content or content.reasoning:
        return "reasoning", ""
    # Empty beside a role it only opens the message.
    empty = "" in (content.content, content.reasoning_content, content.reasoning)
    return ("empty" if empty and not content.role else "none"), ""


def _says_no_more(content: _Content) -> bool:
    """Nothing but ``content`` is in it."""
    return not (
        content.role
        or content.reasoning_content
        or content.reasoning
        or content.tool_calls
        or content.function_call
        or content.refusal
    )


def _reason(value: Any) -> str | None:
    """A finish reason; the empty string some servers send all along is none."""
    if isinstance(value, dict):  # SGLang's own form
        value = value.get("type")
    return word(value)


def _usage(usage: _Usage) -> Usage | None:
    prompt, completion = count(usage.prompt_tokens), count(usage.completion_tokens)
    details = usage.completion_tokens_details
    reasoning = None if details is None else count(details.reasoning_tokens)
    if prompt is None and completion is None and reasoning is None:
        return None
    return Usage(prompt, completion, reasoning)


class OpenAiChat:
    """``/v1/chat/completions``."""

    name = "openai-chat"
    path = "/v1/chat/completions"
    framing: Framing = "sse"
    cumulative = False
    done_ends = False
    headers: tuple[tuple[str, str], ...] = ()
    auth = staticmethod(bearer)
    decode = staticmethod(decode)
    decode_whole = staticmethod(decode_whole)

    def encoder(
        self, model: str, *, stream: bool, extra_body: Mapping[str, Any]
    ) -> Encoder:
        prefix = _prefix(model, stream, extra_body, "messages")

        def encode(prompt: Prompt) -> bytes:
            text = b'"messages":' + messages(prompt)
            return closed(prefix, [*_asked(prompt, extra_body), text])

        return encode


class OpenAiCompletions:
    """``/v1/completions``."""

    name = "openai-completions"
    path = "/v1/completions"
    framing: Framing = "sse"
    cumulative = False
    done_ends = False
    headers: tuple[tuple[str, str], ...] = ()
    auth = staticmethod(bearer)
    decode = staticmethod(decode)
    decode_whole = staticmethod(decode_whole)

    def encoder(
        self, model: str, *, stream: bool, extra_body: Mapping[str, Any]
    ) -> Encoder:
        prefix = _prefix(model, stream, extra_body, "prompt")

        def encode(prompt: Prompt) -> bytes:
            text = b'"prompt":' + plain_text(prompt, self.name)
            return closed(prefix, [*_asked(prompt, extra_body), text])

        return encode


def _prefix(model: str, stream: bool, extra: Mapping[str, Any], text: str) -> bytes:
    fixed = {
        "model": model,
        "stream": stream,
        "stream_options": {"include_usage": True} if stream else None,
    }
    return body_prefix(fixed, extra, reserved=("model", "stream", "max_tokens", text))


def _asked(prompt: Prompt, extra: Mapping[str, Any]) -> list[bytes]:
    """What differs between requests beside the text."""
    members = length_member("max_tokens", prompt.max_tokens)
    if prompt.tenant is not None and "user" not in extra:
        members.append(b'"user":' + quoted(prompt.tenant))
    return members
