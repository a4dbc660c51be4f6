"""What a client asks for: bodies read and checked, nothing started yet."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from loadgen.standin import tokens
from loadgen.standin.errors import (
    ApiError,
    invalid_body,
    max_tokens_too_large,
    max_tokens_too_small,
    prompt_too_long,
    unsupported,
)

__all__ = [
    "ChatBody",
    "CompletionBody",
    "StreamOptions",
    "TokenizeBody",
    "answer_length",
    "read",
]

DEFAULT_ANSWER_TOKENS = 128
_AT = re.compile(r" - at `\$\.?([^`]*)`$")
_MISSING = re.compile(r"missing required field `(\w+)`")
_Body = TypeVar("_Body", bound=msgspec.Struct)


class StreamOptions(msgspec.Struct, frozen=True):
    """Where a stream carries usage."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Generate(msgspec.Struct, kw_only=True):
    """What both generating endpoints take; fields beyond these are ignored."""

    model: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = 1
    request_id: str | None = None

    @property
    def answer_tokens(self) -> int | None:
        """The asked length of the answer; None when it is left to the model."""
        asked = self.max_completion_tokens
        return self.max_tokens if asked is None else asked


class ChatBody(_Generate, kw_only=True):
    """POST /v1/chat/completions."""

    messages: list[dict[str, Any]]

    def pieces(self) -> list[str]:
        """The prompt's tokens, as text.

        Raises:
            ApiError: a message that is not text.
        """
        return tokens.chat_pieces(_message_text(message) for message in self.messages)


class CompletionBody(_Generate, kw_only=True):
    """POST /v1/completions; one prompt, as text or as token numbers."""

    prompt: str | list[str | int]
    max_tokens: int | None = 16

    def pieces(self) -> list[str]:
        """The prompt's tokens, as text.

        Raises:
            ApiError: no prompt, or more than one.
        """
        match self.prompt:
            case str(text) | [str(text)]:
                return tokens.pieces(text)
            case [int(), *_] as numbers:
                return [str(number) for number in numbers]
        raise unsupported("prompt", "answer to several prompts or to none")


class TokenizeBody(msgspec.Struct, kw_only=True):
    """POST /tokenize; a prompt or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    return_token_strs: bool = False

    def pieces(self) -> list[str]:
        if self.messages is not None:
            texts = (_message_text(message) for message in self.messages)
            return tokens.chat_pieces(texts)
        if self.prompt is None:
            raise invalid_body("missing", "body.prompt", "Field required")
        return tokens.pieces(self.prompt)


def read(raw: bytes, kind: type[_Body]) -> _Body:
    """Decode a request body.

    Raises:
        ApiError: it is no JSON, or not of this kind (400).
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid_body("json_invalid", "body", str(error)) from None


def answer_length(
    asked: int | None, prompt_tokens: int, max_model_len: int
) -> tuple[int, str]:
    """How many tokens an answer has, and the finish reason it ends with.

    Raises:
        ApiError: prompt and answer do not fit the context (400).
    """
    if asked is not None and asked < 1:
        raise max_tokens_too_small(asked)
    if asked is not None and asked > max_model_len:
        raise max_tokens_too_large(asked, max_model_len)
    room = max_model_len - prompt_tokens
    if room < (asked or 1):
        raise prompt_too_long(prompt_tokens, asked, max_model_len)
    if asked is not None:
        return asked, "length"
    if room < DEFAULT_ANSWER_TOKENS:
        return room, "length"
    return DEFAULT_ANSWER_TOKENS, "stop"


def _invalid(message: str) -> ApiError:
    missing = _MISSING.search(message)
    if missing is not None:
        return invalid_body("missing", f"body.{missing[1]}", "Field required")
    where = _AT.search(message)
    location = f"body.{where[1]}" if where and where[1] else "body"
    return invalid_body("value_error", location, _AT.sub("", message))


def _message_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid_body(
            "string_type", "body.messages", "Input should be a valid string"
        )
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    if len(texts) < len(content) or not all(isinstance(text, str) for text in texts):
        raise unsupported("messages", "input other than text")
    return "".join(text for text in texts if isinstance(text, str))
