"""Answers that are no completion, worded as vLLM 0.33 words them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from loadgen.sim.engine import Refusal

__all__ = [
    "ApiError",
    "engine_fault",
    "invalid_body",
    "max_tokens_too_large",
    "max_tokens_too_small",
    "prompt_too_long",
    "refused",
    "unknown_model",
    "unsupported",
]

_REFUSAL_MESSAGE = {
    Refusal.QUEUED_REQS: (
        "The engine is currently busy and cannot accept new requests."
        " Please try again later or on a different instance."
    ),
    Refusal.QUEUED_TOKENS: (
        "The engine has reached its prefill token backlog limit."
        " Please try again later or on a different instance."
    ),
}


class ApiError(Exception):
    """An answer that is an error, as a status or inside a stream.

    Args:
        status: the HTTP status, where there still is one to send.
        content: the JSON body.
        headers: further headers.
    """

    def __init__(
        self,
        status: int,
        content: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(content)
        self.status = status
        self.content = content
        self.headers = headers or {}

    def body(self) -> bytes:
        return msgspec.json.encode(self.content)


def _worded(
    status: int, message: str, kind: str, *, param: str | None = None
) -> ApiError:
    error = {"message": message, "type": kind, "param": param, "code": status}
    return ApiError(status, {"error": error})


def refused(refusal: Refusal) -> ApiError:
    """No admission. No Retry-After either: vLLM sends none."""
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return _worded(status.value, _REFUSAL_MESSAGE[refusal], status.phrase)


def engine_fault() -> ApiError:
    """The engine died under a request."""
    return _worded(
        500,
        "The server had an error while processing your request.",
        "InternalServerError",
    )


def unknown_model(asked: str, served: str) -> ApiError:
    """The request names a model that is not served."""
    return _worded(
        404,
        f"The model `{asked}` does not exist. Valid aliases: {served}.",
        "NotFoundError",
        param="model",
    )


def invalid_body(kind: str, location: str, message: str) -> ApiError:
    """The body is not what the endpoint takes; ``location`` as ``body.model``."""
    detail = {"type": kind, "loc": location, "msg": message}
    return _worded(
        400, f"1 validation error:\n  {detail}", "Bad Request", param=location
    )


def unsupported(param: str, what: str) -> ApiError:
    """A true vLLM would answer; the stand-in says that it cannot."""
    return _worded(400, f"The stand-in has no {what}.", "BadRequestError", param=param)


def max_tokens_too_large(max_tokens: int, max_model_len: int) -> ApiError:
    """The answer alone would exceed the context."""
    return _worded(
        400,
        f"max_tokens={max_tokens} cannot be greater than"
        f" max_model_len={max_model_len}. Please request fewer output tokens."
        f" (parameter=max_tokens, value={max_tokens})",
        "BadRequestError",
        param="max_tokens",
    )


def max_tokens_too_small(max_tokens: int) -> ApiError:
    """An answer without a token."""
    return _worded(
        400,
        f"max_tokens must be at least 1, got {max_tokens}."
        f" (parameter=max_tokens, value={max_tokens})",
        "BadRequestError",
        param="max_tokens",
    )


def prompt_too_long(
    prompt_tokens: int, max_tokens: int | None, max_model_len: int
) -> ApiError:
    """Prompt and answer exceed the context; ``max_tokens`` None when not asked."""
    if prompt_tokens >= max_model_len or max_tokens is None:
        cause = (
            f"your prompt contains {prompt_tokens} input tokens, which exceeds this"
            " limit even without any output tokens. Please reduce the length of the"
            " input prompt."
        )
    else:
        cause = (
            f"you requested {max_tokens} output tokens and your prompt contains at"
            f" least {prompt_tokens} input tokens, for a total of at least"
            f" {prompt_tokens + max_tokens} tokens. Please reduce the length of the"
            " input prompt or the number of requested output tokens."
        )
    return _worded(
        400,
        f"This model's maximum context length is {max_model_len} tokens. However,"
        f" {cause} (parameter=input_tokens, value={prompt_tokens})",
        "BadRequestError",
        param="input_tokens",
    )
