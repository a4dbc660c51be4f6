"""What is known of one answer when it has ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loadgen.model import Ending, Outcome, ServerError, TokenSource
from loadgen.wire.redact import redacted

__all__ = ["Facts", "without_secrets"]


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


def without_secrets(facts: Facts, spelled: Sequence[str]) -> Facts:
    """The same, should the server have said a secret of ours in its words.

    Args:
        facts: all that it said.
        spelled: from ``redact.spellings``.
    """

    def clean(text: str | None) -> str | None:
        return None if text is None else redacted(text, spelled)

    names = [secret.lower() for secret in spelled]

    error = facts.error
    if error is not None:
        code = error.code if isinstance(error.code, int) else clean(error.code)
        error = ServerError(clean(error.message), clean(error.type), code)
    return msgspec.structs.replace(
        facts,
        finish_reason=clean(facts.finish_reason),
        error=error,
        model=clean(facts.model),
        response_id=clean(facts.response_id),
        headers={
            name: redacted(words, spelled)
            for name, words in facts.headers.items()
            if not any(secret in name for secret in names)
        },
        retry_after_raw=clean(facts.retry_after_raw),
        body_excerpt=clean(facts.body_excerpt),
        text=clean(facts.text),
    )
