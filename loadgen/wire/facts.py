"""What is known of one answer when it has ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loadgen.model import Ending, Outcome, ServerError, TokenSource

__all__ = ["Facts", "redacted"]

# A shorter beginning of a secret at a cut end tells nothing.
_TELLING_CHARS = 8


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What one answer was: the response side of a ``RequestRecord``, same names."""

    status: int | None
    outcome: Outcome
    ending: Ending
    end_ns: int
    headers_ns: int | None
    first_byte_ns: int | None
    first_event_ns: int | None
    first_token_ns: int | None
    first_answer_ns: int | None
    last_token_ns: int | None
    token_ns: list[int]
    token_exact: list[bool]
    finish_reason: str | None
    done: bool
    error: ServerError | None
    retry_after_s: float | None
    retry_after_raw: str | None
    prompt_tokens: int | None
    prompt_tokens_source: TokenSource
    output_tokens: int | None
    output_tokens_source: TokenSource
    model: str | None
    response_id: str | None
    headers: dict[str, str]
    body_excerpt: str | None
    bytes_received: int
    comments: int
    bad_events: int
    text_sha256: str | None
    text: str | None
    findings: list[str]


def redacted(text: str, secrets: Sequence[str]) -> str:
    """A server's words without our secrets, nor the beginning of one cut off."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[redacted]")
        for length in range(len(secret) - 1, _TELLING_CHARS - 1, -1):
            if text.endswith(secret[:length]):
                text = text[:-length] + "[redacted]"
                break
    return text
