"""What a server answered, as far as it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

__all__ = [
    "METRICS",
    "MODELS",
    "NO_SUCH_PATH",
    "SERVER_INFO",
    "Idle",
    "Looked",
    "Reply",
    "Trouble",
]

MODELS = "/v1/models"
METRICS = "/metrics"
SERVER_INFO = "/server_info?config_format=json"
NO_SUCH_PATH = "/loadgen-doctor/no-such-path"

Trouble = Literal["", "connect", "tls", "timeout", "protocol"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer to one question, or why there is none.

    Attributes:
        path: what was asked for.
        status: of the answer; None where there was none.
        headers: names in lower case, in the answer's order.
        body: as far as it was read.
        trouble: what went wrong; empty where an answer came.
        words: the trouble for people.
        asked_ns: CLOCK_REALTIME just before the question.
        answered_ns: CLOCK_REALTIME when the headers were there.
    """

    path: str
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    trouble: Trouble = ""
    words: str = ""
    asked_ns: int = 0
    answered_ns: int = 0

    @property
    def ok(self) -> bool:
        return self.status == 200

    def header(self, name: str) -> str | None:
        """The first header of that name (lower case)."""
        return next((v for n, v in self.headers if n == name), None)

    def object(self) -> dict[str, Any]:
        """The body as a JSON object, whatever the status; empty when it is none."""
        try:
            value = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def listed(self) -> tuple[dict[str, Any], ...]:
        """The entries of an OpenAI list of models; empty when it is none."""
        data = self.object().get("data")
        entries = data if isinstance(data, list) else []
        return tuple(entry for entry in entries if isinstance(entry, dict))

    @property
    def is_html(self) -> bool:
        head = self.body.lstrip()[:15].lower()
        return head.startswith((b"<!doctype", b"<html"))

    @property
    def text(self) -> str:
        """The body's beginning as text; hostile until escaped."""
        return self.body[:400].decode("utf-8", "replace").strip()


@dataclass(frozen=True, slots=True)
class Idle:
    """What became of a connection that was left idle after an answer.

    Attributes:
        answered: whether an answer came at all.
        closed_after_s: from the answer's last byte to the server's closing; None:
            it was still open after ``watched_s``.
        watched_s: how long it was looked at.
    """

    answered: bool
    closed_after_s: float | None = None
    watched_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """All that was asked and answered.

    Attributes:
        first: the answer to GET /v1/models; where it failed nothing else was asked.
        replies: by path, the first among them.
        metrics: the answer of the metrics address; None: not asked.
        idle: what an idle connection did; None: not watched.
        generated: the answer to a generation; None: none was asked for.
    """

    first: Reply
    replies: Mapping[str, Reply]
    metrics: Reply | None = None
    idle: Idle | None = None
    generated: Reply | None = None
