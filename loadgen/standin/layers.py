"""What stands in front of the engine or breaks behind it, on purpose.

Each layer is a rule over instants or counts: it opens no socket and reads no
clock. The server asks ``Front`` before it looks at a request and ``Tail`` before
each token it sends.
"""

from __future__ import annotations

import math
from enum import Enum

from loadgen.sim.engine import Refusal
from loadgen.standin.errors import ApiError
from loadgen.standin.options import Faults
from loadgen.units import NS_PER_S

__all__ = ["Fault", "Front", "RateLimit", "fault_before"]


class Fault(Enum):
    """How an answer breaks."""

    CUT = "cut"
    RESET = "reset"
    STALL = "stall"
    ERROR = "error"


def fault_before(faults: Faults, sent_tokens: int) -> Fault | None:
    """What happens once so many tokens are out; None: the next one follows."""
    at = {
        Fault.ERROR: faults.error_after,
        Fault.CUT: faults.cut_after,
        Fault.RESET: faults.reset_after,
        Fault.STALL: faults.stall_after,
    }
    return next((fault for fault, tokens in at.items() if tokens == sent_tokens), None)


class RateLimit:
    """A token bucket that holds one second's worth, at least one request."""

    def __init__(self, rate_rps: float) -> None:
        self._rate_rps = rate_rps
        self._depth = max(1.0, rate_rps)
        self._level = self._depth
        self._at_ns: int | None = None

    def wait_s(self, now_ns: int) -> float:
        """Take one request at ``now_ns``; 0, or the seconds until one would pass."""
        elapsed_s = 0.0 if self._at_ns is None else (now_ns - self._at_ns) / NS_PER_S
        self._at_ns = now_ns
        self._level = min(self._depth, self._level + elapsed_s * self._rate_rps)
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) / self._rate_rps


class Front:
    """The layers a request passes before the engine's own admission.

    ``started_ns`` is when the server began to listen; "Loading model" counts from
    it. Instants are on one clock.
    """

    def __init__(self, faults: Faults, started_ns: int) -> None:
        self._faults = faults
        self._ready_ns = started_ns + (faults.loading_ns or 0)
        rate_rps = faults.rate_limit_rps
        self._limit = None if rate_rps is None else RateLimit(rate_rps)
        self._seen = 0

    def loading(self, now_ns: int) -> ApiError | None:
        """The refusal of a model that is still loading, in llama.cpp's words."""
        if now_ns >= self._ready_ns:
            return None
        error = {"message": "Loading model", "type": "unavailable_error", "code": 503}
        return ApiError(503, {"error": error})

    def rate_limited(self, now_ns: int) -> ApiError | None:
        """A gateway's refusal; the request counts against the limit."""
        if self._limit is None or (wait_s := self._limit.wait_s(now_ns)) == 0:
            return None
        rate = f"{self._faults.rate_limit_rps:g}"
        error = {
            "message": f"Rate limit exceeded: {rate} requests per second",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        headers = {
            "Retry-After": str(math.ceil(wait_s)),
            "X-RateLimit-Limit": rate,
            "X-RateLimit-Remaining": "0",
        }
        return ApiError(429, {"error": error}, headers)

    def busy(self) -> Refusal | None:
        """Each ``refuse_every``-th request that comes here finds the engine busy."""
        self._seen += 1
        every = self._faults.refuse_every
        hit = every is not None and self._seen % every == 0
        return Refusal.QUEUED_REQS if hit else None
