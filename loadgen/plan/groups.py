"""A group: one kind of request, and the lengths it may have."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from loadgen.plan.prompts import (
    MIN_DOCUMENT_TOKENS,
    MIN_PREFIX_TOKENS,
    MIN_QUESTION_TOKENS,
)

__all__ = ["MAX_TOKENS", "Group", "Name", "span"]

MAX_TOKENS = 10_000_000

#: Bounds are checked in Group: msgspec misreads a bounded number beside a tuple.
_Length = int | tuple[int, int]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of request. A length is a number or a range, both ends included.

    ``prompt_tokens`` is the estimated length of the whole prompt, its
    ``shared_prefix_tokens`` included. ``weight`` is the share of requests in any
    unit; None is 1.
    """

    name: Name
    kind: Literal["question", "document"]
    prompt_tokens: _Length
    max_tokens: _Length
    weight: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    shared_prefix_tokens: Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)] = 0
    tenant: Name | None = None

    def __post_init__(self) -> None:
        for key in ("prompt_tokens", "max_tokens"):
            low, high = span(getattr(self, key))
            if not 1 <= low <= high <= MAX_TOKENS:
                raise ValueError(
                    f"{key} must be 1 to {MAX_TOKENS:,}, a range its lower end first"
                )
        if 0 < self.shared_prefix_tokens < MIN_PREFIX_TOKENS:
            raise ValueError(
                f"shared_prefix_tokens is 0, or {MIN_PREFIX_TOKENS} or more"
            )
        own = MIN_QUESTION_TOKENS if self.kind == "question" else MIN_DOCUMENT_TOKENS
        least = own + self.shared_prefix_tokens
        if span(self.prompt_tokens)[0] < least:
            raise ValueError(
                f"prompt_tokens must be {least} or more in this {self.kind}"
            )

    @property
    def share(self) -> float:
        return 1.0 if self.weight is None else self.weight


def span(length: _Length) -> tuple[int, int]:
    """The shortest and the longest of a length."""
    return (length, length) if isinstance(length, int) else length
