"""Which API a server speaks, found out by asking: harmless GETs, nothing generated."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp

from loadgen.control.ask import Answer, Session, ask
from loadgen.errors import TargetError

__all__ = ["find_api"]

LIMIT_S = 5.0


def _has(*keys: str) -> Callable[[Answer], bool]:
    return lambda answer: answer.json_object().keys() >= set(keys)


# A server that also speaks OpenAI's API is spoken to in that: it is tried first.
_OWN: tuple[tuple[str, str, Callable[[Answer], bool]], ...] = (
    ("/api/tags", "ollama", _has("models")),
    ("/get_model_info", "sglang", _has("model_path")),
    ("/props", "llamacpp", _has("default_generation_settings")),
    ("/info", "tgi", _has("model_id")),
)


async def find_api(session: Session) -> str:
    """The name for ``--api``.

    Raises:
        TargetError: nothing there tells, or the server does not answer.
    """
    try:
        models = await ask(session, "/v1/models", limit_s=LIMIT_S)
        if models.status == 200 and _has("data")(models):
            return await _openai_like(session, models)
        for path, api, is_it in _OWN:
            answer = await ask(session, path, limit_s=LIMIT_S)
            if answer.status == 200 and is_it(answer):
                return api
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise TargetError(
            f"cannot ask the server which API it speaks: {session.said(error)!r}",
            "is it up? else name the API by --api",
        ) from None
    if models.status in (401, 403):
        raise TargetError(
            f"the server does not let us in (GET /v1/models: {models.status})",
            "give the key by --api-key-env NAME or --api-key-file FILE",
        )
    raise TargetError(
        "cannot tell which API the server speaks", "name it by --api; see --help"
    )


async def _openai_like(session: Session, models: Answer) -> str:
    """OpenAI's API or Anthropic's, whose lists of models differ in their entries."""
    data = models.json_object()["data"]
    listed = data if isinstance(data, list) else []
    entries = [entry for entry in listed if isinstance(entry, dict)]
    if entries and all(
        entry.get("type") == "model" and "object" not in entry for entry in entries
    ):
        return "anthropic"
    chat = await ask(session, "/v1/chat/completions", limit_s=LIMIT_S)
    if chat.status == 404:
        text = await ask(session, "/v1/completions", limit_s=LIMIT_S)
        if text.status != 404:
            return "openai-completions"
    return "openai-chat"
