"""What is asked of a server before t0, and when that is reason not to start."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from loadgen.control.ask import Answer, Session, ask
from loadgen.control.target import Target
from loadgen.errors import TargetError

__all__ = ["Found", "connectable_address", "look_at", "look_behind"]

CONNECT_LIMIT_S = 5.0
MAX_NAME_CHARS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the server told of itself; None and empty mean it did not say."""

    models: tuple[str, ...] = ()
    max_model_len: int | None = None
    version: str | None = None
    server_header: str | None = None
    stand_in: bool = False
    notes: tuple[str, ...] = field(default=())

    def as_manifest(self, target: Target) -> dict[str, Any]:
        return {
            "url": target.url,
            "models": list(self.models),
            "max_model_len": self.max_model_len,
            "version": self.version,
            "server_header": self.server_header,
            "notes": list(self.notes),
        }


async def connectable_address(target: Target) -> tuple[str, int, int]:
    """Resolve the host and find the first of its addresses that accepts.

    Returns:
        ``(address, port, family)``: what the issuer connects to, so that no
        name is looked up during the run.

    Raises:
        TargetError: the name is unknown or no address accepts a connection.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            target.host, target.port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise TargetError(
            f"cannot resolve {target.host!r}: {error}", "check the host in --url"
        ) from None
    why = "no address"
    for family, _, _, _, address in found:
        host, port = str(address[0]), int(address[1])
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S):
                _, writer = await asyncio.open_connection(host, port, family=family)
        except TimeoutError:
            why = f"no answer within {CONNECT_LIMIT_S:g} s"
            continue
        except OSError as error:
            why = error.strerror or str(error)
            continue
        writer.close()
        return host, port, int(family)
    raise TargetError(
        f"cannot connect to {target.authority}: {why}",
        "is the server up, and is this its port?",
    )


async def look_at(session: Session, model: str | None) -> Found:
    """Ask for models and version, and refuse to start where a run is pointless.

    Args:
        session: rooted at the server, with the run's own headers.
        model: the model asked for; None takes the only one the server lists.

    Raises:
        TargetError: no HTTP, TLS failure, not let in, not ready, an HTML page
            where an API should be, or a model the server does not list.
    """
    answer = await _first_answer(session)
    models, notes = _models_in(answer), []
    _refuse_unready(answer)
    if not models:
        notes.append(f"GET /v1/models: {answer.status}, no model listed")
    if model is None and len(models) != 1:
        listed = ", ".join(models[:5]) or "none"
        raise TargetError(f"the server lists {listed}", "name one by --model")
    if model is not None and models and model not in models:
        raise TargetError(
            f"the server does not list the model {model!r} but {', '.join(models[:5])}",
            "--no-preflight offers all the same",
        )
    return Found(
        models=models,
        max_model_len=_max_model_len(answer, model or models[0]),
        version=await _version(session),
        server_header=answer.headers.get("server"),
        stand_in="stand-in" in answer.headers.get("server", ""),
        notes=tuple(notes),
    )


async def look_behind(session: Session, engine: Target, found: Found) -> Found:
    """Ask the engine behind a gateway directly, and add what it says.

    An engine that does not answer is no reason to stop: it is noted.
    """
    try:
        health = await ask(session, "/health", limit_s=3.0)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        note = f"the engine at {engine.url} does not answer: {session.said(error)}"
        return replace(found, notes=(*found.notes, note))
    version = await _version(session)
    note = f"the engine at {engine.url} answers GET /health with {health.status}"
    return replace(found, version=version or found.version, notes=(*found.notes, note))


async def _first_answer(session: Session) -> Answer:
    try:
        return await ask(session, "/v1/models")
    except aiohttp.ClientConnectorCertificateError as error:
        raise TargetError(
            f"the server's certificate is not trusted: {error.certificate_error}",
            "give --ca-file, or --insecure to go on without verification",
        ) from None
    except aiohttp.ClientSSLError as error:
        raise TargetError(
            f"TLS with the server failed: {error}", "is it https there?"
        ) from None
    except TimeoutError:
        raise TargetError(
            "the server does not answer GET /v1/models within 10 s",
            "--no-preflight offers all the same",
        ) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise TargetError(
            f"no HTTP answer to GET /v1/models: {session.said(error)!r}",
            "is this an HTTP server, or https?",
        ) from None


def _refuse_unready(answer: Answer) -> None:
    if answer.status in (401, 403):
        raise TargetError(
            f"the server does not let us in (GET /v1/models: {answer.status})",
            "give the key by --api-key-env NAME or --api-key-file FILE",
        )
    if answer.status >= 500:
        raise TargetError(
            f"the server is not ready (GET /v1/models: {answer.status} "
            f"{_message_in(answer)!r})",
            "wait until it is, or --no-preflight to offer all the same",
        )
    if _is_html(answer):
        raise TargetError(
            f"GET /v1/models answers an HTML page ({answer.status}): no LLM API there",
            "check host and port; --no-preflight offers all the same",
        )


def _models_in(answer: Answer) -> tuple[str, ...]:
    """What it lists; a name that no model would have is passed over."""
    if answer.status != 200:
        return ()
    names = (entry.get("id") for entry in _entries(answer))
    return tuple(
        name for name in names if isinstance(name, str) and len(name) <= MAX_NAME_CHARS
    )


def _entries(answer: Answer) -> list[dict[str, Any]]:
    data = answer.json_object().get("data")
    entries = data if isinstance(data, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _max_model_len(answer: Answer, model: str) -> int | None:
    for entry in _entries(answer):
        if entry.get("id") == model:
            length = entry.get("max_model_len")
            return length if type(length) is int else None
    return None


def _is_html(answer: Answer) -> bool:
    return answer.body.lstrip()[:15].lower().startswith((b"<!doctype", b"<html"))


def _message_in(answer: Answer) -> str:
    error = answer.json_object().get("error")
    message = error.get("message") if isinstance(error, dict) else None
    text = (
        message if isinstance(message, str) else answer.body.decode("utf-8", "replace")
    )
    return text[:120]


async def _version(session: Session) -> str | None:
    try:
        answer = await ask(session, "/version", limit_s=3.0)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None
    version = answer.json_object().get("version") if answer.status == 200 else None
    return version[:MAX_NAME_CHARS] if isinstance(version, str) else None
