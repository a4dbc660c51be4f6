"""What is known of a lost request beside its answer, and what that changes.

A gateway's access log and an engine's own log each saw the request from their
side. Where they speak they outweigh what the answer looked like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import msgspec

from loadgen.analysis.answer import quote
from loadgen.model import Accepted, Attribution, Confidence, Layer, Resource

__all__ = ["EngineLine", "Evidence", "GatewayLine", "NotInEngineLog", "refine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLine:
    """What a gateway's access log says of one request.

    Args:
        status: as it answered; None if it never did.
        flags: Envoy's %RESPONSE_FLAGS%; empty for ``-``.
        details: %RESPONSE_CODE_DETAILS%; None where not logged.
        upstream: the host it chose; None where it chose none or none is logged.
    """

    request_id: str
    status: int | None = None
    flags: tuple[str, ...] = ()
    details: str | None = None
    upstream: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLine:
    """What an engine's own log says of one request, all its lines together.

    Args:
        status: in its HTTP server's access line; None without one.
        received: it was read.
        added: the engine took it.
        aborted: it was dropped, as the client left.
        failed: the engine's words where it failed or refused it.
    """

    request_id: str | None = None
    client_port: int | None = None
    status: int | None = None
    received: bool = False
    added: bool = False
    aborted: bool = False
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class NotInEngineLog:
    """The engine's log names other requests of this run, and not this one."""


Evidence = GatewayLine | EngineLine | NotInEngineLog

_Verdict = tuple[Layer, Resource, Accepted]
_NO, _MAYBE, _YES = Accepted.NO, Accepted.UNKNOWN, Accepted.YES

# Envoy's response flags. What it did itself is certain; what it says of the
# server behind (UC, UR, UPE) leaves open whether that had taken the request.
RESPONSE_FLAGS: dict[str, _Verdict] = {
    "UO": (Layer.GATEWAY, Resource.CONCURRENCY, _NO),
    "RL": (Layer.GATEWAY, Resource.RATE_LIMIT_REQUESTS, _NO),
    "UF": (Layer.NETWORK, Resource.CONNECTIONS, _NO),
    "UH": (Layer.NETWORK, Resource.NO_CAPACITY, _NO),
    "NR": (Layer.GATEWAY, Resource.OTHER, _NO),
    "NC": (Layer.GATEWAY, Resource.NO_CAPACITY, _NO),
    "UT": (Layer.NETWORK, Resource.TIMEOUT, _MAYBE),
    "SI": (Layer.NETWORK, Resource.TIMEOUT, _MAYBE),
    "DT": (Layer.GATEWAY, Resource.TIMEOUT, _MAYBE),
    "UMSDR": (Layer.NETWORK, Resource.TIMEOUT, _MAYBE),
    "UC": (Layer.ENGINE_FAILURE, Resource.OTHER, _MAYBE),
    "UR": (Layer.ENGINE_FAILURE, Resource.OTHER, _MAYBE),
    "UPE": (Layer.ENGINE_FAILURE, Resource.OTHER, _YES),
    "LR": (Layer.GATEWAY, Resource.OTHER, _MAYBE),
    "OM": (Layer.GATEWAY, Resource.CONCURRENCY, _NO),
    "DO": (Layer.GATEWAY, Resource.NO_CAPACITY, _NO),
    "RLSE": (Layer.GATEWAY, Resource.OTHER, _NO),
    "UAEX": (Layer.GATEWAY, Resource.OTHER, _NO),
    "FI": (Layer.GATEWAY, Resource.OTHER, _NO),
    "NFCF": (Layer.GATEWAY, Resource.OTHER, _NO),
    "DF": (Layer.NETWORK, Resource.OTHER, _NO),
    "IH": (Layer.CLIENT, Resource.OTHER, _NO),
    "DPE": (Layer.CLIENT, Resource.OTHER, _NO),
    "DC": (Layer.CLIENT, Resource.TIMEOUT, _MAYBE),
    "URX": (Layer.NETWORK, Resource.OTHER, _MAYBE),
}
_ABOUT_UPSTREAM = frozenset({"UC", "UR", "UPE", "URX"})
_OUTSIDE = (Layer.GATEWAY, Layer.NETWORK)
_REFUSED_STATUS = frozenset({429, 503, 529})


def refine(attribution: Attribution, evidence: Evidence) -> Attribution:
    """An attribution after one more piece of evidence.

    Raises its confidence where both agree, moves the layer where the log knows
    better, and leaves it where the log says nothing to the point.
    """
    if isinstance(evidence, GatewayLine):
        return _by_gateway(attribution, evidence)
    if isinstance(evidence, EngineLine):
        return _by_engine(attribution, evidence)
    if isinstance(evidence, NotInEngineLog):
        return _by_absence(attribution)
    assert_never(evidence)


