"""What became of one request, from how it ended and what the answer said."""

from __future__ import annotations

import re

from loadgen.model import Ending, Outcome, ServerError

__all__ = ["BAD_FINISHES", "decide", "is_refusal"]

# Endings that leave no say to the answer.
_OURS = {
    Ending.UNSENT: Outcome.UNSENT,
    Ending.INTERNAL: Outcome.INTERNAL,
    Ending.CLIENT: Outcome.CLIENT_ERROR,
    Ending.TLS: Outcome.CLIENT_ERROR,
    Ending.CONNECT: Outcome.CONNECT_ERROR,
}
# What an answer that never finished is, by what ended it.
_UNFINISHED = {
    Ending.COMPLETE: Outcome.TRUNCATED,
    Ending.EOF: Outcome.TRUNCATED,
    Ending.RESET: Outcome.RESET,
    Ending.IDLE: Outcome.STALLED,
    Ending.TOTAL: Outcome.TIMEOUT,
    Ending.PROTOCOL: Outcome.PROTOCOL_ERROR,
    Ending.DRAIN: Outcome.CANCELLED,
    Ending.USER: Outcome.CANCELLED,
}
BAD_FINISHES = frozenset({"abort", "error"})
_OVERLOAD_CODES = frozenset({429, 503, 529})
_OVERLOAD = re.compile(
    r"""overload | back.?pressure | \bbacklog | saturat | throttl | \bquota\b
    | (?:server|engine|model|service|system|workers?|currently|too)\ (?:\w+\ ){0,2}busy
    | at\ (?:full\ |max\w*\ )?capacity | capacity\ (?:exceeded|reached|limit)
    | queue\ (?:is\ )?full | maximum\ queue | queue\ (?:size|limit|timeout)
    | pending\ requests? | waiting\ timeout | rate.?limit | slow.?down
    | too\ (?:many|frequent)\ (?:\w+\ ){0,2}(?:request|token|connection)
    | (?:temporarily|service).?unavailable | resource.?exhausted
    | no\ (?:\w+\ )?(?:slot|worker|backend|deployment|endpoint)s?
    """,
    re.IGNORECASE | re.VERBOSE,
)


def decide(
    *,
    ending: Ending,
    status: int | None,
    error: ServerError | None,
    tokens: int,
    finish_reason: str | None,
    finished: bool,
    alien: bool,
) -> Outcome:
    """The one outcome of a request.

    Args:
        ending: what ended the exchange on the wire.
        status: of the final answer; None if none came.
        error: the error the answer reports.
        tokens: token events counted.
        finish_reason: as the server worded it, the bad one if any is.
        finished: every choice seen has its finish reason, or the protocol's own
            end sign came.
        alien: the body is not the protocol's.
    """
    if ending in _OURS:
        return _OURS[ending]
    if status is None:
        # A peer that closes without a word has cut nothing short.
        return Outcome.RESET if ending is Ending.EOF else _UNFINISHED[ending]
    if not 200 <= status < 300:
        return Outcome.HTTP_REJECT
    if error is not None:
        refused = not tokens and is_refusal(error)
        return Outcome.IN_STREAM_REJECT if refused else Outcome.IN_STREAM_ERROR
    if finish_reason in BAD_FINISHES:
        return Outcome.IN_STREAM_ERROR if tokens else Outcome.IN_STREAM_REJECT
    if finished:
        return Outcome.OK
    if alien and ending in (Ending.COMPLETE, Ending.EOF):
        return Outcome.PROTOCOL_ERROR
    return _UNFINISHED[ending]


def is_refusal(error: ServerError) -> bool:
    """Whether an error before any token turns the request away.

    Overload wording or an overload code is a refusal, whatever else it says; so
    is any 4xx. All else is a fault of the engine.
    """
    code = _as_status(error.code)
    if code in _OVERLOAD_CODES or _as_status(error.type) in _OVERLOAD_CODES:
        return True
    words = f"{error.message or ''} {error.type or ''} {error.code or ''}"
    if _OVERLOAD.search(words.replace("_", " ")):
        return True
    return code is not None and 400 <= code < 500


def _as_status(value: int | str | None) -> int | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"[1-9][0-9]{2}", value) else None
    return value