def _by_gateway(attribution: Attribution, line: GatewayLine) -> Attribution:
    flag = _telling(line.flags)
    if flag is None:
        return _passed_on(attribution, line)
    layer, resource, accepted = RESPONSE_FLAGS[flag]
    if layer is Layer.CLIENT and attribution.layer is Layer.CLIENT:
        resource = attribution.limiting_resource
    return _moved(
        attribution,
        (layer, resource, accepted),
        f"gateway log: response flag {','.join(line.flags)}",
        Confidence.MEDIUM if flag in _ABOUT_UPSTREAM else Confidence.HIGH,
    )


def _telling(flags: tuple[str, ...]) -> str | None:
    """The flag that names the cause; used-up retries only say that it came again."""
    known = [flag for flag in flags if flag in RESPONSE_FLAGS]
    causes = [flag for flag in known if flag != "URX"]
    return next(iter(causes or known), None)


def _passed_on(attribution: Attribution, line: GatewayLine) -> Attribution:
    """No flag: what the upstream said was handed through, if one answered."""
    if line.details != "via_upstream" and not (line.details is None and line.upstream):
        return attribution
    told = "gateway log: passed on what its upstream answered"
    if attribution.layer in _OUTSIDE:
        verdict = Layer.UNKNOWN, attribution.limiting_resource, attribution.accepted
        return _moved(attribution, verdict, told, Confidence.LOW)
    if attribution.layer is Layer.UNKNOWN:
        return _with(attribution, told)
    return _with(attribution, told, _raised(attribution.confidence))


def _by_engine(attribution: Attribution, line: EngineLine) -> Attribution:
    accepted = _YES if line.added or line.aborted else attribution.accepted
    known = msgspec.structs.replace(attribution, accepted=accepted)
    if line.failed is not None:
        return _engine_failed(known, line.failed, added=line.added)
    if line.status is not None and line.status >= 400:
        return _engine_answered(known, line.status)
    if line.aborted:
        return _with(known, "engine log: aborted, as the client left")
    if line.added:
        return _with(known, "engine log: it had taken the request")
    if line.received:
        return _with(known, "engine log: it had read the request")
    return known


def _engine_failed(known: Attribution, words: str, *, added: bool) -> Attribution:
    told = f"engine log: failed: {quote(words, 100)}"
    if known.layer in (Layer.ENGINE_ADMISSION, Layer.ENGINE_FAILURE):
        return _with(known, told, Confidence.HIGH)
    layer = Layer.ENGINE_FAILURE if added else Layer.ENGINE_ADMISSION
    verdict = layer, known.limiting_resource, known.accepted
    return _moved(known, verdict, told, Confidence.MEDIUM)


def _engine_answered(known: Attribution, status: int) -> Attribution:
    told = f"engine log: it answered {status} itself"
    if known.layer in (Layer.ENGINE_ADMISSION, Layer.ENGINE_FAILURE):
        return _with(known, told, Confidence.HIGH)
    if known.layer is Layer.GATEWAY and status in (401, 403):
        return _with(known, told, Confidence.HIGH)
    refused = status in _REFUSED_STATUS or status < 500
    layer = Layer.ENGINE_ADMISSION if refused else Layer.ENGINE_FAILURE
    verdict = layer, known.limiting_resource, known.accepted
    return _moved(known, verdict, told, Confidence.MEDIUM)


def _by_absence(attribution: Attribution) -> Attribution:
    """An engine's refusal need not be logged by name, so it proves no layer."""
    if attribution.layer in (Layer.ENGINE_ADMISSION, Layer.ENGINE_FAILURE):
        return attribution
    if attribution.accepted is _YES:
        return attribution
    told = "engine log: names others of this run, never this one"
    return _with(msgspec.structs.replace(attribution, accepted=_NO), told)


def _moved(
    attribution: Attribution,
    verdict: _Verdict,
    told: str,
    confidence: Confidence,
) -> Attribution:
    layer, resource, accepted = verdict
    same = layer is attribution.layer
    if same and resource is Resource.OTHER:
        resource = attribution.limiting_resource
    return Attribution(
        layer=layer,
        limiting_resource=resource,
        accepted=_YES if attribution.accepted is _YES else accepted,
        evidence=(*attribution.evidence, told),
        confidence=confidence,
    )


def _with(
    attribution: Attribution, told: str, confidence: Confidence | None = None
) -> Attribution:
    return msgspec.structs.replace(
        attribution,
        evidence=(*attribution.evidence, told),
        confidence=confidence or attribution.confidence,
    )


def _raised(confidence: Confidence) -> Confidence:
    return Confidence.MEDIUM if confidence is Confidence.LOW else Confidence.HIGH
